"""The commands of ``stream-can`` and their functions."""

from __future__ import annotations

from cyclopts import App

from stream_can.cli.export import export_command
from stream_can.cli.inspection import inspect_command
from stream_can.cli.pipe import pipe_command
from stream_can.cli.replay import replay_command
from stream_can.cli.sample import sample_command
from stream_can.version import __version__

app = App(
    name="stream-can",
    help="Correct the probabilities of a deployed classifier and learn from its late labels.",
    version=__version__,
)
app.command(sample_command, name="sample")
app.command(replay_command, name="replay")
app.command(pipe_command, name="pipe")
app.command(inspect_command, name="inspect")
app.command(export_command, name="export")
# Imported when called: scikit-learn and kafka-python are optional, and slow to import.
app.command(
    "stream_can.cli.kafka:run",
    name="run",
    help="Read predictions from a Kafka topic and write corrected ones to another, exactly once.",
)
app.command(
    "stream_can.cli.kafka:learn",
    name="learn",
    help="Learn for all workers (run) of an application, from what they sent and the labels.",
)
app.command(
    "stream_can.cli.kafka:backfill",
    name="backfill",
    help="Learn from the records in Kafka topics before a deployment starts, and judge the gain.",
)
app.command(
    "stream_can.cli.serve:serve_command",
    name="serve",
    help="Serve HTTP: correct predictions, learn labels by id, keep the state in one file.",
)
app.command(
    "stream_can.cli.label:label",
    name="label",
    help="Serve a page on 127.0.0.1 where people give the labels that a worker asks for.",
)

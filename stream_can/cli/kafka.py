"""Commands between Kafka topics; every setting is an option."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from stream_can import kafka
from stream_can.app.logs import set_up_logging
from stream_can.app.settings import SettingsError
from stream_can.cli.options import typed_options
from stream_can.errors import StreamCANError
from stream_can.kafka.backfill import backfill as replay_topic
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.stored import newest_state
from stream_can.learner import saved
from stream_can.learner.model_name import ONLY
from stream_can.replay.verdict import judge_changes
from stream_can.snapshot import save

TypedOptions: Any = typed_options(kafka.options(), __name__)
NOTHING = TypedOptions()
Config = Annotated[Path | None, Parameter(help="TOML file of settings")]
TypedSettings = Annotated[TypedOptions, Parameter(name="*")]


def run(config: Config = None, *, typed: TypedSettings = NOTHING) -> int:
    """Read predictions from a Kafka topic and write corrected ones to another, exactly once.

    Each option is also a key of the TOML file and an environment variable (STREAM_CAN_ and its name
    in capitals). An option overrides the variable, and the variable the file.
    """
    try:
        settings = kafka.load(config, vars(typed), os.environ)
    except kafka.SettingsError as error:
        print(f"stream-can run: {error}", file=sys.stderr)
        return 2
    return kafka.run(settings)


def learn(
    config: Config = None,
    *,
    reset: Annotated[
        bool,
        Parameter(
            help="forget everything learned, and begin at the ends of the topics", negative=""
        ),
    ] = False,
    typed: TypedSettings = NOTHING,
) -> int:
    """Learn for all workers of an application, and correct nothing.

    Takes the settings of `run`, from the same places. Of all processes that may learn, one does;
    the others stand by.
    """
    try:
        settings = kafka.load(config, vars(typed), os.environ)
    except kafka.SettingsError as error:
        print(f"stream-can learn: {error}", file=sys.stderr)
        return 2
    return kafka.run(settings, corrects=False, reset=reset)


def backfill(
    config: Config = None,
    *,
    snapshot: Annotated[Path | None, Parameter(help="file to save the corrector in")] = None,
    start_group: Annotated[
        bool,
        Parameter(
            help="write the first state of the application, so that run goes on where this ended",
            negative="",
        ),
    ] = False,
    typed: TypedSettings = NOTHING,
) -> int:
    """Learn from the records in the topics before a deployment starts, and judge the gain.

    Prints a verdict, counts, and accuracy and log loss before and after, as JSON. Then start the
    deployment with --classes-from-file SNAPSHOT, or write its first state with --start-group.
    """
    if snapshot is None and not start_group:
        raise SettingsError(
            "nothing would keep what was learned: give --snapshot FILE or --start-group"
        )
    settings = kafka.load(config, vars(typed), os.environ)
    if snapshot is not None and settings.has_lanes:
        raise SettingsError(
            "--snapshot: each model and version has a corrector of its own; --start-group begins"
            " the application with all of them"
        )
    set_up_logging(settings.log_format, settings.log_level, settings.secrets)
    backfilled = replay_topic(settings, start_group=start_group)
    if snapshot is not None:
        save(backfilled.corrector.to_bytes(), snapshot)
    summary = backfilled.to_dict()
    verdict = judge_changes(backfilled.changes, summary["scored"], backfilled.commonest)
    print(json.dumps({"verdict": verdict, **summary}, indent=1))
    return 0


def newest_states(
    topic: str | None, bootstrap_servers: str | None, config: Path | None
) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The correctors of the newest state in a topic, named by options or by the settings of
    ``run``; and further details."""
    overrides = {"bootstrap_servers": bootstrap_servers}
    options: dict[str, Any] = {}
    if config is not None:
        settings = kafka.load(config, overrides, os.environ)
        servers, options = settings.bootstrap_servers, dict(settings.client)
        topic = topic or settings.state_topic
    else:
        text = bootstrap_servers or os.environ.get("STREAM_CAN_BOOTSTRAP_SERVERS", "")
        servers = [server.strip() for server in text.split(",") if server.strip()]
    if topic is None or not servers:
        raise SettingsError(
            "no topic or no brokers: give --topic TOPIC --bootstrap-servers HOST:PORT, or --config"
        )
    readers = Readers(Options(servers, options))
    try:
        stored_state = newest_state(readers, topic)
    finally:
        readers.close()
    if stored_state is None:
        raise StreamCANError(f"{topic}: no state has been written yet")
    details = {
        "state": stored_state.number,
        "written": datetime.fromtimestamp(stored_state.index.time, UTC).isoformat(" ", "seconds"),
        "inputs": stored_state.index.inputs,
        "sent": stored_state.memory.sent,
        "labels": stored_state.memory.labels,
    }
    correctors = stored_state.lanes or {ONLY: stored_state.begins[None]}
    return {
        " ".join(filter(None, name)): (saved.corrector(data), details)
        for name, data in correctors.items()
    }

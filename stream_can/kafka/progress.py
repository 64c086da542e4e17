"""How far a worker is, for whoever looks on from a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import ClientError
from stream_can.scores import Scores
from stream_can.stream.task import Task

EVERY_SECONDS = 2.0


class Progress:
    """One line on a terminal every few seconds; nothing where standard error is a file."""

    def __init__(self) -> None:
        self._shown = self._begin = time.monotonic()
        self._before = 0
        self._terminal = sys.stderr.isatty()

    def show(self, records: int, tasks: Mapping[int, Task], client: Client) -> None:
        """Show the line, with the records committed by this process, if it is time to."""
        now = time.monotonic()
        if not self._terminal or now - self._shown < EVERY_SECONDS:
            return
        rate = (records - self._before) / (now - self._shown)
        self._shown, self._before = now, records
        try:
            lag: object = sum(client.member.lag((client.input, p) for p in tasks).values())
        except ClientError:  # a line of text is not worth a restart
            lag = "?"
        line = f"{records} records, {rate:.0f}/s, lag {lag}"
        if dead := sum(task.counts.dead_letters for task in tasks.values()):
            line += f", {dead} dead letters"
        before = sum((task.raw_scores for task in tasks.values()), Scores())
        after = sum((task.sent_scores for task in tasks.values()), Scores())
        if before.n:
            line += f", accuracy {before.accuracy:.1%} -> {after.accuracy:.1%}"
            line += f" over {before.n} labels"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the line and go to the next."""
        if self._terminal:
            sys.stderr.write("\n")

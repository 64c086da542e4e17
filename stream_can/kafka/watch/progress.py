"""What a running worker shows: log lines for people or machines, and progress on a terminal."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stream_can.stream.task import Task

if TYPE_CHECKING:
    from stream_can.kafka.client.member import Client

EVERY_SECONDS = 2.0


class JsonLines(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message and, where there is one, error."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_logging(form: str, level: str) -> None:
    """Log to standard error. kafka-python tells every reconnect; its errors alone are shown."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else text)
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("kafka").setLevel(logging.DEBUG if level == "DEBUG" else logging.CRITICAL)
    logging.captureWarnings(True)


class Progress:
    """One line on a terminal every few seconds; nothing where standard error is a file."""

    def __init__(self) -> None:
        self.records = 0
        """Committed by this process."""
        self._shown = self._begin = time.monotonic()
        self._before = 0
        self._terminal = sys.stderr.isatty()

    def show(self, tasks: Mapping[int, Task], client: Client) -> None:
        """Show the line if it is time to."""
        now = time.monotonic()
        if not self._terminal or now - self._shown < EVERY_SECONDS:
            return
        rate = (self.records - self._before) / (now - self._shown)
        self._shown, self._before = now, self.records
        try:
            lag: object = sum(client.lag((client.input, p) for p in tasks).values())
        except Exception:  # a line of text is not worth a restart
            lag = "?"
        line = f"{self.records} records, {rate:.0f}/s, lag {lag}"
        if dead := sum(task.counts.dead_letters for task in tasks.values()):
            line += f", {dead} dead letters"
        n = sum(task.raw_scores.n for task in tasks.values())
        if n:
            before, after = (
                sum(scores.accuracy * scores.n for scores in side if scores.n) / n
                for side in (
                    [task.raw_scores for task in tasks.values()],
                    [task.sent_scores for task in tasks.values()],
                )
            )
            line += f", accuracy {before:.1%} -> {after:.1%} over {n} labels"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the line and go to the next."""
        if self._terminal:
            sys.stderr.write("\n")

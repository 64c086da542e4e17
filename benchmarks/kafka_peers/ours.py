"""stream_can's own worker, and the same worker with each record sent on as it came.

    python ours.py KIND SERVERS INPUT OUTPUT APPLICATION M RECORDS COMMIT_MS

KIND is ``corrector`` (as ``stream-can run`` runs it, with ``learn = false``) or ``pass-through``
(the same loop and transaction, without reading messages and without what the learner gets).
RECORDS 0 is until SIGTERM. What the worker corrects by is written before by a learner.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

from meter import Meter

from stream_can.kafka import Settings, Worker
from stream_can.kafka.correcting_role import CorrectingRole
from stream_can.kafka.corrections import VERSION_HEADER, Corrections
from stream_can.kafka.record_corrector import RecordCorrector
from stream_can.messages.records import Output, headers_of


class PassThrough(RecordCorrector):
    """Sends each record on as it came, with a header."""

    def correct_records(self, records: Sequence[Any], state: object) -> Corrections:
        return Corrections(
            [
                Output(one.key, one.value, [*headers_of(one), VERSION_HEADER], one.timestamp, one)
                for one in records
            ]
        )


class Metered(CorrectingRole):
    """Stops its worker after so many records."""

    worker: Worker
    meter, enough, passes = Meter(), 0, False

    def check(self) -> None:
        super().check()
        if self.passes:
            self.handler.corrector.__class__ = PassThrough

    def _handle(self, partition: int, records: Sequence[Any], state: Any) -> None:
        self.meter.begin()
        super()._handle(partition, records, state)

    def commit(self) -> None:
        super().commit()
        if self.enough and self.committed >= self.enough:
            self.meter.end(self.committed)
            self.enough = 0
            self.worker.stop()


def write_state(settings: Settings) -> None:
    """Let a learner begin, which writes the first state; then end it."""
    worker = Worker(settings, corrects=False)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    assert worker.learns is not None
    while worker.learns.learning is None:
        time.sleep(0.02)
    worker.stop()
    thread.join()


def main() -> None:
    kind, servers, source, target, application, m, records, interval = sys.argv[1:]
    settings = Settings(
        bootstrap_servers=[servers], application_id=application, input=source, output=target,
        instance="0", classes=list(range(int(m))), commit_interval_ms=int(interval),
        learn=False, create_topics=True, backlog="lagging",
    )  # fmt: skip
    worker = Worker(settings)
    work: Any = worker.work
    work.check()
    write_state(settings)
    work.__class__ = Metered
    work.worker, work.enough, work.passes = worker, int(records), kind == "pass-through"
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    path = os.environ.get("PROFILE")  # of the worker's thread; the sender has its own
    if path is None:
        worker.run()
        return
    profile = cProfile.Profile()
    profile.runcall(worker.run)
    pstats.Stats(profile).dump_stats(path)


main()

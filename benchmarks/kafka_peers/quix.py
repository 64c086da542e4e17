"""The same job as an app of Quix Streams, exactly once.

    python quix.py SERVERS INPUT OUTPUT APPLICATION M RECORDS COMMIT_MS

One Corrector per partition in memory: what it has learned is not kept through a restart, which
stream_can's worker does with every commit. (Quix Streams would keep it as one value of its state
store, written with every message.)
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from meter import Meter
from quixstreams import Application, message_context

from stream_can import Corrector

meter = Meter()


def main() -> None:
    servers, source, target, application, m, records, interval = sys.argv[1:]
    correctors: dict[int, Corrector] = {}

    def correct(message: dict[str, Any]) -> dict[str, Any]:
        meter.begin()
        partition = message_context().partition
        if partition not in correctors:
            correctors[partition] = Corrector(int(m))
        raw = message["probs"]
        message["probs"] = correctors[partition].process_one(raw).tolist()
        message["probs_raw"] = raw
        return message

    with tempfile.TemporaryDirectory() as state:
        app = Application(
            broker_address=servers, consumer_group=application, auto_offset_reset="earliest",
            processing_guarantee="exactly-once", commit_interval=int(interval) / 1000,
            loglevel="ERROR", state_dir=state,
        )  # fmt: skip
        stream = app.dataframe(app.topic(source)).apply(correct)
        stream.to_topic(app.topic(target))
        app.run(count=int(records))
    if int(records):
        meter.end(int(records))


main()

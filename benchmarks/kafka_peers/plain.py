"""The same job as the loop one writes first with kafka-python: no guarantee, state in memory.

    python plain.py SERVERS INPUT OUTPUT APPLICATION M RECORDS COMMIT_MS

Offsets are committed by the client, sent or not.
"""

from __future__ import annotations

import sys
import warnings

import msgspec

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
from meter import Meter

from stream_can import Corrector

meter = Meter()


def main() -> None:
    servers, source, target, application, m, records, interval = sys.argv[1:]
    correctors: dict[int, Corrector] = {}
    consumer = KafkaConsumer(
        source, bootstrap_servers=servers, group_id=application, auto_offset_reset="earliest",
        auto_commit_interval_ms=int(interval),
    )  # fmt: skip
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    for n, record in enumerate(consumer, 1):
        meter.begin()
        if record.partition not in correctors:
            correctors[record.partition] = Corrector(int(m))
        message = msgspec.json.decode(record.value)
        raw = message["probs"]
        message["probs"] = correctors[record.partition].process_one(raw).tolist()
        message["probs_raw"] = raw
        producer.send(
            target, msgspec.json.encode(message), record.key, record.headers,
            partition=record.partition, timestamp_ms=record.timestamp,
        )  # fmt: skip
        if n == int(records):
            break
    producer.flush()
    consumer.commit()
    meter.end(int(records))


main()

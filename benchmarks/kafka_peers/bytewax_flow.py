"""The same job as a dataflow of bytewax, at least once: a Corrector per partition as its state.

    python bytewax_flow.py SERVERS INPUT OUTPUT APPLICATION M RECORDS COMMIT_MS

Its recovery store (SQLite) keeps state and offsets, every COMMIT_MS.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import tempfile
from typing import Any

import bytewax.operators as op
import msgspec
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig
from bytewax.run import cli_main
from confluent_kafka import OFFSET_BEGINNING
from meter import Meter

from stream_can import Corrector

meter = Meter()


def main() -> None:
    servers, source, target, _, m, records, interval = sys.argv[1:]

    def correct(corrector: Corrector | None, message: Any) -> tuple[Corrector, Any]:
        meter.begin()
        corrector = corrector or Corrector(int(m))
        value = msgspec.json.decode(message.value)
        raw = value["probs"]
        value["probs"] = corrector.process_one(raw).tolist()
        value["probs_raw"] = raw
        return corrector, KafkaSinkMessage(
            message.key, msgspec.json.encode(value), headers=message.headers,
            partition=message.partition, timestamp=message.timestamp[1],
        )  # fmt: skip

    def by_partition(message: KafkaSourceMessage) -> str:
        return str(message.partition)

    flow = Dataflow("benchmark")
    found = kop.input(
        "input", flow, brokers=[servers], topics=[source], tail=not int(records),
        starting_offset=OFFSET_BEGINNING,
    )  # fmt: skip
    keyed = op.key_on("partition", found.oks, by_partition)
    corrected = op.map("sink", op.stateful_map("correct", keyed, correct), lambda pair: pair[1])
    kop.output("output", corrected, brokers=[servers], topic=target)
    with tempfile.TemporaryDirectory() as store:
        subprocess.run([sys.executable, "-m", "bytewax.recovery", store, "1"], check=True)
        cli_main(
            flow,
            epoch_interval=datetime.timedelta(milliseconds=int(interval)),
            recovery_config=RecoveryConfig(store),
        )  # fmt: skip
    if int(records):
        meter.end(int(records))


main()

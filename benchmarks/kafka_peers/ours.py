"""stream_can's own worker, and the same worker with parts of it taken out.

    python ours.py KIND SERVERS INPUT OUTPUT APPLICATION M RECORDS COMMIT_MS [LABELS]

KIND is ``corrector`` (as ``stream-can run`` runs it), ``uncorrected`` (the same, but each row goes
out as it came), ``without-json`` (the same, but messages are not read: rows come from memory, and
values are made longer by as much), ``pass-through`` (the same worker, transaction and state, each
message sent on as it came), ``pass-through-one-by-one`` (that one with every record sent and
unpacked by kafka-python itself) or ``at-least-once`` (the corrector without the transaction: sent,
acknowledged, then the offsets). RECORDS 0 is until SIGTERM.
"""

from __future__ import annotations

import cProfile
import itertools
import os
import pstats
import signal
import sys
import warnings
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

import numpy as np
from meter import Meter
from msgspec import Raw

from stream_can.kafka import Settings, Worker
from stream_can.kafka.client import unpacking
from stream_can.kafka.client.member import Member
from stream_can.kafka.client.transaction import Transaction
from stream_can.kafka.partitions import Partitions
from stream_can.messages.messages import Messages, Prediction
from stream_can.messages.records import Output, Result
from stream_can.stream.lane import VERSION_HEADER, Lane
from stream_can.stream.task import Task


class Identity(Task):
    """Codec and correction replaced by identity; headers, positions and snapshots as ever."""

    def handle(self, records: Iterable[Any]) -> Result:
        added, outputs = [VERSION_HEADER], []
        for record in records:
            headers = [*record.headers, *added]
            outputs.append(Output(record.key, record.value, headers, record.timestamp))
            self.next_prediction = record.offset + 1
        self.counts.predictions += len(outputs)
        return Result(outputs, [], [], None)


class Uncorrected(Lane):
    """Corrected rows replaced by those that came."""

    def run(self, next_prediction: int) -> tuple[list[Output], int]:
        batch = self._batch
        predictions = [prediction for prediction, _, _ in batch.predictions]
        values = self.messages.write_all(predictions, batch._predicted())
        for (_, output, _), value in zip(batch.predictions, values, strict=True):
            output.value = value
        return [], 0


class WithoutJson(Messages):
    """Reads and writes no JSON; for a stream without labels."""

    def __init__(self, m: int) -> None:
        super().__init__(range(m))
        rows = np.random.default_rng(m).dirichlet(np.full(m, 0.3), 1000)
        self._rows = itertools.cycle([array("d", row) for row in rows.tolist()])
        self._longer = b" " * (24 * m)  # as a second row would

    def read(self, value: bytes, headers: object = ()) -> Prediction:
        return Prediction(next(self._rows), value, Raw(), None)

    def write_all(self, predictions: Sequence[Prediction], rows: object) -> list[bytes]:
        return [prediction.message + self._longer for prediction in predictions]


class WithoutTransaction(Transaction):
    """An idempotent producer instead of a transactional one; offsets are committed afterwards."""

    member: Member

    def _open_producer(self) -> None:
        options = self._options.producer
        options.pop("transaction_timeout_ms")
        self._producer = KafkaProducer(**options, allow_auto_create_topics=False)
        self._producer.begin_transaction = lambda: None

    def commit(self, offsets: Any, token: Any) -> None:
        consumer = self.member._consumer
        self._producer.send_offsets_to_transaction = lambda where, _: consumer.commit(where)
        self._producer.commit_transaction = lambda: None
        super().commit(offsets, token)

    def abort(self) -> None:
        self._sent, self._begun = [], None


class OneByOne(Transaction):
    """Records sent one by one; see also where `unpacking` is left out."""

    def send_all(self, topic: str, partition: int, outputs: Any) -> None:
        for out in outputs:
            self.send(topic, partition, out.key, out.value, out.headers, out.timestamp)


class Metered(Partitions):
    """Stops its worker after so many records."""

    worker: Worker
    meter, enough = Meter(), 0

    def handle(self, partition: int, records: list[Any]) -> None:
        self.meter.begin()
        super().handle(partition, records)

    def commit(self, last: bool = False) -> None:
        super().commit(last)
        if self.enough and self.committed >= self.enough:
            self.meter.end(self.committed)
            self.worker.stop()


def main() -> None:
    kind, servers, source, target, application, m, records, interval, *labels = sys.argv[1:]
    settings = Settings(
        bootstrap_servers=[servers], application_id=application, input=source, output=target,
        labels=labels[0] if labels else None,
        instance="0", classes=list(range(int(m))), commit_interval_ms=int(interval),
        create_topics=True,
    )  # fmt: skip
    worker = Worker(settings)
    worker._partitions.__class__ = Metered
    worker._partitions.worker, worker._partitions.enough = worker, int(records)  # type: ignore[attr-defined]
    if kind.startswith("pass-through"):
        worker.start.fresh = lambda replica, prediction, label: Identity(  # type: ignore[method-assign]
            replica, next_prediction=prediction, next_label=label
        )
    if kind in ("uncorrected", "without-json"):
        fresh = worker.start.fresh

        def without(replica: Any, prediction: int, label: int) -> Task:
            task = fresh(replica, prediction, label)
            if kind == "uncorrected":
                task.lane.__class__ = Uncorrected
            else:
                task.lane.messages = WithoutJson(int(m))  # type: ignore[assignment]
            return task

        worker.start.fresh = without  # type: ignore[method-assign]
    if kind == "pass-through-one-by-one":
        worker.client.transaction.__class__ = OneByOne
        unpacking.install = lambda consumer, **_: None  # type: ignore[assignment]
    elif kind == "at-least-once":
        worker.client.transaction.__class__ = WithoutTransaction
        worker.client.transaction.member = worker.client.member  # type: ignore[attr-defined]
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    path = os.environ.get("PROFILE")  # of the worker's thread; the sender has its own
    if path is None:
        worker.run()
        return
    profile = cProfile.Profile()
    profile.runcall(worker.run)
    pstats.Stats(profile).dump_stats(path)


main()

"""The first label of an id counts, across restarts and between workers, by models too."""

from __future__ import annotations

import random

from stream_can.kafka import Worker
from tests.kafka.broker.broker import Broker
from tests.kafka.fleet import FIELDS, prediction
from tests.kafka.streams import STAMP, App, label, run_once
from tests.kafka.streams import prediction as plain
from tests.kafka.topics import produce


def test_across_restarts(broker: Broker) -> None:
    """Each of three workers, one after the other, gets all labels again; those of the last twenty
    predictions are new to it."""
    app = App(broker.bootstrap_servers, partitions=2)
    truths: list[tuple[bytes, str]] = []
    for step in range(3):
        predictions, labels = [], []
        for i in range(20 * step, 20 * step + 20):
            key, value, truth = plain(random.Random(i), i)
            truths.append((key, truth))
            predictions.append((app.given["input"], i % 2, key, value, [], STAMP + 1000 * i))
        for i, (key, truth) in enumerate(truths):
            stamp = STAMP + 1000 * (20 * step + 20) + i
            labels.append((app.given["labels"], i % 2, key, label(truth), [], stamp))
        produce(app.servers, predictions, labels)
        worker = run_once(app, learned=20 * step + 20)
        counts = [task.counts for task in worker.tasks.values()]
        assert sum(one.matched for one in counts) == 20 * step + 20
        assert sum(one.repeated for one in counts) == (0, 20, 60)[step]
        assert sum(one.unmatched for one in counts) == 0
    app.verify()


def labels_of(worker: Worker) -> list[int]:
    """How many each lane has learned."""
    lanes = worker.learned_log.replicas[0].lanes
    return [lanes[name].corrector.n_labels for name in sorted(lanes)]


def test_of_models(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, **FIELDS)
    names = [("a", "1"), ("a", "2")]
    predictions, labels = [], []
    for i in range(10):
        for at, name in enumerate(names):
            key, value, truth = prediction(random.Random(i), i, *name)
            predictions.append((app.given["input"], 0, key, value, [], STAMP + 10 * i + at))
        labels.append((app.given["labels"], 0, key, label(truth), [], STAMP + 1000 + i))
    produce(app.servers, predictions, labels)
    worker = run_once(app)
    assert [task.counts.repeated for task in worker.tasks.values()] == [0]
    before = labels_of(worker)
    again = [(topic, p, key, value, [], stamp + 1000) for topic, p, key, value, _, stamp in labels]
    produce(app.servers, again)
    worker = run_once(app)
    ((_, task),) = worker.tasks.items()
    assert (task.counts.matched, task.counts.repeated, task.counts.unmatched) == (10, 10, 0)
    assert labels_of(worker) == before

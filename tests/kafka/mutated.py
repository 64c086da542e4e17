"""A learner between topics that hold anything: it goes on, and so does the next one.

    python -m tests.kafka.mutated --count 100000 --seed 7

Sent batches and labels with something wrong, a good checksum and the application's mark, as anybody
may write them who may write there. A process of its own, with bounded memory.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import resource
from collections import Counter
from typing import Any

import msgspec
import numpy as np

from stream_can import Corrector, snapshot
from stream_can.app.metrics import Metrics
from stream_can.kafka import load
from stream_can.kafka.batch_reader import BatchReader
from stream_can.kafka.headers import MARK_HEADER
from stream_can.kafka.sent_record import SentRecord
from stream_can.kafka.start import start_of
from stream_can.kafka.state import read_index, read_memory
from stream_can.kafka.stored import StoredState
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner.sent import SentBatch, SentVersion
from stream_can.messages.records import Record
from stream_can.multilabel import MultiLabelCorrector
from tests.mutations import MUTATIONS, VALUES, opened

NAMES = ["a", "b", "c"]
COMMON = {
    "application_id": "x", "bootstrap_servers": ["127.0.0.1:1"], "input": "in", "output": "out",
    "labels": "labels", "label_wait": 90.0, "recent_mb": 0.1,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "one": {"classes": NAMES},
    "sets": {"classes": NAMES, "sets": 0.9},
    "columns": {"classes": NAMES, "segments": ["place"]},
    "models": {"classes": NAMES, "model": "m", "version": "v", "max_lanes": 3},
    "several": {"classes": NAMES, "rows": "multilabel"},
    "ask": {"classes": NAMES, "ask": 0.3},
}
NOW = 1_700_000_000.0
ODD = [1.5, True, ("a",), "é" * 600, b"x" * 2000, -(2**63), 2**64 - 1, None, b"", {"a": 1}]
WORDS = [b'{"label": "a"}', b'{"label": "b", "id": 3}', b'{"label": null}', b"{", b"", b"[]"]
WORDS += [b'{"label": "z"}', b'{"labels": ["a"]}', b'{"labels": {"a": true, "b": 3}}', b"\xff\xfe"]
WORDS += [
    b'{"label": "a", "probs_raw": [0.2, 0.3, 0.5]}',
    b'{"label": "a", "probs_raw": [9, 9, 9]}',
]
WORDS += [b'{"label": "c", "m": "one", "v": "2"}', b'{"label": 1}', b'{"label": 1e999}']


def batch(rng: random.Random, kind: str, number: int, settings: dict[str, Any]) -> SentBatch:
    """One as a worker sends it."""
    n = rng.randrange(1, 6)
    draws = np.random.default_rng(rng.randrange(1 << 30))
    P = draws.dirichlet(np.ones(3), n)
    columns: dict[str, list[str | None]] = {}
    if kind == "several":
        P = draws.random((n, 3))
        sent, receipts = MultiLabelCorrector(NAMES).correct_many(P, receipt=True)
    else:
        corrector = Corrector(
            NAMES, **{k: settings[k] for k in ("sets", "segments") if k in settings}
        )
        if kind == "columns":
            columns = {"place": [rng.choice(["x", "y", None]) for _ in range(n)]}
        sent, receipts = corrector.correct_many(P, receipt=True, segments=columns or None)
    rows = np.hstack([P.view(np.float32), sent.view(np.float32), receipts])
    names = [("one", "1"), ("one", "2"), ("two", None)] if kind == "models" else [(None, None)]
    lane = rng.choice(names)
    ids: list[Any] = [b"%d" % rng.randrange(200) for _ in range(n)]
    times = NOW + 3 * number + draws.normal(size=n)
    return SentBatch(
        ids, number + np.arange(n), times, [SentVersion(lane, tuple(NAMES), rows)],
        np.zeros(n, np.int32), columns,
    )  # fmt: skip


def odd(data: bytes, rng: random.Random) -> bytes:
    """Ids, classes, models or texts are of the wrong sort."""
    content = opened(data)
    head = content["head"]
    what = rng.choice(["ids", "ids", "classes", "lane", "texts"])
    if what == "ids":
        head["ids"][rng.randrange(len(head["ids"]))] = rng.choice(ODD)
    elif what == "classes":
        head["lanes"][0][1][rng.randrange(3)] = rng.choice([*ODD, *VALUES])
    elif what == "lane":
        head["lanes"][0][0] = [rng.choice(["one", None, "x" * 5000, 7]), rng.choice(["1", None])]
    else:
        head["texts"] = {rng.choice(["place", "other"]): rng.choice([["x"], [], [None], "x", [7]])}
    return snapshot.sealed(msgspec.msgpack.encode(content))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    seen: Counter[str] = Counter()
    share = options.count // len(KINDS)
    for kind, more in KINDS.items():
        play(kind, load(None, COMMON | more, {}), more, share, options.seed, seen)
    print(json.dumps(seen))


def play(
    kind: str, settings: Any, more: dict[str, Any], count: int, seed: int, seen: Counter[str]
) -> None:
    """Play as many of a kind, in states of some; every so often the next learner goes on."""
    start = start_of(settings)
    reader = BatchReader(settings, start, Metrics())
    learning = TopicLearner.begin(settings, start, {0: 0, 1: 0}, {"labels": {0: 0}})
    kept: dict[int, list[SentRecord]] = {0: [], 1: []}
    rng, offset, number = random.Random(f"{kind}-{seed}"), 0, 0
    while offset < count:
        sent: dict[int, list[SentRecord]] = {}
        labels: list[Record] = []
        for _ in range(rng.randrange(1, 9)):
            offset, p, now = offset + 1, rng.randrange(2), int(1000 * (NOW + offset))
            if rng.random() < 0.4:
                value = rng.choice([*WORDS, *[b'{"label": "a"}', b'{"labels": ["b"]}'] * 6])
                if rng.random() < 0.3:
                    value = bytes(rng.choice([*value, 255, 0]) for _ in range(len(value) + 1))
                key = rng.choice([b"%d" % rng.randrange(200), None, b"", b"k" * 3000])
                labels.append(Record("labels", 0, offset, now, key, value))
                continue
            data = batch(rng, kind, number, more).to_bytes()
            number += 10
            what = rng.choice([None, None, odd, *MUTATIONS[:-1]])
            if what is not None:
                data = what(data, rng)
            record = Record(
                "sent", p, offset, now, None, data, [(MARK_HEADER, learning.mark.encode())]
            )
            found = reader.read(record, deferred=False)
            seen["left out" if found is None else "played"] += 1
            if found is not None:
                sent.setdefault(p, []).append(SentRecord(offset, found, len(data), offset + 1))
                kept[p].append(sent[p][-1])
        try:
            played = learning.play(sent, {("labels", 0): labels})
            seen["labels"] += len(played.corrected.outcomes)
            seen["bad labels"] += len(played.bad)
            for one in learning.learner.live.values():
                rows = one.corrector.correct_many([[0.2, 0.3, 0.5]])
                assert np.isfinite(rows).all()
            if rng.random() < 0.1:
                learning = restarted(learning, settings, start, kept)
                seen["restarts"] += 1
        except BaseException as error:
            error.add_note(f"{kind}, before offset {offset} of seed {seed}")
            raise


def restarted(
    learning: TopicLearner, settings: Any, start: Any, kept: dict[int, list[SentRecord]]
) -> TopicLearner:
    """The learner that goes on from what this one would write."""
    _, begins = learning.written.changed()
    live = {name: one.corrector.to_bytes() for name, one in learning.learner.live.items()}
    live = live if learning.learner.models else {}
    data = learning.index(dict.fromkeys(live, 0), {model: 0 for model, _ in begins}, [0])
    memory = read_memory(learning.memory())
    stored = StoredState(0, read_index(data), memory, live, learning.written.begin_with)
    for p in kept:
        kept[p] = [one for one in kept[p] if one.offset >= memory.play_starts.get(p, 0)]
    again = TopicLearner.restored(settings, start, stored, kept, {0: 0, 1: 0})
    assert again.learner.waiting == learning.learner.waiting
    assert again.memory() == learning.memory()
    return again


if __name__ == "__main__":
    main()

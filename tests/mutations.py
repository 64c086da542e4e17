"""Snapshots with something wrong and a good checksum: each is refused or gives probabilities.

    python -W error -m tests.mutations --count 100000 --seed 7

A process of its own, with bounded memory, since a snapshot that is trusted too far ends it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from stream_can import Corrector, Learner, SnapshotMismatch, snapshot
from stream_can.multilabel import MultiLabelCorrector
from stream_can.pipe.statefile import PipeState
from tests import snapshots

LEARNERS = {*snapshots.LEARNERS}

NUMBERS = [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e30, 1e-320, 5e-324, 0.0, -1.0, 1.0, 7.5]
INTEGERS = [0, 1, -1, 2, 255, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1]
OTHERS = [None, True, False, "", "raw", "fitted", "matrix+can", "ant", "é" * 50, b"", b"\xff" * 9]
OTHERS += [[], {}, [[]], {"a": {"b": [1]}}, ["ant", "ant"], [0.0] * 3, [1, "1"], [1e308] * 4]
OTHERS += [msgspec.msgpack.Ext(5, b"x"), msgspec.msgpack.Ext(-1, b"\xff" * 12)]
VALUES = [*NUMBERS, *INTEGERS, *OTHERS]


def opened(data: bytes) -> Any:
    """{"head": ..., "arrays": ...}"""
    return msgspec.msgpack.decode(data[snapshot.ENVELOPE.size :])


# ---- what can be wrong


def flip(data: bytes, rng: random.Random) -> bytes:
    """Some bytes of the payload are others."""
    payload = bytearray(data[snapshot.ENVELOPE.size :])
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        payload[rng.randrange(len(payload))] = rng.randrange(256)
    return snapshot.sealed(bytes(payload))


def splice(data: bytes, rng: random.Random) -> bytes:
    """A piece of the payload is gone, twice there or another, or nested without end."""
    payload = data[snapshot.ENVELOPE.size :]
    a, b = sorted(rng.choices(range(len(payload)), k=2))
    b = min(b, a + rng.choice([1, 4, 100]))
    middle = [b"", payload[a:b] * 2, rng.randbytes(b - a), b"\x91" * 5000, b"\xdd\xff\xff\xff\xff"]
    return snapshot.sealed(payload[:a] + rng.choice(middle) + payload[b:])


def replace(data: bytes, rng: random.Random) -> bytes:
    """A field of the head is another value, missing, or one more."""
    content = opened(data)
    parent, key = content, "head"
    while isinstance(parent[key], dict | list) and parent[key] and rng.random() < 0.8:
        parent = parent[key]
        key = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
    what = rng.choice(["value", "value", "value", "delete", "add"])
    if what == "value":
        parent[key] = rng.choice(VALUES)
    elif what == "delete":
        del parent[key]
    elif isinstance(parent, dict):
        parent[rng.choice(["more", "task", "classes", "k", "fit"])] = rng.choice(VALUES)
    else:
        parent.insert(rng.randrange(len(parent) + 1), rng.choice([parent[key], *VALUES]))
    return snapshot.sealed(msgspec.msgpack.encode(content))


def resize(data: bytes, rng: random.Random) -> bytes:
    """An array has another type, shape, length or name, or is missing."""
    content = opened(data)
    arrays = content["arrays"]
    if not arrays:
        return inside(data, rng)
    name = rng.choice(list(arrays))
    array = arrays[name]
    what = rng.randrange(6)
    if what == 0:
        array[0] = rng.choice([*snapshot.DTYPES, "<u8", "|O", "<U4", "", None])
    elif what == 1:
        array[1] = [rng.choice([*INTEGERS, *array[1]]) for _ in range(rng.choice([0, 1, 1, 2, 70]))]
    elif what == 2:
        array[2] = array[2][: rng.randrange(len(array[2]) + 1)]
    elif what == 3:  # whole, but of another length
        size = int(array[0][2])
        n = rng.choice([0, 1, 2, len(array[2]) // size + 1])
        array[1], array[2] = [n], (array[2] * (n + 1))[: n * size].ljust(n * size, b"\0")
    elif what == 4:
        del arrays[name]
    else:
        arrays[rng.choice([*arrays, "Q", "ref", "A.fitted", "c.fitted", "x", "S.can"])] = array
    return snapshot.sealed(msgspec.msgpack.encode(content))


def fill(data: bytes, rng: random.Random) -> bytes:
    """Numbers of an array are others."""
    content = opened(data)
    if not content["arrays"]:
        return inside(data, rng)
    array = rng.choice(list(content["arrays"].values()))
    numbers = np.frombuffer(array[2], array[0]).copy()
    if len(numbers):
        at = rng.choice([slice(None), *([slice(i, i + 1) for i in range(len(numbers))] * 3)])
        if numbers.dtype.kind == "i":
            number = rng.choice([n for n in INTEGERS if n < 2**63])
            numbers[at] = np.int64(number).astype(numbers.dtype)
        else:
            with np.errstate(over="ignore"):
                near = [2, -2, 6, -6, 6.01, 1e29, 1e-30, 1e-7, -1e-9]
                numbers[at] = rng.choice([*NUMBERS, *near])
    array[2] = numbers.tobytes()
    return snapshot.sealed(msgspec.msgpack.encode(content))


def inside(data: bytes, rng: random.Random) -> bytes:
    """The corrector within a task or a learner is damaged, or the learner of a pipe, or rows that a
    learner keeps."""
    content = opened(data)
    if (pieces := content.get("pieces")) and rng.random() < 0.5:
        k = rng.randrange(len(pieces))
        pieces[k] = rng.choice(MUTATIONS[:-1])(pieces[k], rng)
        return snapshot.sealed(msgspec.msgpack.encode(content))
    where = rng.choice([content["head"], *content["head"].get("lanes", [])])
    where = where if isinstance(where, dict) else content["head"]
    held = [name for name in ("corrector", "start", "learner") if type(where.get(name)) is bytes]
    if not held:
        return fill(data, rng)
    name = rng.choice(held)
    where[name] = rng.choice(MUTATIONS if name == "learner" else MUTATIONS[:-1])(where[name], rng)
    return snapshot.sealed(msgspec.msgpack.encode(content))


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    flip,
    splice,
    replace,
    resize,
    fill,
    inside,
]


# ---- what must hold


def check_rows(rows: np.ndarray) -> None:
    """Probability vectors, one a row."""
    assert np.isfinite(rows).all(), rows
    assert (rows >= 0).all(), rows
    assert (abs(rows.sum(axis=-1) - 1) < 1e-8).all(), rows.sum(axis=-1)


def use_corrector(corrector: Corrector) -> None:
    m = len(corrector.classes)
    P, y = snapshots.stream(m, 4, seed=3)
    P = np.vstack([P, np.eye(m)[:2], np.full((1, m), 1 / m)])
    labels = [corrector.classes[k] for k in [*y, *[0] * (len(P) - len(y))]]
    given = snapshots.values(corrector.segments, len(P))
    for _ in range(2):
        check_rows(corrector.process_many(P, segments=given))
        for rows in corrector.explain_many(P, segments=given).values():
            check_rows(rows)
        corrector.learn_many(P, labels, segments=given)
        corrector.learn_many(None, labels)
        check_rows(corrector.correct_many(P, segments=given))
        check_rows(corrector.prior)
    corrector.to_bytes()


def use_several(corrector: MultiLabelCorrector) -> None:
    if corrector.labels != tuple(snapshots.NAMES):
        return
    P, Y = snapshots.several(7)
    for _ in range(2):
        rows, receipts = corrector.process_many(P, receipt=True)
        assert ((rows >= 0) & (rows <= 1)).all(), rows
        corrector.learn_many(P, Y, receipts=receipts)
        corrector.learn_many(None, Y)
        assert 0 <= corrector.threshold <= 1
    corrector.successor()
    corrector.to_bytes()


def use_learner(found: Learner) -> None:
    P, _ = snapshots.stream(3, 6, seed=3)
    several = any(
        isinstance(x.kind.corrector, MultiLabelCorrector)
        for x in found._memory.versions.by_name.values()
    )
    if several and found.classes == tuple(snapshots.NAMES):
        for model in ("a", "b"):
            found.process_many(range(35, 41), P, model=model)
        found.label_many(range(20, 41), [{"bee": True}] * 21)
        found.process_many(["soon"], P[:1], model="a", times=[50.0])
    elif found.classes == tuple(snapshots.NAMES):
        given = snapshots.values(found.segments, 6)
        for model in ("a", "b"):
            check_rows(found.process_many(range(35, 41), P, segments=given, model=model).rows)
        found.label_many(range(20, 41), [snapshots.NAMES[1]] * 21)
        check_rows(found.process_many(range(6), P, model="a", times=[50.0] * 6).rows)
    assert found.bytes_kept >= 0
    assert found.scores.keys() == {*found.models}
    for lane in found._memory.versions.by_name.values():
        one = lane.kind.corrector
        use_several(one) if isinstance(one, MultiLabelCorrector) else use_corrector(one)
    found.to_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    kinds = snapshots.kinds()
    seen: Counter[str] = Counter()
    for i in range(options.count):
        rng = random.Random(f"{options.seed}-{i}")
        kind = rng.choice(list(kinds))
        mutation = rng.choice(MUTATIONS)
        data = mutation(kinds[kind], rng)
        try:
            try:
                if kind == "pipe":
                    learner = PipeState.from_bytes(data).learner
                elif kind in LEARNERS:
                    learner = Learner.from_bytes(data)
                elif kind in snapshots.SEVERAL:
                    several = MultiLabelCorrector.from_bytes(data)
                else:
                    corrector = Corrector.from_bytes(data)
            except SnapshotMismatch:
                seen[f"{mutation.__name__} refused"] += 1
                continue
            seen[f"{mutation.__name__} taken"] += 1
            if kind in LEARNERS:
                use_learner(learner)
            elif kind in snapshots.SEVERAL:
                use_several(several)
            else:
                use_corrector(corrector)
        except BaseException as error:
            error.add_note(f"mutation {i} of seed {options.seed}: {mutation.__name__} of {kind}")
            raise
    print(json.dumps(seen))


if __name__ == "__main__":
    main()

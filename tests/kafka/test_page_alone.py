"""Whoever has read docs/architecture.md can play a state again, with a `Corrector`, an `Alarm`,
`LabelRequests` and no other of our code: from a state, sent batches and labels comes the next
state, bit by bit."""

from __future__ import annotations

import itertools
import json
import math
import random
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec import msgpack

from stream_can import Corrector, LabelRequests
from stream_can.trust import Alarm
from tests.kafka.broker.broker import Served
from tests.kafka.streams import App, caught_up, label
from tests.kafka.topics import produce, read
from tests.programs import wait

ROWS, STAGES, STEP, WAIT = 640, 4, 0.5, 60
"""The last two in seconds: from one prediction to the next, and `label_wait`."""
TOGETHER, BINS = 256, 15
Name = tuple[str | None, str | None]
"""Model and version."""
ONLY: Name = (None, None)


@dataclass
class Row:
    """A prediction that was sent."""

    time: float
    id: bytes | None
    p: bytes
    sent: bytes
    receipt: bytes
    columns: dict[str, str | None]
    lane: Name
    number: int = -1
    counts: float = math.nan
    """The time that counts."""
    known: int | None = None  # the class that its label says
    flags: int = 4


class Label(NamedTuple):
    """A record of the labels topic."""

    time: float
    id: bytes
    name: str
    row: list[float] | None
    lane: Name | None


@dataclass
class Lane:
    """What the learner knows of a model and version."""

    corrector: Corrector
    begun: int
    last: int
    after: str | None
    asks: LabelRequests | None
    alarm: Alarm = field(default_factory=Alarm)
    pending: list[list[Any]] = field(default_factory=list)
    raw: list[list[float]] = field(default_factory=lambda: NO_SCORES)
    sent: list[list[float]] = field(default_factory=lambda: NO_SCORES)
    latest: dict[bytes, Row] = field(default_factory=dict)


class State(NamedTuple):
    """What a state says, or what follows from the one before."""

    correctors: dict[Name, bytes]
    kept: list[Row]
    memory: dict[str, Any]
    places: dict[str, Any]
    scores: dict[str, list[list[float]]]


def opened(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Head and arrays of a snapshot."""
    magic, version, crc, length = struct.unpack_from("<8sHIQ", data)
    assert (magic, version, crc) == (b"strmcan\0", 3, zlib.crc32(data[22 : 22 + length]))
    says = msgpack.decode(data[22 : 22 + length], strict=False)
    arrays = says["arrays"].items()
    return says["head"], {k: np.frombuffer(b, t).reshape(shape) for k, (t, shape, b) in arrays}


def states_of(state: list[list[Any]], sent: list[list[Any]]) -> Iterator[State]:
    """What each index says, and the parts that it names."""
    parts, pieces = ({one.offset: one.value for one in of} for of in state)
    for index in (opened(one.value)[0] for one in state[0] if one.key == b"index"):
        correctors = {(m, v): parts[offset] for m, v, offset, _ in index["lanes"]}
        packed = b"".join(pieces[offset] for offset in index["memory"])
        places, plays = opened(zlib.decompress(packed))
        memory, scores = opened(places.pop("learner"))
        places |= {name: index[name] for name in ("inputs", "until")}
        places |= {name: array.tolist() for name, array in plays.items()}
        kept, end, number = [], places["begun"], places["number"] - sum(places["rows"])
        for n, by in zip(places["rows"], places["moved"], strict=True):
            first, end = end, {p: end[p] + by[p] for p in range(2)}
            played = in_order(between(sent, first, end, rows_of), [])
            assert len(played) == n
            for counts, row in played:
                row.counts, row.number, number = counts, number, number + 1
            played = [row for _, row in played]
            kept += [row for row in played if row.number >= memory["oldest"] and row.id is not None]
        assert end == places["sent"]
        for row, flags in zip(kept, memory["flags"], strict=True):
            row.flags = flags
        for k, y in memory["known"]:
            kept[k].known = y
        sums = {name: array.tolist() for name, array in scores.items()}
        yield State(correctors, kept, memory, places, sums)


def begin_of(state: list[list[Any]]) -> bytes:
    """The corrector with which models begin."""
    (found,) = [one.value for one in state[0] if one.key == b"begin null"]
    return found


def rows_of(record: Any) -> Iterator[Row]:
    """The rows of a sent batch."""
    head, arrays = opened(record.value)
    of = arrays.get("of", np.zeros(len(head["ids"]), int)).tolist()
    left = [iter(arrays[f"rows.{k}"]) for k in range(len(head["lanes"]))]
    for i, (id, when) in enumerate(zip(head["ids"], arrays["times"], strict=True)):
        lane, classes, *_ = head["lanes"][of[i]]
        both, data = 16 * len(classes), next(left[of[i]]).tobytes()
        made = min(float(when), record.timestamp / 1000)
        which = {name: arrays[f"column.{name}"][i] for name in head["texts"]}
        columns = {name: None if k < 0 else head["texts"][name][k] for name, k in which.items()}
        row = data[: both // 2], data[both // 2 : both], data[both:]
        yield Row(made, id, *row, columns, tuple(lane))


def label_of(one: Any) -> Iterator[Label]:
    says = json.loads(one.value)
    lane = says.get("model"), says.get("version")
    its = None if lane == ONLY else lane
    yield Label(one.timestamp / 1000, one.key, says["label"], says.get("probs_raw"), its)


def between(topic: Any, first: dict[int, int], end: dict[int, int], read: Any) -> list[list[Any]]:
    """What the records of each partition between two offsets say."""
    return [
        [what for one in of if first[p] <= one.offset < end[p] for what in read(one)]
        for p, of in enumerate(topic)
    ]


def in_order(rows: list[list[Row]], labels: list[list[Label]]) -> list[tuple[float, Any]]:
    """Rows and labels of all partitions in the order of learning, with the times that count."""
    found = []
    for kind, partitions in enumerate((rows, labels)):
        for p, those in enumerate(partitions):
            key = -math.inf
            for i, one in enumerate(those):
                behind = sorted(other.time for other in those[i + 1 : i + 9]) or [one.time]
                counts = min(one.time, behind[(len(behind) - 1) // 2])
                key = max(key, counts)
                found.append(((key, kind, p, i), counts, one))
    return [(counts, one) for _, counts, one in sorted(found, key=lambda one: one[0])]


def hash_of(id: bytes) -> int:
    """Of the id of a label that found no prediction."""
    return int.from_bytes(blake2b(b"b" + id, digest_size=8).digest(), "little")


def scored(sums: list[list[float]], P: np.ndarray, y: np.ndarray) -> list[list[float]]:
    """The sums with those of more rows."""
    found, best, of_class = np.array(sums), P.max(axis=1), P[np.arange(len(y)), y]
    hits = P.argmax(axis=1) == y
    found[0] += [
        len(y), hits.sum(), -np.log(np.maximum(of_class, 1e-6)).sum(),
        ((P - np.eye(P.shape[1])[y]) ** 2).sum(),
    ]  # fmt: skip
    for row, p, hit in zip(np.ceil(best * BINS).astype(int), best, hits, strict=True):
        found[row, :3] += [1, p, hit]
    return found.tolist()


def is_of(lane: Name, named: Name | None) -> bool:
    """Whether a label that names this may be of a lane."""
    return named is None or all(a in (None, b) for a, b in zip(named, lane, strict=True))


def follow(before: State, to: dict[str, Any], sent: Any, labels: Any, begin: bytes) -> State:
    """The state that follows from another and from what the topics hold up to these places."""
    kept, memory, was = [*before.kept], before.memory, before.places
    rows = between(sent, was["sent"], to["sent"], rows_of)
    headers = between(sent, was["sent"], to["sent"], lambda one: [dict(one.headers)])
    nexts = {p: int(of[-1]["stream-can-next"]) for p, of in enumerate(headers) if of}
    where = (next(iter(one["labels"].values())) for one in (was, to))  # of one topic
    told = between(labels, *where, label_of)
    number, changed, ask = memory["number"], memory["changed"], memory["ask"]
    held = {(id, as_name(lane)): (when, name) for when, id, name, lane, *_ in memory["held"]}
    lone = {(hashed, as_name(lane)): name for hashed, lane, name in memory["lone"]}
    clock = -math.inf if memory["clock"] is None else memory["clock"]
    until = math.inf if to["until"] is None else to["until"]
    size = sum(map(bytes_of, kept))
    lanes: dict[Name, Lane] = {}
    for k, one in enumerate(memory["lanes"]):
        name = tuple(one["lane"])
        lanes[name] = Lane(
            Corrector.from_bytes(before.correctors[name]), one["begun"], one["last"], one["after"],
            LabelRequests.from_bytes(one["asks"]) if ask else None,
            Alarm.from_bytes(one["alarm"]), [*one["pending"]],
            before.scores[f"raw.{k}"], before.scores[f"sent.{k}"],
        )  # fmt: skip
    for row in kept:
        lanes[row.lane].latest[row.id or b""] = row

    def lane_of(name: Name) -> Lane:
        if name not in lanes:
            same = [of for of in lanes if of[0] == name[0]]
            corrector, after = Corrector.from_bytes(begin), None
            if same:
                best = max(reversed(same), key=lambda of: lanes[of].corrector.effective_sample_size)
                corrector, after = lanes[best].corrector.successor(), best[1]
            asks = LabelRequests(ask) if ask else None
            lanes[name] = Lane(corrector, number, number, after, asks)
        return lanes[name]

    def teach(row: Row, name: str, other: list[float] | None = None) -> None:
        lane, p = lanes[row.lane], np.frombuffer(row.p)
        corrector = lane.corrector
        row.known = corrector.classes.index(name)
        if other is None or other == p.tolist():
            receipt = np.frombuffer(row.receipt, "<f4").copy()
            if not row.flags & 4 and corrector.sets is not None:
                receipt[-2] = -2
            corrector.learn_one(p, name, receipt=receipt, segments=row.columns or None)
        else:
            corrector.learn_one(other, name)
        if row.flags & 4:
            lane.pending.append([row.p + row.sent, row.known, row.counts, None])
        if len(lane.pending) == TOGETHER:
            both = np.array([np.frombuffer(data).reshape(2, -1) for data, *_ in lane.pending])
            y, times = (np.array(of) for of in list(zip(*lane.pending, strict=True))[1:3])
            lane.raw, lane.sent = scored(lane.raw, both[:, 0], y), scored(lane.sent, both[:, 1], y)
            lane.alarm.learn_many(both[:, 0], both[:, 1], y, 1000 * times)
            lane.pending = []

    for counts, one in in_order(rows, told):
        if isinstance(one, Row):
            clock = max(clock, min(counts, until))
            due = [key for key, (when, _) in held.items() if when < clock - WAIT]
            for key in sorted(due, key=lambda key: held[key][0]):
                id, named = key
                _, lone[hash_of(id), named] = held.pop(key)
                if lanes.keys() <= {ONLY} and named is None:
                    lane_of(ONLY).corrector.learn_one(None, lone[hash_of(id), named])
            lane = lane_of(one.lane)
            lane.corrector.observe_one(np.frombuffer(one.p), segments=one.columns or None)
            one.counts, one.number, lane.last = counts, number, number
            number += 1
            if lane.asks is not None:
                one.flags = 0
            if one.id is None:
                continue
            if lane.asks is not None:
                (said,) = lane.asks.ask_many([one.id], np.frombuffer(one.sent)[None])
                one.flags = 0 if said is None else {"random": 4 + 1, "margin": 2}[said.reason]
            kept.append(one)
            lane.latest[one.id] = one
            waiting = [key for key in held if key[0] == one.id and is_of(one.lane, key[1])]
            if waiting:
                teach(one, held.pop(waiting[0])[1])
            size += bytes_of(one)
            while size > memory["recent_mb"] * 2**20:
                gone, *kept = kept
                size -= bytes_of(gone)
                if lanes[gone.lane].latest.get(gone.id) is gone:
                    del lanes[gone.lane].latest[gone.id]
            continue
        found = [
            lane.latest[one.id]
            for name, lane in lanes.items()
            if is_of(name, one.lane) and one.id in lane.latest
        ]
        for row in found:
            corrector = lanes[row.lane].corrector
            changed += row.known not in (None, corrector.classes.index(one.name))
            if row.known is None:
                teach(row, one.name, one.row)
        if found:
            continue
        if one.row is not None:
            lane_of(one.lane or ONLY).corrector.learn_one(one.row, one.name)
            continue
        key = one.id, one.lane
        if said := lone.get((hash_of(one.id), one.lane)) or held.get(key, (0, ""))[1]:
            changed += said != one.name
        else:
            held[key] = one.time, one.name

    times = {p: [*was["times"].get(p, []), *(row.time for row in of)] for p, of in enumerate(rows)}
    n, moved = number - memory["number"], [to["sent"][p] - was["sent"][p] for p in range(2)]
    memory = memory | {
        "clock": None if math.isinf(clock) else clock, "number": number, "changed": changed,
        "oldest": kept[0].number if kept else number, "flags": bytes(row.flags for row in kept),
        "known": [[k, row.known] for k, row in enumerate(kept) if row.known is not None],
        "held": [
            [when, id, said, as_list(of), 1, 0, None] for (id, of), (when, said) in held.items()
        ],
        "lone": [[hashed, as_list(of), said] for (hashed, of), said in lone.items()],
        "lanes": [
            {
                "lane": [*name], "begun": one.begun, "last": one.last, "after": one.after,
                "asks": None if one.asks is None else one.asks.to_bytes(),
                "alarm": one.alarm.to_bytes(), "pending": one.pending,
            }
            for name, one in lanes.items()
        ],
    }  # fmt: skip
    plays = [*zip(was["rows"], was["moved"], strict=True), *([(n, moved)] if n else [])]
    begun, at = was["begun"], number - sum(n for n, _ in plays)
    while plays and at + plays[0][0] <= memory["oldest"]:
        (n, by), *plays = plays
        at, begun = at + n, {p: begun[p] + by[p] for p in begun}
    places = to | {
        "number": number, "begun": begun,
        "inputs": was["inputs"] | nexts, "times": {p: of[-9:] for p, of in times.items() if of},
        "rows": [n for n, _ in plays], "moved": [by for _, by in plays],
    }  # fmt: skip
    scores = {f"{what}.{k}": getattr(one, what)
              for k, one in enumerate(lanes.values()) for what in ("raw", "sent")}  # fmt: skip
    correctors = {name: one.corrector.to_bytes() for name, one in lanes.items()}
    return State(correctors, kept, memory, places, scores)


def as_name(lane: list[str | None] | None) -> Name | None:
    return None if lane is None else (lane[0], lane[1])


def as_list(lane: Name | None) -> list[str | None] | None:
    return None if lane is None else [*lane]


def bytes_of(row: Row) -> int:
    """What counts for a kept prediction."""
    texts = sum(len(text or "") for text in row.columns.values())
    return 2 * len(row.p) + len(row.receipt) + len(row.id or b"") + texts + 480


NO_SCORES = np.zeros((1 + BINS, 4)).tolist()


def send(app: App) -> Iterator[None]:
    """Predictions up to now, a few of which say that they are 5 minutes later, and their labels, in
    stages: each is sent when the one before is learned."""
    rng, begin = random.Random(0), time.time() - ROWS * STEP
    rows, labels = list[tuple[float, Any]](), list[tuple[float, Any]]()

    def tell(when: float, id: bytes, value: bytes, **named: str) -> None:
        value = json.dumps(json.loads(value) | named).encode()
        p, ms = rng.randrange(2), int(1000 * when)
        labels.append((when, (app.given["labels"], p, id, value, [], ms)))

    first = {"model": "m", "version": "1"} if app.given.get("model") else {}
    for i in range(ROWS):
        key, value, truth = app.predict(rng, i)
        if app.given.get("segments"):
            says = {"place": f"p{i % 7}"} if i % 11 else {}
            value = json.dumps(json.loads(value) | says).encode()
        named: dict[str, str] = {}
        if first:  # of the last one only after a while
            model, version = [("m", "1"), ("m", "2"), ("n", "1"), ("m", "3")][i % (3 + (i > 200))]
            value = json.dumps(json.loads(value) | {"model": model, "version": version}).encode()
            named = [{}, {"model": model}, {"version": version},
                     {"model": model, "version": version}][rng.randrange(4)]  # fmt: skip
        key, when = b"again" if i % 60 == 5 else key, begin + STEP * i
        # Behind the last of the third stage there are no rows, and it was written earlier.
        ahead = 300 if i % 40 == 7 or i == ROWS * 3 // STAGES - 1 else rng.randrange(8)
        says, ms = (None if i % 25 == 3 else key, value, []), int(1000 * (when + ahead))
        rows.append((when, (app.given["input"], i % 2, *says, ms)))
        due = when + rng.choice([20, 20, 20, -5, -100])  # late, early, too early
        if i % 9:
            tell(due, key, label(truth), **named)
        if i % 10 == 4:  # again, or another one
            tell(due + 1, key, label(rng.choice("abcd")))
        if i % 20 == 6:  # with a row, of no prediction or not as it came
            value = json.dumps({"label": truth, "probs_raw": [0.1, 0.2, 0.3, 0.4]}).encode()
            tell(when + 2, rng.choice([key, b"none%d" % i]), value, **first)
        if i % 10 == 9:  # of no prediction
            tell(when, b"lone%d" % (i // 2), label(truth))
            tell(when + 1, b"lone%d" % (i // 2), label(rng.choice("abcd")))
    labels.sort(key=lambda one: one[0])
    ends = [begin + STEP * ROWS * k / STAGES for k in range(1, STAGES)]
    for first, end in itertools.pairwise([-math.inf, *ends, math.inf]):
        both = ([what for at, what in of if first <= at < end] for of in (rows, labels))
        produce(app.servers, *both)
        yield


def require_alarm_and_requests(
    lane: dict[str, Any], raw: list[list[float]], ask: float | None
) -> None:
    """What snapshots inside a state hold is what the page says."""
    head, arrays = opened(lane["alarm"])
    assert head.keys() == {"alarm", "level", "n", "restarted", "looked", "episodes"}
    shapes = {"sums": (18,), "starts": (-1,), "before": (-1, 18), "times": (-1,),
              "fresh": (-1, 20), "reference": (2, 2), "bounds": (2,), "worse": (5,)}  # fmt: skip
    assert arrays.keys() == shapes.keys()
    n = len(arrays["starts"])
    for name, shape in shapes.items():
        found = arrays[name]
        length = len(found) if name == "fresh" else n
        assert found.shape == tuple(length if k < 0 else k for k in shape), name
        assert found.dtype == (np.int64 if name == "starts" else np.float64)
    assert head["n"] == raw[0][0]  # its labels are those that are scored
    assert head["restarted"] <= head["looked"] <= head["n"]
    for episode in head["episodes"]:
        assert episode["since"] <= episode["noticed"] <= (episode["until"] or head["n"])
    begun = head["restarted"]
    assert len(arrays["fresh"]) == head["n"] - head["looked"]
    assert arrays["fresh"][:, 0].tolist() == [*range(head["looked"] - begun, head["n"] - begun)]
    if not begun:  # no episode: the sums are those of the scores
        errors, loss = raw[0][0] - raw[0][1], arrays["sums"][2]
        assert arrays["sums"][0] == errors
        np.testing.assert_allclose(loss, raw[0][2], rtol=1e-9)
        assert loss / 12 <= arrays["sums"][4] <= (1 + 1e-9) * loss / 6
    if ask:
        head, arrays = opened(lane["asks"])
        heads = {"label_requests", "budget", "random_share", "seed", "rows", "threshold"}
        assert head.keys() == heads | {"distance"}
        assert {name: of.dtype for name, of in arrays.items()} == {"used": "<f8", "asked": "<i8"}
        assert head["budget"] == ask


@pytest.mark.parametrize(
    "more", [{}, {"segments": ["place"], "sets": 0.9}, {"recent_mb": 0.1},
             {"model": "model", "version": "version"}, {"ask": 0.2, "sets": 0.9}],
    ids=["plain", "segments and sets", "bounds", "models", "requests"],
)  # fmt: skip
def test_states_follow_as_the_page_says(broker: Served, more: dict[str, Any]) -> None:
    """Until a state was made before all input was learned, which is a matter of chance."""
    wait("such a state", lambda: states_followed(broker, more))


def states_followed(broker: Served, more: dict[str, Any]) -> bool:
    """Whether of the states of an application, which follow, one says `until` when."""
    app = App(broker.bootstrap_servers, label_wait=WAIT, backlog="lagging", **more)
    running = app.worker()
    for _ in send(app):
        caught_up(app, running)
    assert running.worker.status_report.status().hour.early > 5  # as the labels that come too early
    running.stop()
    names = (f"{app.id}-{kind}" for kind in ("state", "sent", "labels"))
    state, sent, labels = ([read(app.servers, name, p) for p in (0, 1)] for name in names)
    states = [*states_of(state, sent)]
    for before, after in itertools.pairwise(states):
        found = follow(before, after.places, sent, labels, begin_of(state))
        for name, sums in after.scores.items():  # of floats, whose order the page does not say
            np.testing.assert_allclose(found.scores[name], sums, rtol=1e-12)
        assert found._replace(scores=after.scores) == after
    for one in states:
        for by in ("inputs", "sent", "begun", "times"):
            assert one.places[by].keys() <= {0, 1}, by  # no texts
        (at,) = one.places["labels"].values()
        assert at.keys() <= {0, 1}
        for k, lane in enumerate(one.memory["lanes"]):
            require_alarm_and_requests(lane, one.scores[f"raw.{k}"], app.given.get("ask"))
    assert after.memory["number"] == ROWS
    assert all(after.memory[what] for what in ("known", "held", "lone", "changed"))
    if app.given.get("model"):
        assert sum(one["after"] is not None for one in after.memory["lanes"]) == 2  # of m
    if app.given.get("ask"):
        assert {*after.memory["flags"]} == {0, 2, 5}
    return any(one.places["until"] for one in states)

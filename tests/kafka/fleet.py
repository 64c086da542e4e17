"""Models and versions in the topics of one application: made, and checked from the topics alone.

The log is folded offset by offset. Each output must be what its lane makes of the stored prediction
at the offset that the output names, bit by bit; each input has become one output or dead letter, in
order; each label stands in the log once for each lane that had predicted its id, with the row of
that prediction; and the sums of each entry are those of the lane's rows in its range. Nothing here
asks a `Task`.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stream_can.kafka import Settings
from stream_can.kafka.start import TaskStart
from stream_can.messages.naming import LaneName
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from tests.kafka import streams
from tests.kafka.streams import STAMP, App, label
from tests.kafka.topics import produce, read

FIELDS: dict[str, Any] = {"model": "model.name", "version": "model.version"}


def prediction(
    rng: random.Random, number: int, model: str, version: str
) -> tuple[bytes, bytes, str]:
    """Key and message of a prediction of one version, and the true class."""
    key, value, truth = streams.prediction(rng, number)
    message = json.loads(value) | {"model": {"name": model, "version": version}}
    return key, json.dumps(message).encode(), truth


def fill(app: App, n: int, names: list[LaneName], seed: int = 0, *, delay: int = 40) -> None:
    """n ids, each predicted by one to three lanes of one partition, and a label without a name."""
    rng = random.Random(seed)
    predictions, labels = [], []
    for i in range(n):
        partition, stamp = i % app.partitions, STAMP + seed * 1_000_000 + i
        for name in rng.sample(names, min(len(names), rng.choice([1, 1, 2, 3]))):
            number = 1_000_000 * seed + i
            key, value, truth = prediction(random.Random(i), number, *name)
            predictions.append((app.given["input"], partition, key, value, [], stamp))
        labels.append((app.given["labels"], partition, key, label(truth), [], stamp + delay))
    produce(app.servers, predictions, labels)


def lane_of(message: dict[str, Any]) -> LaneName:
    return LaneName(message["model"]["name"], message["model"]["version"])


@dataclass
class Judged:
    """What was compared."""

    outputs: int = 0
    letters: int = 0
    labels: int = 0
    """In the log, lane by lane."""
    unmatched: int = 0
    """Predictions whose id had a label and that no entry has."""
    entries: int = 0
    left: Counter[str] = field(default_factory=Counter)
    """Entries that taught nobody, by reason."""
    replica: Replica = field(default_factory=Replica)


def judge(app: App, settings: Settings | None = None) -> Judged:
    """Check all that the topics hold."""
    s = settings or app.settings()
    found = Judged()
    start, log = TaskStart(s), read(s.bootstrap_servers[0], s.learned_topic, 0)
    replica = found.replica
    streams_of = [Stored(s, p) for p in range(app.partitions)]
    found.letters = sum(len(one.dead) for one in streams_of)
    # What each lane was at each offset: where an output was made, or sums were.
    wanted = sorted(
        (k, p, offset) for p, one in enumerate(streams_of) for offset, k in one.made_at.items()
    )
    sums: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
    waiting = list(log)[::-1]

    def fold_to(k: int) -> None:
        while waiting and waiting[-1].offset < k:
            record = waiting.pop()
            try:
                one = entry.read(record.value, replica.terms.app, replica.terms.identity)
            except entry.BadEntry:
                one = None
            left = replica.fold(record)
            if left is not None:
                found.left["foreign" if left.foreign else left.reason.split(": ", 1)[1][:30]] += 1
            if one is not None and one.lane is not None and one.parts:
                found.entries += 1
                for stored in streams_of:
                    stored.learned(one, found)
                if left is None:
                    compare_sums(one, replica, streams_of, sums)
        replica.advance(k)

    for k, p, offset in wanted:
        fold_to(k)
        stored = streams_of[p]
        message = json.loads(stored.predictions[offset].value)
        name, row = lane_of(message), np.array(message["probs"], np.float64)
        lane = replica.lane(name) or replica.start(name, start_of(start, name))
        sent = json.loads(stored.outputs[offset].value)
        assert sent["probs_raw"] == message["probs"], (p, offset)
        assert sent["probs"] == lane.corrector.correct_one(row).tolist(), (name, p, offset, k)
        piece = sums.setdefault((p, offset), lane.corrector.new_sums())
        lane.corrector.correct_and_sum(row[None], piece)
        found.outputs += 1
    fold_to(1 << 62)
    unused = [at for at, rest in sums.items() if rest.any()]
    assert not unused, f"rows that no entry has: {unused[:5]}"
    for stored in streams_of:
        stored.finish(found)
    return found


def compare_sums(
    one: entry.LogEntry,
    replica: Replica,
    streams_of: list[Stored],
    sums: dict[tuple[int, int], Any],
) -> None:
    """The sums of an entry are those of its lane's rows in its ranges."""
    assert one.lane is not None
    lane = replica.lane(one.lane.name)
    assert lane is not None
    want = lane.corrector.new_sums()
    for part in one.parts:
        own = lane.corrector.new_sums()
        stored = streams_of[part.partition]
        for offset in stored.of_lane[one.lane.name]:
            if part.inputs[0] <= offset < part.inputs[1]:
                lane.corrector.merge_sums(own, sums.pop((part.partition, offset)))
        lane.corrector.merge_sums(want, own)
    given = np.zeros(want.size) if one.sums is None else np.frombuffer(one.sums, "<f4")
    np.testing.assert_allclose(given.reshape(want.shape), want, rtol=1e-4, atol=1e-6)


def start_of(start: TaskStart, name: LaneName) -> bytes | None:
    """What the settings have for a lane to begin with."""
    return start.task_options()["fleet"].listed.get(name.model)


class Stored:
    """One partition of the topics."""

    def __init__(self, s: Settings, number: int) -> None:
        self.number = number
        servers = s.bootstrap_servers[0]
        self.predictions = {r.offset: r for r in read(servers, s.input, number)}
        self.dead = {origin(r) for r in read(servers, s.own_topics[1], number)}
        labels = read(servers, s.labels or "", number)
        self.labels = {r.offset: r for r in labels if (s.labels, r.offset) not in self.dead}
        given = [o for o in sorted(self.predictions) if (s.input, o) not in self.dead]
        outputs = read(servers, s.output, number)
        assert len(outputs) == len(given), f"partition {number}: an output too many or too few"
        self.outputs = dict(zip(given, outputs, strict=True))
        self.made_at = {}
        for offset, out in self.outputs.items():
            taken = self.predictions[offset]
            assert (out.key, out.timestamp) == (taken.key, taken.timestamp), (number, offset)
            self.made_at[offset] = int(dict(out.headers)["stream-can-learned"])
        ks = list(self.made_at.values())
        assert ks == sorted(ks), f"partition {number} goes back in the log"
        self.of_lane: dict[LaneName, list[int]] = defaultdict(list)
        self.by_id: dict[bytes, list[tuple[int, LaneName]]] = defaultdict(list)
        for offset in given:
            record = self.predictions[offset]
            name = lane_of(json.loads(record.value))
            self.by_id[record.key].append((offset, name))
            self.of_lane[name].append(offset)
        self.joined: dict[int, dict[LaneName, int]] = defaultdict(dict)
        """Of each label: the lanes that it taught, and which prediction came next as it did."""
        self.ends: dict[LaneName, int] = {}

    def learned(self, one: entry.LogEntry, found: Judged) -> None:
        """An entry of one lane."""
        assert one.lane is not None
        name = one.lane.name
        at = 0
        for part in one.parts:
            classes = np.frombuffer(part.classes, "<i4")
            here = int((classes >= 0).sum())
            m = len(self.classes(one, found))
            rows = np.frombuffer(b"".join(x.rows for x in one.parts), "<f4").reshape(-1, m)
            rows, at = rows[at : at + here], at + here
            if part.partition != self.number:
                continue
            assert part.inputs[0] >= self.ends.get(name, 0), (name, part.inputs)
            self.ends[name] = part.inputs[1] if part.inputs[1] > part.inputs[0] else part.inputs[0]
            offsets, taken = (np.frombuffer(x, "<i8").tolist() for x in (part.offsets, part.taken))
            with_row = iter(rows)
            for offset, next_, y in zip(offsets, taken, classes.tolist(), strict=True):
                record = self.labels[offset]
                assert name not in self.joined[offset], f"label {offset} taught {name} twice"
                self.joined[offset][name] = next_
                found.labels += 1
                found_row = next(with_row) if y >= 0 else None
                says = json.loads(record.value)["label"]
                assert self.classes(one, found)[y if y >= 0 else ~y] == says
                mine = [o for o, lane in self.by_id[record.key] if lane == name and o < next_]
                assert mine, f"label {offset} taught {name}, which had not predicted its id"
                if found_row is not None:
                    row = json.loads(self.predictions[mine[-1]].value)["probs"]
                    assert found_row.tolist() == np.array(row, "<f4").tolist()

    def classes(self, one: entry.LogEntry, found: Judged) -> Any:
        """Those of the entry's lane."""
        assert one.lane is not None
        lane = found.replica.lane(one.lane.name)
        return (lane.corrector if lane else found.replica.corrector).classes

    def finish(self, found: Judged) -> None:
        """Each label taught every lane that had predicted its id as it was taken."""
        for offset, taught in self.joined.items():
            next_ = max(taught.values())
            for o, lane in self.by_id[self.labels[offset].key]:
                if o < next_ and lane not in taught:
                    found.unmatched += 1
        ids = {record.key for offset, record in self.labels.items() if offset not in self.joined}
        found.unmatched += sum(len(self.by_id[one]) for one in ids if one in self.by_id)


def origin(record: Any) -> tuple[str, int]:
    """Topic and offset of the record that became a dead letter."""
    headers = dict(record.headers)
    return headers["__connect.errors.topic"].decode(), int(headers["__connect.errors.offset"])

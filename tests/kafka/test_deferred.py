"""Deferred batches: a topic with history comes out as one learner in memory makes it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pytest

from stream_can.app.label_reader import LabelReader
from stream_can.app.learner_models import LearnerModels
from stream_can.app.model_messages import ModelMessages
from stream_can.app.prediction_reader import PredictionReader
from stream_can.kafka import load
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.deferred import pieces_of, read_deferred, times_of
from stream_can.kafka.played_records import PlayedRecords
from stream_can.kafka.record_corrector import RecordCorrector
from stream_can.kafka.sent_record import SentRecord, cut
from stream_can.kafka.start import start_of
from stream_can.kafka.state import read_index, read_memory
from stream_can.kafka.state_correctors import corrector_of
from stream_can.kafka.stored import StoredState
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner import Events, Learner, read_sent
from stream_can.learner.model_name import ONLY
from stream_can.learner.sent import SentBatch
from stream_can.messages.records import Record
from tests.examples import examples

pytestmark = pytest.mark.fast

NAMES = ["a", "b", "c", "d"]
NOW = 1_700_000_000.0
COMMON: dict[str, Any] = {
    "application_id": "x", "bootstrap_servers": ["127.0.0.1:1"], "input": "in", "output": "out",
    "labels": "labels", "label_wait": 90.0,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "one": {"classes": NAMES},
    "little memory": {"classes": NAMES, "recent_mb": 0.01},
    "rounded": {"classes": NAMES, "digits": 4},
    "sets": {"classes": NAMES, "sets": 0.8},
    "segments": {"classes": NAMES, "segments": ["place"], "sets": 0.8},
    "asked": {"classes": NAMES, "ask": 0.3, "sets": 0.8},
    "models": {"classes": NAMES, "model": "m", "version": "v", "sets": 0.8},
    "models, segments": {"classes": NAMES, "model": "m", "segments": ["place"], "sets": 0.8},
    "few models": {"classes": NAMES, "model": "m", "version": "v", "max_lanes": 3},
    "own classes": {
        "classes": NAMES,
        "model": "m",
        "models": {"two": {"classes": NAMES[:3]}},
        "sets": 0.8,
    },
    "multilabel": {"classes": NAMES, "rows": "multilabel", "ask": 0.3},
    "multilabel models": {"classes": NAMES, "rows": "multilabel", "model": "m"},
    "sparse": {"rows": "sparse", "max_classes": 60},
}


class Stream:
    """Predictions and labels of a kind in the order of their times, which all differ."""

    def __init__(self, kind: str, seed: int) -> None:
        self.rng = random.Random(f"{kind} {seed}")
        self.more = KINDS[kind]
        self.n = 0
        self.due: list[tuple[float, bytes, bytes]] = []

    def events(self, n: int) -> list[tuple[float, str, bytes, bytes | None]]:
        """The next n predictions, and the labels between them: time, what it is, key, message."""
        found: list[tuple[float, str, bytes, bytes | None]] = []
        for _ in range(n):
            self.n += 1
            time, rng = NOW + self.n, self.rng
            # With models of different classes a label is read by what is kept when it is read.
            other = self.n if "models" in self.more else rng.randrange(self.n)
            key = b"k%d" % rng.choice([self.n, self.n, self.n, other])
            model = rng.choice(["one", "two"] + (["three"] if self.n > 100 else []))
            says, label = self._row(model)
            says |= {"place": rng.choice(["x", "y", 7, None, 1.5])}
            says |= {"m": model, "v": rng.choice(["1", "2"][: 1 + (self.n > 60)])}
            value: bytes | None = json.dumps(says).encode()
            if rng.random() < 0.06:
                value = rng.choice([None, b"{", b"", b'{"probs": [1, 2]}', b'{"scores": [3]}'])
            found.append((time, "row", key, value))
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                late = time + rng.choice([-200, -40, -5, 3, 20, 60]) + rng.random() * 0.9 + 0.05
                told = {"label" if isinstance(label, str) else "labels": label}
                if rng.random() < 0.3:
                    told["m"] = says["m"]
                self.due.append((late, key, json.dumps(told).encode()))
        until = NOW + self.n + 0.5
        ripe = sorted(one for one in self.due if one[0] <= until)
        self.due = [one for one in self.due if one[0] > until]
        last = round(1000 * (until - n))
        for time, key, value in ripe:  # each later than the one before, and at no row's time
            last = max(round(1000 * time), last + 1)
            last += last % 1000 == 0
            found.append((last / 1000, "label", key, value))
        return sorted(found, key=lambda one: one[:2])

    def _row(self, model: str) -> tuple[dict[str, Any], Any]:
        rng, own = self.rng, model in self.more.get("models", ())
        if self.more.get("rows") == "multilabel":
            truth = [name for name in NAMES if rng.random() < 0.4]
            return {"scores": [rng.betavariate(1, 3) for _ in NAMES]}, truth
        if self.more.get("rows") == "sparse":
            listed = rng.sample(range(40), rng.randint(1, 6))
            parts = [rng.expovariate(1.0) ** 2 for _ in range(len(listed) + 1)]
            probs = {f"k{k}": p / sum(parts) for k, p in zip(listed, parts, strict=False)}
            return {"probs": probs}, rng.choice([*probs, f"k{rng.randrange(50)}"])
        names = NAMES[:3] if own else NAMES
        parts = [rng.expovariate(1.0) ** 2 + 1e-3 for _ in names]
        truth = rng.choices(names, parts)[0]
        return {"probs": [p / sum(parts) for p in parts]}, truth


def hours() -> Callable[[], float]:
    """A clock that goes so fast that any number of models may begin."""
    return partial(next, count(0.0, 7200.0))


class Plain:
    """One learner in memory, which is given one row or label after the other."""

    def __init__(self, settings: Any) -> None:
        start = start_of(settings)
        s = settings
        self.settings, self.start = settings, start
        self.learner = Learner(
            start.with_settings(start.snapshot), recent_mb=s.recent_mb, ask=s.ask,
            label_wait=s.label_wait, max_lanes=s.max_lanes,
        )  # fmt: skip
        self.models = LearnerModels(
            self.learner, start, max_lanes=s.max_lanes, only_listed=False, clock=hours()
        )
        messages = ModelMessages(
            start.classes, s.fields, start.formats, start.segments, self.models, rows=s.rows,
            numbering=self.learner.numbering,
        )  # fmt: skip
        self.predictions, self.labels = PredictionReader(messages), LabelReader(messages)

    def number_as(self, learning: TopicLearner) -> None:
        """Number classes that appear as another learner did, which read them in another order."""
        own, other = self.learner.numbering, learning.learner.numbering
        for name in () if own is None else other.names_from(own.n_named):
            own.number(name)

    def row(self, record: Record) -> bytes | str | None:
        """What becomes of a record: its output, or that there is none."""
        groups, bad = self.predictions.parse([record])
        self.models.admit()
        if bad:
            return "dead letter"
        (group,) = [one for one in groups if one.ids or one.empty]
        if not group.ids:
            return None
        found = self.learner.play(
            group.ids, group.rows, (), segments=group.columns, lanes=group.names,
            times=[record.timestamp / 1000],
        )  # fmt: skip
        (value,) = group.write(group.messages.finished(found.rows), None, found.sets)
        return value

    def corrected(self, batch: SentBatch) -> None:
        """Rows that another corrector sent."""
        if (own := self.learner.numbering) is not None:
            adopted, kept = own.adopted(batch.versions[0])
            batch = batch.of_versions([adopted], np.flatnonzero(kept))
        for lane in batch.versions:
            if lane.name not in self.models.classes() and lane.name != ONLY:
                self.models.begin(lane.name, lane.classes)
                self.models.admit()
        for i in range(len(batch)):
            self.learner.play_sent(Events(batch.part(i, i + 1), []))

    def label(self, record: Record) -> None:
        """A label."""
        for one in self.labels.parse([record]).labels:
            one.time = record.timestamp / 1000
            self.learner.play([], None, [one])


class Topics:
    """The learner of an application, its topic of sent batches, and workers."""

    def __init__(self, settings: Any) -> None:
        self.settings, self.start = settings, start_of(settings)
        self.learning = TopicLearner.begin(
            settings, self.start, {0: 0, 1: 0, 2: 0}, {"labels": {0: 0, 1: 0}}
        )
        self.kept: dict[int, list[SentRecord]] = {0: [], 1: [], 2: []}
        self.played: dict[tuple[int, int], SentBatch] = {}
        self.ends = {0: 0, 1: 0, 2: 0}
        self.learning.models._clock = hours()

    def offset(self, p: int) -> int:
        """The offset of the next record in a partition of sent batches."""
        self.ends[p] += 1
        return self.ends[p] - 1

    def state(self) -> tuple[StoredState, CurrentState]:
        """What the learner would write, as another learner and as a worker reads it."""
        learning = self.learning
        _, begins = learning.written.changed()
        live = {name: one.corrector.to_bytes() for name, one in learning.learner.live.items()}
        live = live if learning.learner.models else {}
        data = learning.index(dict.fromkeys(live, 0), {model: 0 for model, _ in begins}, [0])
        memory = read_memory(learning.memory())
        stored = StoredState(0, read_index(data), memory, live, learning.written.begin_with)
        correctors = {name: corrector_of(one) for name, one in live.items()}
        begin = {model: corrector_of(one) for model, one in learning.written.begin_with.items()}
        state = CurrentState(0, stored.index, correctors, begin)
        state._clock = hours()
        return stored, state

    def correct(self, records: list[Record], state: CurrentState) -> Any:
        """What a worker makes of records."""
        s = self.settings
        corrector = RecordCorrector(s.fields, self.start.formats, self.start.segments, rows=s.rows)
        return corrector.correct_records(records, state)

    def told(self, played: PlayedRecords) -> None:
        """The learner tells of the rows that it has corrected."""
        places = []
        for data, _ in played.sent.pieces(3000):
            place = 0, self.offset(0)
            self.played[place] = read_sent(data)
            places.append(place)
        self.learning.positions.tell(places)

    def restart(self) -> None:
        """Another learner goes on from the state."""
        stored, _ = self.state()
        begun, ends = stored.memory.play_starts, self.learning.positions.sent
        kept = {
            p: [one for one in some if begun.get(p, 0) <= one.offset < ends[p]
                and not one.is_deferred]
            for p, some in self.kept.items()
        }  # fmt: skip
        again = TopicLearner.restored(
            self.settings, self.start, stored, kept, {0: 0, 1: 0, 2: 0}, self.played
        )
        assert again.learner.waiting == self.learning.learner.waiting
        assert again.memory() == self.learning.memory()
        self.learning = again
        again.models._clock = hours()


class Window(NamedTuple):
    """What is played together, and the same in the order of time."""

    sent: dict[int, list[SentRecord]]
    labels: dict[int, list[Record]]
    order: list[tuple[str, Record]]

    def then(self, *others: Any) -> Window:
        """This one, and what comes behind it."""
        sent, labels = (
            {p: one.get(p, []) + other.get(p, []) for p in {*one, *other}}
            for one, other in zip(self[:2], others[:2], strict=True)
        )
        return Window(sent, labels, self.order + others[2])

    def cut(self, until: float) -> tuple[Window, Window]:
        """What is up to a time, in milliseconds, and the rest."""
        sent: tuple[dict[int, list[Any]], ...] = ({}, {})
        for p, some in self.sent.items():
            for one in some:
                due = int((one.batch.times <= until / 1000).sum())
                parts = cut(one, due) if 0 < due < len(one.batch) else (one,)
                for part in parts:
                    is_due = len(part.batch) == 0 or part.batch.times[0] <= until / 1000
                    later = not is_due or p in sent[1]
                    sent[later].setdefault(p, []).append(part)
        labels = [
            {p: [one for one in some if (one.timestamp <= until) == due]
             for p, some in self.labels.items()}
            for due in (True, False)
        ]  # fmt: skip
        order = [
            [one for one in self.order if (one[1].timestamp <= until) == due]
            for due in (True, False)
        ]
        return Window(sent[0], labels[0], order[0]), Window(sent[1], labels[1], order[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deferred", [1.0, 0.5])
def test_equals_one_learner(kind: str, deferred: float) -> None:
    """Whatever is deferred, wherever batches and states are cut, and the learner restarts."""
    for seed in range(examples(1)):
        play(kind, seed, deferred)


def play(kind: str, seed: int, deferred: float) -> None:
    settings = load(None, COMMON | KINDS[kind], {})
    stream, rng = Stream(kind, seed), random.Random(seed)
    topics, plain = Topics(settings), Plain(settings)
    next_offset, number = {0: 0, 1: 0, 2: 0}, 0
    direct: dict[tuple[int, int], SentBatch] = {}
    handed: set[tuple[int, int]] = set()
    left = Window({}, {}, [])
    for _ in range(12):
        events = stream.events(rng.randint(1, 40))
        rows: dict[int, list[Record]] = {0: [], 1: [], 2: []}
        labels: dict[int, list[Record]] = {0: [], 1: []}
        order: list[tuple[str, Record]] = []
        for time, what, key, value in events:
            p = rng.randrange(3) if what == "row" else rng.randrange(2)
            into = rows if what == "row" else labels
            offset = number if what == "label" else next_offset[p]
            number += 1
            next_offset[p] += what == "row"
            record = Record(
                "in" if what == "row" else "labels", p, offset, round(1000 * time), key, value
            )
            into[p].append(record)
            order.append((what, record))
        _, state = topics.state()
        sent: dict[int, list[SentRecord]] = {}
        expected: dict[int, list[Any]] = {0: [], 1: [], 2: []}
        until = rng.choice([math.inf, rng.choice(order)[1].timestamp])
        for p, records in rows.items():
            at = 0
            while at < len(records):
                some = records[at : at + rng.randint(1, 9)]
                hands_over = rng.random() < deferred
                if not hands_over and some[0].timestamp <= until:  # these are not cut
                    some = [one for one in some if one.timestamp <= until]
                at += len(some)
                if hands_over:
                    for data, last in pieces_of(some, rng.choice([300, 1 << 20])):
                        batch: Any = read_deferred(data)
                        one = SentRecord(
                            topics.offset(p), batch, len(data), some[last - 1].offset + 1
                        )
                        sent.setdefault(p, []).append(one)
                    handed |= {(p, one.offset) for one in some}
                    continue
                made = topics.correct(some, state)
                if made.sent is not None:
                    batch = read_sent(made.sent.to_bytes())
                    sent.setdefault(p, []).append(
                        SentRecord(topics.offset(p), batch, 0, some[-1].offset + 1)
                    )
                    for i, offset in enumerate(batch.numbers.tolist()):
                        direct[p, offset] = batch.part(i, i + 1)
            topics.kept[p] += sent.get(p, [])
        now, left = left.then(sent, labels, order).cut(until)
        order = now.order
        read = {("labels", p): some for p, some in now.labels.items()}
        played = topics.learning.play(now.sent, read)
        assert topics.learning.positions.within == {
            p: some[0].skipped for p, some in left.sent.items() if some[0].skipped
        }
        plain.number_as(topics.learning)
        letters = []
        for what, record in order:
            place = record.partition, record.offset
            if what == "label":
                plain.label(record)
            elif place in direct:
                plain.corrected(direct[place])
            elif place in handed:
                value = plain.row(record)
                if value == "dead letter":
                    letters.append(place)
                else:
                    expected[record.partition].append((record.key, value))
        for p in rows:
            answer = played.answers.get(p)
            outputs = [(out.key, out.value) for out in answer.outputs] if answer else []
            assert outputs == expected[p]
        found = [(out.source.partition, out.source.offset)
                 for one in played.answers.values() for out in one.dead_letters]  # fmt: skip
        assert sorted(found) == sorted(letters)
        assert played.played == (bool(played.answers) and len(played.sent) > 0)
        if played.played:
            topics.told(played)
        assert same(topics.learning.learner, plain.learner)
        if rng.random() < 0.3:
            topics.restart()


def same(one: Learner, other: Learner) -> bool:
    """Whether two learners know the same, to the bit."""
    assert {name: of.corrector.to_bytes() for name, of in one.live.items()} == {
        name: of.corrector.to_bytes() for name, of in other.live.items()
    }
    assert one.to_bytes() == other.to_bytes()
    return True


def test_a_record_comes_as_it_was_handed_over() -> None:
    headers = [("h", b"1"), ("\udcff", None)]
    records = [Record("in", 1, 7 + i, 1000 * i - 1, b"k", None, headers) for i in range(200)]
    found, ends = [], []
    for data, last in pieces_of(records, 1000):
        assert len(data) <= 1000
        found += read_deferred(data).records
        ends.append(last)
    assert found == records
    assert ends[-1] == 200
    assert np.isnan(times_of(found)[0])

"""What the topics hold, judged from them alone, with a learner of its own.

Every record of the input has one output or dead letter; every output is what the correctors of the
state that it names make of its row; every state is what the state before and the events between
their offsets make, in their order, with a join in plain Python; and all of it bit by bit. States
have to be kept: a topic of theirs that was compacted cannot be judged.

Where records were deleted while the application ran, they are judged from what a `recorder` kept.
What was deleted before anybody read it is lost: nothing but what lies before the deleted offset
may be, a state that skips it goes on there exactly, and it is counted.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from stream_can import Corrector, InvalidPrediction
from stream_can.kafka import Settings
from stream_can.kafka.deferred import read_deferred
from stream_can.kafka.state import read_index, read_memory
from stream_can.learner import read_sent
from stream_can.learner.saved import SavedHead, opened
from stream_can.method.logits import of_logits
from stream_can.method.normalise import divided
from stream_can.method.segments import text_of
from stream_can.multilabel import MultiLabelCorrector
from stream_can.snapshot import decode
from tests.kafka.recorder import Recording, held_now
from tests.kafka.topics import read

OVERHEAD = 480
MOST_HELD = 100_000
CLASS_HEADER = "__connect.errors.exception.class.name"
Lane = tuple[str | None, str | None]
Deferred = tuple[int, int, bytes | None]
"""Partition, offset and key of a record: of several inputs of one name offsets come again."""


@dataclass
class Verdict:
    """What was compared."""

    outputs: int = 0
    dead_letters: int = 0
    states: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    """What became of them."""
    number: int = -1
    """Of the last state."""
    correctors: dict[Lane, Corrector] = field(default_factory=dict)
    """Of the last state."""
    requests: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    """What was deleted before it was read, by what it was."""
    deferred: dict[Deferred, Answer] = field(default_factory=dict)
    """What the learner made of records that were handed over to it."""
    unanswered: set[Deferred] = field(default_factory=set)
    """Those that were deleted before the learner read them."""


class Answer(NamedTuple):
    """What becomes of a row."""

    row: np.ndarray
    names: list[Any] | None
    """Of its set."""
    number: int
    """Of the state before."""


@dataclass(eq=False)
class Row:
    """A prediction that was sent, or handed over."""

    lane: Lane
    id: bytes | None
    p: np.ndarray
    receipt: np.ndarray
    columns: dict[str, Any] | None
    size: int
    fair: bool = True
    """Whether its label was not asked for because of what is in the row."""
    labelled: bool = False
    number: int = -1
    """Of all rows in the order in which they are learned."""
    known: dict[str, bool] = field(default_factory=dict)
    """Of multilabel rows those that somebody has said."""
    deferred: Deferred | None = None
    """Which it is of those that were handed over."""


NO_LETTER = Row((None, None), None, np.empty(0), np.empty(0), None, 0)
"""In place of a row: what was handed over cannot be read, and has no dead letter."""


class Label(NamedTuple):
    """A label, read."""

    id: bytes | None
    name: Any
    lane: Lane | None
    row: np.ndarray | None
    time: float | None
    weight: float | None = None


ReadRow = Callable[[int, Any, set[Any] | None], Row | None]


class Event(NamedTuple):
    """In the order in which events are learned."""

    key: float
    kind: int
    partition: int
    offset: int
    what: Any


def of_lane(named: Lane | None, lane: Lane) -> bool:
    """A label's model, or version, that is not given is any."""
    return named is None or all(a in (None, b) for a, b in zip(named, lane, strict=True))


class Plain:
    """A learner of dictionaries and bare correctors."""

    def __init__(self, settings: Settings, begins: dict[str | None, Corrector]) -> None:
        self.settings, self.begins = settings, begins
        self.correctors: dict[Lane, Corrector] = {}
        self.rows: deque[Row] = deque()
        self.of: dict[Lane, dict[bytes, Row]] = {}
        self.size = 0
        self.held: dict[Any, Label] = {}
        self.alone: dict[Any, Any] = {}
        self.clock, self.until = -math.inf, math.inf
        self.outcomes: Counter[str] = Counter()
        self.last: dict[Lane, int] = {}
        """Of each lane the number of its last prediction, or of the next one when it began."""
        self.number = 0
        self.made: dict[Deferred, tuple[np.ndarray, list[Any] | None]] = {}
        """What rows that were handed over became."""
        self.undead: Any = False
        """Which record that was handed over cannot be a row, and has no dead letter."""

    def corrector(self, lane: Lane) -> Corrector:
        if lane not in self.correctors:
            self.correctors[lane] = began(lane, self.correctors, self.begins)
            self.of[lane], self.last[lane] = {}, self.number
            if len(self.correctors) > self.settings.max_lanes:
                gone = min(self.correctors.keys() - {lane}, key=lambda one: self.last[one])
                del self.correctors[gone], self.of[gone]
                self.rows = deque(row for row in self.rows if row.lane != gone)
                self.size = sum(row.size for row in self.rows)
        return self.correctors[lane]

    def predict(self, row: Row, time: float) -> None:
        if not math.isnan(time):
            self.clock = max(self.clock, min(time, self.until))
            before = self.clock - self.settings.label_wait
            due = [x for x in self.held.items() if (x[1].time or 0) < before]
            for key, one in sorted(due, key=lambda x: x[1].time or 0):
                del self.held[key]
                self.prior(one)
        corrector = self.corrector(row.lane)
        self.last[row.lane] = row.number = self.number
        self.number += 1
        if row.deferred is not None:
            assert row.deferred not in self.made, "handed over twice"
            columns = row.columns and {name: [text] for name, text in row.columns.items()}
            given: dict[str, Any] = {"segments": columns} if columns else {}
            threshold = getattr(corrector, "threshold", None)  # of the labels before the row
            try:
                sent, receipts = corrector.process_many(row.p[None], receipt=True, **given)
            except InvalidPrediction:
                self.undead = f"no dead letter of {row.deferred}"
                return
            row.receipt = receipts[0]
            row.size += row.receipt.nbytes
            names = None
            if isinstance(corrector, MultiLabelCorrector):
                names = decided(corrector, sent[0], threshold)
            elif corrector.sets is not None:
                (inside,) = corrector.sets_of(sent, receipts)
                order = np.argsort(-sent[0].astype(np.float32), kind="stable")
                names = [corrector.classes[i] for i in order if inside[i]]
            self.made[row.deferred] = sent[0], names
        else:
            corrector.observe_one(row.p, **({"segments": row.columns} if row.columns else {}))
        if row.id is None:
            return
        self.rows.append(row)
        self.of[row.lane][row.id] = row
        self.size += row.size
        waiting = [
            key
            for key, one in self.held.items()
            if one.id == row.id and of_lane(one.lane, row.lane)
        ]
        if waiting:
            self.teach(row, self.held.pop(waiting[0]))
            self.outcomes["learned late"] += 1
        while self.size > self.settings.recent_mb * 2**20:
            self.forget()

    def copied(self) -> Any:
        """Another one that knows the same."""
        return copy.deepcopy(self, {id(self.settings): self.settings})

    def forget(self) -> Row:
        """The oldest prediction waits no more."""
        gone = self.rows.popleft()
        self.size -= gone.size
        if self.of[gone.lane].get(gone.id or b"") is gone:
            del self.of[gone.lane][gone.id or b""]
        return gone

    def forget_before(self, number: int) -> int:
        """The predictions before this one wait no more; how many had no label."""
        waited = 0
        while self.rows and self.rows[0].number < number:
            waited += not self.forget().labelled
        return waited

    def teach(self, row: Row, one: Label) -> None:
        row.labelled = True
        corrector = self.correctors[row.lane]
        if one.row is not None and one.row.tolist() != row.p.tolist():
            corrector.learn_one(one.row, one.name, weight=one.weight)
            return
        receipt = row.receipt
        if not row.fair and corrector.sets is not None:
            receipt = receipt.copy()
            receipt[-2] = -2  # it teaches no sets
        corrector.learn_one(
            row.p, one.name, receipt=receipt, segments=row.columns, weight=one.weight
        )

    def news(self, row: Row, name: Any) -> Any:
        return None if row.labelled else name

    def label(self, one: Label) -> None:
        self.outcomes[self.outcome(one)] += 1

    def outcome(self, one: Label) -> str:
        found = [
            self.of[lane][one.id]
            for lane in self.correctors
            if one.id is not None and of_lane(one.lane, lane) and one.id in self.of[lane]
        ]
        if found:
            waiting = [row for row in found if self.news(row, one.name)]
            for row in waiting:
                self.teach(row, one)
            return "learned" if waiting else "repeated"
        if one.row is not None:
            weighted = {} if one.weight is None else {"weight": one.weight}
            self.corrector(one.lane or (None, None)).learn_one(one.row, one.name, **weighted)
            return "learned"
        key = one.id, one.lane
        if one.id is not None and (key in self.alone or key in self.held):
            return "repeated"
        if one.time is not None and one.id is not None:
            self.held[key] = one
            if len(self.held) > MOST_HELD:
                self.prior(self.held.pop(next(iter(self.held))))
            return "held"
        self.prior(one)
        return "alone"

    def prior(self, one: Label) -> None:
        if one.id is not None:
            self.alone[one.id, one.lane] = None
        if one.lane is None and self.correctors.keys() <= {(None, None)}:
            self.corrector((None, None)).learn_one(None, one.name, weight=one.weight)
        self.outcomes["given up"] += 1


def names(corrector: Any) -> tuple[Any, ...]:
    """Of its classes, or labels."""
    found: tuple[Any, ...] = getattr(corrector, "classes", None) or corrector.labels
    return found


def began(
    lane: Lane, correctors: dict[Lane, Corrector], begins: dict[str | None, Corrector]
) -> Corrector:
    """What corrects a new model and version."""
    begin = begins.get(lane[0]) or begins[None]
    same = [x for x, one in correctors.items() if x[0] == lane[0] and names(one) == names(begin)]
    if not same:
        return type(begin).from_bytes(begin.to_bytes())
    best = same[0]
    for other in same[1:]:  # of several alike the newest
        of, to = (correctors[x].effective_sample_size for x in (best, other))
        best = other if to >= of else best
    return correctors[best].successor()


class SeveralPlain(Plain):
    """The same of multilabel rows: of each label the first word counts. The name of a label
    is {label: whether the row has it}."""

    def teach(self, row: Row, one: Label) -> None:
        new, other = self.news(row, one.name), one.row
        row.known |= new
        self.correctors[row.lane].learn_one(
            row.p if other is None else other, new, receipt=row.receipt if other is None else None
        )

    def news(self, row: Row, name: Any) -> Any:
        return {k: v for k, v in name.items() if k not in row.known}

    def outcome(self, one: Label) -> str:
        rows = [of[one.id] for x, of in self.of.items() if of_lane(one.lane, x) and one.id in of]
        key = one.id, one.lane
        known = self.alone.get(key, {})
        if not rows and one.id is not None and one.row is None:
            if key in self.alone and one.name.keys() <= known.keys():
                return "repeated"
            if key in self.held:
                before = self.held[key]
                if one.name.keys() <= before.name.keys():
                    return "repeated"
                self.held[key] = before._replace(name=one.name | before.name)
                return "held"
            if one.time is not None:
                self.held[key] = one
                return "held"
            self.prior(one)
            return "alone"
        return super().outcome(one)

    def prior(self, one: Label) -> None:
        known = self.alone.get((one.id, one.lane), {}) if one.id is not None else {}
        new = {k: v for k, v in one.name.items() if k not in known}
        if one.id is not None:
            self.alone[one.id, one.lane] = known | new
        if new and one.lane is None and self.correctors.keys() <= {(None, None)}:
            self.corrector((None, None)).learn_one(None, new)
        self.outcomes["given up"] += 1


class State(NamedTuple):
    """One that lies in its topic."""

    number: int
    index: Any
    memory: Any
    lanes: dict[Lane, bytes]
    begins: dict[str | None, bytes]


def states_of(servers: str, topic: str) -> list[State]:
    """All of them, the oldest first."""
    first = {one.offset: one for one in read(servers, topic, 0)}
    memories = {one.offset: one.value for one in read(servers, topic, 1)}
    found = []
    for offset, record in first.items():
        if record.key != b"index":
            continue
        index = read_index(record.value)
        lanes = {one.name: first[one.offset].value for one in index.lanes}
        begins = {one.model: first[one.offset].value for one in index.begins}
        found.append(
            State(
                offset,
                index,
                read_memory(b"".join(memories[at] for at in index.memory)),
                lanes,
                begins,
            )
        )
    return found


def json_label(settings: Settings) -> Callable[[Any], Label | None]:
    """Reads labels as the tests write them; None where that is none."""

    def read_one(record: Any) -> Label | None:
        if record.value is None:
            return None
        try:
            says = json.loads(record.value)
            name, row = says[fields.label], says.get(fields.raw)
            row = None if row is None else row_of(row, settings)
            weight = None if settings.weight is None else at(says, settings.weight)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        lane = None
        if settings.has_lanes:
            lane = at(says, settings.model), at(says, settings.version)
            lane = None if lane == (None, None) else lane
        time = record.timestamp / 1000 if record.timestamp >= 0 else None
        names = name if settings.rows == "multilabel" and isinstance(name, list | dict) else [name]
        if not known.issuperset(names) or not (weight is None or 0.01 <= weight <= 100):
            return None
        if settings.rows == "multilabel" and isinstance(name, list):
            name = {one: one in name for one in settings.classes or ()}
        return Label(record.key, name, lane, row, time, weight)

    known, fields = {*(settings.classes or ())}, settings.fields
    return read_one


def judge(
    servers: str,
    settings: Settings,
    *,
    read_label: Callable[[Any], Label | None] | None = None,
    parse: Callable[[bytes], Any] = json.loads,
    recorded: Mapping[str, Sequence[Recording]] | None = None,
) -> Verdict:
    """Judge all that the topics of an application hold.

    Parameters
    ----------
    read_label
        Reads the record of a label; None where that is none.
    parse
        Reads the message of a prediction, or of an output.
    recorded
        What topics held, by name, where more than they hold now.
    """
    s, verdict = settings, Verdict()
    states = states_of(servers, s.state_topic)
    topics = {name: found for name, found in (recorded or {}).items()}
    for name in filter(None, (s.sent_topic, s.labels, s.input)):
        topics[name] = topics.get(name) or [held_now(servers, name)]
    read_label = read_label or json_label(s)
    letters = partitions_of(servers, s.dead_letters)
    dead = Counter(letter_of(one) for found in letters.values() for one in found)
    for (topic, *_), n in dead.items():
        assert n <= len(topics.get(topic, [""])), "a record has two dead letters"
    verdict.dead_letters = dead.total()
    unreadable = {  # with their keys: of several inputs of one name offsets come again
        (p, offset, one.key)
        for found in letters.values()
        for one in found
        for topic, p, offset in [letter_of(one)]
        if topic == s.input and b"RefusedOutput" not in dict(one.headers)[CLASS_HEADER]
    }
    random: set[Any] | None = None
    if s.ask is not None:
        requests = [one for found in partitions_of(servers, s.requests_topic).values()
                    for one in found]  # fmt: skip
        says = [json.loads(one.value) for one in requests]
        where = [
            (one.get("partition", 0), one.get("offset", 0), record.key)
            if "topic" in one
            else one["id"]
            for record, one in zip(requests, says, strict=True)
        ]
        assert len({*where}) == len(where), "a label is asked for twice"
        verdict.requests = len(where)
        random = {
            place for place, one in zip(where, says, strict=True) if one["reason"] == "random"
        }
    readable = deferred_reader(s, parse, unreadable)
    judge_states(states, topics, read_label, readable, s, verdict, dead, random)
    if s.input:
        unread = Counter((letter_of(one), one.key) for found in letters.values() for one in found)
        judge_outputs(servers, s, states, topics, dead, unread, parse, verdict)
    assert not +dead, f"dead letters of what is none: {+dead}"
    return verdict


class Answered(NamedTuple):
    """An answer of a server."""

    asked: Any
    answer: Any
    number: int
    """Of the state that it names."""


def judge_answers(servers: str, s: Settings, answers: list[Answered]) -> int:
    """Every answer is what the state that it names makes of the row, and lies in the topic of sent
    batches once at most; how many do not."""
    f = s.fields
    by_number = {state.number: state for state in states_of(servers, s.state_topic)}
    known: dict[tuple[int, Lane], Corrector] = {}
    expected: dict[str, Any] = {}
    for asked, answer, number in answers:
        lane = (at(asked, s.model), at(asked, s.version)) if s.has_lanes else (None, None)
        if (number, lane) not in known:
            known[number, lane] = corrector_of(by_number[number], lane)
        corrector, columns = known[number, lane], columns_of(asked, s) if s.segments else None
        given = {"segments": columns} if columns else {}
        p = row_in(asked, s)
        row = corrector.correct_one(p, **given)
        assert answer[f.probs] == row.tolist(), asked
        assert answer[f.raw] == asked[f.probs]
        assert rest_of(answer, f.probs, f.raw, "set") == rest_of(asked, f.probs)
        if s.rows == "multilabel":
            assert answer["set"] == decided(corrector, row)
        if s.sets is not None:
            assert answer["set"] == corrector.predict_set_one(p, segments=columns)
        expected[asked[s.id]] = p.tolist(), answer[f.probs]
    sent: Counter[str] = Counter()
    for records in partitions_of(servers, s.sent_topic).values():
        for record in records:
            if {"stream-can-deferred", "stream-can-played"} & dict(record.headers).keys():
                continue
            batch = read_sent(record.value)
            places = batch.places()
            for i, id in enumerate(batch.ids):
                lane = batch.versions[batch.of[i]]
                if id.decode() in expected:  # else its answer did not arrive
                    both = lane.raw[places[i]].tolist(), lane.sent[places[i]].tolist()
                    assert both == expected[id.decode()]
                    sent[id.decode()] += 1
    assert set(sent.values()) <= {1}, "a prediction was sent twice"
    return len(expected) - len(sent)


def partitions_of(servers: str, topic: str) -> dict[int, list[Any]]:
    """What each partition of a topic holds now."""
    return held_now(servers, topic).records


def letter_of(record: Any) -> tuple[str, int, int]:
    """Where a dead letter came from."""
    says = {name: value.decode() for name, value in record.headers if name.startswith("__connect")}
    names = ("topic", "partition", "offset")
    topic, partition, offset = (says[f"__connect.errors.{name}"] for name in names)
    return topic, int(partition), int(offset)


def judge_states(
    states: list[State],
    topics: Mapping[str, Sequence[Recording]],
    read_label: Callable[[Any], Label | None],
    read_row: ReadRow,
    s: Settings,
    verdict: Verdict,
    dead: Counter[tuple[str, int, int]],
    random: set[Any] | None,
) -> None:
    """Every state is made of the one before, and nothing comes twice."""
    first = states[0]
    assert not first.lanes, "the first state knows nothing"
    begins = {model: loaded(data) for model, data in first.begins.items()}
    plain, before = (SeveralPlain if s.rows == "multilabel" else Plain)(s, begins), first
    plays = Plays(first.memory.sent)
    for state in states[1:]:
        assert state.index.mark == first.index.mark
        head = opened(state.memory.learner)[0]
        steps = [
            Step.between(before, state, topics[name], name, name == s.sent_topic)
            for name in filter(None, (s.sent_topic, s.labels))
        ]
        events = sorted(
            events_of(steps, state, s, read_label, read_row, random), key=lambda one: one[:4]
        )
        # A process that takes over finds predictions deleted which wait for their label, and goes
        # on behind what was deleted before it was learned. Neither is said but by what follows.
        number = plain.number
        oldest = plain.rows[0].number if plain.rows else number
        gone = plays.gone(oldest, head.oldest, steps[0].now.deleted)
        gone = number if steps[0].made_again else gone
        passes = [False, True] if all(one.may_pass for one in steps) and events else [False]
        bad = Counter(
            (s.labels or "", one.partition, one.offset[0])
            for one in events
            if one.kind and one.what is None
        )
        undead: Any = not bad <= dead and f"no dead letters of {bad - dead}"
        rows = [one for one in events if not one.kind]
        if silent := [one for one in rows if one.what[0] is NO_LETTER]:
            undead = f"no dead letter of what was handed over at {silent[0].offset}"
        ways = list(itertools.product([0, gone] if gone else [0], passes))
        for forgotten, passed in ways:
            trial = plain.copied() if len(ways) > 1 else plain
            waited = trial.forget_before(forgotten)
            trial.until = -math.inf if head.clock is None else head.clock
            for event in [] if passed else events:
                if event.kind == 0:
                    row, time = event.what
                    if row is NO_LETTER:
                        continue
                    trial.predict(replace(row, known={}), time)  # one for each way
                elif event.what is not None:
                    trial.label(event.what)
            silently = undead or trial.undead  # no state is written of what is never read
            if (wrong := differs(trial, state, head) or (not passed and silently)) is False:
                break
        else:
            raise AssertionError(f"state {state.number}: {wrong}")
        plain = trial
        verdict.deferred |= {
            place: Answer(*made, before.number) for place, made in plain.made.items()
            if place not in verdict.deferred
        }  # fmt: skip
        verdict.lost["predictions that waited for a label"] += waited
        if passed:
            verdict.lost["labels"] += sum(one.kind for one in events)
            verdict.lost["rows to learn"] += len(rows)
            verdict.unanswered |= steps[0].handed_over(state)
        else:
            dead -= bad
        verdict.lost["labels"] += steps[-1].left if s.labels else 0
        skipped = steps[0].moved and steps[0].may_pass and (passed or plain.number == number)
        plays.add(plain.number, state.memory.sent, skipped)
        before = state
        verdict.states += 1
    verdict.labels, verdict.number = plain.outcomes, before.number
    verdict.correctors = plain.correctors


def differs(plain: Plain, state: State, head: SavedHead) -> Any:
    """In what a state is not what was made; False where it is."""
    if plain.number != state.memory.number:
        return "rows", plain.number, state.memory.number
    if plain.correctors.keys() != state.lanes.keys():
        return sorted(plain.correctors, key=str), sorted(state.lanes, key=str)
    for lane, data in state.lanes.items():
        if plain.correctors[lane].to_bytes() != data:
            return lane
    if plain.clock != plain.until:
        return plain.clock, plain.until
    if {one.id for one in plain.held.values()} != {one.id for one in head.held}:
        return "held labels", len(plain.held), len(head.held)
    return False


class Plays:
    """Which sent batches were played together: a process that takes over needs them all."""

    def __init__(self, sent: Mapping[int, int]) -> None:
        self._ends = dict(sent)
        self._played: list[tuple[int, dict[int, int] | None]] = []
        """The number behind the rows of each, and where it began in the partitions that moved; None
        where nothing before can be played again."""

    def add(self, number: int, sent: Mapping[int, int], skipped: bool) -> None:
        """A state, whose next row has this number; whether sent batches may have been skipped."""
        if skipped:
            self._played.append((number, None))
        elif number == (self._played[-1][0] if self._played else 0):
            return  # what moved without a row counts with the next
        else:
            moved = {p: self._ends.get(p, 0) for p in sent if sent[p] != self._ends.get(p, 0)}
            self._played.append((number, moved))
        self._ends = dict(sent)

    def gone(self, oldest: int, now: int, deleted: Mapping[int, int]) -> int:
        """Before which number predictions cannot be played again, where that may be why the oldest
        that is kept is another one now; else 0."""
        found = [
            number
            for number, begun in self._played
            if oldest < number <= now
            and (begun is None or any(at < deleted.get(p, 0) for p, at in begun.items()))
        ]
        return max(found, default=0)


class Step(NamedTuple):
    """From one state to the next in one topic."""

    is_sent: bool
    now: Recording
    spans: dict[int, tuple[int, int]]
    """Of each partition the offsets."""
    made_again: bool
    left: int
    """How many records of the topic before, of the same name, nobody read."""
    within: tuple[dict[int, int], dict[int, int]]
    """Of each partition how many records of the deferred batch at its first offset, and at its next
    one, were played before."""

    @classmethod
    def between(
        cls, before: State, state: State, found: Sequence[Recording], topic: str, is_sent: bool
    ) -> Step:
        was, now = (one.memory.topics.get(topic, "") for one in (before, state))
        starts, stops = (
            one.memory.sent if is_sent else one.memory.labels.get(topic, {})
            for one in (before, state)
        )
        if made_again := (was != now and len(found) > 1):
            left = sum(
                record.offset >= starts.get(p, 0)
                for p, records in recording_of(found, was).records.items()
                for record in records
            )
            starts = {}
        spans = {p: (starts.get(p, 0), stop) for p, stop in stops.items()}
        assert all(start <= stop for start, stop in spans.values()), spans
        within = (before.memory.within, state.memory.within) if is_sent else ({}, {})
        left = left if made_again else 0
        return cls(is_sent, recording_of(found, now), spans, made_again, left, within)

    @property
    def moved(self) -> bool:
        moved = any(start < stop for start, stop in self.spans.values())
        return self.made_again or moved or self.within[0] != self.within[1]

    def handed_over(self, state: State) -> set[Deferred]:
        """Which records were handed over in these sent batches."""
        found = set[Deferred]()
        for p, (start, stop) in self.spans.items():
            first = self.within[0].get(p, 0)
            for one in self.now.records.get(p, []):
                is_deferred = "stream-can-deferred" in dict(one.headers)
                if is_deferred and start <= one.offset < stop and is_of(one, state):
                    every = read_deferred(one.value).records
                    every = every[first:] if one.offset == start else every
                    found |= {(p, each.offset, each.key) for each in every}
        return found

    @property
    def may_pass(self) -> bool:
        """Whether it may go on behind what was deleted: wherever it moved it is there exactly."""
        return all(
            stop in self.now.cuts.get(p, ()) for p, (start, stop) in self.spans.items()
            if start < stop
        )  # fmt: skip


def recording_of(found: Sequence[Recording], id: str) -> Recording:
    """That of a topic's id."""
    return next((one for one in found if one.id in ("", id)), found[0])


def steady(times: list[float]) -> Iterator[float]:
    """Each no later than the median of the up to 8 known ones behind it, the lower of two."""
    for i, time in enumerate(times):
        behind = sorted(one for one in times[i + 1 : i + 9] if not math.isnan(one))
        yield min(time, behind[(len(behind) - 1) // 2]) if behind else time


def events_of(
    steps: Sequence[Step],
    state: State,
    s: Settings,
    read_label: Callable[[Any], Label | None],
    read_row: ReadRow,
    random: set[Any] | None,
) -> Iterator[Event]:
    """The events from one state to the next; that of a label which is none has nothing."""
    for step in steps:
        for p, (start, stop) in step.spans.items():
            first, more = (within.get(p, 0) for within in step.within)
            stop += more > 0
            records = [one for one in step.now.records.get(p, []) if start <= one.offset < stop]
            if step.is_sent:
                parts = {start: (first, None)} if first else {}
                if more:
                    parts[stop - 1] = parts.get(stop - 1, (0, None))[0], more
                yield from rows_of(p, records, state, s, read_row, random, parts)
            else:
                yield from labels_of(p, records, read_label)


def rows_of(
    p: int,
    records: list[Any],
    state: State,
    s: Settings,
    read_row: ReadRow,
    random: set[Any] | None,
    parts: Mapping[int, tuple[int, int | None]],
) -> Iterator[Event]:
    """``parts``: of deferred batches, by offset, from which record to before which."""
    latest = -math.inf
    found = list[tuple[tuple[int, int], float, Row]]()
    for record in records:
        if not is_of(record, state) or "stream-can-played" in dict(record.headers):
            continue
        most = record.timestamp / 1000
        if "stream-can-deferred" in dict(record.headers):
            part = slice(*parts.get(record.offset, (0, None)))
            for i, one in enumerate(read_deferred(record.value).records[part]):
                if (row := read_row(p, one, random)) is not None:
                    time = one.timestamp / 1000 if one.timestamp >= 0 else math.nan
                    found.append(((record.offset, i), min(time, most), row))
            continue
        batch = read_sent(record.value)
        places = batch.places()
        for i, (id, time) in enumerate(zip(batch.ids, batch.times.tolist(), strict=True)):
            lane = batch.versions[batch.of[i]]
            columns = {c: texts[i] for c, texts in batch.segments.items()} or None
            p_, receipt = lane.raw[places[i]], lane.receipts[places[i]].copy()
            size = size_of(id, p_, columns) + receipt.nbytes
            place = (p, int(batch.numbers[i]), id) if s.input else (id or b"").decode()
            fair = random is None or place in random
            row = Row(lane.name, id, p_, receipt, columns, size, fair)
            found.append(((record.offset, i), min(time, most), row))
    count = steady([time for _, time, _ in found])
    for offset, _, row in found:
        time = next(count)
        latest = latest if math.isnan(time) else max(latest, time)
        yield Event(latest, 0, p, offset, (row, time))


def size_of(id: bytes | None, p: np.ndarray, columns: dict[str, Any] | None) -> int:
    """Bytes of a prediction that waits, without its receipt."""
    texts = sum(len(text or "") for text in (columns or {}).values())
    return OVERHEAD + len(id or b"") + 16 * len(p) + texts


def deferred_reader(
    s: Settings, parse: Callable[[bytes], Any], unreadable: set[tuple[int, int, bytes | None]]
) -> ReadRow:
    """Reads records that were handed over; None where one has no row."""

    def read_one(p: int, record: Any, random: set[Any] | None) -> Row | None:
        if record.value is None or (p, record.offset, record.key) in unreadable:
            return None
        try:
            says = parse(record.value)
        except (ValueError, RecursionError):
            return NO_LETTER
        lane: Lane = (at(says, s.model), at(says, s.version)) if s.has_lanes else (None, None)
        row = row_in(says, s)
        columns = None
        if s.segments:
            texts = columns_of(says, s)
            columns = {c: None if x is None else text_of(x) for c, x in texts.items()}
        id = id_in(says, record, s)
        fair = random is None or (p, record.offset, id) in random
        size = size_of(id, row, columns)
        place = p, record.offset, record.key
        return Row(lane, id, row, np.empty(0), columns, size, fair, deferred=place)

    return read_one


def id_in(says: Any, record: Any, s: Settings) -> bytes | None:
    """The id of a prediction, which labels name."""
    if s.id is None:
        key: bytes | None = record.key
        return key
    if s.id.startswith("header:"):
        return dict(record.headers).get(s.id.removeprefix("header:"))
    value = at(says, s.id)
    return None if value is None else str(value).encode()


def row_in(says: Any, s: Settings) -> np.ndarray:
    """The row of a message, as it is corrected."""
    return row_of(at(says, s.fields.probs), s)


def row_of(given: Any, s: Settings) -> np.ndarray:
    """What a message has for a row, as it is corrected."""
    if isinstance(given, dict):  # a class that it does not name has none
        given = [given.get(name, 0) for name in s.classes or ()]
    row = np.array(given, float)
    if s.logits:
        return of_logits(row[None], several=s.rows == "multilabel")[0][0]
    return row if s.rows == "multilabel" else divided(row[None], s.normalise)[0][0]


def labels_of(
    p: int, records: list[Any], read_label: Callable[[Any], Label | None]
) -> Iterator[Event]:
    latest = -math.inf
    told = []
    for record in records:
        one = read_label(record)
        if one is not None:
            told.append((record, one))
        elif record.value is not None:
            yield Event(-math.inf, 1, p, (record.offset, 0), None)
    count = steady([math.nan if one.time is None else one.time for _, one in told])
    for record, one in told:
        time = next(count)
        latest = latest if math.isnan(time) else max(latest, time)
        yield Event(latest, 1, p, (record.offset, 0), one)


def judge_outputs(
    servers: str,
    s: Settings,
    states: list[State],
    topics: Mapping[str, Sequence[Recording]],
    dead: Counter[tuple[str, int, int]],
    unread: Counter[tuple[tuple[str, int, int], bytes | None]],
    parse: Callable[[bytes], Any],
    verdict: Verdict,
) -> None:
    """Every record of the input was answered once, by the state that its output names, but for
    those that were deleted before somebody read them. Dead letters are told by their keys too: of
    several inputs of one name offsets come again."""
    f = s.fields
    by_number = {state.number: state for state in states}
    correctors: dict[int, dict[Any, Corrector]] = {}
    every, outputs = topics[s.input], partitions_of(servers, s.output)
    sent = Counter(
        (which_of(every, record.timestamp), p, number)
        for recording in topics[s.sent_topic]
        for p, records in recording.records.items()
        for record in records
        if is_of(record, states[0]) and "stream-can-played" not in dict(record.headers)
        if "stream-can-next" in dict(record.headers)  # others are of servers
        for number in offsets_in(record)
    )
    assert set(sent.values()) <= {1}, "a prediction was sent twice"
    outs = {p: iter(by_topic(found, p, every)) for p, found in outputs.items()}
    for which, p, record in [
        (which, p, record)
        for which, inputs in enumerate(every)
        for p, records in inputs.records.items()
        for record in records
    ]:
        inputs, out = every[which], outs[p]
        place = s.input, p, record.offset
        if unread[place, record.key]:
            unread[place, record.key] -= 1
            dead[place] -= 1
            continue
        gone = which + 1 < len(every) or record.offset < inputs.deleted.get(p, 0)
        if gone and (which, p, record.offset) not in sent:
            verdict.lost["predictions to correct"] += 1
            continue
        if (p, record.offset, record.key) in verdict.unanswered:
            verdict.lost["predictions that were handed over"] += 1
            continue
        made = next(out)
        where = f"offset {record.offset} of partition {p}"
        assert (made.key, made.timestamp) == (record.key, record.timestamp), where
        headers = dict(made.headers)
        assert [*made.headers[: len(record.headers)]] == [*record.headers], where
        verdict.outputs += 1
        if record.value is None:
            assert made.value is None
            continue
        number = int(headers["stream-can-state"])
        state, was, says = by_number[number], parse(record.value), parse(made.value)
        if isinstance(at(was, f.probs), dict):
            continue  # of another form than the judge knows
        p_ = row_in(was, s)
        if (answer := verdict.deferred.get((p, record.offset, record.key))) is not None:
            assert number == answer.number, where
            require_message(says, was, answer.row, answer.names, s, where)
            continue
        lane: Lane = None, None
        if s.has_lanes:
            lane = at(was, s.model), at(was, s.version)
        known = correctors.setdefault(number, {})
        if lane not in known:
            known[lane] = corrector_of(state, lane)
        columns = None
        if s.segments:
            columns = columns_of(was, s)
        row = known[lane].correct_one(p_, **({"segments": columns} if columns else {}))
        in_set = None
        if s.rows == "multilabel":
            in_set = decided(known[lane], row)
        if s.sets is not None:
            in_set = known[lane].predict_set_one(p_, segments=columns)
        require_message(says, was, row, in_set, s, where)
    for p, out in outs.items():
        assert next(out, None) is None, f"more outputs than inputs in partition {p}"


def by_topic(outputs: list[Any], p: int, every: Sequence[Recording]) -> list[Any]:
    """Outputs of a partition, those of a topic that was made again later behind those of the one
    before: what was handed over of that may be answered later."""
    of = {
        (record.key, record.timestamp): which
        for which, inputs in enumerate(every)
        for record in inputs.records.get(p, ())
    }
    return sorted(outputs, key=lambda one: of.get((one.key, one.timestamp), len(every)))


def require_message(
    says: Any, was: Any, row: np.ndarray, names: list[Any] | None, s: Settings, where: str
) -> None:
    """An output is the message of the input, with the corrected row and the names in its set."""
    f = s.fields
    assert at(says, f.probs) == kept_as(row, at(says, f.probs)), where
    raw = ".".join([*f.probs.split(".")[:-1], f.raw] if s.format != "avro" else [f.raw])
    assert at(says, raw) == at(was, f.probs), where
    assert rest_of(says, f.probs, raw, "set", "decision") == rest_of(was, f.probs), where
    assert says.get("decision") == cheapest(at(says, f.probs), s), where
    if names is not None:
        assert says["set"] == names, where


def cheapest(row: Any, s: Settings) -> str | None:
    """The action whose cost times probability sums to least, the first of several; None without
    costs."""
    sums = {}
    for action, cost in s.costs.items():
        of_class = cost if isinstance(cost, dict) else {"*": cost}
        sums[action] = sum(
            float(p) * of_class.get(str(name), of_class.get("*", 0.0))
            for name, p in zip(s.classes or (), row, strict=False)
        )
    return min(sums, key=sums.__getitem__) if sums else None


def offsets_in(record: Any) -> list[int]:
    """Of the input, which a sent or deferred batch holds."""
    if "stream-can-deferred" in dict(record.headers):
        return [one.offset for one in read_deferred(record.value).records]
    found: list[int] = read_sent(record.value).numbers.tolist()
    return found


def which_of(found: Sequence[Recording], timestamp: int) -> int:
    """Which of the topics of one name was there at a time."""
    return sum(one.ended <= timestamp / 1000 for one in found)


def is_of(record: Any, state: State) -> bool:
    """Whether a sent batch is of the application of a state."""
    mark: bytes | None = dict(record.headers).get("stream-can-mark")
    return mark == state.index.mark.encode()


def at(message: Any, path: str | None) -> Any:
    """What a message has at a path; None where it has nothing."""
    for name in (path or "").split("."):
        message = message.get(name) if isinstance(message, dict) else None
    return message


def rest_of(message: Any, *paths: str) -> Any:
    """A copy without what stands at these paths."""
    copied = copy.deepcopy(message)
    for path in paths:
        *outer, last = path.split(".")
        inner = copied
        for name in outer:
            inner = inner.get(name, {})
        inner.pop(last, None)
    return copied


def kept_as(row: Any, found: Any) -> Any:
    """A row as a message keeps it: of float32 where its numbers are."""
    if found == np.array(found, np.float32).tolist():
        return np.array(row, np.float32).tolist()
    return row.tolist()


def loaded(data: bytes) -> Any:
    """The corrector of a snapshot."""
    several = "multilabel" in decode(data).head
    return (MultiLabelCorrector if several else Corrector).from_bytes(data)


def decided(corrector: Any, row: Any, threshold: float | None = None) -> list[Any]:
    """The labels that a row is said to have, the likeliest first."""
    order = np.argsort(-row.astype(np.float32), kind="stable")
    least = corrector.threshold if threshold is None else threshold
    return [corrector.labels[i] for i in order if row[i] >= least]


def corrector_of(state: State, lane: Lane) -> Corrector:
    """What a state corrects a model and version by."""
    if lane in state.lanes:
        return loaded(state.lanes[lane])
    lanes = {name: loaded(data) for name, data in state.lanes.items()}
    begins = {model: loaded(data) for model, data in state.begins.items()}
    return began(lane, lanes, begins)


def columns_of(message: Any, s: Settings) -> dict[str, Any]:
    """What a message gives of the declared columns: texts, whole numbers and booleans."""
    found = {}
    for name in s.segments or ():
        value: Any = message
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        whole = type(value) is int or (type(value) is float and value.is_integer())
        fits = isinstance(value, str | bool) or whole
        found[name] = value if fits else None
    return found

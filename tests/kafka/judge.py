"""What the topics hold, judged from them alone, with a learner of its own.

Every record of the input has one output or dead letter; every output is what the correctors of the
state that it names make of its row; every state is what the state before and the events between
their offsets make, in their order, with a join in plain Python; and all of it bit by bit. States
have to be kept: a topic of theirs that was compacted cannot be judged.
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stream_can import Corrector
from stream_can.kafka import Settings
from stream_can.kafka.state import read_index, read_memory
from stream_can.learner import read_sent
from stream_can.learner.saved import opened
from stream_can.multilabel import MultiLabelCorrector
from stream_can.snapshot import is_of_kind
from tests.kafka.topics import read

OVERHEAD = 480
MOST_HELD = 100_000
Lane = tuple[str | None, str | None]


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


@dataclass(eq=False)
class Row:
    """A prediction that was sent."""

    lane: Lane
    id: bytes | None
    p: np.ndarray
    receipt: np.ndarray
    columns: dict[str, Any] | None
    size: int
    fair: bool = True
    """Whether its label was not asked for because of what is in the row."""
    labelled: bool = False
    known: dict[str, bool] = field(default_factory=dict)
    """Of several labels those that somebody has said."""


class Label(NamedTuple):
    """A label, read."""

    id: bytes | None
    name: Any
    lane: Lane | None
    row: list[float] | None
    time: float | None


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
        self.last[row.lane] = self.number
        self.number += 1
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
            self.teach(row, self.held.pop(waiting[0]).name)
            self.outcomes["learned late"] += 1
        while self.size > self.settings.recent_mb * 2**20:
            gone = self.rows.popleft()
            self.size -= gone.size
            if self.of[gone.lane].get(gone.id or b"") is gone:
                del self.of[gone.lane][gone.id or b""]

    def teach(self, row: Row, name: Any, other: list[float] | None = None) -> None:
        row.labelled = True
        corrector = self.correctors[row.lane]
        if other is not None and other != row.p.tolist():
            corrector.learn_one(other, name)
            return
        receipt = row.receipt
        if not row.fair and corrector.sets is not None:
            receipt = receipt.copy()
            receipt[-2] = -2  # it teaches no sets
        corrector.learn_one(row.p, name, receipt=receipt, segments=row.columns)

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
                self.teach(row, one.name, one.row)
            return "learned" if waiting else "repeated"
        if one.row is not None:
            self.corrector(one.lane or (None, None)).learn_one(one.row, one.name)
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
            self.corrector((None, None)).learn_one(None, one.name)
        self.outcomes["given up"] += 1


def began(
    lane: Lane, correctors: dict[Lane, Corrector], begins: dict[str | None, Corrector]
) -> Corrector:
    """What corrects a new model and version."""
    begin = begins.get(lane[0]) or begins[None]
    same = [x for x, one in correctors.items() if x[0] == lane[0] and one.classes == begin.classes]
    if not same:
        return type(begin).from_bytes(begin.to_bytes())
    best = same[0]
    for other in same[1:]:  # of several alike the newest
        of, to = (correctors[x].effective_sample_size for x in (best, other))
        best = other if to >= of else best
    return correctors[best].successor()


class SeveralPlain(Plain):
    """The same of rows of several labels: of each label the first word counts. The name of a label
    is {label: whether the row has it}."""

    def teach(self, row: Row, name: Any, other: list[float] | None = None) -> None:
        new = self.news(row, name)
        row.known |= new
        self.correctors[row.lane].learn_one(
            row.p if other is None else other, new, receipt=row.receipt if other is None else None
        )

    def news(self, row: Row, name: Any) -> Any:
        return {k: v for k, v in name.items() if k not in row.known}

    def outcome(self, one: Label) -> str:
        row = self.of.get((None, None), {}).get(one.id or b"")
        key = one.id, one.lane
        known = self.alone.get(key, {})
        if row is None and one.id is not None and one.row is None:
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
        if new:
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
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        lane = None
        if settings.has_lanes:
            lane = at(says, settings.model), at(says, settings.version)
            lane = None if lane == (None, None) else lane
        time = record.timestamp / 1000 if record.timestamp >= 0 else None
        names = name if settings.several and isinstance(name, list | dict) else [name]
        if not known.issuperset(names):
            return None
        if settings.several and isinstance(name, list):
            name = {one: one in name for one in settings.classes or ()}
        return Label(record.key, name, lane, row, time)

    known, fields = {*(settings.classes or ())}, settings.fields
    return read_one


def judge(
    servers: str,
    settings: Settings,
    *,
    read_label: Callable[[Any], Label | None] | None = None,
    parse: Callable[[bytes], Any] = json.loads,
) -> Verdict:
    """Judge all that the topics of an application hold.

    Parameters
    ----------
    read_label
        Reads the record of a label; None where that is none.
    parse
        Reads the message of a prediction, or of an output.
    """
    s, verdict = settings, Verdict()
    states = states_of(servers, s.state_topic)
    sent = partitions_of(servers, s.sent_topic)
    labels = partitions_of(servers, s.labels) if s.labels else {}
    read_label = read_label or json_label(s)
    letters = partitions_of(servers, s.dead_letters)
    dead = {letter_of(one) for found in letters.values() for one in found}
    assert len(dead) == sum(map(len, letters.values())), "a record has two dead letters"
    verdict.dead_letters = len(dead)
    random: set[Any] | None = None
    if s.ask is not None:
        requests = [one for found in partitions_of(servers, s.requests_topic).values()
                    for one in found]  # fmt: skip
        says = [json.loads(one.value) for one in requests]
        where = [
            (one.get("partition", 0), one.get("offset", 0)) if "topic" in one else one["id"]
            for one in says
        ]
        assert len({*where}) == len(where), "a label is asked for twice"
        verdict.requests = len(where)
        random = {
            place for place, one in zip(where, says, strict=True) if one["reason"] == "random"
        }
    judge_states(states, sent, labels, read_label, s, verdict, dead, random)
    if s.input:
        judge_outputs(servers, s, states, dead, parse, verdict)
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
        row = corrector.correct_one(asked[f.probs], **given)
        assert answer[f.probs] == row.tolist(), asked
        assert answer[f.raw] == asked[f.probs]
        assert rest_of(answer, f.probs, f.raw, "set") == rest_of(asked, f.probs)
        if s.several:
            assert answer["set"] == decided(corrector, row)
        if s.sets is not None:
            assert answer["set"] == corrector.predict_set_one(asked[f.probs], segments=columns)
        expected[asked[s.id]] = asked[f.probs], answer[f.probs]
    sent: Counter[str] = Counter()
    for records in partitions_of(servers, s.sent_topic).values():
        for record in records:
            batch = read_sent(record.value)
            places = batch.places()
            for i, id in enumerate(batch.ids):
                lane = batch.lanes[batch.of[i]]
                if id.decode() in expected:  # else its answer did not arrive
                    both = lane.raw[places[i]].tolist(), lane.sent[places[i]].tolist()
                    assert both == expected[id.decode()]
                    sent[id.decode()] += 1
    assert set(sent.values()) <= {1}, "a prediction was sent twice"
    return len(expected) - len(sent)


def partitions_of(servers: str, topic: str) -> dict[int, list[Any]]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=servers)
    try:
        numbers = sorted(consumer.partitions_for_topic(topic) or ())
    finally:
        consumer.close()
    return {p: read(servers, topic, p) for p in numbers}


def letter_of(record: Any) -> tuple[str, int, int]:
    """Where a dead letter came from."""
    says = {name: value.decode() for name, value in record.headers if name.startswith("__connect")}
    names = ("topic", "partition", "offset")
    topic, partition, offset = (says[f"__connect.errors.{name}"] for name in names)
    return topic, int(partition), int(offset)


def judge_states(
    states: list[State],
    sent: dict[int, list[Any]],
    labels: dict[int, list[Any]],
    read_label: Callable[[Any], Label | None],
    s: Settings,
    verdict: Verdict,
    dead: set[tuple[str, int, int]],
    random: set[Any] | None,
) -> None:
    """Every state is made of the one before, and nothing comes twice."""
    first = states[0]
    assert not first.lanes, "the first state knows nothing"
    begins = {model: loaded(data) for model, data in first.begins.items()}
    plain, before = (SeveralPlain if s.several else Plain)(s, begins), first
    for state in states[1:]:
        assert state.index.mark == first.index.mark
        clock = opened(state.memory.learner)[0].clock
        plain.until = -math.inf if clock is None else clock
        events = list(between(before, state, sent, labels, s, read_label, dead, random))
        for event in sorted(events, key=lambda one: one[:4]):
            if event.kind == 0:
                plain.predict(*event.what)
            else:
                plain.label(event.what)
        both = sorted(plain.correctors, key=str), sorted(state.lanes, key=str)
        assert both[0] == both[1], state.number
        for lane, data in state.lanes.items():
            assert plain.correctors[lane].to_bytes() == data, (state.number, lane)
        assert plain.clock == plain.until, state.number
        before = state
        verdict.states += 1
    verdict.labels, verdict.number = plain.outcomes, before.number
    verdict.correctors = plain.correctors


def steady(times: list[float]) -> Iterator[float]:
    """Each no later than the median of the up to 8 known ones behind it, the lower of two."""
    for i, time in enumerate(times):
        behind = sorted(one for one in times[i + 1 : i + 9] if not math.isnan(one))
        yield min(time, behind[(len(behind) - 1) // 2]) if behind else time


def between(
    before: State,
    state: State,
    sent: dict[int, list[Any]],
    labels: dict[int, list[Any]],
    s: Settings,
    read_label: Callable[[Any], Label | None],
    dead: set[tuple[str, int, int]],
    random: set[Any] | None,
) -> Iterator[Event]:
    """The events between the offsets of two states."""
    for p, records in sent.items():
        start, stop = before.memory.sent.get(p, 0), state.memory.sent.get(p, 0)
        assert start <= stop
        latest = -math.inf
        mine = [
            (record, read_sent(record.value))
            for record in records
            if start <= record.offset < stop
            and dict(record.headers).get("stream-can-mark") == state.index.mark.encode()
        ]
        times = [min(t, record.timestamp / 1000) for record, b in mine for t in b.times.tolist()]
        count = steady(times)
        for record, batch in mine:
            places = batch.places()
            for i, id in enumerate(batch.ids):
                lane = batch.lanes[batch.of[i]]
                time = next(count)
                latest = latest if math.isnan(time) else max(latest, time)
                columns = {c: texts[i] for c, texts in batch.columns.items()} or None
                p_, receipt = lane.raw[places[i]], lane.receipts[places[i]].copy()
                size = OVERHEAD + len(id or b"") + 16 * len(p_) + receipt.nbytes
                size += sum(len(text or "") for text in (columns or {}).values())
                place = (p, int(batch.numbers[i])) if s.input else (id or b"").decode()
                fair = random is None or place in random
                row = Row(lane.name, id, p_, receipt, columns, size, fair)
                yield Event(latest, 0, p, (record.offset, i), (row, time))  # type: ignore[arg-type]
    for p, records in labels.items():
        start, stop = before.memory.labels.get(p, 0), state.memory.labels.get(p, 0)
        assert start <= stop
        latest = -math.inf
        told = []
        for record in records:
            if not start <= record.offset < stop:
                continue
            one = read_label(record)
            is_dead = (s.labels, p, record.offset) in dead
            assert is_dead == (one is None and record.value is not None), record
            if one is not None:
                told.append((record, one))
        count = steady([math.nan if one.time is None else one.time for _, one in told])
        for record, one in told:
            time = next(count)
            latest = latest if math.isnan(time) else max(latest, time)
            yield Event(latest, 1, p, (record.offset, 0), one)  # type: ignore[arg-type]


def judge_outputs(
    servers: str,
    s: Settings,
    states: list[State],
    dead: set[tuple[str, int, int]],
    parse: Callable[[bytes], Any],
    verdict: Verdict,
) -> None:
    """Every record of the input was answered once, by the state that its output names."""
    f = s.fields
    by_number = {state.number: state for state in states}
    correctors: dict[int, dict[Any, Corrector]] = {}
    inputs, outputs = partitions_of(servers, s.input), partitions_of(servers, s.output)
    for p, records in inputs.items():
        out = iter(outputs[p])
        for record in records:
            if (s.input, p, record.offset) in dead:
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
            p_ = np.array(at(was, f.probs), float)
            total = p_.sum()
            if not s.several and abs(total - 1) > 1e-9 and s.normalise == "always":
                p_ = p_ / total
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
            assert at(says, f.probs) == kept_as(row, at(says, f.probs)), where
            raw = ".".join([*f.probs.split(".")[:-1], f.raw] if s.format != "avro" else [f.raw])
            assert at(says, raw) == at(was, f.probs), where
            assert rest_of(says, f.probs, raw, "set") == rest_of(was, f.probs), where
            if s.several:
                assert says["set"] == decided(known[lane], row), where
            if s.sets is not None:
                assert says["set"] == known[lane].predict_set_one(p_, segments=columns), where
        assert next(out, None) is None, f"more outputs than inputs in partition {p}"


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
    several = is_of_kind(data, "multilabel")
    return (MultiLabelCorrector if several else Corrector).from_bytes(data)


def decided(corrector: Any, row: Any) -> list[Any]:
    """The labels that a row is said to have, the likeliest first."""
    order = np.argsort(-row.astype(np.float32), kind="stable")
    return [corrector.labels[i] for i in order if row[i] >= corrector.threshold]


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

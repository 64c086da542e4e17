"""The lanes of a partition: which of them a record is for.

Where messages say no model and no version, there is one lane for all. Else a prediction is for the
lane that it names, which begins with its first record. A label is for the lane that it names; what
it does not name it leaves open, and then it is for every lane that has predicted its id, so that
versions of a model are judged on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.messages.messages import BadMessage, Label
from stream_can.messages.naming import LaneName, Naming
from stream_can.messages.opening import BOTH_NULL, Opened, Reading
from stream_can.messages.records import Output, Source
from stream_can.scores import FLOOR
from stream_can.stream.entry import LaneMark, OpenPart
from stream_can.stream.lane import Lane
from stream_can.stream.recent import Bound, Recent
from stream_can.stream.replica import Replica
from stream_can.stream.versions import Comparison, Pair, Versions

__all__ = ["Fleet", "Lanes", "Several"]


class Fleet(NamedTuple):
    """Which models there may be, and what they begin with."""

    listed: Mapping[str, bytes | None] = {}
    """Of each model that has settings of its own: the corrector's snapshot, where its classes are
    not those of all."""
    only_listed: bool = False
    """Whether there are no others."""
    of_classes: Callable[[Sequence[Any]], bytes] | None = None
    """Makes the snapshot of a corrector of classes that messages name; None where the settings name
    those of all."""


class Several(NamedTuple):
    """A label that does not name its lane: what it says to each that may have predicted its id."""

    labels: list[tuple[Lane, Label]]


NOBODY = Several([])
LATEST = 1000
"""So many offsets of the log behind a restore, what was committed before it is folded."""


class Seen(NamedTuple):
    """What became of lanes."""

    tallies: dict[LaneName, NDArray[np.float64]]
    """See :meth:`Lane.take_tally`."""
    versions: dict[Pair, Comparison]
    refused: int
    """Predictions of models that were one too many."""


class Lanes:
    """The lanes of a partition.

    Parameters
    ----------
    make
        Makes a lane; keyword arguments of :class:`Lane` as given here.
    replica
        What all of them learn from; None for one lane that learns alone.
    naming
        Finds the names of lanes; None for one lane.
    fleet
        Which models there may be.
    bound
        Of the recent predictions of all.
    begin
        The next offsets of input and labels.
    """

    def __init__(
        self,
        make: Callable[..., Lane],
        replica: Replica | None = None,
        naming: Naming | None = None,
        fleet: Fleet | None = None,
        bound: Bound | None = None,
        begin: tuple[int, int] = (0, 0),
    ) -> None:
        self.only = make()
        """The one lane; with several, that which has no name, and no records but tombstones."""
        self._make, self._replica, self._naming = make, replica, naming
        self._fleet, self._bound = fleet or Fleet(), bound
        self._named: dict[LaneName, Lane] = {}
        self._fit: dict[LaneName, Lane] = {}
        """Those of the batch at hand, which can go on: nothing is folded meanwhile."""
        self._active: list[Lane] = []
        self._taken = begin
        self._touched: dict[Lane, None] = {}
        self.refused = 0
        self.versions = Versions()
        """What became of the labels that were for several versions of a model."""
        self.stored: dict[LaneName, bytes | None] = {}
        self.stored_at = 0 if replica is None else replica.offset
        """Of lanes that positions named and that have not had a record since: where their label
        requests stood, if any are made."""

    def __iter__(self) -> Iterator[Lane]:
        yield self.only
        yield from self._named.values()

    @property
    def named(self) -> bool:
        """Whether there may be more than one."""
        return self._naming is not None

    # ---- a batch

    def open(
        self, records: Sequence[Source], reading: Reading, *, begins: bool = True
    ) -> tuple[Sequence[Opened | Several], Iterable[Lane], int]:
        """Begin a batch in each lane with its records.

        Parameters
        ----------
        begins
            Whether a prediction begins a lane that neither the log has nor positions named; else it
            is passed over.

        Returns
        -------
        What each record says, the lane of each, and how many rows were divided by their sum.
        """
        if self._naming is None:
            opened, off = self.only.open(records, reading)
            self._active = [self.only]
            return opened, repeat(self.only), off
        return self._open_named(records, reading, begins)

    def _open_named(
        self, records: Sequence[Source], reading: Reading, begins: bool
    ) -> tuple[list[Opened | Several], list[Lane], int]:
        says: list[Opened | Several] = [None] * len(records)
        lanes = [self.only] * len(records)
        of_lane: dict[Lane, tuple[list[int], list[Any]]] = {}
        predicted: dict[bytes, list[Lane]] = {}  # by id, in this batch
        by_id: list[int] = []
        self._fit.clear()
        labels_topic, messages = reading.labels_topic, self.only.messages
        self.only.open((), reading)  # for tombstones
        for i, record in enumerate(records):
            if record.value is None:
                if record.key is None and record.topic != labels_topic:
                    says[i] = BadMessage(BOTH_NULL)
                continue
            try:
                is_label = record.topic == labels_topic
                message = messages.open(record.value, record.headers, label=is_label)
                if is_label:
                    found, named = self._for_label(record, message, predicted)
                    if len(found) != 1:
                        says[i] = self._several(record, message, found) if found else NOBODY
                        for one in found:
                            if one not in of_lane:
                                of_lane[one] = [], []
                        continue
                    lane = found[0]
                    if not named:
                        by_id.append(i)
                else:
                    of = self._for_prediction(record, message, begins)
                    if of is None:
                        continue
                    lane = of
                    id = messages.id_of(message, record.key, record.headers)
                    if id is not None:
                        predicted.setdefault(id, []).append(lane)
            except (BadMessage, UnknownClass) as error:
                says[i] = error
                continue
            lanes[i] = lane
            own = of_lane.get(lane)
            if own is None:
                own = of_lane[lane] = [], []
            own[0].append(i)
            own[1].append(message)
        off = 0
        for lane, (numbers, given) in of_lane.items():
            lane.begin(self._taken)
            opened, off_here = lane.open([records[i] for i in numbers], reading, given)
            off += off_here
            for i, said in zip(numbers, opened, strict=True):
                says[i] = said
        for i in by_id:
            if isinstance(label := says[i], Label):  # it does not say whose row it brings
                label.by_id, label.number, label.given = True, -1, None
        self._active = list(of_lane)
        return says, lanes, off

    def _for_prediction(self, record: Source, message: Any, begins: bool) -> Lane | None:
        """The lane of a prediction; None where that may not begin."""
        assert self._naming is not None
        assert self._replica is not None
        name = self._naming.of_prediction(
            self.only.messages.predictions.find, message, record.headers
        )
        lane = self._known(name)
        if lane is None and (begins or name in self.stored):
            if begins:
                self._require_room(name, record)
            lane = self._new(name, *self._fresh(name, message))
        return lane

    def _for_label(
        self, record: Source, message: Any, predicted: Mapping[bytes, list[Lane]]
    ) -> tuple[Sequence[Lane], bool]:
        """The lanes that a label may be for, and whether it names one.

        ``predicted`` are those that have predicted an id in the batch at hand.
        """
        assert self._naming is not None
        naming, messages = self._naming, self.only.messages
        model, version = naming.of_label(messages.labels.find, message, record.headers)
        if (model or not naming.has_model) and (version or not naming.has_version):
            lane = self._known(LaneName(model or "", version or ""))
            return (() if lane is None else (lane,)), True
        id = messages.id_of_label(message, record.key, record.headers)
        if id is None or self._bound is None:
            return (), False
        lanes = [one for kept in self._bound.holders(id) if (one := self._known(kept.owner.name))]
        if id in predicted:
            lanes = list(dict.fromkeys([*lanes, *predicted[id]]))
        if model is not None:
            lanes = [lane for lane in lanes if lane.name.model == model]
        if version is not None:
            lanes = [lane for lane in lanes if lane.name.version == version]
        return lanes, False

    def _several(self, record: Source, message: Any, lanes: Sequence[Lane]) -> Several:
        """What a label says to several lanes; an error where it says nothing to any."""
        labels, error = [], None
        for lane in lanes:
            try:
                label = lane.messages.read_opened_label(message, record.key, record.headers)
            except (BadMessage, UnknownClass) as one:
                error = one
                continue
            label.row = label.given = None  # it does not say whose row it brings
            labels.append((lane, label))
        if error is not None and not labels:
            raise error
        return Several(labels)

    # ---- lanes that begin

    def _known(self, name: LaneName) -> Lane | None:
        """A lane that is here or in the log."""
        lane = self._fit.get(name)
        if lane is not None:
            return lane
        lane = self._named.get(name)
        if lane is not None:
            if lane.still_fits():
                self._fit[name] = lane
                return lane
            self._discard(lane)
        assert self._replica is not None
        if self._replica.lane(name) is None:
            return None
        return self._new(name, self._fleet.listed.get(name.model), False)

    def _new(self, name: LaneName, fresh: bytes | None, unchanged: bool) -> Lane:
        lane = self._make(name=name, fresh=fresh, unchanged=unchanged)
        lane.recent.owner = lane
        stored = self.stored.pop(name, None)
        if stored is not None and lane.requests is not None:
            lane.requests = lane.requests.resumed(stored)
        self._named[name] = self._fit[name] = lane
        return lane

    def _discard(self, lane: Lane) -> None:
        lane.recent.clear()
        del self._named[lane.name]

    def _require_room(self, name: LaneName, record: Source) -> None:
        """BadMessage where a lane may not begin."""
        assert self._naming is not None
        assert self._replica is not None
        listed, terms = self._fleet.listed, self._replica.terms.fleet
        if self._fleet.only_listed and name.model not in listed:
            raise BadMessage(
                f"model {name.model!r} has no table [models.{name.model}], and only_listed_models"
                " refuses all others"
            )
        assert terms is not None
        waiting = sum(self._replica.lane(one) is None for one in self._named)
        if self._replica.new_lanes(record.timestamp) + waiting >= terms.max_lanes:
            self.refused += 1
            raise BadMessage(
                f"lane {name}: {terms.max_lanes} models and versions began within an hour, which is"
                " max_lanes; does the setting model or version name the field that it should?"
            )

    def _fresh(self, name: LaneName, message: Any) -> tuple[bytes | None, bool]:
        """What a lane may have to begin with, and whether only its message says so."""
        assert self._replica is not None
        listed, of_classes = self._fleet.listed.get(name.model), self._fleet.of_classes
        if listed is not None or of_classes is None:
            return listed, False
        names = self.only.messages.names_in(message)
        versions = self._replica.versions(name.model)
        if versions and names is None:
            return None, False
        for version in versions:
            known = self._replica.classes(LaneName(name.model, version))
            if {*map(str, known)} == {*map(str, names or ())}:
                return None if version == versions[0] else of_classes(known), True
        if names is None or len(names) < 2:
            raise BadMessage(
                f"model {name.model!r}: its classes are not known; give them under"
                f" [models.{name.model}], or send its probabilities as an object of all classes"
            )
        try:
            return of_classes(names), True
        except ValueError as error:
            raise BadMessage(f"model {name.model!r}: {error}") from None

    # ---- what comes of a batch

    def learn(self, says: Several, place: tuple[int, int] | None) -> Recent | None:
        """Let each lane that has predicted a label's id take it; one of the predictions."""
        found = [
            (lane, label, entry)
            for lane, label in says.labels
            if lane.waiting(label.id) is not None
            and (entry := lane.learn(label, place)) is not None
        ]
        if len(found) > 1:
            self.versions.judge((lane.name, label.index, entry) for lane, label, entry in found)
        return found[0][2] if found else None

    def run(self, next_prediction: int) -> tuple[list[Output], int]:
        """Run the batches; see :meth:`Lane.run`."""
        active, self._active = self._active, []
        if self._naming is not None:
            self._touched |= dict.fromkeys(active)
        requests: list[Output] = []
        answered = 0
        for lane in active:
            asked, answers = lane.run(next_prediction)
            requests += asked
            answered += answers
        if self._naming is None:
            return requests, answered
        self._score(active)
        self.versions.score()
        if self.only.requests is not None:
            for lane in self._named.values():
                lane.forget(next_prediction)
        return sorted(requests, key=lambda out: out.source.offset if out.source else 0), answered

    def _score(self, lanes: Iterable[Lane]) -> None:
        """Score what came of a batch, lanes with as many classes at once."""
        alike: dict[int, list[Lane]] = {}
        for lane in lanes:
            if lane.known:
                alike.setdefault(len(lane.messages.classes), []).append(lane)
        for m, several in alike.items():
            known = [one for lane in several for one in lane.known]
            raw, sent = (
                np.frombuffer(b"".join(pieces)).reshape(-1, m)
                for pieces in ([one[0] for one in known], [one[1] for one in known])
            )
            y, rows = np.array([one[2] for one in known]), np.arange(len(known))
            raw = raw / raw.sum(axis=1, keepdims=True)
            sums = [np.ones(len(y))]
            sums += [P.argmax(axis=1) == y for P in (raw, sent)]
            sums += [-np.log(np.maximum(P[rows, y], FLOOR)) for P in (raw, sent)]
            self.only.raw_scores.add_checked(raw, y)  # which are those of all lanes
            self.only.sent_scores.add_checked(sent, y)
            if self.only.watches:
                wrong, loss = 1 - np.column_stack(sums[1:3]), np.column_stack(sums[3:])
                times = np.array([one[4] for one in known], np.float64)
                end = 0
                for lane in several:
                    begin, end = end, end + len(lane.known)
                    lane.watched.append((wrong[begin:end], loss[begin:end], times[begin:end]))
            of = np.repeat(np.arange(len(several)), [len(lane.known) for lane in several])
            tallies = np.column_stack([np.bincount(of, one, len(several)) for one in sums])
            for lane, tally in zip(several, tallies, strict=True):
                lane.tally += tally
                lane.known = []

    def take(self, end: tuple[int, int]) -> list[tuple[LaneMark | None, OpenPart]]:
        """What the batches since the last call have to teach, lane by lane; see :meth:`Lane.take`.

        Of several lanes those alone that have something to teach, or begin.
        """
        if self._naming is None:
            return [(None, self.only.take(end))]
        self.only.require_current()
        self._taken, found = end, []
        for lane in list(self._named.values()):
            if lane.gathers:
                fits, part = lane.still_fits(), lane.take(None)
                if fits and (part.teaches or (lane.begun is None and lane.rows)):
                    found.append((lane.mark(), part))
            if lane.idle:
                self._discard(lane)
        return found

    # ---- what was sent before

    @property
    def earliest(self) -> int | None:
        """The least timestamp of the predictions kept; None where none is."""
        kept = [lane.recent.earliest for lane in self]
        return min((at for at in kept if at is not None), default=None)

    @property
    def open_requests(self) -> tuple[int, int | None]:
        """How many label requests are open, and the timestamp of the oldest, in milliseconds."""
        asked = [lane.open_requests for lane in self]
        oldest = [one.oldest for one in asked if one.oldest is not None]
        return sum(map(len, asked)), min(oldest, default=None)

    def recall(self, outputs: Iterable[Source]) -> None:
        """See :meth:`Lane.recall`."""
        for lane, records in self._sorted(outputs).items():
            lane.recall(records)

    def recall_labels(self, labels: Iterable[Source]) -> None:
        """See :meth:`Lane.recall_labels`: of those that a label may be for."""
        for lane, records in self._sorted(labels, labels=True).items():
            lane.recall_labels(records)

    def _sorted(
        self, records: Iterable[Source], *, labels: bool = False
    ) -> dict[Lane, list[Source]]:
        """Records by the lanes here that they are for, without those that cannot be read."""
        naming, messages = self._naming, self.only.messages
        if naming is None:
            return {self.only: list(records)}
        found: dict[Lane, list[Source]] = {}
        self._fit.clear()
        for record in records:
            try:
                message = messages.open(record.value or b"", record.headers, label=labels)
                if labels:
                    lanes, _ = self._for_label(record, message, {})
                else:
                    find = messages.predictions.find
                    of = self._named.get(naming.of_prediction(find, message, record.headers))
                    lanes = [] if of is None else [of]
            except (BadMessage, UnknownClass):
                continue
            for lane in lanes:
                found.setdefault(lane, []).append(record)
        return found

    # ---- what there is to see

    def take_seen(self) -> Seen:
        """What became of the lanes since the last call."""
        tallies = {lane.name: lane.take_tally() for lane in self._touched}
        seen = Seen(tallies, self.versions.take(), self.refused)
        self._touched, self.refused = {}, 0
        return seen

    def positions(self) -> dict[LaneName, bytes | None]:
        """Of lanes that ask for labels, where their requests stand; and those that the log does not
        have."""
        assert self._replica is not None
        # By then all that began before a restore is folded: what is not there was dropped.
        if self._replica.offset > self.stored_at + LATEST:
            self.stored = {name: at for name, at in self.stored.items() if self._replica.lane(name)}
        found = dict(self.stored)
        for name, lane in self._named.items():
            if lane.requests is not None:
                found[name] = lane.requests_state()
            elif self._replica.lane(name) is None and len(lane.recent):
                found[name] = None
        return found

"""CurrentState: the state by which a worker corrects."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.app.correctors_in_use import CorrectorInUse, CorrectorsInUse
from stream_can.app.model_messages import Classes
from stream_can.app.models import DeclaredCorrector, LiveModels, classes_of
from stream_can.app.tally import lane_name
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Index
from stream_can.kafka.state_correctors import StateBegins
from stream_can.learner.kinds import Id
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_version import predecessor
from stream_can.learner.model_versions import adapter_of
from stream_can.learner.sent import SentVersion
from stream_can.learner.switch import ON, CorrectionSwitch
from stream_can.messages.columns import Table
from stream_can.row_kinds import kind_of

__all__ = ["CurrentState", "StateRows", "known_of"]

Array = NDArray[np.float64]


class StateRows(NamedTuple):
    """Rows corrected by a state."""

    sent: Array
    """Output rows, shape (n, m)."""
    lanes: list[SentVersion]
    of: NDArray[np.int32]
    """Index of the lane of each row, shape (n,)."""
    sets: list[Any] | None
    """Prediction set of each row, likeliest class first; None without sets."""


class CurrentState(LiveModels):
    """A state in use by a worker. Models that begin before the next state are added to its own.

    Parameters
    ----------
    number
        Of the state.
    index
        Of the state.
    correctors
        Corrector of each model and version.
    begins
        Own initial correctors of models; None: the common one.
    switch
        Whether the worker corrects, as its own settings say; the state says whether all do.
    """

    def __init__(
        self,
        number: int,
        index: Index,
        correctors: Mapping[Name, DeclaredCorrector],
        begins: Mapping[str | None, DeclaredCorrector],
        switch: CorrectionSwitch = ON,
    ) -> None:
        super().__init__(
            StateBegins(begins, index.listed),
            max_lanes=index.max_lanes,
            only_listed=index.only_listed,
            clock=time.time,
        )
        self.number, self.index = number, index
        self.switch = index.switch.both(switch)
        self.correctors, self.begins = dict(correctors), dict(begins)
        self._classes = {name: classes_of(corrector) for name, corrector in self.correctors.items()}

    @property
    def full(self) -> bool:
        """Whether the learner has said that no model may begin now, or too many did since."""
        return self.index.full or super().full

    def classes(self) -> Mapping[Name, Classes]:
        """Classes of each model and version."""
        return self._classes

    def holders(self, id: Id, name: Name) -> list[Name]:
        """Return nothing: a worker keeps no predictions."""
        return []

    def _correctors(self) -> Mapping[Name, DeclaredCorrector]:
        return self.correctors

    def _bytes_of_new(self) -> int:
        return adapter_of(self.begins[None]).nbytes

    def _begin_model(self, name: Name, corrector: DeclaredCorrector | None) -> None:
        initial = corrector or self.begins[None]
        classes = classes_of(initial)
        alike = {
            of: candidate
            for of, candidate in self.correctors.items()
            if self._classes[of] == classes
        }
        former = predecessor(name, alike)
        self.correctors[name] = initial if former is None else alike[former].successor()
        self._classes[name] = classes

    def known(self, settings: Settings) -> CorrectorsInUse:
        """Correctors of the state, for display."""
        live = {
            place.name: (self.correctors[place.name], place.after) for place in self.index.lanes
        }
        known = known_of(settings, self.number, self.index.time, live, self.begins[None])
        return known._replace(switch=self.switch)

    def correct_rows(
        self,
        P: Array,
        names: Sequence[Name],
        columns: Table | None,
        finish: Callable[[Array], Array] | None = None,
    ) -> StateRows:
        """Correct rows of models with the same classes, shape (n, m); ``finish`` rounds them."""
        lanes = list(dict.fromkeys(names)) or [ONLY]
        if len(lanes) == 1:
            sent, lane, sets = self._correct(lanes[0], P, columns, finish)
            return StateRows(sent, [lane], np.zeros(len(P), np.int32), sets)
        numbers = {name: k for k, name in enumerate(lanes)}
        of = np.array([numbers[name] for name in names], np.int32)
        sent, every, all_sets = np.empty_like(P), list[SentVersion](), None
        for k, name in enumerate(lanes):
            rows_of_lane, lane_columns = np.flatnonzero(of == k), columns
            if columns is not None:
                lane_columns = {
                    c: [texts[i] for i in rows_of_lane.tolist()] for c, texts in columns.items()
                }
            sent[rows_of_lane], lane, sets = self._correct(
                name, P[rows_of_lane], lane_columns, finish
            )
            every.append(lane)
            if sets is not None:
                all_sets = all_sets or [None] * len(P)
                for i, prediction_set in zip(rows_of_lane.tolist(), sets, strict=True):
                    all_sets[i] = prediction_set
        return StateRows(sent, every, of, all_sets)

    def _correct(
        self,
        name: Name,
        P: Array,
        columns: Table | None,
        finish: Callable[[Array], Array] | None,
    ) -> tuple[Array, SentVersion, list[Any] | None]:
        """Correct rows of one model and version: output rows, what is told of them, and sets."""
        kind = self._kind(name)
        kind.passes = not self.switch.is_on(name[0])
        Q, receipts, sets = kind.corrected(P, columns)
        if finish is not None:
            Q = finish(Q)
        return Q, kind.sent_version(name, P, Q, receipts), sets

    @cached_property
    def lookup(self) -> Any:
        """See `Kind.lookup`; of models classes are declared."""
        if adapter_of(self.begins[None]).lookup is None:
            return None
        return self._kind(ONLY).lookup

    def given_rows(self, P: Any) -> Any:
        """Rows that are to be corrected, for :meth:`correct_rows`."""
        return adapter_of(self.begins[None]).given_rows(P)

    def _kind(self, name: Name) -> Any:
        corrector = self.corrector(name)
        return kind_of(corrector).adapter(corrector)

    def corrector(self, name: Name) -> DeclaredCorrector:
        """The corrector of a model and version; creates it where new."""
        if name not in self.correctors:
            self._begin_model(name, self._start.of_model(name[0] or ""))
        return self.correctors[name]


def known_of(
    settings: Settings,
    number: int,
    when: float,
    live: Mapping[Name, tuple[DeclaredCorrector, str | None]],
    first: DeclaredCorrector,
) -> CorrectorsInUse:
    """Correctors in use, for display.

    Parameters
    ----------
    number, when
        Number of the state, and the time it was written, in seconds since 1970.
    live
        Corrector of each model and version, and the version from which it was started.
    first
        The common initial corrector.
    """
    lanes, named = None, settings.has_lanes
    if named:
        lanes = {lane_name(name): CorrectorInUse(*lane) for name, lane in live.items()}
    corrector = first if named or not live else next(iter(live.values()))[0]
    return CorrectorsInUse(
        corrector, number, int(1000 * when), settings.sets, lanes, settings.max_lanes,
        switch=settings.switch,
    )  # fmt: skip

"""Inspection: what a learner knows, read only."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.learner.joining import LabelJoining
from stream_can.learner.kinds import Id, Reason
from stream_can.learner.memory import LearnerMemory
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.sent import SentBatch
from stream_can.trust.alarm import Alarm
from stream_can.trust.episode import Episode
from stream_can.trust.locking import Locked, one_at_a_time

MOST_ALARMS = 20
"""Maximum number of models and versions with an alarm each; those with most labels."""


class Live(NamedTuple):
    """The corrector of a model and version."""

    corrector: Any
    """The learner's own object; do not change it."""
    after: str | None
    """Version of the same model from which it was started."""


class Inspection(Locked):
    """The part of a `Learner` that changes nothing."""

    _rank = 0
    _memory: LearnerMemory
    _joining: LabelJoining

    @property
    def classes(self) -> tuple[Any, ...]:
        """Names of the classes, in the order of rows."""
        return self._memory.versions.default.classes

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the declared segments."""
        return self._memory.versions.default.segments

    @property
    def row_kind(self) -> str:
        """Name of the kind of rows."""
        kind: str = self._memory.versions.default.corrector.row_kind
        return kind

    @property
    def numbering(self) -> Any:
        """What checks rows and numbers their classes as they appear; None where classes are
        declared."""
        return self._memory.versions.default.numbering

    def listed(self, version: Any, i: int) -> tuple[list[float], list[float], list[Any]]:
        """A row of a `SentVersion` that was played and the row that was sent, as lists, and their
        classes."""
        return self._memory.versions.default.listed(version, i)

    @property
    def sets(self) -> float | None:
        """Coverage that prediction sets promise; None without sets."""
        return self._memory.versions.default.sets

    def classes_in_sets(self, batch: SentBatch) -> int:
        """Total number of classes in the sets of dense rows that another process sent."""
        default: Any = self._memory.versions.default  # others have no sets
        return sum(default.classes_in_sets(version) for version in batch.versions)

    @property
    def sets_by(self) -> str | None:
        """Groups that each keep it, see :attr:`Corrector.sets_by`; None without sets or groups."""
        default = self._memory.versions.default
        return None if default.sets is None else default.corrector.sets_by

    @property
    def train_prior(self) -> NDArray[np.float64]:
        """The training prior of the initial corrector, shape (m,); of multilabel rows the share of
        training rows with each; of sparse rows empty, shape (0,)."""
        return self._memory.versions.default.train_prior

    @property
    def ask(self) -> float | None:
        """The share of labels requested; None without requests."""
        return self._memory.versions.ask

    @property
    @one_at_a_time
    def models(self) -> list[Name]:
        """(model, version) of each corrector, (None, None) without models, in the order of their
        first predictions."""
        return list(self._memory.versions.by_name)

    @one_at_a_time
    def models_of(self, id: Id, model: str | None = None, version: str | None = None) -> list[Name]:
        """(model, version) of each corrector that keeps a prediction of an id; of this model and
        version, where given."""
        kept = self._memory.versions.keeping(id, (model, version))
        return [of.name for of, _ in kept]

    @property
    @one_at_a_time
    def live(self) -> dict[Name, Live]:
        """The corrector of each (model, version); before the first prediction the initial one."""
        if not self._memory.versions.by_name:
            return {ONLY: Live(self._memory.versions.default.corrector, None)}
        return {
            name: Live(version.kind.corrector, version.started_from)
            for name, version in self._memory.versions.by_name.items()
        }

    @property
    @one_at_a_time
    def episodes(self) -> dict[Name, Episode]:
        """Open episodes of each (model, version) that is worse than before."""
        alarms = {
            name: version.judged.alarm for name, version in self._memory.versions.by_name.items()
        }
        episodes = {name: alarm.episode for name, alarm in alarms.items() if alarm is not None}
        return {name: episode for name, episode in episodes.items() if episode is not None}

    @property
    @one_at_a_time
    def scores(self) -> dict[Name, tuple[Any, Any]]:
        """Raw and sent `Scores` of labelled predictions for each (model, version), (None, None)
        without models; of multilabel rows `LabelScores`."""
        judged = {name: version.now for name, version in self._memory.versions.by_name.items()}
        return {name: (now.raw, now.sent) for name, now in judged.items()}

    @property
    @one_at_a_time
    def alarms(self) -> dict[Name, Alarm]:
        """Alarms of the 20 (model, version) with most labels: whether the classifier became worse;
        none for multilabel rows."""
        versions = self._memory.versions.by_name
        judged = {
            name: version.now
            for name, version in versions.items()
            if version.judged.alarm is not None
        }
        most = sorted(judged, key=lambda name: -judged[name].raw.n)[:MOST_ALARMS]
        return {name: judged[name].alarm for name in most}

    @property
    @one_at_a_time
    def requests(self) -> dict[Name, dict[Id, Reason]]:
        """Ids with open label requests and the reasons, for each (model, version)."""
        return {
            name: dict(version.requests) for name, version in self._memory.versions.by_name.items()
        }

    @property
    @one_at_a_time
    def correctors(self) -> dict[Name, bytes]:
        """The snapshot of each corrector; before the first prediction of the initial one."""
        if not self._memory.versions.by_name:
            return {ONLY: self._memory.versions.initial}
        return {
            name: version.kind.corrector.to_bytes()
            for name, version in self._memory.versions.by_name.items()
        }

    @property
    @one_at_a_time
    def requested(self) -> set[int]:
        """Numbers of the predictions with open label requests."""
        versions = self._memory.versions.by_name.values()
        return {entry.number for version in versions for entry in version.requested}

    @property
    @one_at_a_time
    def open_requests(self) -> tuple[int, float | None]:
        """Number of open label requests, and the time of the oldest prediction among them, in
        seconds."""
        versions = self._memory.versions.by_name.values()
        times = [entry.time for version in versions for entry in version.requested]
        return len(times), min((time for time in times if not math.isnan(time)), default=None)

    @property
    def next_number(self) -> int:
        """The number of the next prediction."""
        return self._memory.number

    @property
    def recent_mb(self) -> float:
        """The setting."""
        return self._memory.recent_mb

    @property
    def max_lanes(self) -> int:
        """The setting."""
        return self._memory.versions.max_lanes

    @property
    def bytes_of_new(self) -> int:
        """Bytes of the corrector with which a model begins."""
        return self._memory.versions.default.nbytes

    @property
    def changed_labels(self) -> int:
        """Number of labels that contradicted an earlier one of their prediction; they teach
        nothing."""
        return self._joining.changed

    @property
    def early_labels(self) -> int:
        """Number of labels that were learned without their prediction, which came later; since this
        object was made."""
        return self._joining.lone.early

    @property
    def dropped(self) -> int:
        """Number of models and versions dropped, see ``max_lanes``."""
        return self._memory.versions.dropped

    @property
    @one_at_a_time
    def waiting(self) -> int:
        """Number of predictions that a label can still find."""
        return len(self._memory.versions.recent)

    @property
    @one_at_a_time
    def held(self) -> int:
        """Number of labels that wait for their predictions."""
        return self._joining.held.n

    @property
    def clock(self) -> float:
        """The latest time of a prediction, in seconds; -inf without times."""
        return self._joining.clock

    @property
    @one_at_a_time
    def oldest(self) -> int:
        """Number of the oldest kept prediction; of the next one where none is kept."""
        return self._memory.oldest

    @property
    @one_at_a_time
    def bytes_kept(self) -> int:
        """Bytes of the kept predictions, as ``recent_mb`` counts them."""
        return self._memory.size

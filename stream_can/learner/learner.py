"""Learner: a corrector with memory. Predictions are kept under their ids until labels arrive."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.learner.call import Corrected
from stream_can.learner.ids import plain_id, plain_ids
from stream_can.learner.joining import LabelJoining
from stream_can.learner.kinds import Id, Outcome
from stream_can.learner.late import LateLabel
from stream_can.learner.memory import LearnerMemory
from stream_can.learner.model_name import Name
from stream_can.learner.model_version import ModelVersion
from stream_can.learner.model_versions import ModelVersions, adapter_of
from stream_can.learner.persistence import Persistence
from stream_can.learner.playing import Playing
from stream_can.learner.switch import CorrectionSwitch
from stream_can.method.asking import LabelRequests
from stream_can.row_kinds import AnyCorrector
from stream_can.trust.locking import one_at_a_time

Array = NDArray[np.float64]

MOST_MB = 2**40
"""An upper bound no machine reaches."""


class Learner(Persistence):
    """A corrector with memory: it keeps rows and receipts until their labels arrive.

    Predictions are passed with an id; a label with the same id finds its prediction, however late,
    and the row that was sent is judged. The first label of an id counts. All results equal, to the
    bit, those of the bare `Corrector` given the same rows, receipts and labels.

    Each model and version has its own corrector. A new version starts as the
    :meth:`Corrector.successor` of the version of its model with the most recent labels; a label
    without a model teaches every model that has predicted its id. An object may be shared by
    threads.

    Parameters
    ----------
    corrector
        The corrector, a `Corrector`, `MultiLabelCorrector` or `SparseCorrector`, new or trained;
        the learner takes ownership. Where models are named, each starts as a copy of it. With a
        `SparseCorrector` a row is {class: probability}, the result is a `SparseRow`, and models and
        segments are not supported.
    recent_mb
        Memory for the latest predictions with an id, in MiB, ids included: 16 m bytes each, 4 for
        each number of a receipt, the id, its segments, and 480; the oldest are dropped. 0 keeps
        none.
    ask
        Request the labels of about this share of the predictions, see `LabelRequests`. Labels that
        were requested because of their row then teach no sets and are not scored.
    label_wait
        How many seconds a label waits for its prediction if it arrives first, measured by the times
        of later predictions; then it teaches the class mix alone. 0: it does not wait.
    max_lanes
        Maximum number of models and versions: when another begins, the one with the oldest last
        prediction is dropped together with its predictions; if it returns, it starts over. Their
        correctors take as many MiB at most, or 256 MiB: where they are larger, fewer are kept.
    scores
        Whether to score labelled predictions and to watch for a worse classifier.

    Raises
    ------
    ValueError
        An argument is out of range.

    Examples
    --------
    >>> from stream_can import Corrector, Learner
    >>> learner = Learner(Corrector(["fraud", "fine"]))
    >>> better = learner.process("order-23", [0.45, 0.55])
    >>> learner.label("order-23", "fraud")
    'learned'
    >>> learner.label("order-23", "fine")
    'repeated'
    """

    def __init__(
        self,
        corrector: AnyCorrector,
        *,
        recent_mb: float = 64,
        ask: float | None = None,
        label_wait: float = 0,
        max_lanes: int = 1000,
        scores: bool = True,
    ) -> None:
        if not 0 <= recent_mb <= MOST_MB:
            raise ValueError(f"recent_mb: {recent_mb!r}, expected a number from 0 to {MOST_MB:,}")
        if not 0 <= label_wait < math.inf:
            raise ValueError(f"label_wait: {label_wait!r}, expected seconds, 0 or more")
        if max_lanes < 1:
            raise ValueError(f"max_lanes: {max_lanes!r}, expected 1 or more")
        kind = adapter_of(corrector)
        if ask is not None:
            LabelRequests(ask)  # refuses what is no share
        super().__init__()
        versions = ModelVersions(kind, ask, int(max_lanes), scores)
        self._memory = LearnerMemory(versions, float(recent_mb))
        self._joining = LabelJoining(self._memory, float(label_wait))
        self._playing = Playing(self._memory, self._joining)

    @classmethod
    def of(cls, corrector: AnyCorrector, correctors: Mapping[Name, Any], **options: Any) -> Self:
        """Create a learner with correctors for these (model, version); others begin with
        ``corrector``, or as a successor within their model."""
        learner = cls(corrector, **options)
        versions = learner._memory.versions
        for name, of_name in correctors.items():
            versions.enter(ModelVersion(name, adapter_of(of_name), versions.ask))
            versions.unused = None
        return learner

    @one_at_a_time
    def start(self, corrector: AnyCorrector, model: str | None, version: str | None = None) -> None:
        """Set the corrector with which a model and version begins, instead of the common one.

        It may have other classes. Rows and labels of models with different classes come in separate
        calls, and a new version starts as the successor of one with its classes. A model that has
        begun already is left unchanged.

        Parameters
        ----------
        corrector
            Of the same sort and with the same segments as the others; the learner takes ownership.
        model, version
            The model and version.

        Raises
        ------
        ValueError
            The corrector is of another kind, or has other segments.
        """
        self._memory.set_start((model, version), corrector)

    @property
    def switch(self) -> CorrectionSwitch:
        """Whether rows are corrected. Where it is set to ``CorrectionSwitch(all=False)``, or a
        model is switched off, they are returned as they came; what is learned, and what snapshots
        hold of it, is the same to the bit. Snapshots do not hold the switch."""
        return self._memory.versions.switch

    @switch.setter
    def switch(self, switch: CorrectionSwitch) -> None:
        self._set_switch(switch)

    @one_at_a_time
    def _set_switch(self, switch: CorrectionSwitch) -> None:
        self._memory.versions.set_switch(switch)

    # ---- predictions

    @one_at_a_time
    def process(
        self,
        id: Id | None,
        p: ArrayLike,
        *,
        segments: Mapping[str, Any] | None = None,
        model: str | None = None,
        version: str | None = None,
        time: float | None = None,
    ) -> Array:
        """Correct a prediction, shape (m,), and keep it until its label arrives.

        Parameters
        ----------
        id
            The id that its label will name: text, integer or bytes, at most 1,024 bytes. The latest
            prediction of an id is the one that is labelled; one whose id is None is not kept.
        p
            Probabilities as for :meth:`Corrector.process_one`.
        segments
            {segment: value} of the declared segments.
        model, version
            The model and version that predicted.
        time
            Time of the prediction in seconds since 1970, for ``label_wait`` and the alarm.

        Returns
        -------
        The corrected row, a new float64 array, shape (m,).

        Raises
        ------
        InvalidPrediction, ValueError, TypeError
            The row, the segments or the id are invalid; nothing has changed.
        """
        row: Array = self._playing.process_one(plain_id(id), p, segments, (model, version), time)
        return row

    @one_at_a_time
    def process_many(
        self,
        ids: Iterable[Id | None],
        P: ArrayLike,
        *,
        segments: Mapping[str, Sequence[Any]] | None = None,
        model: str | None = None,
        version: str | None = None,
        times: Sequence[float | None] | None = None,
    ) -> Corrected:
        """:meth:`process` for each id and row of ``P``, shape (n, m), in order; the same bits.

        All rows are checked before the first is processed. ``segments`` is {segment: n values}.
        """
        return self._playing.play(plain_ids(ids), P, (), segments, (model, version), times)

    # ---- labels

    @one_at_a_time
    def label(
        self,
        id: Id | None,
        label: Any,
        *,
        row: ArrayLike | None = None,
        segments: Mapping[str, Any] | None = None,
        model: str | None = None,
        version: str | None = None,
        time: float | None = None,
        weight: float | None = None,
    ) -> Outcome:
        """Learn the label of a prediction; the first label of an id counts.

        Parameters
        ----------
        id, label
            Id of the prediction, None where unknown, and name of the class.
        row, segments
            The classifier's own prediction and its segments, for an id that is no longer kept.
            Where they differ from what is kept, they are learned instead.
        model, version
            The model and version that predicted; without one of them, every model and version that
            has predicted the id.
        time
            Time of the label in seconds, for ``label_wait``.
        weight
            How many labels it counts as, see :meth:`Corrector.learn_one`.

        Returns
        -------
        "learned" with its prediction; "repeated": it teaches nothing; "held" until its prediction
        comes; "unknown": the prediction is not kept, and without models the label teaches the
        class mix alone. The latest 100,000 unknown ids are recognised when repeated.

        Raises
        ------
        UnknownClass, InvalidPrediction, ValueError, TypeError
            Nothing was learned.
        """
        late = LateLabel(
            plain_id(id), label, row=row, segments=None if segments is None else dict(segments),
            model=model, version=version, time=time, weight=weight,
        )  # fmt: skip
        return self._playing.label_one(late)

    @one_at_a_time
    def label_many(
        self,
        ids: Iterable[Id | None],
        labels: Iterable[Any],
        *,
        model: str | None = None,
        version: str | None = None,
        times: Sequence[float | None] | None = None,
        weights: Sequence[float | None] | None = None,
    ) -> list[Outcome]:
        """:meth:`label` for each id and label, in order; all are checked before the first is
        learned."""
        names, ys = plain_ids(ids), list(labels)
        whens = [None] * len(names) if times is None else times
        each = [None] * len(names) if weights is None else weights
        if not len(names) == len(ys) == len(whens) == len(each):
            raise ValueError(
                f"{len(names)} ids, {len(ys)} labels, {len(whens)} times, {len(each)} weights"
            )
        late_labels = [
            LateLabel(id, y, model=model, version=version, time=time, weight=weight)
            for id, y, time, weight in zip(names, ys, whens, each, strict=True)
        ]
        return self._playing.play([], None, late_labels).outcomes

    # ---- both

    @one_at_a_time
    def play(
        self,
        ids: Iterable[Id | None],
        P: ArrayLike | None,
        labels: Sequence[LateLabel] = (),
        *,
        segments: Mapping[str, Sequence[Any]] | None = None,
        lanes: Sequence[Name] | None = None,
        times: Sequence[float | None] | None = None,
        indexed: bool = False,
        explain: Any = None,
    ) -> Corrected:
        """Correct rows and learn labels between them in one call: :meth:`process` and :meth:`label`
        in stream order, with the same bits.

        Parameters
        ----------
        ids, P, segments, times
            As for :meth:`process_many`; P may be None where there are no rows.
        labels
            In order of arrival; ``due`` of each says before which row.
        lanes
            (model, version) of each row.
        indexed
            For replays: each label is the index of its class, not its name; the models have the
            same classes.
        explain
            For replays: of a `Corrector`, whether to return the rows of each path, see
            :meth:`Corrector.play`; of a `SparseCorrector` a label for each row, or None, whose
            rank and probability in the row are wanted.

        Raises
        ------
        InvalidPrediction, UnknownClass, ValueError, TypeError
            As for those; nothing has changed.
        """
        return self._playing.play(
            plain_ids(ids), P, labels, segments, lanes, times, indexed=indexed, explain=explain
        )

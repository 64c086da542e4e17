"""CorrectedMultiLabelClassifier: a multi-label river classifier with corrected probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from stream_can.multilabel import MultiLabelCorrector
from stream_can.river.corrected import HasSuccessor, Probabilities, require_counts

Array = NDArray[np.float64]


class CorrectedMultiLabelClassifier(HasSuccessor[MultiLabelCorrector], base.MultiLabelClassifier):
    """A classifier behind a :class:`stream_can.multilabel.MultiLabelCorrector` that learns from the
    same labels.

    ``predict_proba_one`` corrects the classifier's prediction and changes nothing. ``learn_one(x,
    y)`` first calls the classifier's prediction again, passes it with the labels to the corrector,
    and then teaches the classifier. ``learn_one(x, None)`` is for a row whose labels will never
    arrive: the corrector observes it, the classifier ignores it.

    Labels are added as the classifier and ``y`` name them: str, int of 64 bits, float or bool. For
    a label that a prediction lacks (missing, empty, NaN, all zeros) the answer is its frequency so
    far, and ``y`` teaches only that frequency.

    Parameters
    ----------
    classifier
        A multi-label classifier or pipeline of river with ``predict_proba_one``, such as
        ``river.multioutput.PerOutputClassifier``; its predictions are {label: {True: p, False: 1 -
        p}} or {label: p}. Wrap it in :class:`FrozenClassifier` if only the corrector should learn.
    train_counts, train_rows
        For a frozen classifier: {label: training rows with it}, and the number of training rows.
    half_life
        See :class:`stream_can.multilabel.MultiLabelCorrector`.

    Raises
    ------
    ValueError
        An argument is out of range; the message names it.

    Examples
    --------
    >>> from river import datasets, linear_model, metrics, multioutput
    >>> from stream_can.river import CorrectedMultiLabelClassifier

    >>> def micro_f1(model):
    ...     metric = metrics.multioutput.MicroAverage(metrics.F1())
    ...     for x, y in datasets.Yeast().take(1000):
    ...         metric.update(y, {name: False for name in y} | model.predict_one(x))
    ...         model.learn_one(x, y)
    ...     return round(metric.get(), 2)

    >>> plain = multioutput.PerOutputClassifier(linear_model.LogisticRegression())
    >>> micro_f1(plain), micro_f1(CorrectedMultiLabelClassifier(plain.clone()))
    (0.48, 0.5)
    """

    def __init__(
        self,
        classifier: base.MultiLabelClassifier,
        *,
        train_counts: Mapping[Any, float] | None = None,
        train_rows: float | None = None,
        half_life: float = 5000.0,
    ) -> None:
        require_counts(train_counts, "label")
        self.classifier = classifier
        self.train_counts, self.train_rows, self.half_life = train_counts, train_rows, half_life
        # Created in any case, so that an invalid argument is refused here.
        corrector = MultiLabelCorrector(
            [False] if train_counts is None else [*train_counts],
            train_counts=train_counts, train_rows=train_rows, half_life=half_life,
        )  # fmt: skip
        self._corrector = None if train_counts is None else corrector

    def decide_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, bool]:
        """Decide for each label so as to maximise F1; nothing changes.

        ``predict_one`` decides at 0.5, this at
        :attr:`stream_can.multilabel.MultiLabelCorrector.threshold`.
        """
        corrector = self._corrector
        threshold = 0.5 if corrector is None else corrector.threshold
        return {name: p >= threshold for name, p in self._corrected(self._ask(x, **kwargs)).items()}

    def _read_prediction(self, prediction: dict[Any, Any]) -> Probabilities:
        """{label: probability}; NaN where the classifier has none."""
        return {name: _probability(name, p) for name, p in prediction.items()}

    def _read_label(self, y: Mapping[Any, bool | None] | None) -> dict[Any, bool] | None:
        known = {name: has_label for name, has_label in (y or {}).items() if has_label is not None}
        for name, has_label in known.items():
            if has_label not in (True, False):
                raise ValueError(f"y: {name!r} is {has_label!r}, expected True, False or None")
        return known or None

    def _teach_corrector(
        self, x: Any, p: Probabilities, label: dict[Any, bool] | None, weight: Any
    ) -> None:
        known = label or {}
        self._take_up([*p, *known])
        if self._corrector is not None:
            row, silent = self._row(p, self._corrector)
            self._corrector.observe_one(row)
            heard, unheard = dict[Any, bool](), dict[Any, bool]()
            for name, has_label in known.items():
                (unheard if silent[self._corrector._index[name]] else heard)[name] = has_label
            if heard:
                self._corrector.learn_one(row, heard)
            if unheard:
                self._corrector.learn_one(None, unheard)

    def _correct_prediction(self, x: Any, p: Probabilities) -> dict[Any, dict[bool, float]]:
        return {name: {False: 1 - q, True: q} for name, q in self._corrected(p).items()}

    def _corrected(self, p: Probabilities) -> Probabilities:
        """Correct a prediction; an unknown label keeps its probability."""
        corrector = self._corrector
        probabilities: Probabilities = {}
        if corrector is not None:
            row, silent = self._row(p, corrector)
            sent = np.where(silent, row, corrector.correct_one(row))
            probabilities = dict(zip(corrector.labels, sent.tolist(), strict=True))
        new = {name: 0.5 if q != q else q for name, q in p.items() if name not in probabilities}
        return probabilities | new

    def _row(
        self, p: Probabilities, corrector: MultiLabelCorrector
    ) -> tuple[Array, NDArray[np.bool_]]:
        """The prediction in label order, shape (m,), and where it lacks a value: these entries have
        the label's frequency."""
        row = np.array([p.get(name, np.nan) for name in corrector.labels])
        silent = np.isnan(row)
        return (np.where(silent, corrector.label_mix, row) if silent.any() else row), silent

    def _take_up(self, names: list[Any]) -> None:
        """Add unknown labels; all or none."""
        known: Mapping[Any, int] = {} if self._corrector is None else self._corrector._index
        new = [name for name in dict.fromkeys(names) if name not in known]
        if new and self._corrector is None:
            self._corrector = MultiLabelCorrector(new, half_life=self.half_life)
        elif new and self._corrector is not None:
            self._corrector._add_labels(new)

    # ---- river protocol

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, multioutput

        yield {"classifier": multioutput.PerOutputClassifier(linear_model.LogisticRegression())}


def _probability(name: Any, prediction: Any) -> float:
    """Probability of a label; NaN where a prediction lacks it."""
    if not isinstance(prediction, Mapping):
        p = float(prediction)
    else:
        if other := [value for value in prediction if value not in (True, False)]:
            raise ValueError(
                f"label {name!r}: the classifier predicts the value {other[0]!r}, expected True and"
                " False; of an output with several values wrap its own classifier in"
                " CorrectedClassifier"
            )
        positive, total = float(prediction.get(True, 0.0)), float(sum(prediction.values()))
        p = positive / total if total > 0 else float("nan")
    if not (0 <= p <= 1 or p != p):
        raise ValueError(f"label {name!r}: the classifier predicts {prediction!r}, no probability")
    return p

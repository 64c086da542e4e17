"""A river classifier of several labels a row whose probabilities a corrector corrects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from stream_can.multilabel import MultiLabelCorrector
from stream_can.river.wrapper import require_counts, successor_of, without_weight

__all__ = ["CorrectedMultiLabelClassifier"]

Array = NDArray[np.float64]


class CorrectedMultiLabelClassifier(base.Wrapper, base.MultiLabelClassifier):  # type: ignore[type-arg]
    """A classifier behind a :class:`stream_can.multilabel.MultiLabelCorrector` that learns from the
    same labels.

    ``predict_proba_one`` corrects what the classifier predicts and changes nothing.
    ``learn_one(x, y)`` asks the classifier for its prediction once more, before it learns the row,
    shows that prediction and the labels to the corrector, and then teaches the classifier.
    ``learn_one(x, None)`` is for a row whose labels will never come: the corrector observes it, the
    classifier does not see it.

    Labels are taken up as the classifier and ``y`` name them: str, int of 64 bits, float or bool.
    Of a label that a prediction says nothing of (missing, empty, NaN, all zeros) the answer is how
    often it was there so far, and what ``y`` says of it teaches that share alone.

    Parameters
    ----------
    classifier
        A multi-label classifier or pipeline of river with ``predict_proba_one``, such as
        ``river.multioutput.PerOutputClassifier``; what it predicts is {label: {True: p, False:
        1 - p}} or {label: p}. Wrap it in :class:`FrozenClassifier` where only the corrector should
        learn.
    train_counts, train_rows
        For a frozen classifier: {label: training rows that had it}, and how many rows there were.
    half_life
        As for :class:`stream_can.multilabel.MultiLabelCorrector`.

    Raises
    ------
    ValueError
        Where an argument is out of range; the message names it.

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
        # Made in any case, so that a bad argument is refused here and not at the first row.
        corrector = MultiLabelCorrector(
            [False] if train_counts is None else train_counts,
            train_counts=train_counts, train_rows=train_rows, half_life=half_life,
        )  # fmt: skip
        self._corrector = None if train_counts is None else corrector

    @property
    def corrector(self) -> MultiLabelCorrector | None:
        """The corrector behind the classifier, to look inside; None before the first label."""
        return self._corrector

    def successor(
        self, classifier: base.MultiLabelClassifier, discount: float = 0.1
    ) -> CorrectedMultiLabelClassifier:
        """The wrapper of a new version of the classifier; see :meth:`Corrector.successor`.

        Parameters
        ----------
        classifier
            The new version; it is wrapped as it is.
        discount
            What the evidence learned here counts there, from 0 to 1.
        """
        return successor_of(self, classifier, discount)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, dict[bool, float]]:
        """The corrected probability of every label met so far; nothing changes.

        Parameters
        ----------
        x
            Features, as the classifier takes them.
        **kwargs
            Passed on to the classifier.

        Returns
        -------
        {label: {False: 1 - p, True: p}} in the order in which the labels appeared.
        """
        rows = self._answer(self._ask(x, **kwargs))
        return {name: {False: 1 - p, True: p} for name, p in rows.items()}

    def decide_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, bool]:
        """Whether the row is to be given each label, where F1 counts; nothing changes.

        Where ``predict_one`` says yes to what is likelier than not, this says yes from
        :attr:`stream_can.multilabel.MultiLabelCorrector.threshold` on.
        """
        corrector = self._corrector
        threshold = 0.5 if corrector is None else corrector.threshold
        return {name: p >= threshold for name, p in self._answer(self._ask(x, **kwargs)).items()}

    def learn_one(
        self, x: dict[Any, Any], y: Mapping[Any, bool | None] | None = None, **kwargs: Any
    ) -> None:
        """Learn the labels of a row, in the corrector and then in the classifier.

        Parameters
        ----------
        x
            Features, as the classifier takes them.
        y
            {label: whether the row has it}; what is missing or None is not known. None where no
            label will ever come: then the row is observed only.
        **kwargs
            Passed on to the classifier's ``learn_one`` and, all but the weight ``w``, to its
            ``predict_proba_one``.

        Raises
        ------
        ValueError
            Where a label is no str, int of 64 bits, float or bool, or ``y`` says something else of
            it than True, False or None. Nothing was learned.
        """
        p = self._ask(x, **without_weight(kwargs))
        known = {name: said for name, said in (y or {}).items() if said is not None}
        for name, said in known.items():
            if said not in (True, False):
                raise ValueError(f"y: {name!r} is {said!r}, expected True, False or None")
        self._take_up([*p, *known])
        if self._corrector is not None:
            row, silent = self._row(p, self._corrector)
            self._corrector.observe_one(row)
            heard, unheard = dict[Any, bool](), dict[Any, bool]()
            for name, there in known.items():
                (unheard if silent[self._corrector._index[name]] else heard)[name] = there
            if heard:
                self._corrector.learn_one(row, heard)
            if unheard:
                self._corrector.learn_one(None, unheard)
        if known:
            self.classifier.learn_one(x, known, **kwargs)

    def _ask(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        """The classifier's own prediction, {label: probability}; NaN where it says nothing."""
        said = self.classifier.predict_proba_one(x, **kwargs)
        return {name: _probability(name, p) for name, p in said.items()}

    def _answer(self, p: dict[Any, float]) -> dict[Any, float]:
        """Correct a prediction; a label that nobody met before keeps its probability."""
        corrector = self._corrector
        found: dict[Any, float] = {}
        if corrector is not None:
            row, silent = self._row(p, corrector)
            sent = np.where(silent, row, corrector.correct_one(row))
            found = dict(zip(corrector.labels, sent.tolist(), strict=True))
        new = {name: 0.5 if q != q else q for name, q in p.items() if name not in found}
        return found | new

    def _row(
        self, p: dict[Any, float], corrector: MultiLabelCorrector
    ) -> tuple[Array, NDArray[np.bool_]]:
        """The prediction in the order of the labels, shape (m,), and of which it says nothing:
        these have the share of rows that had them."""
        row = np.array([p.get(name, np.nan) for name in corrector.labels])
        silent = np.isnan(row)
        return (np.where(silent, corrector.label_mix, row) if silent.any() else row), silent

    def _take_up(self, names: list[Any]) -> None:
        """Labels that nobody had named; all or none."""
        known: Mapping[Any, int] = {} if self._corrector is None else self._corrector._index
        new = [name for name in dict.fromkeys(names) if name not in known]
        if new and self._corrector is None:
            self._corrector = MultiLabelCorrector(new, half_life=self.half_life)
        elif new and self._corrector is not None:
            self._corrector._add_labels(new)

    # ---- what river asks of a wrapper

    @property
    def _wrapped_model(self) -> base.MultiLabelClassifier:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, multioutput

        yield {"classifier": multioutput.PerOutputClassifier(linear_model.LogisticRegression())}


def _probability(name: Any, said: Any) -> float:
    """The probability of a label; NaN where a prediction says nothing of it."""
    if not isinstance(said, Mapping):
        p = float(said)
    else:
        if other := [value for value in said if value not in (True, False)]:
            raise ValueError(
                f"label {name!r}: the classifier predicts the value {other[0]!r}, expected True and"
                " False; of an output with several values wrap its own classifier in"
                " CorrectedClassifier"
            )
        there, total = float(said.get(True, 0.0)), float(sum(said.values()))
        p = there / total if total > 0 else float("nan")
    if not (0 <= p <= 1 or p != p):
        raise ValueError(f"label {name!r}: the classifier predicts {said!r}, no probability")
    return p

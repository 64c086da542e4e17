"""CorrectedClassifier: a river classifier with corrected probabilities; both keep learning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray
from river import base

from stream_can.corrector import Corrector
from stream_can.errors import InvalidPrediction
from stream_can.method.class_names import class_name
from stream_can.method.receipts import only_set
from stream_can.method.segments import given_texts
from stream_can.method.settings import SETTINGS, CorrectorKeywords, keywords
from stream_can.method.settings_help import takes_settings
from stream_can.method.weights import weight_of_label
from stream_can.river import frames
from stream_can.river.corrected import (
    HasSuccessor,
    Probabilities,
    probabilities,
    require_counts,
    require_weight,
    without_weight,
)

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries

Array = NDArray[np.float64]


@takes_settings
class CorrectedClassifier(HasSuccessor[Corrector], base.Classifier):
    """A classifier behind a :class:`stream_can.Corrector` that learns from the same labels.

    ``predict_proba_one`` corrects the classifier's prediction and changes nothing. ``learn_one(x,
    y)`` first calls the classifier's prediction again, passes it with the label to the corrector,
    and then teaches the classifier. ``learn_one(x, None)`` is for a row whose label will never
    arrive: the corrector observes it, the classifier ignores it.

    Classes are added as the classifier and the labels name them: str, int of 64 bits, float or
    bool. The first label of an unknown class teaches the prior alone. An unusable prediction
    (empty, NaN, negative, infinite or all zeros) is answered with the class mix of the labels so
    far, and its label teaches that mix alone.

    Parameters
    ----------
    classifier
        A river classifier or pipeline with ``predict_proba_one``. Wrap it in
        :class:`FrozenClassifier` if only the corrector should learn.
    train_counts
        {class: training rows of the classifier}, for a frozen classifier. One that learns here
        needs none: the labels that it learns are evidence for the prior already.
    **settings
        Those of :class:`stream_can.CorrectorKeywords`.

    ``segments`` are features; a row without them is corrected as if not given. The matrix path
    keeps 2 m^2 numbers for m classes: above some hundred classes set ``paths`` without it.

    Raises
    ------
    ValueError
        A setting is out of range; the message names it. Later: a feature of ``segments`` is a
        measurement, not a category.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, naive_bayes
    >>> from stream_can.river import CorrectedClassifier

    >>> def log_loss(model):
    ...     metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    ...     return round(metric.get(), 2)

    >>> log_loss(naive_bayes.GaussianNB())
    0.59
    >>> log_loss(CorrectedClassifier(naive_bayes.GaussianNB()))
    0.34
    """

    segments: Sequence[str] | None
    sets: float | None

    def __init__(
        self,
        classifier: base.Classifier,
        *,
        train_counts: Mapping[Any, float] | None = None,
        **settings: Unpack[CorrectorKeywords],
    ) -> None:
        require_counts(train_counts, "class")
        if settings.get("prior") is not None and not train_counts:
            raise ValueError("prior: needs train_counts, which names the classes")
        self.classifier = classifier
        self.train_counts = train_counts
        vars(self).update(keywords(settings))
        # Created in any case, so that an invalid setting is refused here.
        corrector = self._new_corrector(train_counts or [False])
        self._corrector = corrector if train_counts else None

    def _new_corrector(self, classes: Iterable[Any]) -> Corrector:
        return Corrector(
            [*classes], train_counts=self.train_counts, **{n: getattr(self, n) for n in SETTINGS}
        )

    # ---- single rows

    def _correct_prediction(self, x: Any, p: Probabilities) -> Probabilities:
        """Correct a prediction."""
        corrector, segments = self._corrector, self._given(x)
        if corrector is not None and p.keys() <= corrector._index.keys():
            try:
                row = corrector.correct_one(in_order(p, corrector), segments=segments)
                return named(corrector.classes, row)
            except InvalidPrediction:
                pass  # unnormalised or unusable: handled below
        values = None if segments is None else {name: [value] for name, value in segments.items()}
        classes, rows = self._correct(list(p), np.array([list(p.values())], np.float64), values)
        return named(classes, rows[0])

    def predict_set_one(self, x: dict[Any, Any], **kwargs: Any) -> list[Any]:
        """Predict the set of classes that the row can have, with the coverage ``sets``.

        Nothing changes. docs/sets.md says what is promised. The sets learn from the labels of
        ``learn_one``, each judged by the set that would be sent when it arrives.

        Parameters
        ----------
        x
            Features, as the classifier takes them.
        **kwargs
            Passed to the classifier.

        Returns
        -------
        Known classes, the likeliest first; that one is always included. Empty before the first
        class.

        Raises
        ------
        ValueError
            ``sets`` is None.
        """
        if self.sets is None:
            raise ValueError("predict_set_one: nothing was promised; make it with sets=0.9")
        answer = self.predict_proba_one(x, **kwargs)
        if not answer:
            return []
        corrector = self._corrector or self._new_corrector(answer)
        return corrector._set_now(list(answer), list(answer.values()), self._given(x))

    def _read_prediction(self, p: Probabilities) -> Probabilities:
        """Use the class names of the labels.

        Trap: in river 0.26.1 naive Bayes that learned a batch names the class True "True". As a
        class of its own it would never get a label.
        """
        if self._corrector is None or p.keys() <= self._corrector._index.keys():
            return p
        by_text = {str(name): name for name in self._corrector.classes}
        return {name if self._has(name) else by_text.get(name, name): q for name, q in p.items()}

    def _given(self, x: Any) -> dict[str, Any] | None:
        """Column values of a row; None without columns."""
        if not self.segments:
            return None
        names = self.segments if isinstance(x, Mapping) else ()  # a text has no features
        features = {name: x[name] for name in names if name in x}
        return given_texts(self.segments, features, many=False)

    def _given_many(self, rows: Any) -> dict[str, Sequence[str | None]] | None:
        """Column values of the rows of a frame."""
        if not self.segments:
            return None
        columns = [name for name in self.segments if name in getattr(rows, "columns", ())]
        table = {name: rows[name].to_list() for name in columns}
        return given_texts(self.segments, table, many=True)

    def _teach_corrector(self, x: Any, p: Probabilities, y: Any, weight: Any) -> None:
        """Pass a prediction to the corrector and, unless None, its label."""
        weight = None if weight is None or y is None else weight_of_label(weight)
        self._teach(p, y, self._given(x), weight)

    def _teach(
        self,
        p: Probabilities,
        y: Any,
        segments: Mapping[str, Any] | None = None,
        weight: float | None = None,
    ) -> None:
        # The classifier cannot have rejected a class that nobody had named. Otherwise the first
        # label of each class would spoil the temperature of a young stream.
        unheard = y is not None and y not in p and not self._has(y)
        names = list(p) if y is None else [*p, y]
        self._check_names(names)
        for name in names:
            if self._corrector is None:
                self._corrector = self._new_corrector([name])
            elif not self._has(name):
                self._corrector._add_class(name)
        if self._corrector is None:
            return
        row, silent = in_order(p, self._corrector), False
        receipt = None
        try:
            receipt = self._observe(row, segments)
        except InvalidPrediction:  # unnormalised or unusable
            (row,), (silent,) = probabilities(row[None])
            if not silent:
                receipt = self._observe(row, segments)
        if y is not None and (silent or unheard):
            self._corrector.learn_one(None, y, weight=weight)
        elif y is not None:
            self._corrector.learn_one(row, y, receipt=receipt, segments=segments, weight=weight)

    def _observe(self, row: Array, segments: Mapping[str, Any] | None) -> Any:
        """Observe a row; with sets return what its label needs to know."""
        assert self._corrector is not None
        if self._corrector.sets is None:
            self._corrector.observe_one(row, segments=segments)
            return None
        _, receipt = self._corrector.process_one(row, receipt=True, segments=segments)
        return only_set(receipt, len(row))

    def _check_names(self, names: Iterable[Any]) -> None:
        """Raise ValueError for a new class that snapshots cannot store, before any is added."""
        for name in names:
            if not self._has(name):
                class_name(name)

    def _has(self, name: Any) -> bool:
        return self._corrector is not None and name in self._corrector._index

    # ---- data frames

    def predict_proba_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoDataFrame:
        """``predict_proba_one`` for each row of a frame of pandas, polars or another of narwhals'.

        Returns
        -------
        A frame of the same kind with one column per class, named by its ``str`` where the kind of
        frame has no other names.
        """
        rows, classes, P = self._correct_many(X, **kwargs)
        return frames.into_frame(P, classes, like=rows)  # type: ignore[no-any-return]

    def predict_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoSeries:
        """Predict the likeliest class of each row of a frame, as a series of the same kind."""
        rows, classes, P = self._correct_many(X, **kwargs)
        best = [classes[i] for i in P.argmax(axis=1)] if classes else [None] * len(rows)
        return frames.into_series(best, like=rows)  # type: ignore[no-any-return]

    def learn_many(self, X: IntoDataFrame, y: IntoSeries | None = None, **kwargs: Any) -> None:
        """Run ``learn_one`` on each row of a frame, predicted by the classifier before the batch.

        Parameters
        ----------
        X
            Features, one row each.
        y
            A series of labels, null for a label that will never arrive; None for all rows.
        **kwargs
            Passed on like by ``learn_one``; ``w`` is a number, or a series of one for each row.
        """
        rows = frames.into_rows(X)
        labels = frames.into_labels(y, len(rows))
        if "w" in kwargs:
            require_weight(frames.learning_method(self.classifier))
        weights = frames.into_weights(kwargs.get("w"), labels)
        self._check_names(label for label in labels if label is not None)
        options, table = without_weight(kwargs), self._given_many(rows)
        names, P = frames.predict(self.classifier, self._ask, rows, **options)
        for i, (row, label) in enumerate(zip(P.tolist(), labels, strict=True)):
            segments = None if table is None else {name: texts[i] for name, texts in table.items()}
            self._teach(dict(zip(names, row, strict=True)), label, segments, weights[i])
        frames.learn(self.classifier, rows, y, labels, **kwargs)

    def _correct_many(self, X: IntoDataFrame, **kwargs: Any) -> tuple[Any, list[Any], Array]:
        """The rows of a frame, the classes, and the corrected rows."""
        rows = frames.into_rows(X)
        predictions = frames.predict(self.classifier, self._ask, rows, **kwargs)
        return rows, *self._correct(*predictions, self._given_many(rows))

    def _correct(
        self, names: Sequence[Any], P: Array, segments: Mapping[str, Sequence[Any]] | None
    ) -> tuple[list[Any], Array]:
        """Correct predictions with a column per name; return the classes and a column for each.

        A class unknown to the corrector keeps its probability; the others share the rest.
        """
        known = [] if self._corrector is None else list(self._corrector.classes)
        classes = known + [name for name in names if not self._has(name)]
        rows = np.zeros((len(P), len(classes)))
        column = {name: i for i, name in enumerate(classes)}
        rows[:, [column[name] for name in names]] = P
        rows, silent = probabilities(rows)
        if self._corrector is None:
            rows[silent] = 1 / max(len(classes), 1)
            return classes, rows
        m = len(known)
        head = rows[~silent, :m]
        if segments is not None:
            segments = {name: [*compress(values, ~silent)] for name, values in segments.items()}
        if len(classes) == m:
            rows[~silent] = self._corrector.correct_many(head, segments=segments)
        else:
            mass = head.sum(axis=1, keepdims=True)
            head = np.divide(head, mass, out=np.full_like(head, 1 / m), where=mass > 0)
            rows[~silent, :m] = mass * self._corrector.correct_many(head, segments=segments)
        rows[silent, :m] = self._corrector.prior
        rows[silent, m:] = 0
        return classes, np.minimum(rows, 1)

    # ---- river protocol

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"classifier": linear_model.LogisticRegression()}
        yield {"classifier": preprocessing.StandardScaler() | linear_model.SoftmaxRegression()}


def in_order(p: Probabilities, corrector: Corrector) -> Array:
    """The prediction in the corrector's class order, shape (m,)."""
    return np.array([p.get(name, 0.0) for name in corrector.classes], np.float64)


def named(classes: Sequence[Any], row: Array) -> Probabilities:
    """{class: probability}, not above the sum of 1 that river allows, despite rounding."""
    return dict(zip(classes, np.minimum(row, 1.0).tolist(), strict=True))

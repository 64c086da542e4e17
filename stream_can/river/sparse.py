"""CorrectedSparseClassifier: a river classifier of thousands of classes with corrected
probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from stream_can.method.class_names import class_name
from stream_can.method.settings import in_range
from stream_can.river.corrected import (
    CorrectedWrapper,
    Probabilities,
    probabilities,
    require_counts,
)
from stream_can.sparse.corrector import SparseCorrector
from stream_can.sparse.loop import MOST_LISTED


class CorrectedSparseClassifier(CorrectedWrapper[SparseCorrector], base.Classifier):
    """A classifier of thousands of classes behind a :class:`stream_can.sparse.SparseCorrector` that
    learns from the same labels.

    The ``listed`` likeliest classes of each prediction are corrected, in O(listed). What remains is
    shared among all other classes that the classifier or a label has named, one half as the
    classifier shares it, the other half by their labels so far.

    Classes are added as the classifier and the labels name them, up to ``max_classes``: others are
    left out of predictions, and their labels, which ``labels_left_out`` counts, teach the
    classifier alone. They are str, int of 64 bits, float or
    bool; those that are written alike are one. The first label of an unknown class teaches the
    class mix alone. An unusable prediction (empty, NaN, negative, infinite or all zeros) is
    answered with the class mix, and its label teaches that mix alone.

    Parameters
    ----------
    classifier
        A river classifier or pipeline with ``predict_proba_one``. Wrap it in
        :class:`FrozenClassifier` if only the corrector should learn.
    listed
        How many of the likeliest classes are corrected, 1 to 128.
    train_counts
        {class: training rows of the classifier}, for a frozen classifier.
    max_classes, half_life, memory_mb
        See :class:`stream_can.sparse.SparseCorrector`.

    Raises
    ------
    ValueError
        An argument is out of range; the message names it.

    Examples
    --------
    >>> from river import datasets, metrics, naive_bayes
    >>> from stream_can.river import CorrectedSparseClassifier

    >>> def log_loss(model):
    ...     metric = metrics.CrossEntropy()
    ...     for x, y in datasets.ImageSegments():
    ...         metric.update(y, model.predict_proba_one(x))
    ...         model.learn_one(x, y)
    ...     return round(metric.get(), 1)

    >>> plain = naive_bayes.GaussianNB()
    >>> log_loss(plain), log_loss(CorrectedSparseClassifier(plain.clone(), listed=3))
    (3.0, 0.6)
    """

    def __init__(
        self,
        classifier: base.Classifier,
        *,
        listed: int = 10,
        train_counts: Mapping[Any, float] | None = None,
        max_classes: int = 1_000_000,
        half_life: float = 5000.0,
        memory_mb: float = 1024,
    ) -> None:
        require_counts(train_counts, "class")
        in_range("listed", listed, 1, MOST_LISTED)
        if not isinstance(listed, int):
            raise ValueError(f"listed: {listed!r}, expected a whole number")
        self.classifier = classifier
        self.listed, self.train_counts, self.max_classes = listed, train_counts, max_classes
        self.half_life, self.memory_mb = half_life, memory_mb
        self._classes = {str(name): class_name(name) for name in train_counts or ()}
        """Names of the classes by how they are written, which the corrector knows them by."""
        counts = train_counts and {str(name): n for name, n in train_counts.items()}
        self._corrector: SparseCorrector = SparseCorrector(
            max_classes=max_classes, train_counts=counts, half_life=half_life, memory_mb=memory_mb
        )
        self.labels_left_out = 0
        """Number of labels of classes beyond ``max_classes``."""

    def _read_prediction(self, prediction: dict[Any, Any]) -> Probabilities:
        new = [name for name in prediction if str(name) not in self._classes]
        beyond = {*new[self.max_classes - len(self._classes) :]}
        return {
            self._classes.get(str(name), name): p
            for name, p in prediction.items()
            if name not in beyond
        }

    def _correct_prediction(self, x: Any, p: Probabilities) -> Probabilities:
        texts = self._classes | {str(name): name for name in p}
        row, unlisted = self._likeliest(p)
        if not row:
            return dict(zip(texts.values(), self._mix([*texts]).tolist(), strict=True))
        better: Any = self._corrector.correct_one(row)
        probs, rest = better
        missing = [text for text in texts if text not in probs]
        if missing:
            by_labels = self._tails(missing, [*probs])
            by_classifier = np.array([unlisted.get(text, 0.0) for text in missing])
            mass = by_classifier.sum()
            shares = (by_classifier / mass + by_labels) / 2 if mass > 0 else by_labels
            probs = probs | dict(zip(missing, (rest * shares).tolist(), strict=True))
        total = sum(probs.values())
        return {name: min(probs[text] / total, 1.0) for text, name in texts.items()}

    def _likeliest(self, p: Probabilities) -> tuple[dict[str, float], dict[str, float]]:
        """The listed classes and the others, by text; none of them where a prediction is
        unusable."""
        rows, unusable = probabilities(np.array([list(p.values())], np.float64))
        if unusable[0]:
            return {}, {}
        unlisted = dict(zip(map(str, p), rows[0].tolist(), strict=True))
        row = dict(nlargest(self.listed, unlisted.items(), key=itemgetter(1)))
        for text in row:
            del unlisted[text]
        return row, unlisted

    def _tails(self, texts: Sequence[str], listed: Sequence[str]) -> NDArray[np.float64]:
        """Shares of the rest by labels, which sum to 1."""
        corrector = self._corrector
        ids = np.array(
            corrector._classes.numbers_of([*texts, *listed], "class", add=False), np.int32
        )
        row = ids[len(texts) :]
        tails = np.array([corrector._model.tail_of(i, row) for i in ids[: len(texts)].tolist()])
        return tails / tails.sum()  # type: ignore[no-any-return]

    def _mix(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Shares of the classes by all labels so far, which sum to 1."""
        corrector = self._corrector
        ids, shares, _ = corrector.class_shares()
        labels = dict(zip(corrector.names_of(ids), shares.tolist(), strict=True))
        counts = np.array([labels.get(text, 0.0) for text in texts])
        counts = counts * corrector.effective_sample_size + len(texts) * self._tails(texts, [])
        return counts / counts.sum()  # type: ignore[no-any-return]

    def _teach_corrector(self, x: Any, p: Probabilities, y: Any, weight: Any) -> None:
        named = [*p] if y is None else [*p, y]
        new = {str(name): class_name(name) for name in named if str(name) not in self._classes}
        text, (row, _) = str(y), self._likeliest(p)
        unheard = text in new and y not in p
        if len(self._classes) + len(new) > self.max_classes:
            del new[text]
            self.labels_left_out, y = self.labels_left_out + 1, None
        self._corrector.ids_of([*row] if y is None else [*row, text])
        self._classes |= new
        if row:
            self._corrector.process_one(row)
        if y is not None:
            self._classes[text] = class_name(y)  # it may have been predicted as its text
            self._corrector.learn_one(None if unheard else row or None, text)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"classifier": linear_model.LogisticRegression()}
        yield {"classifier": preprocessing.StandardScaler() | linear_model.SoftmaxRegression()}

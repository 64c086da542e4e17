"""MultiLabelState: the state of a `MultiLabelCorrector`, and what it tells."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.multilabel.columns import LabelColumns
from stream_can.multilabel.loop import OF_LABELS, STRENGTH, Model
from stream_can.multilabel.snapshot_arrays import numbers_by_name

PATHS = ("temperature", "vector", "vector+can")

Array = NDArray[np.float64]


class MultiLabelState(LabelColumns):
    """Labels and what was learned of them."""

    _model: Model
    _half_life: float
    _counts: Array | None
    _rows: float | None

    @property
    def threshold(self) -> float:
        """Probability from which on to decide for a label so as to maximise F1: half the largest
        F1.

        Computed from the last one or two thousand corrected rows, all labels together, without
        known labels; renewed every 100 rows; 0.5 before the first. [4]_

        References
        ----------
        .. [4] Lipton, Elkan, Narayanaswamy: Optimal Thresholding of Classifiers to Maximize F1
           Measure. ECML PKDD 2014.
        """
        return float(self._numbers["threshold"][0])

    def decide(self, rows: ArrayLike) -> NDArray[np.bool_]:
        """Decide for the labels of corrected rows whose probability reaches :attr:`threshold`.

        A threshold of 0.5 on calibrated rows selects what is more likely than not; for rare labels
        that is next to nothing, and F1 suffers.

        Parameters
        ----------
        rows
            Corrected rows, shape (..., m).
        """
        return np.asarray(np.asarray(rows) >= self.threshold)

    @property
    def half_life(self) -> float:
        """Number of events after which knowledge counts half."""
        return self._half_life

    @property
    def train_shares(self) -> Array:
        """Share of training rows with each label, shape (m,); 0.5 where unknown."""
        if self._counts is None or self._rows is None:
            return np.full(self.m, 0.5)
        return np.asarray((self._counts + 0.5) / (self._rows + 1))

    @property
    def n_predictions(self) -> int:
        """Number of predictions observed."""
        return self._model.n_predictions

    @property
    def n_labels(self) -> int:
        """Number of rows of labels learned, with or without prediction, at least one label
        known."""
        return self._model.n_labels

    @property
    def label_counts(self) -> Array:
        """Decayed counts of each label, known and yes: shape (2, m)."""
        of = dict(zip(OF_LABELS, self._model.dump()["labels"], strict=True))
        return np.array([of["L_N"], of["L"]])

    @property
    def label_mix(self) -> Array:
        """Estimated frequency of each label, shape (m,), from its labels and from training."""
        known, yes = self.label_counts
        return np.asarray((yes + STRENGTH * self.train_shares) / (known + STRENGTH))

    @property
    def effective_sample_size(self) -> float:
        """Decayed number of times that the most often known label was known."""
        return float(self.label_counts[0].max())

    @property
    def temperature(self) -> float:
        """Temperature of that path, above 1 for an overconfident classifier."""
        return math.exp(-float(self._numbers["temperature"][0]))

    @property
    def weights(self) -> dict[str, float]:
        """{path: its weight in the mixture}; they sum to 1."""
        return dict(zip(PATHS, self._numbers["weights"].tolist(), strict=True))

    @property
    def final_weights(self) -> dict[str, float]:
        """Weights of "anchor" and "mixture" in the output; they sum to 1."""
        odds = float(self._numbers["odds"][0])
        share = 1 / (1 + math.exp(-min(max(odds, -700.0), 700.0)))
        return {"anchor": 1 - share, "mixture": share}

    @property
    def _numbers(self) -> dict[str, Array]:
        return numbers_by_name(self._model.dump()["numbers"])

"""Inspection: the learned quantities of a corrector, read only."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector.arrays import CorrectorArrays
from stream_can.method.bases import FITTED_PATHS

Array = NDArray[np.float64]


class CorrectorInspection(CorrectorArrays):
    """The part of a `Corrector` that reports what it learned."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.classes)} classes, "
            f"{self.n_predictions} predictions, {self.n_labels} labels)"
        )

    @property
    def classes(self) -> tuple[Any, ...]:
        """Names of the classes, in column order."""
        return self._content.classes

    @property
    def paths(self) -> tuple[str, ...]:
        """Names of the paths in the mixture, in order."""
        return self._content.paths

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as given; None stands for the default m."""
        return dict(self._settings)

    @property
    def monotone(self) -> bool:
        """Whether every row keeps its likeliest class."""
        return self._content.monotone

    @property
    def known_prior(self) -> Array | None:
        """The known class mix of the stream, shape (m,); None where none was given."""
        return None if self._content.known_mix is None else self._content.known_mix.copy()

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the declared columns."""
        return self._content.columns

    def segment_values(self, column: str) -> dict[str, float]:
        """{value: log odds} of a column's labelled values, oldest label first.

        Positive odds mean that the value's labels support what its column says, in nats.
        """
        values = self._values
        if values is None or column not in values.columns:
            raise ValueError(f"segment {column!r} was not declared; declared: {self.segments}")
        k, (names, numbers) = values.columns.index(column), values.dump()
        return {
            text: row[-1].item() for (of, text), row in zip(names, numbers, strict=True) if of == k
        }

    @property
    def evicted_values(self) -> int:
        """Number of values dropped because ``segments_mb`` was full, since this object exists."""
        values = self._values
        return 0 if values is None else values.evicted

    @property
    def sets(self) -> float | None:
        """Coverage that prediction sets promise; None without sets."""
        return self._content.sets

    @property
    def sets_by(self) -> str | None:
        """Groups that each keep the coverage: "class", or the name of a segment; None without."""
        return self._content.sets_by

    @property
    def set_counts(self) -> tuple[int, int]:
        """Numbers of rows and labels seen by the sets."""
        return self._kernel.set_counts if self.sets is not None else (0, 0)

    @property
    def n_sent(self) -> int:
        """R, the number of rows in a receipt, those of ``final_weights``; 3 for a single path."""
        return self._kernel.n_sent

    @property
    def prior(self) -> Array:
        """Current class prior, shape (m,)."""
        return self._kernel.prior

    @property
    def train_prior(self) -> Array:
        """Class prior of the training set, shape (m,)."""
        return self._content.train_prior

    @property
    def temperature(self) -> float:
        """Temperature of the path of that name, above 1 for an overconfident classifier.

        1 where that path is not in use.
        """
        u = self._state.get("u.temperature")
        return 1.0 if u is None else math.exp(-u[0])

    @property
    def last_temperature(self) -> float:
        """Temperature of the tempered mixture, below 1 where the mixture is underconfident."""
        return math.exp(-self._state["u.last"][0])

    @property
    def weights(self) -> dict[str, float]:
        """{path: its weight in the mixture}; they sum to 1."""
        content, state, *_ = self._kernel.copied(("weights",))
        return dict(zip(content.paths, state["weights"].tolist(), strict=True))

    @property
    def final_weights(self) -> dict[str, float]:
        """Weights of the rows in the output, in the order of receipts.

        "anchor", "mixture" and "tempered" mixture; without :meth:`fit` "moving", the anchor at the
        recent class mix; "plain", the tempered mixture where the mix that labels taught is stale;
        with a known mix "known"; without :meth:`fit` "raw"; with columns "segmented mixture" and
        "segmented tempered", where values are given; "calibrated". Earned by how well each did when
        it was sent. A single path is its own anchor.
        """
        content = self._content
        names = ["anchor", "mixture", "tempered"]
        if len(content.paths) > 1:
            is_fitted = FITTED_PATHS[0] in content.paths
            names += ["plain"] if is_fitted else ["moving", "plain"]
            names += [] if content.known_mix is None else ["known"]
            names += [] if is_fitted else ["raw"]
            names += ["segmented mixture", "segmented tempered"] if content.columns else []
            names.append("calibrated")
        return dict(zip(names, self._kernel.final_weights, strict=True))

    @property
    def silent_classes(self) -> tuple[Any, ...]:
        """Classes left out of learning.

        The classifier predicts them and other predictions get labels, but no label has ever named
        them.
        """
        content, state, *_ = self._kernel.copied(("heard",))
        heard = state["heard"].tolist()
        return tuple(n for n, h in zip(content.classes, heard, strict=True) if h < 0)

    @property
    def follows_mix(self) -> float | None:
        """Share of the row ``fitted`` that follows the class mix of the stream, from 0 to 1.

        The rest leaves rows as :meth:`fit` made them: the mix is that of validation, or it is the
        inputs that have changed. None where :meth:`fit` had fewer than 500 rows, or was not called.
        """
        return self._kernel.follows_mix

    @property
    def coverage(self) -> float:
        """Recent share of the correction that is sent, from 0 (none) to 1.

        Below 1 where labels are no fair sample: predictions of some class get no labels, or only
        corrections, or only confirmations come back.
        """
        return self._kernel.coverage

    @property
    def confident_sums(self) -> dict[str, Array]:
        """{base: decayed column sums of its confident rows, shape (m,)}, for each base with CAN."""
        _, state, *_ = self._kernel.copied()
        return {name.removeprefix("S."): array for name, array in state.items() if name[:2] == "S."}

    @property
    def n_predictions(self) -> int:
        """Number of predictions observed."""
        return int(self._state["counts"][0])

    @property
    def n_labels(self) -> int:
        """Number of labels learned, with or without their prediction."""
        return int(self._state["counts"][1])

    @property
    def effective_sample_size(self) -> float:
        """Decayed number of labels."""
        return float(self.label_counts.sum())

    @property
    def label_counts(self) -> Array:
        """Decayed number of labels of each class, shape (m,)."""
        return self._copy("labels")

    @property
    def recent_log_loss(self) -> dict[str, float]:
        """Decayed mean log loss (nats) over the labels, of "raw" and "corrected" rows.

        Is it helping now? The sent row counts where its receipt came back, weighted as of the
        label; otherwise the row that would be sent then. NaN before the first label with its
        prediction.
        """
        raw, corrected, weight, _ = self._copy("recent").tolist()
        return (
            {"raw": raw / weight, "corrected": corrected / weight}
            if weight
            else {"raw": math.nan, "corrected": math.nan}
        )

    @property
    def fitted_log_loss(self) -> float | None:
        """Decayed mean log loss (nats) over the labels, of the row that :meth:`fit` made.

        What does `fit` alone give or cost? To compare with :attr:`recent_log_loss`, of the same
        labels. None without `fit`, with a single path, and before the first label with its
        prediction.
        """
        content, state, *_ = self._kernel.copied(("recent",))
        _, _, weight, fitted = state["recent"].tolist()
        if FITTED_PATHS[0] not in content.paths or not weight:
            return None
        return float(fitted / weight)

    @property
    def fit_report(self) -> dict[str, Any] | None:
        """Report of :meth:`fit`: rows, step, gain of each step; None without it."""
        report = self._content.fit_report
        return None if report is None else {**report}

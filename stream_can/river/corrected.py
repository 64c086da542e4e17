"""CorrectedWrapper: what the river wrappers of all kinds of rows share."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from river import base

from stream_can.method.checks import bad_rows
from stream_can.method.normalise import divided

C = TypeVar("C")
Probabilities = dict[Any, float]


class CorrectedWrapper(base.Wrapper[Any], Generic[C]):
    """A classifier behind a corrector that learns from the same labels.

    A wrapper of a kind of rows says how a prediction is read (``_read_prediction``) and a label
    (``_read_label``), how the corrector answers (``_correct_prediction``), and how it is taught
    (``_teach_corrector``).
    """

    classifier: Any
    _corrector: C | None

    @property
    def corrector(self) -> C | None:
        """The corrector, for inspection; None before the first class."""
        return self._corrector

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, Any]:
        """Predict the corrected probability of every known class; nothing changes.

        Parameters
        ----------
        x
            Features, as the classifier takes them.
        **kwargs
            Passed to the classifier.

        Returns
        -------
        {class: probability}, which sum to 1; multilabel rows: {label: {False: 1 - p, True: p}}. In
        the order in which classes appeared; empty before the first.
        """
        return self._correct_prediction(x, self._ask(x, **kwargs))

    def learn_one(self, x: dict[Any, Any], y: Any = None, **kwargs: Any) -> None:
        """Learn the label of a row, in the corrector and then in the classifier.

        Parameters
        ----------
        x
            Features, as the classifier takes them.
        y
            The class; of multilabel rows {label: whether the row has it}, where missing or None is
            unknown. None if no label will ever arrive: then the row is only observed.
        **kwargs
            Passed to the classifier's ``learn_one`` and, as in ``river.evaluate``, except the
            weight ``w`` to its ``predict_proba_one``. ``w``, from 0.01 to 100, is also the label's
            weight in a :class:`stream_can.Corrector`; multilabel and sparse rows count it once.

        Raises
        ------
        ValueError
            A class is not a str, int of 64 bits, float or bool, or what is said of a label not
            True, False or None, a feature of ``segments`` is a measurement, or ``w`` no weight.
            Nothing was learned.
        TypeError
            The classifier takes no ``w``. Nothing was learned.
        """
        label = self._read_label(y)
        if "w" in kwargs:
            require_weight(self.classifier.learn_one)
        self._teach_corrector(x, self._ask(x, **without_weight(kwargs)), label, kwargs.get("w"))
        if label is not None:
            self.classifier.learn_one(x, label, **kwargs)

    def _ask(self, x: Any, **kwargs: Any) -> Probabilities:
        """The classifier's prediction."""
        try:
            return self._read_prediction(self.classifier.predict_proba_one(x, **kwargs))
        except NotImplementedError:
            name = type(self.classifier).__name__
            raise NotImplementedError(f"{name} has no probabilities to correct") from None

    # ---- of a kind of rows

    def _read_prediction(self, prediction: dict[Any, Any]) -> Probabilities:
        """A prediction of the classifier as {class: probability}."""
        return prediction

    def _read_label(self, y: Any) -> Any:
        """What is known of a label; None where nothing is."""
        return y

    def _correct_prediction(self, x: Any, p: Probabilities) -> dict[Any, Any]:
        """Correct a prediction."""
        raise NotImplementedError

    def _teach_corrector(self, x: Any, p: Probabilities, label: Any, weight: Any) -> None:
        """Pass a prediction to the corrector and, unless None, its label."""
        raise NotImplementedError

    # ---- river protocol

    @property
    def _wrapped_model(self) -> Any:
        return self.classifier

    def _unit_test_skips(self) -> set[str]:
        skips: set[str] = self.classifier._unit_test_skips()
        return skips


class HasSuccessor(CorrectedWrapper[C]):
    """A wrapper whose corrector can begin with what that of an older classifier learned."""

    def successor(self, classifier: Any, discount: float = 0.1) -> Self:
        """Create the wrapper of a new version of the classifier; see :meth:`Corrector.successor`.

        Parameters
        ----------
        classifier
            The new version, used as it is.
        discount
            Factor of the evidence learned here, from 0 to 1.

        Returns
        -------
        A new wrapper with these settings, whose sets start over; this one is unchanged.
        """
        wrapper: Any = self
        successor: Self = wrapper.clone()
        successor.classifier = classifier  # a clone would be untrained
        if wrapper._corrector is not None:
            successor._corrector = wrapper._corrector.successor(discount)
        return successor


def probabilities(P: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Normalise rows of any sum; also tell which are unusable, shape (n,)."""
    P, _ = divided(P, "always")
    silent = np.zeros(len(P), np.bool_)
    silent[list(bad_rows(P))] = True
    return P, silent


def require_counts(train_counts: object, of: str) -> None:
    """Raise ValueError for counts without names; None is allowed."""
    if not (train_counts is None or (isinstance(train_counts, Mapping) and train_counts)):
        raise ValueError(f"train_counts: expected {{{of}: rows}}, got {train_counts!r}")


def require_weight(learn: Any) -> None:
    """Raise TypeError where a classifier's method takes no weight ``w``."""
    parameters = inspect.signature(learn).parameters
    if "w" not in parameters and all(p.kind != p.VAR_KEYWORD for p in parameters.values()):
        name = f"{type(learn.__self__).__name__}.{learn.__name__}"
        raise TypeError(
            f"w: {name} takes no weight; leave w out, or take a classifier that has it, such as"
            " HoeffdingTreeClassifier"
        )


def without_weight(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments that predictions accept too."""
    return {name: value for name, value in kwargs.items() if name != "w"}

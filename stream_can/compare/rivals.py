"""Rivals: common ways to correct a stream's predictions, and stream_can."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.calibration.binning import BBQ, HistogramBinning
from stream_can.calibration.method import Calibration
from stream_can.calibration.regression import IsotonicCalibration, PlattScaling
from stream_can.calibration.scaling import MatrixScaling, TemperatureScaling, VectorScaling
from stream_can.calibration.structured import StructuredMatrixScaling, StructuredVectorScaling
from stream_can.compare.adwin import refitted_by_adwin
from stream_can.compare.baselines import (
    MOST_REGRESSED,
    label_shift,
    logistic,
    online_logistic,
)
from stream_can.compare.kalman import MOST_CLASSES, kalman
from stream_can.compare.online import BLOCK, online_platt
from stream_can.compare.stream import Stream, known_before
from stream_can.corrector import Corrector
from stream_can.method.batch import batch_can
from stream_can.method.prior import laplace
from stream_can.replay.steps import steps

OURS = "stream_can"
RAW, BOTH = "raw", f"{OURS}: fit, labels"
MORE = (
    "structured vector", "structured matrix", "matrix, refitted", "OPS", "OPS, tracking",
    "vector, refitted by ADWIN", "Kalman", "Kalman, fitted", "river, logistic",
)  # fmt: skip
"""Rivals that are slow, need river or play few classes only: played only on request."""

Array = NDArray[np.float64]


def key_of(name: str) -> str:
    """A rival's name in one word."""
    return re.sub(r"[:,]? ", "-", name.lower())


class Rival(NamedTuple):
    """A way to correct a stream."""

    name: str
    needs: str
    """Description of the data and work that it needs."""
    play: Callable[[Stream], Iterator[Array]]
    """Yields the corrected rows of a stream, block by block."""
    most_classes: float = np.inf
    """Largest number of classes that it plays."""

    @property
    def key(self) -> str:
        """Its name in one word, as for ``--against``."""
        return key_of(self.name)

    @property
    def is_other(self) -> bool:
        """Whether it is neither stream_can nor raw."""
        return self.name != RAW and not self.name.startswith(OURS)

    @property
    def is_fitted(self) -> bool:
        """Whether it needs validation rows."""
        return "validation rows" in self.needs


def rivals(
    refit_every: int = 500,
    *,
    names: str | Sequence[str] = "default",
    classes: int | None = None,
    **settings: Any,
) -> list[Rival]:
    """All rivals, from doing nothing to stream_can with everything it can use.

    Parameters
    ----------
    names
        "default"; "all", including slow ones; or some keys. Raw and stream_can always play.
    classes
        Number of classes of the stream. Of "all", those that play fewer are left out, with a
        warning that names them.
    refit_every
        Rows between two refits of methods that are refitted.
    **settings
        Settings of the :class:`Corrector`.

    Raises
    ------
    ValueError
        ``refit_every`` is below 1, a name is unknown, or its rival plays fewer classes.
    """
    if refit_every < 1:
        raise ValueError(f"refit_every: expected at least 1 row, got {refit_every}")
    fitted: list[tuple[str, Callable[[], Calibration]]] = [
        ("histogram binning", HistogramBinning),
        ("isotonic", IsotonicCalibration),
        ("BBQ", BBQ),
        ("Platt", PlattScaling),
        ("temperature", TemperatureScaling),
        ("vector", VectorScaling),
        ("matrix", MatrixScaling),
        ("structured vector", StructuredVectorScaling),
        ("structured matrix", StructuredMatrixScaling),
    ]
    again = ("temperature", "vector", "matrix", "isotonic")
    fit_to, refit = "validation rows", "validation rows, labels, refits"
    all_rivals = [
        Rival(RAW, "nothing", _blocks),
        *[Rival(name, fit_to, _once(method)) for name, method in fitted],
        *[
            Rival(f"{name}, refitted", refit, _again(method, refit_every))
            for name, method in fitted
            if name in again
        ],
        Rival("logistic, refitted", "labels, refits", logistic(refit_every), MOST_REGRESSED),
        Rival("label shift by EM", "the mix before", label_shift(refit_every)),
        Rival("river, logistic", "labels, river", online_logistic),
        Rival("vector, refitted by ADWIN", "validation rows, labels, river", refitted_by_adwin),
        Rival("OPS", "labels", online_platt(tracks=False)),
        Rival("OPS, tracking", "labels", online_platt(tracks=True)),
        Rival("Kalman", "labels", kalman(fits=False), MOST_CLASSES),
        Rival("Kalman, fitted", "validation rows, labels", kalman(fits=True), MOST_CLASSES),
        Rival("batch CAN", "all rows at once", _batch_can),
        Rival("stream_can: fit", fit_to, _ours(settings, fit=True, rate=0)),
        Rival("stream_can: labels", "labels", _ours(settings, fit=False, rate=1)),
        Rival(BOTH, "validation rows, labels", _ours(settings, fit=True, rate=1)),
        Rival(
            "stream_can: fit, 1 label in 20",
            "validation rows, 1 label in 20",
            _ours(settings, fit=True, rate=0.05),
        ),
    ]
    chosen = _chosen(all_rivals, names)
    if classes is None or all(classes <= rival.most_classes for rival in chosen):
        return chosen
    too_narrow = [rival for rival in chosen if classes > rival.most_classes]
    keys = ", ".join(rival.key for rival in too_narrow)
    most = ", ".join(f"{n:g}" for n in sorted({rival.most_classes for rival in too_narrow}))
    message = f"rivals: {keys}: at most {most} classes, here are {classes}"
    if names not in ("all", "default"):
        raise ValueError(message)
    warnings.warn(f"{message}; left out", stacklevel=2)
    return [rival for rival in chosen if rival not in too_narrow]


def _chosen(all_rivals: list[Rival], names: str | Sequence[str]) -> list[Rival]:
    """The chosen rivals, in order."""
    if names == "all":
        return all_rivals
    if names == "default":
        return [rival for rival in all_rivals if rival.name not in MORE]
    keys = {names} if isinstance(names, str) else {*names}
    if unknown := sorted(keys - {rival.key for rival in all_rivals}):
        known = ", ".join(rival.key for rival in all_rivals)
        raise ValueError(f"rivals: {unknown[0]!r} is none of default, all, {known}")
    return [rival for rival in all_rivals if rival.key in keys or rival.name in (RAW, BOTH)]


def _blocks(stream: Stream) -> Iterator[Array]:
    for first in range(0, len(stream.P), BLOCK):
        yield stream.P[first : first + BLOCK]


def _once(method: Callable[[], Calibration]) -> Callable[[Stream], Iterator[Array]]:
    def play(stream: Stream) -> Iterator[Array]:
        calibration = method().fit(*stream.validation)
        for P in _blocks(stream):
            yield calibration.transform(P)

    return play


def _again(method: Callable[[], Calibration], every: int) -> Callable[[Stream], Iterator[Array]]:
    """A method refitted at regular intervals to the validation rows and the latest rows whose
    labels have arrived."""

    def play(stream: Stream) -> Iterator[Array]:
        calibration = method()
        arrivals = stream.arrivals
        for first in range(0, len(stream.P), every):
            calibration.fit(*known_before(first, stream, arrivals))
            yield calibration.transform(stream.P[first : first + every])

    return play


def _batch_can(stream: Stream) -> Iterator[Array]:
    """The paper's method: the training prior, and all rows of the stream at once."""
    counts = stream.train_counts
    if counts is None:
        counts = np.bincount(stream.validation[1], minlength=len(stream.classes))
    yield batch_can(stream.P, laplace(counts))


def _ours(
    settings: dict[str, Any], *, fit: bool, rate: float
) -> Callable[[Stream], Iterator[Array]]:
    def play(stream: Stream) -> Iterator[Array]:
        corrector = Corrector(
            len(stream.classes), **{"train_counts": stream.train_counts, **settings}
        )
        if fit:
            corrector.fit(*stream.validation)
        chunks, delay = stream.chunks(), stream.label_delay
        for step in steps(chunks, corrector, label_delay=delay, label_rate=rate, explain=False):
            yield step.corrected

    return play

"""Baselines that an engineer would build first: refitted or online logistic regression, EM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.calibration.scaling import MatrixScaling, VectorScaling
from stream_can.compare.online import BLOCK
from stream_can.compare.stream import RECENT, Stream, known_before
from stream_can.errors import StreamCANError
from stream_can.method.prior import laplace
from stream_can.scores import FLOOR, log_loss

Array = NDArray[np.float64]

FEWEST = 100
"""Labels below which nothing is fitted."""
PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Values of ``l2`` that are tried."""
MOST_REGRESSED = 30
"""Classes up to which a matrix is fitted again and again: it takes m² numbers."""
EM_STEPS, EM_ENOUGH = 1000, 1e-6
"""Maximum number of steps, and the change of the mix at which they end."""


def logistic(every: int) -> Callable[[Stream], Iterator[Array]]:
    """Logistic regression on all log probabilities, fitted again every so many rows to the
    validation rows, if any, and the latest labels that have arrived.

    Its penalty, which pulls to the row as it came, is chosen whenever the labels have doubled: the
    one that does best on the last fifth of them, fitted to the others.
    """

    def play(stream: Stream) -> Iterator[Array]:
        arrivals = stream.arrivals
        l2, chosen_at = PENALTIES[-1], 0
        for first in range(0, len(stream.P), every):
            rows = stream.P[first : first + every]
            P, y = known_before(first, stream, arrivals)
            if len(y) < FEWEST:
                yield rows
                continue
            if len(y) >= 2 * chosen_at:
                l2, chosen_at = best_penalty(P, y), len(y)
            yield MatrixScaling(l2).fit(P, y).transform(rows)

    return play


def best_penalty(P: Array, y: NDArray[np.int64]) -> float:
    """The penalty with the smallest log loss on the last fifth, fitted to the others."""
    cut = len(y) * 4 // 5

    def loss(l2: float) -> float:
        return log_loss(MatrixScaling(l2).fit(P[:cut], y[:cut]).transform(P[cut:]), y[cut:])

    return min(PENALTIES, key=loss)


def label_shift(every: int) -> Callable[[Stream], Iterator[Array]]:
    """The class mix by EM, over the latest rows and every so many rows anew; no label is used.

    With validation rows the classifier is calibrated by vector scaling first, without which EM goes
    astray [1]_, and the mix before is theirs; else that of ``train_counts``, else even.

    References
    ----------
    .. [1] Alexandari, Kundaje, Shrikumar: Maximum Likelihood with Bias-Corrected Calibration is
       Hard-To-Beat at Label Shift Adaptation. ICML 2020.
    """

    def play(stream: Stream) -> Iterator[Array]:
        (V, v), counts, P = stream.validation, stream.train_counts, stream.P
        if len(v):
            counts = np.bincount(v, minlength=len(stream.classes))
            P = VectorScaling().fit(V, v).transform(P)
        trained = laplace(np.zeros(len(stream.classes)) if counts is None else counts)
        for first in range(0, len(P), every):
            rows, recent = P[first : first + every], P[max(0, first - RECENT) : first]
            if len(recent) < FEWEST:
                yield rows
                continue
            yield _under(shifted_mix(recent, trained) / trained, rows)

    return play


def shifted_mix(P: Array, trained: Array) -> Array:
    r"""The class mix of rows, by EM.

    $$ q_k \leftarrow \frac{1}{n} \sum_i
       \frac{p_{ik} \, q_k / \pi_k}{\sum_l p_{il} \, q_l / \pi_l} $$

    Parameters
    ----------
    P
        Rows of a classifier, shape (n, m).
    trained
        Class mix of its training, shape (m,), where q begins.

    Returns
    -------
    Shape (m,).

    References
    ----------
    .. [1] Saerens, Latinne, Decaestecker: Adjusting the Outputs of a Classifier to New a Priori
       Probabilities. Neural Computation 14, 2002.
    """
    q = trained
    for _ in range(EM_STEPS):
        q, was = _under(q / trained, P).mean(axis=0), q
        if np.abs(q - was).sum() < EM_ENOUGH:
            break
    return q


def _under(ratio: Array, P: Array) -> Array:
    """Rows of which each class is times its ratio; a row of which nothing is left as it came."""
    rows = P * ratio
    total = rows.sum(axis=1, keepdims=True)
    return np.where(total > 0, rows / np.where(total > 0, total, 1), P)


def online_logistic(stream: Stream) -> Iterator[Array]:
    """River's softmax regression on scaled log probabilities, which learns each label as it
    arrives; before the first one rows go out as they came."""
    try:
        from river import compose, linear_model, preprocessing
    except ImportError:
        raise StreamCANError("river-logistic uses river: pip install 'stream_can[river]'") from None
    model: Any = compose.Pipeline(preprocessing.StandardScaler(), linear_model.SoftmaxRegression())
    logs = np.log(np.maximum(stream.P, FLOOR))
    m, at = len(stream.classes), 0
    labelled_rows, due = stream.arrivals
    for first in range(0, len(stream.P), BLOCK):
        rows = stream.P[first : first + BLOCK].copy()
        for i, row in enumerate(rows, first):
            while at < len(labelled_rows) and due[at] <= i:
                j = labelled_rows[at]
                model.learn_one(dict(enumerate(logs[j].tolist())), int(stream.y[j]))
                at += 1
            if at:
                by_class = model.predict_proba_one(dict(enumerate(logs[i].tolist())))
                p = np.array([by_class.get(k, 0.0) for k in range(m)])
                row[:] = p / p.sum()
        yield rows

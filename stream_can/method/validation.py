"""fit: learn a base from validation rows and freeze it; it helps before the first label."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.bases import MATRIX_LIMIT
from stream_can.method.checks import normalised
from stream_can.method.class_names import ClassName, preview
from stream_can.method.kernel import Kernel, Mode, Model
from stream_can.method.segments import Texts
from stream_can.method.state import State, even_weights, new_state
from stream_can.method.sums import EXPERTS, THIRDS

PASSES = 4
SEED = 0
"""Seed of the orders of the passes: fixed, so that equal rows give equal fits."""
FOLDS = 5
TRUSTED = 5000
"""Number of rows (and 5 per class) from which the matrix base is fitted without selection."""
ROWS_TO_DOUBLE = 5
"""So many validation rows of a class let its share double, or halve; as many more once more."""
EM_ROWS = 500
"""Number of rows below which the mean output is too rough a reference for the class mix."""
LADDER = {
    "centred": ("centred", 5),
    "strict vector": ("vector", 20),
    "vector": ("vector", 5),
    "matrix": ("matrix", 5),
}
"""{step: (base, prior precision a)}, from fewest to most parameters."""

Array = NDArray[np.float64]


class ValidationStep(TypedDict):
    """A step of the ladder: whether its held-out gain exceeded its standard error."""

    step: str
    over: str
    gain: float
    standard_error: float
    taken: bool


class FitReport(TypedDict):
    """Report of `fit`."""

    rows: int
    step: str
    why: str
    ladder: list[ValidationStep]
    class_mix: bool
    missing: list[ClassName]


@dataclass
class Fitted:
    """Result of `fit`: arrays of its base, a report, the rows in the order to learn."""

    state: State
    report: FitReport
    rows: Array
    labels: NDArray[np.int64]
    order: NDArray[np.int64]

    def in_order(self, texts: Texts | None) -> Texts | None:
        """Column values of the rows, in the order to learn them."""
        if texts is None:
            return None
        for column in texts:
            if column is not None and len(column) != len(self.order):
                raise ValueError(f"segments: {len(column)} values for {len(self.order)} rows")
        return [None if column is None else [column[i] for i in self.order] for column in texts]


def fit(
    P: ArrayLike, y: NDArray[np.int64], classes: tuple[Any, ...], train: Array, *, monotone: bool
) -> Fitted:
    """Fit the base to rows ``P``, shape (n, m), with label indices ``y``, shape (n,); ``train`` is
    the training prior. With ``monotone`` there is no base: the rows are checked and put in order.

    Four passes in fixed random orders, so that equal rows always give equal fits.
    """
    P = normalised(P)
    n, m = P.shape
    if m != len(classes):
        raise InvalidPrediction(
            f"predictions have shape {P.shape}, expected (n, {len(classes)}): one column per class"
        )
    if len(y) != n:
        raise InvalidPrediction(f"{n} predictions but {len(y)} labels; give one label per row")
    rows_of = np.bincount(y, minlength=m)
    if (rows_of > 0).sum() < 2:
        raise ValueError(
            f"fit: {n} validation rows hold {(rows_of > 0).sum()} of {m} classes, "
            "expected at least 2"
        )
    missing = [classes[i] for i in np.flatnonzero(rows_of == 0)]
    if missing:
        warnings.warn(
            f"fit: no validation row of class {preview(missing)}: fit cannot help it", stacklevel=3
        )
    rng = np.random.default_rng(SEED)
    orders = [rng.permutation(n) for _ in range(PASSES)]

    ladder: list[ValidationStep] = []
    if monotone:
        report: FitReport = {
            "rows": n, "step": "temperature", "why": "monotone: no other step keeps the order",
            "ladder": ladder, "class_mix": False, "missing": missing,
        }  # fmt: skip
        return Fitted({}, report, P[orders[0]], y[orders[0]], orders[0])
    if n >= TRUSTED and n >= 5 * m and m <= MATRIX_LIMIT:
        step, why = "matrix", f"{n} rows are enough for the matrix base"
    else:
        step, ladder = climb(P, y, orders, train)
        why = f"{n} rows of {m} classes: cross-validation in {FOLDS} folds chose it"
    state = fit_base(P, y, orders, *LADDER[step], train)
    base = LADDER[step][0]
    fitted = {
        f"{key[0]}.fitted": array
        for key, array in state.items()
        if key in (f"u.{base}", f"c.{base}", f"A.{base}")
    }
    fitted["u.fitted"] = fitted["u.fitted"][:1]  # without shared features
    fitted["S.fitted"] = np.zeros(m)
    if n >= EM_ROWS:
        rows = apply(P, state, base, train)
        fitted["ref"] = (n * rows.mean(0) + 0.5) / (n + 0.5 * m)
        fitted["sharp"], fitted["D"] = sharpness(rows, y), np.zeros(2)
        fitted |= {name: np.zeros(m + 1) for name in (*EXPERTS, *THIRDS)} | cells(rows)
        fitted["held"] = 1 + rows_of / ROWS_TO_DOUBLE
        fitted["W"], fitted["W.rival"] = even_weights(["W"])["W"] / 2, np.full(1, 0.5)
    report = {
        "rows": n, "step": step, "why": why, "ladder": ladder,
        "class_mix": n >= EM_ROWS, "missing": missing,
    }  # fmt: skip
    return Fitted(fitted, report, P[orders[0]], y[orders[0]], orders[0])


def cells(rows: Array) -> State:
    """Count how the rows, shape (n, m), fall into cells, which a change of the inputs moves: the
    likeliest class, by thirds of its probability, each third with as many rows."""
    n, m = rows.shape
    top = rows.max(axis=1).astype(np.float32).astype(np.float64)
    by_size = np.sort(top)
    edges = np.array([(by_size[n * i // 3 - 1] + by_size[n * i // 3]) / 2 for i in (1, 2)])
    cell = 3 * rows.argmax(axis=1) + (top[:, None] >= edges).sum(axis=1)
    counts = np.bincount(cell, minlength=3 * m).reshape(m, 3)
    return {"cells": (counts + 0.5) / (n + 1.5 * m), "edges": edges}


def sharpness(rows: Array, y: NDArray[np.int64]) -> Array:
    """Mean |r|^2 over the rows of each class, shape (m,), shrunk to the overall mean by five
    rows."""
    squares = (rows * rows).sum(axis=1)
    m = rows.shape[1]
    of_class = np.bincount(y, squares, m)
    shrunk: Array = (of_class + 5 * squares.mean()) / (np.bincount(y, minlength=m) + 5)
    return shrunk


def climb(
    P: Array, y: NDArray[np.int64], orders: list[NDArray[np.int64]], train: Array
) -> tuple[str, list[ValidationStep]]:
    """The step of the ladder justified by its held-out log loss."""
    n, m = P.shape
    fold = np.empty(n, np.int64)
    fold[orders[0]] = np.arange(n) % FOLDS
    best, losses = "", np.empty(0)
    ladder: list[ValidationStep] = []
    for step, (base, a) in LADDER.items():
        if base == "matrix" and m > MATRIX_LIMIT:
            continue
        loss = np.empty(n)
        for f in range(FOLDS):
            out = np.flatnonzero(fold == f)
            training = [order[fold[order] != f] for order in orders]
            state = fit_base(P, y, training, base, a, train)
            of_label = apply(P[out], state, base, train)[np.arange(len(out)), y[out]]
            loss[out] = -np.log(np.maximum(of_label, 1e-6))
        if not best:
            best, losses = step, loss
            continue
        gain = losses - loss
        error = gain.std() / math.sqrt(n)
        is_better = bool(gain.mean() > error)
        ladder.append(
            {
                "step": step,
                "over": best,
                "gain": float(gain.mean()),
                "standard_error": float(error),
                "taken": is_better,
            }
        )
        if is_better:
            best, losses = step, loss
    return best, ladder


def fit_base(
    P: Array, y: NDArray[np.int64], orders: list[NDArray[np.int64]], base: str, a: float,
    train: Array,
) -> State:  # fmt: skip
    """State of one base after a pass over the rows in each order; priors count once per pass."""
    state = new_state(P.shape[1], (base,))
    kernel = lone(base, state, a, train)
    for order in orders:
        kernel.learn_many(P[order], y[order], None)
    return state


def apply(P: Array, state: State, base: str, train: Array) -> Array:
    """Recalibrate rows by a base, shape (n, m)."""
    out: Array = lone(base, state, 0.0, train).rows(P, 2, Mode.CORRECT)
    return out


def lone(base: str, state: State, precision: float, train: Array) -> Kernel:
    """A kernel of one base without shared features and decay; priors count once per pass."""
    m = len(state["labels"])
    model = Model(
        m,
        (base,),
        state,
        train=train,
        start_weights=[np.ones(1)],
        half_life=math.inf,
        uncertainty="topk_entropy",
        k=3,
        threshold=0.9,
        pseudo_count=m,
        prior_strength=m,
        label_noise=0,
        precision=PASSES * precision,
        exponent=0.5,
        passes=PASSES,
        shared_features=False,
    )
    return Kernel(model, state)

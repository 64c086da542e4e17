"""Initial arrays of a new version's corrector: docs/method.md, "A new version"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.method.bases import FITTED_PATHS, MOST_C, MOST_LOG_B, MOST_T, WHOLE_PRECISION
from stream_can.method.paths import anchor
from stream_can.method.state import WEIGHTS, State, new_state
from stream_can.method.sums import WEIGHTS_OF_EXPERTS

PRECISION_B, PRECISION_T, PRECISION_C = 10.0, 3.0, 5.0
"""Prior precisions around "no change": Lambda of log b and of t, a of c and A."""
INPUTS = ("C.full", "P.full", "s.full", "n.full")
"""Arrays of a whole matrix that tell of its inputs; without evidence they begin anew."""
BELIEFS = ("labels", "heard", "heaviest", "P.full", *WEIGHTS_OF_EXPERTS)
"""Arrays that are kept, beside the weights of the paths."""


def successor(
    state: Mapping[str, NDArray[Any]], m: int, paths: Sequence[str], n_columns: int, discount: float
) -> tuple[State, tuple[str, ...]]:
    """Arrays and paths of a corrector whose evidence is multiplied by ``discount``, from 0 to 1.

    The result of ``fit`` is left out; the weight of its paths goes to the anchor.
    """
    unfitted = tuple(path for path in paths if path not in FITTED_PATHS)
    if discount == 1 and len(unfitted) == len(paths):
        return dict(state), unfitted
    arrays = new_state(m, unfitted, n_columns)
    for name in arrays.keys() & state.keys():
        kind, _, base = name.partition(".")
        if name in INPUTS and discount == 0:
            continue
        if name in WEIGHTS:
            arrays[name] = _without_fitted(state[name], paths, unfitted)
        elif name in BELIEFS:
            arrays[name] = state[name]
        elif kind == "u":
            arrays[name] = balanced(state[name], state[f"K.{base}"], discount)
        elif name == "A.full":
            curvature = state["H.full"][:, None]
            arrays[name] = _offsets(state[name], curvature, discount, WHOLE_PRECISION)
        elif name.endswith(".squares"):  # sums of squares of weights
            arrays[name] = discount**2 * state[name]
        elif kind in ("c", "A"):
            curvature = state[f"{'H' if kind == 'c' else 'G'}.{base}"]
            arrays[name] = _offsets(state[name], curvature, discount)
        else:
            arrays[name] = (discount * state[name].astype(np.float64)).astype(state[name].dtype)
    return arrays, unfitted


def _without_fitted(
    weights: NDArray[Any], paths: Sequence[str], unfitted: tuple[str, ...]
) -> NDArray[Any]:
    remaining = weights[[paths.index(path) for path in unfitted]]
    remaining[unfitted.index(anchor(unfitted))] += weights.sum() - remaining.sum()
    return remaining


def _offsets(
    values: NDArray[Any], curvature: NDArray[Any], d: float, a: float = PRECISION_C
) -> NDArray[Any]:
    """c <- c d (H + a) / (d H + a), and A with G."""
    wide, H = values.astype(np.float64), curvature.astype(np.float64)
    return np.clip(wide * d * (H + a) / (d * H + a), -MOST_C, MOST_C).astype(values.dtype)


def balanced(
    u: NDArray[Any], K: NDArray[Any], d: float, precision: Sequence[float] | None = None
) -> NDArray[Any]:
    """u <- (d Q + Lambda)^-1 d (Q + Lambda) u; K is the upper triangle of Q, row by row.

    Plain elimination with scalar operations: LAPACK and sum() give other bits on other machines and
    Pythons.
    """
    n, numbers = len(u), iter(K.tolist())
    Q = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            Q[i][j] = Q[j][i] = next(numbers)
    prior, old = precision or [PRECISION_B] + [PRECISION_T] * (n - 1), u.tolist()
    x, system = (
        [p * v for p, v in zip(prior, old, strict=True)],
        [[d * q for q in row] for row in Q],
    )
    for i in range(n):
        system[i][i] += prior[i]
        for j in range(n):
            x[i] += Q[i][j] * old[j]
        x[i] *= d
    for i in range(n):  # positive definite: no pivoting
        for j in range(i + 1, n):
            by = system[j][i] / system[i][i]
            for k in range(i, n):
                system[j][k] -= by * system[i][k]
            x[j] -= by * x[i]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] -= system[i][j] * x[j]
        x[i] /= system[i][i]
    bounds = np.array([MOST_LOG_B] + [MOST_T] * (n - 1))
    return np.asarray(np.clip(x, -bounds, bounds))

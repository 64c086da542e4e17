"""Costs: which action is the cheapest for a row of probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.method.checks import bad_rows
from stream_can.method.class_names import class_names, json_name, preview
from stream_can.method.classes import ClassIndex
from stream_can.method.rows import as_float64, wrong_shape

Array = NDArray[np.float64]
ActionCosts = Mapping[str, float | Mapping[Any, float] | Sequence[float]]
"""Cost of each action: one number, one for each class by name, or m numbers in class order."""
OTHERS = "*"
"""In place of a class: all classes that an action does not name."""


class Costs:
    r"""Costs of actions by true class, and the action that is the cheapest for a row.

    The expected cost of action $a$ for a row $p$ is $\sum_k C_{ak} p_k$, and the least one is
    decided on [^1]; of equally cheap actions the first. That is the best decision where the
    probabilities are calibrated.

    Parameters
    ----------
    classes
        Names of the classes in column order, or their number.
    costs
        For each action its cost: for each class, by name (``"*"``: all others) or as m numbers in
        class order, or one number where it costs the same whatever the class, as asking a person
        does. Negative costs are gains.

    Raises
    ------
    ValueError
        There are fewer than two actions, a class has no cost, or a cost is not finite; the message
        names the action.

    References
    ----------
    [^1]: Elkan, The foundations of cost-sensitive learning, IJCAI 2001; for an action whose cost
        does not depend on the class: Chow, On optimum recognition error and reject tradeoff, IEEE
        Transactions on Information Theory 16, 1970.

    Examples
    --------
    >>> costs = Costs(["fraud", "fine"], {
    ...     "block": {"fraud": 0, "fine": 20}, "pass": {"fraud": 500, "fine": 0}, "call": 8,
    ... })
    >>> costs.decide([[0.9, 0.1], [0.1, 0.9], [0.01, 0.99]])
    ['block', 'call', 'pass']
    """

    def __init__(self, classes: int | Iterable[Any], costs: ActionCosts) -> None:
        self.classes = class_names(classes)
        if not isinstance(costs, Mapping) or len(costs) < 2:
            raise ValueError(
                "costs: expected two actions or more, such as {'block': {'fraud': 0, 'fine': 20},"
                " 'pass': {'fraud': 500, 'fine': 0}}"
            )
        self._columns = ClassIndex(self.classes)
        index = ClassIndex(self.classes, "json")
        self.actions = tuple(_action(name) for name in costs)
        """Names of the actions."""
        self.matrix = np.array(
            [
                _row(f"costs: {name}", cost, index, self.classes)
                for name, cost in zip(self.actions, costs.values(), strict=True)
            ]
        )
        """Costs, shape (actions, m)."""

    def expected(self, rows: ArrayLike) -> Array:
        """Compute the expected cost of each action for rows of shape (n, m): shape (n, actions).

        Raises
        ------
        InvalidPrediction
            The rows are not probabilities of these classes.
        """
        return self._expected(self._checked(rows))

    def decide(self, rows: ArrayLike) -> list[str]:
        """Name the cheapest action for each of rows of shape (n, m).

        Raises
        ------
        InvalidPrediction
            The rows are not probabilities of these classes.
        """
        return self.named(self._checked(rows))

    def decide_one(self, p: ArrayLike) -> str:
        """Name the cheapest action for a row of shape (m,)."""
        return self.decide(np.asarray(as_float64(p, self._columns))[None])[0]

    def named(self, P: Array) -> list[str]:
        """:meth:`decide` of rows that are known to be probabilities."""
        return [self.actions[k] for k in self.cheapest(P).tolist()]

    def cheapest(self, P: Array) -> NDArray[np.intp]:
        """Number the cheapest action for each of such rows, shape (n,)."""
        return np.asarray(self._expected(P).argmin(axis=1))

    def _expected(self, P: Array) -> Array:
        out = np.empty((len(P), len(self.matrix)))
        for k, cost in enumerate(self.matrix):
            out[:, k] = (P * cost).sum(axis=1)  # no BLAS: its bits would depend on other rows
        return out

    def _checked(self, rows: ArrayLike) -> Array:
        P = as_float64(rows, self._columns)
        m = len(self.classes)
        if P.ndim != 2 or P.shape[1] != m:
            raise InvalidPrediction(wrong_shape(P.shape, 2, m))
        for i, why in bad_rows(P).items():
            raise InvalidPrediction(f"row {i}: {why}")
        return P


def _action(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"costs: {name!r} is not the name of an action, a text")
    return name


def _row(where: str, cost: Any, index: ClassIndex, classes: Sequence[Any]) -> list[float]:
    """Costs of an action in class order."""
    if isinstance(cost, Mapping):
        by_column: dict[int, float] = {}
        costs, others = dict(cost), None
        if OTHERS in costs and OTHERS not in index:
            others = _number(f"{where}: {OTHERS}", costs.pop(OTHERS))
        for name, number in costs.items():
            try:
                column = index[name]
            except UnknownClass as error:
                raise ValueError(f"{where}: {error}") from None
            if column in by_column:
                raise ValueError(f"{where}: class {classes[column]!r} is named twice")
            by_column[column] = _number(f"{where}: {name}", number)
        missing = [name for k, name in enumerate(classes) if k not in by_column]
        if missing and others is None:
            raise ValueError(
                f"{where}: no cost for {preview(missing)}; each class needs one, or {OTHERS!r} for"
                " all others"
            )
        return [by_column.get(k, others) for k in range(len(classes))]  # type: ignore[misc]
    if isinstance(cost, np.ndarray):
        cost = cost.tolist()
    if isinstance(cost, list | tuple):
        if len(cost) != len(classes):
            raise ValueError(f"{where}: {len(cost)} costs for {len(classes)} classes")
        return [
            _number(f"{where}: {json_name(name)}", number)
            for name, number in zip(classes, cost, strict=True)
        ]
    return [_number(where, cost)] * len(classes)


def _number(where: str, cost: Any) -> float:
    try:
        number = math.nan if isinstance(cost, bool | str) else float(cost)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or abs(number) > 1e300:
        raise ValueError(f"{where}: {cost!r}, expected a finite number")
    return number


def costs_of_text(text: str | Iterable[str]) -> dict[str, float | dict[str, float]]:
    """Parse actions and their costs: ACTION:CLASS=COST,CLASS=COST, or ACTION=COST for a cost that
    does not depend on the class; several as a list or with semicolons; or a JSON object.

    Raises
    ------
    ValueError
        The text has another form, or names an action twice.
    """
    joined = text if isinstance(text, str) else ";".join(text)
    if joined.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(joined, type=dict[str, float | dict[str, float]])
        except msgspec.MsgspecError as error:
            raise ValueError(f"costs: {error}") from None
    costs: dict[str, float | dict[str, float]] = {}
    for part in joined.split(";"):
        action, cost = _action_of_text(part.strip())
        if action in costs:
            raise ValueError(f"costs: {action!r} is named twice")
        costs[action] = cost
    return costs


def _action_of_text(text: str) -> tuple[str, float | dict[str, float]]:
    """An action and its costs."""
    action, colon, listed = text.partition(":")
    try:
        if not colon:
            action, equals, cost = text.rpartition("=")
            if not equals:
                raise ValueError(text)
            return action.strip(), float(cost)
        pairs = [part.rpartition("=") for part in listed.split(",")]
        if any(not equals for _, equals, _ in pairs):
            raise ValueError(text)
        costs = {name.strip(): float(cost) for name, _, cost in pairs}
    except ValueError:
        raise ValueError(
            f"costs: {text!r}, expected ACTION:CLASS=COST,CLASS=COST or ACTION=COST"
        ) from None
    if len(costs) < len(pairs):
        raise ValueError(f"costs: {text!r} names a class twice")
    return action.strip(), costs

"""Graph: nodes of ONNX's standard operators, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

FLOAT, INT64, DOUBLE = 1, 7, 11
"""Types of numbers, as ONNX numbers them."""
OPSET, IR_VERSION = 14, 8
"""The oldest operators with all that is needed, and a file format that runtimes since 2021 read."""


class Graph:
    """Nodes and constants of a graph; a call adds a node and names its first output.

    Inputs are names, or numbers, which become constants of type float64; int64 for whole numbers.
    """

    def __init__(self) -> None:
        import onnx  # an extra, which nothing else needs

        self._onnx: Any = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, operator: str, *inputs: str | ArrayLike, **attributes: Any) -> str:
        return self.outputs(operator, 1, *inputs, **attributes)[0]

    def outputs(
        self, operator: str, n: int, *inputs: str | ArrayLike, **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs."""
        names = [f"v{len(self.nodes)}_{k}" for k in range(n)]
        arguments = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        self.nodes.append(self._onnx.helper.make_node(operator, arguments, names, **attributes))
        return names

    def _constant(self, value: ArrayLike) -> str:
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        name = f"c{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def sum(self, x: str) -> str:
        """Sum of each row, shape (n, 1)."""
        return self("ReduceSum", x, np.array([-1]), keepdims=1)

    def divided(self, x: str) -> str:
        """Rows divided by their sum."""
        return self("Div", x, self.sum(x))

    def rows(self, x: str, m: int) -> tuple[str, str]:
        """Rows of m numbers divided by their sum, and whether each can be; those that cannot are
        even."""
        total = self.sum(x)
        is_finite = self("And", self("Greater", total, 0.0), self("Less", total, 1e300))
        is_positive = self("GreaterOrEqual", self("ReduceMin", x, axes=[-1], keepdims=1), 0.0)
        is_row = self("And", is_finite, is_positive)
        shares = self("Div", x, self("Where", is_row, total, 1.0))
        return self("Where", is_row, shares, 1 / m), is_row

    def mixed(self, weights: ArrayLike, rows: list[str]) -> str:
        """Rows, weighed and summed up."""
        parts = [
            self("Mul", row, float(w))
            for w, row in zip(np.asarray(weights), rows, strict=True)
            if w
        ]
        return self("Sum", *parts) if len(parts) > 1 else parts[0]

    def largest(self, x: str, k: int) -> list[str]:
        """The k largest of each row in order, and their columns; of equal ones the first."""
        return self.outputs("TopK", 2, x, np.array([k]), axis=-1)

    def model(self, name: str, source: str, result: str, m: int, single: bool) -> Any:
        """The model from ``source`` to ``result``, both of shape (n, m)."""
        helper, kind = self._onnx.helper, FLOAT if single else DOUBLE
        self.nodes.append(helper.make_node("Cast", [result], ["corrected"], to=kind))
        graph = helper.make_graph(
            self.nodes, name,
            [helper.make_tensor_value_info(source, kind, ["n", m])],
            [helper.make_tensor_value_info("corrected", kind, ["n", m])],
            self.constants,
        )  # fmt: skip
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
            producer_name="stream_can",
        )  # fmt: skip

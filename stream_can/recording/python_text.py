"""Lists, dicts and arrays as Python, numpy, torch and Spark print them, read without eval."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

looks_printed = re.compile(r"[\[{(]|[A-Za-z_][\w.]*\(").match
"""Whether a text begins like one: a bracket, or a name before one."""
_NOT_PYTHON = re.compile(r",\s*\w+=<[^>]*>")  # grad_fn=<SoftmaxBackward0>
_BLANKS = re.compile(r"(?<=[\d.nf])\s+(?=[-\d.ni])")  # numpy prints [0.2 nan 0.8]
_CALLED = re.compile(
    r"(?:[a-z]+\.)?(b?float\d+|u?int\d+|str_|[aA]rray|[tT]ensor|(?:Dense|Sparse)Vector|OrderedDict)"
).fullmatch
_NAMED = {"nan": float("nan"), "inf": float("inf"), "null": None, "true": True, "false": False}


def read_printed(text: str) -> Any:
    """The value of a text; ValueError where it is not as these print one."""
    text = _NOT_PYTHON.sub("", text.strip())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the parser, about what is no Python
        for form in dict.fromkeys((text, _BLANKS.sub(", ", text))):
            try:
                return _value(ast.parse(form, mode="eval").body)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                pass
    raise ValueError("neither JSON nor printed by Python, numpy, torch or Spark")


def _value(node: ast.expr) -> Any:
    """The value of literals; of a call, as np.float64(0.1), that of what it was given."""
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(entry) for entry in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_value(key) for key in node.keys if key is not None]
        return dict(zip(keys, map(_value, node.values), strict=True))
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.Name) and node.id in _NAMED:
        return _NAMED[node.id]
    if isinstance(node, ast.Call) and node.args and (name := _CALLED(ast.unparse(node.func))):
        values = [_value(argument) for argument in node.args]
        if name[1] == "OrderedDict":
            return dict(values[0])
        return values[0] if len(values) == 1 else values
    raise ValueError

"""Names say what they hold, methods of one name are one idea, modules are short."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.pages import ROOT

pytestmark = pytest.mark.fast

SOURCE = ROOT / "stream_can"
VAGUE = {
    "one", "ones", "found", "given", "own", "made", "said", "those", "kept", "told", "has", "begun",
    "before", "after", "more", "here", "there", "wanted", "both", "others", "left", "gone", "taken",
    "asked", "what", "which", "them",
}  # fmt: skip
"""Names that say nothing of what they hold; in the projects that we look up to .0 to .4 %."""
PROTOCOLS_OF_PYTHON = {
    "close": "of files and sockets; contextlib.closing calls it",
    "copy": "of collections",
    "to_dict": "what pandas and others call it: values for JSON",
}
"""Names of methods that Python's own protocols have, beside those between two underscores."""
MOST_OF_A_NAME, MOST_LINES, LONG, MOST_LONG = 8, 400, 250, 17
TO_SPLIT: dict[str, int] = {}
"""Modules that are longer: they may shrink, not grow."""


def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def assigned(tree: ast.Module) -> list[tuple[str, int]]:
    """Names that a module assigns to, parameters among them, and their lines."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.id, node.lineno))
        elif isinstance(node, ast.arguments):
            arguments = (*node.posonlyargs, *node.args, *node.kwonlyargs)
            names += [(argument.arg, argument.lineno) for argument in arguments]
    return names


def test_names_say_what_they_hold():
    total, vague = 0, []
    for path, tree in trees().items():
        names = assigned(tree)
        total += len(names)
        vague += [
            f"{path.relative_to(ROOT)}:{line}: {name}" for name, line in names if name in VAGUE
        ]
    assert len(vague) <= 0.005 * total, "\n".join(vague)


def is_declaration(node: ast.ClassDef, name: str) -> bool:
    """Whether a class declares a method for others: a Protocol, or an abstract base."""
    if any("Protocol" in ast.unparse(base) for base in node.bases):
        return True
    method = next(x for x in node.body if isinstance(x, ast.FunctionDef) and x.name == name)
    last = ast.unparse(method.body[-1])
    return last.startswith("raise NotImplementedError") or any(
        "abstractmethod" in ast.unparse(decorator) for decorator in method.decorator_list
    )


def test_methods_of_one_name_are_one_idea():
    counts: Counter[str] = Counter()
    places, declared = defaultdict(list), set()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if not isinstance(method, ast.FunctionDef) or method.name.startswith("__"):
                    continue
                counts[method.name] += 1
                places[method.name].append(f"{path.relative_to(ROOT)}:{method.lineno}")
                if is_declaration(node, method.name):
                    declared.add(method.name)
    wrong = {
        name: places[name]
        for name, count in counts.items()
        if count > MOST_OF_A_NAME and name not in declared | {*PROTOCOLS_OF_PYTHON}
    }
    assert wrong == {}


def test_modules_are_short():
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in SOURCE.rglob("*.py")
    }
    too_long = {path: n for path, n in lines.items() if n > TO_SPLIT.get(path, MOST_LINES)}
    assert too_long == {}
    long = {path: n for path, n in lines.items() if n > LONG}
    assert len(long) <= MOST_LONG, long

"""What is public: the modules that docs/versions.md lists, and the names in their `__all__`."""

from __future__ import annotations

import ast
import importlib
import re

import pytest

from tests.pages import ROOT

pytestmark = pytest.mark.fast

PAGE = (ROOT / "docs" / "versions.md").read_text()
PUBLIC = re.findall(r"^\| `(stream_can[\w.]*)` \|", PAGE, re.M)


def exported(module: str) -> list[str]:
    """The names in the `__all__` of a module, from its text: Spark is not installed here."""
    path = ROOT / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    (names,) = (
        node.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    found: list[str] = ast.literal_eval(names)
    return found


def by_kind(name: str) -> tuple[bool, bool, str]:
    """Constants, classes, functions: the order that ruff keeps (RUF022)."""
    return not name.isupper(), not name[0].isupper(), name


def test_there_are_few_and_each_is_named_once():
    assert len(PUBLIC) == len({*PUBLIC}) <= 20


@pytest.mark.parametrize("module", PUBLIC)
def test_names_are_sorted_and_there(module):
    names = exported(module)
    assert names == sorted(names, key=by_kind)
    if module != "stream_can.spark":
        loaded = importlib.import_module(module)
        assert [name for name in names if not hasattr(loaded, name)] == []


def imports(text: str) -> set[tuple[str, str]]:
    """Modules of stream_can that a program imports from, and what."""
    found = re.findall(r"^ *(?:>>> |\.\.\. )?from (stream_can[\w.]*) import ([\w, ]+)", text, re.M)
    return {
        (module, name.split(" as ")[0].strip())
        for module, names in found
        for name in names.split(",")
    }


def test_pages_and_examples_import_nothing_else():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pages += [path for path in (ROOT / "examples").glob("*.py") if path.name != "flights.py"]
    wrong = {
        (page.name, module, name)
        for page in pages
        for module, name in imports(page.read_text())
        if module not in PUBLIC
        or (name not in exported(module) and f"{module}.{name}" not in PUBLIC)
    }
    assert wrong == set()

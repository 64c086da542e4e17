"""Real text and code for the examples, which lies in installed packages anyway, and what correcting
lists of the likeliest classes is worth."""

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from stream_can.sparse import SparseCorrector

Function = ast.FunctionDef | ast.AsyncFunctionDef


def trees(package: str) -> Iterator[ast.Module]:
    """The source files of an installed package, parsed, in their order; without its tests."""
    (folder,) = find_spec(package).submodule_search_locations
    for file in sorted(Path(folder).rglob("*.py")):
        if "tests" not in file.parts:
            yield ast.parse(file.read_bytes())


def words(text: str | None) -> list[str]:
    """Words and marks, in small letters."""
    return re.findall(r"[a-z]+|[.,:()]", (text or "").lower())


def docstrings(package: str) -> Iterator[tuple[str, list[str]]]:
    """The name of each class, function and module that has one ("" of modules), and its words."""
    for tree in trees(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function):
                found = words(ast.get_docstring(node))
                if found:
                    yield getattr(node, "name", ""), found


def imports(package: str) -> Iterator[list[str]]:
    """What each file of a package imports, in its order, each name once."""
    for tree in trees(package):
        found = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found += [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found += [f"{node.module}.{one.name}" for one in node.names]
        yield list(dict.fromkeys(found))


MOST = 20_000
"""Classes that there can be."""
CASES = (
    ("all are told", 100, 1.0),
    ("1 in 20 is told", 100, 0.05),
    ("all, 1,000 later", 1000, 1.0),
)
"""Which true classes come, how many rows late, and their share."""
Row = dict[str, float]


def corrected(
    rows: Iterable[tuple[Row, str]], counts: dict[str, int], late: int, share: float
) -> tuple[str, str]:
    """Correct rows, {class: probability}, each with its true class, of which a share comes so late.

    Returns
    -------
    How often the true class is among the first 1, 5 and 10, and the log loss, raw and corrected.
    """
    corrector = SparseCorrector("any", max_classes=MOST, train_counts=counts)
    told, waiting, raw, sent = np.random.default_rng(0), deque(), [], []
    for row, name in rows:
        (better, rest), receipt = corrector.process_one(row, receipt=True)
        tail = 0.0 if name in better else corrector.tail(name, list(better), rest)
        raw.append(place_and_share(row, name, max(0.0, 1 - sum(row.values())) / MOST))
        sent.append(place_and_share(better, name, tail))
        waiting.append((row, name, receipt))
        if len(waiting) > late:
            before, name, receipt = waiting.popleft()
            if told.random() < share:
                corrector.learn_one(before, name, receipt=receipt)
    return hits_and_loss(raw), hits_and_loss(sent)


def place_and_share(row: Row, name: str, unlisted: float) -> tuple[int, float]:
    """The place of a class among the likeliest, and what it was given."""
    best = sorted(row, key=row.__getitem__, reverse=True)
    return (best.index(name) if name in row else MOST), row.get(name, unlisted)


def hits_and_loss(rows: list[tuple[int, float]]) -> str:
    """In words; a class is given 1e-9 at least."""
    place, p = np.array(rows).T
    hits = "  ".join(f"hit@{n} {100 * (place < n).mean():.1f} %" for n in (1, 5, 10))
    return f"{hits}  log loss {-np.log(np.maximum(p, 1e-9)).mean():.3f}"


def table(rows: list[tuple[Row, str]], counts: dict[str, int]) -> None:
    """Print what correcting them is worth, by which true classes come."""
    for name, late, share in CASES:
        raw, sent = corrected(rows, counts, late, share)
        if name == CASES[0][0]:
            print(f"  as sent            {raw}")
        print(f"  {name:<18} {sent}")

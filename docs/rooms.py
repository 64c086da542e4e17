"""Which module imports which: read from the source, held to the floors, drawn as docs/rooms.svg.

``python docs/rooms.py`` draws the picture again; a test says when that is due.
"""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path
from typing import NamedTuple

PACKAGE = "stream_can"
SOURCE = Path(__file__).parent.parent / PACKAGE
PICTURE = Path(__file__).parent / "rooms.svg"

FLOORS: tuple[dict[str, tuple[float, float]], ...] = (
    {"cli": (0, 4)},
    {"serve": (0, 1.1), "spark": (1.1, 1.5), "compare": (2, 3.75), "onnx": (3.75, 4)},
    {
        "kafka": (0, 1.3),
        "pipe": (1.3, 2),
        "river": (3, 3.27),
        "sklearn": (3.27, 3.56),
    },
    {"kafka.client": (0.9, 1.3)},
    {"app": (0, 0.9)},
    {"report": (2, 3)},
    {"replay": (2, 3)},
    {"recording": (2, 3)},
    {
        "messages": (0.3, 2.3),
        "learner": (2.3, 2.65),
        "row_sums": (2.65, 3.1),
        "calibration": (3.56, 3.75),
    },
    {"column_scores": (3.56, 3.75)},
    {"corrector": (0, 4)},
    {"trust": (0, 0.5), "sparse": (0.5, 1), "multilabel": (1, 1.5)},
    {"row_kinds": (0, 1), "scores": (3.56, 4)},
    {"method": (0, 3.56), "change": (3.56, 4)},
    {"snapshot": (0, 1.3), "errors": (1.3, 2.7), "version": (2.7, 4)},
)
"""From the top: the rooms, and where in the picture they begin and end. A module imports from its
own room and from floors below. On the last floor ``errors`` and ``version`` serve the other two."""

KINDS = ("dense", "multilabel", "sparse")
PARTS = {
    "": "learner", "about": "app", "adapter": "learner", "chosen_labels": "replay",
    "class_changes": "replay",
    "doubts": "replay", "figures": "report", "kind": "learner", "lanes": "learner",
    "messages": "messages", "moment": "replay", "outcomes": "learner", "page": "report",
    "replay": "replay", "result": "replay", "run": "learner", "spark": "spark", "start": "app",
    "unrelated": "replay", "verdict": "replay",
}  # fmt: skip
"""Parts of a kind of rows by the name of the module, and the room on whose floor they are."""

USED_BY_ALL = {
    "change", "column_scores", "learner", "method", "multilabel", "row_kinds", "row_sums", "scores",
    "sparse",
    "trust", *FLOORS[-1],
}  # fmt: skip
"""Rooms that need no arrow from everywhere; ``method`` keeps the one from the corrector."""

GAP, WIDTH = 18, 215
"""Between floors and of a column, in pixels."""


class Import(NamedTuple):
    """One import of one of the package's own modules."""

    importer: str
    imported: str
    line: int


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module by its name in the package; a package is its ``__init__``, the whole is ""."""
    found = {}
    for path in sorted([*source.rglob("*.py"), *source.rglob("*.pyx")]):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


CYTHON_IMPORT = re.compile(
    r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?c?import[ \t]+(?:\([^)]*\)|[^\n#;(]+))", re.MULTILINE
)


def statements(path: Path) -> list[ast.AST]:
    """The nodes of a module; of a .pyx, which Python cannot parse, its imports and cimports."""
    text = path.read_text()
    if path.suffix == ".py":
        return list(ast.walk(ast.parse(text, str(path))))
    found: list[ast.AST] = []
    for match in CYTHON_IMPORT.finditer(text):
        if PACKAGE in match[1]:  # a line of a docstring may begin with "import" too
            node = ast.parse(re.sub(r"\bcimport\b", "import", match[1], count=1)).body[0]
            node.lineno = 1 + text.count("\n", 0, match.start(1))
            found.append(node)
    return found


def imports(source: Path = SOURCE) -> list[Import]:
    """Every import of the package's own modules, wherever in a file it stands."""
    known, found = modules(source), []
    for importer, path in known.items():
        for node in statements(path):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                if name.partition(".")[0] == PACKAGE:
                    imported = name.partition(".")[2]
                    imported = imported if imported in known else imported.rpartition(".")[0]
                    found.append(Import(importer, imported, node.lineno))
    return found


def room(module: str) -> str:
    """The longest name of a room that a module's begins with, for parts of a kind of rows that of
    their part; "" for the package's own files."""
    kind, _, part = module.partition(".")
    if kind in KINDS and part in PARTS and (part or kind == "dense"):
        return PARTS[part]
    rooms = [name for floor in FLOORS for name in floor]
    return max((r for r in rooms if f"{module}.".startswith(f"{r}.")), key=len, default="")


def faults(found: list[Import]) -> list[str]:
    """What is wrong with these imports: climbs, detours through a package's own face, circles."""
    floor = {name: n for n, names in enumerate(FLOORS) for name in names}
    ground = {"errors": len(FLOORS), "version": len(FLOORS)}
    above = -1  # the faces of the package: ``__init__`` and ``__main__``
    said, graph = [], {}
    for importer, imported, line in found:
        upper, lower = room(importer), room(imported)
        where = f"{importer or '__init__'}, line {line}"
        if imported == "" or importer.startswith(f"{imported}."):
            said.append(f"{where}: imports through its own package's __init__")
        elif upper != lower:
            floors = {**floor, **ground, "": above}
            if floors[upper] >= floors[lower]:
                said.append(f"{where}: {upper} may not import {lower}, which is no floor below it")
        graph.setdefault(importer, set()).add(imported)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        said.append(f"a circle: {' -> '.join(error.args[1])}")
    return said


def arrows(found: list[Import]) -> list[tuple[str, str]]:
    """The imports between rooms without those that a way through other rooms implies.

    And without the last floor, which everybody uses.
    """
    edges = {(room(i.importer), room(i.imported)) for i in found}
    edges = {(a, b) for a, b in edges if a != b and a and b}
    reach = {a: {b for c, b in edges if c == a} for a, _ in edges}
    for names in reversed(FLOORS):  # below first
        for a in names:
            reach[a] = set().union(
                reach.get(a, set()), *(reach.get(b, set()) for b in reach.get(a, ()))
            )
    left = {
        (a, b)
        for a, b in edges
        if not any(b in reach.get(c, ()) for c in reach[a] if (a, c) in edges)
    }
    corrects = {edge for edge in edges if edge == ("corrector", "method")}
    return sorted({(a, b) for a, b in left if b not in USED_BY_ALL} | corrects)


def draw(source: Path = SOURCE) -> str:
    """The rooms with their modules, floor by floor, and the arrows between them, as SVG."""
    known = modules(source)
    box: dict[str, tuple[float, float, float, float]] = {}
    parts, top = [], 6
    for names in FLOORS:
        lines = {
            name: wrapped(inside(name, known), int((right - left) * WIDTH / 6.6))
            for name, (left, right) in names.items()
        }
        height = 34 + 13 * max(map(len, lines.values()))
        for name, (column, end) in names.items():
            left, right = column * WIDTH + 6, end * WIDTH - 6
            box[name] = (left, right, top, top + height)
            parts.append(
                f'<rect x="{left:g}" y="{top}" width="{right - left:g}" height="{height}" rx="6"/>'
            )
            middle = (left + right) / 2
            y = top + height / 2 + 5 - 6.5 * len(lines[name])
            parts.append(f'<text class="room" x="{middle:g}" y="{y:g}">{name}</text>')
            for i, line in enumerate(lines[name]):
                parts.append(f'<text x="{middle:g}" y="{y + 15 + 13 * i:g}">{line}</text>')
        top += height + GAP
    taken: list[tuple[float, float, float]] = []
    for upper, lower in arrows(imports(source)):
        begin, end = box[upper][3], box[lower][2]
        left, right = max(box[upper][0], box[lower][0]), min(box[upper][1], box[lower][1])
        between = [(a, b) for a, b, y, _ in box.values() if begin < y < end]
        between += [(x - 12, x + 12) for x, y, bottom in taken if y < end and bottom > begin]
        middle = (left + right) / 2
        free = [
            left + 14 + step
            for step in range(int(right - left - 27))
            if not any(a - 4 < left + 14 + step < b + 4 for a, b in between)
        ]
        if not free:
            raise SystemExit(f"no straight way from {upper} to {lower}: move a room in FLOORS")
        x = min(free, key=lambda x: abs(x - middle))
        taken.append((x, begin, end))
        parts.append(f'<path d="M{x:g} {begin}V{end - 7}" marker-end="url(#tip)"/>')
    size = f"{4 * WIDTH} {top - GAP + 6}"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img">
<title>The rooms of stream_can from the top; an arrow goes to a room that is imported</title>
<style>
rect {{ fill: #f2f5fa; stroke: #5b7083; }}
path {{ stroke: #5b7083; stroke-width: 1.5; fill: none; }}
text {{ font: 11px sans-serif; text-anchor: middle; fill: #333; }}
.room {{ font-size: 14px; font-weight: bold; fill: #123; }}
</style>
<rect width="100%" height="100%" style="fill: #fff; stroke: none"/>
<marker id="tip" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="6" markerHeight="6" orient="auto">
<path d="M0 0L8 4L0 8z" style="fill: #5b7083; stroke: none"/></marker>
{chr(10).join(parts)}
</svg>
"""


def inside(name: str, known: dict[str, Path]) -> list[str]:
    """The modules of a room."""
    return [
        module.removeprefix(f"{name}.")
        for module, path in sorted(known.items())
        if module != name and room(module) == name and path.name != "__init__.py"
    ]


def wrapped(words: list[str], width: int) -> list[str]:
    """Lines of words of at most so many characters each."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 3 + len(word) <= width:
            lines[-1] += f" · {word}"
        else:
            lines.append(word)
    return lines


if __name__ == "__main__":
    PICTURE.write_text(draw())

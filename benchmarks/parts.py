"""What each part of the method does, switched off alone, and what other settings do.

    python benchmarks/parts.py FOLDER               # without fit
    python benchmarks/parts.py FOLDER --fit         # with it
    python benchmarks/parts.py FOLDER --settings    # settings of the Corrector

FOLDER is that of `validation.py`. A part is switched off in the source of a copy of this checkout,
which is compiled again. All are row by row; labels are 100 rows late, if nothing else is said.
"Seasons" are simulated: a calibrated classifier, and a class mix that turns. "Jumps" are 12,000
rows each of three streams that stand still, drawn by class so that their mix moves in four ways.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from validation import HALF, LEAST_SURE, Played, load, play

from stream_can import Corrector
from stream_can.method.paths import default_paths
from stream_can.scores import Scores

ROOT = Path(__file__).resolve().parent.parent
KERNEL = "stream_can/method/kernel.pyx"
SUMS, BASES = "stream_can/method/sums.py", "stream_can/method/bases.py"
Change = tuple[str, str]
"""What stands in the source, and what takes its place; OFF says whether the part is off."""

STRETCH = "stretch(self.row.y, b, self.features.f2, base.r, m)"
CENTRE = "subtract(self.row.x, self.features.f2, self.row.y, self.m)"
TEMPER = "self.step_scalar(&of.of[i].last,"
MIXED = "self.second.of[0].mixed"
GUARD = "by = self.trust(self.row.best)\n        if by < 1:\n            shrink(out"
ONE_SIDED = "        if one_sided(agree"
SLOW = '{"Q": Expert(1000, 20), '
ODDS = "return 0.0 if self.second.odds[i]"
HELD = "        chain.rival = pointer("
OFF: dict[str, list[Change]] = {
    "the floor: 1e-7 instead": [("FLOOR_MASS / m", "(1e-7 if OFF else FLOOR_MASS / m)")],
    "centring": [
        (CENTRE, f"if OFF: weigh(self.row.x, 1, self.row.y, self.m)\n            else: {CENTRE}"),
        (STRETCH, f"if OFF: times(self.row.y, b, base.r, m)\n            else: {STRETCH}"),
        ("1 + base.u[2], base.r", "(0 if OFF else 1) + base.u[2], base.r"),
    ],
    "shared features": [
        ("about.features > 1 and shared", "about.features > 1 and not OFF and shared"),
        ("about.features == 4", "about.features == 4 and not OFF"),
    ],
    "second mixture: the mixture goes out": [
        (GUARD, f"if OFF: memcpy(out, {MIXED}, m * sizeof(double))\n        {GUARD}"),
    ],
    "last temperature": [(TEMPER, f"if not OFF: {TEMPER}")],
    "the moving row": [
        ("pi.append(MOVING_PRIOR)", "pi.append(0.0 if OFF else MOVING_PRIOR)"),
        ("if of.moving == 0 else self.moving", "if OFF or of.moving == 0 else self.moving"),
        # It may be ahead of the others by more than exp can hold.
        (f"{ODDS} == NULL", f"{ODDS} == NULL or OFF and i == self.second.moving"),
    ],
    "the guard against a stale mix": [
        ("if rows <= FEW_LATE or", "if OFF or rows <= FEW_LATE or"),
    ],
    "the row plain": [("pi.append(PLAIN_PRIOR)", "pi.append(0.0 if OFF else PLAIN_PRIOR)")],
    "the row raw": [("pi.append(RAW_PRIOR)", "pi.append(0.0 if OFF else RAW_PRIOR)")],
    "the calibrated row": [("pi.append(0.5)", "pi.append(0.0 if OFF else 0.5)")],
    "guards": [
        (ONE_SIDED, f"        if OFF: return 1.0\n{ONE_SIDED}"),
        ("if self.guards.n_unheard == 0:", "if OFF or self.guards.n_unheard == 0:"),
    ],
    "the rival": [("mix.chain.l_rival = ", "mix.chain.l_rival = 0.0 if OFF else ")],
    "the guard of the class mix": [
        ("return min(max(by, 0.0), 1.0)", "return 1.0 if OFF else min(max(by, 0.0), 1.0)"),
    ],
    "the bounds of the class mix": [(HELD, f"        if OFF: chain.held = NULL\n{HELD}")],
    "experts of 500 and 50 rows": [
        (SLOW, SLOW + "} if OFF else " + SLOW),
        ('"Q", "Q.500", "Q.50", "W"', '*(["Q"] if OFF else ["Q", "Q.500", "Q.50"]), "W"'),
    ],
    "the expert of 500 rows": [
        ("else " + SLOW, "else " + SLOW + '"Q.50": Expert(50, 2)} if OFF else ' + SLOW),
        ('else ["Q", "Q.500", "Q.50"]', 'else ["Q", "Q.50"] if OFF else ["Q", "Q.500", "Q.50"]'),
    ],
}  # fmt: skip
WITH_FIT = [*[*OFF][-5:], "the calibrated row"]
PATHS: dict[str, Callable[[str], bool]] = {
    "centred and shared": lambda path: path not in ("centred", "shared"),
    "full": lambda path: path != "full",
    "CAN": lambda path: "can" not in path.split("+"),
}
"""Paths that are left out without a change of the source."""
SETTINGS: list[dict[str, Any]] = [
    *({"half_life": value} for value in (500, 1000, 20_000, np.inf)),
    *({"uncertainty": value} for value in ("entropy", "margin", "any_topk_entropy")),
    *({"k": value} for value in (2, 5)),
    *({"threshold": value} for value in (0.5, 0.8, 0.95)),
    *({"pseudo_count": value} for value in (1, 1000)),
    *({"prior_strength": value} for value in (1, 1000, np.inf)),
    *({"paths": [value]} for value in ("can", "temperature", "vector", "matrix", "full")),
]
CELLS = [  # classes, period, amplitude, delay, share of labels
    (4, 10_000, 0.5, 1000, 1.0), (4, 10_000, 0.5, 5000, 1.0), (4, 10_000, 1.5, 100, 1.0),
    (4, 10_000, 1.5, 1000, 1.0), (4, 10_000, 1.5, 5000, 1.0), (4, 10_000, 1.5, 5000, 0.05),
    (4, 2_000, 1.5, 1000, 1.0), (10, 10_000, 1.5, 5000, 1.0), (3, 4_000, 1.0, 2000, 1.0),
    (10, 2_000, 1.5, 500, 0.2),
]  # fmt: skip
JUMPING = ("agnews4", "c10_lenet5", "toutiao15_tfidf")
ROWS, PERIOD = 12_000, int(12_000**0.5)
SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "monotone": lambda t, rng: t / (ROWS - 1),
    "square": lambda t, rng: t // PERIOD % 2,
    "sinusoid": lambda t, rng: 0.5 - 0.5 * np.cos(2 * np.pi * t / PERIOD),
    "at random": lambda t, rng: np.cumsum(rng.random(len(t)) < 1 / PERIOD) % 2,
}
"""How far the mix is from uniform towards one class, 0 to 1, at each row."""


def season(m: int, period: int, amplitude: float, n: int = 40_000) -> tuple[Any, Any]:
    """Rows of a calibrated classifier, shape (n, m), and labels whose mix turns."""
    rng = np.random.default_rng(1)
    turn = 2 * np.pi * (np.arange(n)[:, None] / period + np.arange(m) / m)
    mix = np.exp(amplitude * np.sin(turn))
    y = (rng.random(n)[:, None] > np.cumsum(mix / mix.sum(1, keepdims=True), 1)).sum(1)
    y = y.clip(0, m - 1)
    z = 1.2 * (rng.normal(size=(n, m)) + 1.2 * np.eye(m)[y])
    P = np.exp(z - z.max(1, keepdims=True))
    return P / P.sum(1, keepdims=True), y


def seasons(taken: Callable[[str], bool]) -> Iterator[Played]:
    for m, period, amplitude, delay, share in CELLS:
        P, y = season(m, period, amplitude)
        data = {"probs": P, "labels": y}
        given = np.random.default_rng(2).random(len(y)) < share
        corrector = Corrector(m, paths=[*filter(taken, default_paths(m))])
        yield play(data, delay=delay, given=given, corrector=corrector)


def drawn(y: np.ndarray, m: int, shape: str) -> np.ndarray:
    """Which rows of a stream with labels y come; again only where those of its class are used
    up."""
    rng = np.random.default_rng([0, list(SHAPES).index(shape)])
    far = SHAPES[shape](np.arange(ROWS), rng)[:, None]
    one = 0.1 / m + 0.9 * (np.arange(m) == rng.integers(m))
    mix = (1 - far) / m + far * one
    wanted = (rng.random(ROWS)[:, None] > mix.cumsum(axis=1)).sum(axis=1).clip(0, m - 1)
    rows = np.empty(ROWS, np.int64)
    for k in np.unique(wanted):
        at, of = np.flatnonzero(wanted == k), np.flatnonzero(y == k)
        again = [rng.permutation(of) for _ in range(-(-len(at) // len(of)))]
        rows[at] = np.concatenate(again)[: len(at)]
    return rows


def jumps(streams: dict[str, Any], make: Callable[[str], Corrector]) -> Iterator[Played]:
    for name in JUMPING:
        if name not in streams:
            continue
        P, y = streams[name]["probs"], streams[name]["labels"].astype(np.int64)
        for shape in SHAPES:
            rows = drawn(y, P.shape[1], shape)
            sent = make(name).process_many(P[rows])
            yield Played(P[rows], sent, y[rows])


def cell(played: Iterator[Played], ece: bool = False) -> str:
    points, errors = [], []
    for one in played:
        points.append(100 * one.hits.mean())
        scores = Scores()
        scores.add(one.sent, one.y)
        errors.append(100 * scores.ece)
    shown = f"{np.mean(points):+.2f} / {np.min(points):+.2f}"
    return f"{shown}, {np.mean(errors):.2f}" if ece else shown


def cells(folder: str, fits: bool, off: str = "") -> list[str]:
    """A row of a table."""
    files = sorted(Path(folder).glob("*.npz"))
    streams = {file.stem: data for file in files if (data := load(file))}
    saved: dict[str, bytes] = {}
    taken = PATHS.get(off, lambda path: True)

    def make(name: str) -> Corrector:
        data = streams[name]
        if name not in saved:
            m = data["probs"].shape[1]
            paths = [*filter(taken, default_paths(m))]
            made = Corrector(m, train_counts=data["train_counts"], paths=paths)
            if fits:
                made.fit(data["val_probs"], data["val_labels"].astype(np.int64))
            saved[name] = made.to_bytes()
        return Corrector.from_bytes(saved[name])

    def every(labels: str, power: float = 1.0) -> Iterator[Played]:
        for name, data in streams.items():
            P = data["probs"] ** power
            changed = data | {"probs": P / P.sum(1, keepdims=True)}
            yield play(changed, labels=labels, corrector=make(name))

    if not fits:
        return [
            cell(every("100%"), ece=True), cell(every("5%")), cell(seasons(taken)),
            cell(every(HALF)), cell(every(LEAST_SURE)),
        ]  # fmt: skip
    return [
        cell(every("0%")), cell(every("5%")), cell(every("100%"), ece=True),
        cell(every("0%", 0.6)), cell(every("0%", 1.5)), cell(jumps(streams, make)),
    ]  # fmt: skip


def built(to: Path) -> None:
    """A copy of this checkout in which the variable OFF switches a part off, compiled."""
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy2(ROOT / name, to)
    shutil.copytree(ROOT / "stream_can", to / "stream_can")
    texts = {name: (to / name).read_text() for name in (KERNEL, SUMS, BASES)}
    for part, changes in OFF.items():
        for old, new in changes:
            name = next((name for name, text in texts.items() if old in text), None)
            if name is None:
                sys.exit(f"no {old!r} to switch {part} off")
            is_off = f'(OFF == "{part}")' if name != KERNEL else f"(OFF == {[*OFF].index(part)})"
            texts[name] = texts[name].replace(old, re.sub(r"\bOFF\b", is_off, new))
    for name, text in texts.items():
        if name == KERNEL:
            switch = f'import os\ncdef int OFF = {[*OFF]}.index(os.environ["OFF"])\n'
            head = "cdef double LIKELIHOOD_FLOOR"
        else:
            switch, head = 'import os\n\nOFF = os.environ["OFF"]\n\n', "from typing import"
        (to / name).write_text(text.replace(head, switch + head, 1))
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=to, check=True, stdout=subprocess.DEVNULL)


def main(folder: str, fits: bool) -> None:
    def show(what: str, row: list[str]) -> None:
        print(f"| {what} | " + " | ".join(row) + " |", flush=True)

    for off in ("nothing", *PATHS):
        show(off, cells(folder, fits, off))
    with tempfile.TemporaryDirectory() as place:
        built(Path(place))
        for off in WITH_FIT if fits else [*OFF][:-5]:
            command = [sys.executable, __file__, folder, "--row", *["--fit"] * fits]
            inside = os.environ | {"PYTHONPATH": place, "OFF": off}
            row = subprocess.run(command, env=inside, check=True, stdout=subprocess.PIPE).stdout
            show(off, json.loads(row))


def by_setting(folder: str) -> None:
    streams = [data for file in sorted(Path(folder).glob("*.npz")) if (data := load(file))]
    for settings in ({}, *SETTINGS):
        played = (
            play(data, corrector=Corrector(data["probs"].shape[1],
                 train_counts=data["train_counts"], **settings))
            for data in streams
        )  # fmt: skip
        print(f"| {settings} | {cell(played, ece=True)} |", flush=True)


if __name__ == "__main__":
    folder, *options = sys.argv[1:] or [""]
    if not folder or not {*options} <= {"--fit", "--settings", "--row"}:
        sys.exit(__doc__)
    if "--row" in options:
        print(json.dumps(cells(folder, "--fit" in options)))
    elif "--settings" in options:
        by_setting(folder)
    else:
        main(folder, "--fit" in options)

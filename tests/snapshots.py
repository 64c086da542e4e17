"""Correctors and tasks of every kind, with a stream behind them, for tests of their snapshots."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from stream_can import Corrector, Learner
from stream_can.multilabel import MultiLabelCorrector

PATHS = ["raw", "can", "temperature", "temperature+can"]
PATHS += ["vector", "vector+can", "matrix", "matrix+can"]
INF = float("inf")
NAMES = ["ant", "bee", "cat"]


# ---- the streams they saw


def stream(m: int, n: int, seed: int, favour: float = 1) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an overconfident classifier, shape (n, m), and the columns of their labels.

    The first class is given ``favour`` times what it should have.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(m, size=n) if m > 1 else np.zeros(n, int)
    evidence = np.exp(2 * (rng.normal(size=(n, m)) + 1.2 * np.eye(m)[y]))
    evidence[:, 0] *= favour
    return evidence / evidence.sum(axis=1, keepdims=True), y


def values(columns: Sequence[str], n: int) -> dict[str, list[Any]] | None:
    """What n rows give of the columns: a few values each, of every type, and none now and then."""
    kinds: list[Any] = ["a", 7, True, "日本", " ", None, "7", "x" * 50, math.nan, "\x00"]
    found = {
        name: [kinds[(i * i + i * (k + 3)) % len(kinds)] for i in range(n)]
        for k, name in enumerate(columns)
    }
    return found or None


def lived(classes: Any, fit: int = 0, favour: float = 1, **settings: Any) -> Corrector:
    """A corrector with such a stream behind it, some labels without their prediction."""
    corrector = Corrector(classes, **settings)
    m = len(corrector.classes)
    names = np.array(corrector.classes, object)
    if fit:
        P, y = stream(m, fit, 1, favour)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = values(corrector.segments, fit)
            corrector.fit(P, names[y].tolist(), segments=given)
    P, y = stream(m, 60, seed=2)
    corrector.process_many(P, segments=values(corrector.segments, 60))
    labelled = values(corrector.segments, 50)
    corrector.learn_many(P[:50], names[y[:50]].tolist(), segments=labelled)
    corrector.learn_many(None, names[y[50:]].tolist())
    return corrector


def fields(columns: Sequence[str], i: int) -> dict[str, Any]:
    """What the i-th message gives of the columns, each at its place."""
    given = values(columns, i + 1) or {}
    found: dict[str, Any] = {}
    for name, texts in given.items():
        outer, _, inner = name.partition(".")
        value = None if texts[i] != texts[i] else texts[i]  # JSON has no NaN
        found[outer] = {inner: value} if inner else value
    return found


def pipe_state(folder: Path) -> bytes:
    """What `stream-can pipe` leaves behind: labels join by id, the last predictions wait."""
    P, y = stream(3, 30, seed=4)
    lines = [{"id": i, "probs": p} for i, p in enumerate(P.tolist())]
    lines += [{"id": i, "label": NAMES[k]} for i, k in enumerate(y[:20].tolist())]
    path = folder / "pipe"
    command = [sys.executable, "-m", "stream_can", "pipe", "--classes", ",".join(NAMES)]
    subprocess.run(
        [*command, "--state", str(path)],
        input="".join(json.dumps(line) + "\n" for line in lines).encode(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    data = path.read_bytes()
    path.unlink()
    return data


# ---- the kinds

CORRECTORS: dict[str, Callable[[], Corrector]] = {
    "new": lambda: Corrector(NAMES),
    "text": lambda: lived(NAMES),
    "range": lambda: lived(4),
    "integers": lambda: lived([7, -2, 2**40]),
    "floats": lambda: lived([0.5, 1.5, -1e300]),
    "bools": lambda: lived([False, True]),
    "mixed": lambda: lived(["a", 4, 5.5, True]),
    "unicode": lambda: lived(["中文", "عربى", "🐜", "é", ""]),
    "one-class": lambda: lived(["only"]),
    "train-counts": lambda: lived(NAMES, train_counts={"ant": 900, "bee": 80, "cat": 20}),
    "infinite": lambda: lived(NAMES, half_life=INF, prior_strength=INF, pseudo_count=0),
    "short": lambda: lived(NAMES, half_life=3, prior_strength=0.5, pseudo_count=2.5),
    "entropy": lambda: lived(5, uncertainty="entropy", threshold=0.5),
    "margin": lambda: lived(5, uncertainty="margin", threshold=0.25),
    "any-topk-entropy": lambda: lived(5, uncertainty="any_topk_entropy", k=2, threshold=1),
    "all-but-matrix": lambda: lived(NAMES, paths=PATHS[:6]),
    "matrix-only": lambda: lived(NAMES, paths=PATHS[6:]),
    **{
        f"path-{path.replace('+', '-')}": lambda path=path: lived(NAMES, paths=[path])
        for path in PATHS
    },
    "fitted": lambda: lived(NAMES, fit=40),
    "fitted-missing": lambda: lived(12, fit=20, paths=["raw", "can"]),
    "fitted-em": lambda: lived(NAMES, fit=600),
    "fitted-em-vector": lambda: lived(NAMES, fit=600, favour=20),
    "fitted-em-matrix": lambda: lived(4, fit=5000),
    "fitted-em-can": lambda: lived(4, fit=600, paths=["can"], train_counts=[9, 1, 1, 1]),
}
COLUMNS = ["carrier", "customer.country"]
WITH_COLUMNS: dict[str, Callable[[], Corrector]] = {
    "columns-new": lambda: Corrector(NAMES, segments=COLUMNS),
    "columns": lambda: lived(NAMES, segments=COLUMNS),
    "columns-one": lambda: lived(4, segments=["é\n"]),
    "columns-evicted": lambda: lived(NAMES, segments=COLUMNS, segments_mb=700 / (1 << 20)),
    "columns-vector": lambda: lived(NAMES, segments=COLUMNS, paths=["raw", "vector"]),
    "columns-fitted": lambda: lived(NAMES, fit=40, segments=COLUMNS),
    "columns-fitted-em": lambda: lived(NAMES, fit=600, segments=COLUMNS),
}


def learner(columns: Sequence[str] = (), **options: Any) -> Learner:
    """With predictions that wait, some labelled, of two models, and labels that are held."""
    found = Learner(lived(NAMES, segments=columns, sets=options.pop("sets", None)), **options)
    P, y = stream(3, 40, seed=4)
    for model in ("a", "b"):
        given, times = values(columns, 40), [float(i) for i in range(40)]
        found.process_many(range(40), P, segments=given, model=model, times=times)
        found.label_many(range(25), [NAMES[k] for k in y[:25]], model=model)
    found.label("soon", NAMES[0], time=39.0)
    return found


def several(seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Multilabel rows, and labels of which some are not known, shape (40, 3)."""
    rng = np.random.default_rng(seed)
    P = rng.beta(0.4, 0.6, (40, 3))
    return P, np.where(rng.random(P.shape) < 0.3, -1, rng.random(P.shape) < P).astype(np.int8)


def lived_several() -> MultiLabelCorrector:
    corrector = MultiLabelCorrector(NAMES, train_counts=[5, 50, 20], train_rows=90)
    P, Y = several()
    corrector.learn_many(P, Y, receipts=corrector.process_many(P, receipt=True)[1])
    return corrector


def learner_of_several() -> Learner:
    """With predictions that wait, some labelled in part, of two models, and labels held."""
    found = Learner(lived_several(), label_wait=9)
    P, Y = several(6)
    for model in ("a", "b"):
        found.process_many(range(40), P, model=model, times=[float(i) for i in range(40)])
        found.label_many(range(25), list(Y[:25]), model=model)
    found.label("soon", ["ant"], time=39.0)
    return found


SEVERAL: dict[str, Callable[[Path], bytes]] = {
    "several": lambda folder: lived_several().to_bytes(),
    "several-new": lambda folder: MultiLabelCorrector(NAMES).to_bytes(),
}
LEARNERS: dict[str, Callable[[Path], bytes]] = {
    "learner-several": lambda folder: learner_of_several().to_bytes(),
    "learner": lambda folder: learner().to_bytes(),
    "learner-new": lambda folder: Learner(Corrector(NAMES)).to_bytes(),
    "learner-columns": lambda folder: learner(COLUMNS, recent_mb=0.01).to_bytes(),
    "learner-all": lambda folder: learner(sets=0.8, ask=0.5, label_wait=9).to_bytes(),
    "pipe": pipe_state,
}


@cache
def kinds() -> dict[str, bytes]:
    """A snapshot of each kind; of learners by the names in ``LEARNERS``, of correctors of several
    labels by those in ``SEVERAL``."""
    found = {kind: make().to_bytes() for kind, make in (CORRECTORS | WITH_COLUMNS).items()}
    with tempfile.TemporaryDirectory() as folder:
        for kind, make_bytes in (LEARNERS | SEVERAL).items():
            found[kind] = make_bytes(Path(folder))
    return found

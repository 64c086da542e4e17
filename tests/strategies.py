"""All hypothesis strategies."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from stream_can.method.paths import PATHS
from stream_can.method.uncertain import UNCERTAINTIES
from tests.oracle import Oracle

sizes = st.one_of(st.integers(1, 12), st.sampled_from([30, 33, 100, 257, 300]))
path_sets = st.lists(st.sampled_from(PATHS), min_size=1, unique=True)


@st.composite
def rows(draw, m, n):
    """n rows of m classes: flat, sharp, one-hot, zeros, denormals and ties, in both precisions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P = np.empty((n, m))
    for i in range(n):
        kind = draw(
            st.sampled_from(["flat", "sharp", "uniform", "one-hot", "zeros", "denormal", "ties"])
        )
        p = rng.dirichlet(np.full(m, 0.2 if kind == "sharp" else 1.0))
        if kind == "uniform":
            p = np.full(m, 1 / m)
        elif kind == "one-hot":
            p = np.eye(m)[rng.integers(m)]
        elif kind == "zeros":
            p[rng.random(m) < 0.5] = 0
        elif kind == "denormal":
            p[rng.integers(m)] = 5e-324
        elif kind == "ties":
            p = np.round(p, 1)
        P[i] = p / p.sum() if p.sum() > 0 else np.eye(m)[0]
    if draw(st.booleans()):
        P = P.astype(np.float32)
    return P


@st.composite
def settings_of(draw):
    """Keyword arguments of a Corrector."""
    return {
        "label_noise": draw(st.sampled_from([0, 0, 0.05, 0.4])),
        "paths": draw(path_sets),
        "half_life": draw(st.sampled_from([1.0, 20.0, 5000.0, float("inf")])),
        "uncertainty": draw(st.sampled_from(UNCERTAINTIES)),
        "k": draw(st.integers(2, 6)),
        "threshold": draw(st.sampled_from([0.0, *[0.3, 0.6, 0.9] * 3, 1.0])),
        "pseudo_count": draw(st.sampled_from([None, 0, 0.5, 20])),
        "prior_strength": draw(st.sampled_from([None, 0.1, 30, float("inf")])),
    }


LABELS = ["any", "right", "wrong", "of some classes", *["of some predictions"] * 2]
"""Which labels come: of any class, only confirmations, only corrections, or of a half."""

RECEIPTS = ["as sent", "as sent", "none", "nan", "hole", "no top", "perturbed"]


@st.composite
def events_of(draw, P):
    """Events (verb, row, class, receipt) over the rows P, in runs of the same verb."""
    n, m = P.shape
    policy = draw(st.sampled_from(LABELS))
    verbs = st.sampled_from([*["process"] * 3, *["learn"] * 5, "observe", "label"])
    runs = draw(
        st.lists(
            st.tuples(verbs, st.integers(0, n - 1), st.integers(1, 40), st.sampled_from(RECEIPTS)),
            max_size=10,
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    events = []
    for verb, first, length, receipt in runs:
        for i in range(first, first + length):
            predicted, y = int(P[i % n].argmax()), int(rng.integers(m))
            if policy == "right":
                y = predicted
            elif policy == "wrong":
                y = (predicted + 1) % m
            elif policy in ("of some classes", "of some predictions"):
                y -= y % 2
            rarely = policy == "of some predictions" and predicted % 2 and rng.random() < 0.9
            if verb == "learn" and rarely:
                continue
            events.append((verb, i % n, y, receipt))
    return events


VALUES = ["a", "b", "", 12, 12.0, "12", True, None, float("nan"), 7, "ä"]


@st.composite
def segments_of(draw, n):
    """(columns, [{column: value} of n rows]): values repeat, are missing, or come once."""
    columns = draw(st.sampled_from([["x"], ["x", "y"], ["z", "y", "x"]]))
    kinds = st.sampled_from([*VALUES, "once", "absent"])
    rows = draw(st.lists(st.tuples(*[kinds] * len(columns)), min_size=n, max_size=n))
    found = []
    for i, row in enumerate(rows):
        given = {
            name: f"once {i}" if value == "once" else value
            for name, value in zip(columns, row, strict=True)
            if value != "absent"
        }
        found.append(given)
    return columns, found


@st.composite
def streams(draw, sizes=sizes):
    """(m, train_counts, settings, rows, events)."""
    m = draw(sizes)
    P = draw(rows(m, draw(st.integers(1, 25))))
    counts = draw(st.one_of(st.none(), st.just(np.arange(m) * 3)))
    return m, counts, draw(settings_of()), P, draw(events_of(P))


@st.composite
def segmented(draw):
    """A stream, its columns, a bound in bytes, and what its rows give of the columns."""
    m, counts, settings, P, events = draw(streams(st.integers(1, 12)))
    if "vector" not in settings["paths"] or len(settings["paths"]) == 1:
        settings["paths"] = sorted({*settings["paths"], "raw", "vector"})
    columns, values = draw(segments_of(len(P)))
    size = Oracle(2).size_of((0, "a")) - 8 * 11 + 8 * (4 * m + 3)
    limit = draw(st.sampled_from([1, 2 * size, 5 * size, 1 << 26]))
    return m, {"train_counts": counts, **settings}, P, events, columns, limit, values


def one_sided(rows, verbs_of_rows):
    """A stream of fixed rows: each (verb, row, class) as often as it is said."""
    m = len(rows[0])
    defaults = {"paths": PATHS, "half_life": 5000.0, "uncertainty": "topk_entropy", "k": 3,
                "threshold": 0.9, "pseudo_count": None, "prior_strength": None}  # fmt: skip
    events = [(verb, i, y, "as sent") for *event, n in verbs_of_rows for verb, i, y in [event] * n]
    return m, None, defaults, np.array(rows), events


SILENT = one_sided(
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.3, 0.6, 0.1]],
    [("process", 0, 0, 20), ("process", 1, 0, 20), ("learn", 0, 0, 20), ("learn", 0, 2, 5),
     ("process", 2, 0, 1), ("learn", 1, 0, 1), ("learn", 2, 0, 3), ("process", 2, 0, 2)],
)  # fmt: skip
"""No label of class 1 comes, and few of the rows predicted as it, which hold nothing else."""

CONFIRMED = one_sided(
    [[0.6, 0.4], [0.2, 0.8]],
    [("process", 0, 0, 5), ("process", 1, 0, 5), ("learn", 0, 0, 15), ("process", 1, 0, 5)],
)
CORRECTED = one_sided(
    [[0.6, 0.4], [0.2, 0.8]],
    [("process", 0, 0, 5), ("process", 1, 0, 5), ("learn", 0, 1, 15), ("process", 1, 0, 5)],
)


def receipt_of(kind, sent, m):
    """What comes back of the receipt that was handed out, or None; of m classes."""
    if sent is None or kind == "none":
        return None
    receipt = sent.copy()
    if kind == "nan":
        receipt[:] = np.nan
    elif kind == "hole":
        receipt[2 * m : 3 * m] = np.nan
    elif kind == "no top":
        receipt[-1] = np.nan
    elif kind == "perturbed":
        receipt = (receipt + np.roll(receipt, 1)) / np.float32(2)
    return receipt

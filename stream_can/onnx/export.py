"""Export: the correction of a corrector as it is, as an ONNX model that learns nothing.

The formulas are those of docs/method.md, each with what the state holds as constants.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.method.arrays import BINS
from stream_can.method.bases import BASES
from stream_can.method.paths import anchor, split
from stream_can.method.sums import EXPERTS, MOVING_EXPERTS
from stream_can.onnx.frozen_guards import freshness, trust_by_class
from stream_can.onnx.graph import DOUBLE, FLOAT, INT64, Graph
from stream_can.version import __version__

__all__ = ["to_onnx"]

Array = NDArray[np.float64]

RIVAL_ROWS, RIVAL_ROWS_OF_CLASS = 200.0, 30.0
"""Rows of validation that the cells of the rival weigh: all, and of each class."""


def to_onnx(corrector: Corrector, *, single: bool = False) -> bytes:
    """Write the correction of ``correct_many`` as an ONNX model, with the state of now.

    Its input ``probs`` and output ``corrected`` have shape (n, m). It learns from nothing. A row
    with a negative, NaN or infinite number, or of zeros, is NaN after it; others are divided by
    their sum.

    Parameters
    ----------
    corrector
        Without segments and prediction sets.
    single
        Whether input and output are float32; the graph computes in float64 in any case.

    Returns
    -------
    The model, as a file holds it.

    Raises
    ------
    ValueError
        The corrector is of another kind of rows, or has segments or prediction sets.
    """
    if not isinstance(corrector, Corrector):
        name = type(corrector).__name__
        raise ValueError(f"ONNX: a {name} cannot be exported; expected a Corrector, of dense rows")
    if corrector.segments:
        raise ValueError("ONNX: segments are no numbers; a corrector with them is not exported")
    if corrector.sets is not None:
        raise ValueError("ONNX: prediction sets are not exported; leave sets out")
    if len(corrector.classes) < 2:
        raise ValueError("ONNX: one class alone has no correction")
    graph = Graph()
    p, is_row = graph.rows(graph("Cast", "probs", to=DOUBLE), len(corrector.classes))
    result = graph("Where", is_row, _Correction(corrector, graph, p).sent(), math.nan)
    model = graph.model("stream_can", "probs", result, len(corrector.classes), single)
    model.producer_version = __version__
    for key, value in (("classes", corrector.classes), ("labels", corrector.n_labels)):
        model.metadata_props.add(key=key, value=repr(value))
    return model.SerializeToString()  # type: ignore[no-any-return]


class _Correction:
    """The rows of docs/method.md as nodes of a graph."""

    def __init__(self, corrector: Corrector, graph: Graph, p: str) -> None:
        content, self.s, *_ = corrector._kernel.copied()
        self.g, self.p, self.m = graph, p, len(content.classes)
        self.corrector, self.paths, self.ratio = corrector, content.paths, content.ratio
        settings = corrector.settings
        self.kind, self.threshold = settings["uncertainty"], settings["threshold"]
        self.k = min(settings["k"], self.m)
        self.kappa = self.m if settings["pseudo_count"] is None else settings["pseudo_count"]
        self.fitted, self.monotone = "fitted" in content.paths, content.monotone
        self.floor = 0.01 / self.m
        self.f2 = np.log(content.train_prior)
        self.clipped = graph("Max", p, self.floor)
        self.x = graph("Log", self.clipped)

    def sent(self) -> str:
        """The output."""
        g, s = self.g, self.s
        names = dict.fromkeys(split(path)[0] for path in self.paths)
        bases = {name: self.base(name) for name in names}
        rows = {}
        for path in self.paths:
            name, with_can = split(path)
            rows[path] = self.can(name, bases[name]) if with_can else bases[name]
        if len(self.paths) == 1:
            return rows[self.paths[0]]
        mixture = tempered = g.mixed(s["weights"], [rows[path] for path in self.paths])
        if s["u.last"][0] != 0:
            stretched = g("Mul", g("Log", g("Max", mixture, self.floor)), math.exp(s["u.last"][0]))
            tempered = g("Softmax", stretched, axis=-1)
        first = rows[anchor(self.paths)]
        back = first if self.fitted or self.monotone else self.moving(first)
        fresh = freshness(self.s, self.m)
        sent = [first, *(g.mixed([fresh, 1 - fresh], [row, back]) for row in (mixture, tempered))]
        sent += [tempered] if self.fitted else [back, tempered]
        if self.ratio is not None:
            sent.append(g.divided(g("Mul", first, self.ratio)))
        sent += [] if self.fitted else [self.p]
        calibrated = self.corrector.final_weights["calibrated"]
        shares = np.array(self.corrector._kernel.sent_weights)
        learned = shares if self.fitted else np.append(shares[:-1], 0.0)
        learned = learned if learned.any() else shares
        judged = g.mixed(learned / learned.sum(), sent)
        out = g.mixed([*((1 - calibrated) * shares), calibrated], [*sent, self.calibrated(judged)])
        likeliest = g("ArgMax", self.p, axis=-1, keepdims=1)
        trust = g("Gather", trust_by_class(self.s, self.m), likeliest)
        guard = bases["fitted"] if self.fitted else self.p
        return g("Add", g("Mul", trust, out), g("Mul", g("Sub", 1.0, trust), guard))

    # ---- Bases and CAN

    def base(self, name: str) -> str:
        """The row of a base."""
        g, s, base = self.g, self.s, BASES[name]
        if name == "raw":
            return self.p
        b, *t = s[f"u.{name}"].tolist()
        b = math.exp(b)
        constant = (1 - b) * self.f2 if base.centred else np.zeros(self.m)
        f1 = np.log((s["mean"][:-1] + 1) / (s["mean"][-1] + self.m))
        f3 = np.log((s["predicted"] + 1) / (s["mean"][:-1] + 1))
        for weight, feature in zip(t, (f1 - self.f2, self.f2, f3), strict=False):
            constant = constant + weight * feature
        z = g("Add", g("Mul", self.x, b), constant + s.get(f"c.{name}", 0.0))
        A = s.get(f"A.{name}")
        if A is not None and name == "full":
            squares, n, _ = s["s.full"]
            y = g("Sub", self.x, self.f2)
            phi = g("Sub", y, g("ReduceMean", y, axes=[-1], keepdims=1))
            scale = math.sqrt(max(squares / n, 1e-4))
            z = g("Add", z, g("MatMul", phi, A.T.astype(np.float64) / scale))
        elif A is not None:
            _, columns = g.largest(self.p, min(5, self.m))
            weights = g("Pow", g("GatherElements", self.clipped, columns, axis=-1),
                        0.5 if name == "fitted" else 0.25)  # fmt: skip
            added = g("Mul", g("Unsqueeze", weights, np.array([-1])),
                      g("Gather", A.astype(np.float64), columns))  # fmt: skip
            z = g("Add", z, g("ReduceSum", added, np.array([1]), keepdims=0))
        row = g("Softmax", z, axis=-1)
        return self.following(row) if name == "fitted" and "ref" in s else row

    def can(self, name: str, row: str) -> str:
        """A row with CAN after it, where it is uncertain."""
        g, q = self.g, np.asarray(self.corrector.prior)
        below = g("Add", row, self.s[f"S.{name}"] + self.kappa * q)
        below = g("Where", g("Greater", below, 0.0), below, 1.0)
        alternated = g.divided(g("Div", g("Mul", row, q), below))
        confident = g("Less", self.uncertainty(row), self.threshold)
        return g("Where", confident, row, alternated)

    def uncertainty(self, row: str) -> str:
        """U of a row, shape (n, 1)."""
        g = self.g
        if self.kind == "margin":
            best, _ = g.largest(row, 2)
            two = [g("Gather", best, np.array([k]), axis=-1) for k in (0, 1)]
            return g("Sub", 1.0, g("Sub", *two))
        n = self.k if self.kind == "topk_entropy" else self.m
        top, _ = g.largest(row, n)
        logs = g("Mul", top, g("Log", g("Max", top, 1e-300)))
        if self.kind != "any_topk_entropy":
            total = g.sum(top)
            entropy = g("Sub", g("Log", total), g("Div", g.sum(logs), total))
            return g("Div", entropy, math.log(n))
        totals, sums = (g("CumSum", x, np.array(1)) for x in (top, logs))
        entropies = g("Sub", g("Log", totals), g("Div", sums, totals))
        some = g("Mul", entropies, np.append(0.0, 1 / np.log(np.arange(2, self.m + 1))))
        return g("ReduceMax", some, axes=[-1], keepdims=1)

    # ---- Class mixes that move without labels, as they are now

    def experts(self, names: Any, ref: Array) -> list[Array]:
        """The class mix of each expert, over ref."""
        mixes, mix = [], ref
        for name, expert in names.items():
            *counts, n = self.s[name].tolist()
            strength = expert.strength * self.m
            mix = (np.array(counts) + strength * mix) / (n + strength)
            if name in EXPERTS and "held" in self.s:
                mix = np.clip(mix, ref / self.s["held"], ref * self.s["held"])
                mix = mix / mix.sum()
            mixes.append(mix / ref)
        return mixes

    def moving(self, row: str) -> str:
        """The anchor's row at the recent class mix."""
        ref = (self.s["V"][:-1] + 1) / (self.s["V"][-1] + self.m)
        W, mixes = self.s["W.moving"], self.experts(MOVING_EXPERTS, ref)
        return self.g.divided(self.g("Mul", row, W[0] + W[1:] @ np.array(mixes)))

    def following(self, row: str) -> str:
        """The row of the frozen base at the class mix behind it."""
        g, s, ref = self.g, self.s, self.s["ref"]
        W, mixes = s["W"], self.experts(EXPERTS, ref)
        low, high = s["edges"]
        prior = s["cells"].reshape(self.m, 3)
        counts = np.array([s[f"rival.{third}"] for third in ("low", "middle", "high")])
        strength = max(RIVAL_ROWS, RIVAL_ROWS_OF_CLASS * self.m)
        likely = (counts[:, :-1].T + strength * prior) / (counts[0, -1] + strength) / prior
        best = g("ArgMax", row, axis=-1, keepdims=1)
        top = self.single(g("ReduceMax", row, axes=[-1], keepdims=1))
        thirds = [g("Cast", g("GreaterOrEqual", top, edge), to=INT64)
                  for edge in (float(low), float(high))]  # fmt: skip
        cell = g("Add", g("Mul", best, 3), g("Add", *thirds))
        rival = g("Mul", g("Gather", likely.ravel(), cell), float(s["W.rival"][0]))
        followed = g.divided(g("Mul", row, g("Add", rival, W[0] + W[1:] @ np.array(mixes))))
        flatter, n = s["D"]
        believed = float(np.clip((0.08 - abs(flatter) / (n + 100)) / 0.04, 0, 1))
        return g.mixed([believed, 1 - believed], [followed, row])

    def single(self, x: str) -> str:
        """Numbers rounded to single precision."""
        return self.g("Cast", self.g("Cast", x, to=FLOAT), to=DOUBLE)

    # ---- The calibrated row

    def calibrated(self, row: str) -> str:
        """A row whose top is what such tops have been worth."""
        g = self.g
        n, hits, conf = self.s["bins"]
        (both, columns), m = g.largest(row, 2), self.m
        top, second = (g("Gather", both, np.array([k]), axis=-1) for k in (0, 1))
        best = g("Gather", columns, np.array([0]), axis=-1)
        number = g("Min", g("Floor", g("Mul", self.single(top), float(BINS))), BINS - 1.0)
        bin_ = g("Cast", number, to=INT64)
        if m == 2:
            bin_ = g("Add", bin_, g("Mul", best, BINS))
        gain = g("Gather", (hits - conf) / (n + 100), bin_)
        rest = g("Sub", 1.0, top)
        fine = g("GreaterOrEqual", rest, 1e-9)
        least = g("Mul", g("Div", second, g("Max", g("Add", rest, second), 1e-300)), 1 + 1e-6)
        v = g("Max", g("Min", g("Add", top, gain), 1 - 1e-4), least)
        others = g("Div", g("Mul", row, g("Sub", 1.0, v)), g("Where", fine, rest, 1.0))
        is_best = g("Equal", np.arange(m)[None], best)
        return g("Where", fine, g("Where", is_best, v, others), row)

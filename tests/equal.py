"""The corrector and the oracle see the same events; what must be equal then."""

from __future__ import annotations

from itertools import cycle

import numpy as np

from stream_can import Corrector
from stream_can.method.paths import split
from tests.oracle import mixed, without
from tests.strategies import receipt_of

SINGLE = ("matrix", "full", "fitted", "segmented")
"""Bases that hold, or may hold, a matrix."""

SENT = ["anchor", "mixture", "tempered", "moving", "plain", "known", "raw", "segmented mixture",
        "segmented tempered", "calibrated"]  # fmt: skip


def near_a_jump(oracle, p, y=None, segments=None):
    """Whether rounding may decide: CAN at its threshold, a tie, or (with a label) a guard."""
    p = np.asarray(p, float) / np.asarray(p, float).sum()
    for name in {split(path)[0] for path in oracle.paths}:
        within = 1e-6 if name in SINGLE else 1e-9
        gap = oracle.uncertainty_of(oracle.base_row(name, p, segments)) - oracle.threshold
        tie = oracle.kind == "margin" and oracle.threshold == 1 and gap == 0  # it stays one
        exact = oracle.threshold == 0 or tie
        if abs(gap) < within and not exact:
            return True
    top = np.sort(p)[::-1]
    if any(0 < top[i] - top[i + 1] < 1e-12 * top[i] for i in (0, 4) if i + 1 < len(p)):
        return True
    if any(0 < abs(sure - 5) < 1e-9 for sure in (oracle.top, oracle.agree - oracle.top)):
        return True
    judged = oracle.judged(p, segments)
    lasts = [oracle.last, oracle.last_with] if oracle.columns else [oracle.last]
    mixes = oracle.n and not oracle.alone
    if mixes and any(abs(last.u[0]) < 1e-12 for last in lasts):  # 0 but for rounding
        others = oracle.other_rows(judged)
        mixtures = [others[1], others[oracle.own]] if oracle.columns else others[1]
        if (np.array(mixtures) < 0.01 / len(p)).any():  # the tempered one has a floor
            return True
    if near_another_bin(oracle, judged, oracle.silent & False, segments):
        return True
    if y is None:
        return False
    n_j = oracle.n_j + (np.arange(len(p)) == p.argmax())
    e = n_j.sum() * oracle.N_j / max(oracle.N_j.sum(), 1e-300)
    unheard = ~oracle.heard & (np.arange(len(p)) != y) & (e > 0)
    behind = n_j - e + np.sqrt(e)
    if (abs(behind)[unheard] < 1e-9).any():
        return True
    return near_another_bin(oracle, judged, unheard & (behind < 0), segments)


def near_another_bin(oracle, judged, silent, segments):
    """Whether rounding may decide the class or the bin of top, or whether s is calibrated.

    A tie stays one, and so does a top of 1/3: it is rounded before it falls into a bin.
    """
    if oracle.alone:
        return False
    precise = not any(split(path)[0] in SINGLE for path in oracle.paths)
    within = 1e-9 if precise else 1e-6
    if oracle.n == 0 and oracle.frozen is None:
        within = 1e-12  # nothing is learned yet
    rows = {path: without(r, silent) for path, r in judged.items()}
    s = mixed(oracle.shares_of_learned(segments), oracle.other_rows(rows, silent))
    second, top = np.sort(np.append(s, 0.0))[-2:]
    if 0 < top - second < within or abs(1 - top - 1e-9) < 5e-4 * within:
        return True
    below, above = np.float32([top - within, top + within])
    return oracle.bin_of(float(below), 0) != oracle.bin_of(float(above), 0)


def close(actual, expected, tolerance, what=""):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance, err_msg=what)


def compare(oracle, corrector, P, events, tolerance, segments=None, weights=(1.0,)):
    """Both see the same events; an event near a jump is left out. `segments` of each row, and the
    weights that labels have in turn."""
    kept, weights = {}, cycle(weights)
    for verb, i, y, kind in events:
        given = {} if segments is None else {"segments": segments[i]}
        if verb != "label" and near_a_jump(oracle, P[i], y if verb == "learn" else None, **given):
            continue
        if verb == "process":
            explained = corrector.explain_one(P[i], **given)
            for path, r in oracle.explain(P[i], **given).items():
                close(explained[path], r, tolerance, path)
            expected, kept[i] = oracle.process(P[i], **given)
            better, receipt = corrector.process_one(P[i], receipt=True, **given)
            close(better, expected, tolerance)
            assert receipt.dtype == np.float32
            close(receipt, kept[i], 1.2e-7 + tolerance)
        elif verb == "observe":
            corrector.observe_one(P[i], **given)
            oracle.observe(P[i], **given)
        elif verb == "learn":
            receipt = receipt_of(kind, kept.get(i), oracle.m)
            given["weight"] = next(weights)
            corrector.learn_one(P[i], y, receipt=receipt, **given)
            oracle.learn(P[i], y, receipt, **given)
        else:
            weight = next(weights)
            corrector.learn_one(None, y, weight=weight)
            oracle.learn(None, y, weight=weight)
    same_inside(oracle, corrector, tolerance)


def same_inside(oracle, corrector, tolerance):
    close(list(corrector.weights.values()), oracle.w, tolerance)
    assert list(corrector.final_weights) == names_of(oracle)
    close(list(corrector.final_weights.values()), oracle.final_weights, tolerance)
    close(corrector.last_temperature, oracle.last_temperature, tolerance * 10)
    close(corrector.prior, oracle.q, 1e-12)
    silent = [corrector.classes[k] for k in np.flatnonzero(oracle.silent)]
    assert list(corrector.silent_classes) == silent
    close(corrector.coverage, oracle.coverage, 1e-9)
    close(list(corrector.recent_log_loss.values()), oracle.recent_log_loss, tolerance * 10)
    for name, sums in corrector.confident_sums.items():
        close(sums, oracle.S[name], tolerance * 100)
    same_counts(oracle, corrector, tolerance * 100)


def names_of(oracle):
    """The rows of a receipt, in its order."""
    there = {"moving": oracle.moves, "raw": oracle.says_raw}
    there |= {"known": oracle.known_mix is not None}
    there |= dict.fromkeys(("plain", "calibrated"), not oracle.alone)
    return [name for name in SENT if there.get(name, bool(oracle.columns) or "seg" not in name)]


def same_counts(oracle, corrector, tolerance):
    """The bins of top, and what the class mixes count; all of them are there or none."""
    state, m = corrector._state, oracle.m
    assert ("bins" in state, "V" in state) == (not oracle.alone, oracle.moves)
    assert ("Q" in state) == (oracle.frozen is not None and oracle.ref is not None)
    if not oracle.alone:
        close(state["bins"], oracle.bins, tolerance, "bins")
    if not oracle.alone:
        close(state["late.rows"], [*oracle.A, oracle.N_A], tolerance, "late.rows")
        close(state["late.labels"], [*oracle.B, oracle.N_B], tolerance, "late.labels")
        close(state["late.rows.squares"], [oracle.N2_A], tolerance)
        close(state["late.labels.squares"], [oracle.N2_B], tolerance * max(1, oracle.W))
        close(state["late.labels.number"], [oracle.n_B], tolerance)
        close(state["squares"], [*oracle.squares, oracle.N], tolerance, "squares")
    if oracle.moves:
        close(state["V"], [*oracle.V, oracle.N_V], tolerance, "V")
        same_chain(oracle.moving, [state["Q.moving"]], state["W.moving"], m, tolerance)
    if "Q" in state:
        experts = [state[name] for name in ("Q", "Q.500", "Q.50")]
        weights = [*state["W"], *state["W.rival"]]
        same_chain(oracle.chain, experts, weights, m, tolerance)
        rival = oracle.chain.rival
        for third, name in enumerate(("rival.low", "rival.middle", "rival.high")):
            close(state[name], [*rival.H[:, third], rival.N], tolerance, name)
        close(state["cells"], rival.p0, 1e-12, "cells")
        close(state["edges"], rival.edges, tolerance, "edges")
        close(state["D"], [oracle.D, oracle.N_D], tolerance, "D")


def same_chain(chain, experts, weights, m, tolerance):
    close([array[:m] for array in experts], chain.Q, tolerance, "Q")
    close([array[m] for array in experts], chain.N, tolerance, "N")
    close(weights, chain.W, tolerance, "W")


def calibration_of(P, y):
    """How far accuracy is from the mean confidence of some rows."""
    return abs((P.argmax(axis=1) == y).mean() - P.max(axis=1).mean())


def tolerance_of(settings):
    return 1e-6 if any(split(path)[0] in SINGLE for path in settings["paths"]) else 1e-9


def corrector_of(m, settings, columns, limit):
    return Corrector(m, segments=columns, segments_mb=limit / (1 << 20), **settings)


def same_values(oracle, corrector, tolerance):
    """The same values are kept, in the order of their last labels, and they hold the same."""
    names, numbers = corrector._values.dump()
    order = sorted(oracle.values, key=lambda key: (oracle.values[key].last, key[0]))
    assert names == order
    for key, row in zip(names, numbers, strict=True):
        value = oracle.values[key]
        expected = [value.L[0], value.E[0], value.L[1], value.E[1], [value.S, 0, 0]]
        np.testing.assert_allclose(row, np.concatenate(expected), rtol=0, atol=tolerance)

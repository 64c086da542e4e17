"""The corrector and the oracle see the same events; what must be equal then."""

from __future__ import annotations

import numpy as np

from stream_can.method.paths import split
from tests.strategies import receipt_of


def near_a_jump(oracle, p, y=None, segments=None):
    """Whether rounding may decide: CAN at its threshold, a tie, or (with a label) a guard."""
    p = np.asarray(p, float) / np.asarray(p, float).sum()
    for name in {split(path)[0] for path in oracle.paths}:
        within = 1e-6 if name in ("matrix", "fitted", "segmented") else 1e-9
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
    lasts = [oracle.last, oracle.last_with] if oracle.columns else [oracle.last]
    if oracle.n and any(abs(last.u[0]) < 1e-12 for last in lasts):  # 0 but for rounding
        mixtures = oracle.sent_rows(oracle.explain(p, segments))[1::2]
        if (mixtures < 0.01 / len(p)).any():  # the tempered one has a floor
            return True
    if y is None:
        return False
    n_j = oracle.n_j + (np.arange(len(p)) == p.argmax())
    e = n_j.sum() * oracle.N_j / max(oracle.N_j.sum(), 1e-300)
    unheard = ~oracle.heard & (np.arange(len(p)) != y) & (e > 0)
    return bool((abs(n_j - e + np.sqrt(e))[unheard] < 1e-9).any())


def close(actual, expected, tolerance, what=""):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance, err_msg=what)


def compare(oracle, corrector, P, events, tolerance, segments=None):
    """Both see the same events; an event near a jump is left out. `segments` of each row."""
    kept = {}
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
            receipt = receipt_of(kind, kept.get(i))
            corrector.learn_one(P[i], y, receipt=receipt, **given)
            oracle.learn(P[i], y, receipt, **given)
        else:
            corrector.learn_one(None, y)
            oracle.learn(None, y)
    same_inside(oracle, corrector, tolerance)


def same_inside(oracle, corrector, tolerance):
    close(list(corrector.weights.values()), oracle.w, tolerance)
    names = ["anchor", "mixture", "tempered", "segmented mixture", "segmented tempered"]
    assert list(corrector.final_weights) == names[: len(oracle.odds)]
    close(list(corrector.final_weights.values()), oracle.final_weights, tolerance)
    close(corrector.last_temperature, oracle.last_temperature, tolerance * 10)
    close(corrector.prior, oracle.q, 1e-12)
    silent = [corrector.classes[k] for k in np.flatnonzero(oracle.silent)]
    assert list(corrector.silent_classes) == silent
    close(corrector.coverage, oracle.coverage, 1e-9)
    close(list(corrector.recent_log_loss.values()), oracle.recent_log_loss, tolerance * 10)
    for name, sums in corrector.confident_sums.items():
        close(sums, oracle.S[name], tolerance * 100)


def calibration_of(P, y):
    """How far accuracy is from the mean confidence of some rows."""
    return abs((P.argmax(axis=1) == y).mean() - P.max(axis=1).mean())

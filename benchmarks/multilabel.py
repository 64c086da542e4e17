"""Several labels a row: raw, temperature and Platt scaling refitted, and `MultiLabelCorrector`.

    python benchmarks/multilabel.py [--speed]

The tags of Debian packages, where apt has lists of them (`apt-cache dumpavail`): a logistic
regression for each tag, on the words of name, description and dependencies, trained on 5,000
packages at random; the others stream by in the order of their names. Labels come 100 rows late.
The rivals are fitted again every 500 rows on all labels so far: one temperature, and Platt scaling
of each tag. Log loss is that of a row, all its tags; F1 in percent.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import time
from collections import Counter

import numpy as np
from scipy.special import expit, logit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from stream_can.multilabel import MultiLabelCorrector

LATE, EVERY, TRAINED, RAREST = 100, 500, 5_000, 100


def packages():
    """Words and tags of each package, in the order of the names."""
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True)
    found = {}
    for block in re.sub(r"\n ", " ", text.stdout).split("\n\n"):
        of = dict(re.findall(r"^([\w-]+): *(.*)$", block, re.MULTILINE))
        if "Tag" in of:
            words = [of["Package"].replace("-", " "), of.get("Description", "")]
            words.append(re.sub(r"\(.*?\)|[,|]", " ", of.get("Depends", "")))
            found[of["Package"]] = " ".join(words), re.split(r",\s*", of["Tag"])
    return [found[name] for name in sorted(found)]


def tags(seed):
    """Predictions, labels, and training counts."""
    rows = packages()
    often = Counter(tag for _, own in rows for tag in own)
    names = sorted(tag for tag in often if often[tag] >= RAREST)
    Y = np.array([[tag in own for tag in names] for _, own in rows], np.int8)
    trained = np.zeros(len(rows), bool)
    trained[np.random.default_rng(seed).permutation(len(rows))[:TRAINED]] = True
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, token_pattern=r"[\w+-]{2,}")
    X = words.fit_transform([text for text, _ in rows])
    P = np.empty((len(rows) - TRAINED, len(names)))
    for k in range(len(names)):
        model = LogisticRegression(C=10, solver="liblinear").fit(X[trained], Y[trained, k])
        P[:, k] = model.predict_proba(X[~trained])[:, 1]
    return P, Y[~trained], Y[trained].sum(0)


def known(P, Y, how, rng):
    """Labels of which some are -1."""
    if how == "every row":
        return Y
    if how == "1 row in 20":
        return np.where(rng.random((len(Y), 1)) < 0.05, Y, -1)
    if how == "5 % of each row's labels":
        return np.where(rng.random(Y.shape) < 0.05, Y, -1)
    if how == "positives only":
        return np.where(Y == 1, 1, -1)
    return np.where(P >= 0.5, Y, -1)  # what the classifier says yes to is reviewed


def ours(P, Y, seen, train):
    corrector = MultiLabelCorrector(P.shape[1], train_counts=train, train_rows=TRAINED)
    kept, out, yes = [], [], []
    for at in range(0, len(P), LATE):
        rows, receipts = corrector.process_many(P[at : at + LATE], receipt=True)
        kept.append(receipts)
        out.append(rows)
        yes.append(corrector.decide(rows))
        if at:
            part = slice(at - LATE, at)
            corrector.learn_many(P[part], seen[part], receipts=kept[-2])
    return np.concatenate(out), np.concatenate(yes)


def refitted(P, seen, per_label):
    """Temperature, or slope and offset of each label, by Newton's method with an L2 penalty
    on what differs from the row as it came."""
    X = logit(np.clip(P, 1e-4, 1 - 1e-4))
    out, u = P.copy(), np.array([np.ones(P.shape[1]), np.zeros(P.shape[1])])
    for at in range(EVERY, len(P), EVERY):
        x, y = X[: at - LATE], seen[: at - LATE]
        told = y >= 0
        both = (y == 1).any(0) & (y == 0).any(0)
        for _ in range(8):
            r = expit(u[0] * x + u[1])
            d, v = np.where(told, r - y, 0), np.where(told, r * (1 - r), 0)
            g = np.array([(d * x).sum(0) + u[0] - 1, d.sum(0) + u[1]])
            h = np.array([(v * x * x).sum(0) + 1, (v * x).sum(0), v.sum(0) + 1])
            if per_label:
                det = h[0] * h[2] - h[1] ** 2
                step = np.array([h[2] * g[0] - h[1] * g[1], h[0] * g[1] - h[1] * g[0]]) / det
                u = np.where(both, np.clip(u - np.clip(step, -2, 2), -15, 15), u)
            elif both.any():
                u[0] = np.clip(u[0] - g[0].sum() / h[0].sum(), 0.05, 10)
        part = slice(at, at + EVERY)
        out[part] = expit(u[0] * X[part] + u[1]) if both.any() else P[part]
        if per_label:
            out[part, ~both] = P[part, ~both]
    return out


def f1(yes, Y):
    both = (yes & (Y == 1)).sum(0)
    all_ = yes.sum(0) + (Y == 1).sum(0)
    macro = np.where(all_ > 0, 2 * both / np.maximum(all_, 1), 0)
    return 200 * both.sum() / all_.sum(), 100 * macro.mean()


def judged(out, Y):
    p = np.clip(np.where(Y == 1, out, 1 - out), 1e-6, 1)
    return (-np.log(p).sum(1).mean(), *f1(out >= 0.5, Y))


def accuracy(seeds):
    ways = ["every row", "1 row in 20", "5 % of each row's labels", "positives only", "reviewed"]
    worst = {way: -np.inf for way in ways}
    for seed in range(seeds):
        P, Y, train = tags(seed)
        if seed == 0:
            print(f"{len(P)} rows, {P.shape[1]} tags, {Y.sum(1).mean():.1f} a row")
            print(
                "| labels | | log loss | micro F1 | macro F1 | at the thresholds |\n"
                + "|--" * 6
                + "|"
            )
        for way in ways:
            seen = known(P, Y, way, np.random.default_rng(seed))
            out, yes = ours(P, Y, seen, train)
            raw, found = judged(P, Y), judged(out, Y)
            worst[way] = max(worst[way], found[0] - raw[0])
            if seed:
                continue
            rows = {"as it came": raw, "temperature": judged(refitted(P, seen, False), Y)}
            rows["Platt"] = judged(refitted(P, seen, True), Y)
            for name, of in rows.items():
                print(f"| {way} | {name} | {of[0]:.2f} | {of[1]:.1f} | {of[2]:.1f} | |")
            at = f1(yes, Y)
            print(f"| {way} | corrected | {found[0]:.2f} | {found[1]:.1f} | {found[2]:.1f} |"
                  f" {at[0]:.1f}, {at[1]:.1f} |", flush=True)  # fmt: skip
    print(f"worst of {seeds} seeds, log loss less that of raw: {worst}")


def speed():
    print("| m | row, us | its labels, us |\n|--:|--:|--:|")
    for m in (10, 100, 1000):
        rng = np.random.default_rng(m)
        n = 200_000 // m
        P = rng.beta(0.3, 1, (n, m))
        Y = (rng.random((n, m)) < P).astype(np.int8)
        corrector, times = MultiLabelCorrector(m), []
        for _ in range(9):
            start = time.process_time()
            _, receipts = corrector.process_many(P, receipt=True)
            middle = time.process_time()
            corrector.learn_many(P, Y, receipts=receipts)
            times.append((middle - start, time.process_time() - middle))
        found = np.sort(np.array(times), axis=0)[[0, 4, 8]] / n * 1e6
        cells = [" / ".join(f"{us:.2f}" for us in column) for column in found.T]
        print(f"| {m} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--speed", action="store_true")
    options.add_argument("--seeds", type=int, default=10)
    given = options.parse_args()
    speed() if given.speed else accuracy(given.seeds)

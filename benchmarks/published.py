"""Published set-ups with their own rivals: who wins there, with generated data and seeds.

    python benchmarks/published.py [--seeds 3]

- The drifts of Gupta and Ramdas, Online Platt Scaling with Calibeating (ICML 2023), section 4: two
  classes, a random forest of 1,000 trees trained on 1,000 rows, 5,000 rows in which the covariates,
  the share of a class or the regression function move. Every label at once.
- The label shifts of Baby, Garg, Yen, Balakrishnan, Lipton and Wang, Online Label Shift: Optimal
  Dynamic Regret meets Practical Algorithms (NeurIPS 2023), without labels: the mix of two classes
  moves monotonously, in squares, as a sinusoid, or as a Bernoulli walk. Their synthetic classifier
  is logistic regression; ours sees validation rows, and no label. Beside it two of their methods,
  from the text: the label marginal of each moment by the confusion matrix of the validation rows
  (Lipton et al., 2018), followed by the mean of all moments so far (follow the history, FTH), or by
  an ensemble of means that began at each moment, weighed by how well they foretold the next
  (FLH-FTL, learning rate sigma^2 / (8 K)).

The data are generated from what the papers say, not with their random numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PolynomialFeatures

from stream_can import Corrector
from stream_can.compare import Stream
from stream_can.compare.online import online_platt
from stream_can.scores import Scores

TRAIN, TEST, D = 1000, 5000, 10
QUADRATIC = PolynomialFeatures(2, include_bias=False)


def sigmoid(z):
    return 1 / (1 + np.exp(-np.clip(z, -100, 100)))


def across(rng, v):
    """A direction at a right angle to v, as long."""
    w = rng.normal(size=len(v))
    w -= v * (v @ w) / (v @ v)
    return w * np.linalg.norm(v) / np.linalg.norm(w)


def covariates_move(rng, degrees):
    """The direction in which rows vary most turns."""
    beta = rng.choice([-1, 1], D + D * (D + 1) // 2)
    v = rng.normal(size=D)
    v /= np.linalg.norm(v)
    w = across(rng, v)
    turn = np.radians(degrees) * np.arange(TRAIN + TEST) / (TRAIN + TEST)
    along = np.cos(turn)[:, None] * v + np.sin(turn)[:, None] * w
    X = rng.normal(size=(TRAIN + TEST, D))
    X += 10 * along * np.einsum("ij,ij->i", X, along)[:, None]
    return X, rng.random(len(X)) <= sigmoid(QUADRATIC.fit_transform(X) @ beta)


def labels_move(rng, last):
    """The share of the second class goes from a half to ``last``."""
    share = 0.5 + (last - 0.5) * np.arange(TRAIN + TEST) / (TRAIN + TEST)
    y = rng.random(TRAIN + TEST) <= share
    X = rng.normal(size=(TRAIN + TEST, D))
    X[~y, 0] *= 2
    X[y, 0] += 1
    X[y, 1] *= 2
    return X, y


def the_rule_moves(rng, degrees):
    """What the labels depend on turns."""
    v = rng.choice([-1.0, 1.0], D + D * (D + 1) // 2)
    w = across(rng, v)
    turn = np.radians(degrees) * np.arange(TRAIN + TEST) / (TRAIN + TEST)
    X = rng.normal(size=(TRAIN + TEST, D))
    beta = np.cos(turn)[:, None] * v + np.sin(turn)[:, None] * w
    return X, rng.random(len(X)) <= sigmoid(np.einsum("ij,ij->i", QUADRATIC.fit_transform(X), beta))


DRIFTS = [
    *((covariates_move, degrees) for degrees in (60, 120, 180)),
    *((labels_move, last) for last in (0.6, 0.7, 0.9)),
    *((the_rule_moves, degrees) for degrees in (30, 60, 90)),
]


def ours(P, y):
    corrector, rows = Corrector(2), np.empty_like(P)
    for i, (p, label) in enumerate(zip(P, y.tolist(), strict=True)):
        rows[i], receipt = corrector.process_one(p, receipt=True)
        corrector.learn_one(p, label, receipt=receipt)
    return rows


def drifts(seed) -> Iterator[tuple[str, dict[str, Scores]]]:
    for make, how in DRIFTS:
        rng = np.random.default_rng([seed, int(1000 * how)])
        X, y = make(rng, how)
        forest = RandomForestClassifier(1000, random_state=seed, n_jobs=-1)
        P = forest.fit(X[:TRAIN], y[:TRAIN]).predict_proba(X[TRAIN:])
        y = y[TRAIN:].astype(np.int64)
        known = np.full(TEST, True)
        stream = Stream([0, 1], P, y, known, known, (P[:2], np.array([0, 1])), label_delay=0)
        found = {"forest": P, "stream_can": ours(P, y)}
        for name, tracks in (("OPS", False), ("OPS, tracking", True)):
            found[name] = np.concatenate(list(online_platt(tracks=tracks)(stream)))
        scores = {name: Scores() for name in found}
        for name, rows in found.items():
            scores[name].add(rows, y)
        yield make.__name__, scores


def marginals(P, Q, labels, batch):
    """The label marginal of each moment by the confusion matrix of validation rows, and the
    matrix's least singular value."""
    said = np.eye(2)
    confusion = np.stack([said[Q[labels == k].argmax(1)].mean(0) for k in (0, 1)], axis=1)
    found = said[P.argmax(1)].reshape(-1, batch, 2).mean(1)
    return np.linalg.solve(confusion, found.T).T, np.linalg.svd(confusion)[1].min()


def in_simplex(q):
    """The nearest point of the simplex of two classes."""
    first = np.clip((q[:, 0] - q[:, 1] + 1) / 2, 0, 1)
    return np.stack([first, 1 - first], axis=1)


def fth(s):
    """The mean of all moments before each; at first a half."""
    return np.concatenate([[[0.5, 0.5]], s.cumsum(0)[:-1] / np.arange(1, len(s))[:, None]])


def flh_ftl(s, sigma):
    """Means that began at each moment, weighed by exponents of their squared errors."""
    n, k = s.shape
    rate = sigma**2 / (8 * k)
    total, found = np.concatenate([np.zeros((1, k)), s.cumsum(0)]), np.full((n, k), 0.5)
    weights = np.ones(1)
    for t in range(1, n):
        begun = np.arange(t)
        experts = (total[t] - total[:t]) / (t - begun)[:, None]
        found[t] = weights @ experts
        grown = weights * np.exp(-rate * ((experts - s[t]) ** 2).sum(1))
        weights = np.append((1 - 1 / (t + 1)) * grown / grown.sum(), 1 / (t + 1))
    return found


def shifts(seed) -> Iterator[tuple[str, dict[str, float]]]:
    """Errors in percent of the classifier, of the corrector that has only seen ``fit``, and of
    theirs."""
    n, held = 1000, 1000
    for name in ("monotone", "square", "sinusoid", "Bernoulli"):
        rng = np.random.default_rng([seed, len(name)])
        t = np.arange(n) / n
        period = np.sqrt(n)
        flips = np.cumsum(rng.random(n) < 1 / period) % 2
        weight = {
            "monotone": t, "square": (np.arange(n) // period % 2),
            "sinusoid": (1 + np.sin(2 * np.pi * np.arange(n) / (2 * period))) / 2,
            "Bernoulli": flips,
        }[name]  # fmt: skip
        mixes = np.array([[0.2, 0.8], [0.8, 0.2]])
        share = weight * mixes[0, 1] + (1 - weight) * mixes[1, 1]
        batch = 10  # rows of each moment
        y = (rng.random((n, batch)) < share[:, None]).ravel()

        def rows(labels, rng=rng):
            return rng.normal(size=(len(labels), 12)) + np.where(labels[:, None], 0.5, -0.5)

        old = rng.random(4000) < 0.5
        model = LogisticRegression().fit(rows(old), old)
        kept = rng.random(held) < 0.5
        P, Q = model.predict_proba(rows(y)), model.predict_proba(rows(kept))
        corrector = Corrector(2, train_counts=[2000, 2000])
        corrector.fit(Q, kept.astype(int))
        found = {"classifier": P, "stream_can: fit": corrector.process_many(P)}
        s, sigma = marginals(P, Q, kept.astype(int), batch)
        for rival, q in (("FTH", fth(s)), ("FLH-FTL", flh_ftl(s, sigma))):
            found[rival] = P * np.repeat(in_simplex(q), batch, axis=0)  # trained on halves
        yield name, {who: 100 * float((one.argmax(1) != y).mean()) for who, one in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    every: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    for seed in seeds:
        sums: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
        for drift, scores in drifts(seed):
            for name, one in scores.items():
                figures = one.log_loss, one.brier / 2, one.ece
                sums.setdefault(drift, {}).setdefault(name, []).append(figures)
        for drift, found in sums.items():
            for name, some in found.items():
                mean = tuple(np.mean(some, axis=0).tolist())
                every.setdefault(drift, {}).setdefault(name, []).append(mean)
    names = list(next(iter(every.values())))
    print("log loss / Brier / ECE, medians of the seeds\n")
    print("| drift | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for drift, found in every.items():
        cells = [np.median(found[name], axis=0) for name in names]
        print(
            f"| {drift} | " + " | ".join(f"{a:.4f} / {b:.4f} / {c:.3f}" for a, b, c in cells) + " |"
        )
    errors: dict[str, list[dict[str, float]]] = {}
    for seed in seeds:
        for name, of_each in shifts(seed):
            errors.setdefault(name, []).append(of_each)
    names = list(next(iter(errors.values()))[0])
    print("\nerror in percent, medians of the seeds\n\n| label shift | " + " | ".join(names) + " |")
    print("|---" + "|--:" * len(names) + "|")
    for name, some in errors.items():
        cells = [f"{np.median([one[who] for one in some]):.2f}" for who in names]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

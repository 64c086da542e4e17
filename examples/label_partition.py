"""Label partitioning: which of thousands of labels to score at all (Weston, Makadia and Yee 2013).

A naive Bayes scorer says which function a docstring belongs to, of thousands of names. To score all
of them costs a product with a row of weights each. So inputs are parted by k-means, and each part
keeps the labels that it had most often in training. Those of the three nearest parts alone are
scored. The ten best go into a
`SparseCorrector`; true names come 100 or 1,000 rows later.

Run it: `python examples/label_partition.py [--parts 32] [--labels 300] [--rows 4000]`
"""

import argparse
import time
from collections import Counter

import corpora
import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.naive_bayes import MultinomialNB
from threadpoolctl import threadpool_limits

K, FEATURES, NEAREST = 10, 2000, 3
PACKAGES = ("numpy", "scipy", "matplotlib", "pandas", "sklearn", "river", "polars")


class Scorer:
    """A linear scorer of all labels, or of those of an input's part."""

    def __init__(self, texts: list[str], names: list[str], parts: int, most: int) -> None:
        self.words = TfidfVectorizer(max_features=FEATURES, dtype=np.float32)
        X = self.words.fit_transform(texts)
        bayes = MultinomialNB(alpha=0.01).fit(X, names)
        self.names, self.counts = bayes.classes_, Counter(names)
        self.weights = np.ascontiguousarray(bayes.feature_log_prob_.astype(np.float32))
        self.prior = bayes.class_log_prior_.astype(np.float32)
        self.means = MiniBatchKMeans(parts, random_state=0, n_init=3).fit(X)
        number = {name: i for i, name in enumerate(self.names)}
        often = [Counter() for _ in range(parts)]
        for part, name in zip(self.means.labels_, names, strict=True):
            often[part][number[name]] += 1
        self.kept = [np.array([i for i, _ in found.most_common(most)]) for found in often]
        self.own = [(self.weights[kept], self.prior[kept]) for kept in self.kept]

    def rows(self, texts: list[str], *, parted: bool) -> tuple[list[dict[str, float]], float, int]:
        """The k best of each text and their probabilities; microseconds a text; labels scored."""
        X = self.words.transform(texts).toarray()
        found, scored, begin = [], 0, time.process_time()
        centres = self.means.cluster_centers_.T.astype(np.float32)
        half, every = (centres**2).sum(axis=0) / 2, np.arange(len(self.names))
        for x in X:
            labels = every
            if parted:
                near = (half - x @ centres).argsort()[:NEAREST]
                labels, first = np.unique(
                    np.concatenate([self.kept[part] for part in near]), return_index=True
                )
                each = [self.own[part][0] @ x + self.own[part][1] for part in near]
                scores = np.concatenate(each)[first]
            else:
                scores = self.weights @ x + self.prior
            best = np.argpartition(-scores, min(K, len(scores) - 1))[:K]
            p = np.exp(scores - scores.max())
            p /= p.sum()
            found.append((labels[best], p[best]))
            scored += len(scores)
        spent = 1e6 * (time.process_time() - begin) / len(X)
        rows = [dict(zip(self.names[i], p.tolist(), strict=True)) for i, p in found]
        return rows, spent, scored // len(X)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--parts", type=int, default=32, help="of the inputs")
parser.add_argument("--labels", type=int, default=300, help="of a part, at most")
parser.add_argument("--rows", type=int, default=4000, help="of the stream")
options = parser.parse_args()

given = [one for package in PACKAGES for one in corpora.docstrings(package) if one[0]]
order = np.random.default_rng(0).random(len(given)) < 0.6
train = [one for one, first in zip(given, order, strict=True) if first]
later = [one for one, first in zip(given, order, strict=True) if not first][-options.rows :]
names, texts = [name for name, _ in train], [" ".join(text) for _, text in train]
scorer = Scorer(texts, names, options.parts, options.labels)
print(f"{len(train):,} docstrings of {len(scorer.names):,} names; {len(later):,} stream by")
truth, new = [name for name, _ in later], [" ".join(text) for _, text in later]
with threadpool_limits(1):
    found = {parted: scorer.rows(new, parted=parted) for parted in (False, True)}
for parted, (rows, spent, scored) in found.items():
    faster = "" if not parted else f", {found[False][1] / spent:.1f} times faster"
    what = f"{options.parts} parts" if parted else "all labels"
    print(f"{what}: {scored:,} labels scored, {spent:.0f} microseconds a docstring{faster}")
    corpora.table(list(zip(rows, truth, strict=True)), scorer.counts)

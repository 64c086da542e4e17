"""Item-based top-N: what is imported next in a source file, given what it imports already.

A file is a basket and an import an item (Deshpande and Karypis 2004). Items are alike that stand in
the same files; each item's similarities to its 20 nearest are taken as they are, or divided by
their sum. The first half of the files of some packages trains it; the second halves stream by, one
package after the other. It sends its ten best items as probabilities that leave what held-out files
leave for all others; true items come 100 or 1,000 rows later.

Run it: `python examples/top_n.py`
"""

import argparse
from collections import Counter, defaultdict

import corpora
import numpy as np

K, NEAREST = 10, 20
PACKAGES = ("scipy", "matplotlib", "pandas", "sklearn", "river", "polars")


class TopN:
    """Items by their similarity to those of a basket."""

    def __init__(self, baskets: list[list[str]], *, normalised: bool) -> None:
        self.counts = Counter(item for basket in baskets for item in basket)
        both: dict[str, Counter[str]] = defaultdict(Counter)
        for basket in baskets:
            for item in basket:
                both[item].update(other for other in basket if other != item)
        self.near: dict[str, dict[str, float]] = {}
        for item, others in both.items():
            n = self.counts[item]
            alike = {j: c / (n * self.counts[j]) ** 0.5 for j, c in others.items()}
            best = dict(sorted(alike.items(), key=lambda one: -one[1])[:NEAREST])
            total = sum(best.values()) if normalised else 1.0
            self.near[item] = {j: s / total for j, s in best.items()}
        self.listed = 1.0
        popular = self.counts.most_common(K)
        self.popular = {item: n / self.counts.total() for item, n in popular}

    def likeliest(self, basket: list[str]) -> dict[str, float]:
        """The k best items that are not in the basket, and their probabilities."""
        scores: Counter[str] = Counter()
        for item in basket:
            for other, alike in self.near.get(item, {}).items():
                scores[other] += alike
        for item in basket:
            del scores[item]
        best = dict(scores.most_common(K))
        total = sum(best.values())
        if not total:
            return {item: p for item, p in self.popular.items() if item not in basket}
        return {item: self.listed * score / total for item, score in best.items()}

    def calibrate(self, baskets: list[list[str]]) -> None:
        """Let the rest have what the list does not hold in these."""
        self.listed = 1.0
        rows = list(each(self, baskets))
        self.listed = float(np.mean([item in row for row, item in rows]))


def each(model: TopN, baskets: list[list[str]]):
    """For each item but the first of a basket what was sent, and the item."""
    for basket in baskets:
        for i in range(1, len(basket)):
            yield model.likeliest(basket[:i]), basket[i]


argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
files = [list(corpora.imports(name)) for name in PACKAGES]
first = [basket for package in files for basket in package[: len(package) // 2]]
held, trained = first[::5], [basket for i, basket in enumerate(first) if i % 5]
streamed = [basket for package in files for basket in package[len(package) // 2 :]]
for normalised in (False, True):
    model = TopN(trained, normalised=normalised)
    model.calibrate(held)
    rows = list(each(model, streamed))
    how = "divided by their sum" if normalised else "as they are"
    print(f"similarities {how}, {len(rows):,} rows")
    corpora.table(rows, model.counts)

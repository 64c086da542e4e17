"""The next word: a trigram model of one body of text reads another, and what it predicts is
corrected as it goes on.

The text is real: what the docstrings of numpy and pandas say trains the model; those of
scikit-learn, which has other words and uses them otherwise, stream by. For each word the model
sends the ten that it holds most likely, and what is left for all others. True words come 100 or
1,000 words later; words that were never seen appear as they come.

Run it: `python examples/next_word.py [--words 20000]`
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice

import corpora

K, UNSEEN = 10, 1e-7


class Trigrams:
    """Counts of three words, of two and of one, each smoothed by the next (Witten and Bell)."""

    def __init__(self, text: list[str]) -> None:
        self.after: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for a, b, c in zip(text, text[1:], text[2:], strict=False):
            for before in ((), (b,), (a, b)):
                self.after[before][c] += 1
        self.best = {before: [w for w, _ in n.most_common(K)] for before, n in self.after.items()}
        self.totals = {before: n.total() for before, n in self.after.items()}

    def probability(self, word: str, before: tuple[str, ...]) -> float:
        known = self.after.get(before)
        below = self.probability(word, before[1:]) if before else UNSEEN
        if known is None:
            return below
        n, kinds = self.totals[before], len(known)
        return (known[word] + kinds * below) / (n + kinds)

    def likeliest(self, before: tuple[str, ...]) -> dict[str, float]:
        """The k likeliest words and what the model gives them."""
        found = {w for k in range(len(before) + 1) for w in self.best.get(before[k:], ())}
        given = {word: self.probability(word, before) for word in found}
        return dict(sorted(given.items(), key=lambda one: -one[1])[:K])


def each(model: Trigrams, text: list[str]) -> Iterator[tuple[dict[str, float], str]]:
    """For each word behind two others what the model sends, and the word."""
    for a, b, word in zip(text, text[1:], text[2:], strict=False):
        yield model.likeliest((a, b)), word


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--words", type=int, default=20_000, help="of the stream")
number = parser.parse_args().words


def words(*packages: str) -> Iterator[str]:
    """The words of all docstrings of packages."""
    for package in packages:
        for _, found in corpora.docstrings(package):
            yield from found


trained = list(words("numpy", "pandas"))
text = list(islice(words("sklearn"), number))
model = Trigrams(trained)
new = len({*text} - {*trained})
print(f"trained on {len(trained):,} words, {len({*trained}):,} different ones")
print(f"stream of {len(text):,} words, {new:,} of its {len({*text}):,} different ones are new")
corpora.table(list(each(model, text)), model.after[()])

"""The next word: a trigram model of one body of text reads another, and what it predicts is
corrected as it goes on.

The text is real: what the docstrings of numpy and pandas say trains the model; those of
scikit-learn, which has other words and uses them otherwise, stream by. For each word the model
sends the ten that it holds most likely, and what is left for all others. Each true word comes 100
words later; words that were never seen appear as they come.

Run it: `python examples/next_word.py [--words 20000]`
"""

import argparse
import ast
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from stream_can.sparse import SparseCorrector

LATE, K, UNSEEN = 100, 10, 1e-7


def words(package: str) -> Iterator[str]:
    """The words of all docstrings of an installed package, in the order of its files."""
    (folder,) = find_spec(package).submodule_search_locations
    for file in sorted(Path(folder).rglob("*.py")):
        if "tests" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield from re.findall(r"[a-z]+|[.,:()]", (ast.get_docstring(node) or "").lower())


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


def score(rows: list[tuple[bool, bool, float]]) -> str:
    top, five, p = np.array(rows).T
    loss = -np.log(np.maximum(p, UNSEEN)).mean()
    return f"top-1 {100 * top.mean():.1f} %  top-5 {100 * five.mean():.1f} %  log loss {loss:.3f}"


def outcome(row: dict[str, float], word: str, unlisted: float) -> tuple[bool, bool, float]:
    """Whether the word is first, whether it is among five, and what it was given."""
    best = sorted(row, key=row.__getitem__, reverse=True)[:5]
    return word == best[0], word in best, row.get(word, unlisted)


def stream(model: Trigrams, text: list[str], share: float) -> tuple[list, list]:
    """What the model sends and what becomes of it, where a share of the words is told."""
    corrector = SparseCorrector("any", max_classes=20_000, train_counts=model.after[()])
    told = np.random.default_rng(0).random(len(text)) < share
    waiting, raw, sent = deque(), [], []
    for i in range(2, len(text)):
        row, word = model.likeliest((text[i - 2], text[i - 1])), text[i]
        better, rest, receipt = corrector.process_one(row, receipt=True)
        tail = 0.0 if word in better else corrector.tail(word, list(better), rest)
        raw.append(outcome(row, word, model.probability(word, (text[i - 2], text[i - 1]))))
        sent.append(outcome(better, word, tail))
        waiting.append((i, row, word, receipt))
        if len(waiting) > LATE:
            number, row, word, receipt = waiting.popleft()
            if told[number]:
                corrector.learn_one(row, word, receipt=receipt)
    return raw, sent


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--words", type=int, default=20_000, help="of the stream")
number = parser.parse_args().words

trained = [word for package in ("numpy", "pandas") for word in words(package)]
text = [word for word, _ in zip(words("sklearn"), range(number), strict=False)]
model = Trigrams(trained)
new = len({*text} - {*trained})
print(f"trained on {len(trained):,} words, {len({*trained}):,} different ones")
print(f"stream of {len(text):,} words, {new:,} of its {len({*text}):,} different ones are new")
for share, name in ((1.0, "every word is told"), (0.05, "1 word in 20 is told")):
    raw, sent = stream(model, text, share)
    if share == 1:
        print(f"{'as sent by the model':>24}: {score(raw)}")
    print(f"{name:>24}: {score(sent)}")

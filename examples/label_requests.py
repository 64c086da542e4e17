"""Labels cost money: ask for one in twenty, half of them where they teach most.

A labeller answers after a while. With as many labels of rows drawn at random fewer are right.

Run it: `python examples/label_requests.py`.
"""

from collections import deque

import numpy as np

from stream_can import Corrector, LabelRequests
from stream_can.scores import Scores

CLASSES = ["fine", "late", "lost", "returned"]
BUDGET, LATE = 0.05, 200


def orders():
    """Predictions of a classifier that is too sure, blind to a mix that has moved and moves again.

    Returns them, shape (10000, 4), and the columns of the true classes.
    """
    rng = np.random.default_rng(0)
    mixes = [0.2, 0.3, 0.3, 0.2], [0.5, 0.1, 0.1, 0.3]
    truth = np.concatenate([rng.choice(4, size=5_000, p=mix) for mix in mixes])
    evidence = rng.normal(size=(10_000, 4)) + 2 * np.eye(4)[truth]
    P = np.exp(2 * (evidence + np.log([0.7, 0.15, 0.1, 0.05])))
    return P / P.sum(axis=1, keepdims=True), truth


def scored(rows):
    scores = Scores()
    scores.add(rows, TRUTH)
    return scores


def run(requests):
    """Scores of the corrected predictions where labels come as they are asked for."""
    corrector, rows, asked = Corrector(CLASSES, train_counts=[700, 150, 100, 50]), [], 0
    answers = deque()  # when, prediction, label, receipt: what the labeller will say
    for number, p in enumerate(P):
        while answers and answers[0][0] <= number:
            _, earlier, label, ticket = answers.popleft()
            corrector.learn_one(earlier, label, receipt=ticket)
        better, receipt = corrector.process_one(p, receipt=True)
        rows.append(better)
        if requests.ask_one(number, better):  # says why, too: "random" or "margin"
            answers.append((number + LATE, p, CLASSES[TRUTH[number]], receipt))
            asked += 1
    return scored(rows), asked


P, TRUTH = orders()
before = scored(P)
after, asked = run(LabelRequests(BUDGET))
at_random, drawn = run(LabelRequests(BUDGET, random_share=1.0))
print(f"labels: {asked} asked for, {drawn} at random")
print(f"accuracy {before.accuracy:.3f} -> {after.accuracy:.3f}, at random {at_random.accuracy:.3f}")
print(f"log loss {before.log_loss:.3f} -> {after.log_loss:.3f}, at random {at_random.log_loss:.3f}")

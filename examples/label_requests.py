"""Labels cost money: ask for one in twenty, half of them where they teach most.

A labeller answers after a while. As many labels of rows drawn at random show the difference.

Run it: `python examples/label_requests.py`.
"""

from collections import deque

import numpy as np

from stream_can import Corrector, LabelRequests
from stream_can.scores import Scores

CLASSES = ["fine", "late", "lost", "returned"]
BUDGET, LATE = 0.05, 200


def orders():
    """Predictions of a classifier that is too sure, and blind to a mix that has moved."""
    rng = np.random.default_rng(0)
    for number in range(10_000):
        truth = rng.choice(4, p=[0.2, 0.3, 0.3, 0.2])
        evidence = rng.normal(size=4) + 1.3 * np.eye(4)[truth] + np.log([0.7, 0.15, 0.1, 0.05])
        p = np.exp(2 * evidence)
        yield number, p / p.sum(), truth


def run(requests):
    """Scores of the corrected predictions where labels come as they are asked for."""
    corrector, scores, asked = Corrector(CLASSES, train_counts=[700, 150, 100, 50]), Scores(), 0
    answers = deque()  # when, prediction, label, receipt: what the labeller will say
    for number, p, truth in orders():
        while answers and answers[0][0] <= number:
            _, earlier, label, ticket = answers.popleft()
            corrector.learn_one(earlier, label, receipt=ticket)
        better, receipt = corrector.process_one(p, receipt=True)
        scores.add([better], [truth])
        if requests.ask_one(number, better):  # says why, too: "random" or "margin"
            answers.append((number + LATE, p, CLASSES[truth], receipt))
            asked += 1
    return scores, asked


before = Scores()
for _, p, truth in orders():
    before.add([p], [truth])
after, asked = run(LabelRequests(BUDGET))
at_random, drawn = run(LabelRequests(BUDGET, random_share=1.0))
print(f"labels: {asked} asked for, {drawn} at random")
print(f"accuracy {before.accuracy:.3f} -> {after.accuracy:.3f}, at random {at_random.accuracy:.3f}")
print(f"log loss {before.log_loss:.3f} -> {after.log_loss:.3f}, at random {at_random.log_loss:.3f}")

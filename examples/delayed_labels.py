"""Labels that arrive hours later, out of order, and not always: a `Learner` joins them by id.

Run it: `python examples/delayed_labels.py`.
"""

import heapq

import numpy as np

from stream_can import Corrector, Learner

rng = np.random.default_rng(0)
CLASSES = ["fine", "late", "lost"]
learner = Learner(Corrector(CLASSES, train_counts=[700, 200, 100]), recent_mb=8)
arriving: list[tuple[float, int, str]] = []  # labels on their way: when, id, label

for number in range(20_000):
    # The class mix has moved since training, and the classifier is too sure of itself.
    truth = rng.choice(3, p=[0.3, 0.5, 0.2])
    evidence = rng.normal(size=3) + 1.2 * np.eye(3)[truth] + np.log([0.7, 0.2, 0.1])
    p = np.exp(2 * evidence) / np.exp(2 * evidence).sum()

    better = learner.process(number, p)
    if rng.random() < 0.2:  # one label in five ever arrives
        heapq.heappush(arriving, (number + rng.exponential(500), number, CLASSES[truth]))

    while arriving and arriving[0][0] <= number:
        _, made, label = heapq.heappop(arriving)
        learner.label(made, label)

    if number == 10_000:  # a restart: continues bit for bit
        learner = Learner.from_bytes(learner.to_bytes(), CLASSES)

before, after = learner.scores[None, None]  # of the predictions whose labels came
corrector = Corrector.from_bytes(learner.correctors[None, None])
print(f"labels learned: {corrector.n_labels} of {corrector.n_predictions} predictions")
print(f"accuracy {before.accuracy:.3f} -> {after.accuracy:.3f}")
print(f"log loss {before.log_loss:.3f} -> {after.log_loss:.3f}")
print("class mix", dict(zip(CLASSES, corrector.prior.round(2).tolist(), strict=True)))

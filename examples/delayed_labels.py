"""Labels that arrive hours later, out of order, and not always: join them by id, learn, go on.

The corrector needs the prediction that a label is for, and the receipt of what was sent, so both
wait in a dict. The corrector's state is a few kilobytes that survive a restart.

Run it: `python examples/delayed_labels.py`.
"""

import heapq

import numpy as np

from stream_can import Corrector
from stream_can.scores import Scores

rng = np.random.default_rng(0)
CLASSES = ["fine", "late", "lost"]
corrector = Corrector(CLASSES, train_counts=[700, 200, 100])
# id -> the prediction as the classifier made it, and its receipt
waiting: dict[int, tuple[np.ndarray, np.ndarray]] = {}
arriving: list[tuple[float, int, str]] = []  # labels on their way: when, id, label
before, after = Scores(), Scores()

for number in range(20_000):
    # The class mix has moved since training, and the classifier is too sure of itself.
    truth = rng.choice(3, p=[0.3, 0.5, 0.2])
    evidence = rng.normal(size=3) + 1.2 * np.eye(3)[truth] + np.log([0.7, 0.2, 0.1])
    p = np.exp(2 * evidence) / np.exp(2 * evidence).sum()

    better, receipt = corrector.process_one(p, receipt=True)
    before.add([p], [truth])
    after.add([better], [truth])
    waiting[number] = p, receipt
    if rng.random() < 0.2:  # one label in five ever arrives
        heapq.heappush(arriving, (number + rng.exponential(500), number, CLASSES[truth]))

    while arriving and arriving[0][0] <= number:
        _, made, label = heapq.heappop(arriving)
        kept, receipt = waiting.pop(made, (None, None))  # None: it teaches the prior alone
        corrector.learn_one(kept, label, receipt=receipt)
    waiting.pop(number - 5000, None)  # a bound: what is older than this is given up

    if number == 10_000:  # a restart: continues bit for bit
        corrector = Corrector.from_bytes(corrector.to_bytes(), CLASSES)

print(f"labels learned: {corrector.n_labels} of {corrector.n_predictions} predictions")
print(f"accuracy {before.accuracy:.3f} -> {after.accuracy:.3f}")
print(f"log loss {before.log_loss:.3f} -> {after.log_loss:.3f}")
print("class mix", dict(zip(CLASSES, corrector.prior.round(2).tolist(), strict=True)))

"""An overconfident classifier, corrected as it runs.

Run it: `python examples/quickstart.py` (needs scikit-learn for the classifier and its data).
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from stream_can import Corrector
from stream_can.scores import Scores

X, y = load_digits(return_X_y=True)
train, live = np.arange(0, 600), np.arange(600, len(y))
model = GaussianNB(var_smoothing=1e-3).fit(X[train], y[train])  # known to be too sure of itself

corrector = Corrector(range(10), train_counts=np.bincount(y[train]))
before, after = Scores(), Scores()
for i in live:
    p = model.predict_proba(X[i : i + 1])[0]
    better = corrector.process_one(p)  # use this instead of p
    before.add([p], [y[i]])
    after.add([better], [y[i]])
    corrector.learn_one(p, y[i])  # the label arrived, here at once

print(f"accuracy {before.accuracy:.3f} -> {after.accuracy:.3f}")
print(f"log loss {before.log_loss:.3f} -> {after.log_loss:.3f}")
print(f"temperature {corrector.temperature:.2f}: above 1, the classifier is overconfident")

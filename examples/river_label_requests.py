"""A labeller for one row in ten: softmax regression on ImageSegments, corrected.

Rows that nobody labels are shown without a label; the others come 50 rows late. Five times, with
other draws of chance.

Run it: `python examples/river_label_requests.py`
"""

from collections import deque

from river import datasets, linear_model, metrics, preprocessing
from river_brier import Brier

from stream_can import LabelRequests
from stream_can.river import CorrectedClassifier

for name, random_share in {"at random": 1.0, "asked for": 0.5}.items():
    metric = metrics.CrossEntropy() + Brier() + metrics.Accuracy()
    for seed in range(5):  # which rows chance asks for
        classifier = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
        model = CorrectedClassifier(classifier)
        requests = LabelRequests(0.1, random_share, seed=seed)
        answers = deque()  # when, features, label: what the labeller will say
        for number, (x, y) in enumerate(datasets.ImageSegments()):
            while answers and answers[0][0] <= number:
                model.learn_one(*answers.popleft()[1:])
            p = model.predict_proba_one(x)  # of no class before the first label
            if p:
                metric.update(y, p)
            if not p or requests.ask_one(number, list(p.values())):
                answers.append((number + 50, x, y))
            else:
                model.learn_one(x, None)  # its label will never come
    log_loss, brier, accuracy = metric.get()
    print(f"{name:<10} log loss {log_loss:.3f}  Brier {brier:.3f}  accuracy {accuracy:.3f}")

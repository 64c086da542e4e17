"""A sampler trains on a class mix that the stream does not have; the wrapper undoes the bias.

One phishing site in ten is left in the stream. `imblearn.RandomSampler` shows it to the classifier
as often as the others, so that it learns them; its probabilities are then those of a stream where
every second site is phishing. The corrector sees the labels of the real stream.

Run it: `python examples/river_class_mix.py`
"""

from river import datasets, evaluate, imblearn, linear_model, metrics, preprocessing
from river_brier import Brier

from stream_can.river import CorrectedClassifier


def rare_phishing():
    seen = 0
    for _ in range(3):  # three times the 700 honest sites, so that there is something to learn
        for x, y in datasets.Phishing():
            seen += y
            if not y or seen % 10 == 0:
                yield x, y


def classifier():
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def balanced():
    return imblearn.RandomSampler(classifier(), desired_dist={False: 0.5, True: 0.5}, seed=1)


models = {
    "plain": classifier(),
    "balanced": balanced(),
    "balanced, corrected": CorrectedClassifier(balanced()),
}
for name, model in models.items():
    metric = metrics.CrossEntropy() + Brier() + metrics.Accuracy()
    evaluate.progressive_val_score(rare_phishing(), model, metric)
    log_loss, brier, accuracy = metric.get()
    print(f"{name:<20} log loss {log_loss:.3f}  Brier {brier:.3f}  accuracy {accuracy:.3f}")

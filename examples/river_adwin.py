"""ADWIN and the corrector together: one restarts what broke, the other corrects what runs.

Halfway the stream becomes another one. No correction can mend a classifier whose concept is gone,
so ADWIN watches the errors and starts anew when they went up. Around the wrapper it restarts both:
what the corrector learned was about the classifier that is gone. What it learns is the log loss;
a young naive Bayes, very sure and mostly right, may pay for that with a little of its Brier score.

Run it: `python examples/river_adwin.py`
"""

from river import drift, evaluate, metrics, naive_bayes
from river.datasets import synth
from river_brier import Brier

from stream_can.river import CorrectedClassifier


def two_halves():
    for seed in (1, 2):
        half = synth.RandomRBF(
            seed_model=seed, seed_sample=seed, n_classes=3, n_features=5, n_centroids=15
        )
        yield from half.take(1000)


def restarting(classifier):
    return drift.DriftRetrainingClassifier(
        classifier, drift_detector=drift.ADWIN(), train_in_background=False
    )


models = {
    "plain": naive_bayes.GaussianNB(),
    "corrected": CorrectedClassifier(naive_bayes.GaussianNB()),
    "ADWIN": restarting(naive_bayes.GaussianNB()),
    "ADWIN, corrected": restarting(CorrectedClassifier(naive_bayes.GaussianNB())),
}
for name, model in models.items():
    metric = metrics.CrossEntropy() + Brier() + metrics.Accuracy()
    evaluate.progressive_val_score(two_halves(), model, metric)
    log_loss, brier, accuracy = metric.get()
    print(f"{name:<17} log loss {log_loss:.3f}  Brier {brier:.3f}  accuracy {accuracy:.3f}")

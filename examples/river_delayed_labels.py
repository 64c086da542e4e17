"""Softmax regression on ImageSegments, each label 100 rows late, with and without the wrapper.

Run it: `python examples/river_delayed_labels.py`
"""

from river import datasets, evaluate, linear_model, metrics, preprocessing
from river_brier import Brier

from stream_can.river import CorrectedClassifier

plain = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
corrected = CorrectedClassifier(plain.clone())

for name, model in {"plain": plain, "corrected": corrected}.items():
    metric = metrics.CrossEntropy() + Brier() + metrics.Accuracy()
    evaluate.progressive_val_score(datasets.ImageSegments(), model, metric, delay=100)
    log_loss, brier, accuracy = metric.get()
    print(f"{name:<10} log loss {log_loss:.3f}  Brier {brier:.3f}  accuracy {accuracy:.3f}")

weights = corrected.corrector.weights
print("what helped:", ", ".join(f"{path} {w:.2f}" for path, w in weights.items() if w > 0.05))

"""The Brier score as a river metric, which the other river examples print: river has none."""

from river import metrics


class Brier(metrics.base.MeanMetric, metrics.base.MultiClassMetric):
    """Mean squared distance between the probabilities and the label: 0 is best, 2 is worst."""

    _fmt = ".4f"
    bigger_is_better = False
    requires_labels = False

    def _eval(self, y_true, y_pred):
        of_others = sum(p * p for name, p in y_pred.items() if name != y_true)
        return of_others + (1 - y_pred.get(y_true, 0.0)) ** 2

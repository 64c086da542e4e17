"""Glossary of a page."""

from __future__ import annotations

__all__ = ["GLOSSARY", "OF_SETS", "OF_VALUES"]

GLOSSARY = {
    "before": "The predictions as the classifier made them. The path raw is the same.",
    "after": "What the corrector made of them, as it was sent when each row came by.",
    "row": "One prediction: a probability for each class.",
    "accuracy": "Share of the labelled rows whose likeliest class is the label. A point is 1 %.",
    "log loss": (
        "Mean of the negative logarithm of the probability of the label, in nats; no probability "
        "counts as less than 0.000001. Lower is better."
    ),
    "Brier": "Mean squared distance between the probabilities and the label, from 0 to 2.",
    "confidence": "The probability of the likeliest class.",
    "ECE": (
        "Expected calibration error: how far accuracy is from confidence, on average over 15 bins "
        "of confidence, weighed by their rows. 0 is calibrated."
    ),
    "recall": "Share of the rows of a class that are predicted as it.",
    "precision": "Share of the rows predicted as a class that are of it.",
    "path": (
        "One way of correcting: the row as it is (raw) or recalibrated (temperature, vector, "
        "matrix; fitted, where there were validation rows), each also with CAN."
    ),
    "CAN": (
        "Classification with Alternating Normalization: it moves uncertain predictions towards "
        "classes that the confident ones leave short of the class mix."
    ),
    "mixture": "The average of the paths by their weights.",
    "tempered": "The mixture at a temperature of its own: averages of sure rows are unsure.",
    "anchor": "The path that is trusted before any label has come.",
    "moving": "The anchor at the class mix of the last rows, estimated without labels.",
    "calibrated": (
        "The others, mixed, with a probability of the predicted class that says how often such "
        "rows were right."
    ),
    "what goes out": (
        "The average of anchor, mixture, tempered and moving by how well each did as it was sent, "
        "and of these, calibrated; of that, as much of the correction as the labels stand for."
    ),
    "fair sample": (
        "Labels that come for any row alike. Where rows of some predicted class get none, or only "
        "corrections or only confirmations come back, rows that no label speaks for go out as "
        "they came."
    ),
    "left out of learning": (
        "A class that is predicted while others get labels, and of which no label has ever come."
    ),
    "weight": "How much a path counts in the mixture; it follows how well it did on the labels.",
    "temperature": (
        "What the logarithms of the probabilities are divided by: above 1 they are softened, "
        "because the classifier is surer than it is right."
    ),
    "class mix": "How often each class occurs in the stream, now.",
    "label delay": "How long after its prediction a label is known and learned.",
    "standard error": "How far chance alone moves a number, typically.",
}

OF_VALUES = {
    "value": "What rows give of a column, such as AA of the column carrier.",
    "labels": "Labels that were learned with a prediction of this value.",
    "calibration": (
        "How far accuracy is from the mean confidence, over the rows of a value. 0 is calibrated."
    ),
}
"""Where columns are declared."""

OF_SETS = {
    "prediction set": "The classes that a row can be, as certain as was promised.",
    "promised": "The share of the labelled rows whose set holds the label, in the long run.",
    "kept": "The share of the rows with a known label whose set, as it was sent, holds it.",
}
"""Where prediction sets are made."""

OF_WORSE = {
    "worse": (
        "The labels prove that more rows were wrong, or the log loss higher, than before: by "
        "chance in one of a hundred streams that do not change. Shaded from when it began."
    ),
}
"""Where the classifier itself, or what was sent, was worse for a while."""

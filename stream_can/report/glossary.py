"""Glossary of a page."""

from __future__ import annotations

GLOSSARY = {
    "before": "The predictions as the classifier made them. The path raw is the same.",
    "after": "The corrected predictions, as they were sent when each row came.",
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
        "A correction: the row as it is (raw) or recalibrated (temperature, vector, matrix; "
        "fitted, with validation rows), each also with CAN."
    ),
    "CAN": (
        "Classification with Alternating Normalization: it moves uncertain predictions towards "
        "classes that the confident ones leave short of the class mix."
    ),
    "mixture": "The average of the paths by their weights.",
    "tempered": "The mixture at a temperature of its own: averages of sure rows are unsure.",
    "anchor": "The path used before the first label.",
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
    "left out of learning": ("A predicted class without any label while other classes get labels."),
    "weight": "How much a path counts in the mixture; it follows how well it did on the labels.",
    "temperature": (
        "Divisor of the logarithms of the probabilities: above 1 it softens the predictions of "
        "a classifier that is too sure."
    ),
    "class mix": "Current share of each class in the stream.",
    "label delay": "Time from a prediction to its label.",
    "standard error": "Typical size of a change by chance alone.",
}

OF_VALUES = {
    "value": "A value of a segment, such as AA of the segment carrier.",
    "labels": "Labels that were learned with a prediction of this value.",
    "calibration": (
        "How far accuracy is from the mean confidence, over the rows of a value. 0 is calibrated."
    ),
}
"""Where columns are declared."""

OF_SETS = {
    "prediction set": "Classes of which one is the label with the promised coverage.",
    "promised": "The share of the labelled rows whose set holds the label, in the long run.",
    "kept": "The share of the rows with a known label whose set, as it was sent, holds it.",
}
"""Where prediction sets are made."""

OF_WORSE = {
    "worse": (
        "The labels show more errors, or a higher log loss, than before; in a stream without "
        "change this happens with a chance of 1 %. Shaded from its beginning."
    ),
}
"""Where the classifier itself, or what was sent, was worse for a while."""

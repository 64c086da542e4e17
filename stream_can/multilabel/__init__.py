"""Correct multilabel rows, each with a probability of its own."""

from stream_can.multilabel.corrector import MultiLabelCorrector
from stream_can.multilabel.scores import LabelScores

__all__ = ["LabelScores", "MultiLabelCorrector"]

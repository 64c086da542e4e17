"""Totals: scores of all models of a learner, added up."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

from stream_can.multilabel import LabelScores
from stream_can.scores import Scores


def total(scores: Mapping[Any, tuple[Any, Any]]) -> tuple[Any, Any]:
    """Add up the scores of all models, raw and sent; before the first prediction these are 0."""
    if not scores:
        return Scores(), Scores()
    raw, sent = zip(*scores.values(), strict=True)
    return functools.reduce(operator.add, raw), functools.reduce(operator.add, sent)


def hit_rate(scores: Any) -> str:
    """Name of the attribute for the share of right predictions: micro F1 of multilabel rows."""
    return "micro_f1" if isinstance(scores, LabelScores) else "accuracy"

"""Correct a deployed classifier's probabilities from late labels, without making them worse."""

import stream_can_command  # noqa: F401  # first: sets how the process ends
from stream_can.corrector import Corrector
from stream_can.errors import InvalidPrediction, SnapshotMismatch, StreamCANError, UnknownClass
from stream_can.learner import Learner
from stream_can.method.asking import LabelRequest, LabelRequests
from stream_can.method.batch import batch_can, multilabel_batch_can
from stream_can.method.costs import Costs
from stream_can.method.label_noise import label_noise
from stream_can.method.logits import softmax
from stream_can.method.prior import laplace
from stream_can.method.settings import CorrectorKeywords
from stream_can.method.uncertainty import any_topk_entropy, entropy, margin, topk_entropy
from stream_can.version import __version__ as __version__

__all__ = [
    "Corrector",
    "CorrectorKeywords",
    "Costs",
    "InvalidPrediction",
    "LabelRequest",
    "LabelRequests",
    "Learner",
    "SnapshotMismatch",
    "StreamCANError",
    "UnknownClass",
    "any_topk_entropy",
    "batch_can",
    "entropy",
    "label_noise",
    "laplace",
    "margin",
    "multilabel_batch_can",
    "softmax",
    "topk_entropy",
]

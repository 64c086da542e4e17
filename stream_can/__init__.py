"""Better probabilities for a deployed classifier, from late labels, never worse than they were."""

from .batch import batch_can
from .corrector import Corrector
from .errors import InvalidPrediction, SnapshotMismatch, StreamCANError, UnknownClass
from .state import laplace
from .uncertainty import any_topk_entropy, entropy, margin, topk_entropy

__version__ = "0.1.0"

__all__ = [
    "Corrector",
    "InvalidPrediction",
    "SnapshotMismatch",
    "StreamCANError",
    "UnknownClass",
    "any_topk_entropy",
    "batch_can",
    "entropy",
    "laplace",
    "margin",
    "topk_entropy",
]

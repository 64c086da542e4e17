"""stream_can: better probabilities for a deployed classifier, from late labels, never worse than it was."""

from .corrector import Corrector, laplace
from .errors import InvalidPrediction, SnapshotMismatch, StreamCANError, UnknownClass

__version__ = "0.1.0"

"""River classifiers with corrected probabilities."""

from stream_can.errors import StreamCANError

try:
    import river  # noqa: F401
except ImportError:
    raise StreamCANError(
        "the wrappers need river 0.26 or newer: pip install 'stream_can[river]'"
    ) from None

from stream_can.river.frozen import FrozenClassifier
from stream_can.river.multilabel import CorrectedMultiLabelClassifier
from stream_can.river.sparse import CorrectedSparseClassifier
from stream_can.river.wrapper import CorrectedClassifier

__all__ = [
    "CorrectedClassifier",
    "CorrectedMultiLabelClassifier",
    "CorrectedSparseClassifier",
    "FrozenClassifier",
]

"""River classifiers with a corrector behind them."""

from stream_can.river.frozen import FrozenClassifier
from stream_can.river.several import CorrectedMultiLabelClassifier
from stream_can.river.wrapper import CorrectedClassifier

__all__ = ["CorrectedClassifier", "CorrectedMultiLabelClassifier", "FrozenClassifier"]

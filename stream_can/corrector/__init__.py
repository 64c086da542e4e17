"""Corrector: corrects the probability vectors of a classifier as they stream by."""

from stream_can.corrector.corrector import Corrector
from stream_can.corrector.label_learning import Played
from stream_can.corrector.row_correction import Receipts

__all__ = ["Corrector", "Played", "Receipts"]

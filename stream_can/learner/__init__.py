"""A corrector with memory: predictions are kept under their ids until their labels arrive."""

from stream_can.learner.call import Corrected, Taught
from stream_can.learner.inspection import Live
from stream_can.learner.label_bytes import read_labels, write_labels
from stream_can.learner.late import LateLabel
from stream_can.learner.learner import Learner as Learner
from stream_can.learner.order import in_order
from stream_can.learner.recent import Recent
from stream_can.learner.saved import State
from stream_can.learner.sent import Events, SentBatch, SentVersion, read_sent
from stream_can.learner.switch import CorrectionSwitch

__all__ = [
    "Corrected", "CorrectionSwitch", "Events", "LateLabel", "Live", "Recent", "SentBatch",
    "SentVersion", "State", "Taught", "in_order", "read_labels", "read_sent", "write_labels",
]  # fmt: skip

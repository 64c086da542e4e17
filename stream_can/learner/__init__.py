"""A corrector with memory: predictions go by under their ids, labels come back by id."""

from stream_can.learner.late import LateLabel
from stream_can.learner.learner import Corrected
from stream_can.learner.learner import Learner as Learner

__all__ = ["Corrected", "LateLabel"]

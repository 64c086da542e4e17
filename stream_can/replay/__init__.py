"""Replay recorded predictions and late labels through a corrector: would it help?"""

from stream_can.recording import Recording, from_arrays
from stream_can.replay.asking import asking_for
from stream_can.replay.classes import ClassScores
from stream_can.replay.delays import Delays
from stream_can.replay.labels import RecordedRows
from stream_can.replay.player import Player
from stream_can.replay.result import Replay
from stream_can.replay.run import replay
from stream_can.replay.sets import SetMoment, SetScores
from stream_can.replay.shown import judge, verdict
from stream_can.replay.step import Arrivals, Step
from stream_can.replay.steps import steps
from stream_can.replay.verdict import Verdict

__all__ = [
    "Arrivals",
    "ClassScores",
    "Delays",
    "Player",
    "RecordedRows",
    "Recording",
    "Replay",
    "SetMoment",
    "SetScores",
    "Step",
    "Verdict",
    "asking_for",
    "from_arrays",
    "judge",
    "replay",
    "steps",
    "verdict",
]

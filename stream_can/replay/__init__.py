"""Replay recorded predictions and late labels through a corrector: would it help?"""

from stream_can.recording.recording import Recording, from_arrays
from stream_can.replay.asking import asking_for
from stream_can.replay.classes import ClassScores
from stream_can.replay.delays import Delays
from stream_can.replay.player import Player
from stream_can.replay.result import Moment, Replay
from stream_can.replay.run import replay
from stream_can.replay.sets import SetMoment, SetScores
from stream_can.replay.several import LabelMoment, MultiLabelReplay, multilabel_replay
from stream_can.replay.several_verdict import judge_several
from stream_can.replay.steps import Arrivals, Step, steps
from stream_can.replay.verdict import Verdict, judge, verdict

__all__ = [
    "Arrivals",
    "ClassScores",
    "Delays",
    "LabelMoment",
    "Moment",
    "MultiLabelReplay",
    "Player",
    "Recording",
    "Replay",
    "SetMoment",
    "SetScores",
    "Step",
    "Verdict",
    "asking_for",
    "from_arrays",
    "judge",
    "judge_several",
    "multilabel_replay",
    "replay",
    "steps",
    "verdict",
]

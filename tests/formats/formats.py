"""Every format of saved bytes: how a sample of it is made, and what a reader makes of one.

``python -m tests.formats.formats`` writes the samples of this version into a folder of its own,
once for each release that changes a format.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from stream_can import Corrector, LabelRequests, Learner
from stream_can.calibration import Calibration, TemperatureScaling
from stream_can.kafka import read_state
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.deferred import pieces_of, read_deferred
from stream_can.kafka.engine import ApplicationState
from stream_can.kafka.state import Begin, Index, LanePlace, Memory, Play, read_index, read_memory
from stream_can.learner import LateLabel, read_labels, read_sent, write_labels
from stream_can.learner.switch import ON
from stream_can.messages.records import Record
from stream_can.multilabel import MultiLabelCorrector
from stream_can.pipe.statefile import PipeState
from stream_can.sparse import SparseCorrector
from stream_can.trust import Alarm
from stream_can.version import __version__
from tests.serve.serving import Server
from tests.snapshots import (
    COLUMNS,
    CORRECTORS,
    LEARNERS,
    NAMES,
    WITH_COLUMNS,
    lived,
    lived_several,
    pipe_state,
    stream,
    values,
)  # fmt: skip

SAMPLES = Path(__file__).parent / "samples"
MARK = "0" * 32


class Format(NamedTuple):
    """A kind of saved bytes."""

    make: Callable[[Path], bytes]
    """Makes a sample, in an empty folder."""
    use: Callable[[bytes, Path], Any]
    """Reads a sample and goes on with it; returns what comes of that, for JSON."""


def of_corrector(make: Callable[[], Corrector]) -> Format:
    def use(data: bytes, folder: Path) -> Any:
        corrector = Corrector.from_bytes(data)
        P, y = stream(len(corrector.classes), 30, seed=7)
        segments = values(corrector.segments, 30)
        rows = corrector.process_many(P, segments=segments)
        corrector.learn_many(P, [corrector.classes[k] for k in y], segments=segments)
        again = corrector.correct_many(P[:5], segments=values(corrector.segments, 5))
        return [rows.tolist(), again.tolist(), corrector.fitted_log_loss]

    return Format(lambda folder: make().to_bytes(), use)


def of_learner(make: Callable[[Path], bytes]) -> Format:
    def use(data: bytes, folder: Path) -> Any:
        learner = Learner.from_bytes(data)
        P, y = stream(3, 40, seed=4)
        outcomes = learner.label_many(range(25, 40), [NAMES[k] for k in y[25:]], model="a")
        corrected = learner.process_many(range(40, 60), P[:20], model="b")
        sets_and_reasons = corrected.sets, corrected.asked
        return [[*map(str, outcomes)], corrected.rows.tolist(), sets_and_reasons, learner.waiting]

    return Format(make, use)


def sparse() -> SparseCorrector:
    corrector = SparseCorrector()
    for i in range(60):
        row = {f"c{(i * k) % 17}": 0.5 / k for k in (1, 2, 4)}
        corrector.process_one(row)
        corrector.learn_one(row, f"c{i % 17}")
    return corrector


def use_sparse(data: bytes, folder: Path) -> Any:
    corrector = SparseCorrector.from_bytes(data)
    row = {"c1": 0.5, "c16": 0.25, "new": 0.125}
    corrector.learn_one(row, "new")
    return corrector.process_one(row)


def use_several(data: bytes, folder: Path) -> Any:
    corrector = MultiLabelCorrector.from_bytes(data)
    P = np.linspace(0.05, 0.95, 12).reshape(4, 3)
    corrector.learn_many(P, np.array([[1, 0, -1]] * 4, np.int8))
    return corrector.process_many(P).tolist()


def requests() -> LabelRequests:
    requests = LabelRequests(0.3, seed=5)
    requests.ask_many(range(50), stream(3, 50, seed=4)[0])
    return requests


def use_requests(data: bytes, folder: Path) -> Any:
    return LabelRequests.from_bytes(data).ask_many(range(60), stream(3, 60, seed=9)[0])


def calibration() -> Calibration:
    P, y = stream(3, 90, seed=4)
    return TemperatureScaling().fit(P, y)


def alarm() -> Alarm:
    alarm, (P, y) = Alarm(), stream(3, 90, seed=4)
    alarm.learn_many(P, P, y)
    return alarm


def use_alarm(data: bytes, folder: Path) -> Any:
    alarm, (P, y) = Alarm.from_bytes(data), stream(3, 400, seed=5)
    alarm.learn_many(P, P, (y + 1) % 3)
    return [alarm.n, msgspec.to_builtins(alarm.episodes)]


def use_pipe(data: bytes, folder: Path) -> Any:
    state = PipeState.from_bytes(data)
    return [state.lines, msgspec.to_builtins(state.counts), state.learner.waiting]


def labels() -> bytes:
    return write_labels([
        LateLabel("a", "ant"), LateLabel("b", "bee", time=5.0, weight=2.0, due=3),
        LateLabel(7, "cat", row=np.array([0.5, 0.25, 0.25]), model="m", version="v"),
    ])  # fmt: skip


def use_labels(data: bytes, folder: Path) -> Any:
    return [
        [late.id, late.label, late.weight, late.due, late.model, late.version,
         None if late.row is None else late.row.tolist()]
        for late in read_labels(data)
    ]  # fmt: skip


def state() -> ApplicationState:
    corrector = lived(NAMES, segments=COLUMNS, sets=0.8)
    return ApplicationState(CurrentState(9, index(), {(None, None): corrector}, {None: corrector}))


def sent() -> bytes:
    P, _ = stream(3, 20, seed=4)
    return state().correct(
        P, ids=[f"id{i}" for i in range(19)] + [None], times=np.arange(20.0),
        segments=values(COLUMNS, 20),
    ).sent[0][0]  # fmt: skip


def use_sent(data: bytes, folder: Path) -> Any:
    batch = read_sent(data)
    (version,) = batch.versions
    rows = [version.raw.tolist(), version.sent.tolist(), version.receipts.tolist()]
    return [batch.ids, batch.numbers.tolist(), batch.times.tolist(), rows, batch.segments]


def deferred() -> bytes:
    records = [
        Record("input", 0, 3 + i, 1_700_000_000_000 + i, b"key", b'{"id":1}', [("h", b"\xff")])
        for i in range(5)
    ]
    ((data, _),) = pieces_of(records, 1 << 20)
    return data


def use_deferred(data: bytes, folder: Path) -> Any:
    batch = read_deferred(data)
    return [[repr(record) for record in batch.records], batch.times.tolist()]


def index() -> Index:
    return Index(
        1, MARK, {"application_id": "app"}, {0: 5, 1: 7}, [LanePlace(None, None, 3)],
        [Begin(None, 2)], [], False, 100, False, ON, [4], 1_700_000_000.0,
    )  # fmt: skip


def memory() -> Memory:
    plays = [Play(3, {0: 2}), Play(2, {0: 3, 1: 1}, ((0, 2),))]
    learner = Learner(lived(NAMES))
    learner.process_many(range(5), stream(3, 5, seed=4)[0])
    return Memory(
        learner.state().memory, 5, {0: 3, 1: 1}, {"labels": {0: 4}}, {0: 0, 1: 0}, plays,
        {0: [1.5, 2.5]}, {"labels": "an id"}, {1: 2},
    )  # fmt: skip


def use_index(data: bytes, folder: Path) -> Any:
    return msgspec.to_builtins(read_index(data), str_keys=True)


def use_memory(data: bytes, folder: Path) -> Any:
    memory = read_memory(data)
    return msgspec.to_builtins(memory._replace(learner=b"")[1:], str_keys=True)


def use_state(data: bytes, folder: Path) -> Any:
    P, _ = stream(3, 20, seed=8)
    return read_state(data).correct(P, segments=values(COLUMNS, 20)).rows.tolist()


def served(folder: Path) -> bytes:
    with Server(folder, classes=NAMES, sets=0.8, segments=["carrier"], weight="weight") as server:
        P, y = stream(3, 30, seed=4)
        for i, p in enumerate(P.tolist()):
            server.correct({"id": str(i), "probs": p, "carrier": "a"})
        server.label(
            *({"id": str(i), "label": NAMES[k], "weight": 2} for i, k in enumerate(y[:20]))
        )
    return server.state.read_bytes()


def use_served(data: bytes, folder: Path) -> Any:
    (folder / "state.sqlite").write_bytes(data)
    with Server(folder, classes=NAMES, sets=0.8, segments=["carrier"], weight="weight") as server:
        statuses = server.label(*({"id": str(i), "label": "ant"} for i in (3, 25, 99)))
        return [statuses, server.correct({"id": "new", "probs": [0.5, 0.25, 0.25], "carrier": "a"})]


FORMATS: dict[str, Format] = {
    **{
        name: of_corrector((CORRECTORS | WITH_COLUMNS)[name])
        for name in ("text", "mixed", "infinite", "entropy", "path-raw", "path-matrix-can",
                     "fitted-missing", "fitted-em-matrix", "columns", "columns-fitted-em")
    },
    "sets": of_corrector(lambda: lived(NAMES, sets=0.9)),
    "sets-by-class": of_corrector(lambda: lived(NAMES, sets=0.9, sets_by="class")),
    "prior": of_corrector(lambda: lived(NAMES, train_counts=[5, 4, 3], prior=[0.5, 0.3, 0.2])),
    "monotone": of_corrector(lambda: lived(NAMES, monotone=True, label_noise=0.05)),
    **{name: of_learner(LEARNERS[name]) for name in ("learner", "learner-all")},
    "several": Format(lambda folder: lived_several().to_bytes(), use_several),
    "sparse": Format(lambda folder: sparse().to_bytes(), use_sparse),
    "requests": Format(lambda folder: requests().to_bytes(), use_requests),
    "calibration": Format(
        lambda folder: calibration().to_bytes(),
        lambda data, folder: Calibration.from_bytes(data).transform([[0.5, 0.3, 0.2]]).tolist(),
    ),
    "alarm": Format(lambda folder: alarm().to_bytes(), use_alarm),
    "pipe": Format(pipe_state, use_pipe),
    "labels": Format(lambda folder: labels(), use_labels),
    "sent": Format(lambda folder: sent(), use_sent),
    "deferred": Format(lambda folder: deferred(), use_deferred),
    "index": Format(lambda folder: index().to_bytes(), use_index),
    "memory": Format(lambda folder: memory().to_bytes(), use_memory),
    "state": Format(lambda folder: state().to_bytes(), use_state),
    "server": Format(served, use_served),
}  # fmt: skip
"""Of each name a sample is kept for every version."""


@contextmanager
def empty_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def write_samples(folder: Path) -> None:
    """Write a sample of each format, and what comes of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, (make, use) in FORMATS.items():
        with empty_folder() as made, empty_folder() as used:
            data = make(made)
            (folder / name).write_bytes(data)
            outcome = msgspec.json.encode(use(data, used)).decode()
            (folder / f"{name}.json").write_text(outcome + "\n")


if __name__ == "__main__":
    write_samples(SAMPLES / __version__)

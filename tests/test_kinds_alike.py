"""What users bring back is refused alike, whatever the kind of rows: receipts and snapshots."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from stream_can import Corrector, InvalidPrediction, Learner, SnapshotMismatch, snapshot
from stream_can.multilabel import MultiLabelCorrector
from stream_can.pipe.statefile import PipeState, open_state
from stream_can.row_kinds import KINDS, row_kind
from stream_can.sparse import SparseCorrector
from stream_can.trust import Alarm

pytestmark = pytest.mark.fast

P = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
IDS = np.array([[0, 1, 2]] * 3)


class Example(NamedTuple):
    """A corrector of a kind, its three rows and their labels, and a row as `learn_one` takes it."""

    corrector: Any
    rows: tuple[Any, ...]
    labels: Any
    row: Any
    label: Any
    width: int
    """Numbers of a receipt in a sent batch."""


def example(kind: str) -> Example:
    if kind == "dense":
        return Example(Corrector(3), (P,), [0, 1, 2], P[0], 0, 22)
    if kind == "multilabel":
        return Example(MultiLabelCorrector(3), (P,), np.eye(3, dtype=int), P[0], [1, 0, 0], 6)
    row = dict(enumerate(P[0].tolist()))
    return Example(SparseCorrector(50), (IDS, P), [0, 1, 2], row, 0, 12)


def learned(kind: str) -> tuple[Example, np.ndarray]:
    """An example that has learned, and the receipts of its rows."""
    found = example(kind)
    _, receipts = found.corrector.process_many(*found.rows, receipt=True)
    found.corrector.learn_many(*found.rows, found.labels, receipts=receipts)
    return found, receipts


def with_number(receipts: np.ndarray, number: float) -> np.ndarray:
    """Receipts with a number in the row 1 that belongs to its label."""
    bad = receipts.copy()
    bad[(1, *[0] * (bad.ndim - 2), 1)] = number
    return bad


BAD: dict[str, Any] = {
    "bytes": lambda receipts: receipts.tobytes(),
    "one row too few": lambda receipts: receipts[1:],
    "a number too many": lambda receipts: np.repeat(receipts, 2, axis=-1)[..., : -1 or None],
    "integers": lambda receipts: np.zeros(receipts.shape, np.int64),
    "texts": lambda receipts: receipts.astype(str),
    "objects": lambda receipts: receipts.astype(object),
    "complex numbers": lambda receipts: receipts.astype(np.complex64),
    "another number of axes": lambda receipts: receipts[None],
    "a number": lambda receipts: np.float32(0.5),
    "one flat row": lambda receipts: receipts.reshape(-1),
}


def refusal(array: Any, expected: tuple[int, ...], *, one: bool) -> str:
    """What is said of receipts of another shape or type."""
    found = np.asarray(array)
    many = "receipt is" if one else "receipts are"
    return re.escape(
        f"{many} {found.dtype} of shape {found.shape}, expected float32 of shape {expected}: what"
        f" the corrector returned with the {'row' if one else 'rows'}"
    )


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", KINDS)
def test_receipts_of_another_shape_or_type(kind: str, bad: str) -> None:
    found, receipts = learned(kind)
    before = found.corrector.to_bytes()
    array = BAD[bad](receipts)
    with pytest.raises(InvalidPrediction, match=refusal(array, receipts.shape, one=False)):
        found.corrector.learn_many(*found.rows, found.labels, receipts=array)
    array = BAD[bad](receipts[0])
    if np.shape(array) != receipts[0].shape or np.asarray(array).dtype != np.float32:
        with pytest.raises(InvalidPrediction, match=refusal(array, receipts[0].shape, one=True)):
            found.corrector.learn_one(found.row, found.label, receipt=array)
    assert found.corrector.to_bytes() == before


@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_receipts_of_another_kind_or_corrector(kind: str, other: str) -> None:
    (found, receipts), (_, others) = learned(kind), learned(other)
    if kind == other:
        others = np.concatenate([receipts, receipts], axis=-1)
    before = found.corrector.to_bytes()
    with pytest.raises(InvalidPrediction, match=refusal(others, receipts.shape, one=False)):
        found.corrector.learn_many(*found.rows, found.labels, receipts=others)
    with pytest.raises(InvalidPrediction, match=refusal(others[0], receipts[0].shape, one=True)):
        found.corrector.learn_one(found.row, found.label, receipt=others[0])
    assert found.corrector.to_bytes() == before


@pytest.mark.parametrize("number", [-0.5, 1.5, np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_no_probabilities(kind: str, number: float) -> None:
    found, receipts = learned(kind)
    before = found.corrector.to_bytes()
    bad = with_number(receipts, number)
    said = re.escape(f": {number}, expected probabilities, or NaN")
    with pytest.raises(InvalidPrediction, match=f"^receipt of row 1{said}$"):
        found.corrector.learn_many(*found.rows, found.labels, receipts=bad)
    with pytest.raises(InvalidPrediction, match=f"^receipt{said}$"):
        found.corrector.learn_one(
            found.row, [0, 1, 0] if kind == "multilabel" else 1, receipt=bad[1]
        )
    assert found.corrector.to_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_receipts_without_rows_and_lists_of_other_lengths(kind: str) -> None:
    found, receipts = learned(kind)
    before = found.corrector.to_bytes()
    gone = [None] * len(found.rows)
    with pytest.raises(InvalidPrediction, match=r"^receipts: they need the rows that they belong"):
        found.corrector.learn_many(*gone, found.labels, receipts=receipts)
    with pytest.raises(InvalidPrediction, match=r"^receipt: it needs the row that it belongs to"):
        found.corrector.learn_one(None, found.label, receipt=receipts[0])
    with pytest.raises(InvalidPrediction, match=r"^receipts: no array of numbers"):
        found.corrector.learn_many(*found.rows, found.labels, receipts=[[0.5], [0.5, 0.5], []])
    with pytest.raises(InvalidPrediction, match=r"^receipt: no array of numbers"):
        found.corrector.learn_one(found.row, found.label, receipt=[[0.5], []])
    assert found.corrector.to_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_receipts_of_a_sent_batch(kind: str) -> None:
    """A learner is given them in bytes, behind the rows."""
    found = example(kind)
    learner = Learner(found.corrector)
    learner.keep_events()
    rows = [dict(enumerate(p)) for p in P.tolist()] if kind == "sparse" else P
    learner.process_many([0, 1, 2], rows)
    before = learner.to_bytes()
    sent = learner.take_events().sent
    learner.require_sent(sent)
    (lane,) = sent.versions
    cases = {
        rf"receipts are float32 of shape \(\d, {found.width - 1}\), expected float32 of shape"
        rf" \(\d, {found.width}\): what the corrector returned": lane.rows[:, :-1],
        r"receipt of row 1: 1\.5, expected probabilities, or NaN": lane.rows.copy(),
    }
    cases[[*cases][1]][1, -1] = 1.5
    for said, words in cases.items():
        sent.versions[0] = lane._replace(rows=words)
        with pytest.raises(SnapshotMismatch, match=f"^snapshot: of a learner: {said}"):
            learner.require_sent(sent)
    assert learner.to_bytes() == before


# ---- snapshots

OWNERS = {
    "dense": "of a Corrector (dense rows); read it with Corrector.from_bytes",
    "multilabel": "of a MultiLabelCorrector (multilabel rows); read it with"
    " MultiLabelCorrector.from_bytes",
    "sparse": "of a SparseCorrector (sparse rows); read it with SparseCorrector.from_bytes",
    "learner": "of a Learner; read it with Learner.from_bytes",
    "pipe": "of a pipe; read it with stream-can pipe --state",
    "alarm": "of no corrector and no learner",
}
READERS: dict[str, Any] = {kind: row_kind(kind).corrector.from_bytes for kind in KINDS}
READERS |= {"learner": Learner.from_bytes, "pipe": PipeState.from_bytes}


def snapshot_of(owner: str, kind: str = "sparse") -> bytes:
    if owner == "alarm":
        return Alarm().to_bytes()
    corrector = example(owner if owner in KINDS else kind).corrector
    wrapped = {"learner": Learner, "pipe": lambda one: PipeState(Learner(one))}
    data: bytes = wrapped.get(owner, lambda one: one)(corrector).to_bytes()
    return data


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("owner", OWNERS)
def test_a_snapshot_of_another_is_named_with_what_reads_it(owner: str, reader: str) -> None:
    data = snapshot_of(owner)
    if owner == reader or (reader == "pipe" and owner != "alarm"):  # it begins with any of them
        assert READERS[reader](data).to_bytes()
        return
    with pytest.raises(SnapshotMismatch) as caught:
        READERS[reader](data)
    assert str(caught.value) == f"snapshot: {OWNERS[owner]}"


@pytest.mark.parametrize("reader", READERS)
def test_damaged_bytes_and_other_formats_are_named_alike(reader: str) -> None:
    data = snapshot_of(reader)
    head, arrays = snapshot.decode(data)
    format = "stream_can .* reads format {} alone; use the version that wrote it, or start over"
    cases = {
        "13 bytes, too short to be one": data[:13],
        "these bytes are no stream_can snapshot": b"x" * 100,
        rf"{len(data) - 23} bytes of {len(data) - 22}; it was cut short": data[:-1],
        "checksum differs; the bytes are corrupt": data[:-1] + bytes([data[-1] ^ 1]),
        f"format 4, and {format.format(3)}": data[:8] + b"\x04" + data[9:],
    }
    if reader != "dense":
        read = head[reader]
        cases[f"{reader} in format 9, and {format.format(read)}"] = snapshot.encode(
            head | {reader: 9}, arrays
        )
    for said, wrong in cases.items():
        with pytest.raises(SnapshotMismatch, match=f"^snapshot: {said}"):
            READERS[reader](wrong)


@pytest.mark.parametrize("owner", [*KINDS, "learner", "pipe"])
@pytest.mark.parametrize("rows", KINDS)
def test_a_state_file_of_other_rows_names_both(owner: str, rows: str, tmp_path: Path) -> None:
    of = owner if owner in KINDS else next(kind for kind in KINDS if kind != rows)
    path, kind = tmp_path / "state", row_kind(rows)
    path.write_bytes(snapshot_of(owner, of))
    if of == rows:
        assert open_state(path, None, {}, 64, None, None, kind).learner.row_kind == rows
        return
    for classes in (None, [0, 1, 2]):
        with pytest.raises(SnapshotMismatch) as caught:
            open_state(path, classes, {}, 64, None, None, kind)
        assert str(caught.value) == (
            f"state file {path}: rows is {of!r} in it, not {rows!r}; move it away to start over"
        )

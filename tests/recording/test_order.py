"""Files that name their classes in another order than the one that is asked for."""

import json

import numpy as np
import pytest

from stream_can.cli.main import main
from stream_can.recording import MultiLabelRecording, Recording
from stream_can.recording.table import InvalidRecording
from tests.replay.streams import stream

pytestmark = pytest.mark.fast

NAMES = ["bee", "ant", "cow", "dog"]
ORDER = [2, 0, 3, 1]
OTHER = [NAMES[k] for k in ORDER]
P, Y = stream(400, sharpness=3.0, seed=5)


def columns(path, order):
    rows = [",".join([*(f"p_{NAMES[k]}" for k in order), "label"])]
    rows += [",".join([*map(str, p[order]), NAMES[y]]) for p, y in zip(P, Y, strict=True)]
    path.write_text("\n".join(rows))
    return path


def named(path, order):
    rows = [
        json.dumps({"probs": {NAMES[k]: p[k] for k in order}, "label": NAMES[y]})
        for p, y in zip(P, Y, strict=True)
    ]
    path.write_text("\n".join(rows))
    return path


def arrays(path, order, *, by_name=True):
    names = [NAMES[k] for k in order]
    labels = [NAMES[y] for y in Y] if by_name else [order.index(y) for y in Y]
    counts = [10 * (k + 1) for k in order]
    np.savez(path, probs=P[:, order], classes=names, label=labels, train_counts=counts)
    return path


WAYS = [(columns, "v.csv", "p_"), (named, "v.jsonl", "probs"), (arrays, "v.npz", "probs")]


@pytest.mark.parametrize(("write", "name", "probs"), WAYS)
@pytest.mark.parametrize("declared", [[], ["--classes", ",".join(NAMES)]])
def test_validation_rows_are_fitted_by_the_names_of_their_classes(
    tmp_path, write, name, probs, declared
):
    recorded = write(tmp_path / f"recorded-{name}", [0, 1, 2, 3])
    made = []
    for order in ([0, 1, 2, 3], ORDER):
        state = tmp_path / f"{order[0]}.state"
        validation = str(write(tmp_path / name, order))
        options = ["--validation", validation, "--probs", probs, "--state", str(state), *declared]
        assert main(["replay", str(recorded), "--label-delay", "20", *options]) == 0
        made.append(state.read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("by_name", [True, False])
def test_an_archive_is_read_in_the_order_that_is_asked_for(tmp_path, by_name):
    path = arrays(tmp_path / "a.npz", ORDER, by_name=by_name)
    recording = Recording(path, classes=NAMES)
    (chunk,) = recording.chunks()
    assert recording.classes == NAMES
    assert recording.train_counts.tolist() == [10, 20, 30, 40]
    assert (P / P.sum(axis=1, keepdims=True) == chunk.P).all()
    assert (chunk.y == Y).all()


def test_so_are_the_labels_of_rows_with_several(tmp_path):
    labels = (P > 0.2).astype(np.int8)
    np.savez(tmp_path / "a.npz", scores=P[:, ORDER], labels=labels[:, ORDER], classes=OTHER)
    (chunk,) = MultiLabelRecording(tmp_path / "a.npz", classes=NAMES).chunks()
    assert (chunk.P == P).all()
    assert (labels == chunk.Y).all()


@pytest.mark.parametrize(("write", "name", "probs"), [WAYS[0], WAYS[2]])
def test_other_classes_are_refused(tmp_path, write, name, probs):
    path = write(tmp_path / name, ORDER)
    says = r"v.*: its classes are not those expected: it lacks 'eel', and has 'dog' besides"
    with pytest.raises(InvalidRecording, match=says):
        Recording(path, probs=probs, classes=[*NAMES[:3], "eel"])


def test_columns_in_another_case_are_those_meant(tmp_path):
    path = columns(tmp_path / "v.csv", ORDER)
    recording = Recording(path, probs="p_", classes=[name.upper() for name in NAMES])
    (chunk,) = recording.chunks()
    assert (P / P.sum(axis=1, keepdims=True) == chunk.P).all()
    with pytest.raises(InvalidRecording, match="it lacks 'x', 'y', 'z', 'w', and has 'cow'"):
        Recording(path, probs="p_", classes=["x", "y", "z", "w"])


def test_numbers_are_no_names(tmp_path):
    np.savez(tmp_path / "a.npz", probs=P, classes=np.arange(4), label=Y)
    recording = Recording(tmp_path / "a.npz", classes=NAMES)
    (chunk,) = recording.chunks()
    assert (chunk.y == Y).all()

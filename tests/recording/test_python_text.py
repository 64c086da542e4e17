"""Cells of csv as Python, numpy, torch and Spark print them."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from stream_can.recording.python_text import looks_printed, read_printed
from stream_can.recording.recording import Recording
from stream_can.recording.table import InvalidRecording

pytestmark = pytest.mark.fast

ROW = [0.125, 0.0625, 0.8125]
NAMED = {"cat": 0.125, "dog": 0.0625, "eel": 0.8125}
LONG = np.full(40, 0.025)

CASES = [
    (repr([*map(np.float64, ROW)]), ROW),
    (repr([*map(np.float32, ROW)]), ROW),
    (repr({name: np.float64(p) for name, p in NAMED.items()}), NAMED),
    (repr({np.str_(name): p for name, p in NAMED.items()}), NAMED),
    (str(NAMED), NAMED),
    (str(tuple(ROW)), ROW),
    (str(np.array(ROW)), ROW),
    (str(np.array([ROW])), ROW),
    (repr(np.array(ROW)), ROW),
    (repr(np.array(ROW, np.float32)), ROW),
    (repr(np.array([1e-9, 1 - 1e-9])), [1e-9, 1 - 1e-9]),
    (str(np.array([0.0, 1.0, 0.0])), [0, 1, 0]),
    (str(LONG), LONG.tolist()),
    (repr(LONG), LONG.tolist()),
    ("np.array([0.125, 0.0625, 0.8125])", ROW),
    ("tensor([0.1250, 0.0625, 0.8125])", ROW),
    ("tensor([[0.1250, 0.0625, 0.8125]], device='cuda:0', dtype=torch.float64)", ROW),
    ("tensor([0.1250, 0.0625, 0.8125], grad_fn=<SoftmaxBackward0>)", ROW),
    ("[tensor(0.1250), tensor(0.0625), tensor(0.8125)]", ROW),
    ("<tf.Tensor: shape=(3,), dtype=float32, numpy=array([0.125, 0.0625, 0.8125])>", None),
    ("Array([0.125, 0.0625, 0.8125], dtype=float32)", ROW),
    ("[('cat', 0.125), ('dog', 0.0625), ('eel', 0.8125)]", NAMED),
    ("OrderedDict([('cat', 0.125), ('dog', 0.0625), ('eel', 0.8125)])", NAMED),
    ("OrderedDict({'cat': 0.125, 'dog': 0.0625, 'eel': 0.8125})", NAMED),
    ("[{'label': 'eel', 'score': 0.8125}, {'label': 'cat', 'score': 0.125}, "
     "{'label': 'dog', 'score': 0.0625}]", NAMED),
    ("DenseVector([0.125, 0.0625, 0.8125])", ROW),
    ("SparseVector(3, {0: 0.25, 2: 0.75})", [0.25, 0, 0.75]),
    ("(3,[0,2],[0.25,0.75])", [0.25, 0, 0.75]),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "row"), CASES)
def test_what_is_printed_is_read(tmp_path, cell, row):
    file = tmp_path / "a.csv"
    label = "eel" if isinstance(row, dict) else 1
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([["probs", "label"], [cell, label], [cell, label]])
    if row is None:
        with pytest.raises(InvalidRecording, match=r"neither lists nor objects, but '<tf.Tensor"):
            Recording(file)
        return
    recording = Recording(file)
    (chunk,) = recording.chunks()
    found = dict(zip(recording.classes, chunk.P[1].tolist(), strict=True))
    assert found == pytest.approx(row if isinstance(row, dict) else dict(enumerate(row)))


@pytest.mark.parametrize(
    "text",
    [
        "[__import__('os').system('false')]",
        "[0.5 if 1 else 2, 0.5]",
        "[x for x in (0.5, 0.5)]",
        "[0.1 + 0.4, 0.5]",
        "[0.1 0.2 ... 0.3 0.4]",
        "[0.5, f'{1}']",
        "[lambda: 0]",
        "(" * 1000,
        "[0.5, \\d]",
        "[\0]",
    ],
)
def test_nothing_else_is(text):
    assert looks_printed(text)
    with pytest.raises(ValueError, match="neither JSON nor"):
        read_printed(text)


def test_a_cell_that_is_cut_short_is_shown(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("probs,label\n[0.5 0.5],1\n[0.1 ... 0.2],1\n")
    with pytest.raises(
        InvalidRecording, match=r"row 2: '\[0.1 \.\.\. 0.2\]' is not a number; .*js"
    ):
        list(Recording(file).chunks())

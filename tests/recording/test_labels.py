"""Labels as other tools write them: the same in files and lines."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest

from stream_can.errors import UnknownClass
from stream_can.messages.messages import Messages
from stream_can.recording.recording import Recording
from stream_can.recording.sparse import SparseRecording
from stream_can.recording.table import InvalidRecording

pytestmark = pytest.mark.fast

CASES = [
    ("cat", "cat"), (" cat ", "cat"), ("cat       ", "cat"), ("CAT", "cat"),
    ([1, 0, 0], "cat"), ([0.0, 1.0, 0.0], "dog"), ([False, False, True], "eel"),
    ("[1. 0. 0.]", "cat"), ("[ 0.  1.  0.]", "dog"), ("[False False True]", "eel"),
    ("tensor([0., 1., 0.], device='cuda:0')", "dog"), ("np.str_('dog')", "dog"),
    ("[0, 1, 0]", "dog"), ("[0 0 1]", "eel"), (["dog"], "dog"), ({"cat": 0, "dog": 1}, "dog"),
    *((text, None) for text in ("NA", "None", "null", "nan", "NaN", "", " ", "<NA>", "\\N", None)),
]  # fmt: skip


@pytest.mark.parametrize(("label", "name"), CASES)
def test_files_and_lines_read_the_same_label(tmp_path, label, name):
    row = {"probs": {"cat": 0.5, "dog": 0.25, "eel": 0.25}, "label": label}
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in (row | {"label": "dog"}, row)))
    recording = Recording(file)
    (chunk,) = recording.chunks()
    assert chunk.y.tolist() == [1, -1 if name is None else recording.classes.index(name)]
    assert chunk.arrives.tolist() == [True, name is not None]
    assert not recording.labels_are_positions
    messages = Messages(recording.classes)
    index = messages.label_in(messages.open(json.dumps(row).encode()))
    assert (None if index is None else recording.classes[index]) == name


@pytest.mark.parametrize(
    "label",
    [
        True,
        "true",
        "True",
        "TRUE",
        1,
        1.0,
        "1.0",
        " 1",
        [0, 1],
        "tensor(1)",
        "tensor(1, device='cuda:0')",
        "np.int64(1)",
    ],
)
def test_so_they_do_of_two_classes_0_and_1(tmp_path, label):
    file = tmp_path / "a.jsonl"
    row = {"probs": 0.25, "label": label}
    file.write_text("".join(json.dumps(one) + "\n" for one in (row | {"label": 0}, row)))
    recording = Recording(file)
    assert [chunk.y.tolist() for chunk in recording.chunks()] == [[0, 1]]
    messages = Messages([0, 1])
    assert messages.label_in(messages.open(json.dumps(row).encode())) == 1


def test_a_csv_file_has_them_as_text(tmp_path):
    file = tmp_path / "a.csv"
    labels = ["cat", "  dog", "EEL", "[0 1 0]", "NA", "", "None", "2.0"]
    file.write_text("CAT,DOG,EEL,LABEL\n" + "".join(f".5,.25,.25,{text}\n" for text in labels))
    recording = Recording(file)
    (chunk,) = recording.chunks()
    assert chunk.y.tolist() == [0, 1, 2, 1, -1, -1, -1, 2]


def test_a_row_of_the_likeliest_may_have_a_class_of_such_a_name(tmp_path):
    file = tmp_path / "a.jsonl"
    labels = ["NA", "none", " cat", None, float("nan"), ""]
    rows = [{"probs": {"cat": 0.5, "none": 0.25}, "label": label} for label in labels]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows).replace("NaN", "null"))
    (chunk,) = SparseRecording(file).chunks()
    assert chunk.labels == [None, "none", "cat", None, None, None]
    assert chunk.arrives.tolist() == [False, True, True, False, False, False]


def test_npz_has_one_hot_labels(tmp_path):
    P = np.full((2, 3), 1 / 3)
    np.savez(tmp_path / "a.npz", probs=P, label=np.array([[0, 0, 1], [1, 0, 0]]))
    (chunk,) = Recording(tmp_path / "a.npz").chunks()
    assert chunk.y.tolist() == [2, 0]


NAMES = ["cat", "dog", "eel"]


@pytest.mark.parametrize(
    ("probs", "label", "says"),
    [
        (np.full((3, 40), 1 / 3), np.zeros(40), r"\(3, 40\), and `label` \(40,\).*probs=probs.T"),
        (np.full((40, 3), 1 / 3), np.zeros(39), r"\(40, 3\), and `label` \(39,\); expected as"),
    ],
)
def test_npz_has_a_label_for_each_row(tmp_path, probs, label, says):
    np.savez(tmp_path / "a.npz", probs=probs, label=label)
    with pytest.raises(InvalidRecording, match=says):
        Recording(tmp_path / "a.npz")


def beside(p):
    """Names beside numbers, each row in an order of its own."""
    order = sorted(range(3), key=lambda k: -p[k])
    return {"classes": [NAMES[k] for k in order], "scores": [p[k] for k in order]}


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
@pytest.mark.parametrize(
    ("wrapped", "probs"),
    [(False, "probs"), (False, "scores"), (True, "answer.scores"), (True, "answer")],
)
def test_names_in_an_array_beside_the_numbers_are_taken(tmp_path, name, wrapped, probs):
    P = np.random.default_rng(0).dirichlet([1, 1, 1], 30)
    rows = [beside(p) for p in P.tolist()]
    rows = [{"answer": row, "label": "dog"} if wrapped else row | {"label": "dog"} for row in rows]
    file = tmp_path / name
    if name == "a.parquet":
        pl.DataFrame(rows).write_parquet(file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recording = Recording(file, probs=probs)
    (chunk,) = recording.chunks()
    order = [recording.classes.index(name) for name in NAMES]
    assert chunk.P[:, order] == pytest.approx(P)
    assert recording.probs in ("answer", "classes,scores", "answer.classes,answer.scores")


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
@pytest.mark.parametrize(
    "row",
    [
        lambda p: beside(p),
        lambda p: {"output": [[{"label": n, "score": x} for n, x in zip(NAMES, p, strict=True)]]},
        lambda p: {"prediction": beside(p)},
        lambda p: {"probs": {n: f"{x:.6f}" for n, x in zip(NAMES, p, strict=True)}},
    ],
    ids=range(4),
)
def test_the_pipe_takes_what_replay_took(tmp_path, row):
    P = np.random.default_rng(0).dirichlet([1, 1, 1], 260).round(6)
    lines = [json.dumps(row(p) | {"label": " DOG "}) + "\n" for p in P.tolist()]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    command = [sys.executable, "-m", "stream_can", "replay", "a.jsonl", "--label-delay", "20"]
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, check=True)
    pipe = json.loads(done.stdout)["deploy"]["pipe"]
    pipe = pipe.replace("stream-can", shlex.join([sys.executable, "-m", "stream_can"]))
    done = subprocess.run(pipe, cwd=tmp_path, capture_output=True, shell=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 260, done.stderr


def test_the_names_of_numbered_classes_are_asked_for(tmp_path):
    file = tmp_path / "a.jsonl"
    rows = [{"probs": [0.5, 0.25, 0.25], "label": label} for label in ("eel", "cat", "dog")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UnknownClass, match=r"Add --classes cat,dog,eel, if that is their order"):
        list(Recording(file).chunks())


def test_a_label_inside_an_object_is_found(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"offset": 1, "payload": {"probs": [0.5, 0.5], "label": 1}}\n')
    with pytest.raises(InvalidRecording, match=r"Add --label payload.label\?"):
        Recording(file)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("prefix", ["", "probs_", "confidence("])
@pytest.mark.parametrize("write", [lambda p: f"{100 * p!r}%", lambda p: f" {100 * p!r} %", repr])
def test_columns_of_numbers_as_text(tmp_path, name, prefix, write):
    P = np.random.default_rng(0).dirichlet([1, 1, 1], 30)
    suffix = ")" if "(" in prefix else ""
    columns = {f"{prefix}{n}{suffix}": [*map(write, P[:, k].tolist())] for k, n in enumerate(NAMES)}
    frame = pl.DataFrame({"label": [*NAMES] * 10, **columns})
    file = tmp_path / name
    writers = {"a.csv": frame.write_csv, "a.jsonl": frame.write_ndjson}
    writers.get(name, frame.write_parquet)(file)
    recording = Recording(file)
    (chunk,) = recording.chunks()
    assert recording.classes == NAMES
    assert pytest.approx(P) == chunk.P


@pytest.mark.parametrize("before", ["0.5", "50%"])
def test_a_cell_that_is_no_number_is_named(tmp_path, before):
    file = tmp_path / "a.csv"
    file.write_text(f"probs_a,probs_b,label\n{before},.5,a\nx%,.5,a\n")
    with pytest.raises(InvalidRecording, match="row 2: column 'probs_a' is 'x%', expected a num"):
        list(Recording(file).chunks())


def test_so_is_one_after_many_numbers(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("probs_a,probs_b,label\n" + ".5,.5,a\n" * 2000 + "x,.5,a\n")
    with pytest.raises(
        InvalidRecording, match="row 2001: column 'probs_a' holds 'x', expected a n"
    ):
        list(Recording(file).chunks())

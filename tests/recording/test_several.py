"""Recordings of multilabel rows: what is wrong is named, with its row."""

import json

import numpy as np
import pytest

from stream_can.errors import InvalidPrediction, StreamCANError, UnknownClass
from stream_can.recording.recording import Recording
from stream_can.recording.several import MultiLabelRecording
from stream_can.recording.table import InvalidRecording

pytestmark = pytest.mark.fast

GOOD = {"scores": {"a": 0.5, "b": 0.1, "c": 0}, "labels": ["a"]}


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"labels": ["a", "d"]}, r"row 2: labels: 'd' is none of the 3 labels: 'a', 'b', 'c'"),
        ({"labels": ["a", "a"]}, r"row 2: labels: 'a' is in it twice, expected the names"),
        ({"labels": [1, 0, 1]}, r"row 2: labels: 1 is none of the 3 labels"),
        ({"labels": [["a"]]}, r"row 2: labels: \['a'\] is none of the 3 labels"),
        ({"labels": [None]}, r"row 2: labels: None is none of the 3 labels"),
        ({"labels": {"d": True}}, r"row 2: labels: 'd' is none of the 3 labels"),
        ({"labels": {"a": "yes"}}, r"row 2: labels: 'a' is 'yes', expected true or false"),
        ({"labels": {"a": 0.5}}, r"row 2: labels: 'a' is 0.5, expected true or false"),
        ({"labels": {"a": [1]}}, r"row 2: labels: 'a' is \[1\], expected true or false"),
        ({"labels": "a"}, r"row 2: labels: 'a', expected a list of labels"),
        ({"labels": 1}, r"row 2: labels: 1, expected a list of labels"),
        ({"scores": {"a": 0.5, "b": 0.1}}, "row 2: no score of label 'c'"),
        ({"scores": {"a": 0.5, "b": 0.1, "c": 1.5}}, "row 2: the score of label 'c' is 1.5"),
        ({"scores": {"a": 0.5, "b": -0.1, "c": 0}}, "row 2: the score of label 'b' is -0.1"),
        ({"scores": {"a": None, "b": 0.1, "c": 0}}, "row 2: no score of label 'a'"),
        ({"scores": [0.1, 0.2]}, "row 2: 2 scores for 3 labels"),
        ({"scores": 0.5}, "row 2: one number, but there are 3 labels"),
        ({"scores": {"a": 0.5, "b": 0.1, "c": 0, "d": 0}}, "row 2: 'd' is none of the 3 labels"),
    ],
)
def test_a_line_that_cannot_be_read(tmp_path, second, why):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in (GOOD, GOOD | second, GOOD)))
    with pytest.raises((InvalidPrediction, UnknownClass, InvalidRecording), match=why):
        list(MultiLabelRecording(file).chunks())


def test_labels_that_nobody_said(tmp_path):
    file = tmp_path / "a.jsonl"
    says = [["a"], {"b": True, "c": None}, {}, None, [], {"a": 1, "b": 0}]
    file.write_text("".join(json.dumps(GOOD | {"labels": one}) + "\n" for one in says))
    (chunk,) = MultiLabelRecording(file).chunks()
    assert chunk.Y.tolist() == [
        [1, 0, 0], [-1, 1, -1], [-1] * 3, [-1] * 3, [0, 0, 0], [1, 0, -1]
    ]  # fmt: skip
    assert chunk.of.tolist() == [0, 1, 4, 5]
    assert chunk.said.tolist() == chunk.Y[chunk.of].tolist()


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ("2,0", "row 2: labels_a is '2', expected 1 or 0, or nothing"),
        ("maybe,0", "row 2: labels_a is 'maybe'"),
        ("1,0.5", "row 2: labels_b is 0.5"),
    ],
)
def test_columns_of_labels(tmp_path, cells, why):
    file = tmp_path / "a.csv"
    head = "scores_a,scores_b,labels_a,labels_b\n"
    file.write_text(head + "0.1,0.2,1,\n0.1,0.2,False,1.0\n0.1,0.2,-1,true\n")
    (chunk,) = MultiLabelRecording(file).chunks()
    assert chunk.Y.tolist() == [[1, -1], [0, 1], [-1, 1]]
    file.write_text(head + f"0.1,0.2,1,0\n0.1,0.2,{cells}\n")
    with pytest.raises(UnknownClass, match=why):
        list(MultiLabelRecording(file).chunks())
    file.write_text("scores_a,scores_b,labels_a,labels_c\n0.1,0.2,1,0\n")
    with pytest.raises(
        InvalidRecording, match="no column of label 'b' among 'labels_a', 'labels_c"
    ):
        MultiLabelRecording(file)


def test_arrays(tmp_path):
    file = tmp_path / "a.npz"
    P = np.full((3, 4), 0.2)
    for Y, why in [
        (np.zeros((3, 3), int), "row 1: labels: 0, 0, 0, expected 4 of 1, 0, or -1"),
        (np.full((3, 4), 2), "row 1: labels: 2, 2, 2, 2, expected 4 of"),
        (np.zeros(3, int), "row 1: labels: 0, expected a list of labels"),
    ]:
        np.savez(file, scores=P, labels=Y)
        with pytest.raises(UnknownClass, match=why):
            list(MultiLabelRecording(file).chunks())
    np.savez(file, scores=P, labels=np.zeros((3, 4)), train_counts=[1, 2, 3, 4], train_rows=9)
    recording = MultiLabelRecording(file)
    assert recording.train_rows == 9
    assert recording.classes == [0, 1, 2, 3]
    with pytest.raises(InvalidRecording, match="no column 'tags' for label"):
        MultiLabelRecording(file, label="tags")
    # Of one label a row a matrix of labels is none.
    np.savez(file, probs=np.full((3, 4), 0.25), label=np.zeros((3, 4), int))
    with pytest.raises(UnknownClass, match="row 1: label "):
        list(Recording(file).chunks())


def test_a_chunk_of_many_labels_is_bounded(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(
        file, scores=np.full((1500, 5000), 0.1, np.float32), labels=np.zeros((1500, 5000), "b")
    )
    assert [len(chunk.P) for chunk in MultiLabelRecording(file).chunks()] == [838, 662]


def test_what_a_change_is(tmp_path):
    file = tmp_path / "a.jsonl"
    lines = [
        {"id": 1, "scores": [0.1, 0.2]},
        {"id": 2, "scores": [0.3, 0.4]},
        {"id": 1, "labels": {"0": True}},
        {"id": 1, "labels": {"0": True, "1": False}},
        {"id": 1, "labels": ["1"]},
        {"id": 2, "labels": {}},
        {"id": 2, "labels": ["0"]},
        {"id": 3, "labels": ["0"]},
        {"id": 1, "scores": [0.5, 0.6]},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recording = MultiLabelRecording(file)
    (chunk,) = recording.chunks()
    assert chunk.Y.tolist() == [[1, 0], [1, 0], [-1, -1]]
    assert chunk.of.tolist() == [0, 0, 1]
    assert chunk.said.tolist() == [[1, -1], [-1, 0], [1, 0]]
    assert chunk.at.tolist() == [2, 2, 2]
    assert recording.changed_labels == 1
    assert recording.first_changed == "row 1: ['1'] after {0: True, 1: False}"


def test_no_scores(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"probs": [0.1, 0.2], "labels": ["0"]}) + "\n")
    with pytest.raises(StreamCANError, match="no column 'scores' for probs"):
        MultiLabelRecording(file)

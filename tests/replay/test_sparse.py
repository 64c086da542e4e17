"""Replays of sparse rows: what a plain loop makes of them, files in every form, the page."""

import json
import math
import shlex

import numpy as np
import polars as pl
import pytest

from stream_can.recording.sparse import SparseRecording
from stream_can.recording.table import InvalidRecording
from stream_can.replay import judge, replay
from stream_can.sparse import SparseCorrector
from tests.cli.command import stream_can

pytestmark = pytest.mark.fast


def stream(n=900, m=60, seed=0):
    """Rows of an overconfident classifier whose label is now and then one that it does not list."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for _ in range(n):
        k = int(rng.integers(2, 7))
        names = [f"c{i}" for i in rng.choice(m, k, replace=False)]
        p = -np.sort(-rng.dirichlet(np.ones(k + 1)))
        label = int(rng.choice(k + 1, p=p))
        labels.append(names[label] if label < k else f"c{rng.integers(5)}")
        sharp = p**3 / (p**3).sum()
        rows.append(dict(zip(names, sharp[:k].tolist(), strict=True)))
    return rows, labels


ROWS, LABELS = stream()


def write(folder, form="jsonl", **columns):
    """The stream as a file; rows as objects, as lists, or as text."""
    file = folder / f"stream.{form}"
    listed = [[{"label": k, "score": p} for k, p in row.items()] for row in ROWS]
    if form == "jsonl":
        cells = [listed[i] if i % 2 else row for i, row in enumerate(ROWS)]
        lines = [
            {"id": i, "probs": cell, "label": label} | {k: v[i] for k, v in columns.items()}
            for i, (cell, label) in enumerate(zip(cells, LABELS, strict=True))
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif form == "csv":
        table = {"probs": [json.dumps(row) for row in ROWS], "label": LABELS} | columns
        pl.DataFrame(table).write_csv(file)
    else:
        pl.DataFrame({"probs": listed, "label": LABELS} | columns).write_parquet(file)
    return file


def plain(due_before):
    """Rows one by one, and before each the labels that are due; the sums of the scores."""
    corrector, receipts = SparseCorrector("any", max_classes=60), []
    waiting, sums = list(range(len(ROWS))), np.zeros((2, 5))
    for i in range(len(ROWS) + 1):
        due = [k for k in waiting if k < i and due_before(k, i)]
        for k in due:
            waiting.remove(k)
            corrector.learn_one(ROWS[k], LABELS[k], receipt=receipts[k])
        if i == len(ROWS):
            break
        better, receipt = corrector.process_one(ROWS[i], receipt=True)
        receipts.append(receipt)
        sent = dict(better.probabilities)
        for side, row in enumerate((ROWS[i], sent)):
            p, rank = row.get(LABELS[i]), -1
            if p is not None:
                rank = sorted(row, key=lambda name: -row[name]).index(LABELS[i])
            elif side == 0:
                p = (1 - sum(row.values())) / (60 - len(row))
            else:
                p = corrector.tail(LABELS[i], list(row), better.rest)
            sums[side] += [1, rank == 0, 0 <= rank < 5, rank >= 0, -math.log(max(p, 1e-6))]
    return corrector, sums


@pytest.mark.parametrize("delay", [0, 7, 2000])
def test_labels_come_so_many_rows_late(tmp_path, delay):
    corrector = SparseCorrector("any", max_classes=60)
    result = replay(SparseRecording(write(tmp_path)), corrector, label_delay=delay)
    expected, sums = plain(lambda k, i: i >= k + 1 + delay)
    assert corrector.to_bytes() == expected.to_bytes()
    assert result.raw.sums() == pytest.approx(sums[0])
    assert result.corrected.sums() == pytest.approx(sums[1])
    assert result.learned == max(900 - delay, 0)
    changes = result.changes()
    assert changes.log_loss.value == pytest.approx((sums[1] - sums[0])[4] / 900)
    assert changes.accuracy.value == pytest.approx((sums[1] - sums[0])[1] / 900)


def test_labels_come_at_their_own_time(tmp_path):
    rng = np.random.default_rng(1)
    at = np.sort(rng.integers(0, 3000, 900))
    told = at + rng.integers(0, 400, 900)
    file = write(tmp_path, "csv", at=at.tolist(), told=told.tolist())
    recording = SparseRecording(file, time="at", label_time="told")
    corrector = SparseCorrector("any", max_classes=60)
    result = replay(recording, corrector)
    receipts, waiting = [], []
    plainly = SparseCorrector("any", max_classes=60)
    for i, row in enumerate(ROWS):
        for k in sorted((k for k in waiting if told[k] <= at[i]), key=lambda k: (told[k], k)):
            waiting.remove(k)
            plainly.learn_one(ROWS[k], LABELS[k], receipt=receipts[k])
        receipts.append(plainly.process_one(row, receipt=True)[1])
        waiting.append(i)
    assert corrector.to_bytes() == plainly.to_bytes()
    assert result.delay == "at their own time"


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_every_form_of_a_file_says_the_same(tmp_path, form):
    (chunk,) = SparseRecording(write(tmp_path, form)).chunks()
    assert [dict(row) for row in chunk.rows] == [pytest.approx(row) for row in ROWS]
    assert chunk.labels == LABELS


def test_labels_on_lines_of_their_own_and_classes_that_are_numbers(tmp_path):
    lines = [{"id": 1, "probs": {"3": 0.5}}, {"id": 2, "probs": {"4": 0.5}}, {"id": 1, "label": 9}]
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recording = SparseRecording(file, numbered=True)
    (chunk,) = recording.chunks()
    assert chunk.rows == [{3: 0.5}, {4: 0.5}]
    assert chunk.labels == [9, None]
    result = replay(recording, SparseCorrector(10))
    assert (result.rows, result.raw.n, result.coming) == (2, 1, 1)
    assert result.raw.log_loss == pytest.approx(-math.log(0.5 / 9))


def test_the_command_line_says_whether_it_helps_and_goes_on_in_the_pipe(tmp_path):
    file, report, state = write(tmp_path), tmp_path / "report.html", tmp_path / "state"
    options = [file, "--rows", "sparse", "--max-classes", 60, "--label-delay", 5]
    out, _ = stream_can("replay", *options, "--report", report, "--state", state)
    assert "Use it" in out
    assert "among the first five" in out
    page = report.read_text()
    assert page.count("<svg") == 4
    assert ">listed<" in page
    found = json.loads(stream_can("replay", *options, "--json")[0])
    assert found["corrected"]["log_loss"] < found["raw"]["log_loss"]
    assert (found["rows"], found["learned"]) == (900, 895)
    assert found["verdict"].startswith("Use it")
    command = shlex.split(out[out.index("stream-can pipe") :].splitlines()[0])[1:]
    line = json.dumps({"id": 1, "probs": ROWS[0]}) + "\n"
    said, _ = stream_can(*command, input=line)
    assert json.loads(said)["probs"] != ROWS[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rows", "sparse", "--against", "ops"], "--against: not of sparse rows"),
        (["--rows", "sparse", "--sets", "0.9"], "--sets: not of sparse rows"),
        (
            ["--rows", "spare"],
            "rows: 'spare', expected dense, multilabel, sparse",
        ),
        (["--rows", "sparse", "--probs", "rows"], "no column 'rows'"),
        (["--max-classes", "60"], "--max-classes: not of dense rows; leave it out"),
        (["--rows", "sparse", "--max-classes", "20"], "max_classes"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path, options, said):
    code = 1 if {"rows", "20"} & {*options} else 2  # the file, or an option
    _, err = stream_can("replay", write(tmp_path), "--label-delay", 5, *options, code=code)
    assert said in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"probs": [0.5, 0.5]}, "row 2: no classes are named"),
        ({"probs": {"a": 1.5}}, "row 2: probabilities sum to 1.5"),
        ({"probs": {"a": 0.5}, "label": ["a"]}, "row 2: label"),
    ],
)
def test_a_bad_row_is_named(tmp_path, line, said):
    file = tmp_path / "lines.jsonl"
    lines = [{"probs": {"a": 0.5}, "label": "a"}, {"label": "a"} | line]
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    with pytest.raises(InvalidRecording, match=said):
        replay(SparseRecording(file), SparseCorrector("any"), label_delay=1)


def test_few_labels_are_no_verdict(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"probs": {"a": 0.5}, "label": "a"}\n' * 20)
    result = replay(SparseRecording(file), SparseCorrector("any"), label_delay=1)
    assert judge(result).use.startswith("Too few labels to say: 20 rows")

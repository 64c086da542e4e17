"""Rows and labels that look joined wrongly get a question, not a verdict; honest ones none."""

import io
import json

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.cli.main import main
from stream_can.dense.doubts import renaming
from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.pipe.run import pipe
from stream_can.recording.table import InvalidRecording
from stream_can.replay import Recording, judge, replay
from tests.replay.streams import stream

pytestmark = pytest.mark.fast

NAMES = ["bee", "ant", "cow", "dog"]
P, Y = stream(600, sharpness=3.0, seed=5)


def judged(path, *, delay=20, **options):
    recording = Recording(path, **options)
    corrector = Corrector(recording.classes)
    return judge(replay(recording, corrector, label_delay=delay))


def csv(path, header, rows):
    path.write_text("\n".join([",".join(header), *(",".join(map(str, row)) for row in rows)]))
    return path


def labelled(labels, header=NAMES):
    return [*header, "label"], [[*p, label] for p, label in zip(P, labels, strict=True)]


def test_columns_in_another_order_are_questioned_and_the_way_out_is_right(tmp_path):
    order = [2, 0, 3, 1]
    exchanged = [NAMES[order.index(y)] for y in Y]
    said = judged(csv(tmp_path / "a.csv", *labelled(exchanged)))
    assert not said.deploy
    assert said.use.startswith("No verdict: rows predicted as"), said.use
    rows = [
        json.dumps({"probs": p.tolist(), "label": y}) for p, y in zip(P, exchanged, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    said = judged(tmp_path / "a.jsonl", classes=NAMES)  # a list says nothing of names
    assert said.use.startswith("No verdict")
    command = said.use.split("--classes '")[1].split("'")[0]
    assert "No verdict" not in judged(tmp_path / "a.jsonl", classes=json.loads(command)).use


def many(m, n, seed=8):
    """Rows of a weak classifier of m classes, and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, m, n)
    scores = rng.normal(size=(n, m)) + 1.5 * np.eye(m)[y]
    rows = np.exp(3 * scores)
    return rows / rows.sum(1, keepdims=True), y


@pytest.mark.parametrize("n", [240, 600, 1500])
def test_classes_in_the_order_of_texts_are_questioned_and_the_way_out_is_right(tmp_path, n):
    order = sorted(range(12), key=str)
    rows, y = many(12, n)
    lines = [
        json.dumps({"probs": row[order].tolist(), "label": str(k)})
        for row, k in zip(rows, y, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    said = judged(tmp_path / "a.jsonl").use
    assert said.startswith("No verdict"), said
    assert json.loads(said.split("--classes '")[1].split("'")[0]) == order
    assert "No verdict" not in judged(tmp_path / "a.jsonl", classes=order).use


@pytest.mark.parametrize("n", [240, 600, 1500])
def test_numbers_of_words_beside_sorted_columns_are_questioned(tmp_path, n):
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    order = sorted(range(10), key=lambda k: words[k])
    rows, y = many(10, n)
    header = [*(f"prob_{words[k]}" for k in order), "label"]
    path = csv(tmp_path / "a.csv", header, [[*r[order], k] for r, k in zip(rows, y, strict=True)])
    said = judged(path).use
    assert said.startswith("No verdict"), said
    found = json.loads(said.split("--classes '")[1].split("'")[0])
    wrong = {a for a, b in zip(found, words, strict=True) if a != f"prob_{b}"}
    assert all(name in said.split("gives this order.")[-1] for name in wrong), (wrong, said)


def test_columns_with_exchanged_names_have_no_option(tmp_path):
    exchanged = [NAMES[[1, 0, 2, 3][y]] for y in Y]
    said = judged(csv(tmp_path / "a.csv", *labelled(exchanged))).use
    assert said.startswith("No verdict")
    assert "Name the columns as they should be." in said
    assert "--classes" not in said


def test_rows_in_ascending_order_are_questioned(tmp_path):
    rows = [json.dumps({"probs": sorted(p), "label": int(y)}) for p, y in zip(P, Y, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    assert "600 rows ascend" in judged(tmp_path / "a.jsonl").use


@pytest.mark.parametrize(("by", "which"), [(1, "before"), (-1, "after")])
def test_labels_that_are_shifted_by_a_row_are_questioned(tmp_path, by, which):
    said = judged(csv(tmp_path / "a.csv", *labelled([NAMES[y] for y in np.roll(Y, by)]))).use
    assert f"the prediction of the row {which} their own" in said
    assert "shifted by a row?" in said


@pytest.mark.parametrize("n", [300, 600])
def test_labels_of_other_rows_are_questioned(tmp_path, n):
    """It said "Use it": the mix of the labels is learned also from rows that have nothing to do
    with them. A weak classifier of the same rows is none that is questioned."""
    rng, names = np.random.default_rng(3), [NAMES[y] for y in Y]
    header, rows = labelled(rng.permutation(names))
    said = judged(csv(tmp_path / "random.csv", header, rows[:n]))
    assert said.use.startswith("No verdict: rows and labels agree no more than by chance"), said.use
    assert "Does each label belong to its row?" in said.use
    header, rows = labelled(np.where(rng.random(len(names)) < 0.35, names, rng.permutation(names)))
    assert "No verdict" not in judged(csv(tmp_path / "weak.csv", header, rows[:n])).use


def test_one_of_several_columns_of_a_label_is_questioned(tmp_path):
    said = judged(csv(tmp_path / "a.csv", *labelled([int(y == 0) for y in Y]))).use
    assert "labels are 0 and 1 alone" in said


def test_codes_of_sorted_names_are_questioned_and_the_way_out_is_right(tmp_path):
    codes = [sorted(NAMES).index(NAMES[y]) for y in Y]
    path = csv(tmp_path / "a.csv", *labelled(codes))
    said = judged(path)
    assert said.use.startswith("No verdict"), said.use
    command = said.use.split("--classes '")[1].split("'")[0]
    assert json.loads(command) == sorted(NAMES)
    assert "No verdict" not in judged(path, classes=sorted(NAMES)).use


def test_rows_that_were_sorted_without_their_names_are_questioned(tmp_path):
    rows = [{"probs": sorted(p, reverse=True), "label": int(y)} for p, y in zip(P, Y, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert "descend" in judged(tmp_path / "a.jsonl").use


@pytest.mark.parametrize(("early", "questioned"), [(600, True), (3, False)])
def test_labels_before_their_predictions_are_questioned(tmp_path, early, questioned):
    header, rows = labelled([NAMES[y] for y in Y])
    rows = [[*row, 1000 * i, 1000 * i + 5000 - 9000 * (i < early)] for i, row in enumerate(rows)]
    path = csv(tmp_path / "a.csv", [*header, "ts", "known"], rows)
    said = judged(path, delay=None, time="ts", label_time="known")
    assert ("known before their prediction" in said.use) is questioned, said.use
    if questioned:
        assert "row 1: known -4000, ts 0" in said.use


def lines(path, ids, label_ids):
    rows = []
    for i, p in enumerate(P):
        rows.append({"id": ids(i), "probs": dict(zip(NAMES, p.tolist(), strict=True))})
        if i >= 20:
            rows.append({"id": label_ids(i - 20), "label": NAMES[Y[i - 20]]})
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def run(classes, path, **options):
    assert pipe(classes, stdin=io.BytesIO(path.read_bytes()), stdout=io.BytesIO(), **options) == 0


def as_text(i):
    return f"{i}.0"


@pytest.mark.parametrize(
    ("ids", "label_ids"),
    [(int, int), (int, float), (int, str), (int, as_text), (as_text, int), (as_text, as_text)],
)
def test_an_integer_its_text_and_an_equal_float_are_one_id(tmp_path, ids, label_ids, capsys):
    path = lines(tmp_path / "a.jsonl", ids, label_ids)
    recording = Recording(path)
    assert sum(int((chunk.y >= 0).sum()) for chunk in recording.chunks()) == len(P) - 20
    run(NAMES, path, state=tmp_path / "state")
    assert main(["inspect", str(tmp_path / "state"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stream"]["counts"]["learned"] == len(P) - 20


def test_ids_that_name_no_prediction_are_questioned(tmp_path, capsys):
    said = judged(lines(tmp_path / "a.jsonl", int, lambda i: f"order-{i}"), delay=None)
    assert "580 of 580 lines with a label name no prediction before them" in said.use
    assert "the first prediction has the id '0'" in said.use
    run(NAMES, tmp_path / "a.jsonl")
    assert "580 of 580 labels so far name no prediction before them" in capsys.readouterr().err
    some = lines(tmp_path / "b.jsonl", int, lambda i: f"order-{i}" if i % 50 == 0 else i)
    assert "name no prediction" not in judged(some, delay=None).use


@pytest.mark.parametrize("rows", ["dense", "sparse"])
@pytest.mark.parametrize(("twice", "questioned"), [(20, False), (200, True)])
def test_labels_that_contradict_an_earlier_one_are_counted(
    tmp_path, rows, twice, questioned, capsys
):
    path = lines(tmp_path / "a.jsonl", int, int)
    again = [{"id": i, "label": NAMES[(Y[i] + i % 2) % len(NAMES)]} for i in range(2 * twice)]
    path.write_text(path.read_text() + "\n".join(map(json.dumps, again)) + "\n")
    assert main(["replay", str(path), "--rows", rows]) == 0
    said = " ".join(capsys.readouterr().out.split())
    place = f"(row 2: {again[1]['label']!r} after {NAMES[Y[1]]!r}); the first counts. Does the id"
    number = f"{twice} labels contradict an earlier one; the first counts."
    assert (number in said, place in said) == (not questioned, questioned), said


def test_a_float_that_lost_digits_is_refused_by_name(tmp_path):
    path = lines(tmp_path / "a.jsonl", lambda i: 2**60 + 3 * i, lambda i: float(2**60 + 3 * i))
    with pytest.raises(ValueError, match=r"line 22: id: 1.15\d+e\+18 is a float"):
        Recording(path)


def pairs(best, y, m):
    return np.bincount(best * m + y, minlength=m * m).reshape(m, m)


def honest(rng):
    """Predicted classes and labels of a random classifier under a class mix of its own."""
    m, n = int(rng.choice([2, 3, 5, 10, 60, 150])), int(rng.choice([30, 100, 500, 3000]))
    trained, mix = (rng.dirichlet(np.full(m, rng.choice([1.0, 2.0, 5.0]))) for _ in range(2))
    y, places = rng.choice(m, n, p=mix), rng.normal(size=(m, 3))
    alike = -((places[:, None] - places) ** 2).sum(2) * rng.choice([0, 0.3, 1])
    evidence = rng.choice([0, 0.5, 2, 4]) * np.eye(m)[y] + alike[y] + rng.normal(0, 1, (n, m))
    return (np.log(trained + 1e-9) + rng.choice([0.3, 1, 3]) * evidence).argmax(1), y, m


def test_no_honest_stream_is_questioned():
    rng = np.random.default_rng(3)
    assert not any(renaming(pairs(*honest(rng))) for _ in range(1000))


def test_exchanged_classes_are_found():
    rng = np.random.default_rng(4)
    for m in (2, 4, 20, 100):
        y = rng.integers(0, m, 100 + 40 * m)
        best = np.where(rng.random(len(y)) < 0.6, y, rng.integers(0, m, len(y)))
        names = np.roll(np.arange(m), 1)
        found = renaming(pairs(names[best], y, m))
        assert found is not None
        assert (found.of[names] == np.arange(m)).mean() > 0.8


def test_chosen_labels_are_questioned_and_random_or_ending_ones_are_not(tmp_path):
    rng = np.random.default_rng(3)
    u, best, sureness = rng.random(600), P.argmax(1), P.max(1)
    unsure = sureness < np.quantile(sureness, 0.3)
    arrivals = {
        "are predicted as": (best == 1) | (u < 0.1),
        "have a largest probability below": unsure | (u < 0.1),
        "random": u < 0.5,
        "ends": np.arange(600) < 400,
    }
    for kind, known in arrivals.items():
        labels = [NAMES[y] if k else "" for y, k in zip(Y, known, strict=True)]
        said = judged(csv(tmp_path / "a.csv", *labelled(labels))).use
        assert ("Were labels chosen?" in said) is (kind not in ("random", "ends")), (kind, said)
        assert (kind in said) is ("Were labels chosen?" in said), said


def test_labels_that_arrive_after_the_end_are_questioned(tmp_path):
    header, rows = labelled([NAMES[y] for y in Y])
    rows = [[*row, 1767225600 + i, 1000 * (1767225600 + i)] for i, row in enumerate(rows)]
    path = csv(tmp_path / "a.csv", [*header, "ts", "known"], rows)
    said = judged(path, delay=None, time="ts", label_time="known").use
    assert "no label arrived before the recording ended (row 1: known 1767225600000" in said
    assert "seconds and milliseconds?" in said


def test_percentages_of_one_class_are_named_with_and_without_logits(tmp_path):
    rows = [[round(100 * p[0], 2), int(y == 0)] for p, y in zip(P, Y, strict=True)]
    path = csv(tmp_path / "a.csv", ["fraud_score", "label"], rows)
    with pytest.raises(
        InvalidPrediction, match=r"fraud_score: .* to .*: percentages\? Divide by 100"
    ):
        judged(path, probs="fraud_score")
    assert "never negative as logits are" in judged(path, probs="fraud_score", logits=True).use
    scores = [[np.log(p[0] / (1 - p[0])), int(y == 0)] for p, y in zip(P, Y, strict=True)]
    path = csv(tmp_path / "a.csv", ["fraud_score", "label"], scores)
    assert "logits" not in judged(path, probs="fraud_score", logits=True).use


def test_a_score_of_two_classes_is_named(tmp_path):
    rows = [[i, round(p[0], 4), int(y == 0)] for i, (p, y) in enumerate(zip(P, Y, strict=True))]
    with pytest.raises(InvalidRecording, match="Add --probs 'fraud_score'"):
        Recording(csv(tmp_path / "a.csv", ["when", "fraud_score", "label"], rows))


def test_numbered_columns_beside_names_of_labels_name_the_options(tmp_path):
    path = csv(tmp_path / "a.csv", *labelled([NAMES[y] for y in Y], ["p0", "p1", "p2", "p3"]))
    with pytest.raises(UnknownClass, match=r"Add --probs 'p\*' --classes ant,bee,cow,dog"):
        judged(path)
    said = judged(path, probs="p*", classes=sorted(NAMES)).use
    assert json.loads(said.split("--classes '")[1].split("'")[0]) == NAMES


def test_rows_that_lack_a_probability_are_counted(tmp_path):
    header, rows = labelled([NAMES[y] for y in Y])
    for i in (3, 9):
        rows[i][1] = ""
    with pytest.raises(InvalidPrediction, match=r"row 4: .* is missing; 2 rows lack one"):
        judged(csv(tmp_path / "a.csv", header, rows))

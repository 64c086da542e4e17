"""Replay: equal to a plain loop over rows, whatever the format, the chunks and the delays."""

import doctest
import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stream_can import Corrector, InvalidPrediction, LabelRequests, UnknownClass
from stream_can.change import Changes
from stream_can.dense.result import DenseReplay
from stream_can.recording.pickled import read_objects
from stream_can.recording.table import InvalidRecording
from stream_can.replay import Player, Recording, from_arrays, replay, steps
from stream_can.replay import run as replay_module
from stream_can.replay.shown import shown
from stream_can.replay.steps import DRAW, check_labels, learner_of, step_length

pytestmark = pytest.mark.fast
CLASSES = ["cat", "dog", "eel"]


def stream(n=700, m=3, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.7), n)
    y = np.array([rng.choice(m, p=row) for row in P])
    time = np.sort(rng.integers(0, n // 2, n))  # with ties
    label_time = time + rng.integers(-3, 40, n)  # some known before their row
    return P / P.sum(1, keepdims=True), y, time, label_time


def by_row(corrector, P, y, given, due_before, after=None):
    """The order in its plainest form: which labels are learned before each row."""
    out, paths, receipts, learned = [], [], [], set()

    def learn(labels):
        for j in labels:
            corrector.learn_one(P[j], int(y[j]), receipt=receipts[j])
            learned.add(j)

    for i in range(len(P)):
        learn(j for j in due_before(i) if given[j] and j not in learned)
        paths.append(np.stack(list(corrector.explain_one(P[i]).values())))
        row, receipt = corrector.process_one(P[i], receipt=True)
        out.append(row)
        receipts.append(receipt)
    if after is not None:
        learn(j for j in after if given[j] and j not in learned)
    return np.array(out), np.stack(paths, axis=1)


def run(corrector, chunks, **options):
    taken = list(steps(chunks, corrector, **options))
    out = np.concatenate([step.corrected for step in taken])
    if taken[0].path_rows is None:
        return out, None
    return out, np.concatenate([step.path_rows for step in taken], axis=1)


@pytest.fixture(params=[50, 64, 333, 10_000])
def chunked(request, monkeypatch):
    monkeypatch.setattr("stream_can.recording.arrays.CHUNK", request.param)


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("explain", [True, False])
@pytest.mark.parametrize(
    ("delay", "rate"), [(0, 1), (1, 1), (7, 1), (100, 0.3), (699, 1), (2000, 1)]
)
def test_delay_in_rows_equals_the_loop_over_rows(delay, rate, explain):
    P, y, *_ = stream()
    n = len(P)
    given = np.random.default_rng([5, *DRAW]).random(n) < rate
    plain, ours = Corrector(3, half_life=50), Corrector(3, half_life=50)
    expected = by_row(
        plain, P, y, given, lambda i: range(max(0, i - delay)), after=range(max(0, n - delay))
    )
    out, paths = run(
        ours, from_arrays(P, y), label_delay=delay, label_rate=rate, seed=5, explain=explain
    )
    assert np.array_equal(out, expected[0])
    assert paths is None or np.array_equal(paths, expected[1])
    assert ours.to_bytes() == plain.to_bytes()


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize(("delay", "columns"), [(0, ["x"]), (7, ["y"]), (100, ["y", "x"])])
def test_columns_equal_the_loop_over_rows(delay, columns):
    """The corrector takes those of the recording's columns that it declares."""
    P, y, *_ = stream()
    rng = np.random.default_rng(delay)
    table = {
        "x": rng.integers(9, size=len(P)),
        "y": np.where(rng.random(len(P)) < 0.3, None, y.astype(str)),
    }
    plain, ours = Corrector(3, segments=columns), Corrector(3, segments=columns)
    rows, receipts = [], []
    given = [{name: table[name][i] for name in columns} for i in range(len(P))]

    def learn(i):
        if i >= 0:
            plain.learn_one(P[i], int(y[i]), receipt=receipts[i], segments=given[i])

    for i in range(len(P)):
        learn(i - delay - 1)
        row, receipt = plain.process_one(P[i], receipt=True, segments=given[i])
        rows.append(row)
        receipts.append(receipt)
    learn(len(P) - delay - 1)
    chunks = from_arrays(P, y, segments=table)
    out, _ = run(ours, chunks, label_delay=delay)
    assert np.array_equal(out, np.array(rows))
    assert ours.to_bytes() == plain.to_bytes()


def test_a_corrector_with_columns_that_the_recording_does_not_give():
    P, y, *_ = stream(20)
    corrector = Corrector(3, segments=["x", "y"])
    with pytest.raises(ValueError, match="the corrector declares 'y', and the recording"):
        list(steps(from_arrays(P, y, segments={"x": y}), corrector))


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("explain", [True, False])
def test_labels_at_their_own_time_equal_the_loop_over_rows(explain):
    P, y, time, label_time = stream(seed=1)
    never = np.arange(len(P)) % 5 == 0
    label_time = np.where(never, np.nan, label_time)

    def due_before(i):
        due = [j for j in range(i) if label_time[j] <= time[i]]
        return sorted(due, key=lambda j: (label_time[j], j))

    plain, ours = Corrector(3, half_life=50), Corrector(3, half_life=50)
    expected = by_row(plain, P, y, ~never, due_before)
    out, paths = run(ours, from_arrays(P, y, time, label_time), explain=explain)
    assert np.array_equal(out, expected[0])
    assert paths is None or np.array_equal(paths, expected[1])
    assert ours.to_bytes() == plain.to_bytes()
    assert 0 < ours.n_labels < (~never).sum()


def test_scores_are_those_of_all_labelled_rows():
    P, y, *_ = stream()
    y[::4] = -1
    corrector = Corrector(3)
    playing = learner_of(corrector)
    result = DenseReplay(playing)
    rows = []
    for step in steps(from_arrays(P, y), playing, label_delay=3):
        result.add(step)
        rows.append(step.corrected)
    known, out = y >= 0, np.concatenate(rows)
    assert result.rows == len(P)
    assert result.raw.n == result.corrected.n == result.paths["can"].n == known.sum()
    assert result.corrected.accuracy == (out[known].argmax(1) == y[known]).mean()
    assert result.paths["raw"].summary() == pytest.approx(result.raw.summary(), abs=1e-12)
    assert sum(moment.labelled for moment in result.moments) == known.sum()
    assert result.moments[-1].row == len(P)
    total = sum(moment.hits[1] for moment in result.moments)
    assert total == pytest.approx(result.corrected.accuracy * known.sum())
    json.dumps(result.to_dict())


def test_steps_grow_with_the_stream_and_stay_bounded():
    ends, start = [], 0
    while start < 20_000_000:
        start += step_length(start)
        ends.append(start)
    assert len(ends) < 4000
    assert max(np.diff(ends)) == 16_384
    assert ends[0] == 64


def test_which_labels_arrive_is_independent_of_data_made_from_the_same_seed():
    y = np.random.default_rng(0).choice(2, 4000)  # drawn with the uniforms of default_rng(0)
    taught = Corrector(2, half_life=np.inf)
    for _ in steps(
        from_arrays(np.full((4000, 2), 0.5), y), taught, label_delay=0, label_rate=0.5, seed=0
    ):
        pass
    assert taught.prior == pytest.approx([0.5, 0.5], abs=0.05)


# ---- files


def frame(P, y):
    return pl.DataFrame({f"probs_{name}": P[:, i] for i, name in enumerate(CLASSES)}).with_columns(
        label=pl.Series([None if i < 0 else CLASSES[i] for i in y])
    )


def write(folder, layout, P, y):
    table = frame(P, y)
    lists = table.select(probs=pl.concat_list([f"probs_{name}" for name in CLASSES]), label="label")
    structs = table.select(
        probs=pl.struct(**{name: f"probs_{name}" for name in CLASSES}), label="label"
    )
    form, _, kind = layout.partition(" ")
    file = folder / f"stream.{form}"
    if form == "npz":
        labels = np.array([str(name) for name in table["label"].to_list()])
        np.savez(file, probs=P, label=labels, classes=np.array(CLASSES), train_counts=[5, 6, 7])
    elif layout == "csv lists":
        text = lists.with_columns(pl.Series("probs", [json.dumps(row) for row in P.tolist()]))
        text.write_csv(file)
    else:
        chosen = {"columns": table, "lists": lists, "objects": structs}.get(kind)
        if kind == "arrays":
            chosen = lists.with_columns(pl.col("probs").list.to_array(3))
        getattr(
            chosen, {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}[form]
        )(file)
    return file


LAYOUTS = [
    "csv columns",
    "csv lists",
    "jsonl columns",
    "jsonl lists",
    "jsonl objects",
    "parquet columns",
    "parquet lists",
    "parquet arrays",
    "parquet objects",
    "npz",
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_format_says_the_same(tmp_path, layout):
    P, y, *_ = stream(200)
    if layout != "npz":
        y[::7] = -1
    named = "lists" in layout or "arrays" in layout
    recording = Recording(write(tmp_path, layout, P, y), classes=CLASSES if named else None)
    assert recording.classes == CLASSES
    assert recording.rows == 200
    for size in (7, 1000):
        chunks = list(recording.chunks(size))
        assert [chunk.first for chunk in chunks] == list(range(0, 200, size))
        assert np.allclose(np.concatenate([chunk.P for chunk in chunks]), P, atol=1e-15)
        assert np.array_equal(np.concatenate([chunk.y for chunk in chunks]), y)
    if layout == "npz":
        assert recording.train_counts.tolist() == [5, 6, 7]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "npz"])
@pytest.mark.parametrize("dates", [True, False])
def test_times_in_every_format(tmp_path, form, dates):
    P, y, time, label_time = stream(100)
    table = frame(P, y).with_columns(pl.Series("at", time), pl.Series("known", label_time))
    if dates:
        table = table.with_columns(
            pl.from_epoch(pl.col(name) * 3600, "s") for name in ("at", "known")
        )
    if form != "npz":
        table = table.with_columns(known=pl.when(pl.int_range(100) % 3 > 0).then("known"))
    file = tmp_path / f"stream.{form}"
    if form == "npz":
        np.savez(file, probs=P, label=y, at=table["at"].to_numpy(), known=table["known"].to_numpy())
    else:
        getattr(
            table, {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}[form]
        )(file)
    recording = Recording(file, time="at", label_time="known")
    ours, plain = Corrector(3), Corrector(3)
    result = replay(recording, ours)
    missing = np.zeros(100, bool) if form == "npz" else np.arange(100) % 3 == 0
    known = np.where(missing, np.nan, label_time)
    for step in steps(from_arrays(P, y, time, known), plain):
        assert len(step.rows) <= 64
    assert (ours.n_labels, result.dates) == (plain.n_labels, dates)
    assert np.allclose(ours.prior, plain.prior, atol=1e-12)


def test_numbers_as_labels(tmp_path):
    P, y, *_ = stream(50)
    lines = [
        json.dumps({"probs": row, "label": label})
        for row, label in zip(P.tolist(), y.tolist(), strict=True)
    ]
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(lines))
    for classes in (None, ["0", "1", "2"], CLASSES):  # numbers, names of numbers, by position
        assert np.array_equal(next(Recording(file, classes=classes).chunks()).y, y)
    by_name = next(Recording(file, classes=[2, 1, 0]).chunks()).y
    assert np.array_equal(by_name, 2 - y)
    # A csv that pandas wrote has 1.0 where a column of whole numbers has gaps.
    csv = tmp_path / "a.csv"
    csv.write_text("p_0,p_1,label\n0.5,0.5,1.0\n0.5,0.5,\n")
    assert next(Recording(csv, probs="p_").chunks()).y.tolist() == [1, -1]


def test_validation_rows_are_those_with_a_label(tmp_path):
    P, y, *_ = stream(60)
    y[:10] = -1
    rows, names = Recording(write(tmp_path, "parquet columns", P, y)).labelled()
    assert np.allclose(rows, P[10:], atol=1e-15)
    assert names == [CLASSES[i] for i in y[10:]]


def test_label_rates(tmp_path):
    P, y, *_ = stream(2000)
    sharp = P**4 / (P**4).sum(1, keepdims=True)
    recording = Recording(write(tmp_path, "npz", sharp, y))
    result = replay(recording, Corrector(CLASSES), label_delay=10, rates=[0, 0.05, 1])
    rates = result.rates
    assert rates[0].accuracy == pytest.approx(result.raw.accuracy, abs=0.005)
    assert rates[1].log_loss < rates[0.05].log_loss < rates[0].log_loss


# ---- labels that are asked for


def asked_by_row(corrector, requests, P, y, could, due_before):
    """The plain loop: after each row it may be asked for; before each, what was asked and is due
    comes."""
    out, receipts, learned, asked = [], [], set(), []
    for i in range(len(P)):
        for j in due_before(i):
            if j in asked and j not in learned:
                corrector.learn_one(P[j], int(y[j]), receipt=receipts[j])
                learned.add(j)
        row, receipt = corrector.process_one(P[i], receipt=True)
        out.append(row)
        receipts.append(receipt)
        if could[i] and requests.ask_one(i, row):
            asked.append(i)
    return np.array(out), asked


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("delay", [0, 1, 7, 100, 2000, None])
def test_asking_equals_the_loop_over_rows(delay):
    P, y, time, label_time = stream()
    label_time = np.where(np.arange(len(P)) % 5 == 0, np.nan, label_time)
    could = np.ones(len(P), bool) if delay is not None else ~np.isnan(label_time)

    def due_before(i):
        if delay is not None:
            return range(max(0, i - delay))
        return sorted(
            (j for j in range(i) if label_time[j] <= time[i]), key=lambda j: (label_time[j], j)
        )

    plain, ours = Corrector(3, half_life=50), Corrector(3, half_life=50)
    expected, which = asked_by_row(plain, LabelRequests(0.2), P, y, could, due_before)
    chunks = from_arrays(P, y) if delay is not None else from_arrays(P, y, time, label_time)
    learner = learner_of(ours, 0.2)
    taken = list(steps(chunks, learner, label_delay=delay, explain=False))
    assert np.array_equal(np.concatenate([step.corrected for step in taken]), expected)
    assert ours.to_bytes() == plain.to_bytes()
    assert sum(one is not None for step in taken for one in step.asked) == len(which) > 80
    assert sum(step.arrivals.coming for step in taken) == len(which)
    assert sum(len(step.arrivals.rows) for step in taken) == ours.n_labels
    assert (ours.n_labels == 0) == (delay == 2000)
    assert [len(step.rows) for step in taken] == [
        len(step.rows) for step in steps(from_arrays(P, y), Corrector(3), label_delay=0)
    ]


def test_what_asking_buys(tmp_path):
    P, y, *_ = stream(3000)
    sharp = P**4 / (P**4).sum(1, keepdims=True)
    recording = Recording(write(tmp_path, "npz", sharp, y))
    shown = []
    result = replay(
        recording,
        Corrector(CLASSES),
        label_delay=10,
        ask=0.1,
        seed=4,
        rates=[0.1, 0.2, 1],
        progress=shown.append,
    )
    assert list(result.rates) == [0.1, 0.2, 1]
    assert list(result.asked_rates) == [0.1, 0.2]
    assert result.asked_rates[0.1] is result.corrected
    player = Player(recording, label_delay=10, seed=4)
    again = player.play(Corrector(CLASSES), ask=0.2)
    assert result.asked_rates[0.2].summary() == again.corrected.summary()
    played = replay_module.number_of_replays([0.1, 0.2, 1], label_rate=1, ask=0.1, models=False)
    assert sum(shown) == played * 3000
    assert result.asked["random"] + result.asked["margin"] == pytest.approx(0.1 * 3000, rel=0.15)
    assert result.corrected.n == 3000  # those that were not asked for are scored too
    assert json.loads(json.dumps(result.to_dict()))["asked"] == result.asked
    plain = replay(recording, Corrector(CLASSES), label_delay=10, rates=[0.1, 1])
    assert list(plain.rates) == [0.1, 1]
    assert plain.rates[1] is plain.corrected
    assert list(plain.asked_rates) == [0.1]
    assert plain.to_dict()["asked"] is None
    with pytest.raises(ValueError, match="give one of them"):
        replay(recording, Corrector(CLASSES), label_delay=1, label_rate=0.5, ask=0.1)


# ---- what is wrong with a file


def broken(tmp_path, name, text, **options):
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    for _ in Recording(file, **options).chunks():
        pass


CSV = "probs_cat,probs_dog,label\n0.5,0.5,cat\n0.5,0.5,dog\n"
TIMED = "probs_a,probs_b,label,at,known\n.5,.5,a,2,3\n.5,.5,b,3,4\n.5,.5,a,1,4\n"
LINE = '{"probs": [1], "label": 0}\n'
TIMED_LINE = '{"probs": [1], "label": 0, "at": "%s", "known": 1}'
OBJECTS = '{"probs": {"a": 0.5, "b": 0.5}, "label": "a"}\n{"probs": {"a": 0.1}}'
TIMES = {"time": "at", "label_time": "known"}


@pytest.mark.parametrize(
    ("name", "text", "options", "error", "words"),
    [
        ("a.csv", "", {}, InvalidRecording, "is empty"),
        ("a.csv", "probs_a,probs_b,label\n", {}, InvalidRecording, "no rows"),
        ("a.jsonl", "\n\n", {}, InvalidRecording, "is empty"),
        ("a.dat", CSV, {}, InvalidRecording, "should end in .csv"),
        ("a.parquet", CSV, {}, InvalidRecording, "named like parquet, .* looks like csv"),
        ("a.npz", CSV, {}, InvalidRecording, "named like npz, .* looks like csv"),
        ("a.csv", b"PAR1....", {}, InvalidRecording, "looks like parquet"),
        ("a.csv", b"\x1f\x8b....", {}, InvalidRecording, "looks like a compressed file"),
        ("a.csv", '{"probs": [1]}', {}, InvalidRecording, "looks like JSON lines"),
        ("a.json", '[{"probs": [1], "label": 0}, {', {}, InvalidRecording, "it ends too early"),
        ("a.json", '[{"probs": [1], "label": 0}, 3]', {}, InvalidRecording, "line 2: not a JSON"),
        ("a.gz", b"\x1f\x8b....", {}, InvalidRecording, "cannot be unpacked"),
        ("a.npy", np.lib.format.magic(1, 0) + b"..", {}, InvalidRecording, "label: labels.npy"),
        ("a.parquet", b"PAR1 cut short", {}, InvalidRecording, "not a readable parquet file"),
        ("a.npz", b"PK\x03\x04 cut short", {}, InvalidRecording, "not a readable npz file"),
        ("a.csv", CSV, {"probs": "p_"}, InvalidRecording, "no column 'p_' for probs"),
        ("a.csv", CSV, {"label": "truth"}, InvalidRecording, "no column 'truth' for label"),
        ("a.csv", CSV, {"probs": "label"}, InvalidRecording, "neither lists nor objects"),
        (
            "a.csv",
            CSV,
            {"classes": ["cat"]},
            InvalidRecording,
            "2 probabilities a row, but 1 classes",
        ),
        ("a.csv", CSV + "0.5,,cat\n", {}, InvalidPrediction, "row 3: .*class 'dog' is missing"),
        ("a.csv", CSV + "0.5,0.9,cat\n", {}, InvalidPrediction, "row 3: probabilities sum to 1.4"),
        ("a.csv", CSV + "1.5,-0.5,cat\n", {}, InvalidPrediction, "row 3: .*class 'dog' is -0.5"),
        ("a.csv", CSV + "0.5,0.5,cow\n", {}, UnknownClass, "row 3: label 'cow' is none"),
        ("a.csv", CSV + "0.5,half,cat\n", {}, InvalidRecording, "half"),
        ("a.csv", TIMED, TIMES, InvalidRecording, "row 3: at is earlier than in the row before"),
        ("a.csv", TIMED.replace(",3,4", ",,4"), TIMES, InvalidRecording, "row 2: at is missing"),
        (
            "a.csv",
            TIMED,
            TIMES | {"label_time": "when"},
            InvalidRecording,
            "no column 'when' for label_time",
        ),
        ("a.jsonl", LINE + "{", {}, InvalidRecording, "line 2"),
        (
            "a.jsonl",
            '{"probs": [0.5, 0.5], "label": 0}\n{"probs": [1]}',
            {},
            InvalidRecording,
            "row 2: 1 probabilities for 2 classes",
        ),
        ("a.jsonl", OBJECTS, {}, InvalidRecording, "row 2: no probability for class 'b'"),
        (
            "a.jsonl",
            LINE + '{"probs": 1}',
            {},
            InvalidRecording,
            "row 2: one number, but there are 1 classes",
        ),
        ("a.jsonl", LINE + '{"probs": ["x"]}', {}, InvalidRecording, "row 2: 'x' is not a number"),
        ("a.jsonl", TIMED_LINE % "noon", TIMES, InvalidRecording, "row 1: at is 'noon'"),
        ("a.jsonl", TIMED_LINE % "2013-01-01", TIMES, InvalidRecording, "at holds dates"),
    ],
)
def test_a_broken_file_is_named_with_its_row(tmp_path, name, text, options, error, words):
    with pytest.raises(error, match=words) as caught:
        broken(tmp_path, name, text, **options)
    assert name in str(caught.value)


def test_rows_out_of_order_across_chunks(tmp_path):
    n = 40
    time = np.arange(n)
    time[20] = 3
    np.savez(
        tmp_path / "a.npz", probs=np.full((n, 2), 0.5), label=np.zeros(n, int), at=time, known=time
    )
    recording = Recording(tmp_path / "a.npz", time="at", label_time="known")
    with pytest.raises(InvalidRecording, match="row 21: at is earlier"):
        list(recording.chunks(20))


class Runs:
    """What a pickle can do."""

    def __reduce__(self):
        return os.mkdir, ("/tmp/it-was-run",)


@pytest.mark.parametrize("thing", [Runs(), [1], {}, b"a", np.array([1]), print, Path("a")])
def test_python_objects_other_than_names_are_refused_and_not_unpickled(tmp_path, thing):
    labels = np.empty(2, object)
    labels[:] = ["a", thing]
    np.savez(tmp_path / "a.npz", probs=np.full((2, 2), 0.5), label=labels)
    with pytest.raises(InvalidRecording, match="array label holds"):
        list(Recording(tmp_path / "a.npz").chunks())
    assert not Path("/tmp/it-was-run").exists()


def test_names_that_numpy_saved_as_objects_are_read(tmp_path):
    names = ["a", np.str_("b"), 3, np.int64(-4), 0.5, np.float32(2.5), True, np.bool_(False), None]
    labels = np.empty(len(names), object)
    labels[:] = names
    np.savez(tmp_path / "a.npz", label=labels)
    with np.load(tmp_path / "a.npz") as archive, archive.zip.open("label.npy") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        found = read_objects(file, "label").tolist()
    assert found == ["a", "b", 3, -4, 0.5, 2.5, True, False, None]


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Recording(tmp_path / "none.csv")


def test_a_delay_must_be_said(tmp_path):
    P, y, *_ = stream(20)
    recording = Recording(write(tmp_path, "npz", P, y))
    with pytest.raises(ValueError, match="label_delay"):
        replay(recording, Corrector(CLASSES))
    for options in ({"label_delay": -1}, {"label_delay": 1, "label_rate": 1.5}):
        with pytest.raises(ValueError, match="expected"):
            replay(recording, Corrector(CLASSES), **options)
    with pytest.raises(ValueError, match="name both columns"):
        Recording(tmp_path / "stream.npz", time="at")


def test_doctests():
    failed, tried = doctest.testmod(replay_module)
    assert tried > 3
    assert failed == 0


@pytest.mark.fast
def test_a_shape_or_a_delay_that_cannot_be_is_named(tmp_path):
    file = tmp_path / "a.npy"
    np.save(file, np.ones((3, 2)))
    file.write_bytes(file.read_bytes().replace(b"(3, 2)", b"(-1,2)"))
    np.save(tmp_path / "labels.npy", np.zeros(3, int))
    with pytest.raises(InvalidRecording, match=r"a\.npy: array `probs` says it has shape"):
        Recording(file, label=str(tmp_path / "labels.npy"))
    with pytest.raises(ValueError, match=r"label_delay: expected 0 or more rows, below 2\^53"):
        check_labels(10**20, 1)


@pytest.mark.fast
def test_a_column_of_structs_is_named(tmp_path):
    file = tmp_path / "a.parquet"
    columns = {f"probs_{name}": [{"x": 0.5}] * 3 for name in "ab"}
    pl.DataFrame(columns | {"label": ["a"] * 3}).write_parquet(file)
    with pytest.raises(InvalidRecording, match=r"column 'probs_a' holds Struct.*expected numbers"):
        list(Recording(file).chunks())


def test_which_labels_come_is_part_of_what_is_uncertain(tmp_path):
    """The same as played one by one; each draw has its own ±, and the table says so."""
    P, y, *_ = stream(3000)
    recording = Recording(write(tmp_path, "npz", P, y))
    more = {"label_delay": 10, "seed": 4}
    result = replay(recording, Corrector(CLASSES), label_rate=0.05, rates=[0.05, 0.2, 1], **more)
    draws = [
        replay(recording, Corrector(CLASSES), label_rate=0.05, label_delay=10, seed=seed)
        for seed in range(4, 9)
    ]
    values = [100 * (one.corrected.accuracy - one.raw.accuracy) for one in draws]
    alone = Changes.of_sums(result.labelled, result.sums(0), result.sums(1))
    found = result.changes()
    assert 100 * found.accuracy.value == pytest.approx(values[0])
    assert (100 * found.accuracy.error) ** 2 == pytest.approx(
        (100 * alone.accuracy.error) ** 2 + np.var(values, ddof=1)
    )
    assert result.rate_changes[0.05, False] == found
    every = replay(recording, Corrector(CLASSES), **more).changes()
    assert result.rate_changes[1, False] == every  # of all labels there is one draw
    assert "over 5 draws of the labels that come" in " ".join(shown(result).notes(result))
    brier, ece = result.calibration_changes()
    assert brier.value == pytest.approx(result.corrected.brier - result.raw.brier)
    assert ece.value == pytest.approx(result.corrected.ece - result.raw.ece)
    spread = [one.corrected.brier - one.raw.brier for one in draws]
    assert brier.error > np.std(spread, ddof=1)

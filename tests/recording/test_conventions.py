"""How people keep predictions and labels: 50 ordinary conventions, each read, or told why not.

One table: what is in the file, how it is asked for, and what comes of it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

from stream_can.cli.main import main
from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.recording import Recording, from_arrays
from stream_can.recording.table import InvalidRecording

pytestmark = pytest.mark.fast

N = 60
NAMES = ["cat", "dog", "eel"]
RNG = np.random.default_rng(5)
P = RNG.dirichlet([0.8, 0.9, 1.0], N)
Y = np.array([RNG.choice(3, p=p) for p in P])
LABELS = np.array(NAMES)[Y]
P2 = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True)
Y2 = (RNG.random(N) < P2[:, 1]).astype(int)
WORDS2 = np.array(["fine", "fraud"])[Y2]


class Case(NamedTuple):
    """One convention."""

    form: str
    name: str
    make: Callable[[Path], object]
    """Writes the file."""
    arguments: str = ""
    """Of ``stream-can replay``."""
    says: str = ""
    """What is said where it cannot be read."""
    atol: float = 1e-12
    two: bool = False


def columns(prefix: str = "probs_", rows: Any = P, label: Any = LABELS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[f"{prefix}{name}" for name in NAMES]).assign(label=label)


def csv(table: pd.DataFrame, **options: Any) -> Callable[[Path], object]:
    return lambda path: table.to_csv(path, **({"index": False} | options))


def npz(**arrays: Any) -> Callable[[Path], object]:
    return lambda path: np.savez(path, **arrays)


def text(content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def each(probs: Callable[[list[float]], Any], label: Any = LABELS, **more: Any) -> list[Any]:
    return [
        {"probs": probs(p), "label": y} | more
        for p, y in zip(P.tolist(), label.tolist(), strict=True)
    ]


def by_name(p: list[float]) -> dict[str, float]:
    return dict(zip(NAMES, p, strict=True))


def pairs(p: list[float]) -> list[dict[str, Any]]:
    found = [{"label": name, "score": x} for name, x in zip(NAMES, p, strict=True)]
    return sorted(found, key=lambda entry: -entry["score"])


def apart() -> str:
    rows: list[Any] = []
    for i, (p, y) in enumerate(zip(P.tolist(), LABELS.tolist(), strict=True)):
        rows.append({"id": i, "probs": by_name(p)})
        if i >= 5:
            rows.append({"id": i - 5, "label": LABELS.tolist()[i - 5]})
        del y
    return lines(*rows, *({"id": i, "label": LABELS.tolist()[i]} for i in range(N - 5, N)))


def both_npy(path: Path) -> None:
    np.save(path, P)
    np.save(path.with_name("y.npy"), Y)


def numpy_text(p: list[float]) -> str:
    return str(np.array(p)).replace("\n", "")


LISTS = lines(*each(lambda p: p))
CLASSES = "--classes cat,dog,eel"
CASES = [
    # arrays
    Case("npz by rows", "a.npz", npz(probs=P, label=Y)),
    Case("npz by columns (GaussianNB)", "a.npz", npz(probs=np.asfortranarray(P), label=Y)),
    Case("npz float32", "a.npz", npz(probs=P.astype("f4"), label=Y), atol=1e-6),
    Case("npz label names", "a.npz", npz(probs=P, label=LABELS), CLASSES),
    Case("npz label objects", "a.npz", npz(probs=P, label=LABELS.astype(object)), CLASSES),
    Case("npz label bytes", "a.npz", npz(probs=P, label=LABELS.astype("S")), CLASSES),
    Case("npz label column (n, 1)", "a.npz", npz(probs=P, label=Y[:, None])),
    Case("npz other names", "a.npz", npz(y_prob=P, y_true=Y), "--probs y_prob --label y_true"),
    Case("npz classes objects", "a.npz",
         npz(probs=P, label=LABELS, classes=np.array(NAMES, object))),
    Case("npz one number", "a.npz", npz(probs=P2[:, 1], label=Y2), two=True),
    Case("npz savez_compressed", "a.npz",
         lambda path: np.savez_compressed(path, probs=P, label=Y)),
    Case("npy and its labels", "a.npy", both_npy, "--label {folder}/y.npy"),
    Case("npy alone", "a.npy", lambda path: np.save(path, P), says="name the file of the labels"),
    # csv and what is like it
    Case("csv columns probs_cat", "a.csv", csv(columns())),
    Case("csv columns named by the classes", "a.csv", csv(columns(""))),
    Case("csv of those and an index", "a.csv", csv(columns(""), index=True)),
    Case("csv of those, classes given", "a.csv", csv(columns("")), CLASSES),
    Case("csv classes in another order", "a.csv", csv(columns()), "--classes eel,dog,cat"),
    Case("csv other prefix, classes given", "a.csv", csv(columns("score_")),
         "--classes eel,dog,cat"),
    Case("csv prefix with a star", "a.csv", csv(columns("P(")), "--probs P(*"),
    Case("csv prefix p beside pred", "a.csv", csv(columns("p_").assign(pred=0.5)), "--probs p"),
    Case("csv prefix and number", "a.csv",
         csv(pd.DataFrame(P, columns=["probs0", "probs1", "probs2"]).assign(label=Y))),
    Case("csv with semicolons", "a.csv", csv(columns(), sep=";")),
    Case("csv with decimal commas", "a.csv", csv(columns(), sep=";", decimal=",")),
    Case("tsv", "a.tsv", csv(columns(), sep="\t")),
    Case("csv with a byte-order mark", "a.csv", csv(columns(), encoding="utf-8-sig")),
    Case("csv in UTF-16", "a.csv", csv(columns(), encoding="utf-16"), says="UTF-16 text (save"),
    Case("csv.gz", "a.csv.gz", csv(columns())),
    Case("csv.bz2", "a.csv.bz2",
         lambda path: path.write_bytes(bz2.compress(columns().to_csv(index=False).encode()))),
    Case("csv rounded to 3 digits", "a.csv", csv(columns().round(3)), atol=2e-3),
    Case("csv rounded to 2 digits", "a.csv", csv(columns().round(2)), atol=2e-2),
    Case("csv percent", "a.csv", csv(columns(rows=100 * P)), "--normalise always"),
    Case("csv percent, not said", "a.csv", csv(columns(rows=100 * P)), says="sum to 100"),
    Case("csv one number", "a.csv", csv(pd.DataFrame({"score": P2[:, 1], "label": WORDS2})),
         "--probs score --classes fine,fraud", two=True),
    Case("csv label numbers with gaps", "a.csv", csv(columns(label=np.where(Y > 3, np.nan, Y)))),
    Case("csv JSON lists", "a.csv",
         csv(pd.DataFrame({"probs": [json.dumps(p) for p in P.tolist()], "label": Y}))),
    Case("csv lists as numpy prints them", "a.csv",
         csv(pd.DataFrame({"probs": [numpy_text(p) for p in P.tolist()], "label": Y})), atol=1e-7),
    Case("csv dicts as Python prints them", "a.csv",
         csv(pd.DataFrame({"probs": [str(by_name(p)) for p in P.tolist()], "label": LABELS}))),
    Case("csv class names with commas", "a.csv",
         csv(pd.DataFrame({"probs": [json.dumps(p) for p in P.tolist()], "label":
                           np.array(["cat, big", "dog", "eel"])[Y]})),
         '--classes ["cat, big","dog","eel"]'),
    # JSON
    Case("JSON lines lists", "a.jsonl", text(LISTS), CLASSES),
    Case("JSON lines objects", "a.jsonl", text(lines(*each(by_name)))),
    Case("JSON lines label and score", "a.jsonl", text(lines(*each(pairs))), CLASSES),
    Case("JSON lines the two largest", "a.jsonl",
         text(lines(*each(lambda p: pairs(p)[:2]))), CLASSES),
    Case("JSON lines one number", "a.jsonl",
         text(lines(*({"p": p, "label": y} for p, y in
                      zip(P2[:, 1].tolist(), Y2.tolist(), strict=True)))), "--probs p", two=True),
    Case("JSON lines dotted fields", "a.jsonl",
         text(lines(*({"model": {"probs": r["probs"]}, "truth": {"label": r["label"]}}
                      for r in each(by_name)))), "--probs model.probs --label truth.label"),
    Case("JSON lines labels on lines of their own", "a.jsonl", text(apart())),
    Case("JSON lines with a byte-order mark", "a.jsonl", text(b"\xef\xbb\xbf" + LISTS.encode()),
         CLASSES),
    Case("JSON lines packed", "a.jsonl.xz",
         lambda path: path.write_bytes(lzma.compress(LISTS.encode())), CLASSES),
    Case("JSON array", "a.json", text(json.dumps(each(by_name), indent=1))),
    # columnar
    Case("parquet", "a.parquet", lambda path: pl.DataFrame(columns()).write_parquet(path)),
    Case("feather", "a.feather", lambda path: pl.DataFrame(columns()).write_ipc(path)),
    Case("parquet label and score", "a.parquet",
         lambda path: pl.DataFrame(each(pairs)).write_parquet(path), CLASSES),
    Case("parquet struct of a struct", "a.parquet",
         lambda path: pl.DataFrame(
             {"model": [{"probs": r["probs"]} for r in each(by_name)], "label": LABELS}
         ).write_parquet(path), "--probs model.probs"),
    Case("pickle", "a.pkl", lambda path: columns().to_pickle(path), says="cannot tell the format"),
    Case("Excel", "a.xlsx", text(b"PK\x03\x04"), says="an Excel file; save its sheet as CSV"),
]  # fmt: skip


@pytest.fixture(params=CASES, ids=lambda case: case.form)
def case(request, tmp_path, monkeypatch):
    found = request.param
    found.make(tmp_path / found.name)
    monkeypatch.chdir(tmp_path)
    return found


def replayed(case, folder, capsys, file=None):
    """What the command makes of it: exit code, output, what it says."""
    arguments = []
    for word in case.arguments.format(folder=folder).split(" --") if case.arguments else []:
        arguments += f"--{word.removeprefix('--')}".split(" ", 1)
    try:
        code = main(
            ["replay", file or str(folder / case.name), "--label-delay", "2", "--json", *arguments]
        )
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.filterwarnings("ignore:.*divided by their sum")
def test_a_convention(case, tmp_path, capsys):
    code, out, err = replayed(case, tmp_path, capsys)
    if case.says:
        assert code != 0
        assert case.says in err
        return
    assert code in (0, None), err
    found = json.loads(out)
    assert found["rows"] == found["labelled"] == N
    truth, y = (P2, Y2) if case.two else (P, Y)
    accuracy = (truth.argmax(axis=1) == y).mean()
    assert found["raw"]["accuracy"] == pytest.approx(accuracy, abs=0.02 if case.atol > 1e-6 else 0)
    loss = -np.log(np.maximum(truth[np.arange(N), y], 1e-6)).mean()
    # Where only the largest are kept, the rest is an estimate.
    tolerance = 0.2 if "largest" in case.form else 1e-6 + 60 * case.atol
    assert found["raw"]["log_loss"] == pytest.approx(loss, abs=tolerance)


def test_most_conventions_work():
    assert len(CASES) >= 50
    assert sum(not case.says for case in CASES) >= 45


@pytest.mark.parametrize(
    "content",
    [LISTS.encode(), gzip.compress(LISTS.encode()), columns().to_csv(index=False).encode()],
)
def test_standard_input(content, tmp_path, capsys, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(content)

    monkeypatch.setattr("sys.stdin", Stdin)
    case = Case("", "", lambda path: None, CLASSES)
    code, out, err = replayed(case, tmp_path, capsys, file="-")
    assert code in (0, None), err
    assert json.loads(out)["rows"] == N


@pytest.mark.parametrize("kept", ["jsonl", "parquet"])
def test_the_first_row_need_not_have_a_label_inside(kept, tmp_path):
    rows = [{"probs": [0.4, 0.3, 0.3], "truth": None}]
    rows += [{"probs": [0.4, 0.3, 0.3], "truth": {"label": "cat"}}] * 2
    path = tmp_path / f"a.{kept}"
    if kept == "jsonl":
        path.write_text(lines(*rows))
    else:
        pl.DataFrame(rows).write_parquet(path)
    recording = Recording(path, label="truth.label", classes=NAMES)
    assert sum((chunk.y >= 0).sum() for chunk in recording.chunks()) == 2


def test_rounded_rows_are_told_once_and_counted(tmp_path):
    csv(columns().round(2))(tmp_path / "a.csv")
    recording = Recording(tmp_path / "a.csv")
    with pytest.warns(UserWarning, match=r"divided by their sum \(row \d+: probabilities sum to "):
        rows = sum(len(chunk.P) for chunk in recording.chunks(7))
    assert rows == N
    off = np.abs(P.round(2).sum(axis=1) - 1) > 1e-3
    assert recording.normalised == off.sum() > 3


def test_a_label_of_its_own_line_arrives_where_it_stands(tmp_path):
    text(apart())(tmp_path / "a.jsonl")
    recording = Recording(tmp_path / "a.jsonl")
    assert recording.has_times
    for size in (7, 1000):
        chunks = list(recording.chunks(size))
        rows = np.concatenate([chunk.time for chunk in chunks])
        known = np.concatenate([chunk.label_time for chunk in chunks])
        assert rows.tolist() == list(range(N))
        assert known.tolist() == [min(i + 6, N) for i in range(N)]
        assert np.concatenate([chunk.y for chunk in chunks]).tolist() == Y.tolist()


@pytest.mark.parametrize(
    ("probs", "names"),
    [
        ("*", ["_x_", "x", "-1"]),
        ("probs", ["-1", "1", "0"]),
        ("probs", ["_x", "x", "__x"]),
        ("probs*", ["cat", "[x]", " "]),
    ],
)
def test_a_class_keeps_its_own_separators(probs, names, tmp_path):
    before = "" if probs == "*" else "probs_"
    frame = pd.DataFrame([[0.5, 0.3, 0.2]] * 3, columns=[before + name for name in names])
    frame.assign(label=names).to_parquet(tmp_path / "a.parquet")
    recording = Recording(tmp_path / "a.parquet", probs=probs)
    assert list(recording.classes) == names
    assert [y for chunk in recording.chunks() for y in chunk.y] == [0, 1, 2]


def test_columns_are_no_guess_where_nothing_sums_to_one(tmp_path):
    csv(pd.DataFrame({"a": [0.5], "b": [0.9], "label": ["a"]}))(tmp_path / "a.csv")
    with pytest.raises(InvalidRecording, match="no column 'probs' for probs; the file has a, b"):
        Recording(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "classes", ["cat,dog,eel", '["cat","dog","eel"]', "names.txt", "names.json"]
)
def test_options_of_names(classes, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text("cat\ndog\neel\n")(tmp_path / "names.txt")
    text('["cat", "dog", "eel"]')(tmp_path / "names.json")
    npz(probs=P, truth=LABELS)(tmp_path / "a.npz")
    case = Case("", "a.npz", both_npy, f"--classes {classes} --label truth")
    code, out, err = replayed(case, tmp_path, capsys)
    assert code in (0, None), err
    assert json.loads(out)["classes"] == NAMES


@pytest.mark.parametrize("option", ["--report", "--state"])
def test_what_is_written_is_never_the_recording(option, tmp_path, capsys):
    file = tmp_path / "a.csv"
    csv(columns())(file)
    before = file.read_bytes()
    case = Case("", "a.csv", csv(columns()), f"{option} {file}")
    code, _, err = replayed(case, tmp_path, capsys)
    assert code == 2
    assert f"{option} {file}: this file is read; name another one" in " ".join(err.split())
    assert file.read_bytes() == before


def test_folders_of_the_state_are_made(tmp_path, capsys):
    csv(columns())(tmp_path / "a.csv")
    case = Case("", "a.csv", csv(columns()), f"--state {tmp_path}/made/on/the/way")
    assert replayed(case, tmp_path, capsys)[0] in (0, None)
    assert (tmp_path / "made" / "on" / "the" / "way").exists()


@pytest.mark.parametrize(
    ("y", "why"),
    [
        ([0, 10**7], r"row 1: label 10000000 is not in \[0, 3\)"),
        ([3, 0], "row 0: label 3 is not in"),
        ([0, -2], "row 1: label -2 is not in"),
        ([0.0, 1.0], "labels are float64"),
        ([0], r"of shape \(1,\), expected 2 indices"),
    ],
)
def test_labels_of_arrays_are_checked_before_anything_is_learned(y, why):
    with pytest.raises(UnknownClass, match=why):
        from_arrays([[0.2, 0.3, 0.5]] * 2, y)


def test_rows_of_arrays_are_checked():
    with pytest.raises(InvalidPrediction, match="row 1: probabilities sum to"):
        from_arrays([[0.5, 0.5], [0.5, 1.0]], [0, 1])

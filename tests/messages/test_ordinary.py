"""The compiled pass over ordinary messages: to the byte what msgspec's way makes of them.

python -m tests.messages.test_ordinary --count 1000000 --seed 7
"""

from __future__ import annotations

import argparse
import io
import json
import random
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from stream_can.app.label_reader import LabelReader
from stream_can.app.model_messages import ModelMessages
from stream_can.app.prediction_reader import PredictionReader
from stream_can.messages.fields import Fields
from stream_can.messages.formats import JSON
from stream_can.messages.messages import Messages
from stream_can.messages.numbers import COMPILED
from stream_can.messages.ordinary_reader import OrdinaryReader
from stream_can.messages.records import Record
from stream_can.pipe import pipe
from stream_can.pipe.statefile import PipeState

pytestmark = pytest.mark.fast

CLASSES = ["a", 1, "é", "2"]
IDS = [
    "7",
    "-3",
    "1.50",
    "0",
    '"x"',
    '"é€"',
    '"a\\"b"',
    '"\\u00e9"',
    "null",
    "true",
    "[1]",
    '""',
    "1e5",
]
VALUES = [
    "1", "-0", "1e999", "0.5E+3", "12345678901234567890123", "true", "false", "null", '"text"',
    '"é"', '"\\n\\u00e9"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\x"', "[]", "{}", "[ 1 , 2 ]",
    '{"a": [1, {"b": null}], "c" :"d"}', "01", "1.", "+1", "nan", '"\t"', "[1,]", '{"a":1,}',
    "[" * 40 + "]" * 40, '{"probs":[1]}', "",
]  # fmt: skip
ROWS = [
    "[0.1,0.2,0.3,0.4]",
    "[ 1, 0,0.0 , 0e5]",
    "[1,1,1,1]",
    "[0.5,0.5]",
    '{"a":1,"1":0,"é":0,"2":0}',
    "null",
]
LABELS = ['"a"', "1", "1.0", '"é"', '"\\u00e9"', '"2"', "2", '"b"', "null", '["a"]', "true"]
KEYS = ["text", "é", "t\\u0065xt", "probs_raw", "ask", "label", "id", "probs", "", "a.b", "set"]
BYTES = [
    b'"',
    b"\\",
    b",",
    b":",
    b"[",
    b"]",
    b"{",
    b"}",
    b" ",
    b"\t",
    b"\r",
    b"\0",
    b"\x7f",
    b"\xc3",
    b"\xff",
    b"0",
    b"e",
]


def message(rng: random.Random) -> bytes:
    """A line as they come, and at times one that nobody should send."""
    row = [
        f"{p:.{rng.choice([3, 17])}g}"
        for p in np.random.default_rng(rng.randrange(2**32)).dirichlet([1] * 4)
    ]
    fields = [("id", rng.choice(IDS) if rng.random() < 0.3 else str(rng.randrange(100)))]
    if rng.random() < 0.3:
        fields.append(("label", rng.choice(LABELS)))
    if len(fields) == 1 or rng.random() < 0.1:
        odd = rng.random()
        value = f"[{','.join(row)}]"
        if odd < 0.2:
            value = rng.choice(ROWS)
        elif odd < 0.5:
            value = named(row, rng)
        fields.append(("probs", value))
    while rng.random() < 0.4:
        fields.append((rng.choice(KEYS), rng.choice(VALUES)))
    rng.shuffle(fields)
    space = lambda: rng.choice(["", "", "", " ", "\t "])  # noqa: E731
    inside = ",".join(
        f'{space()}"{key}"{space()}:{space()}{value}{space()}' for key, value in fields
    )
    return f"{space()}{{{inside}}}{space()}".encode()


def named(row: list[str], rng: random.Random) -> str:
    """The row as an object: in the order of the classes or another, at times not of just these."""
    names = [*map(str, CLASSES)]
    if rng.random() < 0.3:
        rng.shuffle(names)
    if rng.random() < 0.2:
        names[rng.randrange(4)] = rng.choice(["b", "a", "1.0", "", "\\u0061", 'a"'])
    space = rng.choice(["", "", " ", "\t"])
    pairs = [
        f'{space}"{name}"{space}:{space}{p}{space}' for name, p in zip(names, row, strict=True)
    ]
    return f"{{{','.join(pairs[: rng.choice([4, 4, 4, 3, 0])])}}}"


def mutated(line: bytes, rng: random.Random) -> bytes:
    """The line with some bytes lost, doubled or replaced."""
    data = bytearray(line)
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        at, size = rng.randrange(len(data) + 1), rng.choice([0, 1, 1, 5])
        data[at : at + size] = rng.choice([*BYTES, b"", bytes(data[at : at + size]) * 2])
    return bytes(data).replace(b"\n", b" ")


def played(lines: list[bytes], **options: Any) -> tuple[bytes, str]:
    """What a pipe writes to standard output and standard error."""
    out, said = io.BytesIO(), io.TextIOWrapper(io.BytesIO(), write_through=True)
    with redirect_stderr(said):
        pipe(CLASSES, stdin=io.BytesIO(b"\n".join([*lines, b""])), stdout=out, **options)
    return out.getvalue(), said.buffer.getvalue().decode()  # type: ignore[attr-defined]


def compare(seed: int, count: int, *, labelled: bool = False) -> int:
    """Play each line alone and compare; return how many were ordinary."""
    rng = random.Random(seed)
    lines = [mutated(message(rng), rng) for _ in range(count)]
    found, read = [], OrdinaryReader.read

    def counting(self: OrdinaryReader, values: list[bytes], **how: Any) -> Any:
        batch = read(self, values, **how)
        found.append(batch is not None and batch.size == len(values))
        return batch

    with mock.patch.object(OrdinaryReader, "read", counting):
        ours = played(lines, save_every=1, labelled=labelled)
    with mock.patch.object(OrdinaryReader, "_compiled", None):
        theirs = played(lines, save_every=1, labelled=labelled)
    assert ours == theirs
    return sum(found)


@pytest.mark.skipif(not COMPILED, reason="this compiler's library reads no numbers")
@pytest.mark.parametrize("labelled", [False, True])
def test_each_line_is_answered_as_msgspec_has_it(labelled: bool) -> None:
    assert 800 < compare(0, 5000, labelled=labelled) < 4000


@pytest.mark.parametrize(
    "options",
    [
        {}, {"raw": ""}, {"digits": 3}, {"id": "order"}, {"id": "a.b"}, {"sets": 0.9},
        {"ask": 0.3}, {"ask": 0.3, "sets": 0.8}, {"labelled": True},
        {"labelled": True, "digits": 2},
    ],
    ids=str,
)  # fmt: skip
def test_batches_teach_and_answer_the_same(tmp_path: Path, options: dict[str, Any]) -> None:
    """Some lines are not ordinary, in places many; some rows do not sum to 1."""
    named = {name: options[name] for name in ("raw", "digits", "id") if name in options}
    options = {name: value for name, value in options.items() if name not in named}
    options["fields"] = Fields(**{"id": "id"} | named)
    labelled = options.get("labelled", False)
    rng, lines = random.Random(1), []
    for i in range(1500):
        p = [rng.random() for _ in range(4)]
        row = [one / sum(p) for one in p]
        if 100 <= i < 200:
            row = [round(one, 2) for one in row]
        probs: Any = row
        if 300 <= i < 600 or 1200 <= i < 1300:  # in places beside arrays, and in two orders
            order = [2, 0, 3, 1] if i >= 1250 else range(4)
            probs = {str(CLASSES[k]): row[k] for k in order}
        lines.append(json.dumps({"order": i, "id": f"x{i}", "probs": probs, "t": "é"}).encode())
        if labelled:
            own = rng.choice([*CLASSES, None])
            lines[-1] = lines[-1][:-1] + b"," + json.dumps({"label": own}).encode()[1:]
        else:
            late = {"order": i - 5, "id": f"x{i - 5}", "label": rng.choice(CLASSES)}
            lines.append(json.dumps(late).encode())
        if i in (700, 701, 750, 790) or 900 <= i < 930 or (i > 1300 and i % 19 == 0):
            lines.append(b'{"id": "y", "probs": 1}')
        if i % 83 == 0:
            lines.append(b'{"id": "x%d", "label": "of none"}' % (i - 7))
    states, outputs = [], []
    for way, ordinary in (("ours", OrdinaryReader._compiled), ("theirs", None)):
        state = tmp_path / way
        with mock.patch.object(OrdinaryReader, "_compiled", ordinary):
            outputs.append(played(lines, state=state, save_every=97, **options))
        states.append(state.read_bytes())
    assert states[0] == states[1]
    assert outputs[0] == outputs[1]
    assert outputs[0][0].count(b"\n") == 1500


class Pieces(io.BytesIO):
    """Input that comes in pieces of any size."""

    def __init__(self, data: bytes, rng: random.Random, sizes: list[int]) -> None:
        super().__init__(data)
        self.rng, self.sizes = rng, sizes

    def read1(self, _: int | None = -1) -> bytes:
        return super().read1(self.rng.choice(self.sizes))


@pytest.mark.parametrize("normalise", ["rounded", "always"])
def test_bits_do_not_depend_on_what_comes_in_the_same_read(tmp_path: Path, normalise: str) -> None:
    """Rows of few digits whose sums are within the tolerance, nearly or not, beside others."""
    rng, lines = random.Random(3), []
    for i in range(2000):
        row = [round(rng.random() / 3, 3) for _ in CLASSES]
        row[-1] = round(max(0, rng.choice([1, 1, 1.001, 0.999, 1.002]) - sum(row[:-1])), 3)
        if rng.random() < 0.3:
            row = (
                np.random.default_rng(i).dirichlet([1] * 4) * rng.choice([1, 1, 1.0009])
            ).tolist()
        probs: Any = row if rng.random() < 0.8 else dict(zip(map(str, CLASSES), row, strict=True))
        lines.append(json.dumps({"id": i, "probs": probs}).encode())
        if rng.random() < 0.3:
            lines.append(b'{"id":%d,"label":"a"}' % max(0, i - 3))
        if rng.random() < 0.05:
            lines.append(rng.choice([b"", b"{", b'{"probs":[1]}', b'{"probs":[0.5,0.5,0.5,0.5]}']))
    data, found = b"\n".join([*lines, b""]), set()
    for sizes in ([1 << 17], [1], [50, 200], [7, 5000]):
        state, out, said = tmp_path / f"{sizes}", io.BytesIO(), io.TextIOWrapper(io.BytesIO())
        with redirect_stderr(said):
            pipe(
                CLASSES, stdin=Pieces(data, rng, sizes), stdout=out, state=state,
                fields=Fields(normalise=normalise),  # type: ignore[arg-type]
            )  # fmt: skip
        found.add((out.getvalue(), state.read_bytes()))
    assert len(found) == 1
    assert out.getvalue().count(b"\n") > 1000


def test_a_class_may_be_written_in_more_ways_than_are_remembered(tmp_path: Path) -> None:
    """All in one batch, and the first of them again at its end."""
    texts = ["1", *("1." + "0" * k for k in range(1, 300)), "1"]
    lines = [f'{{"id":{i},"label":{text}}}'.encode() for i, text in enumerate(texts)]
    sent, said = played(lines, state=tmp_path / "state")
    assert sent == b""
    assert "301 of 301 labels so far name no prediction before them" in said
    learner = PipeState.from_bytes((tmp_path / "state").read_bytes()).learner
    assert learner.live[None, None].corrector.n_labels == len(texts)


class OneModel:
    """What a reader asks of models, where messages name none."""

    alike = True

    def classes(self) -> dict[Any, Any]:
        return {}

    def train(self, classes: Any) -> None:
        return None


@pytest.mark.parametrize("id", [None, "id"])
def test_records_are_read_and_answered_as_msgspec_has_it(id: str | None) -> None:
    """Alone and together; with headers, with no value, and near the limit of size; and in long
    batches with some such among ordinary ones."""
    rng, ordinary, cut = random.Random(5), 0, 0
    for _ in range(2000):
        n = rng.choice([1, 1, 3, 3, 60])
        odd = rng.choice([0.0, 0.02, 0.2]) if n == 60 else 1.0
        records = []
        for i in range(n):
            value, key, headers = b'{"id": %d, "probs": [0.3, 0.2, 0.4, 0.1]}' % i, None, ()
            if rng.random() < odd:
                value = rng.choice([mutated(message(rng), rng), value.replace(b"0.1", b"0.11")])
                key = rng.choice([b"k", None, b"x" * 200])
                headers = rng.choice([(), (), [("h", b"v")]])
                if rng.random() < 0.1:
                    value = None
            records.append(Record("t", 0, i, 0, key, value, headers))
        answers, limit = [], rng.choice([None, 500, 10_000])
        for way in (OrdinaryReader._compiled, None):
            with mock.patch.object(OrdinaryReader, "_compiled", way):
                models: Any = OneModel()
                messages = ModelMessages(
                    tuple(CLASSES), Fields(id=id), JSON, (), models, rows="dense"
                )
                (group,), bad = PredictionReader(messages, limit).parse(records)
                ordinary += any(not isinstance(run, list) for run in group.runs)
                cut += len(group.runs) > 1
                rows = np.ascontiguousarray(group.rows[:, ::-1])
                asked = ["margin" if i % 2 else None for i in range(len(rows))]
                answers.append(
                    (
                        list(group.places), group.ids, group.rows.tolist(), group.off, group.empty,
                        group.write(rows, asked), [(i, str(error)) for i, error in bad],
                    )
                )  # fmt: skip
        assert answers[0] == answers[1]
    assert ordinary > 100
    assert cut > 100


@pytest.mark.skipif(not COMPILED, reason="this compiler's library reads no numbers")
@pytest.mark.parametrize(("every", "alone"), [(200, 0.09), (2, 1.0), (10_000, 0.002)])
def test_few_messages_take_the_other_way_with_one_that_is_not_ordinary(
    every: int, alone: float
) -> None:
    """And of many few are read twice."""
    values = [b'{"id": 1, "probs": [0.3, 0.2, 0.4, 0.1]}'] * 10_000
    values[every // 2 :: every] = [b"{}"] * len(values[every // 2 :: every])
    messages = Messages(tuple(CLASSES))
    runs, at = list(messages.ordinary.runs(values)), 0
    for first, last, _ in runs:
        assert first == at < last
        at = last
    assert at == len(values)
    assert sum(last - first for first, last, batch in runs if batch is None) <= alone * len(values)
    assert len(runs) < 120


@pytest.mark.parametrize("needs_id", [False, True])
@pytest.mark.parametrize("id", [None, "id"])
def test_labels_are_read_as_msgspec_has_them(id: str | None, needs_id: bool) -> None:
    """Alone and together; some broken, with a row, of no class, or no labels at all."""
    rng, together = random.Random(7), 0
    for _ in range(2000):
        records = []
        for i in range(rng.choice([1, 3])):
            value = message(rng)
            while rng.random() < 0.9 and (b'"label"' not in value or b'"probs"' in value):
                value = message(rng)
            value = mutated(value, rng) if rng.random() < 0.3 else value
            key = rng.choice([b"k", None])
            records.append(Record("t", 0, i, 5, key, value if rng.random() < 0.97 else None))
        found = []
        for way in (OrdinaryReader._compiled, None):
            with mock.patch.object(OrdinaryReader, "_compiled", way):
                models: Any = OneModel()
                messages = ModelMessages(
                    tuple(CLASSES), Fields(id=id), JSON, (), models, rows="dense"
                )
                reader = LabelReader(messages, needs_id=needs_id)
                together += reader._ordinary_labels(records) is not None
                labels, places, bad, *rest = reader.parse(records)
                found.append(
                    (
                        [(one.id, one.label, one.row, one.time) for one in labels], places,
                        [(i, type(error), str(error)) for i, error in bad], rest,
                    )
                )  # fmt: skip
        assert str(found[0]) == str(found[1])
    assert together > 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    each = 20_000
    found = [
        compare(options.seed + i, each, labelled=i % 2 == 1) for i in range(options.count // each)
    ]
    print(f"{options.count} lines, {sum(found)} of them ordinary: equal")


if __name__ == "__main__":
    main()

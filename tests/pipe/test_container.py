"""Avro object container files through the pipe; fastavro writes and reads them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from stream_can.pipe.run import pipe

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c"]
SCHEMA: dict[str, Any] = {
    "type": "record", "name": "Seen", "doc": "predictions and labels",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "probs", "type": ["null", {"type": "array", "items": "double"}], "default": None},
        {"name": "label", "type": ["null", "string"], "default": None},
        {"name": "blob", "type": "bytes", "default": ""},
    ],
}  # fmt: skip


def records(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Predictions, and each label fifty later."""
    rng = np.random.default_rng(seed)
    found = []
    for i, row in enumerate(rng.dirichlet([0.4] * 3, n).tolist()):
        found.append({"id": f"{seed}-{i}", "probs": row, "label": None, "blob": b" \n"})
        if i >= 50:
            label = CLASSES[int(rng.integers(3))]
            found.append({"id": f"{seed}-{i - 50}", "probs": None, "label": label, "blob": b""})
    return found


def container(found: list[dict[str, Any]], schema: Any = SCHEMA, **options: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, found, **options)
    return out.getvalue()


def run(data: bytes, **options: Any) -> tuple[int, list[dict[str, Any]], bytes]:
    out = io.BytesIO()
    options = {"classes": CLASSES, "format": "avro"} | options
    code = pipe(stdin=io.BytesIO(data), stdout=out, **options)
    found = list(fastavro.reader(io.BytesIO(out.getvalue()))) if out.getvalue() else []
    return code, found, out.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy"])
def test_avro_and_lines_are_corrected_alike(codec: str) -> None:
    given = records(400)
    code, found, data = run(container(given, codec=codec, sync_interval=500))
    assert code == 0
    assert fastavro.reader(io.BytesIO(data)).codec == codec
    lines = b"".join(
        json.dumps({k: v for k, v in one.items() if v is not None and k != "blob"}).encode() + b"\n"
        for one in given
    )
    out = io.BytesIO()
    assert pipe(CLASSES, stdin=io.BytesIO(lines), stdout=out) == 0
    want = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["probs"] for one in found] == [one["probs"] for one in want]
    assert [one["probs_raw"] for one in found] == [one["probs_raw"] for one in want]
    assert [one["blob"] for one in found] == [b" \n"] * 400


def test_sets_are_those_of_lines(tmp_path: Path) -> None:
    """Also of a state that has them, without the setting."""
    given, state = records(300), tmp_path / "state.bin"
    code, found, _ = run(container(given[:300]), sets=0.8, state=state)
    assert code == 0
    _, more, _ = run(container(given[300:]), state=state)
    lines = b"".join(
        json.dumps({k: v for k, v in one.items() if v is not None and k != "blob"}).encode() + b"\n"
        for one in given
    )
    out = io.BytesIO()
    assert pipe(CLASSES, stdin=io.BytesIO(lines), stdout=out, sets=0.8) == 0
    want = [json.loads(line)["set"] for line in out.getvalue().splitlines()]
    assert [one["set"] for one in found + more] == want
    assert len({len(one) for one in want}) > 1


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
def test_rows_of_several_labels_are_those_of_lines(by_name: bool, labelled: bool) -> None:
    rng = np.random.default_rng(0)
    type_: dict[str, Any] = {"type": "array", "items": "string"}
    if by_name:
        type_ = {"type": "map", "values": "boolean"}
    scores = {"type": "array", "items": "double"}
    schema = {"type": "record", "name": "Seen", "fields": [
        {"name": "id", "type": "long"},
        {"name": "scores", "type": ["null", scores], "default": None},
        {"name": "labels", "type": ["null", type_], "default": None},
    ]}  # fmt: skip
    given: list[dict[str, Any]] = []
    for i, row in enumerate(rng.beta(0.4, 0.6, (300, 3)).tolist()):
        has = {name: bool(rng.random() < p * 0.5) for name, p in zip(CLASSES, row, strict=True)}
        labels: Any = has if by_name else [name for name in CLASSES if has[name]]
        given.append({"id": i, "scores": row, "labels": labels if labelled else None})
        if not labelled:
            given.append({"id": i, "scores": None, "labels": labels})
    code, found, _ = run(container(given, schema), rows="multilabel", labelled=labelled)
    assert code == 0
    lines = b"".join(
        json.dumps({k: v for k, v in one.items() if v is not None}).encode() + b"\n"
        for one in given
    )
    out, options = io.BytesIO(), {"rows": "multilabel", "labelled": labelled}
    assert pipe(CLASSES, stdin=io.BytesIO(lines), stdout=out, **options) == 0
    want = [json.loads(line) for line in out.getvalue().splitlines()]
    names = ("id", "scores", "scores_raw", "set")
    assert [{n: one[n] for n in names} for one in found] == [
        {n: one[n] for n in names} for one in want
    ]
    assert {len(one["set"]) for one in found} >= {0, 1, 2}


def test_the_state_goes_on_in_the_next_file(tmp_path: Path) -> None:
    first, second = records(200), records(200, 1)
    code, whole, _ = run(container(first + second))
    assert code == 0
    state = tmp_path / "state.bin"
    parts = [run(container(part), state=state)[1] for part in (first, second)]
    assert parts[0] + parts[1] == whole
    # A file that begins again: what the state covers is passed over.
    assert run(container(first + second), state=state, skip=True)[1] == []


def test_bad_records_are_dead_letters_and_bad_files_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = tmp_path / "letters.jsonl"
    given = records(3)
    given[1]["probs"] = [2.0, 0.0, 0.0]
    code, found, _ = run(container(given), dead_letters=letters)
    assert (code, len(found)) == (0, 2)
    (letter,) = map(json.loads, letters.read_text().splitlines())
    assert letter["record"] == 2
    assert letter["error"].startswith("InvalidPrediction: probs: ")
    assert run(container(given), errors="fail")[0] == 1
    assert "record 2: InvalidPrediction" in capsys.readouterr().err
    data = container(records(300), sync_interval=1000)
    for bad, code, says in (
        (b'{"probs": [1]}\n', 2, "no Avro object container file: "),
        (b"", 2, "no Avro object container file"),
        (data[:-30], 1, "a block of the container file: "),
        (data[:-1] + b"\0", 1, "a block of the container file: "),
        (container([{"x": 1}], {"type": "record", "name": "X", "fields": [
            {"name": "x", "type": "int"}]}), 2, "no field 'probs'"),
    ):  # fmt: skip
        assert run(bad)[0] == code, says
        assert says in capsys.readouterr().err
    assert run(data, format="protobuf")[0] == 2
    assert "format: 'protobuf', expected 'json' or 'avro'" in capsys.readouterr().err


def test_ask_and_labelled() -> None:
    given = [one | {"label": "a"} for one in records(300) if one["probs"]]
    code, found, _ = run(container(given), labelled=True)
    assert code == 0
    assert found[-1]["probs"] != found[-1]["probs_raw"]
    code, found, _ = run(container(records(300)), ask=0.2)
    assert code == 0
    assert {one["ask"] for one in found} == {None, "random", "margin"}


def test_as_a_program_block_by_block(tmp_path: Path) -> None:
    """What has been read is written before more comes."""
    command = [sys.executable, "-m", "stream_can", "pipe", "--classes", "a,b,c", "--format", "avro"]
    process = subprocess.Popen(
        [*command, "--state", str(tmp_path / "s")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    data = container(records(120), sync_interval=2000)
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    at = blocks[1].offset
    process.stdin.write(data[:at])
    process.stdin.flush()
    assert process.stdout.read(4) == b"Obj\x01"  # the answers' header, and the first block's
    process.stdin.write(data[at:])
    process.stdin.close()
    rest = process.stdout.read()
    assert process.wait(280) == 0
    found = list(fastavro.reader(io.BytesIO(b"Obj\x01" + rest)))
    assert len(found) == 120
    process.stdout.close()


def test_replay_reads_container_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    given = [
        {"id": str(i), "probs": row, "label": CLASSES[int(rng.choice(3, p=row))], "blob": b""}
        for i, row in enumerate(rng.dirichlet([1] * 3, 500).tolist())
    ]
    avro, lines = tmp_path / "seen.avro", tmp_path / "seen.jsonl"
    avro.write_bytes(container(given, codec="deflate"))
    lines.write_text("".join(json.dumps(one | {"blob": ""}) + "\n" for one in given))

    def verdict(path: Path, *late: str) -> Any:
        command = [sys.executable, "-m", "stream_can", "replay", str(path), "--classes", "a,b,c"]
        command += [*late, "--json"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return {k: v for k, v in found.items() if "second" not in k and k not in ("file", "deploy")}

    late = "--label-delay", "20"
    assert verdict(avro, *late) == verdict(lines, *late)
    mixed, apart = records(300), tmp_path / "mixed.avro"  # labels are records of their own
    apart.write_bytes(container(mixed))
    lines.write_text("".join(json.dumps({k: v for k, v in one.items() if v and k != "blob"}) + "\n"
                             for one in mixed))  # fmt: skip
    assert verdict(apart) == verdict(lines)
    broken = tmp_path / "broken.avro"
    broken.write_bytes(avro.read_bytes()[:-20])
    command = [sys.executable, "-m", "stream_can", "replay", str(broken), "--label-delay", "1"]
    failed = subprocess.run(command, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "broken.avro: after record " in failed.stderr


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy"])
def test_a_block_unpacks_to_so_much_at_most(codec: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Some 100 kB that stand for 200 MB: refused before the memory is taken."""
    large = [{"id": "a", "probs": [0.2, 0.3, 0.5], "label": None, "blob": bytes(200 << 20)}]
    data = container(large, codec=codec)
    tracemalloc.start()
    assert run(data)[0] == 1
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "unpacks to over 64 MB" in capsys.readouterr().err
    assert most < 160 << 20


def test_a_block_is_not_waited_for_whatever_its_size(capsys: pytest.CaptureFixture[str]) -> None:
    head = container([])
    assert run(head + b"\x02" + b"\xfe" * 8 + b"\x01" + head)[0] == 1
    assert "64 MB at most" in capsys.readouterr().err


def test_a_codec_that_nobody_has_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    data = container(records(60)).replace(b"\x14avro.codec\x08null", b"\x14avro.codec\x10nonsense")
    code, found, out = run(data)
    assert (code, found, out) == (2, [], b"")
    assert "codec 'nonsense': " in capsys.readouterr().err

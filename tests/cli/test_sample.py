"""``stream-can sample``: the files that the documentation's commands are tried on."""

import json

import pytest

from tests.cli.command import stream_can

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "new folder"
    out, _ = stream_can("sample", folder)
    return folder, out


def test_the_messages_are_the_recording_in_the_order_of_time(sample):
    folder, _ = sample
    head, *rows = (line.split(",") for line in (folder / "recorded.csv").read_text().splitlines())
    rows = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    lines = [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]
    times = [line["time"] for line in lines]
    assert times == sorted(times)
    predicted = set()
    labels = {}
    for line in lines:
        row = rows[line["id"]]
        if "probs" in line:
            assert line["id"] not in predicted
            predicted.add(line["id"])
            assert line["carrier"] == row["carrier"]
            assert abs(sum(line["probs"].values()) - 1) < 0.001
            for name, p in line["probs"].items():
                assert float(row[f"probs_{name}"]) == p
        else:
            assert line["id"] in predicted
            labels[line["id"]] = line["label"]
    assert predicted == rows.keys()
    assert labels == {name: row["label"] for name, row in rows.items() if row["label"]}
    assert 0 < len(rows) - len(labels) < 0.01 * len(rows)  # diverted: no label comes
    first = min(row["time"] for row in rows.values())
    validation = (folder / "validation.csv").read_text().splitlines()
    assert validation[0].split(",") == head
    assert max(line.split(",")[-1] for line in validation[1:]) < first[:11] + "24"


def test_what_is_there_already_is_not_replaced(sample):
    folder, out = sample
    assert stream_can("sample", folder)[0] == out  # the same again
    lines = folder / "lines.jsonl"
    before = lines.read_bytes()
    lines.write_bytes(b"mine")
    try:
        _, err = stream_can("sample", folder, code=1)
        assert "lines.jsonl: exists with other content; move it, or name another folder" in err
        assert lines.read_bytes() == b"mine"
    finally:
        lines.write_bytes(before)

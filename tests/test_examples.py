"""Every example runs as a user would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, *arguments, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *arguments],
        cwd=folder,
        env=os.environ | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def change(text, name):
    before, after = map(float, re.search(rf"{name} ([\d.]+) -> ([\d.]+)", text).groups())
    return after - before


@pytest.mark.fast
@pytest.mark.parametrize("name", ["quickstart.py", "delayed_labels.py"])
def test_examples_improve_what_they_correct(name, tmp_path):
    text = run(name, folder=tmp_path)
    assert change(text, "accuracy") > 0
    assert change(text, "log loss") < -0.05


@pytest.mark.fast
def test_a_scikit_learn_classifier_whose_class_mix_drifts(tmp_path):
    text = run("sklearn_drift.py", folder=tmp_path)
    found = re.findall(r"accuracy ([\d.]+) %  log loss ([\d.]+)  ECE ([\d.]+) %", text)
    raw, once, ours = (tuple(map(float, row)) for row in found)
    assert ours[0] > max(raw[0], once[0]) + 1
    assert ours[1] < min(raw[1], once[1]) - 0.03
    assert ours[2] < min(raw[2], once[2])
    assert "5,900 labels" in text


@pytest.mark.fast
def test_labels_that_are_asked_for_teach_more_than_as_many_at_random(tmp_path):
    text = run("label_requests.py", folder=tmp_path)
    asked, drawn = map(int, re.search(r"labels: (\d+) asked for, (\d+) at random", text).groups())
    assert 0.95 * 500 < asked < 1.05 * 500
    assert abs(asked - drawn) < 10
    before, at_random = map(float, re.search(r"accuracy ([\d.]+) .*random ([\d.]+)", text).groups())
    assert change(text, "accuracy") > at_random - before + 0.002 > 0.1
    assert change(text, "log loss") < -0.5


@pytest.mark.fast
def test_replay_of_a_csv(tmp_path):
    drifting, still = run("replay_csv.py", folder=tmp_path).strip().split("\n\n")
    assert drifting.startswith("drifting: Use it: more predictions are right, accuracy 76.60 %")
    assert still.startswith("still: It does nothing here, neither good nor bad: accuracy 76.96 %")


@pytest.mark.fast
def test_a_thousand_tenants(tmp_path):
    text = run("tenants.py", folder=tmp_path)
    groups = text.split(" rows of ")[1:]
    assert len(groups) == 4
    for group in groups:
        found = re.findall(r"accuracy ([\d.]+)  log loss ([\d.]+)", group)
        raw, together, ours = (tuple(map(float, row)) for row in found)
        assert ours[0] > max(raw[0], together[0]) + 0.015
        assert ours[1] < min(raw[1], together[1]) - 0.03


@pytest.mark.long
@pytest.mark.parametrize("last", [3, pytest.param(12, marks=pytest.mark.release)])
def test_flights(tmp_path, last):
    """The demo, on its first month; and on the whole year, with what the README says of it."""
    text = run("flights.py", "--last-month", str(last), folder=tmp_path)
    row = next(line for line in text.splitlines() if line.strip().startswith("all")).split()
    raw, can, mixture, columns = map(float, row[2:6])
    assert mixture > raw + 1
    assert columns > mixture + 1
    page = (tmp_path / "out" / "flights.html").read_text()
    assert page.count("<svg") == 10
    if last < 12:
        return
    assert row[1] == "284,821"
    assert raw == pytest.approx(32.0, abs=0.3)
    assert mixture - raw > 3.6
    assert columns - mixture > 3
    said = " ".join(text.split())
    assert re.search(r"39\.\d % right, log loss 1\.4\d\d with the columns carrier, origin", said)
    assert can - raw < -3
    for month in ("Mar", "Jun", "Sep", "Dec"):
        line = next(line for line in text.splitlines() if line.strip().startswith(month)).split()
        assert float(line[4]) > float(line[2]), "every month gains"
    assert "On 284,821 flights the corrected rows are right +3." in text
    assert "CAN alone would have cost" in page
    assert int(re.search(r"With one label in 20 it would keep (\d+) %", page)[1]) >= 48


def test_several_labels_a_flight(tmp_path):
    text = run("flight_labels.py", "--last-month", "3", folder=tmp_path)
    assert text.startswith("28,834 flights, 5 labels")
    raw, after = map(float, re.search(r"log loss of a flight ([\d.]+) -> ([\d.]+)", text).groups())
    assert after < raw - 0.06
    micro = re.search(r"micro F1 ([\d.]+) % -> [\d.]+ % from 0.5 on, ([\d.]+) %", text)
    assert float(micro[2]) > float(micro[1]) + 8
    for one in re.findall(r"F1 +([\d.]+) % -> +([\d.]+) %$", text, re.MULTILINE):
        assert float(one[1]) > float(one[0]) + 4


def lists_of(text):
    """Of each table of an example with lists of classes, by row: hits at 1, 5 and 10, log loss."""
    tables = []
    for line in text.splitlines():
        found = re.fullmatch(
            r"  (.+?) +hit@1 ([\d.]+) %  hit@5 ([\d.]+) %  hit@10 ([\d.]+) %  log loss ([\d.]+)",
            line,
        )
        if found:
            if found[1] == "as sent":
                tables.append({})
            tables[-1][found[1]] = tuple(map(float, found.groups()[1:]))
    assert all(len(table) == 4 for table in tables)
    return tables


def test_the_next_word_of_another_text(tmp_path):
    (found,) = lists_of(run("next_word.py", "--words", "3000", folder=tmp_path))
    sent, told, few, late = found.values()
    assert told[0] > sent[0] + 1
    assert told[1] > sent[1]
    assert told[3] < few[3] < sent[3] - 0.2
    assert told[3] < late[3] < sent[3] - 0.2


@pytest.mark.release
def test_what_is_imported_next(tmp_path):
    plain, divided = lists_of(run("top_n.py", folder=tmp_path))
    for sent, told, few, late in (plain.values(), divided.values()):
        assert told[0] > sent[0] + 1
        assert told[2] > sent[2] + 1
        assert told[3] < few[3] < sent[3] - 0.3
        assert late[3] < sent[3] - 0.3
    assert divided["as sent"][2] > plain["as sent"][2]


@pytest.mark.release
def test_labels_that_are_scored_at_all(tmp_path):
    text = run("label_partition.py", "--rows", "1000", folder=tmp_path)
    every, parted = lists_of(text)
    for sent, told, _, _ in (every.values(), parted.values()):
        assert told[0] > sent[0] - 0.5
        assert told[3] < sent[3] - 0.1
    all_labels, few_labels = map(int, re.findall(r"([\d,]+) labels scored", text.replace(",", "")))
    assert few_labels < all_labels / 5
    assert "times faster" in text
    assert parted["as sent"][2] > 0.6 * every["as sent"][2]

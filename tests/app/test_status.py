"""The document behind the page, and what it says is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_can.app.history import History
from stream_can.app.metrics import LEARNER
from stream_can.app.status import Backlog, Status
from stream_can.column_scores import ColumnScores
from tests.app.small import BEGIN, Small, counted


def test_what_is_wrong_comes_first_and_says_what_to_do() -> None:
    begun = "good: Nothing is wrong; {} come since this process started"
    assert Small().first() == begun.format("no scored labels have") + "."
    young = Small()
    young.add(5, predictions=1, labels=1, matched=1, scored=1, log_loss_before=2, log_loss_after=1)
    few = ", too few to say whether it helps."
    assert young.first() == begun.format("1 scored label has") + few
    fine = Small()
    fine.labelled(0.9)
    assert fine.first() == (
        "good: The correction helps: over the last hour the accuracy goes from 50.0 % to 52.0 %"
        " (+2.0 to +2.0 points), the log loss from 1.000 to 0.910 (-0.091 to -0.089)."
    )
    assert len(fine.status_report.status(BEGIN).problems) == 1
    worse = Small()
    worse.add(5, predictions=1, labels=1, matched=1, scored=1, log_loss_before=1, log_loss_after=2)
    assert worse.first().startswith(
        "doubt: Too early to say, the log loss is worse so far: 1 scored"
    )
    unsure = Small()
    unsure.labelled(0.99, hits=24)
    assert unsure.first().startswith("doubt: The accuracy is worse so far, too early to say: over")
    nobody = Small()
    nobody.metrics.lags({("unowned", p): 9 for p in range(5)})
    assert nobody.first().startswith(
        "bad: 45 records wait in partitions 0, 1, 2 and 2 more: no worker has corrected"
    )
    nameless = Small()
    nameless.add(5, predictions=100, labels=1, without_id=12)
    assert nameless.first().startswith("doubt: 12 of 100 predictions of the last hour have no id")
    doubtful = Small()
    doubtful.labelled(0.99, hits=25)
    assert doubtful.first().startswith("good: No harm, and no significant gain: ")
    early = Small()
    early.add(5, labels=200, matched=200, scored=200, hits_before=99, hits_after=120,
              log_loss_before=200, log_loss_after=150)  # fmt: skip
    assert early.first().startswith("good: No harm, and too early to say whether it helps: ")

    harms = Small()
    harms.labelled(1.2)
    assert harms.first().startswith("bad: The correction harms: over the last hour the log loss is")

    hangs = Small()
    hangs.labelled(0.9)
    hangs.health.live_seconds = -1
    assert hangs.first().startswith("bad: The worker hangs")

    starts = Small()
    starts.health.ready = False
    assert starts.first().startswith("bad: The worker corrects nothing now")
    starts.status_report._since = BEGIN - 20
    assert starts.first().startswith("doubt: The worker corrects nothing now")

    still = Small()
    still.metrics.lags({("input", 0): 70, ("labels", 0): 5})
    assert still.first().startswith("bad: The worker stands still: 70 records wait")

    behind = Small()
    behind.metrics.lags({("input", 0): 70})
    behind.metrics.handed_over(Backlog(20_000))
    assert behind.first() == (
        "doubt: A backlog: 20,000 records wait for the learner, which corrects them in the order"
        " of time."
    )
    behind.metrics.handed_over(Backlog(20_000, 600.0, 100.0))
    assert behind.first().endswith("at 600 a second: about 40 seconds are left.")
    behind.metrics.handed_over(Backlog(20_000, 600.0, 600.0))
    assert behind.first().endswith("at 600 a second while 600 come: they do not become fewer.")
    behind.metrics.given_up("aborted")
    assert behind.status_report.status(BEGIN).backlog is None

    learner = Small(corrects=False)
    learner.metrics.unlearned_batches = Backlog(300)
    assert learner.first() == (
        "doubt: Learning is behind: 300 batches of predictions wait, and are learned in the"
        " order of time."
    )
    learner.metrics.unlearned_batches = Backlog(300, 20.0, 5.0)
    assert learner.first().endswith(
        "wait, and are learned at 20 a second: about 20 seconds are left."
    )
    learner.metrics.unlearned_batches = Backlog(300, 20.0, 30.0)
    assert learner.first().endswith("at 20 a second while 30 come: they do not become fewer.")
    learner.metrics.learns(None)
    assert learner.status_report.status(BEGIN).unlearned_batches is None

    dead = Small()
    dead.add(5, predictions=100, dead_letters=2)
    assert dead.first().startswith("bad: 2 of 100 records of the last hour could not be read")

    aborts = Small()
    aborts.add(5, commits=10, given_up=4)
    assert aborts.first().startswith("bad: 4 of 14 transactions")

    deaf = Small()
    deaf.add(5, predictions=100)
    assert deaf.first().startswith("doubt: No label has come for an hour")

    lost = Small()
    lost.add(5, predictions=100, labels=100, unmatched=60, matched=40)
    assert lost.first().startswith("doubt: 60 of 100 labels of the last hour found no prediction")

    early = Small()
    early.add(5, predictions=1000, labels=1000, matched=988, unmatched=12, early=12)
    assert early.first().startswith("doubt: 12 labels of the last hour were given up before their")

    alone = Small()
    alone.health.unlearned = 45.0
    assert alone.first() == ("bad: Nobody learns: what was sent 45 seconds ago is in no state yet.")
    alone.metrics.handed_over(Backlog(1200))
    said = alone.status_report.status(BEGIN).problems[0]
    assert said.do.endswith("1,200 records wait for it, others are corrected by the newest state.")
    elsewhere = Small()
    del elsewhere.metrics.partitions[LEARNER]
    assert elsewhere.first().endswith("labels are scored by the process that learns.")

    idle = Small()
    idle.metrics.partitions = {}
    assert idle.first() == "doubt: This worker has no partition."
    learns = Small(corrects=False)
    assert learns.first().startswith("good: Nothing is wrong")
    learns.metrics.partitions = {}
    assert learns.first() == (
        "doubt: This process does not learn now: another one does, or it is taking over from that."
    )

    none = Small(has_labels=False)
    assert none.first().startswith("good: Nothing is wrong; without labels")
    for one in (fine, harms, hangs, starts, still, dead, aborts, deaf, lost, early, none):
        assert all(problem.do for problem in one.status_report.status(BEGIN).problems)


def test_records_a_second_are_of_the_time_that_the_process_ran() -> None:
    """From the first record on."""
    small, now = Small(), BEGIN + 4  # the last slot began 4 s ago, the last step 54 s
    small.status_report._since = now - 84

    def course() -> list[float | None]:
        found = small.status_report.status(now)
        assert found.records_per_second == (found.hour_course.rates[-1] or 0.0)
        assert len(found.day_course.rates) == 96
        return found.hour_course.rates

    small.metrics.history.record(now - 60, predictions=90)  # its step has 30 s of the process
    assert course() == [None] * 58 + [3, 0]
    small.metrics.history.record(now, predictions=108)
    assert course() == [None] * 58 + [3, 2]
    assert small.status_report.status(now).day_course.rates[-1] == 198 / 84
    small.status_report._since = now - 7200
    assert course() == [0] * 58 + [90 / 60, 2]
    small.status_report._since = now
    assert course() == [None] * 60


def test_silent_classes_are_named() -> None:
    small = Small()
    rng, corrector = np.random.default_rng(0), small.known.corrector
    for y in rng.integers(3, size=300):
        p = np.full(3, 0.1) + 0.7 * np.eye(3)[y]
        corrector.process_one(p)
        if y < 2:
            corrector.learn_one(p, "ab"[y])
    first = small.first()
    assert first == "doubt: No label of “refund” has come: excluded from learning."
    (found,) = small.status_report.status(BEGIN).learned
    assert (found.silent, found.n_silent) == (["refund"], 1)
    assert found.coverage == corrector.coverage < 1
    assert [c.name for c in found.classes][-1] in ("a", "b", "refund")
    assert sum(c.taken for c in found.classes) == pytest.approx(1)
    assert sum(c.labels or 0 for c in found.classes) == pytest.approx(1)
    assert next(c.labels for c in found.classes if c.name == "refund") == 0


def test_many_classes_are_the_largest_and_names_are_text() -> None:
    odd = ["<b>&\u2028\x1b[31m", "x" * 500, "ü"]
    small = Small([*odd, *map(str, range(3, 1000))])
    text = small.status_report.json()
    assert len(text) < 60_000
    found = msgspec.json.decode(text, type=Status)
    assert found.n_classes == 1000
    assert len(found.learned[0].classes) == 300
    names = [one.name for one in found.learned[0].classes]
    assert names[0] == odd[0]
    assert names[2] == "ü"
    assert max(map(len, names)) == 80


def test_values_of_columns_are_the_heaviest_and_names_are_text() -> None:
    small = Small()
    assert small.status_report.status(BEGIN).columns == []
    rows = {f"v{i}": 200 - i for i in range(120)} | {"<b>" + "x" * 500: 900}
    column = counted(rows, {"v0": 20, "v118": 30})
    small.metrics.values = {"customer.country": column, "y" * 500: ColumnScores()}
    found = msgspec.json.decode(small.status_report.json(), type=Status)
    first, second = found.columns
    said = (first.name, first.rows, first.labels, first.few)
    assert said == ("customer.country", sum(rows.values()), 50, None)
    assert (len(second.name), second.values) == (80, [])
    assert [one.rows for one in first.values] == [900, *range(200, 151, -1)]
    assert first.values[0].value.startswith("<b>x")
    assert len(first.values[0].value) == 80
    assert first.values[0].accuracy_before is first.values[0].calibration_after is None
    truth, one = column.values()[1], first.values[1]
    assert (one.value, one.labels, one.scored) == ("v0", 20, 20)
    assert (one.accuracy_before, one.accuracy_after) == truth.accuracy
    assert (one.log_loss_before, one.log_loss_after) == truth.log_loss
    assert (one.calibration_before, one.calibration_after) == truth.calibration


def test_labels_of_few_values_are_a_doubt_that_names_them() -> None:
    small = Small()
    rows = {f"v{i}": 1000 for i in range(10)}
    small.metrics.values = {"tenant": counted(rows, {"v3": 199})}
    assert small.first().startswith("good")  # too few to say it
    small.metrics.values = {"tenant": counted(rows, {"v3": 300, "v4": 100})}
    assert small.first() == (
        "doubt: 100 % of the labels come from 20 % of the rows, those with tenant “v3”, “v4”."
    )
    small.metrics.values = {"tenant": counted(rows, dict.fromkeys(rows, 40))}
    assert small.first().startswith("good")


def test_the_document_before_the_first_record_has_no_numbers_that_are_none() -> None:
    small = Small()
    small.known, small.metrics.partitions = None, {}
    found = json.loads(small.status_report.json(), parse_constant=pytest.fail)
    assert found["version"] == 2
    assert found["hour"]["accuracy"] is found["lag"] is found["hour"]["delay_to"] is None
    assert found["learned"] == found["partitions"] == found["dead_letters"] == []
    assert len(found["hour_course"]["records"]) == 60
    assert len(found["day_course"]["records"]) == 96
    assert found["hour_course"]["seconds"] == 60
    assert found["day_course"]["seconds"] == 900


def test_every_field_of_the_document_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs" / "live.md").read_text()
    seen: set[type] = set()

    def walk(type_: Any) -> Iterator[str]:
        for part in getattr(type_, "__args__", ()):
            yield from walk(part)
        if isinstance(type_, type) and issubclass(type_, msgspec.Struct) and type_ not in seen:
            seen.add(type_)
            for field in msgspec.structs.fields(type_):
                yield field.name
                yield from walk(field.type)

    missing = [name for name in walk(Status) if f"`{name}`" not in text]
    assert missing == []
    assert f"{History().nbytes:,} bytes" in text

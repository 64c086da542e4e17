"""The live page: a day in bounded memory, a document that is true, a page that lets nothing in."""

from __future__ import annotations

import html.parser
import itertools
import json
import random
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector
from stream_can.app.health import Health
from stream_can.app.history import History, Ring, Slots
from stream_can.app.known import Committed, Known
from stream_can.app.letters import KEPT, letter, without_payload
from stream_can.app.live import live_page
from stream_can.app.look import Look
from stream_can.app.metrics import Metrics
from stream_can.app.port import Port
from stream_can.app.shown import shown
from stream_can.app.status import Status
from stream_can.column_scores import ColumnScores, outcomes
from stream_can.messages.records import Output, Record
from tests.chromium import Browser
from tests.kafka.broker.broker import Broker
from tests.kafka.served import answer, ready
from tests.kafka.streams import CLASSES, STAMP, STEADY, App, caught_up, fill, prediction, scores
from tests.kafka.topics import produce
from tests.messages.task import Counts
from tests.programs import wait

fast = pytest.mark.fast
BEGIN = 1_800_000_000.0
STATED = 171_072
"""Bytes of the history, as docs/live.md states."""


# -- the history ---------------------------------------------------------------------------------


@fast
def test_a_day_stays_within_the_stated_memory() -> None:
    """A commit a second, with delays; a day and then a second day."""
    history = History()
    tracemalloc.start()
    try:
        for second in range(0, 2 * 86_400, 4):
            history.add(BEGIN + second, [0.5, 7200.0], predictions=1, commits=1, scored=1)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert history.nbytes <= STATED
    assert grown < 10_000, "it grows"
    day = history.day.last(BEGIN + 2 * 86_400 - 1)
    assert day.total("predictions") == 86_400 / 4
    assert history.hour.last(BEGIN + 2 * 86_400 - 1).total("predictions") == 900
    assert day.delay(0.9) == (3600, 21600)
    assert day.delay(0.1) == (0, 1)


@fast
@given(
    st.lists(st.tuples(st.floats(0, 400), st.integers(0, 100)), max_size=60),
    st.floats(0, 400),
)
def test_a_ring_holds_its_newest_slots(steps: list[tuple[float, int]], later: float) -> None:
    """Against a dictionary of every slot there ever was."""
    ring, every, now = Ring(10, 12), {}, BEGIN
    for ahead, amount in steps:
        now += ahead
        ring.slot(now)[0] += amount
        every[int(now // 10)] = every.get(int(now // 10), 0) + amount
    now += later
    newest = int(now // 10)
    expected = [every.get(number, 0) for number in range(newest - 11, newest + 1)]
    assert ring.last(now)["predictions"].tolist() == expected
    assert ring.last(now, 5)["predictions"].tolist() == expected[-5:]


@fast
def test_a_clock_that_was_set_back_adds_to_the_newest() -> None:
    history = History()
    history.add(BEGIN, predictions=3)
    history.add(BEGIN - 7000, predictions=4)
    assert history.hour.last(BEGIN - 7000).total("predictions") == 7
    assert history.hour.last(BEGIN).total("predictions") == 7


def filled(slots: int, rng: np.random.Generator, shift: float = 0.0) -> Slots:
    """Slots of unequal numbers of labels, each slot with a level of its own."""
    history = History()
    for slot in range(slots):
        n = int(rng.integers(1, 60))
        level = 0.2 * rng.standard_normal()
        before = rng.exponential(1.0, n) + level
        after = before + shift + 0.3 * rng.standard_normal() + rng.standard_normal(n)
        history.add(BEGIN + 10 * slot, scored=n, log_loss_before=float(before.sum()),
                    log_loss_after=float(after.sum()))  # fmt: skip
    return history.hour.last(BEGIN + 10 * slots - 1)


@fast
def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Slots whose labels go up and down together, which one label by one would be too sure of."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(600):
        found = filled(int(rng.integers(5, 40)), rng, shift=0.1).change("log_loss")
        assert found is not None
        assert found.interval is not None
        inside += found.interval[0] <= 0.1 <= found.interval[1]
    assert 0.91 <= inside / 600 <= 0.98


@fast
def test_too_few_slots_say_nothing_of_how_sure() -> None:
    rng = np.random.default_rng(1)
    assert filled(4, rng).change("log_loss").interval is None  # type: ignore[union-attr]
    assert filled(5, rng).change("log_loss").interval is not None  # type: ignore[union-attr]
    assert History().hour.last(BEGIN).change("log_loss") is None


@fast
def test_merged_slots_keep_sums_and_peaks() -> None:
    history = History()
    for slot, lag in enumerate((5, 900, 7)):
        history.add(BEGIN + 10 * slot, predictions=2, lag=lag)
    minutes = history.hour.last(BEGIN + 59).merged(6)
    assert minutes["predictions"][-1] == 6
    assert minutes["lag"][-1] == 900


# -- dead letters --------------------------------------------------------------------------------


def dead(error: str, message: str) -> Output:
    says = {
        "topic": "in", "partition": "3", "offset": "17",
        "exception.class.name": f"stream_can.{error}", "exception.message": message,
    }  # fmt: skip
    headers = [(f"__connect.errors.{name}", text.encode()) for name, text in says.items()]
    source = Record("in", 3, 17, STAMP, b"key-secret", b"value-secret")
    return Output(source.key, source.value, [("h", b"secret"), *headers], STAMP, source)


@fast
@pytest.mark.parametrize(
    ("error", "message", "shown"),
    [
        ("UnknownClass", "label: se'cret is none of the 3 classes", "a name is none of the 3"),
        (
            "UnknownClass",
            "'sec is none of the 9 cret' is none of the 3 classes",
            "of the 3 classes",
        ),
        ("BadMessage", "no field 'probs'", "no field 'probs'"),
        ("BadMessage", "probs: at 'secret': it", "probs: at '…': it"),
        ("BadMessage", "at \"se\\\"cr'et\" or 's\\'ecret'", "at '…' or '…'"),
        ("InvalidPrediction", "probabilities sum to 1.3, expected 1", "sum to 1.3"),
    ],
)
def test_a_dead_letter_shows_nothing_of_what_was_in_it(
    error: str, message: str, shown: str
) -> None:
    found = letter(dead(error, message), 5.0, ["probs"])
    assert shown in found.reason
    assert "cret" not in msgspec.json.encode(found).decode()
    assert (found.topic, found.partition, found.offset, found.error) == ("in", 3, 17, error)


@fast
@given(st.text(max_size=40))
def test_no_text_of_a_record_gets_through(text: str) -> None:
    said = without_payload("BadMessage", f"probs: at {text!r}: what", ["probs"])
    assert said == ("probs: at 'probs': what" if text == "probs" else "probs: at '…': what")


# -- the document --------------------------------------------------------------------------------


class Small:
    """A worker's numbers without a worker."""

    def __init__(self, classes: Any = ("a", "b", "refund"), *, has_labels: bool = True) -> None:
        self.health, self.metrics = Health(60), Metrics()
        self.health.ready = True
        zero = {"before": 0, "after": 0}
        counts = msgspec.to_builtins(Counts())
        self.metrics.partitions = {0: Committed(counts, 0, zero, {**zero}, None)}
        self.known = {0: Known(Corrector(classes), 3, None, None)}
        self.look = Look(
            "app", "0", has_labels=has_labels, health=self.health,
            metrics=self.metrics, known=lambda: self.known,
        )  # fmt: skip
        self.look._since = BEGIN - 7200

    def add(self, seconds: float, **amounts: float) -> None:
        self.metrics.history.add(BEGIN - seconds, **amounts)

    def first(self) -> str:
        said = self.look.status(BEGIN).problems[0]
        return f"{said.level}: {said.what}"

    def labelled(self, after: float, hits: int = 26) -> None:
        """An hour of labels: log loss from 1 to ``after``, hits of 50 from 25 to ``hits``."""
        for slot in reversed(range(100)):
            self.add(30 * slot, predictions=50, labels=50, matched=50, scored=50, hits_before=25,
                     hits_after=hits, log_loss_before=50, log_loss_after=50 * after + slot % 2,
                     commits=10)  # fmt: skip


@fast
def test_what_is_wrong_comes_first_and_says_what_to_do() -> None:
    assert Small().first() == ("good: Nothing is wrong; no label that counts has come yet.")
    fine = Small()
    fine.labelled(0.9)
    assert fine.first().startswith(
        "good: It helps: over the last hour the accuracy goes from 50.0%"
    )
    assert len(fine.look.status(BEGIN).problems) == 1
    doubtful = Small()
    doubtful.labelled(0.99, hits=25)
    assert doubtful.first().startswith("good: No harm seen, no sure gain yet")

    harms = Small()
    harms.labelled(1.2)
    assert harms.first().startswith("bad: It harms: over the last hour the log loss is 0.21")

    hangs = Small()
    hangs.labelled(0.9)
    hangs.health.live_seconds = -1
    assert hangs.first().startswith("bad: The worker hangs")

    starts = Small()
    starts.health.ready = False
    assert starts.first().startswith("bad: The worker corrects nothing now")

    still = Small()
    still.metrics.lags({("input", 0): 70, ("labels", 0): 5})
    assert still.first().startswith("bad: It stands still: 70 records wait")

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

    idle = Small()
    idle.metrics.partitions = {}
    assert idle.first() == "doubt: This worker has no partition."

    none = Small(has_labels=False)
    assert none.first().startswith("good: Nothing is wrong; without labels")
    for one in (fine, harms, hangs, starts, still, dead, aborts, deaf, lost, none):
        assert all(problem.do for problem in one.look.status(BEGIN).problems)


@fast
def test_how_many_labels_count_and_why_is_said() -> None:
    def line(requests: tuple[int, int | None] | None, **amounts: float) -> str:
        small = Small()
        small.metrics.partitions[0] = small.metrics.partitions[0]._replace(requests=requests)
        small.add(7200, **amounts)  # not of the last hour
        status = small.look.status(BEGIN)
        assert status.shown is not None
        return status.shown.fair

    assert line((374, 1), labels=2867, matched=2800, scored=73) == (
        "73 of 2,867 labels of the last day count: those asked for at random, since the others are"
        " no fair sample."
    )
    assert line(None, labels=2867, matched=2800, scored=2100) == (
        "2,100 of 2,867 labels of the last day count: those whose prediction is known as it was"
        " sent."
    )
    assert line(None, labels=40, scored=40) == "All 40 labels of the last day count."
    begun = (
        "No label has come since this worker began. One counts also where its prediction was sent"
        " before a restart, as far as the output topic still has it."
    )
    assert line(None) == line((374, 1)) == begun
    old = Small()
    old.look._since = BEGIN - 90_000
    assert shown(old.look.status(BEGIN)).fair.startswith("No label has come in the last day. One")
    assert shown(Small(has_labels=False).look.status(BEGIN)).fair == ""


@fast
def test_records_a_second_are_of_the_time_that_the_process_ran() -> None:
    """From the first record on, and the tile says what the figure ends with."""
    small, now = Small(), BEGIN + 4  # the last slot began 4 s ago, the last step 54 s
    small.look._since = now - 84

    def course() -> list[float | None]:
        found = small.look.status(now)
        assert found.records_per_second == (found.hour_course.rates[-1] or 0.0)
        rate = f"{found.records_per_second:,.0f}"
        assert [tile.value for tile in shown(found).tiles if "a second" in tile.what] == [rate]
        assert len(found.day_course.rates) == 96
        return found.hour_course.rates

    small.metrics.history.add(now - 60, predictions=90)  # its step has 30 s of the process
    assert course() == [None] * 58 + [3, 0]
    small.metrics.history.add(now, predictions=108)
    assert course() == [None] * 58 + [3, 2]
    assert small.look.status(now).day_course.rates[-1] == 198 / 84
    small.look._since = now - 7200
    assert course() == [0] * 58 + [90 / 60, 2]
    small.look._since = now
    assert course() == [None] * 60


@fast
def test_all_dead_letters_are_counted_not_only_those_that_are_shown() -> None:
    small = Small()
    assert shown(small.look.status()).letters_note == ""

    def said(dead_letters: int) -> str:
        counts = small.metrics.partitions[0].counts | {"dead_letters": dead_letters}
        small.metrics.partitions[0] = small.metrics.partitions[0]._replace(counts=counts)
        return shown(small.look.status()).letters_note

    assert said(1) == "1 dead letter since this process has its partitions."
    small.metrics.letters += [letter(dead("BadMessage", "x"), BEGIN, []) for _ in range(20)]
    assert said(1234) == "1,234 dead letters since this process has its partitions."


@fast
def test_silent_classes_and_stale_logs_are_named() -> None:
    small = Small()
    rng, corrector = np.random.default_rng(0), small.known[0].corrector
    for y in rng.integers(3, size=300):
        p = np.full(3, 0.1) + 0.7 * np.eye(3)[y]
        corrector.process_one(p)
        if y < 2:
            corrector.learn_one(p, "ab"[y])
    first = small.first()
    assert first == "doubt: No label of “refund” has come: left out of learning."
    (found,) = small.look.status(BEGIN).learned
    assert (found.silent, found.n_silent) == (["refund"], 1)
    assert found.coverage == corrector.coverage < 1
    assert [c.name for c in found.classes][-1] in ("a", "b", "refund")
    assert sum(c.taken for c in found.classes) == pytest.approx(1)
    assert sum(c.labels or 0 for c in found.classes) == pytest.approx(1)
    assert next(c.labels for c in found.classes if c.name == "refund") == 0
    small.known[0] = small.known[0]._replace(newest=int(1000 * (BEGIN - 3600)))
    small.add(5, predictions=10, labels=10)
    assert small.first() == ("doubt: What corrects was learned 60 minutes ago: nobody learns now.")


@fast
def test_many_classes_are_the_largest_and_names_are_text() -> None:
    odd = ["<b>&\u2028\x1b[31m", "x" * 500, "ü"]
    small = Small([*odd, *map(str, range(3, 1000))])
    text = small.look.json()
    assert len(text) < 60_000
    found = msgspec.json.decode(text, type=Status)
    assert found.n_classes == 1000
    assert len(found.learned[0].classes) == 300
    names = [one.name for one in found.learned[0].classes]
    assert names[0] == odd[0]
    assert names[2] == "ü"
    assert max(map(len, names)) == 80


def counted(rows: dict[str, int], labels: dict[str, int]) -> ColumnScores:
    """A column in which every label is scored."""
    column, rng = ColumnScores(), np.random.default_rng(0)
    column.came([text for text, n in rows.items() for _ in range(n)])
    texts = [text for text, n in labels.items() for _ in range(n)]
    P = rng.dirichlet([1, 1, 1], len(texts))
    column.learned(texts)
    column.scored(texts, outcomes(P, P[:, ::-1], rng.integers(3, size=len(texts))))
    return column


@fast
def test_values_of_columns_are_the_heaviest_and_names_are_text() -> None:
    small = Small()
    assert small.look.status(BEGIN).columns == []
    rows = {f"v{i}": 200 - i for i in range(120)} | {"<b>" + "x" * 500: 900}
    column = counted(rows, {"v0": 20, "v118": 30})
    small.metrics.values = {"customer.country": column, "y" * 500: ColumnScores()}
    found = msgspec.json.decode(small.look.json(), type=Status)
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
    assert found.shown is not None
    cells = found.shown.columns[0].values.rows
    (accuracy, after), (loss, lost) = truth.accuracy, truth.log_loss
    assert cells[1][1:4] == [["200"], ["20"], [f"{100 * accuracy:.1f} → {100 * after:.1f}"]]
    assert cells[1][4] == [f"{lost - loss:+.3f}".replace("-", "\N{MINUS SIGN}")]
    rest = sum(rows.values()) - 900 - sum(range(152, 201))
    assert cells[-1][:3] == [["all others"], [f"{rest:,}"], ["30"]]
    assert len(cells) == 51


@fast
def test_labels_of_few_values_are_a_doubt_that_names_them() -> None:
    small = Small()
    rows = {f"v{i}": 1000 for i in range(10)}
    small.metrics.values = {"tenant": counted(rows, {"v3": 199})}
    assert small.first().startswith("good")  # too few to say it
    small.metrics.values = {"tenant": counted(rows, {"v3": 300, "v4": 100})}
    assert small.first() == (
        "doubt: 100% of the labels are of 20% of the rows, those with tenant “v3”, “v4”."
    )
    small.metrics.values = {"tenant": counted(rows, dict.fromkeys(rows, 40))}
    assert small.first().startswith("good")


@fast
def test_the_document_before_the_first_record_has_no_numbers_that_are_none() -> None:
    small = Small()
    small.known, small.metrics.partitions = {}, {}
    found = json.loads(small.look.json(), parse_constant=pytest.fail)
    assert found["version"] == 2
    assert found["hour"]["accuracy"] is found["lag"] is found["hour"]["delay_to"] is None
    assert found["learned"] == found["partitions"] == found["dead_letters"] == []
    assert len(found["hour_course"]["records"]) == 60
    assert len(found["day_course"]["records"]) == 96
    assert found["hour_course"]["seconds"] == 60
    assert found["day_course"]["seconds"] == 900


@fast
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


# -- the page ------------------------------------------------------------------------------------


@pytest.fixture
def port() -> Iterator[Port]:
    small = Small()
    port = Port("127.0.0.1", 0, small.health, small.metrics.registry, small.look.json)
    yield port
    port.close()


class Parts(html.parser.HTMLParser):
    """Addresses that a page names, and attributes that are code or style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [
            f"{tag} {name}" for name, _ in attrs
            if name in ("src", "href", "action", "style") or name.startswith("on")
        ]  # fmt: skip


@fast
def test_the_page_is_whole_and_its_policy_allows_nothing_else(port: Port) -> None:
    code, headers, text = answer(port.number, "/")
    assert code == 200
    assert Parts(text).outside == []
    assert "@import" not in text
    assert "url(" not in text
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    script = (Path(__file__).parents[2] / "stream_can/app/page.js").read_text()
    for opens in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert opens not in script
    assert live_page().body.decode() == text


@fast
@pytest.mark.parametrize("path", ["/", "/status.json", "/metrics", "/livez"])
def test_get_only(port: Port, path: str) -> None:
    assert answer(port.number, path)[0] == 200
    assert answer(port.number, path, "HEAD")[2] == ""
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert answer(port.number, path, method)[0] == 501


# -- a worker ------------------------------------------------------------------------------------


def status(number: int) -> dict[str, Any]:
    code, headers, text = answer(number, "/status.json")
    assert code == 200
    assert headers["Content-Type"] == "application/json"
    msgspec.json.decode(text, type=Status)
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_document_is_true(broker: Broker) -> None:
    """Scores against the output topic itself, counts against what was sent."""
    app = App(
        broker.bootstrap_servers, http_port=0, http_host="127.0.0.1",
        client={"security_protocol": "PLAINTEXT", **STEADY},
    )  # fmt: skip
    running = app.worker()
    number = ready(running).number
    fill(app, 3000)
    bad = [b'{"probs": ["secret-payload"]}', b"secret-payload", b'{"label": "secret-payload"}']
    topics = [app.given["input"], app.given["input"], app.given["labels"]]
    produce(app.servers, [
        (topic, 1, b"key-secret", value, [("h", b"header-secret")], STAMP + 10_000 + i)
        for i, (topic, value) in enumerate(zip(topics, bad, strict=True))
    ])  # fmt: skip
    caught_up(app, running)
    corrector = running.corrector()
    wait("all learned", lambda: corrector.n_labels == 3000)
    wait("no lag shown", lambda: status(number)["lag"] == 0)
    found = status(number)
    running.stop()
    assert found["application"] == app.id
    assert found["ready"]
    assert found["live"]
    for window in (found["hour"], found["day"]):
        assert window["records"] == 3002
        assert window["labels"] == 3001
        assert window["matched"] == window["scored"] == 3000
        assert window["dead_letters"] == 3
        assert (window["delay_from"], window["delay_to"]) == (0, 1)
        assert window["commits"] > 0
        assert 0 < window["commit_mean"] <= window["commit_longest"]
    rng = random.Random(0)
    labels = [prediction(rng, i)[2] for i in range(3000)]  # as `fill` sent them
    truth = scores(app, lambda message: labels[message["id"]])
    for stage in ("before", "after"):
        assert found["hour"]["accuracy"][stage] == pytest.approx(truth[f"hits {stage}"] / 3000)
        loss = truth[f"loss {stage}"] / 3000
        assert found["hour"]["log_loss"][stage] == pytest.approx(loss, rel=1e-9)
    course = found["hour_course"]
    assert sum(course["records"]) == 3002
    assert sum(p["records"] for p in found["partitions"]) == 3002
    assert [p["partition"] for p in found["partitions"]] == [0, 1]
    (learned,) = found["learned"]
    assert learned["labels"] == 3000
    assert learned["weights"] == pytest.approx(corrector.weights)
    assert learned["final_weights"] == pytest.approx(corrector.final_weights)
    places = [(x["topic"], x["partition"], x["offset"]) for x in found["dead_letters"]]
    assert sorted(places) == [(topics[0], 1, 1500), (topics[0], 1, 1501), (topics[2], 1, 1500)]
    assert "secret" not in json.dumps(found)
    assert len(found["dead_letters"]) <= KEPT


# -- in a browser --------------------------------------------------------------------------------

ODD = ["<img src=x onerror=alert(1)>", "</script><script>document.title='owned'</script>", "refund"]


def busy(classes: int) -> Small:
    """Figures of every kind, a silent class, dead letters, names that mean no good."""
    small = Small([*ODD, *(f"class {i} " + "long" * (i % 40) for i in range(classes - 3))])
    now, rng = time.time(), np.random.default_rng(0)
    small.look._since = now - 7200
    for ago in range(3600, -1, -20):
        small.metrics.history.add(
            now - ago, [3.0], predictions=1000, labels=900, matched=890, unmatched=10, scored=890,
            hits_before=500 + int(rng.integers(50)), hits_after=600 + int(rng.integers(50)),
            log_loss_before=890.0, log_loss_after=700.0 + 50 * rng.random(), commits=100,
            commit_seconds=3, commit_longest=0.2, lag=int(rng.integers(100)),
        )  # fmt: skip
    corrector = small.known[0].corrector
    for y in rng.integers(3, size=300):
        p = np.full(classes, 0.4 / classes)
        p[y] += 0.6
        corrector.process_one(p)
        if y < 2:
            corrector.learn_one(p, ODD[y])
    small.known[0] = small.known[0]._replace(newest=int(1000 * now))
    small.metrics.letters += [letter(dead("BadMessage", "not JSON"), now, []) for _ in range(20)]
    rows = dict(zip([*ODD, "x" * 200], (123_456, 12_000, 400, 2), strict=True))
    small.metrics.values = {
        "customer.country": counted(rows, {ODD[0]: 1000, ODD[1]: 2}),
        "<b>" + "h" * 200: counted({f"value {i}": 70 - i for i in range(60)}, {"value 3": 60}),
        "nothing": ColumnScores(),
    }
    return small


def texts(status: Status) -> Iterator[str]:
    """Every text of ours and of others that is shown, without ages and rates."""

    def walk(part: Any) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            for one in part:
                yield from walk(one)
        elif isinstance(part, dict):
            for key, one in part.items():
                yield from walk(one) if key != "type" else ()

    kept = msgspec.to_builtins(status.shown)
    for changing in ("tiles", "flow", "scores"):
        del kept[changing]
    del kept["learned"][0]["facts"][-1]
    yield from walk(kept)
    for sheet in (status.shown.scores, status.shown.flow):  # type: ignore[union-attr]
        yield from (piece for row in sheet.rows for piece in walk(msgspec.to_builtins(row[0])))


WIDE = """[...document.querySelectorAll("main *")].filter(e => !e.closest(".tall") &&
  e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(e => e.outerHTML.slice(0, 80))"""
CUT = """[...document.querySelectorAll(".scroll, .tall, .tile")].filter(e =>
  e.scrollWidth > e.clientWidth + 1).map(e => e.id || e.textContent)"""
HEADS = "[...document.querySelectorAll('#values h3')].map(e => e.textContent)"
VALUES = "[...document.querySelectorAll('#values td bdi')].map(e => e.textContent)"
EMPTY = """[...document.querySelectorAll(".card")].filter(e => e.getBoundingClientRect().bottom -
  Math.max(...[...e.children].map(c => c.getBoundingClientRect().bottom)) > 40)
  .map(e => e.textContent)"""
TICKS = "[...document.querySelectorAll('#{} text')].map(e => e.textContent)"
VERDICT = "document.getElementById('verdict')?.textContent"
TITLE = "document.getElementById('title')?.textContent"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("width", "dark", "classes"),
    [(1280, False, 3), (320, True, 12), (400, True, 3), (1280, True, 300), (400, False, 300)],
)
def test_the_page_in_a_browser(browser: Browser, width: int, dark: bool, classes: int) -> None:
    small = busy(classes)
    port = Port("127.0.0.1", 0, small.health, small.metrics.registry, small.look.json)
    try:
        browser.look(f"http://127.0.0.1:{port.number}/", width, dark=dark)
        wait("the figures", lambda: browser.value(TITLE) == "app")
        assert browser.value("document.querySelectorAll('.figure svg').length") == 4
        assert browser.value(WIDE) == []
        assert browser.value(EMPTY) == []
        cut = browser.value(CUT)
        assert cut == [] if width > 1000 else all("calibration" in text for text in cut)
        names = browser.value("[...document.querySelectorAll('#mix bdi')].map(e => e.textContent)")
        assert len(names) == classes
        assert set(ODD) <= set(names)
        assert browser.value(HEADS) == ["customer.country", "<b>" + "h" * 37 + "…" + "h" * 39,
                                        "nothing"]  # fmt: skip
        assert browser.value(VALUES)[:4] == [*ODD, "x" * 40 + "…" + "x" * 39]
        scroll = "document.querySelectorAll('#values .tall')[1].scrollTop"
        assert browser.value(f"{scroll} = 100") == browser.value(scroll) == 100
        assert "refund" in browser.value(VERDICT)
        assert browser.value("document.images.length + document.scripts.length") == 1
        page = browser.value("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, page[4:-1].split(","))) < 180) == dark
        text = browser.value("document.body.textContent")
        # Everything that Python worded, but what goes on from one look to the next.
        assert [said for said in texts(small.look.status()) if said not in text] == []
        small.metrics.letters.clear()
        wait("it updates itself", lambda: "None since" in browser.value(
            "document.getElementById('letters').textContent"))  # fmt: skip
        assert browser.value(scroll) == 100
        small.metrics.values = {}
        wait("no columns", lambda: browser.value("document.getElementById('columns').hidden"))
        assert browser.errors == []
    finally:
        port.close()
    wait("that it stopped", lambda: "has not answered since" in browser.value(VERDICT))
    assert len(browser.value("document.getElementById('mix').textContent")) > 20
    assert browser.value("document.title") == "! no answer"


@pytest.mark.browser
def test_a_worker_that_has_just_begun_in_a_browser(browser: Browser) -> None:
    """Its records a second are drawn from the first on; the figures of labels wait."""
    small, now = Small(), time.time()
    small.look._since = now - 20
    small.metrics.history.add(now, predictions=400)
    port = Port("127.0.0.1", 0, small.health, small.metrics.registry, small.look.json)
    try:
        browser.look(f"http://127.0.0.1:{port.number}/", 1280)
        wait("the figures", lambda: browser.value(TITLE) == "app")
        assert browser.value("document.querySelectorAll('#rate circle').length") == 1
        *heights, clock = [text for text in browser.value(TICKS.format("rate"))]
        while ":" in heights[-1]:
            clock = heights.pop()
        assert int(clock[-2:]) % 2 == 0
        steps = {round(float(b) - float(a), 9) for a, b in itertools.pairwise(heights)}
        assert (heights[0], len(steps)) == ("0", 1)
        assert str(steps.pop()).strip("0.")[0] in "125"
        assert "Nothing yet." in browser.value(TICKS.format("accuracy"))
        assert browser.value(EMPTY) == []
        assert browser.errors == []
    finally:
        port.close()


@pytest.mark.browser
def test_values_of_a_worker_in_a_browser_and_labels_of_one_alone(
    broker: Broker, browser: Browser
) -> None:
    """Counted from the topics themselves."""
    carriers = [ODD[0], "B6", "AA"]
    app = App(
        broker.bootstrap_servers, http_port=0, http_host="127.0.0.1",
        segments=["carrier", "customer.country"], client=STEADY,
    )  # fmt: skip
    rng, truth, predictions = random.Random(0), {}, []
    labels: dict[bool, list[Any]] = {True: [], False: []}
    for i in range(900):
        key, value, truth[i] = prediction(rng, i)
        message = json.loads(value) | {"carrier": carriers[i % 3]}
        if i % 4:
            message["customer"] = {"country": rng.choice(["NL", "DE"])}
        partition, stamp = i % 2, STAMP + i
        sent = json.dumps(message).encode()
        predictions.append((app.given["input"], partition, key, sent, [], stamp))
        said = json.dumps({"label": truth[i]}).encode()
        one = (app.given["labels"], partition, key, said, [], stamp + 2000)
        labels[i % 3 == 0].append(one)
    produce(app.servers, predictions, labels[True])
    running = app.worker()
    number = ready(running).number
    wait("all are counted", lambda: [c["labels"] for c in status(number)["columns"][:1]] == [300])
    found = status(number)
    carrier, country = found["columns"]
    assert (carrier["name"], country["name"]) == ("carrier", "customer.country")
    assert {v["value"]: (v["rows"], v["labels"], v["scored"]) for v in carrier["values"]} == {
        ODD[0]: (300, 300, 300), "B6": (300, 0, 0), "AA": (300, 0, 0),
    }  # fmt: skip
    assert (country["rows"], country["labels"]) == (675, 225)
    assert country["few"] is None
    (labelled,) = [v for v in carrier["values"] if v["labels"]]
    messages = [json.loads(record.value) for p in (0, 1) for record in app.outputs(p)]
    own = [message for message in messages if message["carrier"] == ODD[0]]
    for side, field in (("before", "probs_raw"), ("after", "probs")):
        P = np.array([message[field] for message in own])
        P /= P.sum(axis=1, keepdims=True)
        y = np.array([CLASSES.index(truth[message["id"]]) for message in own])
        hits = (P.argmax(axis=1) == y).mean()
        assert labelled[f"accuracy_{side}"] == pytest.approx(hits)
        loss = -np.log(np.maximum(P[np.arange(len(y)), y], 1e-6)).mean()
        assert labelled[f"log_loss_{side}"] == pytest.approx(loss)
        gap = abs(hits - P.max(axis=1).mean())
        assert labelled[f"calibration_{side}"] == pytest.approx(gap)

    what = f"100% of the labels are of 33% of the rows, those with carrier “{ODD[0]}”."
    assert what in [problem["what"] for problem in found["problems"]]
    browser.look(f"http://127.0.0.1:{number}/", 1280)
    wait("the page", lambda: browser.value(TITLE) == app.id)
    assert browser.value(HEADS) == ["carrier", "customer.country"]
    assert set(browser.value(VALUES)) == {*carriers, "NL", "DE"}
    problems = browser.value(VERDICT) + browser.value("document.getElementById('also').textContent")
    assert what in problems
    assert browser.value("document.images.length") == 0
    assert browser.errors == []
    browser.look("about:blank", 1280)
    running.stop()


@pytest.mark.browser
def test_the_policy_forbids_what_is_not_in_the_page(browser: Browser, port: Port) -> None:
    browser.look(f"http://127.0.0.1:{port.number}/", 800)
    wait("the page", lambda: browser.value(TITLE) == "app")
    assert browser.errors == []
    browser.value(
        """{ const s = document.createElement("script"); s.textContent = "window.owned = 1";
        document.head.append(s);
        const i = document.createElement("img");
        i.src = "http://127.0.0.1:1/x"; document.body.append(i);
        document.body.setAttribute("style", "display: none");
        fetch("http://127.0.0.1:1/y").catch(() => {}); }"""
    )
    wait("four refusals", lambda: browser.value("1") and len(browser.errors) >= 4)
    assert all("Content Security Policy" in error for error in browser.errors), browser.errors
    assert browser.value("window.owned === undefined")


@fast
def test_one_is_not_many() -> None:
    """One partition, and of the paths one that has next to nothing."""
    status = Small().look.status(BEGIN)
    (learned,) = status.learned
    learned.weights = {"raw": 0.6, "can": 0.3998, "vector": 0.0002}
    said = shown(status)
    assert said.learned[0].facts[3] == [
        ["paths"],
        ["raw 60.0 %, can 40.0 %, 1 other less than 0.1 %"],
    ]
    assert any("1 partition," in piece for piece in said.sub if isinstance(piece, str))
    learned.weights["matrix"] = 0.0
    assert str(shown(status).learned[0].facts[3][1]).endswith("2 others less than 0.1 %']")


@fast
@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "\N{EN DASH}"), (0, "0 s"),
        (0.03, "30 ms"), (1.5, "1.5 s"), (60, "1 min"), (90, "90 s"),
        (150, "2.5 min"), (3600, "1 h"), (5400, "90 min"), (9000, "2.5 h"), (86400, "1 d"),
        (1_000_000, "12 d"),
    ],
)  # fmt: skip
def test_a_duration_is_in_the_unit_that_people_take(seconds: float | None, said: str) -> None:
    status = Small().look.status(BEGIN)
    status.hour.commit_mean = seconds
    assert shown(status).flow.rows[-2][1] == [said]

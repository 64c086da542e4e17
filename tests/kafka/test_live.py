"""The live page: a day in bounded memory, a document that is true, a page that lets nothing in."""

from __future__ import annotations

import html.parser
import io
import json
import os
import random
import signal
import sys
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
from rich.console import Console

from stream_can import Corrector
from stream_can.cli.main import main
from stream_can.cli.watch import laid_out
from stream_can.kafka.watch.health import Health
from stream_can.kafka.watch.history import History, Ring, Slots
from stream_can.kafka.watch.letters import KEPT, letter, without_payload
from stream_can.kafka.watch.live import live_page
from stream_can.kafka.watch.look import Look
from stream_can.kafka.watch.metrics import Committed, Metrics
from stream_can.kafka.watch.port import Port
from stream_can.kafka.watch.shown import shown
from stream_can.kafka.watch.status import Status
from stream_can.stream.records import Counts, Output, Record
from stream_can.stream.replica import Replica
from tests.chromium import Browser
from tests.kafka.broker.broker import Broker
from tests.kafka.served import answer, ready
from tests.kafka.streams import STAMP, STEADY, App, caught_up, fill, prediction, scores
from tests.kafka.topics import produce
from tests.programs import PATIENCE, OnTerminal, wait

fast = pytest.mark.fast
BEGIN = 1_800_000_000.0
STATED = 145_152
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
        self.replicas = {0: Replica(Corrector(classes))}
        self.look = Look(
            "app", "0", together=True, has_labels=has_labels, health=self.health,
            metrics=self.metrics, replicas=lambda: self.replicas,
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
        console = Console(file=io.StringIO(), markup=False, width=2000)
        console.print(laid_out(status))
        assert status.shown.fair in console.file.getvalue()  # type: ignore[attr-defined]
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
    assert line(None) == line((0, None)) == ""


@fast
def test_silent_classes_and_stale_logs_are_named() -> None:
    small = Small()
    rng, corrector = np.random.default_rng(0), small.replicas[0].corrector
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
    small.replicas[0].newest = int(1000 * (BEGIN - 3600))
    small.add(5, predictions=10, labels=10)
    assert small.first() == (
        "doubt: What corrects was learned 60 minutes ago: the learned log stands still."
    )


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


@fast
def test_the_document_before_the_first_record_has_no_numbers_that_are_none() -> None:
    small = Small()
    small.replicas, small.metrics.partitions = {}, {}
    found = json.loads(small.look.json(), parse_constant=pytest.fail)
    assert found["version"] == 1
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
    script = (Path(__file__).parents[2] / "stream_can/kafka/watch/page.js").read_text()
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
    corrector = running.replica().corrector
    wait("all learned", lambda: running.replica().corrector.n_labels == 3000)
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
    corrector = small.replicas[0].corrector
    for y in rng.integers(3, size=300):
        p = np.full(classes, 0.4 / classes)
        p[y] += 0.6
        corrector.process_one(p)
        if y < 2:
            corrector.learn_one(p, ODD[y])
    small.replicas[0].newest = int(1000 * now)
    small.metrics.letters += [letter(dead("BadMessage", "not JSON"), now, []) for _ in range(20)]
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
  e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
CUT = """[...document.querySelectorAll(".scroll, .tall, .tile")].filter(e =>
  e.scrollWidth > e.clientWidth + 1).map(e => e.id || e.textContent)"""
VERDICT = "document.getElementById('verdict')?.textContent"
TITLE = "document.getElementById('title')?.textContent"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("width", "dark", "classes"),
    [(1280, False, 3), (400, True, 3), (1280, True, 300), (400, False, 300)],
)
def test_the_page_in_a_browser(browser: Browser, width: int, dark: bool, classes: int) -> None:
    small = busy(classes)
    port = Port("127.0.0.1", 0, small.health, small.metrics.registry, small.look.json)
    try:
        browser.look(f"http://127.0.0.1:{port.number}/", width, dark=dark)
        wait("the figures", lambda: browser.value(TITLE) == "app")
        assert browser.value("document.querySelectorAll('.figure svg').length") == 4
        assert browser.value(WIDE) == []
        assert browser.value(CUT) == []
        names = browser.value("[...document.querySelectorAll('#mix bdi')].map(e => e.textContent)")
        assert len(names) == classes
        assert set(ODD) <= set(names)
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
        assert browser.errors == []
    finally:
        port.close()
    wait("that it stopped", lambda: "has not answered since" in browser.value(VERDICT))
    assert len(browser.value("document.getElementById('mix').textContent")) > 20
    assert browser.value("document.title") == "! no answer"


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


# -- in a terminal -------------------------------------------------------------------------------


@fast
def test_watch_says_the_same(port: Port, tmp_path: Path, capsys: Any) -> None:
    config = tmp_path / "app.toml"
    config.write_text(
        'bootstrap_servers = ["127.0.0.1:1"]\napplication_id = "app"\ninput = "in"\n'
        f'output = "out"\nclasses = ["a", "b"]\nhttp_port = {port.number}\n'
    )
    assert main(["watch", str(config)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("app, worker 0, stream_can ")
    assert ", 3 classes, 1 partition, since " in said
    assert "no label that counts has come yet. Nothing" in said
    assert main(["watch", "--url", f"http://127.0.0.1:{port.number}/", "--once"]) == 0
    port.close()
    assert main(["watch", str(config)]) == 1
    assert "status.json: no answer of a worker" in capsys.readouterr().err
    config.write_text(config.read_text().replace("http_port", "# http_port"))
    assert main(["watch", str(config)]) == 1
    assert "without http_port" in capsys.readouterr().err
    assert main(["watch"]) == 1
    assert main(["watch", "--url", "file:///etc/passwd"]) == 1


@fast
def test_the_terminal_says_what_the_page_says() -> None:
    """Of a worker of 0.2, whose document does not say how it is shown, the same."""
    status = busy(3).look.status()
    printed = []
    for one in (status, msgspec.structs.replace(status, shown=None)):
        console = Console(file=io.StringIO(), markup=False, emoji=False, width=2000)
        console.print(laid_out(one))
        printed.append(console.file.getvalue())  # type: ignore[attr-defined]
    assert printed[0] == printed[1]
    said = status.shown
    assert said is not None
    (learned,) = said.learned
    cells = [*said.scores.rows, *said.flow.rows, *learned.facts, *learned.mix.rows]
    words = [piece for row in cells for cell in row for piece in cell if isinstance(piece, str)]
    assert len(words) > 80
    assert [one for one in words if one not in printed[0]] == []


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


@fast
def test_names_in_a_terminal_are_text() -> None:
    small = busy(3)
    small.replicas[0] = Replica(Corrector(["\x1b[31mred", "[bold]b[/]", ":smile:"]))
    console = Console(file=io.StringIO(), markup=False, emoji=False, width=120)
    console.print(laid_out(small.look.status()))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\\x1b[31mred" in said
    assert "[bold]b[/]" in said
    assert ":smile:" in said
    assert "\x1b" not in said


def test_watch_goes_on_while_no_worker_answers(port: Port) -> None:
    """On a terminal: the whole of it, anew every two seconds, until it is interrupted."""
    url = f"http://127.0.0.1:{port.number}/"
    command = [sys.executable, "-m", "stream_can", "watch", "--url", url]
    with OnTerminal(command, env={**os.environ, "TERM": "xterm"}) as running:
        wait("the page", lambda: "app, worker 0" in running.text)
        port.close()
        wait("no answer", lambda: "no answer of a worker" in running.text)
        assert running.process.poll() is None
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(PATIENCE) == 130

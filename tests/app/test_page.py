"""The live page in a real browser: what it says, and that nothing gets into it."""

from __future__ import annotations

import html.parser
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stream_can.app.letters import letter
from stream_can.app.live import live_page
from stream_can.app.port import Port
from stream_can.app.status import Confused, LaneScores, Score, Side, Status, TwoVersions
from stream_can.column_scores import ColumnScores
from tests.app.small import BEGIN, HEADS, ODD, TITLE, VALUES, VERDICT, Small, counted, dead
from tests.chromium import Browser
from tests.programs import answer, wait


@pytest.fixture
def port() -> Iterator[Port]:
    small = Small()
    port = Port("127.0.0.1", 0, small.health, small.metrics.registry, small.status_report.json)
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
    app = Path(__file__).parents[2] / "stream_can" / "app"
    script = (app / "draw.js").read_text() + (app / "page.js").read_text()
    for opens in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert opens not in script
    assert live_page().body.decode() == text


@pytest.mark.parametrize("path", ["/", "/status.json", "/metrics", "/livez"])
def test_get_only(port: Port, path: str) -> None:
    assert answer(port.number, path)[0] == 200
    assert answer(port.number, path, "HEAD")[2] == ""
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert answer(port.number, path, method)[0] == 501


DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


def busy(classes: int) -> Small:
    """Figures of every kind, a silent class, dead letters, names that mean no good."""
    small = Small([*ODD, *(f"class {i} " + "long" * (i % 40) for i in range(classes - 3))])
    now, rng = time.time(), np.random.default_rng(0)
    small.status_report._since = now - 7200
    for ago in range(3600, -1, -20):
        small.metrics.history.record(
            now - ago, [3.0], predictions=1000, labels=900, matched=890, unmatched=10, scored=890,
            hits_before=500 + int(rng.integers(50)), hits_after=600 + int(rng.integers(50)),
            log_loss_before=890.0, log_loss_after=700.0 + 50 * rng.random(), commits=100,
            commit_seconds=3, commit_longest=0.2, lag=int(rng.integers(100)),
        )  # fmt: skip
    corrector = small.known.corrector
    for y in rng.integers(3, size=300):
        p = np.full(classes, 0.4 / classes)
        p[y] += 0.6
        corrector.process_one(p)
        if y < 2:
            corrector.learn_one(p, ODD[y])
    small.known = small.known._replace(newest=int(1000 * now))
    small.metrics.letters += [letter(dead("BadMessage", "not JSON"), now, []) for _ in range(20)]
    rows = dict(zip([*ODD, "x" * 200], (123_456, 12_000, 400, 2), strict=True))
    small.metrics.values = {
        "customer.country": counted(rows, {ODD[0]: 1000, ODD[1]: 2}),
        "<b>" + "h" * 200: counted({f"value {i}": 70 - i for i in range(60)}, {"value 3": 60}),
        "nothing": ColumnScores(),
    }
    return small


WIDE = """[...document.querySelectorAll("main *")].filter(e => !e.closest(".tall") &&
  e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(e => e.outerHTML.slice(0, 80))"""
CUT = """[...document.querySelectorAll(".scroll, .tall, .tile")].filter(e =>
  e.scrollWidth > e.clientWidth + 1).map(e => e.id || e.textContent)"""
EMPTY = """[...document.querySelectorAll(".card")].filter(e => e.getBoundingClientRect().bottom -
  Math.max(...[...e.children].map(c => c.getBoundingClientRect().bottom)) > 40)
  .map(e => e.textContent)"""
TICKS = "[...document.querySelectorAll('#{} text')].map(e => e.textContent)"


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    ("width", "dark", "classes"),
    [(1280, False, 3), (320, True, 12), (400, True, 3), (1280, True, 300), (400, False, 300)],
)
def test_the_page_in_a_browser(browser: Browser, width: int, dark: bool, classes: int) -> None:
    small = busy(classes)
    port = Port("127.0.0.1", 0, small.health, small.metrics.registry, small.status_report.json)
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


@pytest.mark.needs("chromium")
def test_a_worker_that_has_just_begun_in_a_browser(browser: Browser) -> None:
    """Its records a second are drawn from the first on; the figures of labels wait."""
    small, now = Small(), time.time()
    small.status_report._since = now - 20
    small.metrics.history.record(now, predictions=400)
    port = Port("127.0.0.1", 0, small.health, small.metrics.registry, small.status_report.json)
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


@pytest.mark.needs("chromium")
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


# -- what it says --------------------------------------------------------------------------------


class Page:
    """The page in a browser, showing the documents that it is given."""

    def __init__(self, browser: Browser, port: Port) -> None:
        browser.look(f"http://127.0.0.1:{port.number}/", 1000)
        wait("the page", lambda: browser.value(TITLE) == "app")
        browser.value("turn = async () => {}")  # it asks for no other document
        self.value = browser.value

    def show(self, status: Status) -> None:
        self.value(f"show({msgspec.json.encode(status).decode()})")

    def text(self, id: str) -> str:
        return str(self.value(f"document.getElementById('{id}').textContent")).strip()

    def rows(self, id: str) -> list[list[str]]:
        """The texts of a table's cells, or of the figures of a list."""
        return list(self.value(
            f"[...document.querySelectorAll('#{id} tbody tr, #{id} .tile')].map("
            "row => [...row.children].map(one => one.textContent))"
        ))  # fmt: skip

    def facts(self) -> dict[str, str]:
        found = "[...document.querySelectorAll('#learned {}')].map(e => e.textContent)"
        names, said = (self.value(found.format(tag)) for tag in ("dt", "dd"))
        return dict(zip(names, said, strict=True))


@pytest.fixture
def page(browser: Browser, port: Port) -> Page:
    return Page(browser, port)


@pytest.mark.needs("chromium")
def test_each_figure_is_the_documents(page: Page) -> None:
    small = Small()
    small.labelled(0.9)
    small.add(5, given_up=2, asked=30, answered=9, repeated=4, dead_letters=1)
    small.metrics.lags({("input", 0): 70})
    status = small.status_report.status(BEGIN)
    status.hour.accuracy = Score(0.5, 0.52, -0.01, 0.03)
    status.hour.delay_from, status.hour.delay_to = 60.0, 300.0
    status.day.delay_from, status.day.delay_to = 86400.0, None
    status.open_requests, status.oldest_request = 1234, 90.0
    status.sets, status.hour.set_labels, status.changed_labels = 0.9, 40, 3
    status.hour.set_kept, status.hour.set_size = 0.875, 1.5
    (learned,) = status.learned
    learned.age, learned.labels, learned.effective_sample_size = 3.0, 5000, 1999.7
    learned.coverage, learned.silent, learned.n_silent = 0.5, ["a", "<b>"], 23
    learned.log_loss_before, learned.log_loss_after, learned.log_loss_fitted = 1.0, 0.9, 1.1
    page.show(status)
    assert page.rows("tiles") == [
        ["50.0 → 52.0", "accuracy %, last hour"], ["1.000 → 0.910", "log loss, last hour"],
        ["2", "records a second"], ["70", "records waiting"], ["3 s", "since it learned"],
        ["1", "dead letters, last hour"],
    ]  # fmt: skip
    assert page.rows("scores")[:5] == [
        ["labels", "5,000", "5,000"], ["accuracy % before", "50.00", "50.00"],
        ["accuracy % after", "52.00", "52.00"], ["change", "+2.00", "+2.00"],
        ["between", f"{MINUS}1.00 and +3.00", page.rows("scores")[4][2]],
    ]  # fmt: skip
    assert page.rows("scores")[9:] == [
        ["labels of prediction sets", "40", "0"], ["in the set %, promised 90", "87.50", DASH],
        ["classes in a set", "1.50", DASH],
    ]  # fmt: skip
    assert page.rows("flow") == [
        ["records", "5,000", "5,000"], ["a second", "1.39", "0.69"], ["labels", "5,000", "5,000"],
        ["a second", "1.39", "0.69"], ["found their prediction", "100.0 %", "100.0 %"],
        ["repeated, not learned", "4", "4"], ["contradicted an earlier label, in all", "3", ""],
        ["median delay", "1 min to 5 min", "over 1 d"],
        ["labels requested", "30", "30"], ["of these received", "9", "9"],
        ["dead letters", "1", "1"], ["commits", "1,000", "1,000"],
        ["transactions given up", "2", "2"],
        ["mean commit", "0 s", "0 s"], ["longest commit", "0 s", "0 s"],
    ]  # fmt: skip
    assert page.text("requests") == "Open label requests: 1,234, the oldest for 90 s."
    facts = page.facts()
    assert facts["labels"] == "5,000; effectively the last 2,000"
    assert facts["recent log loss"] == "1.0000 before, 0.9000 after"
    assert facts["fit alone"].startswith("log loss 1.1000: worse than the raw predictions")
    assert facts["fair labels"] == "no: 50 % of the correction is applied"
    assert facts["silent classes"] == (
        "no label of a, <b> and 21 more has come: excluded from learning"
    )
    assert facts["newest state"] == "3 s ago, number 3"
    assert page.text("sub").startswith("worker 0, stream_can ")
    assert "3 classes, 1 partition, since " in page.text("sub")
    assert page.rows("partitions") == [["0", "70", "0", "0"]]
    learned.age = None
    status.hour.accuracy = status.hour.log_loss = None
    page.show(status)
    assert [row[0] for row in page.rows("tiles")[:2]] == [DASH, DASH]
    assert page.facts()["newest state"] == DASH


@pytest.mark.needs("chromium")
def test_how_many_labels_count_and_why_is_said(page: Page) -> None:
    def line(requests: tuple[int, int | None] | None, **amounts: float) -> str:
        small = Small()
        small.metrics.partitions[0] = small.metrics.partitions[0]._replace(requests=requests)
        small.add(7200, **amounts)  # not of the last hour
        page.show(small.status_report.status(BEGIN))
        return page.text("fair")

    assert line((374, 1), labels=2867, matched=2800, scored=73) == (
        "73 of 2,867 labels of the last day count: those requested at random, as the others are"
        " not a fair sample."
    )
    assert line(None, labels=2867, matched=2800, scored=2100) == (
        "2,100 of 2,867 labels of the last day count: those whose sent prediction is known."
    )
    assert line(None, labels=40, scored=40) == "All 40 labels of the last day count."
    begun = (
        "No label has come since this worker started. A label also counts if its prediction was"
        " sent before a restart and is still in the output topic."
    )
    assert line(None) == line((374, 1)) == begun
    old = Small()
    old.status_report._since = BEGIN - 90_000
    page.show(old.status_report.status(BEGIN))
    assert page.text("fair").startswith("No label has come in the last day. A")
    page.show(Small(has_labels=False).status_report.status(BEGIN))
    assert page.text("fair") == ""


@pytest.mark.needs("chromium")
def test_all_dead_letters_are_counted_not_only_those_that_are_shown(page: Page) -> None:
    small = Small()

    def said(dead_letters: int) -> str:
        counts = small.metrics.partitions[0].counts | {"dead_letters": dead_letters}
        small.metrics.partitions[0] = small.metrics.partitions[0]._replace(counts=counts)
        page.show(small.status_report.status(BEGIN))
        return page.text("letters_note")

    assert said(0).startswith("Where each came from")
    assert said(1).startswith("1 dead letter since this process has its partitions.")
    small.metrics.letters += [letter(dead("BadMessage", "x"), BEGIN, []) for _ in range(20)]
    assert said(1234).startswith("1,234 dead letters since")
    assert [row[1:] for row in page.rows("letters")] == 20 * [["in-3 offset 17", "BadMessage: x"]]


@pytest.mark.needs("chromium")
def test_weights_durations_and_values(page: Page) -> None:
    small = Small()
    rows = {f"v{i}": 200 - i for i in range(120)}
    column = counted(rows, {"v0": 20, "v118": 30})
    small.metrics.values = {"country": column}
    status = small.status_report.status(BEGIN)
    (learned,) = status.learned
    learned.weights = {"raw": 0.6, "can": 0.3998, "vector": 0.0002}
    page.show(status)
    assert page.facts()["weights of the paths"] == "raw 60.0 %, can 40.0 %, 1 other less than 0.1 %"
    learned.weights["matrix"] = 0.0
    page.show(status)
    assert page.facts()["weights of the paths"].endswith("2 others less than 0.1 %")
    found, one = page.rows("values"), column.values()[0]
    (accuracy, after), (loss, lost) = one.accuracy, one.log_loss
    assert found[0][:4] == ["v0", "200", "20", f"{100 * accuracy:.1f} → {100 * after:.1f}"]
    assert found[0][4] == f"{lost - loss:+.3f}".replace("-", MINUS)
    rest = sum(rows.values()) - sum(range(151, 201))
    assert found[-1] == ["all others", f"{rest:,}", "30", DASH, DASH, DASH]
    assert len(found) == 51
    for seconds, said in (
        ("null", DASH), (0, "0 s"), (0.03, "30 ms"), (1.5, "1.5 s"), (60, "1 min"), (90, "90 s"),
        (150, "2.5 min"), (3600, "1 h"), (5400, "90 min"), (9000, "2.5 h"), (86400, "1 d"),
        (1_000_000, "12 d"),
    ):  # fmt: skip
        assert page.value(f"duration({seconds})") == said


@pytest.mark.needs("chromium")
def test_models_and_versions_are_shown_side_by_side(page: Page) -> None:
    status = Small().status_report.status(BEGIN)
    status.n_lanes, status.max_lanes = 2, 100
    status.lanes = [
        LaneScores("m", "2", "1", 40, 1000, 30, 0.5, 0.6, 1.0, 0.9),
        LaneScores("m", "<1>", None, 0, 10, 0, None, None, None, None),
    ]
    side = Side(Score(0.5, 0.6, 0.05, 0.15), Score(1.0, 0.9, None, None))
    status.versions = [TwoVersions("m", "1", "2", 30, side, side)]
    page.show(status)
    assert page.rows("models") == [
        ["m", "2", "1", "1,000", "40", "30", "50.0 → 60.0", "1.000 → 0.900"],
        ["m", "<1>", DASH, "10", "0", "0", DASH, DASH],
    ]
    figures = ["30", "50.0 → 60.0", "+5.0 and +15.0", "1.000 → 0.900", "too early to say"]
    assert page.rows("versions") == [
        ["m", "1 → 2", "raw", *figures], ["m", "1 → 2", "sent", *figures]
    ]  # fmt: skip
    assert "2 models and versions," in page.text("sub")


@pytest.mark.needs("chromium")
def test_expected_mix_ups_stand_beside_what_labels_say(page: Page) -> None:
    status = Small().status_report.status(BEGIN)
    assert page.value("document.getElementById('confusion').hidden")
    status.confused = [
        Confused("<cat>", "dog", 1200, 0.125, 40.6, 0.1), Confused("dog", "eel", 3, 0.5, 0, None)
    ]  # fmt: skip
    page.show(status)
    assert page.rows("confused") == [
        ["<cat>", "dog", "12.5", "1,200", "10.0", "41"], ["dog", "eel", "50.0", "3", DASH, "0"]
    ]  # fmt: skip


@pytest.mark.needs("chromium")
def test_a_server_speaks_of_requests_and_its_file(page: Page) -> None:
    """Words of Kafka are a worker's."""
    small = Small()
    small.status_report._over_http, small.status_report._instance = True, "/var/lib/can.sqlite"
    small.labelled(0.9)
    small.add(5, dead_letters=60)
    small.metrics.letters.append(letter(dead("BadMessage", "x"), BEGIN, []))
    status = small.status_report.status(BEGIN)
    status.learned[0].offset = None
    page.show(status)
    visible = "[...document.querySelectorAll('main > *, section')].filter(e => !e.hidden)"
    text = page.value(f"{visible}.map(e => e.innerText).join(' ').toLowerCase()")
    for word in ("worker", "partition", "dead letter", "offset", "records", "transaction", "topic"):
        assert word not in text, word
    assert "server, state in /var/lib/can.sqlite" in text
    assert "in, message 17" in text
    for word in ("predictions a second", "bad messages", "mean write"):
        assert word in text, word

"""The labelling page: a real browser's keyboard, a real broker, and a label that is learned."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from kafka import TopicPartition

from stream_can.app.labelling.request_message import RequestMessage
from stream_can.app.labelling.server import LabellingServer
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.pending import PendingRequests
from stream_can.kafka.settings import Settings
from stream_can.messages.records import Record
from tests.chromium import Browser
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import CLASSES, STAMP, App, write_config
from tests.kafka.topics import create, produce, read
from tests.programs import PATIENCE, wait

TRICK = "<img src=x onerror=document.title='run'>"


def predictions(n: int, partition: int) -> list[Record]:
    rows = np.random.default_rng(partition).dirichlet(np.full(len(CLASSES), 0.7), n).tolist()
    found = []
    for i, row in enumerate(rows):
        message = {"probs": row, "text": f"message {i}", "trick": TRICK}
        message["order"] = f"o{partition}-{i}"
        value = json.dumps(message).encode()
        found.append(Record("in", partition, i, STAMP + i, b"k%d-%d" % (partition, i), value))
    return found


def requests_of(
    records: list[Record], rows: list[list[float]], topic: str | None, ids: list[str]
) -> list[Record]:
    """The label requests of a learner that asks for all labels; without a topic with the message,
    as a server's."""
    found = []
    for one, row, id in zip(records, rows, ids, strict=True):
        says = RequestMessage(
            id, "random", one.timestamp, row, row, topic=topic, partition=one.partition,
            offset=one.offset,
        )  # fmt: skip
        if topic is None:
            says.message = msgspec.Raw(one.value or b"")
        value = msgspec.json.encode(says)
        found.append(Record("", one.partition, one.offset, one.timestamp, one.key, value))
    return found


class Asking:
    """An application, its predictions, and a request for the label of each."""

    def __init__(self, broker: Broker, n: int = 6, **settings: Any) -> None:
        self.app = App(broker.bootstrap_servers, **settings)
        self.topic = self.app.settings().requests_topic
        create(broker.bootstrap_servers, {self.topic: {"retention.ms": "-1"}}, 2)
        self.requests = {}
        for partition in (0, 1):
            records = predictions(n, partition)
            topic = self.app.given["input"]
            produce(
                self.app.servers,
                [(topic, partition, one.key, one.value, [], one.timestamp) for one in records],
            )
            said = [json.loads(one.value or b"") for one in records]
            ids = [one["order"] for one in said]
            if "id" not in settings:
                ids = [(one.key or b"").decode() for one in records]
            rows = [one["probs"] for one in said]
            self.requests[partition] = requests_of(records, rows, topic, ids)
        self.send((0, 1))

    def send(self, partitions: tuple[int, ...]) -> None:
        produce(
            self.app.servers,
            [
                (self.topic, p, one.key, one.value, [], one.timestamp)
                for p in partitions
                for one in self.requests[p]
            ],
        )

    def labels(self) -> list[Any]:
        """Wherever they lie."""
        topic = self.app.given["labels"]
        return [one for p in (0, 1) for one in read(self.app.servers, topic, p)]

    @property
    def count(self) -> int:
        return sum(map(len, self.requests.values()))


class Serving:
    """The page over an application, in threads of this process."""

    def __init__(self, app: App) -> None:
        self.pending = PendingRequests(app.settings())
        self.server = LabellingServer(self.pending)
        self._stop = threading.Event()
        self._reader = threading.Thread(target=self.pending.follow, args=[self._stop.is_set])
        self._reader.start()

    def close(self) -> None:
        self._stop.set()
        self._reader.join()
        self.server.close()
        self.pending.close()


@pytest.fixture
def serve() -> Iterator[Any]:
    opened: list[Serving] = []

    def start(app: App) -> Serving:
        opened.append(Serving(app))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def call(
    server: LabellingServer, path: str, *, body: Any = None, **headers: str
) -> tuple[int, str, Any]:
    """Status, text and headers of a request to the page's server."""
    url = origin(server) + path if path.startswith("/") else server.address + path
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, given)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def origin(server: LabellingServer) -> str:
    return server.address.removesuffix(f"/{server.token}/")


def give(server: LabellingServer, one: dict[str, Any], column: int) -> tuple[int, str]:
    body = {"partition": one["partition"], "offset": one["offset"], "label": column}
    code, text, _ = call(
        server, "answer", body=body, Origin=origin(server), Content_Type="application/json"
    )
    return code, text


def opened(server: LabellingServer) -> dict[str, Any]:
    code, text, _ = call(server, "requests?oldest=1")
    assert code == 200
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.needs("chromium")
def test_a_label_is_given_with_the_keyboard_and_learned(
    broker: Broker, browser: Browser, tmp_path: Path
) -> None:
    asking = Asking(broker)
    config = write_config(asking.app, tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "stream_can", "label", config],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
        for width in (1000, 400):
            browser.look(address, width)
            browser.until("document.querySelectorAll('#classes li').length === 4")
            assert browser.value("document.documentElement.scrollWidth") <= width
        # The page shows what it has while it reads on.
        browser.until(f"document.getElementById('open').textContent === '{asking.count} open'")
        fields = browser.value("[...document.querySelectorAll('dt')].map(one => one.textContent)")
        assert fields == ["text", "trick", "order"]  # and no probabilities
        assert TRICK in browser.value("document.querySelector('dl').textContent")
        assert browser.value("document.querySelectorAll('li span').length") == 0
        browser.press("p")
        shares = browser.value(
            "[...document.querySelectorAll('li span')].map(one => parseFloat(one.textContent))"
        )
        assert sum(shares) == pytest.approx(100, abs=0.3)
        why = browser.value("document.getElementById('why').textContent")
        assert re.fullmatch(r"predicted \d+ (d|h|min|s) ago", why)
        first = browser.value("document.querySelector('dd').textContent")
        browser.press("s")  # the first is passed over
        chosen = browser.until(
            f"document.querySelector('dd').textContent !== '{first}' &&"
            " document.querySelectorAll('li bdi')[1].textContent"
        )
        second = browser.value("document.querySelector('dd').textContent")
        order = browser.value("document.querySelectorAll('dd')[2].textContent")
        browser.press("1")
        browser.until(f"document.querySelector('dd').textContent !== '{second}'")
        browser.press("u")  # it was a mistake
        browser.until(f"document.querySelector('dd').textContent === '{second}'")
        browser.press("2")
        said = "document.getElementById('progress').textContent"
        browser.until(f"{said} === 'Here: 0 written, 1 waiting, 1 passed over.'")
        assert asking.labels() == []
        browser.until(f"{said} === 'Here: 1 written, 0 waiting, 1 passed over.'")
        left = asking.count - 1
        browser.until(f"document.getElementById('open').textContent === '{left} open'")
        assert browser.value("document.title") == "Labels"  # what is in a message is text
        (record,) = asking.labels()
        assert json.loads(record.value)["label"] == chosen
        assert record.key == b"k" + order[1:].encode()
    finally:
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert address.split("/")[3] not in said  # the secret is in no log


def test_answers_have_the_keys_of_their_predictions(broker: Broker, serve: Any) -> None:
    asking = Asking(broker)
    serving = serve(asking.app)
    wait("requests", lambda: opened(serving.server)["open"] == asking.count)
    shown = opened(serving.server)["requests"]
    for one in shown:
        column = one["likeliest"][0][0]
        assert give(serving.server, one, column) == (200, "ok\n")
        assert give(serving.server, one, column)[0] == 409  # once is enough
    assert opened(serving.server)["open"] == 0
    requests = {one.key: one for of in asking.requests.values() for one in of}
    records = asking.labels()
    assert sorted(r.key for r in records) == sorted(requests)
    for record in records:
        message, says = json.loads(record.value), json.loads(requests[record.key].value or b"")
        assert message == {
            "label": CLASSES[int(np.argmax(says["probs"]))],
            "probs_raw": says["probs_raw"],
        }


def test_fields_are_where_the_settings_have_them(broker: Broker, serve: Any) -> None:
    asking = Asking(broker, id="order", label="truth.name", raw="was")
    serving = serve(asking.app)
    wait("requests", lambda: opened(serving.server)["open"])
    one = opened(serving.server)["requests"][0]
    assert give(serving.server, one, 2)[0] == 200
    (record,) = asking.labels()
    message = json.loads(record.value)
    assert message["truth"] == {"name": CLASSES[2]}
    assert message["order"] == one["id"]
    assert len(message["was"]) == len(CLASSES)


def test_what_was_answered_elsewhere_or_before_is_not_shown(broker: Broker, serve: Any) -> None:
    asking = Asking(broker)
    first = serve(asking.app)
    wait("requests", lambda: opened(first.server)["open"] == asking.count)
    one = opened(first.server)["requests"][0]
    give(first.server, one, 0)
    # Another system labels the last request of partition 1 and something that nobody asked for.
    elsewhere = asking.requests[1][-1].key
    labels = asking.app.given["labels"]
    produce(
        asking.app.servers,
        [(labels, 1, key, b'{"label":"a"}', []) for key in (elsewhere, b"other")]
        + [(labels, 1, b"x", b"no json", [])],
    )
    for serving in (first, serve(asking.app)):
        wait("both are closed", lambda s=serving: opened(s.server)["open"] == asking.count - 2)
    # What is no request is passed over, and later ones are found.
    produce(asking.app.servers, [(asking.topic, 0, b"bad", b"{}", [])])
    asking.send((0,))
    wait("asked again", lambda: opened(first.server)["open"] > asking.count - 2)


def test_nobody_else_gets_in(broker: Broker, serve: Any) -> None:
    asking = Asking(broker)
    server = serve(asking.app).server
    wait("requests", lambda: opened(server)["open"] == asking.count)
    one = opened(server)["requests"][0]
    body = {"partition": one["partition"], "offset": one["offset"], "label": 0}
    right = {"Origin": origin(server), "Content_Type": "application/json"}
    for path in ("/", "/requests", "/x/requests", f"/{server.token[:-1]}/requests", "/%C3%A9/"):
        assert call(server, path)[0] == 404, path
    assert call(server, f"/{server.token}")[0] == 404
    assert call(server, "requests", Host="evil.example")[0] == 404
    assert call(server, "answer", body=body, **right, Host="evil.example:80")[0] == 404
    assert call(server, "answer", body=body, **right | {"Origin": "http://evil.example"})[0] == 404
    assert call(server, "answer", body=body, Content_Type="application/json")[0] == 404
    assert call(server, "answer", body=body, **right | {"Content_Type": "text/plain"})[0] == 404
    assert call(server, "/x/answer", body=body, **right)[0] == 404
    for bad in (b"{", b"[]", {**body, "label": 4}, {**body, "label": -1}, {**body, "more": 1}):
        assert call(server, "answer", body=bad, **right)[0] == 400
    assert call(server, "answer", body=b" " * 20_000, **right)[0] == 400
    assert call(server, "answer", body={**body, "offset": 10**6}, **right)[0] == 409
    assert opened(server)["open"] == asking.count
    code, page, headers = call(server, "")
    policy = headers["Content-Security-Policy"]
    (nonce,) = set(re.findall(r"'nonce-([\w-]+)'", policy))
    assert code == 200
    assert policy.startswith("default-src 'none'; ")
    assert page.count(f'nonce="{nonce}"') == 2
    assert "NONCE" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert nonce not in call(server, "")[1]  # another one each time
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


def test_mistakes_are_named(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers)
    with pytest.raises(DeniedError, match=f"{app.id}-label-requests' does not exist"):
        PendingRequests(app.settings()).follow(lambda: False)
    with pytest.raises(DeniedError, match="labels: name the topic"):
        PendingRequests(app.settings(labels=None))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "stream_can", "label", write_config(app, tmp_path)],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 1
    assert "label-requests' does not exist" in done.stderr
    assert "Traceback" not in done.stderr


HOSTILE = {
    b"1e999": "1e999",
    b"-1e999": "-1e999",
    b"1e-999": "1e-999",
    b"1e99999999999999999999": "1e99999999999999999999",
    b"9" * 5000: "9" * 5000,
    b"9007199254740993": "9007199254740993",
    b"-9007199254740993": "-9007199254740993",
    b"0.10000000000000000001": "0.10000000000000000001",
    b"9007199254740992": 2**53,
    b"0.30000000000000004": 0.1 + 0.2,
    b"7": 7,
    b'[1e999, {"n": 9007199254740993}]': ["1e999", {"n": "9007199254740993"}],
    b'"\\ud83d\\ude00"': "\U0001f600",
}
"""JSON of strangers, and what the page has to get."""


class Unread(Serving):
    """The page over requests, handed over as a broker's records would be."""

    def __init__(self, values: list[bytes], classes: list[str] = CLASSES) -> None:
        settings = Settings(
            bootstrap_servers=["127.0.0.1:1"], application_id="app", input="in", output="out",
            labels="labels", classes=classes,
        )  # fmt: skip
        self.pending = PendingRequests(settings)
        self.server = LabellingServer(self.pending)
        self._topic, self._classes, self._asked = settings.requests_topic, classes, 0
        self.more(values)

    def more(self, values: list[bytes]) -> None:
        """Requests for predictions that have these fields."""
        row = [1 / len(self._classes)] * len(self._classes)
        probs = json.dumps(row).encode()
        records = [
            Record("in", 0, i, -1, b"k%d" % i, b'{"probs": %b, %b}' % (probs, value))
            for i, value in enumerate(values, self._asked)
        ]
        ids = [f"k{i}" for i, _ in enumerate(values, self._asked)]
        made = requests_of(records, [row] * len(records), None, ids)
        numbered = enumerate(made, self._asked)
        self._asked += len(values)
        self.ask([Record(self._topic, 0, i, 0, r.key, r.value) for i, r in numbered])

    def ask(self, records: list[Record]) -> None:
        self.pending._accept_records(
            {TopicPartition(r.topic, r.partition): records for r in records[:1]}
        )

    def close(self) -> None:
        self.server.close()


@pytest.fixture
def unread() -> Iterator[Any]:
    serving: list[Unread] = []

    def start(*values: bytes, classes: list[str] = CLASSES) -> Unread:
        serving.append(Unread(list(values), classes))
        return serving[-1]

    yield start
    for one in serving:
        one.close()


def no_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def test_numbers_that_no_browser_has_are_sent_as_text(unread: Any) -> None:
    server = unread(*(b'"amount": ' + number for number in HOSTILE)).server
    code, text, _ = call(server, "requests?oldest=1")
    assert code == 200
    found = json.loads(text, parse_constant=no_constant)
    assert [one["message"]["amount"] for one in found["requests"]] == list(HOSTILE.values())


def test_a_message_that_cannot_be_read_holds_up_no_other(unread: Any) -> None:
    serving = unread(b'"text": "good"')
    opens = serving.pending._open
    (good,) = opens.values()
    deep = b"[" * 100_000 + b"]" * 100_000
    for offset, message in enumerate((b'{"\xff": "\xff"}', b'{"deep": ' + deep + b"}", b"null"), 1):
        says = msgspec.structs.replace(good.says, message=msgspec.Raw(message))
        opens[str(offset)] = good._replace(offset=offset, says=says)
    opens.move_to_end("k0")
    *bad, last = opened(serving.server)["requests"]
    assert last["message"] == {"text": "good"}
    assert bad[0]["message"] == {"\ufffd": "\ufffd"}
    assert bad[1]["message"]["message"].startswith('{"deep": [[[')
    assert bad[2]["message"] == {"message": "null"}
    for one in bad:
        assert give(serving.server, one, len(CLASSES))[0] == 400  # and it is there to be answered


def test_requests_that_are_none_are_passed_over(
    unread: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serving = unread(b'"text": "good"')
    (good,) = serving.pending._open.values()
    whole = msgspec.json.encode(good.says)
    deep = b"[" * 100_000 + b"]" * 100_000
    topic = serving.pending._requests
    bad = [b"", b"\xff", b'{"id": "\xff"}', b"[]", whole.replace(b'"good"', deep)]
    serving.ask([Record(topic, 0, 9 + i, 0, b"\xff", value) for i, value in enumerate(bad)])
    assert opened(serving.server)["open"] == 1
    assert len(caplog.records) == len(bad)
    labels = serving.pending._labels
    for value in (b"\xff", b'{"label": "\xff"}', deep, b"9" * 5000):
        serving.ask([Record(labels, 0, 0, 0, b"\xff", value)])
    assert opened(serving.server)["open"] == 1


@pytest.mark.parametrize("size", ["²", "-1", "9" * 5000, "1e3", "10001", " "])
def test_a_length_that_is_none_is_a_bad_request(unread: Any, size: str) -> None:
    server = unread(b'"text": "good"').server
    number = server._server.number
    head = (
        f"POST /{server.token}/answer HTTP/1.1\r\nHost: 127.0.0.1:{number}\r\n"
        f"Origin: {origin(server)}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n"
    )
    with socket.create_connection(("127.0.0.1", number), timeout=PATIENCE) as stream:
        stream.sendall(head.encode("latin-1") + b"\r\n")
        answer = b"".join(iter(lambda: stream.recv(10_000), b"")).decode()
    assert answer.startswith("HTTP/1.0 400 ")
    assert "expected at most 10000 bytes" in answer


@pytest.mark.parametrize("body", [b'{"\xff": 1}', b"[" * 9000, b'{"offset":' + b"9" * 5000 + b"}"])
def test_an_answer_that_is_none_is_a_bad_request(unread: Any, body: bytes) -> None:
    server = unread(b'"text": "good"').server
    right = {"Origin": origin(server), "Content_Type": "application/json"}
    assert call(server, "answer", body=body, **right)[0] == 400


@pytest.mark.needs("chromium")
def test_the_page_shows_what_no_browser_could_read(unread: Any, browser: Browser) -> None:
    server = unread(
        b'"amount": 1e999, "digits": %b, "id": 9007199254740993' % (b"9" * 5000), b'"text": "later"'
    ).server
    browser.look(server.address, 1000)
    browser.until("document.querySelector('dd')?.textContent === 'later'")
    browser.press("s")
    browser.until("document.querySelectorAll('dd').length === 3")
    shown = browser.value("[...document.querySelectorAll('dd')].map(one => one.textContent)")
    assert shown == ["1e999", "9" * 5000, "9007199254740993"]
    browser.press("s")
    browser.until("document.getElementById('request').hidden")
    assert browser.errors == []


def numbered(first: int, n: int) -> list[bytes]:
    return [b'"text": "message %d"' % i for i in range(first, first + n)]


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    ("width", "dark", "classes"), [(320, True, 2), (400, False, 300), (1280, True, 12)]
)
def test_nothing_moves_under_the_finger(
    unread: Any, browser: Browser, width: int, dark: bool, classes: int
) -> None:
    """What is looked at or taken back stays, however many come; all that is open can be reached."""
    names = [f"class {i}" for i in range(classes)]
    serving = unread(*numbered(0, 40), classes=names)
    browser.look(serving.server.address, width, dark=dark)
    message = "document.querySelector('dd')?.textContent"
    browser.until(f"{message} === 'message 39'")
    browser.press("1")
    browser.until(f"{message} === 'message 38'")
    serving.more(numbered(40, 60))
    browser.until("document.getElementById('open').textContent === '99 open'")
    assert browser.value(message) == "message 38"
    browser.press("u")  # and what was answered is back, though it is none of the newest
    looked = "performance.getEntriesByType('resource').length"
    before = browser.value(looked)
    browser.until(f"{looked} > {before} + 1")
    assert browser.value(message) == "message 39"
    seen = set()
    for _ in range(100):
        seen.add(browser.until(f"!document.getElementById('request').hidden && {message}"))
        browser.press("s")
    browser.until("document.getElementById('request').hidden")
    assert len(seen) == 100
    assert browser.value("document.documentElement.scrollWidth") <= width
    serving.more(numbered(100, 1))
    browser.until(f"{message} === 'message 100'")
    assert browser.value("document.querySelectorAll('#classes li').length") == min(classes, 9)
    assert browser.value("document.getElementById('others').hidden") == (classes <= 9)
    if classes > 9:
        browser.press("/")
        assert browser.value("document.activeElement.id") == "search"
        browser.value(f"document.activeElement.value = '{names[-1]}'")
        browser.press("Escape")
        assert browser.value("document.getElementById('waiting').hidden")
        browser.press("/")
        browser.value(f"document.activeElement.value = '{names[-1]}'")
        browser.press("Enter")
        browser.until("!document.getElementById('waiting').hidden")
        assert names[-1] in browser.value("document.getElementById('given').textContent")
    assert browser.errors == []

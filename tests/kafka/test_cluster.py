"""Three brokers, one of which stands still."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.kafka.broker.broker import VERSIONS, Cluster
from tests.kafka.streams import App, caught_up, fill
from tests.kafka.topics import until_closed
from tests.programs import PATIENCE, wait

pytestmark = pytest.mark.long


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(VERSIONS[0], tmp_path / "brokers")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.mark.release
def test_a_coordinator_that_hangs_in_a_rebalance(cluster: Cluster, tmp_path: Path) -> None:
    """Before, two live workers said and did nothing for five minutes."""
    app = App(cluster.bootstrap_servers, partitions=4)
    fill(app, 400)
    workers = {name: app.process(tmp_path, name) for name in "01"}
    frozen: list[int] = []

    def freeze(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        frozen.append(pid)

    def log(name: str) -> str:
        return (tmp_path / f"{name}.log").read_text()

    try:
        caught_up(app)
        admin = KafkaAdminClient(bootstrap_servers=app.servers)
        node = admin._manager.run(admin._find_coordinator_id, app.id)
        coordinator = cluster.brokers[node - 1].process
        assert coordinator is not None
        freeze(workers["0"].pid)
        workers["2"] = app.process(tmp_path, "2")
        state = "PreparingRebalance"
        wait("a rebalance", lambda: state in str(admin.describe_groups([app.id])), every=0.05)
        admin.close()
        seen = {name: len(log(name)) for name in "12"}
        freeze(coordinator.pid)
        begin = time.monotonic()
        wait("work goes on", lambda: all("by state" in log(n)[seen[n] :] for n in "12"))
        print(f"worked again after {time.monotonic() - begin:.1f} s")
        said = log("1")[seen["1"] :] + log("2")[seen["2"] :]
        assert "WARNING" in said
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        frozen.clear()
        app.close()  # it asked the one that stood still
        fill(app, 400, seed=1)
        caught_up(app)
        for process in workers.values():
            process.terminate()
        assert [process.wait(PATIENCE) for process in workers.values()] == [0, 0, 0]
        until_closed(app.servers, app.given["output"], app.partitions)
        assert app.verify() == 800
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        for process in workers.values():
            process.kill()
            process.wait()

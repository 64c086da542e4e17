"""Models and versions in one application, on a real broker."""

from __future__ import annotations

import signal
from pathlib import Path

from stream_can.kafka.newest import newest
from stream_can.stream.naming import LaneName
from stream_can.stream.replica import Replica
from tests.kafka.broker.broker import Broker
from tests.kafka.fleet import FIELDS, fill, judge
from tests.kafka.streams import App
from tests.kafka.topics import read, until_closed
from tests.programs import wait

NAMES = [LaneName(f"model {i}/{'ä' * (i % 2)}", f"v{j}") for i in range(40) for j in (1, 2)]


def close(app: App) -> None:
    for topic in (app.given["output"], f"{app.id}-dead-letters"):
        until_closed(app.servers, topic, app.partitions)
    until_closed(app.servers, f"{app.id}-learned", 1)


def test_a_fleet_is_exact(broker: Broker, tmp_path: Path) -> None:
    """40 models, 2 versions each, 8 partitions, 3 workers, one of which is killed."""
    app = App(broker.bootstrap_servers, partitions=8, **FIELDS)
    fill(app, 2000, NAMES[:30], 1)
    running = {name: app.process(tmp_path, name) for name in "012"}
    try:
        wait("some outputs", lambda: app.outputs(0))
        running["1"].send_signal(signal.SIGKILL)
        running["1"].wait()
        fill(app, 2000, NAMES, 2)  # with models that are new
        running["1"] = app.process(tmp_path, "1")
        wait("all committed", lambda: app.lag() == 0)
    finally:
        for process in running.values():
            process.terminate()
        codes = [process.wait(60) for process in running.values()]
    assert codes == [0, 0, 0]
    close(app)
    found = judge(app)
    assert found.outputs > 6000
    assert (found.letters, found.unmatched, dict(found.left)) == (0, 0, {})
    assert found.labels == found.outputs
    assert {*found.replica.lanes} == {*NAMES}
    after = {one.after for name, one in found.replica.lanes.items()}
    assert after <= {None, "v1", "v2"}
    assert len(after) > 1
    # The records of lanes are what the log is up to the shared record's offset.
    state = newest(f"{app.id}-state", app.servers.split(","))
    base, said = state.pop("shared")
    again = Replica()
    for record in read(app.servers, f"{app.id}-learned", 0):
        if record.offset < said["learned"]:
            again.fold(record)
    assert base.to_bytes() == again.corrector.to_bytes()
    kept = {(of["model"], of["version"]): (one, of) for one, of in state.values()}
    assert {*kept} == {*again.lanes}
    for name, lane in again.lanes.items():
        corrector, of = kept[name]
        assert corrector.to_bytes() == lane.corrector.to_bytes()
        assert (of["begun"], of["last"], of["successor_of"]) == (lane.begun, lane.last, lane.after)
    assert "shared/0/model%200%2F/v1" in state

"""A worker on a machine whose clock is wrong: the brokers' time counts, and it is said."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from stream_can.kafka.client.clock import BrokerClock
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, caught_up, label, prediction, with_clock
from tests.kafka.topics import produce, read
from tests.programs import PATIENCE, wait

IN_2076 = 3_345_000_000_000


@pytest.mark.parametrize(("ahead", "said"), [(-7200, "behind"), (7200, "ahead of")])
def test_no_record_is_lost_by_it(broker: Broker, tmp_path: Path, ahead: int, said: str) -> None:
    """Before, two hours behind made every prediction a dead letter, and two ahead ended it."""
    bound = {"message.timestamp.after.max.ms": "3600000"}
    far = {"message.timestamp.after.max.ms": str(1 << 60)}
    configs = {"in": far, **dict.fromkeys(("out", "dead-letters"), bound)}
    app = App(broker.bootstrap_servers, partitions=1, configs=configs)
    rng, now, records = random.Random(0), int(time.time() * 1000), []
    for i in range(80):
        key, value, truth = prediction(rng, i)
        records.append((app.given["input"], 0, key, value, [], now + i))
        records.append((app.given["labels"], 0, key, label(truth), [], now + i + 40))
    key, value, _ = prediction(rng, 80)
    produce(app.servers, [*records, (app.given["input"], 0, key, value, [], IN_2076)])
    process = app.process(tmp_path, command=with_clock(ahead))
    log = tmp_path / "0.log"
    try:
        wait("all committed", lambda: process.poll() is not None or app.lag() == 0)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0, log.read_text()
    caught_up(app)
    assert len(app.outputs(0)) == 80
    (letter,) = read(app.servers, f"{app.id}-dead-letters", 0)
    told = dict(letter.headers)
    assert told["__connect.errors.offset"] == b"80"
    assert told["stream-can-timestamp"] == b"%d" % IN_2076
    assert abs(letter.timestamp - now) < 1_800_000
    assert f"s {said} the brokers': topics accept" in log.read_text()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("theirs", "skew"), [(105.0, 0.0), (100.0, 0.0), (90.0, -10.0), (7310.0, 7200.0)]
)
def test_what_is_sure_of_the_skew(theirs: float, skew: float) -> None:
    clock = BrokerClock()
    clock.compare(100.0, theirs, 110.0)
    assert clock.skew == skew
    assert clock.now_ms() >= 1000 * (110 + skew)

"""What befalls an application beside its processes: its topics, rights, clocks, log and disk.

Each is one fault of a run of `chaos.Chaos`: it is there, the workers are seen to meet it as
docs/operations.md says, and it is gone when the function returns.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from stream_can.kafka.client.guards import ClientError
from stream_can.kafka.stored import StoredState
from stream_can.learner import SentBatch, SentVersion
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, state_of
from tests.kafka.topics import create, delete, grow, produce, read, until_closed
from tests.kafka.users import allow, lacks, learners, needed_to_start, rights, take_away
from tests.programs import wait

if TYPE_CHECKING:
    from tests.kafka.chaos import Chaos

USER = "alice"
MOST_PARTITIONS = 12
OFF_SECONDS = (-90_000, -7_200, 7_200, 90_000)
"""By which the clock of a worker is wrong."""
DISK_MB = 400


def insist(what: str, call: Callable[[], Any]) -> None:
    """``call()`` until the brokers, which may still be electing, take it."""

    def taken() -> bool:
        try:
            call()
        except KafkaError:
            return False
        return True

    wait(what, taken)


def add_partition(chaos: Chaos) -> None:
    """One more for each topic, in any order; now and then a worker restarts in between."""
    app = chaos.app
    if app.partitions == MOST_PARTITIONS:
        return
    chaos.counts["partition added"] += 1
    kinds = app.kinds
    chaos.rng.shuffle(kinds)
    for kind in kinds:
        topic = f"{app.id}-{kind}"
        insist(f"{topic} grows", lambda topic=topic: grow(app.servers, topic, app.partitions + 1))
        chaos.sleep(0, 1)
        if chaos.rng.random() < 0.3:
            chaos.kill_worker()
        chaos.revive()
    app.partitions += 1


def revoke_right(chaos: Chaos) -> None:
    """Every worker that needs it ends and names it, or learns no more where that alone needs it; it
    is given back."""
    app = chaos.app
    right = chaos.rng.choice(rights(app, *chaos.workers))
    chaos.counts[f"{right[2]} on {right[1].removeprefix(app.id)[1:] or 'group'} revoked"] += 1
    concerned = [
        name
        for name in chaos.workers
        if right[0] != "TRANSACTIONAL_ID" or right[1] in (f"{app.id}/{name}", f"{app.id}-learner")
    ]
    insist("revoked", lambda: take_away(app.servers, USER, *right))
    restarts = right in needed_to_start(app) or right in learners(app)
    if restarts:
        for name in concerned:
            chaos.workers[name].kill()
            chaos.workers[name].wait()
            chaos.begin(name)
    if right in learners(app):
        chaos.says(concerned, f"learning ends here: {lacks(*right)}")
        for name in concerned:
            chaos.workers[name].kill()
            chaos.workers[name].wait()
    else:
        chaos.refused(concerned, lacks(*right))
    insist("given back", lambda: allow(app.servers, USER, *right))
    time.sleep(1)  # the brokers tell each other
    for name in concerned:
        chaos.begin(name)


def delete_learned(chaos: Chaos) -> None:
    """Retention takes what was read: input that was corrected, labels and sent batches that were
    learned. Who takes over finds no predictions there to wait for their label."""
    app, rng = chaos.app, chaos.rng
    state, committed = wait("positions", lambda: positions(app))
    memory = state.memory
    kind = rng.choice(["in", "labels", "sent", "begun"])
    chaos.counts[f"{'sent' if kind == 'begun' else kind} deleted, read"] += 1
    labels = memory.labels[app.given["labels"]]
    read = {"in": committed, "labels": labels, "sent": memory.sent, "begun": memory.play_starts}
    topic = f"{app.id}-{'sent' if kind == 'begun' else kind}"
    chaos.records.now[topic].delete(read[kind])
    if kind == "sent" and rng.random() < 0.7:
        chaos.kill_worker()


def delete_unlearned(chaos: Chaos) -> None:
    """Retention takes sent batches and labels that nobody has learned: the next learner goes on
    behind them, and says so."""
    app, rng = chaos.app, chaos.rng
    kinds = rng.choice([["sent"], ["labels"], ["sent", "labels"]])
    chaos.counts[f"{' and '.join(kinds)} deleted, not learned"] += 1
    for name in "01":
        chaos.workers[name].kill()
        chaos.workers[name].wait()
    chaos.begin("2", learn=False)
    chaos.wait_for("2")
    chaos.sleep(1, 3)
    chaos.leave("2")
    for kind in kinds:
        recorder = chaos.records.now[f"{app.id}-{kind}"]
        recorder.until_end()
        recorder.delete(recorder.positions)
    for name in "01":
        chaos.begin(name)
    chaos.says("01", "at which learning was, is not there")


def delete_uncorrected(chaos: Chaos) -> None:
    """Retention takes input that nobody has corrected: workers end and name it, and go on behind it
    where they are told to."""
    app = chaos.app
    for name in "01":
        chaos.workers[name].kill()
        chaos.workers[name].wait()
    chaos.sleep(0.5, 2)
    _, committed = wait("positions", lambda: positions(app))
    recorder = chaos.records.now[app.given["input"]]
    recorder.until_end()
    # What the killed workers had open may have been committed since: only what lies behind counts.
    if not all(recorder.positions[p] > committed.get(p, 0) for p in range(app.partitions)):
        return  # else a worker without a gap would go on
    chaos.counts["in deleted, not corrected"] += 1
    recorder.delete(recorder.positions)
    for name in "01":
        chaos.begin(name)
    chaos.refused("01", "are gone; --reset-offsets goes on")
    for name in "01":
        chaos.begin(name, more=["--reset-offsets"])
    ends = dict(recorder.positions)
    wait(
        "it goes on behind the gap",
        lambda: (
            (found := positions(app)) and all(found[1].get(p, 0) >= at for p, at in ends.items())
        ),
    )
    for name in "01":
        chaos.workers[name].kill()
        chaos.workers[name].wait()
        chaos.begin(name)


def make_labels_again(chaos: Chaos) -> None:
    """The topic of labels is deleted, and another one of its name made, beside workers or before
    they start again; it is read from its beginning."""
    app, rng = chaos.app, chaos.rng
    running = rng.random() < 0.5
    chaos.counts[f"labels made again {'beside workers' if running else 'while none ran'}"] += 1
    if not running:
        for name in "01":
            chaos.workers[name].kill()
            chaos.workers[name].wait()
        chaos.sleep(1, 3)
    with chaos.writer.held():
        chaos.records.make_again(app.given["labels"], {"retention.ms": "-1"}, app.label_partitions)
    # Who saw that it was missing learns no more, and says so: it is started again.
    chaos.sleep(1, 2)
    for name in "01":
        if not running or "learning ends here" in chaos.said(name):
            chaos.workers[name].kill()
            chaos.workers[name].wait()
            chaos.begin(name)


def make_input_again(chaos: Chaos) -> None:
    """The input is deleted, and another one of its name made, beside workers or before they start
    again: each ends and names it, and goes on at the beginning where it is told to."""
    app, rng = chaos.app, chaos.rng
    running = rng.random() < 0.5
    chaos.counts[f"in made again {'beside workers' if running else 'while none ran'}"] += 1
    if not running:
        for name in "01":
            chaos.workers[name].kill()
            chaos.workers[name].wait()
    topic = app.given["input"]
    with chaos.writer.held():
        if running:  # else what nobody has corrected goes with it
            chaos.catch_up()
        chaos.records.make_again(topic, {"retention.ms": "-1"}, app.partitions)
    for name in "01":
        if not running:
            chaos.begin(name)
    chaos.refused("01", rf"input topic {topic!r} does not exist|--reset-offsets goes on")
    for name in "01":
        chaos.begin(name, more=["--reset-offsets"])
    wait(
        "it goes on in the new one",
        lambda: (found := positions(app)) and found[1].keys() >= {*range(app.partitions)},
    )
    for name in "01":
        chaos.workers[name].kill()
        chaos.workers[name].wait()
        chaos.begin(name)


def positions(app: App) -> tuple[StoredState, dict[int, int]] | None:
    """The newest state, and what the group has committed of the input; None where the brokers do
    not say so now."""
    with contextlib.suppress(KafkaError, ClientError, OSError):
        admin = KafkaAdminClient(bootstrap_servers=app.servers)
        try:
            found = admin.list_group_offsets([app.id])[app.id]
        finally:
            admin.close()
        state = state_of(app)
        if state is not None:
            return state, {
                tp.partition: at.offset
                for tp, at in found.items()
                if tp.topic == app.given["input"] and at.offset >= 0
            }
    return None


def wrong_clocks(chaos: Chaos) -> None:
    """A worker goes on with a clock that is hours off; so does the producer, by minutes."""
    chaos.counts["wrong clock"] += 1
    name = chaos.rng.choice("01")
    chaos.workers[name].kill()
    chaos.workers[name].wait()
    chaos.begin(name, ahead=chaos.rng.choice(OFF_SECONDS))
    chaos.writer.skew = {
        kind: chaos.rng.choice([0, chaos.rng.randrange(-3_600_000, 1_800_000)])
        for kind in ("input", "labels")
    }
    chaos.sleep(1, 4)


def foreign_records(chaos: Chaos) -> None:
    """Among the sent batches and beside the states: garbage, and what looks like a batch."""
    app, rng = chaos.app, chaos.rng
    chaos.counts["foreign records"] += 1
    batch = SentBatch(
        ["x"], np.array([5]), np.array([1.0]),
        [SentVersion((None, None), ("a", "b", "c", "d"), np.zeros((1, 40), np.float32))],
        np.zeros(1, np.int32), {},
    ).to_bytes()  # fmt: skip
    values = [None, b"", rng.randbytes(100), b'{"label": "a"}', batch]
    records: list[tuple[Any, ...]] = []
    for value in rng.sample(values, 4):
        records.append((f"{app.id}-sent", rng.randrange(app.partitions), b"k", value))
        records.append((f"{app.id}-state", rng.randrange(2), b"somebody's", value))
    insist("foreign records are written", lambda: produce(app.servers, records))


def delete_dead_letters(chaos: Chaos) -> None:
    """The topic is deleted while the workers run, who say so, and put back with what it held."""
    app = chaos.app
    topic = f"{app.id}-dead-letters"
    chaos.counts["topic deleted and put back"] += 1
    with chaos.writer.held():
        chaos.catch_up()
        insist("all can be read", lambda: until_closed(app.servers, topic, app.partitions))
        kept = [
            (p, record) for p in range(app.partitions) for record in read(app.servers, topic, p)
        ]
        insist(f"{topic} is deleted", lambda: delete(app.servers, topic))
    chaos.refused(list(chaos.workers), f"missing topics: {topic}")
    insist(
        f"{topic} is made",
        lambda: create(app.servers, {topic: {"retention.ms": "-1"}}, app.partitions),
    )
    produce(app.servers, [(topic, p, r.key, r.value, r.headers, r.timestamp) for p, r in kept])
    for name in list(chaos.workers):
        chaos.begin(name)


class SmallDisk:
    """A broker's data on a disk of its own, which can be filled."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.data = broker.directory / "data"
        aside = broker.directory / "formatted"
        self.data.rename(aside)
        self.data.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(self.data)]
        try:
            done = subprocess.run(mount, capture_output=True, text=True)
            if done.returncode:
                raise PermissionError(done.stderr.strip())
            shutil.copytree(aside, self.data, dirs_exist_ok=True)
        except OSError:
            self.data.rmdir()
            aside.rename(self.data)
            raise

    def fill(self, chaos: Chaos) -> None:
        """Nothing can be written any more: the broker ends, and starts when there is room again."""
        chaos.counts["disk full"] += 1
        filler = self.data / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        ended = self.broker.process
        assert ended is not None
        deadline = time.monotonic() + 20
        while ended.poll() is None and time.monotonic() < deadline:
            chaos.sleep(0.2, 0.5)
        self.broker.kill()
        filler.unlink()
        self.broker.start()

    def remove(self) -> None:
        self.broker.kill()
        subprocess.run(["umount", str(self.data)], check=True)

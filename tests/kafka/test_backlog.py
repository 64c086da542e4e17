"""A topic with history: the learner corrects it in the order of time, on a real broker."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stream_can.app.status import Backlog
from stream_can.kafka import handing, play_order
from stream_can.kafka.client.assigned import Assigned
from stream_can.kafka.client.guards import RebuildError
from stream_can.kafka.handing import Handing, handed_over
from stream_can.kafka.headers import DEFERRED_HEADER
from stream_can.kafka.learner_watch import LearnerWatch
from stream_can.kafka.learning_role import LearningRole
from stream_can.kafka.played_records import PlayedRecords
from stream_can.kafka.played_sender import PlayedSender
from stream_can.kafka.record_handler import RecordHandler
from stream_can.kafka.state_writer import StateWriter
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.kafka.unread import Unread
from tests.kafka.broker.broker import Served
from tests.kafka.recorder import Records
from tests.kafka.streams import (
    COMMAND,
    STEADY,
    App,
    Running,
    caught_up,
    fill,
    label,
    more,
    prediction,
    rows_in_memory,
    rows_of,
    run_once,
    tombstones,
)
from tests.kafka.topics import produce, read
from tests.programs import PATIENCE, wait


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"segments": ["carrier"], "sets": 0.8},
        {"model": "model", "version": "version", "max_lanes": 4},
        {"recent_mb": 0.02, "ask": 0.3},
        {"rows": "multilabel", "ask": 0.3},
    ],
    ids=str,
)
def test_history_is_corrected_by_the_learner(
    broker: Served, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Every record is answered once, and as the learner's corrector is at that point."""
    monkeypatch.setattr(handing, "ANSWER_SECONDS", PATIENCE)  # the next learner has time
    app = App(broker.bootstrap_servers, label_partitions=3, **settings)
    fill(app, 400, more=more, bad=True)
    learner, worker = app.learner(), app.worker(learn=False)
    caught_up(app, learner, worker)
    learner.stop()
    fill(app, 400, 1, first=400, more=more, bad=True, delay=-10)
    second, third = app.learner("1"), app.worker("1", learn=False)
    caught_up(app, second, worker, third)
    worker.stop()
    fill(app, 200, 2, first=800, more=more, bad=True)
    caught_up(app, second, third)
    for one in (second, third):
        one.stop()
    app.verify()
    verdict = app.checked
    assert verdict.outputs == 1000 + tombstones(app)
    assert len(verdict.deferred) > 700
    assert verdict.dead_letters > 20


def test_history_is_what_one_learner_makes_of_it(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, to the last row: what the learner told itself once cut the last ones off from
    labels that it had not read."""
    monkeypatch.setattr(play_order, "HISTORY_ROWS", 100)
    app = App(broker.bootstrap_servers, partitions=1)
    sent = app.id + "-sent", 0  # there is always more to read: the end of the last transaction
    monkeypatch.setattr(Assigned, "behind", lambda _, of: [one for one in of if one == sent])
    fill(app, 600)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    assert rows_of(app.outputs(0)) == rows_in_memory(app)


def history_of(broker: Served, n: int = 600, **settings: Any) -> App:
    """An application whose records are older than it, in three partitions."""
    app = App(broker.bootstrap_servers, partitions=3, label_partitions=2, **settings)
    fill(app, n, bad=True)
    return app


def committed(running: Running) -> int:
    """Offset up to which a worker has handed over the first partition and committed that."""
    work = running.worker.work
    assert work is not None
    return 0 if work.handler.open.partitions else work.handing._until.get(0, 0)


def corrects_at_once(
    self: Handing, partition: int, unread: Unread, answered: Mapping[int, int], wrote: float
) -> str:
    """Not to wait for what was handed over: one batch is, and the next is not."""
    handed = self._until.pop(partition, None)
    return "hand over" if handed is None and unread.records > 1 else "correct"


def hands_over_twice(self: RecordHandler, partition: int, records: list[Any], state: Any) -> None:
    """Each batch of records is written twice."""
    send = self._client.transaction.send
    self._client.transaction.send = lambda *given: (send(*given), send(*given))  # type: ignore[assignment,return-value]
    try:
        HAND_OVER(self, partition, records, state)
    finally:
        self._client.transaction.send = send  # type: ignore[method-assign]


def forgets(self: PlayedSender, played: PlayedRecords) -> None:
    """What was played is told, and its outputs are not written, once."""
    if LOST:
        SEND_ANSWERS(self, played)
    LOST.append(True)


HAND_OVER, SEND_ANSWERS, LOST = RecordHandler._hand_over, PlayedSender.send_answers, list[bool]()


@pytest.mark.parametrize(
    ("where", "name", "mutant"),
    [
        (Handing, "way", corrects_at_once),
        (RecordHandler, "_hand_over", hands_over_twice),
        (PlayedSender, "send_answers", forgets),
    ],
    ids=["direct before all deferred are answered", "deferred twice", "deferred lost"],
)
def test_the_judge_sees(
    broker: Served, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, mutant: Any
) -> None:
    """What would break the order, or that each record is answered once."""
    LOST.clear()
    app = history_of(broker, commit_every=100)
    monkeypatch.setattr(where, name, mutant)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    with pytest.raises(AssertionError):
        app.verify()


def test_what_was_handed_over_comes_before_what_is_left(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention deleted records that nobody had read: who went on behind them forgot that those
    before had been handed over, and corrected at once."""
    app = App(broker.bootstrap_servers, partitions=1)
    records = Records(app.servers, [f"{app.id}-in"])
    fill(app, 10)
    run_once(app)
    fill(app, 290, seed=1, first=10)
    with monkeypatch.context() as patch:
        patch.setattr(Handing, "way", lambda *_: "hand over")
        first = app.worker(learn=False)
        wait("it hands over", lambda: first.error or committed(first) == 300)
        first.stop()
    fill(app, 40, seed=2, first=300)
    records.now[f"{app.id}-in"].until_end()
    records.now[f"{app.id}-in"].delete({0: 320})
    worker = app.worker("1", learn=False, reset_offsets=True)
    wait(
        "it waits",
        lambda: worker.error or (worker.worker.work and worker.worker.work.handler.held.waiting),
    )
    learner = app.learner()
    caught_up(app, worker, learner)
    for one in (worker, learner):
        one.stop()
    keys = [int(one.key[1:]) for one in app.outputs(0)]
    assert keys == [*range(300), *range(320, 340)]
    records.stop()


def test_processes_are_killed_in_a_backlog(broker: Served, tmp_path: Path) -> None:
    """Workers and the learner, at any moment; others take over what was handed over."""
    app, chance = (
        App(broker.bootstrap_servers, partitions=3, label_partitions=2),
        random.Random(5),
    )
    commands = {"a": COMMAND, "b": COMMAND, "c": [*COMMAND[:-1], "learn"]}
    fill(app, 1500, bad=True)
    running = {name: app.process(tmp_path, name, command=of) for name, of in commands.items()}
    try:
        for turn in range(6):
            time.sleep(chance.uniform(0.5, 3.0))
            name = chance.choice("abc")
            running[name].kill()
            running[name].wait()
            fill(app, 300, 1 + turn, first=1500 + 300 * turn, bad=True)
            running[name] = app.process(tmp_path, name, command=commands[name])
        caught_up(app)
    finally:
        for one in running.values():
            one.terminate()
        codes = [one.wait(PATIENCE) for one in running.values()]
    assert codes == [0, 0, 0], (tmp_path / "a.log").read_text()
    app.verify()
    assert app.checked.outputs == 3300 + tombstones(app)
    assert len(app.checked.deferred) > 1000


def test_the_learner_fails_while_it_answers(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, between and after what it writes; the next one answers all the same."""
    monkeypatch.setattr(play_order, "HISTORY_ROWS", 100)  # so that there are several answers
    app = history_of(broker, 1500, commit_every=200)
    steps = {"send_answers": 2, "send_requests": 2, "write_state": 2}

    def failing(where: Any, name: str) -> Any:
        before = getattr(where, name)

        def fails(self: Any, *given: Any) -> Any:
            found = before(self, *given)
            if steps[name] and getattr(given[-1], "answers", None):
                steps[name] -= 1
                raise RebuildError("it was killed")
            return found

        return fails

    for name in steps:
        where = StateWriter if name == "write_state" else PlayedSender
        monkeypatch.setattr(where, name, failing(where, name))
    running = app.worker()
    caught_up(app, running)
    running.stop()
    app.verify()
    assert len(app.checked.deferred) > 1000
    assert not any(steps.values())


def test_a_backlog_does_not_slow_its_states(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of states have a pace; those of the rows that were corrected between have none."""
    app = history_of(broker)
    pace = 20_000
    monkeypatch.setattr("stream_can.kafka.state_pace.MOST_BYTES_A_SECOND", pace)
    write, pauses = LearningRole._write, list[tuple[float, float]]()

    def measured(self: LearningRole, learning: TopicLearner, played: PlayedRecords | None) -> None:
        send, state = self.client.transaction.send, list[int]()

        def counted(topic: str, partition: int, key: Any, value: Any, *more: Any) -> Any:
            if topic == self.settings.state_topic:
                state.append(len(value or b""))
            return send(topic, partition, key, value, *more)

        with monkeypatch.context() as patch:
            patch.setattr(self.client.transaction, "send", counted)
            write(self, learning, played)
        if played is not None and played.answers:
            pauses.append((self._pace.due - time.monotonic(), sum(state) / pace))

    monkeypatch.setattr(LearningRole, "_write", measured)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    assert pauses
    for pause, most in pauses:
        assert pause <= max(app.settings().commit_interval_ms / 1000, most)


def test_the_learner_reads_on_where_a_fetch_brings_little(broker: Served) -> None:
    """It waited after each poll, however much lay there: with large rows that was half of its
    time. Here each poll brings a record, and a state is due with so many rows alone."""
    app = App(broker.bootstrap_servers, partitions=1, client=STEADY)
    first = app.learner()
    first.learning()
    first.stop()
    fill(app, 1200)
    worker = app.worker(learn=False, commit_every=4)
    wait("all are corrected", lambda: len(app.outputs(0)) == 1200)
    worker.stop()
    assert len(read(app.servers, f"{app.id}-sent", 0)) > 100
    learner = app.learner(client=STEADY | {"max_poll_records": 1}, commit_interval_ms=16_000)
    wait("states have them", lambda: learner.learning().positions.inputs.get(0, 0) >= 1000)
    learner.stop()


def test_without_a_learner_the_newest_state_corrects(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as nothing was handed over; what was waits, for its order, until there is one."""
    monkeypatch.setattr(handing, "ANSWER_SECONDS", 1.0)
    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 100)
    run_once(app)
    worker = app.worker("1", learn=False)  # nobody learns any more
    fill(app, 200, 1, first=100)
    wait("corrected", lambda: len(app.outputs(0)) == 300)
    learner = app.learner("2")
    caught_up(app, worker, learner)
    fill(app, 200, 2, first=300)
    wait("corrected", lambda: len(app.outputs(0)) == 500)
    for one in (worker, learner):
        caught_up(app, worker, learner)
        one.stop()
    app.verify()
    assert 200 <= len(app.checked.deferred) <= 300


def test_what_comes_now_is_corrected_at_once(broker: Served) -> None:
    """After a backlog a worker corrects itself again."""
    app = App(broker.bootstrap_servers, partitions=2)
    fill(app, 300)
    running = app.worker()
    caught_up(app, running)
    deferred = count_deferred(app)
    now = int(1000 * time.time())
    rng = random.Random(1)
    for i in range(1000, 1050):
        key, value, truth = prediction(rng, i)
        stamp = now + i - 1000
        rows = [(app.given["input"], i % 2, key, value, [], stamp)]
        produce(app.servers, rows, [(app.given["labels"], 0, key, label(truth), [], stamp)])
    caught_up(app, running)
    running.stop()
    assert deferred == count_deferred(app) == 300
    app.verify()
    assert app.checked.outputs == 350


def count_deferred(app: App) -> int:
    """How many records were handed over."""
    return sum(
        int(dict(one.headers).get(DEFERRED_HEADER, b"0"))
        for p in range(app.partitions)
        for one in read(app.servers, f"{app.id}-sent", p)
    )


@pytest.mark.fast
def test_what_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many records, or old ones unless they are few for the partition's rate."""
    now = [1000.0]
    monkeypatch.setattr(handing.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(handing.time, "time", lambda: now[0])

    def way(
        records: int, age: float, end: int = 0, answered: int = 0, wrote: float = 0.0,
        span: float = 0.0,
    ) -> str:  # fmt: skip
        latest = now[0] - age
        one._unread._seen.clear()
        unread = Unread(records, [latest - span, *[latest] * (min(records, 500) - 1)], end)
        return one.way(0, unread, {0: answered}, now[0] - wrote)

    one = Handing()
    assert way(1000, 0) == "correct"
    assert way(1001, 0) == "hand over"
    assert way(51, 3) == "hand over"
    assert way(50, 3) == "correct"
    assert way(2, 3, span=1.9) == "correct"
    assert way(2, 3, span=2.1) == "hand over"
    assert way(2, 1, span=100) == "hand over"
    assert way(3, 1, span=100) == "correct"  # the clock of one
    now[0] += 1
    assert way(90, 15, 100) == "correct"  # so many come in a second, and all are that old
    one.hand_over(0, 100, 200)
    assert way(60, 0, 200, 199) == "wait"
    assert way(500, 3, 200, 199) == "hand over"
    assert one.note(0) == "handed over until 200"
    assert handed_over(one.note(0)) == 200
    assert way(60, 0, 200, 200) == "correct"
    assert one.note(0) == ""
    assert way(5000, 9, 200, wrote=4) == "ask"
    assert way(5000, 9, 200, wrote=4) == "wait"
    now[0] += 19
    assert way(5000, 9, 200, wrote=23) == "wait"  # it may be taking over
    assert way(5000, 9, 200, wrote=18.9) == "hand over"  # it has answered, and is slow
    assert way(5000, 9, 200, wrote=4) == "ask"
    now[0] += 20.1
    assert way(5000, 9, 200, wrote=24.1) == "correct"
    assert way(5000, 9, 200, wrote=0) == "hand over"
    other = Handing()
    other.take_over({}, {0: 200}, ())
    assert other.backlog is None
    other.look({0: 150}, now[0])
    assert other.backlog == Backlog(50)
    other.look({0: 200}, now[0])
    assert other.backlog is None
    one.hand_over(0, 250, 300)
    assert one.backlog == Backlog(50)  # as soon as it is known
    one.look({0: 200}, now[0])  # what it corrected itself before does not wait
    assert one.backlog == Backlog(50)
    one.take_over({}, {}, ())  # others have the partition now
    one.look({0: 200}, now[0])
    assert one.backlog is None
    one.take_over({}, {}, {0})  # a state counts in the offsets of a topic before
    assert way(1, 0, 720, 5000) == "hand over"
    one.hand_over(0, 700, 900)
    for answered in (5000, 6000):
        one.look({0: answered}, now[0])
        assert one.backlog == Backlog(200)
    one.look({0: 800}, now[0])
    assert one.backlog == Backlog(100)
    one.look({0: 900}, now[0])
    assert one.backlog is None
    assert way(1, 0, 900, 900) == "correct"
    one.hand_over(0, 900, 950)
    one.look({}, now[0])  # what was sent is deleted: the learner goes on at the end of the input
    assert one.backlog == Backlog(50)
    assert way(1, 0, 951, 1200) == "hand over"
    one.hand_over(0, 950, 951)
    one.look({0: 951}, now[0])
    assert one.backlog is None
    assert way(1, 0, 952, 951) == "correct"


@pytest.mark.fast
def test_what_is_old_is_behind_though_producers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause, or a short history, whose poll ends in what has just come."""
    now = [1000.0]
    monkeypatch.setattr(handing.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(handing.time, "time", lambda: now[0])

    def way(times: list[float]) -> str:
        return Handing().way(0, Unread(len(times), times, len(times)), {}, now[0])

    assert way([900.0] * 51 + [999.9]) == "hand over"
    assert way([900.0] * 50 + [999.9]) == "hand over"  # 100 s of history in no time
    assert way([997.5] * 50 + [999.4] * 5) == "correct"
    assert way([999.5] * 200) == "correct"
    # The clock of one producer is behind, that of another ahead.
    assert way([900.0, *[999.5] * 200]) == way([999.5] * 100 + [900.0]) == "correct"
    assert way([997.0, 1900.0]) == "hand over"
    one, at = Handing(), 0
    for _ in range(100):
        now[0] += 0.1
        times = [now[0] - 300, now[0] + 300, *[now[0]] * 8]
        at += 10
        assert one.way(0, Unread(10, times, at), {}, now[0]) == "correct"


@pytest.mark.fast
def test_many_records_of_many_partitions_are_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bulk load, whose records are new: of all partitions of a worker there are many to read,
    though few in each."""
    now = [1000.0]
    monkeypatch.setattr(handing.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(handing.time, "time", lambda: now[0])
    one, at = Handing(), dict.fromkeys(range(40), 0)

    def way(p: int, records: int) -> str:
        at[p] += records
        return one.way(p, Unread(records, [now[0]] * records, at[p]), {}, now[0])

    one.take_over(dict.fromkeys(at, 100), {}, ())
    for p in range(40):
        assert way(p, 100) == "hand over"
        one.hand_over(p, 0, 100)
    one.look(dict.fromkeys(at, 100), now[0])
    assert [way(p, 25) for p in range(40)] == ["correct"] * 40  # 1,000 are not many
    one.take_over(dict.fromkeys(at, 10) | {0: 20_000}, {}, ())
    at[0] += 20_000
    unread = Unread(20_000, [now[0]] * 500, at[0])
    assert one.way(0, unread, {}, now[0]) == "hand over"
    assert [way(p, 10) for p in range(1, 40)] == ["correct"] * 39  # the others go on


@pytest.mark.fast
def test_log_lines_of_a_backlog_pair(caplog: pytest.LogCaptureFixture) -> None:
    """Also with a worker that takes a partition over amid it."""
    caplog.set_level(logging.INFO)

    def said() -> list[str]:
        found = [record.getMessage().split(":")[0] for record in caplog.records]
        caplog.clear()
        return found

    one = Handing()
    one.take_over({}, {0: 100}, ())
    one.look({0: 70}, 0.0)
    one.hand_over(1, 5, 9)
    one.look({0: 100, 1: 9}, 0.0)
    assert said() == ["a backlog goes on, 30 records", "the backlog is done"]
    one.take_over({}, {0: 100}, ())  # nothing of it is left
    one.look({0: 100}, 0.0)
    assert said() == []
    one.hand_over(0, 100, 120)
    one.take_over({}, {0: 120}, ())
    one.look({0: 100}, 0.0)
    one.look({0: 120}, 0.0)
    assert said() == ["a backlog begins", "a backlog goes on, 20 records", "the backlog is done"]


@pytest.mark.fast
def test_answers_are_seen_where_a_worker_corrected_what_is_behind_them() -> None:
    """With ``lagging`` records behind those handed over are learned too: the state was taken for
    one of other offsets, and all of the partition waited for ever."""
    one = Handing()
    one.take_over({}, {0: 100}, ())
    one.look({0: 60}, 0.0)
    assert one.waiting == 40
    one.corrected(0)
    one.look({0: 60}, 0.0)
    assert one.waiting == 40
    one.look({0: 130}, 0.0)
    assert one.waiting == 0
    one.take_over({}, {0: 100}, (), {0})  # a worker before did
    one.look({0: 130}, 0.0)
    assert one.waiting == 0
    one.take_over({}, {0: 100}, (), {0})
    one.hand_over(0, 130, 150)  # in order again
    one.look({0: 130}, 0.0)
    assert one.waiting == 20


@pytest.mark.fast
def test_nobody_learns_where_records_wait_and_nothing_else_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    monkeypatch.setattr(handing.time, "monotonic", lambda: now[0])
    watch, found = LearnerWatch("states"), []
    for written, waiting in [(1000, 9), (1020, 9), (1020, 9), (1020, 9), (1060, 9), (1060, 0)]:
        found.append(watch.look(written, waiting))
        now[0] += 20
    assert found == [0, 0, 0, 40, 0, 0]
    assert "records that were handed over wait" in caplog.text


@pytest.mark.fast
def test_a_worker_knows_how_fast_the_learner_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the partitions that are handed over alone, and anew where these change."""
    caplog.set_level(logging.INFO)
    now = [1000.0]
    monkeypatch.setattr(handing.time, "monotonic", lambda: now[0])
    one = Handing()
    assert one.backlog is None

    def second(corrected: int, came: int, partitions: int = 1) -> None:
        """Of the first partition so many are answered, and so many come to it."""
        now[0] += 1
        answered[0] += corrected
        end[0] += came
        for p in range(partitions):
            unread = Unread(end[0], [1.0, 2.0], end[0])
            if one.way(p, unread, answered, now[0]) == "hand over":
                one.hand_over(p, answered[p], end[0])

    answered, end = {0: 0, 1: 0}, [50_000]
    for _ in range(8):
        second(300, 100)
    assert one.backlog == Backlog(50_000 + 800 - 2400)
    for _ in range(27):
        second(300, 100)
    assert one.backlog is not None
    assert one.backlog.waiting == 50_000 + 3500 - 10_500
    assert (one.backlog.done, one.backlog.came) == (300, 100)
    assert not one.backlog.grows
    one.look(answered, now[0] - 11)  # that was the speed of one that has ended
    assert one.backlog == Backlog(one.backlog.waiting)
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("a backlog begins")
    assert said[1].endswith(
        "of the backlog are left: the learner corrects 300 a second, and 100 come"
    )
    assert len(said) == 2
    second(300, 100, partitions=2)
    assert one.backlog.done is None
    for _ in range(61):
        second(100, 300, partitions=2)
    assert one.backlog.grows
    assert caplog.records[-1].levelname == "WARNING"
    assert 'cannot keep up; backlog = "lagging"' in caplog.records[-1].getMessage()
    one.look({0: end[0], 1: end[0]}, now[0])
    assert one.backlog is None
    assert "the backlog is done" in caplog.records[-1].getMessage()


@pytest.mark.fast
def test_what_lay_there_before_a_takeover_did_not_come_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, of a backlog at which nothing came it was said that the learner cannot keep up."""
    now = [1000.0]
    monkeypatch.setattr(handing.time, "monotonic", lambda: now[0])
    one = Handing()
    one.take_over({0: 50_000, 1: 50_000}, {0: 10_000, 1: 10_000}, ())
    for second in range(30):
        now[0] += 1
        p, answered = second % 2, dict.fromkeys((0, 1), 100 * second)
        assert one.way(p, Unread(50_000, [1.0, 2.0], 60_000), answered, now[0]) == "hand over"
        one.hand_over(p, 10_000, 60_000)
    assert one.backlog is not None
    assert (one.backlog.done, one.backlog.came) == (200, 0)
    assert not one.backlog.grows

"""A log that several write to without transactions: each entry in turn, each label once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.messages.naming import UNNAMED, LaneName
from stream_can.messages.records import Record
from stream_can.method.receipts import gave
from stream_can.stream import entry
from stream_can.stream.entry import FleetTerms, LaneMark, OpenPart, entries
from stream_can.stream.identity import Identity
from stream_can.stream.replica import Replica
from stream_can.stream.writers import MOST_WRITERS, WINDOW, StoredWriters, Writers

pytestmark = [pytest.mark.fast, pytest.mark.release]

CLASSES = ("a", "b", "c")
WHO = Identity("app", "in", "out", "labels", "probs", "probs_raw", "label", "id", CLASSES)
LANE = LaneName("m", "1")


def row(offset):
    """The prediction of a label's id: a function of its offset, with a value of a column."""
    rng = np.random.default_rng(offset)
    return rng.dirichlet(np.ones(3)), int(rng.integers(3)), (str(offset % 3),)


def part_of(corrector, offsets, sums=0):
    """What a replica has to teach: so many rows without a label, and labels of these offsets."""
    part = OpenPart(corrector, 0, 0)
    rng = np.random.default_rng(sums)
    for _ in range(sums):
        corrector.correct_and_sum(rng.dirichlet(np.ones(3), 1), part.sums)
    for offset in offsets:
        P, y, values = row(offset)
        with_row = offset % 4 != 3
        part.add(
            offset, 0, y, gave(None, y, corrector.n_sent), P.tobytes() if with_row else None, values
        )
    return part


class Log:
    """Records in a row, and their fold."""

    def __init__(self, lane=None):
        self.lane = lane
        corrector = Corrector(list(CLASSES), segments=["column"])
        self.replica, self.records = Replica(), []
        fleet = None if lane is None else FleetTerms(5)
        self.write(entry.start(corrector.to_bytes(), identity=WHO, fleet=fleet))

    def write(self, value):
        offset = len(self.records)
        self.records.append(Record("log", 0, offset, 0, None, value))
        return self.replica.fold(self.records[-1])

    def entry_of(self, name, number, offsets, sums=0):
        base = self.replica.corrector
        mark = None if self.lane is None else LaneMark(*self.lane)
        (data,) = entries(
            base, self.replica.offset, [(0, part_of(base, offsets, sums), (1, 1))], 1 << 20,
            WHO.mark, lane=mark, writer=None if name is None else (name, number),
        )  # fmt: skip
        return data

    @property
    def learned(self):
        if self.lane is None:
            return self.replica.corrector.to_bytes()
        return self.replica.lane(self.lane).corrector.to_bytes()


@pytest.mark.parametrize("lane", [None, LANE])
@given(
    sent=st.lists(
        st.tuples(
            st.sampled_from([b"x", b"y", b"z"]),
            st.lists(st.integers(0, 12), max_size=5),
            st.integers(0, 3),
        ),
        max_size=12,
    ),
    again=st.lists(st.integers(0, 11), max_size=6),
)
def test_each_entry_counts_once_and_each_label_once(lane, sent, again):
    """However often an entry comes again, and whoever else has taught a label: against a log that
    has each once, written by one who knows."""
    log, plain = Log(lane), Log(lane)
    numbers, taught, written = {}, set(), []
    for name, offsets, sums in sent:
        number = numbers.get(name, -1) + 1
        numbers[name] = number
        written.append(log.entry_of(name, number, offsets, sums))
        assert log.write(written[-1]) is None
        fresh = [one for one in dict.fromkeys(offsets) if one not in taught]
        taught |= set(offsets)
        plain.write(plain.entry_of(None, 0, fresh, sums))
        for i in again:
            if i < len(written):
                assert "came again" in log.write(written[i]).reason
    if sent:
        assert log.learned == plain.learned
    stored = Writers(log.replica.writers.dump())
    assert stored.dump() == log.replica.writers.dump()
    for name, number in numbers.items():
        assert stored.last(name) == number
        assert stored.take(name, number) is not None
        assert stored.take(name, number + 1) is None
    for offset in range(13):
        assert stored.settled(lane or UNNAMED, offset) == (offset in taught)
        assert stored.settled_anywhere(offset) == (offset in taught)


def test_an_entry_that_comes_too_early_waits_to_be_sent_again():
    log = Log()
    early = log.entry_of(b"x", 1, [1])
    left = log.write(early)
    assert not left.foreign
    assert "entry 1 of 78 came before entry 0" in left.reason
    before = log.learned
    assert log.write(log.entry_of(b"x", 0, [0])) is None
    assert log.learned != before
    assert log.write(early) is None
    assert log.replica.writers.last(b"x") == 1


def test_an_entry_of_before_the_log_began_anew_counts_as_come():
    log = Log()
    old = log.entry_of(b"x", 0, [1])
    log.write(entry.start(log.learned, reset=True, identity=WHO))
    before = log.learned
    assert "of before the log began anew" in log.write(old).reason
    assert log.learned == before
    assert log.write(log.entry_of(b"x", 1, [1])) is None
    assert log.learned != before


def test_labels_of_long_ago_teach_nothing():
    log = Log()
    log.write(log.entry_of(b"x", 0, [0, 4 * WINDOW]))
    before = log.learned
    assert log.write(log.entry_of(b"y", 0, [4])) is None
    assert log.learned == before
    assert log.replica.writers.settled(UNNAMED, 4)
    assert len(log.replica.writers.dump().settled[0][-1]) < 1000


def test_of_very_many_writers_the_silent_are_forgotten():
    writers = Writers()
    for i in range(MOST_WRITERS + 1):
        assert writers.take(b"%d" % i, 0) is None
    assert writers.last(b"0") is None
    assert writers.last(b"1") == 0


def test_a_lane_that_is_dropped_takes_its_settled_labels_along():
    log = Log(LANE)
    log.write(log.entry_of(b"x", 0, [1]))
    assert log.replica.writers.settled(LANE, 1)
    for i in range(5):
        log.lane = LaneName("m", str(i + 2))
        log.write(log.entry_of(b"x", 1 + i, [1]))
    assert log.replica.lane(LANE) is None
    assert not log.replica.writers.settled(LANE, 1)


@pytest.mark.parametrize("damaged", [(0, b"no zlib"), (3, b""), (8, b"")])
def test_marks_that_are_none_are_refused(damaged):
    with pytest.raises(SnapshotMismatch, match="marks of labelled predictions"):
        Writers(StoredWriters([], [("", "", 5, *damaged)]))

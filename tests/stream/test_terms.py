"""Whose a log is: what names another application, or nobody, teaches nothing and stops nobody."""

from __future__ import annotations

import msgspec
import pytest

from stream_can import Corrector
from stream_can.messages.records import Record
from stream_can.stream import entry
from stream_can.stream.identity import Identity
from stream_can.stream.replica import Replica
from stream_can.stream.terms import Terms

pytestmark = [pytest.mark.fast, pytest.mark.release]

OURS = Identity("app", "in", "out", "labels", "probs", "probs_raw", "label", None, ("a", "b"))
OTHERS = msgspec.structs.replace(OURS, application="other")


class Log:
    def __init__(self) -> None:
        self.replica = Replica()

    def write(self, value, *, after=0):
        return self.replica.fold(Record("log", 0, self.replica.offset, after, None, value))

    @property
    def labels(self):
        return self.replica.corrector.n_labels


def labels(n, *, app=None, folded_to=0, y=0):
    """An entry with so many labels of a class."""
    corrector = Corrector(200)
    part = entry.OpenPart(corrector, 0, 0)
    for i in range(n):
        part.add(i, i, y, b"\0" * 24, None)
    (one,) = entry.entries(corrector, folded_to, [(77, part, (0, n))], app=app)
    return one


def begun():
    log = Log()
    assert log.write(entry.start(Corrector(["a", "b"]).to_bytes(), identity=OURS)) is None
    return log


def test_what_is_not_ours_is_left_out_and_said():
    log = begun()
    more = msgspec.msgpack.encode
    for value, said in (
        (None, "an empty record"),
        (b"garbage", "no entry"),
        (b'{"label": "a"}', "no entry"),
        (labels(100), "an entry that does not say whose it is"),
        (entry.settings({"half_life": 50.0}), "an entry that does not say whose it is"),
        (labels(100, app=OTHERS.mark), f"an entry of another application ({OTHERS.mark.hex()})"),
        (entry.start(Corrector(3).to_bytes(), reset=True, identity=OTHERS), "application (other)"),
        (more({"version": 99, "app": OTHERS.mark}), "an entry of another application"),
        (labels(1, app=OURS.mark, y=99), "an entry that does not fit"),
        (entry.settings({"colour": 1}, app=OURS.mark), "an entry that does not fit"),
    ):
        before, foreign = log.replica.corrector.to_bytes(), log.replica.foreign
        left = log.write(value)
        assert said in left.reason
        assert left.reason.startswith(f"log-0 offset {log.replica.offset - 1}: ")
        assert (left.foreign, log.replica.foreign) == (True, foreign + 1)
        assert log.replica.corrector.to_bytes() == before
    assert log.write(labels(3, app=OURS.mark)) is None
    assert log.labels == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"version": 99, "release": "0.9.1"}, r"another version wrote this \(0\.9\.1\): format 99"),
        ({"version": 3}, r"\(it does not say which\): format 3, .* upgrade .* anew with --reset"),
        ({"version": 2, "app": OURS.mark, "release": "0.4.0", "needs": ["parts", "tenants"]},
         r"\(0\.4\.0\): it needs tenants"),
        ({"version": 2, "app": OURS.mark, "release": "0.4.0", "settings": {"colour": 1}},
         r"\(0\.4\.0\): an entry that does not fit: .*colour"),
    ],
)  # fmt: skip
def test_what_a_newer_release_wrote_stops(more, said):
    log = begun()
    with pytest.raises(entry.NewerEntry, match="log-0 offset 1: .*" + said):
        log.write(msgspec.msgpack.encode(more))
    assert log.replica.offset == 1


def test_a_part_that_is_not_needed_is_ignored():
    log = begun()
    more = msgspec.msgpack.decode(labels(2, app=OURS.mark))
    data = msgspec.msgpack.encode(more | {"colour": [1, 2], "needs": ["parts"]})
    assert log.write(data) is None
    assert log.labels == 2


def test_it_begins_anew_as_another_one_of_its_name():
    log = begun()
    swapped = msgspec.structs.replace(OURS, classes=("b", "a"))
    log.write(entry.start(Corrector(["b", "a"]).to_bytes(), reset=True, identity=swapped))
    assert log.replica.terms.identity == swapped
    assert log.write(labels(1, app=OURS.mark, folded_to=2)).foreign
    assert log.write(labels(1, app=swapped.mark, folded_to=2)) is None


def test_settings_have_generations():
    log = begun()
    mark = OURS.mark
    (first,) = log.replica.terms.held
    log.write(entry.settings({"half_life": 50.0}, app=mark, by="w1"))
    assert (log.replica.terms.generation, log.replica.terms.by) == (1, "w1")
    log.write(entry.settings({"half_life": 70.0}, 9, app=mark))
    assert log.replica.terms.generation == 9
    log.write(entry.settings({"half_life": 5000}, app=mark))  # as in the beginning
    assert log.replica.terms.generation == 10
    assert len(log.replica.terms.held) == 3
    assert log.replica.terms.held[-1] == first


def test_who_takes_up_in_between_makes_the_same():
    log, taken = begun(), None
    values = [labels(1, app=OURS.mark), labels(1, app=OTHERS.mark),
              entry.settings({"half_life": 50.0}, app=OURS.mark), b"garbage",
              labels(2, app=OURS.mark)]  # fmt: skip
    for i, value in enumerate(values):
        log.write(value)
        if i == 1:
            copy = Corrector.from_bytes(log.replica.corrector.to_bytes())
            terms = msgspec.convert(msgspec.to_builtins(log.replica.terms), Terms)
            taken = Log()
            taken.replica = Replica(copy, log.replica.offset, terms)
        elif taken is not None:
            taken.write(value)
    assert taken.replica.corrector.to_bytes() == log.replica.corrector.to_bytes()
    assert taken.replica.terms == log.replica.terms


def test_columns_are_part_of_who_an_application_is_and_without_them_it_is_who_it_was():
    assert OURS.mark == bytes.fromhex("c9abb0df1601fadf")
    with_columns = msgspec.structs.replace(OURS, segments=("carrier", "origin"))
    assert with_columns.mark != OURS.mark
    assert OURS.differs(with_columns) == [
        "segments is () in the log and ('carrier', 'origin') here"
    ]

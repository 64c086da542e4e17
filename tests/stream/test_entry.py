"""Entries of the learned log: folded is what was taken, and what fits not changes nothing."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector
from stream_can.method.receipts import gave, gave_row
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from stream_can.stream.task import Record

pytestmark = [pytest.mark.fast, pytest.mark.release]
M, APP = 4, b"12345678"
SIGNALLING_NAN = (0x7FA00000).to_bytes(4, "little")  # which numpy warns of as it is cast


COLUMNS = ["x", "y"]


def part(corrector, seed, n=20, labels=15):
    """Rows corrected, and labels of every kind: with a receipt, without, without a row."""
    rng = np.random.default_rng(seed)
    found = entry.OpenPart(corrector, 10 * seed, 5 * seed)
    P = rng.dirichlet(np.full(M, 0.5), n)
    columns = corrector.segments
    given = [
        tuple(rng.choice(["a", "b", "日本", None]) for _ in columns) if columns else None
        for _ in range(n)
    ]
    segments = {name: [one[k] for one in given] for k, name in enumerate(columns)}
    _, receipts = corrector.correct_and_sum(P, found.sums, receipt=True, segments=segments)
    for i in range(labels):
        y = int(rng.integers(M))
        known = gave_row(receipts, i % n, y, corrector.n_sent) if i % 3 else None
        row = None if i % 5 == 4 else P[i % n].tobytes()
        known = known or gave(None, y, corrector.n_sent)
        found.add(5 * seed + i, 10 * seed + i, y, known, row, given[i % n])
    return found


def plainly(corrector, parts):
    """What the description says an entry does, label by label."""
    for one in parts:
        corrector.add_sums(one.sums.astype(np.float32).astype(float))
    for one in parts:
        for y, known, row, said in zip(one.classes, one.known, one.rows, one.given, strict=True):
            receipt = receipt_that_gave(np.frombuffer(known, np.float32), y)
            if row is None:
                corrector.learn_one(None, y)
            else:
                single = np.frombuffer(row).astype(np.float32)
                segments = dict(zip(corrector.segments, said or (), strict=True))
                corrector.learn_one(single, y, receipt=receipt, segments=segments)


def receipt_that_gave(known, y):
    """Rows that are NaN but for the label's class; in the last one this is on top, or is not."""
    *each, top = known
    rows = np.full((len(each), M), np.nan, np.float32)
    rows[-1] = -1 if top > 0 else 2
    rows[:, y] = each
    return np.append(rows.ravel(), abs(top))


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
    st.integers(1, 2000),
    st.sampled_from([[], COLUMNS[:1], COLUMNS]),
)
def test_an_entry_is_folded_as_its_description_says(seeds, limit, columns):
    corrector = Corrector(M, segments=columns)
    corrector.process_many(np.random.default_rng(0).dirichlet(np.ones(M), 50))
    seeds.sort()
    parts = [part(corrector, seed) for seed in seeds]
    ends = [(10 * seed + 20, 5 * seed + 15) for seed in seeds]
    opened = list(zip(seeds, parts, ends, strict=True))
    data = entry.entries(corrector, 77, opened, limit, APP)
    folded = Corrector.from_bytes(corrector.to_bytes())
    for one in data:
        read = entry.read(one)
        assert read.folded_to == 77
        assert entry.fold(folded, read) is folded
    assert folded.n_labels == 15 * len(seeds)
    assert folded.n_predictions == 50 + 20 * len(seeds)
    for name in columns:
        given = [row[columns.index(name)] for one in parts for row in labelled(one)]
        assert sorted(folded.segment_values(name)) == sorted({*given} - {None})
    if len(data) == 1 and len(seeds) == 1:
        want = Corrector.from_bytes(corrector.to_bytes())
        plainly(want, parts)
        assert folded.to_bytes() == want.to_bytes()
    pieces = [piece for one in data for piece in entry.read(one).parts]
    for seed, end in zip(seeds, ends, strict=True):
        own = [piece for piece in pieces if piece.partition == seed]
        at = (10 * seed, 5 * seed)
        for piece in own:
            assert (piece.inputs[0], piece.labels[0]) == at
            at = piece.inputs[1], piece.labels[1]
        assert at == end  # contiguous, and the last one goes on where the transaction ended
        assert all(piece.inputs[0] == piece.inputs[1] for piece in own[:-1])


def labelled(one):
    """What the predictions of a part's labels gave."""
    return [given for row, given in zip(one.rows, one.given, strict=True) if row is not None]


def test_without_columns_an_entry_says_nothing_of_them():
    plain, columns = Corrector(M), Corrector(M, segments=COLUMNS)
    for app in (None, APP):
        (data,) = entry.entries(plain, 0, [(0, part(plain, 1), (30, 20))], app=app)
        held = msgspec.msgpack.decode(data)
        assert held.keys() & {"segments", "needs"} == set()
        (data,) = entry.entries(columns, 0, [(0, part(columns, 1), (30, 20))], app=app)
        held = msgspec.msgpack.decode(data)
        assert (held["version"], held["needs"]) == (2, ["segments"])
    nothing = entry.OpenPart(columns, 0, 0)
    columns.correct_and_sum([[0.25] * M], nothing.sums)
    nothing.add(0, 1, 0, gave(None, 0, 7), None, ("a", "b"))
    (data,) = entry.entries(columns, 0, [(0, nothing, (1, 1))])
    assert "segments" not in msgspec.msgpack.decode(data)  # its prediction is gone


def test_who_does_not_know_columns_is_told_so_and_stops(monkeypatch):
    """By the first entry of the log, and by every entry that holds some."""
    corrector = Corrector(M, segments=COLUMNS)
    values = [
        entry.start(corrector.to_bytes()),
        *entry.entries(corrector, 0, [(0, part(corrector, 1), (30, 20))]),
    ]
    assert "segments" not in msgspec.msgpack.decode(entry.start(Corrector(M).to_bytes())).get(
        "needs", []
    )
    monkeypatch.setattr(entry, "KNOWN", entry.KNOWN - {"segments"})
    for value in values:
        with pytest.raises(entry.NewerEntry, match=r"another version wrote this .*needs segments"):
            entry.read(value)


def test_long_values_make_more_entries_and_none_that_is_too_large():
    corrector, limit = Corrector(M, segments=COLUMNS), 20_000
    found = entry.OpenPart(corrector, 0, 0)
    P = np.random.default_rng(0).dirichlet(np.ones(M), 200)
    _, receipts = corrector.correct_and_sum(P, found.sums, receipt=True)
    for i in range(200):
        values = (f"{i:04d}" + 996 * "日", "b")
        found.add(i, i, 0, gave_row(receipts, i, 0, 7), P[i].tobytes(), values)
    data = entry.entries(corrector, 0, [(0, found, (200, 200))], limit)
    assert max(map(len, data)) < 2 * limit
    for one in data:
        entry.fold(corrector, entry.read(one))
    assert len(corrector.segment_values("x")) == 200
    assert list(corrector.segment_values("y")) == ["b"]


def test_a_log_starts_once_and_begins_anew_where_it_says_so():
    first, second = Corrector(M), Corrector(M, half_life=9)
    replica = Replica()
    values = [
        # nothing to learn it yet
        entry.entries(first, 0, [(0, part(first, 1), (30, 20))], app=APP)[0],
        entry.start(first.to_bytes()),
        entry.start(second.to_bytes()),  # from another process, too late
        entry.entries(first, 0, [(0, part(first, 1), (30, 20))], app=APP)[0],
        entry.settings({"half_life": 77.0}),
        entry.start(second.to_bytes(), reset=True),
    ]
    seen = []
    for offset, value in enumerate(values):
        replica.fold(Record("log", 0, offset, 1000 + offset, None, value))
        assert replica.offset == offset + 1
        assert replica.newest == 1000 + offset
        if replica.started:
            corrector = replica.corrector
            seen.append((corrector.n_labels, corrector.settings["half_life"]))
    assert seen == [(0, 5000), (0, 5000), (15, 5000), (15, 77.0), (0, 9)]
    replica.advance(3)
    assert replica.offset == 6  # never back


def fits_not(corrector):
    opened = [(0, part(corrector, 1), (30, 20))]
    good = entry.read(entry.entries(corrector, 0, opened, app=APP)[0])
    (one,) = good.parts
    replace = msgspec.structs.replace
    for broken in (
        replace(one, classes=one.classes[:-4]),
        replace(one, classes=one.classes[:-1]),
        replace(one, rows=one.rows[4:]),
        replace(one, rows=one.rows[:-4] + np.array([np.nan], "<f4").tobytes()),
        replace(one, known=one.known[: -4 * (corrector.n_sent + 1)]),
        replace(one, known=one.known[:-4]),
        replace(one, known=np.full(15 * (corrector.n_sent + 1), 2, "<f4").tobytes()),
        replace(one, classes=np.full(15, M, "<i4").tobytes()),
    ):
        yield replace(good, parts=[one, broken])
    if corrector.segments:
        said = good.segments
        fewer = entry.LogSegments(said.texts[1:], said.values)
        for broken in (
            fewer,
            entry.LogSegments(said.texts, said.values[:-4]),
            entry.LogSegments(said.texts, said.values[:-1]),
            entry.LogSegments(said.texts, b"\xfe" + said.values[1:]),
            entry.LogSegments(said.texts, said.values + said.values),
        ):
            yield replace(good, segments=broken)
    else:
        yield replace(good, segments=entry.LogSegments(["a"], bytes(4 * len(one.rows) // (4 * M))))
    yield replace(good, sums=good.sums[4:])
    yield replace(good, sums=np.full(len(good.sums) // 4, np.nan, "<f4").tobytes())
    yield replace(good, sums=np.full(len(good.sums) // 4, -1, "<f4").tobytes())
    yield replace(good, sums=good.sums[: len(good.sums) // 2])
    yield replace(good, sums=SIGNALLING_NAN + good.sums[4:])
    yield replace(good, start=b"nonsense", reset=True)
    yield replace(good, settings={"half_life": -1.0})
    yield replace(good, settings={"colour": 1})


@pytest.mark.parametrize("columns", [[], COLUMNS])
def test_what_does_not_fit_is_named_and_changes_nothing(columns):
    corrector = Corrector(M, segments=columns)
    before = corrector.to_bytes()
    for broken in fits_not(corrector):
        replica = Replica(corrector, 5)
        data = msgspec.msgpack.encode(broken)
        left = replica.fold(Record("log", 0, 5, 0, None, data))
        assert left.reason.startswith("log-0 offset 5: an entry that does not fit")
        assert left.foreign
        assert corrector.to_bytes() == before
        assert (replica.offset, replica.foreign, replica.newest) == (6, 1, None)
    for data, said in (
        (None, "an empty record"),
        (b"", "no entry"),
        (b"\xc1", "no entry"),
        (msgspec.msgpack.encode({"version": 0}), "no entry"),
        (msgspec.msgpack.encode({"version": 2, "parts": [[0, [-1, 0], [0, 0]]]}), "no entry"),
    ):
        with pytest.raises(entry.BadEntry, match=said):
            entry.read(data)


@given(st.data(), st.sampled_from([[], COLUMNS]))
def test_bytes_that_were_changed_are_read_or_refused(draw, columns):
    corrector = Corrector(M, segments=columns)
    opened = [(0, part(corrector, 2), (40, 25))]
    data = bytearray(entry.entries(corrector, 3, opened, app=APP)[0])
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    before = corrector.to_bytes()
    replica = Replica(corrector, 0)
    try:
        left = replica.fold(Record("log", 0, 0, 0, None, bytes(data)))
    except entry.NewerEntry:
        left = entry.NewerEntry
    assert left is None or corrector.to_bytes() == before
    row = replica.corrector.correct_one([0.1, 0.2, 0.3, 0.4])
    assert np.isfinite(row).all()
    assert row.sum() == pytest.approx(1)

"""Whatever a public call is given: taken, or refused with nothing changed; never out of bounds.

`.ci/sanitize` runs this under an address sanitizer, which sees what a test cannot: numbers read and
written beside an array.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector, Learner, StreamCANError
from stream_can.learner import Events
from stream_can.messages.records import Record
from stream_can.method import checks, uncertainty
from stream_can.row_sums import RowSums
from tests.examples import examples
from tests.messages.stream import corrected

pytestmark = pytest.mark.fast

REFUSED = (ValueError, TypeError, OverflowError, StreamCANError)
M = 4


def lived(m, fit, paths=None):
    rng = np.random.default_rng(m)
    corrector = Corrector(m, paths=paths)
    if fit:
        corrector.fit(rng.dirichlet(np.ones(m), 502), np.arange(502) % m)
    P = rng.dirichlet(np.full(m, 0.5), 20)
    corrector.process_many(P)
    corrector.learn_many(P, rng.integers(m, size=20))
    return corrector.to_bytes()


SNAPSHOTS = {
    (m, kind): lived(m, kind == "fitted", ["vector"] if kind == "vector" else None)
    for m in (1, 2, M, 200)
    for kind in ("plain", "fitted", "vector")
    if not (m == 1 and kind == "fitted")
}


def corrector_of(m, kind):
    return Corrector.from_bytes(SNAPSHOTS[m, kind])


owners = st.sampled_from(sorted(SNAPSHOTS))
sizes = st.sampled_from([0, 1, 2, 3, M, M + 1, 20, 200, 201])
shapes = st.lists(sizes, min_size=0, max_size=3).map(tuple)
dtypes = st.sampled_from(["<f8", "<f4", ">f8", "<f2", "<i8", "<i4", "<u8", "?", "O", "S8", "<c16"])
values = st.sampled_from([0.0, 1.0, -1.0, 0.25, 1e-300, 1e300, 2.0**41, -(2.0**63), np.inf, np.nan])
layouts = st.sampled_from(["C", "F", "steps", "turned", "locked", "list", "unaligned", "subclass"])


def laid_out(array, layout):
    """The same numbers in memory of another kind."""
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "steps":
        return np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array
    if layout == "turned":
        return array.T
    if layout == "locked":
        array.setflags(write=False)
    if layout == "list":
        return array.tolist()
    if layout == "unaligned" and array.dtype.kind not in "O":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        raw[...] = array
        return raw
    if layout == "subclass":
        return np.ma.masked_array(array)
    return array


@st.composite
def anything(draw):
    """An array that nobody expects."""
    array = np.full(draw(shapes), draw(values))
    with np.errstate(all="ignore"):
        array = array.astype(draw(dtypes))
    return laid_out(array, draw(layouts))


@st.composite
def predictions(draw, m):
    """Rows as they should be, or of another corrector, or anything."""
    if draw(st.integers(0, 4)) == 0:
        return draw(anything())
    m = draw(st.sampled_from([m, m, m, m + 1, 1, 3]))
    P = np.random.default_rng(draw(st.integers(0, 9))).dirichlet(
        np.ones(m), draw(st.sampled_from([0, 1, 3, 20]))
    )
    return laid_out(P.astype(draw(st.sampled_from(["<f8", "<f4", ">f8"]))), draw(layouts))


@st.composite
def sums_of(draw):
    """Sums of some corrector, or anything."""
    if draw(st.integers(0, 3)) == 0:
        return draw(anything())
    sums = RowSums(corrector_of(*draw(owners))).zeros()
    sums[...] = draw(values)
    return laid_out(sums, draw(layouts))


@st.composite
def indices(draw):
    if draw(st.integers(0, 3)) == 0:
        return draw(anything())
    numbers = st.sampled_from([-(1 << 62), -2, -1, 0, 1, 2, 3, M, 19, 20, 200, 1 << 40])
    array = np.array(draw(st.lists(numbers, max_size=4)), np.int64)
    return laid_out(array, draw(layouts))


@st.composite
def known_of(draw):
    if draw(st.booleans()):
        return None
    if draw(st.integers(0, 3)) == 0:
        return draw(anything())
    shape = draw(st.sampled_from([0, 1, 2, 3, 4])), draw(st.sampled_from([6, 6, 5, 4, 3, 2]))
    with np.errstate(all="ignore"):
        known = np.full(shape, draw(values), np.float32)
    if draw(st.booleans()):
        known[:, -1] *= -1  # the top of a row that was wrong
    return laid_out(known, draw(layouts))


@st.composite
def receipts_of(draw, m):
    if draw(st.booleans()):
        return draw(st.one_of(st.none(), anything()))
    n, m = draw(st.sampled_from([0, 1, 3, 20])), draw(st.sampled_from([m, m - 1, m + 1, 1]))
    rows = draw(st.sampled_from([5, 5, 4, 3, 7]))
    three = (n, 3, max(m, 0))
    shape = draw(st.sampled_from([*[(n, rows * max(m, 0) + 1)] * 3, three]))
    with np.errstate(all="ignore"):
        return laid_out(np.full(shape, draw(values), np.float32), draw(layouts))


labels = st.one_of(
    st.sampled_from([None, 0, 1, -1, M, "0", 1.0, np.int64(1), [0], 1 << 80, np.nan]),
    indices(),
)


@st.composite
def calls(draw, m):
    """A public call that changes something, or shows it."""
    P, flag, first = (
        draw(predictions(m)),
        draw(st.booleans()),
        draw(st.sampled_from([0, 1, 20, -1])),
    )
    verb = draw(st.sampled_from(
        ["correct_one", "correct_many", "observe_one", "observe_many", "process_one",
         "process_many", "explain_one", "explain_many", "learn_one", "learn_many", "play",
         "RowSums.correct", "RowSums.add", "fit"]
    ))  # fmt: skip
    keywords = {}
    if verb in ("learn_one", "learn_many"):
        keywords = {"receipt" if verb == "learn_one" else "receipts": draw(receipts_of(m))}
        arguments = (draw(st.sampled_from([P, None])), draw(labels))
    elif verb == "play":
        arguments = (P, draw(indices()), draw(indices()), draw(indices()))
        keywords = {"first": first, "known": draw(known_of()), "receipt": flag, "explain": flag}
    elif verb == "RowSums.correct":
        arguments, keywords = (P, draw(sums_of())), {"receipt": flag}
    elif verb == "RowSums.add":
        arguments = (draw(sums_of()),)
    elif verb == "fit":
        arguments = (P, draw(labels))
    else:
        arguments = (P,)
        if verb.startswith("process"):
            keywords = {"receipt": flag}
    return verb, arguments, keywords


def looked_at(corrector):
    """Everything that it shows is sound, and a snapshot of it can be read."""
    P = np.full((3, len(corrector.classes)), 1 / len(corrector.classes))
    assert corrector.correct_many(P).sum(axis=1) == pytest.approx(np.ones(3), abs=1e-6)
    assert sum(corrector.weights.values()) == pytest.approx(1)
    assert 0 <= corrector.coverage <= 1
    assert corrector.from_bytes(corrector.to_bytes()).to_bytes() == corrector.to_bytes()


@settings(max_examples=examples(100))
@given(st.data())
def test_a_public_call_takes_what_it_is_given_or_refuses_it_and_changes_nothing(data):
    m, kind = data.draw(owners)
    corrector = corrector_of(m, kind)
    for _ in range(3):
        verb, arguments, keywords = data.draw(calls(m))
        before, given_ = corrector.to_bytes(), copy.deepcopy(arguments)
        try:
            owner, _, name = verb.rpartition(".")
            getattr(RowSums(corrector) if owner else corrector, name)(*arguments, **keywords)
        except REFUSED:
            assert corrector.to_bytes() == before
            assert str(arguments) == str(given_)
        except MemoryError as error:
            pytest.fail(f"{verb}: {error}")
    looked_at(corrector)


@settings(max_examples=examples(80))
@given(st.data(), st.sampled_from(["checked", "normalised", "bad_rows", "topk_entropy", "margin"]))
def test_so_do_the_functions_of_rows(data, name):
    P = data.draw(predictions(M))
    call = getattr(checks if hasattr(checks, name) else uncertainty, name)
    if name == "bad_rows":
        P = np.asarray(P) if not isinstance(P, np.ndarray) else P
    try:
        call(P)
    except (*REFUSED, BufferError):
        pass


@pytest.mark.parametrize("sums", [-1.0, np.nan, np.inf, 1e300, 2.0**41, -0.5])
def test_sums_that_no_rows_have_are_refused_by_name(sums):
    corrector = Corrector(3)
    before = corrector.to_bytes()
    with pytest.raises(ValueError, match=r"^sums: entry \(0, 0\) is"):
        RowSums(corrector).add(np.full(RowSums(corrector).zeros().shape, sums))
    assert corrector.to_bytes() == before


@pytest.mark.parametrize("owner", [(200, "plain"), (M, "fitted"), (M, "vector"), (2, "plain")])
def test_sums_of_another_corrector_are_refused_by_every_call(owner):
    corrector, other = corrector_of(M, "plain"), RowSums(corrector_of(*owner)).zeros()
    P = np.eye(M)  # sure rows reach every part
    for call in (
        lambda: RowSums(corrector).correct(P, other),
        lambda: RowSums(corrector).add(other),
    ):
        with pytest.raises(ValueError, match=r"^sums: float64 of shape .*, expected .*float64"):
            call()


@settings(max_examples=examples(40))
@given(owners, owners, st.lists(anything(), max_size=3))
def test_a_worker_answers_whatever_comes(owner, other, strange):
    corrector, m = corrector_of(*owner), other[0]
    learner = Learner(corrector)
    rows = [*np.eye(m)[:3].tolist(), *strange]
    records = [
        Record("in", 0, i, 1000, b"k%d" % i, b'{"id": %d, "probs": %s}' % (i, str(row).encode()))
        for i, row in enumerate(rows)
    ]
    answers = corrected(corrector, records)
    assert len(answers.outputs) + len(answers.dead_letters) == len(records)
    if answers.sent is not None:
        learner.play_sent(Events(answers.sent, []))
    for i in range(min(len(rows), owner[0])):
        learner.label(b"k%d" % i, i)
    looked_at(corrector)


def test_what_a_receipt_gave_may_be_too_large_for_its_numbers():
    """Before, a warning of numpy's came before the refusal."""
    corrector = corrector_of(M, "plain")
    before = corrector.to_bytes()
    P, one = np.full((1, M), 1 / M), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="inf of label 0"):
        corrector.play(P, one, one, one, first=1, known=np.full((1, 8), 1e300))
    assert corrector.to_bytes() == before

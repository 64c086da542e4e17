"""The interface of Corrector: what it takes, what it refuses, what it shows."""

import copy
import math
import pickle
from enum import Enum, IntEnum, StrEnum
from uuid import UUID

import numpy as np
import pytest

from stream_can import (
    Corrector,
    InvalidPrediction,
    SnapshotMismatch,
    StreamCANError,
    UnknownClass,
    snapshot,
)
from stream_can.replay import Recording, replay
from tests.correctors import GOOD, lived_in

pytestmark = pytest.mark.fast

CALLS = ["correct_one", "observe_one", "process_one", "explain_one"]

BAD_ROWS = {
    "short": ([0.5, 0.5], r"shape \(2,\), expected \(3,\)"),
    "long": ([0.25] * 4, r"shape \(4,\)"),
    "matrix": ([GOOD], r"shape \(1, 3\)"),
    "scalar": (0.5, r"shape \(\)"),
    "empty": ([], r"shape \(0,\)"),
    "NaN": ([math.nan, 0.5, 0.5], "entry 0 is nan"),
    "inf": ([0.5, math.inf, 0.5], "entry 1 is inf"),
    "negative": ([0.6, 0.6, -0.2], "entry 2 is -0.2"),
    "sum": ([0.5, 0.5, 0.31], "sum to 1.31, expected 1"),
    "overflow": ([1e308] * 3, "sum to inf"),
    "percent": ([20, 30, 50], "sum to 100"),
    "zeros": ([0, 0, 0], "sum to 0"),
    "strings": (["0.2", "0.3", "0.5"], "<U3, expected real numbers"),
    "words": (["a", "b", "c"], "expected real numbers"),
    "complex": ([0.2 + 0j, 0.3, 0.5], "complex128, expected real numbers"),
    "None": ([None, 0.5, 0.5], "object, expected real numbers"),
    "nothing": (None, "object, expected real numbers"),
    "ragged": ([[0.2], [0.3, 0.1], 0.5], "do not form an array"),
    "dict": ({"a": 0.2}, "predictions are of 'a', expected the 3 classes"),
}


@pytest.mark.parametrize("call", [*CALLS, "learn_one"])
@pytest.mark.parametrize(("row", "why"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_refused_and_nothing_is_learned(call, row, why):
    if call == "learn_one" and row is None:
        return  # a label whose prediction is gone
    corrector = lived_in()
    before = corrector.to_bytes()
    arguments = (row, "a") if call == "learn_one" else (row,)
    with pytest.raises(InvalidPrediction, match=why) as caught:
        getattr(corrector, call)(*arguments)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, StreamCANError)
    assert corrector.to_bytes() == before


@pytest.mark.parametrize(
    "call", ["correct_many", "observe_many", "process_many", "explain_many", "learn_many"]
)
@pytest.mark.parametrize("bad", [[0.5, 0.5, 0.31], [math.nan, 0.5, 0.5], [0.6, 0.6, -0.2]])
def test_one_bad_row_refuses_the_whole_batch(call, bad):
    corrector = lived_in()
    before = corrector.to_bytes()
    P = np.tile(GOOD, (30, 1))
    P[17] = bad
    with pytest.raises(InvalidPrediction, match="row 17: "):
        getattr(corrector, call)(*((P, ["a"] * 30) if call == "learn_many" else (P,)))
    assert corrector.to_bytes() == before


def test_a_row_by_itself_has_no_number():
    corrector = lived_in()
    for call in (corrector.process_one, corrector.correct_one, corrector.observe_one):
        with pytest.raises(InvalidPrediction, match=r"^probabilities sum to 0\.9"):
            call([0.5, 0.2, 0.2])
    with pytest.raises(InvalidPrediction, match=r"^entry 1 is nan"):
        corrector.learn_one([0.5, math.nan, 0.5], "a")
    with pytest.raises(InvalidPrediction, match=r"^row 0: probabilities sum to 0"):
        corrector.process_many([[0.5, 0.2, 0.2]])


@pytest.mark.parametrize("label", ["d", 0, None, math.nan, ["a"], {}])
def test_an_unknown_label_is_refused(label):
    corrector = lived_in()
    before = corrector.to_bytes()
    with pytest.raises(UnknownClass, match="none of the 3 classes"):
        corrector.learn_one(GOOD, label)
    with pytest.raises(UnknownClass, match="label of row 1 "):
        corrector.learn_many([GOOD, GOOD], ["a", label])
    with pytest.raises(UnknownClass, match="label of row 0 "):
        corrector.learn_many(None, [label])
    assert corrector.to_bytes() == before


def test_labels_that_do_not_fit_the_rows():
    corrector = lived_in()
    before = corrector.to_bytes()
    with pytest.raises(InvalidPrediction, match="2 predictions but 1 labels"):
        corrector.learn_many([GOOD, GOOD], ["a"])
    with pytest.raises(UnknownClass, match="got the string 'ab'"):
        corrector.learn_many([GOOD, GOOD], "ab")
    with pytest.raises(UnknownClass, match="shape"):
        corrector.learn_many([GOOD, GOOD], np.array([["a"], ["b"]]))
    numbers = Corrector(3)
    with pytest.raises(UnknownClass, match="label of row 1 3 is none"):
        numbers.learn_many([GOOD, GOOD], np.array([0, 3]))
    with pytest.raises(UnknownClass, match="label of row 0 -1 is none"):
        numbers.learn_many(None, np.array([-1]))
    assert numbers.n_labels == 0
    assert corrector.to_bytes() == before


@pytest.mark.parametrize(
    "row",
    [
        tuple(GOOD),
        np.array(GOOD, np.float64),
        np.array([0.2, 9, 0.3, 9, 0.5])[::2],
        np.asfortranarray(np.tile(GOOD, (4, 1)))[2],
        np.array(GOOD, ">f8"),
        np.array(GOOD, np.longdouble),
    ],
    ids=["tuple", "array", "strided", "column-major", "big-endian", "longdouble"],
)
def test_anything_that_is_a_row_gives_the_same_bits(row):
    assert lived_in().process_one(row).tobytes() == lived_in().process_one(GOOD).tobytes()


def test_other_good_rows():
    corrector = lived_in()
    np.testing.assert_allclose(corrector.correct_one([0, 0, 1]).sum(), 1)
    np.testing.assert_allclose(corrector.correct_one(np.array([False, True, False])).sum(), 1)
    np.testing.assert_allclose(
        corrector.correct_one(np.float32(GOOD)), corrector.correct_one(GOOD), atol=1e-6
    )
    readonly = np.array(GOOD)
    readonly.flags.writeable = False
    out = corrector.process_one(readonly)
    assert out.flags.writeable
    assert out.dtype == np.float64
    exact = Corrector(3, paths=["raw"])
    np.testing.assert_allclose(
        exact.correct_one([0.2002, 0.3003, 0.5004]), np.array([0.2002, 0.3003, 0.5004]) / 1.0009
    )


def test_the_answer_is_a_new_array():
    corrector = Corrector(3, paths=["raw"])
    p = np.array(GOOD)
    out = corrector.process_one(p)
    out[:] = 0
    assert p.tolist() == GOOD
    assert corrector.process_one(p).tolist() == GOOD


def test_empty_batches():
    corrector = lived_in()
    before = corrector.to_bytes()
    assert corrector.process_many(np.empty((0, 3))).shape == (0, 3)
    assert corrector.correct_many(np.empty((0, 3))).shape == (0, 3)
    assert corrector.explain_many(np.empty((0, 3)))["raw"].shape == (0, 3)
    corrector.learn_many(np.empty((0, 3)), [])
    corrector.learn_many(None, [])
    with pytest.raises(InvalidPrediction):
        corrector.process_many([])
    assert corrector.to_bytes() == before


def test_one_class():
    corrector = Corrector(["only"])
    assert corrector.process_one([1.0]).tolist() == [1.0]
    corrector.learn_one([0.9995], "only")
    assert corrector.process_many([[1], [1.0005]]).tolist() == [[1.0], [1.0]]
    assert corrector.prior.tolist() == [1.0]
    for _ in range(20):
        corrector.learn_one([1.0], "only")
        assert corrector.correct_one([1.0]).tolist() == [1.0]
        assert all(row.tolist() == [1.0] for row in corrector.explain_one([1.0]).values())


def test_a_label_without_its_prediction_teaches_the_prior_alone():
    corrector = lived_in()
    weights, sums, temperature = corrector.weights, corrector.confident_sums, corrector.temperature
    prior, seen = corrector.prior, corrector.effective_sample_size
    corrector.learn_one(None, "c")
    assert corrector.prior[2] > prior[2]
    assert corrector.effective_sample_size > seen
    assert corrector.n_labels == 41
    assert corrector.weights == weights
    assert corrector.temperature == temperature
    assert all((corrector.confident_sums[base] == sums[base]).all() for base in sums)


def test_without_labels_the_stream_stays_as_it_was():
    P = np.random.default_rng(1).dirichlet(np.full(5, 0.5), 2000)
    out = Corrector(5, train_counts=[9, 1, 1, 1, 1]).process_many(P)
    sure = np.sort(P, axis=1)[:, -1] - np.sort(P, axis=1)[:, -2] > 0.01
    assert (out.argmax(1) == P.argmax(1))[sure].all()
    assert abs(out - P).max() < 0.01


def test_temperature_undoes_overconfidence():
    rng = np.random.default_rng(2)
    honest = rng.dirichlet(np.full(4, 3), 4000)  # few entries below the floor
    y = (rng.random((4000, 1)) < honest.cumsum(1)).argmax(1)
    loud = honest**3 / (honest**3).sum(1, keepdims=True)
    corrector = Corrector(4, paths=["temperature"], half_life=math.inf)
    corrector.learn_many(loud, y)
    assert corrector.temperature == pytest.approx(3, rel=0.1)
    assert corrector.recent_log_loss["corrected"] < corrector.recent_log_loss["raw"]


def test_what_fit_alone_gives(tmp_path):
    """To be seen after deployment as a replay without a label shows it."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(3, 0.6), 5000)
    y = (rng.random((5000, 1)) < P.cumsum(1)).argmax(1)
    P = P**1.5 * [1.6, 1, 1]
    P /= P.sum(1, keepdims=True)
    corrector = Corrector(["a", "b", "c"], half_life=math.inf)
    assert corrector.fitted_log_loss is None
    names = np.array(corrector.classes)
    corrector.fit(P[:1000], names[y[:1000]])
    assert corrector.fitted_log_loss is None
    file = tmp_path / "stream.npz"
    np.savez(file, P=P[1000:], y=names[y[1000:]])
    recording = Recording(file, classes=["a", "b", "c"], label="y", probs="P")
    played = replay(recording, corrector, label_delay=0)
    assert played.fit_alone is not None
    recent = corrector.recent_log_loss
    alone = recent["raw"] - played.raw.log_loss + played.fit_alone.corrected.log_loss
    assert corrector.fitted_log_loss == pytest.approx(alone, abs=2e-4)
    assert corrector.fitted_log_loss < recent["raw"] - 0.01
    again = Corrector.from_bytes(corrector.to_bytes())
    assert again.fitted_log_loss == corrector.fitted_log_loss


def test_what_it_shows():
    new = Corrector(["a", "b"], train_counts=[3, 1])
    assert new.prior == pytest.approx([4 / 6, 2 / 6])
    assert new.weights["temperature"] == pytest.approx(0.592)
    assert math.isnan(new.recent_log_loss["raw"])
    assert new.temperature == 1
    assert (new.n_predictions, new.n_labels, new.effective_sample_size) == (0, 0, 0)
    assert new.fit_report is None
    corrector = lived_in()
    assert (corrector.n_predictions, corrector.n_labels) == (40, 40)
    assert 39 < corrector.effective_sample_size < 40
    assert sum(corrector.weights.values()) == pytest.approx(1)
    assert set(corrector.confident_sums) == {"raw", "temperature", "vector", "matrix"}
    assert "3 classes, 40 predictions, 40 labels" in repr(corrector)
    corrector.prior[:] = 7
    corrector.confident_sums["raw"][:] = 7
    corrector.settings["k"] = 7
    assert corrector.to_bytes() == lived_in().to_bytes()


def test_paths():
    assert list(Corrector(3, paths=["matrix", "raw"]).weights) == ["raw", "matrix"]
    assert Corrector(3, paths=["matrix", "can"]).weights == {
        "can": pytest.approx(0.999),
        "matrix": pytest.approx(0.001),
    }
    assert "matrix" in Corrector(256).weights
    assert "matrix" not in Corrector(257).weights
    assert "matrix" in Corrector(257, paths=["matrix"]).weights


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"classes": 0}, "at least 1"),
        ({"classes": []}, "at least 1"),
        ({"classes": True}, "expected names or their number"),
        ({"classes": "abc"}, "expected names or their number"),
        ({"classes": ["a", "a"]}, "'a' is named twice"),
        ({"classes": [("a",)]}, "expected str, int, float or bool"),
        ({"classes": [math.nan]}, "expected str"),
        ({"paths": []}, "at least one"),
        ({"paths": "can"}, "got the string"),
        ({"paths": ["cann"]}, "'cann' is not one of raw, can"),
        ({"paths": ["can", "can"]}, "named twice"),
        ({"half_life": 0}, "half_life: 0, expected"),
        ({"half_life": math.nan}, "half_life: nan"),
        ({"half_life": "7"}, "half_life: '7'"),
        ({"uncertainty": "sure"}, "uncertainty: 'sure', expected one of topk_entropy"),
        ({"k": 1}, "k: 1, expected an integer >= 2"),
        ({"k": 2.5}, "k: 2.5"),
        ({"threshold": 1.2}, "threshold: 1.2"),
        ({"threshold": True}, "threshold: True"),
        ({"pseudo_count": -1}, "pseudo_count: -1"),
        ({"pseudo_count": math.inf}, "pseudo_count: inf"),
        ({"prior_strength": 0}, "prior_strength: 0"),
        ({"train_counts": [1, 2]}, "2 counts for 3 classes"),
        ({"train_counts": [1, 2, -3]}, "finite and >= 0"),
        ({"train_counts": [0.5, 0.25, 0.25]}, "these are frequencies"),
        ({"train_counts": ["1", "2", "3"]}, "expected m numbers"),
        ({"train_counts": {"a": 1, "z": 2}}, "'z' is none of the"),
    ],
)
def test_settings_out_of_range(arguments, why):
    with pytest.raises(ValueError, match=why):
        Corrector(**({"classes": ["a", "b", "c"]} | arguments))


class Name(str):
    __slots__ = ()


class Number(int):
    pass


class Share(float):
    pass


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("caf\udce9", r"'caf\\udce9' holds '\\udce9', half a surrogate pair.*decode the name"),
        (np.str_("\ud800"), "half a surrogate pair"),
        (UUID(int=2**127 + 1).int, r"17014118.* is more than the 64 bits.*str\(name\)"),
        (2**64, "more than the 64 bits"),
        (-(2**63) - 1, "more than the 64 bits"),
        pytest.param(10**5000, "an int of 16,610 bits is more than the 64", id="digits"),
        (Name("a"), "'a' is Name, expected str, int, float or bool; give the plain str"),
        (Number(1), "1 is Number, .*; give the plain int"),
        (Share(0.5), "0.5 is Share, .*; give the plain float"),
        (Colour.RED, "is Colour, expected str, int, float or bool$"),
    ],
)
def test_a_name_that_cannot_be_saved_is_refused_where_it_enters(name, why):
    with pytest.raises(ValueError, match=f"classes: {why}" if why[0] == "'" else why):
        Corrector([name, "fine"])
    corrector = lived_in()
    before = corrector.to_bytes()
    with pytest.raises(ValueError, match=why):
        corrector._add_class(name)
    assert corrector.to_bytes() == before


def test_names_at_the_limits_are_saved():
    corrector = Corrector([2**64 - 1, -(2**63), "\U0010ffff", math.inf, True])
    assert Corrector.from_bytes(corrector.to_bytes()).classes == corrector.classes


@pytest.mark.parametrize(
    "kind",
    [
        StrEnum("Kind", {"A": "a", "B": "b"}),
        Enum("Kind", {"A": "a", "B": "b"}, type=str),
        IntEnum("Kind", {"A": 7, "B": 8}),
    ],
)
def test_a_member_of_an_enum_is_its_value_before_and_after_a_save(kind):
    corrector = Corrector(kind)
    twin = Corrector.from_bytes(corrector.to_bytes(), kind)
    for one in (corrector, twin):
        assert [(type(name), name) for name in one.classes] == [
            (type(member.value), member.value) for member in kind
        ]
        one.learn_one([0.5, 0.5], kind.B)
        one.learn_one([0.5, 0.5], kind.B.value)
        assert one.label_counts[0] == 0


def test_a_label_of_many_digits_is_unknown():
    with pytest.raises(UnknownClass, match="label an int of 16,610 bits is none of the 3 classes"):
        lived_in().learn_one(GOOD, 10**5000)


def test_train_counts_by_name_and_one_hot_counts():
    by_name = Corrector(["a", "b"], train_counts={"b": 3, "a": 1})
    assert by_name.prior.tolist() == Corrector(["a", "b"], train_counts=[1, 3]).prior.tolist()
    assert Corrector(2, train_counts=[1, 0]).prior == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_copies_are_independent_and_equal(duplicate):
    corrector = lived_in(half_life=10, pseudo_count=2)
    twin = duplicate(corrector)
    assert twin.to_bytes() == corrector.to_bytes()
    twin.learn_one(GOOD, "a")
    assert twin.to_bytes() != corrector.to_bytes()
    corrector.learn_one(GOOD, "a")
    assert twin.to_bytes() == corrector.to_bytes()


class Named(Corrector):
    """A corrector with more of its own."""

    name = "none"


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_attributes_of_a_subclass_are_copied(duplicate):
    corrector = Named(["a", "b", "c"])
    corrector.name, corrector.tags = "fraud", ["eu"]
    corrector.process_one(GOOD)
    twin = duplicate(corrector)
    assert type(twin) is Named
    assert (twin.name, twin.tags) == ("fraud", ["eu"])
    assert twin.to_bytes() == corrector.to_bytes()
    twin.learn_one(GOOD, "a")
    assert (corrector.n_labels, twin.n_labels) == (0, 1)


def test_a_receipt_of_a_corrector_of_fewer_classes_is_refused():
    corrector = lived_in()
    _, receipt = Corrector(2).process_one([0.5, 0.5], receipt=True)
    for one in (corrector, Corrector.from_bytes(corrector.to_bytes()), copy.copy(corrector)):
        before = one.to_bytes()
        with pytest.raises(InvalidPrediction, match=r"shape \(15,\), .* \(22,\)"):
            one.learn_one(GOOD, "a", receipt=receipt)
        assert one.to_bytes() == before


@pytest.mark.parametrize(
    "duplicate", [lambda c: c, copy.copy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_receipts_from_before_a_class_appeared_are_taken(duplicate):
    corrector = lived_in()
    _, old = corrector.process_one(GOOD, receipt=True)
    corrector._add_class("d")
    corrector = duplicate(corrector)
    corrector.learn_one([*GOOD, 0], "a", receipt=old)
    wrong = corrector._state["bins"][1].sum()
    corrector.learn_one([*GOOD, 0], "d", receipt=old)  # it was not on top
    assert corrector._state["bins"][1].sum() < wrong + 1e-12
    _, fewer = Corrector(2).process_one([0.5, 0.5], receipt=True)
    with pytest.raises(InvalidPrediction, match=r"shape \(15,\)"):
        corrector.learn_one([*GOOD, 0], "a", receipt=fewer)


def test_a_class_that_appears_keeps_what_was_learned_of_the_top():
    """Two classes have bins for each of them; from three on all share them again."""
    corrector = Corrector(["a"])
    corrector.learn_many([[1.0]] * 4, ["a"] * 4)
    one = corrector._state["bins"].copy()
    assert one.shape == (3, 15)
    assert one[:, -1] == pytest.approx([4, 4, 4], rel=1e-2)
    corrector._add_class("b")
    two = corrector._state["bins"].copy()
    assert two.shape == (3, 30)
    assert (two[:, :15] == one).all()
    assert (two[:, 15:] == 0).all()
    for _ in range(3):
        corrector.learn_one([0.1, 0.9], "b")
        corrector.learn_one([0.9, 0.1], "b")
    two = corrector._state["bins"].copy()
    assert (two[0, 15:].sum(), two[1, 15:].sum()) == pytest.approx((3, 3), rel=1e-2)
    assert two[1].sum() < two[0].sum() - 2.9  # those of "a" that were wrong
    corrector._add_class("c")
    three = corrector._state["bins"].copy()
    assert (three == two[:, :15] + two[:, 15:]).all()
    corrector._add_class("d")
    assert (corrector._state["bins"] == three).all()
    assert Corrector.from_bytes(corrector.to_bytes()).to_bytes() == corrector.to_bytes()


def test_a_class_that_appears_later():
    corrector = lived_in()
    before = corrector.explain_one(GOOD)
    corrector._add_class("d")
    assert corrector.classes == ("a", "b", "c", "d")
    assert corrector.weights == lived_in().weights
    assert corrector.prior[3] > 0
    for path, row in corrector.explain_one([*GOOD, 0]).items():
        if "can" not in path:  # the new class has c = 0 and the floor for p
            np.testing.assert_allclose(row[:3] / row[:3].sum(), before[path], atol=1e-9)
    corrector.learn_one([*GOOD, 0], "d")
    assert corrector.process_one([0.1, 0.1, 0.1, 0.7]).shape == (4,)
    assert Corrector.from_bytes(corrector.to_bytes()).to_bytes() == corrector.to_bytes()
    with pytest.raises(ValueError, match="'a' is named twice"):
        corrector._add_class("a")


@pytest.mark.parametrize(("missing", "why"), [("bins", "is missing"), ("V", "is missing")])
def test_a_snapshot_of_now_without_what_is_new_is_refused(missing, why):
    head, arrays = snapshot.decode(lived_in().to_bytes())
    del arrays[missing]
    with pytest.raises(SnapshotMismatch, match=f"array {missing} {why}"):
        Corrector.from_bytes(snapshot.encode(head, arrays))


def test_an_underflowing_prior_leaves_the_row():
    corrector = Corrector(2, paths=["can"], prior_strength=1e-320, half_life=0.01, pseudo_count=0)
    corrector.learn_many(None, [0, 0])
    assert corrector.correct_one([0.5, 0.5]).sum() == pytest.approx(1)


def test_sums_that_decay_to_nothing_are_nothing():
    rows = np.eye(100)[np.arange(30_000) % 2]
    corrector = Corrector(100, half_life=20)
    corrector.process_many(np.eye(100))
    corrector.learn_many(np.eye(100), np.arange(100))
    corrector.process_many(rows)
    corrector.learn_many(rows, rows.argmax(1))
    for name, array in corrector._state.items():
        if array.dtype == np.float64:
            tiny = np.finfo(np.float64).tiny
            assert not ((array != 0) & (abs(array) < tiny)).any(), f"{name} is denormal"

"""Kind: a corrector as a learner uses it, whatever its rows and labels are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from numpy.typing import NDArray

__all__ = [
    "Given",
    "Id",
    "JoinedLabel",
    "Judged",
    "Kind",
    "LabelsPerRow",
    "Made",
    "News",
    "Reason",
    "Recent",
    "Unscored",
]  # fmt: skip

Id = str | int | bytes
LabelsPerRow = Literal["one", "several"]
Reason = Literal["random", "margin"]
"""Why a label is wanted."""
Given = tuple[str | None, ...]
"""Values of the declared columns in a row."""


class Recent(msgspec.Struct, gc=False):
    """A prediction that waits for its label, or has had it."""

    id: Id | None
    number: int
    size: int
    columns: Given | None
    at: int = -1
    """Which row of the run at hand it is."""
    blob: bytes = b""
    """The row, what was sent, and the receipt, one behind the other; nothing in the run."""
    asked: Reason | None = None
    """Why its label is wanted."""
    fair: bool = True
    """Whether its label was not asked for because of what is in the row."""
    known: Any = None
    """Its label, the column of the class, of several labels their bytes; None before it came."""
    time: float = math.nan
    """When it was made, in seconds, where somebody said so."""
    lane: int = -1
    """The serial number of its lane."""
    scored: bytes = b""
    """How it foretold its label, where that is known when this is learned alone."""


class Unscored(NamedTuple):
    """A labelled prediction that is not scored yet."""

    both: bytes
    """The beginning of its blob: the row as it came and as it was sent."""
    y: Any
    time: float | None
    """When it was made, in seconds."""


class JoinedLabel(msgspec.Struct, gc=False):
    """A label of the run at hand."""

    y: Any
    entry: Recent | None
    """Its prediction, where that is kept."""
    row: bytes | None
    """The row that it brings, where that is not the one kept."""
    given: Given | None
    """Values of the columns that it brings."""
    due: int


class Made(NamedTuple):
    """Results of the rows of a run."""

    sent: Any
    blobs: list[bytes]
    """Blobs of the rows: the row, what was sent, and the receipt."""
    sets: list[list[Any]] | None
    """Names of each row's prediction set; of several labels those that it is said to have."""


class News(NamedTuple):
    """The part of a label that is not known yet."""

    y: Any
    """None where that is nothing."""
    known: Any
    """Everything that is known with it."""
    differs: bool
    """Whether it contradicts what is known."""


class Judged(NamedTuple):
    """Scores and alarm of labelled predictions."""

    raw: Any
    """Scores as they came."""
    sent: Any
    """Scores as they were sent."""
    alarm: Any
    """Whether the classifier became worse; None of several labels."""


class Kind(Protocol):
    """A corrector with what a learner has to know of its rows and labels.

    Rows of a call, labels and what is sent are what the kind makes them; a learner hands them on.
    """

    corrector: Any
    classes: tuple[Any, ...]
    columns: tuple[str, ...]
    sets: float | None
    """Share that prediction sets promise."""
    makes_sets: bool
    """Whether each row has names beside it."""
    width: int
    """Bytes of a row, of what was sent, and of the receipt; 0 where rows differ, see `width_of`."""
    both: int
    """Bytes of the first two."""
    labels_per_row: LabelsPerRow

    def rows(self, n: int, P: Any, columns: Mapping[str, Sequence[Any]] | None) -> Any:
        """The n rows of a call with what they give of the columns, checked; P may be None."""

    def row(self, p: Any) -> Any:
        """One row as the rows of a call, checked."""

    def made(self, rows: Any, blobs: Sequence[bytes]) -> Any:
        """The rows of a call as another corrector made them: they are observed, not corrected.

        Raises
        ------
        ValueError
            The kind does not know how.
        """

    def cut(self, rows: Any, numbers: Sequence[int]) -> Any:
        """Some of them."""

    def width_of(self, rows: Any, i: int) -> int:
        """Bytes of one of them, of what is sent of it at most, and of the receipt."""

    def raw(self, rows: Any, i: int) -> bytes:
        """One of them as a blob begins with it."""

    def raw_of(self, blob: bytes) -> bytes:
        """The row of a blob."""

    def given(self, rows: Any, i: int) -> Given | None:
        """Values of the columns in one of the rows."""

    def blank(self, n: int) -> Any:
        """Room for what is sent of n rows."""

    def put(self, room: Any, numbers: Sequence[int] | None, sent: Any) -> None:
        """Write some of the rows, or all, as they are sent."""

    def label(self, label: Any, id: Any) -> Any:
        """Check a label as somebody wrote it, or as :meth:`held` made it."""

    def held(self, y: Any) -> Any:
        """A label for a snapshot."""

    def news(self, known: Any, y: Any) -> News:
        """The part of a label beside what is known of its prediction."""

    def run(self, rows: Any, labels: Sequence[JoinedLabel]) -> Made:
        """Correct rows and learn labels, in order."""

    def new_judged(self) -> Judged:
        """Scores and alarm of no labels yet."""

    def judge(self, judged: Judged, pending: Sequence[Unscored]) -> None:
        """More labelled predictions."""

    def copied(self, judged: Judged) -> Judged:
        """The same, for somebody else."""

    def load_judged(self, raw: NDArray[Any], sent: NDArray[Any], alarm: bytes | None) -> Judged:
        """From their sums; ValueError where that cannot be."""

    def names_from(self, n: int) -> tuple[Any, ...]:
        """Names of classes that have numbers from ``n`` on, where they have them as they come."""

    @property
    def n_named(self) -> int:
        """How many such names there are."""

    def fits(self, lane: Any) -> bool:
        """Whether the rows of a sent batch are of these classes; names that are new have numbers
        from now on."""

    def load_rows(self, lane: Any, places: Any) -> Any:
        """Rows of a sent batch as those of a call; ValueError where they are none."""

    def told_row(self, row: bytes) -> Any:
        """A row that a label brings, as :meth:`raw` has it, for another learner."""

    def load_blobs(self, data: NDArray[Any], of: Any) -> list[bytes]:
        """Load blobs of a snapshot, written by a kind of these classes; ValueError where not."""

    def load_pending(self, one: Unscored) -> Unscored:
        """Load an unscored prediction of a snapshot; ValueError where it is none."""

    def load_known(self, known: Any) -> Any:
        """Load known labels of a snapshot; ValueError where they are none."""

    def successor(self) -> Kind:
        """The kind that a new version of the classifier begins with."""

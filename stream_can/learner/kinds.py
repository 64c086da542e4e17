"""Kind: the interface through which a learner uses a corrector of any sort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.learner.recent import Recent

Id = str | int | bytes
Reason = Literal["random", "margin"]
"""Reason why a label is requested."""
Outcome = Literal["learned", "repeated", "held", "unknown"]
"""Outcome of a label, see :meth:`Learner.label`."""
Given = tuple[str | None, ...]
"""Column values of a row."""
Blobs = list[bytes] | tuple[NDArray[Any], ...]
"""Blobs of rows, see :attr:`Recent.blob`: a list of them, or arrays with a row for each, whose
bytes side by side are its blob."""


class Unscored(NamedTuple):
    """A labelled prediction that has not been scored yet."""

    rows: bytes
    """The beginning of its blob: the row and the sent row."""
    y: Any
    time: float | None
    """Time of the prediction in seconds."""
    weight: float | None
    """Weight of the label, see :meth:`Learner.label`; None counts as 1."""


class JoinedLabel(msgspec.Struct, gc=False):
    """A label of the current run."""

    y: Any
    entry: Recent | None
    """Its prediction, where kept."""
    row: bytes | None
    """The row that came with the label, where it differs from the kept one."""
    given: Given | None
    """The segment values that came with the label."""
    due: int
    weight: float | None = None


class RunOutput(NamedTuple):
    """Output of a run."""

    sent: Any
    blobs: Blobs
    sets: list[list[Any]] | None
    """Names in each row's prediction set; of multilabel rows the ones decided on."""
    explained: Any = None
    """What explains the rows, where asked for."""


LabelChange = tuple[Any, Any, bool]
"""The new part of a label, None where nothing is new; everything known after it; and whether it
contradicts the known labels."""


class Judged(NamedTuple):
    """Scores and alarm of labelled predictions."""

    raw: Any
    """Scores of the raw rows."""
    sent: Any
    """Scores of the sent rows."""
    alarm: Any
    """Alarm of a worse classifier; None for multilabel rows."""


class Kind(Protocol):
    """Adapter between a learner and one sort of corrector.

    The types of rows, labels and outputs belong to the adapter; the learner only passes them on.
    """

    corrector: Any
    classes: tuple[Any, ...]
    segments: tuple[str, ...]
    sets: float | None
    """Coverage that prediction sets promise."""
    passes: bool
    """Whether rows are sent as they came; what is learned is the same."""
    corrects_alone: bool
    """Whether :meth:`process_one` corrects a row without a call's effort."""
    makes_sets: bool
    """Whether every row gets names: its prediction set or its decided labels."""
    random_requests: float
    """Part of the label requests that is random, see `LabelRequests`."""
    width: int
    """Bytes of row, sent row and receipt; 0 where rows differ in length, see `width_of`."""
    rows_width: int
    """Bytes of row and sent row."""
    nbytes: int
    """Bytes of the corrector, as it begins."""
    described: str
    """What its rows are called in messages."""
    has_models: bool
    """Whether rows may name models and versions."""
    has_weights: bool
    """Whether labels may have weights."""
    numbering: Any
    """What numbers the classes of rows as they appear; None where classes are declared."""
    lookup: Any
    """What checks rows and labels without numbering new classes, for a process that corrects and
    does not learn; None where classes are declared."""
    train_prior: NDArray[np.float64]
    """The training prior of its corrector, see :attr:`Learner.train_prior`."""

    def rows(self, n: int, P: Any, segments: Mapping[str, Sequence[Any]] | None) -> Any:
        """Check the n rows of a call and their segment values; P may be None."""

    def row(self, p: Any) -> Any:
        """Check one row; return it like the rows of a call."""

    def mark_corrected(self, rows: Any, blobs: NDArray[np.float32]) -> Any:
        """Mark the rows of a call as corrected elsewhere: they are observed, not corrected.

        Parameters
        ----------
        blobs
            Output of the other corrector, as :attr:`SentVersion.rows`.

        Raises
        ------
        ValueError
            This adapter does not support it.
        """

    def cut(self, rows: Any, numbers: Sequence[int]) -> Any:
        """Select rows."""

    def width_of(self, rows: Any, i: int) -> int:
        """Upper bound in bytes of the row, sent row and receipt of one row."""

    def raw(self, rows: Any, i: int) -> bytes:
        """The first part of a row's blob."""

    def raw_of(self, blob: bytes) -> bytes:
        """Decode the row of a blob."""

    def given(self, rows: Any, i: int) -> Given | None:
        """Column values of one row."""

    def blank(self, n: int) -> Any:
        """Allocate the output of n rows."""

    def put(self, room: Any, numbers: Sequence[int] | None, sent: Any) -> None:
        """Write the output of some rows, or of all."""

    def label(self, label: Any, id: Any) -> Any:
        """Check a label as given by a user, or as returned by :meth:`held`."""

    def held(self, y: Any) -> Any:
        """Return a label as a snapshot stores it."""

    def news(self, known: Any, y: Any) -> LabelChange:
        """Compare a label with what is known of its prediction."""

    def process_one(self, p: Any) -> tuple[Any, bytes]:
        """Check and correct a row without segments: the row that is sent, and its blob; where
        :attr:`corrects_alone`."""

    def run(self, rows: Any, labels: Sequence[JoinedLabel], explain: Any = None) -> RunOutput:
        """Correct rows and learn labels, in stream order; ``explain`` as :meth:`Learner.play` was
        given it for the rows of its call, with :meth:`cut` for these rows."""

    def given_rows(self, P: Any) -> Any:
        """Rows that are to be corrected without learning, for :meth:`corrected`."""

    def corrected(self, raw: Any, segments: Any) -> tuple[Any, Any, list[list[Any]] | None]:
        """Correct rows without learning: sent rows, receipts, names in their sets."""

    def sent_version(self, name: Any, raw: Any, sent: Any, receipts: Any) -> Any:
        """Encode corrected rows for the learner as a `SentVersion`."""

    def listed(self, version: Any, i: int) -> tuple[list[float], list[float], list[Any]]:
        """A row that was played and the row that was sent, as lists, and the classes of the longer
        one; those of the other come first."""

    def uncertainty(self, sent: Any) -> list[float]:
        """Uncertainty of the output of each row, in [0, 1], by which labels are requested."""

    def new_judged(self) -> Judged:
        """Empty scores and an alarm without labels."""

    def judge(self, judged: Judged, pending: Sequence[Unscored]) -> None:
        """Score more labelled predictions."""

    def copied(self, judged: Judged) -> Judged:
        """An independent copy."""

    def load_judged(self, raw: NDArray[Any], sent: NDArray[Any], alarm: bytes | None) -> Judged:
        """Restore scores from their sums; ValueError where they are invalid."""

    def names_from(self, n: int) -> tuple[Any, ...]:
        """Names of the classes numbered from ``n`` on, where classes are numbered as they
        appear."""

    @property
    def n_named(self) -> int:
        """Number of such names."""

    def number_and_check(self, version: Any) -> bool:
        """Number new class names of a sent batch; return whether its rows have these classes."""

    def load_rows(self, version: Any) -> Any:
        """Read the rows of a sent version as rows of a call; ValueError where they are invalid."""

    def told_row(self, row: bytes) -> Any:
        """Decode a row that came with a label, encoded by :meth:`raw`, for another learner."""

    def require_sent(self, version: Any) -> None:
        """ValueError where rows that another process sent are none, whatever their classes: what is
        refused here cannot be played, or not be loaded again."""

    def load_blobs(self, data: NDArray[Any], of: Any) -> list[bytes]:
        """Restore blobs written under the adapter ``of``; ValueError where they are invalid."""

    def load_pending(self, unscored: Unscored) -> Unscored:
        """Check an unscored prediction of a snapshot; ValueError where it is invalid."""

    def load_known(self, known: Any) -> Any:
        """Check the known labels of a snapshot; ValueError where they are invalid."""

    def successor(self) -> Kind:
        """The adapter with which a new version of the classifier starts."""


def for_one_row(segments: Mapping[str, Any] | None) -> dict[str, list[Any]] | None:
    """Segments of one row as those of a call."""
    return None if segments is None else {name: [value] for name, value in segments.items()}

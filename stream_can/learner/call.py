"""Call: rows of one call of the learner, and the results of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.learner.kinds import Id, Outcome, Reason
from stream_can.learner.model_name import Name
from stream_can.learner.recent import Recent
from stream_can.method.receipts import TAIL


class Taught(msgspec.Struct, gc=False):
    """A prediction whose label was learned."""

    label: int
    """Index of the label within the call; -1 for a held label."""
    name: Name
    prediction: Recent
    """The prediction: its label in ``known``; row, sent row and receipt in ``blob``."""
    time: float | None = None
    """Time of the label in seconds, where given."""
    n: int = 1
    """Number of labels: several that were held for it are learned as one."""
    weight: float | None = None
    """Weight of the label; None counts as 1."""


def rows_of(
    taught: Sequence[Taught], m: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]:
    """Rows and sent rows of predictions of m declared classes, shape (n, m), and the ends of their
    receipts."""
    blobs = b"".join([labelled.prediction.blob for labelled in taught])
    data = np.frombuffer(blobs, "<f4").reshape(len(taught), -1)
    pairs = np.ascontiguousarray(data[:, : 4 * m]).view(np.float64)
    return pairs[:, :m], pairs[:, m:], data[:, -TAIL:]


class Explained(NamedTuple):
    """What explains some rows of a call."""

    rows: Any
    """Indices of the rows; None for all of the call."""
    values: Any
    """In the adapter's terms."""


class Call(NamedTuple):
    """Rows of one call of the learner, and their results."""

    n: int
    rows: Any
    """Rows in the adapter's type."""
    sent: Any
    """Output, written by the versions."""
    sets: list[list[Any]] | None
    reasons: list[Reason | None]
    active: dict[Any, None]
    """Versions with rows or labels in this call."""
    taught: list[Taught]
    explain: Any
    explained: list[Explained]


class CallRows(NamedTuple):
    """Rows of a call, before they are corrected."""

    ids: list[Id | None]
    name: Name
    """Model and version of all of them, where ``names`` is None."""
    names: Sequence[Name] | None
    """Model and version of each."""
    times: Sequence[float | None] | None
    entries: list[Recent]
    """Predictions of those that were processed."""


class Corrected(NamedTuple):
    """Results of rows and labels."""

    rows: NDArray[np.float64]
    """Corrected rows, shape (n, m)."""
    sets: list[list[Any]] | None
    """Names of the classes in each row's prediction set, the likeliest first; of multilabel rows
    those decided on, see `MultiLabelCorrector.decide`; None where the corrector makes none."""
    asked: list[Reason | None]
    """Why the label of each row is requested, "random" or "margin"; None where it is not."""
    outcomes: list[Outcome]
    """Outcome of each label, see :meth:`Learner.label`."""
    taught: list[Taught]
    """The predictions with which labels were learned, for statistics."""
    explained: Sequence[Any] = ()
    """What explains the rows, where asked for, see :meth:`Learner.play`."""

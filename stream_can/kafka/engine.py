"""Correct with an application's newest state in a process of your own, and feed its learner.

Any process that reads the topic of states and appends to the topic of sent batches corrects as a
worker does: your own consumer, Spark, Flink, a web service. docs/architecture.md has the formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.app.models import DeclaredCorrector
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.options import MESSAGE_BYTES, Options
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.following import Follower
from stream_can.kafka.headers import NEXT_HEADER, headers_by
from stream_can.kafka.state import Index
from stream_can.kafka.state_correctors import corrector_of
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.recent import check_ids
from stream_can.learner.sent import SentBatch
from stream_can.messages.records import Header
from stream_can.method.segments import text_of

__all__ = ["ApplicationState", "Correction", "States", "read_state"]


class Correction(NamedTuple):
    """Rows corrected by a state."""

    rows: NDArray[np.float64]
    """Corrected rows, shape (n, m)."""
    sets: list[list[Any]] | None
    """Prediction set of each row, likeliest class first; None without sets. Of multilabel rows the
    ones decided on."""
    sent: list[tuple[bytes, list[Header]]]
    """Value and headers of records for the topic of sent batches; send them in this order to one
    partition: the input's, where there is an input."""


class ApplicationState:
    """A state of an application, for correcting only; from `States` or `read_state`.

    Attributes
    ----------
    number
        Number of the state; it rises.
    """

    def __init__(self, current: CurrentState) -> None:
        self._current, self.number = current, current.number

    @property
    def application_id(self) -> str:
        """Name of the application."""
        return str(self._current.index.identity["application_id"])

    def corrector(self, model: str | None = None, version: str | None = None) -> DeclaredCorrector:
        """The corrector of a model and version; an unknown one begins as the learner would begin
        it."""
        return self._current.corrector((model, version))

    def correct(
        self,
        P: Any,
        *,
        ids: Sequence[str | bytes | None] | None = None,
        offsets: Sequence[int] | None = None,
        next: int | None = None,
        times: ArrayLike | None = None,
        segments: Mapping[str, Sequence[Any]] | None = None,
        models: Sequence[Name] | None = None,
        most_bytes: int = MESSAGE_BYTES - 1024,
    ) -> Correction:
        """Correct rows, and encode them for the learner.

        Parameters
        ----------
        P
            Probability vectors, or scores of multilabel rows, shape (n, m); of sparse rows
            {class: probability} of each row.
        ids
            Ids that labels will name; None for a row that cannot be labelled.
        offsets
            Offsets of the rows in their input partition, ascending; None for an application without
            input.
        next
            Next input offset after everything that was read; by default the one after the last row.
        times
            Time of each prediction in seconds since 1970; NaN, or None for all, where unknown.
        segments
            {segment: n values} of the declared segments.
        models
            Model and version of each row; all must have the same classes.
        most_bytes
            Maximum size of a record.

        Raises
        ------
        InvalidPrediction, ValueError, TypeError
            A row is no probability vector, an id no text or bytes of at most 1,024 bytes; lengths
            differ, or offsets do not ascend.
        """
        rows = self._current.given_rows(P)
        n = len(rows)
        numbers = np.arange(n) if offsets is None else np.asarray(offsets, np.int64)
        if numbers.shape != (n,) or (np.diff(numbers) <= 0).any():
            raise ValueError(f"offsets: expected {n}, ascending")
        encoded_ids = [None] * n if ids is None else [_id(id) for id in ids]
        when = np.full(n, np.nan) if times is None else np.asarray(times, np.float64)
        texts = {
            name: [text_of(value) for value in values] for name, values in (segments or {}).items()
        }
        names = [ONLY] * n if models is None else [*models]
        for argument, length in (
            ("ids", len(encoded_ids)), ("times", len(when)), ("models", len(names)),
            *((f"column {name!r}", len(values)) for name, values in texts.items()),
        ):  # fmt: skip
            if length != n:
                raise ValueError(f"{argument}: {length} of them for {n} rows")
        corrected = self._current.correct_rows(rows, names, texts or None)
        batch = SentBatch(encoded_ids, numbers, when, corrected.lanes, corrected.of, texts)
        headers = headers_by(self.number, self._current.index.mark)
        sent = []
        for data, end in batch.pieces(most_bytes) if n or next is not None else ():
            batch_headers = list(headers)
            if offsets is not None or next is not None:
                behind = next if end == n and next is not None else int(numbers[end - 1]) + 1
                batch_headers.append((NEXT_HEADER, b"%d" % behind))
            sent.append((data, batch_headers))
        return Correction(corrected.sent, corrected.sets, sent)

    def to_bytes(self) -> bytes:
        """Encode the state for other processes, versioned and checksummed; see `read_state`."""
        current = self._current
        head = _StateHead(
            1, self.number, current.index,
            [(name, corrector.to_bytes()) for name, corrector in current.correctors.items()],
            [(model, corrector.to_bytes()) for model, corrector in current.begins.items()],
        )  # fmt: skip
        return snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), {})


class _StateHead(msgspec.Struct):
    state: Literal[1]
    number: int
    index: Index
    correctors: list[tuple[Name, bytes]]
    begins: list[tuple[str | None, bytes]]


def read_state(data: bytes) -> ApplicationState:
    """Decode :meth:`ApplicationState.to_bytes`.

    Raises
    ------
    SnapshotMismatch
        The bytes are truncated, corrupt, of another version or of another kind.
    """
    head, _ = snapshot.of_kind(data, "state", "state of an application", _StateHead)
    correctors = {name: corrector_of(encoded) for name, encoded in head.correctors}
    begins = {model: corrector_of(encoded) for model, encoded in head.begins}
    return ApplicationState(CurrentState(head.number, head.index, correctors, begins))


class States:
    """Follows the states of an application in a background thread; a context manager.

    Parameters
    ----------
    bootstrap_servers
        Brokers as ``host:port``.
    application_id
        The application.
    topic
        Topic of states, if not ``application_id-state``.
    client
        Options of kafka-python.

    Examples
    --------
    ::

        with States(["localhost:9092"], "fraud") as states:
            rows = states.newest().correct(P, ids=ids).rows
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str],
        application_id: str,
        *,
        topic: str | None = None,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        self.topic = topic or f"{application_id}-state"
        self._follower = Follower(
            Options([*bootstrap_servers], client), self.topic, lambda index: None
        )
        self._newest: ApplicationState | None = None

    def newest(self) -> ApplicationState:
        """Return the newest state that has been read.

        Raises
        ------
        DeniedError
            There is no state yet, or it may not be read.
        RetryError
            No broker answers, and no state has been read before.
        """
        current = self._follower.look()
        if current is None:
            raise DeniedError(f"{self.topic}: there is no state yet; does its learner run?")
        if self._newest is None or self._newest._current is not current:
            self._newest = ApplicationState(current)
        return self._newest

    def close(self) -> None:
        """Stop the thread."""
        self._follower.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _id(raw_id: Any) -> bytes | None:
    """An id as labels name it."""
    if raw_id is not None and not isinstance(raw_id, str | bytes):
        raise TypeError(f"ids: {raw_id!r}, expected texts, bytes or None")
    id = raw_id.encode() if isinstance(raw_id, str) else raw_id
    check_ids([id])
    return id

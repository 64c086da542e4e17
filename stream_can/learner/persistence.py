"""Persistence: a learner's state in bytes, and its events for another process."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Literal, Self

from stream_can.learner import saved
from stream_can.learner.batches import play_batch, require_rows
from stream_can.learner.call import Corrected
from stream_can.learner.events import EventLog, batch_of
from stream_can.learner.inspection import Inspection
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_version import ModelVersion
from stream_can.learner.playing import Playing
from stream_can.learner.recent import Recent
from stream_can.learner.restoring import restore, state_of
from stream_can.learner.saved import State
from stream_can.learner.sent import Events, SentBatch, read_sent
from stream_can.trust.locking import one_at_a_time

PIECE = 2 << 20
"""Bytes of predictions that are encoded and decoded together."""
LISTED = 512
"""About as many bytes has a prediction of sparse rows."""


class Persistence(Inspection):
    """The part of a `Learner` that stores and other processes use."""

    _playing: Playing

    # ---- events

    @one_at_a_time
    def start_events(self) -> None:
        """Start recording events for :meth:`take_events`."""
        self._memory.log = EventLog.from_now(self._memory.versions)

    @one_at_a_time
    def keep_events(self) -> SentBatch:
        """:meth:`start_events`; also return the recent predictions so far."""
        memory = self._memory
        memory.log = EventLog.from_now(memory.versions)
        return batch_of(memory.order, memory.versions.by_serial, memory.versions)

    @one_at_a_time
    def stop_events(self) -> None:
        """Stop recording events until :meth:`keep_events` is called again."""
        self._memory.log = None

    @one_at_a_time
    def take_events(self) -> Events:
        """Take the events since the last call or :meth:`keep_events`. With the state of that time
        :meth:`play_events` reproduces the present one."""
        if self._memory.log is None:
            raise ValueError(
                "take_events: call keep_events first, also after an interrupted call, and store the"
                " state with it: the events start from there"
            )
        events = self._memory.log.events(self._memory.versions)
        self._memory.log = EventLog.from_now(self._memory.versions)
        return events

    @one_at_a_time
    def play_events(self, events: Events) -> None:
        """Correct and learn again what another learner was given.

        Raises
        ------
        SnapshotMismatch
            The predictions have other classes or segments, or do not follow the last one.
        """
        with saved.refused():
            numbers = events.sent.numbers
            are_new = not len(numbers) or numbers[0] >= self._memory.number
            saved.require(are_new, "the rows come again")
            play_batch(self._playing, events, sent=False)

    def require_sent(self, batch: SentBatch) -> None:
        """Check rows that another process sent, as far as they can be without the corrector of
        their model: what passes can be played, and loaded again; SnapshotMismatch otherwise."""
        with saved.refused():
            require_rows(batch, self._memory.versions)

    @one_at_a_time
    def play_sent(
        self, events: Events, *, without: Collection[Name] = (), until: float = math.inf
    ) -> Corrected:
        """Observe rows that other correctors sent, keep them as sent, and learn the labels between
        them: one learner serves many processes that correct. Rows that are not `corrected` are
        corrected here, as :meth:`play` does.

        Each of those processes corrects by ``correct_many(P, receipt=True)`` with a snapshot from
        :attr:`correctors`, renewed now and then. A label is judged by the row and receipt that were
        sent. The result has the rows as sent, without sets, and those corrected here with them;
        skipped rows are NaN.

        Parameters
        ----------
        events
            Predictions, which keep their numbers; labels, and starts of models. Rows whose classes
            differ from those of their model here are skipped.
        without
            Models and versions whose rows are skipped.
        until
            Upper bound in seconds of the clock by which labels wait: other correctors may be
            behind, and their next rows older.

        Raises
        ------
        SnapshotMismatch
            The predictions have other segments.
        """
        self._joining.until = until
        try:
            with saved.refused():
                return play_batch(self._playing, events, sent=True, without=without)
        finally:
            self._joining.until = math.inf

    @one_at_a_time
    def forget_before(self, number: int) -> None:
        """Drop the predictions that are numbered below: none of their labels will come."""
        self._memory.forget_before(number)

    # ---- the whole state

    def to_bytes(self) -> bytes:
        """Serialise correctors, kept predictions, scores, requests and held labels, versioned and
        checksummed, as they are at the call. Others wait while the state is taken, not while
        predictions are encoded."""
        state, predictions, by_serial = self._whole()
        versions = self._memory.versions
        n = max(1, PIECE // (versions.default.width or LISTED))
        firsts = range(0, len(predictions), n)
        batches = (batch_of(predictions[i : i + n], by_serial, versions).to_bytes() for i in firsts)
        return saved.joined(state, batches, len(firsts))

    @one_at_a_time
    def _whole(self) -> tuple[State, list[Recent], dict[int, ModelVersion]]:
        """The state, the kept predictions, whose rows do not change, and their versions."""
        memory = self._memory
        return self.state(), list(memory.order), dict(memory.versions.by_serial)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    @one_at_a_time
    def state(self, *, without: Collection[Name] = ()) -> State:
        """The state without the rows of recent predictions, which are in sent batches.

        Parameters
        ----------
        without
            Models and versions whose correctors are left out.
        """
        return state_of(self._memory, self._joining, without)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        classes: int | Iterable[Hashable] | None = None,
        *,
        recent_mb: float | None = None,
        ask: float | Literal["as before"] | None = "as before",
        **settings: Any,
    ) -> Self:
        """Load :meth:`to_bytes`; the learner continues bit for bit.

        Parameters
        ----------
        data
            The result of ``to_bytes``.
        classes, **settings
            As for ``from_bytes`` of its corrector.
        recent_mb, ask
            Replace the snapshot's.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version, not of a learner, or of other
            classes or segments.
        """
        state, recent = saved.parts(data)
        batches = (read_sent(bytes(batch)) for batch in recent)
        return cls.from_state(state, batches, classes, recent_mb=recent_mb, ask=ask, **settings)

    @classmethod
    def from_state(
        cls,
        state: State,
        sent: Iterable[SentBatch],
        classes: int | Iterable[Hashable] | None = None,
        *,
        recent_mb: float | None = None,
        ask: float | Literal["as before"] | None = "as before",
        max_lanes: int | None = None,
        label_wait: float | None = None,
        under: Callable[[Name, Any], Any] | None = None,
        whole: bool = True,
        **settings: Any,
    ) -> Self:
        """Load a :meth:`state`; the learner continues bit for bit.

        Parameters
        ----------
        state
            The result of ``state``, with every corrector.
        sent
            The batches sent before it, in order, as :meth:`take_events` returned them. They must
            contain every kept prediction; others are skipped.
        classes, **settings, recent_mb, ask
            As for :meth:`from_bytes`.
        max_lanes, label_wait
            Replace the state's.
        under
            Called with each model and version and its corrector; its result replaces the corrector,
            for example under other settings.
        whole
            Whether every kept prediction must be found; otherwise the oldest may be missing, and
            are dropped.

        Raises
        ------
        SnapshotMismatch
            As above; or a kept prediction is in none of the batches.
        """
        head, _ = saved.opened(state.memory)
        replaced = under or (lambda name, corrector: corrector)
        new: Callable[..., Self] = cls
        with saved.refused():
            learner = new(
                replaced(ONLY, saved.corrector(state.start, classes, settings)),
                recent_mb=head.recent_mb if recent_mb is None else recent_mb,
                ask=head.ask if ask == "as before" else ask,
                label_wait=head.label_wait if label_wait is None else label_wait,
                max_lanes=head.max_lanes if max_lanes is None else max_lanes,
            )
            restore(
                learner._memory, learner._joining, state, sent, classes, settings, replaced, whole
            )
        return learner

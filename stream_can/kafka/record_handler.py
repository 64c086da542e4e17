"""RecordHandler: corrects the records that a worker has read, hands them over, or holds them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from stream_can.app.counts import Handled
from stream_can.app.letters import KEPT, letter
from stream_can.app.metrics import Metrics
from stream_can.app.start import Start
from stream_can.app.tally import Tally
from stream_can.kafka import dead_letters
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.topic_limits import OVERHEAD_BYTES
from stream_can.kafka.corrections import unreadable
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.following import Follower
from stream_can.kafka.handing import Handing, handed_over
from stream_can.kafka.held_records import HeldRecords
from stream_can.kafka.open_work import OpenWork
from stream_can.kafka.record_corrector import RecordCorrector
from stream_can.kafka.resuming import resume_point
from stream_can.kafka.schema_lookups import SchemaLookups
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Index
from stream_can.kafka.times import RecordTimes
from stream_can.kafka.unread import Unread
from stream_can.learner.sent import NO_ROWS
from stream_can.messages.records import Output

__all__ = ["RecordHandler"]


class RecordHandler:
    """Handles the records of assigned partitions, in the open transaction.

    Parameters
    ----------
    settings, start, metrics
        Topics and rules, and the source of readers; receives counts.
    client, follower
        Where records come from and go to; tells when the newest state was written.
    handing
        Decides which partitions are handed over to the learner.
    lookups
        Tell whether a record can be read now, or a schema registry must be asked first; such a
        record holds back those behind it in its partition.
    """

    corrector: RecordCorrector

    def __init__(
        self,
        settings: Settings,
        start: Start,
        metrics: Metrics,
        client: Client,
        follower: Follower,
        handing: Handing,
        lookups: SchemaLookups | None,
    ) -> None:
        self._settings, self._start = settings, start
        self._metrics, self._lookups = metrics, lookups
        self._client, self._follower, self._handing = client, follower, handing
        self._fail = settings.errors == "fail"
        self.open = OpenWork(
            client.transaction, settings.sent_topic, settings.commit_interval_ms / 1000
        )
        self.held = HeldRecords()
        self.at: dict[int, int] = {}
        """Next offset to read of each assigned partition."""
        self.tallies: dict[int, Tally] = {}

    def use_limit(self) -> None:
        """Correct records whose outputs are as large as the topic takes them by now."""
        s, formats = self._settings, self._start.formats
        limit = self._client.transaction.max_bytes[s.output] - OVERHEAD_BYTES
        self.corrector = RecordCorrector(
            s.fields, formats, self._start.segments, max_bytes=limit, fail=self._fail,
            rows=s.rows, times=RecordTimes(s, formats).in_seconds,
        )  # fmt: skip

    def resume(self, partitions: Iterable[int], index: Index, *, made_again: bool) -> int:
        """Read assigned partitions on where the group left them; return the number of records to
        read. Arguments and errors are those of `resume_point`."""
        s, member, notes = self._settings, self._client.member, dict[int, int]()
        reset, passed = set[int](), set[int]()
        for partition in partitions:
            committed, span = member.committed_with_note(partition), member.span(partition)
            point = resume_point(s, partition, committed, span, index, made_again=made_again)
            if point.is_reset:
                reset.add(partition)
            if (until := handed_over(point.note)) is not None:
                notes[partition] = until
                if point.offset > until:
                    passed.add(partition)
            member.start_at(partition, point.offset)
            self.at[partition] = point.offset
        lags = member.lag(self.at)
        self._handing.take_over(lags, notes, reset, passed)
        self.tallies = {
            p: Tally((), lambda name: 0, named=s.has_lanes, sets=False, rows=s.rows)
            for p in self.at
        }
        return sum(lags.values())

    def drop(self) -> None:
        """Drop uncommitted work and what is held."""
        self.at = {}
        self.held.clear()
        self.open.clear()

    def handle(self, partition: int, records: Sequence[Any], state: CurrentState) -> None:
        """Handle records of a partition, behind those of it that are held.

        Raises
        ------
        UnreadableRecord
            ``errors="fail"``: everything before the record is in the transaction.
        """
        s, records = self._settings, [*self.held.take(partition), *records]
        if self._lookups is not None:
            ready = self._lookups.ready
            n = next((i for i, record in enumerate(records) if not ready(record)), len(records))
            if n < len(records):
                self.held.by_partition[partition] = records[n:]
            self._client.member.hold(partition, n < len(records))
            records = records[:n]
        if not records:
            return
        if s.backlog == "ordered" and not self._corrects(partition, records, state):
            return
        self._correct(partition, records, state)

    def _correct(self, partition: int, records: list[Any], state: CurrentState) -> None:
        """Correct records, and add their results to the transaction."""
        s, transaction = self._settings, self._client.transaction
        corrections = self.corrector.correct_records(records, state)
        topics, now = transaction.topic_limits, transaction.clock.now_ms()
        accepted, refused = dead_letters.divert(
            corrections.outputs, topics[s.output], now, fail=self._fail
        )
        if refused:
            corrections.outputs = accepted
            corrections.dead_letters += refused
            corrections.corrected = sum(output.value is not None for output in accepted)
        dead_letters.require_taken(corrections.dead_letters, s.dead_letters, transaction)
        stopped = corrections.stopped
        end = records[-1].offset + 1 if stopped is None else stopped[0].offset
        with dead_letters.made_of([records]):
            self.open.begin(partition)
            transaction.send_all(s.output, partition, corrections.outputs)
            transaction.send_all(s.dead_letters, partition, corrections.dead_letters)
            self.open.send(partition, end, state, corrections.sent or NO_ROWS)
        self.at[partition] = end
        self._handing.corrected(partition)
        self.open.handled += len(corrections.outputs) + len(corrections.dead_letters)
        tally = self.tallies[partition]
        tally.answered(*corrections.counts)
        tally.refused += state.refused
        state.refused = 0
        letters = self._letters(corrections.dead_letters[-KEPT:])
        n_divided, n_faults = corrections.normalised, len(corrections.faults)
        self._metrics.handled(
            Handled(len(corrections.outputs), n_divided, n_faults, letters=letters)
        )
        lonely = corrections.without_id if s.labels is not None else ()
        divided = records if n_divided and s.normalise == "rounded" else ()
        self._metrics.tell(corrections.faults, lonely, letters, divided)
        if stopped is not None:
            raise unreadable(*stopped) from stopped[1]

    def _letters(self, dead: Sequence[Output]) -> list[Any]:
        """Dead letters, for display."""
        now, names = time.time(), self._settings.field_names
        return [letter(output, now, names) for output in dead]

    def _corrects(self, partition: int, records: list[Any], state: CurrentState) -> bool:
        """Whether to correct records that were read; otherwise hand them over, or let them wait."""
        last, member = records[-1], self._client.member
        end = max(member.end(partition) or 0, last.offset + 1)
        n_unread, now = len(records) + end - last.offset - 1, time.time()
        times = [record.timestamp / 1000 if record.timestamp >= 0 else now for record in records]
        unread = Unread(n_unread, times, end)
        way = self._handing.way(partition, unread, state.index.answered, self._follower.written)
        if way in ("ask", "wait"):
            self.held.put_back(partition, records)
            member.hold(partition, True)
            if way == "ask":
                self.open.begin(partition)
                self.open.send(partition, self.at[partition], state)
            self.open.due = time.monotonic()
            return False
        if partition in self.held.waiting:
            self.held.waiting.discard(partition)
            member.hold(partition, partition in self.held.by_partition)
        if way == "hand over":
            self._hand_over(partition, records, state)
        return way == "correct"

    def _hand_over(self, partition: int, records: list[Any], state: CurrentState) -> None:
        """Hand records over to the learner, which corrects them."""
        stopped = None
        if self._fail:
            _, bad = self.corrector.read_records(records, state)
            state.forget()
            if bad:
                first, error = bad[0]
                stopped, records = (records[first], error), records[:first]
        if records:
            with dead_letters.made_of([records]):
                self.open.begin(partition)
                too_large = self.open.send_deferred(partition, records, state)
            first, self.at[partition] = self.at[partition], records[-1].offset + 1
            transaction, topic = self._client.transaction, self._settings.dead_letters
            refused = dead_letters.not_handed_over(
                too_large, self._settings.sent_topic, self.open.most_bytes, fail=self._fail
            )
            tally = self.tallies[partition]
            if refused:
                dead_letters.require_taken(refused, topic, transaction)
                transaction.send_all(topic, partition, refused)
                tally.answered(0, 0, len(refused))
                self.open.send(partition, self.at[partition], state)
            self._handing.hand_over(partition, first, self.at[partition])
            self.open.handled += len(records)
            tally.counts["handed_over"] += len(records) - len(too_large)
            letters = self._letters(refused)
            self._metrics.handled(Handled(letters=letters[-KEPT:]))
            self._metrics.tell(letters=letters)
        if stopped is not None:
            raise unreadable(*stopped) from stopped[1]

"""A static member of the consumer group: its partitions, their records, positions and lag."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka import errors as kafka_errors

from stream_can.kafka.client import unpacking
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.consumer import ends_of, open_consumer
from stream_can.kafka.client.guards import (
    ClientError,
    RebuildError,
    RetryError,
    close,
    errors_as,
)
from stream_can.kafka.client.joining import STABLE, JoinClock
from stream_can.kafka.client.options import Options

log = logging.getLogger(__name__)


class Assignment(NamedTuple):
    """The partitions that are ours, and the generation of the group that made them so."""

    partitions: tuple[int, ...]
    token: Any


class _Flag(ConsumerRebalanceListener):  # type: ignore[misc]
    """Trap: listeners run on the client's I/O thread, where blocking calls raise: only a flag."""

    def __init__(self, set_: Callable[[], None]) -> None:
        self.set = set_

    def on_partitions_revoked(self, revoked: object) -> None:
        self.set()

    def on_partitions_assigned(self, assigned: object) -> None:
        self.set()


class Member:
    """The consumer in the group.

    What it owns changes only inside `poll`: kafka-python joins and takes an assignment over while
    that call waits. Between two polls no partition can be taken away.

    Parameters
    ----------
    options
        The brokers and the client options.
    group, identity
        The consumer group, and the static member's name in it.
    topic
        What to read.
    """

    def __init__(self, options: Options, group: str, identity: str, topic: str) -> None:
        self.group, self.identity, self.topic = group, identity, topic
        self._options = options
        self._consumer: Any = None
        self._rebalanced = threading.Event()
        self._joining = JoinClock(options.session_seconds)

    # -- in and out of the group -----------------------------------------------------------------

    def open(self) -> None:
        """Join the group, if it has not been joined."""
        if self._consumer is None:
            self._consumer = open_consumer(
                self._options, group_id=self.group, group_instance_id=self.identity
            )
            self._consumer.subscribe([self.topic], listener=_Flag(self._rebalanced.set))

    def drop(self) -> None:
        """Close the consumer; the group waits for the session, or for us to come back."""
        consumer, self._consumer = self._consumer, None
        self._joining.reset()
        close(consumer)

    def close(self, *, leave: bool = True) -> None:
        """Close the consumer; with ``leave``, hand the partitions over at once."""
        if self._consumer is None:
            return
        self.drop()
        if leave:
            try:
                with Admin(self._options, self.group) as admin:
                    admin.remove_member(self.identity)
            except ClientError as error:
                log.warning("could not leave the group, others wait for the session: %s", error)

    # -- whose partitions ------------------------------------------------------------------------

    @property
    def rebalanced(self) -> bool:
        """Whether a rebalance waits to be taken: what was sent since then must not be committed."""
        return self._rebalanced.is_set()

    def ask_again(self) -> None:
        """Let the next `take_rebalance` give the assignment, even if it is the same."""
        self._rebalanced.set()

    def take_rebalance(self) -> Assignment | None:
        """The new assignment, or None where nothing changed since the last call.

        Its token is the membership as of now: a commit presents that one, so that the brokers
        refuse what a member does after it has been evicted. (Trap: a membership asked for later
        may say generation -1, which brokers do not fence.)
        """
        if not self._rebalanced.is_set():
            return None
        self._rebalanced.clear()
        token = self._consumer.group_metadata()
        owned = self._consumer.assignment() or set()
        if self._rebalanced.is_set() or token.generation_id < 0 or token.state != STABLE:
            # Between joining and being assigned, the generation is new and the partitions are old.
            self._rebalanced.set()
            return Assignment((), None)
        return Assignment(tuple(sorted(tp.partition for tp in owned)), token)

    def share_out(self) -> None:
        """Join again where a partition that we know of is nobody's.

        Trap: a leader that comes back as the same static member is given what it had before, and is
        not told that it leads: of partitions that were added meanwhile nobody takes notice. Who
        leads brings a new assignment about by joining again, which others do in vain.
        """
        with errors_as(RetryError):
            known = self._consumer.partitions_for_topic(self.topic) or set()
        with Admin(self._options, self.group) as admin:
            owned = admin.owned(self.topic)
        if owned is not None and known - owned:
            log.info("partitions %s are nobody's: joining again", sorted(known - owned))
            self._consumer._coordinator.request_rejoin()

    def require(self, token: Any) -> None:
        """Raise RebuildError unless the assignment with this token still holds."""
        if self._rebalanced.is_set() or token is None or token.generation_id < 0:
            raise RebuildError("the group has rebalanced since the restore")

    # -- records ---------------------------------------------------------------------------------

    def poll(
        self, timeout_ms: int = 100, most: int | None = None
    ) -> dict[tuple[str, int], list[Any]]:
        """Records by (topic, partition), at most so many; nothing while a rebalance waits to be
        taken.

        Raises
        ------
        RetryError
            The brokers are away, or do not know one of our topics; the rebalance flag may be set
            all the same.
        """
        if self._rebalanced.is_set():
            timeout_ms = min(timeout_ms, 20)
        try:
            self.open()
            if self._joining.overdue(self._consumer, [self.topic]):
                log.warning("joining again with a new consumer")
                self.drop()
                self._rebalanced.set()
                self.open()
            unpacking.unpark(self._consumer)
            with errors_as(RetryError):
                found = self._consumer.poll(timeout_ms, max_records=most)
        except RetryError as error:
            # Trap: with auto_offset_reset "none", poll raises between assignment and restore.
            if isinstance(error.__cause__, kafka_errors.NoOffsetForPartitionError):
                return {}
            if isinstance(
                error.__cause__,
                (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError),
            ):
                raise RebuildError(str(error)) from error
            raise
        return {} if self._rebalanced.is_set() else dict(found)

    def start_at(self, partition: int, offset: int) -> None:
        """Read on from an offset. (Trap: positions survive a rebalance: call it after each one.)"""
        self._consumer.seek(TopicPartition(self.topic, partition), offset)
        self.hold(partition, False)  # as it may have been until now

    def leave_alone(self, partitions: Iterable[int]) -> None:
        """Read nothing of these, though they are ours. (Trap: a poll raises as long as any
        partition has no position, even one that is not fetched.)"""
        for partition in partitions:
            self.start_at(partition, 0)
            self.hold(partition, True)

    def hold(self, partition: int, held: bool) -> None:
        """Stop or resume fetching from a partition."""
        tp = TopicPartition(self.topic, partition)
        (self._consumer.pause if held else self._consumer.resume)(tp)

    # -- offsets ---------------------------------------------------------------------------------

    def committed(self, partition: int) -> int | None:
        """The offset that the group has committed, if any; waits for a transaction that is being
        settled."""
        budget = self._options.seconds("transaction_timeout") + 10
        with errors_as(RebuildError), self._given_up():
            found: int | None = self._consumer.committed(
                TopicPartition(self.topic, partition), timeout_ms=budget * 1000
            )
        return found

    @contextlib.contextmanager
    def _given_up(self) -> Iterator[None]:
        """After an error, let a new consumer ask.

        Trap: after a time-out, the next fetch of these offsets gets the late answer to the first.
        """
        try:
            yield
        except Exception:
            self.drop()
            raise

    def span(self, partition: int) -> tuple[int, int]:
        """The first offset still held and the next to be read (read_committed)."""
        tp = TopicPartition(self.topic, partition)
        with errors_as(RebuildError):
            begin = self._consumer.beginning_offsets([tp], timeout_ms=10_000)[tp]
            return begin, self._consumer.end_offsets([tp], timeout_ms=10_000)[tp]

    def lag(self, partitions: Iterable[int]) -> dict[int, int]:
        """Offsets between our position and the last stable offset, by partition.

        Raises
        ------
        RetryError
            That cannot be told now.
        """
        tps = [TopicPartition(self.topic, partition) for partition in partitions]
        with errors_as(RetryError):
            ends = ends_of(self._consumer, tps)
            at = {tp: self._consumer.position(tp, timeout_ms=5_000) for tp in tps}
            if None in at.values():  # Trap: what "no position within the time-out" looks like
                raise RetryError(f"no position in {[tuple(tp) for tp in tps if at[tp] is None]}")
        return {tp.partition: ends[tp] - at[tp] for tp in tps}

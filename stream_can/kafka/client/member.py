"""A static member of the consumer group: assignment, records, positions and lag."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka import errors as kafka_errors

from stream_can.kafka.client import unpacking
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.assigning import RangeOwners
from stream_can.kafka.client.consumer import ends_of, open_consumer
from stream_can.kafka.client.guards import (
    GONE,
    ClientError,
    RebuildError,
    RetryError,
    close,
    errors_as,
)
from stream_can.kafka.client.high_watermarks import HighWatermarks
from stream_can.kafka.client.joining import STABLE, JoinClock, keep_join
from stream_can.kafka.client.options import Options

log = logging.getLogger(__name__)


class Assignment(NamedTuple):
    """The assigned partitions, with the group generation of the assignment."""

    partitions: tuple[int, ...]
    token: Any


class _Flag(ConsumerRebalanceListener):  # type: ignore[misc]
    """Trap: listeners run on the client's I/O thread, where blocking calls raise; so only a
    flag."""

    def __init__(self, set_: Callable[[], None]) -> None:
        self.set = set_

    def on_partitions_revoked(self, revoked: object) -> None:
        self.set()

    def on_partitions_assigned(self, assigned: object) -> None:
        self.set()


class Member:
    """The consumer in the group.

    The assignment changes only inside `poll`: kafka-python joins and is assigned partitions while
    that call waits. Between two polls no partition is taken away.

    Parameters
    ----------
    options
        Brokers and client options.
    group, identity
        Consumer group, and static member id.
    topic
        Topic to read.
    assignor
        How the group's leader assigns the partitions.
    """

    def __init__(
        self, options: Options, group: str, identity: str, topic: str, assignor: Any = RangeOwners
    ) -> None:
        self.group, self.identity, self.topic = group, identity, topic
        self._options, self._assignor = options, assignor
        self._consumer: Any = None
        self._watermarks: HighWatermarks | None = None
        self._rebalanced = threading.Event()
        self._joining = JoinClock(options.session_seconds)

    def join(self) -> None:
        """Join the group, unless joined."""
        if self._consumer is None:
            self._consumer = open_consumer(
                self._options, group_id=self.group, group_instance_id=self.identity,
                partition_assignment_strategy=(self._assignor,),
            )  # fmt: skip
            self._watermarks = HighWatermarks(self._consumer)
            self._consumer.subscribe([self.topic], listener=_Flag(self._rebalanced.set))

    def drop(self) -> None:
        """Close the consumer; the group keeps its place until the session times out."""
        consumer, self._consumer = self._consumer, None
        self._joining.reset()
        close(consumer)

    def close(self, *, leave: bool = True) -> None:
        """Close the consumer; with ``leave`` release the partitions at once."""
        if self._consumer is None:
            return
        self.drop()
        if leave:
            try:
                with Admin(self._options, self.group) as admin:
                    admin.remove_member(self.identity)
            except ClientError as error:
                log.warning(
                    "could not leave the group, others wait for its session to end: %s", error
                )

    @property
    def rebalanced(self) -> bool:
        """Whether a rebalance is pending: work since then must not be committed."""
        return self._rebalanced.is_set()

    def ask_again(self) -> None:
        """Make the next `take_rebalance` return the assignment, even if unchanged."""
        self._rebalanced.set()

    def take_rebalance(self) -> Assignment | None:
        """Return the new assignment, or None where it has not changed since the last call.

        Its token is the membership as of now. Commits present it, so that brokers refuse those of
        an evicted member. (Trap: a membership queried later may have generation -1, which brokers
        do not fence.)
        """
        if not self._rebalanced.is_set():
            return None
        self._rebalanced.clear()
        token = self._consumer.group_metadata()
        owned = self._consumer.assignment() or set()
        if self._rebalanced.is_set() or token.generation_id < 0 or token.state != STABLE:
            # Between join and assignment, the generation is new and the partitions are old.
            self._rebalanced.set()
            return Assignment((), None)
        return Assignment(tuple(sorted(tp.partition for tp in owned)), token)

    def share_out(self) -> None:
        """Rejoin where a known partition is assigned to nobody.

        Trap: a leader that returns as the same static member receives its old assignment and is not
        told that it leads, so partitions added meanwhile go unnoticed. A rejoin of the leader
        triggers a new assignment; that of other members has no effect.
        """
        with errors_as(RetryError):
            known = self._consumer.partitions_for_topic(self.topic) or set()
        with Admin(self._options, self.group) as admin:
            owned = admin.owned(self.topic)
        if owned is not None and known - owned:
            log.info("partitions %s have no owner: joining again", sorted(known - owned))
            self._consumer._coordinator.request_rejoin()

    def require(self, token: Any) -> None:
        """Raise RebuildError unless the assignment with this token is still valid."""
        if self._rebalanced.is_set() or token is None or token.generation_id < 0:
            raise RebuildError("the group has rebalanced since the restore")

    def poll(
        self, timeout_ms: int = 100, most: int | None = None
    ) -> dict[tuple[str, int], list[Any]]:
        """Return up to ``most`` records by (topic, partition); none while a rebalance is pending.

        Raises
        ------
        RetryError
            No broker answers, or one of the topics is unknown; a rebalance may be pending all the
            same.
        """
        if self._rebalanced.is_set():
            timeout_ms = min(timeout_ms, 20)
        try:
            self.join()
            if self._joining.overdue(self._consumer, [self.topic]):
                log.warning("joining again with a new consumer")
                self.drop()
                self._rebalanced.set()
                self.join()
            unpacking.unpark(self._consumer)
            keep_join(self._consumer)
            with errors_as(RetryError):
                polled = self._consumer.poll(timeout_ms, max_records=most)
        except RetryError as error:
            # Trap: with auto_offset_reset "none", poll raises between assignment and restore.
            if isinstance(error.__cause__, kafka_errors.NoOffsetForPartitionError):
                return {}
            if isinstance(error.__cause__, GONE):
                # Trap: within the poll that is assigned them it fetches at the committed offsets,
                # which retention may have deleted; who takes over sees that, and goes on elsewhere.
                if self._rebalanced.is_set():
                    return {}
                raise RebuildError(str(error)) from error
            raise
        return {} if self._rebalanced.is_set() else dict(polled)

    def start_at(self, partition: int, offset: int) -> None:
        """Continue at an offset. (Trap: positions survive a rebalance: call it after each one.)"""
        self._consumer.seek(TopicPartition(self.topic, partition), offset)
        self.hold(partition, False)  # it may have been paused

    def leave_alone(self, partitions: Iterable[int]) -> None:
        """Pause assigned partitions that cannot be processed yet. (Trap: polls raise while any
        partition has no position, even a paused one.)"""
        for partition in partitions:
            self.start_at(partition, 0)
            self.hold(partition, True)

    def hold(self, partition: int, held: bool) -> None:
        """Pause or resume a partition."""
        tp = TopicPartition(self.topic, partition)
        (self._consumer.pause if held else self._consumer.resume)(tp)

    def committed_with_note(self, partition: int) -> tuple[int | None, str]:
        """The group's committed offset, if any, and the note beside it; waits while a transaction
        is being settled."""
        tp = TopicPartition(self.topic, partition)
        budget = 1000 * (self._options.seconds("transaction_timeout") + 10)
        with errors_as(RebuildError):
            try:
                position: Any = self._consumer.committed(tp, metadata=True, timeout_ms=budget)
            except Exception:
                # Trap: after a time-out, the next query of offsets gets the late answer to this.
                self.drop()
                raise
        return (None, "") if position is None else (position.offset, position.metadata or "")

    def end(self, partition: int) -> int | None:
        """The next offset of a partition, as fetches say; None where unknown."""
        tp = TopicPartition(self.topic, partition)
        return None if self._watermarks is None else self._watermarks.end_of(tp)

    def span(self, partition: int) -> tuple[int, int]:
        """The first available offset and the next one to read (read_committed)."""
        tp = TopicPartition(self.topic, partition)
        with errors_as(RebuildError):
            begin = self._consumer.beginning_offsets([tp], timeout_ms=10_000)[tp]
            return begin, self._consumer.end_offsets([tp], timeout_ms=10_000)[tp]

    def lag(self, partitions: Iterable[int]) -> dict[int, int]:
        """Number of offsets between position and last stable offset, by partition; RetryError where
        it cannot be determined now."""
        tps = [TopicPartition(self.topic, partition) for partition in partitions]
        with errors_as(RetryError):
            ends = ends_of(self._consumer, tps)
            at = {tp: self._consumer.position(tp, timeout_ms=5_000) for tp in tps}
            if None in at.values():  # Trap: the result of "no position within the time-out"
                raise RetryError(f"no position in {[tuple(tp) for tp in tps if at[tp] is None]}")
        return {tp.partition: ends[tp] - at[tp] for tp in tps}

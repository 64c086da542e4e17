"""A static member of the consumer group: its partitions, their records, positions and lag."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka import errors as kafka_errors

from stream_can.kafka.client import unpacking
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.consumer import open_consumer
from stream_can.kafka.client.ends import Ends
from stream_can.kafka.client.guards import (
    ClientError,
    RebuildError,
    RetryError,
    close,
    errors_as,
)
from stream_can.kafka.client.joining import STABLE, JoinClock
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.transaction import Offset

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
    topics
        What to read: the input, then the labels if there are any.
    """

    def __init__(self, options: Options, group: str, identity: str, topics: list[str]) -> None:
        self.group, self.identity = group, identity
        self._options, self._topics = options, topics
        self._consumer: Any = None
        self._ends: Any = None
        self._held: set[TopicPartition] = set()
        self._rebalanced = threading.Event()
        self._joining = JoinClock(options.session_seconds)

    # -- in and out of the group -----------------------------------------------------------------

    def open(self) -> None:
        """Join the group, if it has not been joined."""
        if self._consumer is None:
            self._consumer = open_consumer(
                self._options, group_id=self.group, group_instance_id=self.identity
            )
            self._ends = Ends(self._consumer)
            self._consumer.subscribe(self._topics, listener=_Flag(self._rebalanced.set))

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
        sides = [sorted(tp.partition for tp in owned if tp.topic == name) for name in self._topics]
        if any(side != sides[0] for side in sides):
            # The member that assigns may have asked a broker that knew only part of the topics.
            self._rebalanced.set()
            raise RetryError(
                f"assigned partitions differ: {dict(zip(self._topics, sides, strict=True))}; all"
                " members of the group must read the same topics with the same partition count"
            )
        return Assignment(tuple(sides[0]), token)

    def uneven(self) -> bool:
        """Whether a topic has partitions that another one lacks: those are assigned to nobody."""
        known = (self._consumer.partitions_for_topic(name) or () for name in self._topics)
        return len(set(map(len, known))) > 1

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
            if self._joining.overdue(self._consumer, self._topics):
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

    def start_at(self, topic: str, partition: int, offset: int) -> None:
        """Read on from an offset. (Trap: positions survive a rebalance: call it after each one.)"""
        tp = TopicPartition(topic, partition)
        self._consumer.seek(tp, offset)
        self._ends.forget(tp)

    def leave_alone(self, partitions: Iterable[int]) -> None:
        """Read nothing of these, though they are ours. (Trap: a poll raises as long as any
        partition has no position, even one that is not fetched.)"""
        for topic in self._topics:
            for partition in partitions:
                self._consumer.seek(TopicPartition(topic, partition), 0)
                self.hold(topic, partition, True)

    def hold(self, topic: str, partition: int, held: bool) -> None:
        """Stop or resume fetching from a partition."""
        tp = TopicPartition(topic, partition)
        (self._consumer.pause if held else self._consumer.resume)(tp)
        if held:
            self._held.add(tp)
        elif tp in self._held:  # it was not fetched for a while
            self._held.remove(tp)
            self._ends.forget(tp)

    # -- offsets ---------------------------------------------------------------------------------

    def committed(self, partition: int) -> dict[str, Offset | None]:
        """What the group has committed, by topic; waits for a transaction that is being settled."""
        budget = self._options.seconds("transaction_timeout") + 10
        answer: dict[str, Offset | None] = {}
        with errors_as(RebuildError), self._given_up():
            for topic in self._topics:
                found = self._consumer.committed(
                    TopicPartition(topic, partition), metadata=True, timeout_ms=budget * 1000
                )
                known = found is not None and found.offset >= 0
                answer[topic] = Offset(found.offset, found.metadata or "") if known else None
        return answer

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

    def span(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset still held and the next to be read (read_committed)."""
        tp = TopicPartition(topic, partition)
        with errors_as(RebuildError):
            begin = self._consumer.beginning_offsets([tp], timeout_ms=10_000)[tp]
            return begin, self._consumer.end_offsets([tp], timeout_ms=10_000)[tp]

    def lag(
        self, pairs: Iterable[tuple[str, int]], since: Mapping[tuple[str, int], float] | None = None
    ) -> dict[tuple[str, int], int]:
        """How many offsets lie between our position and the last stable offset, by partition.

        The ends come from the answers to fetches. The brokers are asked only for the others.

        Parameters
        ----------
        since
            A lag of 0 counts only if the end was asked for after this moment. Where it is older,
            the brokers are asked again.
        """
        tps = [TopicPartition(*pair) for pair in pairs]
        with errors_as(RetryError):
            known = {tp: end for tp in tps if (end := self._ends.of(tp))}
            ends = {tp: end.offset for tp, end in known.items()}
            ends |= self._ask_ends([tp for tp in tps if tp not in known])
            at = {tp: self._consumer.position(tp, timeout_ms=5_000) for tp in tps}
            if None in at.values():  # Trap: what "no position within the time-out" looks like
                raise RetryError(f"no position in {[tuple(tp) for tp in tps if at[tp] is None]}")
            read = (tp for tp, end in known.items() if end.offset <= at[tp])
            ends |= self._ask_ends([tp for tp in read if known[tp].at <= (since or {}).get(tp, 0)])
        return {(tp.topic, tp.partition): ends[tp] - at[tp] for tp in tps}

    def ended(self, pairs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], float]:
        """Of these partitions those read to their end, as far as the answers to fetches tell.

        Never waits. With the moment after which the end was asked for.
        """
        found = {}
        for pair in pairs:
            tp = TopicPartition(*pair)
            end = self._ends.of(tp)
            if end is not None:
                with errors_as(RetryError):
                    at = self._consumer.position(tp, timeout_ms=0)
                if at is not None and end.offset <= at:
                    found[pair] = end.at
        return found

    def _ask_ends(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offsets, by a request; `Ends` remembers the answer."""
        if not tps:
            return {}
        begin = time.monotonic()
        try:
            ends: dict[TopicPartition, int] = self._consumer.end_offsets(tps, timeout_ms=5_000)
        except KeyError as error:
            # Trap: asked for several, it leaves out those whose leader it does not know yet, and
            # then looks them up in its own answer.
            if error.args[0] not in tps:
                raise
            raise RetryError(f"no leader is known of {tuple(error.args[0])}") from error
        self._ends.asked(ends, begin)
        return ends

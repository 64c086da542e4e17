"""Restoring a partition: committed offsets, the positions they point to, the recent predictions.

A commit writes, in one transaction, the outputs, an entry of the learned log, the positions into
the state topic and the offsets of input and labels; the input's offset carries ``{"so": offset of
the positions}``. So the pointer is visible only if its transaction was committed, and what it
points to names the offsets it belongs to.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from stream_can.errors import SnapshotMismatch
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.transaction import Offset
from stream_can.stream.task import Task

log = logging.getLogger(__name__)

SETTLE_SECONDS = 10
"""How long to look again, where positions do not fit their offset, because another owner may be
committing, or where a partition ends before it, because its broker may have just come back."""


class Pointer(msgspec.Struct):
    """What is committed beside the input's offset. (Brokers refuse more than 4096 bytes.)"""

    so: int


class Rules(NamedTuple):
    """What to do where there is nothing to restore, or it cannot be restored."""

    start: str
    reset_state: bool
    skip_gap: bool


def key(topic: str, partition: int) -> bytes:
    """The key of a partition's positions in the state topic."""
    return f"{topic}-{partition}".encode()


def offsets(
    task: Task, topic: str, labels: str | None, partition: int, so: int
) -> dict[Any, Offset]:
    """What to commit for a task whose positions have offset ``so``: always both topics."""
    pointer = msgspec.json.encode(Pointer(so)).decode()
    committed = {(topic, partition): Offset(task.next_prediction, pointer)}
    if labels:
        committed[labels, partition] = Offset(task.next_label, "")
    return committed


def restore(
    client: Client,
    partition: int,
    state: str,
    fresh: Callable[[int, int], Task],
    stored: Callable[[bytes], Task],
    rules: Rules,
) -> Task:
    """The task of a partition as it was when its last transaction was committed.

    Parameters
    ----------
    fresh
        Makes the task that begins at offsets of input and labels.
    stored
        Makes the task of stored positions.

    Raises
    ------
    DeniedError
        What is stored does not fit together; the message names what, and the way out.
    """
    committed = _find(client, partition, state, stored)
    # The ends are read after the offsets: while `_find` looked, another owner may have written.
    begin, end = settled(lambda: client.member.span(client.input, partition), committed.at)
    label_begin = label_end = 0
    if client.labels:
        labels = client.labels
        label_begin, label_end = settled(
            lambda: client.member.span(labels, partition), committed.label_at
        )

    def anew(at: int | None, label_at: int | None) -> Task:
        """Fresh state, at committed offsets that still exist, else where the rules begin."""
        first, label_first = (begin, label_begin) if rules.start == "earliest" else (end, label_end)
        if at is None or not begin <= at <= end:
            at = first
        if label_at is None or not label_begin <= label_at <= label_end:
            label_at = label_first
        return fresh(at, label_at)

    where = f"partition {partition} of {client.input!r}"
    task = committed.task
    if task is None:
        if committed.problem is not None:
            if not rules.reset_state:
                raise DeniedError(
                    f"{where}: {committed.problem}; --reset-state goes on there with fresh"
                    " positions, which forgets the predictions that wait for labels"
                )
            log.warning("%s: %s; going on with fresh positions", where, committed.problem)
        return anew(committed.at, committed.label_at)
    spans = {client.input: (task.next_prediction, begin, end)}
    if client.labels:
        spans[client.labels] = (task.next_label, label_begin, label_end)
    for topic, (next_, first, last) in spans.items():
        if next_ > last:
            problem = f"committed offset {next_} of {topic!r} is behind its end {last}: is it new?"
            if not rules.reset_state:
                raise DeniedError(f"{where}: {problem} --reset-state begins with fresh positions")
            log.warning("%s: %s beginning with fresh positions", where, problem)
            return anew(None, None)
        if next_ < first:
            gap = f"retention deleted offsets {next_} to {first - 1} of {topic!r} unread"
            if not rules.skip_gap:
                raise DeniedError(f"{where}: {gap}; --skip-gap goes on behind them")
            log.warning("%s: %s; going on behind them", where, gap)
    task.next_prediction = max(task.next_prediction, begin)
    task.next_label = max(task.next_label, label_begin)
    if task.oldest < begin:
        log.warning("%s: recent predictions before offset %d are gone", where, begin)
    if task.oldest < task.next_prediction:
        oldest = task.oldest
        task.rebuild(())  # says that it is rebuilt, even where none of the records is left
        records = client.readers.read(client.input, partition, oldest, task.next_prediction)
        while batch := list(itertools.islice(records, 1000)):
            task.rebuild(batch)
    return task


def settled(
    span: Callable[[], tuple[int, int]], at: int | None, beat: Callable[[], None] = lambda: None
) -> tuple[int, int]:
    """First and next offset of a partition. ``at``: an offset that was committed or read before.

    Trap, of brokers: after a kill, one at first gives the end that it last wrote down, and moments
    later the true one. So where the end is before ``at``, it is asked for again.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        begin, end = span()
        if at is None or at <= end or time.monotonic() > deadline:
            return begin, end
        beat()
        time.sleep(0.2)


class _Stored(NamedTuple):
    """What is stored of a partition: all is None where nobody has committed anything yet."""

    task: Task | None = None
    at: int | None = None
    label_at: int | None = None
    """The committed offsets of input and labels."""
    problem: str | None = None
    """Why there is no task, though something was committed."""


def _find(client: Client, partition: int, state: str, stored: Callable[[bytes], Task]) -> _Stored:
    """The task that the committed offset points to, or why there is none.

    Offset and positions are read by two requests. Between them another owner may have committed
    again, and then they do not fit together, but will when both are read once more.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        seen, may_pass = _look(client, partition, state, stored)
        if not may_pass or time.monotonic() > deadline:
            return seen
        time.sleep(0.2)


def _look(
    client: Client, partition: int, state: str, stored: Callable[[bytes], Task]
) -> tuple[_Stored, bool]:
    """What is stored now, and whether its problem may be gone at the next look."""
    committed = client.member.committed(partition)
    here = committed[client.input]
    label = committed.get(client.labels) if client.labels else None
    if here is None:
        return _without_offset(client, partition, state)
    seen = _Stored(at=here.offset, label_at=None if label is None else label.offset)
    try:
        so = msgspec.json.decode(here.metadata, type=Pointer).so
    except msgspec.DecodeError:
        problem = f"offset {here.offset} was committed by something else: no pointer to positions"
        return seen._replace(problem=problem), False
    record = client.readers.read_at(state, partition, so)
    if record is None or record.key != key(client.input, partition) or record.value is None:
        # Another owner has committed again, and compaction removed these positions; or the topic
        # was made anew.
        problem = f"the positions of offset {here.offset} are not at {so} in {state!r} any more"
        return seen._replace(problem=problem), True
    try:
        task = stored(record.value)
    except SnapshotMismatch as error:
        return seen._replace(problem=f"{error} (at {so} in {state!r})"), False
    if task.next_prediction != here.offset or seen.label_at not in (None, task.next_label):
        problem = (
            f"the positions at {so} in {state!r} go on at {task.next_prediction}, not at the"
            f" committed offset {here.offset}"
        )
        return seen._replace(problem=problem), True
    return seen._replace(task=task), False


def _without_offset(client: Client, partition: int, state: str) -> tuple[_Stored, bool]:
    """A partition without a committed offset: it is new, unless its positions are in the topic."""
    if not _any_positions(client, partition, state):
        return _Stored(), False
    problem = (
        f"its positions are in {state!r}, but group {client.group!r} has no committed offset (they"
        " expire while a group is away)"
    )
    # It passes where the offset was committed after we asked: this process may have been frozen.
    return _Stored(problem=problem), True


def _any_positions(client: Client, partition: int, state: str) -> bool:
    """Whether the state topic holds positions of this partition, at whatever offset."""
    wanted = key(client.input, partition)
    return any(
        record.key == wanted and record.value is not None
        for record in client.readers.read(state, partition, 0, 1 << 62)
    )

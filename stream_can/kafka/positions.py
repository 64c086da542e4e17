"""Positions: up to where a learner has learned its topics, and what it played on the way."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from stream_can.kafka.learned_time import LAST_TIMES
from stream_can.kafka.sent_record import LabelPlace, SentRecord
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Memory, Play
from stream_can.learner import State
from stream_can.learner.learner import Learner
from stream_can.messages.records import Source

__all__ = ["Positions"]


class Positions:
    """Next offsets of topics, and the last plays.

    Parameters
    ----------
    settings
        Topics.
    memory
        Positions; those of the last state.
    inputs
        Next offset to learn of each input partition.
    """

    def __init__(self, settings: Settings, memory: Memory, inputs: Mapping[int, int]) -> None:
        self._settings = settings
        self.sent, self.inputs = dict(memory.sent), dict(inputs)
        self.moved: set[int] = set()
        """Input partitions of which ``inputs`` says nothing of what was learned, see `Index`."""
        self.labels = {topic: dict(at) for topic, at in memory.labels.items()}
        self.play_starts, self.plays = dict(memory.play_starts), deque(memory.plays)
        self.within = dict(memory.within)
        self.times, self.topics = dict(memory.times), dict(memory.topics)
        self._last_play: Play | None = None
        """The last play, where it has rows that wait for labels."""

    def after(
        self, sent: Mapping[int, Sequence[SentRecord]]
    ) -> tuple[dict[int, int], dict[int, list[float]]]:
        """``inputs`` and ``times`` after these batches."""
        inputs, times = dict(self.inputs), dict(self.times)
        for p, records in sent.items():
            if not records:
                continue
            places = [record.next for record in records if record.next is not None]
            inputs |= {p: places[-1]} if places else {}
            row_times = np.concatenate([record.batch.times for record in records])
            if len(row_times):  # batches without rows have no time
                known: list[float] = row_times[~np.isnan(row_times)][-LAST_TIMES:].tolist()
                times[p] = [*times.get(p, ()), *known][-LAST_TIMES:]
        return inputs, times

    def move(
        self,
        sent: Mapping[int, Sequence[SentRecord]],
        labels: Mapping[LabelPlace, Sequence[Source]],
        rows: int,
        learner: Learner,
    ) -> None:
        """Move past what a learner played; forget plays whose rows it has forgotten."""
        ends = {}
        self.inputs, self.times = self.after(sent)
        for p, sent_records in sent.items():
            if sent_records:
                last = sent_records[-1]
                ends[p] = self.sent[p] = last.offset + (not last.partly)
                self.within.pop(p, None)
                if any(record.next is not None for record in sent_records):
                    self.moved.discard(p)
                if last.partly:
                    self.within[p] = last.skipped + len(last.batch)
        for (topic, p), records in labels.items():
            if records:
                self.labels.setdefault(topic, {})[p] = records[-1].offset + 1
        self._last_play = Play(rows, ends) if rows else None
        if self._last_play is not None:
            self.plays.append(self._last_play)
        at = learner.next_number - sum(play.rows for play in self.plays)
        while self.plays and at + self.plays[0].rows <= learner.oldest:
            forgotten = self.plays.popleft()
            at += forgotten.rows
            self.play_starts.update(forgotten.ends)
        if not self.plays:
            self._last_play = None

    def of_topics(self) -> list[tuple[str, dict[int, int]]]:
        """The topics that are read, with the next offsets of their partitions."""
        labels = self._settings.topics_of_labels
        return [
            (self._settings.sent_topic, self.sent),
            *((topic, self.labels.setdefault(topic, {})) for topic in labels),
        ]

    def go_on_within(
        self,
        topic: str,
        id: str,
        at: dict[int, int],
        spans: Mapping[int, tuple[int, int]],
    ) -> dict[int, int]:
        """Move positions to what a topic holds: retention may have deleted records, or the topic
        may be another one of the same name.

        Parameters
        ----------
        topic, id
            Name and id of the topic.
        at
            The next offset of each partition, `sent` or one of `labels`; changed.
        spans
            First available and next offset of each partition.

        Returns
        -------
        The former position of each partition that moved.
        """
        made_again = self.topics.get(topic, id) != id
        self.topics[topic] = id
        moved = {}
        for p, was in list(at.items()):
            begin, end = spans.get(p, (0, -1))
            if end < 0:  # of a topic with fewer partitions
                del at[p]
            else:
                at[p] = begin if made_again else min(max(was, begin), end)
            if at.get(p) != was:
                moved[p] = was
        if moved and at is self.sent:  # a restart cannot play again what was played together
            self.plays.clear()
            self.play_starts = dict(self.sent)
            for p in moved:
                self.within.pop(p, None)
        return moved

    def tell(self, places: Sequence[tuple[int, int]]) -> None:
        """Record where the rows of the last play, some of them corrected by it, lie."""
        if self._last_play is not None:
            self.plays[-1] = self._last_play._replace(played=tuple(places))

    def memory(self, state: State, number: int) -> Memory:
        """The memory of a learner at these positions, of its state and the number of its next
        row."""
        return Memory(
            state.memory, number, self.sent, self.labels, self.play_starts, list(self.plays),
            self.times, self.topics, self.within,
        )  # fmt: skip

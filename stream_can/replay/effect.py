"""Effects: changes of scores, with thresholds below which they do not matter."""

from __future__ import annotations

from typing import NamedTuple

from stream_can.change import Change, Changes

POINTS, NATS = 0.1, 0.002
"""A smaller change makes no practical difference, however certain."""


class Effect(NamedTuple):
    """A change with its threshold of relevance."""

    change: Change
    least: float

    @property
    def up(self) -> bool:
        """Whether it is a relevant rise beyond chance."""
        return self.change.rose and not self.small

    @property
    def down(self) -> bool:
        """Whether it is a relevant fall beyond chance."""
        return self.change.fell and not self.small

    @property
    def much(self) -> bool:
        """Whether it exceeds what learning itself may cost in a short recording."""
        return abs(self.change.value) >= 5 * self.least

    @property
    def small(self) -> bool:
        """Whether it is too small to matter."""
        return abs(self.change.value) < self.least


class Effects(NamedTuple):
    """The effects on accuracy, None where it says nothing, and on log loss."""

    points: Effect | None
    nats: Effect

    @classmethod
    def of(cls, changes: Changes) -> Effects:
        """Effects of changes."""
        return cls(Effect(changes.accuracy, POINTS / 100), Effect(changes.log_loss, NATS))

    def without_gain_of_accuracy(self) -> Effects:
        """These, with no gain in accuracy: where always saying one class is right as often, that
        says nothing."""
        return self._replace(points=None) if self.points is not None and self.points.up else self

    @property
    def better(self) -> bool:
        """Whether one score improved."""
        return self.nats.down or (self.points is not None and self.points.up)

    @property
    def worse(self) -> bool:
        """Whether one score became worse."""
        return self.nats.up or (self.points is not None and self.points.down)

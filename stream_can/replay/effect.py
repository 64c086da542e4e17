"""Changes of scores and from where on they matter."""

from __future__ import annotations

from typing import NamedTuple

from stream_can.change import Change, Changes

__all__ = ["NATS", "POINTS", "Effect", "Effects"]

POINTS, NATS = 0.1, 0.002
"""A change that is smaller makes no difference to anybody, however sure it is."""


class Effect(NamedTuple):
    """A change, and what of it would be worth noticing."""

    change: Change
    least: float

    @property
    def up(self) -> bool:
        """Whether it rose, beyond chance and by something."""
        return self.change.rose and not self.small

    @property
    def down(self) -> bool:
        """Whether it fell, beyond chance and by something."""
        return self.change.fell and not self.small

    @property
    def much(self) -> bool:
        """Whether it is more than what learning itself may cost in a short recording."""
        return abs(self.change.value) >= 5 * self.least

    @property
    def small(self) -> bool:
        """Whether it is too small to matter."""
        return abs(self.change.value) < self.least


class Effects(NamedTuple):
    """The effect on accuracy and on log loss."""

    points: Effect
    nats: Effect

    @classmethod
    def of(cls, changes: Changes) -> Effects:
        """The effects of changes."""
        return cls(Effect(changes.accuracy, POINTS / 100), Effect(changes.log_loss, NATS))

    @property
    def better(self) -> bool:
        """Whether more is right, or closer to the truth."""
        return self.points.up or self.nats.down

    @property
    def worse(self) -> bool:
        """Whether less is right, or further from the truth."""
        return self.points.down or self.nats.up

"""What a corrector has learned, as the live page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Share = tuple[Any, float | None, float]
"""A class, its share of the labels if any came, and its share of the rows."""


class Knowledge(NamedTuple):
    """What not every kind of corrector says in the same way."""

    classes: Sequence[Share]
    """The most frequent ones."""
    changed: Sequence[Share] = ()
    """Those whose labels differ most from what the rows say."""
    silent: Sequence[Any] = ()
    """Classes left out of learning."""
    log_loss_before: float | None = None
    """Of the last labels, in nats."""
    log_loss_after: float | None = None
    log_loss_fitted: float | None = None
    """Of what `fit` alone would have sent."""
    last_temperature: float = 1.0
    coverage: float = 1.0

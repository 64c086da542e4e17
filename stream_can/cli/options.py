"""The settings of a corrector as options of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclopts import Group, Parameter

__all__ = ["NO_OPTIONS", "CorrectorOptions", "listed"]

CORRECTOR = Group("Corrector", help="Every default is good; see docs/method.md for what each does.")


@Parameter(name="*", group=CORRECTOR)
@dataclass(frozen=True, kw_only=True)
class CorrectorOptions:
    """The settings of a corrector, as options."""

    train_counts: str | None = None
    """Training rows per class, in the order of the classes: 900,80,20."""
    paths: str | None = None
    """Paths to mix: raw,can,temperature,... (all)."""
    half_life: float | None = None
    """Events after which what was learned counts half (5000)."""
    uncertainty: str | None = None
    """topk_entropy, entropy, margin or any_topk_entropy (topk_entropy)."""
    k: int | None = None
    """How many of the largest probabilities topk_entropy looks at (3)."""
    threshold: float | None = None
    """From which uncertainty on CAN corrects (0.9)."""
    pseudo_count: float | None = None
    """Rows that the prior weighs in CAN's column sums (the number of classes)."""
    prior_strength: float | None = None
    """Labels that the training prior weighs (the number of classes); inf keeps it fixed."""

    def settings(self) -> dict[str, Any]:
        """What was given, as keyword arguments of Corrector."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if "train_counts" in given:
            given["train_counts"] = [float(count) for count in listed(given["train_counts"])]
        if "paths" in given:
            given["paths"] = listed(given["paths"])
        return given


def listed(text: str) -> list[str]:
    """The parts of a text with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


NO_OPTIONS = CorrectorOptions()

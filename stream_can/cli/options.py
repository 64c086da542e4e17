"""The settings of a corrector as options of a command."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from stream_can.cli.arguments import Whole
from stream_can.errors import StreamCANError
from stream_can.method.settings import about

__all__ = ["NO_OPTIONS", "CorrectorOptions", "listed", "names_of"]

CORRECTOR = Group("Corrector", help="Every default is good; see docs/method.md for what each does.")


def _about(name: str) -> Parameter:
    text = about(name)
    return Parameter(help=f"{text[0].upper()}{text[1:]}.")


@Parameter(name="*", group=CORRECTOR)
@dataclass(frozen=True, kw_only=True)
class CorrectorOptions:
    """What a corrector can be told; None is "not given"."""

    train_counts: str | None = None
    """Training rows per class, in the order of the classes: 900,80,20."""
    paths: str | None = None
    """Paths to mix: raw,can,temperature,... (all)."""
    half_life: Annotated[float | None, _about("half_life")] = None
    uncertainty: Annotated[str | None, _about("uncertainty")] = None
    k: Annotated[Whole | None, _about("k")] = None
    threshold: Annotated[float | None, _about("threshold")] = None
    pseudo_count: Annotated[float | None, _about("pseudo_count")] = None
    prior_strength: Annotated[float | None, _about("prior_strength")] = None
    label_noise: Annotated[float | None, _about("label_noise")] = None

    segments: str | None = None
    """Columns whose values come with the predictions: carrier,origin; see docs/segments.md."""
    segments_mb: float | None = None
    """Memory for the values of all columns (64)."""

    @property
    def columns(self) -> list[str]:
        """The columns that were named."""
        return [] if self.segments is None else listed(self.segments)

    def settings(self) -> dict[str, Any]:
        """What was given, as keyword arguments of Corrector."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if "train_counts" in given:
            given["train_counts"] = [float(count) for count in listed(given["train_counts"])]
        if "paths" in given:
            given["paths"] = listed(given["paths"])
        if "segments" in given:
            given["segments"] = self.columns
        return given


NO_OPTIONS = CorrectorOptions()


def names_of(text: str | None) -> list[Any] | None:
    """Names of classes as an option gives them.

    A list with commas, a JSON array, or a file of either or of one name a line.
    """
    if text is None:
        return None
    with suppress(OSError, ValueError):  # ValueError: a null byte
        if Path(text).is_file():
            text = Path(text).read_text(encoding="utf-8-sig").strip()
            if "\n" in text and not text.startswith("["):
                return [line.strip() for line in text.splitlines() if line.strip()]
    if not text.startswith("["):
        return listed(text)
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except ValueError as error:
        raise StreamCANError(f"classes: {text[:80]!r} is no JSON array: {error}") from None


def listed(text: str) -> list[str]:
    """A list as an option gives it: with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]

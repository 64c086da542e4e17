"""Fields: where in a message each part is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stream_can.method.rows import Normalise
from stream_can.row_kinds import row_kind

__all__ = ["HEADER", "KEY", "Fields", "fields_of", "put"]

HEADER = "header:"
"""Prefix of a header's name, in place of a field."""
KEY = "key:"
"""In place of a field: the record's key."""


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a message. Names are dotted paths: ``model.probs`` is a nested field."""

    probs: str = "probs"
    """Probabilities of a prediction."""
    raw: str = "probs_raw"
    """Field beside ``probs`` that keeps the raw ones; a label may echo it. Empty: not kept."""
    label: str = "label"
    """Class name of a label."""
    id: str | None = None
    """Id that joins labels to predictions: a field, or ``header:NAME``; None is the record's
    key."""
    normalise: Normalise = "rounded"
    """Which rows that do not sum to 1 are divided by their sum: those explained by rounding to
    their number of digits, or all, as for scores."""
    logits: bool = False
    """Whether ``probs`` holds logits; answers have probabilities, and ``raw`` keeps the logits."""
    model: str | None = None
    """Model of a prediction or label: a field, or ``header:NAME``; None for a single model."""
    version: str | None = None
    """Its version, likewise."""
    time: str | None = None
    """Time of a prediction or label: a field, or ``header:NAME``; None is the record's."""
    weight: str | None = None
    """Weight of a label: a field, or ``header:NAME``; labels without it count once."""
    label_map: dict[str, str | int | float] = {}
    """Class of what labels say, where they say something else; "" for what is no label."""
    costs: dict[str, float | dict[str, float]] = {}
    """Costs of actions, see `Costs`: answers then have the cheapest in ``decision``."""
    digits: int | None = None
    """Decimal places of the output; None: as many as needed to read back equal."""

    def __post_init__(self) -> None:
        for name in ("probs", "label", "id", "model", "version", "time", "weight"):
            path = getattr(self, name)
            header = name not in ("probs", "label") and (path or "").startswith(HEADER)
            if path is not None and not (path != HEADER if header else all(path.split("."))):
                raise ValueError(f"{name}: {path!r} is no field name or dotted path")
        above, dot, last = self.probs.rpartition(".")
        if "." in self.raw or self.raw == last:
            raise ValueError(
                f"raw: {self.raw!r}, expected a name without a dot, other than that of probs"
            )
        beside = f"{above}{dot}{self.raw}" if self.raw else None
        names = (self.model, self.version)
        if names[0] is not None and names[0] == names[1]:
            raise ValueError(f"version: {self.version!r} is the place of the model")
        paths = [
            path
            for path in (self.probs, beside, self.label, self.id, self.time, self.weight, *names)
            if path is not None and not path.startswith(HEADER)
        ]
        for path in paths:
            inside = [other for other in paths if other.startswith(f"{path}.")]
            if inside or paths.count(path) > 1:
                raise ValueError(f"fields: {path!r} is two things at once; give each its own place")
        if self.normalise not in ("rounded", "always"):
            raise ValueError(f"normalise: {self.normalise!r}, expected 'rounded' or 'always'")
        if self.digits is not None and not 1 <= self.digits <= 17:
            raise ValueError(f"digits: {self.digits}, expected 1 to 17")


def fields_of(rows: str, **places: Any) -> Fields:
    """Fields with the default names of a kind of rows; None counts as not given."""
    named = {name: value for name, value in places.items() if value is not None}
    return Fields(**{**row_kind(rows).fields, **named})


def put(message: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value at a path of an object, creating missing objects."""
    for name in path[:-1]:
        message = message.setdefault(name, {})
    message[path[-1]] = value

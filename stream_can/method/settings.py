"""The settings of a corrector: what each means, what it may be, what it is where nobody says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta

__all__ = [
    "DEFAULTS",
    "Settings",
    "about",
    "check",
    "check_settings",
    "label_noise",
]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All of them; the library, the command line, Kafka's settings and snapshots go by this."""

    half_life: Annotated[
        float,
        Meta(gt=0, description="events after which what was learned counts half, inf for never"),
    ] = 5000
    uncertainty: Annotated[
        Literal["topk_entropy", "entropy", "margin", "any_topk_entropy"],
        Meta(description="how uncertain a row is: topk_entropy, entropy, margin, any_topk_entropy"),
    ] = "topk_entropy"
    k: Annotated[
        int,
        Meta(ge=2, le=10**9, description="how many of the largest probabilities topk_entropy sees"),
    ] = 3
    threshold: Annotated[
        float, Meta(ge=0, le=1, description="the uncertainty from which on CAN corrects a row")
    ] = 0.9
    pseudo_count: (
        Annotated[
            float,
            Meta(ge=0, le=1e300, description="rows that the prior weighs in CAN's column sums (m)"),
        ]
        | None
    ) = None
    prior_strength: (
        Annotated[
            float,
            Meta(gt=0, description="labels that the training prior weighs, inf to keep it (m)"),
        ]
        | None
    ) = None
    label_noise: Annotated[
        float, Meta(ge=0, le=0.9, description="share of the labels that are wrong")
    ] = 0


DEFAULTS = Settings()
_TYPES = get_type_hints(Settings, include_extras=True)


def about(name: str) -> str:
    """What a setting means, with its default: the help of an option."""
    meaning, default = _bounds(_TYPES[name])[1].description, getattr(DEFAULTS, name)
    return f"{meaning}" if default is None else f"{meaning} ({default})"


def label_noise(agreement: float, m: int) -> float:
    """The share of wrong labels, from how often two annotators agree.

    Both are right with probability 1 - eps, else any class, also the right one, is as likely as
    another: A = (1 - eps)^2 + (1 - (1 - eps)^2) / m, so eps = 1 - sqrt((A - 1/m) / (1 - 1/m)).

    Parameters
    ----------
    agreement
        The share A of rows to which two annotators, who did not see each other's, gave one label.
    m
        The number of classes, 2 or more.

    Raises
    ------
    ValueError
        A is not above the 1/m of chance, or over 1.

    Examples
    --------
    >>> round(label_noise(0.82, 10), 3)
    0.106
    """
    if m < 2:
        raise ValueError(f"m: {m}, expected 2 classes or more")
    if not 1 / m < agreement <= 1:
        raise ValueError(
            f"agreement: {agreement}, expected a share above 1/m = {1 / m:.4g}, which is chance,"
            " and at most 1"
        )
    return 1 - math.sqrt((agreement - 1 / m) / (1 - 1 / m))


def check_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as plain values, or a ValueError that names the one out of range."""
    return {name: check(name, value, _TYPES[name]) for name, value in given.items()}


def check(name: str, value: Any, type_: Any) -> Any:
    """An argument as a plain value, or a ValueError that says what its type expects.

    Parameters
    ----------
    name
        For the message.
    value
        numpy's scalars and whole floats for an int are taken too.
    type_
        ``Annotated[..., Meta(...)]`` of a number or a choice, or that ``| None``.
    """
    kind, meta = _bounds(type_)
    plain = value.item() if isinstance(value, np.generic) else value
    if kind is int and isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    try:
        converted = msgspec.convert(plain, type_)
    except msgspec.ValidationError:
        if get_origin(kind) is Literal:
            expected = f"one of {', '.join(get_args(kind))}"
        else:
            bounds = {">=": meta.ge, ">": meta.gt, "<=": meta.le}
            expected = "an integer " if kind is int else "a number "
            expected += " and ".join(f"{k} {v}" for k, v in bounds.items() if v is not None)
            expected += f": {meta.description}" if meta.description else ""
        raise ValueError(f"{name}: {plain!r}, expected {expected}") from None
    # As given: the bytes of a snapshot tell 5000 and 5000.0 apart. They have no larger integers.
    return plain if isinstance(plain, int) and plain < 1 << 63 else converted


def _bounds(type_: Any) -> tuple[Any, Meta]:
    """What ``Annotated[kind, meta]``, or that ``| None``, holds."""
    annotated = type_ if get_origin(type_) is Annotated else get_args(type_)[0]
    kind, meta = get_args(annotated)
    return kind, meta

"""Settings of a corrector, each defined once: name, type, bounds, default and help text.

`CorrectorKeywords` is the only place: keywords of `Corrector` and of the river and scikit-learn
wrappers, command-line options, TOML keys, environment variables, snapshots and the documentation
are derived from it. Adding a line here adds a setting everywhere.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import numpy as np
from msgspec import Meta


def _is(default: Any, does: str, *, loop: bool = False, **bounds: Any) -> Meta:
    """Describe a setting: its default and help text; ``loop`` for numbers used by the compiled
    loop: these are stored in snapshots, and may change on a live state."""
    return Meta(description=does, extra={"default": default, "loop": loop}, **bounds)


class CorrectorKeywords(TypedDict, total=False):
    """The settings of a corrector, as keywords."""

    paths: Annotated[
        Iterable[str] | None,
        _is(None, "paths to mix: raw, can, temperature, temperature+can, vector, vector+can,"
            " matrix, matrix+can, centred, shared, full (all; above 256 classes without matrix,"
            " matrix+can and full)"),
    ]  # fmt: skip
    half_life: Annotated[
        float,
        _is(5000, "events after which older evidence counts half; inf to never forget", loop=True,
            ge=0.001),
    ]  # fmt: skip
    uncertainty: Annotated[
        Literal["topk_entropy", "entropy", "margin", "any_topk_entropy"],
        _is("topk_entropy",
            "uncertainty of a row: topk_entropy, entropy, margin, any_topk_entropy", loop=True),
    ]  # fmt: skip
    k: Annotated[
        int,
        _is(3, "number of largest probabilities in topk_entropy", loop=True, ge=2,
            le=10**9),
    ]  # fmt: skip
    threshold: Annotated[
        float, _is(0.9, "uncertainty from which CAN corrects a row", loop=True, ge=0, le=1)
    ]
    pseudo_count: (
        Annotated[
            float,
            _is(None, "weight of the prior in CAN's column sums, in rows (m)", loop=True, ge=0,
                le=1e300),
        ]
        | None
    )  # fmt: skip
    prior_strength: (
        Annotated[
            float,
            _is(
                None,
                "weight of the training prior, in labels; inf to keep it fixed (m)",
                loop=True,
                gt=0,
            ),
        ]
        | None
    )
    prior: Annotated[
        Iterable[str] | Mapping[Any, float] | None,
        _is(None, "known class mix of the stream: cat=900,dog=100, or in class order, or none"),
    ]
    label_noise: Annotated[
        float, _is(0, "share of the labels that are wrong", loop=True, ge=0, le=0.9)
    ]
    monotone: Annotated[
        bool,
        _is(False, "keep the likeliest class of every row: paths are then raw and temperature"),
    ]
    segments: Annotated[
        Iterable[str] | None,
        _is(
            None,
            "columns, or fields of messages, with the segments of a row, such as tenant;"
            " outer.inner for a nested field, header:NAME for a header",
        ),
    ]
    sets: (
        Annotated[
            float,
            _is(None, "share of the labelled rows whose prediction set should contain the label,"
                " such as 0.9; rows then get sets", gt=0, lt=1),
        ]
        | None
    )  # fmt: skip
    sets_by: (
        Annotated[
            str,
            _is(None, "groups of rows that each keep the share: class, the one predicted, or one"
                " of the segments"),
        ]
        | None
    )  # fmt: skip
    segments_mb: Annotated[float, _is(64, "memory for all segments, in MB", gt=0, lt=1 << 30)]
    max_mb: Annotated[
        float,
        _is(256, "most memory for the numbers of all classes and 64 rows, in MB", gt=0),
    ]


_TYPES = get_type_hints(CorrectorKeywords, include_extras=True)
SETTINGS = tuple(_TYPES)
"""Names of all settings."""
PROMISE = ("sets", "sets_by")
"""Those of prediction sets."""


def _bounds(type_: Any) -> tuple[Any, Meta]:
    """Type and bounds of ``Annotated[type, meta]``, or of that ``| None``."""
    annotated = type_ if get_origin(type_) is Annotated else get_args(type_)[0]
    kind, meta = get_args(annotated)
    return kind, meta


def _extra(name: str) -> dict[str, Any]:
    extra = _bounds(_TYPES[name])[1].extra
    assert extra is not None
    return extra


LOOP = tuple(name for name in SETTINGS if _extra(name)["loop"])
"""Names of those used by the compiled loop."""
CorrectorSettings: Any = msgspec.defstruct(
    "CorrectorSettings",
    [(name, type_, _extra(name)["default"]) for name, type_ in _TYPES.items()],
    namespace={"__doc__": "The settings of a corrector, checked."},
    module=__name__,
    frozen=True,
    kw_only=True,
)
DEFAULTS = CorrectorSettings()


@cache
def kind_of(name: str) -> Any:
    """Type of a setting given as text: float, int, str, or list for several."""
    kind = _bounds(_TYPES[name])[0]
    if get_origin(kind) is Literal:
        return str
    return kind if kind in (int, float, bool, str) else list


def description_of(name: str) -> str:
    """What a setting does."""
    return _bounds(_TYPES[name])[1].description or ""


def settings_of(settings: Mapping[str, Any]) -> Any:
    """The `CorrectorSettings` of keywords.

    Raises
    ------
    TypeError
        A name is not a setting.
    ValueError
        A value is out of range; the message names it.
    """
    return CorrectorSettings(**check_settings(settings))


def keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings as keywords: those given, unchecked, and defaults.

    Raises
    ------
    TypeError
        A name is not a setting.
    """
    _refuse_unknown(settings)
    return {name: settings.get(name, getattr(DEFAULTS, name)) for name in SETTINGS}


def check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check settings and convert them to plain values; ValueError names one out of range, TypeError
    an unknown name; names in lists are checked elsewhere."""
    _refuse_unknown(settings)
    return {
        name: value if kind_of(name) is list else check(name, value, _TYPES[name])
        for name, value in settings.items()
    }


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name not in _TYPES:
            near = difflib.get_close_matches(name, SETTINGS, 1, 0.5)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(SETTINGS)}"
            raise TypeError(f"unknown setting {name!r}{hint}")


def check(name: str, value: Any, type_: Any) -> Any:
    """Check an argument and convert it to a plain value; ValueError says what is expected.

    Parameters
    ----------
    name
        Name for the message.
    value
        The value; numpy scalars, and whole floats for an int, are accepted.
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
            bounds = {">=": meta.ge, ">": meta.gt, "<=": meta.le, "<": meta.lt}
            expected = {int: "an integer ", bool: "true or false", str: "a text"}.get(
                kind, "a number "
            )
            expected += " and ".join(f"{k} {v}" for k, v in bounds.items() if v is not None)
            expected += f": {meta.description}" if meta.description else ""
        raise ValueError(f"{name}: {plain!r}, expected {expected}") from None
    # Type preserved: snapshots distinguish 5000 and 5000.0. They have no larger integers.
    return plain if isinstance(plain, int) and plain < 1 << 63 else converted


def in_range(name: str, value: Any, least: float, most: float) -> None:
    """Raise ValueError unless it is a number from ``least`` to ``most``."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        raise ValueError(f"{name}: {value!r}, expected a number from {least:g} to {most:g}")

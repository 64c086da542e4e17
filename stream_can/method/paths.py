"""Paths of a prediction: a base, with or without CAN after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stream_can.method.bases import BASES, FITTED_PATHS, PATHS, SEGMENTED_PATHS

MONOTONE_PATHS = ("raw", "temperature")
"""Paths that never change which class is the likeliest."""


def split(path: str) -> tuple[str, bool]:
    """Split a path: ``"vector+can"`` -> ``("vector", True)``."""
    if path == "can":
        return "raw", True
    base, _, can = path.partition("+")
    return base, bool(can)


def default_paths(m: int, *, monotone: bool = False) -> tuple[str, ...]:
    """All paths, except those of bases too large for m classes; or `MONOTONE_PATHS`."""
    if monotone:
        return MONOTONE_PATHS
    small = {name for name, base in BASES.items() if m <= (base.most_classes or m)}
    return tuple(path for path in PATHS if split(path)[0] in small)


def in_order(paths: Iterable[str]) -> tuple[str, ...]:
    """Check the names of paths and sort them like :data:`PATHS`."""
    if isinstance(paths, str):
        raise ValueError(
            f"paths: expected a list of names, got the string {paths!r}; write [{paths!r}]"
        )
    names = list(paths)
    for name in names:
        if name not in PATHS:
            raise ValueError(f"paths: {name!r} is not one of {', '.join(PATHS)}")
        if names.count(name) > 1:
            raise ValueError(f"paths: {name!r} is named twice")
    if not names:
        raise ValueError(f"paths: name at least one of {', '.join(PATHS)}")
    return tuple(name for name in PATHS if name in names)


def anchor(paths: tuple[str, ...]) -> str:
    """The path that has nearly all weight before any label.

    ``fitted`` if there is one, else ``temperature`` (it never changes the likeliest class), else
    ``raw``, else the first.
    """
    return next((name for name in ("fitted", "temperature", "raw") if name in paths), paths[0])


def refuse_reordering(paths: Iterable[str], columns: Iterable[str]) -> None:
    """Raise ValueError where ``monotone`` cannot be kept: for other paths, and for columns."""
    for name in paths:
        if name not in MONOTONE_PATHS:
            raise ValueError(
                f"monotone: the path {name!r} can change the likeliest class;"
                f" name none but {', '.join(MONOTONE_PATHS)}"
            )
    for name in columns:
        raise ValueError(
            f"monotone: the segment {name!r} can change the likeliest class; leave out segments,"
            " or monotone"
        )


def refuse_known_mix(paths: tuple[str, ...], others: Mapping[str, Any]) -> None:
    """Raise ValueError where no row of what is sent could follow a known class mix."""
    if len(paths) == 1:
        raise ValueError(f"prior: needs another path than {paths[0]}, which alone is what is sent")
    for name, value in others.items():
        if value:
            raise ValueError(f"prior: cannot be kept together with {name}; leave one of them out")


def own(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths requested by the user, without those of columns and ``fit``."""
    return tuple(path for path in paths if path not in FITTED_PATHS + SEGMENTED_PATHS)


def segmented(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Requested paths with those that columns add."""
    if len(paths) == 1 or "vector" not in {split(path)[0] for path in paths}:
        raise ValueError(
            f"paths: {', '.join(paths)}; segments need the base vector, which values are compared "
            "with, and another path"
        )
    return (*paths, *SEGMENTED_PATHS)

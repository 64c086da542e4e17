"""The paths a prediction can take: a base, with or without CAN after it."""

from __future__ import annotations

from collections.abc import Iterable

BASES = ("raw", "temperature", "vector", "matrix", "fitted")
"""Every base; ``fitted`` exists once :meth:`stream_can.Corrector.fit` has been called."""

PATHS = (
    "raw",
    "can",
    "temperature",
    "temperature+can",
    "vector",
    "vector+can",
    "matrix",
    "matrix+can",
)
"""The paths a corrector can be made of, in their order."""

FITTED_PATHS = ("fitted", "fitted+can")
"""The paths that ``fit`` adds, behind the others."""

MATRIX_LIMIT = 256
"""Above this many classes ``matrix`` (2 m^2 numbers) is only used when asked for by name."""


def split(path: str) -> tuple[str, bool]:
    """The base of a path and whether CAN follows it: ``"vector+can"`` -> ``("vector", True)``."""
    if path == "can":
        return "raw", True
    base, _, can = path.partition("+")
    return base, bool(can)


def default_paths(m: int) -> tuple[str, ...]:
    """All eight paths; without ``matrix`` where m exceeds :data:`MATRIX_LIMIT`."""
    return PATHS if m <= MATRIX_LIMIT else PATHS[:6]


def in_order(paths: Iterable[str]) -> tuple[str, ...]:
    """Check the names of paths and bring them into the order of :data:`PATHS`."""
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
    """The path that holds nearly all weight before labels say otherwise.

    ``fitted`` where there is one, else ``temperature`` (it never changes the most likely class),
    else ``raw``, else the first.
    """
    return next((name for name in ("fitted", "temperature", "raw") if name in paths), paths[0])

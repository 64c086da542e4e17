"""The bases: one table says what there is of each, and everything that knows bases asks it.

To add one: an entry here, and its room in the kernel where its row or its step is of a new kind.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "BASES",
    "FITTED_PATHS",
    "MATRIX_LIMIT",
    "MOST_C",
    "MOST_LOG_B",
    "MOST_T",
    "PATHS",
    "SEGMENTED_PATHS",
    "Base",
]

MOST_LOG_B = 2.0
MOST_T = 3.0
MOST_C = 6.0
"""Bound, + and -, of log b, the t of shared features, and the entries of c and A."""

MATRIX_LIMIT = 256
"""Above this many classes ``matrix`` (2 m^2 numbers) is only used when asked for by name."""


class Base(NamedTuple):
    """A way to recalibrate a row; it is a path by itself and with CAN behind it."""

    name: str
    features: int = 0
    """How many features have a weight: 0 changes nothing, 1 is b, 3 is b and the shared two."""
    arrays: str = ""
    """Arrays of its own, by their names in the state: log b and t, curvatures, c, H, A, G."""
    optional: tuple[str, ...] = ()
    """Whole names of arrays that it may do without."""
    learns: bool = True
    """Whether it takes a step on each label; else it is frozen once it is fitted."""
    most_classes: int | None = None
    """Above that it is no default."""
    segmented: bool = False
    """Whether it has two features more for each column, and A where the base matrix is in use."""

    @property
    def paths(self) -> tuple[str, str]:
        """Without and with CAN."""
        return (self.name, "can" if self.name == "raw" else f"{self.name}+can")


FITTED_OPTIONAL = ("c.fitted", "A.fitted", "ref", "Q", "Q.500", "Q.50", "W", "sharp", "D")
BASES = {
    base.name: base
    for base in (
        Base("raw", learns=False),
        Base("temperature", 1, "uK"),
        Base("vector", 3, "uKcH"),
        Base("matrix", 3, "uKcHAG", most_classes=MATRIX_LIMIT),
        Base("fitted", 1, "u", FITTED_OPTIONAL, learns=False),
        Base("segmented", 3, "uKcH", ("A.segmented", "G.segmented"), segmented=True),
    )
}
"""Every base. ``fitted`` exists once ``fit`` has been called, ``segmented`` where columns are
declared."""

FITTED_PATHS = BASES["fitted"].paths
"""The paths that ``fit`` adds, behind the others."""
SEGMENTED_PATHS = BASES["segmented"].paths
"""The paths that columns add, behind those that were asked for."""

PATHS = tuple(
    path
    for base in BASES.values()
    for path in base.paths
    if path not in FITTED_PATHS + SEGMENTED_PATHS
)
"""The paths a corrector can be made of, in their order."""

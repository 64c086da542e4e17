"""Bases: one table with the properties of each, used by everything else.

To add one: an entry here, and code in the kernel if its row or step is of a new sort.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_LOG_B = 2.0
MOST_T = 3.0
MOST_C = 6.0
"""Bounds of log b, the t of shared features, and the entries of c and A."""
WHOLE_PRECISION, WHOLE_RIDGE = 20.0, 0.3
"""Of a whole matrix: prior precision around 0, and what is added to the variances of its inputs."""

MATRIX_LIMIT = 256
"""Number of classes above which ``matrix`` (2 m^2 numbers) and ``full`` (3 m^2 numbers, m^2
multiplications a row) must be requested by name."""


class Base(NamedTuple):
    """A way to recalibrate a row; a path by itself and with CAN after it."""

    name: str
    features: int = 0
    """Number of weighted features: 0 changes nothing, 1 is b, 3 is b and the two shared ones, 4
    has that of how often a class is the likeliest."""
    arrays: str = ""
    """Its arrays, by name in the state: log b and t, curvatures, c, H, A, G; of a whole matrix its
    inputs' moments C, precision P, spread s and numbers of labels n."""
    optional: tuple[str, ...] = ()
    """Full names of optional arrays."""
    learns: bool = True
    """Whether it learns from each label; otherwise it is frozen after a fit."""
    most_classes: int | None = None
    """Number of classes above which it is not a default."""
    segmented: bool = False
    """Whether it has two more features per column, and A if the base matrix is in use."""
    centred: bool = False
    """Whether it stretches what a row says beyond the training prior, not the row itself."""
    can: bool = True
    """Whether a path goes on with CAN."""

    @property
    def path_with_can(self) -> str | None:
        """The path that goes on with CAN, if one does."""
        if not self.can:
            return None
        return "can" if self.name == "raw" else f"{self.name}+can"

    @property
    def paths(self) -> tuple[str, ...]:
        """Without and with CAN."""
        with_can = self.path_with_can
        return (self.name,) if with_can is None else (self.name, with_can)


CLASS_MIX = (
    "ref", "Q", "Q.500", "Q.50", "W", "W.rival", "sharp", "D", "held", "cells", "edges",
    "rival.low", "rival.middle", "rival.high",
)  # fmt: skip
"""Arrays by which the fitted base follows the class mix: all of them are there, or none."""
BASES = {
    base.name: base
    for base in (
        Base("raw", learns=False),
        Base("temperature", 1, "uK"),
        Base("vector", 3, "uKcH", centred=True),
        Base("matrix", 3, "uKcHAG", most_classes=MATRIX_LIMIT, centred=True),
        Base("centred", 1, "uK", centred=True, can=False),
        Base("shared", 4, "uK", centred=True, can=False),
        Base("full", 3, "uKcHACPsn", most_classes=MATRIX_LIMIT, centred=True, can=False),
        Base("fitted", 1, "u", ("c.fitted", "A.fitted", *CLASS_MIX), learns=False, centred=True),
        Base("segmented", 3, "uKcH", ("A.segmented", "G.segmented"), segmented=True, centred=True),
    )
}
"""All bases. ``fitted`` exists after ``fit``, ``segmented`` where columns are declared."""

FITTED_PATHS = BASES["fitted"].paths
"""Paths added by ``fit``, after the others."""
SEGMENTED_PATHS = BASES["segmented"].paths
"""Paths added by columns, after the requested ones."""

PATHS = tuple(
    path
    for base in BASES.values()
    for path in base.paths
    if path not in FITTED_PATHS + SEGMENTED_PATHS
)
"""All paths of a corrector, in order."""

"""Whether knowledge began with the ``train_counts`` of the settings."""

from __future__ import annotations

import numpy as np

from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch

COUNTS_WAY = "take train_counts out, which keeps what is learned, or start over, which forgets it"
"""What to do where they are not those with which existing knowledge began."""


def match_counts(ours: Corrector, theirs: Corrector, where: str = "") -> None:
    """Raise SnapshotMismatch where two correctors began with different counts."""
    priors = ours.train_prior, theirs.train_prior
    if not np.array_equal(*priors):
        texts = (np.array2string(p, precision=4, threshold=20) for p in priors)
        counts_here, counts_there = texts
        raise SnapshotMismatch(
            f"{where}train_counts: {counts_here} here, {counts_there} in it; {COUNTS_WAY}"
        )

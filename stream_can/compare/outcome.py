"""Outcomes of rivals: scores, and changes relative to another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Changes
from stream_can.compare.rivals import Rival, key_of
from stream_can.compare.stream import Stream
from stream_can.scores import Scores


class Outcome(NamedTuple):
    """Scores of a rival."""

    name: str
    needs: str
    scores: Scores
    hits: NDArray[np.bool_]
    """Whether the likeliest class of each scored row is its label."""
    losses: NDArray[np.float64]
    """Log loss of each scored row, in nats."""
    microseconds: float
    """Processor time per row of the stream, including fits."""

    @property
    def key(self) -> str:
        """Its name in one word, see :attr:`Rival.key`."""
        return key_of(self.name)


def compare(
    stream: Stream,
    rivals: Iterable[Rival],
    progress: Callable[[int], object] = lambda rows: None,
) -> Iterator[Outcome]:
    """Play a stream with each rival.

    Parameters
    ----------
    stream
        Result of :func:`load`.
    rivals
        Rivals from :func:`stream_can.compare.rivals`, or your own.
    progress
        Called after each block of rows with their number.

    Yields
    ------
    Outcome
        Of each rival in turn, when it has played the stream.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_can.compare import Stream, rivals
    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice(2, 3000, p=[0.8, 0.2])
    >>> P = np.where(y[:, None] == [0, 1], 0.55, 0.45)
    >>> known = np.full(2000, True)
    >>> stream = Stream(
    ...     ["a", "b"], P[1000:], y[1000:], known, known, (P[:1000], y[:1000]), label_delay=10
    ... )
    >>> raw, *_, best = compare(stream, rivals()[:8])
    >>> best.name, best.scores.log_loss < raw.scores.log_loss
    ('matrix', True)
    """
    for rival in rivals:
        scores, hits, losses = Scores(), [], []
        blocks, first, spent = rival.play(stream), 0, 0.0
        while True:
            started = time.process_time()
            rows = next(blocks, None)
            spent += time.process_time() - started
            if rows is None:
                break
            stop = first + len(rows)
            counted = stream.scored[first:stop]
            P, y = rows[counted], stream.y[first:stop][counted].astype(np.intp)
            row_scores = scores.add_checked(P, y)
            hits.append(row_scores.hits)
            losses.append(row_scores.losses)
            progress(len(rows))
            first = stop
        yield Outcome(
            rival.name,
            rival.needs,
            scores,
            np.concatenate(hits),
            np.concatenate(losses),
            1e6 * spent / len(stream.P),
        )


def against(outcome: Outcome, other: Outcome) -> Changes:
    """Paired change of ``outcome`` relative to ``other`` (usually raw)."""
    sides = ((o.hits, o.losses) for o in (other, outcome))
    changes = Changes.of_sums(np.ones(len(outcome.hits)), *sides)
    assert changes is not None, "a stream without a scored row is refused where it is loaded"
    return changes

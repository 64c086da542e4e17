"""Correctors for each model and version of a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector, Played
from stream_can.errors import StreamCANError
from stream_can.learner import Learner
from stream_can.learner.lane import Name, predecessor
from stream_can.recording.recording import Chunk

__all__ = ["PlayedModels"]


class PlayedModels:
    """The correctors of a recording with several models.

    A new version starts as its predecessor's successor, as in `Learner`.

    Parameters
    ----------
    start
        Initial corrector of each model.
    model, version
        Columns of the recording that name them; one may be None.
    """

    def __init__(self, start: Corrector, model: str | None, version: str | None) -> None:
        self._start = start
        self._fresh = start.to_bytes()
        self.model, self.version = model, version
        self.title = " ".join(name for name in (model, version) if name is not None)
        """Name of the column with their scores."""
        self.correctors: dict[Name, Corrector] = {}
        self._numbers: dict[Name, int] = {}
        self.latest = start
        """The corrector of the last row."""
        self.n_labels = 0
        """Number of labels learned by all of them."""

    @property
    def columns(self) -> list[str]:
        """Columns with which a recording must be opened."""
        return [name for name in (self.model, self.version) if name is not None]

    def of_rows(self, chunk: Chunk) -> NDArray[np.int64]:
        """Number of each row's model and version.

        Raises
        ------
        StreamCANError
            A row names none.
        """
        found = []
        for what, name in (("model", self.model), ("version", self.version)):
            if name is None:
                found.append([None] * len(chunk.P))
                continue
            texts = (chunk.segments or {})[name].tolist()
            if None in texts:
                row = chunk.first + texts.index(None) + 1
                raise StreamCANError(f"row {row}: no {name!r}, which names the {what}")
            found.append(texts)
        names: list[Name] = list(zip(*found, strict=True))
        for one in dict.fromkeys(names):
            self._numbers.setdefault(one, len(self._numbers))
        return np.array([self._numbers[name] for name in names], np.int64)

    def text_of(self, numbers: NDArray[np.int64]) -> NDArray[np.object_]:
        """Names of models and versions by number."""
        names = np.array(
            [" ".join(filter(None, name)) for name in self._numbers] or [""], dtype=object
        )
        return names[numbers]

    def until_new(self, numbers: NDArray[np.int64]) -> int:
        """Number of rows before one of another new model; the first row's model begins now, if
        new."""
        names = list(self._numbers)
        first = names[numbers[0]]
        if first not in self.correctors:
            before = predecessor(first, self.correctors)
            made = (
                Corrector.from_bytes(self._fresh)
                if before is None
                else self.correctors[before].successor()
            )
            self.correctors[first] = made
        known = [number for name, number in self._numbers.items() if name in self.correctors]
        new = np.flatnonzero(~np.isin(numbers, known))
        return int(new[0]) if len(new) else len(numbers)

    def play(
        self,
        P: NDArray[np.float64],
        ys: NDArray[np.int64],
        rows: NDArray[np.int64],
        due: NDArray[np.int64],
        *,
        lanes: NDArray[np.int64],
        first: int,
        known: NDArray[np.float32],
        receipt: bool,
        explain: bool,
        segments: dict[str, Any] | None,
    ) -> Played:
        """Run `Corrector.play` with the corrector of each row; ``lanes`` are their numbers."""
        n, m = len(P) - first, P.shape[1]
        self.n_labels += len(ys)
        start = self._start
        out = np.empty((n, m))
        paths = np.empty((len(start.paths), n, m)) if explain else None
        receipts: NDArray[np.float32] | None = None
        for name, corrector, mine in self._each(lanes):
            new = mine[mine >= first]
            own = np.isin(rows, mine)
            played = corrector.play(
                P[mine],
                ys[own],
                np.searchsorted(mine, rows[own]),
                np.searchsorted(new - first, due[own]),
                first=len(mine) - len(new),
                known=np.ascontiguousarray(known[own]),
                receipt=receipt,
                explain=explain,
                segments=segments and {k: texts[mine] for k, texts in segments.items()},
            )
            out[new - first] = played.rows
            if paths is not None and played.paths is not None:
                paths[:, new - first] = played.paths
            if played.receipts is not None:
                if receipts is None:
                    receipts = np.full((n, played.receipts.shape[1]), np.nan, np.float32)
                receipts[new - first] = played.receipts
            if len(lanes) and lanes[-1] == self._numbers[name]:
                self.latest = corrector
        return Played(out, receipts, paths)

    def _each(
        self, lanes: NDArray[np.int64]
    ) -> Iterator[tuple[Name, Corrector, NDArray[np.int64]]]:
        names: Sequence[Name] = list(self._numbers)
        for number in np.unique(lanes).tolist():
            yield names[number], self.correctors[names[number]], np.flatnonzero(lanes == number)

    def to_bytes(self) -> bytes:
        """Encode a `Learner` that continues with all of them."""
        return Learner.of(Corrector.from_bytes(self._fresh), self.correctors).to_bytes()

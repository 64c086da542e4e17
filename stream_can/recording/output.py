"""Write corrected rows to a file, one for each row of the recording, in order."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError

__all__ = ["CorrectedFile"]

SUFFIXES = ".csv", ".tsv", ".jsonl", ".npy"


class CorrectedFile:
    """Writes corrected rows: .csv or .tsv with a column probs_CLASS for each class, .jsonl with an
    array ``probs``, or .npy, shape (n, m). With prediction sets, a column or field ``set`` too.

    Parameters
    ----------
    path
        Path of the file; it appears when complete.
    classes
        Names of the classes.
    sets
        Whether rows have prediction sets; .npy does not support them.

    Raises
    ------
    StreamCANError
        The suffix is another one.
    """

    def __init__(self, path: Path, classes: Sequence[Any], *, sets: bool = False) -> None:
        if path.suffix not in SUFFIXES:
            raise StreamCANError(f"{path}: expected one of {', '.join(SUFFIXES)}")
        self._path, self._classes, self._sets = path, list(classes), sets
        self._kept: list[NDArray[np.float64]] = []
        self._file: IO[str] | None = None
        self._unfinished = path.with_name(path.name + ".unfinished")

    def __enter__(self) -> Self:
        if self._path.suffix != ".npy":
            self._file = open(self._unfinished, "w", encoding="utf-8", newline="")
            if self._path.suffix != ".jsonl":
                head = [f"probs_{name}" for name in self._classes]
                self._table().writerow([*head, *["set"] * self._sets])
        return self

    def _table(self) -> Any:
        assert self._file is not None
        return csv.writer(self._file, delimiter="\t" if self._path.suffix == ".tsv" else ",")

    def add(self, P: NDArray[np.float64], inside: NDArray[np.bool_] | None = None) -> None:
        """Write rows, shape (n, m), and their sets as booleans of the same shape."""
        if self._file is None:
            self._kept.append(P.copy())
            return
        rows = P.tolist()
        sets = [None] * len(rows) if inside is None else [self._names(one) for one in inside]
        if self._path.suffix == ".jsonl":
            for row, found in zip(rows, sets, strict=True):
                says = {"probs": row} | ({} if found is None else {"set": found})
                self._file.write(json.dumps(says, ensure_ascii=False) + "\n")
        else:
            self._table().writerows(
                row if found is None else [*row, json.dumps(found, ensure_ascii=False)]
                for row, found in zip(rows, sets, strict=True)
            )

    def _names(self, inside: NDArray[np.bool_]) -> list[Any]:
        return [self._classes[k] for k in np.flatnonzero(inside)]

    def __exit__(
        self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        elif kind is None:
            with open(self._unfinished, "wb") as file:
                np.save(file, np.concatenate([np.empty((0, len(self._classes))), *self._kept]))
        if kind is None:
            self._unfinished.replace(self._path)
        else:
            self._unfinished.unlink(missing_ok=True)

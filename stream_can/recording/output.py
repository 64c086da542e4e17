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

SUFFIXES = ".csv", ".tsv", ".jsonl", ".npy"


class CorrectedFile:
    """Writes corrected rows: .csv or .tsv with a column probs_CLASS for each class, .jsonl with an
    array ``probs``, or .npy, shape (n, m). Sparse rows are objects, in .jsonl alone.

    Parameters
    ----------
    path
        Path of the file; it appears when complete.
    classes
        Names of the classes; None where each row has its own.
    field
        Name of the probabilities.
    sets
        Column or field of the names that come with each row, if any: its prediction set, or the
        labels decided on. .npy does not have them.

    Raises
    ------
    StreamCANError
        The suffix is another one.
    """

    def __init__(
        self,
        path: Path,
        classes: Sequence[Any] | None,
        *,
        field: str = "probs",
        sets: str | None = None,
    ) -> None:
        suffixes = SUFFIXES if classes is not None else (".jsonl",)
        if path.suffix not in suffixes:
            raise StreamCANError(f"{path}: expected one of {', '.join(suffixes)}")
        self._path, self._classes, self._field, self._sets = path, classes, field, sets
        self._chunks: list[NDArray[np.float64]] = []
        self._file: IO[str] | None = None
        self._unfinished = path.with_name(path.name + ".unfinished")

    def __enter__(self) -> Self:
        if self._path.suffix != ".npy":
            self._file = open(self._unfinished, "w", encoding="utf-8", newline="")
            if self._path.suffix != ".jsonl":
                head = [f"{self._field}_{name}" for name in self._classes or ()]
                self._table().writerow([*head, *filter(None, [self._sets])])
        return self

    def _table(self) -> Any:
        assert self._file is not None
        return csv.writer(self._file, delimiter="\t" if self._path.suffix == ".tsv" else ",")

    def write_rows(self, P: Any, names: Sequence[Sequence[Any]] | None = None) -> None:
        """Write rows, shape (n, m), or `SparseRow` of each, and the names that come with them."""
        if self._file is None:
            self._chunks.append(P.copy())
            return
        rows = P.tolist() if isinstance(P, np.ndarray) else [row.probabilities for row in P]
        sets = [None] * len(rows) if names is None or self._sets is None else names
        if self._path.suffix == ".jsonl":
            for row, names_of_row in zip(rows, sets, strict=True):
                record = {self._field: row} | (
                    {} if names_of_row is None else {self._sets: names_of_row}
                )
                self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
        else:
            self._table().writerows(
                row
                if names_of_row is None
                else [*row, json.dumps(names_of_row, ensure_ascii=False)]
                for row, names_of_row in zip(rows, sets, strict=True)
            )

    def __exit__(
        self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        elif kind is None:
            with open(self._unfinished, "wb") as file:
                np.save(
                    file, np.concatenate([np.empty((0, len(self._classes or ()))), *self._chunks])
                )
        if kind is None:
            self._unfinished.replace(self._path)
        else:
            self._unfinished.unlink(missing_ok=True)

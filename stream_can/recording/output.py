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
from stream_can.messages.codecs.codec import DECISION
from stream_can.method.costs import Costs

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
        self.costs: Costs | None = None
        """Costs by which each row gets a ``decision``, if any; .npy does not have it."""
        self._chunks: list[NDArray[np.float64]] = []
        self._file: IO[str] | None = None
        self._unfinished = path.with_name(path.name + ".unfinished")

    def __enter__(self) -> Self:
        if self._path.suffix != ".npy":
            self._file = open(self._unfinished, "w", encoding="utf-8", newline="")
            if self._path.suffix != ".jsonl":
                head = [f"{self._field}_{name}" for name in self._classes or ()]
                decision = None if self.costs is None else DECISION
                self._table().writerow([*head, *filter(None, [self._sets, decision])])
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
        besides: dict[str, Sequence[Any]] = {}
        if names is not None and self._sets is not None:
            besides[self._sets] = names
        if self.costs is not None:
            besides[DECISION] = self.costs.named(P)
        if self._path.suffix == ".jsonl":
            for row, *values in zip(rows, *besides.values(), strict=True):
                record = {self._field: row} | dict(zip(besides, values, strict=True))
                self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
        else:
            self._table().writerows(
                row + [
                    value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                    for value in values
                ]
                for row, *values in zip(rows, *besides.values(), strict=True)
            )  # fmt: skip

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

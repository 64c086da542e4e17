"""SparseLanes: sparse rows from one process to another, where each numbers their classes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.learner.model_name import Name
from stream_can.learner.sent import SentVersion
from stream_can.sparse.blob import SparseBlob, checked_blobs, encoded
from stream_can.sparse.corrector import SparseCorrector
from stream_can.sparse.numbering import ClassNumbering, Lookup, NamedRow
from stream_can.sparse.rows import Rows, SparseRow


class SparseLanes(ClassNumbering):
    """Part of an adapter: encodes corrected rows, and reads those that other processes sent."""

    def __init__(self, corrector: SparseCorrector) -> None:
        super().__init__(corrector)
        self.corrector = corrector

    @property
    def numbering(self) -> SparseLanes:
        """Itself: new classes are numbered."""
        return self

    @property
    def lookup(self) -> Lookup:
        """What checks rows and labels without numbering new classes."""
        return Lookup(self.corrector)

    def names_from(self, n: int) -> tuple[Any, ...]:
        """Names of the classes numbered from ``n`` on."""
        return () if self.numbered else tuple(self.corrector.names_of(range(n, self.n_named)))

    @property
    def n_named(self) -> int:
        """How many classes have a name."""
        return 0 if self.numbered else self.corrector.n_classes

    def number_and_check(self, lane: SentVersion) -> bool:
        """Whether the rows of a sent batch are sparse; numbers its new names."""
        if lane.named and not self.numbered:
            self.corrector.ids_of(lane.named)
        return not lane.classes and not (lane.named and self.numbered)

    def sent_version(
        self, name: Name, raw: Sequence[NamedRow], sent: Sequence[SparseRow],
        receipts: Sequence[NDArray[np.float32]],
    ) -> SentVersion:  # fmt: skip
        """Encode corrected rows for the learner; classes with names are numbered as they appear in
        the rows, see :meth:`adopted`."""
        numbers: dict[Any, int] = {}
        blobs = []
        for (names, p), (better, rest), receipt in zip(raw, sent, receipts, strict=True):
            raw_ids, sent_ids = (
                [*classes]
                if self.numbered
                else [numbers.setdefault(n, len(numbers)) for n in classes]
                for classes in (names, better)
            )
            blobs.append(
                encoded(raw_ids, p) + SparseBlob.sent(sent_ids, [*better.values()], rest, receipt)
            )
        most = max(map(len, blobs), default=4)
        data = b"".join([blob.ljust(most, b"\0") for blob in blobs])
        return SentVersion(name, (), np.frombuffer(data, "<f4").reshape(-1, most // 4), (*numbers,))

    def listed(self, lane: SentVersion, i: int) -> tuple[list[float], list[float], list[Any]]:
        """A row of a lane and the row that was sent, as lists, and their classes."""
        (blob,) = map(SparseBlob, checked_blobs(lane.rows[[i]], self._classes.known))
        names = self._classes.names_of(blob.sent_ids.tolist())
        return blob.P.tolist(), blob.sent_P.tolist(), names

    def told_row(self, row: bytes) -> dict[Any, float]:
        """A row that a label brings, by name."""
        blob = SparseBlob(row)
        names = self._classes.names_of(blob.ids.tolist())
        return dict(zip(names, blob.P.tolist(), strict=True))

    def adopted(self, lane: SentVersion) -> tuple[SentVersion, NDArray[np.bool_]]:
        """The rows of another process with the classes numbered as here, where new names get
        numbers; and whether each is one of these: there may be no room for its names."""
        is_known = np.ones(len(lane.rows), np.bool_)
        if self.numbered:
            return lane, is_known
        of = np.full(len(lane.named), -1, np.int32)
        for i, name in enumerate(lane.named):
            with contextlib.suppress(UnknownClass):  # no room
                of[i] = self.number(name)
        rows = lane.rows.copy()
        for i, words in enumerate(rows.view(np.int32)):
            k = int(words[0])
            at = 1 + 3 * k
            for ids in (words[1 : 1 + k], words[at + 1 : at + 1 + int(words[at])]):
                ids[:] = of[ids]
                is_known[i] &= (ids >= 0).all()
        return lane._replace(rows=rows[is_known], named=()), is_known

    def load_rows(self, lane: SentVersion) -> list[Rows]:
        """Rows of a sent batch's lane as those of a call."""
        rows = []
        for data in checked_blobs(lane.rows, self._classes.known):
            blob = SparseBlob(data)
            k = len(blob.ids)
            ids, P = np.array(blob.ids[None], np.int32), np.array(blob.P[None])
            rows.append(Rows(ids, P, np.array([k], np.int32)))
        return rows

    def require_sent(self, lane: SentVersion) -> None:
        """ValueError where rows that another process sent are none."""
        names = set(map(_shared_name, lane.named))
        if lane.classes or (lane.named and self.numbered) or len(names) < len(lane.named):
            raise ValueError("the classes of recent predictions")
        for _ in checked_blobs(lane.rows, self.corrector.m if self.numbered else len(names)):
            pass


def _shared_name(name: Any) -> str:
    """A name that another process gave; ValueError where it is none."""
    if not isinstance(name, str):
        raise ValueError("the name of a class")
    name.encode()
    return name

"""Events: what a learner was given since they were last taken, so that another can play it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.learner.late import CheckedLabel, LateLabel
from stream_can.learner.model_name import Name
from stream_can.learner.model_version import ModelVersion
from stream_can.learner.model_versions import ModelVersions
from stream_can.learner.recent import Recent
from stream_can.learner.sent import Events, SentBatch, SentVersion, segments_of


class EventLog(NamedTuple):
    """Events since they were last taken."""

    named: int
    """Number of the classes that had been numbered before."""
    rows: list[Recent]
    labels: list[LateLabel]
    starts: list[tuple[int, Name, bytes]]
    dropped: dict[int, ModelVersion]
    """Versions that were dropped but have rows here, by serial number."""

    @classmethod
    def from_now(cls, versions: ModelVersions) -> EventLog:
        """An empty log."""
        return cls(versions.default.n_named, [], [], [], {})

    def events(self, versions: ModelVersions) -> Events:
        """The events, for another learner."""
        by_serial = ChainMap(versions.by_serial, self.dropped)
        batch = batch_of(self.rows, by_serial, versions, self.named)
        return Events(batch, self.labels, self.starts)


def batch_of(
    predictions: Collection[Recent],
    by_serial: Mapping[int, ModelVersion],
    versions: ModelVersions,
    named: int | None = None,
) -> SentBatch:
    """A batch of kept predictions, with the names of classes numbered from ``named`` on, if any."""
    blobs: dict[int, list[bytes]] = {}
    for entry in predictions:
        blobs.setdefault(entry.lane, []).append(entry.blob)
    places = {serial: k for k, serial in enumerate(blobs)}
    sent_versions = [
        SentVersion(
            version.name,
            version.kind.classes,
            _stacked(rows),
            () if named is None else version.kind.names_from(named),
        )
        for version, rows in ((by_serial[serial], rows) for serial, rows in blobs.items())
    ]
    return SentBatch(
        [entry.id for entry in predictions],
        np.array([entry.number for entry in predictions], np.int64),
        np.array([entry.time for entry in predictions], np.float64),
        sent_versions, np.array([places[entry.lane] for entry in predictions], np.int32),
        segments_of(versions.default.segments, [entry.columns for entry in predictions]),
    )  # fmt: skip


def _stacked(blobs: Sequence[bytes]) -> NDArray[np.float32]:
    """Stack blobs, shape (n, words of the longest), zero-padded."""
    width = max(map(len, blobs))
    return np.frombuffer(b"".join([blob.ljust(width, b"\0") for blob in blobs]), "<f4").reshape(
        len(blobs), width // 4
    )


def portable(label: CheckedLabel, versions: ModelVersions, first: int) -> LateLabel:
    """A label of a call for another learner; ``first`` rows come before the call's."""
    late, like = label.late, versions.default
    return LateLabel(
        late.id, label.stored, first + late.due,
        None if late.of is None else first + late.of,
        None if label.row is None else like.told_row(label.row),
        None if label.given is None else dict(zip(like.segments, label.given, strict=True)),
        late.model, late.version, None if late.time is None else float(late.time),
        late.weight,
    )  # fmt: skip

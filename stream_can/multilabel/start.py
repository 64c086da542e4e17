"""Initial correctors of multilabel rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_can.app.application import ApplicationSettings
from stream_can.app.beginning import beginning_of
from stream_can.app.start import Start
from stream_can.app.train_counts import COUNTS_WAY
from stream_can.errors import SnapshotMismatch
from stream_can.messages.formats import Formats
from stream_can.messages.kinds import messages_of
from stream_can.multilabel.corrector import MultiLabelCorrector
from stream_can.snapshot import match


def start(settings: ApplicationSettings, formats: Formats) -> MultiLabelStart:
    """See :func:`stream_can.app.start.start_of`."""
    return MultiLabelStart(settings, formats)


class MultiLabelStart(Start):
    """Initial correctors of multilabel rows: a `MultiLabelCorrector`.

    Parameters
    ----------
    settings
        The settings; they name the labels.
    formats
        The parsers of messages.
    """

    def __init__(self, settings: ApplicationSettings, formats: Formats) -> None:
        names, counts, snapshot = beginning_of(settings)
        if snapshot is not None:
            corrector = MultiLabelCorrector.from_bytes(snapshot, **settings.corrector)
        else:
            corrector = MultiLabelCorrector(
                names or (), train_counts=counts, train_rows=settings.train_rows,
                **settings.corrector,
            )  # fmt: skip
        self.snapshot = corrector.to_bytes()
        self.classes, self.segments, self.formats = corrector.labels, (), formats
        self.settings = {"half_life": corrector.half_life}
        self._given, self._models = settings, {}
        self._counted = counts is not None and snapshot is None
        self._from_snapshot = snapshot is not None
        messages_of(settings.rows, self.classes, settings.fields)

    def with_settings(self, snapshot: bytes, model: str = "") -> Any:
        """Restore a snapshot under the settings."""
        return MultiLabelCorrector.from_bytes(snapshot, **self.settings)

    def corrector(self) -> Any:
        """Create an initial corrector."""
        return MultiLabelCorrector.from_bytes(self.snapshot)

    def _require_alike(self, corrector: Any) -> None:
        """Raise SnapshotMismatch where existing knowledge has other labels, or began with other
        ``train_counts`` than those that are given."""
        match("classes", corrector.labels, self.classes)
        ours = self.corrector().train_shares
        if self._counted and not np.array_equal(ours, corrector.train_shares):
            raise SnapshotMismatch(f"train_counts: others than in it; {COUNTS_WAY}")

    def train(self, classes: tuple[Any, ...]) -> None:
        """Return None: missing scores are not filled in."""

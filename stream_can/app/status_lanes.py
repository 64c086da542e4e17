"""Models and versions in the status document: their scores, and what each has learned."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.app.correctors_in_use import CorrectorInUse, CorrectorsInUse
from stream_can.app.learned import Knowledge, Share
from stream_can.app.shown_name import shown_name
from stream_can.app.status import ClassShare, LaneScores, LearnedStatus, Side, TwoVersions, Worse
from stream_can.app.status_windows import score_of
from stream_can.app.table import age
from stream_can.app.versions import Comparison, Pair
from stream_can.messages.naming import UNNAMED, LaneName
from stream_can.row_kinds import part
from stream_can.trust.episode import Episode

Tally = NDArray[np.float64]
MOST_CLASSES = 300
MOST_CLASSES_OF_LANE = 20
MOST_CHANGED = 20
MOST_SILENT = 20
MOST_LANES, MOST_LEARNED = 50, 20
"""Maximum number of lanes with scores, and with learned details, in the document."""


def all_learned(
    known: CorrectorsInUse, tallies: Mapping[LaneName, Tally], now: float
) -> Iterator[LearnedStatus]:
    """Describe each corrector; of many, those with most records here."""
    lanes = known.lanes
    if lanes is None:
        yield _learned(known, known.corrector, now)
        return
    for name in sorted(lanes, key=lambda name: (-_rows(tallies, name), name))[:MOST_LEARNED]:
        yield _learned(known, lanes[name].corrector, now, name)


def _rows(tallies: Mapping[LaneName, Tally], name: LaneName) -> float:
    return float(tallies[name][0]) if name in tallies else 0.0


def lanes_of(known: CorrectorsInUse | None, tallies: Mapping[LaneName, Tally]) -> dict[str, Any]:
    """The part of a status about lanes; empty without models."""
    if known is None or known.lanes is None:
        return {}
    lanes: Mapping[LaneName, CorrectorInUse] = known.lanes
    heaviest = sorted(tallies, key=lambda name: (-_rows(tallies, name), name))[:MOST_LANES]
    return {
        "n_lanes": len(lanes),
        "max_lanes": known.max_lanes,
        "lanes": [_lane(name, lanes.get(name), tallies[name].tolist()) for name in heaviest],
    }


def worse_lanes(last: Mapping[LaneName, Episode], tallies: Mapping[LaneName, Tally]) -> list[Worse]:
    """Copy open episodes."""
    heaviest = sorted(last, key=lambda name: (-_rows(tallies, name), name))[:MOST_LEARNED]
    return [Worse(shown_name(name), copy.copy(last[name])) for name in heaviest]


def _lane(name: LaneName, in_use: CorrectorInUse | None, tally: Sequence[float]) -> LaneScores:
    rows, n, *sides = tally
    means = [side / n if n else None for side in sides]
    version = None if in_use is None else in_use.predecessor
    predecessor = None if version is None else shown_name(version)
    learned = 0 if in_use is None else in_use.corrector.n_labels
    return LaneScores(
        shown_name(name.model), shown_name(name.version), predecessor, learned, int(rows), round(n),
        *means,
    )  # fmt: skip


def two_versions(pair: Pair, comparison: Comparison) -> TwoVersions | None:
    sides = []
    for sent in (False, True):
        changes = comparison.changes(sent=sent)
        if changes is None:
            return None
        accuracy, log_loss = score_of(changes.accuracy), score_of(changes.log_loss)
        assert accuracy is not None
        assert log_loss is not None
        sides.append(Side(accuracy, log_loss))
    model, version, other = map(shown_name, pair)
    return TwoVersions(model, version, other, comparison.n, *sides)


def _learned(
    known: CorrectorsInUse, corrector: Any, now: float, lane: LaneName = UNNAMED
) -> LearnedStatus:
    """Describe a corrector; of many classes only the most frequent are named."""
    about = part(corrector.row_kind, "about")
    knowledge: Knowledge = about.learned(
        corrector, MOST_CLASSES if lane == UNNAMED else MOST_CLASSES_OF_LANE
    )
    silent = knowledge.silent
    return LearnedStatus(
        offset=known.offset,
        labels=corrector.n_labels,
        effective_sample_size=corrector.effective_sample_size,
        age=None if known.newest is None else age(known.newest, now),
        log_loss_before=knowledge.log_loss_before,
        log_loss_after=knowledge.log_loss_after,
        log_loss_fitted=knowledge.log_loss_fitted,
        weights=corrector.weights,
        final_weights=corrector.final_weights,
        last_temperature=knowledge.last_temperature,
        coverage=knowledge.coverage,
        silent=[shown_name(name) for name in silent[:MOST_SILENT]],
        n_silent=len(silent),
        classes=_shares(knowledge.classes),
        changed=_shares(knowledge.changed[:MOST_CHANGED]),
        lane=shown_name(lane),
    )


def _shares(shares: Iterable[Share]) -> list[ClassShare]:
    return [ClassShare(shown_name(name), labels, rows) for name, labels, rows in shares]

"""Counts of rows and labels, for metrics and status page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.app.counts import Committed, Seen
from stream_can.app.versions import MOST_PAIRS, Comparison, Pair
from stream_can.column_scores import HITS, LOSSES, ColumnScores
from stream_can.learner.call import Taught
from stream_can.learner.model_name import Name
from stream_can.messages.columns import Table, table
from stream_can.messages.naming import LaneName
from stream_can.method.kernel import inside
from stream_can.row_kinds import part

Array = NDArray[np.float64]
OutcomesOf = Callable[
    [Sequence[Taught], int], tuple[Array, Array, NDArray[np.int64], NDArray[np.float32]]
]
"""From labelled predictions of m classes: outcomes, see `stream_can.column_scores.outcomes`; sent
rows, shape (n, m); their labels; and the ends of their receipts."""
STAGES = ("before", "after")
MOST_VALUES = 1000
"""Values kept per column: at twice as many, those with fewest rows are dropped."""


def lane_name(name: Name) -> LaneName:
    """Display name of a model and version."""
    return LaneName(name[0] or "", name[1] or "")


class Tally:
    """Counts of a server, partition or learner; implements `MetricsSource`.

    Parameters
    ----------
    columns
        Names of the declared columns.
    n_classes
        Returns the number of classes of a model and version.
    named
        Whether messages name models or versions.
    sets
        Whether predictions have sets.
    rows
        Name of the kind of rows.
    """

    def __init__(
        self,
        columns: Sequence[str],
        n_classes: Callable[[Name], int],
        *,
        named: bool,
        sets: bool,
        rows: str,
    ) -> None:
        self._n_classes: Callable[[Name], int] = n_classes
        room = part(rows, "outcomes")
        self._outcomes: OutcomesOf = room.outcomes_of
        expected = getattr(room, "ExpectedSums", None)
        self._expected = None if expected is None else expected()
        self._columns, self._named, self._has_sets = tuple(columns), named, sets
        self.counts = dict.fromkeys(
            ("predictions", "corrected", "labels", "matched", "unmatched", "repeated",
             "early", "dead_letters", "dropped", "handed_over", "without_id"), 0,
        )  # fmt: skip
        self.requests: tuple[int, int | None] | None = None
        """Counts, see `Committed`."""
        self.refused = 0
        """Predictions refused because of too many models, since last taken."""
        self.held = 0
        """Number of held labels."""
        self._scored, self._sums = 0.0, np.zeros(4)
        self._sets = np.zeros(4)
        self._taught: list[list[Taught]] = []
        """Results not yet added up."""
        self._values = self._new_values()
        self._lanes: dict[LaneName, Array] = {}
        self._pairs: dict[Pair, Comparison] = {}

    def _new_values(self) -> dict[str, ColumnScores]:
        return {name: ColumnScores(MOST_VALUES) for name in self._columns}

    # -- events ----------------------------------------------------------------------------------

    def predicted(
        self, ids: Sequence[object], names: Sequence[Name] | None, columns: Table | None,
        sets: Sequence[Sequence[object]] | None, sent: Any = None,
    ) -> None:  # fmt: skip
        """Count answered predictions, by their ids."""
        self.answered(n := len(ids), n, without_id=ids.count(None))
        self.observed(n, names, columns, 0 if sets is None else sum(map(len, sets)), sent)

    def answered(self, n: int, corrected: int, dead_letters: int = 0, without_id: int = 0) -> None:
        """Count prediction records: n with an output, of which ``corrected`` were corrected and
        ``without_id`` can be found by no label, and those that became dead letters."""
        self.counts["without_id"] += without_id
        self.counts["predictions"] += n + dead_letters
        self.counts["corrected"] += corrected
        self.counts["dead_letters"] += dead_letters

    def observed(
        self, n: int, names: Sequence[Name] | None, columns: Table | None, in_sets: int,
        sent: Any = None,
    ) -> None:  # fmt: skip
        """Count the column values and models of n predictions, the classes in their sets, and the
        confidence of the rows that were sent."""
        if self._expected is not None:
            self._expected.add_rows(sent)
        for name, texts in (columns or {}).items():
            self._values[name].came(texts)
        if self._has_sets:
            self._sets[:2] += n, in_sets
        if names is not None:
            for of, same_model in groupby(names):
                self._lane(lane_name(of))[0] += len(list(same_model))

    def labelled(self, outcomes: Iterable[str], taught: list[Taught], held: int = 0) -> None:
        """Count labels and what they taught; ``held`` are waiting now."""
        counts = self.counts
        kinds = {"learned": "matched", "repeated": "repeated", "unknown": "unmatched"}
        for outcome in outcomes:
            if outcome == "held":  # counted when released
                self.held += 1
            else:
                counts["labels"] += 1
                counts[kinds[outcome]] += 1
        late = sum(labelled.n for labelled in taught if labelled.label < 0)
        given_up = self.held - late - held
        counts["labels"] += late + given_up
        counts["matched"] += late
        counts["unmatched"] += given_up
        self.held = held
        if taught:
            self._taught.append(taught)

    def not_learned(self, without: int, of_nobody: int) -> None:
        """Count records of labels that say nothing, and labels that no model in use has."""
        self.counts["labels"] += without + of_nobody
        self.counts["unmatched"] += of_nobody

    def refuse(self, n: int, *, labels: bool) -> None:
        """Count unreadable messages."""
        self.counts["labels" if labels else "predictions"] += n
        self.counts["dead_letters"] += n

    def _lane(self, name: LaneName) -> Array:
        return self._lanes.setdefault(name, np.zeros(6))

    # -- sums ------------------------------------------------------------------------------------

    def _add_up(self) -> None:
        """Add up what labels taught, rows of equal length together."""
        calls, self._taught = self._taught, []
        alike: dict[tuple[int, int], list[Taught]] = {}
        for call in calls:
            for labelled in call:
                size = self._n_classes(labelled.name), len(labelled.prediction.blob)
                alike.setdefault(size, []).append(labelled)
        for (m, _), taught in alike.items():
            self._add(taught, m)
        if self._named:
            for call in calls:
                self._compare(call)

    def _add(self, taught: list[Taught], m: int) -> None:
        segments = [labelled.prediction.columns for labelled in taught]
        for name, texts in table(self._columns, segments).items():
            self._values[name].learned(texts)
        fair = [labelled for labelled in taught if labelled.prediction.fair]
        if not fair:
            return
        scores, sent, y, tails = self._outcomes(fair, m)
        weights = np.array([labelled.weight or 1.0 for labelled in fair])
        weighted = scores * weights[:, None]
        sums = weighted[:, [HITS, HITS + 1, LOSSES, LOSSES + 1]]
        self._scored += weights.sum()
        self._sums += sums.sum(axis=0)
        if self._expected is not None:
            self._expected.add_labels(sent, y, weights)
        segments = [labelled.prediction.columns for labelled in fair]
        for name, texts in table(self._columns, segments).items():
            self._values[name].scored(texts, scores, weights)
        if self._named:
            for labelled, row in zip(fair, np.column_stack([weights, sums]), strict=True):
                self._lane(lane_name(labelled.name))[1:] += row
        if self._has_sets:
            known = ~np.isnan(tails[:, 0])
            in_sets = inside(np.ascontiguousarray(sent[known], np.float32), tails[known, 0].copy())
            self._sets[2] += weights[known].sum()
            self._sets[3] += weights[known] @ in_sets[np.arange(len(in_sets)), y[known]]

    def _compare(self, call: Sequence[Taught]) -> None:
        """Compare versions of a model that learned the same label."""
        for label, same_label in groupby(call, lambda labelled: labelled.label):
            predictions = [labelled for labelled in same_label if labelled.prediction.fair]
            if label < 0 or len(predictions) < 2:
                continue
            scored = []
            for labelled in predictions:
                (row,), *_ = self._outcomes([labelled], self._n_classes(labelled.name))
                scores = row[[HITS, LOSSES, HITS + 1, LOSSES + 1]].tolist()
                scored.append((lane_name(labelled.name), scores))
            weight = predictions[0].weight or 1.0
            for (name, scores), (other, other_scores) in combinations(sorted(scored), 2):
                pair = Pair(name.model, name.version, other.version)
                has_room = pair in self._pairs or len(self._pairs) < MOST_PAIRS
                if name.model == other.model and has_room:
                    pairs = self._pairs.setdefault(pair, Comparison())
                    pairs.add_row(scores, other_scores, weight)

    # -- source ----------------------------------------------------------------------------------

    def committed(self) -> Committed:
        """Counts so far."""
        self._add_up()
        hits, losses = self._sums[:2], self._sums[2:]
        return Committed(
            dict(self.counts),
            self._scored,
            dict(zip(STAGES, hits.tolist(), strict=True)),
            dict(zip(STAGES, losses.tolist(), strict=True)),
            self.requests,
            self._sets.tolist(),
            [0.0] * 5 if self._expected is None else self._expected.sums(),
        )

    def take_values(self) -> Mapping[str, ColumnScores]:
        """Scores by value of each declared column since the last call."""
        values, self._values = self._values, self._new_values()
        return values

    def take_confusion(self) -> Array | None:
        """See `MetricsSource`."""
        return None if self._named or self._expected is None else self._expected.take_confusion()

    def take_seen(self) -> Seen | None:
        """Tallies of models and versions since the last call."""
        if not self._named:
            return None
        seen = Seen(self._lanes, self._pairs, self.refused)
        self._lanes, self._pairs, self.refused = {}, {}, 0
        return seen

"""Replay: scores before and after, and their course."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Change, Changes
from stream_can.column_scores import ColumnScores
from stream_can.learner import Learner
from stream_can.learner.model_name import ONLY
from stream_can.method.costs import Costs
from stream_can.replay.costs import CostScores
from stream_can.replay.delays import Delays
from stream_can.replay.episodes import episodes_as_json
from stream_can.replay.model_columns import ModelColumns
from stream_can.replay.sets import SetScores
from stream_can.replay.step import Step
from stream_can.trust.alarm import Alarm


class Replay:
    """Result of a replay: scores of raw and sent rows, and their course. Each kind of rows has its
    own, which adds what only such rows have.

    Parameters
    ----------
    learner
        The learner of the steps.
    models
        Columns that name the models, if there are several.
    watch
        Whether to watch for a worse classifier.
    costs
        Costs by which decisions are scored, if any.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What only the replay of some kinds has."""

    has_alarm = True
    """Whether an alarm can watch such rows."""

    def __init__(
        self,
        learner: Learner,
        models: ModelColumns | None = None,
        *,
        watch: bool = False,
        costs: Costs | None = None,
    ) -> None:
        self.learner, self.models = learner, models
        self._lane = next(iter(learner.live), ONLY)
        self.raw: Any = None
        """Scores before and after."""
        self.corrected: Any = None
        self.moments: list[Any] = []
        """The stream step by step."""
        self.rows = 0
        self.has_weights = False
        """Whether labels have weights; scores count each as its weight, numbers of rows once."""
        self.seconds = 0.0
        self.read_as = ""
        """Which columns of the recording were taken for what."""
        self.doubts: list[str] = []
        """What looks as if columns, times or ids were joined wrongly; then there is no verdict."""
        self.better_rival = ""
        """Which other method does better on the same rows, in a sentence; empty for none known."""
        self.rates: dict[float, Any] = {}
        """Scores at other label rates; filled by :func:`replay`."""
        self.asked_rates: dict[float, Any] = {}
        """Scores with requested labels instead of random ones."""
        self.rate_changes: dict[tuple[float, bool], Any] = {}
        """Changes at each rate of `rates`, and of `asked_rates` (True)."""
        self.fit_alone: Any = None
        """The same without any label, where the corrector was fitted to validation rows: what that
        alone gives or costs; filled by :func:`replay`."""
        self.other_draws: list[Any] = []
        """The same with other labels drawn, where not all come; filled by :func:`replay`."""
        self.asked = {"random": 0, "margin": 0}
        """Number of labels requested, by reason."""
        self.at_random: Replay | None = None
        """With requests: the replay with as many random labels."""
        self.dates = False
        """Whether times of moments are dates: datetime64, or microseconds since 1970."""
        self.delay = ""
        """Description of the label delay."""
        self.delay_rows, self.delay_time = Delays(), Delays()
        """Label delays in rows and (microseconds for dates) in time, of labels that arrived."""
        self.coming = self.possible = 0
        """Number of label messages that arrive, including after the last row; and that could if all
        were requested."""
        self.changed_labels = 0
        """Number of label messages that contradict an earlier one; of each label the first
        counts."""
        columns = [*learner.segments, *([models.title] if models else ())]
        self.columns = {name: ColumnScores() for name in columns}
        """Scores by value of each declared column, and by model."""
        self.sets = None if learner.sets is None else SetScores(learner.sets, learner.sets_by)
        """Prediction sets and their coverage, if any."""
        self.costs = None if costs is None else CostScores(costs)
        """Costs of decisions, if any."""
        self.alarm = Alarm() if watch and self.has_alarm else None
        """Detects a worse classifier, if watched."""

    @property
    def corrector(self) -> Any:
        """The corrector of the steps; with several models the last row's."""
        return self.learner.live[self._lane].corrector

    @property
    def classes(self) -> Sequence[Any]:
        """Names of the classes."""
        return list(self.learner.classes)

    @property
    def learned(self) -> int:
        """Number of labels learned by all models."""
        return self.delay_rows.n

    def add(self, step: Step) -> None:
        """Add a step, before the next is taken: the corrector's state is read."""
        arrivals = step.arrivals
        self.coming += arrivals.coming
        self.possible += arrivals.possible
        self.delay_rows.add(arrivals.rows)
        if arrivals.time is not None:
            self.delay_time.add(arrivals.time)
        for reason in step.asked:
            if reason is not None:
                self.asked[reason] += 1
        self.rows, self._lane = step.first + len(step.rows), step.lane
        self.has_weights |= step.weights is not None
        self.dates |= step.time is not None and step.time.dtype.kind == "M"
        for k, (name, column) in enumerate(self.columns.items()):
            if step.segments is not None:
                column.came(step.segments[name].tolist())
            if step.learned is not None:
                column.learned([values[k] for values in step.learned])
        self.score(step)

    @staticmethod
    @abstractmethod
    def explain(truth: Any, *, paths: bool) -> Any:
        """What :meth:`Learner.play` is to explain of rows with these known labels; ``paths``: those
        of each path, too."""

    @abstractmethod
    def score(self, step: Step) -> None:
        """Score the rows of a step, and add its moment."""

    def questions(self, recording: Any) -> list[str]:
        """What about its rows and labels looks as if they were joined wrongly; empty without
        any."""
        return []

    @property
    def labelled(self) -> list[float]:
        """Weight of the labelled rows of each step: without weights their number."""
        return [moment.labelled for moment in self.moments]

    def sums(self, side: int) -> NDArray[np.float64]:
        """Hits and log losses of the steps, of raw rows (0) or sent rows (1), shape (2, steps)."""
        pairs = [(moment.hits[side], moment.losses[side]) for moment in self.moments]
        return np.array(pairs, np.float64).reshape(-1, 2).T

    def changes(self, before: Replay | None = None) -> Changes | None:
        """Changes of sent rows relative to raw rows, or to the sent rows of another replay; None
        without labelled rows."""
        other = self.sums(0) if before is None else before.sums(1)
        changes = Changes.of_sums(self.labelled, other, self.sums(1))
        if changes is None or before is not None:
            return changes
        return changes.over_draws(draw.changes() for draw in self.other_draws)

    @property
    def cost_change(self) -> Change | None:
        """Change of the mean cost of a row; None without costs or labelled rows."""
        cost_change = None if self.costs is None else self.costs.change
        if cost_change is None:
            return None
        draws = (draw.cost_change for draw in self.other_draws)
        values = [change.value for change in (cost_change, *draws) if change is not None]
        return cost_change.over_draws(values)

    def to_dict(self) -> dict[str, Any]:
        """The result without its course, as JSON."""
        changes = self.changes()
        return {
            "rows": self.rows,
            "labelled": self.raw.n,
            "learned": self.learned,
            "label_delay": self.delay,
            "raw": finite(self.raw.summary()),
            "corrected": finite(self.corrected.summary()),
            **({} if changes is None else {"change": finite(changes.summary())}),
            "delays": {
                "coming": self.coming,
                "rows": self.delay_rows.summary(),
                "time": self.delay_time.summary(),
            },
            "label_rates": self._by_rate(self.rates, requested=False),
            "asked_rates": self._by_rate(self.asked_rates, requested=True),
            "asked": None if self.learner.ask is None else self.asked,
            "seconds": self.seconds,
            **({} if self.sets is None else {"sets": self.sets.to_dict()}),
            **({} if self.costs is None else {"costs": self.costs.to_dict(self.cost_change)}),
            **(
                {}
                if self.alarm is None
                else {"episodes": episodes_as_json(self.alarm, dates=self.dates)}
            ),
            **({} if not self.columns else {"segments": self._by_value()}),
        }

    def _by_rate(self, rates: dict[float, Any], *, requested: bool) -> dict[str, Any]:
        """Scores at other rates of labels, with the changes where there are some."""
        return {
            f"{rate:g}": with_change(scores, self.rate_changes.get((rate, requested)))
            for rate, scores in rates.items()
        }

    def _by_value(self) -> dict[str, Any]:
        """Scores by value of declared columns."""
        return {
            name: [segment.to_dict() for segment in column.values()]
            for name, column in self.columns.items()
        }


def with_change(scores: Any, changes: Changes | None) -> dict[str, Any]:
    """Scores by name, with their changes where these are known."""
    change = {} if changes is None else {"change": finite(changes.summary())}
    return finite(scores.summary()) | change


def finite(values: dict[str, Any]) -> dict[str, Any]:
    """Numbers by name, None for nan, which JSON lacks."""
    return {name: None if number != number else number for name, number in values.items()}

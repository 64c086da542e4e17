"""WrittenCorrectors: which correctors of a learner its topic of states holds, and where."""

from __future__ import annotations

from collections.abc import Mapping

from stream_can.app.start import Start
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Begin, Index, LanePlace
from stream_can.learner.learner import Learner
from stream_can.learner.model_name import Name

__all__ = ["WrittenCorrectors"]


class WrittenCorrectors:
    """Offsets of correctors and initial correctors, and which are to be written again.

    Parameters
    ----------
    settings, start
        The application's settings and initial correctors.
    learner
        The learner.
    """

    def __init__(self, settings: Settings, start: Start, learner: Learner) -> None:
        self._models, self._start, self._learner = settings.models, start, learner
        self.touched: set[Name] = set()
        """Models and versions whose correctors have changed since they were written."""
        self.places: dict[Name, int] = {}
        """Positions of the written correctors."""
        self.begins: dict[str | None, int] = {}
        """Positions of the initial correctors; none where these are to be written."""

    def restore(
        self, index: Index, lanes: Mapping[Name, bytes], begins: Mapping[str | None, bytes]
    ) -> None:
        """Take over what a state holds; settings may differ from those of the state."""
        self.places = {place.name: place.offset for place in index.lanes}
        self.touched = {
            name for name, lane in self._learner.live.items()
            if name in lanes and lane.corrector.to_bytes() != lanes[name]
        }  # fmt: skip
        if self.begin_with == begins:
            self.begins = {begin.model: begin.offset for begin in index.begins}

    def changed(self) -> tuple[list[tuple[Name, bytes]], list[tuple[str | None, bytes]]]:
        """The correctors and initial correctors to be written, keyed by `corrector_key` and
        `begin_key`."""
        live = self._learner.live if self._learner.models else {}
        names = [name for name in live if name in self.touched or name not in self.places]
        begins = [] if self.begins else list(self.begin_with.items())
        return [(name, live[name].corrector.to_bytes()) for name in names], begins

    @property
    def begin_with(self) -> dict[str | None, bytes]:
        """Initial correctors; None is the common one."""
        start = self._start
        begins: dict[str | None, bytes] = {None: start.with_settings(start.snapshot).to_bytes()}
        for model in self._models:
            if (corrector := start.of_model(model)) is not None:
                begins[model] = corrector.to_bytes()
        return begins

    def gone(self) -> list[Name]:
        """Models and versions that were dropped but are still stored."""
        live = set(self._learner.models)
        return [name for name in self.places if name not in live]

    def note(self, places: Mapping[Name, int], begins: Mapping[str | None, int]) -> None:
        """Note what was written, at these offsets, and that the others are removed."""
        for name in self.gone():
            del self.places[name]
        self.places.update(places)
        self.begins.update(begins)
        self.touched.clear()

    def of_index(self) -> tuple[list[LanePlace], list[Begin]]:
        """The positions, as an index holds them."""
        live = self._learner.live
        return (
            [LanePlace(*name, at, live[name].after) for name, at in self.places.items()],
            [Begin(model, offset) for model, offset in self.begins.items()],
        )

"""ModelVersions: the models and versions of a learner, each begun from its predecessor."""

from __future__ import annotations

from collections.abc import Collection

from stream_can.learner import saved
from stream_can.learner.kinds import Id, Kind
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_version import ModelVersion, most_bytes, predecessor
from stream_can.learner.recent import Recent, RecentIndex
from stream_can.learner.switch import ON, CorrectionSwitch
from stream_can.row_kinds import AnyCorrector, kind_of


def adapter_of(corrector: AnyCorrector) -> Kind:
    """Wrap a corrector in its adapter."""
    adapter: Kind = kind_of(corrector).adapter(corrector)
    return adapter


def is_of(name: Name, named: Name) -> bool:
    """Whether a label for ``named`` can belong to this model and version."""
    return named[0] in (None, name[0]) and named[1] in (None, name[1])


class ModelVersions:
    """The models and versions of a learner.

    Parameters
    ----------
    kind
        Adapter of the initial corrector.
    ask, max_lanes, scores
        As for `Learner`.
    """

    def __init__(self, kind: Kind, ask: float | None, max_lanes: int, scores: bool) -> None:
        self.default = kind
        """The adapter of rows and labels of models that were given none of their own."""
        self.initial = kind.corrector.to_bytes()
        """Snapshot of the corrector with which models begin."""
        self.unused: Kind | None = kind
        """Adapter of the initial corrector, until a model begins."""
        self.starts: dict[Name, Kind] = {}
        """Initial adapters of models that were given their own and have not begun."""
        self.mixed = False
        """Whether models have different classes."""
        self.ask, self.max_lanes, self.scores = ask, max_lanes, scores
        self.switch = ON
        """Whether rows of models are corrected; see :meth:`set_switch`."""
        self.by_name: dict[Name, ModelVersion] = {}
        self.by_serial: dict[int, ModelVersion] = {}
        """Versions by serial number. Predictions refer to them by number, because the garbage
        collector visits every reference repeatedly."""
        self._of_model: dict[str | None, list[ModelVersion]] = {}
        self.recent = RecentIndex()
        """The kept predictions."""
        self._size = 0
        """Bytes of the correctors."""
        self._newest = -1
        """Serial number of the newest version."""
        self.dropped = 0
        """Number of versions dropped beyond ``max_lanes``."""

    def kind_of(self, name: Name) -> Kind:
        """The adapter of a model and version."""
        version = self.by_name.get(name)
        return version.kind if version is not None else self.starts.get(name, self.default)

    def matching(self, name: Name) -> Collection[ModelVersion]:
        """Versions to which a label for ``name`` can belong."""
        every = self.by_name.values()
        if name == ONLY:
            return every
        of_model = every if name[0] is None else self._of_model.get(name[0], ())
        return [version for version in of_model if is_of(version.name, name)]

    def keeping(self, id: Id | None, name: Name) -> list[tuple[ModelVersion, Recent]]:
        """The kept predictions of an id to which a label for ``name`` can belong, and their
        versions."""
        return [
            (version, entry) for entry in self.recent.of(id)
            if is_of((version := self.by_serial[entry.lane]).name, name)
        ]  # fmt: skip

    def set_start(self, name: Name, kind: Kind) -> bool:
        """Set the adapter with which a model and version begins; return False where it has begun.

        Raises
        ------
        ValueError
            The corrector is of another kind, or has other segments.
        """
        like = self.default
        if type(kind) is not type(like) or kind.segments != like.segments:
            raise ValueError(
                f"corrector: {type(kind.corrector).__name__} with segments {list(kind.segments)},"
                f" expected {type(like.corrector).__name__} with {list(like.segments)}, as the"
                " others"
            )
        if name in self.by_name:
            return False
        self.starts[name] = kind
        self.mixed = self.mixed or kind.classes != like.classes
        return True

    def begin(self, name: Name, number: int) -> ModelVersion:
        """Start a model and version at the row of this number, from its predecessor if it has
        one."""
        start = self.starts.pop(name, None)
        classes = self.default.classes if start is None else start.classes
        candidates = [
            version
            for version in self._of_model.get(name[0], ())
            if version.kind.classes == classes
        ]
        parent = predecessor(name, {version.name: version.kind.corrector for version in candidates})
        if parent is not None:
            kind = self.by_name[parent].kind.successor()
        elif start is not None:
            kind = start
        elif self.unused is not None:
            kind, self.unused = self.unused, None
        else:
            kind = adapter_of(saved.corrector(self.initial))
        version = ModelVersion(name, kind, self.ask, number, number, parent and parent[1])
        self.enter(version)
        return version

    def enter(self, version: ModelVersion) -> None:
        """Enter a version under the next serial number."""
        self._newest += 1
        version.scores, version.serial, version.recent = self.scores, self._newest, self.recent
        self._size += version.kind.nbytes
        version.kind.passes = not self.switch.is_on(version.name[0])
        self.by_name[version.name] = self.by_serial[version.serial] = version
        self._of_model.setdefault(version.name[0], []).append(version)

    def set_switch(self, switch: CorrectionSwitch) -> None:
        """Correct the rows of models from now on, or send them as they come."""
        self.switch = switch
        for version in self.by_name.values():
            version.kind.passes = not switch.is_on(version.name[0])

    def drop_excess(self, newest: ModelVersion) -> list[ModelVersion]:
        """Drop the versions with the oldest last predictions until the others fit; return them."""
        dropped = list[ModelVersion]()
        while len(self.by_name) > 1 and not self._fit():
            candidates = (version for version in self.by_name.values() if version is not newest)
            oldest = min(candidates, key=lambda version: version.last)
            del self.by_name[oldest.name], self.by_serial[oldest.serial]
            self._of_model[oldest.name[0]].remove(oldest)
            self._size -= oldest.kind.nbytes
            dropped.append(oldest)
        self.dropped += len(dropped)
        return dropped

    def _fit(self) -> bool:
        """Whether so many models and versions may be kept."""
        return len(self.by_name) <= self.max_lanes and self._size <= most_bytes(self.max_lanes)

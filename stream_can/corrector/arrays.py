"""CorrectorArrays: the compiled kernel of a corrector with the arrays that it works on."""

from typing import Any

from numpy.typing import NDArray

from stream_can.corrector.content import Content
from stream_can.method.classes import ClassIndex
from stream_can.method.kernel import Kernel, Model
from stream_can.method.promise import groups_of, miss_of
from stream_can.method.segments import Texts, texts_of
from stream_can.method.state import (
    State,
    start_weights,
)
from stream_can.method.values import Values


class CorrectorArrays:
    """The part of a `Corrector` that owns its arrays."""

    _fewest: int
    """Number of classes at the beginning."""
    _settings: dict[str, Any]
    _kernel: Kernel

    def _begin(
        self, state: State, content: Content, index: ClassIndex, values: Values | None
    ) -> None:
        """Replace the arrays in use."""
        self._kernel = Kernel(self._model(state, content, values), state, content, index)

    def _model(self, state: State, content: Content, values: Values | None) -> Model:
        """Create the compiled model, which works on these arrays in place."""
        m, settings = len(content.classes), dict(self._settings)
        for name in ("pseudo_count", "prior_strength"):
            settings[name] = m if settings[name] is None else settings[name]
        return Model(
            m,
            content.paths,
            state,
            train=content.train_prior,
            start_weights=start_weights(content.paths),
            values=values,
            miss=0 if content.sets is None else miss_of(content.sets),
            set_groups=groups_of(content.sets, content.sets_by, content.columns),
            monotone=content.monotone,
            ratio=content.ratio,
            **settings,
        )

    @property
    def _content(self) -> Content:
        return self._kernel.content  # type: ignore[no-any-return]

    @property
    def _index(self) -> ClassIndex:
        return self._kernel.index  # type: ignore[no-any-return]

    @property
    def _state(self) -> State:
        return self._kernel.state

    @property
    def _values(self) -> Values | None:
        """A copy of the column values."""
        return self._kernel.copied()[3]

    def _copy(self, name: str) -> NDArray[Any]:
        """A copy of an array between two rows."""
        return self._kernel.copied((name,))[1][name]

    def _texts(self, segments: Any, *, many: bool = True) -> Texts | None:
        """Texts of the column values of rows, or of one row; callers skip it for a single row
        without columns."""
        return None if segments is None else texts_of(self._content.columns, segments, many=many)

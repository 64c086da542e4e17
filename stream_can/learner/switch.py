"""Switch: whether rows are corrected."""

from __future__ import annotations

import msgspec


class CorrectionSwitch(msgspec.Struct, frozen=True):
    """Whether rows are corrected: of all models, and of some otherwise. Where they are not, they
    are sent as they came, and all that is learned is the same."""

    all: bool = True
    models: dict[str, bool] = {}

    def is_on(self, model: str | None) -> bool:
        """Whether rows of a model are corrected."""
        return self.all if model is None else self.models.get(model, self.all)

    def both(self, other: CorrectionSwitch) -> CorrectionSwitch:
        """On where this one and another are."""
        models = {*self.models, *other.models}
        return CorrectionSwitch(
            self.all and other.all,
            {model: self.is_on(model) and other.is_on(model) for model in models},
        )


ON = CorrectionSwitch()

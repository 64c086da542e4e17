"""ModelSettings: what differs for one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stream_can.method.settings import LOOP
from stream_can.method.settings_help import given_settings

Name = str | int | float
Counts = list[float] | dict[str, float]
"""Rows per class, in class order or by name."""

if TYPE_CHECKING:

    class OfModel(msgspec.Struct, frozen=True):
        """Corrector settings that may differ per model."""

else:
    OfModel = given_settings(LOOP)


class ModelSettings(
    OfModel, kw_only=True, forbid_unknown_fields=True, frozen=True, omit_defaults=True
):
    """Settings of one model: ``[models.NAME]``."""

    classes: list[Name] | None = None
    train_counts: Counts | None = None
    correct: bool | None = None

    @property
    def corrector(self) -> dict[str, Any]:
        """The corrector settings that were given."""
        values = {name: getattr(self, name) for name in LOOP}
        return {name: value for name, value in values.items() if value is not None}

"""Model names: a model and its version, by which predictions and labels name it."""

from __future__ import annotations

Name = tuple[str | None, str | None]
"""Model and version."""

ONLY: Name = (None, None)

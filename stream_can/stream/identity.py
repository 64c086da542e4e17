"""Who an application is: what all who fold one learned log must have alike, as the log says it."""

from __future__ import annotations

import hashlib

import msgspec

__all__ = ["Identity"]

Name = str | int | float
MARK_BYTES = 8


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the messages are, where they come from and go to, classes and columns in their order."""

    application: str
    input: str
    output: str
    labels: str | None
    probs: str
    raw: str
    label: str
    id: str | None
    classes: tuple[Name, ...]
    format: str = "json"
    segments: tuple[str, ...] = ()
    model: str | None = None
    version: str | None = None

    @property
    def mark(self) -> bytes:
        """A few bytes by which entries name their application."""
        return hashlib.sha256(msgspec.json.encode(self)).digest()[:MARK_BYTES]

    def differs(self, ours: Identity) -> list[str]:
        """What the log says otherwise than ``ours``, in words, but for the classes: the corrector
        has them too, in every log."""
        return [
            f"{name} is {theirs!r} in the log and {own!r} here"
            for name in self.__struct_fields__
            if name != "classes" and (theirs := getattr(self, name)) != (own := getattr(ours, name))
        ]

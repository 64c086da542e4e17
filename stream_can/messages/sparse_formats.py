"""Probabilities that list the likeliest of thousands of classes."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Protocol

import msgspec
import numpy as np

from stream_can.errors import UnknownClass
from stream_can.messages.probability_formats import BadMessage, LabelScore, Probs
from stream_can.method.class_names import json_name
from stream_can.method.rounding import explained
from stream_can.method.rows import TOLERANCE

__all__ = ["Listed", "ListedForms", "Numbering"]


class Numbering(Protocol):
    """Assigns numbers to the classes of sparse rows as they appear."""

    @property
    def numbered(self) -> bool:
        """Whether classes are numbers themselves."""

    def checked(self, row: Mapping[Any, float]) -> Any:
        """Check a row and number its classes; InvalidPrediction where it is invalid."""

    def number(self, name: Any) -> int:
        """Return the number of a class; UnknownClass where it is invalid."""

    def known(self, text: str) -> Any:
        """Find a class by its name as text; UnknownClass where no row or label had it."""


class Listed(msgspec.Struct, gc=False):
    """The likeliest of thousands of classes: an object, or a list of label and score."""

    as_object: bool

    def of(self, row: dict[Any, float]) -> Any:
        """Convert a row to this form."""
        if self.as_object:
            return row
        largest = sorted(row.items(), key=itemgetter(1), reverse=True)
        return [{"label": name, "score": p} for name, p in largest]


class ListedForms:
    """Parses rows of the likeliest of thousands of classes.

    Parameters
    ----------
    numbered
        Whether classes are numbers, which are text as the keys of a JSON object.
    """

    m = 0
    """Number of declared classes."""

    def __init__(self, *, numbered: bool) -> None:
        self._numbered = numbered
        self.names_size = 0

    def parse(self, probs: Probs) -> tuple[dict[Any, float], Listed]:
        """Return the row by class, and its form.

        Raises
        ------
        BadMessage
            No classes are named, or one twice.
        UnknownClass
            A class is not a number, but classes are numbers.
        """
        if isinstance(probs, dict):
            row = {self.name_of(name): p for name, p in probs.items()}
            return _divided(row), Listed(as_object=True)
        if isinstance(probs, float) or not all(isinstance(entry, LabelScore) for entry in probs):
            raise BadMessage(
                "no classes are named, expected {class: probability}, or a list of label and score"
            )
        row = {self.name_of(entry.label): entry.score for entry in probs}  # type: ignore[union-attr]
        if len(row) < len(probs):
            raise BadMessage(f"{len(probs)} entries for {len(row)} classes")
        return _divided(row), Listed(as_object=False)

    def name_of(self, name: Any) -> Any:
        """The class of a name in JSON."""
        if not self._numbered:
            return json_name(name)
        text = str(name)
        if not text.isascii() or not text.isdigit() or (text != "0" and text[0] == "0"):
            raise UnknownClass(f"{name!r} is none of the classes, which are numbers")
        return int(text)


def _divided(row: dict[Any, float]) -> dict[Any, float]:
    """A row divided by its sum, where that is above 1 and rounding explains it."""
    total = sum(row.values())
    if (
        total <= 1 + TOLERANCE
        or not explained(np.array([[*row.values()]]), np.array([total])).all()
    ):
        return row
    return {name: p / total for name, p in row.items()}

"""Forms of probabilities in messages, and of answers.

- an array, in the order of the classes
- an object {class: probability}
- a list of {"label": class, "score": probability}
- with two classes, one number: the probability of the second

What `platforms` describes is read as one of these, and answered as it came.

Object and list may hold only the k largest. The rest of 1 then goes to the other classes in
proportion to the training prior, and the answer is its own k largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError, UnknownClass
from stream_can.method.class_names import json_name
from stream_can.method.classes import ClassIndex
from stream_can.method.rows import TOLERANCE

__all__ = [
    "BadMessage",
    "Form",
    "Forms",
    "LabelScore",
    "PlatformForm",
    "Probs",
]


class BadMessage(StreamCANError, ValueError):
    """A message cannot be read, or its output not sent; the text names the field."""

    full_name = "stream_can.messages.BadMessage"


class LabelScore(msgspec.Struct, gc=False):
    """A class and its probability, as model servers write them."""

    label: str | int | float | bool
    score: float


Probs = list[float] | dict[str, float] | float | list[LabelScore]
"""Decoded probabilities, in any of the forms."""


class Form(Protocol):
    """The form of an answer."""

    def of(self, row: Any) -> Any:
        """Convert a row to this form."""


class Number(msgspec.Struct, gc=False):
    """The probability of the second of two classes."""

    def of(self, row: list[float]) -> float:
        """Convert a row to this form."""
        return row[1]


class Named(msgspec.Struct, gc=False):
    """An object of all classes, in its original order."""

    columns: dict[str, int]

    def of(self, row: list[float]) -> dict[str, float]:
        """Convert a row to this form."""
        return {name: row[i] for name, i in self.columns.items()}


class Largest(msgspec.Struct, gc=False):
    """The k largest in descending order: an object, or a list of label and score."""

    k: int
    names: Sequence[Any]
    as_object: bool

    def of(self, row: list[float]) -> Any:
        """Convert a row to this form."""
        best = nlargest(self.k, range(len(row)), key=row.__getitem__)
        if self.as_object:
            return {self.names[i]: row[i] for i in best}
        return [{"label": self.names[i], "score": row[i]} for i in best]


class PlatformForm(msgspec.Struct, gc=False):
    """An ordinary form, written as a platform does."""

    plain: Any
    back: Callable[[Any], Any]

    def of(self, row: Any) -> Any:
        """Convert a row to this form."""
        return self.back(row if self.plain is None else self.plain.of(row))


class Forms:
    """Parses probabilities in every form.

    Parameters
    ----------
    classes
        Names of the classes in column order.
    train
        Training prior, shape (m,), for the rest beyond the k largest; uniform by default.
    of_scores
        Whether each number is a score of its own; then none may be missing.
    logits
        Whether numbers are logits; rows are too, and none may be missing.
    """

    def __init__(
        self,
        classes: Sequence[Any],
        train: NDArray[np.float64] | None = None,
        *,
        of_scores: bool = False,
        logits: bool = False,
    ) -> None:
        self._of_scores, self._logits = of_scores, logits
        self._words = ("scores", "labels") if of_scores else ("probabilities", "classes")
        if logits:
            self._words = ("logits", self._words[1])
        self._classes, self._names = classes, [json_name(name) for name in classes]
        self.m = len(classes)
        self._index = ClassIndex(classes, "json")
        self._train = [1.0 / max(self.m, 1)] * self.m if train is None else train.tolist()

    @property
    def names_size(self) -> int:
        """Bytes of all class names in the longest of the forms."""
        return sum(len(msgspec.json.encode(name)) + 24 for name in self._names)

    def parse(self, probs: Probs) -> tuple[list[float], Form | None]:
        """Return the row and its form, None for an array.

        Raises
        ------
        BadMessage
            There are too many or too few probabilities.
        UnknownClass
            An unknown class is named.
        """
        if isinstance(probs, float):
            if self.m != 2 or self._of_scores:
                raise BadMessage(f"one number, but there are {self.m} {self._words[1]}")
            return [0.0 if self._logits else 1.0 - probs, probs], Number()
        if isinstance(probs, dict):
            known = {self._column(name): p for name, p in probs.items()}
            row = self._filled(known)
            if len(known) < self.m:
                return row, Largest(len(known), self._names, as_object=True)
            return row, Named({name: self._index[name] for name in probs})
        if probs and isinstance(probs[0], LabelScore):
            known = {self._column(entry.label): entry.score for entry in probs}
            if len(known) < len(probs):
                raise BadMessage(f"{len(probs)} entries for {len(known)} {self._words[1]}")
            return self._filled(known), Largest(len(known), self._classes, as_object=False)
        if len(probs) != self.m:
            numbers, names = self._words
            raise BadMessage(f"{len(probs)} {numbers} for {self.m} {names}")
        return probs, None  # type: ignore[return-value]

    def _column(self, name: Any) -> int:
        try:
            return self._index[name]
        except UnknownClass:
            raise UnknownClass(f"{name!r} is none of the {self.m} {self._words[1]}") from None

    def _filled(self, known: dict[int, float]) -> list[float]:
        """Build a row from some columns; the others share the rest of 1."""
        m = self.m
        if len(known) == m:
            return [known[i] for i in range(m)]
        if not known:
            raise BadMessage("no probability of any class")
        if self._of_scores or self._logits:
            missing = next(self._names[i] for i in range(m) if i not in known)
            number = "logit" if self._logits else "score"
            kind = "label" if self._of_scores else "class"
            raise BadMessage(
                f"no {number} of {kind} {missing!r}, expected one of each of {m} {self._words[1]}"
            )
        remainder, least = 1 - sum(known.values()), min(known.values())
        if remainder > (m - len(known)) * least + TOLERANCE:
            missing = next(self._names[i] for i in range(m) if i not in known)
            raise BadMessage(
                f"no probability for class {missing!r}, and those given are not the largest: "
                f"they leave {remainder:.6g} to {m - len(known)} others"
            )
        train = self._train
        share = max(remainder, 0.0) / sum(train[i] for i in range(m) if i not in known)
        return [known[i] if i in known else share * train[i] for i in range(m)]

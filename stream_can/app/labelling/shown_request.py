"""A label request as the page shows it, without the classifier's own answer."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

from stream_can.app.labelling.requests import OpenRequests, Pending
from stream_can.messages.codecs.codec import ASKED

KEYS = 9
"""Number of classes with a key."""
OF_CLASSIFIER = re.compile(
    r"pred|prob|score|confid|logit|class_?id|(^|[^a-z])(label|class|top|best|argmax)s?(_?[0-9k])?([^a-z]|$)",
    re.I,
)
"""Names of fields that say what a classifier says."""
LONGEST_TEXT = 10_000
"""Maximum characters of a message shown unformatted."""


def shown(request: Pending, pending: OpenRequests) -> str:
    """A request for the page, as JSON; its message without the probabilities, and without other
    fields that say what the classifier says, which come under ``said``.

    A message that cannot be parsed is shown as text, so it does not block the others.
    """
    likeliest = sorted(range(len(request.says.probs)), key=lambda k: -request.says.probs[k])[:KEYS]
    text = bytes(request.says.message).decode(errors="replace")
    names = {} if request.says.classes is None else {"classes": [*map(str, request.says.classes)]}
    shown_fields = names | {
        "partition": request.partition,
        "offset": request.offset,
        "id": request.says.id,
        "reason": request.says.reason,
        "time": request.says.time,
        "likeliest": [[k, request.says.probs[k]] for k in likeliest],
    }
    try:
        message = json.loads(
            text, parse_int=exact, parse_float=exact, parse_constant=str, strict=False
        )
        for path in (pending.probs_path, pending.raw_path, [ASKED]):
            forget(message, path)
        if isinstance(message, dict):
            hidden_fields = _says_of_classifier(
                message, {*map(str, names.get("classes", pending.classes))}
            )
            for field in hidden_fields:
                del message[field]
            return json.dumps(shown_fields | {"message": message, "said": hidden_fields})
    except (ValueError, RecursionError):  # nested too deeply
        pass
    return json.dumps(shown_fields | {"message": {"message": text[:LONGEST_TEXT]}})


def _says_of_classifier(message: dict[str, Any], classes: set[str]) -> dict[str, Any]:
    """Fields that say which class it is, or how sure the classifier is: whoever saw them would
    answer as it does."""
    return {
        field: value
        for field, value in message.items()
        if OF_CLASSIFIER.search(field)
        and (str(value) in classes or isinstance(value, int | float | list | dict))
    }


def exact(text: str) -> float | str:
    """A JSON number, or its text where a browser would show another number.

    A browser only has floats: it shows 2**53 + 1 as 2**53, and does not know 1e999.
    """
    number = float(text)  # any length; int() is limited to 4,300 digits
    try:
        same = math.isfinite(number) and Decimal(text) == Decimal(repr(number))
    except ArithmeticError:  # exponent out of Decimal's range
        same = False
    return number if same else text


def forget(message: Any, path: list[str] | None) -> None:
    """Remove the value at a path of an object, if there."""
    *above, last = path or [""]
    for name in above:
        message = message.get(name) if isinstance(message, dict) else None
    if isinstance(message, dict):
        message.pop(last, None)

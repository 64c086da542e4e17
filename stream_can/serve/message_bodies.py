"""Bodies of several messages: an object, an array, or lines; answers come in the same form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from stream_can.messages.counting import elements
from stream_can.messages.faults import UNREADABLE, json_fault
from stream_can.serve.http_answer import LINES, HttpAnswer, HttpProblem
from stream_can.serve.service import MOST_MESSAGES

_lines = re.compile(rb"\S[^\n]*").finditer
"""Lines that are not blank."""
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def messages_in(body: bytes, kind: bytes) -> tuple[Sequence[bytes], str]:
    """Split a body into messages: an object, an array, or lines; also return which.

    Raises
    ------
    HttpProblem
        It is none of these.
    """
    text = body.strip()
    first = text[:1]
    if first == b"[":
        require_few(elements(text, MOST_MESSAGES))
        try:
            messages: Sequence[bytes] = [bytes(element) for element in _read_list(text)]
        except UNREADABLE:
            raise HttpProblem(400, f"not JSON: {json_fault(text)}") from None
        form = "list"
    elif b"ndjson" in kind or b"jsonl" in kind or (b"\n" in text and _one_line(text)):
        messages, form = [line[0] for line in islice(_lines(text), MOST_MESSAGES + 1)], "lines"
    else:
        messages, form = [text], "one"
    if not text or not messages:
        raise HttpProblem(400, "the body has no message")
    require_few(len(messages))
    return messages, form


def require_few(n: int) -> None:
    """Raise HttpProblem if these are more messages than a request may have."""
    if n > MOST_MESSAGES:
        raise HttpProblem(413, f"a request has {MOST_MESSAGES} messages at most")


def _one_line(text: bytes) -> bool:
    """Whether the first line is a complete object."""
    try:
        msgspec.json.decode(text.partition(b"\n")[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def together(messages: Sequence[bytes], header: tuple[bytes, bytes], form: str) -> HttpAnswer:
    """Join messages in the form in which the request had them."""
    headers = (header,)
    if form == "one":
        return HttpAnswer(200, messages[0], headers=headers)
    if form == "list":
        return HttpAnswer(200, b"[" + b",".join(messages) + b"]", headers=headers)
    return HttpAnswer(200, b"\n".join(messages) + b"\n", LINES, headers)

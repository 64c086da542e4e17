"""The labelling page on 127.0.0.1, for whoever knows the token in its address.

========================= ========================================================
GET  /TOKEN/              the page
GET  /TOKEN/requests      the newest requests as JSON, or the oldest with oldest=1; without
                          skip=PARTITION-OFFSET; says which keep=PARTITION-OFFSET are open
GET  /TOKEN/class         200 where there is a class of this name=, 204 where not
POST /TOKEN/answer        {"partition", "offset", "label": index of the class; a list of indices
                          for multilabel rows; also a name of sparse rows}
========================= ========================================================

Pages of other origins can neither read nor answer: the address has a secret, the Host header must
name this machine, and a write must come from this origin as JSON, which browsers send to another
origin only after a preflight request.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from importlib import resources
from urllib.parse import parse_qs

import msgspec

from stream_can.app.labelling.requests import Chosen, NotOpen, NotWritten, OpenRequests
from stream_can.app.labelling.shown_request import shown
from stream_can.app.server import Handler, NoPort, Server
from stream_can.errors import UnknownClass
from stream_can.row_kinds import row_kind

SHOWN = 20
"""Requests sent to the page at once."""
LARGEST_ANSWER = 10_000
SIZE = re.compile(r"[0-9]{1,5}")
SKIPPED = re.compile(r"([0-9]{1,9})-([0-9]{1,18})")
REQUEST_SECONDS = 60.0
"""Time limit for writing an answer to the brokers."""


class PageAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """An answer from the page."""

    partition: int
    offset: int
    label: Chosen


class LabellingServer:
    """Serves the page in its own thread, until ``close``.

    Parameters
    ----------
    pending
        The requests.
    port
        Port 0 takes a free one, see ``address``.
    percentages
        Whether the page shows the classifier's probabilities at once.

    Raises
    ------
    NoPort
        The port is not available.
    """

    def __init__(self, pending: OpenRequests, port: int = 0, *, percentages: bool = False) -> None:
        self.token = secrets.token_urlsafe(24)
        try:
            self._server = Server(
                "127.0.0.1",
                port,
                _handler(pending, self.token, percentages),
                request_seconds=REQUEST_SECONDS,
            )
        except (OSError, OverflowError) as error:
            raise NoPort(f"port {port}: {error}") from error
        self.address = f"http://127.0.0.1:{self._server.number}/{self.token}/"

    def close(self) -> None:
        """Stop listening."""
        self._server.close()


def places(texts: list[str]) -> set[tuple[int, int]]:
    """Parse partitions and offsets; invalid ones are skipped."""
    matches = [SKIPPED.fullmatch(text) for text in ",".join(texts).split(",")]
    return {(int(match[1]), int(match[2])) for match in matches if match is not None}


def _handler(pending: OpenRequests, token: str, percentages: bool) -> type[Handler]:
    page = resources.files(__package__).joinpath("page.html").read_text("utf-8")
    classes = tuple(pending.classes)

    class PageHandler(Handler):
        def do_GET(self) -> None:  # noqa: N802
            match self._asked_for():
                case "":
                    nonce = secrets.token_urlsafe(16)
                    shows = "true" if percentages else "false"
                    text = page.replace("NONCE", nonce).replace("PERCENTAGES", shows)
                    self._say(200, text, "text/html", nonce)
                case "requests":
                    query = parse_qs(self.path.partition("?")[2])
                    skip, keep = (places(query.get(name, [])) for name in ("skip", "keep"))
                    n, first = pending.first(SHOWN, oldest="oldest" in query, without=skip)
                    still_open = json.dumps([f"{p}-{o}" for p, o in pending.still_open(keep)])
                    names = json.dumps([str(c) for c in classes])
                    requests = ", ".join(shown(request, pending) for request in first)
                    kind = row_kind(pending.rows)
                    of_rows = {"several": kind.several_labels, "declared": kind.declares_classes}
                    document = f'{{"open": {n}, {json.dumps(of_rows)[1:-1]}, "classes": {names}'
                    document += f', "kept": {still_open}, "requests": [{requests}]}}'
                    self._say(200, document, "application/json")
                case "class":
                    (name,) = parse_qs(self.path.partition("?")[2]).get("name", [""])[:1]
                    self._say(200 if pending.knows(name) else 204, "")
                case _:
                    self._say(404, "not found\n")

        def do_POST(self) -> None:  # noqa: N802
            size = self.headers.get("Content-Length", "")
            is_same_origin = self.headers.get("Origin") == f"http://{self.headers.get('Host')}"
            is_json = self.headers.get_content_type() == "application/json"
            if self._asked_for() != "answer" or not is_same_origin or not is_json:
                self._say(404, "not found\n")
            elif not SIZE.fullmatch(size) or int(size) > LARGEST_ANSWER:
                self._say(
                    400, f"Content-Length {size[:20]!r}: expected at most {LARGEST_ANSWER} bytes\n"
                )
            else:
                self._say(*answered(pending, self.rfile.read(int(size))))

        def _asked_for(self) -> str | None:
            """Path after the token; None without the token or under another host name."""
            _, given_token, *parts = [*self.path.partition("?")[0].split("/"), ""]
            number = self.connection.getsockname()[1]
            is_this_machine = self.headers.get("Host") in (
                f"127.0.0.1:{number}",
                f"localhost:{number}",
            )
            is_authorised = hmac.compare_digest(
                given_token.encode(errors="replace"), token.encode()
            )
            return parts[0] if is_this_machine and is_authorised and len(parts) == 2 else None

        def _say(self, code: int, text: str, kind: str = "text/plain", nonce: str = "") -> None:
            policy = (
                f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
                "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )
            self.respond(code, f"{kind}; charset=utf-8", text.encode(), policy)

    return PageHandler


def answered(pending: OpenRequests, body: bytes) -> tuple[int, str]:
    """Process an answer; return status and text."""
    try:
        answer = msgspec.json.decode(body, type=PageAnswer)
    except ValueError as error:  # invalid UTF-8, or msgspec's
        return 400, f"{error}\n"
    try:
        pending.answer(answer.partition, answer.offset, answer.label)
    except NotOpen as error:
        return 409, f"{error}\n"
    except UnknownClass as error:
        return 400, f"{error}\n"
    except NotWritten as error:
        return 503, f"the label was not written: {error}\n"
    return 200, "ok\n"

"""App: the server as an ASGI application, with its routes.

================================= ==========================================================
POST /correct                     corrects predictions
POST /labels                      takes labels; answers once they are stored
POST /v2/models/NAME/infer        /correct in the open inference protocol
GET  /v2, /v2/models/NAME         metadata
GET  /v2/health/live, /ready      liveness and readiness
GET  /                            status page, with /status.json
GET  /metrics, /livez, /readyz    as for a worker
GET  /openapi.json                the API's description
================================= ==========================================================

Except for pages, every answer is JSON; an error is ``{"error": reason}``.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from stream_can.app.port import pages
from stream_can.messages.counting import elements
from stream_can.messages.faults import UNREADABLE, json_fault
from stream_can.row_kinds import row_kind
from stream_can.serve.inference import BadRequest, Inference, metadata
from stream_can.serve.openapi import description
from stream_can.serve.protocol import Bounded
from stream_can.serve.service import (
    MOST_MESSAGES,
    Answers,
    Refused,
    Service,
    TooMany,
    Unavailable,
)
from stream_can.version import __version__

__all__ = ["LARGEST_BODY", "App"]

log = logging.getLogger(__name__)

LARGEST_BODY = 8 << 20
"""Maximum size of a request."""
MOST_REQUESTS = 1000
"""Maximum number of concurrent requests; more are answered with 503."""
MOST_BODIES = 128 << 20
"""Maximum bytes of all bodies being received; more are answered with 503."""
MOST_UNREAD = 64 << 20
"""Maximum bytes of unread answers; beyond it requests are answered with 503."""
PLAIN = (b"x-content-type-options", b"nosniff")
SECURE = (
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
JSON, LINES = b"application/json", b"application/x-ndjson"
OPEN = ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready")
"""Paths that need no token."""
LOCAL = ("127.0.0.1", "localhost", "[::1]")
ONCE = (b"host", b"origin", b"authorization")
"""Headers with credentials, which must not occur twice: programs differ in which one counts."""

Headers = dict[bytes, bytes]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_lines = re.compile(rb"\S[^\n]*").finditer
"""Lines that are not blank."""
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode


class HttpAnswer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class HttpProblem(Exception):
    """An error response."""

    def __init__(self, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(why)
        self.answer = HttpAnswer(status, _write({"error": why}), headers=headers)


def too_large() -> HttpProblem:
    """The body is larger than what is read."""
    return HttpProblem(413, f"a body has {LARGEST_BODY} bytes at most", (b"connection", b"close"))


class App:
    """The ASGI application.

    Parameters
    ----------
    service
        The service behind it.
    """

    def __init__(self, service: Service) -> None:
        self.service, self.settings = service, service.settings
        self.connections: Collection[Any] = ()
        """Number of open connections, where known: requests of several are batched."""
        self._open, self._bodies = 0, 0
        token = self.settings.token
        self._token = None if token is None else token.encode()
        host = self.settings.http_host
        self._names = {*LOCAL, f"[{host}]" if ":" in host else host}
        """Names of this machine, accepted where no token is required."""
        health, registry = service.health, service.metrics.registry
        self._pages, policy = pages(health, registry, service.status_report.json)
        self._policy = (*SECURE, (b"content-security-policy", policy.encode()))
        self._description = _write(description(service))
        self._durable = self.settings.durable == "predictions"

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        self._open += 1
        try:
            if self._open > MOST_REQUESTS:
                raise HttpProblem(503, "too many requests at once", (b"retry-after", b"1"))
            if Bounded.unread > MOST_UNREAD and scope["path"] not in OPEN:
                raise HttpProblem(503, "too many answers are not read", (b"retry-after", b"1"))
            answer = await self._answer(scope, receive)
        except HttpProblem as problem:
            answer = problem.answer
        except TooMany as error:
            answer = HttpAnswer(413, _write({"error": str(error)}))
        except Refused as error:
            answer = HttpAnswer(422, _write({"error": str(error)}))
        except BadRequest as error:
            answer = HttpAnswer(400, _write({"error": str(error)}))
        except Unavailable as error:
            answer = HttpAnswer(
                503, _write({"error": str(error)}), headers=((b"retry-after", b"1"),)
            )
        except asyncio.CancelledError:  # the server stops and waits no longer
            answer = HttpProblem(503, "the server ends", (b"connection", b"close")).answer
        except ConnectionError:
            return
        except Exception:
            log.exception("%s %a: this is a bug", scope["method"], scope["path"])
            answer = HttpAnswer(500, _write({"error": "a fault of the server; its log has more"}))
        finally:
            self._open -= 1
        body = answer.body
        head = [(b"content-type", answer.kind), (b"content-length", b"%d" % len(body))]
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [*head, PLAIN, *answer.headers],
            }
        )
        await send(
            {"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body}
        )

    async def _answer(self, scope: Mapping[str, Any], receive: Receive) -> HttpAnswer:
        path, method = scope["path"], scope["method"]
        headers: Headers = dict(scope["headers"])
        if len(headers) < len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            if twice := [name for name in ONCE if names.count(name) > 1]:
                raise HttpProblem(400, f"header {twice[0].decode()}: expected once")
        self._require_allowed(path, headers)
        if path == "/correct":
            body = await self._body(method, headers, receive)
            messages, form = messages_in(body, headers.get(b"content-type", b""))
            return together(*await self._corrected(messages), form)
        if path == "/labels":
            body = await self._body(method, headers, receive)
            messages, _ = messages_in(body, headers.get(b"content-type", b""))
            statuses = await self.service.labels(messages)
            counts = {name: statuses.count(name) for name in self.service.statuses}
            return HttpAnswer(200, _write({**counts, "statuses": statuses}))
        if path == "/v2" or path.startswith("/v2/"):
            # Split before decoding: a name may contain a slash or a percent sign.
            parts = [unquote(part) for part in scope["raw_path"].decode("latin-1").split("/")[2:]]
            return await self._inference(path, parts, method, headers, receive)
        if path == "/openapi.json":
            self._require_get(method)
            return HttpAnswer(200, self._description)
        page = self._pages.get(path)
        if page is None:
            raise HttpProblem(404, f"there is no {path[:100]!r}; /openapi.json says what there is")
        self._require_get(method)
        accept = headers.get(b"accept", b"").decode("latin-1")
        loop = asyncio.get_running_loop()
        code, kind, content = await loop.run_in_executor(None, page, accept)
        return HttpAnswer(code, content, kind.encode(), self._policy)

    async def _inference(
        self, path: str, parts: list[str], method: str, headers: Headers, receive: Receive
    ) -> HttpAnswer:
        """Handle a path under /v2."""
        service, settings = self.service, self.settings
        match parts:
            case []:
                self._require_get(method)
                about = {"name": "stream_can", "version": __version__, "extensions": []}
                return HttpAnswer(200, _write(about))
            case ["health", "live"]:
                self._require_get(method)
                is_live = service.health.live
                return HttpAnswer(200 if is_live else 503, _write({"live": is_live}))
            case ["health", "ready"]:
                self._require_get(method)
                is_ready = self._ready
                return HttpAnswer(200 if is_ready else 503, _write({"ready": is_ready}))
            case ["models", *_] if not (kind := row_kind(settings.rows)).declares_classes:
                raise HttpProblem(404, f"{kind.described} are no tensor; POST them to /correct")
            case ["models", model, *rest]:
                version = ""
                if rest[:1] == ["versions"] and len(rest) > 1:
                    version, rest = rest[1], rest[2:]
                if rest == ["infer"]:
                    if b"inference-header-content-length" in headers:
                        raise HttpProblem(
                            415, "binary tensors are not read here, send them as JSON"
                        )
                    body = await self._body(method, headers, receive)
                    inference = Inference(body, settings, model, version)
                    outputs, header = await self._corrected(inference.messages)
                    return HttpAnswer(200, inference.response(outputs), headers=(header,))
                if rest in ([], ["ready"]):
                    self._require_get(method)
                    if settings.model is None and model != settings.application_id:
                        raise HttpProblem(
                            404, f"model {model!r}: here is {settings.application_id!r}"
                        )
                    if rest:
                        return HttpAnswer(
                            200 if self._ready else 503, _write({"ready": self._ready})
                        )
                    m = len(service.start.classes)
                    return HttpAnswer(200, metadata(settings, model, version or None, m))
        raise HttpProblem(404, f"there is no {path[:100]!r}; /openapi.json says what there is")

    async def _corrected(self, messages: Sequence[bytes]) -> Answers:
        service = self.service
        service.require_few(len(messages))
        alone = len(self.connections) < 2
        answers = service.correct(messages) if alone else await service.correct_together(messages)
        if self._durable:
            await service.written()
        return answers

    @property
    def _ready(self) -> bool:
        health = self.service.health
        return health.ready and not health.waits_for

    # -- requirements on a request ---------------------------------------------------------------

    def _require_allowed(self, path: str, headers: Headers) -> None:
        """Raise HttpProblem without the token, or where another origin's page asks."""
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
            raise HttpProblem(403, "a page of another origin may not ask here")
        if self._token is None:
            # A DNS name that points here makes a browser treat it as the same origin.
            name = host.lower()
            hostname, _, port = name.rpartition(":")
            is_own = name in self._names or (hostname in self._names and port.isdecimal())
            if name and not is_own:
                raise HttpProblem(403, f"Host {host[:100]!r}: expected this machine's own name")
        elif path not in OPEN and not hmac.compare_digest(_secret(headers), self._token):
            raise HttpProblem(
                401,
                "send the token, as Authorization: Bearer TOKEN or as the password of Basic",
                (b"www-authenticate", b'Bearer, Basic realm="stream_can"'),
            )

    @staticmethod
    def _require_get(method: str) -> None:
        if method not in ("GET", "HEAD"):
            raise HttpProblem(405, f"{method} is not answered here", (b"allow", b"GET, HEAD"))

    async def _body(self, method: str, headers: Headers, receive: Receive) -> bytes:
        """Receive the body of a POST."""
        if method != "POST":
            raise HttpProblem(405, f"{method} is not answered here", (b"allow", b"POST"))
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise HttpProblem(415, "a body that is encoded is not read here")
        # httptools has read the number: other texts are answered with 400.
        if int(headers.get(b"content-length", 0)) > LARGEST_BODY:
            raise too_large()
        pieces, size = [], 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionAbortedError
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                self._bodies += len(pieces[-1])
                if self._bodies > MOST_BODIES:
                    raise HttpProblem(
                        503,
                        "too many large requests at once",
                        (b"retry-after", b"1"),
                        (b"connection", b"close"),
                    )
                if size > LARGEST_BODY:
                    raise too_large()
                if not message.get("more_body"):
                    return b"".join(pieces)
        finally:
            self._bodies -= size


def _secret(headers: Headers) -> bytes:
    """The token of a request."""
    scheme, _, text = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return text.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(text, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


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
        raise HttpProblem(400, "there is no message in it")
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

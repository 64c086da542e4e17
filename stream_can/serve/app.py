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
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from stream_can.app.port import pages
from stream_can.row_kinds import row_kind
from stream_can.serve.access import OPEN, Access, Headers
from stream_can.serve.bounded_connection import BoundedConnection
from stream_can.serve.http_answer import LARGEST_BODY, HttpAnswer, HttpProblem, too_large
from stream_can.serve.inference import Inference, metadata
from stream_can.serve.message_bodies import messages_in, together
from stream_can.serve.openapi import description
from stream_can.serve.service import Answers, Refused, Service, TooMany, Unavailable
from stream_can.serve.tensors import BadRequest
from stream_can.version import __version__

log = logging.getLogger(__name__)

STATUSES: dict[type[Exception], int] = {TooMany: 413, Refused: 422, BadRequest: 400}
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

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_write = msgspec.json.Encoder().encode


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
        self._access = Access(self.settings)
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
            if BoundedConnection.unread > MOST_UNREAD and scope["path"] not in OPEN:
                raise HttpProblem(
                    503, "too many answers have not been read", (b"retry-after", b"1")
                )
            answer = await self._answer(scope, receive)
        except HttpProblem as problem:
            answer = problem.answer
        except (TooMany, Refused, BadRequest) as error:
            answer = HttpProblem(STATUSES[type(error)], str(error)).answer
        except Unavailable as error:
            answer = HttpProblem(503, str(error), (b"retry-after", b"1")).answer
        except asyncio.CancelledError:  # the server stops and waits no longer
            answer = HttpProblem(503, "the server stops", (b"connection", b"close")).answer
        except ConnectionError:
            return
        except Exception:
            log.exception("%s %a: this is a bug", scope["method"], scope["path"])
            answer = HttpProblem(500, "an error of the server; see its log").answer
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
        headers = self._access.headers(scope["headers"])
        self._access.require(path, headers)
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
            raise HttpProblem(404, f"there is no {path[:100]!r}; /openapi.json lists the paths")
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
                return self._readiness()
            case ["models", *_] if not (kind := row_kind(settings.rows)).declares_classes:
                raise HttpProblem(404, f"{kind.described} are no tensor; POST them to /correct")
            case ["models", model, *rest]:
                version = ""
                if rest[:1] == ["versions"] and len(rest) > 1:
                    version, rest = rest[1], rest[2:]
                if rest == ["infer"]:
                    if b"inference-header-content-length" in headers:
                        raise HttpProblem(415, "binary tensors are not supported, send JSON")
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
                        return self._readiness()
                    m = len(service.start.classes)
                    return HttpAnswer(200, metadata(settings, model, version or None, m))
        raise HttpProblem(404, f"there is no {path[:100]!r}; /openapi.json lists the paths")

    async def _corrected(self, messages: Sequence[bytes]) -> Answers:
        service = self.service
        service.require_few(len(messages))
        alone = len(self.connections) < 2
        answers = service.correct(messages) if alone else await service.correct_together(messages)
        if self._durable:
            await service.written()
        return answers

    def _readiness(self) -> HttpAnswer:
        health = self.service.health
        is_ready = health.ready and not health.waits_for
        return HttpAnswer(200 if is_ready else 503, _write({"ready": is_ready}))

    # -- requirements on a request ---------------------------------------------------------------

    @staticmethod
    def _require_get(method: str) -> None:
        if method not in ("GET", "HEAD"):
            raise HttpProblem(405, f"{method} is not allowed here", (b"allow", b"GET, HEAD"))

    async def _body(self, method: str, headers: Headers, receive: Receive) -> bytes:
        """Receive the body of a POST."""
        if method != "POST":
            raise HttpProblem(405, f"{method} is not allowed here", (b"allow", b"POST"))
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise HttpProblem(415, "encoded bodies are not accepted")
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

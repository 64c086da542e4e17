"""RegistryConnection: requests to a schema registry, at the first of its addresses that answers."""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from stream_can.kafka.client.guards import ClientError, DeniedError, RetryError, within
from stream_can.kafka.client.registry_addresses import (
    RegistryAddress,
    origin_of,
    passwords_in,
    servers_at,
)

__all__ = ["REFUSALS", "Answer", "RegistryConnection", "RegistryDown"]

T = TypeVar("T")

ANSWER_BYTES = 8 << 20
"""Maximum size of a response; registries accept schemas of 1 MB."""
WORDS = 300
"""Maximum number of characters quoted from a response."""
REFUSALS = (400, 409, 413, 422)
"""Status codes for a schema that is not accepted."""
NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors raised by msgspec."""


class RegistryDown(RetryError):
    """No address of the registry answers."""


class _Failure(msgspec.Struct):
    error_code: int = 0
    message: str | None = None


class Answer(NamedTuple):
    """An answer of the registry."""

    url: str
    status: int
    body: bytes

    @property
    def failure(self) -> _Failure:
        """The registry's description of a failure; empty where it is not the registry's."""
        try:
            return msgspec.json.decode(self.body, type=_Failure)
        except NO_JSON:
            return _Failure()

    @property
    def is_unknown(self) -> bool:
        """Whether a 404 comes from a registry; a proxy or a wrong path gives no such code."""
        return self.status == 404 and self.failure.error_code // 100 == 404


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Sends credentials only to their own host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: http.client.HTTPMessage, newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        if req.data is not None or urlsplit(newurl).scheme not in ("http", "https"):
            return None  # a registration is not sent elsewhere
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and origin_of(newurl) != origin_of(req.full_url):
            new.remove_header("Authorization")
        return new


class RegistryConnection:
    """Requests to a schema registry; thread-safe. Parameters and errors as of `Registry`."""

    def __init__(
        self,
        urls: Sequence[str] | str,
        *,
        user: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        self.timeout = timeout
        self._servers = servers_at(urls, user, password)
        passwords = {*passwords_in(urls), *filter(None, [password])}
        encoded = {s.headers.get("Authorization", "").partition(" ")[2] for s in self._servers}
        forms = passwords | {quote(text, safe="") for text in passwords} | encoded
        self._secrets = sorted(filter(None, forms), key=len, reverse=True)
        try:
            context = ssl.create_default_context(cafile=ca)
        except OSError as error:  # includes ssl.SSLError
            raise DeniedError(f"schema_registry_ca: {ca}: {error.strerror or error}") from None
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _Redirects()
        )

    @property
    def urls(self) -> list[str]:
        """Addresses, without credentials."""
        return [server.url for server in self._servers]

    def ask(self, path: str, body: bytes | None = None) -> Answer:
        """First answer of the addresses: 200, 404 or, to a body, a refusal."""
        failures = []
        for server in list(self._servers):
            try:
                answer = within(
                    self.timeout, self.exchange, server, path, body, otherwise=RetryError
                )
                if answer.status in (200, 404) or (body and answer.status in REFUSALS):
                    return answer
                raise RetryError(f"answers {answer.status}: {self.words(answer)}")
            except RetryError as error:
                failures.append(f"{server.url}: {error}")
                if self._servers[0] == server:  # start with another one next time
                    self._servers = [*self._servers[1:], server]
        raise RegistryDown(f"no schema registry answers: {'; '.join(failures)}")

    def exchange(self, server: RegistryAddress, path: str, body: bytes | None) -> Answer:
        """Send one request and read its response."""
        request = urllib.request.Request(server.url + path, body, server.headers)
        try:
            try:
                reply = self._opener.open(request, timeout=self.timeout)
            except urllib.error.HTTPError as error:
                reply = error
            with reply:
                answer = Answer(server.url, reply.status, self._body_of(reply))
                at = reply.url
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise self._failure(server, error) from None
        if answer.status in (401, 403):
            raise DeniedError(self._denial(server, answer, at))
        return answer

    def _body_of(self, reply: Any) -> bytes:
        deadline, body = time.monotonic() + self.timeout, b""
        while chunk := reply.read1(1 << 16):
            body += chunk
            if len(body) > ANSWER_BYTES:
                raise RetryError(f"an answer of more than {ANSWER_BYTES >> 20} MiB")
            if time.monotonic() > deadline:
                raise TimeoutError
        return body

    def _failure(self, server: RegistryAddress, error: Exception) -> ClientError:
        reason = getattr(error, "reason", None)
        cause = reason if isinstance(reason, Exception) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            return DeniedError(
                f"the certificate of the schema registry {server.url} is not trusted:"
                f" {cause.verify_message}; schema_registry_ca names the authority to trust"
            )
        if isinstance(cause, TimeoutError):
            return RetryError(f"no answer within {self.timeout:g} s")
        words = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return RetryError(self.shortened(words))

    def _denial(self, server: RegistryAddress, answer: Answer, at: str) -> str:
        """Describe a 401 or 403."""
        has_credentials = "Authorization" in server.headers
        refusal = (
            f"the schema registry {server.url} refuses us: {answer.status} {self.words(answer)}"
        )
        if origin_of(at) != origin_of(server.url):
            where = "{}://{}:{}".format(*origin_of(at))
            return f"{refusal}; it redirects to {where}, where credentials do not go: name that one"
        if answer.status == 403 and has_credentials:
            return f"{refusal}; give schema_registry_user the right to read and register schemas"
        remedy = "check" if has_credentials else "give"
        return f"{refusal}; {remedy} schema_registry_user and schema_registry_password"

    def decoded(self, answer: Answer, kind: type[T]) -> T:
        """Decode an answer; RetryError where it is none of a schema registry."""
        if answer.status != 200:
            raise RetryError(
                f"{answer.url}: answers {answer.status}: {self.words(answer)}; is it the address"
                " of a schema registry's API?"
            )
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except NO_JSON:
            text = self.shortened(answer.body[: 4 * WORDS].decode(errors="replace"))
            raise RetryError(f"{answer.url}: no answer of a schema registry: {text}") from None

    def words(self, answer: Answer) -> str:
        """The registry's description of a failure."""
        text = answer.failure.message or answer.body[: 4 * WORDS].decode(errors="replace")
        return self.shortened(text) or http.client.responses.get(answer.status, "no words")

    def shortened(self, text: str) -> str:
        """A text of the registry on one line, cut to `WORDS` characters, without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= WORDS else f"{text[:WORDS]}..."

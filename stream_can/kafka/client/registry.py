"""Client of a schema registry with Confluent's REST API: look up and register schemas.

Its errors belong to the family in guards.py, so that the worker handles them in the same way:

ClientError
├── RetryError     down, slow or overloaded: repeat the call later
├── DeniedError    credentials or certificate; the message says what to change
├── UnknownSchema  the registry does not have the schema
└── RefusedSchema  the registry does not accept the schema; the message quotes it
"""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from typing import IO, Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec

from stream_can.kafka.client.guards import ClientError, DeniedError, RetryError, within

Kind = Literal["AVRO", "PROTOBUF", "JSON"]
T = TypeVar("T")

ANSWER_BYTES = 8 << 20
"""Maximum size of a response; registries accept schemas of 1 MB."""
AGAIN_SECONDS = 5.0
"""Seconds for which a negative answer is cached."""
AT_ONCE_SECONDS = (0.1, 0.4)
"""Pauses in seconds before a refused schema is sent again."""
REFERENCES = 200
"""Maximum number of schemas that one refers to, directly or not."""
FAILED = 10_000
"""Maximum number of cached negative registry answers."""
LARGEST_ID = 2**31 - 1
"""Largest id: a Java int. Some registries answer to larger ones as if unknown."""
WORDS = 300
"""Maximum number of characters quoted from a response."""
REFUSALS = (400, 409, 413, 422)
"""Status codes for a schema that is not accepted."""
NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors raised by msgspec."""
TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryDown(RetryError):
    """No address of the registry answers."""


class UnknownSchema(ClientError):
    """The registry does not have a schema, or not all that it refers to."""

    full_name = "stream_can.kafka.UnknownSchema"


class RefusedSchema(ClientError):
    """The registry does not accept a schema; the message quotes it."""

    full_name = "stream_can.kafka.RefusedSchema"


class Reference(msgspec.Struct, frozen=True):
    """A schema that another one refers to."""

    name: str
    """Name used by the other schema: full record name (Avro), file (Protobuf), URL (JSON)."""
    subject: str
    version: int


class RegisteredSchema(NamedTuple):
    """A schema held by the registry."""

    kind: Kind
    text: str
    references: Mapping[str, str] = {}
    """Texts of all schemas that it refers to, by name, each after those that it refers to."""
    direct: tuple[Reference, ...] = ()
    """Its direct references, to be passed to `Registry.register` with its text."""


class _Schema(msgspec.Struct):
    schema: str
    schemaType: str | None = None  # noqa: N815, the registry's name
    references: list[Reference] | None = None


class _Id(msgspec.Struct):
    id: int


class _Verdict(msgspec.Struct):
    is_compatible: bool
    messages: list[str] | None = None
    reason: str | None = None  # Apicurio's for messages


class _Failure(msgspec.Struct):
    error_code: int = 0
    message: str | None = None


class _Answer(NamedTuple):
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


class _Server(NamedTuple):
    """An address of the registry."""

    url: str
    """Without credentials."""
    headers: dict[str, str]


class Registry:
    """A caching client of a schema registry; thread-safe.

    Parameters
    ----------
    urls
        Addresses of the registry's API, tried in turn while one does not answer; a text may hold
        several, separated by commas. Each may carry ``user:password@``.
    user, password
        Credentials (HTTP Basic) for every address that carries none of its own.
    ca
        PEM file of the trusted certificate authority, instead of the system's.
    timeout
        Time limit of a request in seconds.

    Raises
    ------
    ValueError
        An address is invalid.
    DeniedError
        The file cannot be read.
    """

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
        self._asking = threading.Lock()
        self._schemas: dict[int | uuid.UUID, RegisteredSchema] = {}
        self._ids: dict[tuple[Any, ...], int] = {}
        self._failed: dict[Any, tuple[float, ClientError]] = {}
        """For each question until when its answer is cached, and the answer."""

    def __repr__(self) -> str:
        return f"Registry({', '.join(server.url for server in self._servers)})"

    def schema(self, id: int) -> RegisteredSchema:
        """The schema of an id; positive answers are cached.

        Raises
        ------
        UnknownSchema, RetryError, DeniedError
            A negative answer is cached for `AGAIN_SECONDS`.
        """
        if not 0 <= id <= LARGEST_ID:
            raise UnknownSchema(f"{id} is no id of a schema, expected 0 to {LARGEST_ID}")
        return self._schema(id, f"/schemas/ids/{id}", f"schema id {id}")

    def schema_by_guid(self, guid: uuid.UUID) -> RegisteredSchema:
        """The schema of a GUID; errors as for `schema`.

        Newer Confluent clients write it into the header ``__value_schema_id``: a byte 1, the 16
        bytes of ``guid.bytes`` and, for Protobuf, the message indexes. Registries without GUIDs
        (Apicurio 2) answer that it is unknown.
        """
        return self._schema(guid, f"/schemas/guids/{guid}", f"schema GUID {guid}")

    def ping(self) -> None:
        """Raise RetryError or DeniedError where the registry does not answer, or denies access."""
        self._ask("/schemas/types")

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Current id and schema of a subject's newest version.

        Raises
        ------
        UnknownSchema, RetryError, DeniedError
            The subject has no version.
        """
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if answer.is_unknown:
            words = self._words(answer)
            raise UnknownSchema(f"the schema registry has no subject {subject!r}: {words}")
        id = self._decoded(answer, _Id).id
        return id, self.schema(id)

    def register(
        self, subject: str, kind: Kind, text: str, references: Sequence[Reference] = ()
    ) -> int:
        """Register a schema under a subject, unless it is there already; return its id.

        Raises
        ------
        RefusedSchema
            Incompatible with earlier versions, or invalid; cached for `AGAIN_SECONDS`.
        RetryError, DeniedError
        """
        key = subject, kind, text, tuple(references)
        if (known := self._ids.get(key)) is not None:
            return known
        with self._asking:
            if (known := self._ids.get(key)) is not None:
                return known
            self._remembered(key)
            path = f"/subjects/{quote(subject, safe='')}/versions"
            for pause in (*AT_ONCE_SECONDS, None):
                answer = self._ask(path, _body(kind, text, references))
                # A reference may be unknown.
                refused = answer.status in REFUSALS or answer.is_unknown
                # While another worker registers the same schema, the registry may say that the
                # subject exists already (Apicurio does); a moment later it returns the same id.
                if not refused or pause is None:
                    break
                time.sleep(pause)
            if refused:
                error = RefusedSchema(
                    f"the schema registry refuses a schema for the subject {subject!r}:"
                    f" {self._words(answer)}"
                )
                self._failed[key] = time.monotonic() + AGAIN_SECONDS, error
                raise error
            self._ids[key] = self._decoded(answer, _Id).id
            return self._ids[key]

    def compatible(
        self, subject: str, kind: Kind, text: str, references: Sequence[Reference] = ()
    ) -> list[str]:
        """Why `register` would be refused, quoting the registry; empty where it would not be.

        Registers and caches nothing. The subject's compatibility rule applies; without a version
        every schema is compatible.

        Raises
        ------
        RetryError, DeniedError
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        answer = self._ask(path, _body(kind, text, references))
        if answer.is_unknown:
            return []
        if answer.status in REFUSALS:
            return [self._words(answer)]
        verdict = self._decoded(answer, _Verdict)
        if verdict.is_compatible:
            return []
        reasons = verdict.messages or [verdict.reason or "not compatible"]
        return [self._short(reason) for reason in reasons]

    def _schema(self, key: int | uuid.UUID, path: str, title: str) -> RegisteredSchema:
        if (known := self._schemas.get(key)) is not None:
            return known
        with self._asking:
            if (known := self._schemas.get(key)) is not None:
                return known
            self._remembered(key)
            try:
                # A registry without GUIDs has no code for it.
                stored = self._found(path, title, any_404=isinstance(key, uuid.UUID))
                kind = stored.schemaType or "AVRO"
                if kind not in ("AVRO", "PROTOBUF", "JSON"):
                    raise UnknownSchema(f"{title} is of the kind {kind!r}, which is not read")
                texts: dict[str, str] = {}
                self._resolve(stored, title, texts, {})
            except UnknownSchema as error:
                self._failed[key] = time.monotonic() + AGAIN_SECONDS, error
                raise
            schema = RegisteredSchema(kind, stored.schema, texts, tuple(stored.references or ()))  # type: ignore[arg-type]
            self._schemas[key] = schema
            return schema

    def _found(self, path: str, title: str, *, any_404: bool = False) -> _Schema:
        answer = self._ask(path)
        if answer.is_unknown or (any_404 and answer.status == 404 and answer.failure.message):
            raise UnknownSchema(f"the schema registry knows no {title}: {self._words(answer)}")
        return self._decoded(answer, _Schema)

    def _resolve(
        self, schema: _Schema, title: str, texts: dict[str, str], seen: dict[str, Reference]
    ) -> None:
        """Add the texts of all schemas that one refers to to ``texts``."""
        for reference in schema.references or ():
            if (earlier := seen.setdefault(reference.name, reference)) is not reference:
                if earlier != reference:
                    raise UnknownSchema(f"{title}: {reference.name!r} is {earlier} and {reference}")
                continue
            if len(seen) > REFERENCES:
                raise UnknownSchema(f"{title} refers to more than {REFERENCES} others")
            # Deleted ones too: the schema still needs them.
            subject, version = reference.subject, reference.version
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            name = f"version {version} of {subject!r}, which {title} refers to"
            referred = self._found(path, name)
            self._resolve(referred, title, texts, seen)
            texts[reference.name] = referred.schema

    def _remembered(self, key: Any) -> None:
        """Raise the cached error of an earlier call."""
        until, error = self._failed.get(key, (0.0, None))
        if error is not None and until > time.monotonic():
            raise type(error)(str(error))
        if len(self._failed) > FAILED:
            self._failed.clear()

    def _ask(self, path: str, body: bytes | None = None) -> _Answer:
        """First answer of the addresses: 200, 404 or, to a body, a refusal."""
        failures = []
        for server in list(self._servers):
            try:
                answer = within(
                    self.timeout, self.exchange, server, path, body, otherwise=RetryError
                )
                if answer.status in (200, 404) or (body and answer.status in REFUSALS):
                    return answer
                raise RetryError(f"answers {answer.status}: {self._words(answer)}")
            except RetryError as error:
                failures.append(f"{server.url}: {error}")
                if self._servers[0] == server:  # start with another one next time
                    self._servers = [*self._servers[1:], server]
        raise RegistryDown(f"no schema registry answers: {'; '.join(failures)}")

    def exchange(self, server: _Server, path: str, body: bytes | None) -> _Answer:
        """Send one request and read its response."""
        request = urllib.request.Request(server.url + path, body, server.headers)
        try:
            try:
                reply = self._opener.open(request, timeout=self.timeout)
            except urllib.error.HTTPError as error:
                reply = error
            with reply:
                answer = _Answer(server.url, reply.status, self._body_of(reply))
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

    def _failure(self, server: _Server, error: Exception) -> ClientError:
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
        return RetryError(self._short(words))

    def _denial(self, server: _Server, answer: _Answer, at: str) -> str:
        """Describe a 401 or 403."""
        has_credentials = "Authorization" in server.headers
        refusal = (
            f"the schema registry {server.url} refuses us: {answer.status} {self._words(answer)}"
        )
        if origin_of(at) != origin_of(server.url):
            where = "{}://{}:{}".format(*origin_of(at))
            return f"{refusal}; it redirects to {where}, where credentials do not go: name that one"
        if answer.status == 403 and has_credentials:
            return f"{refusal}; give schema_registry_user the right to read and register schemas"
        remedy = "check" if has_credentials else "give"
        return f"{refusal}; {remedy} schema_registry_user and schema_registry_password"

    def _decoded(self, answer: _Answer, kind: type[T]) -> T:
        if answer.status != 200:
            raise RetryError(
                f"{answer.url}: answers {answer.status}: {self._words(answer)}; is it the address"
                " of a schema registry's API?"
            )
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except NO_JSON:
            text = self._short(answer.body[: 4 * WORDS].decode(errors="replace"))
            raise RetryError(f"{answer.url}: no answer of a schema registry: {text}") from None

    def _words(self, answer: _Answer) -> str:
        """The registry's description of a failure."""
        text = answer.failure.message or answer.body[: 4 * WORDS].decode(errors="replace")
        return self._short(text) or http.client.responses.get(answer.status, "no words")

    def _short(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= WORDS else f"{text[:WORDS]}..."


def servers_at(
    urls: Sequence[str] | str, user: str | None = None, password: str | None = None
) -> list[_Server]:
    """Parse addresses with their credentials.

    Raises
    ------
    ValueError
        An address is invalid. It is not quoted: it may hold a password.
    """
    servers = []
    for number, url in enumerate(_listed(urls), 1):
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # invalid port
            is_valid = False
        if not is_valid or parts.query or parts.fragment or not url.isascii() or " " in url:
            raise ValueError(f"address {number}: expected http[s]://host[:port][/path]")
        host = parts.netloc.rpartition("@")[2]
        name, secret = user, password
        if parts.username is not None:
            name, secret = unquote(parts.username), unquote(parts.password or "")
        headers = {"Accept": f"{TYPE}, application/json", "Content-Type": TYPE}
        if name is not None:
            credentials = base64.b64encode(f"{name}:{secret or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {credentials}"
        servers.append(_Server(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", headers))
    if not servers:
        raise ValueError("no address")
    return servers


def passwords_in(urls: Sequence[str] | str) -> list[str]:
    """Passwords in addresses, as written and decoded."""
    passwords = []
    for url in _listed(urls):
        written = url.rpartition("@")[0].partition("://")[2].partition(":")[2]
        passwords += [written, unquote(written)]
    return [text for text in dict.fromkeys(passwords) if text]


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname or "", port


def _listed(urls: Sequence[str] | str) -> list[str]:
    texts = urls.split(",") if isinstance(urls, str) else urls
    return [text.strip() for text in texts if text.strip()]


def _body(kind: Kind, text: str, references: Sequence[Reference]) -> bytes:
    body: dict[str, Any] = {"schema": text}
    if kind != "AVRO":  # the default of older registries
        body["schemaType"] = kind
    if references:
        body["references"] = list(references)
    return msgspec.json.encode(body)

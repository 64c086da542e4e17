"""Client of a schema registry with Confluent's REST API: look up and register schemas.

Its errors belong to the family in guards.py, so that the worker handles them in the same way:

ClientError
├── RetryError     down, slow or overloaded: repeat the call later
├── DeniedError    credentials or certificate; the message says what to change
├── UnknownSchema  the registry does not have the schema
└── RefusedSchema  the registry does not accept the schema; the message quotes it
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from stream_can.kafka.client.guards import ClientError
from stream_can.kafka.client.registered_schema import (
    IdMessage,
    Kind,
    Reference,
    RegisteredSchema,
    SchemaMessage,
    VerdictMessage,
    to_register,
)
from stream_can.kafka.client.registry_connection import REFUSALS, RegistryConnection

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


class UnknownSchema(ClientError):
    """The registry does not have a schema, or not all that it refers to."""

    full_name = "stream_can.kafka.UnknownSchema"


class RefusedSchema(ClientError):
    """The registry does not accept a schema; the message quotes it."""

    full_name = "stream_can.kafka.RefusedSchema"


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

    def __init__(self, urls: Sequence[str] | str, **options: Any) -> None:
        self._connection = RegistryConnection(urls, **options)
        self._asking = threading.Lock()
        self._schemas: dict[int | uuid.UUID, RegisteredSchema] = {}
        self._ids: dict[tuple[Any, ...], int] = {}
        self._failed: dict[Any, tuple[float, ClientError]] = {}
        """For each question until when its answer is cached, and the answer."""

    def __repr__(self) -> str:
        return f"Registry({', '.join(self._connection.urls)})"

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
        self._connection.ask("/schemas/types")

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Current id and schema of a subject's newest version.

        Raises
        ------
        UnknownSchema, RetryError, DeniedError
            The subject has no version.
        """
        answer = self._connection.ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if answer.is_unknown:
            words = self._connection.words(answer)
            raise UnknownSchema(f"the schema registry has no subject {subject!r}: {words}")
        id = self._connection.decoded(answer, IdMessage).id
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
                answer = self._connection.ask(path, to_register(kind, text, references))
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
                    f" {self._connection.words(answer)}"
                )
                self._failed[key] = time.monotonic() + AGAIN_SECONDS, error
                raise error
            self._ids[key] = self._connection.decoded(answer, IdMessage).id
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
        answer = self._connection.ask(path, to_register(kind, text, references))
        if answer.is_unknown:
            return []
        if answer.status in REFUSALS:
            return [self._connection.words(answer)]
        verdict = self._connection.decoded(answer, VerdictMessage)
        if verdict.is_compatible:
            return []
        reasons = verdict.messages or [verdict.reason or "not compatible"]
        return [self._connection.shortened(reason) for reason in reasons]

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
                    raise UnknownSchema(f"{title} is {kind!r}, expected AVRO, PROTOBUF or JSON")
                texts: dict[str, str] = {}
                self._resolve(stored, title, texts, {})
            except UnknownSchema as error:
                self._failed[key] = time.monotonic() + AGAIN_SECONDS, error
                raise
            schema = RegisteredSchema(kind, stored.schema, texts, tuple(stored.references or ()))  # type: ignore[arg-type]
            self._schemas[key] = schema
            return schema

    def _found(self, path: str, title: str, *, any_404: bool = False) -> SchemaMessage:
        answer = self._connection.ask(path)
        if answer.is_unknown or (any_404 and answer.status == 404 and answer.failure.message):
            words = self._connection.words(answer)
            raise UnknownSchema(f"the schema registry knows no {title}: {words}")
        return self._connection.decoded(answer, SchemaMessage)

    def _resolve(
        self, schema: SchemaMessage, title: str, texts: dict[str, str], seen: dict[str, Reference]
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

"""Schemas of messages from a registry or a file."""

from __future__ import annotations

import logging
from typing import Any

from stream_can.app.settings import SettingsError
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.registry import RefusedSchema, Registry, UnknownSchema
from stream_can.kafka.settings import Settings
from stream_can.messages.codecs.codec import Codec
from stream_can.messages.codecs.framing import HEAD, Key, SchemaText, key_of
from stream_can.messages.codecs.json import JsonCodec
from stream_can.messages.formats import Formats
from stream_can.messages.messages import BadMessage
from stream_can.messages.records import Headers

__all__ = ["RegistrySchemas", "check", "formats"]

log = logging.getLogger(__name__)


class RegistrySchemas:
    """Schemas of a registry; implements :class:`stream_can.messages.codecs.framing.Schemas`.

    Parameters
    ----------
    registry
        The registry client.
    subject
        Subject of the schemas of outputs.
    """

    def __init__(self, registry: Registry, subject: str) -> None:
        self.registry, self.subject = registry, subject

    def key(self, value: bytes, headers: Headers) -> tuple[Key, int]:
        """Read the schema number or GUID in front of a message."""
        return key_of(value, headers)

    def schema(self, key: Key) -> SchemaText:
        """Look up a schema; results are cached, negative ones for a while."""
        ask = self.registry.schema if isinstance(key, int) else self.registry.schema_by_guid
        try:
            schema = ask(key)  # type: ignore[arg-type]
        except UnknownSchema as error:
            raise BadMessage(str(error)) from None
        return SchemaText(schema.kind, schema.text, schema.references, schema.direct)

    def newest(self) -> tuple[bytes, SchemaText]:
        """Return the latest version of the subject."""
        try:
            number, newest = self.registry.latest(self.subject)
        except UnknownSchema as error:
            raise BadMessage(str(error)) from None
        text = SchemaText(newest.kind, newest.text, newest.references, newest.direct)
        return framed(number), text

    def head(self, written: SchemaText) -> bytes:
        """Return the encoded number of a schema registered under the subject."""
        kind: Any = written.kind
        try:
            number = self.registry.register(self.subject, kind, written.text, written.named)
        except RefusedSchema as error:
            raise BadMessage(str(error)) from None
        return framed(number)


def framed(number: int) -> bytes:
    """Encode a schema's number as the prefix of a message."""
    return b"\0" + number.to_bytes(HEAD - 1, "big")


def formats(settings: Settings) -> Formats:
    """Create the readers of an application's messages.

    Raises
    ------
    SettingsError
        A file of schemas cannot be read, or a package is not installed.
    """
    s = settings
    registry = None
    if s.schema_registry is not None:
        registry = Registry(
            s.schema_registry,
            user=s.schema_registry_user,
            password=s.schema_registry_password,
            ca=s.schema_registry_ca,
        )
    fields: dict[str, Any] = {
        "probs": s.fields.probs, "raw": s.fields.raw, "sets": s.has_sets, "decides": bool(s.costs),
    }  # fmt: skip
    predictions = _codec(s, s.format, registry, s.subject, s.protobuf_message, fields)
    codecs = {
        topic: _label_codec(s, topic, registry, fields)
        for topic in s.topics_of_labels or [""]
    }  # fmt: skip
    first, *further = codecs
    return Formats(predictions, codecs[first], {topic: codecs[topic] for topic in further})


def _label_codec(
    s: Settings, topic: str, registry: Registry | None, fields: dict[str, Any]
) -> Codec:
    """Create the codec of a topic of labels."""
    label_message = s.of_labels(topic, "protobuf_label_message")
    if label_message not in (
        None,
        s.protobuf_message,
    ):  # labels have no probabilities and no outputs
        fields = {"probs": s.fields.probs, "raw": ""}
    message = label_message or s.protobuf_message
    return _codec(s, s.format_of(topic), registry, f"{topic}-value", message, fields)


def _codec(
    s: Settings,
    format: str,
    registry: Registry | None,
    subject: str,
    message: str | None,
    fields: dict[str, Any],
) -> Codec:
    """Create a codec that writes under a subject."""
    schemas: Any = None if registry is None else RegistrySchemas(registry, subject)
    try:
        match format:
            case "avro":
                from stream_can.messages.codecs.avro import AvroCodec
                from stream_can.messages.codecs.single_object import SchemaFile

                return AvroCodec(schemas or SchemaFile(s.avro_schema or ""), **fields)
            case "json-schema":
                from stream_can.messages.codecs.json_schema import JsonSchemaCodec

                return JsonSchemaCodec(schemas, **fields)
            case "protobuf":
                from stream_can.messages.codecs.protobuf import ProtobufCodec

                return ProtobufCodec(
                    schemas,
                    s.protobuf_descriptor or "",
                    message or "",
                    first_field=s.protobuf_first_field,
                    **fields,
                )
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"format: {format} needs {error.name}: pip install 'stream_can[{format}]'"
        ) from None
    except ValueError as error:
        raise SettingsError(str(error)) from None
    plain = JsonCodec()
    plain.sets = s.has_sets
    return plain


def check(settings: Settings, formats: Formats) -> None:
    """Check that the registry would accept the schema of the outputs.

    Raises
    ------
    DeniedError
        It would not, with its reasons; or records of the input cannot be answered.
    RetryError
        No registry answers.
    """
    schemas = getattr(formats.predictions, "schemas", None)
    if not isinstance(schemas, RegistrySchemas):
        return
    registry, subject = schemas.registry, f"{settings.input}-value"
    try:
        number, newest = registry.latest(subject)
    except UnknownSchema as error:
        log.info("%s: what the output's schema is will be known with the first record", error)
        return
    text = SchemaText(newest.kind, newest.text, newest.references, newest.direct)
    try:
        answer_schema = formats.predictions.answer(text)
    except BadMessage as error:
        raise DeniedError(f"schema {number}, the newest of {subject!r}: {error}") from None
    kind: Any = answer_schema.kind
    refused = registry.compatible(settings.subject, kind, answer_schema.text, answer_schema.named)
    if refused:
        raise DeniedError(
            f"output_subject {settings.subject!r}: the schema registry would refuse the schema of"
            f" answers to {subject!r}: {'; '.join(refused)}"
        )
    log.info("schema registry: %r takes the schema of answers to %r", settings.subject, subject)

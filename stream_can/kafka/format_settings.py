"""Which settings the formats of messages need and have, a schema registry among them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from stream_can.kafka.client.registry_addresses import servers_at

__all__ = ["Format", "check_formats"]

Format = Literal["json", "avro", "protobuf", "json-schema"]


FORMATS_OF = {
    "schema_registry": ("avro", "protobuf", "json-schema"),
    "avro_schema": ("avro",),
    "protobuf_descriptor": ("protobuf",),
    "protobuf_message": ("protobuf",),
    "protobuf_label_message": ("protobuf",),
}
"""Settings with a meaning only for certain formats."""
NEEDED = {
    "schema_registry_user": "schema_registry",
    "schema_registry_password": "schema_registry_user",
    "schema_registry_ca": "schema_registry",
    "output_subject": "schema_registry",
}
"""Settings that need another one."""


def check_formats(formats: Collection[Format], settings: Mapping[str, Any]) -> None:
    """Raise ValueError where the settings of formats and registry are inconsistent."""
    registry = settings["schema_registry"]
    if "avro" in formats and not (registry or settings["avro_schema"]):
        raise ValueError("format avro: needs schema_registry or, without one, avro_schema")
    if "json-schema" in formats and not registry:
        raise ValueError("format json-schema: needs schema_registry")
    if "protobuf" in formats and not (
        settings["protobuf_descriptor"] and settings["protobuf_message"]
    ):
        raise ValueError("format protobuf: needs protobuf_descriptor and protobuf_message")
    if settings["avro_schema"] and registry:
        raise ValueError("avro_schema: not with schema_registry, which has the schemas")
    for name, needed_formats in FORMATS_OF.items():
        if settings[name] is not None and not {*needed_formats} & {*formats}:
            raise ValueError(f"{name}: needs format {' or '.join(needed_formats)}")
    for name, required in NEEDED.items():
        if settings[name] is not None and settings[required] is None:
            raise ValueError(f"{name}: needs {required}")
    if registry is not None:
        try:
            servers_at(registry)
        except ValueError as error:
            raise ValueError(f"schema_registry: {error}") from None
    if 19_000 <= settings["protobuf_first_field"] <= 19_999:
        raise ValueError("protobuf_first_field: 19000 to 19999 are Protobuf's own")

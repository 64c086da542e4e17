"""The settings of ``stream-can serve``."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from stream_can.app.application import ApplicationSettings
from stream_can.app.loading import given_names, known_names, load_as
from stream_can.app.settings import Option, SettingsError, options_of
from stream_can.messages.fields import HEADER

INPUT, LABELS = "predictions", "labels"
"""What happens with unreadable messages."""


class ServeSettings(ApplicationSettings, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """The settings of ``stream-can serve``; `options` lists them with their help texts."""

    secret_names: ClassVar[tuple[str, ...]] = ("token",)
    files: ClassVar[tuple[str, ...]] = ("classes_from_file", "state")

    application_id: Annotated[
        str,
        Meta(
            description="name of the application, also in the paths under /v2/models", min_length=1
        ),
    ] = "stream_can"
    state: Annotated[
        str,
        Meta(
            description="SQLite file of the state (stream_can.sqlite); not with brokers",
            min_length=1,
        ),
    ] = "stream_can.sqlite"
    id: Annotated[str, Meta(description="field that joins labels to predictions")] = "id"
    recent_mb: Annotated[
        float, Meta(description="memory for predictions waiting for their label (512)", gt=0)
    ] = 512
    http_port: Annotated[int, Meta(description="port to serve on (8000)")] = 8000
    http_host: Annotated[str, Meta(description="address to serve on (127.0.0.1)")] = "127.0.0.1"
    token: Annotated[
        str | None,
        Meta(
            description="token that requests must carry; required unless http_host is this machine"
        ),
    ] = None
    durable: Annotated[
        Literal["labels", "predictions"],
        Meta(description="store labels, or predictions too, on the disk before answering"),
    ] = "labels"
    commit_interval_ms: Annotated[
        int, Meta(description="milliseconds between two commits to the disk (20)", ge=1, le=10_000)
    ] = 20
    label_port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)] | None,
        Meta(description="port on 127.0.0.1 of the labelling page"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.id is None or self.id.startswith(HEADER):
            raise ValueError(f"id: {self.id!r}, expected a field of the messages")
        for name in ("model", "version"):
            if (getattr(self, name) or "").startswith(HEADER):
                raise ValueError(f"{name}: {getattr(self, name)!r}, expected a field")
        if any(name.startswith(HEADER) for name in self.segments or ()):
            raise ValueError("segments: expected fields of the messages, not headers")
        if self.label_port is not None and self.ask is None:
            raise ValueError(
                "label_port: needs ask, the share of predictions whose label is requested"
            )
        if self.token is not None and (len(self.token) < 16 or not self.token.isascii()):
            raise ValueError("token: expected at least 16 characters of ASCII")
        if self.token is None and not self.local:
            raise ValueError(
                f"http_host: {self.http_host!r} can be reached from elsewhere: set a token, in the"
                " environment as STREAM_CAN_TOKEN or with token_from_file"
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        if self.http_host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.http_host).is_loopback
        except ValueError:
            return False

    @property
    def secrets(self) -> list[str]:
        """Values that must not appear in logs."""
        return [] if self.token is None else [self.token]


class BrokerSettings(ServeSettings, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """The settings of a server with brokers instead of a file."""

    application: Any
    """Its topics and rules, :class:`stream_can.kafka.Settings`."""


def load(
    path: str | Path | None, overrides: Mapping[str, Any], env: Mapping[str, str]
) -> ServeSettings:
    """Load settings from a file, the environment and the command line, like those of ``run``; with
    ``bootstrap_servers`` a `BrokerSettings`, and settings of ``run`` are then accepted too.

    Raises
    ------
    SettingsError
        A setting is unknown or invalid; names the setting and the nearest known name.
    """
    given_settings = given_names(path, overrides, env)
    server_names = known_names(ServeSettings)
    if "bootstrap_servers" not in given_settings:
        if strange := [name for name, _ in OF_BROKERS if name in given_settings - server_names]:
            raise SettingsError(f"{strange[0]}: needs bootstrap_servers")
        return load_as(ServeSettings, path, overrides, env)
    if "state" in given_settings:
        raise SettingsError(
            "state: with bootstrap_servers no file is kept; state_topic names the topic of states"
        )
    try:
        from stream_can.kafka.loading import client_options
        from stream_can.kafka.settings import Settings
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"bootstrap_servers: {error.name} is not installed: pip install 'stream_can[kafka]'"
        ) from None
    worker_names = known_names(Settings)
    server = load_as(ServeSettings, path, overrides, env, ignored_names=worker_names - server_names)
    application = load_as(
        Settings, path, overrides, env, client_options, ignored_names=server_names - worker_names
    )
    return BrokerSettings(
        **{name: getattr(server, name) for name in ServeSettings.__struct_fields__},
        application=application,
    )


OF_BROKERS = (
    (
        "bootstrap_servers",
        "brokers to connect to first, host:port,...; for several servers, without a file",
    ),
    ("labels", "with brokers, the topic of labels"),
    ("state_topic", "with brokers, the topic of states (application_id-state)"),
    ("sent_topic", "with brokers, the topic of sent batches (application_id-sent)"),
    ("instance", "with brokers, the name of this server (the host's name)"),
    ("compression", "with brokers, compression of the written records"),
    (
        "connect_seconds",
        "with brokers, exit if none answers within this many seconds at the start (300)",
    ),
)
"""Settings of ``run`` that are also options of a server with brokers; a file may have all."""


def options() -> list[Option]:
    """List every setting, for a command line; tables of models are only read from a file."""
    return [
        *options_of(ServeSettings),
        *(Option(name, str, help_) for name, help_ in OF_BROKERS),
        Option("create_topics", bool, "with brokers, create missing topics"),
        Option("client", dict, "options of kafka-python, NAME=VALUE"),
    ]

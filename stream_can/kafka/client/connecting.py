"""First connection: wrong addresses, TLS or SASL settings are named.

kafka-python's admin client connects on creation, so it is used to find out.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from stream_can.kafka.client import probe
from stream_can.kafka.client.guards import DeniedError, RetryError, errors_as, once
from stream_can.kafka.client.options import Options


class Reasons(logging.Handler):
    """Collects the reason for a failed connection from kafka-python's log.

    Trap: every TLS, SASL or address error is raised as the same "Unable to bootstrap". Only the log
    has the reason.
    """

    FATAL = ("SaslAuthenticationFailed", "UnsupportedSaslMechanism", "CERTIFICATE_VERIFY_FAILED",
             "WRONG_VERSION_NUMBER", "certificate verify failed")  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.fatal: str | None = None
        self.failed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1]:
            text += f": {record.exc_info[1]}"
        if any(word in text for word in self.FATAL):
            self.fatal = text
        if text.startswith("Bootstrap connection"):
            self.failed.append(text)

    def __enter__(self) -> Reasons:
        logger = logging.getLogger("kafka")
        self.before = logger.level, logger.propagate
        if logger.getEffectiveLevel() > logging.WARNING:  # collected here, still not shown
            logger.propagate = False
            logger.setLevel(logging.WARNING)
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("kafka")
        logger.removeHandler(self)
        logger.setLevel(self.before[0])
        logger.propagate = self.before[1]


def _check_files(settings: Mapping[str, Any]) -> None:
    """Raise DeniedError where a file is missing or has the wrong content."""
    for name, value in settings.items():
        if name.endswith("file") and value is not None and not os.access(value, os.R_OK):
            raise DeniedError(f"{name}: cannot read {value}")
    context = ssl.create_default_context()
    for name in ("ssl_cafile", "ssl_crlfile"):
        if (path := settings.get(name)) is not None:
            try:
                context.load_verify_locations(path)
            except ssl.SSLError as error:
                raise DeniedError(f"{name}: {path} is not in PEM: {error}") from error
    if (path := settings.get("ssl_certfile")) is not None:
        key, password = settings.get("ssl_keyfile"), settings.get("ssl_password")
        try:  # without a password it would ask on the terminal
            context.load_cert_chain(path, key, password or (lambda: ""))
        except ssl.SSLError as error:
            raise DeniedError(
                f"ssl_certfile {path}, ssl_keyfile {key}, ssl_password: {error}; all in PEM?"
            ) from error


def connect(options: Options) -> Any:
    """Return kafka-python's admin client, connected.

    Raises
    ------
    RetryError
        No broker answers (yet).
    DeniedError
        An error that waiting does not cure.
    """
    _check_files(options.settings)
    with Reasons() as reasons, errors_as(RetryError):
        try:
            with options.noting():
                return KafkaAdminClient(**options.admin)
        except (kafka_errors.KafkaError, OSError, ValueError) as error:
            where, failed = ", ".join(options.servers), reasons.failed
            user, how = map(options.settings.get, ("sasl_plain_username", "sasl_mechanism"))
            who = "user" if user is None else f"user {user!r}"
            question = f"are {who} and password right, by {how}?"
            # `probe` is asked first: whether kafka-python reads a broker's refusal before
            # the connection ends is chance, and its message does not name the right value.
            in_words = isinstance(error, ValueError)
            if not in_words and (remedy := probe.mismatch(options.servers, options.settings)):
                raise DeniedError(f"cannot connect: {remedy}") from error
            if reasons.fatal or in_words:
                reason = once(str(reasons.fatal or error))
                if "SaslAuthenticationFailed" in reason:
                    reason += f"; {question}"
                raise DeniedError(f"cannot connect to {where}: {reason}") from error
            closed = sum("socket disconnected" in text for text in failed)
            if "SASL" in str(options.settings.get("security_protocol")) and closed > 2:
                # kafka-python often sees the connection's end before the reason.
                raise DeniedError(
                    f"cannot connect to {where}: connections are closed while they"
                    f" authenticate; {question}"
                ) from error
            outcomes = probe.outcomes_of(options.servers)
            if failed and probe.KAFKA in outcomes:
                outcomes += f": {failed[-1]}"
            raise RetryError(f"no answer from {outcomes}") from error

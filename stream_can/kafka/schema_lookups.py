"""SchemaLookups: which records wait for the schema registry, which is asked in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from stream_can.kafka.client.guards import ClientError, DeniedError, RetryError
from stream_can.kafka.schemas import RegistrySchemas
from stream_can.messages.codecs.codec import Codec
from stream_can.messages.codecs.framing import Key, shown
from stream_can.messages.formats import Formats
from stream_can.messages.messages import BadMessage
from stream_can.messages.records import Headers

__all__ = ["RegistryAway", "SchemaLookups"]

log = logging.getLogger(__name__)

AGAIN_SECONDS = 5.0
"""How long a negative answer of the registry is cached, in seconds."""
PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between two attempts at a registry that does not answer: first, and longest."""
MOST_REFUSED = 10_000


class RegistryAway(RetryError):
    """No registry has answered for as long as brokers would be waited for."""


class SchemaLookups:
    """Tells which records can be read without asking a registry; asks in a background thread.

    Parameters
    ----------
    formats
        The readers.
    labels
        Topics of labels.
    seconds
        Give up where no registry answers for this long.
    """

    def __init__(self, formats: Formats, labels: Sequence[str], seconds: float) -> None:
        self._formats, self._seconds = formats, seconds
        self._of_labels = {topic: formats.of_labels(topic).labels for topic in labels}
        self._known: set[tuple[str, Key]] = set()
        """Schemas by the topic of labels, "" for predictions."""
        self._refused: dict[tuple[str, Key], float] = {}
        """For each schema until when it is known to be unusable."""
        self._asking: threading.Thread | None = None
        self._again, self._pause = 0.0, PAUSE
        self._denied: ClientError | None = None
        self._since: float | None = None
        self.trouble: str | None = None
        """Why records wait, while they do."""

    def ping(self) -> None:
        """Raise RetryError where no registry answers."""
        for codec in self._formats.codecs:
            schemas = getattr(codec, "schemas", None)
            if isinstance(schemas, RegistrySchemas):
                schemas.registry.ping()

    def ready(self, record: Any) -> bool:
        """Whether a record can be read now; otherwise its schema is requested.

        Raises
        ------
        DeniedError
            The registry denies access.
        RegistryAway
            No registry has answered for too long.
        """
        if record.value is None:
            return True
        of = record.topic if record.topic in self._of_labels else ""
        codec = self._of_labels.get(of, self._formats.predictions)
        try:
            key = codec.key(record.value, record.headers)
        except BadMessage:
            return True
        if key is None or (of, key) in self._known:
            return True
        now = time.monotonic()
        if self._refused.get((of, key), 0.0) > now:
            return True
        if self._denied is not None:
            raise self._denied
        if self._asking is None and now >= self._again:
            arguments = codec, record.value, record.headers, (of, key)
            self._asking = threading.Thread(target=self._ask, args=arguments, daemon=True)
            self._asking.start()
        if self._since is not None and now - self._since > self._seconds:
            raise RegistryAway(f"{self.trouble} (for {now - self._since:.0f} s)")
        return False

    def _ask(
        self, codec: Codec, value: bytes, headers: Headers, schema_key: tuple[str, Key]
    ) -> None:
        """Look up the schema of a message."""
        try:
            codec.prepare(value, headers, answered=not schema_key[0])
        except BadMessage:
            if len(self._refused) >= MOST_REFUSED:
                self._refused.clear()
            self._refused[schema_key] = time.monotonic() + AGAIN_SECONDS
        except RetryError as error:
            if self._since is None:
                log.warning("%s; records wait for it", error)
            self._since = self._since or time.monotonic()
            self.trouble = str(error)
            self._again = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._asking = None
            return
        except ClientError as error:
            self._denied = error
        except Exception as error:  # otherwise the records would wait for ever
            log.exception("schema %s", shown(schema_key[1]))
            self._denied = DeniedError(f"schema {shown(schema_key[1])}: {error!r}")
        else:
            self._known.add(schema_key)
        if self._since is not None:
            log.info("the schema registry answers again")
        self._since = self.trouble = None
        self._pause, self._asking = PAUSE, None

"""Guards around kafka-python's calls: each has a time limit and fails in one of four ways.

ClientError
├── RetryError    nothing happened; the same call may be made again
├── RebuildError  what the brokers hold is unknown: ``rebuild``, then restore from Kafka
│   └── MadeAgain a topic is another one of the same name, and may be an unsuitable one
├── FencedError   another process works under the same transactional id or instance id
└── DeniedError   no retry helps; the message says what to change
    └── NoRight   a right is missing, and the message may not say which

Here and in the neighbouring modules, a comment that begins with "Trap" marks unexpected behaviour
of kafka-python 3.0.12.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from kafka import errors as kafka_errors

from stream_can.errors import StreamCANError

log = logging.getLogger(__name__)
T = TypeVar("T")


class ClientError(StreamCANError):
    """Base of the four errors."""


class RetryError(ClientError):
    """Nothing happened; the call may be repeated."""


class RebuildError(ClientError):
    """The brokers' content is unknown: rebuild the client, then restore from Kafka."""


class MadeAgain(RebuildError):
    """A topic was deleted and made again."""


class FencedError(ClientError):
    """Another process uses the same transactional id or instance id."""


class DeniedError(ClientError):
    """A retry does not help; the message says what to change."""


class NoRight(DeniedError):
    """A right is missing. Trap: the error may name another topic of the transaction, or none."""


class DamagedBatch(kafka_errors.CorruptRecordError):  # type: ignore[misc]
    """A batch of records with damaged bytes; the message names the offsets."""

    def __str__(self) -> str:
        return str(self.args[0])  # without kafka-python's number and name in front


GONE = (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError)
"""Errors that say that a consumer's next record is not there."""


def _gone_records(error: Exception) -> str:
    """Name the places of one of these errors, in the order of topics and partitions."""
    sources = [getattr(error, "divergent_offsets", None), *error.args]
    places = {place for offsets in sources if isinstance(offsets, Mapping) for place in offsets}
    listing = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(places))
    return (
        f"the next record of {listing or 'a topic'} is gone: it was deleted, brokers lost it, or"
        " the topic was made again"
    )


def text_of(error: BaseException) -> str:
    """An error with its name in front, once. Trap: some of kafka-python's texts begin with it, and
    name it again where one was made of another."""
    name, text = type(error).__name__, once(str(error))
    return text if text.startswith(name) else f"{name}: {text}"


def once(text: str) -> str:
    """A text in which no name of an error is repeated."""
    return re.sub(r"\b(\w+Error: )\1+", r"\1", text)


def classify(error: Exception, otherwise: type[ClientError]) -> ClientError:
    """Map an error of kafka-python to one of the four; ``otherwise`` where it is ambiguous."""
    e = kafka_errors
    text = text_of(error)
    if isinstance(error, ClientError):
        return error
    if isinstance(error, (e.ProducerFencedError, e.InvalidProducerEpochError)):
        return FencedError(f"another producer took over this transactional id ({text})")
    if isinstance(error, e.FencedInstanceIdError):
        return FencedError(f"another consumer joined with this instance id ({text})")
    if isinstance(error, e.AuthorizationError):
        return NoRight(f"the brokers refuse: {text}")
    if isinstance(error, e.SaslAuthenticationFailedError):
        return DeniedError(f"the brokers refuse: {text}")
    if isinstance(error, (e.MessageSizeTooLargeError, e.RecordListTooLargeError)):
        return DeniedError(f"a record is larger than its topic's max.message.bytes: {text}")
    if isinstance(error, (e.InvalidRecordError, e.InvalidTimestampError, e.PolicyViolationError)):
        return DeniedError(f"a record is refused for good: {text}")
    if isinstance(error, DamagedBatch):
        return DeniedError(f"{error}; --skip-damaged continues after it, with a dead letter")
    if isinstance(error, e.UnsupportedCodecError):
        return DeniedError(f"records are compressed and cannot be read: {error}; all codecs come"
                           " with pip install 'stream_can[kafka]'")  # fmt: skip
    if isinstance(error, (e.UnsupportedVersionError, e.InvalidTopicError,
                          e.KafkaConfigurationError, e.InvalidTransactionTimeoutError,
                          e.InvalidSessionTimeoutError, e.InvalidGroupIdError)):  # fmt: skip
        return DeniedError(text)
    return otherwise(_gone_records(error) if isinstance(error, GONE) else text)


def unsupported(client: str, error: Exception) -> kafka_errors.UnsupportedVersionError:
    """The error where private parts of kafka-python's consumer or producer have changed."""
    return kafka_errors.UnsupportedVersionError(
        f"this kafka-python's {client} is not as 3.0.12's: {error}; install"
        " kafka-python>=3.0.12,<3.1"
    )


@contextlib.contextmanager
def errors_as(otherwise: type[ClientError]) -> Iterator[None]:
    """Raise errors of kafka-python and sockets as one of the four; others are bugs and pass."""
    try:
        yield
    except (kafka_errors.KafkaError, OSError) as error:
        raise classify(error, otherwise) from error


def within(
    seconds: float, call: Callable[..., T], *args: Any, otherwise: type[ClientError] = RebuildError
) -> T:
    """Run ``call(*args)`` with a time limit in seconds.

    Trap: ``send_offsets_to_transaction``, ``commit_transaction``, ``close`` and the admin calls
    accept no time-out, and some never return once a coordinator's broker has died.
    """
    outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(call(*args))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True, name=f"stream-can-{call.__name__}").start()
    concurrent.futures.wait([outcome], seconds)
    if not outcome.done():
        raise otherwise(f"{call.__name__} did not return within {seconds:g} s")
    with errors_as(otherwise):
        return outcome.result()


def close(client: Any, *args: Any) -> None:
    """Close a client of kafka-python, which may be None.

    Trap: closing can raise, hang, or leave a thread behind. A producer with undelivered records
    raises before its thread ends; the thread keeps trying to send, and the producer raises again
    when it is garbage-collected.
    """
    if client is None:
        return
    with contextlib.suppress(ClientError):
        within(5, client.close, *args)
        return
    if (sender := getattr(client, "_sender", None)) is not None:
        sender.force_close()
        client._closed = True


def create_no_topics(client: Any) -> None:
    """Keep a consumer or producer from creating topics.

    Trap: ``allow_auto_create_topics=False`` is not passed on to metadata requests. A topic that is
    deleted under a client is therefore created again by its next request, with default settings.
    """
    cluster = client._metadata if hasattr(client, "_metadata") else client._cluster
    cluster.config["allow_auto_create_topics"] = False


def patch_await_ready(producer: Any) -> None:
    """Return False instead of raising where a coordinator's broker is away.

    Trap: ``producer/sender.py`` removes a request from its queue before ``await_ready``; if that
    raises, the request is lost: ``init_transactions``, ``send_offsets_to_transaction`` and
    ``commit_transaction`` then wait for ever, even after the broker is back. On False it looks the
    coordinator up again.
    """
    network = getattr(getattr(producer, "_sender", None), "_client", None)
    original = getattr(network, "await_ready", None)
    if network is None or original is None:
        log.warning("kafka-python without Sender._client.await_ready: fail-overs will take longer")
        return

    def await_ready(*args: Any, **kwargs: Any) -> bool:
        try:
            return bool(original(*args, **kwargs))
        except kafka_errors.KafkaConnectionError:
            return False

    network.await_ready = await_ready

"""Open label requests: read from their topic, answered into the topic of labels.

The reader joins no group and commits nothing. A request is open until a label of its prediction
arrives, from here or elsewhere; after a restart both topics are read again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from itertools import islice
from typing import Any

import msgspec
from kafka import TopicPartition

from stream_can.app.labelling.request_message import RequestMessage
from stream_can.app.labelling.requests import Chosen, NotOpen, NotWritten, Pending, label_of
from stream_can.errors import StreamCANError, UnknownClass
from stream_can.kafka.client.consumer import open_consumer
from stream_can.kafka.client.guards import ClientError, DeniedError, RetryError, close, errors_as
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.label_writer import LabelWriter
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import start_of
from stream_can.learner.model_versions import adapter_of
from stream_can.messages.kinds import messages_of
from stream_can.messages.messages import BadMessage, Messages

__all__ = ["PendingRequests"]

log = logging.getLogger(__name__)

MOST = 10_000
"""Maximum number of open requests; beyond it the oldest are dropped."""
AGAIN_SECONDS = 2.0


class PendingRequests:
    """Reads requests and labels until stopped; accepts answers from any thread.

    Parameters
    ----------
    settings
        The worker's settings, with a topic of labels.

    Raises
    ------
    DeniedError
        There is no topic of labels or of requests.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.labels is None:
            raise DeniedError("labels: name the topic that the answers go to")
        self._requests, self._labels = settings.requests_topic, settings.labels
        self._options = Options(settings.bootstrap_servers, settings.client)
        self._readers = Readers(self._options)
        start = start_of(settings)
        self.classes, self._formats = start.classes, start.formats
        self.rows = settings.rows
        self._lookup = adapter_of(start.corrector()).lookup
        self._of_labels = {
            topic: messages_of(
                settings.rows, self.classes, fields, formats=self._formats.of_labels(topic),
                numbering=self._lookup,
            )
            for topic, fields in settings.label_fields.items()
        }  # fmt: skip
        self._messages = self._of_labels[self._labels]
        self.probs_path, self.raw_path = self._messages.probs_path, self._messages.raw_path
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Pending] = OrderedDict()
        self._writer = LabelWriter(
            self._options, self._labels, self._messages, self._formats.labels,
            key_is_id=settings.id is None, sparse=self._lookup is not None,
        )  # fmt: skip

    def first(
        self, n: int, *, oldest: bool = False, without: Container[tuple[int, int]] = ()
    ) -> tuple[int, list[Pending]]:
        """Return the number of open requests, and the n newest or the n oldest.

        ``without`` are the partitions and offsets of requests to exclude.
        """
        with self._lock:
            in_order = self._open.values() if oldest else reversed(self._open.values())
            requests = (
                request
                for request in in_order
                if (request.partition, request.offset) not in without
            )
            return len(self._open), list(islice(requests, n))

    def still_open(self, places: Container[tuple[int, int]]) -> list[tuple[int, int]]:
        """Which of these partitions and offsets are open requests."""
        with self._lock:
            open_places = [(request.partition, request.offset) for request in self._open.values()]
        return [place for place in open_places if place in places]

    def classes_of(self, request: Pending) -> Sequence[Any]:
        """Names of a request's classes, in column order."""
        return self.classes if request.says.classes is None else request.says.classes

    def knows(self, name: str) -> bool:
        """Whether there is a class of this name."""
        if self._lookup is None:
            return name in map(str, self.classes)
        try:
            return self._lookup.named(name) is not None
        except UnknownClass:
            return False

    def follow(self, stopped: Callable[[], bool]) -> None:
        """Follow both topics until ``stopped``; waits out an outage.

        Raises
        ------
        DeniedError
            An error that a retry cannot cure.
        """
        while not stopped():
            consumer = None
            try:
                consumer = open_consumer(self._options)
                self._follow_topics(consumer, stopped)
            except DeniedError:
                raise
            except ClientError as error:
                log.warning("reading label requests: %s", error)
                time.sleep(AGAIN_SECONDS)
            finally:
                close(consumer)

    def _follow_topics(self, consumer: Any, stopped: Callable[[], bool]) -> None:
        """Read all requests, then the labels since the oldest open one, then both as they arrive.

        The order makes sure that a label finds the request that it answers.
        """
        with errors_as(RetryError):
            request_partitions = self._partitions(consumer, self._requests)
            label_partitions = [
                tp for topic in self._of_labels for tp in self._partitions(consumer, topic)
            ]
            with self._lock:
                self._open.clear()
            consumer.assign(request_partitions)
            consumer.seek_to_beginning(*request_partitions)
            ends = consumer.end_offsets(request_partitions)
            while any(consumer.position(tp) < ends[tp] for tp in request_partitions):
                if stopped():
                    return
                self._accept_records(consumer.poll(500))
            # A label cannot be older than the request that it answers.
            positions = {tp: consumer.position(tp) for tp in request_partitions}
            with self._lock:
                since = min((request.says.time for request in self._open.values()), default=None)
            consumer.assign([*request_partitions, *label_partitions])
            for tp, offset in positions.items():
                consumer.seek(tp, offset)
            ends = consumer.end_offsets(label_partitions)
            # A prediction without a timestamp has -1, which brokers do not accept.
            starts = (
                {}
                if since is None
                else consumer.offsets_for_times(dict.fromkeys(label_partitions, max(since, 0)))
            )
            for tp in label_partitions:
                start = starts.get(tp)
                consumer.seek(tp, ends[tp] if start is None else start.offset)
            while not stopped():
                self._accept_records(consumer.poll(500))

    def _partitions(self, consumer: Any, topic: str) -> list[TopicPartition]:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise DeniedError(f"topic {topic!r} does not exist, or may not be read")
        return [TopicPartition(topic, number) for number in sorted(numbers)]

    def _accept_records(self, polled: dict[TopicPartition, list[Any]]) -> None:
        for tp, records in polled.items():
            for record in records:
                if tp.topic == self._requests:
                    self._ask(record)
                else:
                    self._answered(record)

    def _ask(self, record: Any) -> None:
        """Open a request; beyond `MOST` the oldest is dropped."""
        try:
            says = msgspec.json.decode(record.value or b"", type=RequestMessage)
        except (ValueError, RecursionError) as error:  # invalid UTF-8, nested too deeply
            self._refuse(record, str(error))
            return
        key = record.key
        if says.topic is not None:
            source = self._readers.read_at(says.topic, says.partition, says.offset)
            if source is None or source.value is None:
                return  # the prediction is gone, and with it its content
            key = source.key
            try:
                says.message = self._formats.predictions.show(source.value, source.headers)
            except BadMessage as error:
                self._refuse(record, str(error))
                return
        classes = self.classes if says.classes is None else says.classes
        if len(says.probs) != len(classes):
            self._refuse(record, f"{len(says.probs)} classes, the settings have {len(classes)}")
            return
        with self._lock:
            self._open[says.id] = Pending(record.partition, record.offset, key, says)
            if len(self._open) > MOST:
                self._open.popitem(last=False)

    def _refuse(self, record: Any, why: str) -> None:
        log.warning("%s-%d offset %d: %s", record.topic, record.partition, record.offset, why)

    def _answered(self, record: Any) -> None:
        try:
            messages = self._of_labels[record.topic]
            message = messages.open(record.value or b"", record.headers, label=True)
            id = messages.id_of_label(message, record.key, record.headers)
            if id is None:
                return
            name = id.decode(errors="replace")
            request = self._open.get(name)
            if request is None:
                return
            if request.says.classes is not None and self._lookup is None:
                messages = Messages(
                    request.says.classes,
                    messages.fields,
                    formats=self._formats.of_labels(record.topic),
                )
            messages.read_opened_label(message, record.key, record.headers)
        except ClientError:  # a schema that cannot be looked up now
            raise
        except StreamCANError:
            return  # a dead letter of the worker
        with self._lock:
            self._open.pop(name, None)

    def answer(self, partition: int, offset: int, chosen: Chosen) -> None:
        """Write the label of an open request; return once the brokers have it.

        Parameters
        ----------
        partition, offset
            Position of the request.
        chosen
            The class, or classes.

        Raises
        ------
        NotOpen
            The request is not open.
        UnknownClass
            There is no such class.
        NotWritten
            The label could not be written; the request stays open.
        """
        with self._lock:
            matches = [
                (name, request)
                for name, request in self._open.items()
                if (request.partition, request.offset) == (partition, offset)
            ]
            if not matches:
                raise NotOpen("this request was answered already")
            ((name, pending),) = matches
            if self._lookup is not None and isinstance(chosen, str):
                label = self._lookup.named(chosen)
            else:
                label = label_of(chosen, self.classes_of(pending), self.rows)
            del self._open[name]
        try:
            self._writer.append_label(pending, label)
        except ClientError as error:
            with self._lock:
                self._open[name] = pending
                by_time = sorted(self._open.items(), key=lambda item: item[1].says.time)
                self._open = OrderedDict(by_time)
            raise NotWritten(str(error)) from error

    def close(self) -> None:
        """Close it."""
        self._writer.close()
        self._readers.close()

"""Real flights into Kafka: each prediction when it was made, each label when it was known.

Run it, beside a broker: `python examples/kafka_producer.py --bootstrap-servers 127.0.0.1:9092`,
and `stream-can run examples/kafka_flights.toml` on the other side of the topics. The data and the
model are those of flights.py. Records carry the time of 2013, so the topics keep them for ever.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

import numpy as np
from flights import Stream, stream
from kafka import KafkaAdminClient, KafkaProducer

TOPICS = ("flights", "flights-labels", "flights-corrected", "flights-can-dead-letters")
PREDICTIONS, LABELS = TOPICS[:2]


def create_topics(servers: str, partitions: int) -> None:
    """Make the topics that do not exist yet; `stream-can run --create-topics` adds its state."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    # Old timestamps: with any other retention the broker deletes the flights as they come in.
    keep = {"num_partitions": partitions, "configs": {"retention.ms": "-1"}}
    missing = set(TOPICS) - set(admin.list_topics())
    if missing:
        admin.create_topics({name: keep for name in missing}, wait_for_metadata=True)
    admin.close()


def as_json(topic: str, message: dict) -> bytes:
    """A message of a topic as its record has it."""
    return json.dumps(message).encode()


def messages(flights: Stream, n: int, write=as_json) -> Iterator[tuple[str, bytes, bytes, int]]:
    """(topic, key, value, timestamp in ms) of the first n flights and their labels, by time."""
    made = flights.time[:n].astype("datetime64[ms]").astype(np.int64).tolist()
    known = flights.label_time[:n].astype("datetime64[ms]").astype(np.int64)
    order = np.argsort(known, kind="stable").tolist()
    known, next_label = known.tolist(), 0

    def label(row: int) -> tuple[str, bytes, bytes, int]:
        value = {"label": flights.classes[flights.labels[row]]}
        return LABELS, b"%d" % row, write(LABELS, value), known[row]

    for row, when in enumerate(made):
        while next_label < len(order) and known[order[next_label]] < when:
            yield label(order[next_label])
            next_label += 1
        value = {"flight": row, "probs": flights.probs[row].tolist()}
        yield PREDICTIONS, b"%d" % row, write(PREDICTIONS, value), when
    for row in order[next_label:]:
        yield label(row)


def produce(
    servers: str, flights: Stream, n: int, rate: float = 0, each=None, write=as_json
) -> None:
    """Send them, at most `rate` a second; `each` is called now and then with the number sent.

    Predictions and labels have the same key, so the same partition. Idempotent: each lies in its
    topic once, in order, whatever the network does.
    """
    producer = KafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, linger_ms=20, batch_size=65_536
    )
    begin, failed = time.monotonic(), []
    for sent, (topic, key, value, when) in enumerate(messages(flights, n, write), 1):
        producer.send(topic, value, key, timestamp_ms=when).add_errback(failed.append)
        if rate and sent % 20 == 0:
            time.sleep(max(0, begin + sent / rate - time.monotonic()))
        if each is not None and sent % 1000 == 0:
            each(sent)
        if failed:
            raise failed[0]
    producer.flush()
    producer.close()
    if failed:
        raise failed[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Real flights and their labels into Kafka.")
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--partitions", type=int, default=4, help="of topics that are made")
    parser.add_argument("--flights", type=int, default=284_821, help="only so many")
    parser.add_argument("--rate", type=float, default=0, help="records a second, 0 for no limit")
    arguments = parser.parse_args()
    create_topics(arguments.bootstrap_servers, arguments.partitions)
    print("training on January and February", flush=True)
    flights = stream()
    n = min(arguments.flights, len(flights.labels))
    produce(arguments.bootstrap_servers, flights, n, arguments.rate)
    print(f"{n} flights and their labels sent", flush=True)


if __name__ == "__main__":
    main()

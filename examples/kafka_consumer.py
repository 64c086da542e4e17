"""Reads corrected predictions as they are committed: what was likeliest before, and what is now.

Run it, beside a worker: `python examples/kafka_consumer.py --topic flights-corrected`
"""

from __future__ import annotations

import argparse
import json

from kafka import KafkaConsumer


def main() -> None:
    parser = argparse.ArgumentParser(description="Print corrected predictions.")
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="corrected")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after a silence")
    arguments = parser.parse_args()
    consumer = KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap_servers,
        # What a dead worker left behind in an aborted transaction is nobody's output.
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=1000 * arguments.seconds,
    )
    n = changed = 0
    for record in consumer:
        n += 1
        if record.value is None:  # a tombstone passes through
            continue
        message = json.loads(record.value)
        before, after = message["probs_raw"], message["probs"]
        likeliest = [max(range(len(p)), key=p.__getitem__) for p in (before, after)]
        changed += likeliest[0] != likeliest[1]
        key = (record.key or b"").decode(errors="replace")
        print(
            f"{key}: class {likeliest[0]} -> {likeliest[1]}, {max(before):.2f} -> {max(after):.2f}"
        )
    print(f"{n} predictions, the likeliest class changed in {changed}")
    consumer.close()


if __name__ == "__main__":
    main()

"""A corrector of your own between two topics, with plain kafka-python, exactly once::

    python examples/kafka_engine.py localhost:9092 APP INPUT OUTPUT

It corrects by the newest state of the application; `stream-can learn` learns from what it sends.
"""

import json
import sys

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata

from stream_can.kafka import States

servers, app, source, target = sys.argv[1:]
consumer = KafkaConsumer(
    source, bootstrap_servers=servers, group_id=app, enable_auto_commit=False,
    auto_offset_reset="earliest", isolation_level="read_committed",
)  # fmt: skip
producer = KafkaProducer(bootstrap_servers=servers, transactional_id=f"{app}-engine")
producer.init_transactions()
with States([servers], app) as states:
    while True:
        polled = consumer.poll(500)
        if not polled:
            continue
        state, offsets = states.newest(), {}
        producer.begin_transaction()
        for tp, records in polled.items():
            messages = [json.loads(one.value) for one in records]
            found = state.correct(
                [one["probs"] for one in messages], ids=[one.key for one in records],
                offsets=[one.offset for one in records],
                times=[one.timestamp / 1000 for one in records],
            )  # fmt: skip
            said = ("stream-can-state", b"%d" % state.number)
            for one, message, row in zip(records, messages, found.rows.tolist(), strict=True):
                value = json.dumps(message | {"probs": row, "probs_raw": message["probs"]})
                kept = [*one.headers, said]
                producer.send(target, value.encode(), one.key, kept, tp.partition, one.timestamp)
            for value, headers in found.sent:
                producer.send(f"{app}-sent", value, None, headers, tp.partition)
            offsets[tp] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()

"""What an application has stored, put wrong by hand, and a worker that refuses to begin with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from stream_can.kafka import DeniedError
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, fill, run_once
from tests.kafka.topics import produce, read


def worked(broker: Broker) -> App:
    """One partition with 100 predictions and labels behind it."""
    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 100)
    run_once(app)
    return app


def store(app: App, value: bytes | None) -> int:
    """Put something into the state topic of partition 0; its offset."""
    produce(app.servers, [(f"{app.id}-state", 0, f"{app.id}-in-0".encode(), value)])
    return read(app.servers, f"{app.id}-state", 0)[-1].offset


def point(app: App, so: int | None, offset: int | None = None) -> None:
    """Commit an offset of partition 0 with a pointer to that snapshot."""
    admin = KafkaAdminClient(bootstrap_servers=app.servers)
    tp = TopicPartition(app.given["input"], 0)
    here = admin.list_group_offsets([app.id])[app.id][tp]
    metadata = "" if so is None else json.dumps({"so": so})
    new = here._replace(metadata=metadata, offset=here.offset if offset is None else offset)
    admin.alter_group_offsets(app.id, {tp: new})
    admin.close()


def refused(app: App, match: str, **changes: Any) -> None:
    running = app.worker(**changes)
    with pytest.raises(DeniedError, match=match):
        running.join()

"""Users of the test's brokers: how one logs in, and what one may do."""

from __future__ import annotations

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from tests.kafka.broker.broker import CACHE, USERS
from tests.kafka.streams import App

SCRAM = {
    "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256",
    "ssl_cafile": str(CACHE / "broker.pem"),
    "sasl_plain_username": "mallory", "sasl_plain_password": USERS["mallory"],
}  # fmt: skip

Right = tuple[str, str, str]
"""Kind of thing, its name, what may be done with it."""


def sasl(user: str, password: str) -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user, "sasl_plain_password": password,
    }  # fmt: skip


def allow(servers: str, user: str, kind: str, name: str, right: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    acl = ACL(
        principal=f"User:{user}", host="*", operation=ACLOperation[right],
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType[kind], name),
    )  # fmt: skip
    result = admin.create_acls([acl])
    assert not result["failed"], result
    admin.close()


def take_away(servers: str, user: str, kind: str, name: str, right: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.delete_acls([
        ACLFilter(
            principal=f"User:{user}", host="*", operation=ACLOperation[right],
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePatternFilter(
                ResourceType[kind], name, ACLResourcePatternType.LITERAL
            ),
        )
    ])  # fmt: skip
    admin.close()


def rights(app: App, *instances: str) -> list[Right]:
    """Those of docs/operations.md, for a process that corrects and may learn."""
    ids = [("TRANSACTIONAL_ID", f"{app.id}/{name}", "WRITE") for name in instances or "0"]
    topics = [("in", "READ"), ("out", "WRITE"), ("dead-letters", "WRITE"), ("state", "READ"),
              ("sent", "WRITE"), ("state", "DESCRIBE_CONFIGS"),
              ("sent", "DESCRIBE_CONFIGS")]  # fmt: skip
    return [*_of(app, topics), ("GROUP", app.id, "READ"), *ids, *learners(app)]


def learners(app: App) -> list[Right]:
    """Those of them that learning alone needs."""
    topics = [("labels", "READ"), ("sent", "READ"), ("state", "WRITE")]
    topics += [("label-requests", "WRITE")] if app.given.get("ask") else []
    name = f"{app.id}-learner"
    return [*_of(app, topics), ("GROUP", name, "READ"), ("TRANSACTIONAL_ID", name, "WRITE")]


def servers(app: App) -> list[Right]:
    """Those of docs/servers.md, for a server."""
    topics = [("state", "READ"), ("sent", "WRITE"), ("labels", "WRITE"),
              ("state", "DESCRIBE_CONFIGS"), ("sent", "DESCRIBE_CONFIGS")]  # fmt: skip
    return _of(app, topics)


def _of(app: App, topics: list[tuple[str, str]]) -> list[Right]:
    return [("TOPIC", f"{app.id}-{kind}", right) for kind, right in topics]


def better(app: App) -> list[Right]:
    """Those without which a worker works too, and says what it does without."""
    written = ["out", "dead-letters", *["label-requests"] * bool(app.given.get("ask"))]
    return _of(app, [(kind, "DESCRIBE_CONFIGS") for kind in written])


def needed_to_start(app: App) -> list[Right]:
    """Those that a worker does not use all the time."""
    return _of(app, [(kind, "DESCRIBE_CONFIGS") for kind in ("state", "sent")])


def lacks(kind: str, name: str, right: str) -> str:
    """What a worker says that lacks a right."""
    what = {"TOPIC": "topic", "GROUP": "group", "TRANSACTIONAL_ID": "transactional id"}[kind]
    return f"rights missing: {right} on {what} {name}"

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

from tests.kafka.streams import App

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
    """Those of docs/operations.md."""
    topics = [("in", "READ"), ("labels", "READ"), ("out", "WRITE"), ("dead-letters", "WRITE"),
              ("state", "READ"), ("state", "WRITE"), ("state", "DESCRIBE_CONFIGS"),
              ("learned", "READ"), ("learned", "WRITE")]  # fmt: skip
    topics += [("label-requests", "WRITE")] if app.given.get("ask") else []
    ids = [("TRANSACTIONAL_ID", f"{app.id}-{name}", "WRITE") for name in instances or "0"]
    return [
        *(("TOPIC", f"{app.id}-{kind}", right) for kind, right in topics),
        ("GROUP", app.id, "READ"),
        *ids,
    ]


def better(app: App) -> list[Right]:
    """Those without which a worker works too, and says what it does without."""
    written = ["out", "dead-letters", "learned", *["label-requests"] * bool(app.given.get("ask"))]
    given = [("out", "READ"), *((kind, "DESCRIBE_CONFIGS") for kind in written)]
    return [("TOPIC", f"{app.id}-{kind}", right) for kind, right in given]


def needed_to_start(app: App) -> list[Right]:
    """Those that a worker does not use all the time: the first as it restores, too."""
    return [("TOPIC", f"{app.id}-state", right) for right in ("READ", "DESCRIBE_CONFIGS")]


def lacks(kind: str, name: str, right: str) -> str:
    """What a worker says that lacks a right."""
    what = {"TOPIC": "topic", "GROUP": "group", "TRANSACTIONAL_ID": "transactional id"}[kind]
    return f"rights missing: {right} on {what} {name}"

"""Users of the test's brokers: how one logs in, and what one may do."""

from __future__ import annotations

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)


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

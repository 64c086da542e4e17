"""Kafka's shell scripts, as its tarball and its image have them: the same classes, from Maven's."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kafka.broker.broker import CACHE, LOG4J, alone, libraries

VERSION = "3.9.1"
"""The newest whose tools are at Maven Central."""
CLASSES = {
    "kafka-acls.sh": "kafka.admin.AclCommand",
    "kafka-broker-api-versions.sh": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "kafka.tools.ConsoleProducer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


def java(script: str) -> list[str]:
    """What a script starts."""
    tools = CACHE / f"kafka-tools-{VERSION}"
    with alone(tools.name):
        if not list(tools.glob("*.jar")):
            command = ["mvn", "-B", "-q", "dependency:copy", f"-DoutputDirectory={tools}"]
            command += [f"-Dartifact=org.apache.kafka:kafka-tools:{VERSION}"]
            subprocess.run(command, check=True, timeout=300)
    path = f"{libraries(VERSION)}/*:{tools}/*"
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", path, CLASSES[script]]


def write(folder: Path) -> None:
    """Make a folder of scripts; what they log is as little as the tarball's."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j.properties").write_text(LOG4J["log4j.properties"])
    for script in CLASSES:
        words = java(script)
        words.insert(1, f"-Dlog4j.configuration=file:{folder}/log4j.properties")
        words = [f"'{word}'" for word in words]
        (folder / script).write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
        (folder / script).chmod(0o755)

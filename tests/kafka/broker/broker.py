"""A real Apache Kafka broker for tests: jars from Maven Central, one process, all on 127.0.0.1.

As a fixture (see conftest.py) or by hand::

    python -m tests.kafka.broker.broker start --version 4.4.0 --port 9092
    python -m tests.kafka.broker.broker stop --delete

Besides the plain listener (every client on it is a super user) there is one with SASL/PLAIN, whose
users have only the rights that a test gives them, one with TLS, one with TLS on both sides, one
with TLS and SCRAM, one with tokens that nobody signed, and two whose certificates have expired or
are for another host.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache"
VERSIONS = ("4.4.0", "3.9.1")
USERS = {"alice": "alice-secret", "mallory": "mallory-secret"}
STORE_PASSWORD = "test-only"
CLUSTER = "stream-can-tests-01234"
"""Every cluster's name: 16 bytes in base64."""

PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,SCRAM:SASL_SSL,EXPIRED:SSL,ELSEWHERE:SSL,MUTUAL:SSL,OAUTH:SASL_PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
log.dirs={data}
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \\
    required {users};
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.scram.scram-sha-256.sasl.jaas.config=\\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config=\\
    org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule \\
    required unsecuredLoginStringClaim_sub="broker";
listener.name.mutual.ssl.client.auth=required
listener.name.mutual.ssl.truststore.type=PEM
listener.name.mutual.ssl.truststore.location={trusted}
{stores}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
default.replication.factor={copies}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={copies}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=4
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
log.cleaner.backoff.ms=500
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=500
metadata.max.idle.interval.ms=60000
num.network.threads=1
num.io.threads=4
background.threads=2
"""

LOG4J = {  # 3.9.1 logs through reload4j, 4.4.0 through log4j 2
    "log4j.properties": """\
log4j.rootLogger=WARN, out
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c %m%n
""",
    "log4j2.properties": """\
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c %m%n
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=INFO
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
""",
}


@contextlib.contextmanager
def alone(what: str) -> Iterator[None]:
    """No other process makes the same thing in the cache meanwhile."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"{what}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def libraries(version: str) -> Path:
    """The folder of a version's jars, fetched from Maven Central the first time."""
    return jars(f"kafka-{version}", f"pom-{version}.xml")


def jars(name: str, pom: str) -> Path:
    """The folder of the jars that a project needs, fetched from Maven Central the first time."""
    libs = CACHE / name / "libs"
    with alone(name):
        if not (libs.parent / "complete").exists():
            shutil.rmtree(libs, ignore_errors=True)
            command = ["mvn", "-B", "-q", "-f", str(HERE / pom)]
            command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
            subprocess.run([*command, f"-DoutputDirectory={libs}"], check=True, timeout=600)
            (libs.parent / "complete").touch()
    return libs


def archive(version: str) -> Path:
    """The classes that a broker loads, as Java maps them into memory: a third less of each start.

    Made the first time, by a broker that starts and stops.
    """
    made = CACHE / f"kafka-{version}" / "classes.jsa"
    with alone(f"classes-{version}"):
        if not made.exists():
            new = made.with_suffix(".new")
            new.unlink(missing_ok=True)
            making = Broker(version, Path(tempfile.mkdtemp(prefix="kafka-")), archive_to=new)
            making.start()
            making.stop(280)
            making.remove()
            new.rename(made)
    return made


CERTIFICATES = {
    "broker": ["-ext", "san=ip:127.0.0.1", "-validity", "3650"],
    "expired": ["-ext", "san=ip:127.0.0.1", "-startdate", "-3d", "-validity", "1"],
    "elsewhere": ["-ext", "san=dns:elsewhere.example", "-validity", "3650"],
}
LISTENERS = {
    "tls": "broker", "mutual": "broker", "scram": "broker", "expired": "expired",
    "elsewhere": "elsewhere",
}  # fmt: skip
"""Which listener shows which certificate."""


def keystore(name: str = "broker") -> Path:
    """A self-signed key; its certificate lies beside it, ``name.pem``."""
    store, pem = CACHE / f"{name}.p12", CACHE / f"{name}.pem"
    with alone(f"{name}.p12"):
        if not pem.exists():
            store.unlink(missing_ok=True)
            common = ["-alias", "broker", "-keystore", str(store), "-storepass", STORE_PASSWORD]
            make = ["-genkeypair", "-keyalg", "EC", "-dname", f"CN={name}", *CERTIFICATES[name]]
            make += ["-storetype", "PKCS12"]
            for action in (make, ["-exportcert", "-rfc", "-file", str(pem)]):
                subprocess.run(["keytool", *action, *common], check=True, capture_output=True)
    return store


def store_properties(listener: str) -> str:
    store = {
        "type": "PKCS12",
        "location": keystore(LISTENERS[listener]),
        "password": STORE_PASSWORD,
    }
    return "\n".join(f"listener.name.{listener}.ssl.keystore.{k}={v}" for k, v in store.items())


@functools.cache
def own_ports() -> tuple[list[int], list[socket.socket]]:
    """Ports that no other process takes from here while this one lives, and what says so.

    Between a look at a port and the broker's start, and while a broker is down, another test
    process could take the same. They lie below the ephemeral range, which the system gives away.
    """
    return [], []


def free_ports(n: int) -> list[int]:
    """So many of `own_ports` that nothing listens on, each given once."""
    ports: list[int] = []
    left, claims = own_ports()
    while len(ports) < n:
        if not left:
            left += claim_ports(claims)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port := left.pop())) != 0:
                ports.append(port)
    return ports


def claim_ports(claims: list[socket.socket]) -> list[int]:
    """200 ports more for this process."""
    claim = socket.socket(socket.AF_UNIX)
    for first in range(15_000, 32_000, 200):
        with contextlib.suppress(OSError):  # another process has this name, or this one already
            claim.bind(f"\0stream-can-test-ports-{first}")
            claims.append(claim)
            return random.sample(range(first, first + 200), 200)
    raise RuntimeError("every range of ports is taken by another test process")


@dataclass
class Served:
    """Where a server is reached; whoever has only this can neither stop nor start it."""

    version: str
    directory: Path
    listeners: dict[str, str]
    """By name. A broker's: see the top of this file; a registry's: http."""

    @property
    def bootstrap_servers(self) -> str:
        return self.listeners["plain"]

    @property
    def sasl_servers(self) -> str:
        return self.listeners["sasl"]

    @property
    def tls_servers(self) -> str:
        return self.listeners["tls"]

    @property
    def url(self) -> str:
        """A registry's, as clients of Confluent's take it."""
        return f"http://{self.listeners['http']}/apis/ccompat/v7"


class Server(Served):
    """A process that serves, and its folder.

    ``start``, ``stop`` (SIGTERM, orderly) and ``kill`` (SIGKILL) may follow each other in any
    order; the data stays until ``remove``.
    """

    command: list[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    def serves(self, text: bytes) -> bool:
        """Whether it does, by what it has logged since its start."""
        raise NotImplementedError

    def start(self, timeout: float = 280) -> None:
        """Start the process and wait until it serves.

        Raises
        ------
        RuntimeError
            It did not come up; the message ends with the last lines of its log.
        """
        seen = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        (self.directory / "pid").write_text(str(self.process.pid))
        deadline = time.monotonic() + timeout
        while not self.serves(text := self.log.read_bytes()[seen:]):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                tail = text.decode(errors="replace")[-3000:]
                name = f"{type(self).__name__} {self.version}"
                raise RuntimeError(f"{name} did not start within {timeout} s:\n{tail}")
            time.sleep(0.1)

    def stop(self, timeout: float = 30) -> None:
        """Shut down in order (SIGTERM); after ``timeout`` seconds by force."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def remove(self) -> None:
        """Kill the process and delete its folder."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Broker(Server):
    """One broker."""

    def __init__(
        self,
        version: str,
        directory: Path,
        port: int | None = None,
        *,
        node: int = 1,
        controllers: Sequence[int] = (),
        archive_to: Path | None = None,
    ) -> None:
        controllers = controllers or free_ports(1)
        names = ("plain", "sasl", "oauth", *LISTENERS)
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        if port is not None:
            ports["plain"] = port
        super().__init__(version, directory, {name: f"127.0.0.1:{n}" for name, n in ports.items()})
        self.node = node
        libs = libraries(version)
        directory.mkdir(parents=True, exist_ok=True)
        self.config = directory / "server.properties"
        users = " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items())
        self.config.write_text(
            PROPERTIES.format(
                data=directory / "data", node=node,
                listeners=",".join(f"{n.upper()}://{at}" for n, at in self.listeners.items()),
                controller=controllers[node - 1], copies=len(controllers),
                voters=",".join(f"{n}@127.0.0.1:{p}" for n, p in enumerate(controllers, 1)),
                in_sync=(len(controllers) + 1) // 2,
                users=users, trusted=CACHE / "broker.pem",
                stores="\n".join(map(store_properties, LISTENERS)),
            )
        )  # fmt: skip
        for name, text in LOG4J.items():
            (directory / name).write_text(text)
        self.java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self.java += [f"-Dlog4j.configuration=file:{directory}/log4j.properties"]
        self.java += [f"-Dlog4j2.configurationFile={directory}/log4j2.properties"]
        self.java += ["-cp", f"{libs}/*"]
        self._format()
        if archive_to is not None:
            self.java.insert(1, f"-XX:ArchiveClassesAtExit={archive_to}")
        else:
            self.java.insert(1, f"-XX:SharedArchiveFile={archive(version)}")
        self.command = [*self.java, "kafka.Kafka", str(self.config)]

    def serves(self, text: bytes) -> bool:
        return b"Kafka Server started" in text

    def _format(self) -> None:
        """Make our data folder: what the first broker of our version and number was given."""
        made = CACHE / f"kafka-{self.version}" / f"formatted-{self.node}"
        with alone(f"{made.parent.name}-{made.name}"):
            if not made.exists():
                command = [*self.java, "kafka.tools.StorageTool", "format", "-t", CLUSTER]
                for name, secret in USERS.items():
                    command += ["--add-scram", f"SCRAM-SHA-256=[name={name},password={secret}]"]
                subprocess.run(
                    [*command, "-c", str(self.config)],
                    check=True, timeout=280, stdout=subprocess.DEVNULL,
                )  # fmt: skip
                shutil.rmtree(new := made.with_suffix(".new"), ignore_errors=True)
                (self.directory / "data").rename(new)
                new.rename(made)
            if not (self.directory / "data").exists():
                shutil.copytree(made, self.directory / "data")


def remove(directory: Path) -> None:
    """Kill the server of a folder, whoever started it, and delete the folder."""
    if (pid := running(directory)) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


class Cluster:
    """Brokers that are each other's replicas, started and removed together."""

    def __init__(self, version: str, directory: Path, size: int = 3) -> None:
        self.version = version
        controllers = free_ports(size)
        with ThreadPoolExecutor() as pool:
            self.brokers = list(
                pool.map(
                    lambda node: Broker(
                        version, directory / f"{node}", node=node, controllers=controllers
                    ),
                    range(1, size + 1),
                )
            )
        self.bootstrap_servers = ",".join(broker.bootstrap_servers for broker in self.brokers)

    def start(self) -> None:
        """Start all at once: one alone waits for the others."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(Broker.start, self.brokers))

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def remove(self) -> None:
        for broker in self.brokers:
            broker.remove()


def running(directory: Path) -> int | None:
    """The process of the server of a folder, whoever started it."""
    with contextlib.suppress(OSError):  # it never ran, or is gone
        pid = int((directory / "pid").read_text())
        # Not another process that has been given this number since.
        if str(directory).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return None


def stop(directory: Path, timeout: float = 60) -> None:
    """Shut down the server of a folder in order; after ``timeout`` seconds by force."""
    deadline, number = time.monotonic() + timeout, signal.SIGTERM
    while (pid := running(directory)) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        time.sleep(0.2)
        if time.monotonic() > deadline:
            number = signal.SIGKILL


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A Kafka broker on 127.0.0.1 for trying things out; its topics outlive it."
    )
    parser.add_argument("action", choices=("start", "stop"))
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0])
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--folder", type=Path, default=CACHE / "broker", help="of topics, scripts")
    parser.add_argument("--delete", action="store_true", help="with stop: delete the topics too")
    options = parser.parse_args()
    folder = options.folder.resolve()
    brokers = [folder / version for version in VERSIONS]
    if options.action == "stop":
        for directory in brokers:
            if running(directory) is not None:
                stop(directory)
                print(f"stopped Apache Kafka {directory.name}")
            if options.delete and directory.exists():
                shutil.rmtree(directory, ignore_errors=True)
                print(f"deleted {directory}: its topics are gone")
        return
    for directory in brokers:
        if running(directory) is not None:
            at = re.findall(r"PLAIN://([^,]*)", (directory / "server.properties").read_text())
            sys.exit(f"a broker serves on {at[0]} already: `make broker-stop` ends it")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", options.port)) == 0:
            sys.exit(f"port {options.port} is in use: `make broker PORT=...` takes another one")
    from tests.kafka import scripts

    scripts.write(folder / "kafka" / "bin")
    broker = Broker(options.version, folder / options.version, options.port)
    broker.start()
    print(
        f"Apache Kafka {broker.version} serves on {broker.bootstrap_servers}. Scripts, of version"
        f" {scripts.VERSION}, are in {folder}/kafka/bin.\n`make broker-stop` stops it and keeps its"
        " topics; `make broker-stop DELETE=1` deletes them."
    )


if __name__ == "__main__":
    main()

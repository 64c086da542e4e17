"""A real schema registry for tests: Apicurio from Maven Central, one process on 127.0.0.1.

2.6 runs on Java 17, 3 needs 21. It checks no credentials, knows no GUIDs, and has no rule of
compatibility before one is set (`set_rule`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import urllib.request
from pathlib import Path

from tests.kafka.broker.broker import CACHE, Server, alone, free_ports

VERSION = "2.6.13.Final"
NAME = "apicurio-registry-app"


def application(version: str = VERSION) -> Path:
    """The folder of the application, fetched from Maven Central the first time."""
    folder = CACHE / f"apicurio-{version}"
    with alone(folder.name):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            command = ["mvn", "-B", "-q", "dependency:unpack", f"-DoutputDirectory={folder}"]
            command += [f"-Dartifact=io.apicurio:{NAME}:{version}:tar.gz:all"]
            # In the folder: without a project it leaves its marks where it was called.
            subprocess.run(command, check=True, timeout=600, cwd=folder)
            (folder / "complete").touch()
    return folder


class Apicurio(Server):
    """One registry; what it holds lies in a file, so that it knows its ids after a restart."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        listeners = {"http": f"127.0.0.1:{port or free_ports(1)[0]}"}
        super().__init__(VERSION, directory, listeners)
        directory.mkdir(parents=True, exist_ok=True)
        host, _, number = listeners["http"].partition(":")
        # Without a delay the file holds what was answered, also after SIGKILL.
        database = f"jdbc:h2:file:{directory}/data;WRITE_DELAY=0"
        self.command = [
            "java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Djava.io.tmpdir={directory}", f"-Dquarkus.datasource.jdbc.url={database}",
            f"-Dquarkus.http.host={host}", f"-Dquarkus.http.port={number}",
            "-jar", str(application() / f"{NAME}-{VERSION}-runner.jar"),
        ]  # fmt: skip

    def serves(self, text: bytes) -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{self.url}/subjects", timeout=5).close()
            return True
        return False

    def forget(self) -> None:
        """Lose all schemas and ids, while it is stopped."""
        (self.directory / "data.mv.db").unlink()


def set_rule(url: str, level: str, subject: str | None = None) -> None:
    """Compatibility of a subject, or of all that have no rule of their own: "BACKWARD", ..."""
    request = urllib.request.Request(
        f"{url}/config{f'/{subject}' if subject else ''}",
        json.dumps({"compatibility": level}).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=280).close()

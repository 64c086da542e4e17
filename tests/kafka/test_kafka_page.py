"""Every command of docs/kafka.md, in its order, from no broker to the first corrected record."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kafka import scripts
from tests.kafka.broker.broker import free_ports
from tests.pages import ROOT, blocks, run_sh, staying
from tests.programs import text_at, wait

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
listeners=PLAINTEXT://:9092,CONTROLLER://:{controller}
advertised.listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
"""What matters of the tarball's, on a controller's port and in a folder of our own."""
START = "kafka/bin/kafka-server-start.sh kafka/config/kraft/server.properties\n"
SAYS_READY = {
    START: "Kafka Server started",
    "stream-can run app.toml --create-topics\n": "partitions [0, 1], by state",
}
"""Commands that stay, in a terminal of their own -> what the page tells to wait for."""


@pytest.mark.long
@pytest.mark.needs("curl")
def test_from_nothing_to_the_first_corrected_record(tmp_path: Path) -> None:
    broker, controller, page = map(str, free_ports(3))

    def here(text: str) -> str:
        return text.replace("9092", broker).replace("9400", page)

    scripts.write(tmp_path / "kafka" / "bin")
    properties = tmp_path / "kafka" / "config" / "kraft" / "server.properties"
    properties.parent.mkdir(parents=True)
    properties.write_text(here(PROPERTIES.format(controller=controller, data=tmp_path / "data")))
    printed: dict[str, str] = {}
    said: list[str] = []
    left = dict(SAYS_READY)

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(text_at(f"http://127.0.0.1:{page}/status.json") or "{}")
        return found

    def letters(n: int) -> None:
        wait(f"{n} dead letters", lambda: status().get("n_dead_letters") == n)

    with contextlib.ExitStack() as stack:
        for number, (language, code) in enumerate(blocks(ROOT / "docs" / "kafka.md")):
            if language == "toml":
                (tmp_path / "app.toml").write_text(here(code))
            elif language == "text":
                said.append(code)
            elif language == "python":
                (tmp_path / "again.py").write_text(here(code))
            elif code in left:
                log = tmp_path / f"{number}.log"
                stack.enter_context(staying(here(code), tmp_path, log))
                ready = left.pop(code)
                wait(code, lambda log=log, ready=ready: ready in log.read_text())
            else:
                assert language == "sh"
                if again := code == "python again.py\n":
                    (send,) = (text for text in printed if "0.3, 0.4]" in text)
                    broken = send.partition("kafka/bin/kafka-console-consumer")[0]
                    run_sh(here(broken.replace("0.3, 0.4]", "0.7]")), tmp_path)
                    letters(1)
                printed[code] = run_sh(here(code), tmp_path)
                if again:
                    letters(2)  # it was sent again, and is as broken as it was
        assert not left
        (corrected,) = (text for code, text in printed.items() if "--topic corrected" in code)
        found, (shown,) = json.loads(corrected), (text for text in said if "probs_raw" in text)
        assert found["probs_raw"] == json.loads(shown)["probs_raw"] == [0.3, 0.3, 0.4]
        assert found["probs"] == pytest.approx(json.loads(shown)["probs"], abs=0.01)
        assert found["probs"] != found["probs_raw"]
        for says in SAYS_READY.values():
            assert f"`{says}" in (ROOT / "docs" / "kafka.md").read_text()
        assert "fraud-corrector" in printed["curl -s http://localhost:9400/status.json\n"]

        wait("the label is joined to its prediction", lambda: status()["hour"]["scored"] == 1)

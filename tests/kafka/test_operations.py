"""What an operator types: inspect --topic, backfill, a port to watch, against a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stream_can import Corrector
from tests.kafka.broker.broker import Broker, free_ports
from tests.kafka.streams import App, caught_up, correctors_of, fill, run_once, write_config
from tests.kafka.topics import produce
from tests.programs import PATIENCE, text_at, wait


def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stream_can", *arguments],
        capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **env},
    )  # fmt: skip


def test_backfill_then_run_then_inspect(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers)
    fill(app, 600)
    config, warm = write_config(app, tmp_path), tmp_path / "warm.bin"
    done = command("backfill", config, "--snapshot", str(warm), "--start-group")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["predictions"] == found["matched"] == found["scored"] == 600
    ends = {"0": 300, "1": 300}
    topics = app.given["input"], app.given["labels"]
    assert found["next_offsets"] == dict.fromkeys(topics, ends)
    assert found["before"].keys() == found["after"].keys() == {"accuracy", "log_loss"}
    assert "1200 records" in done.stderr
    corrector = Corrector.from_bytes(warm.read_bytes())
    assert corrector.n_labels == 600

    state, servers = f"{app.id}-state", app.servers
    for where in (["--topic", state, "--bootstrap-servers", servers], ["--config", config]):
        shown = command("inspect", *where, "--json")
        assert shown.returncode == 0, shown.stderr
        one = json.loads(shown.stdout)
        assert one["labels"] == 600
        assert one["prior"] == corrector.prior.tolist()
        assert one["stream"]["inputs"] == ends
    saved = tmp_path / "saved.bin"
    text = command(
        "inspect", "--topic", state, "--save", str(saved), STREAM_CAN_BOOTSTRAP_SERVERS=servers
    )
    assert saved.read_bytes() == warm.read_bytes()
    assert "labels learned" in text.stdout

    fill(app, 200, seed=1)
    running = app.worker()
    caught_up(app, running)
    wait("all learned", lambda: running.corrector().n_labels == 800)
    running.stop()
    assert sum(len(app.outputs(p)) for p in (0, 1)) == 200  # and none of the history
    assert json.loads(command("inspect", "--config", config, "--json").stdout)["labels"] == 800

    again = command("backfill", config, "--start-group")
    assert again.returncode == 1
    assert "has members or has committed" in again.stderr


def test_of_several_states_one_is_chosen_by_its_key(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers, model="model")
    fill(app, 400, more=lambda rng, says: says.update(model=rng.choice(["a", "b c"])))
    run_once(app)
    config, saved = write_config(app, tmp_path), tmp_path / "saved.bin"
    several = command("inspect", "--config", config, "--save", str(saved))
    assert several.returncode == 2
    assert "--save: choose one with --key: " in several.stderr
    unknown = command("inspect", "--config", config, "--key", "d")
    assert unknown.returncode == 2
    assert "--key: no corrector 'd'; there are " in unknown.stderr
    assert not saved.exists()
    one = command("inspect", "--config", config, "--key", "b c", "--save", str(saved))
    assert one.returncode == 0, one.stderr
    assert saved.read_bytes() == correctors_of(app)["b c", None].to_bytes()


def test_mistakes_are_named(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers)
    config = write_config(app, tmp_path)
    nowhere = ("inspect", "--topic", "nowhere-x", "--bootstrap-servers", app.servers)
    for arguments, code, message in [
        (("backfill", config), 2, "--snapshot FILE or --start-group"),
        (("inspect",), 2, "a file, or --topic or --config"),
        (("inspect", "x.bin", "--topic", "t"), 2, "a file, or --topic or --config"),
        (("inspect", "--topic", "t"), 2, "--bootstrap-servers HOST:PORT"),
        (("inspect", "--config", config), 1, f"{app.id}-state: no state has been written yet"),
        (nowhere, 1, "does not exist"),
    ]:
        done = command(*arguments)
        assert done.returncode == code, arguments
        assert message in done.stderr, arguments
        assert "Traceback" not in done.stderr


def test_a_process_serves_its_port_and_stops_in_order(broker: Broker, tmp_path: Path) -> None:
    (number,) = free_ports(1)
    app = App(broker.bootstrap_servers, http_port=number, http_host="127.0.0.1")
    fill(app, 200)
    process, url = app.process(tmp_path), f"http://127.0.0.1:{number}"
    try:
        wait("ready", lambda: process.poll() is not None or text_at(f"{url}/readyz"))
        assert process.poll() is None, (tmp_path / "0.log").read_text()
        caught_up(app)
        produce(app.servers, [(app.given["input"], 0, b"k", b"{")])
        counted = 'result="dead_letter"} 1.0'
        wait("a dead letter is counted", lambda: counted in text_at(f"{url}/metrics"))
    finally:
        process.terminate()
        code = process.wait(PATIENCE)
    assert code == 0
    assert text_at(f"{url}/livez") is None


def test_a_port_in_use_stops_the_start(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers, http_port=0, http_host="127.0.0.1")
    running = app.worker()
    port = wait("the port", lambda: running.worker.port)
    config = write_config(app, tmp_path)
    done = command("run", config, "--http-port", str(port.number), "--instance", "1")
    running.stop()
    assert done.returncode == 3
    assert f"http_port {port.number} on '127.0.0.1'" in done.stderr


@pytest.mark.fast
@pytest.mark.parametrize(
    ("option", "message"),
    [("--http-port=70000", "http_port: 70000"), ("--live-seconds=0", "live_seconds")],
)
def test_settings_of_the_port_are_checked(option: str, message: str) -> None:
    common = ["--bootstrap-servers=127.0.0.1:1", "--application-id=a", "--input=i", "--output=o"]
    done = command("run", *common, "--classes=a,b", option)
    assert done.returncode == 2
    assert message in done.stderr

"""Backup, undo, restore and move, by the commands of docs/operations.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stream_can import Corrector
from tests.kafka.broker.broker import Broker, Served
from tests.kafka.streams import (
    App,
    correctors_of,
    fill,
    run_once,
    state_of,
    write_config,
)
from tests.kafka.topics import create, delete
from tests.pages import ROOT, run_sh, staying
from tests.programs import wait

SECTION = (ROOT / "docs" / "operations.md").read_text().partition("## Backup, undo, move")[2]
BACKUP, RESET, RUN = re.findall(r"```sh\n(.*?)```", SECTION, re.S)[:3]


def more(app: App, first: int, n: int, *, learned: int) -> None:
    """n predictions and labels more, until so many labels are learned."""
    fill(app, n, n, first=first)
    run_once(app, learned=learned)


def now_named(app: App, folder: Path) -> None:
    """What the page says to write into app.toml."""
    app.given |= {"classes": None, "classes_from_file": "backup.bin"}
    Path(write_config(app, folder)).rename(folder / "app.toml")
    app.given["classes_from_file"] = str(folder / "backup.bin")


@pytest.fixture
def backed_up(our_broker: Served, tmp_path: Path) -> App:
    """An application that has learned 300 labels, and 200 more after a backup."""
    app = App(our_broker.bootstrap_servers, partitions=1)
    more(app, 0, 300, learned=300)
    Path(write_config(app, tmp_path)).rename(tmp_path / "app.toml")
    run_sh(BACKUP, tmp_path)
    more(app, 300, 200, learned=500)
    return app


def saved(folder: Path) -> bytes:
    return Corrector.from_bytes((folder / "backup.bin").read_bytes()).to_bytes()


def test_undo(backed_up: App, tmp_path: Path) -> None:
    """Beside a worker that runs, with the settings of before; and one of after goes on."""
    app, log = backed_up, tmp_path / "log"
    running = app.worker()
    wait("it learns", lambda: running.corrector().n_labels == 500)
    now_named(app, tmp_path)
    with staying(RESET.strip(), tmp_path, log):
        wait("started over", lambda: "started over" in log.read_text())
        wait("it corrects by it", lambda: {
            one.to_bytes() for one in running.worker.work.follower.state.begins.values()
        } == {saved(tmp_path)})  # fmt: skip
    fill(app, 50, 50, first=500)
    wait("it learns on", lambda: running.corrector().n_labels == 350)
    running.stop()
    state = state_of(app)
    assert state is not None
    assert state.begins == {None: saved(tmp_path)}
    more(app, 550, 50, learned=400)


def test_restore(backed_up: App, tmp_path: Path) -> None:
    app = backed_up
    delete(app.servers, f"{app.id}-state")
    create(app.servers, {f"{app.id}-state": {
        "cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "partitions": 2,
    }})  # fmt: skip
    now_named(app, tmp_path)
    at = len(app.outputs(0))
    more(app, 500, 1, learned=301)
    wait("it is out", lambda: len(app.outputs(0)) == at + 1)
    (out,) = app.outputs(0)[at:]
    says = json.loads(out.value)
    expected = Corrector.from_bytes(saved(tmp_path)).process_one(says["probs_raw"])
    assert says["probs"] == pytest.approx(list(expected), abs=1e-15)


def test_move(backed_up: App, own_broker: Broker, tmp_path: Path) -> None:
    """To a cluster that has the input and the labels."""
    there = App(own_broker.bootstrap_servers, partitions=1, name=backed_up.id)
    for kind in ("state", "sent"):  # the output is kept: the records' times are old
        delete(there.servers, f"{there.id}-{kind}")
    now_named(there, tmp_path)
    fill(there, 100, 7, first=500)
    with staying(RUN.strip(), tmp_path, tmp_path / "log"):
        wait("it goes on", lambda: "by state" in (tmp_path / "log").read_text())
        wait("it learns", lambda: 400 in [one.n_labels for one in correctors_of(there).values()])
        wait("all out", lambda: len(there.outputs(0)) == 100)
    first = json.loads(there.outputs(0)[0].value)
    expected = Corrector.from_bytes(saved(tmp_path)).process_one(first["probs_raw"])
    assert first["probs"] == pytest.approx(list(expected), abs=1e-15)

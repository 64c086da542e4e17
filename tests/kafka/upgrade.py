"""From a real older release to this one under running workers, and the way back.

    python -m tests.kafka.upgrade COMMAND

COMMAND is the older release's ``stream-can``. Two of its workers are replaced one after the other
while records come in. Then one of them is started again, and must refuse; then the other, beside a
worker of this release. What the topics hold is checked as after a run of `chaos`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.kafka.broker.broker import VERSIONS, Broker
from tests.kafka.chaos import CLIENT, Writer
from tests.kafka.streams import COMMAND, App
from tests.programs import PATIENCE, wait


def main() -> None:
    old = [sys.argv[1], "run"]
    directory = Path(tempfile.mkdtemp(prefix="upgrade-"))
    broker = Broker(VERSIONS[0], directory / "broker")
    workers = {}
    try:
        broker.start()
        app = App(broker.bootstrap_servers, partitions=4, client=CLIENT)
        log = {name: directory / f"{name}.log" for name in "01"}

        def begin(name: str, command: list[str]) -> None:
            seen = log[name].stat().st_size if log[name].exists() else 0
            workers[name] = app.process(directory, name, command=command)
            wait(
                f"{log[name]}: restored, or ended",
                lambda: (
                    b"restored" in log[name].read_bytes()[seen:] or workers[name].poll() is not None
                ),
            )

        def stop(name: str) -> None:
            workers[name].terminate()
            assert workers[name].wait(PATIENCE) == 0, log[name]

        def moved(records: int = 500) -> None:
            ends = sum(len(app.outputs(p)) for p in range(app.partitions)) + records
            wait("outputs", lambda: sum(len(app.outputs(p)) for p in range(4)) >= ends, every=0.5)

        writer = Writer(app, rate=200, seed=0)
        for name in "01":
            begin(name, old)
        moved()
        for name in "01":
            stop(name)
            begin(name, COMMAND)
            moved()
        for beside in (True, False):
            if not beside:
                stop("1")
            stop("0")
            begin("0", old)
            code = workers["0"].wait(PATIENCE)
            print(f"the way back, {'beside' if beside else 'without'} this release: exit {code}")
            print("    " + log["0"].read_text().splitlines()[-1])
            for name in "01" if not beside else "0":
                begin(name, COMMAND)
            moved()
        writer.ended.set()
        writer.join(PATIENCE)
        wait("all committed", lambda: app.lag() == 0)
        for name in "01":
            stop(name)
        print(f"exact: {app.verify()} records, {app.checked.learned} labels")
        for name, what in (("0", [*old, "--reset-state"]), ("1", COMMAND)):
            begin(name, what)
            print(f"with {' '.join(what[-2:])}: exit {workers[name].poll()}")
            print("    " + "\n    ".join(log[name].read_text().splitlines()[-4:]))
            stop(name)
        app.close()
    finally:
        for process in workers.values():
            process.kill()
            process.wait()
        broker.remove()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()

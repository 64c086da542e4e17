"""`inspect` of what is no snapshot of a `Corrector`: a server's file, sparse rows."""

import json
import signal

import numpy as np

from stream_can import Corrector
from stream_can.sparse import SparseCorrector
from tests.cli.command import stream_can
from tests.serve.serving import CLASSES, Server


def test_the_file_of_a_server_gives_its_corrector_out(tmp_path):
    """Killed: what came behind the last state is in it too."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 50).tolist()
    expected = Corrector(CLASSES)
    with Server(tmp_path) as server:
        for i, p in enumerate(P):
            server.client.post("/correct", json={"id": str(i), "probs": p})
            _, receipt = expected.process_one(p, receipt=True)
            server.client.post("/labels", json={"id": str(i), "label": CLASSES[i % 3]})
            expected.learn_one(p, CLASSES[i % 3], receipt=receipt)
        file = tmp_path / "state.sqlite"
        _, err = stream_can("inspect", file, code=1)
        assert "another process has it" in err
        server.stop(signal.SIGKILL)
    found = json.loads(stream_can("inspect", file, "--json", "--save", tmp_path / "kept")[0])
    assert (found["predictions"], found["labels"]) == (50, 50)
    assert (tmp_path / "kept").read_bytes() == expected.to_bytes()


def test_rows_of_very_many_classes(tmp_path):
    corrector = SparseCorrector("any")
    corrector.process_one({"a": 0.4, "b": 0.1})
    corrector.learn_one({"a": 0.4, "b": 0.1}, "c")
    (tmp_path / "kept").write_bytes(corrector.to_bytes())
    found = json.loads(stream_can("inspect", tmp_path / "kept", "--json")[0])
    assert (found["predictions"], found["labels"], found["known_classes"]) == (1, 1, 3)
    out, _ = stream_can("inspect", tmp_path / "kept")
    assert "classes that came" in out
    assert "matrix+can" in out

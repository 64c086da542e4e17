"""``stream-can compare`` as a user meets it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys

import numpy as np
import pytest

from stream_can.cli.main import main
from stream_can.compare import compare, load, rivals
from stream_can.recording import Recording
from tests.cli.command import stream_can
from tests.compare.streams import drifting

P, Y = drifting(700, 4)


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "stream.npz", probs=P[400:], label=Y[400:], train_counts=[5, 4, 3, 2])
    np.savez(tmp_path / "validation.npz", probs=P[:400], label=Y[:400])
    return tmp_path / "stream.npz", tmp_path / "validation.npz"


@pytest.mark.fast
def test_it_says_what_the_library_says(files, tmp_path):
    file, validation = files
    out, err = stream_can(
        "compare", file, "--validation", validation, "--label-delay", 10, "--json",
        "--refit-every", 400, "--half-life", 900, "--report", tmp_path / "out" / "page.html",
    )  # fmt: skip
    assert err == ""
    said = json.loads(out)
    stream = load(Recording(file), label_delay=10, validation=Recording(validation))
    expected = list(compare(stream, rivals(400, half_life=900)))
    assert [one["name"] for one in said["rivals"]] == [one.name for one in expected]
    for found, one in zip(said["rivals"], expected, strict=True):
        assert found["log_loss"] == pytest.approx(one.scores.log_loss, abs=1e-9)
        assert found["mce"] == pytest.approx(one.scores.mce, abs=1e-9)
    assert said["per_class"]["of"] == "stream_can: fit, labels"
    assert sum(one["rows"] for one in said["per_class"]["classes"]) == said["scored"] == 700
    assert "<svg" in (tmp_path / "out" / "page.html").read_text()


@pytest.mark.fast
def test_the_table(files):
    file, _ = files
    out, err = stream_can("compare", file, "--validation-rows", 300, "--label-delay", 10)
    assert err == ""
    assert out.startswith("400 rows, 400 scored, 4 classes; 300 validation rows\n")
    for one in rivals():
        assert re.search(rf"^{re.escape(one.name)} +\d\d\.\d\d ", out, re.M)
    assert re.search(
        r"^stream_can: fit, labels +\d\d\.\d\d +[+-]\d+\.\d\d +\d+\.\d\d +\d\.", out, re.M
    )
    assert "against the best of the rest" in out


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--label-delay", 5], "either a recording of validation rows"),
        (["--validation-rows", 100], "say when labels arrive"),
        (["--label-delay", 5, "--validation-rows", 5000], "700 rows have a label"),
        (["--label-delay", 5, "--validation-rows", 100, "--refit-every", 0], "refit_every"),
        (["--label-delay", 5, "--validation-rows", 100, "--half-life", -1], "half_life"),
        (["--label-delay", -1, "--validation-rows", 100], "label_delay"),
    ],
)
def test_refused(files, arguments, words, capsys):
    assert main(["compare", str(files[0]), *map(str, arguments)]) == 1
    _, err = capsys.readouterr()
    assert err.startswith("stream-can: ")
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.fast
def test_what_to_install(files):
    """As where the extra is missing: an import of scikit-learn fails."""
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from stream_can.cli.main import main\n"
        f"sys.exit(main(['compare', {str(files[0])!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'stream_can[compare]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.fast
def test_ctrl_c_shows_what_is_ready(tmp_path):
    P, y = drifting(30_000, 8, held=0)
    np.savez(tmp_path / "stream.npz", probs=P, label=y)
    ours, theirs = pty.openpty()
    command = [
        "compare",
        tmp_path / "stream.npz",
        "--label-delay",
        "5",
        "--validation-rows",
        "2000",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "stream_can", *command],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    ) as running:
        os.close(theirs)
        seen = b""
        rows = 28_000
        # Its progress bar tells when three rivals are through.
        while not any(int(n) >= 3 * rows for n in re.findall(rb"(\d{4,})/\d{6}", seen)):
            assert select.select([ours], [], [], 120)[0], seen
            seen = seen[-2000:] + os.read(ours, 4096)
        running.send_signal(signal.SIGINT)
        out = b""
        while running.poll() is None:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    seen = seen[-2000:] + os.read(ours, 4096)
                except OSError:  # the other end was closed
                    break
        out = running.stdout.read().decode()
        running.wait()
    os.close(ours)
    assert running.returncode == 130
    ready = [one.name for one in rivals() if re.search(rf"^{re.escape(one.name)} +\d", out, re.M)]
    assert 3 <= len(ready) < 16
    assert ready == [one.name for one in rivals()][: len(ready)]
    assert "Not finished" in out

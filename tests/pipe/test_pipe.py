"""Pipe: real processes, killed, stopped, starved of disk and of readers."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from stream_can import Corrector, LabelRequests, Learner
from stream_can.pipe import pipe
from stream_can.pipe.saver import Saver
from stream_can.pipe.statefile import PipeState
from tests import forks
from tests.cli.command import stream_can
from tests.programs import OnTerminal, wait

CLASSES = ["a", "b", "c", "d"]
RUN = (
    "import json, sys; from stream_can.pipe import pipe; sys.exit(pipe(**json.loads(sys.argv[1])))"
)


def command(**options):
    return [sys.executable, "-c", RUN, json.dumps({"classes": CLASSES} | options)]


def run(data=b"", **options):
    """One run over bytes: (exit code, lines of output, standard error without what it counted)."""
    done = forks.run(forks.pipe, json.dumps({"classes": CLASSES} | options), input=data)
    return done.code, done.out.splitlines(), forks.without_counts(done.err.decode())


def run_with_fields(data, model=None, version=None, state=None):
    """One run of the command."""
    options = {"--model": model, "--version": version, "--state": state}
    given = [x for name, value in options.items() if value is not None for x in (name, value)]
    arguments = ["pipe", "--classes", ",".join(CLASSES), *given]
    done = forks.run(forks.command, arguments, strict=True, input=data)
    return done.code, done.out.splitlines(), forks.without_counts(done.err.decode())


def stream(n, seed=0):
    """Lines of predictions and later labels; and how many outputs precede each line."""
    rng = np.random.default_rng(seed)
    lines, waiting = [], []
    for i in range(n):
        p = rng.dirichlet(np.ones(len(CLASSES)) * 0.7)
        lines.append(json.dumps({"id": i, "probs": p.tolist(), "n": "x" * int(rng.integers(20))}))
        waiting.append(json.dumps({"id": i, "label": CLASSES[rng.choice(len(CLASSES), p=p)]}))
        if rng.random() < 0.5 and len(waiting) > 20:
            lines.append(waiting.pop(int(rng.integers(len(waiting)))))
        if rng.random() < 0.01:
            lines.append("no json")
    outputs = [0, *accumulate('"probs"' in line for line in lines)]
    return [line.encode() + b"\n" for line in lines], outputs


def state_of(path):
    return PipeState.from_bytes(path.read_bytes())


def learned(path):
    """The snapshot of the one corrector."""
    ((name, data),) = state_of(path).learner.correctors.items()
    assert name == (None, None)
    return data


def without_scores(lines):
    return [json.loads(line)["probs"] for line in lines]


@pytest.mark.fast
def test_lines_are_corrected_and_labels_learned():
    lines, _ = stream(300)
    code, out, err = run(b"".join(lines))
    assert code == 0
    corrector, recent, expected = Corrector(CLASSES), {}, []
    for line in lines:
        if line == b"no json\n":
            continue
        message = json.loads(line)
        if "label" in message:
            p, receipt = recent[message["id"]]
            corrector.learn_one(p, message["label"], receipt=receipt)
        else:
            message["probs_raw"] = message["probs"]
            row, receipt = corrector.process_one(message["probs"], receipt=True)
            recent[message["id"]] = message["probs"], receipt
            message["probs"] = row.tolist()
            expected.append(message)
    assert [json.loads(line) for line in out] == expected
    letters = [json.loads(line) for line in err.splitlines()]
    bad = [i for i, line in enumerate(lines, 1) if line == b"no json\n"]
    assert [letter["line"] for letter in letters] == bad
    assert bad


@pytest.mark.fast
def test_a_resumed_run_continues_bit_for_bit(tmp_path):
    lines, _ = stream(400)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    _, expected, _ = run(b"".join(lines), state=str(whole))
    out = []
    for start, end in ((0, 1), (1, 250), (250, 250), (250, len(lines))):
        code, some, _ = run(b"".join(lines[start:end]), state=str(parts))
        assert code == 0
        assert state_of(parts).lines == end
        out += some
    assert out == expected
    assert parts.read_bytes() == whole.read_bytes()
    # the same input from its first line: everything is covered, nothing comes out twice
    code, again, _ = run(b"".join(lines), state=str(parts), skip=True)
    assert (code, again) == (0, [])
    code, more, _ = run(b"".join([*lines, lines[0]]), state=str(parts), skip=True)
    assert (code, len(more)) == (0, 1)


@pytest.mark.fast
def test_lines_that_are_skipped_save_nothing(tmp_path, monkeypatch):
    lines, _ = stream(400)
    data, saved = b"".join(lines), []
    options = {"state": tmp_path / "state", "save_every": 50, "stdout": io.BytesIO()}
    pipe(CLASSES, stdin=io.BytesIO(data), **options)
    monkeypatch.setattr("stream_can.snapshot.save", lambda data, path: saved.append(path))
    pipe(CLASSES, stdin=io.BytesIO(data), skip=True, **options)
    assert len(saved) <= 1  # at its end
    pipe(CLASSES, stdin=io.BytesIO(data + 120 * lines[0]), skip=True, **options)
    assert 3 <= len(saved) <= 5


@pytest.mark.fast
def test_lines_to_be_labelled_say_so_and_a_resumed_run_asks_the_same(tmp_path):
    lines, _ = stream(600)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    _, expected, _ = run(b"".join(lines), state=str(whole), ask=0.1)
    out = []
    for start, end in ((0, 1), (1, 250), (250, len(lines))):
        out += run(b"".join(lines[start:end]), state=str(parts), ask=0.1)[1]
    assert out == expected
    assert parts.read_bytes() == whole.read_bytes()
    requests, corrected = LabelRequests(0.1), [json.loads(line) for line in expected]
    for message in corrected:
        request = requests.ask_one(message["id"], message["probs"])
        assert message.get("ask") == (request and request.reason)
    said = Counter(message.get("ask") for message in corrected)
    assert said.keys() == {None, "random", "margin"}
    for half in ("random", "margin"):
        assert said[half] <= (0.05 + 1 / 500) * (len(expected) + 500)


@pytest.mark.fast
def test_state_gives_the_classes_and_saves_on_time(tmp_path):
    state = tmp_path / "state"
    lines, _ = stream(50)
    run(b"".join(lines), state=str(state), save_every=7)
    code, out, _ = run(lines[0], classes=None, state=str(state))
    assert (code, len(out)) == (0, 1)
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.fast
def test_a_start_says_which_settings_change(tmp_path):
    """Of those that it is given: others stay as the state has them, but sets_by with sets."""
    state = str(tmp_path / "state")
    mix = {"a": 7, "b": 2, "c": 1, "d": 0}
    run(state=state, prior=mix, sets=0.9, sets_by="class", half_life=100)
    for settings, changed in (
        ({}, None),
        ({"prior": [0.7, 0.2, 0.1, 0], "half_life": 100.0}, None),
        ({"prior": ["a=1", "b=1", "c=8"]}, "{'prior': ['a=1', 'b=1', 'c=8']}"),
        ({"prior": None, "half_life": 99}, "{'half_life': 99, 'prior': None}"),
        ({"sets": 0.9, "ask": 0.1}, "{'sets_by': None, 'ask': 0.1}"),
        ({"recent_mb": 1}, "{'recent_mb': 1, 'ask': None}"),
    ):
        said = f"stream-can pipe: settings change with this start: {changed}\n"
        assert run(state=state, **settings) == (0, [], said if changed else "")
    code, _, said = run(state=state, prior=["z=1"])
    assert (code, said) == (
        2,
        "stream-can pipe: prior: 'z' is none of the 4 classes: 'a', 'b', 'c', 'd'\n",
    )


def test_a_replays_snapshot_is_a_state_to_start_from(tmp_path):
    corrector = Corrector(CLASSES)
    corrector.learn_many(None, ["a"] * 50)
    state = tmp_path / "state"
    state.write_bytes(corrector.to_bytes())
    lines, _ = stream(30)
    predictions = [line for line in lines if b"probs" in line]
    code, out, _ = run(b"".join(predictions), state=str(state))
    assert code == 0
    assert without_scores(out) == [
        corrector.process_one(json.loads(line)["probs"]).tolist() for line in predictions
    ]
    assert state_of(state).lines == len(predictions)


@pytest.mark.fast
def test_labelled_lines(tmp_path):
    corrector, lines, expected = Corrector(CLASSES), [], []
    rng = np.random.default_rng(3)
    for i, p in enumerate(rng.dirichlet(np.ones(4), 50).tolist()):
        name = None if i % 4 == 0 else CLASSES[i % 4]
        lines.append(json.dumps({"probs": p, "label": name}).encode() + b"\n")
        row, receipt = corrector.process_one(p, receipt=True)
        expected.append(row.tolist())
        if name:
            corrector.learn_one(p, name, receipt=receipt)
    code, out, _ = run(b"".join(lines), labelled=True, state=str(tmp_path / "state"))
    assert code == 0
    assert without_scores(out) == expected
    assert learned(tmp_path / "state") == corrector.to_bytes()


@pytest.mark.fast
def test_at_the_end_it_says_what_became_of_the_lines():
    prediction = b'{"id": 1, "probs": [0.4, 0.3, 0.2, 0.1]}\n'
    labels = [b'{"id": 1, "label": "a"}\n', b'{"id": 9, "label": "a"}\n']
    bad = [b"no json\n", b'{"id": 1, "label": null}\n']
    data = b"".join([prediction, *labels, *bad])
    done = forks.run(forks.pipe, json.dumps({"classes": CLASSES}), input=data)
    err = done.err.decode()
    assert err.endswith(
        "1 prediction, 1 label learned with theirs, 1 without, 2 bad lines; over 1 label:"
        " accuracy 1.0000 -> 1.0000, log loss 0.9163 -> 0.9164\n"
    )
    assert "label: null, expected the name of a class" in err


@pytest.mark.fast
@pytest.mark.parametrize(("recent_mb", "late"), [(0.1, True), (64, False)])
def test_labels_that_find_nothing_may_be_late_where_the_memory_is_full(recent_mb, late):
    predictions = [b'{"id": %d, "probs": [0.4, 0.3, 0.2, 0.1]}\n' % i for i in range(1000)]
    labels = [b'{"id": %d, "label": "a"}\n' % (i if late else -i - 1) for i in range(200)]
    _, _, err = run(b"".join(predictions + labels), recent_mb=recent_mb)
    assert "labels so far name no prediction before them: is 'id' the field of the id" in err
    assert ("recent_mb, 0.1, is full" in err) == late


def test_on_a_terminal_it_ends_where_no_line_came():
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with OnTerminal(command(), **piped) as running:
        wait("the end", lambda: running.process.poll() is not None and running.text)
        assert running.process.returncode == 0
    assert "0 predictions, 0 labels learned with theirs" in running.text


@pytest.mark.fast
def test_a_label_beside_the_probabilities_is_told_about():
    line = b'{"id":1,"probs":[1,0,0,0],"label":"a"}\n'
    code, out, err = run(line * 3)
    assert (code, len(out)) == (0, 3)
    assert err.count("a line has both 'probs' and 'label'") == 1
    # an output that comes back with a label is a label
    code, out, err = run(b'{"id":1,"probs":[1,0,0,0],"probs_raw":[1,0,0,0],"label":"a"}\n')
    assert (code, out, err) == (0, [], "")


@pytest.mark.fast
def test_bad_lines_go_to_the_file(tmp_path):
    letters = tmp_path / "letters"
    data = (
        b'{"probs":[1,0,0,0]}\n\nno json\n{"label":"z"}\n  \n{"probs":[9,0,0,0]}\n\xff\n'
        b'{"probs":[0,1,0,0]}'
    )
    for _ in range(2):
        code, out, err = run(data, dead_letters=str(letters))
        assert (code, len(out), err) == (0, 2, "")
    got = [json.loads(line) for line in letters.read_text().splitlines()]
    assert got[:4] == got[4:]
    assert [letter["line"] for letter in got[:4]] == [3, 4, 6, 7]
    assert got[0]["input"] == "no json"
    assert got[1]["error"] == 'UnknownClass: label: "z" is none of the 4 classes'
    assert got[2]["error"].startswith("InvalidPrediction: probs: probabilities sum to 9")
    assert got[3]["input_base64"] == "/w=="


@pytest.mark.fast
def test_fail_stops_at_the_line_and_continues_there(tmp_path):
    state = tmp_path / "state"
    lines, _ = stream(60)
    good = [line for line in lines if line != b"no json\n"]
    _, expected, _ = run(b"".join(good), state=str(tmp_path / "other"))
    data = [*good[:40], b'{"id":1,"probs":[1,2,3,4]}\n', *good[40:]]
    code, out, err = run(b"".join(data), state=str(state), errors="fail")
    assert code == 1
    assert "stream-can pipe: line 41: InvalidPrediction: probs: probabilities sum to 10" in err
    assert "Traceback" not in err
    assert state_of(state).lines == 40
    code, rest, _ = run(b"".join(good), state=str(state), errors="fail", skip=True)
    assert code == 0
    assert out + rest == expected
    assert state.read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "too short to be one; move it away to start over"),
        (b"id,probs\n1,0.5 and so on and so on\n", "these bytes are no stream_can snapshot"),
        ("half", "it was cut short"),
        ("other classes", "classes differ at 0: it has 'x', expected 'a'"),
    ],
)
def test_a_state_file_that_does_not_fit_is_refused_and_kept(tmp_path, content, says):
    state = tmp_path / "state"
    if isinstance(content, str):
        names = CLASSES if content == "half" else ["x", "b", "c", "d"]
        data = PipeState(Learner(Corrector(names))).to_bytes()
        content = data[: len(data) // 2] if content == "half" else data
    state.write_bytes(content)
    code, out, err = run(b'{"probs":[1,0,0,0]}\n', state=str(state))
    assert (code, out) == (2, [])
    assert f"stream-can pipe: state file {state}: " in err
    assert says in err
    assert "Traceback" not in err
    assert state.read_bytes() == content


def test_very_many_classes_are_refused_and_many_take_bounded_memory():
    """200,000 by name, before a line is read; of 20,000 lines are worked on some at a time."""
    code, out, err = run(b"no json\n", classes=200_000)
    assert (code, out) == (2, [])
    assert "classes: 200,000 take" in err
    assert "stream_can.sparse.SparseCorrector" in err
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({1 << 30},) * 2); {RUN}"
    options = {"classes": 20_000, "paths": ["raw", "can"]}
    line = b'{"probs": {"5": 0.6, "7": 0.4}}\n'
    done = subprocess.run(
        [sys.executable, "-c", limited, json.dumps(options | {"recent_mb": 0})],
        input=line * 600, capture_output=True, timeout=280, check=False,
        env={**os.environ, "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count(b"\n") == 600


def test_a_line_without_an_end_is_refused_before_it_is_kept():
    """Of 300 MB without a newline a part is read, in a process that may have 512 MB."""
    good = b'{"id": 1, "probs": [0.1, 0.2, 0.3, 0.4]}\n'
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({1 << 29},) * 2); {RUN}"
    done = subprocess.run(
        [sys.executable, "-c", limited, json.dumps({"classes": CLASSES})],
        input=good + bytes(300 << 20), capture_output=True, timeout=280, check=False,
        env={**os.environ, "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout.count(b"\n")) == (1, 1), done.stderr[-2000:]
    assert b"a line of more than 64 MB" in done.stderr


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"classes": None}, 2, "classes: not given, and there is no state to take them from"),
        ({"half_life": -1}, 2, "half_life: -1, expected a number >= 0.001: events"),
        ({"save_every": 0}, 2, "save_every: 0, expected at least 1"),
        ({"errors": "ignore"}, 2, "errors: 'ignore', expected 'dead-letter' or 'fail'"),
        ({"ask": 2}, 2, "budget: 2, expected a share of the rows"),
        ({"ask": 0.1, "labelled": True}, 2, "ask: the lines carry their own labels"),
        ({"nonsense": 1}, 2, "unknown setting 'nonsense'"),
        ({"state": "/dev/null/state"}, 1, "File exists: '/dev/null'"),
        ({"state": "/"}, 1, "Is a directory"),
        ({"dead_letters": "/nowhere/letters"}, 1, "/nowhere/letters"),
    ],
)
def test_what_cannot_start_says_why(options, code, says):
    got, out, err = run(b'{"probs":[1,0,0,0]}\n', **options)
    assert (got, out) == (code, [])
    assert says in err
    assert "Traceback" not in err


@pytest.mark.fast
def test_no_input_at_all(tmp_path):
    assert run(b"") == (0, [], "")
    assert run(b"", state=str(tmp_path / "state")) == (0, [], "")
    assert state_of(tmp_path / "state").lines == 0


class Live:
    """A pipe that runs, its input held open."""

    def __init__(self, **options):
        # Unbuffered: select does not see what a buffer in this process already holds.
        self.process = subprocess.Popen(
            command(**options),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self, timeout=280):
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        assert ready, "no line came"
        return self.process.stdout.readline()

    def end(self, signum):
        self.process.send_signal(signum)
        out, err = self.process.communicate(timeout=280)
        return self.process.returncode, out, err.decode()


@pytest.mark.fast
def test_each_line_is_written_at_once():
    with Live() as live:
        for i in range(3):
            live.send(json.dumps({"id": i, "probs": [0.25] * 4}).encode() + b"\n")
            assert json.loads(live.line())["id"] == i
        live.send(b'{"id":3,"pro')  # half a line waits for the other half
        time.sleep(0.2)
        live.send(b'bs":[0.25,0.25,0.25,0.25]}\n')
        assert json.loads(live.line())["id"] == 3


@pytest.mark.fast
def test_tail_f_through_a_pipe(tmp_path):
    file = tmp_path / "predictions"
    file.write_bytes(b'{"id":0,"probs":[1,0,0,0]}\n')
    tail = subprocess.Popen(["tail", "-n", "+1", "-f", str(file)], stdout=subprocess.PIPE)
    process = subprocess.Popen(command(), bufsize=0, stdin=tail.stdout, stdout=subprocess.PIPE)
    tail.stdout.close()
    try:
        for i in range(3):
            ready, _, _ = select.select([process.stdout], [], [], 60)
            assert ready
            assert json.loads(process.stdout.readline())["id"] == i
            with file.open("ab") as more:
                more.write(json.dumps({"id": i + 1, "probs": [0.25] * 4}).encode() + b"\n")
    finally:
        tail.kill()
        tail.wait()
        process.communicate(timeout=280)
    assert process.returncode == 0  # the input ended


@pytest.mark.fast
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_saves_and_ends(tmp_path, signum, code):
    lines, _ = stream(40)
    state, whole = tmp_path / "state", tmp_path / "whole"
    run(b"".join(lines), state=str(whole))
    with Live(state=str(state)) as live:
        live.send(b"".join(lines) + b'{"id":"cut')
        for _ in range(sum(b"probs" in line for line in lines)):
            live.line()
        got, out, err = live.end(signum)
    assert (got, out) == (code, b"")
    assert "Traceback" not in err
    assert state.read_bytes() == whole.read_bytes()


@pytest.mark.fast
def test_a_reader_that_leaves_early(tmp_path):
    state = tmp_path / "state"
    lines, _ = stream(30_000)
    (tmp_path / "in").write_bytes(b"".join(lines))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            command(state=str(state), save_every=500, dead_letters=str(tmp_path / "letters")),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=err,
        )
        head = subprocess.run(
            ["head", "-n", "3"], stdin=process.stdout, capture_output=True, timeout=280
        )
        process.stdout.close()
        assert process.wait(timeout=280) == 141
    assert len(head.stdout.splitlines()) == 3
    assert (tmp_path / "err").read_bytes() == b""
    # The state covers only what was written; from there on nothing is lost.
    row = state_of(state).lines
    assert row < len(lines)
    _, expected, _ = run(b"".join(lines))
    code, rest, _ = run(b"".join(lines), state=str(state), skip=True)
    assert code == 0
    assert rest == expected[len(expected) - len(rest) :]
    assert expected[:3] == head.stdout.splitlines()


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 1 MB; skips where this user may not mount one."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.fast
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("what", ["state", "output", "letters"])
def test_a_full_disk_leaves_the_previous_state(tiny_disk, tmp_path, what, unbuffered):
    state = (tiny_disk if what == "state" else tmp_path) / "state"
    output = (tiny_disk if what == "output" else tmp_path) / "out"
    letters = (tiny_disk if what == "letters" else tmp_path) / "letters"
    lines, outputs = stream(20_000)
    if what == "letters":
        lines = [line for i in range(5000) for line in (lines[i], b"bad " + b"x" * 500 + b"\n")]
    assert run(b"".join(lines[:100]), state=str(state))[0] == 0
    (tmp_path / "in").write_bytes(b"".join(lines[100:]))
    with (tmp_path / "in").open("rb") as source, output.open("wb") as sink:
        done = subprocess.run(
            command(state=str(state), save_every=1000, dead_letters=str(letters)),
            stdin=source,
            stdout=sink,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            timeout=280,
        )
    names = {"state": str(state), "output": "standard output", "letters": "dead letters"}
    assert done.returncode == 1
    assert f"stream-can pipe: {names[what]}: No space left on device" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    if what == "state":
        assert b"the previous one is intact" in done.stderr
    row = state_of(state).lines
    assert 100 <= row < len(lines)
    assert [path.name for path in state.parent.glob("*.new")] == []
    if what != "letters":  # what the state covers was written
        assert len(output.read_bytes().splitlines()) >= outputs[row] - outputs[100]


@pytest.mark.fast
def test_a_file_size_limit_leaves_the_previous_state(tmp_path):
    """As a full disk, where no file system can be mounted."""
    state = tmp_path / "state"
    lines, _ = stream(3000)
    assert run(b"".join(lines[:10]), state=str(state))[0] == 0
    before = state.read_bytes()

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = subprocess.run(
        command(state=str(state)),
        input=b"".join(lines[10:]),
        capture_output=True,
        preexec_fn=limit,
        timeout=280,
    )
    assert done.returncode == 1
    assert b"File too large; the previous one is intact" in done.stderr
    assert state.read_bytes() == before


@pytest.mark.fast
def test_the_shell_example():
    script = Path(__file__).parents[2] / "examples" / "pipe.sh"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(script)], env=os.environ | {"PATH": path}, capture_output=True, timeout=280
    )
    assert (done.returncode, forks.without_counts(done.stderr.decode())) == (0, "")
    lines = done.stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines[:3]] == [1, 2, 3]
    assert b"labels learned      2" in done.stdout


@pytest.mark.fast
def test_kill_9_costs_a_second_at_most(tmp_path):
    state = tmp_path / "made" / "on the way" / "state"
    with Live(state=str(state), dead_letters=str(tmp_path / "letters")) as live:
        live.send(b'{"id":1,"probs":[1,0,0,0]}\n{"id":1,"label":"a"}\n')
        live.line()
        # Nothing else comes: what is read must be saved all the same.
        while state_of(state).lines < 2:
            time.sleep(0.05)
        live.send(b'{"id":2,"probs":[1,0,0,0]}\n')
        live.line()
        while state_of(state).lines < 3:
            time.sleep(0.05)
        live.process.kill()
    assert Corrector.from_bytes(learned(state)).n_labels == 1


@pytest.mark.fast
def test_saves_take_no_more_than_a_tenth_of_the_time(tmp_path, monkeypatch):
    state = PipeState(Learner(Corrector(CLASSES)))
    clock, saves = [0.0], []

    def save(data, path):
        saves.append(clock[0])
        clock[0] += 2.0  # as a large state on a slow disk takes

    monkeypatch.setattr("stream_can.snapshot.save", save)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    saver = Saver(state, tmp_path / "state", 1_000_000)
    while clock[0] < 200:
        saver.count_lines(1)
        saver.save_if_due()
        clock[0] += 0.25
    assert saves[0] == 1
    assert 8 <= len(saves) <= 11


@pytest.mark.fast
def test_each_model_and_version_has_a_corrector_of_its_own(tmp_path):
    """A label that names none teaches each that predicted its id; a restart changes nothing."""
    rng, learner = np.random.default_rng(3), Learner(Corrector(CLASSES))
    names = [("forest", "1"), ("net", None), ("forest", "2")]
    lines, expected = [], []
    for i in range(300):
        model, version = names[rng.integers(1 + (i > 50) + (i > 120))]
        p = rng.dirichlet(np.ones(4)).tolist()
        lines.append({"id": i // 2, "probs": p, "model": model, "version": version or "0"})
        row = learner.process(b"%d" % (i // 2), p, model=model, version=version or "0")
        expected.append(row.tolist())
        if i % 3 == 0:
            label, of = CLASSES[rng.integers(4)], {"model": model} if i % 2 else {}
            lines.append({"id": i // 2, "label": label, **of})
            learner.label(b"%d" % (i // 2), label, **of)
    data = [json.dumps(line).encode() + b"\n" for line in lines]
    data.append(b'{"id": 9, "probs": [0.25, 0.25, 0.25, 0.25], "version": "1"}\n')
    options = {"model": "model", "version": "version", "state": str(tmp_path / "state")}
    code, first, _ = run_with_fields(b"".join(data[:199]), **options)
    code, second, said = run_with_fields(b"".join(data[199:]), **options)
    assert code == 0
    assert without_scores(first + second) == expected
    assert "no 'model', which names the model" in said
    found = state_of(tmp_path / "state")
    assert found.learner.correctors == learner.correctors
    assert len(found.learner.models) == 3
    out, _ = stream_can("inspect", tmp_path / "state", "--json")
    assert json.loads(out).keys() == {"forest 1", "net 0", "forest 2"}


@pytest.mark.fast
def test_a_field_that_names_no_model_is_told_of():
    data = b"".join(b'{"n": %d, "probs": [0.1, 0.2, 0.3, 0.4]}\n' % i for i in range(1002))
    code, out, said = run_with_fields(data, model="n")
    assert (code, len(out), said.count("\n")) == (0, 1000, 2)
    assert "one more than 1000 models and versions; does --model or --version" in said
    code, _, said = run_with_fields(data, model="id")
    assert code != 0
    assert "'id' is two things at once" in said
    assert "Traceback" not in said


@pytest.mark.fast
def test_a_classifier_that_becomes_worse_is_told_of_once(tmp_path):
    rng, lines = np.random.default_rng(0), []
    for i in range(4000):
        p = rng.dirichlet(np.full(4, 0.3))
        y = int(p.argmax()) if i < 2500 else int(rng.integers(4))
        lines.append({"probs": p.tolist(), "label": CLASSES[y]})
    data = [json.dumps(line).encode() + b"\n" for line in lines]
    options = {"labelled": True, "state": str(tmp_path / "state")}
    _, _, before = run(b"".join(data[:2400]), **options)
    _, _, said = run(b"".join(data[2400:3800]), **options)
    _, _, again = run(b"".join(data[3800:]), **options)
    assert (before, again) == ("", "")
    assert said.count("\n") == 1
    assert "The classifier itself is worse than before: right in" in said


@pytest.mark.fast
def test_a_second_pipe_on_a_state_file_is_refused_by_name(tmp_path):
    state = tmp_path / "state"
    with Live(state=str(state)) as live:
        live.send(b'{"id":1,"probs":[1,0,0,0]}\n')
        live.line()
        code, out, err = run(b'{"id":1,"probs":[1,0,0,0]}\n', state=str(state))
        assert (code, out) == (2, [])
        assert f"state file {state}: in use by process {live.process.pid}" in err
        assert live.end(signal.SIGTERM)[0] == 0
    assert run(b'{"id":1,"probs":[1,0,0,0]}\n', state=str(state))[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    with Live(state=str(state)) as live:  # killed, it leaves no lock either
        live.send(b'{"id":1,"probs":[1,0,0,0]}\n')
        live.line()
    assert run(b"", state=str(state))[0] == 0


@pytest.mark.fast
def test_a_byte_order_mark_costs_no_line():
    code, out, err = run(b'\xef\xbb\xbf{"probs":[1,0,0,0]}\n')
    assert (code, len(out), err) == (0, 1, "")


@pytest.mark.fast
def test_rounded_lines_are_told_once():
    code, out, err = run(b'{"probs":[0.33,0.33,0.33,0]}\n' * 3)
    assert (code, len(out)) == (0, 3)
    assert err.count("divided by their sum") == 1


@pytest.mark.long
def test_kill_9_at_random_moments(tmp_path, kills):
    """After each of some kills the state is readable and an unbroken run goes on at its line."""
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
    print(f"SEED={seed}")
    rng = random.Random(seed)
    lines, outputs = stream(2500 * min(kills, 10), seed=seed)
    source, whole, state, out = (tmp_path / name for name in ("in", "whole", "state", "out"))
    source.write_bytes(b"".join(lines))
    options = {
        "dead_letters": str(tmp_path / "letters"),
        "save_every": 100,
        "recent_mb": 0.3,
        "ask": 0.05,
    }
    started = time.monotonic()
    run(b"", state=str(tmp_path / "none"), **options)
    begin = time.monotonic() - started
    code, expected, _ = run(b"".join(lines), state=str(whole), **options)
    assert code == 0
    assert len(expected) == outputs[-1]
    size = sum(map(len, expected))

    killed, in_the_middle, row = 0, 0, 0
    while True:
        more = killed < kills or in_the_middle < 3
        assert killed < 10 * kills, "the kills came before or after the work"
        with source.open("rb") as file, out.open("wb") as sink:
            process = subprocess.Popen(
                command(state=str(state), skip=True, **options), stdin=file, stdout=sink
            )
            if more and rng.random() < 0.2:  # most of these as it starts
                time.sleep(rng.uniform(0, begin))
            elif more:  # and these as it works; counted in what is out, time depends on the machine
                enough = rng.uniform(0, size / 4)
                while process.poll() is None and out.stat().st_size < enough:
                    time.sleep(0.001)
            else:
                process.wait(280)
            if process.poll() is None:
                process.kill()
                process.wait()
                killed += 1
        done = process.returncode == 0
        assert done or process.returncode == -signal.SIGKILL
        got = out.read_bytes()
        got = got[: got.rfind(b"\n") + 1].splitlines()  # the last line may have been cut
        assert got == expected[outputs[row] : outputs[row] + len(got)]
        if state.exists():
            now = state_of(state).lines
            assert outputs[now] <= outputs[row] + len(got)  # nothing is covered that is not out
            in_the_middle += not done and row < now < len(lines)
            row = now
        if done:
            assert state.read_bytes() == whole.read_bytes()
            if not more:
                break
            state.unlink()
            row = 0
    print(f"{killed} kills, {in_the_middle} in the middle of the work")
    assert in_the_middle >= 3, "the kills came before or after the work"


@pytest.mark.fast
def test_columns_stand_in_the_lines_and_are_told_of_once_where_they_are_none(tmp_path):
    rng, state = np.random.default_rng(0), tmp_path / "state"
    corrector, lines, expected = Corrector(CLASSES, segments=["x", "a.b"]), [], []
    for i in range(200):
        p = rng.dirichlet(np.ones(4)).tolist()
        given = {"x": int(rng.integers(5)), "a.b": ["NL", "DE", None][i % 3]}
        bad = i in (50, 60)
        value = 0.5 if bad else given["x"]
        lines.append({"id": i, "probs": p, "x": value, "a": {"b": given["a.b"]}})
        if bad:
            del given["x"]
        row, receipt = corrector.process_one(p, receipt=True, segments=given)
        expected.append(row.tolist())
        lines.append({"id": i, "label": CLASSES[i % 4], "x": "not this one"})
        corrector.learn_one(p, CLASSES[i % 4], receipt=receipt, segments=given)
    data = [json.dumps(line).encode() + b"\n" for line in lines]
    options = {"segments": ["x", "a.b"], "state": str(state)}
    out = []
    for part in (data[:151], data[151:]):  # a restart between a prediction and its label
        code, found, err = run(b"".join(part), **options)
        assert code == 0
        assert err.count("measurement") == (not out)
        assert out or "line 101: x: 0.5 is a measurement" in err
        out += found
    assert without_scores(out) == expected
    assert learned(state) == corrector.to_bytes()
    code, _, err = run(b"", segments=["x"], state=str(state))
    assert (code, "2 segments, expected 1" in err) == (2, True)
    for wrong in (["probs"], ["label"], ["a..b"]):
        code, _, err = run(b"", segments=wrong)
        assert (code, "segments: " in err) == (2, True)


def test_sets_are_kept_across_runs_and_shares_that_are_none_refused(tmp_path):
    lines, _ = stream(300)
    data = b"".join(lines)
    whole = run(data, sets=0.8)[1]
    half = len(lines) // 2
    state = str(tmp_path / "state")
    first = run(b"".join(lines[:half]), sets=0.8, state=state)[1]
    second = run(b"".join(lines[half:]), sets=0.8, state=state)[1]
    assert first + second == whole
    sets = [json.loads(line)["set"] for line in whole]
    assert all(sets)
    assert max(map(len, sets)) > min(map(len, sets))
    code, _, said = run(data, sets=1.0)
    assert (code, "sets: 1.0, expected" in said) == (2, True)


@pytest.mark.fast
def test_a_state_that_is_no_file_or_whose_lock_is_a_link_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for state in (tmp_path / "fifo", "/dev/null"):
        code, out, err = run(b'{"probs":[1,0,0,0]}\n', state=str(state))
        assert (code, out) == (1, [])
        assert "a pipe or a device, and no file; name another" in err
    other = tmp_path / "other"
    other.write_bytes(b"of somebody else")
    (tmp_path / "state.lock").symlink_to(other)
    code, out, err = run(b'{"probs":[1,0,0,0]}\n', state=str(tmp_path / "state"))
    assert (code, out) == (1, [])
    assert "state.lock" in err
    assert other.read_bytes() == b"of somebody else"


def test_dead_letters_into_a_named_pipe_that_nobody_reads(tmp_path):
    """It waited for a reader, and no signal ended it."""
    os.mkfifo(tmp_path / "fifo")
    code, out, err = run(b'{"probs": 1}\n', dead_letters=str(tmp_path / "fifo"))
    assert (code, out) == (1, [])
    assert "fifo: nobody reads this named pipe" in err
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    code, _, err = run(b'{"probs": 1}\n', dead_letters=str(tmp_path / "fifo"))
    assert code == 0
    assert b'"line":1' in os.read(reader, 1000)
    os.close(reader)


def test_dead_letters_do_not_lie_in_the_state(tmp_path):
    """Saving the state wrote over them."""
    path = str(tmp_path / "state")
    code, out, err = run(b"nope\n", state=path, dead_letters=path)
    assert (code, out) == (2, [])
    assert "is the state; name another file" in err
    assert not (tmp_path / "state").exists()


def test_dead_letters_where_standard_error_is_text(monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    assert pipe(["a", "b"], stdin=io.BytesIO(b"{}\n"), stdout=io.BytesIO()) == 0
    assert '"line":1' in said.getvalue()

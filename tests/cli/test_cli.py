"""The command line, as a user meets it: a process, its output, its exit code."""

import html
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stream_can import Corrector
from stream_can.cli.commands import app
from stream_can.cli.kafka import NOTHING
from stream_can.cli.main import main
from stream_can.kafka import options
from stream_can.replay import Recording, replay
from tests.cli.command import stream_can
from tests.replay.streams import ODD_NAMES

CLASSES = ["cat", "dog", "eel"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 3000, p=[0.2, 0.3, 0.5])
    evidence = rng.normal(size=(3000, 3)) + 1.5 * np.eye(3)[y]
    P = np.exp(1.8 * evidence)
    return P / P.sum(1, keepdims=True), y


@pytest.fixture
def file(tmp_path, rows):
    P, y = rows
    table = pl.DataFrame({f"probs_{name}": P[:, i] for i, name in enumerate(CLASSES)})
    table = table.with_columns(
        label=pl.Series(CLASSES)[y], at=pl.int_range(3000), known=pl.int_range(3000) + 150
    )
    table.write_parquet(tmp_path / "stream.parquet")
    return tmp_path / "stream.parquet"


def test_replay_says_what_the_library_says(file, tmp_path):
    out, _ = stream_can(
        "replay", file, "--label-delay", 100, "--json", "--state", tmp_path / "state",
        "--report", tmp_path / "out" / "report.html", "--train-counts", "10,20,30",
    )  # fmt: skip
    said = json.loads(out)
    expected = replay(
        Recording(file), Corrector(CLASSES, train_counts=[10, 20, 30]), label_delay=100
    )
    assert said["corrected"] == expected.corrected.summary()
    assert said["paths"]["vector+can"] == expected.paths["vector+can"].summary()
    changes = expected.changes()
    assert changes is not None
    assert said["label_rates"]["1"] == said["corrected"] | {"change": changes.summary()}
    assert said["label_rates"]["0.01"]["log_loss"] > said["corrected"]["log_loss"]
    assert said["verdict"].startswith("Use it")
    assert (tmp_path / "state").read_bytes() == expected.corrector.to_bytes()
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()


def test_replay_prints_a_table_and_a_verdict(file):
    out, err = stream_can(
        "replay", file, "--time", "at", "--label-time", "known", "--label-rate", 0.5
    )
    assert err == ""  # no progress bar where standard error is no terminal
    assert re.search(r"before +\d\d\.\d\d +0\.\d{4}", out)
    assert re.search(r"± +\d\.\d\d +0\.\d{4}", out)
    assert "matrix+can" not in out
    assert "labels at their own time" in out
    assert "Use it" in out


def test_a_short_replay_prints_no_nan_and_says_that_an_id_is_not_read(tmp_path):
    path = tmp_path / "four.csv"
    path.write_text("probs_a,probs_b,label\n0.9,0.1,a\n0.6,0.4,b\n0.3,0.7,b\n0.55,0.45,b\n")
    costs = [word for action in ("x:a=0,b=1", "y=0.3") for word in ("--costs", action)]
    options = ["--label-delay", 1, "--sets", 0.9, *costs, "--report", tmp_path / "r.html"]
    out, err = stream_can("replay", path, *options, "--id", "nope")
    assert err == "stream-can: --id is for JSON lines; each row of this file has its label\n"
    for text in (out, (tmp_path / "r.html").read_text()):
        assert not re.search(r"\bnan\b", text)


def test_replay_with_labels_that_are_asked_for(file, tmp_path):
    page = tmp_path / "report.html"
    out, _ = stream_can(
        "replay", file, "--label-delay", 100, "--ask", 0.05, "--seed", 3, "--json", "--report", page
    )
    said = json.loads(out)
    expected = replay(Recording(file), Corrector(CLASSES), label_delay=100, ask=0.05)
    assert said["corrected"] == expected.corrected.summary()
    assert said["asked"] == expected.asked
    assert list(said["label_rates"]) == ["0.01", "0.05", "0.2", "1"]
    assert list(said["asked_rates"]) == ["0.01", "0.05", "0.2"]
    changes = expected.changes()
    assert changes is not None
    assert said["asked_rates"]["0.05"] == said["corrected"] | {"change": changes.summary()}
    assert "were asked for" in said["verdict"]
    assert "were asked for" in page.read_text()
    out, _ = stream_can("replay", file, "--label-delay", 100, "--ask", 0.05)
    assert "were asked for" in " ".join(out.split())


def test_options_reach_the_corrector(file):
    out, _ = stream_can(
        "replay", file, "--label-delay", 9, "--paths", "raw,can", "--half-life", "inf",
        "--prior-strength", "inf", "--json",
    )  # fmt: skip
    assert list(json.loads(out)["paths"]) == ["raw", "can"]
    settings = {"paths": ["raw", "can"], "half_life": np.inf, "prior_strength": np.inf}
    expected = replay(Recording(file), Corrector(CLASSES, **settings), label_delay=9)
    assert json.loads(out)["corrected"] == expected.corrected.summary()


def test_train_counts_in_an_npz_are_taken(tmp_path, rows):
    P, y = rows
    np.savez(tmp_path / "a.npz", probs=P, label=y, train_counts=[900, 50, 50])
    out, _ = stream_can("replay", tmp_path / "a.npz", "--label-delay", 10, "--json")
    expected = replay(
        Recording(tmp_path / "a.npz"), Corrector(3, train_counts=[900, 50, 50]), label_delay=10
    )
    assert json.loads(out)["corrected"] == expected.corrected.summary()


def test_validation_rows_help_before_the_first_label(file, tmp_path, rows):
    P, y = rows
    lines = [
        json.dumps({"probs": dict(zip(CLASSES, p, strict=True)), "label": CLASSES[k]})
        for p, k in zip(P[:800].tolist(), y[:800].tolist(), strict=True)
    ]
    (tmp_path / "valid.jsonl").write_text("\n".join(lines))
    options = ["--label-delay", 10, "--label-rate", 0, "--json"]
    without = json.loads(stream_can("replay", file, *options)[0])
    state = tmp_path / "state"
    fitted = json.loads(
        stream_can(
            "replay", file, *options, "--validation", tmp_path / "valid.jsonl", "--state", state
        )[0]
    )
    assert fitted["corrected"]["log_loss"] < without["corrected"]["log_loss"] - 0.01
    assert "fitted+can" in fitted["paths"]
    out, _ = stream_can("inspect", state)
    assert "800 validation rows" in out


def test_inspect_shows_what_was_learned(file, tmp_path):
    state = tmp_path / "state"
    stream_can("replay", file, "--label-delay", 100, "--state", state)
    corrector = Corrector.from_bytes(state.read_bytes())
    found = json.loads(stream_can("inspect", state, "--json")[0])
    assert found["prior"] == corrector.prior.tolist()
    assert found["weights"] == corrector.weights
    assert found["labels"] == 2900
    out, _ = stream_can("inspect", state)
    for words in ("labels learned", "2,900", "temperature", "eel", "matrix+can", "half life"):
        assert words in out
    fresh = tmp_path / "fresh"
    fresh.write_bytes(Corrector(CLASSES).to_bytes())
    assert json.loads(stream_can("inspect", fresh, "--json")[0])["recent_log_loss"]["raw"] is None
    stream_can("inspect", fresh)


def test_a_pipe_goes_on_from_the_state_of_a_replay(file, tmp_path, rows):
    P, _ = rows
    state = tmp_path / "state"
    stream_can("replay", file, "--label-delay", 100, "--state", state)
    corrector = Corrector.from_bytes(state.read_bytes())
    lines = [json.dumps({"id": i, "probs": p}) for i, p in enumerate(P[:20].tolist())]
    lines.append(json.dumps({"id": 3, "label": "eel"}))
    out, _ = stream_can("pipe", "--state", state, input="\n".join(lines) + "\n")
    expected = corrector.process_many(P[:20])
    assert np.allclose([json.loads(line)["probs"] for line in out.splitlines()], expected, atol=0)
    found = json.loads(stream_can("inspect", state, "--json")[0])
    assert found["labels"] == 2901
    assert found["stream"]["lines"] == 21
    assert found["stream"]["counts"]["learned"] == 1


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["replay", "none.csv", "--label-delay", "1"], "none.csv: No such file or directory", 1),
        (["replay", "{file}"], "say when labels arrive: --label-delay ROWS, or --time", 2),
        (["replay", "{file}", "--time", "at"], "(--time and --label-time)", 2),
        (["replay", "{file}", "--label-delay", "1", "--label", "truth"], "no column 'truth'", 1),
        (
            ["replay", "{file}", "--label-delay", "1", "--paths", "can,con"],
            "'con' is not one of",
            2,
        ),
        (
            ["replay", "{file}", "--label-delay", "1", "--classes", "a,b"],
            "3 probabilities a row",
            1,
        ),
        (["replay", "{file}", "--label-delay", "-1"], "label_delay: expected 0 or more", 2),
        (
            ["replay", "{file}", "--label-delay", "1", "--label-rate", "2"],
            "label_rate: expected",
            2,
        ),
        (["replay", "{file}", "--label-delay", "1", "--ask", "5"], "budget: 5", 2),
        (
            ["replay", "{file}", "--label-delay", "1", "--ask", "0.1", "--label-rate", "0.5"],
            "--ask and --label-rate both say",
            2,
        ),
        (["replay", "{file}", "--label-delay", "1", "--train-counts", "1,x,2"], "float: 'x'", 2),
        (["pipe", "--classes", "a,b", "--train-counts", "1,x"], "float: 'x'", 2),
        (["pipe", "{file}", "--classes", "a,b"], "pipe reads standard input: stream-can pipe", 2),
        (["replay", "{file}", "--label-delay", "1", "--costs", "a"], "costs: 'a', expected", 2),
        (["pipe", "--classes", "a,b", "--costs", "a"], "costs: 'a', expected ACTION", 2),
        (["inspect", "{file}"], "no stream_can snapshot", 1),
        (
            ["replay", "{file}", "--label-delay", "1", "--report", "{file}/a/r.html"],
            "a/r.html: ",
            1,
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line(file, arguments, words, code):
    arguments = [text.format(file=file) for text in arguments]
    out, err = stream_can(*arguments, code=code)
    assert out == ""
    assert words in err
    assert err.startswith("stream-can: ")
    assert err.count("\n") == 1


BUG = """
import sys
from stream_can.cli.main import main
from stream_can.recording.recording import Recording
def chunks(self):
    raise ValueError("this is a bug")
Recording.chunks = chunks
sys.exit(main(["replay", sys.argv[1], "--label-delay", "1"]))
"""


def test_a_bug_shows_where_it_is(file):
    done = subprocess.run(
        [sys.executable, "-c", BUG, file], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ValueError: this is a bug" in done.stderr


def test_a_report_of_no_labels_is_refused_in_a_line(tmp_path):
    np.savez(
        tmp_path / "a.npz", probs=np.full((9, 2), 0.5), label=np.full(9, np.nan), classes=["a", "b"]
    )
    options = ["--label-delay", 1, "--report", tmp_path / "r.html"]
    _, err = stream_can("replay", tmp_path / "a.npz", *options, code=1)
    assert err == "stream-can: report: no row has a label, so there is nothing to compare\n"


def test_a_damaged_snapshot_is_named(tmp_path):
    data = Corrector(CLASSES).to_bytes()
    (tmp_path / "half").write_bytes(data[: len(data) // 2])
    _, err = stream_can("inspect", tmp_path / "half", code=1)
    assert "half: snapshot:" in err
    assert "cut short" in err


def test_no_output_overwrites_an_input(file, tmp_path, rows, capsys, monkeypatch):
    def refused(*options):
        assert main(["replay", str(file), "--label-delay", "5", *map(str, options)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        return err

    before = file.read_bytes()
    link = tmp_path / "link.parquet"
    link.symlink_to(file)
    valid = tmp_path / "valid.npz"
    np.savez(valid, probs=rows[0][:900], label=rows[1][:900])
    for option in ("--report", "--state"):
        for path in (file, link, tmp_path / "x" / ".." / file.name):
            said = f"stream-can: {option} {path}: this file is read; name another one\n"
            assert refused(option, path) == said
        assert "valid.npz: this file is read" in refused("--validation", valid, option, valid)
    monkeypatch.chdir(tmp_path)
    said = "stream-can: --report a: this file is written by --state; name another one\n"
    assert refused("--state", "a", "--report", "./a") == said
    assert file.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["link.parquet", "stream.parquet", "valid.npz"]


@pytest.mark.parametrize("option", ["--label-delay", "--k"])
@pytest.mark.parametrize("number", ["1.5", "nan", "x", "1e400"])
def test_a_whole_number_is_one(file, option, number, capsys):
    with pytest.raises(SystemExit):
        main(["replay", str(file), option, number])
    assert f"{number!r} is not a whole number" in capsys.readouterr().err


def test_a_whole_number_may_have_a_point(file, capsys):
    assert main(["replay", str(file), "--label-delay", "30.0", "--k", "2.0"]) == 0
    assert "labels 30 rows late" in capsys.readouterr().out


@pytest.fixture
def odd(tmp_path):
    """A recording whose classes have odd names, and the state that its replay leaves."""
    rng = np.random.default_rng(0)
    y = rng.choice(len(ODD_NAMES), 600)
    P = 0.5 * np.eye(len(ODD_NAMES))[y] + 0.5 * rng.dirichlet(np.ones(len(ODD_NAMES)), 600)
    file = tmp_path / "odd.npz"
    np.savez(file, probs=P, label=np.array(ODD_NAMES)[y], classes=np.array(ODD_NAMES))
    return file


def test_odd_names_are_text_everywhere(odd, tmp_path):
    state, page = tmp_path / "state", tmp_path / "r.html"
    options = ["--label-delay", 10, "--state", state]
    stream_can("replay", odd, *options, "--report", page)
    out, _ = stream_can("inspect", state)
    for name in ODD_NAMES:
        assert f"\n{name[:19]}" in out
        assert html.escape(name[:39]) in page.read_text()
    # The numbers of a class keep their columns beside a name of 200 letters.
    assert re.search(r"\nx{20}…x{19} +\d+\.\d\d +█", out)
    found = json.loads(stream_can("inspect", state, "--json")[0])
    assert found["classes"] == ODD_NAMES
    single = tmp_path / "single.npz"
    np.savez(
        single,
        probs=np.full((300, 2), 0.5),
        label=np.full(300, "[/INST]"),
        classes=["[/INST]", "$_$"],
    )
    assert "one class, [/INST]," in stream_can("replay", single, "--label-delay", 1)[0]


def test_a_terminal_without_the_letters_shows_their_codes(odd, tmp_path):
    state = tmp_path / "state"
    stream_can("replay", odd, "--label-delay", 10, "--state", state)
    latin = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    out, _ = stream_can("inspect", state, extra_env=latin)
    assert "\\u5206\\u7c7b\\u522b" in out
    assert "_hidden" in out


def test_the_report_says_the_command(file, tmp_path):
    page = tmp_path / "a b.html"
    stream_can("replay", file, "--label-delay", 100, "--report", page)
    text = html.unescape(page.read_text())
    assert f"<dd>stream-can replay {file} --label-delay 100 --report '{page}'</dd>" in text
    assert f"<dd>{file} ({file.stat().st_size:,} bytes)</dd>" in text


@pytest.mark.parametrize("imported", ["numpy.exceptions", "msgspec", "cyclopts.utils", "rich.text"])
def test_ctrl_c_while_the_command_is_imported(file, imported):
    command = Path(sys.executable).with_name("stream-can")
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", command, "replay", file, "--label-delay", "5"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert any(line.rstrip().endswith(f" {imported}") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode in (-signal.SIGINT, 130)
    assert "Traceback" not in rest


def test_a_write_that_fails_leaves_the_previous_state(file, tmp_path):
    state = tmp_path / "state"
    state.write_bytes(b"what was there before")

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))

    command = [sys.executable, "-m", "stream_can", "replay", file, "--label-delay", "5"]
    done = subprocess.run(
        [*command, "--state", state], preexec_fn=small_files, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "File too large; the previous one is intact" in done.stderr
    assert state.read_bytes() == b"what was there before"
    assert sorted(os.listdir(tmp_path)) == ["state", "stream.parquet"]


def test_a_full_disk_under_the_report(file):
    _, err = stream_can("replay", file, "--label-delay", 5, "--report", "/dev/full", code=1)
    assert "report /dev/full: No space left on device" in err


def test_a_reader_that_goes_away(file):
    command = f"{sys.executable} -m stream_can replay {file} --label-delay 5 --json; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"], capture_output=True, text=True, timeout=280
    )
    assert done.stderr.strip() == "141"


@pytest.mark.parametrize(
    ("name", "says"),
    [("repaly", "did you mean replay?"), ("nonsense", "there are sample, replay, ")],
)
def test_an_unknown_command_is_named(name, says):
    """Before, one was asked to install scikit-learn, and then kafka-python."""
    _, err = stream_can(name, code=2)
    assert f"no command {name!r}; {says}" in err


def test_help():
    for command, words in {
        "replay": "--label-delay",
        "pipe": "--dead-letters",
        "inspect": "--json",
        "run": "TOML file",
    }.items():
        out, _ = stream_can(command, "--help")
        assert f"stream-can {command}" in out
        assert words in out
    out, _ = stream_can("--help")
    for command in ("replay", "pipe", "inspect", "run"):
        assert re.search(rf"\b{command}\b", out)


def test_run_without_settings_says_which(tmp_path):
    _, err = stream_can("run", "--input", "a", code=2)
    assert "application_id" in err


@pytest.mark.parametrize("command", ["run", "backfill"])
def test_every_setting_of_kafka_is_an_option(command):
    texts = [f"--{o.name.replace('_', '-')}={o.name}" for o in options() if o.kind is str]
    switches = [f"--{o.name.replace('_', '-')}" for o in options() if o.kind is bool]
    names = [f"--{o.name.replace('_', '-')}" for o in options() if o.kind is dict]
    lists = [text for name in names for text in (name, "a=1", name, "b=2")]
    _, bound, _ = app.parse_args([command, "a.toml", *texts, *switches, *lists])
    assert bound.arguments["config"] == Path("a.toml")
    found = vars(bound.arguments["typed"])
    assert list(found) == [option.name for option in options()]
    for option in options():
        value = {str: option.name, bool: True, dict: ["a=1", "b=2"]}[option.kind]
        assert found[option.name] == value
    assert set(vars(app.parse_args([command])[1].arguments.get("typed", NOTHING)).values()) == {
        None
    }


MISSING = """
import sys
for name in {names!r}:
    sys.modules[name] = None
from stream_can.cli.main import main
sys.exit(main({arguments!r}))
"""


@pytest.mark.parametrize(
    ("names", "arguments", "extra"),
    [
        (["cyclopts"], ["--help"], "cli"),
        (["rich"], ["inspect", "x"], "cli"),
        (["kafka"], ["run", "--help"], "kafka"),
        (["polars"], ["replay", "{file}", "--label-delay", "1"], "report"),
        (["matplotlib"], ["replay", "{file}", "--label-delay", "1", "--report", "x"], "report"),
    ],
)
def test_a_missing_extra_is_named(file, names, arguments, extra):
    arguments = [text.format(file=file) for text in arguments]
    code = MISSING.format(names=names, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280)
    assert done.returncode == 1
    assert f"pip install 'stream_can[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_state_that_is_no_file_is_refused_before_the_replay(file):
    _, err = stream_can("replay", file, "--label-delay", 1, "--state", "/dev/null", code=1)
    assert err == "stream-can: /dev/null: a pipe or a device, and no file; name another\n"


def test_a_list_that_begins_with_a_minus_is_joined_to_its_option(capsys):
    assert main(["replay", "a.csv", "--classes", "-1,1"]) == 2
    assert "a value that begins with - is written --classes=-1,1" in capsys.readouterr().err


def test_a_run_in_a_fork_is_found_from_any_folder(tmp_path):
    """The first of a process, too: else all of its later ones fail."""
    code = (
        "import os, sys; sys.path.insert(0, os.getcwd()); from tests import forks; "
        f"os.chdir({str(tmp_path)!r}); "
        "print(forks.run(forks.command, ['--version'], strict=True).code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr

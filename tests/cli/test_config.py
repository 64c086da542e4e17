"""Options of pipe and replay from a TOML file and the environment."""

import io
import sys
from pathlib import Path

import pytest

from stream_can.app.loading import counts_of
from stream_can.app.settings import SettingsError
from stream_can.app.start import Start
from stream_can.cli.commands import app
from stream_can.cli.config import with_settings
from stream_can.cli.main import main
from stream_can.serve import load
from tests.cli.command import stream_can

FILE = """\
classes = ["cat, small", "dog"]
half_life = 100
train_counts = [30, 70]
state = "kept/state.bin"
labelled = true
skip = false
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "app.toml"
    path.write_text(FILE)
    return path


def test_what_was_typed_wins_then_the_environment_then_the_file(file):
    typed = ["pipe", "--config", str(file), "--half-life=7"]
    env = {"STREAM_CAN_TRAIN_COUNTS": "1,2", "STREAM_CAN_HALF_LIFE": "9", "STREAM_CAN_SKIP": "1"}
    found = with_settings(app, typed, env)
    assert found[:4] == typed
    assert sorted(found[4:]) == [
        '--classes=["cat, small", "dog"]', "--labelled", "--skip",
        f"--state={file.parent / 'kept/state.bin'}", "--train-counts=1,2",
    ]  # fmt: skip


def test_training_rows_by_name(file):
    file.write_text("[train_counts]\n'a,b' = 30\nc = 70")
    (option,) = with_settings(app, ["pipe", f"--config={file}"], {})[2:]
    assert option == '--train-counts={"a,b": 30, "c": 70}'
    assert counts_of(option.partition("=")[2]) == {"a,b": 30, "c": 70}
    assert counts_of("a=30, b=70") == {"a": 30, "b": 70}
    assert counts_of("30,70") == [30, 70]
    for text in ("30,x", "a=30,b", '{"a": "x"}', "{"):
        with pytest.raises(SettingsError, match="train_counts: "):
            counts_of(text)
    settings = load(None, {"classes": "a,b", "train_counts": "b=3,a=1"}, {})
    assert Start(settings).corrector().train_prior.tolist() == [1 / 3, 2 / 3]
    file.write_text('classes = ["a", "b"]\n[train_counts]\nb = 3\na = 1\n')
    assert Start(load(file, {}, {})).corrector().train_prior.tolist() == [1 / 3, 2 / 3]


@pytest.mark.parametrize("command", ["pipe", "replay"])
def test_each_setting_of_a_corrector_and_each_command(command, file):
    file.write_text("k = 5\nsegments = ['a', 'b']\nmax_mb = 9.5\n")
    found = with_settings(app, [command, f"--config={file}", "x.csv"], {})
    assert found[3:] == ["--k=5", "--segments=a,b", "--max-mb=9.5"]


def test_other_commands_read_their_own():
    assert with_settings(app, ["run", "a.toml"], {"STREAM_CAN_CLASSES": "a"}) == ["run", "a.toml"]
    assert with_settings(app, [], {}) == []


def test_variables_of_other_commands_and_of_kubernetes_are_left_alone():
    env = {"STREAM_CAN_BOOTSTRAP_SERVERS": "h:1", "STREAM_CAN_ID_SERVICE_HOST": "10.0.0.1"}
    assert with_settings(app, ["pipe"], env) == ["pipe"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('clases = ["a"]', "app.toml: unknown setting 'clases'; did you mean classes?"),
        ('file = "a.csv"', "app.toml: unknown setting 'file'"),
        ('labelled = "perhaps"', "labelled: 'perhaps', expected true or false"),
        ("[classes]\na = 1", "classes: a table, expected a value"),
        ("classes = [", "app.toml: "),
    ],
)
def test_what_is_wrong_is_named(file, text, message):
    file.write_text(text)
    with pytest.raises(SettingsError, match=message.replace("?", r"\?")):
        with_settings(app, ["pipe", "--config", str(file)], {})


def test_a_command_takes_its_file(file, tmp_path):
    (tmp_path / "a.csv").write_text("probs_cat,probs_dog,truth\n0.3,0.7,cat\n0.2,0.8,dog\n")
    file.write_text('label = "truth"\nlabel_delay = 0\nstate = "state.bin"\n')
    stream_can("replay", tmp_path / "a.csv", "--config", file)
    assert (tmp_path / "state.bin").exists()


@pytest.mark.fast
@pytest.mark.parametrize("classes", ["2", '["a"]', "names.txt", ""])
@pytest.mark.parametrize("command", ["pipe", "replay recorded.csv --label-delay 0"])
def test_one_class_is_refused_before_a_row_is_read(classes, command, tmp_path, monkeypatch, capsys):
    """A number of classes, or a file that is not there, was one class of this name, and every
    line a bad one, with exit code 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"probs": [0.2, 0.8]}\n')))
    Path("recorded.csv").write_text("p_a,p_b,label\n.2,.8,0\n")
    assert main([*command.split(), f"--classes={classes}"]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "stream-can: classes: " in said.err
    assert "name at least 2: cat,dog,eel, a JSON array, or a file of names" in said.err


@pytest.mark.fast
@pytest.mark.parametrize(
    "settings",
    [
        {"classes": "2"},
        {"classes": []},
        {"classes": ["a", "b"], "model": "m", "models": {"x": {"classes": ["a"]}}},
    ],
)
def test_one_class_is_no_setting_of_an_application(settings):
    with pytest.raises(SettingsError, match=r"classes: .*name at least 2: cat,dog,eel"):
        load(None, settings, {})
    several = settings | {"rows": "multilabel", "classes": ["urgent"]}
    for name in ("model", "models"):
        several.pop(name, None)
    assert load(None, several, {}).classes == ["urgent"]


@pytest.mark.fast
def test_one_class_in_a_file_of_classes_is_refused(tmp_path):
    file = tmp_path / "classes.json"
    file.write_text('{"classes": ["a"]}')
    with pytest.raises(ValueError, match=f"{file}: classes: only 'a'; name at least 2"):
        Start(load(None, {"classes_from_file": str(file)}, {}))

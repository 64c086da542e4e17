"""``replay --against``: rivals play the rows of the replay with the labels that it had."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.cli.main import main
from stream_can.compare import Rival, compare, rivals
from stream_can.compare import against as against_module
from stream_can.compare.against import (
    against_table,
    better_rival,
    other_rivals,
    play_against,
)
from stream_can.compare.outcome import against
from stream_can.recording import Recording
from stream_can.replay import Player, judge
from tests.cli.command import stream_can
from tests.compare.streams import drifting, stream_of

pytestmark = pytest.mark.fast

P, Y = drifting()
NAMES = "ops,temperature,vector-refitted"


@pytest.fixture
def files(tmp_path):
    for name, cut in (("validation", slice(None, 400)), ("stream", slice(400, None))):
        np.savez(tmp_path / f"{name}.npz", probs=P[cut], label=Y[cut])
    return tmp_path / "stream.npz", tmp_path / "validation.npz"


def test_rivals_do_as_they_do_in_compare(files):
    file, held = map(Recording, files)
    player = Player(file, label_delay=20)
    result = player.play(Corrector(4))
    names = NAMES.split(",")
    found = list(play_against(player, other_rivals(names, fitted=True), result, held))
    expected = list(compare(stream_of(P, Y), rivals(names=names)))
    assert [one.outcome.key for one in found] == [
        "temperature", "vector-refitted", "ops"
    ]  # fmt: skip
    sent = next(
        one for one in compare(stream_of(P, Y), rivals()) if one.name == "stream_can: labels"
    )
    for one in found:
        other = next(each for each in expected if each.key == one.outcome.key)
        assert one.outcome.scores.summary() == pytest.approx(other.scores.summary(), abs=1e-6)
        by_row = against(sent, other)
        for name in ("accuracy", "log_loss"):
            ours, theirs = getattr(one.changes, name), getattr(by_row, name)
            assert ours.value == pytest.approx(theirs.value)
            assert ours.error == pytest.approx(theirs.error, rel=0.3)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_they_have_the_labels_that_arrive(files, rate):
    seen = []

    def play(stream):
        seen.append(stream)
        yield stream.P

    player = Player(Recording(files[0]), label_delay=20, label_rate=rate, seed=7)
    arrived = []
    result = player.play(
        Corrector(4), each=lambda step: arrived.append(step.arrivals.due - 1 - step.arrivals.rows)
    )
    list(play_against(player, [Rival("mine", "labels", play)], result))
    came = np.concatenate(arrived)
    assert set(came) <= set(np.flatnonzero(seen[0].arrives))
    assert len(came) <= result.coming == seen[0].arrives.sum()


def test_a_rival_that_is_better_is_said_to_be(files):
    def oracle(stream):
        yield np.eye(4)[stream.y]

    player = Player(Recording(files[0]), label_delay=20)
    result = player.play(Corrector(4))
    playing = [
        Rival("the truth", "eyes", oracle),
        Rival("uniform", "nothing", lambda s: iter([np.full_like(s.P, 0.25)])),
        Rival("both", "nothing", lambda s: iter([np.where(s.P.max(1)[:, None] > s.P, 1e-9, 1.0)])),
    ]
    said = against_table(list(play_against(player, playing, result))).summary
    assert said.startswith("Better than stream_can: the-truth. ")
    assert "Worse than stream_can: uniform" in said


def test_the_command_line_shows_a_table_and_the_page_has_it(files, tmp_path):
    file, held = files
    options = [file, "--label-delay", 20, "--validation", held]
    report = tmp_path / "report.html"
    out, _ = stream_can("replay", *options, "--against", NAMES, "--report", report)
    lines = [line for line in out.splitlines() if line.startswith(("OPS", "temperature", "vector"))]
    assert len(lines) == 3
    _, page = report.read_text().split("Against what else one could do")
    for figure in ("Accuracy against: temperature and ", "Log loss against", "Reliability of"):
        assert page.count(f"<h2>{figure}") == 1
    for line in lines:
        name, *cells = line.rsplit(maxsplit=9)
        row = page[page.index(f"<bdi>{name.strip()}</bdi>") :]
        assert [one for one in cells if f"<td>{one}</td>" in row[:400]] == cells


def test_the_table_as_json(files):
    file, held = files
    options = [file, "--label-delay", 20, "--validation", held]
    out, _ = stream_can("replay", *options, "--against", NAMES, "--json")
    found = json.loads(out)["against"]
    assert [one["name"] for one in found["tried"]] == ["temperature", "vector, refitted", "OPS"]
    assert found["tried"][0]["change"]["points_error"] > 0
    assert "Worse than stream_can: vector-refitted, ops." in found["said"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--against", "temperature"], "temperature is fitted to validation rows; name a file"),
        (["--against", "isotonc"], "rivals: 'isotonc' is none of default, all"),
        (["--against", "ops", "--ask", "0.1"], "leave --ask out"),
    ],
)
def test_what_cannot_be_played_is_refused(files, options, said):
    out, err = stream_can("replay", files[0], "--label-delay", 20, *options, code=2)
    assert out == ""
    assert said in err
    with pytest.raises(ValueError, match="isotonic is fitted"):
        other_rivals("isotonic", fitted=False)


def test_without_validation_rows_those_that_need_none_play(files):
    names = [one.name for one in other_rivals("all", fitted=False, classes=4)]
    alone = ["logistic, refitted", "label shift by EM", "batch CAN"]
    assert names == [*alone[:2], "river, logistic", "OPS", "OPS, tracking", "Kalman", alone[2]]
    out, _ = stream_can("replay", files[0], "--label-delay", 20, "--against", "default", "--json")
    assert [one["name"] for one in json.loads(out)["against"]["tried"]] == alone


def test_what_to_install(files):
    """As where the extra is missing: an import of scikit-learn fails."""
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from stream_can.cli.main import main\n"
        f"sys.exit(main(['replay', {str(files[0])!r}, '--label-delay', '5', '--against', 'ops']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'stream_can[compare]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_shows_what_is_ready(files, monkeypatch, capsys):
    """The replay itself, and the rivals that are through."""

    def interrupted(stream, playing, progress):
        yield next(iter(compare(stream, playing, progress)))
        raise KeyboardInterrupt

    monkeypatch.setattr(against_module, "compare", interrupted)
    options = [files[0], "--label-delay", 20, "--validation", files[1], "--against", NAMES]
    assert main(["replay", *map(str, options)]) == 130
    out, err = capsys.readouterr()
    assert "interrupted; 1 of 3 rivals are ready" in err
    assert "Not clearly apart from it: temperature." in out
    assert "vector, refitted" not in out


def test_the_verdict_begins_with_a_rival_that_does_better(files):
    """And says whether the difference is sure; one that is as good is not named."""

    def mixed(share):
        """So much nearer to the truth."""
        return lambda s: iter([(1 - share) * s.P + share * np.eye(4)[s.y]])

    def now_and_then(stream):
        rows = stream.P.copy()
        of_label = rows[np.arange(len(rows)), stream.y]
        worst = np.argsort(of_label)[:2]
        rows[worst] = np.eye(4)[stream.y[worst]]
        yield rows

    player = Player(Recording(files[0]), label_delay=20)
    raw = player.play(Corrector(4, paths=["raw"]))
    raw.corrected, raw.moments = (
        raw.raw,
        [replace(one, hits=(one.hits[0],) * 2, losses=(one.losses[0],) * 2) for one in raw.moments],
    )

    def first(play):
        raw.better_rival = better_rival(
            [*play_against(player, [Rival("other", "eyes", play)], raw)]
        )
        return judge(raw).use

    sure = first(mixed(0.2))
    assert sure.startswith("other does better on this stream: log loss ")
    assert "the difference is beyond chance. It needs eyes. It does nothing here" in sure
    assert first(lambda s: iter([s.P])).startswith("It does nothing here")
    assert "may be chance" in first(now_and_then)

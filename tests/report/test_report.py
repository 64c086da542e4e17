"""The report: one page, self-contained, readable in a real browser, and a verdict that is true."""

import html
import re
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
from matplotlib.container import BarContainer
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from stream_can import Corrector
from stream_can.dense.figures import final_weights, reliability, temperature
from stream_can.dense.result import DenseReplay
from stream_can.replay import Recording, from_arrays, replay, steps
from stream_can.replay.names import readable
from stream_can.replay.shown import judge
from stream_can.replay.steps import learner_of
from stream_can.report import report, write_report
from stream_can.report.course import Course
from stream_can.report.figures import (
    change_over_time,
    label_rates,
    rolling_accuracy,
    rolling_log_loss,
)
from stream_can.report.origin import delay
from stream_can.scores import log_losses
from stream_can.trust.alarm import Alarm
from stream_can.version import __version__
from tests.replay.streams import ODD_NAMES, replayed, stream
from tests.report.pages import Page, brightness, look


@pytest.mark.fast
@pytest.mark.parametrize(
    ("m", "n", "settings"),
    [(4, 4000, {}), (2, 60, {}), (1, 30, {}), (40, 1500, {}), (4, 900, {"paths": ["raw", "can"]})],
)
def test_the_page_is_whole_and_loads_nothing(m, n, settings):
    P, y = stream(n, m)
    text = report(replayed(P, y, **settings), "a stream")
    page = Page(text)
    ids = [name for name in page.ids if name]
    assert len(ids) == len(set(ids))
    assert page.loads == []
    assert "url(http" not in text
    assert page.tags.count("svg") == 10
    assert not re.search(r"#0[1-5]0[1-5]0[1-5]|#0\d0a0b", text), "a color that is not the page's"
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))
    defined = set(re.findall(r"(--[a-z0-9-]+):", text))
    assert used <= defined
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text).split("<svg")[0]


@pytest.mark.fast
def test_names_are_text():
    P, y = stream(1500, len(ODD_NAMES))
    page = Page(report(replayed(P, y, ODD_NAMES), "<b>title</b>"))
    commonest = [ODD_NAMES[k] for k in np.argsort(-np.bincount(y), kind="stable")[:12]]
    assert {readable(name, 14) for name in commonest} <= set(page.texts["text"])
    assert sorted(page.texts["bdi"][-len(ODD_NAMES) :]) == sorted(
        name if len(name) < 50 else "x" * 60 + "…" + "x" * 59 for name in ODD_NAMES
    )
    assert page.tags.count("svg") == 10
    assert "<b>title" not in report(replayed(P, y, ODD_NAMES), "<b>title</b>")


@pytest.mark.fast
def test_few_classes_share_a_panel_and_its_legend():
    P, y = stream(1500, 4)
    for at in range(0, len(ODD_NAMES) - 3, 4):
        names = ODD_NAMES[at : at + 4]
        page = Page(report(replayed(P, y, names), "few"))
        shown = [name if len(name) < 50 else "x" * 40 + "…" + "x" * 39 for name in names]
        assert sorted(page.texts["bdi"][4:8]) == sorted(shown)  # behind before and after, twice


@pytest.mark.fast
def test_a_long_command_is_folded_and_whole():
    P, y = stream(1500, 4)
    long = "stream-can serve --classes " + ",".join(f"class {i} <&>" for i in range(60))
    with_next = {"next": long, "run": "short", "python": "a\n" * 300}
    result = replayed(P**3 / (P**3).sum(1, keepdims=True), y)
    assert judge(result).deploy
    page = report(result, "commands", deploy=with_next)
    assert f"<pre>{html.escape(long)}</pre>" in page
    assert page.count("<details>") == 1
    assert page.count("class=copy") == 3


@pytest.mark.fast
def test_what_moves_a_cursor_is_shown_by_its_code():
    P, y = stream(500, 2)
    page = Page(report(replayed(P, y, ["a\x1b[31m\x00", "b\n\x7f"]), "codes"))
    assert set(page.texts["bdi"][-2:]) == {r"a\x1b[31m\x00", r"b\n\x7f"}


@pytest.mark.fast
@pytest.mark.parametrize("dates", [False, True])
def test_where_the_classifier_was_worse_is_shaded(dates):
    P, y = stream(6000)
    P[2000:4000] = P[2000:4000][:, [1, 0, 2, 3]]
    time = np.datetime64("2013-03-01T00:00") + np.arange(6000) * np.timedelta64(1, "h")
    result = replayed(P, y, **({"time": time} if dates else {}))
    result.alarm = Alarm()
    result.alarm.learn_many(P, P, y)
    (one,) = result.alarm.episodes
    for plot in (rolling_accuracy, rolling_log_loss):
        figure = Figure()
        keys = plot(result, figure)
        assert [key.name for key in keys] == ["before", "after", "classifier worse"]
        (axes,) = figure.axes
        (shade,) = [patch for patch in axes.patches if patch.get_width() > 0]
        left, right = shade.get_x(), shade.get_x() + shade.get_width()
        start = date2num(time[0]) if dates else 0
        hours = 24 if dates else 1
        # Each row has a label.
        assert abs(hours * (left - start) - one.since) < 30
        assert abs(hours * (right - start) - one.until) < 30
    page = Page(report(result, "worse for a while"))
    assert page.texts["bdi"].count("classifier worse") == 2
    assert "worse" in page.texts["dt"]


@pytest.mark.fast
def test_dates_on_the_axis():
    P, y = stream(3000)
    time = np.datetime64("2013-03-01T00:00") + np.arange(3000) * np.timedelta64(2, "h")
    text = report(replayed(P, y, time=time), "dates")
    assert ">May<" in text
    assert ">rows<" not in text.partition("<table")[0]


@pytest.mark.fast
def test_a_stream_without_labels_has_no_report(tmp_path):
    P, _ = stream(100)
    with pytest.raises(ValueError, match="no row has a label"):
        write_report(replayed(P, np.full(100, -1), rates=False), "none", tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()


@pytest.mark.fast
def test_the_page_says_what_it_was_made_with():
    P, y = stream(3000)
    time = np.datetime64("2024-03-01T00:00") + np.arange(3000) * np.timedelta64(10, "m")
    result = replayed(P, y, time=time, half_life=123.0, paths=["raw", "temperature"])
    text = report(
        result,
        "a",
        made_from={"file": "a.csv (5 bytes)", "command": "stream-can replay 'a b.csv'"},
        date=datetime(2024, 5, 6, 7, 8, tzinfo=UTC),
    )
    page = Page(text)
    said = dict(zip(page.texts["dt"], page.texts["dd"], strict=True))
    assert said["file"] == "a.csv (5 bytes)"
    assert said["command"] == "stream-can replay 'a b.csv'"
    assert said["made by"] == f"stream_can {__version__}"
    assert said["made on"].startswith("2024-05-0")
    assert "half_life 123" in said["settings"]
    assert "pseudo_count the number of classes" in said["settings"]
    assert said["paths"] == "raw, temperature"
    assert said["labels"].startswith("2,980 learned of 3,000; each 20 rows late; 20 were still")


@pytest.mark.fast
def test_the_page_says_how_late_labels_came():
    P, y = stream(3000)
    time = np.datetime64("2024-03-01T00:00") + np.arange(3000) * np.timedelta64(10, "m")
    wait = np.arange(3000) % 100 * np.timedelta64(6, "m")
    corrector = Corrector(4)
    playing = learner_of(corrector)
    result = DenseReplay(playing)
    for step in steps(from_arrays(P, y, time, time + wait), playing):
        result.add(step)
    assert result.dates
    assert re.fullmatch(
        r"half of them at most (29|30) rows late, nine in ten (52|53|54) rows, all 59 rows; "
        r"half of them at most (4.8\d|4.9\d|5) h late, nine in ten (8.9\d|9) h, all 9.[789]\d? h; "
        r"\d\d were still on their way at the end",
        delay(result),
    ), delay(result)


@pytest.mark.fast
def test_every_word_of_the_tables_is_in_the_glossary():
    page = Page(report(replayed(*stream(500)), "words"))
    heads = {word for word in page.texts["th"] if word not in ("class", "rows")}
    assert heads == {"accuracy", "log loss", "Brier", "ECE", "weight", "recall", "precision"} | {
        "before",
        "after",
    }
    assert heads <= set(page.texts["dt"])


@pytest.mark.fast
def test_each_class_is_counted():
    P, y = stream(2000, 5, sharpness=2)
    y[y == 3] = 2  # a class without rows
    result = replayed(P, y)
    best = P.argmax(axis=1)
    for k, found in enumerate(result.per_class()):
        assert found["rows"] == (y == k).sum()
        recall = None if k == 3 else ((best == k) & (y == k)).sum() / (y == k).sum()
        assert found["recall"]["raw"] == recall
        precision = ((best == k) & (y == k)).sum() / (best == k).sum()
        assert found["precision"]["raw"] == precision
    mean = sum(c["rows"] * (c["recall"]["corrected"] or 0) for c in result.per_class()) / 2000
    assert mean == pytest.approx(result.corrected.accuracy)
    cells = Page(report(result, "classes")).texts["td"]
    first = max(result.per_class(), key=lambda found: found["rows"])
    at = cells.index(f"{first['rows']:,}")
    shown = [*first["recall"].values(), *first["precision"].values()]
    assert cells[at + 1 : at + 5] == [f"{100 * value:.1f}" for value in shown]
    none = cells.index("\N{EN DASH}")
    assert cells[none - 1 : none + 2] == ["0", "\N{EN DASH}", "\N{EN DASH}"]


# ---- figures


def drawn(plot, result):
    figure = Figure(figsize=(4.9, 2.9), layout="constrained")
    plot(result, figure)
    figure.draw_without_rendering()
    return figure


@pytest.mark.fast
def test_lines_that_coincide_are_both_seen():
    P, y = stream(2000)
    for plot in (rolling_accuracy, rolling_log_loss):
        before, after = drawn(plot, replayed(P, y, paths=["raw"])).axes[0].lines
        assert np.allclose(before.get_ydata(), after.get_ydata())
        assert before.get_linewidth() >= after.get_linewidth() + 2
        assert before.get_color() != after.get_color()


@pytest.mark.fast
def test_the_pointer_finds_the_values_of_a_curve():
    P, y = stream(4000)
    result = replayed(P, y, ["_a", "b<", "c", "d"])
    text = report(result, "hover")
    titles = re.findall(r"<rect[^>]*><title>(.*?)</title>", text, re.S)
    accuracy = [title.split("\n") for title in titles if "\nbefore " in title][:60]
    assert accuracy[-1][0] == "row 4,000"
    before, after = drawn(rolling_accuracy, result).axes[0].lines
    assert accuracy[-1][1:] == [
        f"before {before.get_ydata()[-1]:.4g}", f"after {after.get_ydata()[-1]:.4g}"
    ]  # fmt: skip
    assert any("\n_a 2" in title and "\nb&lt;, estimate" in title for title in titles)
    days = np.datetime64("2013-03-01T00:00") + np.arange(4000) * np.timedelta64(2, "h")
    assert "<title>2013-" in report(replayed(P, y, time=days), "dates")


@pytest.mark.fast
def test_ticks_are_round():
    rng = np.random.default_rng(0)
    y = (rng.random(6000) < 0.78).astype(int)
    result = replayed(np.tile([0.4, 0.6], (6000, 1)), y)
    text = report(result, "ticks").partition("Log loss</h2>")[0]
    ticks = {t for t in re.findall(r">([\d.k]+)</text>", text)}
    assert {"2k", "4k", "6k"} <= ticks
    assert not {t for t in ticks if t.endswith(".5")}


@pytest.mark.fast
def test_what_goes_out_and_both_temperatures_are_drawn():
    P, y = stream(4000, sharpness=3)
    result = replayed(P, y, rates=False)
    tempered = drawn(final_weights, result).axes[0].collections[2]
    corners = tempered.get_paths()[0].vertices
    end = corners[corners[:, 0] == corners[:, 0].max(), 1]
    mean = np.mean([m.final_weights[2] for m in result.moments if m.row > 3500])
    assert np.ptp(end) == pytest.approx(100 * mean, abs=3)
    _, own, last = drawn(temperature, result).axes[0].lines
    assert own.get_ydata()[-1] == pytest.approx(result.corrector.temperature)
    assert last.get_ydata()[-1] == pytest.approx(result.corrector.last_temperature)
    _, only = drawn(temperature, replayed(P, y, paths=["raw", "can"])).axes[0].lines
    assert only.get_ydata()[-1] != 1
    page = report(result, "both")
    assert "Final weights" in page
    alone = Page(report(replayed(P, y, paths=["vector"]), "one path is what goes out"))
    assert alone.tags.count("svg") == 8


def bars_of(axes):
    """The bars without the lines of their errors."""
    return [one for one in axes.containers if isinstance(one, BarContainer)]


@pytest.mark.fast
def test_random_and_asked_labels_stand_side_by_side():
    P, y = stream(2000)
    result = replayed(P, y)
    (alone, _) = drawn(label_rates, result).axes
    assert [bar.get_x() + bar.get_width() / 2 for bar in alone.patches] == pytest.approx([0, 1])
    result.asked_rates = {0.05: result.corrected, 0.1: result.raw}
    (points, nats) = drawn(label_rates, result).axes
    assert [text.get_text() for text in points.get_xticklabels()] == ["5 %", "10 %", "100 %"]
    at_random, asked = bars_of(points)
    middle = [[bar.get_x() + bar.get_width() / 2 for bar in bars] for bars in (at_random, asked)]
    assert middle[0][0] < 0 < middle[1][0]
    assert middle[0][1] == pytest.approx(2)  # every label: there is nothing to ask for
    assert middle[1][1] == pytest.approx(1)
    gain = result.corrected.log_loss - result.raw.log_loss
    assert [bar.get_height() for bar in bars_of(nats)[1]] == pytest.approx([gain, 0])
    page = Page(report(result, "both"))
    assert {"at random", "asked for"} <= set(page.texts["bdi"])


@pytest.mark.fast
def test_the_page_says_that_labels_are_one_sided():
    P, y = stream(3000)
    text = report(replayed(P, np.where(y == 1, -1, y), ["a", "<b>", "c", "d"]), "one-sided")
    assert "Class &lt;b&gt; has no label yet" in text


@pytest.mark.fast
def test_bands_are_two_standard_errors_of_the_window():
    P, y = stream(12_800, sharpness=2)
    result = replayed(P, y)
    axes = drawn(rolling_log_loss, result).axes[0]
    line, band = axes.lines[0], axes.collections[0]
    corners = band.get_paths()[0].vertices
    last = corners[np.isclose(corners[:, 0], 12_800)][:, 1]
    losses = -np.log(np.maximum(P[np.arange(12_800), y], 1e-6))[-512:]
    assert line.get_ydata()[-1] == pytest.approx(losses.mean())
    assert np.ptp(last) == pytest.approx(4 * losses.std() / np.sqrt(512))
    assert "a window of 512 rows" in report(result, "window")


@pytest.mark.fast
@pytest.mark.parametrize("p", [0.999, 0.5001])
def test_points_are_inside_their_frame(p):
    rng = np.random.default_rng(0)
    sure = np.where(rng.random(1000)[:, None] < p, [p, 1 - p], [1 - p, p])
    for labels in (sure.argmax(axis=1), sure.argmin(axis=1)):  # every row in one point
        for axes in drawn(reliability, replayed(sure, labels)).axes:
            points = axes.collections[-1]
            radius = np.sqrt(points.get_sizes() / np.pi) / 72 * axes.figure.dpi
            centers = axes.transData.transform(points.get_offsets())
            (left, bottom), (right, top) = axes.bbox.get_points()
            assert (centers[:, 0] - radius >= left).all()
            assert (centers[:, 0] + radius <= right).all()
            assert (centers[:, 1] - radius >= bottom).all()
            assert (centers[:, 1] + radius <= top).all()


WITHOUT_DOCSTRINGS = """
import sys
from datetime import datetime
from tests.replay.streams import ODD_NAMES, replayed, stream
from stream_can.report import report
assert report.__doc__ is None
date = datetime(2024, 1, 2)
sys.stdout.write(report(replayed(*stream(600)), "a stream", date=date))
"""


@pytest.mark.fast
def test_captions_are_there_without_docstrings():
    done = subprocess.run(
        [sys.executable, "-OO", "-c", WITHOUT_DOCSTRINGS],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    date = datetime(2024, 1, 2)
    assert done.stdout == report(replayed(*stream(600)), "a stream", date=date)


# ---- in a browser

TWO, MANY = ["yes", "$\\nope$"], [f"c{i}" for i in range(300)]


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    ("width", "dark", "names"),
    [
        (1280, False, ODD_NAMES),
        (400, True, ODD_NAMES),
        (1280, True, TWO),
        (400, False, TWO),
        (1280, False, MANY),
        (400, True, MANY),
    ],
)
def test_readable_in_a_browser(browser, tmp_path, width, dark, names):
    P, y = stream(6000, len(names), sharpness=2)
    text = report(replayed(P, y, names), "A stream with a title that is too long for one line")
    seen = look(browser, tmp_path, text, width, dark)
    assert seen["wide"] <= width
    assert seen["table"] <= 0
    assert seen["figures"] == 10
    assert seen["outside"] == []
    assert seen["wide_names"] == []
    assert {name[:39] for name in names} <= {name[:39] for name in seen["names"]}
    assert seen["smallest"] > 8
    page, ink, axis = (brightness(seen[name]) for name in ("page", "ink", "axis"))
    assert (page < 60) == dark
    assert abs(ink - page) > 150
    assert abs(axis - page) > 80


@pytest.mark.fast
@pytest.mark.parametrize("count", [1, 5, 300])
def test_values_of_columns_have_a_table_and_a_figure(count):
    rng = np.random.default_rng(0)
    P, y = stream(6000)
    tenant = np.array([f"<b>tenant</b> {i}" for i in rng.integers(count, size=len(y))], object)
    known = np.where(tenant == tenant[0], -1, y) if count > 1 else y
    corrector = Corrector(4, segments=["column$"])
    playing = learner_of(corrector)
    result = DenseReplay(playing)
    chunks = from_arrays(P, known, segments={"column$": tenant})
    for step in steps(chunks, playing, label_delay=20):
        result.add(step)
    text = report(result, "values")
    page = Page(text)
    assert not page.loads
    assert "Each value of column$" in page.texts["h2"]
    assert ("Gain by value of column$" in page.texts["h2"]) == (count > 1)
    assert sum(name.startswith("<b>tenant</b>") for name in page.texts["bdi"]) == count
    assert {"value", "labels", "calibration"} <= {*page.texts["th"]} & {*page.texts["dt"]}
    assert "mathdefault" not in text
    plain = report(replayed(P, y), "values")
    assert "calibration</dt>" not in plain
    assert "Each value" not in plain


@pytest.mark.fast
def test_what_it_changes_is_drawn_with_the_error_of_the_difference():
    """Of the last window, row by row: far surer than either curve, as both are of the same rows."""
    P, y = stream(4096)
    result = replayed(P, y)
    figure = drawn(change_over_time, result)
    sent = np.concatenate([
        step.corrected for step in steps(from_arrays(P, y), Corrector(4), label_delay=20)
    ])  # fmt: skip
    rows = np.arange(4096 - 512, 4096)  # whole steps
    gains = log_losses(sent[rows, y[rows]]) - log_losses(P[rows, y[rows]])
    course = Course(result)
    course.window, course.at = 512, np.array([4096.0])
    (mean,), (error,) = course.changes("losses")
    assert mean == pytest.approx(gains.mean())
    assert error == pytest.approx(gains.std() / np.sqrt(512))
    hits = sent[rows].argmax(1) == y[rows]
    (mean,), (error,) = course.changes("hits")
    differs = hits.astype(float) - (P[rows].argmax(1) == y[rows])
    assert (mean, error) == pytest.approx((differs.mean(), differs.std() / np.sqrt(512)))
    assert [axes.get_ylabel() for axes in figure.axes] == ["log loss, nats", "accuracy, points"]
    for axes in figure.axes:
        assert any(not np.any(line.get_ydata()) for line in axes.lines)


@pytest.mark.fast
def test_what_labels_buy_has_its_errors(tmp_path):
    P, y = stream(3000)
    np.savez(tmp_path / "stream.npz", probs=P, label=y)
    recording = Recording(tmp_path / "stream.npz")
    result = replay(recording, Corrector(4), label_delay=10, rates=[0.1, 1])
    reaches = [
        (segment[1][1] - segment[0][1]) / 2
        for axes in drawn(label_rates, result).axes
        for lines in axes.collections
        for segment in lines.get_segments()
    ]
    changes = [result.rate_changes[at] for at in ((0.1, False), (1, False), (0.1, True))]
    expected = [200 * one.accuracy.error for one in changes]
    expected += [2 * one.log_loss.error for one in changes]
    assert sorted(reaches) == pytest.approx(sorted(expected))

"""The page of a comparison: self-contained, readable in a real browser, unfinished ones too."""

import html
import re

import numpy as np
import pytest

from stream_can.compare import compare, rivals
from stream_can.compare.page import page, write_page
from stream_can.compare.verdict import highlighted
from stream_can.scores import Scores
from tests.compare.streams import drifting, stream_of
from tests.report.pages import Page, brightness, look

P, Y = drifting(900, 6)
CLASSES = ["a class with a rather long name", "<b>", "c & d", "e", "f, of some length too", "g"]
STREAM = stream_of(P, Y, classes=CLASSES)


@pytest.fixture(scope="module")
def outcomes():
    return list(compare(STREAM, rivals()))


@pytest.mark.fast
@pytest.mark.parametrize(("ready", "figures"), [(1, 3), (5, 3), (16, 4)])
def test_the_page_is_whole_and_loads_nothing(outcomes, ready, figures):
    text = page(STREAM, outcomes[:ready], "<i>a stream</i>")
    found = Page(text)
    assert found.loads == []
    assert found.tags.count("svg") == figures
    assert found.tags.count("bdi") >= 6
    assert "<i>a stream" not in text
    assert "<b></bdi>" not in text
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text)) - {"--c"}
    assert used <= set(re.findall(r"(--[a-z0-9-]+):", text))
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).split("<svg")[0]
    for one in outcomes[:ready]:
        assert f"<td class=name>{one.name}</td>" in text
        assert f"<td>{100 * one.scores.accuracy:.2f}</td>" in text


@pytest.mark.fast
def test_a_folder_is_made(outcomes, tmp_path):
    write_page(STREAM, outcomes, "a stream", tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_readable_in_a_browser(browser, outcomes, tmp_path, width, dark):
    text = page(STREAM, outcomes, "A stream with a title that is too long for one line of a phone")
    seen = look(browser, tmp_path, text, width, dark)
    assert seen["wide"] <= width
    assert seen["table"] <= 0
    assert seen["figures"] == 4
    assert seen["outside"] == []
    assert seen["smallest"] > 8
    ground, ink, axis = (brightness(seen[name]) for name in ("page", "ink", "axis"))
    assert (ground < 60) == dark
    assert abs(ink - ground) > 150
    assert abs(axis - ground) > 80


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [320, 400])
def test_the_error_of_a_change_is_there_on_a_phone(browser, outcomes, tmp_path, width):
    look(browser, tmp_path, page(STREAM, outcomes, "A stream"), width, False)
    shown = browser.value(
        "[...document.querySelectorAll('td.pm')].filter(t => t.offsetWidth && t.innerText"
        ".includes('±')).length"
    )
    assert shown == 2 * (len(outcomes) - 1)
    assert "refitted" in browser.value("[...document.querySelectorAll('dl')].at(-1).innerText")


@pytest.mark.fast
def test_the_lowest_log_loss_is_highlighted_and_another_winner_named(outcomes):
    first = min(outcomes, key=lambda one: one.scores.log_loss)
    text = page(STREAM, outcomes, "A stream")
    assert re.findall(r"<tr class=ours><td class=name>(.*?)</td>", text) == [
        html.escape(first.name)
    ]
    labels = STREAM.y[STREAM.scored]
    unsure = Scores()  # always right, and hardly surer than chance
    unsure.add(np.where(np.eye(6)[labels] > 0, 0.18, 0.164), labels)
    assert unsure.log_loss > first.scores.log_loss
    assert "another's" not in highlighted([first])
    right = first._replace(name="right", scores=unsure)
    assert "The highest accuracy is another's, right: 100.00 %" in highlighted([first, right])
    assert highlighted(outcomes) in html.unescape(text)

"""The report: one page, self-contained, readable in a real browser, and a verdict that is true."""

import html
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.replay import Replay, Step, from_arrays, steps
from stream_can.replay.verdict import verdict
from stream_can.report import report, write_report
from stream_can.scores import Scores
from tests.programs import program


def stream(n=4000, m=4, sharpness=1.0, seed=0):
    """Predictions that are calibrated at sharpness 1 and overconfident above."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.7), n)
    y = np.array([rng.choice(m, p=row) for row in P])
    P = np.maximum(P, 1e-9) ** sharpness
    return P / P.sum(1, keepdims=True), y


def replayed(P, y, classes=None, time=None, rates=True, **settings):
    corrector = Corrector(classes or P.shape[1], **settings)
    result = Replay(corrector)
    for step in steps(from_arrays(P, y, time, time), corrector, label_delay=20):
        result.add(step)
    if rates:
        result.rates = {0.05: result.raw, 1.0: result.corrected}
    return result


class Page(HTMLParser):
    """What a page holds: its tags, ids and whatever it would load."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.loads, self.tags = [], [], [], []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.ids.append(values.get("id"))
        for name in ("src", "href", "xlink:href", "srcset", "data"):
            if name in values and not values[name].startswith("#"):
                self.loads.append(values[name])
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in ("meta", "br", "link", "img"):
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


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
    assert page.tags.count("svg") == (6 if "paths" in settings else 7)
    assert not re.search(r"#0[1-5]0[1-5]0[1-5]|#0\d0a0b", text), "a color that is not the page's"
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))
    defined = set(re.findall(r"(--[a-z0-9-]+):", text))
    assert used <= defined
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text).split("<svg")[0]


@pytest.mark.fast
def test_names_are_escaped():
    P, y = stream(500, 2)
    names = ["<script>alert(1)</script>", 'a "quoted" & long name of a class']
    text = report(replayed(P, y, names), "<b>title</b>")
    assert "<script>" not in text
    assert "<b>title" not in text
    assert Page(text).tags.count("svg") == 7


@pytest.mark.fast
def test_dates_on_the_axis():
    P, y = stream(3000)
    time = np.datetime64("2013-03-01T00:00") + np.arange(3000) * np.timedelta64(2, "h")
    text = report(replayed(P, y, time=time), "dates")
    assert ">May<" in text
    assert ">rows<" not in text


@pytest.mark.fast
def test_a_stream_without_labels_has_no_report(tmp_path):
    P, _ = stream(100)
    with pytest.raises(ValueError, match="no row has a label"):
        write_report(replayed(P, np.full(100, -1), rates=False), "none", tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()


WITHOUT_DOCSTRINGS = """
import sys
from tests.report.test_report import replayed, stream
from stream_can.report import report
assert report.__doc__ is None
sys.stdout.write(report(replayed(*stream(600)), "a stream"))
"""


@pytest.mark.fast
def test_captions_are_there_without_docstrings():
    done = subprocess.run(
        [sys.executable, "-OO", "-c", WITHOUT_DOCSTRINGS],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == report(replayed(*stream(600)), "a stream")


# ---- the verdict


def judged(change, n=3000, seed=0):
    """The verdict where the mixture's rows are `change` of the raw ones."""
    P, y = stream(n, sharpness=2.5, seed=seed)
    result = Replay(Corrector(4))
    for first in range(0, n, 100):
        part = P[first : first + 100]
        labels = y[first : first + 100]
        result.add(Step(first, part, labels, change(part, labels), None, None))
    return verdict(result)


def cool(P, y):
    P = P**0.4
    return P / P.sum(1, keepdims=True)


def mix(P, y, share, to):
    return (1 - share) * P + share * np.eye(P.shape[1])[to]


@pytest.mark.fast
def test_the_verdict_says_what_happened():
    assert judged(lambda P, y: P).startswith("It changes nothing here")
    assert judged(cool).startswith("Use it where the probabilities themselves matter")
    assert judged(lambda P, y: mix(P, y, 0.3, y)).startswith("Use it: more predictions are right")
    assert judged(lambda P, y: mix(P, y, 0.6, (y + 1) % 4)).startswith("Do not use it")
    trade = judged(lambda P, y: cool(mix(P, y, 0.5 * (y == 1)[:, None], 2), y))
    assert trade.startswith("It is a trade")
    assert judged(lambda P, y: P, n=150).startswith("Too few labels")


@pytest.mark.fast
def test_the_verdict_names_the_harm_of_can_and_what_labels_buy():
    rng = np.random.default_rng(0)
    n = 4000
    y = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    uncertain = np.array([0.36, 0.33, 0.31])
    sure = np.eye(3)[rng.choice(3, n)] * 0.97 + 0.01
    P = np.where((rng.random(n) < 0.7)[:, None], uncertain, sure)
    result = replayed(P, y, rates=False)
    result.paths["can"] = Scores()
    result.paths["can"].add(np.tile([[0.1, 0.1, 0.8]], (n, 1)), y)
    result.rates = {0.05: result.corrected}
    text = verdict(result)
    assert "CAN alone would have cost" in text
    assert "With one label in 20 it would keep 100 % of the gain" in text


@pytest.mark.fast
def test_the_verdict_sees_a_moving_class_mix():
    P, y = stream(3000)
    order = np.argsort(y, kind="stable")
    assert "The class mix moves: 100 %" in verdict(replayed(P[order], y[order], rates=False))


# ---- in a browser

PROBE = """
<body style="margin:0"><iframe id="f" style="border:0;width:%dpx;height:900px" srcdoc="%s"></iframe>
<pre id="out"></pre><script>
document.getElementById("f").onload = () => {
  const d = document.getElementById("f").contentDocument, view = d.defaultView;
  const texts = [...d.querySelectorAll("svg text")];
  const sizes = texts.map(t => parseFloat(view.getComputedStyle(t).fontSize)
    * t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width);
  const boxes = [...d.querySelectorAll("svg")].map(s => s.getBoundingClientRect());
  const outside = texts.filter(t => { const a = t.getBoundingClientRect(),
    b = t.ownerSVGElement.getBoundingClientRect();
    return a.left < b.left - 2 || a.right > b.right + 2; });
  document.getElementById("out").textContent = JSON.stringify({
    wide: d.documentElement.scrollWidth,
    table: d.querySelector("table").scrollWidth - d.querySelector(".scroll").clientWidth,
    figures: boxes.filter(b => b.width > 200 && b.height > 100).length,
    smallest: Math.min(...sizes), outside: outside.map(t => t.textContent),
    page: view.getComputedStyle(d.body).backgroundColor, ink: view.getComputedStyle(d.body).color,
    axis: view.getComputedStyle(texts[0]).fill });
};
</script></body>
"""


@pytest.fixture(scope="module")
def chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    return program(*names, install="apt-get install chromium")


def look(chromium, folder, text, width, dark):
    """What a browser makes of the page at a width."""
    (folder / "probe.html").write_text(PROBE % (width, html.escape(text)), encoding="utf-8")
    done = subprocess.run(
        [
            chromium,
            *["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
            *["--disable-background-networking", "--disable-component-update", "--disable-sync"],
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--window-size=1400,1000",
            "--virtual-time-budget=10000",
            "--dump-dom",
            f"file://{folder / 'probe.html'}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


def brightness(color):
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_readable_in_a_browser(chromium, tmp_path, width, dark):
    P, y = stream(6000, 6, sharpness=2)
    names = ["a class with a rather long name", "b", "c", "d, of some length too", "e", "f"]
    text = report(replayed(P, y, names), "A stream with a title that is too long for one line")
    seen = look(chromium, tmp_path, text, width, dark)
    assert seen["wide"] <= width
    assert seen["table"] <= 0
    assert seen["figures"] == 7
    assert seen["outside"] == []
    assert seen["smallest"] > 8
    page, ink, axis = (brightness(seen[name]) for name in ("page", "ink", "axis"))
    assert (page < 60) == dark
    assert abs(ink - page) > 150
    assert abs(axis - page) > 80

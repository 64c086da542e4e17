"""The report: one page, self-contained, readable in a real browser, and a verdict that is true."""

import html
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from stream_can.report import report, write_report
from tests.programs import program
from tests.replay.streams import replayed, stream


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
from tests.replay.streams import replayed, stream
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

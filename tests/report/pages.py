"""Pages of a report: what they hold, and what a browser makes of them."""

import re
from collections import defaultdict
from html.parser import HTMLParser


class Page(HTMLParser):
    """What a page holds: its tags, ids and whatever it would load."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.loads, self.tags = [], [], [], []
        self.texts = defaultdict(list)
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

    def handle_data(self, text):
        if self.open:
            self.texts[self.open[-1]].append(text)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in ("meta", "br", "link", "img"):
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


PROBE = """(() => {
  const texts = [...document.querySelectorAll("svg text")];
  const sizes = texts.map(t => parseFloat(getComputedStyle(t).fontSize)
    * t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width);
  const boxes = [...document.querySelectorAll("svg")].map(s => s.getBoundingClientRect());
  const outside = texts.filter(t => { const a = t.getBoundingClientRect(),
    b = t.ownerSVGElement.getBoundingClientRect();
    return a.left < b.left - 2 || a.right > b.right + 2; });
  const names = [...document.querySelectorAll("bdi")];
  const wide = names.filter(n => n.getBoundingClientRect().right >
    n.closest(".card").getBoundingClientRect().right);
  const tables = [...document.querySelectorAll(".scroll")];
  return {
    wide: document.documentElement.scrollWidth,
    table: Math.max(...tables.map(s => s.scrollWidth - s.clientWidth)),
    names: names.map(n => n.textContent), wide_names: wide.map(n => n.textContent),
    figures: boxes.filter(b => b.width > 200 && b.height > 100).length,
    smallest: Math.min(...sizes), outside: outside.map(t => t.textContent),
    page: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
    axis: getComputedStyle(texts[0]).fill };
})()"""


def look(browser, folder, text, width, dark):
    """What a browser makes of the page at a width."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    browser.look(path.as_uri(), width, dark=dark)
    browser.until("document.readyState === 'complete'")
    return browser.value(PROBE)


def brightness(color):
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3

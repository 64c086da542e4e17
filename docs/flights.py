"""The flights in `compared.md` and the picture of the README, both from one run of the demo.

python docs/flights.py    # after a change of the mathematics; needs Chromium
"""

from __future__ import annotations

import base64
import functools
import http.server
import re
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

import flights  # noqa: E402

from stream_can.scores import Scores  # noqa: E402
from tests.chromium import Browser  # noqa: E402

CARDS = "document.querySelectorAll('.tiles, .grid > :nth-child(-n+2)')"
"""What the picture shows of the report: the tiles, and accuracy and log loss over the year."""
WIDTH = 1200


def table(before: Scores, can: Scores, after: Scores) -> str:
    """Scores over all flights."""
    lines = [
        f"| {before.n:,} flights, March to December 2013 | accuracy | log loss | Brier | ECE |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, one in (("raw", before), ("CAN alone", can), ("stream_can", after)):
        cells = [
            f"{100 * one.accuracy:.1f} %", f"{one.log_loss:.3f}", f"{one.brier:.3f}",
            f"{100 * one.ece:.1f} %",
        ]  # fmt: skip
        bold = "**" if one is after else ""
        lines.append(f"| {name} | " + " | ".join(f"{bold}{cell}{bold}" for cell in cells) + " |")
    return "\n".join(lines)


def picture(report: Path, into: Path) -> None:
    """A picture of the first figures of a report."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=report.parent)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
        browser.look(f"http://127.0.0.1:{server.server_port}/{report.name}", WIDTH)
        browser.until("document.readyState === 'complete'")
        box = browser.value(
            f"(() => {{ const all = [...{CARDS}].map(e => e.getBoundingClientRect());"
            " const top = Math.min(...all.map(b => b.top));"
            " const bottom = Math.max(...all.map(b => b.bottom));"
            " return [top + scrollY - 8, bottom - top + 16]; })()"
        )
        clip = {"x": 0, "y": box[0], "width": WIDTH, "height": box[1], "scale": 1}
        shot = browser._ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        into.write_bytes(base64.b64decode(shot["data"]))
    server.shutdown()


def main() -> None:
    report = ROOT / "out" / "flights.html"
    scores = flights.main(["--report", str(report)])
    page = ROOT / "docs" / "compared.md"
    made = f"<!-- flights -->\n{table(*scores[:3])}\n<!-- end -->"
    page.write_text(re.sub(r"<!-- flights -->.*?<!-- end -->", made, page.read_text(), flags=re.S))
    picture(report, ROOT / "docs" / "report.png")


if __name__ == "__main__":
    main()

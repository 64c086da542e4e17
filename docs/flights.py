"""The flights in `compared.md` and the picture of the README, both from the demo's stream.

python docs/flights.py    # after a change of the mathematics
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

import flights  # noqa: E402

from stream_can import Corrector  # noqa: E402
from stream_can.report.course import Course  # noqa: E402
from stream_can.report.curves import along  # noqa: E402
from stream_can.scores import Scores  # noqa: E402

BEFORE, AFTER = "#c07a4a", "#1f6fb2"


def table(raw: Scores, can: Scores, corrected: Scores) -> str:
    """Scores over all flights."""
    lines = [
        f"| {raw.n:,} flights, March to December 2013 | accuracy | log loss | Brier | ECE |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, scores in (("raw", raw), ("CAN alone", can), ("stream_can", corrected)):
        cells = [
            f"{100 * scores.accuracy:.1f} %", f"{scores.log_loss:.3f}", f"{scores.brier:.3f}",
            f"{100 * scores.ece:.1f} %",
        ]  # fmt: skip
        bold = "**" if scores is corrected else ""
        lines.append(f"| {name} | " + " | ".join(f"{bold}{cell}{bold}" for cell in cells) + " |")
    return "\n".join(lines)


def picture(file: Path) -> None:
    """Draw the accuracy of the flights over the year, before and after."""
    stream = flights.stream()
    corrector = Corrector(stream.classes, train_counts=stream.train_counts)
    result = flights.replay(stream, corrector, lambda rows: None)
    course = Course(result)
    (before, after), _ = course.means("hits", "hits")
    figure = Figure(figsize=(9.2, 2.7), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(course.x, 100 * before, 100 * after, color=AFTER, alpha=0.12, linewidth=0)
    axes.plot(course.x, 100 * before, color=BEFORE, linewidth=2.5)
    axes.plot(course.x, 100 * after, color=AFTER, linewidth=2)
    along(axes, result, ticks=10)
    for name, scores, color, x in (
        ("the classifier, trained in winter", result.raw, BEFORE, 0.01),
        ("corrected by stream_can", result.corrected, AFTER, 0.58),
    ):
        label = f"{name}: {100 * scores.accuracy:.1f} % right"
        axes.text(x, 1.04, label, transform=axes.transAxes, color=color, fontsize=11, weight="bold")
    axes.set_ylabel("% right")
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "flights"}):
        figure.savefig(file, metadata={"Date": None})


def main() -> None:
    raw, can, corrected, _ = flights.main(["--report", str(ROOT / "out" / "flights.html")])
    page = ROOT / "docs" / "compared.md"
    text = f"<!-- flights -->\n{table(raw, can, corrected)}\n<!-- end -->"
    page.write_text(re.sub(r"<!-- flights -->.*?<!-- end -->", text, page.read_text(), flags=re.S))
    picture(ROOT / "docs" / "flights.svg")


if __name__ == "__main__":
    main()

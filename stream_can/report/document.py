"""HTML documents: frame, cards, writing to a file."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from stream_can.replay.names import readable
from stream_can.report.tables import facts

SHOWN_OF_COMMAND = 240
"""Longer commands are folded to so many characters."""
COPY = """\
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const pre = button.parentElement.querySelector("pre");
  try {
    await navigator.clipboard.writeText(pre.textContent);
    button.textContent = "copied";
  } catch {
    pre.closest("details")?.setAttribute("open", "");
    getSelection().selectAllChildren(pre);
    button.textContent = "selected";
  }
  setTimeout(() => { button.textContent = "copy"; }, 2000);
});"""
"""Copies the command beside a button; where a browser denies that, selects it."""


def document(
    title: str,
    about: str,
    *,
    sub: str,
    verdict: Sequence[str],
    body: str,
    step: str = "",
    more_style: str = "",
) -> str:
    """An HTML document; ``sub``, ``step`` and ``body`` are HTML, the rest is plain text.

    ``verdict`` comes first; its lines are kept, and ``step`` follows.
    """
    style = resources.files("stream_can.report").joinpath("page.css").read_text("utf-8")
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in verdict)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}: {about}</title>
<style>{style}{more_style}</style>
</head>
<body>
<main>
<h1>{html.escape(title)}</h1>
<p class="sub">{sub}</p>
<div class="verdict">{lines}{step}</div>
{body}
</main>{f"<script>{COPY}</script>" if "class=copy" in step + body else ""}
</body>
</html>
"""


def card(title: str, content: str, note: str, kind: str = "card") -> str:
    """A figure or table (HTML) with a sentence that explains it."""
    return (
        f'<section class="{kind}"><h2>{html.escape(title)}</h2>{content}'
        f'<p class="note">{html.escape(note)}</p></section>\n'
    )


def command(text: str) -> str:
    """A command to copy; of a long one the middle is folded."""
    whole = f"<pre>{html.escape(text)}</pre>"
    if len(text) > SHOWN_OF_COMMAND and "\n" not in text:
        part = html.escape(readable(text, SHOWN_OF_COMMAND))
        whole = f"<details><summary><code>{part}</code></summary>{whole}</details>"
    return f'<div class="command">{whole}<button class=copy type=button>copy</button></div>'


def words(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    """A card of names and descriptions."""
    return f'<section class="card words"><h2>{title}</h2>{facts(pairs)}</section>'


def also(lines: Sequence[str]) -> str:
    """A list of further notes."""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f'<ul class="also">{items}</ul>' if items else ""


def write(text: str, path: str | Path) -> None:
    """Write a page to a file; create its folder."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(f"report {path}: {error.strerror}") from error

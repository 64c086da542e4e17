"""HTML documents: frame, cards, writing to a file."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from stream_can.report.tables import facts

__all__ = ["also", "card", "document", "words", "write"]


def document(
    title: str, about: str, *, sub: str, verdict: Sequence[str], body: str, more_style: str = ""
) -> str:
    """An HTML document; ``sub`` and ``body`` are HTML, the rest is plain text.

    ``verdict`` comes first; its lines are kept.
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
<div class="verdict">{lines}</div>
{body}
</main>
</body>
</html>
"""


def card(title: str, content: str, note: str, kind: str = "card") -> str:
    """A figure or table (HTML) with a sentence that explains it."""
    return (
        f'<section class="{kind}"><h2>{html.escape(title)}</h2>{content}'
        f'<p class="note">{html.escape(note)}</p></section>\n'
    )


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

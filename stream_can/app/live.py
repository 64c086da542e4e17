"""The live page: one document with inline style and script, and the policy that allows only
these.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import NamedTuple


class LivePage(NamedTuple):
    """The answer to ``/``."""

    body: bytes
    policy: str
    """Content-Security-Policy."""


def live_page() -> LivePage:
    """The page; it fetches ``status.json`` beside it."""
    files = resources.files("stream_can")
    app_files = files.joinpath("app")
    # The style of a report; its package is not imported, since that needs another extra.
    style = files.joinpath("report", "page.css").read_text("utf-8")
    style += app_files.joinpath("page.css").read_text("utf-8")
    script = "".join(
        app_files.joinpath(f"{name}.js").read_text("utf-8") for name in ("draw", "page")
    )
    text = app_files.joinpath("page.html").read_text("utf-8")
    text = text.replace("<style></style>", f"<style>{style}</style>")
    text = text.replace("<script></script>", f"<script>{script}</script>")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return LivePage(text.encode(), policy)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

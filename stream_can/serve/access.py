"""Access: who may ask a server, by a token or from this machine alone."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence

from stream_can.serve.http_answer import HttpProblem
from stream_can.serve.settings import ServeSettings

OPEN = ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready")
"""Paths that need no token."""
LOCAL = ("127.0.0.1", "localhost", "[::1]")
ONCE = (b"host", b"origin", b"authorization")
"""Headers with credentials, which must not occur twice: programs differ in which one counts."""

Headers = dict[bytes, bytes]


class Access:
    """Checks a request's token, host and origin.

    Parameters
    ----------
    settings
        The server's settings.
    """

    def __init__(self, settings: ServeSettings) -> None:
        token, host = settings.token, settings.http_host
        self._token = None if token is None else token.encode()
        self._names = {*LOCAL, f"[{host}]" if ":" in host else host}
        """Names of this machine, accepted where no token is required."""

    def headers(self, pairs: Sequence[tuple[bytes, bytes]]) -> Headers:
        """Headers by name; HttpProblem where one with credentials occurs twice."""
        headers: Headers = dict(pairs)
        if len(headers) < len(pairs):
            names = [name for name, _ in pairs]
            if repeated := [name for name in ONCE if names.count(name) > 1]:
                raise HttpProblem(400, f"header {repeated[0].decode()}: expected once")
        return headers

    def require(self, path: str, headers: Headers) -> None:
        """Raise HttpProblem without the token, or where another origin's page asks."""
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
            raise HttpProblem(403, "requests from pages of another origin are refused")
        if self._token is None:
            # A DNS name that points here makes a browser treat it as the same origin.
            name = host.lower()
            hostname, _, port = name.rpartition(":")
            is_own = name in self._names or (hostname in self._names and port.isdecimal())
            if name and not is_own:
                raise HttpProblem(403, f"Host {host[:100]!r}: expected a name of this machine")
        elif path not in OPEN and not hmac.compare_digest(_secret(headers), self._token):
            raise HttpProblem(
                401,
                "send the token, as Authorization: Bearer TOKEN or as the password of Basic",
                (b"www-authenticate", b'Bearer, Basic realm="stream_can"'),
            )


def _secret(headers: Headers) -> bytes:
    """The token of a request."""
    scheme, _, text = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return text.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(text, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""

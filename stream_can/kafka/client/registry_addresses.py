"""Addresses of a schema registry, each with its credentials."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

__all__ = ["RegistryAddress", "origin_of", "passwords_in", "servers_at"]

TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryAddress(NamedTuple):
    """An address of a schema registry, and the headers of requests to it."""

    url: str
    """Without credentials."""
    headers: dict[str, str]


def servers_at(
    urls: Sequence[str] | str, user: str | None = None, password: str | None = None
) -> list[RegistryAddress]:
    """Parse addresses with their credentials.

    Raises
    ------
    ValueError
        An address is invalid. It is not quoted: it may hold a password.
    """
    servers = []
    for number, url in enumerate(_addresses_in(urls), 1):
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # invalid port
            is_valid = False
        if not is_valid or parts.query or parts.fragment or not url.isascii() or " " in url:
            raise ValueError(f"address {number}: expected http[s]://host[:port][/path]")
        host = parts.netloc.rpartition("@")[2]
        name, secret = user, password
        if parts.username is not None:
            name, secret = unquote(parts.username), unquote(parts.password or "")
        headers = {"Accept": f"{TYPE}, application/json", "Content-Type": TYPE}
        if name is not None:
            credentials = base64.b64encode(f"{name}:{secret or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {credentials}"
        servers.append(RegistryAddress(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", headers))
    if not servers:
        raise ValueError("no address")
    return servers


def passwords_in(urls: Sequence[str] | str) -> list[str]:
    """Passwords in addresses, as written and decoded."""
    passwords = []
    for url in _addresses_in(urls):
        written = url.rpartition("@")[0].partition("://")[2].partition(":")[2]
        passwords += [written, unquote(written)]
    return [text for text in dict.fromkeys(passwords) if text]


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname or "", port


def _addresses_in(urls: Sequence[str] | str) -> list[str]:
    texts = urls.split(",") if isinstance(urls, str) else urls
    return [text.strip() for text in texts if text.strip()]

"""Detect a port's protocol on a bare socket. Trap: kafka-python only says "cannot connect".

Two Kafka requests suffice: ApiVersions, which every listener answers before authentication, and
SaslHandshake, whose answer names the mechanisms on offer.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from typing import Any, Literal

SECONDS = 2.0
GRACE_SECONDS = 0.2
"""Seconds that other servers may answer later than the first."""
KAFKA = "speaks Kafka"
API_VERSIONS, SASL_HANDSHAKE = 18, 17


def protocol_of(server: str) -> Literal["plain", "tls"] | None:
    """Protocol of a port; None where nobody answers within `SECONDS`."""
    with contextlib.suppress(OSError), _connected(server, tls=False) as stream:
        if _ask(stream, API_VERSIONS, b"") is not None:
            return "plain"
    try:
        with _connected(server, tls=True):
            return "tls"
    except ssl.SSLError as error:
        return "tls" if "ALERT" in (error.reason or "") else None
    except OSError:
        return None


def outcome_of(server: str) -> str:
    """Connect to a server; describe the outcome."""
    try:
        with _connected(server, tls=False) as stream:
            if _ask(stream, API_VERSIONS, b"") is not None:
                return KAFKA
    except TimeoutError:
        return f"says nothing within {SECONDS:g} s"
    except socket.gaierror as error:
        return f"no such host ({error.strerror})"
    except OSError as error:
        return error.strerror or str(error)
    return "speaks TLS" if protocol_of(server) == "tls" else "does not speak Kafka"


def mechanisms(server: str, mechanism: str, *, tls: bool) -> tuple[bool, list[str]]:
    """Whether a port accepts a SASL mechanism, and those it offers; none without SASL."""
    name = mechanism.encode()
    with contextlib.suppress(OSError), _connected(server, tls=tls) as stream:
        body = struct.pack(">h", len(name)) + name
        if (answer := _ask(stream, SASL_HANDSHAKE, body, version=1)) is not None:
            code, count = struct.unpack_from(">hi", answer)
            offered, at = [], 6
            for _ in range(max(count, 0)):
                (size,) = struct.unpack_from(">h", answer, at)
                offered.append(answer[at + 2 : at + 2 + size].decode(errors="replace"))
                at += 2 + size
            return code == 0, offered
    return False, []


def mismatch(servers: Sequence[str], settings: Mapping[str, Any]) -> str | None:
    """The right ``security_protocol`` or ``sasl_mechanism`` where the given one is wrong.

    Parameters
    ----------
    servers, settings
        See `Options`.
    """
    protocol = str(settings.get("security_protocol") or "PLAINTEXT")
    mechanism = str(settings.get("sasl_mechanism") or "PLAIN")
    tls, sasl = "SSL" in protocol, "SASL" in protocol
    for server, spoken in zip(servers, _all(servers), strict=True):
        if spoken is None:
            continue
        if (spoken == "tls") is not tls:
            how = "with" if spoken == "tls" else "without"
            needed = ("SASL_" if sasl else "") + ("SSL" if spoken == "tls" else "PLAINTEXT")
            return f"{server} speaks {how} TLS, so security_protocol={needed} and not {protocol}"
        is_accepted, offered = mechanisms(server, mechanism, tls=tls)
        if sasl and not is_accepted and offered:
            return f"{server} offers sasl_mechanism {', '.join(offered)} and not {mechanism}"
        if sasl is not (is_accepted or bool(offered)):
            needed = ("" if sasl else "SASL_") + ("SSL" if tls else "PLAINTEXT")
            how = "takes no SASL" if sasl else f"wants SASL ({', '.join(offered)})"
            return f"{server} {how}, so security_protocol={needed} and not {protocol}"
    return None


def outcomes_of(servers: Sequence[str]) -> str:
    """Describe the outcomes of all servers."""
    with ThreadPoolExecutor(max_workers=min(8, len(servers))) as pool:
        words = pool.map(outcome_of, servers)
        return ", ".join(f"{server} ({word})" for server, word in zip(servers, words, strict=True))


def answering(servers: Sequence[str]) -> list[str]:
    """Servers that answer, as soon as one does; all of them where none does."""
    pool = ThreadPoolExecutor(max_workers=min(8, len(servers)))
    try:
        answers = {server: pool.submit(protocol_of, server) for server in servers}
        if any(answer.result() for answer in as_completed(answers.values())):
            wait(answers.values(), GRACE_SECONDS)
        return [s for s, answer in answers.items() if answer.done() and answer.result()] or list(
            servers
        )
    finally:
        pool.shutdown(wait=False)  # do not wait for a hanging one


def _all(servers: Sequence[str]) -> list[Literal["plain", "tls"] | None]:
    with ThreadPoolExecutor(max_workers=min(8, len(servers))) as pool:
        return list(pool.map(protocol_of, servers))


def _connected(server: str, *, tls: bool) -> socket.socket:
    host, _, port = server.rpartition("://")[2].rpartition(":")
    number = int(port) if host and port.isdigit() else 9092
    stream = socket.create_connection((host.strip("[]") or server, number), SECONDS)
    if not tls:
        return stream
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing secret is sent
    try:
        return context.wrap_socket(stream, server_hostname=host.strip("[]"))
    except BaseException:
        stream.close()
        raise


def _ask(stream: socket.socket, api: int, body: bytes, version: int = 0) -> bytes | None:
    """Send a request and return the answer; None where it is not Kafka's."""
    name = b"stream-can"
    head = struct.pack(">hhih", api, version, 7, len(name)) + name
    stream.sendall(struct.pack(">i", len(head + body)) + head + body)
    size = _receive(stream, 4)
    if len(size) < 4 or not 4 <= (length := struct.unpack(">i", size)[0]) < 1 << 20:
        return None
    answer = _receive(stream, length)
    return answer[4:] if len(answer) == length and answer[:4] == b"\0\0\0\7" else None


def _receive(stream: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size and (chunk := stream.recv(size - len(received))):
        received += chunk
    return received

"""What a client of its own making sends to the server, byte by byte, and what comes back."""

from __future__ import annotations

import contextlib
import json
import socket

from tests.programs import PATIENCE

GOOD = b'{"id": 1, "probs": [0.5, 0.3, 0.2]}'


def raw(server, data):
    """All that the server says to some bytes, until it hangs up or has answered."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
        return answer(connection)


def answer(connection):
    """What comes until it is whole, or nothing more does."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            said += piece
            head, found, body = said.partition(b"\r\n\r\n")
            if found and len(body) >= length(head):
                break
    return said


def length(head):
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


def request(body, path=b"/correct", **headers):
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: localhost", b"Content-Length: %d" % len(body)]
    lines += [f"{name}: {value}".encode() for name, value in headers.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def error(said):
    """Status and reason of an answer that is an error."""
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower(), said[:300]
    return int(head.split()[1]), json.loads(body)["error"]

"""What strangers send: each answered with a JSON error, or hung up on; the server goes on."""

from __future__ import annotations

import random
import socket
import time
from types import SimpleNamespace

import pytest

from stream_can.serve.joining_transport import JoiningTransport
from tests.programs import PATIENCE
from tests.serve.serving import Server
from tests.serve.sockets import GOOD, answer, error, raw, request


def test_sizes_and_encodings(tmp_path):
    with Server(tmp_path) as server:
        large = b'{"probs": [1, 0, 0], "x": "%s"}' % (b"x" * (8 << 20))
        assert error(raw(server, request(large)))[0] == 413
        chunk = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
        head = b"POST /correct HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert error(raw(server, head + chunk * 9 + b"0\r\n\r\n"))[0] == 413
        pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in GOOD) + b"0\r\n\r\n"
        assert raw(server, head + pieces).startswith(b"HTTP/1.1 200")
        encoded = {"Content-Encoding": "gzip"}
        assert error(raw(server, request(GOOD, **encoded)))[0] == 415
        many = b"[" + b",".join([b"{}"] * 10_001) + b"]"
        assert error(raw(server, request(many)))[0] == 413
        # UTF-16 is no JSON, a byte order mark is none either.
        for body in (GOOD.decode().encode("utf-16"), b"\xef\xbb\xbf" + GOOD):
            assert error(raw(server, request(body)))[0] == 422
        assert raw(server, request(GOOD)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("path", [b"/correct", b"/labels", b"/v2/models/stream_can/infer"])
def test_a_body_that_is_too_large_is_refused_by_its_head(tmp_path, path):
    """Before, 8 MiB of it were read first, for up to 10 s."""
    with Server(tmp_path) as server:
        for size in (b"%d" % ((8 << 20) + 1), b"9" * 18):
            head = request(b"", path=path).replace(b"Content-Length: 0", b"Content-Length: " + size)
            code, why = error(raw(server, head))
            assert (code, why) == (413, "a body has 8388608 bytes at most")
            expecting = head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
            said = raw(server, expecting)
            assert said.startswith(b"HTTP/1.1 413")  # and not 100 before it
            assert b"connection: close" in said.lower()
        assert raw(server, request(GOOD)).startswith(b"HTTP/1.1 200")


def test_what_is_no_http(tmp_path):
    with Server(tmp_path) as server:
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # a TLS client
            b"GET\r\n\r\n",
            b"POST /correct HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"POST /correct HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            b"POST /correct HTTP/9.9\r\n\r\n",
            b"\r\n" * 10 + b"nonsense" * 100 + b"\r\n\r\n",
        ):
            code, why = error(raw(server, data))
            assert code == 400
            assert why
        assert raw(server, request(GOOD)).startswith(b"HTTP/1.1 200")


def test_an_answer_is_written_at_once():
    """Head and body; nothing stays behind where there is no body."""
    head, early, written = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", []
    under = SimpleNamespace(
        write=written.append, is_closing=lambda: False, close=lambda: written.append("closed"),
        writelines=written.extend,
    )  # fmt: skip
    transport = JoiningTransport(under)
    for data in (early, head, b"body", b"more", head, b""):
        transport.write(data)
    assert written == [early, head + b"body", b"more", head]
    for end in (transport.flush, transport.close, lambda: transport.writelines([b"line"])):
        written.clear()
        transport.write(head)
        assert not written
        end()
        assert written[0] == head


@pytest.mark.long
def test_slow_clients_are_cut_off(tmp_path):
    with Server(tmp_path) as server:
        begin = time.monotonic()
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        silent[1].sendall(b"POST /correct HTTP/1.1\r\nHost: localhost\r\n")
        silent[2].sendall(request(GOOD)[:-5])
        # Blank lines are no request, and a body that nobody wants is no second one.
        blank, unwanted = (socket.create_connection(("127.0.0.1", server.port)) for _ in range(2))
        for one in (blank, unwanted):
            one.settimeout(PATIENCE)
        blank.sendall(request(GOOD))
        assert answer(blank).startswith(b"HTTP/1.1 200")
        blank.sendall(b"\r\n\r\n")
        unwanted.sendall(request(GOOD, path=b"/metrics")[:-5])
        assert error(answer(unwanted))[0] == 405
        found = []
        for one in silent:
            one.settimeout(PATIENCE)
            found.append(error(answer(one)))
            one.close()
        assert time.monotonic() - begin > 9
        assert [code for code, _ in found] == [408, 408, 408]
        assert "head of the request took over 10 s" in found[0][1]
        assert "body took over 10 s" in found[2][1]
        assert error(answer(blank))[0] == 408
        assert unwanted.recv(1) == b""
        blank.close()
        unwanted.close()
        # Whoever goes away in the middle is forgotten.
        gone = socket.create_connection(("127.0.0.1", server.port))
        gone.sendall(request(GOOD)[:-5])
        gone.close()
        assert raw(server, request(GOOD)).startswith(b"HTTP/1.1 200")
        assert "Traceback" not in server.log.read_text()


def test_a_flood_of_connections(tmp_path):
    with Server(tmp_path) as server:
        held = []
        try:
            for _ in range(2100):
                held.append(socket.create_connection(("127.0.0.1", server.port)))
            code, why = error(raw(server, request(GOOD)))
            assert code == 503
            assert "too many connections" in why
        finally:
            for one in held:
                one.close()
        deadline = time.monotonic() + PATIENCE
        while not raw(server, request(GOOD)).startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < deadline


@pytest.mark.long
def test_hostile_requests(tmp_path):
    """Good ones, broken anywhere: none of 4,000 is answered with a fault of the server's."""
    chance = random.Random(3)
    label = b'{"id": 1, "label": "cat"}'
    infer = b'{"id":"a","inputs":[{"name":"probs","shape":[1,3],"datatype":"FP64","data":[1,0,0]}]}'
    seeds = [(b"/correct", GOOD), (b"/labels", label), (b"/v2/models/stream_can/infer", infer)]
    seeds.append((b"/correct", b"[" + GOOD + b"," + GOOD + b"]"))
    seeds.append((b"/correct", GOOD + b"\n" + GOOD + b"\n"))
    pieces = [b"NaN", b"1e999", b"-1", b"null", b"[", b"{", b'"', b"\\u0000", b"\xff", b"1" * 400]
    pieces += [b"true", b"\\ud800", b"[" * 2000, b"{}", b"[]", b'"cow"', b"9" * 30, b"\x00", b","]
    with Server(tmp_path) as server:
        memory = []
        for number in range(4_000):
            path, body = chance.choice(seeds)
            data = bytearray(body)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(data))
                match chance.randrange(4):
                    case 0:
                        data[at : at + chance.randint(0, 6)] = chance.choice(pieces)
                    case 1:
                        data[at] = chance.randrange(256)
                    case 2:
                        del data[at : at + chance.randint(1, 20)]
                    case 3:
                        data[at:at] = data[at // 2 : at]
                if not data:
                    break
            found = server.client.post(path.decode(), content=bytes(data))
            assert found.status_code in (200, 400, 413, 422), (bytes(data), found.text)
            if found.status_code != 200:
                assert found.json()["error"], bytes(data)
            if number in (1000, 3_999):
                memory.append(server.resident)
        assert memory[1] - memory[0] < 8e6
        assert "Traceback" not in server.log.read_text()
        assert raw(server, request(GOOD)).startswith(b"HTTP/1.1 200")

"""Requests that are refused before they reach a route: smuggling, sizes, foreign names.

What could be read in two ways by two servers gets 400 and a closed connection, so that nothing that follows
it on the wire is ever taken for a request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from .client import Client
from .h2wire import H2Wire
from .wire import Response, request_bytes

MEBIBYTE = 1 << 20
SMUGGLED = request_bytes("DELETE", "/jobs?queue=smuggled")


def refused(client: Client, data: bytes) -> Response:
    """Send bytes and something that would be a request behind them; one answer and the end must come."""
    with client.wire() as wire:
        wire.send(data + SMUGGLED)
        answer = wire.read_response()
        assert answer.header("connection") == "close"
        assert wire.read_eof() == b""
    assert client.get("/health").status == 200
    return answer


def post(*lines: str, body: bytes = b"") -> bytes:
    head = [
        "POST /jobs/success HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        *lines,
        "",
        "",
    ]
    return "\r\n".join(head).encode("latin-1") + body


@pytest.mark.parametrize(
    "lines",
    [
        ("content-length: 5", "transfer-encoding: chunked"),
        ("transfer-encoding: chunked", "content-length: 5"),
        ("content-length: 5", "transfer-encoding: identity"),
        ("transfer-encoding: gzip, chunked",),
        ("transfer-encoding: chunked, chunked",),
        ("transfer-encoding: chunked", "transfer-encoding: chunked"),
        ("transfer-encoding: chunked, identity",),
        ("transfer-encoding: identity",),
        ("transfer-encoding: xchunked",),
        ("transfer-encoding: \x0bchunked",),
        ("transfer-encoding:",),
    ],
)
def test_ambiguous_transfer_encodings_are_400(client: Client, lines: tuple[str, ...]) -> None:
    """The peer reads most of these by chunks and goes on."""
    assert refused(client, post(*lines, body=b"5\r\nhello\r\n0\r\n\r\n")).status == 400


@pytest.mark.parametrize(
    "lines",
    [
        ("content-length: 2", "content-length: 3"),
        ("content-length: 2", "content-length: 2"),
        ("content-length: 2, 2",),
        ("content-length: 2, 3",),
        ("content-length: -1",),
        ("content-length: +2",),
        ("content-length: 0x2",),
        ("content-length: 2 2",),
        ("content-length: 2.0",),
        ("content-length: two",),
        ("content-length:",),
    ],
)
def test_ambiguous_lengths_are_400(client: Client, lines: tuple[str, ...]) -> None:
    """The peer accepts two equal lengths."""
    assert refused(client, post(*lines, body=b"{}")).status == 400


def test_a_length_beyond_every_integer_is_refused(client: Client) -> None:
    assert refused(client, post("content-length: 99999999999999999999999")).status in {400, 413}


@pytest.mark.parametrize(
    "line",
    [
        "x-folded: a\r\n b",
        "x-folded: a\r\n\tb",
        " x-leading: a",
        "x-bare-cr: a\rb",
        "x-bare-cr: a\r",
        "x-nul: a\0b",
        "x-nul\0: a",
        "x-space : a",
        "host : localhost",
        "no colon",
        ": no name",
        "x(y): a",
        "x-control: a\x01b",
    ],
)
def test_malformed_header_lines_are_400(client: Client, line: str) -> None:
    assert refused(client, post("content-length: 2", line, body=b"{}")).status == 400


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /health",
        b"GET  /health HTTP/1.1",
        b"GET /health HTTP/1.1 x",
        b"GET /hea lth HTTP/1.1",
        b"GET /health\0 HTTP/1.1",
        b"GET /hea\rlth HTTP/1.1",
        b"GET /health HTTP/9.9",
        b"GET /health XTTP/1.1",
        b"GET health HTTP/1.1",
        b"G\0T /health HTTP/1.1",
        b"/health",
    ],
)
def test_malformed_request_lines_are_400(client: Client, request_line: bytes) -> None:
    assert refused(client, request_line + b"\r\nhost: localhost\r\n\r\n").status in {400, 501, 505}


@pytest.mark.parametrize(
    "body",
    [
        b"xyz\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloworld\r\n0\r\n\r\n",
        b"5 5\r\nhello\r\n0\r\n\r\n",
        b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_malformed_chunks_are_400(client: Client, body: bytes) -> None:
    """The peer hangs up as well, and does not say so in its answer."""
    assert refused(client, post("transfer-encoding: chunked", body=body)).status == 400


def test_a_chunk_beyond_every_integer_is_refused(client: Client) -> None:
    assert refused(client, post("transfer-encoding: chunked", body=b"FFFFFFFFFFFFFFFFFF\r\n")).status in {
        400,
        413,
    }


# Host: a browser that was lured to a name which resolves to loopback must not reach the queue. The peer
# accepts any name, and none.


def test_no_host_is_400(client: Client) -> None:
    assert refused(client, b"GET /health HTTP/1.1\r\n\r\n").status == 400


@pytest.mark.parametrize("second", ["localhost", "attacker.example"])
def test_two_hosts_are_400(client: Client, second: str) -> None:
    assert (
        refused(
            client, b"GET /health HTTP/1.1\r\nhost: localhost\r\nhost: %s\r\n\r\n" % second.encode()
        ).status
        == 400
    )


@pytest.mark.parametrize(
    "name",
    [
        "attacker.example",
        "attacker.example:7890",
        "localhost.attacker.example",
        "127.0.0.1.attacker.example",
        "8.8.8.8",
    ],
)
def test_a_foreign_host_is_403(client: Client, queue: str, name: str) -> None:
    body = json.dumps({"type": "t", "queue": queue, "payload": None}).encode()
    response = client.request("POST", "/jobs", body=body, headers=[("host", name)])
    assert response.status == 403
    assert response.error
    assert client.count(queue=queue) == 0


@pytest.mark.parametrize("name", ["", "local host", "localhost/", "user@localhost", "localhost:x"])
def test_a_malformed_host_is_refused(client: Client, name: str) -> None:
    with client.wire() as wire:
        wire.send(request_bytes("GET", "/health", headers=[("host", name)]))
        assert wire.read_response().status in (400, 403)


def test_the_name_in_an_absolute_target_counts(client: Client) -> None:
    """It stands in the place of ``Host``, as RFC 9112 section 3.2.2 has it."""
    with client.wire() as wire:
        wire.send(request_bytes("GET", "http://attacker.example/health"))
        assert wire.read_response().status == 403


# Sizes: refused before the bytes are read, and with an answer that arrives. The peer buffers any body.


def pieces(data: bytes, count: int) -> Iterator[bytes]:
    yield from (data for _ in range(count))


def test_a_declared_body_above_64_mebibytes_is_413_at_once(client: Client) -> None:
    with client.wire() as wire:
        wire.send(request_bytes("POST", "/jobs", headers=[("content-length", str(64 * MEBIBYTE + 1))]))
        answer = wire.read_response()
        assert (answer.status, answer.header("connection")) == (413, "close")
        assert answer.error
        assert wire.read_eof() == b""


def test_a_chunked_body_above_64_mebibytes_is_413(client: Client) -> None:
    """No length is declared, so the bytes are counted as they come."""
    chunk = b"100000\r\n" + b" " * MEBIBYTE + b"\r\n"
    with client.wire() as wire:
        wire.send(request_bytes("POST", "/jobs", headers=[("transfer-encoding", "chunked")]))
        wire.send_until_refused(pieces(chunk, 80))
        assert wire.read_response().status == 413


def test_a_job_above_32_mebibytes_is_413(client: Client, queue: str) -> None:
    body = b'{"type":"t","queue":"%s","payload":"%s"}' % (queue.encode(), b"x" * (32 * MEBIBYTE + 1))
    for target, data in (("/jobs", body), ("/jobs/bulk", b'{"jobs":[' + body + b"]}")):
        with client.wire() as wire:
            wire.send(request_bytes("POST", target, headers=[("content-length", str(len(data)))]))
            wire.send_until_refused(data[at : at + MEBIBYTE] for at in range(0, len(data), MEBIBYTE))
            assert wire.read_response().status == 413
    assert client.count(queue=queue) == 0


def test_a_path_of_100_kilobytes_is_414(client: Client) -> None:
    """The peer answers 431 as long as the path goes on, 414 once it is whole."""
    with client.wire() as wire:
        wire.send(b"GET /jobs?queue=")
        wire.send_until_refused(pieces(b"a" * 10_000, 100))
        answer = wire.read_response()
        assert (answer.status, answer.header("connection")) == (414, "close")


def test_200_header_lines_are_431(client: Client) -> None:
    with client.wire() as wire:
        wire.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n")
        wire.send_until_refused([b"x: y\r\n" * 200, b"\r\n"])
        answer = wire.read_response()
        assert (answer.status, answer.header("connection")) == (431, "close")


def test_a_head_that_never_ends_is_431(client: Client) -> None:
    with client.wire() as wire:
        wire.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-long: ")
        wire.send_until_refused(pieces(b"a" * 10_000, 100))
        assert wire.read_response().status == 431


def test_99_header_lines_and_a_long_query_are_fine(client: Client) -> None:
    headers = [(f"x-{n}", "y" * 50) for n in range(90)]
    assert client.get("/health?" + "a" * 8000, headers=headers).status == 200


def test_an_http_2_body_above_64_mebibytes_is_413_at_once(client: Client) -> None:
    with H2Wire(client.address) as h2:
        declared = h2.start("POST", "/jobs", headers=[("content-length", str(64 * MEBIBYTE + 1))], end=False)
        assert h2.head(declared).status == 413
        assert h2.request("GET", "/health").status == 200

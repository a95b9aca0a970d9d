"""HTTP/1.1 as a peer meets it: raw bytes on real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import cast

import pytest

from anew.clock import ManualClock
from anew.http.seam import Request, Stream, WireLimits
from anew.http.wire import kernel
from anew.http.wire.http1 import Http1Connection
from anew.http.wire.http1_messages import Http1Request
from tests.unit.http.loopback import Client, Site, run

get = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


def post(body: bytes, path: bytes = b"/a", extra: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (path, extra, len(body), body)


def fetch(path: bytes, extra: bytes = b"") -> bytes:
    return b"GET %b HTTP/1.1\r\nHost: h\r\n%b\r\n" % (path, extra)


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)


def stream_of(site: Site) -> Stream:
    stream = site.app.streams[-1]
    assert stream is not None
    return stream


# ---- the ordinary


def test_a_request_has_all_its_parts(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            reply = await client.exchange(
                post(b"hello", b"/a%20b?x=1&y", b"X-Two: first\r\nx-two: second \t\r\nEmpty:\r\n")
            )
            assert (reply.status, reply.body) == (200, b"hello")
            assert reply.headers["content-type"] == "text/plain"
            assert reply.headers["content-length"] == "5"
            assert "connection" not in reply.headers
            assert reply.headers["date"].endswith(" GMT")
            request = site.app.seen[0]
            assert (request.method, request.path, request.query) == (b"POST", b"/a%20b", b"x=1&y")
            assert request.headers == {
                b"host": b"h",
                b"x-two": b"first",
                b"empty": b"",
                b"content-length": b"5",
            }
            assert request.local is True
            assert site.server.counters.requests == 1

    run(test, loop)


def test_keep_alive_serves_many_requests_of_changing_shape(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            for size in (0, 1, 1, 70_000, 1, 0, 300_000):
                assert (await client.exchange(post(b"x" * size))).body == b"x" * size
            assert (await client.exchange(fetch(b"/?"))).status == 200
            assert (site.app.seen[-1].path, site.app.seen[-1].query) == (b"/", b"")

    run(test, loop)


def test_every_split_of_a_request_reads_the_same(loop: str) -> None:
    whole = (
        b"\r\n"
        + post(b"ab")
        + b"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n0\r\nT: v\r\n\r\n"
    )

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            sock = cast(socket.socket, client.writer.get_extra_info("socket"))
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            for at in range(1, len(whole)):
                client.send(whole[:at])
                await asyncio.sleep(0)
                client.send(whole[at:])
                assert (await client.reply()).body == b"ab"
                assert (await client.reply()).body == b"ab"
            for byte in whole:
                client.send(bytes([byte]))
                await asyncio.sleep(0)
            assert [(await client.reply()).body for _ in range(2)] == [b"ab", b"ab"]

    run(test, loop)


def test_answers_without_body(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/nothing") + get)
            reply = await client.reply()
            assert reply.status == 204
            assert set(reply.headers) == {"date"}
            assert (await client.reply()).headers["content-length"] == "0"

    run(test, loop)


def test_head_gets_the_headers_alone(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(
                b"HEAD /large?12 HTTP/1.1\r\nHost: h\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n" + get
            )
            assert (await client.reply(to_head=True)).headers["content-length"] == "12"
            streamed = await client.reply(to_head=True)
            assert streamed.headers["content-type"] == "application/x-ndjson"
            assert "content-length" not in streamed.headers
            assert site.app.streams == [None]
            assert (await client.reply()).status == 200

    run(test, loop)


def test_an_application_that_fails_answers_500_and_the_connection_lives(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            reply = await client.exchange(fetch(b"/crash"))
            assert (reply.status, json.loads(reply.body)) == (500, {"error": "internal server error"})
            assert (await client.exchange(get)).status == 200

    run(test, loop)


def test_extra_headers_and_a_second_answer(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later"))
            await site.app.until(lambda: bool(site.app.later))
            request = site.app.later[0]
            with pytest.raises(ValueError, match="no line ends"):
                request.reply(200, extra=((b"x", b"a\r\nb: c"),))
            request.reply(429, b"{}", extra=((b"retry-after", b"1"),))
            request.reply(200, b"again")
            assert request.open_stream(200, b"text/plain") is None
            reply = await client.reply()
            assert (reply.status, reply.headers["retry-after"]) == (429, "1")
            assert (await client.exchange(post(b"next"))).body == b"next"
            site.app.seen[-1].reply(200, b"again")
            assert (await client.exchange(post(b"last"))).body == b"last"

    run(test, loop)


# ---- versions, targets, hosts


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"GET / HTTP/1.0\r\nHost: h\r\n\r\n", None),
        (b"GET / HTTP/1.0\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n", "keep-alive"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: foo, Close\r\n\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", ""),
    ],
)
def test_who_keeps_the_connection(loop: str, head: bytes, kept: str | None) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(head + get)
            reply = await client.reply()
            assert reply.status == 200
            assert reply.headers.get("connection", "") == ("close" if kept is None else kept)
            if kept is None:
                assert await client.rest() == b""
                assert len(site.app.seen) == 1
            else:
                assert (await client.reply()).status == 200

    run(test, loop)


def test_http_1_0_does_not_spoil_the_parser_for_the_next(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            for _ in range(3):
                old = await site.connect()
                assert (await old.exchange(b"GET /new HTTP/1.0\r\nA: b\r\n\r\n")).status == 200
                assert site.app.seen[-1].headers[b"host"] == b""
                client = await site.connect()
                assert (await client.exchange(get)).status == 200

    run(test, loop)


@pytest.mark.parametrize(
    ("line", "host", "path", "query"),
    [
        (b"GET http://other:81/x?y", b"other:81", b"/x", b"y"),
        (b"GET HTTPS://other", b"other", b"/", b""),
        (b"GET http://other?q", b"other", b"/", b"q"),
        (b"OPTIONS *", b"h", b"*", b""),
        (b"OPTIONS http://other", b"other", b"*", b""),
        (b"GET //double/x", b"h", b"//double/x", b""),
    ],
)
def test_forms_of_target(loop: str, line: bytes, host: bytes, path: bytes, query: bytes) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            assert (await client.exchange(line + b" HTTP/1.1\r\nHost: h\r\n\r\n")).status == 200
            request = site.app.seen[0]
            assert (request.headers[b"host"], request.path, request.query) == (host, path, query)
            assert (await client.exchange(get)).status == 200
            assert site.app.seen[1].headers[b"host"] == b"h"

    run(test, loop)


def test_upgrades_are_served_as_plain_requests(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            for protocol in (b"websocket", b"h2c"):
                fields = (
                    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\nHTTP2-Settings: AAMAAABk\r\n"
                    % protocol
                )
                assert (await client.exchange(post(b"body", extra=fields))).body == b"body"

    run(test, loop)


# ---- refusals


def line(raw: bytes) -> bytes:
    return raw + b"\r\nHost: h\r\n\r\n"


def fields(raw: bytes, body: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\nHost: h\r\n" + raw + b"\r\n\r\n" + body


def chunks(raw: bytes) -> bytes:
    return fields(b"Transfer-Encoding: chunked", raw)


refusals: dict[str, tuple[int, str, bytes]] = {
    "length beside chunks": (
        400,
        "framing",
        fields(b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
    ),
    "chunks beside length": (
        400,
        "framing",
        fields(b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"0\r\n\r\n"),
    ),
    "two lengths": (400, "content_length", fields(b"Content-Length: 3\r\nContent-Length: 4", b"abcd")),
    "two equal lengths": (400, "content_length", fields(b"Content-Length: 3\r\ncontent-length: 3", b"abc")),
    "two equal lengths spelled alike": (
        400,
        "content_length",
        fields(b"Content-Length: 3\r\nContent-Length: 3", b"abc"),
    ),
    "list of lengths": (400, "content_length", fields(b"Content-Length: 5, 5", b"abcde")),
    "plus": (400, "content_length", fields(b"Content-Length: +5", b"abcde")),
    "minus": (400, "content_length", fields(b"Content-Length: -1")),
    "hexadecimal length": (400, "content_length", fields(b"Content-Length: 0x5", b"abcde")),
    "empty length": (400, "content_length", fields(b"Content-Length: ")),
    "length with a space inside": (400, "content_length", fields(b"Content-Length: 1 2", b"abc")),
    "overflowing length": (400, "content_length", fields(b"Content-Length: 18446744073709551617")),
    "gzip, chunked": (400, "transfer_encoding", fields(b"Transfer-Encoding: gzip, chunked", b"0\r\n\r\n")),
    "chunked, chunked": (
        400,
        "transfer_encoding",
        fields(b"Transfer-Encoding: chunked, chunked", b"0\r\n\r\n"),
    ),
    "chunked twice": (
        400,
        "transfer_encoding",
        fields(b"Transfer-Encoding: chunked\r\nTransfer-encoding: chunked", b"0\r\n\r\n"),
    ),
    "xchunked": (400, "transfer_encoding", fields(b"Transfer-Encoding: xchunked", b"0\r\n\r\n")),
    "identity": (400, "transfer_encoding", fields(b"Transfer-Encoding: identity")),
    "empty encoding": (400, "transfer_encoding", fields(b"Transfer-Encoding:")),
    "vertical tab before chunked": (
        400,
        "transfer_encoding",
        fields(b"Transfer-Encoding: \x0bchunked", b"0\r\n\r\n"),
    ),
    "quoted chunked": (400, "transfer_encoding", fields(b'Transfer-Encoding: "chunked"', b"0\r\n\r\n")),
    "chunked in 1.0": (
        400,
        "framing",
        b"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "folded line": (400, "malformed", fields(b"A: b\r\n c")),
    "folded line by tab": (400, "malformed", fields(b"A: b\r\n\tc")),
    "folded first line": (400, "malformed", b"GET / HTTP/1.1\r\n A: b\r\nHost: h\r\n\r\n"),
    "bare CR in a value": (400, "malformed", fields(b"A: b\rC: d")),
    "bare CR for a line end": (400, "malformed", b"GET / HTTP/1.1\rHost: h\r\n\r\n"),
    "bare LF for a line end": (400, "malformed", fields(b"A: b\nC: d")),
    "bare LFs only": (400, "malformed", b"GET / HTTP/1.1\nHost: h\n\n"),
    "bare LF at the end": (400, "malformed", b"GET / HTTP/1.1\r\nHost: h\r\n\n"),
    "NUL in a value": (400, "malformed", fields(b"A: b\0c")),
    "NUL in a name": (400, "malformed", fields(b"A\0: b")),
    "NUL in the target": (400, "malformed", line(b"GET /\0 HTTP/1.1")),
    "control character": (400, "malformed", fields(b"A: b\x01")),
    "DEL": (400, "malformed", fields(b"A: b\x7f")),
    "space before the colon": (400, "malformed", fields(b"A : b")),
    "space before the colon of a length": (
        400,
        "content_length",
        fields(b"Content-Length : 3\r\nContent-Length: 3", b"abc"),
    ),
    "no colon": (400, "malformed", fields(b"A")),
    "no name": (400, "malformed", fields(b": b")),
    "name beyond ASCII": (400, "malformed", fields(b"\xc3\xa9: b")),
    "two spaces": (400, "malformed", line(b"GET  / HTTP/1.1")),
    "tab for a space": (400, "malformed", line(b"GET\t/\tHTTP/1.1")),
    "space after the version": (400, "malformed", line(b"GET / HTTP/1.1 ")),
    "no version": (400, "malformed", line(b"GET /")),
    "not a version": (400, "malformed", line(b"GET / HTTPS/1.1")),
    "lower case method": (400, "malformed", line(b"get / HTTP/1.1")),
    "unknown method": (400, "malformed", line(b"FOO / HTTP/1.1")),
    "TLS hello": (400, "malformed", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "no HTTP at all": (400, "malformed", b"x" * 40),
    "version 0.9": (505, "version", line(b"GET / HTTP/0.9")),
    "version 1.2": (505, "version", line(b"GET / HTTP/1.2")),
    "version 2.0": (505, "version", line(b"GET / HTTP/2.0")),
    "preface of another protocol": (505, "version", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
    "PRI in 1.1": (400, "malformed", line(b"PRI * HTTP/1.1")),
    "asterisk of GET": (400, "target", line(b"GET * HTTP/1.1")),
    "authority form": (400, "malformed", line(b"GET h:80 HTTP/1.1")),
    "fragment": (400, "target", line(b"GET /a#b HTTP/1.1")),
    "user in the URL": (400, "target", line(b"GET http://u@h/ HTTP/1.1")),
    "other scheme": (400, "target", line(b"GET ftp://h/ HTTP/1.1")),
    "CONNECT": (501, "method", line(b"CONNECT h:80 HTTP/1.1")),
    "no host": (400, "host", b"GET / HTTP/1.1\r\n\r\n"),
    "no host, other fields": (400, "host", b"GET / HTTP/1.1\r\nA: b\r\n\r\n"),
    "two hosts": (400, "host", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "two equal hosts": (400, "host", b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"),
    "list of hosts": (400, "host", b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    "host with a path": (400, "host", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "host with a user": (400, "host", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    "URL without host field": (400, "host", b"GET http://a/ HTTP/1.1\r\n\r\n"),
    "other expectation": (417, "expectation", fields(b"Expect: 200-ok\r\nContent-Length: 3")),
    "negative chunk": (400, "chunk", chunks(b"-1\r\n")),
    "overflowing chunk": (400, "chunk", chunks(b"ffffffffffffffff1\r\n")),
    "huge chunk": (413, "body_size", chunks(b"fffffffffffffff\r\n")),
    "hexadecimal prefix": (400, "chunk", chunks(b"0x5\r\nabcde\r\n")),
    "chunk without size": (400, "chunk", chunks(b"\r\nabc")),
    "chunk longer than said": (400, "chunk", chunks(b"3\r\nabcd\r\n0\r\n\r\n")),
    "chunk ended by LF": (400, "chunk", chunks(b"3\nabc\n0\n\n")),
    "space after a chunk size": (400, "chunk", chunks(b"3 \r\nabc\r\n")),
    "space before a chunk size": (400, "chunk", chunks(b" 3\r\nabc\r\n")),
    "NUL in an extension": (400, "chunk", chunks(b"3;a\0\r\nabc\r\n")),
    "bare CR in an extension": (400, "chunk", chunks(b"3;a\rb\r\nabc\r\n")),
    "long extension": (400, "chunk", chunks(b"3;" + b"a" * 300)),
    "bad trailer": (400, "chunk", chunks(b"0\r\nA : b\r\n\r\n")),
    "folded trailer": (400, "chunk", chunks(b"0\r\nA: b\r\n c\r\n\r\n")),
}


@pytest.mark.parametrize("name", refusals)
def test_refused_with_status_reason_and_close(name: str) -> None:
    status, reason, raw = refusals[name]

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(raw + get)
            reply = await client.reply()
            assert (reply.status, site.refused) == (status, {reason: 1})
            assert reply.headers["connection"] == "close"
            assert reply.headers["content-type"] == "application/json"
            assert list(json.loads(reply.body)) == ["error"]
            assert await client.rest() == b""
            assert site.app.seen == []
            # The parsers that all connections share take no harm.
            other = await site.connect()
            assert (await other.exchange(post(b"ok"))).body == b"ok"

    run(test, "uvloop")


@pytest.mark.parametrize("name", ["two lengths", "folded line", "bad trailer", "no host"])
def test_a_refusal_comes_after_the_answers_that_are_due(loop: str, name: str) -> None:
    status, _, raw = refusals[name]

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later") + get + raw + get)
            await site.app.until(lambda: len(site.app.seen) == 1)
            site.app.later[0].reply(200, b"first")
            assert (await client.reply()).body == b"first"
            assert (await client.reply()).status == 200
            assert (await client.reply()).status == status
            assert await client.rest() == b""

    run(test, loop)


small = WireLimits(max_body=1000, max_target=200, max_head=300, max_headers=5)


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (413, fields(b"Content-Length: 1001")),
        (413, fields(b"Expect: 100-continue\r\nContent-Length: 1001")),
        (413, chunks(b"3e9\r\n")),
        (413, chunks(b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n")),
        (414, b"GET /" + b"x" * 200 + b" HTTP/1.1\r\nHost: h\r\n\r\n"),
        (414, b"GET /" + b"x" * 300),
        (431, fields(b"A: " + b"x" * 300)),
        (431, fields(b"\r\n".join([b"A: b"] * 5))),
        (431, b"GET / HTTP/1.1\r\nA: " + b"x" * 300),
        (431, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 6),
        (431, chunks(b"0\r\n" + b"A: b\r\n" * 6)),
        (431, chunks(b"0\r\nA: " + b"x" * 300)),
        (431, chunks((b"1;" + b"x" * 200 + b"\r\na\r\n") * 2)),
    ],
)
def test_limits_are_kept_before_the_bytes_are_read(loop: str, status: int, raw: bytes) -> None:
    async def test() -> None:
        async with Site(small) as site:
            client = await site.connect()
            reply = await client.exchange(raw)
            assert reply.status == status
            assert await client.rest() == b""
            assert site.app.seen == []

    run(test, loop)


def test_what_is_just_within_the_limits(loop: str) -> None:
    async def test() -> None:
        async with Site(small) as site:
            client = await site.connect()
            assert (await client.exchange(post(b"x" * 1000))).status == 200
            assert (await client.exchange(chunks(b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n"))).status == 200
            assert (await client.exchange(fetch(b"/" + b"x" * 199))).status == 200
            # "Host: h" is 9 bytes with its end, "A: " and the end 5.
            assert (await client.exchange(fetch(b"/", b"A: " + b"x" * 286 + b"\r\n"))).status == 200
            assert (await client.exchange(fetch(b"/", b"A: b\r\n" * 4))).status == 200

    run(test, loop)


def test_a_client_that_goes_on_sending_can_still_read_why_it_was_refused(loop: str) -> None:
    async def test() -> None:
        async with Site(small) as site:
            client = await site.connect()
            client.send(fields(b"Content-Length: 30000000", b"x" * 30_000_000))
            assert (await client.reply()).status == 413

    run(test, loop)


# ---- 100-continue


def test_100_continue_comes_once_the_head_is_good(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fields(b"Expect: 100-Continue\r\nContent-Length: 3"))
            assert await client.head() == (100, {})
            assert (await client.exchange(b"abc")).body == b"abc"
            client.send(fields(b"Expect: 100-continue\r\nTransfer-Encoding: chunked"))
            assert await client.head() == (100, {})
            assert (await client.exchange(b"3\r\nabc\r\n0\r\n\r\n")).body == b"abc"
            # The body is there already, or there is none: no need to ask for it.
            assert (
                await client.exchange(fields(b"Expect: 100-continue\r\nContent-Length: 3", b"abc"))
            ).body == b"abc"
            assert (await client.exchange(fetch(b"/", b"Expect: 100-continue\r\n"))).status == 200

    run(test, loop)


def test_100_continue_waits_for_the_answers_before_it(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later") + fields(b"Expect: 100-continue\r\nContent-Length: 3"))
            await site.app.until(lambda: bool(site.app.later))
            site.app.later[0].reply(200, b"first")
            assert (await client.reply()).body == b"first"
            assert await client.head() == (100, {})
            assert (await client.exchange(b"abc")).body == b"abc"

    run(test, loop)


def test_http_1_0_gets_no_100(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(b"POST / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            client.send(b"abc")
            assert (await client.reply()).status == 200

    run(test, loop)


# ---- pipelining


def test_a_request_reaches_the_application_when_the_one_before_is_answered(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(b"".join(fetch(b"/later?%d" % n) for n in range(1000)) + post(b"end"))
            for n in range(1000):
                await site.app.until(lambda: len(site.app.later) > 0)
                assert len(site.app.seen) == n + 1
                site.app.later.pop().reply(200, b"%d" % n)
                assert len(site.app.seen) == n + 1  # not in the middle of whatever gave the answer
                assert (await client.reply()).body == b"%d" % n
            assert (await client.reply()).body == b"end"
            assert (await client.exchange(post(b"on"))).body == b"on"

    run(test, loop)


def test_requests_answered_at_once_and_later_are_mixed(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send((fetch(b"/later") + post(b"b")) * 20)
            for _ in range(20):
                await site.app.until(lambda: bool(site.app.later))
                site.app.later.pop().reply(200, b"a")
                assert [(await client.reply()).body for _ in range(2)] == [b"a", b"b"]

    run(test, loop)


def test_requests_that_arrive_in_pieces_behind_another_wait_too(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later"))
            await site.app.until(lambda: len(site.app.seen) == 1)
            for at in range(0, len(post(b"piece")), 7):
                client.send(post(b"piece")[at : at + 7])
                await asyncio.sleep(0)
            site.app.later[0].reply(200, b"first")
            assert [(await client.reply()).body for _ in range(2)] == [b"first", b"piece"]

    run(test, loop)


def test_a_peer_that_sends_far_ahead_is_not_read_until_little_is_left(loop: str) -> None:
    """8 MB behind an unanswered request: more than 64 KiB of it is not kept, but for one read."""

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later") + post(b"x" * 10_000) * 800)
            await site.app.until(lambda: len(site.app.seen) == 1)
            transport = cast(Http1Request, site.app.later[0]).conn.transport
            async with asyncio.timeout(5):
                while transport.is_reading():
                    await asyncio.sleep(0)
            assert len(site.app.seen) == 1
            site.app.later[0].reply(200, b"first")
            assert (await client.reply()).body == b"first"
            for _ in range(800):
                assert (await client.reply()).body == b"x" * 10_000
            assert transport.is_reading()

    run(test, loop)


async def piled_up(site: Site, connections: int) -> tuple[list[Client], list[tuple[bytes, bool]]]:
    """Let so many connections wait with two requests behind the one under way.

    Returns:
        Them, and a list to which the body of each further request will be added, and whether it is late.
    """
    handed: list[tuple[bytes, bool]] = []
    is_late = [False]
    plain_app = site.app.__call__

    def app(request: Request) -> None:
        if request.path == b"/a":
            handed.append((request.body, is_late[0]))
        plain_app(request)

    def on_late(late: bool) -> None:
        is_late[0] = late

    site.server.gate.app = app
    site.server.on_late = on_late
    clients = [await site.connect() for _ in range(connections)]
    for client in clients:
        client.send(fetch(b"/later") + post(b"one"))
    await site.app.until(lambda: len(site.app.later) == connections)
    return clients, handed


@pytest.mark.parametrize(
    ("connections", "waited_ms", "late"), [(64, 61, True), (64, 60, False), (63, 61, False)]
)
def test_requests_are_late_only_in_a_crowd(loop: str, connections: int, waited_ms: int, late: bool) -> None:
    """64 connections wait with more than one request, for more than 60 ms: late, to the last of them."""

    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            clients, handed = await piled_up(site, connections)
            clock.advance(waited_ms)
            for request in site.app.later:
                request.reply(200)
            for client in clients:
                assert [(await client.reply()).body for _ in range(2)] == [b"", b"one"]
            assert handed == [(b"one", late)] * connections
            # The pile is gone: what comes now is not late, whether alone or behind another.
            client = clients[0]
            client.send(post(b"two") * 2 + get)
            for _ in range(3):
                await client.reply()
            assert handed[connections:] == [(b"two", False)] * 2 + [(b"", False)]
            assert not site.server.gate.crowded

    run(test, loop)


def test_what_came_later_is_not_late_with_what_came_before_it(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            clients, handed = await piled_up(site, 64)
            clock.advance(50)
            client = clients[0]
            client.send(fetch(b"/later") + post(b"newer"))
            conn = cast(Http1Request, site.app.later[0]).conn
            async with asyncio.timeout(5):
                while not cast(Http1Connection, conn)._newer:
                    await asyncio.sleep(0)
            clock.advance(11)
            site.app.later[0].reply(200)
            await site.app.until(lambda: len(site.app.later) == 65)
            site.app.later[64].reply(200)
            assert [(await client.reply()).body for _ in range(4)] == [b"", b"one", b"", b"newer"]
            assert handed == [(b"one", True), (b"newer", False)]

    run(test, loop)


# ---- ends


def test_a_half_closed_client_gets_all_its_answers(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later") * 5 + post(b"last") + b"GET /unfinished HTTP/1.1\r\nHo")
            client.half_close()
            for _ in range(5):
                await site.app.until(lambda: bool(site.app.later))
                site.app.later.pop(0).reply(200, b"x")
                assert (await client.reply()).body == b"x"
            assert (await client.reply()).body == b"last"
            assert await client.rest() == b""
            assert len(site.app.seen) == 6

    run(test, loop)


def test_an_answer_after_the_peer_is_gone_does_nothing(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later") + fetch(b"/later"))
            await site.app.until(lambda: len(site.app.later) == 1)
            client.vanish()
            while site.server.counters.connections:
                await asyncio.sleep(0)
            assert site.app.later[0].open_stream(200, b"text/plain") is None
            site.app.later[0].reply(200, b"x")
            await asyncio.sleep(0)
            assert len(site.app.seen) == 1

    run(test, loop)


# ---- streams


def test_a_stream_sends_its_head_at_once_and_its_pieces_as_chunks(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/stream"))
            status, headers = await client.head()
            assert (status, headers["transfer-encoding"]) == (200, "chunked")
            stream = stream_of(site)
            assert stream.writable
            stream.write(b"one\n")
            stream.write(b"")
            stream.write(b"x" * 20)
            assert [await client.chunk(), await client.chunk()] == [b"one\n", b"x" * 20]
            stream.close()
            stream.write(b"late")
            stream.close()
            assert await client.chunk() == b""
            assert (await client.exchange(get)).status == 200
            assert site.app.closed == []

    run(test, loop)


def test_a_stream_to_http_1_0_ends_with_the_connection(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(b"GET /stream HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")
            _, headers = await client.head()
            assert headers["connection"] == "close"
            assert "transfer-encoding" not in headers
            stream_of(site).write(b"bare")
            stream_of(site).close()
            assert await client.rest() == b"bare"

    run(test, loop)


def test_a_stream_waits_for_its_turn(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later") + fetch(b"/stream"))
            await site.app.until(lambda: len(site.app.later) == 1)
            assert site.app.streams == []
            site.app.later[0].reply(200, b"first")
            assert (await client.reply()).body == b"first"
            await client.head()
            stream = stream_of(site)
            assert stream.writable
            stream.write(b"more")
            assert await client.chunk() == b"more"

    run(test, loop)


def test_a_taker_that_leaves_before_its_turn_is_noticed_too(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/later") + fetch(b"/stream") + fetch(b"/later"))
            client.half_close()
            await site.app.until(lambda: len(site.app.seen) == 1)
            site.app.later[0].reply(200, b"first")
            assert (await client.reply()).body == b"first"
            await site.app.until(lambda: len(site.app.seen) == 3)
            assert site.app.streams == [None]
            assert site.app.later[1].open_stream(200, b"text/plain") is None
            for _ in range(2):
                assert (await client.head())[0] == 200
                assert await client.chunk() == b""
            assert await client.rest() == b""

    run(test, loop)


@pytest.mark.parametrize("how", ["vanish", "half_close"])
def test_the_end_of_a_taker_is_noticed_at_once(loop: str, how: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/stream"))
            await client.head()
            getattr(client, how)()
            await site.app.until(lambda: len(site.app.closed) == 1)
            stream_of(site).write(b"late")
            stream_of(site).close()
            stream_of(site).abort()
            while site.server.counters.connections:
                await asyncio.sleep(0)
            assert len(site.app.closed) == 1

    run(test, loop)


def test_a_stream_that_we_abort_is_cut_without_a_clean_end(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/stream"))
            await client.head()
            stream_of(site).abort()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await client.chunk()
            while site.server.counters.connections:
                await asyncio.sleep(0)
            assert site.app.closed == []

    run(test, loop)


def test_what_comes_while_a_stream_is_open_is_dropped_and_the_connection_ends_with_it(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/stream"))
            await client.head()
            client.send(get * 10)
            client.send(b"x" * 1000)
            stream_of(site).write(b"on")
            assert await client.chunk() == b"on"
            while stream_of(site)._request.conn._dropped == 0:  # type: ignore[attr-defined]
                await asyncio.sleep(0)
            stream_of(site).close()
            assert await client.chunk() == b""
            assert await client.rest() == b""
            assert len(site.app.seen) == 1

    run(test, loop)


def test_a_taker_that_keeps_talking_is_cut(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(fetch(b"/stream"))
            await client.head()
            client.send(b"x" * 1_000_000)
            await site.app.until(lambda: len(site.app.closed) == 1)
            assert site.refused == {"chatter": 1}

    run(test, loop)


# ---- back-pressure and pace


async def small_window(site: Site) -> Client:
    """Connect with small buffers in the kernel, and read nothing but what the test asks for."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client = await site.connect(sock)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    return client


def test_a_stream_is_not_writable_while_its_peer_is_behind(loop: str) -> None:
    async def test() -> None:
        async with Site(WireLimits(write_buffer=100_000)) as site:
            client = await small_window(site)
            client.send(fetch(b"/stream"))
            await site.app.until(lambda: bool(site.app.streams))
            stream = stream_of(site)
            sent = 0
            while stream.writable:
                assert sent < 100_000_000
                stream.write(b"x" * 10_000)
                sent += 10_000
                await asyncio.sleep(0)
            assert site.app.drained == 0
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await client.head()
            received = 0
            while received < sent:
                received += len(await client.chunk())
            await site.app.until(lambda: site.app.drained == 1)
            assert stream.writable

    run(test, loop)


def test_no_requests_are_read_while_answers_cannot_be_written(loop: str) -> None:
    async def test() -> None:
        async with Site(WireLimits(write_buffer=100_000)) as site:
            client = await small_window(site)
            client.send(fetch(b"/large?1000000") * 60)
            await site.app.until(lambda: len(site.app.seen) >= 1)
            for _ in range(50):
                await asyncio.sleep(0)
            # 60 MB were asked for; what the kernel takes (a few MB) and one answer are all that was made.
            assert len(site.app.seen) < 30
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(60):
                assert len((await client.reply()).body) == 1_000_000

    run(test, loop)


def test_a_stalled_reader_is_cut_off(loop: str) -> None:
    async def test() -> None:
        async with Site(WireLimits(write_buffer=100_000, stall_timeout_ms=300)) as site:
            client = await small_window(site)
            client.send(fetch(b"/stream"))
            await site.app.until(lambda: bool(site.app.streams))
            while stream_of(site).writable:
                stream_of(site).write(b"x" * 10_000)
                await asyncio.sleep(0)
            await site.app.until(lambda: len(site.app.closed) == 1)
            assert site.refused == {"stalled_reader": 1}

    run(test, loop)


def test_a_taker_whose_jobs_lie_in_the_kernel_is_cut_off_too(loop: str) -> None:
    """What fits into the kernel's send buffer leaves the transport's empty, and still nobody reads it."""

    async def test() -> None:
        async with Site(WireLimits(stall_timeout_ms=300)) as site:
            client = await small_window(site)
            client.send(fetch(b"/stream"))
            await site.app.until(lambda: bool(site.app.streams))
            for _ in range(10):
                stream_of(site).write(b"x" * 10_000)
                await asyncio.sleep(0)
            transport = cast(Http1Request, site.app.seen[0]).conn.transport
            assert transport.get_write_buffer_size() == 0
            await site.app.until(lambda: len(site.app.closed) == 1)
            assert site.refused == {"stalled_reader": 1}

    run(test, loop)


def test_a_taker_that_has_read_everything_may_stay(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(WireLimits(stall_timeout_ms=100), clock=clock) as site:
            client = await site.connect()
            client.send(fetch(b"/stream"))
            await client.head()
            stream_of(site).write(b"x" * 10_000)
            assert await client.chunk() == b"x" * 10_000
            connection = cast(Http1Connection, next(iter(site.server._connections)))
            while kernel.unsent(connection.transport):  # until the kernel has heard that all has come
                await asyncio.sleep(0)
            for _ in range(20):
                clock.advance(20)
                site.server.sweep()
            stream_of(site).write(b"on")
            assert await client.chunk() == b"on"
            assert site.app.closed == []

    run(test, loop)


def test_a_last_answer_that_nobody_reads_does_not_keep_the_connection(loop: str) -> None:
    async def test() -> None:
        async with Site(WireLimits(stall_timeout_ms=300)) as site:
            client = await small_window(site)
            client.send(fetch(b"/large?10000000", b"Connection: close\r\n"))
            await site.app.until(lambda: bool(site.app.seen))
            while site.server.counters.connections:
                await asyncio.sleep(0)
            assert site.refused == {"stalled_reader": 1}

    run(test, loop)


def test_a_slow_head_gets_408(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(WireLimits(header_timeout_ms=300), clock=clock) as site:
            idle = await site.connect()
            client = await site.connect()
            client.send(b"GET / HTTP/1.1\r\nHost")
            async with asyncio.timeout(5):
                while not any(cast(Http1Connection, wire)._began_ms for wire in site.server._connections):
                    await asyncio.sleep(0)
            clock.advance(299)
            site.server.sweep()
            assert site.refused == {}
            clock.advance(1)
            site.server.sweep()
            reply = await client.reply()
            assert (reply.status, site.refused) == (408, {"slow_head": 1})
            assert await client.rest() == b""
            # A connection on which nothing has begun may wait for as long as it likes.
            assert (await idle.exchange(get)).status == 200

    run(test, loop)


@pytest.mark.parametrize("framing", [b"Content-Length: 1000", b"Transfer-Encoding: chunked"])
def test_a_slow_body_gets_408(loop: str, framing: bytes) -> None:
    async def test() -> None:
        async with Site(WireLimits(header_timeout_ms=300, body_rate=100_000)) as site:
            client = await site.connect()
            reply = await client.exchange(fields(framing, b"5\r\nabcde\r\n"))
            assert (reply.status, site.refused) == (408, {"slow_body": 1})
            assert await client.rest() == b""

    run(test, loop)


def test_a_head_after_an_empty_line_has_its_own_time(loop: str) -> None:
    async def test() -> None:
        async with Site(WireLimits(header_timeout_ms=300)) as site:
            idle, slow = await site.connect(), await site.connect()
            idle.send(b"\r")
            await asyncio.sleep(0)
            idle.send(b"\n")
            assert (await slow.exchange(b"G")).status == 408
            assert (await slow.rest()) == b""
            assert (await idle.exchange(get)).status == 200
            assert site.refused == {"slow_head": 1}

    run(test, loop)


def test_requests_are_counted_once_each(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.send(get * 3 + post(b"x" * 100_000) + get)
            for _ in range(5):
                assert (await client.reply()).status == 200
            assert site.server.counters.requests == 5
            assert all(isinstance(request, Request) for request in site.app.seen)

    run(test, loop)

"""HTTP/1.1 as a peer meets it, raw bytes on real sockets: the ordinary, versions, targets and hosts."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import cast

import pytest

from anew.net.listener import NetServer
from anew.net.port import HttpPort
from anew.net.seam import Request
from tests.unit.net.http1_peer import fetch, get, post
from tests.unit.net.http2_peer import FakeTransport, as_app, in_loop
from tests.unit.net.loopback import Site, on_site, run

# ---- the ordinary


@on_site()
async def test_a_request_has_all_its_parts(site: Site) -> None:
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
    assert site.server.counters.requests == 1


@on_site()
async def test_keep_alive_serves_many_requests_of_changing_shape(site: Site) -> None:
    client = await site.connect()
    for size in (0, 1, 1, 70_000, 1, 0, 300_000):
        assert (await client.exchange(post(b"x" * size))).body == b"x" * size
    assert (await client.exchange(fetch(b"/?"))).status == 200
    assert (site.app.seen[-1].path, site.app.seen[-1].query) == (b"/", b"")


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


@in_loop
async def test_a_head_without_its_end_is_waited_for_though_all_its_lines_are_known() -> None:
    seen: list[Request] = []
    conn = HttpPort(NetServer(), as_app(seen.append)).connection()
    conn.connection_made(FakeTransport())
    conn.data_received(get)
    seen.pop().reply(204, b"", None)
    conn.data_received(get.removesuffix(b"\r\n\r\n"))
    assert seen == []
    conn.data_received(b"\r\n\r\n")
    assert [request.path for request in seen] == [b"/a"]


@on_site()
async def test_answers_without_body(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/nothing") + get)
    reply = await client.reply()
    assert reply.status == 204
    assert set(reply.headers) == {"date"}
    assert (await client.reply()).headers["content-length"] == "0"


@on_site()
async def test_head_gets_the_headers_alone(site: Site) -> None:
    client = await site.connect()
    client.send(b"HEAD /large?12 HTTP/1.1\r\nHost: h\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n" + get)
    assert (await client.reply(to_head=True)).headers["content-length"] == "12"
    streamed = await client.reply(to_head=True)
    assert streamed.headers["content-type"] == "application/x-ndjson"
    assert "content-length" not in streamed.headers
    assert site.app.streams == [None]
    assert (await client.reply()).status == 200


@on_site()
async def test_an_application_that_fails_answers_500_and_the_connection_lives(site: Site) -> None:
    client = await site.connect()
    reply = await client.exchange(fetch(b"/crash"))
    assert (reply.status, json.loads(reply.body)) == (
        500,
        {"error": "internal server error", "code": "internal_error"},
    )
    assert (await client.exchange(get)).status == 200


@on_site()
async def test_extra_headers_and_a_second_answer(site: Site) -> None:
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


@on_site()
async def test_requests_are_counted_once_each(site: Site) -> None:
    client = await site.connect()
    client.send(get * 3 + post(b"x" * 100_000) + get)
    for _ in range(5):
        assert (await client.reply()).status == 200
    assert site.server.counters.requests == 5
    assert all(isinstance(request, Request) for request in site.app.seen)


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
@on_site()
async def test_who_keeps_the_connection(site: Site, head: bytes, kept: str | None) -> None:
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


@on_site()
async def test_http_1_0_does_not_spoil_the_parser_for_the_next(site: Site) -> None:
    for _ in range(3):
        old = await site.connect()
        assert (await old.exchange(b"GET /new HTTP/1.0\r\nA: b\r\n\r\n")).status == 200
        assert b"host" not in site.app.seen[-1].headers
        client = await site.connect()
        assert (await client.exchange(get)).status == 200


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
@on_site()
async def test_forms_of_target(site: Site, line: bytes, host: bytes, path: bytes, query: bytes) -> None:
    client = await site.connect()
    assert (await client.exchange(line + b" HTTP/1.1\r\nHost: h\r\n\r\n")).status == 200
    request = site.app.seen[0]
    assert (request.headers[b"host"], request.path, request.query) == (host, path, query)
    assert (await client.exchange(get)).status == 200
    assert site.app.seen[1].headers[b"host"] == b"h"


@on_site()
async def test_upgrades_are_served_as_plain_requests(site: Site) -> None:
    client = await site.connect()
    for protocol in (b"websocket", b"h2c"):
        fields = (
            b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\nHTTP2-Settings: AAMAAABk\r\n" % protocol
        )
        assert (await client.exchange(post(b"body", extra=fields))).body == b"body"

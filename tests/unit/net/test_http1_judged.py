"""HTTP/1.1 asks the application about each head: what that refuses is answered at once, and its body is not kept."""

from __future__ import annotations

import pytest

from tests.unit.net.http1_peer import fetch, get, post
from tests.unit.net.loopback import Site, on_site

announced = b"POST /refused HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 1000",
        b"Content-Length: 1000\r\nExpect: 100-continue",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nExpect: 100-continue",
    ],
)
@pytest.mark.parametrize("begun", [b"", b"5\r\nabc"])
@on_site()
async def test_a_refused_head_is_answered_before_its_body(site: Site, framing: bytes, begun: bytes) -> None:
    client = await site.connect()
    reply = await client.exchange(announced % framing + begun)
    assert (reply.status, reply.body) == (401, b'{"error":"no"}')
    assert (reply.headers["connection"], reply.headers["www-authenticate"]) == ("close", "Bearer")
    assert site.refused == {"token": 1}
    assert site.server.counters.unfinished == 0
    assert await client.rest() == b""
    assert site.app.seen == []


@on_site()
async def test_after_a_refusal_with_the_whole_request_there_the_connection_goes_on(site: Site) -> None:
    client = await site.connect()
    for raw in (
        fetch(b"/refused"),
        post(b"abc", b"/refused"),
        fetch(b"/refused", b"Connection: x\r\n"),
    ):
        reply = await client.exchange(raw)
        assert reply.status == 401
        assert "connection" not in reply.headers
    assert (await client.exchange(get)).status == 200
    client.send(
        post(b"abc", b"/refused") * 2 + post(b"x") + b"HEAD /refused HTTP/1.1\r\nHost: h\r\n\r\n" + get
    )
    assert [(await client.reply()).status for _ in range(3)] == [401, 401, 200]
    assert (await client.reply(to_head=True)).headers["content-length"] == "14"
    assert (await client.reply()).status == 200
    assert [request.path for request in site.app.seen] == [b"/a"] * 3


@on_site()
async def test_a_refusal_waits_for_the_answers_before_it(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/later") + announced % b"Content-Length: 10" + b"abc")
    await site.app.until(lambda: bool(site.app.later))
    site.app.later[0].reply(200, b"first")
    assert [(await client.reply()).status for _ in range(2)] == [200, 401]
    assert await client.rest() == b""

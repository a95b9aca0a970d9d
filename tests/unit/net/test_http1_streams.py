"""Streams over HTTP/1.1: chunks, turns, and takers that leave or talk."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.net.http1_peer import fetch, get
from tests.unit.net.loopback import Site, on_site, until


@on_site()
async def test_a_stream_sends_its_head_at_once_and_its_pieces_as_chunks(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/stream"))
    status, headers = await client.head()
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    stream = site.app.stream
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


@on_site()
async def test_a_stream_to_http_1_0_ends_with_the_connection(site: Site) -> None:
    client = await site.connect()
    client.send(b"GET /stream HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")
    _, headers = await client.head()
    assert headers["connection"] == "close"
    assert "transfer-encoding" not in headers
    site.app.stream.write(b"bare")
    site.app.stream.close()
    assert await client.rest() == b"bare"


@on_site()
async def test_a_stream_waits_for_its_turn(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/later") + fetch(b"/stream"))
    await site.app.until(lambda: len(site.app.later) == 1)
    assert site.app.streams == []
    site.app.later[0].reply(200, b"first")
    assert (await client.reply()).body == b"first"
    await client.head()
    stream = site.app.stream
    assert stream.writable
    stream.write(b"more")
    assert await client.chunk() == b"more"


@on_site()
async def test_a_taker_that_leaves_before_its_turn_is_noticed_too(site: Site) -> None:
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


@pytest.mark.parametrize("how", ["vanish", "half_close"])
@on_site()
async def test_the_end_of_a_taker_is_noticed_at_once(site: Site, how: str) -> None:
    client = await site.connect()
    client.send(fetch(b"/stream"))
    await client.head()
    getattr(client, how)()
    await site.app.until(lambda: len(site.app.closed) == 1)
    site.app.stream.write(b"late")
    site.app.stream.close()
    site.app.stream.abort()
    await site.emptied()
    assert len(site.app.closed) == 1


@on_site()
async def test_a_stream_that_we_abort_is_cut_without_a_clean_end(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/stream"))
    await client.head()
    site.app.stream.abort()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await client.chunk()
    await site.emptied()
    assert site.app.closed == []


@on_site()
async def test_what_comes_while_a_stream_is_open_is_dropped_and_the_connection_ends_with_it(
    site: Site,
) -> None:
    client = await site.connect()
    client.send(fetch(b"/stream"))
    await client.head()
    client.send(get * 10)
    client.send(b"x" * 1000)
    site.app.stream.write(b"on")
    assert await client.chunk() == b"on"
    await until(lambda: site.app.stream._request.conn._lingering.dropped > 0)  # type: ignore[attr-defined]
    site.app.stream.close()
    assert await client.chunk() == b""
    assert await client.rest() == b""
    assert len(site.app.seen) == 1


@on_site()
async def test_a_taker_that_keeps_talking_is_cut(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/stream"))
    await client.head()
    client.send(b"x" * 1_000_000)
    await site.app.until(lambda: len(site.app.closed) == 1)
    assert site.refused == {"unexpected_bytes": 1}

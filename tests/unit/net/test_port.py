"""An HTTP port: a connection's first bytes decide which protocol it speaks."""

from __future__ import annotations

import asyncio

from anew.net.seam import WireLimits
from tests.unit.net.http1_peer import get, post
from tests.unit.net.loopback import Site, on_site, run


def test_an_http2_preface_gets_http2_even_byte_by_byte(loop: str) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"

    async def test() -> None:
        async with Site() as site:
            for pieces in ([preface], [preface[:1], preface[1:]], [bytes([byte]) for byte in preface]):
                client = await site.connect()
                for piece in pieces:
                    client.send(piece)
                    await asyncio.sleep(0)
                # The server's preface is a SETTINGS frame (type 4) on stream 0.
                head = await client.reader.readexactly(9)
                assert head[3] == 4
                assert head[5:] == b"\0\0\0\0"
            assert site.server.counters.connections == 3
            for client in site.clients:
                client.writer.transport.abort()
            await site.emptied()

    run(test, loop)


@on_site()
async def test_methods_that_begin_like_the_preface_are_http1(site: Site) -> None:
    client = await site.connect()
    client.send(b"P")
    await asyncio.sleep(0)
    client.send(post(b"x")[1:])
    assert (await client.reply()).body == b"x"
    client = await site.connect()
    client.send(b"PR")
    await asyncio.sleep(0)
    client.send(b"OPFIND / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await client.reply()).status == 200


@on_site()
async def test_a_preface_is_only_one_at_the_beginning(site: Site) -> None:
    client = await site.connect()
    assert (await client.exchange(get)).status == 200
    assert (await client.exchange(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")).status == 505


@on_site(WireLimits(header_timeout_ms=300))
async def test_a_slow_preface_is_a_slow_head(site: Site) -> None:
    client = await site.connect()
    assert (await client.exchange(b"PRI * HT")).status == 408

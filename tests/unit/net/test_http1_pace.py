"""Slow peers of HTTP/1.1: back-pressure, stalled readers, slow heads and bodies."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from anew.clock import ManualClock
from anew.net import peer
from anew.net.http1.answer import Http1Request
from anew.net.http1.connection import Http1Connection
from anew.net.seam import WireLimits
from tests.unit.net.http1_peer import fetch, fields, get
from tests.unit.net.loopback import Site, on_site, run, until


@on_site(WireLimits(write_buffer=100_000))
async def test_a_stream_is_not_writable_while_its_peer_is_behind(site: Site) -> None:
    client = await site.connect_small()
    client.send(fetch(b"/stream"))
    await site.app.until(lambda: bool(site.app.streams))
    stream = site.app.stream
    sent = 0
    while stream.writable:
        assert sent < 100_000_000
        stream.write(b"x" * 10_000)
        sent += 10_000
        await asyncio.sleep(0)
    assert site.app.drained == 0
    client.resume()
    await client.head()
    received = 0
    while received < sent:
        received += len(await client.chunk())
    await site.app.until(lambda: site.app.drained == 1)
    assert stream.writable


@on_site(WireLimits(write_buffer=100_000))
async def test_no_requests_are_read_while_answers_cannot_be_written(site: Site) -> None:
    client = await site.connect_small()
    client.send(fetch(b"/large?1000000") * 30)
    await site.app.until(lambda: len(site.app.seen) >= 1)
    for _ in range(50):
        await asyncio.sleep(0)
    # 30 MB were asked for; what the kernel takes (a few MB) and one answer are all that was made.
    assert len(site.app.seen) < 20
    client.resume()
    for _ in range(30):
        assert len((await client.reply()).body) == 1_000_000


@on_site(WireLimits(write_buffer=100_000, stall_timeout_ms=300))
async def test_a_stalled_reader_is_cut_off(site: Site) -> None:
    client = await site.connect_small()
    client.send(fetch(b"/stream"))
    await site.app.until(lambda: bool(site.app.streams))
    while site.app.stream.writable:
        site.app.stream.write(b"x" * 10_000)
        await asyncio.sleep(0)
    await site.app.until(lambda: len(site.app.closed) == 1)
    assert site.refused == {"stalled_reader": 1}


@on_site(WireLimits(stall_timeout_ms=300))
async def test_a_taker_whose_jobs_lie_in_the_kernel_is_cut_off_too(site: Site) -> None:
    """What fits into the kernel's send buffer leaves the transport's empty, and still nobody reads it."""
    client = await site.connect_small()
    client.send(fetch(b"/stream"))
    await site.app.until(lambda: bool(site.app.streams))
    for _ in range(10):
        site.app.stream.write(b"x" * 10_000)
        await asyncio.sleep(0)
    transport = cast(Http1Request, site.app.seen[0]).conn.transport
    assert transport.get_write_buffer_size() == 0
    await site.app.until(lambda: len(site.app.closed) == 1)
    assert site.refused == {"stalled_reader": 1}


def test_a_taker_that_has_read_everything_may_stay(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(WireLimits(stall_timeout_ms=100), clock=clock) as site:
            client = await site.connect()
            client.send(fetch(b"/stream"))
            await client.head()
            site.app.stream.write(b"x" * 10_000)
            assert await client.chunk() == b"x" * 10_000
            connection = cast(Http1Connection, next(iter(site.server._connections)))
            await until(lambda: not peer.unsent(connection.transport))  # the peer's kernel has it all
            for _ in range(20):
                clock.advance(20)
                site.server.sweep()
            site.app.stream.write(b"on")
            assert await client.chunk() == b"on"
            assert site.app.closed == []

    run(test, loop)


@on_site(WireLimits(stall_timeout_ms=300))
async def test_a_last_answer_that_nobody_reads_does_not_keep_the_connection(site: Site) -> None:
    client = await site.connect_small()
    client.send(fetch(b"/large?10000000", b"Connection: close\r\n"))
    await site.app.until(lambda: bool(site.app.seen))
    await site.emptied()
    assert site.refused == {"stalled_reader": 1}


def test_a_slow_head_gets_408(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(WireLimits(header_timeout_ms=300), clock=clock) as site:
            idle = await site.connect()
            client = await site.connect()
            client.send(b"GET / HTTP/1.1\r\nHost")
            await until(
                lambda: any(cast(Http1Connection, wire)._began_ms for wire in site.server._connections)
            )
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
@on_site(WireLimits(header_timeout_ms=300, body_rate=100_000))
async def test_a_slow_body_gets_408(site: Site, framing: bytes) -> None:
    client = await site.connect()
    reply = await client.exchange(fields(framing, b"5\r\nabcde\r\n"))
    assert (reply.status, site.refused) == (408, {"slow_body": 1})
    assert await client.rest() == b""


def test_a_body_that_stops_one_byte_short_gets_408_though_it_came_fast(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            client = await site.connect()
            client.send(fields(b"Content-Length: 10000000", b"x" * 9_999_999))
            await until(lambda: site.server.counters.unfinished == 9_999_999)
            for _ in range(10):
                assert site.refused == {}
                clock.advance(1_000)
                site.server.sweep()
            assert (await client.reply()).status == 408
            assert site.refused == {"slow_body": 1}
            assert site.server.counters.unfinished == 0

    run(test, loop)


def test_a_body_is_not_slow_while_we_do_not_read(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        limits = WireLimits(header_timeout_ms=10_000, body_rate=1024, idle_timeout_ms=10**9)
        async with Site(limits, clock=clock) as site:
            client = await site.connect()
            client.send(fields(b"Content-Length: 100000", b"x"))
            await until(lambda: site.server.counters.unfinished == 1)
            connection = cast(Http1Connection, next(iter(site.server._connections)))

            def look(after_ms: int) -> None:
                clock.advance(after_ms)
                connection.sweep(site.server.now_ms())

            look(1_000)
            connection.pause_writing()
            look(59_000)
            connection.resume_writing()
            for after_ms in (1_000, 4_000, 3_999):  # with the first second 9,999 ms
                look(after_ms)
            assert site.refused == {}
            look(1)
            assert site.refused == {"slow_body": 1}
            assert (await client.reply()).status == 408

    run(test, loop)


@on_site(WireLimits(header_timeout_ms=300))
async def test_a_head_after_an_empty_line_has_its_own_time(site: Site) -> None:
    idle, slow = await site.connect(), await site.connect()
    idle.send(b"\r")
    await asyncio.sleep(0)
    idle.send(b"\n")
    assert (await slow.exchange(b"G")).status == 408
    assert (await slow.rest()) == b""
    assert (await idle.exchange(get)).status == 200
    assert site.refused == {"slow_head": 1}


@on_site()
async def test_a_long_answer_counts_whole_for_as_long_as_any_of_it_is_unsent(site: Site) -> None:
    """It is held whole, however much of it the kernel has taken."""
    counters = site.server.counters
    client = await site.connect_small()
    client.send(fetch(b"/large?30000000"))
    await until(lambda: counters.unsent)
    await asyncio.sleep(0)
    site.server.sweep()
    assert counters.unsent >= 30_000_000
    client.resume()
    await client.reply()
    site.server.sweep()
    assert counters.unsent == 0


@on_site()
async def test_long_answers_that_are_taken_add_up_to_nothing(site: Site) -> None:
    client = await site.connect()
    for _ in range(5):
        await client.exchange(fetch(b"/large?10000000"))
        assert site.server.counters.unsent < 20_000_000

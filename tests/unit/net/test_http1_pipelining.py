"""Requests behind one another in HTTP/1.1: answers in order, 100-continue, and the ends."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from anew.clock import ManualClock
from anew.net.http1.answer import Http1Request
from tests.unit.net.http1_peer import fetch, fields, get, post
from tests.unit.net.loopback import Client, Site, on_site, run, until

# ---- 100-continue


@on_site()
async def test_100_continue_comes_once_the_head_is_good(site: Site) -> None:
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


@on_site()
async def test_100_continue_waits_for_the_answers_before_it(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/later") + fields(b"Expect: 100-continue\r\nContent-Length: 3"))
    await site.app.until(lambda: bool(site.app.later))
    site.app.later[0].reply(200, b"first")
    assert (await client.reply()).body == b"first"
    assert await client.head() == (100, {})
    assert (await client.exchange(b"abc")).body == b"abc"


@on_site()
async def test_http_1_0_gets_no_100(site: Site) -> None:
    client = await site.connect()
    client.send(b"POST / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    client.send(b"abc")
    assert (await client.reply()).status == 200


# ---- pipelining


@on_site()
async def test_a_request_reaches_the_application_when_the_one_before_is_answered(site: Site) -> None:
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


@on_site()
async def test_requests_answered_at_once_and_later_are_mixed(site: Site) -> None:
    client = await site.connect()
    client.send((fetch(b"/later") + post(b"b")) * 20)
    for _ in range(20):
        await site.app.until(lambda: bool(site.app.later))
        site.app.later.pop().reply(200, b"a")
        assert [(await client.reply()).body for _ in range(2)] == [b"a", b"b"]


@on_site()
async def test_requests_that_arrive_in_pieces_behind_another_wait_too(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/later"))
    await site.app.until(lambda: len(site.app.seen) == 1)
    for at in range(0, len(post(b"piece")), 7):
        client.send(post(b"piece")[at : at + 7])
        await asyncio.sleep(0)
    site.app.later[0].reply(200, b"first")
    assert [(await client.reply()).body for _ in range(2)] == [b"first", b"piece"]


@on_site()
async def test_a_peer_that_sends_far_ahead_is_not_read_until_little_is_left(site: Site) -> None:
    """8 MB behind an unanswered request: more than 64 KiB of it is not kept, but for one read."""
    client = await site.connect()
    client.send(fetch(b"/later") + post(b"x" * 10_000) * 800)
    await site.app.until(lambda: len(site.app.seen) == 1)
    transport = cast(Http1Request, site.app.later[0]).conn.transport
    await until(lambda: not transport.is_reading())
    assert len(site.app.seen) == 1
    site.app.later[0].reply(200, b"first")
    assert (await client.reply()).body == b"first"
    for _ in range(800):
        assert (await client.reply()).body == b"x" * 10_000
    assert transport.is_reading()


async def piled_up(site: Site, connections: int) -> list[Client]:
    """Let so many connections wait with new work behind the request under way."""
    clients = [await site.connect() for _ in range(connections)]
    for client in clients:
        client.send(fetch(b"/later") + post(b"one"))
    await site.app.until(lambda: len(site.app.later) == connections)
    return clients


@pytest.mark.parametrize(
    ("connections", "waited_ms", "status"), [(64, 61, 503), (64, 60, 200), (63, 61, 200)]
)
def test_new_work_is_shed_only_in_a_crowd(loop: str, connections: int, waited_ms: int, status: int) -> None:
    """64 connections wait with more than one request, for more than 60 ms: shed, to the last of them."""

    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            clients = await piled_up(site, connections)
            clock.advance(waited_ms)
            for request in site.app.later:
                request.reply(200)
            for client in clients:
                assert [(await client.reply()).status for _ in range(2)] == [200, status]
            assert site.app.shed_bodies == [b"one"] * (connections if status == 503 else 0)
            # The crowd is gone: what comes now is served, whether alone or behind another.
            client = clients[0]
            client.send(post(b"two") * 2 + get)
            assert [(await client.reply()).status for _ in range(3)] == [200] * 3
            assert not site.server.gate.overloaded

    run(test, loop)


def test_in_a_crowd_what_is_no_new_work_is_served_however_long_it_waited(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            await piled_up(site, 63)
            client = await site.connect()
            client.send(fetch(b"/later") + get)
            await site.app.until(lambda: len(site.app.later) == 64)
            clock.advance(1_000)
            for request in site.app.later:
                request.reply(200)
            assert [(await client.reply()).status for _ in range(2)] == [200, 200]

    run(test, loop)


def test_what_came_later_is_not_shed_with_what_came_before_it(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            clients = await piled_up(site, 64)
            clock.advance(50)
            client = clients[0]
            client.send(fetch(b"/later") + post(b"newer"))
            conn = cast(Http1Request, site.app.later[0]).conn
            await until(lambda: conn._ahead._newer_at)
            clock.advance(11)
            site.app.later[0].reply(200)
            await site.app.until(lambda: len(site.app.later) == 65)
            site.app.later[64].reply(200)
            assert [(await client.reply()).body for _ in range(4)] == [b"", b"", b"", b"newer"]
            assert site.app.shed_bodies == [b"one"]

    run(test, loop)


# ---- ends


@on_site()
async def test_a_half_closed_client_gets_all_its_answers(site: Site) -> None:
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


@on_site()
async def test_an_answer_after_the_peer_is_gone_does_nothing(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/later") + fetch(b"/later"))
    await site.app.until(lambda: len(site.app.later) == 1)
    client.vanish()
    await site.emptied()
    assert site.app.later[0].open_stream(200, b"text/plain") is None
    site.app.later[0].reply(200, b"x")
    await asyncio.sleep(0)
    assert len(site.app.seen) == 1

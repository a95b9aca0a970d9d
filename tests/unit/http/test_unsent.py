"""Answers that their peers leave unread: counted over all connections, and above a bound no long one is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import h2.settings
import pytest

from anew.clock import ManualClock
from anew.errors import Overloaded
from anew.http.api import ApiSettings
from anew.http.enqueuing import EnqueueRoutes
from anew.http.formats import JSON
from anew.http.querying import JobRoutes
from anew.http.settling import SettleRoutes
from anew.jobs import IdText
from anew.net.seam import WireCounters
from tests.unit.net.http1_peer import fetch
from tests.unit.net.http2_peer import Peer, in_loop
from tests.unit.net.loopback import Site, run, until

from .asked import Asked

MB = 1_000_000
TAG = "0123abcde"


# ---- what is counted


async def settled(site: Site, unsent: int) -> None:
    await until(lambda: site.server.counters.unsent == unsent)


@pytest.mark.parametrize("end", ["read", "vanish"])
def test_http1_counts_what_is_unread_until_it_is_read_or_nobody_is_there(loop: str, end: str) -> None:
    """Of 20 MB the kernel takes some, never more than half."""

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.pause()
            client.send(fetch(b"/large?%d" % (20 * MB)))
            await site.app.until(lambda: bool(site.app.seen))
            assert 10 * MB < site.server.counters.unsent <= 20 * MB + 1_000
            if end == "vanish":
                client.vanish()
            else:
                client.resume()
                assert len((await client.reply()).body) == 20 * MB
            await settled(site, 0)

    run(test, loop)


@pytest.mark.parametrize(
    "ask", [b"GET /large?%d HTTP/1.1\r\n", b"GET /large?%d HTTP/1.0\r\nConnection: keep-alive\r\n"]
)
def test_http1_answers_no_more_requests_sent_ahead_than_are_read(loop: str, ask: bytes) -> None:
    """All 16 come in one read, and short answers to them would leave together."""

    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.pause()
            client.send((ask % (20 * MB) + b"Host: h\r\n\r\n") * 16)
            await site.app.until(lambda: bool(site.app.seen))
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(site.app.seen) == 1

    run(test, loop)


def test_http1_counts_no_stream(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            client = await site.connect()
            client.pause()
            client.send(fetch(b"/stream"))
            await site.app.until(lambda: bool(site.app.streams))
            stream = site.app.stream
            stream.write(b"x" * (20 * MB))
            site.server.sweep()
            assert site.server.counters.unsent == 0

    run(test, loop)


@pytest.mark.parametrize("end", ["read", "reset", "lost"])
@in_loop
async def test_http2_counts_what_is_unread_until_it_is_read_or_nobody_is_there(end: str) -> None:
    """RFC 9113, 6.9.2: windows begin with 65,535 bytes."""
    peer = Peer()
    number = peer.ask("/")
    await peer.turn()
    peer.requests[0].reply(200, b"x" * MB)
    assert peer.counters.unsent == MB - 65_535
    await peer.turn()
    match end:
        case "read":
            peer.client.increment_flow_control_window(500_000)
            peer.client.increment_flow_control_window(500_000, number)
            await peer.turn()
            assert peer.counters.unsent == MB - 65_535 - 500_000
            peer.client.increment_flow_control_window(500_000)
            peer.client.increment_flow_control_window(500_000, number)
            await peer.turn()
            assert peer.body(number) == b"x" * MB
        case "reset":
            peer.client.reset_stream(number)
            await peer.turn()
        case "lost":
            peer.conn.connection_lost(None)
    assert peer.counters.unsent == 0


@in_loop
async def test_http2_counts_what_the_transport_holds() -> None:
    peer = Peer()
    peer.transport.stuck = 2 * MB
    peer.conn.pause_writing()
    assert peer.counters.unsent == 2 * MB
    peer.transport.stuck = MB // 2
    peer.conn.sweep(1_000)
    assert peer.counters.unsent == MB // 2
    peer.transport.stuck = 0
    peer.conn.resume_writing()
    assert peer.counters.unsent == 0


@in_loop
async def test_http2_counts_no_stream() -> None:
    peer = Peer()
    peer.ask("/")
    await peer.turn()
    stream = peer.requests[0].open_stream(200, b"application/x-ndjson")
    assert stream is not None
    stream.write(b"x" * MB)
    peer.conn.sweep(1_000)
    assert peer.counters.unsent == 0


# ---- what is refused

FULL = WireCounters().max_unsent + 1
LONG = 65_537


@pytest.mark.parametrize(
    ("method", "size", "unsent", "status"),
    [
        (b"GET", LONG, FULL, 503),
        (b"GET", LONG, FULL - 1, 200),
        (b"GET", LONG - 1, FULL, 200),
        (b"POST", LONG, FULL, 200),  # it has changed something: nothing else may be said of it
        (b"HEAD", LONG, FULL, 200),
    ],
)
def test_http1_refuses_long_answers_while_too_much_is_unread(
    loop: str, method: bytes, size: int, unsent: int, status: int
) -> None:
    async def test() -> None:
        async with Site() as site:
            site.server.counters.unsent = unsent
            client = await site.connect()
            for extra in (b"", b"Connection: close\r\n"):
                client.send(b"%b /large?%d HTTP/1.1\r\nHost: h\r\n%b\r\n" % (method, size, extra))
                reply = await client.reply(to_head=method == b"HEAD")
                assert reply.status == status
                assert reply.headers.get("retry-after") == ("1" if status == 503 else None)
            assert site.refused == ({"overloaded": 2} if status == 503 else {})

    run(test, loop)


@pytest.mark.parametrize(
    ("method", "size", "unsent", "status"),
    [
        ("GET", LONG, FULL, 503),
        ("GET", LONG, FULL - 1, 200),
        ("GET", LONG - 1, FULL, 200),
        ("POST", LONG, FULL, 200),
    ],
)
@in_loop
async def test_http2_refuses_long_answers_while_too_much_is_unread(
    method: str, size: int, unsent: int, status: int
) -> None:
    peer = Peer(lambda request: request.reply(200, b"x" * size))
    peer.counters.unsent = unsent
    number = peer.ask("/", method)
    await peer.turn()
    assert peer.status(number) == status
    assert peer.fields(number).get(b"retry-after") == (b"1" if status == 503 else None)
    assert peer.counters.refused == ({"overloaded": 1} if status == 503 else {})


@in_loop
async def test_http2_peers_with_closed_windows_are_refused_once_what_waits_is_above_the_bound() -> None:
    """Whatever route answers, and before any sweep: 10 answers of 100,000 bytes wait, and no more."""
    peer = Peer(lambda request: request.reply(200, b"x" * 100_000))
    peer.counters.max_unsent = 950_000
    peer.client.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    await peer.turn()
    for _ in range(50):
        peer.ask("/openapi.json")
        await peer.turn()
    assert peer.counters.refused == {"overloaded": 40}
    assert 1_000_000 < peer.counters.unsent < 1_000_000 + 40 * 200


@in_loop
async def test_http2_counts_short_answers_that_wait() -> None:
    peer = Peer(lambda request: request.reply(200, b"x" * 100))
    peer.client.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    await peer.turn()
    for asked in (1, 2, 3):
        peer.ask("/")
        await peer.turn()
        assert peer.counters.unsent == 100 * asked


def test_changes_with_long_answers_are_refused_before_they_are_made() -> None:
    context: Any = SimpleNamespace(
        commit=SimpleNamespace(submit=None, submit_new=None, submit_long=None),
        engine=SimpleNamespace(ids=IdText(TAG)),
        reads=None,
        counters=WireCounters(),
        settings=ApiSettings(),
        fold_checks=None,
        chunks=None,
    )
    context.counters.unsent = FULL
    for change in (EnqueueRoutes(context).many, SettleRoutes(context).failures):
        request = Asked("POST", "/")
        with pytest.raises(Overloaded, match="too many long answers wait"):
            change(request, JSON, ())
        assert request.answers == []


def test_nothing_is_rendered_for_a_peer_that_has_gone() -> None:
    found: list[Callable[[Any], None]] = []
    context: Any = SimpleNamespace(
        engine=SimpleNamespace(ids=IdText(TAG), clock=ManualClock(5)),
        key_of=None,
        chunks=None,
        searches=None,
        reads=SimpleNamespace(find=lambda where, page, then: found.append(then)),
    )
    request = Asked("GET", "/jobs")
    JobRoutes(context).many(request, JSON, ())
    request.gone = True
    found.pop()([1, 2])
    assert request.answers == []

"""Answers that their peers leave unread: counted over all connections, and above a bound no long one is rendered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from anew.clock import ManualClock
from anew.errors import Overloaded
from anew.http import querying
from anew.http.api import Api, ApiSettings
from anew.http.formats import JSON
from anew.http.querying import LONG_ANSWER, JobRoutes
from anew.http.router import Router
from anew.jobs import ErrorRecord, IdText, Job, State
from anew.net.seam import WireCounters
from tests.unit.net.http1_peer import fetch
from tests.unit.net.http2_peer import Peer, in_loop
from tests.unit.net.loopback import Site, run, until

from .asked import Asked

MB = 1_000_000
TAG = "0123abcde"
ID = TAG + f"{1:016x}"


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


def stored(key: int, size: int) -> Job:
    return Job(
        key=key,
        queue="q",
        type="t",
        priority=1,
        state=State.READY,
        ready_at=0,
        attempts=0,
        interruptions=0,
        retry_limit=None,
        policy=None,
        retention=None,
        dequeued_at=None,
        failed_at=None,
        first_failed_at=None,
        completed_at=None,
        purge_at=None,
        phase=None,
        carry=None,
        payload=b'"' + b"x" * (size - 2) + b'"',
    )


class Shelf:
    """What is read of a store whose jobs all have payloads, and errors, of one size.

    Attributes:
        found: What is to be called with the keys that were looked for.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.loads = 0
        self.found: list[Callable[[Any], None]] = []

    def dropped_errors(self, key: int) -> list[tuple[str, str, int]]:
        """None was dropped."""
        return []

    def payload_sizes(self, keys: Sequence[int]) -> dict[int, int]:
        return dict.fromkeys(keys, self.size)

    def job(self, key: int, *, payload: bool = False) -> Job:
        return self.jobs([key])[key]

    def jobs(self, keys: Sequence[int]) -> dict[int, Job]:
        self.loads += 1
        return {key: stored(key, self.size) for key in keys}

    def known_count(self, where: object) -> int:
        return 0

    def find(self, where: object, page: object, then: Callable[[Any], None]) -> None:
        self.found.append(then)

    def errors(self, *about: object) -> list[ErrorRecord]:
        record = ErrorRecord(
            attempt=1,
            outcome="failed",
            message="m" * self.size,
            error_type=None,
            backtrace=None,
            dequeued_at=0,
            failed_at=0,
            decision=None,
        )
        return [record]


class Edge:
    """The routes, and what they read by hand."""

    def __init__(self, size: int, counters: WireCounters | None = None) -> None:
        self.shelf = Shelf(size)
        self.counters = counters or WireCounters()
        engine = SimpleNamespace(ids=IdText(TAG), clock=ManualClock(5))
        self.context: Any = SimpleNamespace(
            engine=engine,
            key_of=engine.ids.read,
            reads=self.shelf,
            settings=ApiSettings(max_unsent=MB),
            counters=self.counters,
        )
        self.routes = JobRoutes(self.context)

    def page(self, keys: list[int]) -> Asked:
        request = Asked("GET", "/jobs")
        self.routes.many(request, JSON, ())
        self.shelf.found.pop()(keys)
        return request


def test_a_long_page_is_refused_before_it_is_rendered() -> None:
    edge = Edge(LONG_ANSWER)
    edge.counters.unsent = MB + 1
    answer = edge.page([1, 2]).answer
    assert (answer.status, answer.extra) == (503, ((b"retry-after", b"1"),))
    assert "too many long answers wait for their readers" in answer.data["error"]
    assert edge.shelf.loads == 0
    assert edge.counters.refused == {"overloaded": 1}


def test_at_the_bound_itself_it_is_rendered() -> None:
    edge = Edge(LONG_ANSWER)
    edge.counters.unsent = MB
    assert len(edge.page([1, 2]).answer.data["jobs"]) == 2


def test_a_short_page_always_goes_through() -> None:
    edge = Edge(100)
    edge.counters.unsent = 100 * MB
    assert len(edge.page([1, 2]).answer.data["jobs"]) == 2


@pytest.mark.parametrize("unsent", [MB, MB + 1])
@pytest.mark.parametrize("size", [100, LONG_ANSWER + 1])
def test_one_job_and_its_errors_are_held_to_the_same(size: int, unsent: int) -> None:
    edge = Edge(size)
    edge.counters.unsent = unsent
    routes = edge.routes
    for route, params in ((routes.one, (ID,)), (routes.errors, (ID,)), (routes.error, (ID, "1"))):
        request = Asked("GET", "/")
        if size > LONG_ANSWER and unsent > MB:
            with pytest.raises(Overloaded):
                route(request, JSON, params)
            assert request.answers == []
        else:
            route(request, JSON, params)
            assert request.answer.status == 200


def test_nothing_is_rendered_for_a_peer_that_has_gone() -> None:
    edge = Edge(100)
    request = Asked("GET", "/jobs")
    edge.routes.many(request, JSON, ())
    request.gone = True
    edge.shelf.found.pop()([1, 2])
    assert request.answers == []
    assert edge.shelf.loads == 0


# ---- both together, over each wire


def api(counters: WireCounters, size: int) -> Api:
    """A list of two jobs that is read at once."""
    context = Edge(size, counters).context
    context.reads.find = lambda where, page, then: then([1, 2])
    router = Router()
    querying.add_routes(router, context)
    return Api(context, router)


def test_http1_peers_that_do_not_read_cost_others_their_long_lists_only(loop: str) -> None:
    async def test() -> None:
        async with Site() as site:
            site.http.admission.start = api(site.server.counters, 12 * MB)
            idle, other = await site.connect(), await site.connect()
            idle.pause()
            ask = b"GET /jobs%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
            idle.send(ask % b"")
            await until(lambda: site.server.counters.unsent >= 10 * MB)
            refused = await other.exchange(ask % b"")
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert (await other.exchange(ask % b"/count?status=completed")).status == 200
            idle.vanish()
            await settled(site, 0)
            assert len((await other.exchange(ask % b"")).body) > 24 * MB

    run(test, loop)


@in_loop
async def test_http2_peers_that_do_not_read_cost_others_their_long_lists_only() -> None:
    peer = Peer()
    peer.admission.start = api(peer.counters, 2 * MB)
    first = peer.ask("/jobs")
    await peer.turn()
    assert peer.counters.unsent > 3 * MB
    second, count = peer.ask("/jobs"), peer.ask("/jobs/count?status=completed")
    peer.client.increment_flow_control_window(1_000)  # of the connection alone: the first answer waits
    await peer.turn()
    assert (peer.status(second), peer.fields(second)[b"retry-after"]) == (503, b"1")
    assert peer.status(count) == 200
    peer.client.reset_stream(first)
    await peer.turn()
    third = peer.ask("/jobs")
    await peer.turn()
    assert peer.status(third) == 200

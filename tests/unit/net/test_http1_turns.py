"""A long body is read in turns, so that the other connections have theirs between its megabytes, or its thousands of chunks."""

from __future__ import annotations

import asyncio

import pytest

from anew.clock import ManualClock
from anew.net.listener import NetServer
from anew.net.port import HttpPort
from anew.net.seam import Request

from .http2_peer import FakeTransport, as_app, in_loop

KIB, MIB = 1 << 10, 1 << 20


@in_loop
async def test_after_each_megabyte_of_a_body_the_others_have_a_turn() -> None:
    requests: list[Request] = []
    transport = FakeTransport()
    conn = HttpPort(NetServer(), as_app(requests.append)).connection()
    conn.connection_made(transport)
    conn.data_received(b"POST /jobs HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (3 * MIB))
    for quarter in range(1, 12):
        conn.data_received(b"x" * 256 * KIB)
        assert transport.reading is (quarter % 4 != 0)
        await asyncio.sleep(0)
        assert transport.reading
    assert requests == []
    conn.data_received(b"x" * 256 * KIB)
    assert [len(request.body) for request in requests] == [3 * MIB]


def small_chunks(count: int) -> bytes:
    """So many chunks of three bytes each."""
    return b"3\r\nabc\r\n" * count


@in_loop
async def test_many_small_chunks_are_read_a_thousand_lines_a_turn() -> None:
    requests: list[Request] = []
    transport = FakeTransport()
    server = NetServer()
    conn = HttpPort(server, as_app(requests.append)).connection()
    conn.connection_made(transport)
    conn.data_received(b"POST /jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    conn.data_received(small_chunks(2_500) + b"0\r\n\r\nGET /next HTTP/1.1\r\nhost: x\r\n\r\n")
    assert requests == []
    assert not transport.reading  # what has been read already comes first
    assert server.counters.unfinished > 0
    while not transport.reading:
        await asyncio.sleep(0)
    assert [(request.path, len(request.body)) for request in requests] == [(b"/jobs", 7_500)]
    assert server.counters.unfinished == 0
    requests[0].reply(200)
    while len(requests) < 2:
        await asyncio.sleep(0)
    assert requests[1].path == b"/next"


@in_loop
async def test_while_small_chunks_are_read_the_requests_of_others_have_their_turn() -> None:
    clock = ManualClock()
    requests: list[Request] = []
    server = NetServer(clock=clock)
    port = HttpPort(server, as_app(requests.append))
    busy, other = port.connection(), port.connection()
    for conn in (busy, other):
        conn.connection_made(FakeTransport())
    busy.data_received(b"POST /jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    busy.data_received(small_chunks(20_000) + b"0\r\n\r\n")
    other.data_received(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
    while len(requests) < 2:
        await asyncio.sleep(0)
    assert [request.path for request in requests] == [b"/health", b"/jobs"]


@pytest.mark.parametrize(("size", "status"), [(1, 400), (2, 400), (3, 200)])
@in_loop
async def test_a_body_that_is_mostly_the_sizes_of_its_chunks_is_refused(size: int, status: int) -> None:
    """A line of 1 byte and two line ends are 5 bytes of framing: more than twice the data, but for 64 KiB of it."""
    transport = FakeTransport()
    conn = HttpPort(NetServer(), as_app(lambda request: request.reply(200))).connection()
    conn.connection_made(transport)
    conn.data_received(b"POST /jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    conn.data_received(b"%d\r\n%b\r\n" % (size, b"x" * size) * 100_000 + b"0\r\n\r\n")
    while not transport.out:
        await asyncio.sleep(0)
    assert transport.out.startswith(b"HTTP/1.1 %d " % status)

"""HTTP/2 through the real listener and real sockets, on both kinds of loop, and nonsense of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h2.config
import h2.connection
import h2.events
from hypothesis import given
from hypothesis import strategies as st

from anew.clock import ManualClock
from anew.net.http2.frames import Code, goaway
from anew.net.seam import WireLimits
from tests.unit.net import loopback
from tests.unit.net.http2_peer import RawPeer, frame, get_block, in_loop, post_block
from tests.unit.net.loopback import Site, run


class Client:
    """The `h2` package's client on a socket."""

    def __init__(self, raw: loopback.Client) -> None:
        self.reader, self.writer, self.send = raw.reader, raw.writer, raw.send
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.bodies: dict[int, bytes] = {}

    def ask(self, method: str, path: str, body: bytes = b"") -> int:
        number = self.h2.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")]
        self.h2.send_headers(number, pseudo, end_stream=not body)
        if body:
            self.h2.send_data(number, body, end_stream=True)
        return number

    def flush(self) -> None:
        self.send(self.h2.data_to_send())

    async def until(self, kind: type[Any], number: int) -> None:
        """Read, giving windows back, until an event of this kind has come on a stream."""
        while True:
            self.flush()
            data = await self.reader.read(65_536)
            assert data, "the server closed"
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if isinstance(event, kind) and event.stream_id == number:
                    self.flush()
                    return


@asynccontextmanager
async def served(site: Site | None = None, *, small: bool = False) -> AsyncIterator[tuple[Site, Client]]:
    """A site and a client on it; small is one that reads only what the test asks for."""
    async with site or Site() as site:
        raw = await (site.connect_small() if small else site.connect())
        yield site, Client(raw)


def test_many_requests_at_once(loop: str) -> None:
    """None has waited long, by a clock that stands still: a busy machine would have the server refuse some."""

    async def test() -> None:
        async with served(Site(clock=ManualClock())) as (site, client):
            numbers = [client.ask("POST", f"/{n}", b"b" * n) for n in range(1, 101)]
            data = client.h2.data_to_send()
            client.send(data[:10])  # the preface in two pieces
            await client.writer.drain()
            client.send(data[10:])
            await client.until(h2.events.StreamEnded, numbers[-1])
            assert [client.bodies[number] for number in numbers] == [b"b" * n for n in range(1, 101)]
            assert [request.path for request in site.app.seen] == [b"/%d" % n for n in range(1, 101)]
            assert (site.server.counters.connections, site.server.counters.requests) == (1, 100)

    run(test, loop)


def test_back_pressure_and_a_vanished_client(loop: str) -> None:
    async def test() -> None:
        async with served(Site(WireLimits(write_buffer=100_000))) as (site, client):
            client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 30})
            client.h2.increment_flow_control_window(1 << 30)
            number = client.ask("GET", "/stream")
            client.flush()
            await site.app.until(lambda: bool(site.app.streams))
            stream = site.app.stream
            written = 0
            while stream.writable:
                stream.write(bytes(50_000))
                written += 50_000
                assert written < 100_000_000, "a client that does not read was never too slow"
                await asyncio.sleep(0)
            while not site.app.drained:
                await client.until(h2.events.DataReceived, number)
            assert stream.writable
            client.writer.transport.abort()
            await site.app.until(lambda: site.app.closed == [stream])
            assert not stream.writable
            assert site.server.counters.connections == 0

    run(test, loop)


def test_a_client_that_hangs_up_loses_its_stream(loop: str) -> None:
    async def test() -> None:
        async with served() as (site, client):
            number = client.ask("GET", "/stream")
            await client.until(h2.events.ResponseReceived, number)
            assert site.app.closed == []
            client.writer.close()
            await site.app.until(lambda: site.app.closed == [site.app.stream])

    run(test, loop)


def test_drain_ends_streams_and_connections(loop: str) -> None:
    async def test() -> None:
        async with served() as (site, client):
            number = client.ask("GET", "/stream")
            await client.until(h2.events.ResponseReceived, number)
            draining = asyncio.create_task(site.server.drain(5_000))
            rest = await client.reader.read()
            assert rest.endswith(frame(0, 1, number))
            client.writer.close()
            await draining
            assert site.server.counters.connections == 0

    run(test, loop)


def test_draining_waits_for_no_idle_connection(loop: str) -> None:
    """Nothing is unread on either side, so GOAWAY and the end may leave together; the peer need not hang up.

    By a clock that stands still, whoever lingered would do so for ever.
    """

    async def test() -> None:
        async with served(Site(clock=ManualClock())) as (site, client):
            for _ in range(2):
                number = client.ask("GET", "/")
                await client.until(h2.events.StreamEnded, number)
            await site.server.drain(60_000)
            rest = await client.reader.read()
            assert rest.startswith(goaway(number, Code.NO_ERROR, "the server is going away"))

    run(test, loop)


def test_a_taker_whose_jobs_lie_in_the_kernel_is_cut_off(loop: str) -> None:
    """What fits into the windows and the kernel's send buffer leaves the transport's empty."""

    async def test() -> None:
        async with served(Site(WireLimits(stall_timeout_ms=300)), small=True) as (site, client):
            client.ask("GET", "/stream")
            client.flush()
            await site.app.until(lambda: bool(site.app.streams))
            site.app.stream.write(b"x" * 60_000)
            await site.app.until(lambda: len(site.app.closed) == 1)
            assert site.refused == {"stalled_reader": 1}

    run(test, loop)


payloads = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([get_block, post_block, bytes(4), bytes(5), bytes(8), b"\x00" * 300]),
)
frames = st.builds(frame, st.integers(0, 11), st.integers(0, 63), st.integers(0, 9), payloads)


@given(st.lists(frames, max_size=15), st.booleans())
@in_loop
async def test_reliability_43_nonsense_never_raises(script: list[bytes], late: bool) -> None:
    peer = RawPeer(max_body=100)
    peer.send(*script)
    for request in peer.requests if late else ():
        request.reply(200, b"{}")
    for now_ms in (1_000, 20_000, 60_000):
        peer.conn.sweep(now_ms)
    for request in peer.requests:
        stream = request.open_stream(200, b"text/plain")
        if stream is not None:
            stream.write(b"x")
            stream.close()
    await peer.frames()  # reads as frames to the last byte
    peer.conn.connection_lost(None)
    assert len(peer.conn.streams) == 0

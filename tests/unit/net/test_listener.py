"""The listener: counting, limits, the choice of wire, and the way to the end."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import subprocess
import sys
import time
from typing import Any, ClassVar, cast

import pytest

from anew.clock import ManualClock
from anew.net import listener as listener_module
from anew.net import peer
from anew.net.http1 import connection as http1
from anew.net.http1.answer import Http1Request
from anew.net.listener import Acceptor, NetServer
from anew.net.seam import WireLimits
from tests.unit.net.http1_peer import fetch, get, post
from tests.unit.net.loopback import Client, Site, on_site, run, until


@on_site()
async def test_connections_are_counted_while_they_are_open(site: Site) -> None:
    first, second = await site.connect(), await site.connect()
    await first.exchange(get)
    await second.exchange(get)
    assert site.server.counters.connections == 2
    first.writer.transport.abort()
    await site.emptied(1)
    assert (await second.exchange(get)).status == 200


@on_site()
async def test_a_crowd_of_clients_is_accepted_in_a_few_turns(site: Site) -> None:
    """100 connect while the loop is busy; libuv alone would take in one of them each turn."""
    clients = [socket.create_connection((site.host, site.port)) for _ in range(100)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert site.server.counters.connections == 100
    for client in clients:
        client.close()


async def busy(site: Site, count: int) -> list[Client]:
    """Open connections that each wait for an answer."""
    clients = [await site.connect() for _ in range(count)]
    for client in clients:
        client.send(fetch(b"/later"))
    await site.app.until(lambda: len(site.app.later) == count)
    return clients


@on_site(WireLimits(max_connections=2))
async def test_above_the_limit_503_and_close_and_room_again_after_that(site: Site) -> None:
    inside = await busy(site, 2)
    turned_away = await site.connect()
    reply = await turned_away.exchange(get)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert reply.headers["connection"] == "close"
    assert await turned_away.rest() == b""
    assert site.refused == {"connections": 1}
    for client, request in zip(inside, site.app.later, strict=True):
        request.reply(200)
        assert (await client.reply()).status == 200
    inside[0].writer.transport.abort()
    await site.emptied(1)
    assert (await (await site.connect()).exchange(get)).status == 200


def test_the_limit_leaves_descriptors_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert NetServer().max_connections == 1024 - 256
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert NetServer().max_connections == 50
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    assert NetServer().max_connections == 10_000


@on_site(WireLimits(max_connections=1))
async def test_a_flood_above_the_limit_is_cut_and_leaves_no_trace(site: Site) -> None:
    (inside,) = await busy(site, 1)
    crowd = [site.connect() for _ in range(listener_module.max_turned_away + 20)]
    clients = [
        client
        for client in await asyncio.gather(*crowd, return_exceptions=True)
        if not isinstance(client, BaseException)  # with TLS, whose handshake was cut
    ]
    answers = await asyncio.gather(*(client.rest() for client in clients), return_exceptions=True)
    told = [answer for answer in answers if isinstance(answer, bytes) and b" 503 " in answer]
    assert len(told) == listener_module.max_turned_away
    assert site.refused == {"connections": len(crowd)}
    site.app.later[0].reply(200)
    assert (await inside.reply()).status == 200


def test_the_clock_is_asked_for(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock(now=784_111_777_000)
        async with Site(clock=clock) as site:
            client = await site.connect()
            # The example of RFC 9110, 5.6.7.
            assert (await client.exchange(get)).headers["date"] == "Sun, 06 Nov 1994 08:49:37 GMT"
            clock.advance(9_000)
            site.server.sweep()
            assert (await client.exchange(get)).headers["date"] == "Sun, 06 Nov 1994 08:49:46 GMT"
            client.send(b"GET / HTTP/1.1\r\n")
            (connection,) = site.server._connections
            await until(lambda: connection._stage != 0)  # type: ignore[attr-defined]
            clock.advance(9_999)
            site.server.sweep()
            assert site.refused == {}
            clock.advance(1)
            site.server.sweep()
            assert (await client.reply()).status == 408

    run(test, loop)


# ---- idle connections


class Standing:
    """A connection that is whatever a test says; idle for -1 ms is busy."""

    served = False

    def __init__(self, idle_ms: int = -1) -> None:
        self.idle = idle_ms
        self.told: list[str] = []

    def idle_ms(self, now_ms: int) -> int:
        return self.idle

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.told.append(name)


def test_a_connection_that_was_idle_when_listed_and_is_busy_now_stays() -> None:
    server = NetServer(WireLimits(max_connections=3), clock=ManualClock())
    first, second, third = wires = [Standing(30), Standing(20), Standing(10)]
    for wire in wires:
        server.admit(cast(Any, wire))
    server.admit(cast(Any, Standing()))
    assert [wire.told for wire in wires] == [["dismiss"], [], []]
    server.left(cast(Any, first))
    second.idle = -1
    server.admit(cast(Any, Standing()))  # the clock stands: the list is the one of the last time
    assert [wire.told for wire in wires] == [["dismiss"], [], ["dismiss"]]
    server.left(cast(Any, third))
    last = Standing()
    server.admit(cast(Any, last))
    assert last.told == ["turn_away"]


def test_who_connects_while_the_server_drains_is_cut() -> None:
    """The kernel had taken it in before the listener was closed."""

    async def test() -> None:
        server = NetServer(clock=ManualClock())
        inside, late = Standing(), Standing()
        server.admit(cast(Any, inside))
        draining = asyncio.create_task(server.drain(10_000))
        await until(lambda: "drain_streams" in inside.told)
        server.admit(cast(Any, late))
        assert late.told == ["abort"]
        assert (server.counters.connections, server.counters.refused) == (1, {"connections": 1})
        server.left(cast(Any, late))
        server.left(cast(Any, inside))
        await draining

    asyncio.run(test())


def test_where_there_is_no_room_the_longest_idle_connection_is_closed(loop: str) -> None:
    """Those that were never served go first; a connection that waits for its answer stays."""

    async def test() -> None:
        clock = ManualClock()
        async with Site(WireLimits(max_connections=4), clock=clock) as site:
            waiting = (await busy(site, 1))[0]
            served = await site.connect()
            assert (await served.exchange(get)).status == 200
            silent_ones = []
            for connections in (3, 4):
                site.server.sweep()
                clock.advance(1_000)
                silent_ones.append(await site.connect())
                await site.emptied(connections)
            site.server.sweep()
            clock.advance(1_000)
            for silent in silent_ones:
                newcomer = await site.connect()
                assert (await newcomer.exchange(get)).status == 200
                assert await silent.rest() == b""
            # Now all but the busy one have been served, and the first of them has been idle for longest.
            clock.advance(1_000)
            site.server.sweep()
            assert (await (await site.connect()).exchange(get)).status == 200
            assert await served.rest() == b""
            site.app.later[0].reply(200)
            assert (await waiting.reply()).status == 200
            assert site.refused == {}

    run(test, loop)


@on_site(WireLimits(max_connections=2))
async def test_a_head_that_does_not_end_keeps_nobody_out(site: Site) -> None:
    begun = [await site.connect() for _ in range(2)]
    for client in begun:
        client.send(b"GET /")
    await until(
        lambda: sum(wire._stage == http1.in_head for wire in site.server._connections) == 2  # type: ignore[attr-defined]
    )
    assert (await (await site.connect()).exchange(get)).status == 200


@on_site(WireLimits(max_connections=2))
async def test_open_streams_and_bodies_that_come_in_are_not_idle(site: Site) -> None:
    taker, sender = await site.connect(), await site.connect()
    taker.send(fetch(b"/stream"))
    await taker.head()
    sender.send(post(b"abc")[:-1])
    await until(lambda: site.server.counters.unfinished)
    assert (await (await site.connect()).exchange(get)).status == 503
    site.app.stream.write(b"on")
    assert await taker.chunk() == b"on"
    assert (await sender.exchange(b"c")).body == b"abc"


def test_after_ten_minutes_without_a_request_a_connection_is_closed(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            idle, used, taker = [await site.connect() for _ in range(3)]
            assert (await idle.exchange(get)).status == 200
            taker.send(fetch(b"/stream"))
            await taker.head()
            transport = cast(Http1Request, site.app.seen[-1]).conn.transport
            await until(lambda: not peer.unsent(transport))  # the peer's kernel has it all
            site.server.sweep()
            clock.advance(300_000)
            assert (await used.exchange(get)).status == 200
            site.server.sweep()
            clock.advance(299_999)
            site.server.sweep()
            assert site.server.counters.connections == 3
            clock.advance(1)
            site.server.sweep()
            assert await idle.rest() == b""
            await site.emptied(2)
            assert (await used.exchange(get)).status == 200
            site.app.stream.write(b"on")
            assert await taker.chunk() == b"on"

    run(test, loop)


def test_connections_look_at_the_clock_in_several_turns(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand of them take tens of milliseconds."""
    monkeypatch.setattr(listener_module, "swept_at_once", 2)
    swept: list[Any] = []

    class Swept:
        served = True

        def sweep(self, now_ms: int) -> None:
            swept.append(self)

    async def test() -> None:
        server = NetServer()
        wires: list[Any] = [Swept() for _ in range(6)]
        for wire in wires:
            server.admit(wire)
        server.sweep()
        assert len(swept) == 2
        gone = next(wire for wire in wires if wire not in swept)
        server.left(gone)
        for _ in range(3):
            await asyncio.sleep(0)
        assert sorted(map(id, swept)) == sorted(id(wire) for wire in wires if wire is not gone)

    run(test, loop)


def test_an_idle_http2_connection_is_closed_as_well(loop: str) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Site(clock=clock) as site:
            client = await site.connect()
            client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            await client.reader.readexactly(9)
            site.server.sweep()
            clock.advance(600_000)
            site.server.sweep()
            assert b"the server is going away" in await client.rest()

    run(test, loop)


@on_site()
async def test_the_kernel_looks_whether_peers_are_still_there(site: Site) -> None:
    await (await site.connect()).exchange(get)
    (connection,) = site.server._connections
    sock = connection.transport.get_extra_info("socket")  # type: ignore[attr-defined]
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if sys.platform == "linux":
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [sock.getsockopt(socket.IPPROTO_TCP, one) for one in options] == [60, 15, 4]


raised = """
import resource
from anew.net.listener import NetServer, raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700))
raise_descriptor_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE), NetServer().max_connections)
"""


def test_the_descriptor_limit_is_raised_and_what_remains_bounds_the_connections() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", raised], capture_output=True, env=environ, check=True)
    assert ran.stdout.split() == [b"(700,", b"700)", b"444"]  # 256 are left to the store


runs = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700))
from anew.app.running import run_loop

async def main():
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
    return 0

run_loop(main())
"""


def test_a_server_runs_with_as_many_descriptors_as_it_may_have() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", runs], capture_output=True, env=environ, check=True, timeout=60
    )
    assert ran.stdout.split() == [b"700", b"700"]


# ---- many listeners


class Shouter(asyncio.Protocol):
    """Another protocol beside HTTP: answers in upper case."""

    served = True
    stopped = False

    refusal: ClassVar[str] = "-FULL"

    def __init__(self, server: NetServer) -> None:
        self.server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.server.admit(self)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data.upper())

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.left(self)

    def turn_away(self) -> None:
        self.transport.write(b"-FULL\r\n")
        self.transport.close()

    def sweep(self, now_ms: int) -> None:
        pass

    def idle_ms(self, now_ms: int) -> int:
        return -1

    def dismiss(self) -> None:
        self.drain()

    def drain(self) -> None:
        self.transport.write(b"BYE\r\n")
        self.transport.close()

    def drain_streams(self) -> None:
        pass

    def abort(self) -> None:
        self.transport.abort()


@on_site(WireLimits(max_connections=3))
async def test_several_addresses_and_protocols_share_the_limits_and_the_end(site: Site) -> None:
    server = site.server
    _, second_port = await server.listen("127.0.0.1", 0, site.http.connection)
    _, other_port = await server.listen("127.0.0.1", 0, lambda: Shouter(server))
    assert len({site.port, second_port, other_port}) == 3

    async def connect(port: int) -> Client:
        return site.joined(*await asyncio.open_connection(site.host, port))

    web, other = await connect(second_port), await connect(other_port)
    web.send(fetch(b"/later"))
    other.send(b"hello\r\n")
    assert await other.reader.readline() == b"HELLO\r\n"
    await site.app.until(lambda: len(site.app.later) == 1)
    assert server.counters.connections == 2
    third, fourth = await connect(other_port), await connect(other_port)
    third.send(b"x\n")
    assert await third.reader.readline() == b"X\n"
    assert await fourth.rest() == b"-FULL\r\n"
    draining = asyncio.create_task(server.drain(5_000))
    assert await other.rest() == b"BYE\r\n"
    for port in (site.port, second_port, other_port):
        with pytest.raises(ConnectionRefusedError):
            await connect(port)
    site.app.later[0].reply(200)
    assert (await web.reply()).headers["connection"] == "close"
    for client in (web, other, third):
        client.writer.close()
    await draining


# ---- bodies


@on_site(WireLimits(max_unfinished=1_000))
async def test_bodies_that_are_coming_in_are_bounded_over_all_connections(site: Site) -> None:
    """Each is within its own limit, yet a hundred of them would fill the memory."""
    counters = site.server.counters
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\n"
    first, second, chunked = [await site.connect() for _ in range(3)]
    first.send(head + b"content-length: 900\r\n\r\n" + b"x" * 600)
    await until(lambda: counters.unfinished >= 600)
    second.send(head + b"content-length: 900\r\n\r\n" + b"x" * 600)
    chunked.send(head + b"transfer-encoding: chunked\r\n\r\n258\r\n" + b"x" * 500)
    for refused in (second, chunked):
        reply = await refused.reply()
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert counters.refused == {"bodies": 2}
    assert counters.unfinished == 600
    first.send(b"x" * 300)
    assert len((await first.reply()).body) == 900
    assert counters.unfinished == 0
    gone = await site.connect()
    gone.send(head + b"content-length: 900\r\n\r\n" + b"x" * 600)
    await until(lambda: counters.unfinished >= 600)
    gone.writer.transport.abort()
    await until(lambda: not counters.unfinished)


# ---- the end


@on_site()
async def test_draining_closes_idle_connections_and_answers_what_is_due(site: Site) -> None:
    idle, busy, pipelined = [await site.connect() for _ in range(3)]
    await idle.exchange(get)
    busy.send(fetch(b"/later"))
    pipelined.send(fetch(b"/later") + fetch(b"/later"))
    await site.app.until(lambda: len(site.app.later) == 2)
    draining = asyncio.create_task(site.server.drain(5000))
    assert await idle.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(site.host, site.port)
    assert not draining.done()
    for request in site.app.later[:]:
        request.reply(200, b"x")
    await site.app.until(lambda: len(site.app.later) == 3)
    site.app.later[2].reply(200, b"x")
    assert (await busy.reply()).headers["connection"] == "close"
    assert "connection" not in (await pipelined.reply()).headers
    assert (await pipelined.reply()).headers["connection"] == "close"
    for client in (idle, busy, pipelined):
        assert await client.rest() == b""
        client.writer.close()
    await draining
    assert site.server.counters.connections == 0


def test_draining_waits_for_no_idle_connection(loop: str) -> None:
    """Nothing is unread on either side, so there is nothing to linger for: the peer need not even hang up.

    By a clock that stands still, whoever lingered would do so for ever.
    """

    async def test() -> None:
        async with Site(clock=ManualClock()) as site:
            idle = [await site.connect() for _ in range(3)]
            for client in idle:
                await client.exchange(get)
            await site.server.drain(60_000)
            for client in idle:
                assert await client.rest() == b""

    run(test, loop)


@on_site()
async def test_draining_does_not_reset_a_connection_with_a_request_unread(site: Site) -> None:
    """A close with bytes unread would send a reset, which may destroy the answer before; so it lingers."""
    client = await site.connect()
    await client.exchange(get)
    connection = next(iter(site.server._connections))
    transport = connection.transport  # type: ignore[attr-defined]
    transport.pause_reading()
    client.send(get)
    await asyncio.sleep(0)
    connection.drain()
    assert not transport.is_closing()
    transport.resume_reading()
    assert await client.rest() == b""


@on_site()
async def test_an_http2_connection_whose_preface_is_coming_in_is_drained_too(site: Site) -> None:
    client = await site.connect()
    client.send(b"PRI * HTTP/2")
    connections = site.server._connections
    await until(lambda: connections and next(iter(connections))._stage != 0)  # type: ignore[attr-defined]
    draining = asyncio.create_task(site.server.drain(60_000))
    await asyncio.sleep(0)
    client.send(b".0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))  # and empty SETTINGS
    assert b"the server is going away" in await client.rest()
    client.writer.close()
    await draining


@on_site()
async def test_a_request_that_is_coming_in_is_still_answered(site: Site) -> None:
    client = await site.connect()
    await client.exchange(get)
    client.send(post(b"ab")[:-1])
    connection = next(iter(site.server._connections))
    await until(lambda: connection._stage != 0)  # type: ignore[attr-defined]
    draining = asyncio.create_task(site.server.drain(5000))
    await asyncio.sleep(0)
    client.send(b"b")
    reply = await client.reply()
    assert (reply.body, reply.headers["connection"]) == (b"ab", "close")
    client.writer.close()
    await draining


@on_site()
async def test_draining_ends_streams_cleanly(site: Site) -> None:
    client = await site.connect()
    client.send(fetch(b"/stream"))
    await client.head()
    draining = asyncio.create_task(site.server.drain(5000))
    assert await client.chunk() == b""
    assert await client.rest() == b""
    assert site.app.closed == [site.app.stream]
    client.writer.close()
    await draining


@on_site()
async def test_the_application_may_end_its_streams_itself(site: Site) -> None:
    def end() -> None:
        site.app.stream.write(b"bye")
        site.app.stream.close()

    more: list[str] = []
    site.server.on_drain += [lambda: more.append("first"), end, lambda: more.append("last")]
    client = await site.connect()
    client.send(fetch(b"/stream"))
    await client.head()
    draining = asyncio.create_task(site.server.drain(5000))
    assert [await client.chunk(), await client.chunk()] == [b"bye", b""]
    assert await client.rest() == b""
    assert site.app.closed == []
    assert more == ["first", "last"]
    client.writer.close()
    await draining


def test_a_stream_that_no_application_ends_is_ended_at_once(loop: str) -> None:
    """By a clock that stands still: there is no deadline that could have cut it."""

    async def test() -> None:
        async with Site(clock=ManualClock()) as site:
            site.server.on_drain.append(lambda: None)
            client = await site.connect()
            client.send(fetch(b"/stream"))
            await client.head()
            draining = asyncio.create_task(site.server.drain(60_000))
            assert await client.chunk() == b""
            assert await client.rest() == b""
            assert site.app.closed == [site.app.stream]
            client.writer.close()
            await draining

    run(test, loop)


@on_site()
async def test_what_does_not_end_in_time_is_cut(site: Site) -> None:
    waiter = await site.connect()
    waiter.send(fetch(b"/later"))
    await site.app.until(lambda: len(site.app.seen) == 1)
    await site.server.drain(100)
    await site.emptied()
    assert await waiter.rest() == b""
    site.app.later[0].reply(200)


flooded = """
import asyncio, resource, sys
from anew.net.listener import NetServer
from anew.net.port import HttpPort
from tests.unit.net.http2_peer import as_app
loop = sys.argv[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
async def main():
    server = NetServer()
    server.max_connections = 1000
    http = HttpPort(server, as_app(lambda request: request.reply(200)))
    print((await server.listen("127.0.0.1", 0, http.connection))[1], flush=True)
    await asyncio.Event().wait()
if loop == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


def test_reliability_46_running_out_of_descriptors_does_not_stop_the_listener(loop: str) -> None:
    def answered(port: int) -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            try:
                sock.sendall(get)
                return sock.recv(100).startswith(b"HTTP/1.1 200")
            except ConnectionError:  # accepted only to be dropped: one of the crowd was still there
                return False

    process = subprocess.Popen(
        [sys.executable, "-c", flooded, loop],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert answered(port)
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(80)]
        for sock in crowd[:10]:
            sock.sendall(get)
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
        for sock in crowd:
            sock.close()
        deadline = time.monotonic() + 10
        while not answered(port):
            assert time.monotonic() < deadline
    finally:
        process.kill()
        _, told = process.communicate()
    assert told.count(b"connections wait and cannot be accepted (Too many open files): raise the limit") == 1


class Greeter(asyncio.Protocol):
    """Notes that it was connected."""

    def __init__(self, connected: asyncio.Event) -> None:
        self.connected = connected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connected.set()
        transport.close()


@pytest.mark.parametrize("trouble", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_accepting_pauses_when_it_cannot_and_goes_on(
    loop: str, trouble: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that waits wakes the loop in every turn, as long as it is watched for."""

    async def test() -> None:
        told: list[OSError] = []
        connected = asyncio.Event()
        listening = socket.create_server(("127.0.0.1", 0))
        acceptor = Acceptor([listening], lambda: Greeter(connected), told.append)

        def refuse(self: socket.socket) -> None:
            raise OSError(trouble, "planted")

        monkeypatch.setattr(listener_module, "pause_ms", 3_600_000)
        with monkeypatch.context() as none_left:
            none_left.setattr(socket.socket, "accept", refuse)
            client = socket.create_connection(listening.getsockname())
            await until(lambda: told)
            for _ in range(50):
                await asyncio.sleep(0)
            assert [error.errno for error in told] == [trouble]
            acceptor._watch()  # as its timer would
            monkeypatch.setattr(listener_module, "pause_ms", 1)
            await until(lambda: len(told) >= 3)
        async with asyncio.timeout(5):
            await connected.wait()
        client.close()
        acceptor.close()
        listening.close()

    run(test, loop)


def test_the_log_is_told_once_a_minute_that_there_are_too_many(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    server = NetServer(clock=clock)
    for advance_ms in (0, 0, 59_999, 1, 30_000):
        clock.advance(advance_ms)
        server._cannot_accept(OSError(errno.EMFILE, "Too many open files"))
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "ulimit -n" in caplog.records[0].message


@on_site(WireLimits(max_connections=1))
async def test_the_log_is_told_that_the_limit_is_reached(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    await busy(site, 1)
    for _ in range(3):
        assert (await (await site.connect()).exchange(get)).status == 503
    said = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert said == [
        "1 connections are open and busy, as many as --max-connections allows; a new one gets 503"
    ]

"""WebSockets: the handshake, what comes in, what goes out, and peers that mean no good.

Expected bytes are those of RFC 6455: its own example of a handshake (1.3), frames as in 5.2.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from anew.net import websocket
from anew.net.seam import Request, WebSocket, WireLimits
from tests.unit.net.http1_peer import fetch, get
from tests.unit.net.loopback import App, Client, Site, limit_s, run, until

MAX_MESSAGE = 1_000
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
ASKED = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY.decode(),
}
TEXT, BINARY, CONT, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10


def handshake(version: bytes = b"1.1", **changed: str | None) -> bytes:
    """A handshake; underscores stand for hyphens, None leaves a field out."""
    given: dict[str, str | None] = {
        **ASKED,
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
    return b"GET /ws HTTP/%b\r\nHost: h\r\n%b\r\n" % (version, lines.encode())


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, masked: bool = True) -> bytes:
    """A client's frame."""
    head = bytes([opcode | (0x80 if fin else 0)])
    bit = 0x80 if masked else 0
    if len(payload) < 126:
        head += bytes([bit | len(payload)])
    elif len(payload) < 1 << 16:
        head += bytes([bit | 126]) + struct.pack("!H", len(payload))
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", len(payload))
    return head + (b"\0\0\0\0" if masked else b"") + payload  # a mask of zeros changes nothing


class Peer(App):
    """Opens a WebSocket for ``/ws``, and remembers what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.sockets: list[WebSocket | None] = []
        self.messages: list[bytes] = []
        self.closings = 0

    def __call__(self, request: Request) -> None:
        if request.path != b"/ws":
            super().__call__(request)
            return
        opened = request.open_websocket(MAX_MESSAGE)
        self.sockets.append(opened)
        if opened is not None:
            opened.on_message = self.messages.append
            opened.on_close = self.closed_one

    def closed_one(self) -> None:
        self.closings += 1

    @property
    def socket(self) -> WebSocket:
        found = self.sockets[-1]
        assert found is not None
        return found


class WsSite(Site):
    """A server whose application opens WebSockets."""

    def __init__(self, limits: WireLimits | None = None) -> None:
        super().__init__(limits or WireLimits(), Peer())

    @property
    def peer(self) -> Peer:
        assert isinstance(self.app, Peer)
        return self.app

    async def opened(self, *, small: bool = False) -> Client:
        """A client whose handshake was accepted."""
        client = await (self.connect_small() if small else self.connect())
        client.send(handshake())
        if small:
            client.resume()
        assert (await client.head())[0] == 101
        if small:
            client.pause()
        return client


@pytest.fixture
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer has 40 ms to hang up after the last frame."""
    monkeypatch.setattr(websocket, "linger_ms", 40)


async def read_frame(client: Client) -> tuple[int, bytes]:
    """One frame of the server: its first byte, which says that it is the last one of its message, and its payload."""
    async with asyncio.timeout(limit_s):
        first, size = await client.reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await client.reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await client.reader.readexactly(8))
        return first, await client.reader.readexactly(size)


def on_ws(limits: WireLimits | None = None) -> Any:
    """Have a test run on both kinds of loop, with a server of its own."""

    def decorate(test: Any) -> Any:
        def on_loop(loop: str) -> None:
            async def on_server() -> None:
                async with WsSite(limits) as site:
                    await test(site)

            run(on_server, loop)

        on_loop.__name__, on_loop.__doc__ = test.__name__, test.__doc__
        return on_loop

    return decorate


@on_ws()
async def test_a_handshake_is_answered_as_in_the_rfc_and_messages_go_both_ways(site: WsSite) -> None:
    client = await site.connect()
    client.send(handshake())
    status, headers = await client.head()
    assert status == 101
    assert headers["sec-websocket-accept"] == ACCEPT
    assert (headers["upgrade"], headers["connection"]) == ("websocket", "upgrade")
    client.send(frame(TEXT, b"hello") + frame(TEXT, "ä".encode()))
    await until(lambda: site.peer.messages == [b"hello", "ä".encode()])
    site.peer.socket.send([b"one", b"x" * 300])
    assert await read_frame(client) == (0x81, b"one")
    assert await read_frame(client) == (0x81, b"x" * 300)


@on_ws()
async def test_requests_before_the_handshake_are_answered_first(site: WsSite) -> None:
    client = await site.connect()
    client.send(get + handshake())
    assert (await client.reply()).status == 200
    assert (await client.head())[0] == 101
    client.send(frame(TEXT, b"after"))
    await until(lambda: site.peer.messages == [b"after"])


@on_ws()
async def test_frames_that_come_in_one_read_with_the_handshake_are_heard(site: WsSite) -> None:
    client = await site.connect()
    client.send(handshake() + frame(TEXT, b"early"))
    assert (await client.head())[0] == 101
    await until(lambda: site.peer.messages == [b"early"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"Connection": None},
        {"Connection": "close"},
        {"Upgrade": None},
        {"Upgrade": "h2c"},
        {"Sec_WebSocket_Version": "12"},
        {"Sec_WebSocket_Key": None},
        {"Sec_WebSocket_Key": "not base64!"},
        {"Sec_WebSocket_Key": "c2hvcnQ="},
    ],
    ids=str,
)
def test_what_is_no_handshake_gets_400_and_the_connection_goes_on(
    loop: str, wrong: dict[str, str | None]
) -> None:
    async def test() -> None:
        async with WsSite() as site:
            client = await site.connect()
            answer = await client.exchange(handshake(**wrong))
            assert answer.status == 400
            assert b"WebSocket handshake" in answer.body
            assert site.peer.sockets == [None]
            if wrong != {"Connection": "close"}:
                assert (await client.exchange(fetch(b"/x"))).status == 200

    run(test, loop)


@on_ws()
async def test_http_1_0_gets_400(site: WsSite) -> None:
    client = await site.connect()
    assert (await client.exchange(handshake(version=b"1.0"))).status == 400


@on_ws()
async def test_a_message_may_come_in_several_frames_with_a_ping_between_them(site: WsSite) -> None:
    client = await site.opened()
    client.send(
        frame(TEXT, b"he", fin=False) + frame(PING, b"?") + frame(CONT, b"l", fin=False) + frame(CONT, b"lo")
    )
    assert await read_frame(client) == (0x80 | PONG, b"?")
    await until(lambda: site.peer.messages == [b"hello"])


@on_ws()
async def test_frames_that_arrive_byte_by_byte_are_heard(site: WsSite) -> None:
    client = await site.opened()
    for byte in frame(TEXT, b"hello"):
        client.send(bytes([byte]))
        await asyncio.sleep(0)
    await until(lambda: site.peer.messages == [b"hello"])


@on_ws()
async def test_messages_that_are_no_text_are_dropped(site: WsSite) -> None:
    client = await site.opened()
    client.send(
        frame(BINARY, b"no", fin=False) + frame(CONT, b"no") + frame(BINARY, b"no") + frame(PONG, b"no")
    )
    client.send(frame(TEXT, b"yes"))
    await until(lambda: site.peer.messages == [b"yes"])


@on_ws()
async def test_a_peer_that_closes_is_answered_and_its_owner_is_told_once(site: WsSite) -> None:
    client = await site.opened()
    client.send(frame(CLOSE, struct.pack("!H", 1000)))
    assert await read_frame(client) == (0x80 | CLOSE, struct.pack("!H", 1000))
    assert await client.rest() == b""
    client.half_close()
    await site.emptied()
    assert site.peer.closings == 1
    site.peer.socket.send([b"late"])  # has no effect
    assert not site.peer.socket.writable


@pytest.mark.parametrize("end", ["half_close", "vanish"])
def test_a_peer_that_is_gone_is_noticed(loop: str, end: str) -> None:
    async def test() -> None:
        async with WsSite() as site:
            client = await site.opened()
            getattr(client, end)()
            await until(lambda: site.peer.closings == 1)
            await site.emptied()

    run(test, loop)


@pytest.mark.usefixtures("short_linger")
@on_ws()
async def test_its_owner_may_close_it_and_is_not_told(site: WsSite) -> None:
    client = await site.opened()
    site.peer.socket.close()
    assert await read_frame(client) == (0x80 | CLOSE, struct.pack("!H", 1000))
    client.send(frame(CLOSE, struct.pack("!H", 1000)))
    client.half_close()
    await site.emptied()
    assert site.peer.closings == 0


@pytest.mark.usefixtures("short_linger")
@on_ws(WireLimits(stall_timeout_ms=40))
async def test_a_peer_that_never_hangs_up_is_cut_off(site: WsSite) -> None:
    client = await site.opened()
    site.peer.socket.close()
    assert (await read_frame(client))[0] == 0x80 | CLOSE
    await until(lambda: site.server.counters.connections == 0)


# -- peers that mean no good


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\xff" * 64, 1002),  # reserved bits and an unknown opcode
        (b"GET / HTTP/1.1\r\n\r\n", 1002),
        (frame(3), 1002),
        (frame(TEXT, b"no mask", masked=False), 1002),
        (frame(CONT, b"of nothing"), 1002),
        (frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(TEXT, b"x" * (MAX_MESSAGE + 1)), 1009),
        (frame(TEXT, b"x" * 600, fin=False) + frame(CONT, b"x" * 600), 1009),
    ],
    ids=lambda value: value[:24].hex() if isinstance(value, bytes) else str(value),
)
def test_what_is_no_frame_or_too_long_ends_the_connection_with_its_code(
    loop: str, sent: bytes, code: int
) -> None:
    async def test() -> None:
        async with WsSite() as site:
            client = await site.opened()
            client.send(sent)
            first, payload = await read_frame(client)
            assert first == 0x80 | CLOSE
            assert struct.unpack("!H", payload[:2]) == (code,)
            assert await client.rest() == b""
            client.half_close()
            await until(lambda: site.peer.closings == 1)
            await site.emptied()

    run(test, loop)


@on_ws()
async def test_zizq_93_a_frame_of_100_mib_is_refused_by_its_head(site: WsSite) -> None:
    """Nothing of it is kept, however much comes."""
    client = await site.opened()
    client.send(b"\x81\xff" + struct.pack("!Q", 100 << 20) + b"\0\0\0\0" + b"x" * 5_000)
    first, payload = await read_frame(client)
    assert (first, struct.unpack("!H", payload[:2])) == (0x80 | CLOSE, (1009,))
    wire: Any = site.peer.socket
    assert len(wire._rest) <= 5_000
    assert site.peer.messages == []


@on_ws()
async def test_very_many_small_frames_leave_the_others_their_turn(site: WsSite) -> None:
    client = await site.opened()
    other = await site.connect()
    client.send(frame(TEXT) * 40_000)
    await until(lambda: site.peer.messages)
    assert (await other.exchange(fetch(b"/x"))).status == 200
    assert len(site.peer.messages) < 40_000
    await until(lambda: len(site.peer.messages) == 40_000)


@on_ws()
async def test_messages_wait_while_the_owner_holds_and_the_peer_is_not_read_meanwhile(site: WsSite) -> None:
    client = await site.opened()
    socket = site.peer.socket

    def once(message: bytes) -> None:
        site.peer.messages.append(message)
        socket.hold()

    socket.on_message = once
    client.send(frame(TEXT, b"1") + frame(TEXT, b"2") + frame(TEXT, b"3"))
    await until(lambda: site.peer.messages == [b"1"])
    wire: Any = socket
    assert not wire._transport.is_reading()
    socket.go_on()
    assert site.peer.messages == [b"1", b"2"]
    socket.go_on()
    assert site.peer.messages == [b"1", b"2", b"3"]
    socket.go_on()
    assert wire._transport.is_reading()


@on_ws()
async def test_an_owner_may_go_on_while_it_takes_a_message(site: WsSite) -> None:
    """However many wait: none is delivered inside another."""
    client = await site.opened()
    depth = deepest = 0

    def take(message: bytes) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        site.peer.messages.append(message)
        site.peer.socket.hold()
        site.peer.socket.go_on()
        depth -= 1

    site.peer.socket.on_message = take
    client.send(frame(TEXT, b"x") * 2_000)
    await until(lambda: len(site.peer.messages) == 2_000)
    assert deepest == 1


@on_ws(WireLimits(write_buffer=10_000))
async def test_a_peer_that_reads_nothing_is_not_written_to_and_not_read(site: WsSite) -> None:
    """What it sends meanwhile, pings above all, would be answered into memory."""
    client = await site.opened(small=True)
    socket, drained = site.peer.socket, asyncio.Event()
    socket.on_drain = drained.set
    sent = 0
    while socket.writable:
        socket.send([b"x" * 5_000])
        sent += 1
        await asyncio.sleep(0)
    wire: Any = socket
    assert not wire._transport.is_reading()
    assert wire._transport.get_write_buffer_size() < 30_000
    client.resume()
    for _ in range(sent):
        assert len((await read_frame(client))[1]) == 5_000
    async with asyncio.timeout(limit_s):
        await drained.wait()
    assert socket.writable
    assert wire._transport.is_reading()


@on_ws(WireLimits(write_buffer=10_000, stall_timeout_ms=200))
async def test_a_peer_that_reads_nothing_for_long_is_cut_off(site: WsSite) -> None:
    await site.opened(small=True)
    while site.peer.socket.writable:
        site.peer.socket.send([b"x" * 5_000])
        await asyncio.sleep(0)
    await until(lambda: site.peer.closings == 1)
    assert site.refused == {"stalled_reader": 1}
    await site.emptied()


@on_ws(WireLimits(idle_timeout_ms=40, header_timeout_ms=40))
async def test_a_quiet_peer_stays(site: WsSite) -> None:
    client = await site.opened()
    other = await site.connect()
    assert await other.rest() == b""  # the idle one is closed by then
    site.peer.socket.send([b"there"])
    assert await read_frame(client) == (0x81, b"there")


@on_ws()
async def test_a_server_that_goes_away_says_so(site: WsSite) -> None:
    client = await site.opened()
    draining = asyncio.create_task(site.server.drain(2_000))
    assert await read_frame(client) == (0x80 | CLOSE, struct.pack("!H", 1001))
    assert site.peer.closings == 1
    client.half_close()
    await draining

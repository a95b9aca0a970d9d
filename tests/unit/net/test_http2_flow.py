"""Flow control towards the peer, streams with back-pressure, and what cuts a reader off."""

from __future__ import annotations

import h2.settings
import pytest

from anew.net.http2.streams import Http2Exchange
from anew.net.seam import Stream

from .http2_peer import Peer, RawPeer, frame, get_block, in_loop

initial_window = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE


async def open_one(peer: Peer) -> tuple[int, Stream]:
    number = peer.ask("/jobs/take")
    await peer.turn()
    stream = peer.requests.pop().open_stream(200, b"application/x-ndjson")
    assert stream is not None
    await peer.turn()
    return number, stream


@in_loop
async def test_a_large_answer_waits_for_the_windows() -> None:
    peer = Peer()
    stream = peer.ask("/jobs")
    await peer.turn()
    peer.requests[0].reply(200, bytes(200_000))
    await peer.turn()
    assert len(peer.body(stream)) == 65_535  # RFC 9113 section 6.9.2: what every window starts with
    peer.client.increment_flow_control_window(100_000, stream)
    await peer.turn()
    assert len(peer.body(stream)) == 65_535  # the connection's window is still empty
    peer.client.increment_flow_control_window(100_000)
    await peer.turn()
    assert len(peer.body(stream)) == 165_535
    peer.client.increment_flow_control_window(100_000)
    peer.client.increment_flow_control_window(100_000, stream)
    await peer.turn()
    assert peer.body(stream) == bytes(200_000)
    assert peer.ended(stream)


@in_loop
async def test_waiting_answers_take_turns() -> None:
    peer = Peer()
    streams = [peer.ask("/jobs") for _ in range(3)]
    await peer.turn()
    for request in peer.requests:
        request.reply(200, bytes(100_000))
    peer.client.increment_flow_control_window(90_000)
    await peer.turn()
    sizes = [len(peer.body(stream)) for stream in streams]
    assert sum(sizes) == 155_535
    assert min(sizes) > 0


@in_loop
async def test_a_new_initial_window_moves_open_streams() -> None:
    peer = Peer()
    peer.client.update_settings({initial_window: 10})
    stream = peer.ask("/jobs")
    await peer.turn()
    peer.requests[0].reply(200, b"x" * 25)
    await peer.turn()
    assert peer.body(stream) == b"x" * 10
    peer.client.update_settings({initial_window: 3})  # the window is now -7
    await peer.turn()
    peer.client.increment_flow_control_window(8, stream)
    await peer.turn()
    assert peer.body(stream) == b"x" * 11
    peer.client.update_settings({initial_window: 100})
    await peer.turn()
    assert peer.body(stream) == b"x" * 25
    assert peer.ended(stream)


@in_loop
async def test_a_window_that_a_new_initial_window_would_lift_above_its_limit() -> None:
    peer = RawPeer()
    peer.send(frame(1, 5, 1, get_block), frame(8, 0, 1, (1 << 30).to_bytes(4, "big")))
    peer.send(frame(4, 0, 0, b"\0\x04" + ((1 << 30) - 1).to_bytes(4, "big")))
    assert await peer.goaway_code() is None
    peer.send(frame(4, 0, 0, b"\0\x04" + (1 << 30).to_bytes(4, "big")))
    assert await peer.goaway_code() == 3


def blocked(peer: RawPeer, streams: int) -> list[int]:
    """Let answers wait for their windows, and count from now on how often the sender looks at one of them."""
    peer.send(
        frame(4, 0, 0, b"\0\x04" + bytes(4)), *[frame(1, 5, 2 * n + 1, get_block) for n in range(streams)]
    )
    for request in peer.requests:
        request.reply(200, bytes(100_000))
    looks = [0]
    fitting = peer.conn.sender._fitting

    def counted(exchange: Http2Exchange) -> int:
        looks[0] += 1
        return fitting(exchange)

    peer.conn.sender._fitting = counted  # type: ignore[method-assign]
    return looks


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(frame(4, 0, 0, b"\0\x04\0\0\0\0" * 99), id="a setting of 0"),
        pytest.param(frame(8, 0, 0, b"\0\0\x01\0"), id="the connection's window"),
        pytest.param(frame(8, 0, 1, b"\0\0\0\1"), id="a stream's window"),
    ],
)
@in_loop
async def test_frames_of_one_read_look_at_blocked_answers_once(item: bytes) -> None:
    peer = RawPeer()
    looks = blocked(peer, 150)
    peer.send(*[item] * 18)
    assert looks[0] <= 150 + 2


@in_loop
async def test_a_change_of_the_initial_window_touches_no_stream() -> None:
    peer = RawPeer()
    blocked(peer, 150)
    before = [exchange.credit for exchange in peer.conn.streams.values()]
    peer.send(frame(4, 0, 0, b"\0\x04\0\0\0\x05"))
    sent = [payload for kind, _, _, payload in await peer.frames() if kind == 0]
    assert sent == [bytes(5)] * 150  # and yet every window is 5 bytes wider
    assert [exchange.credit for exchange in peer.conn.streams.values()] == [credit - 5 for credit in before]


@in_loop
async def test_a_stream_goes_out_piece_by_piece() -> None:
    peer = Peer()
    number, stream = await open_one(peer)
    assert peer.status(number) == 200
    assert b"content-length" not in peer.fields(number)
    stream.write(b"one\n")
    await peer.turn()
    assert peer.body(number) == b"one\n"
    stream.write(b"two\n")
    stream.close()
    stream.write(b"never")
    await peer.turn()
    assert peer.body(number) == b"one\ntwo\n"
    assert peer.ended(number)


@in_loop
async def test_a_stream_is_not_writable_above_the_high_water_mark() -> None:
    peer = Peer(write_buffer=1_000)
    number, stream = await open_one(peer)
    drained: list[int] = []
    stream.on_drain = lambda: drained.append(len(peer.body(number)))
    stream.write(bytes(65_535))
    stream.write(bytes(1_000))
    assert stream.writable
    stream.write(bytes(1))
    assert not stream.writable
    await peer.turn()
    peer.client.increment_flow_control_window(400, number)
    peer.client.increment_flow_control_window(2_000)
    await peer.turn()
    assert (stream.writable, drained) == (False, [])  # 601 wait, more than half the mark
    peer.client.increment_flow_control_window(200, number)
    await peer.turn()
    assert stream.writable
    assert len(drained) == 1
    peer.client.increment_flow_control_window(2_000, number)
    await peer.turn()
    assert len(peer.body(number)) == 66_536
    assert len(drained) == 1


@in_loop
async def test_a_stream_waits_for_the_transport() -> None:
    peer = Peer()
    number, stream = await open_one(peer)
    drained: list[bool] = []
    stream.on_drain = lambda: drained.append(True)
    peer.conn.pause_writing()
    assert not stream.writable
    assert not peer.transport.reading
    stream.write(b"later")
    await peer.turn()
    assert peer.body(number) == b""
    peer.conn.resume_writing()
    assert peer.transport.reading
    await peer.turn()
    assert (peer.body(number), stream.writable, drained) == (b"later", True, [True])


@in_loop
async def test_what_is_queued_comes_before_the_end() -> None:
    peer = Peer()
    number, stream = await open_one(peer)
    stream.write(bytes(100_000))
    stream.close()
    await peer.turn()
    assert not peer.ended(number)
    peer.client.increment_flow_control_window(100_000, number)
    peer.client.increment_flow_control_window(100_000)
    await peer.turn()
    assert len(peer.body(number)) == 100_000
    assert peer.ended(number)


@in_loop
async def test_on_close_when_the_peer_resets() -> None:
    peer = Peer()
    number, stream = await open_one(peer)
    closed: list[bool] = []
    stream.on_close = lambda: closed.append(True)
    peer.client.reset_stream(number, 8)
    peer.conn.data_received(peer.client.data_to_send())
    assert closed == [True]
    stream.write(b"nobody reads this")
    stream.close()
    peer.conn.connection_lost(None)
    assert closed == [True]


@in_loop
async def test_on_close_when_the_connection_is_lost() -> None:
    peer = Peer()
    _, stream = await open_one(peer)
    closed: list[bool] = []
    stream.on_close = lambda: closed.append(True)
    peer.conn.connection_lost(ConnectionResetError())
    assert closed == [True]
    assert peer.gone == [peer.conn]


@in_loop
async def test_an_owner_that_fails_does_not_keep_the_others_from_hearing() -> None:
    peer = Peer()
    closed: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError

    for hook in (fail, lambda: closed.append(1), fail, lambda: closed.append(2)):
        _, stream = await open_one(peer)
        stream.on_close = hook
    peer.conn.connection_lost(None)
    assert closed == [1, 2]


@pytest.mark.parametrize("how", ["close", "abort"])
@in_loop
async def test_no_on_close_for_our_own_end(how: str) -> None:
    peer = Peer()
    number, stream = await open_one(peer)
    closed: list[bool] = []
    stream.on_close = lambda: closed.append(True)
    stream.write(bytes(65_536) if how == "abort" else b"x")
    getattr(stream, how)()
    await peer.turn()
    peer.conn.connection_lost(None)
    assert closed == []
    assert peer.ended(number) == (how == "close")
    assert peer.reset_code(number) == (8 if how == "abort" else None)


@in_loop
async def test_a_stream_that_is_not_read_is_cut_off() -> None:
    peer = Peer(stall_timeout_ms=30_000)
    number, stream = await open_one(peer)
    other, lively = await open_one(peer)
    closed: list[bool] = []
    stream.on_close = lambda: closed.append(True)
    peer.client.increment_flow_control_window(1_000_000)
    stream.write(bytes(70_000))
    await peer.turn()
    peer.conn.sweep(1_000)
    peer.conn.sweep(30_999)
    assert closed == []
    lively.write(b"still here")
    peer.conn.sweep(31_000)
    assert closed == [True]
    await peer.turn()
    assert peer.reset_code(number) == 8
    assert peer.body(other) == b"still here"
    assert peer.counters.refused == {"stalled_reader": 1}


@in_loop
async def test_progress_gives_a_slow_reader_more_time() -> None:
    peer = Peer(stall_timeout_ms=30_000)
    number, stream = await open_one(peer)
    peer.client.increment_flow_control_window(1_000_000)
    stream.write(bytes(100_000))
    await peer.turn()
    for now_ms in range(0, 200_000, 20_000):
        peer.conn.sweep(now_ms)
        peer.client.increment_flow_control_window(1_000, number)
        await peer.turn()
    assert peer.reset_code(number) is None


@in_loop
async def test_a_transport_that_is_not_read_is_cut_off() -> None:
    peer = Peer(stall_timeout_ms=30_000)
    _, stream = await open_one(peer)
    closed: list[bool] = []
    stream.on_close = lambda: closed.append(True)
    peer.transport.stuck = 500
    peer.conn.sweep(1_000)
    peer.transport.stuck = 400  # progress
    peer.conn.sweep(20_000)
    peer.conn.sweep(49_999)
    assert not peer.transport.aborted
    peer.conn.sweep(50_000)
    assert peer.transport.aborted
    assert closed == [True]


@in_loop
async def test_a_window_above_its_limit() -> None:
    peer = RawPeer()
    top = (0x7FFFFFFF).to_bytes(4, "big")
    peer.send(frame(1, 5, 1, get_block), frame(8, 0, 1, top))
    assert await peer.reset_codes() == {1: 3}
    peer.send(frame(8, 0, 0, top))
    assert await peer.goaway_code() == 3


@in_loop
async def test_more_data_than_the_streams_window() -> None:
    # Windows are given back as bytes arrive, but not for a body that was refused already: its answer waits here.
    peer = RawPeer(max_body=10)
    peer.send(frame(4, 0, 0, b"\0\x04\0\0\0\0"), frame(1, 4, 1, get_block), frame(0, 0, 1, bytes(11)))
    assert [kind for kind, _, stream, _ in await peer.frames() if stream] == [1]
    mebibyte = 1 << 20
    peer.send(*[frame(0, 0, 1, bytes(16_384))] * (mebibyte // 16_384 - 1), frame(0, 0, 1, bytes(16_373)))
    assert await peer.reset_codes() == {}
    peer.send(frame(0, 0, 1, b"x"))
    assert await peer.reset_codes() == {1: 3}

"""Broken rules, floods, slow peers and the end of a connection; codes as RFC 9113 section 7 numbers them."""

from __future__ import annotations

import json

import pytest

from anew.net.http2.budgets import Budgets
from anew.net.http2.frames import ConnectionFault
from anew.net.seam import Request

from .http2_peer import Peer, RawPeer, frame, get_block, in_loop, post_block

PROTOCOL, FLOW, CLOSED, SIZE, REFUSED, COMPRESSION, CALM = 1, 3, 5, 6, 7, 9, 11


def setting(key: int, value: int) -> bytes:
    return frame(4, 0, 0, key.to_bytes(2, "big") + value.to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("code", "data"),
    [
        pytest.param(SIZE, frame(0, 0, 1, bytes(16_385)), id="frame above 16 KiB"),
        pytest.param(PROTOCOL, frame(0, 0, 1, b"x"), id="DATA on an idle stream"),
        pytest.param(PROTOCOL, frame(0, 0, 0, b"x"), id="DATA without stream"),
        pytest.param(PROTOCOL, frame(1, 5, 0, get_block), id="HEADERS without stream"),
        pytest.param(PROTOCOL, frame(1, 5, 2, get_block), id="even stream"),
        pytest.param(PROTOCOL, frame(1, 5, 5, get_block) + frame(1, 5, 3, get_block), id="lower stream"),
        pytest.param(PROTOCOL, frame(1, 13, 1, b"\x09" + get_block), id="padding too long"),
        pytest.param(PROTOCOL, frame(1, 37, 1, b"\0\0\0\x01\0" + get_block), id="depends on itself"),
        pytest.param(SIZE, frame(1, 37, 1, b"\0\0"), id="HEADERS shorter than its priority"),
        pytest.param(COMPRESSION, frame(1, 5, 1, b"\x80"), id="bad header block"),
        pytest.param(PROTOCOL, frame(1, 1, 1, get_block) + frame(6, 0, 0, bytes(8)), id="block interrupted"),
        pytest.param(PROTOCOL, frame(1, 1, 1, get_block) + frame(9, 4, 3), id="CONTINUATION elsewhere"),
        pytest.param(PROTOCOL, frame(9, 4, 1), id="CONTINUATION alone"),
        pytest.param(PROTOCOL, frame(2, 0, 0, bytes(5)), id="PRIORITY without stream"),
        pytest.param(PROTOCOL, frame(3, 0, 0, bytes(4)), id="RST_STREAM without stream"),
        pytest.param(PROTOCOL, frame(3, 0, 1, bytes(4)), id="RST_STREAM on an idle stream"),
        pytest.param(SIZE, frame(1, 4, 1, get_block) + frame(3, 0, 1, bytes(3)), id="short RST_STREAM"),
        pytest.param(PROTOCOL, frame(4, 0, 1), id="SETTINGS on a stream"),
        pytest.param(SIZE, frame(4, 0, 0, bytes(5)), id="SETTINGS of 5 bytes"),
        pytest.param(SIZE, frame(4, 1, 0, bytes(6)), id="SETTINGS ACK with values"),
        pytest.param(PROTOCOL, setting(2, 2), id="ENABLE_PUSH 2"),
        pytest.param(FLOW, setting(4, 1 << 31), id="INITIAL_WINDOW_SIZE 2^31"),
        pytest.param(PROTOCOL, setting(5, 16_383), id="MAX_FRAME_SIZE too small"),
        pytest.param(PROTOCOL, setting(5, 1 << 24), id="MAX_FRAME_SIZE too large"),
        pytest.param(PROTOCOL, frame(5, 4, 1, bytes(4)), id="PUSH_PROMISE"),
        pytest.param(PROTOCOL, frame(6, 0, 1, bytes(8)), id="PING on a stream"),
        pytest.param(SIZE, frame(6, 0, 0, bytes(7)), id="short PING"),
        pytest.param(PROTOCOL, frame(7, 0, 1, bytes(8)), id="GOAWAY on a stream"),
        pytest.param(PROTOCOL, frame(8, 0, 0, bytes(4)), id="WINDOW_UPDATE by zero"),
        pytest.param(SIZE, frame(8, 0, 0, bytes(3)), id="short WINDOW_UPDATE"),
        pytest.param(PROTOCOL, frame(8, 0, 1, b"\0\0\0\1"), id="WINDOW_UPDATE on an idle stream"),
    ],
)
@in_loop
async def test_ends_the_connection(code: int, data: bytes) -> None:
    peer = RawPeer()
    peer.send(data)
    assert await peer.goaway_code() == code
    assert peer.transport.ended
    assert peer.counters.refused == {"protocol": 1}
    peer.send(frame(1, 5, 9, get_block))  # nothing more is read
    assert all(request.path == b"/" for request in peer.requests)
    assert await peer.frames() == []


@pytest.mark.parametrize(
    ("code", "data"),
    [
        pytest.param(PROTOCOL, frame(1, 5, 1, b"\x82\x84"), id="malformed head"),
        pytest.param(SIZE, frame(2, 0, 1, bytes(4)), id="PRIORITY of 4 bytes"),
        pytest.param(PROTOCOL, frame(2, 0, 1, b"\0\0\0\1\0"), id="depends on itself"),
        pytest.param(CLOSED, frame(1, 5, 1, get_block) + frame(0, 0, 1, b"x"), id="DATA after the end"),
        pytest.param(CLOSED, frame(1, 5, 1, get_block) + frame(1, 5, 1, b""), id="HEADERS after the end"),
        pytest.param(
            PROTOCOL, frame(1, 4, 1, get_block) + frame(1, 4, 1, b""), id="trailers without the end"
        ),
        pytest.param(PROTOCOL, frame(1, 4, 1, get_block) + frame(1, 5, 1, b"\x84"), id=":path in trailers"),
        pytest.param(PROTOCOL, frame(1, 5, 1, get_block) + frame(8, 0, 1, bytes(4)), id="window by zero"),
    ],
)
@in_loop
async def test_ends_the_stream_only(code: int, data: bytes) -> None:
    peer = RawPeer()
    peer.send(data)
    assert await peer.reset_codes() == {1: code}
    peer.requests.clear()
    peer.send(frame(1, 5, 3, get_block))
    assert len(peer.requests) == 1
    peer.requests[0].reply(200, b"{}")
    assert [kind for kind, _, _, _ in await peer.frames()] == [1, 0]


@in_loop
async def test_a_frame_for_a_closed_stream() -> None:
    peer = RawPeer(lambda request: request.reply(204))
    peer.send(frame(1, 5, 1, get_block), frame(8, 0, 1, b"\0\0\1\0"), frame(3, 0, 1, bytes(4)))
    assert await peer.goaway_code() is None  # those two may have crossed our answer
    peer.send(frame(0, 1, 1, b"x"))
    assert await peer.goaway_code() == CLOSED


@in_loop
async def test_late_frames_of_a_stream_we_reset_are_passed_over() -> None:
    peer = RawPeer()
    peer.send(frame(1, 4, 1, b"\x82\x84"), frame(0, 0, 1, b"x"), frame(1, 5, 1, b""))
    assert await peer.reset_codes() == {1: PROTOCOL}
    assert not peer.transport.ended


@in_loop
async def test_ping_is_answered_and_the_unknown_ignored() -> None:
    peer = RawPeer()
    await peer.frames()
    peer.send(
        frame(6, 0, 0, b"12345678"), frame(0x20, 7, 9, b"what?"), frame(6, 1, 0, bytes(8)), setting(99, 1)
    )
    assert await peer.frames() == [(6, 1, 0, b"12345678"), (4, 1, 0, b"")]


@in_loop
async def test_a_block_in_pieces_with_priority_and_padding() -> None:
    peer = RawPeer()
    head = b"\x03" + b"\0\0\0\0\x10" + post_block[:2] + bytes(3)
    peer.send(frame(1, 40, 1, head), frame(9, 0, 1, post_block[2:4]), frame(9, 4, 1, post_block[4:]))
    peer.send(frame(0, 9, 1, b"\x02{}" + bytes(2)))
    assert peer.requests[0].body == b"{}"


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param([frame(6, 0, 0, bytes(8))] * 2100, id="PING"),
        pytest.param([frame(4, 0, 0)] * 2100, id="SETTINGS"),
        pytest.param([frame(2, 0, 1, bytes(5))] * 2100, id="PRIORITY"),
        pytest.param([frame(0x42, 0, 0)] * 2100, id="unknown"),
        pytest.param([frame(4, 0, 0, bytes(6) * 2100)], id="entries of one SETTINGS"),
        pytest.param([frame(8, 0, 0, b"\0\0\0\1")] * 2100, id="tiny WINDOW_UPDATE"),
        pytest.param([frame(8, 0, 0, b"\0\0\x10\0")] * 2100, id="large WINDOW_UPDATE"),
        pytest.param([frame(1, 4, 1, get_block), *[frame(0, 0, 1)] * 2100], id="empty DATA"),
        pytest.param([frame(1, 4, 1, get_block), *[frame(0, 0, 1, b"x")] * 2100], id="DATA of a byte"),
        pytest.param(
            [frame(1, 4, 1, get_block), *[frame(0, 8, 1, b"\xfe" + bytes(255))] * 2100], id="padding"
        ),
        pytest.param([frame(1, 0, 1, get_block), *[frame(9, 0, 1)] * 40], id="empty CONTINUATION"),
        pytest.param([frame(1, 0, 1), *[frame(9, 0, 1, bytes(16_384))] * 5], id="large CONTINUATION"),
        pytest.param(
            [frame(1, 5, n, get_block) + frame(3, 0, n, bytes(4)) for n in range(1, 1201, 2)],
            id="rapid reset",
        ),
        pytest.param(
            [frame(1, 5, n, get_block) + frame(8, 0, n, bytes(4)) for n in range(1, 1201, 2)],
            id="rapid reset by our side",
        ),
    ],
)
@in_loop
async def test_floods_end_the_connection(flood: list[bytes]) -> None:
    peer = RawPeer()
    peer.send(*flood)
    assert await peer.goaway_code() == CALM
    assert peer.transport.ended


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(frame(6, 0, 0, bytes(8)), id="PING"),
        pytest.param(frame(8, 0, 0, b"\0\0\x10\0"), id="WINDOW_UPDATE"),
        pytest.param(frame(0, 0, 1), id="empty DATA"),
    ],
)
@in_loop
async def test_a_new_second_brings_a_new_budget(item: bytes) -> None:
    peer = RawPeer()
    peer.send(frame(1, 4, 1, get_block))
    for second in range(1, 6):
        peer.send(*[item] * 1500)
        peer.conn.sweep(second * 1000)
    assert not peer.transport.ended


def test_what_was_sent_pays_for_window_updates_in_its_second_and_the_next() -> None:
    budgets = Budgets()
    budgets.sweep(1_000, 0)
    budgets.sweep(2_000, 32_000)  # sent between 1 s and 2 s: 32,000 / 32 = 1,000 more than 2,000
    for _ in range(3_000):
        budgets.spend_update(32_000)
    with pytest.raises(ConnectionFault):
        budgets.spend_update(32_000)
    budgets.sweep(3_000, 32_000)
    for _ in range(2_000):
        budgets.spend_update(32_000)
    with pytest.raises(ConnectionFault):
        budgets.spend_update(32_000)


@pytest.mark.parametrize(
    ("most", "item"),
    [
        pytest.param(2000, frame(6, 0, 0, bytes(8)), id="PING"),
        pytest.param(1000, frame(4, 0, 0, bytes(6)), id="SETTINGS with one entry"),
        pytest.param(1, frame(4, 0, 0, bytes(6) * 1200), id="SETTINGS with 1200"),
        pytest.param(2000, frame(8, 0, 0, b"\0\0\x10\0"), id="WINDOW_UPDATE"),
        pytest.param(2000, frame(0, 0, 1), id="empty DATA"),
        # 64 bytes of body pay for a frame: 2,000 * 64 / (64 - 24) = 3,200.
        pytest.param(3200, frame(0, 0, 1, bytes(24)), id="DATA of 24 bytes"),
    ],
)
@in_loop
async def test_each_budget_is_exact(most: int, item: bytes) -> None:
    peer = RawPeer()
    await peer.frames()
    for now_ms in (1_000, 2_000):  # both sides' first SETTINGS are of other seconds
        peer.conn.sweep(now_ms)
    peer.send(frame(1, 4, 1, get_block), item * most)
    assert await peer.goaway_code() is None
    peer.send(item)
    assert await peer.goaway_code() == CALM


@in_loop
async def test_data_in_frames_of_64_bytes_and_more_is_never_too_much() -> None:
    peer = RawPeer(max_body=1 << 20)
    peer.send(frame(1, 4, 1, get_block), frame(0, 0, 1, bytes(64)) * 8_000)
    peer.send(*[frame(0, 0, 1, bytes(1)) + frame(0, 0, 1, bytes(200))] * 2_500)
    assert await peer.goaway_code() is None


@in_loop
async def test_what_is_sent_pays_for_window_updates() -> None:
    """65,535 bytes leave at once, in frames of at most 16,384: 2,000 + 65,535 / 32 updates are welcome at least."""
    peer = RawPeer()
    peer.send(frame(1, 5, 1, get_block))
    peer.requests[0].reply(200, bytes(1 << 20))
    await peer.frames()
    peer.send(frame(8, 0, 0, b"\0\0\0\1") * 4_047)
    assert await peer.goaway_code() is None
    peer.send(frame(8, 0, 0, b"\0\0\0\1") * 100)  # the heads of those frames are less than 3,200 bytes
    assert await peer.goaway_code() == CALM


@in_loop
async def test_a_slow_head_ends_the_connection() -> None:
    peer = RawPeer(header_timeout_ms=10_000)
    data = frame(1, 5, 1, get_block)
    for second in range(10):
        peer.send(data[second : second + 1])
        peer.conn.sweep(1_000 * second)
    assert not peer.transport.ended
    peer.conn.sweep(10_000)
    assert await peer.goaway_code() == 0
    assert peer.transport.ended
    assert peer.counters.refused == {"slow_head": 1}


@in_loop
async def test_a_block_without_end_ends_the_connection() -> None:
    peer = RawPeer(header_timeout_ms=10_000)
    peer.send(frame(1, 1, 1, get_block))
    peer.conn.sweep(0)
    peer.send(frame(9, 0, 1))
    peer.conn.sweep(10_000)
    assert peer.transport.ended


@in_loop
async def test_an_idle_connection_is_welcome_for_ten_minutes() -> None:
    peer = RawPeer()
    for now_ms in (1, 300_000, 600_000):
        peer.conn.sweep(now_ms)
    assert not peer.transport.ended
    peer.conn.sweep(600_001)
    assert peer.transport.ended
    assert await peer.goaway_code() == 0


@in_loop
async def test_a_body_that_stops_is_408_within_seconds_whatever_came_before() -> None:
    peer = RawPeer(header_timeout_ms=10_000, body_rate=1024)
    peer.send(frame(1, 4, 1, post_block + b"\x0f\x0d\x06999999"))
    await peer.frames()
    for second in range(1, 31):
        peer.send(frame(0, 0, 1, bytes(16_000)))
        peer.conn.sweep(second * 1_000)
    for second in range(31, 35):
        peer.conn.sweep(second * 1_000)
        assert [kind for kind, _, stream, _ in await peer.frames() if stream] == []
    peer.conn.sweep(35_000)
    (_, _, _, block), (_, _, _, body) = [answer for answer in await peer.frames() if answer[2]]
    assert block.startswith(b"\x08\x03408")  # :status as a literal, RFC 7541 section 6.2.2
    assert "1024" in json.loads(body)["error"]
    assert peer.counters.refused == {"slow_body": 1}
    assert peer.counters.unfinished == 0


@in_loop
async def test_a_body_of_just_the_rate_is_fast_enough() -> None:
    peer = RawPeer(header_timeout_ms=10_000, body_rate=1024)
    peer.send(frame(1, 4, 1, post_block))
    for second in range(1, 100):
        peer.conn.sweep(second * 1_000)
        peer.send(frame(0, 0, 1, bytes(1024)))
    peer.send(frame(0, 1, 1))
    assert len(peer.requests[0].body) == 99 * 1024


@in_loop
async def test_a_body_is_not_slow_while_we_do_not_read() -> None:
    peer = RawPeer(header_timeout_ms=10_000, body_rate=1024)
    peer.send(frame(1, 4, 1, post_block))
    peer.conn.sweep(1_000)
    peer.conn.pause_writing()
    peer.conn.sweep(60_000)
    peer.conn.resume_writing()
    for now_ms in (61_000, 65_000, 70_999):
        peer.conn.sweep(now_ms)
    assert peer.counters.refused == {}
    peer.conn.sweep(71_000)
    assert peer.counters.refused == {"slow_body": 1}


@in_loop
async def test_drain_finishes_what_was_asked_and_refuses_the_rest() -> None:
    peer = RawPeer()
    peer.send(frame(1, 5, 1, get_block))
    await peer.frames()
    peer.conn.drain()
    (goaway,) = await peer.frames()
    assert goaway[:3] == (7, 0, 0)
    assert goaway[3][:8] == bytes((0, 0, 0, 1, 0, 0, 0, 0))  # last stream 1, NO_ERROR
    peer.send(frame(1, 5, 3, get_block))
    assert await peer.reset_codes() == {3: REFUSED}
    assert not peer.transport.ended
    peer.requests[0].reply(200, b"{}")
    assert [kind for kind, _, _, _ in await peer.frames()] == [1, 0]
    assert peer.transport.ended


@in_loop
async def test_drain_closes_an_idle_connection() -> None:
    peer = RawPeer()
    peer.conn.drain()
    assert peer.transport.ended


@in_loop
async def test_the_end_waits_for_the_peer_so_that_it_reads_the_last_answer() -> None:
    peer = RawPeer()
    peer.conn.drain()
    assert (peer.transport.ended, peer.transport.closed) == (True, False)
    peer.send(frame(4, 1, 0))
    assert not peer.conn.eof_received()  # which closes the transport


@in_loop
async def test_the_end_does_not_wait_for_ever() -> None:
    peer = RawPeer()
    peer.conn.drain()
    peer.transport.stuck = 9
    peer.conn.sweep(1_000)
    peer.transport.stuck = 0
    peer.conn.sweep(5_000)
    peer.conn.sweep(6_999)
    assert not peer.transport.closed
    peer.conn.sweep(7_000)
    assert peer.transport.closed


@in_loop
async def test_a_transport_that_cannot_end_by_halves_is_closed() -> None:
    peer = RawPeer()
    peer.transport.half_closes = False
    peer.conn.drain()
    assert peer.transport.closed


@in_loop
async def test_drained_streams_end_cleanly_after_last_words() -> None:
    peer = RawPeer()
    peer.send(frame(1, 5, 1, get_block))
    stream = peer.requests[0].open_stream(200, b"application/x-ndjson")
    assert stream is not None
    peer.conn.drain()
    await peer.frames()
    assert not peer.transport.ended
    stream.on_close = lambda: stream.write(b"last words\n")
    peer.conn.drain_streams()
    assert await peer.frames() == [(0, 0, 1, b"last words\n"), (0, 1, 1, b"")]
    assert peer.transport.ended


@in_loop
async def test_abort_tells_the_streams_at_once() -> None:
    peer = Peer()
    peer.ask("/jobs/take")
    await peer.turn()
    stream = peer.requests[0].open_stream(200, b"application/x-ndjson")
    assert stream is not None
    closed: list[bool] = []
    stream.on_close = lambda: closed.append(True)
    peer.conn.abort()
    assert (closed, peer.transport.aborted) == ([True], True)


@in_loop
async def test_after_abort_the_rest_of_a_read_reaches_nobody() -> None:
    peer = RawPeer(lambda request: (seen.append(request), peer.conn.abort())[0])
    seen: list[Request] = []
    peer.send(frame(1, 5, 1, get_block), frame(1, 5, 3, get_block))
    assert len(seen) == 1


@in_loop
async def test_half_closed_clients_get_their_answers_but_no_streams() -> None:
    taken: list[Request] = []
    peer = Peer(taken.append)
    number, _ = peer.ask("/jobs"), peer.ask("/jobs/take")
    await peer.turn()
    stream = taken[1].open_stream(200, b"application/x-ndjson")
    assert stream is not None
    closed: list[bool] = []
    stream.on_close = lambda: closed.append(True)
    assert not taken[0].hung_up
    assert peer.conn.eof_received() is True
    assert closed == [True]
    assert taken[0].hung_up  # what takes long ends, since whoever has left cannot be told from this
    taken[0].reply(200, b"{}")
    await peer.turn()
    assert peer.ended(number)
    assert peer.transport.closed


@in_loop
async def test_an_end_with_nothing_open_closes() -> None:
    peer = RawPeer()
    assert not peer.conn.eof_received()


@in_loop
async def test_an_answer_after_the_end_does_nothing() -> None:
    peer = RawPeer()
    peer.send(frame(1, 5, 1, get_block))
    peer.conn.connection_lost(None)
    peer.requests[0].reply(200, b"{}")
    assert peer.requests[0].open_stream(200, b"text/plain") is None
    assert peer.gone == [peer.conn]


@in_loop
async def test_a_bomb_of_references_ends_the_connection_at_its_first_frame() -> None:
    """A field of 3.9 kB enters the table with a good request; then each byte of a head is that field again."""
    peer = RawPeer()
    field = (
        b"\x40\x03x-b" + b"\x7f" + bytes((0x80 | (3_900 - 127) % 128, (3_900 - 127) // 128)) + b"y" * 3_900
    )
    peer.send(frame(1, 5, 1, get_block + field))
    (good,) = peer.requests
    bombs = [frame(1, 5, stream, get_block + b"\xbe" * 16_000) for stream in range(3, 123, 2)]
    peer.send(*bombs)
    assert await peer.goaway_code() == CALM
    assert (peer.requests, peer.transport.ended, peer.gate.is_full()) == ([good], True, False)
    assert peer.counters.refused == {"protocol": 1}

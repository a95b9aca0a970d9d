"""Requests and answers over HTTP/2, spoken with the `h2` package's client."""

from __future__ import annotations

import json

import pytest

from anew.net.seam import Request

from .http2_peer import Peer, RawPeer, connection, frame, get_block, in_loop, post_block, preface


@in_loop
async def test_a_request_and_its_answer() -> None:
    peer = Peer()
    stream = peer.ask("/jobs/take?queue=a", accept="application/json")
    await peer.turn()
    (request,) = peer.requests
    assert (request.method, request.path, request.query) == (b"GET", b"/jobs/take", b"queue=a")
    assert request.headers == {b"accept": b"application/json", b"host": b"localhost:7890"}
    assert request.body == b""
    request.reply(200, b"{}", extra=((b"x-a", b"1"), (b"retry-after", b"3")))
    await peer.turn()
    fields = peer.fields(stream)
    assert fields.pop(b"date") == b"Tue, 14 Nov 2023 22:13:20 GMT"
    assert fields == {
        b":status": b"200",
        b"content-type": b"application/json",
        b"content-length": b"2",
        b"x-a": b"1",
        b"retry-after": b"3",
    }
    assert peer.body(stream) == b"{}"
    assert peer.ended(stream)
    assert peer.counters.requests == 1


@in_loop
async def test_settings_come_first_and_are_zizqs() -> None:
    peer = Peer()
    await peer.turn()
    settings = {int(key): value for key, value in peer.client.remote_settings.items()}
    assert {key: settings[key] for key in (1, 3, 4, 5, 6)} == {1: 0, 3: 200, 4: 1 << 20, 5: 16384, 6: 16384}
    assert peer.client.outbound_flow_control_window == 1 << 20


@in_loop
async def test_preface_byte_by_byte() -> None:
    peer = RawPeer()
    peer.conn = connection(peer)
    peer.conn.connection_made(peer.transport)
    for byte in preface + frame(4, 0, 0) + frame(1, 5, 1, get_block):
        peer.conn.data_received(bytes((byte,)))
    assert len(peer.requests) == 1


@in_loop
async def test_what_is_no_preface_closes() -> None:
    peer = RawPeer()
    conn = connection(peer)
    conn.connection_made(peer.transport)
    conn.data_received(b"PRI * HTTP/2.0\r\n\r\nXX")
    assert await peer.goaway_code() == 1
    assert peer.transport.ended


@in_loop
async def test_bodies_in_one_and_in_many_frames() -> None:
    peer = Peer()
    peer.ask("/jobs", "POST", b"one", content_length="3")
    stream = peer.client.get_next_available_stream_id()
    peer.client.send_headers(stream, peer.head("/jobs", "POST", content_length="40000"))
    for piece in (b"", b"a" * 16384, b"b" * 16384, b"c" * 7232):
        peer.client.send_data(stream, piece, pad_length=9 if len(piece) < 16_000 else None)
    peer.client.send_data(stream, b"", end_stream=True)
    await peer.turn()
    assert peer.requests[0].body == b"one"
    assert peer.requests[1].body == b"a" * 16384 + b"b" * 16384 + b"c" * 7232


@in_loop
async def test_windows_are_given_back_for_a_large_body() -> None:
    peer = Peer(max_body=4 << 20)
    stream = peer.client.get_next_available_stream_id()
    peer.client.send_headers(stream, peer.head("/jobs", "POST"))
    left = 4 << 20
    while left:
        size = min(left, peer.client.local_flow_control_window(stream), 16384)
        assert size, "no window, though every byte was taken"
        peer.client.send_data(stream, bytes(size), end_stream=size == left)
        left -= size
        await peer.turn()
    assert peer.requests[0].body == bytes(4 << 20)


@in_loop
async def test_trailers_are_ignored() -> None:
    peer = Peer()
    stream = peer.client.get_next_available_stream_id()
    peer.client.send_headers(stream, peer.head("/jobs", "POST"))
    peer.client.send_data(stream, b"{}")
    peer.client.send_headers(stream, [("x-sum", "1")], end_stream=True)
    await peer.turn()
    assert peer.requests[0].body == b"{}"
    assert b"x-sum" not in peer.requests[0].headers


@pytest.mark.parametrize("status", [204, 304])
@in_loop
async def test_no_body_and_no_content_type(status: int) -> None:
    peer = Peer()
    stream = peer.ask("/jobs/1/success", "POST")
    await peer.turn()
    peer.requests[0].reply(status, b"never sent")
    await peer.turn()
    assert set(peer.fields(stream)) == {b":status", b"date"}
    assert peer.body(stream) == b""
    assert peer.ended(stream)


@in_loop
async def test_204_ends_with_its_head() -> None:
    peer = RawPeer(lambda request: request.reply(204))
    await peer.frames()
    peer.send(frame(1, 5, 1, get_block))
    assert [(kind, flags) for kind, flags, _, _ in await peer.frames()] == [(1, 5)]


@in_loop
async def test_an_empty_answer_has_a_length() -> None:
    peer = Peer()
    stream = peer.ask("/jobs", "PUT")
    await peer.turn()
    peer.requests[0].reply(405, content_type=None, extra=((b"allow", b"GET"),))
    await peer.turn()
    fields = peer.fields(stream)
    assert (fields[b":status"], fields[b"content-length"], fields[b"allow"]) == (b"405", b"0", b"GET")
    assert b"content-type" not in fields
    assert peer.ended(stream)


@in_loop
async def test_head_gets_the_fields_and_no_body() -> None:
    peer = Peer()
    plain, stream = peer.ask("/jobs", "HEAD"), peer.ask("/jobs/take", "HEAD")
    await peer.turn()
    peer.requests[0].reply(200, b"12345")
    assert peer.requests[1].open_stream(200, b"application/x-ndjson") is None
    await peer.turn()
    assert peer.fields(plain)[b"content-length"] == b"5"
    assert peer.fields(stream)[b"content-type"] == b"application/x-ndjson"
    assert peer.body(plain) == peer.body(stream) == b""
    assert peer.ended(plain)
    assert peer.ended(stream)


@in_loop
async def test_only_the_first_answer_counts() -> None:
    peer = Peer()
    stream = peer.ask("/jobs")
    await peer.turn()
    peer.requests[0].reply(200, b"first")
    peer.requests[0].reply(500, b"second")
    assert peer.requests[0].open_stream(200, b"text/plain") is None
    await peer.turn()
    assert peer.body(stream) == b"first"


@in_loop
async def test_answers_of_one_turn_leave_in_one_write() -> None:
    peer = Peer()
    for _ in range(20):
        peer.ask("/jobs")
    await peer.turn()
    before = peer.transport.writes
    for request in reversed(peer.requests):
        request.reply(200, b"{}")
    await peer.turn()
    assert peer.transport.writes == before + 1
    assert all(peer.ended(stream) for stream in range(1, 41, 2))


@in_loop
async def test_an_error_in_the_application_is_500() -> None:
    def app(request: Request) -> None:
        raise ZeroDivisionError

    peer = Peer(app)
    stream = peer.ask("/jobs")
    await peer.turn()
    assert peer.status(stream) == 500
    assert json.loads(peer.body(stream)) == {"error": "internal server error", "code": "internal_error"}


@in_loop
async def test_content_length_must_be_the_bodys() -> None:
    peer = RawPeer()
    for stream, length, body in ((1, b"3", b"four"), (3, b"5", b"four"), (5, b"1", b"")):
        peer.send(frame(1, 4, stream, post_block + b"\x0f\x0d\x01" + length), frame(0, 1, stream, body))
    peer.send(frame(1, 5, 7, post_block + b"\x0f\x0d\x011"))
    assert await peer.reset_codes() == {1: 1, 3: 1, 5: 1, 7: 1}
    assert peer.requests == []


@pytest.mark.parametrize("declared", [True, False])
@in_loop
async def test_too_large_a_body_is_413_and_then_cut_off(declared: bool) -> None:
    peer = Peer(max_body=10_000)
    stream = peer.client.get_next_available_stream_id()
    fields = {"content_length": "10001"} if declared else {}
    peer.client.send_headers(stream, peer.head("/jobs", "POST", **fields))
    if not declared:
        peer.client.send_data(stream, bytes(10_001))
    await peer.turn()
    assert peer.status(stream) == 413
    assert "10000" in json.loads(peer.body(stream))["error"]
    assert peer.ended(stream)
    assert peer.reset_code(stream) is None
    peer.client.send_data(stream, bytes(5_000))  # what was under way does no harm
    await peer.turn()
    peer.conn.sweep(1_000)
    peer.conn.sweep(2_000)
    await peer.turn()
    assert peer.reset_code(stream) == 0
    assert peer.requests == []
    assert peer.counters.refused == {"body_size": 1}


@pytest.mark.parametrize("digits", [19, 20, 100, 4_301, 9_000])
@pytest.mark.parametrize("zeros", [0, 1, 5_000])
@in_loop
async def test_a_length_beyond_every_number_is_413(digits: int, zeros: int) -> None:
    peer = Peer()
    stream = peer.client.get_next_available_stream_id()
    length = "0" * zeros + "9" * digits
    peer.client.send_headers(stream, peer.head("/jobs", "POST", content_length=length))
    await peer.turn()
    assert (peer.status(stream), peer.reset_code(stream), peer.requests) == (413, None, [])
    assert peer.counters.refused == {"body_size": 1}
    stream = peer.ask("/jobs", "POST", b"one", content_length="0" * 5_000 + "3")
    await peer.turn()
    assert [request.body for request in peer.requests] == [b"one"]


@in_loop
async def test_too_large_a_body_in_one_frame_is_413() -> None:
    peer = Peer(max_body=10_000)
    stream = peer.ask("/jobs", "POST", bytes(10_001))
    await peer.turn()
    assert (peer.status(stream), peer.requests) == (413, [])


@in_loop
async def test_a_body_that_ends_after_413_needs_no_cut() -> None:
    peer = Peer(max_body=10_000)
    stream = peer.client.get_next_available_stream_id()
    peer.client.send_headers(stream, peer.head("/jobs", "POST", content_length="10001"))
    peer.client.send_data(stream, bytes(10_001), end_stream=True)
    await peer.turn()
    peer.conn.sweep(1_000)
    peer.conn.sweep(2_000)
    await peer.turn()
    assert peer.status(stream) == 413
    assert peer.reset_code(stream) is None


@in_loop
async def test_a_body_of_exactly_the_limit() -> None:
    peer = Peer(max_body=10_000)
    peer.ask("/jobs", "POST", bytes(10_000))
    await peer.turn()
    assert len(peer.requests) == 1


@in_loop
async def test_unfinished_bodies_of_a_connection_are_bounded_together() -> None:
    peer = Peer(max_body=10_000)
    streams = []
    for _ in range(3):
        streams.append(peer.client.get_next_available_stream_id())
        peer.client.send_headers(streams[-1], peer.head("/jobs", "POST"))
        peer.client.send_data(streams[-1], bytes(9_000))
    await peer.turn()
    assert [peer.status(stream) for stream in streams] == [None, None, 503]
    peer.client.send_data(streams[0], b"", end_stream=True)
    await peer.turn()
    assert len(peer.requests) == 1


@in_loop
async def test_unfinished_bodies_of_all_connections_are_bounded_together() -> None:
    peer = Peer(max_unfinished=10_000)
    peer.counters.unfinished = 4_000  # of other connections
    streams = []
    for size in (5_000, 2_000):
        streams.append(peer.client.get_next_available_stream_id())
        peer.client.send_headers(streams[-1], peer.head("/jobs", "POST"))
        peer.client.send_data(streams[-1], bytes(size))
    await peer.turn()
    assert [peer.status(stream) for stream in streams] == [None, 503]
    assert peer.counters.unfinished == 9_000
    peer.client.send_data(streams[0], b"", end_stream=True)
    third = peer.client.get_next_available_stream_id()
    peer.client.send_headers(third, peer.head("/jobs", "POST"))
    peer.client.send_data(third, bytes(1_000))
    await peer.turn()
    assert (len(peer.requests), peer.counters.unfinished) == (1, 5_000)
    peer.conn.connection_lost(None)
    assert peer.counters.unfinished == 4_000


@in_loop
async def test_too_large_a_head_is_431_and_the_connection_goes_on() -> None:
    peer = Peer()
    large = peer.ask("/jobs", **{f"x{n}": "v" * 1000 for n in range(20)})
    many = peer.ask("/jobs", **{f"x{n}": "v" for n in range(101)})
    long = peer.ask("/" + "a" * 17_000)
    fine = peer.ask("/jobs")
    await peer.turn()
    assert [peer.status(stream) for stream in (large, many, long)] == [431, 431, 431]
    assert "error" in json.loads(peer.body(large))
    peer.requests[0].reply(200, b"{}")
    await peer.turn()
    assert peer.status(fine) == 200
    assert peer.counters.refused == {"head_size": 3}


@in_loop
async def test_a_bad_host_is_400() -> None:
    peer = RawPeer()
    await peer.frames()
    peer.send(frame(1, 5, 1, get_block + b"\x00\x04host\x01y"))
    head, data = await peer.frames()
    assert head[3][:1] == b"\x8c"  # :status 400, RFC 7541 appendix A
    assert "host" in json.loads(data[3])["error"]
    assert peer.counters.refused == {"host": 1}


@in_loop
async def test_expect_100_continue() -> None:
    peer = Peer()
    stream = peer.client.get_next_available_stream_id()
    peer.client.send_headers(stream, peer.head("/jobs", "POST", expect="100-continue"))
    (event,) = [e for e in await peer.turn() if type(e).__name__ == "InformationalResponseReceived"]
    assert dict(event.headers) == {b":status": b"100"}
    peer.client.send_data(stream, b"{}", end_stream=True)
    await peer.turn()
    assert peer.requests[0].body == b"{}"


@in_loop
async def test_a_client_with_a_smaller_table_gets_its_announcement() -> None:
    peer = Peer()
    peer.client.update_settings({1: 0})
    stream = peer.ask("/jobs")
    await peer.turn()
    peer.requests[0].reply(200, b"{}")
    await peer.turn()  # the package raises if our first block did not say that the table is smaller
    assert peer.status(stream) == 200


@in_loop
async def test_concurrent_streams_are_limited() -> None:
    peer = RawPeer(max_concurrent_streams=3)
    for stream in (1, 3, 5, 7):
        peer.send(frame(1, 5, stream, get_block))
    assert await peer.reset_codes() == {7: 7}
    peer.requests[0].reply(200, b"{}")
    peer.send(frame(1, 5, 9, get_block))
    assert len(peer.requests) == 4
    assert peer.counters.refused == {"streams": 1}

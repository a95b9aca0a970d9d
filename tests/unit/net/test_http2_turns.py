"""What is decided by a request's head alone, and what one read of the socket may take of a turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from anew.net.admission import Gate
from anew.net.seam import Refusal, Request

from .http2_peer import Peer, RawPeer, connection, frame, get_block, in_loop, post_block, preface

no_token = Refusal(
    401, b'{"error":"a token is expected"}', extra=((b"www-authenticate", b"Bearer"),), reason="token"
)


class Guarded:
    """An application that refuses what brings no token."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.got: list[Request] = []
        self.judged: list[tuple[bytes, bytes]] = []
        self._meanwhile = meanwhile

    def judge(self, method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Refusal | None:
        self.judged.append((method, path))
        self._meanwhile()
        return None if headers.get(b"authorization") == b"Bearer t" else no_token

    def __call__(self, request: Request) -> None:
        self.got.append(request)
        request.reply(201, b"{}")


@in_loop
async def test_a_refused_head_is_answered_before_its_body_and_holds_nothing() -> None:
    peer = Peer(Guarded())
    stream = peer.client.get_next_available_stream_id()
    peer.client.send_headers(stream, peer.head("/jobs", "POST"))
    await peer.turn()
    assert (peer.status(stream), peer.body(stream)) == (401, no_token.body)
    assert peer.fields(stream)[b"www-authenticate"] == b"Bearer"
    assert peer.ended(stream)
    for _ in range(60):
        peer.client.send_data(stream, bytes(16_384))
    await peer.turn()
    assert peer.counters.unfinished == 0
    peer.conn.sweep(1_000)
    peer.conn.sweep(2_000)
    await peer.turn()
    assert peer.reset_code(stream) == 0
    assert peer.counters.refused == {"token": 1}
    fine = peer.ask("/jobs", "POST", b"{}", authorization="Bearer t")
    await peer.turn()
    assert peer.status(fine) == 201


@pytest.mark.parametrize("body", [None, b"{}"])
@in_loop
async def test_a_whole_request_is_judged_once(body: bytes | None) -> None:
    app = Guarded()
    peer = Peer(app)
    refused = peer.ask("/jobs?limit=1", "POST", body)
    served = peer.ask("/jobs", "POST", body, authorization="Bearer t")
    await peer.turn()
    assert (peer.status(refused), peer.status(served)) == (401, 201)
    assert app.judged == [(b"POST", b"/jobs")] * 2
    assert len(app.got) == 1


@in_loop
async def test_a_refused_body_is_not_invited() -> None:
    peer = Peer(Guarded())
    stream = peer.client.get_next_available_stream_id()
    peer.client.send_headers(stream, peer.head("/jobs", "POST", expect="100-continue"))
    await peer.turn()
    assert not [event for event in peer.events if type(event).__name__ == "InformationalResponseReceived"]
    assert peer.status(stream) == 401


@in_loop
async def test_unfinished_bodies_of_the_refused_leave_the_others_theirs() -> None:
    peer = RawPeer(Guarded(), max_body=100_000, max_unfinished=150_000)
    for number in range(1, 101, 2):
        peer.send(frame(1, 4, number, post_block), frame(0, 0, number, bytes(16_000)) * 6)
    assert peer.counters.unfinished == 0
    assert peer.counters.refused == {"token": 50}


@in_loop
async def test_a_refusal_of_head_has_no_body() -> None:
    peer = Peer(Guarded())
    stream = peer.ask("/jobs", "HEAD")
    await peer.turn()
    assert (peer.status(stream), peer.body(stream), peer.ended(stream)) == (401, b"", True)


# ---- a long read


def slow_judge(**limits: int) -> tuple[RawPeer, Guarded]:
    """Make a peer of an application that takes a millisecond to judge a head."""

    def meanwhile() -> None:
        peer.now_ms += 1

    app = Guarded(meanwhile)
    peer = RawPeer(app, **limits)
    peer.send(frame(8, 0, 0, (1 << 24).to_bytes(4, "big")))  # no answer has to wait for a window
    return peer, app


def heads(count: int, first: int = 1) -> bytes:
    return b"".join([frame(1, 5, first + 2 * n, get_block) for n in range(count)])


@in_loop
async def test_a_long_read_gives_way_when_the_turn_is_over() -> None:
    """2 KiB go by between two looks at the clock: 137 heads of 15 bytes, after which its 5 ms are long over."""
    peer, app = slow_judge()
    peer.send(heads(3_000))
    assert len(app.judged) <= 2 * 137
    assert not peer.transport.reading
    before = len(app.judged)
    peer.send(heads(1, 6_001))  # read already when the transport was paused
    assert len(app.judged) == before
    for _ in range(30):
        if peer.transport.reading:
            break
        previous = len(app.judged)
        await peer.frames()
        assert len(app.judged) - previous <= 2 * 137
    assert len(app.judged) == 3_001
    assert peer.transport.reading


@in_loop
async def test_between_the_parts_of_a_long_read_others_are_served() -> None:
    peer, app = slow_judge()
    peer.send(heads(3_000))
    other = RawPeer(app)
    other.admission = peer.admission
    other.conn = connection(other)
    other.conn.connection_made(other.transport)
    other.send(preface, frame(4, 0, 0), frame(1, 5, 1, get_block + b"\x0f\x08\x08Bearer t"))
    assert app.got == []
    while not app.got:
        await peer.frames()
    assert len(app.judged) < 3_000


@pytest.mark.parametrize("end", ["lost", "aborted", "broken"])
@in_loop
async def test_what_waits_to_be_read_ends_with_the_connection(end: str) -> None:
    peer, app = slow_judge()
    peer.send(heads(1_500), frame(0, 0, 0), heads(1_500, 3_001))
    if end == "lost":
        peer.conn.connection_lost(None)
    elif end == "aborted":
        peer.conn.abort()
    before = len(app.judged)
    for _ in range(10):
        await peer.frames()
    assert len(app.judged) == (1_500 if end == "broken" else before)


@in_loop
async def test_what_waits_is_not_read_before_the_peer_reads() -> None:
    peer, app = slow_judge()
    peer.send(heads(3_000))
    peer.conn.pause_writing()
    before = len(app.judged)
    await peer.frames()
    await peer.frames()
    assert len(app.judged) == before
    peer.conn.resume_writing()
    assert not peer.transport.reading
    while not peer.transport.reading:
        await peer.frames()
    assert len(app.judged) == 3_000


@in_loop
async def test_nobody_is_too_slow_while_we_do_not_read() -> None:
    peer, _ = slow_judge(header_timeout_ms=10_000)
    peer.send(frame(1, 5, 1, get_block)[:9])
    peer.conn.sweep(1)
    peer.send(frame(1, 5, 1, get_block)[9:], heads(3_000, 3))
    peer.conn.sweep(60_000)
    assert not peer.transport.ended


@in_loop
async def test_an_end_that_comes_while_bytes_wait_comes_after_them() -> None:
    peer, app = slow_judge()
    peer.send(heads(3_000))
    peer.conn.eof_received()
    assert len(app.judged) == 3_000


@in_loop
async def test_a_connection_that_ends_in_the_middle_of_a_long_read_is_read_to_its_peers_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Gate, "read_until", lambda gate, requests: 0)
    peer = RawPeer(Guarded(lambda: peer.conn.drain()))
    peer.send(heads(400))
    await peer.frames()
    assert peer.transport.ended
    assert peer.transport.reading

"""A connection whose request was shed is not read before there is time to spare, or its peer was told to come again."""

from __future__ import annotations

import socket
import sys

import pytest

from anew.net import admission, peer
from anew.net.listener import NetServer
from anew.net.port import HttpPort
from anew.net.seam import Request

from .http1_peer import get
from .http2_peer import FakeTransport, as_app, in_loop
from .loopback import until


class Crowded:
    """A server that sheds the first requests that come, and one connection to it."""

    def __init__(self, shed: int = 1) -> None:
        self.transport = FakeTransport()
        self.served: list[Request] = []
        self.to_shed = shed
        self.port = HttpPort(NetServer(), as_app(self.answer))
        self.conn = self.port.connection()
        self.conn.connection_made(self.transport)

    def answer(self, request: Request) -> None:
        if self.to_shed:
            self.to_shed -= 1
            self.port.admission.shed(request)
        else:
            self.served.append(request)

    @property
    def statuses(self) -> list[bytes]:
        return [part[:3] for part in bytes(self.transport.out).split(b"HTTP/1.1 ")[1:]]


@in_loop
async def test_it_is_read_again_when_its_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "back_at_once", 0)
    monkeypatch.setattr(admission, "hold_off_ms", 1)
    crowded = Crowded()
    crowded.conn.data_received(get)
    assert crowded.statuses == [b"503"]
    assert not crowded.transport.reading
    await until(lambda: crowded.transport.reading)
    crowded.conn.data_received(get)
    crowded.served[0].reply(200)
    assert crowded.statuses == [b"503", b"200"]
    assert crowded.transport.reading


@in_loop
async def test_nothing_else_has_it_read_sooner() -> None:
    crowded = Crowded()
    crowded.conn.data_received(get)
    crowded.conn.pause_writing()
    crowded.conn.resume_writing()
    crowded.conn.go_on()
    assert not crowded.transport.reading


@in_loop
async def test_one_that_has_sent_ahead_is_read_and_answered() -> None:
    crowded = Crowded()
    crowded.conn.data_received(get + get)
    assert crowded.transport.reading
    crowded.served[0].reply(200)
    assert crowded.statuses == [b"503", b"200"]


POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nxx"


@in_loop
@pytest.mark.parametrize(
    ("begun", "rest"), [(get[:1], get[1:]), (get[:-1], get[-1:]), (POST[:-1], POST[-1:])]
)
async def test_the_beginning_of_a_next_request_does_not_have_it_read_sooner(
    begun: bytes, rest: bytes
) -> None:
    """Else a crowd whose every request ends with the first byte of the next one is never held off."""
    crowded = Crowded()
    crowded.conn.data_received(get + begun)
    assert crowded.statuses == [b"503"]
    assert not crowded.transport.reading
    crowded.port.admission.gate.holds_off_no_more(crowded.conn)
    crowded.conn.go_on()
    assert crowded.transport.reading
    crowded.conn.data_received(rest)
    crowded.served[0].reply(200)
    assert crowded.statuses == [b"503", b"200"]


@in_loop
async def test_one_whose_last_request_ahead_is_shed_too_is_held_off_after_it() -> None:
    crowded = Crowded(shed=2)
    crowded.conn.data_received(get + get + get[:5])
    assert crowded.statuses == [b"503", b"503"]
    assert not crowded.transport.reading


@in_loop
async def test_one_that_was_shed_later_and_has_begun_the_next_request_is_held_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "back_at_once", 0)
    crowded = Crowded(shed=0)
    crowded.conn.data_received(get + get[:5])  # it waits for its answer, and the beginning behind it
    crowded.port.admission.shed(crowded.served[0])
    await until(lambda: not crowded.transport.reading)
    assert crowded.statuses == [b"503"]


@in_loop
async def test_one_that_ends_is_forgotten_and_one_that_is_drained_closed() -> None:
    gone, drained = Crowded(), Crowded()
    for crowded in (gone, drained):
        crowded.conn.data_received(get)
        assert crowded.port.admission.gate.holds_off(crowded.conn)
    gone.conn.connection_lost(None)
    assert not gone.port.admission.gate.holds_off(gone.conn)
    drained.conn.drain()
    assert drained.transport.closed or drained.transport.ended


@in_loop
async def test_one_that_is_drained_after_it_has_sent_more_is_read_so_that_its_end_is_noticed() -> None:
    crowded = Crowded()
    crowded.conn.data_received(get)
    crowded.conn.drain()  # what is unread of the transport is not known, so it may be more than nothing
    assert crowded.transport.ended
    assert crowded.transport.reading
    assert not crowded.port.admission.gate.holds_off(crowded.conn)
    crowded.conn.data_received(get)
    assert crowded.statuses == [b"503"]
    crowded.conn.eof_received()
    crowded.conn.connection_lost(None)


@in_loop
async def test_when_a_request_came_is_known_if_nothing_was_sent_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer, "silent_ms", lambda transport: 7)
    came: list[int | None] = []
    port = HttpPort(NetServer(), as_app(lambda request: came.append(request.came_ms_ago())))
    for sent in (get, get + get[:5]):
        conn = port.connection()
        conn.connection_made(FakeTransport())
        conn.data_received(sent)
    assert came == [7, None]


def test_the_kernel_says_since_when_a_peer_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfSocket(FakeTransport):
        def get_extra_info(self, name: str, default: object = None) -> object:
            return one if name == "socket" else default

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        one, _ = server.accept()
        with one:
            client.sendall(b"x")
            one.recv(1)
            silent_ms = peer.silent_ms(OfSocket())
            assert silent_ms is not None
            assert 0 <= silent_ms < 10_000
            with monkeypatch.context() as elsewhere:  # macOS has no TCP_INFO at all
                elsewhere.setattr(sys, "platform", "darwin")
                elsewhere.delattr(socket, "TCP_INFO")
                assert peer.silent_ms(OfSocket()) is None
    assert peer.silent_ms(OfSocket()) is None
    assert peer.silent_ms(FakeTransport()) is None

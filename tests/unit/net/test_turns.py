"""A long body is read in turns, so that the other connections are heard between its megabytes."""

from __future__ import annotations

import asyncio

from anew.net.listener import NetServer
from anew.net.port import HttpPort
from anew.net.seam import Request

from .http2_peer import FakeTransport, in_loop

KIB, MIB = 1 << 10, 1 << 20


@in_loop
async def test_after_each_megabyte_of_a_body_the_others_have_a_turn() -> None:
    requests: list[Request] = []
    transport = FakeTransport()
    conn = HttpPort(NetServer(), requests.append).connection()
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

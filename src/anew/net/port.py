"""An HTTP port: a connection starts as HTTP/1.1, and goes on as HTTP/2 when its first bytes are that protocol's preface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from anew.net.admission import Admission
from anew.net.http1.answer import AnswerHeads
from anew.net.http1.connection import Http1Connection
from anew.net.http1.head import HeadParser
from anew.net.listener import NetServer
from anew.net.seam import App, Request


class HttpPort:
    """What the HTTP connections to one application share.

    Args:
        server: Keeps the connections.
        app: Answers requests.

    Attributes:
        server: As given.
        admission: Through which every request goes to the application.
        head_parser: Remembers heads that clients send again and again.
        answer_heads: The heads of answers.
    """

    def __init__(self, server: NetServer, app: App | Callable[[Request], None]) -> None:
        self.server = server
        self.admission = Admission(app, server.gate)
        self.head_parser = HeadParser(server.limits)
        self.answer_heads = AnswerHeads()
        server.on_tick.append(self.answer_heads.tick)

    def connection(self) -> Http1Connection:
        """Make the protocol of a new connection, for `NetServer.listen`."""
        return Http1Connection(self)

    def hand_over(self, wire: Http1Connection, transport: asyncio.Transport, data: bytes) -> None:
        """Let a connection go on as HTTP/2.

        Args:
            wire: What it was until now.
            transport: Its transport.
            data: All bytes that have come, the preface first.
        """
        # Imported when the first one comes: a server that meets no HTTP/2 client does not pay for its tables.
        from anew.net.http2.connection import Http2Connection

        server = self.server
        successor = Http2Connection(server, self.admission, server.limits, server.counters)
        server.replace(wire, successor)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        successor.data_received(data)
        if server.draining:  # its first bytes were on the way when the others began to drain
            successor.drain()

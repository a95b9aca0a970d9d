"""An HTTP port: a connection starts as HTTP/1.1, and goes on as HTTP/2 when its first bytes are that protocol's preface."""

from __future__ import annotations

import asyncio
import importlib
import threading
from email.utils import formatdate
from typing import TYPE_CHECKING

from anew.net.admission import Admission
from anew.net.http1.answer import AnswerHeads
from anew.net.http1.connection import Http1Connection
from anew.net.http1.head import HeadParser
from anew.net.listener import NetServer
from anew.net.seam import App, Headers

if TYPE_CHECKING:
    from anew.net.http2.heads import AnswerBlocks

_http2 = "anew.net.http2.connection"


class HttpPort:
    """What the HTTP connections to one application share.

    Args:
        server: Keeps the connections.
        app: Answers requests.
        always: Headers that every answer carries.

    Attributes:
        server: As given.
        admission: Through which every request goes to the application.
        head_parser: Remembers heads that clients send again and again.
        answer_heads: The heads of answers; those of HTTP/2 are made when its first connection comes.
        discarding: Connections that have had their last answer, and whose peers still send.
    """

    def __init__(self, server: NetServer, app: App, always: Headers = ()) -> None:
        self.server = server
        self.admission = Admission(app, server.gate)
        self.head_parser = HeadParser(server.limits)
        self._always = always
        self.answer_heads = AnswerHeads(always)
        self.discarding = 0
        self._answer_blocks: AnswerBlocks | None = None
        self._date = b""  # of answers: RFC 9110, 6.6.1, asks for one
        server.on_tick.append(self._tick)

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
        # See `_tick`: this waits for the rest of the import, if it is under way.
        from anew.net.http2.connection import Http2Connection
        from anew.net.http2.heads import AnswerBlocks

        server = self.server
        if self._answer_blocks is None:
            self._answer_blocks = AnswerBlocks(self._always)
            self._answer_blocks.new_date(self._date)
        successor = Http2Connection(server, self.admission, self._answer_blocks)
        server.replace(wire, successor)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        successor.data_received(data)
        if server.draining:  # its first bytes were on the way when the others began to drain
            successor.drain()

    def _tick(self, now_at: int) -> None:
        date = formatdate(now_at // 1000, usegmt=True).encode()
        if date == self._date:
            return
        if not self._date:
            # Now that somebody listens: it takes 20 ms, which neither the start nor the first HTTP/2 client should wait for.
            threading.Thread(target=importlib.import_module, args=(_http2,), daemon=True).start()
        self._date = date
        self.answer_heads.new_date(date)
        if self._answer_blocks is not None:
            self._answer_blocks.new_date(date)

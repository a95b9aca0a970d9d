"""Receives webhooks: HTTP to a `Receiver`, and its answers to whoever asked. Needs aiohttp (the extra ``webhooks``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from anew.topics.receiver import MAX_BODY, Arrival, Incoming, Receiver, Reply

MOST_CONNECTIONS: Final = 100
"""Further ones are closed at once."""

_LONGEST_STOP_S: Final = 0.1
"""How long requests may go on that still run when the server is closed."""


class _Server(web.Server):
    """Holds no more than `MOST_CONNECTIONS`."""

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection, and close it if it is one too many."""
        if len(self.connections) >= MOST_CONNECTIONS:
            transport.abort()
        super().connection_made(handler, transport)


class ReceiverServer:
    """Listens, has each request judged, shows it, and answers.

    Args:
        receiver: Judges, and chooses the answer.
        show: Called with each request before it is answered. What it or the receiver raises, `ended` raises.
        now: The wall clock, epoch ms.
        count: After so many requests `ended` is over, and no more are taken; None for any number.

    Attributes:
        ended: Is over when `count` requests were answered or closed, when one could not be shown, or when `stop` was
            called.
    """

    def __init__(
        self,
        receiver: Receiver,
        show: Callable[[Arrival], None],
        now: Callable[[], int],
        count: int | None = None,
    ) -> None:
        self._receiver = receiver
        self._show = show
        self._now = now
        self._count = count
        self._done = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        server = _Server(
            self._handle,
            handler_cancellation=True,
            # A signature is of the bytes as they came.
            auto_decompress=False,
            access_log=None,
            logger=logging.getLogger("anew.listen"),
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_LONGEST_STOP_S)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Begin to listen.

        Args:
            host: An address of this machine.
            port: 0 takes a free one.

        Returns:
            The address and the port.

        Raises:
            OSError: It cannot be listened on.
        """
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        address = self._runner.addresses[0]
        return address[0], address[1]

    def stop(self) -> None:
        """Have `ended` over."""
        if not self.ended.done():
            self.ended.set_result(None)

    async def close(self) -> None:
        """Close all connections, also those whose request has no answer yet."""
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        incoming = Incoming(
            method=_text(request.method),
            target=_text(request.raw_path),
            # Of several headers of one name the first counts.
            headers={_text(name).lower(): _text(request.headers[name]) for name in request.headers},
            body=await _body(request),
        )
        if self._receiver.tally.received == self._count:
            return _dropped(request)
        try:
            arrival = self._receiver.receive(incoming, self._now())
            self._show(arrival)
        except Exception as error:
            if not self.ended.done():
                self.ended.set_exception(error)
            return _dropped(request)
        try:
            return await _answered(request, arrival.reply)
        finally:
            self._done += 1
            if self._done == self._count:
                self.stop()


async def _body(request: web.BaseRequest) -> bytes | None:
    """Read a body; None where it is longer than `MAX_BODY`."""
    body = bytearray()
    async for part in request.content.iter_any():
        body += part
        if len(body) > MAX_BODY:
            return None
    return bytes(body)


async def _answered(request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
    if reply.ending == "hang":
        # Until the other side has closed it, or the server is closed: either cancels this.
        await asyncio.get_running_loop().create_future()
    if reply.status is None:
        return _dropped(request)
    if reply.wait_ms:
        await asyncio.sleep(reply.wait_ms / 1_000)
    response = web.Response(status=reply.status, headers=reply.headers, body=reply.body)
    if reply.body:
        response.content_type = "application/json"
    # Written here and not by the caller, so that the last answer is out before the server ends.
    await response.prepare(request)
    await response.write_eof()
    return response


def _dropped(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _text(text: str) -> str:
    """Give a text of a request without the halves of characters that stand for bytes that are no UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")

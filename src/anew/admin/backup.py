"""`POST /backup`: a copy of the store as a compressed archive, as fast as the client reads it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

from anew.errors import AnewError, Overloaded
from anew.http.formats import Format
from anew.net.seam import Request, Stream, refusal

log = logging.getLogger("anew.admin")

LOOK_S = 0.5
"""How soon it is noticed that a client has gone while the copy is made."""

Pieces = Generator[bytes, None, None]
Archive = Callable[[Callable[[], bool]], Pieces]
"""Makes a copy and gives it in pieces, the first of them empty when the copy is there; ends when the function says so."""

_HEADERS = ((b"content-disposition", b'attachment; filename="backup.tar.gz"'),)
_busy = refusal(503, "another backup is under way; try again when it has ended", Overloaded.code)


class Backups:
    """Sends backups, one at a time.

    Args:
        archive: Makes them. Runs in a thread of its own.
        loop: The event loop.
    """

    def __init__(self, archive: Archive, loop: asyncio.AbstractEventLoop) -> None:
        self._archive = archive
        self._loop = loop
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="anew-backup")
        self._task: asyncio.Task[None] | None = None
        self._stopped = threading.Event()
        self._stream: Stream | None = None

    def send(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Answer with a backup."""
        if self._task is not None:
            request.reply(_busy.status, _busy.body, _busy.content_type, _busy.extra)
            return
        self._stopped.clear()
        self._task = self._loop.create_task(self._send(request))

    def stop(self) -> None:
        """Cut off the backup that is under way: half of one must not look whole."""
        self._stopped.set()
        if self._stream is not None:
            self._stream.abort()

    async def close(self) -> None:
        """End the thread."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._thread.shutdown()

    async def _send(self, request: Request) -> None:
        pieces = self._archive(self._stopped.is_set)
        try:
            if await self._copied(request, pieces):
                await self._stream_out(request, pieces)
        except Exception as error:
            if not self._stopped.is_set():
                unknown = None if isinstance(error, AnewError) else error
                log.error("a backup has failed", extra={"reason": str(error)}, exc_info=unknown)
            if self._stream is None:
                request.reply(500, b"backup failed", b"text/plain; charset=utf-8")
            else:
                self._stream.abort()
        finally:
            await self._loop.run_in_executor(self._thread, pieces.close)
            self._stream = self._task = None

    async def _copied(self, request: Request, pieces: Pieces) -> bool:
        """Have the copy made; report whether somebody waits for it still."""
        made = self._loop.run_in_executor(self._thread, next, pieces, None)
        while not made.done():
            await asyncio.wait([made], timeout=LOOK_S)
            if request.hung_up:
                self._stopped.set()
        made.result()
        return not request.hung_up

    async def _stream_out(self, request: Request, pieces: Pieces) -> None:
        stream = self._stream = request.open_stream(200, b"application/gzip", _HEADERS)
        if stream is None:
            return
        woken = asyncio.Event()

        def closed() -> None:
            self._stopped.set()
            woken.set()

        stream.on_drain, stream.on_close = woken.set, closed
        while not self._stopped.is_set():
            woken.clear()
            if not stream.writable:
                await woken.wait()
                continue
            piece = await self._loop.run_in_executor(self._thread, next, pieces, None)
            if piece is None:
                stream.close()
                return
            stream.write(piece)

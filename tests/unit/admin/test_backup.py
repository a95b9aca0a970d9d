"""`POST /backup`: how a backup leaves, and what ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator

import pytest

from anew.admin import backup as module
from anew.admin.backup import Backups, Pieces
from anew.errors import StoreFull
from anew.http.formats import JSON
from tests.unit.http.asked import Asked, HandStream


class Source:
    """An archive of some pieces; each is made when the test lets it.

    Attributes:
        gate: A permit for each piece.
        waits: A piece was asked for without one.
        closed: The pieces are no longer wanted.
    """

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.gate = threading.Semaphore(0)
        self.made = 0
        self.waits = threading.Event()
        self.closed = threading.Event()

    def __call__(self, stopped: Callable[[], bool]) -> Pieces:
        return self._pieces(stopped)

    def _pieces(self, stopped: Callable[[], bool]) -> Generator[bytes, None, None]:
        try:
            for piece in self.pieces:
                while not self.gate.acquire(timeout=0.01):
                    self.waits.set()
                    if stopped():
                        raise RuntimeError("stopped")
                self.made += 1
                yield piece
            if self.error is not None:
                raise self.error
        finally:
            self.closed.set()


class Cut(HandStream):
    """A stream that says how it has ended."""

    __slots__ = ("aborted",)

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def send(backups: Backups) -> Asked:
    request = Asked("POST", "/backup")
    backups.send(request, JSON, ())
    return request


def run(test: Callable[[asyncio.AbstractEventLoop], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(asyncio.get_running_loop())

    asyncio.run(main())


def test_zizq_94_a_backup_is_announced_when_the_copy_is_made_and_comes_in_pieces() -> None:
    async def test(loop: asyncio.AbstractEventLoop) -> None:
        source = Source(b"", b"one", b"two")
        backups = Backups(source, loop)
        request = send(backups)
        await until(source.waits.is_set)
        assert request.answers == []
        source.gate.release(3)
        await until(source.closed.is_set)
        answer, stream = request.answer, request.stream
        assert stream is not None
        assert (answer.status, answer.content_type) == (200, b"application/gzip")
        assert answer.extra == ((b"content-disposition", b'attachment; filename="backup.tar.gz"'),)
        await until(lambda: stream.closed)
        assert b"".join(stream.written) == b"onetwo"
        await backups.close()

    run(test)


def test_no_more_is_made_than_the_client_reads() -> None:
    async def test(loop: asyncio.AbstractEventLoop) -> None:
        source = Source(b"", *[b"x"] * 50)
        source.gate.release(51)
        backups = Backups(source, loop)
        request = send(backups)
        stream = request.stream
        assert stream is not None
        stream.writable = False
        await until(lambda: stream.on_drain is not None)
        await loop.run_in_executor(backups._thread, int)  # behind whatever was asked for before
        assert (source.made, stream.written) == (1, [])
        stream.writable = True
        assert stream.on_drain is not None
        stream.on_drain()
        await until(lambda: stream.closed)
        assert len(stream.written) == 50
        await backups.close()

    run(test)


def test_one_backup_is_made_at_a_time() -> None:
    async def test(loop: asyncio.AbstractEventLoop) -> None:
        source = Source(b"")
        backups = Backups(source, loop)
        first = send(backups)
        refused = send(backups).answer
        assert refused.status == 503
        assert "another backup is under way" in refused.data["error"]
        assert (b"retry-after", b"1") in refused.extra
        source.gate.release()
        await until(lambda: first.stream is not None and first.stream.closed)
        await until(lambda: backups._task is None)
        source.gate.release()
        again = send(backups)
        await until(lambda: again.stream is not None and again.stream.closed)
        await backups.close()

    run(test)


def test_zizq_94_a_copy_that_cannot_be_made_is_answered_with_500() -> None:
    async def test(loop: asyncio.AbstractEventLoop) -> None:
        backups = Backups(Source(error=StoreFull("no space")), loop)
        request = send(backups)
        await until(lambda: request.answers)
        answer = request.answer
        assert (answer.status, answer.body, answer.content_type) == (
            500,
            b"backup failed",
            b"text/plain; charset=utf-8",
        )
        await backups.close()

    run(test)


def test_a_backup_that_fails_midway_is_cut_off_and_does_not_look_whole() -> None:
    async def test(loop: asyncio.AbstractEventLoop) -> None:
        source = Source(b"", b"half", error=StoreFull("no space"))
        source.gate.release(2)
        backups = Backups(source, loop)
        request = send(backups)
        request.stream = stream = Cut()
        await until(lambda: stream.aborted)
        assert not stream.closed
        await backups.close()

    run(test)


def test_a_client_that_goes_while_the_copy_is_made_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)

    async def test(loop: asyncio.AbstractEventLoop) -> None:
        source = Source(b"")
        backups = Backups(source, loop)
        request = send(backups)
        request.gone = True
        await until(source.closed.is_set)
        assert request.stream is not None
        assert request.stream.written == []
        await backups.close()

    run(test)


def test_a_client_that_goes_while_it_reads_ends_it() -> None:
    async def test(loop: asyncio.AbstractEventLoop) -> None:
        source = Source(b"", *[b"x"] * 50)
        source.gate.release(2)
        backups = Backups(source, loop)
        stream = send(backups).stream
        assert stream is not None
        await until(lambda: stream.written)
        assert stream.on_close is not None
        stream.on_close()
        await until(source.closed.is_set)
        assert source.made < 50
        await backups.close()

    run(test)


def test_a_server_that_stops_cuts_a_backup_off() -> None:
    async def test(loop: asyncio.AbstractEventLoop) -> None:
        source = Source(b"", *[b"x"] * 50)
        source.gate.release(2)
        backups = Backups(source, loop)
        stream = send(backups).stream
        assert stream is not None
        await until(lambda: stream.written)
        backups.stop()
        await backups.close()
        assert source.closed.is_set()
        await backups.close()  # again has no effect

    run(test)

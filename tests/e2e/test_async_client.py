"""What only the client in an event loop has: many calls at once, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from unittest.mock import create_autospec

import pytest

from anew.client import AsyncClient, Filters
from anew.client.async_transport import AT_ONCE, Connection
from anew.client.transport import Site
from anew.errors import TooLarge, Unreachable

from .command import url_of
from .server import ServerProcess


@contextlib.asynccontextmanager
async def raw_server(*pieces: bytes | asyncio.Event, seen: list[asyncio.StreamWriter]) -> AsyncIterator[str]:
    """Answer each connection with these bytes, waiting for each event."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer)
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                if isinstance(piece, bytes):
                    writer.write(piece)
                else:
                    await piece.wait()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in seen:
            writer.close()
        server.close()


def test_many_calls_at_once_share_some_connections(server: ServerProcess, queue: str) -> None:
    async def run() -> int:
        async with AsyncClient(url_of(server.address)) as client:
            await asyncio.gather(*[client.enqueue("t", queue, n) for n in range(300)])
            assert len(client._transport._idle) <= AT_ONCE
            numbers = [job.data() async for job in client.list(Filters(queue=queue), page=64)]
            assert sorted(numbers) == list(range(300))
            return await client.count(Filters(queue=queue))

    assert asyncio.run(run()) == 300


def test_a_cancelled_call_closes_its_connection_and_no_other() -> None:
    async def run() -> None:
        answered, silent = asyncio.Event(), asyncio.Event()
        seen: list[asyncio.StreamWriter] = []
        head = b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"status"'
        async with (
            raw_server(head, answered, b':"ok"}', silent, seen=seen) as url,
            AsyncClient(url) as client,
        ):
            first = asyncio.create_task(client.health())
            while not seen:
                await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert client._transport._idle == []
            answered.set()
            assert await client.health() == {"status": "ok"}
            assert len(seen) == 2
            assert len(client._transport._idle) == 1

    asyncio.run(run())


def test_a_stream_loses_nothing_when_a_wait_is_cancelled_anywhere() -> None:
    body = b'{"id":"%d","type":"t","queue":"q","status":"in_flight","priority":1,"ready_at":0,"attempts":0,"payload":1}\n'
    jobs = [body % n for n in (1, 2)]
    sent = b"".join(b"%x;x=y\r\n%b\r\n" % (len(job), job) for job in jobs) + b"0\r\nend: yes\r\n\r\n"

    async def run(cut: int) -> None:
        go = asyncio.Event()
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        async with (
            raw_server(head, sent[:cut], go, sent[cut:], seen=[]) as url,
            AsyncClient(url, retry=None) as client,
            client.take() as stream,
        ):
            waiting = asyncio.create_task(anext(stream))
            ids = []
            with contextlib.suppress(asyncio.CancelledError):
                for _ in range(5):  # enough turns of the loop for what has been sent to be read
                    await asyncio.sleep(0)
                waiting.cancel()
                ids.append((await waiting).id)
            go.set()
            ids += [job.id async for job in stream]
            assert ids == ["1", "2"]

    for cut in range(0, len(sent), 7):
        asyncio.run(run(cut))


@pytest.mark.parametrize(
    "framing",
    [b"-5\r\n{}\r\n", b"zz\r\n", b"\xff\r\n", b"5" * 70_000, b"2\r\n{", b"f" * 40 + b"\r\n{"],
    ids=["negative", "letters", "bytes", "endless", "cut off", "huge"],
)
def test_an_answer_whose_framing_is_wrong_is_none(framing: bytes) -> None:
    async def run() -> None:
        answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + framing
        seen: list[asyncio.StreamWriter] = []
        async with raw_server(answer, seen=seen) as url, AsyncClient(url, timeout="5s") as client:
            call = asyncio.create_task(client.health())
            while not seen:
                await asyncio.sleep(0)
            while not call.done() and not seen[0].is_closing():
                await asyncio.sleep(0)
                if not seen[0].transport.get_write_buffer_size():
                    seen[0].write_eof()
                    break
            with pytest.raises(Unreachable):
                await call

    asyncio.run(run())


def test_what_comes_before_an_answer_is_passed_over() -> None:
    async def run() -> None:
        answer = b'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"status":"ok"}'
        async with raw_server(answer, seen=[]) as url, AsyncClient(url) as client:
            assert await client.health() == {"status": "ok"}

    asyncio.run(run())


def test_an_answer_is_read_while_the_body_of_its_request_is_still_being_sent() -> None:
    """What would come next on that connection would wait behind the rest of the body, which nobody reads."""

    async def run() -> None:
        refusal = b'HTTP/1.1 413 Too Large\r\ncontent-length: 18\r\n\r\n{"error":"enough"}'
        never_reads_on = asyncio.Event()
        seen: list[asyncio.StreamWriter] = []
        async with (
            raw_server(refusal, never_reads_on, seen=seen) as url,
            AsyncClient(url, retry=None) as client,
        ):
            for connections in (1, 2):
                with pytest.raises(TooLarge, match="enough"):
                    await client.enqueue("t", "q", "x" * 20_000_000)
                assert len(seen) == connections

    asyncio.run(run())


def test_a_body_that_is_sent_slowly_is_no_silence() -> None:
    """Also where all of it takes longer than the timeout, as long as some is sent each time it has passed."""
    writer = create_autospec(asyncio.StreamWriter, instance=True)
    site = Site("http://127.0.0.1:1", None, 20, ca=None, cert=None, key=None)
    drained = 0

    async def drain() -> None:
        nonlocal drained
        drained += 1
        await asyncio.sleep(0.015 if drained <= 4 else 60)  # shorter than the timeout, and then longer

    writer.drain.side_effect = drain

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await Connection(site, asyncio.StreamReader(), writer).ask("POST", "/jobs", b"x" * 600_000)

    asyncio.run(run())
    assert (drained, writer.write.call_count) == (5, 5)


def test_a_body_that_the_server_does_not_take_is_told_though_much_more_of_it_was_to_come(
    fresh_server: Callable[..., ServerProcess],
) -> None:
    server = fresh_server(max_body="256KiB")

    async def run() -> None:
        async with AsyncClient(url_of(server.address), retry=None) as client:
            with pytest.raises(TooLarge, match="at most 262144 bytes"):
                await client.enqueue("t", "q", "x" * 100_000_000)
            assert (await client.enqueue("t", "q")).status == "ready"

    asyncio.run(run())

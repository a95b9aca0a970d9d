"""The client whose verbs are awaited, and its take stream."""

from __future__ import annotations

import asyncio
import http.client
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

from anew.client.async_transport import Answer, AsyncTransport, Connection
from anew.client.exchange import Asked, Awaiting, Exchange
from anew.client.parameters import Filters, Names, Period, period_ms
from anew.client.stream import Jobs, broken_stream
from anew.client.transport import Addressed, Site
from anew.client.verbs import (
    ALL,
    MOST_OF_A_PAGE,
    Order,
    Verbs,
    Walk,
    error_walk,
    page_request,
    page_walk,
    step,
    take_request,
)
from anew.client.views import AsyncPage, ErrorView, JobView, read_async_page
from anew.client.waiting import Waits
from anew.errors import AnewError, Unavailable

T = TypeVar("T")


class AsyncClient(Verbs, Awaiting, Addressed):
    """The verbs of the queue, over HTTP, awaited. Tasks of one event loop may share one, also beyond a cancelled call.

    Arguments, results and errors are those of `Client`. At most 64 requests are on their way at once; others wait for them.
    """

    def _connect(self, site: Site) -> None:
        self._transport = AsyncTransport(site)

    async def __aenter__(self) -> AsyncClient:
        """Give the client itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close its connections."""
        await self.close()

    async def close(self) -> None:
        """Close its idle connections."""
        self._transport.close()
        await asyncio.sleep(0)  # in which the loop closes the sockets

    async def page(
        self,
        filters: Filters = ALL,
        *,
        limit: int = 50,
        order: Order = "asc",
        after: str | None = None,
        last_errors: bool = False,
    ) -> AsyncPage:
        """One page of the jobs that match; see `Client.page`."""
        return await self._perform(
            page_request(
                filters, self._read_page, limit=limit, order=order, after=after, last_errors=last_errors
            )
        )

    def pages(
        self,
        filters: Filters = ALL,
        *,
        order: Order = "asc",
        limit: int = MOST_OF_A_PAGE,
        at_most: int | None = None,
    ) -> AsyncIterator[AsyncPage]:
        """The pages of all jobs that match; see `Client.pages`."""
        return self._results(page_walk(filters, self._read_page, limit=limit, order=order, at_most=at_most))

    async def list(
        self, filters: Filters = ALL, *, order: Order = "asc", page: int = MOST_OF_A_PAGE
    ) -> AsyncIterator[JobView]:
        """All jobs that match; see `Client.list`."""
        async for current in self.pages(filters, order=order, limit=page):
            for job in current:
                yield job

    async def errors(
        self, job_id: str, *, order: Order = "asc", limit: int | None = None
    ) -> AsyncIterator[ErrorView]:
        """The failed attempts of a job; see `Client.errors`."""
        async for records in self._results(error_walk(job_id, order, limit)):
            for record in records:
                yield record

    def take(
        self,
        queues: Names = (),
        *,
        prefetch: int = 1,
        worker_id: str | None = None,
        idle_timeout: Period = "30s",
        interruption_limit: int | None = None,
    ) -> AsyncTakeStream:
        """A stream of jobs, opened by ``async with`` or by the first job that is asked for; see `Client.take`."""
        idle_timeout_ms = period_ms(idle_timeout, "idle_timeout", low=1)
        asked = take_request(queues, prefetch, worker_id, interruption_limit)
        opened = partial(self._transport.open_stream, *asked)
        return AsyncTakeStream(opened, idle_timeout_ms, self._retry)

    async def _perform(self, asked: Asked[T]) -> T:
        """Do what a verb asks."""
        if isinstance(asked, Exchange):
            return await self._exchange(asked)
        try:
            ask = next(asked)
            while True:
                try:
                    result = None
                    if isinstance(ask, Exchange):
                        result = await self._exchange(ask)
                    else:
                        await asyncio.sleep(ask / 1000)
                except AnewError as error:
                    ask = asked.throw(error)
                else:
                    ask = asked.send(result)
        except StopIteration as end:
            result_of_all: T = end.value
            return result_of_all

    async def _exchange(self, asked: Exchange[T]) -> T:
        _, answer = await self._transport.request(
            asked.method, asked.target, asked.body, also=asked.also, headers=asked.headers
        )
        return asked.read(answer)

    async def _results(self, walk: Walk[T]) -> AsyncIterator[T]:
        asked = step(walk)
        while asked is not None:
            result = await self._exchange(asked)
            asked = step(walk, result)
            yield result

    def _read_page(self, answer: bytes) -> AsyncPage:
        async def fetch(path: str) -> bytes:
            return (await self._transport.request("GET", path))[1]

        return read_async_page(answer, fetch)


class AsyncTakeStream:
    """A take stream; use it as ``async with client.take(...) as stream: async for job in stream: ...``.

    As long as it is open, its jobs are held for this client. When it closes or breaks, those not settled yet return to
    the queue at once. A wait for the next job may be cancelled or timed out: the stream stays open, and no job is lost.

    Args:
        open_one: Opens a stream.
        idle_timeout_ms: Longest silence; heartbeats count as signs of life.
        retry: Says when a stream that ended is opened again; None: never.

    Attributes:
        opened: How often it has been opened.
    """

    def __init__(
        self,
        open_one: Callable[[], Awaitable[tuple[Connection, Answer]]],
        idle_timeout_ms: int,
        retry: Waits | None = None,
    ) -> None:
        self._open_one, self._retry = open_one, retry
        self._idle_timeout_ms = idle_timeout_ms
        self._connection: Connection | None = None
        self._ready: deque[JobView | None] = deque()
        self._closed = False
        self._tries = 0
        self._wait_until: float | None = None
        self.opened = 0

    async def __aenter__(self) -> AsyncTakeStream:
        """Open it.

        Raises:
            AnewError: There is no server, or it refuses.
        """
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    def __aiter__(self) -> AsyncTakeStream:
        """Give itself: each job as it comes, until the stream ends."""
        return self

    async def __anext__(self) -> JobView:
        """Wait for the next job.

        Raises:
            AnewError: As for `events`.
        """
        while (event := await self._next()) is None:
            pass
        return event

    async def events(self) -> AsyncIterator[JobView | None]:
        """Give each job as it comes, and None for each heartbeat; ends and raises as `TakeStream.events` does."""
        while True:
            try:
                event = await self._next()
            except StopAsyncIteration:
                return
            yield event

    async def close(self) -> None:
        """Close the connection; jobs of this stream that are not settled return to the queue."""
        self._closed = True
        self._drop()
        await asyncio.sleep(0)  # in which the loop closes the socket

    async def _next(self) -> JobView | None:
        """Give the next job, or None for a heartbeat."""
        while not self._closed:
            if self._ready:
                return self._ready.popleft()
            try:
                if self._connection is None:
                    await self._open()
                if await self._read():
                    self._tries = 0
                    continue
                self._jobs.end()
                self._ended(None)
            except Unavailable as error:
                if self._closed:
                    break
                self._ended(error)
        raise StopAsyncIteration

    async def _open(self) -> None:
        if self._wait_until is not None:
            await asyncio.sleep(self._wait_until - asyncio.get_running_loop().time())
            self._wait_until = None
        self._connection, self._answer = await self._open_one()
        self._jobs = Jobs()
        self.opened += 1
        if self._closed:  # meanwhile: `close` has not seen this one
            self._drop()

    async def _read(self) -> bool:
        """Read what there is; False at the end."""
        try:
            async with asyncio.timeout(self._idle_timeout_ms / 1000):
                data = await self._answer.read()
        except (OSError, EOFError, http.client.HTTPException) as error:
            raise broken_stream(error, self._idle_timeout_ms) from error
        self._ready.extend(self._jobs.feed(data))
        return bool(data)

    def _ended(self, error: AnewError | None) -> None:
        """Say when the next stream is opened, or that there will be none."""
        self._drop()
        if not self.opened:
            raise error or AssertionError("a stream that was not opened does not end")
        self._tries += 1
        wait_ms = None if self._retry is None else self._retry.before(self._tries, error)
        if wait_ms is None:
            self._closed = True
            if error is not None:
                raise error
        else:
            self._wait_until = asyncio.get_running_loop().time() + wait_ms / 1000

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

"""The client whose verbs are awaited, made to block: so that the tests of the other one are tests of it as well."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from anew.client import AsyncClient, AsyncPage, AsyncTakeStream


class BlockedClient:
    """An `AsyncClient` on an event loop in a thread, with the look of a `Client`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._client = AsyncClient(*args, **options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def __enter__(self) -> BlockedClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a coroutine's result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def __getattr__(self, name: str) -> Any:
        def method(*args: Any, **options: Any) -> Any:
            return self.blocked(getattr(self._client, name)(*args, **options))

        return method

    def blocked(self, value: Any) -> Any:
        """Give a value with the look that `Client` gives it."""
        if isinstance(value, Coroutine):
            return self.blocked(self.run(value))
        if isinstance(value, AsyncPage):
            return BlockedPage(self, value)
        if isinstance(value, AsyncTakeStream):
            return BlockedStream(self, value)
        return self.iterate(value) if isinstance(value, AsyncIterator) else value

    def iterate(self, values: AsyncIterator[Any]) -> Iterator[Any]:
        """Iterate."""
        while True:
            try:
                value = self.run(_next(values))
            except StopAsyncIteration:
                return
            yield self.blocked(value)


class BlockedPage:
    """A page with the look of a `Page`."""

    def __init__(self, client: BlockedClient, page: AsyncPage) -> None:
        self._client, self._page = client, page
        self.jobs, self.next_path = page.jobs, page.next_path

    def __iter__(self) -> Iterator[Any]:
        return iter(self._page)

    def next(self) -> Any:
        """The page that follows."""
        return self._client.blocked(self._page.next())

    def prev(self) -> Any:
        """The page before."""
        return self._client.blocked(self._page.prev())


class BlockedStream:
    """A stream with the look of a `TakeStream`."""

    def __init__(self, client: BlockedClient, stream: AsyncTakeStream) -> None:
        self._client, self._stream = client, stream
        client.run(stream.__aenter__())

    def __enter__(self) -> BlockedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self._client.iterate(self._stream)

    def events(self) -> Iterator[Any]:
        """Jobs and heartbeats."""
        return self._client.iterate(self._stream.events())

    @property
    def opened(self) -> int:
        """How often it was opened."""
        return self._stream.opened

    def close(self) -> None:
        """Close it."""
        self._client.run(self._stream.close())


async def _next(values: AsyncIterator[Any]) -> Any:
    return await anext(values)

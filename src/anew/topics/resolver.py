"""The addresses of names, asked for at each attempt: nothing is kept, so that an answer that changes is judged again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

Resolve = Callable[[str], Awaitable[list[str]]]
"""A name in; its addresses, best first, out. Raises OSError where there is no answer."""

MAX_LOOKUPS = 64
"""Names that are asked for at one time. A server of names that is silent holds a thread for up to half a minute."""


class Resolver:
    """Asks the system for the addresses of names, in threads of its own.

    The loop's own threads do not serve: a handful of names whose servers are silent would hold up all other names.
    Who asks for a name that is just being asked for gets the same answer.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, thread_name_prefix="anew-resolver")
        self._running: dict[str, asyncio.Future[list[str]]] = {}

    async def __call__(self, name: str) -> list[str]:
        """Give the addresses of a name, best first.

        Raises:
            OSError: There is none, or no server of names answered.
        """
        running = self._running.get(name)
        if running is None or running.done():
            # One that is done is an earlier answer, which `_end` has yet to remove.
            running = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, name)
            self._running[name] = running
            running.add_done_callback(lambda done: self._end(name, done))
        return await asyncio.shield(running)  # who gives up leaves the others their answer

    def close(self) -> None:
        """Ask for nothing more; what is being asked for is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _end(self, name: str, done: asyncio.Future[list[str]]) -> None:
        if self._running.get(name) is done:
            del self._running[name]
        if not done.cancelled():
            done.exception()  # nobody may be left who takes it


def _look_up(name: str) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]

"""Takes in connections faster than the loop would.

uvloop accepts one connection in a turn of the loop (libuv does, from 1.45 on). Behind a busy loop a crowd of new clients
waits long in the kernel, connected and with its requests sent: 400 of them took 2 s where a turn took 5 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable

at_once = 128
"""Connections accepted in one turn; some milliseconds."""


class Acceptor:
    """Accepts beside the loop's own server whatever that leaves waiting.

    Args:
        listening: The server's sockets.
        protocol: Makes the protocol of each connection.
    """

    def __init__(self, listening: Iterable[socket.socket], protocol: Callable[[], asyncio.Protocol]) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._sockets: list[socket.socket] = []
        self._beginning: set[asyncio.Task[None]] = set()  # the loop alone would not keep them
        for one in listening:
            # A descriptor of our own for the same queue: the loop allows one watcher for each.
            ours = socket.socket(fileno=os.dup(one.fileno()))
            ours.setblocking(False)
            self._sockets.append(ours)
            self._loop.add_reader(ours, self._accept, ours)

    def close(self) -> None:
        """Accept no more."""
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        self._sockets.clear()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(at_once):
            try:
                accepted, _ = listening.accept()
            except OSError:  # none is left, or no descriptor: that the loop's own server reports
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._begin(accepted))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it has hung up already
            await self._loop.connect_accepted_socket(self._protocol, accepted)

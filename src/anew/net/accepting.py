"""Takes in connections, faster than the loop would, and without losing any when descriptors run out.

uvloop accepts one connection in a turn of the loop (libuv does, from 1.45 on). Behind a busy loop a crowd of new clients
waits long in the kernel, connected and with its requests sent: 400 of them took 2 s where a turn took 5 ms. And where no descriptor
is left, libuv drops whoever waits without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterable

at_once = 128
"""Connections accepted in one turn; some milliseconds."""

pause_ms = 100
"""How long none is accepted when there was no descriptor or memory for one: the loop would be woken at once, again and again."""

_exhausted = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts whoever connects.

    Args:
        listening: The sockets of a server that may be closed then: these go on under descriptors of our own.
        protocol: Makes the protocol of each connection.
        complain: Told what is missing when a connection cannot be accepted; they wait in the kernel meanwhile.
    """

    def __init__(
        self,
        listening: Iterable[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        complain: Callable[[OSError], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._complain = complain
        self._sockets: list[socket.socket] = []
        self._beginning: set[asyncio.Task[None]] = set()  # the loop alone would not keep them
        self._pause: asyncio.TimerHandle | None = None
        for one in listening:
            # A descriptor of our own for the same queue: the loop allows one watcher for each.
            ours = socket.socket(fileno=os.dup(one.fileno()))
            ours.setblocking(False)
            self._sockets.append(ours)
        self._watch()

    def close(self) -> None:
        """Accept no more."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        self._sockets.clear()

    def _watch(self) -> None:
        self._pause = None
        for one in self._sockets:
            self._loop.add_reader(one, self._accept, one)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(at_once):
            try:
                accepted, _ = listening.accept()
            except OSError as error:  # as a rule: none is left
                if error.errno in _exhausted:
                    self._rest(error)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._begin(accepted))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    def _rest(self, error: OSError) -> None:
        """Accept nothing for a moment, in which others may hang up."""
        for one in self._sockets:
            self._loop.remove_reader(one)
        if self._pause is None:
            self._pause = self._loop.call_later(pause_ms / 1_000, self._watch)
        self._complain(error)

    async def _begin(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it has hung up already
            await self._loop.connect_accepted_socket(self._protocol, accepted)

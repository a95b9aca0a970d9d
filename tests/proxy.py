"""A relay between a client and a server that loses connections, or what is sent on them, when a test says so."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

CHUNK = 65_536
AT_ONCE = struct.pack("ii", 1, 0)


class Doomed(NamedTuple):
    """The connection that is to be lost; see `Proxy.cut_at`."""

    word: bytes
    arrives: bool
    then: Callable[[], None]


class Proxy:
    """Listens on a port of its own and passes on, both ways, in one thread.

    Args:
        target: The server's port on this machine, or the path of its socket.

    Attributes:
        swallows: What comes in, from either side, goes nowhere; connections stay open.
        refuses: New connections are closed at once.
    """

    def __init__(self, target: int | str) -> None:
        self._target = target if isinstance(target, str) else ("127.0.0.1", target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.swallows = self.refuses = False
        self._peers: dict[socket.socket, socket.socket] = {}
        self._clients: set[socket.socket] = set()
        self._doomed: Doomed | None = None
        self._dying: dict[socket.socket, Doomed] = {}
        self._asked, self._told = socket.socketpair()
        self._orders: list[Callable[[], None]] = []
        self._selector = selectors.DefaultSelector()
        for one in (self._listener, self._asked):
            self._selector.register(one, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._over = False
        self._thread.start()

    def cut(self) -> None:
        """Reset all connections."""
        self._order(lambda: [self._drop(client) for client in list(self._clients)])

    def cut_at(self, word: bytes, *, arrives: bool, then: Callable[[], None] = lambda: None) -> None:
        """Reset the next connection on which a client sends a word, before the server gets it, or when it has answered.

        Args:
            word: What is looked for.
            arrives: Whether the server gets it.
            then: Called in the proxy's thread when the connection is gone.
        """
        self._doomed = Doomed(word, arrives, then)

    def close(self) -> None:
        """End everything."""

        def end() -> None:
            self._over = True

        self._order(end)
        self._thread.join()
        for one in (self._listener, self._asked, self._told, *self._peers):
            one.close()
        self._selector.close()

    def _order(self, what: Callable[[], object]) -> None:
        done = threading.Event()

        def order() -> None:
            what()
            done.set()

        self._orders.append(order)
        self._told.send(b"!")
        done.wait(10)

    def _run(self) -> None:
        while not self._over:
            for key, _ in self._selector.select():
                one = key.fileobj
                if one is self._asked:
                    self._asked.recv(1)
                    self._orders.pop(0)()
                elif one is self._listener:
                    self._accept()
                elif one in self._peers:
                    assert isinstance(one, socket.socket)
                    self._pass_on(one)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.socket(socket.AF_UNIX if isinstance(self._target, str) else socket.AF_INET)
        try:
            if self.refuses:
                raise OSError
            server.connect(self._target)
        except OSError:
            server.close()
            client.close()
            return
        self._peers |= {client: server, server: client}
        self._clients.add(client)
        for one in (client, server):
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, one: socket.socket) -> None:
        try:
            data = one.recv(CHUNK)
        except OSError:
            data = b""
        if doomed := self._dying.get(one):
            self._drop(one)
            doomed.then()
            return
        if not data:
            self._drop(one)
            return
        if self.swallows:
            return
        if self._doomed is not None and one in self._clients and self._doomed.word in data:
            doomed, self._doomed = self._doomed, None
            if not doomed.arrives:
                self._drop(one)
                doomed.then()
                return
            self._dying[self._peers[one]] = doomed
        with suppress(OSError):
            self._peers[one].sendall(data)

    def _drop(self, one: socket.socket) -> None:
        for end in (one, self._peers[one]):
            self._selector.unregister(end)
            del self._peers[end]
            self._clients.discard(end)
            self._dying.pop(end, None)
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            end.close()

"""A server for all tests of a module, and connections to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of

_numbers = itertools.count(1)

Open = Callable[..., FaktoryWire]


@pytest.fixture(scope="module")
def fwp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without a password; it must have handled every exception."""
    server = ServerProcess(tmp_path_factory.mktemp("fwp") / "data", fwp_port=0)
    yield server
    server.close()
    assert not server.new_complaints()


@pytest.fixture(scope="module")
def url(fwp_server: ServerProcess) -> str:
    """Its address, as clients take it."""
    return url_of(*fwp_server.address_of("fwp"), None)


@pytest.fixture
def connect(url: str) -> Iterator[Open]:
    """Open connections that have said HELLO: ``connect(wid="w1")``; ``connect(to=url)`` for another server."""
    wires: list[FaktoryWire] = []

    def open_one(*, to: str = url, **hello: Any) -> FaktoryWire:
        wires.append(FaktoryWire.open(to, **hello))
        return wires[-1]

    yield open_one
    for wire in wires:
        wire.close()


@pytest.fixture
def wire(connect: Open) -> FaktoryWire:
    """One such connection."""
    return connect()


@pytest.fixture
def empty(wire: FaktoryWire) -> FaktoryWire:
    """One such connection, to the server without any data."""
    wire.expect("FLUSH")
    return wire


@pytest.fixture
def queue() -> str:
    """A queue that no other test of this server uses."""
    return f"queue{next(_numbers)}"

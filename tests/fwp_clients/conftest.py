"""The server and the clients of these tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faktory_wire import FaktoryWire

from .clients import CLIENTS, ClientProgram, Working
from .servers import start

PASSWORD = "anew-secret"

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_url() -> Iterator[str]:
    """A server without a password."""
    server = start()
    yield server.url
    server.close()


@pytest.fixture
def faktory_url(shared_url: str) -> str:
    """The same server, emptied."""
    with FaktoryWire.open(shared_url) as wire:
        wire.expect("FLUSH")
    return shared_url


@pytest.fixture(scope="session")
def locked_url() -> Iterator[str]:
    """A server that asks for a password; the URL holds it."""
    server = start(PASSWORD)
    yield server.url
    server.close()


@pytest.fixture
def wire(faktory_url: str) -> Iterator[FaktoryWire]:
    """A connection of the test's own, to see what the client has done."""
    with FaktoryWire.open(faktory_url) as wire:
        yield wire


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses: a flushed server may still know the names of its queues."""
    return f"q{next(_numbers)}"


@pytest.fixture(params=CLIENTS, ids=lambda program: program.name)
def client(request: pytest.FixtureRequest) -> ClientProgram:
    """Each client in turn."""
    return request.param


@pytest.fixture
def working(faktory_url: str) -> Iterator[Callable[..., Working]]:
    """Start a client's worker: ``working(client, queue=..., wid=...)``."""
    workers: list[Working] = []

    def begin(client: ClientProgram, **options: Any) -> Working:
        workers.append(Working(client.words("work", faktory_url, options)))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.close()

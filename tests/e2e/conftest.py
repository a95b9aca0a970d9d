"""Servers and clients for the end-to-end tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .client import Client
from .server import ServerProcess
from .worker import Gate

if TYPE_CHECKING:
    from .browser import LabPage, Windows

HEARTBEAT_S = 0.2
"""Interval of the shared server's heartbeats: tests wait for two of them to see that nothing came."""

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests of this process that keep to queues of their own."""
    server = ServerProcess(
        tmp_path_factory.mktemp("shared") / "data", heartbeat_interval=f"{round(HEARTBEAT_S * 1000)}ms"
    )
    yield server
    server.close()
    assert not server.new_complaints()


@pytest.fixture
def server(shared_server: ServerProcess) -> Iterator[ServerProcess]:
    """The shared server; the test fails if it logs an unhandled exception meanwhile."""
    yield shared_server
    assert not shared_server.new_complaints()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of the test's server."""
    client = Client(server.address)
    yield client
    client.close()


@pytest.fixture
def queue() -> str:
    """A queue name that no other test uses."""
    return f"q{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def fresh_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start servers of one's own: ``fresh_server(default_retry_limit=3)``.

    ``root_dir`` starts on an existing directory; every other keyword is an option of ``serve``, None leaves it at
    the server's own default. All are killed at the end, and the test fails if one of them logged an unhandled
    exception.
    """
    servers: list[ServerProcess] = []

    def start(*, root_dir: Path | None = None, **flags: Any) -> ServerProcess:
        flags.setdefault("heartbeat_interval", f"{round(HEARTBEAT_S * 1000)}ms")
        server = ServerProcess(root_dir or tmp_path / f"data-{len(servers)}", **flags)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()
    complaints = [text for server in servers for text in server.new_complaints()]
    assert not complaints


@pytest.fixture
def fresh(fresh_server: Callable[..., ServerProcess]) -> Iterator[Callable[..., Client]]:
    """Clients of servers of one's own: ``fresh(default_retry_limit=3)``, or ``fresh(server)``."""
    clients: list[Client] = []

    def connect(server: ServerProcess | None = None, **flags: Any) -> Client:
        clients.append(Client((server or fresh_server(**flags)).address))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A program that says when it has begun, and then waits to be let through."""
    gate = Gate(tmp_path)
    yield gate
    gate.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Windows]:
    """The windows of the system's Chromium."""
    from .browser import (
        ARGUMENTS,
        Windows,
        chromium,
        sync_api,
    )  # where there is no playwright, only these tests are skipped

    path = chromium()
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield Windows(started)
        started.close()


@pytest.fixture
def tabs(browser: Windows, server: ServerProcess) -> Iterator[Callable[..., LabPage]]:
    """Open tabs; at the end each of them must have behaved."""
    from .browser import LabPage

    opened: list[LabPage] = []

    def tab(**options: Any) -> LabPage:
        opened.append(LabPage(browser, server.address, **options))
        return opened[-1]

    yield tab
    for one in opened:
        one.close()


@pytest.fixture
def lab(tabs: Callable[..., LabPage]) -> LabPage:
    """The page as it comes, without any state."""
    return tabs().open()

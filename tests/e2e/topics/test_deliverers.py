"""The processes that a server starts to deliver: with the first subscription, again when they die, and no longer than it lives."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.e2e.client import Client
from tests.e2e.server import ServerProcess
from tests.waiting import until


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    """Report whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def deliverers(server: ServerProcess) -> list[int]:
    """Those of a server's children that deliver."""
    found = []
    for pid in children(server.pid):
        with suppress(OSError):
            if b"deliver" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def test_a_deliverer_comes_with_the_first_subscription_is_replaced_and_ends_with_its_server(
    tmp_path: Path,
) -> None:
    server = ServerProcess(tmp_path / "data", webhook_confirmation="off")
    client = Client(server.address)
    assert client.request("PUT", "/v1/topics/orders").status == 201
    assert deliverers(server) == []
    endpoint = {"endpoint": {"type": "webhook", "url": "https://hooks.example.org/"}}
    assert client.request("POST", "/v1/topics/orders/subscriptions", data=endpoint).status == 201
    until(lambda: deliverers(server))
    (first,) = deliverers(server)
    os.kill(first, 9)
    until(lambda: deliverers(server) not in ([], [first]))
    (second,) = deliverers(server)
    client.close()
    os.kill(server.pid, 9)
    until(lambda: not is_alive(second))
    server.close()


def test_a_deliverer_is_there_from_the_start_where_there_is_a_subscription(tmp_path: Path) -> None:
    for _ in range(2):
        server = ServerProcess(tmp_path / "data", webhook_confirmation="off")
        client = Client(server.address)
        client.request("PUT", "/v1/topics/orders")
        endpoint = {"endpoint": {"type": "webhook", "url": "https://hooks.example.org/"}}
        client.request("POST", "/v1/topics/orders/subscriptions", data=endpoint)
        until(lambda server=server: deliverers(server))  # type: ignore[misc]
        (pid,) = deliverers(server)
        client.close()
        assert server.terminate() == 0
        assert not is_alive(pid)
        server.close()

"""What is left of locks, batches, slots and cron entries after SIGKILL."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.waiting import until

from .moved import BUGS
from .server import Server
from .test_crash import fresh_seed
from .tied_crash import run
from .wire import Client, encode


def test_ten_kills_leave_locks_batches_slots_and_entries_in_step(tmp_path: Path) -> None:
    report = run(10, fresh_seed(), tmp_path / "run")
    print(report)
    assert report.counts["accepted"] > 10 * 20, f"too little load to mean anything: {report}"
    assert report.ok, report


@pytest.mark.nightly
@pytest.mark.parametrize("round_", range(5))
def test_a_hundred_kills_leave_them_in_step(tmp_path: Path, round_: int) -> None:
    report = run(100, fresh_seed(), tmp_path / "run")
    print(report)
    assert report.ok, report


@pytest.mark.parametrize("bug", BUGS)
def test_reliability_59_the_rig_catches_what_is_not_written_in_its_transaction(
    tmp_path: Path, bug: str
) -> None:
    """The control runs: each planted bug must be found out."""
    report = run(6, fresh_seed(), tmp_path / "run", bug)
    print(report)
    assert not report.ok, report


def test_a_server_killed_alone_leaves_neither_its_helper_nor_its_ports_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with Server(tmp_path / "data", "--fwp-port", port) as server:
        with Client(server.address, timeout=20) as client:
            client.socket.sendall(encode("GET", "/lab"))
            assert client.socket.recv(12) == b"HTTP/1.1 200"
        (helper,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        server.kill(alone=True)
        server.start()
        until(lambda: not _runs(helper), within_s=10, what="the helper ends")


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

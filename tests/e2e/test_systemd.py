"""What systemd hears of services of the type ``notify``."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from anew.app.running import tell_systemd

from .server import START_TIMEOUT_S, environment
from .task_worker import Project

SERVING = ["serve", "--port", "0", "--no-fwp", "--no-admin", "--root-dir", "data"]


@pytest.mark.parametrize("words", [SERVING, ["worker", "jobs:app"]], ids=["serve", "worker"])
@pytest.mark.parametrize("address", ["notify", "@anew-test"], ids=["a path", "an abstract name"])
def test_a_process_tells_when_it_is_ready_and_when_it_stops(
    tmp_path: Path, words: list[str], address: str
) -> None:
    named = address + str(tmp_path) if address[0] == "@" else str(tmp_path / address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(named.replace("@", "\0"))
        manager.settimeout(START_TIMEOUT_S)
        process = subprocess.Popen(
            [sys.executable, "-m", "anew", *words],
            cwd=Project(tmp_path).folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment() | {"NOTIFY_SOCKET": named},
        )
        try:
            assert manager.recv(64) == b"READY=1"
            process.terminate()
            assert manager.recv(64) == b"STOPPING=1"
            assert process.wait(START_TIMEOUT_S) in (0, 143)
        finally:
            process.kill()
            process.wait()


def test_a_manager_that_is_gone_or_has_no_room_hurts_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    tell_systemd("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
        full.bind(str(tmp_path / "full"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "full"))
        for _ in range(10_000):
            tell_systemd("READY=1")

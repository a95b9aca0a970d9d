"""SIGTTIN shows what each process does that runs for long, and does not stop it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .command import url_of
from .server import START_TIMEOUT_S, ServerProcess, environment
from .task_worker import Project

SERVING = ["serve", "--port", "0", "--no-fwp", "--no-admin", "--root-dir", "data"]


@pytest.mark.parametrize(
    ("words", "begun"),
    [
        (SERVING, "listening"),
        (["worker", "jobs:app"], "worker started"),
        (["work", "-q", "nobodys", "--", "true"], "listening"),
        (["deliver", "--root-dir", "data"], "delivering"),
    ],
    ids=["serve", "worker", "work", "deliver"],
)
def test_sigttin_prints_the_stacks_of_all_threads(
    server: ServerProcess, tmp_path: Path, words: list[str], begun: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "anew", *words],
        cwd=Project(tmp_path).folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment() | {"ANEW_URL": url_of(server.address)},
    )
    assert process.stdout is not None
    with process, process.stdout as output:
        try:
            lines = iter(output)
            assert any(begun in line for line in lines)
            process.send_signal(signal.SIGTTIN)
            assert any("most recent call first" in line for line in lines)
            process.terminate()
            assert process.wait(START_TIMEOUT_S) in (0, 143)
        finally:
            process.kill()

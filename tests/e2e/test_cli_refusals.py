"""What the command says where something is in its way: one line that tells what to do, and no traceback."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .server import START_TIMEOUT_S, ServerProcess, environment, run


def test_a_port_that_is_taken_is_told_in_one_line(
    fresh_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    port = fresh_server().address[1]
    ended = run("serve", "--root-dir", str(tmp_path / "other"), "--port", str(port), "--log-level", "error")
    assert ended.returncode == 1
    assert ended.stderr == (
        f"Error: cannot listen on --host 127.0.0.1 --port {port} (address already in use); expected an address of "
        "this machine and a port that no other program has (--port 0 takes a free one)\n"
    )


def test_the_directory_is_free_again_after_a_start_that_failed(
    fresh_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    port = fresh_server().address[1]
    folder = tmp_path / "other"
    assert run("serve", "--root-dir", str(folder), "--port", str(port)).returncode == 1
    fresh_server(root_dir=folder)


def test_a_directory_that_cannot_be_used_is_told_by_its_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    place = tmp_path / "file" / "below"
    ended = run("serve", "--root-dir", str(place), "--port", "0", "--log-level", "error")
    assert ended.returncode == 2
    assert ended.stderr == (
        f"Error: --root-dir: {str(place)!r} cannot be used (Not a directory); expected a directory that this user "
        "may write to\n"
    )


def outcome(redirection: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command with its streams redirected by a shell."""
    line = shlex.join([sys.executable, "-m", "anew", *words]) + f" {redirection}"
    return subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        env=environment(),
        check=False,
    )


def test_an_output_that_is_full_is_told_in_one_line() -> None:
    ended = outcome(">/dev/full", "policy", "list")
    assert ended.returncode == 1
    assert ended.stderr == "Error: the output cannot be written (No space left on device)\n"


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&- >&-"])
def test_closed_streams_are_no_failure(redirection: str) -> None:
    ended = outcome(redirection, "policy", "list")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_reader_that_has_seen_enough_is_no_traceback() -> None:
    assert outcome("| head -n 1", "policy", "list").stderr == ""

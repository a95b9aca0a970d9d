"""What the command says where something is in its way: one line that tells what to do, and no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .server import ServerProcess, run


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

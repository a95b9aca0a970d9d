"""The commands that call a server's admin listener: ``anew top``, ``anew compact``, ``anew backup --url``."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import socket
import stat
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anew.cli.root import run as run_here

from .client import Client
from .server import ServerProcess, command, environment, run
from .wire import TIMEOUT_S


@pytest.fixture
def server(fresh_server: Callable[..., ServerProcess]) -> ServerProcess:
    return fresh_server(no_admin=None, admin_port=0)


@pytest.fixture
def url(server: ServerProcess) -> str:
    return "http://{}:{}".format(*server.address_of("admin"))


# -- backup


def test_zizq_94_a_backup_comes_from_a_server_and_is_restored(
    url: str, client: Client, tmp_path: Path
) -> None:
    client.enqueue_many("q", 7)
    target = tmp_path / "new" / "backup.tar.gz"
    done = run("backup", str(target), "--url", url, "--json")
    assert json.loads(done.stdout) == {"path": str(target), "bytes": target.stat().st_size, "verified": True}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["backup.tar.gz"]
    restored = run("restore", str(target), "--root-dir", str(tmp_path / "other"))
    assert restored.stdout.startswith("restored and verified: 7 jobs")


def test_a_backup_from_nobody_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "backup.tar.gz"
    target.write_bytes(b"older")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    done = run("backup", str(target), "--url", f"http://127.0.0.1:{free}")
    assert done.returncode == 3
    assert "no server at" in done.stderr
    assert target.read_bytes() == b"older"


def test_a_backup_that_ends_midway_leaves_what_was_there(tmp_path: Path) -> None:
    """As when the server is killed."""
    target = tmp_path / "backup.tar.gz"
    target.write_bytes(b"older")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        done = run("backup", str(target), "--url", f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread.join()
    assert done.returncode == 3
    assert "ended before its backup was whole" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["backup.tar.gz"]
    assert target.read_bytes() == b"older"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["--url", "http://127.0.0.1:1", "--root-dir", "data"],
            2,
            "--url and --root-dir: expected one of them",
        ),
        (["--url", "nonsense"], 2, "admin-url"),
    ],
)
def test_a_backup_that_is_asked_for_in_a_wrong_way(
    tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    done = run("backup", str(tmp_path / "x"), *words)
    assert (done.returncode, said in done.stderr) == (code, True)


def test_a_backup_that_cannot_be_written_says_so(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("backup", str(tmp_path / "file" / "backup.tar.gz"), "--url", url)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


# -- compact


def test_zizq_94_a_server_is_told_to_compact(url: str) -> None:
    done = run("compact", "--url", url)
    assert (done.returncode, done.stdout) == (0, "compacted\n")


def test_a_token_is_asked_for_and_given(fresh_server: Callable[..., ServerProcess], tmp_path: Path) -> None:
    server = fresh_server(no_admin=None, admin_port=0, token="s3cret")
    url = "http://{}:{}".format(*server.address_of("admin"))
    for words in (["compact"], ["top", "--json"]):
        refused = run(*words, "--url", url)
        assert refused.returncode == 5
        assert "Give the server's token: --token, or ANEW_TOKEN" in refused.stderr
        assert run(*words, "--url", url, "--token", "s3cret").returncode == 0


# -- top


def test_a_snapshot_is_printed_as_json(url: str, client: Client) -> None:
    job = client.enqueue("q", type="t")
    shown = json.loads(run("top", "--json", "--url", url).stdout)
    assert shown["event"] == "job_snapshot"
    assert [row["id"] for row in shown["ready"]["items"]] == [job["id"]]
    assert shown["server"]["total_ready"] == 1


def test_without_textual_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "textual" or name == "anew.top.screen"
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    assert run_here(["top", "--url", "http://127.0.0.1:1"]) == 5
    assert "pip install 'anew[top]'" in capsys.readouterr().err


class Terminal:
    """A terminal of 80 by 24 with a program in it."""

    def __init__(self, *words: str) -> None:
        self.seen = ""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._ours = ours
        self.process = subprocess.Popen(
            [*command(), *words], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
            env=environment() | {"TERM": "xterm-256color", "NO_COLOR": "1"}, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def until(self, text: str) -> None:
        """Read until something is shown."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen[-3_000:]
            self.seen += os.read(self._ours, 65_536).decode(errors="replace")

    def press(self, keys: bytes) -> None:
        self.seen = ""
        os.write(self._ours, keys)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def hang_up(self) -> int:
        """Take the terminal away; give the exit code."""
        os.close(self._ours)
        return self.process.wait(TIMEOUT_S)

    def end(self) -> int:
        """Read to the end; give the exit code."""
        with contextlib.suppress(OSError):
            while os.read(self._ours, 65_536):
                pass
        os.close(self._ours)
        return self.process.wait(TIMEOUT_S)


def test_top_runs_in_a_terminal_without_colour_and_ends_with_q(url: str, client: Client) -> None:
    job = client.enqueue("post", type="letter")
    with Terminal("top", "--url", url) as terminal:
        terminal.until("connected")
        terminal.press(b"\t")
        terminal.until(job["id"])
        shades = {int(code) for code in re.findall(r"[34]8;5;(\d+)[;m]", terminal.seen)}
        assert shades <= {0, 7, 8, 15, 16, 231, *range(232, 256)}  # black, white and greys
        assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:3[1-6]|4[1-6]|9[1-6]|10[1-6])m|[34]8;2;", terminal.seen)
        terminal.press(b"d")
        terminal.until("Delete letter")
        terminal.press(b"y")
        client.eventually(lambda: client.get(f"/jobs/{job['id']}").status == 404, "the job is deleted")
        terminal.press(b"q")
        assert terminal.end() == 0


def test_top_ends_when_its_terminal_has_gone(url: str) -> None:
    """No signal says so to a program whose terminal does not control it, as under some supervisors."""
    with Terminal("top", "--url", url) as terminal:
        terminal.until("connected")
        assert terminal.hang_up() == 1

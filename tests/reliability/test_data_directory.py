"""The data directory: full, taken by another server, or not trusted to the last byte."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until

from .load import count, fill
from .server import Server, server_command
from .wire import Client, Taker

DISK_MIB = 64
JOB = {"type": "t", "queue": "q", "payload": "x" * 2000}


def private_disk() -> list[str]:
    """Give the command that runs the server on a small disk of its own, or skip where that is not allowed.

    The disk is a tmpfs in a mount namespace inside an unprivileged user namespace; it ends with the server.
    """
    if sys.platform != "linux" or not shutil.which("unshare"):
        pytest.skip("needs Linux and unshare")
    tried = subprocess.run(
        ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True,
        text=True,
        timeout=10,
    )
    if tried.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {tried.stderr.strip()}")
    mount = f'mount -t tmpfs -o size={DISK_MIB}m tmpfs "$DISK" && mkdir "$DISK/data" && exec "$@"'
    return ["unshare", "-Urm", "sh", "-c", mount, "sh", *server_command()]


class Ballast:
    """A file that fills the server's disk, reached through the server's own view of the file system."""

    def __init__(self, server: Server, disk: Path) -> None:
        self.path = Path(f"/proc/{server.pid}/root{disk}/ballast")
        try:
            self.path.touch()
        except OSError as error:
            pytest.skip(f"the server's disk cannot be reached from outside: {error}")

    def fill(self, *, leave: int = 0) -> None:
        """Leave so many bytes of space, and no more."""
        block = b"\0" * 65536
        with self.path.open("ab", buffering=0) as file:
            while os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize > leave:
                try:
                    file.write(block)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    return

    def drop(self) -> None:
        """Give the space back."""
        os.truncate(self.path, 0)


@pytest.mark.parametrize("reserve", ["0", "16MiB"], ids=["to the last byte", "to the low mark"])
def test_reliability_08_a_full_disk_refuses_new_jobs_and_settles_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserve: str
) -> None:
    """Enqueues get 507, settling goes on, and service returns with the space and without a restart."""
    command = private_disk()
    monkeypatch.setenv("DISK", str(tmp_path))
    held = 500
    with Server(tmp_path / "data", "--min-free-disk", reserve, command=command) as server:
        ballast = Ballast(server, tmp_path)
        fill(server.address, held, queue="held", payload="x" * 500)
        with Client(server.address) as client, Taker(server.address, queue="held", prefetch=held) as taker:
            jobs: list[dict[str, str]] = []
            while len(jobs) < held:
                jobs += taker.take(held)
            ballast.fill(leave=0 if reserve == "0" else 8 << 20)
            stored = _enqueue_until_507(client)
            assert client.request("POST", "/jobs/bulk", {"jobs": [JOB] * 2000}).status == 507
            settled = [client.request("POST", f"/jobs/{job['id']}/success").status for job in jobs[:-100]]
            assert settled == [204] * (held - 100)
            failed = [
                client.request("POST", f"/jobs/{job['id']}/failure", {"message": "m", "kill": True}).status
                for job in jobs[-100:]
            ]
            assert failed == [200] * 100
            assert client.request("GET", "/health").status == 200
            assert count(client, "queue=q") == stored
            ballast.drop()
            until(
                lambda: client.request("POST", "/jobs", JOB).status == 201,
                within_s=30,
                what="jobs are accepted again after space came back",
            )
            assert count(client, "queue=q") == stored + 1
            assert count(client, "queue=held") == 100


def _enqueue_until_507(client: Client) -> int:
    """Enqueue until the first refusal; give how many went in."""
    most = DISK_MIB << 20
    for stored in range(most // len(JOB["payload"])):
        reply = client.request("POST", "/jobs", JOB)
        if reply.status != 201:
            assert reply.status == 507, reply
            assert "error" in reply.json()
            return stored
    raise AssertionError("the full disk took everything")


def test_reliability_11_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as first:
        flags = ["--root-dir", str(tmp_path / "data"), "--port", "0", "--no-admin"]
        second = subprocess.run(
            [*server_command(), "serve", *flags], capture_output=True, text=True, timeout=20
        )
        assert second.returncode != 0
        said = second.stdout + second.stderr
        assert "Traceback" not in said
        assert str(tmp_path / "data") in said
        assert any(word in said for word in ("in use", "another", "lock")), said
        with Client(first.address) as client:
            assert client.request("POST", "/jobs", JOB).status == 201


def test_a_directory_is_free_again_after_a_kill(tmp_path: Path) -> None:
    """No lock file outlives its owner."""
    with Server(tmp_path / "data") as first:
        with Client(first.address) as client:
            assert client.request("POST", "/jobs", JOB).status == 201
        first.kill()
        first.start()
        with Client(first.address) as client:
            assert count(client) == 1


def test_relaxed_commits_are_named_in_health(tmp_path: Path) -> None:
    with Server(tmp_path / "strict") as server, Client(server.address) as client:
        reply = client.request("GET", "/health")
        assert reply.json()["status"] == "ok"
        assert b"relaxed" not in reply.body
    with Server(tmp_path / "loose", "--commit", "relaxed") as server, Client(server.address) as client:
        reply = client.request("GET", "/health")
        assert reply.json()["status"] == "ok"
        assert b"relaxed" in reply.body
        assert any("relaxed" in line for line in server.log), "the log should say so too"

"""``anew backup``, ``anew restore`` and ``anew doctor`` as people run them: beside a busy server, and killed midway."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from anew.store.sqlite.backup import verify

from .client import Client
from .server import ServerProcess, environment, run

Start = Callable[..., ServerProcess]
Connect = Callable[..., Client]

LONG = "x" * 300_000
JOBS = 100
"""Some 30 MB, so that copying takes a moment."""


def fill(client: Client) -> None:
    for _ in range(JOBS // 10):
        client.enqueue_many("big", 10, payload=LONG, ready_at=4_000_000_000_000)


KILLED = """
import os, signal, sys
from anew.cli import doctor, main

unfinished = sys.argv.pop(1)

def kill(done, of):
    if os.path.getsize(unfinished):
        os.kill(os.getpid(), signal.SIGKILL)

doctor._progress = lambda as_json: kill
main()
"""


def kill_midway(unfinished: Path, *words: str | Path) -> None:
    """Run a command that is killed as soon as the file that it writes has begun to grow."""
    given = [sys.executable, "-c", KILLED, *map(str, (unfinished, *words))]
    assert subprocess.run(given, env=environment(), timeout=60, check=False).returncode == -signal.SIGKILL


@contextmanager
def load(client: Client) -> Iterator[list[str]]:
    """Enqueue and finish jobs all the time; gives the ids of those that were stored for later."""
    stored: list[str] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            stored.extend(client.enqueue_many("later", 5, payload="y" * 3_000, ready_at=4_000_000_000_000))
            client.enqueue("now")
            client.run_one("now", client.succeed)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield stored
    finally:
        stop.set()
        thread.join()


def test_reliability_56_a_copy_under_load_holds_all_that_was_answered_before_it(
    fresh_server: Start, fresh: Connect, tmp_path: Path
) -> None:
    server = fresh_server()
    client = fresh(server)
    fill(client)
    target = tmp_path / "copy.db"
    with load(fresh(server)) as stored:
        client.eventually(lambda: len(stored) > 20, "the load has begun")
        before = list(stored)
        answer = run("backup", str(target), "--root-dir", str(server.root_dir), "--json")
        during = len(stored) - len(before)
    assert answer.returncode == 0, answer.stderr
    assert during > 0, "the server went on"
    told = json.loads(answer.stdout)
    assert told == {
        "path": str(target),
        "jobs": told["jobs"],
        "bytes": target.stat().st_size,
        "verified": True,
    }
    assert JOBS + len(before) <= told["jobs"] <= JOBS + len(stored) + 1
    assert server.terminate() == 0
    other = tmp_path / "other"
    assert run("restore", str(target), "--root-dir", str(other)).returncode == 0
    again = fresh(fresh_server(root_dir=other))
    assert all(again.job(id_)["status"] == "scheduled" for id_ in before)
    assert again.count(queue="big") == JOBS
    assert run("doctor", "--root-dir", str(other)).returncode == 0


@pytest.mark.parametrize("older", [False, True], ids=["first", "older one there"])
def test_a_backup_that_is_killed_leaves_what_was_there(
    fresh_server: Start, fresh: Connect, tmp_path: Path, older: bool
) -> None:
    server = fresh_server()
    client = fresh(server)
    target = tmp_path / "copy.db"
    if older:
        assert run("backup", str(target), "--root-dir", str(server.root_dir)).returncode == 0
    fill(client)
    kill_midway(tmp_path / "copy.db.unfinished", "backup", target, "--root-dir", server.root_dir)
    assert (verify(target) == 0) if older else not target.exists()
    assert client.enqueue("q")
    assert run("backup", str(target), "--root-dir", str(server.root_dir)).returncode == 0
    assert verify(target) == JOBS + 1
    assert not (tmp_path / "copy.db.unfinished").exists()


@pytest.mark.parametrize("older", [False, True], ids=["nothing there", "a store there"])
def test_a_restore_that_is_killed_leaves_what_was_there(
    fresh_server: Start, fresh: Connect, tmp_path: Path, older: bool
) -> None:
    server = fresh_server()
    client = fresh(server)
    fill(client)
    target, place = tmp_path / "copy.db", tmp_path / "place"
    assert run("backup", str(target), "--root-dir", str(server.root_dir)).returncode == 0
    if older:
        old = fresh_server(root_dir=place)
        kept = fresh(old).enqueue("kept")["id"]
        assert old.terminate() == 0
    words = ("restore", str(target), "--root-dir", str(place), "--force")
    kill_midway(place / "anew.db.unfinished", *words)
    if older:
        old = fresh_server(root_dir=place)
        assert fresh(old).job(kept)["queue"] == "kept"
        assert old.terminate() == 0
    else:
        assert not (place / "anew.db").exists()
    assert run(*words).returncode == 0
    assert fresh(fresh_server(root_dir=place)).count() == JOBS
    assert sorted(path.name for path in place.glob("anew.db.*")) == (["anew.db.replaced"] if older else [])


def test_a_running_servers_store_is_not_replaced(fresh_server: Start, fresh: Connect, tmp_path: Path) -> None:
    server = fresh_server()
    target = tmp_path / "copy.db"
    assert run("backup", str(target), "--root-dir", str(server.root_dir)).returncode == 0
    refused = run("restore", str(target), "--root-dir", str(server.root_dir), "--force")
    assert (refused.returncode, str(server.pid) in refused.stderr) == (5, True)
    assert fresh(server).enqueue("q")


def test_a_doctor_beside_a_server(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    client = fresh(server)
    client.enqueue_many("q", 3)
    where = ("--root-dir", str(server.root_dir))
    well = run("doctor", *where)
    assert (well.returncode, well.stdout.splitlines()[-1]) == (0, "All is well.")
    connection = apsw.Connection(str(server.root_dir / "anew.db"))
    connection.execute("UPDATE queue SET ready = 9 WHERE name = 'q'")
    connection.close()
    found = run("doctor", *where)
    assert found.returncode == 5
    assert "counters: 1 counters are not what the rows say: q ready by -6" in found.stdout
    assert "anew doctor --repair" in found.stdout
    mended = run("doctor", *where, "--repair", "--json")
    assert mended.returncode == 0, mended.stdout
    told = json.loads(mended.stdout)
    assert told["findings"] == []
    assert told["mended"] == ["1 counters are not what the rows say: q ready by -6"]
    assert str(server.pid) in told["facts"]["processes"]
    assert client.count(queue="q") == 3
    assert run("doctor", "--root-dir", str(server.root_dir / "nothing")).returncode == 4


def test_a_copy_of_a_busy_store_is_well_when_it_is_restored(
    fresh_server: Start, fresh: Connect, tmp_path: Path
) -> None:
    """The server of the copy's time holds nothing in it: its jobs are ready before any start."""
    server = fresh_server()
    client = fresh(server)
    job = client.enqueue("q")["id"]
    target, other = tmp_path / "copy.db", tmp_path / "other"
    with client.take("q") as stream:
        assert stream.next_job()["id"] == job
        assert run("backup", str(target), "--root-dir", str(server.root_dir)).returncode == 0
    assert run("restore", str(target), "--root-dir", str(other)).returncode == 0
    looked = run("doctor", "--root-dir", str(other))
    assert (looked.returncode, looked.stdout.splitlines()[-1]) == (0, "All is well.")
    assert fresh(fresh_server(root_dir=other)).job(job)["status"] == "ready"

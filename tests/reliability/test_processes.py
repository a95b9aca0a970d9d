"""Four processes on one file, killed again and again: nothing is lost, nothing comes back, nothing is stuck, counters are right."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec
import pytest

from anew.engine import ThreadCommit
from anew.errors import ForkedStore, StoreBusy, StoreFailed
from anew.jobs import NewJob, State
from anew.store.selection import Filter, Page
from anew.tasks.opening import open_engine
from tests.reliability import embedded
from tests.waiting import until

pytestmark = pytest.mark.alone

KILLS = 2_000 if os.environ.get("ANEW_NIGHTLY") else 200
PROCESSES = 4
READY_AGAIN_S = 2.0
IN_FLIGHT = Filter(states=frozenset({State.IN_FLIGHT}))
ALL = Page(limit=1_000_000)

spawning = multiprocessing.get_context("forkserver")
spawning.set_forkserver_preload(["tests.reliability.embedded"])


class Crowd:
    """Processes on one store, each with a log of its own.

    Args:
        folder: Where the logs are, and the file.
        target: What each of them runs: called with the place of the store, that of its log, and a seed.
        databases: Places of the store that they are given in turn, where it is no file.
    """

    def __init__(
        self,
        folder: Path,
        target: Callable[[str, str, int], None] = embedded.run,
        databases: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.database = str(folder / "jobs.db")
        self.running: list[BaseProcess] = []
        self._target, self._databases = target, databases or [self.database]
        self._started = 0

    def start(self) -> None:
        """Start one more."""
        self._started += 1
        log = str(self.folder / f"log-{self._started}")
        database = self._databases[self._started % len(self._databases)]
        process = spawning.Process(target=self._target, args=(database, log, self._started), daemon=True)
        process.start()
        self.running.append(process)

    def kill(self, process: BaseProcess) -> None:
        """Kill one at once."""
        assert process.is_alive(), f"it ended by itself: {process.exitcode}"
        process.kill()
        process.join()
        self.running.remove(process)

    def go_on(self) -> None:
        """Let the crowd write some dozens of events more."""
        enough = self._written() + 2_000
        until(lambda: self._written() > enough)

    def _written(self) -> int:
        return sum(log.stat().st_size for log in self.folder.glob("log-*"))

    def events(self) -> dict[str, Counter[str]]:
        """Count the jobs by the letter of what was written of them; see `embedded`."""
        found: dict[str, Counter[str]] = {letter: Counter() for letter in "ERsS"}
        for log in self.folder.glob("log-*"):
            for line in log.read_text().splitlines():
                event, one = line.split(" ", 1)
                found[event][one] += 1
        return found


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """A crowd whose processes are gone at the end."""
    one = Crowd(tmp_path)
    yield one
    for process in one.running:
        process.kill()
        process.join()


def put(engine: ThreadCommit, n: int, queue: str = "a") -> list[int]:
    """Enqueue some jobs."""
    return list(engine.enqueue([NewJob(type="t", queue=queue, payload=msgspec.Raw(b"1"))] * n))


def test_kills_of_any_process_at_any_instant(crowd: Crowd) -> None:
    chance = random.Random(KILLS)
    watcher = open_engine(crowd.database)
    reader = watcher.engine.store.reader()
    killed = 0
    while killed < KILLS:
        while len(crowd.running) < PROCESSES:
            crowd.start()
        crowd.go_on()
        together = chance.choice([1, 1, 1, PROCESSES])
        for process in chance.sample(crowd.running, together):
            crowd.kill(process)
            killed += 1
        assert reader.recount().counters == {}, "the counters differ from the rows right after a kill"
    for process in list(crowd.running):
        crowd.kill(process)

    def given_back() -> bool:
        watcher.release([], 0)
        return not reader.find(IN_FLIGHT, ALL)

    assert until(given_back) < READY_AGAIN_S + 1.0  # the upkeep runs once a second
    events = crowd.events()
    enqueued, reporting, settled = (set(events[letter]) for letter in "EsS")
    jobs = watcher.engine.store.load(reader.find(Filter(), ALL), payload=True)
    there = [(job.payload or b"").decode().strip('" ') for job in jobs]
    assert len(there) == len(set(there)), "a job stands there twice"
    assert enqueued - set(there) - reporting == set(), "an acknowledged job is lost"
    assert settled & set(there) == set(), "an acknowledged success came back"
    assert reader.recount().counters == {}
    assert {job.state for job in jobs} <= {State.READY, State.RETRYING, State.SCHEDULED}
    assert len(enqueued) > 10 * KILLS
    assert len(settled) > 5 * KILLS
    reader.close()
    watcher.close()


def test_a_killed_process_has_its_jobs_back_in_line_within_two_seconds(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    engine = open_engine(path)
    keys = put(engine, 20)
    holder = spawning.Process(target=hold_and_wait, args=(path, str(tmp_path / "holding")), daemon=True)
    holder.start()
    until((tmp_path / "holding").exists)
    reader = engine.engine.store.reader()
    assert reader.find(IN_FLIGHT, ALL) == keys
    holder.kill()
    holder.join()
    began = time.monotonic()
    taken = engine.take(["a"], 20, timeout_s=10.0)
    assert [row[0] for row in taken.rows] == keys
    assert time.monotonic() - began < READY_AGAIN_S
    assert {job.interruptions for job in engine.engine.store.load(keys)} == {1}, "a crash is an interruption"
    reader.close()
    engine.close()


def hold_and_wait(path: str, sign: str) -> None:
    """Take all there is, and then do nothing."""
    engine = open_engine(path)
    engine.take(None, 1_000)
    Path(sign).touch()
    threading.Event().wait()


def stop_in_transaction(path: str, sign: str) -> None:
    """Begin a transaction, and then do nothing."""
    engine = open_engine(path)
    engine.engine.store.begin(synced=True)
    Path(sign).touch()
    os.kill(os.getpid(), signal.SIGSTOP)
    engine.engine.store.commit()
    Path(sign + "-went-on").touch()
    threading.Event().wait()


@pytest.mark.parametrize("ends", [signal.SIGCONT, signal.SIGKILL])
def test_a_process_that_is_stopped_in_its_transaction_makes_others_answer_busy(
    tmp_path: Path, ends: signal.Signals
) -> None:
    path, sign = str(tmp_path / "jobs.db"), str(tmp_path / "sign")
    engine = open_engine(path)
    impatient = ThreadCommit(engine.engine, busy_s=0.2)
    (before,) = put(engine, 1)
    stopped = spawning.Process(target=stop_in_transaction, args=(path, sign), daemon=True)
    stopped.start()
    until(Path(sign).exists)
    with pytest.raises(StoreBusy, match=f"process {stopped.pid} has been writing to the store for too long"):
        put(impatient, 1)
    assert stopped.pid is not None
    os.kill(stopped.pid, ends)
    if ends is signal.SIGCONT:
        until(Path(sign + "-went-on").exists)
    (after,) = until_put(engine)
    reader = engine.engine.store.reader()
    assert reader.find(Filter(), ALL) == [before, after], "nothing is lost, and what was refused is not there"
    stopped.kill()
    stopped.join()
    reader.close()
    engine.close()


def until_put(engine: ThreadCommit) -> list[int]:
    """Enqueue one job as soon as the store is free."""
    for _ in range(100):
        try:
            return put(engine, 1)
        except StoreBusy:
            continue
    raise AssertionError("the store is never free")


SHELL = """
import sqlite3, sys
shell = sqlite3.connect(sys.argv[1], isolation_level=None)
shell.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
shell.execute("ROLLBACK")
shell.close()
"""
"""What a person does in a database shell. A process of its own: the locks of two libraries in one process do not meet."""


def test_a_program_that_holds_sqlites_own_lock_is_named_as_such(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    engine = open_engine(path)
    impatient = ThreadCommit(engine.engine, busy_s=0.2)
    with subprocess.Popen(
        [sys.executable, "-c", SHELL, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "locked\n"
        with pytest.raises(StoreBusy, match="another program holds the lock of the database file"):
            put(impatient, 1)
        shell.communicate("\n")
    assert len(put(engine, 1)) == 1
    engine.close()


def test_a_failed_sync_stops_every_process_until_all_are_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    first, second = open_engine(path), open_engine(path)
    (key,) = put(second, 1)
    first.engine.store.abandon("disk I/O error")
    with pytest.raises(
        StoreFailed, match="a write to the disk has failed in another process: disk I/O error"
    ):
        put(second, 1)
    with pytest.raises(StoreFailed, match="end every process that has the store open"):
        open_engine(path)
    first.close()
    second.close()
    again = open_engine(path)
    assert again.engine.store.find(Filter(), ALL) == [key]
    assert len(put(again, 1)) == 1
    again.close()


def fork_and_use(path: str, sign: str) -> None:
    """Open, fork, and have the child open for itself while the parent dies."""
    engine = open_engine(path)
    engine.take(None, 1_000)
    if os.fork() == 0:
        mine = open_engine(path)
        for _ in range(2):
            with pytest.raises(ForkedStore):
                put(engine, 1)
        engine.close()  # closes nothing of the child's own
        put(mine, 1, "child")
        Path(sign).touch()
        threading.Event().wait(20)
        os._exit(0)
    until(Path(sign).exists)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_forked_child_does_not_keep_its_parents_session_alive(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    engine = open_engine(path)
    keys = put(engine, 3)
    parent = spawning.Process(target=fork_and_use, args=(path, str(tmp_path / "sign")), daemon=True)
    parent.start()
    parent.join(20)
    began = time.monotonic()
    taken = engine.take(["a"], 3, timeout_s=10.0)
    assert [row[0] for row in taken.rows] == keys
    assert time.monotonic() - began < READY_AGAIN_S
    assert engine.engine.store.queues.takeable("child") == 1
    engine.close()


def fork_amid_transactions(path: str, forks: int) -> None:
    """Fork while other threads are in transactions most of the time; each child opens for itself and stores a job."""
    engine = open_engine(path)
    over = threading.Event()

    def keep_busy() -> None:
        while not over.is_set():
            put(engine, 500)

    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(forks):
        child = os.fork()
        if child == 0:
            put(open_engine(path), 1, "child")
            os._exit(0)
        os.waitpid(child, 0)
    over.set()
    for thread in threads:
        thread.join()
    engine.close()


def test_a_child_that_is_forked_amid_a_transaction_of_another_thread_can_write(tmp_path: Path) -> None:
    """It stood still with the turn in its hands, and so did everybody else."""
    path = str(tmp_path / "jobs.db")
    parent = spawning.Process(target=fork_amid_transactions, args=(path, 10), daemon=True)
    parent.start()
    parent.join(60)
    try:
        assert parent.exitcode == 0
    finally:
        parent.kill()
    engine = open_engine(path)
    assert engine.engine.store.queues.takeable("child") == 10
    engine.close()


def open_and_close(path: str, rounds: int, out: str) -> None:
    """Come and go."""
    for _ in range(rounds):
        engine = open_engine(path)
        put(engine, 1)
        engine.close()
    Path(out).touch()


def test_processes_that_come_and_go_do_not_refuse_each_other(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    coming = [
        spawning.Process(target=open_and_close, args=(path, 15, str(tmp_path / f"done-{at}")), daemon=True)
        for at in range(4)
    ]
    for process in coming:
        process.start()
    for process in coming:
        process.join(60)
    assert [process.exitcode for process in coming] == [0] * 4
    engine = open_engine(path)
    assert engine.engine.store.queues.takeable("a") == 60
    engine.close()

"""Lets single writes and syncs of a real server fail, and looks at what the disk holds afterwards.

Run it alone: ``python -m tests.reliability.failing --runs 600 --seed 7``. The server runs with `failing_disk.c` between itself and
the disk. Of each kind of call (write or sync, of which file, in which thread) one fails, with EIO or ENOSPC, without having
happened, half done, or after it was done. Then the next start is tried on both disks that may be left: the one that the
process has seen, and the one that a power cut leaves, where a failed sync has dropped what was pending.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw

from anew.backoff import preset
from anew.clock import SystemClock
from anew.engine import Engine, recover
from anew.errors import AnewError
from anew.jobs import Defaults, State
from anew.jobs.ids import IdText
from anew.store.selection import Filter, Page
from anew.store.sqlite import open_sqlite
from anew.store.sqlite.opening import FILE
from tests.waiting import until

from .server import Server, StartFailure, server_command
from .wire import Client, Reply, Taker

SOURCE = Path(__file__).with_name("failing_disk.c")
ROUNDS = 8
LONG = "x" * 150_000
"""Several of these in each round, so that the log is copied into the database on the way."""
END_S = 10.0
ENDED = "the server ends at once"


class Plan(NamedTuple):
    """Which call fails, and how.

    Attributes:
        op: ``w`` or ``s``.
        n: The n-th of its kind, from 1.
        how: ``before``, ``after`` or ``short``.
    """

    op: str
    file: str
    thread: str
    n: int
    errno: int
    how: str

    def is_fatal(self) -> bool:
        """Whether the process must end: anything but a full device in a write."""
        return self.op == "s" or self.errno != errno.ENOSPC


@dataclass
class Report:
    """What a number of runs has found."""

    seed: int
    runs: int = 0
    reached: int = 0
    answered: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


class Said:
    """What the server has answered."""

    def __init__(self) -> None:
        self.stored: set[str] = set()
        self.finished: set[str] = set()
        self.failures: dict[str, int] = {}
        self.doubtful: set[str] = set()

    def __len__(self) -> int:
        return len(self.stored) + len(self.finished) + len(self.failures)


def compiled(folder: Path) -> Path:
    """Compile the failing disk.

    Raises:
        FileNotFoundError: There is no compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    library = folder / "failing_disk.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl", "-pthread"], check=True
    )
    return library


def run(*, runs: int, seed: int, folder: Path, flags: Sequence[str] = ()) -> Report:
    """Let a call fail in each of so many lives of a server.

    Args:
        runs: How many.
        seed: Chooses among the calls.
        folder: An empty one.
        flags: Further flags of the server.
    """
    folder.mkdir(exist_ok=True)
    library = compiled(folder)
    report = Report(seed)
    usual = _Life(folder / "usual", library, None, flags)
    usual.live(report)
    kinds = Counter(tuple(line.split()[:3]) for line in usual.calls() if line.startswith(("w ", "s ")))
    for number, plan in enumerate(_plans(kinds, runs, Random(seed))):
        life = _Life(folder / str(number), library, plan, flags)
        life.live(report)
        shutil.rmtree(folder / str(number))
    return report


def _plans(kinds: Counter[tuple[str, ...]], runs: int, rng: Random) -> list[Plan]:
    """Choose calls: of each kind the first, the last and then any, in each way in which such a call can fail."""
    plans: list[Plan] = []
    turn = 0
    while len(plans) < runs:
        for (op, file, thread), n in sorted(kinds.items()):
            at = (1, n, rng.randint(1, n))[min(turn, 2)]
            how = rng.choice(("before", "before", "after") if op == "s" else ("before", "after", "short"))
            plans.append(Plan(op, file, thread, at, rng.choice((errno.EIO, errno.ENOSPC)), how))
        turn += 1
    return plans[:runs]


class _Life:
    """One server from its start to its end, and the two starts after it."""

    def __init__(self, folder: Path, library: Path, plan: Plan | None, flags: Sequence[str]) -> None:
        self.live_disk, self.shadow, self.log = folder / "data", folder / "shadow", folder / "calls"
        self.shadow.mkdir(parents=True)
        self.plan = plan
        self.said = Said()
        environment = {
            "LD_PRELOAD": str(library),
            "FAILING_DISK_SHADOW": str(self.shadow),
            "FAILING_DISK_LOG": str(self.log),
        }
        if plan is not None:
            environment["FAILING_DISK_PLAN"] = " ".join(map(str, plan))
        set_ = [f"{name}={value}" for name, value in environment.items()]
        self.server = Server(self.live_disk, "--no-fwp", *flags, command=["env", *set_, *server_command()])

    def calls(self) -> list[str]:
        """What was asked of the disk, in order."""
        return self.log.read_text().splitlines()

    def live(self, report: Report) -> None:
        """Work until the server ends, then judge."""
        report.runs += 1
        started = True
        try:
            self.server.start()
            self._work()
        except StartFailure:
            started = False
        except (OSError, TimeoutError):
            pass  # it has ended: that is judged below
        code = self._end()
        failed = [at for at, line in enumerate(self.calls()) if line.endswith("fails")]
        report.answered += len(self.said)
        found: list[str] = []
        if failed:
            report.reached += 1
            report.kinds[self.calls()[failed[0]]] += 1
            found += self._judge_end(code, started, self.calls()[failed[0] + 1 :])
        elif code != -9:
            found.append(f"it ended with {code} though nothing failed")
        for disk in (self.shadow, self.live_disk):
            found += [f"{disk.name}: {text}" for text in _judge_disk(disk, self.said)]
        report.findings += [f"{self.plan}: {text}\n{list(self.server.log)[-5:]}" for text in found]

    def _end(self) -> int:
        """Give the exit code of a server that ends by itself; one that has no reason to is killed."""
        process = self.server.process
        assert process is not None
        fatal = self.plan is not None and self.plan.is_fatal()
        has_failed = fatal and "fails" in self.log.read_text()
        try:
            return process.wait(END_S if has_failed else 0.01)
        except subprocess.TimeoutExpired:
            if fatal and not has_failed and "fails" in self.log.read_text():  # only just now
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(END_S)
            self.server.kill()
            return process.returncode

    def _judge_end(self, code: int, started: bool, after: Sequence[str]) -> list[str]:
        """The process must have ended at once, or gone on, as the failure was."""
        assert self.plan is not None
        if not self.plan.is_fatal():
            return [] if code == -9 or not started else [f"a full device ended it with {code}"]
        found = []
        if code != 1:
            found.append(f"it ended with {code}; expected 1")
        if started and not self._has_said(ENDED):
            found.append("no log line says why it ended")
        if started and not any(line.startswith("stops") for line in after):
            found.append("the store is not marked as failed")
        # An empty file that is made is no database with a log yet: there SQLite puts back what it has begun.
        if (started or self.plan.file == "wal") and (lines := went_on(self.plan, after)):
            found.append(f"afterwards it went on: {lines[:5]}")
        return found

    def _has_said(self, words: str) -> bool:
        """Whether the log has some words; its last lines may still be on their way here."""
        try:
            until(lambda: any(words in line for line in list(self.server.log)), within_s=END_S, what=words)
        except AssertionError:
            return False
        return True

    # -- the load

    def _work(self) -> None:
        address = self.server.address
        with Client(address, timeout=END_S) as client, Taker(address, prefetch=20, timeout=END_S) as taker:
            for number in range(ROUNDS):
                self._enqueue(client, number)
                self._settle(client, taker.take(20))

    def _enqueue(self, client: Client, number: int) -> None:
        for nth in range(3):
            job = {"type": "t", "queue": "q", "payload": f"{number}-{nth}"}
            self._stored(client.request("POST", "/jobs", job))
        later = {"type": "t", "queue": "q", "payload": LONG, "ready_at": 4_000_000_000_000}
        ready = {"type": "t", "queue": "q", "payload": "y" * 3_000}
        self._stored(client.request("POST", "/jobs/bulk", {"jobs": [ready, later, later, later, later]}))

    def _stored(self, reply: Reply) -> None:
        if reply.status in (200, 201):
            body = reply.json()
            self.said.stored.update(job["id"] for job in body.get("jobs", [body]))

    def _settle(self, client: Client, jobs: Sequence[dict[str, object]]) -> None:
        ids = [str(job["id"]) for job in jobs]
        for id_ in ids[:2]:
            self.said.doubtful.add(id_)
            if client.request("POST", f"/jobs/{id_}/success").status == 204:
                self.said.finished.add(id_)
        for id_ in ids[2:4]:
            self.said.doubtful.add(id_)
            reply = client.request(
                "POST", f"/jobs/{id_}/failure", {"message": "no", "retry_at": 4_000_000_000_000}
            )
            if reply.status == 200:
                self.said.failures[id_] = reply.json()["attempts"]


def went_on(plan: Plan, after: Sequence[str]) -> list[str]:
    """List the calls after the one that failed by which somebody went on.

    Once the store is marked as failed, nobody begins anything; only what the other thread was doing may end. Before that, the
    writer does nothing more if the failure was its own, and of the other thread each sync of the same file must be told of it.
    """
    own = plan.thread == "main"
    marked = False
    found = []
    for line in after:
        match line.split():
            case ["stops", *_]:
                marked, wrong = True, False
            case ["begins", *_]:
                wrong = marked
            case ["w" | "s", _, "main", _]:
                wrong = own or marked
            case ["s", plan.file, "other", "ok"]:
                wrong = own
            case _:
                wrong = False
        if wrong:
            found.append(line)
    return found


def _judge_disk(disk: Path, said: Said) -> list[str]:
    """Open what is left as the next server does, and hold it against what was answered."""
    found: list[str] = []
    try:
        store = open_sqlite(disk, background=True)
    except AnewError as error:
        return [f"it does not open: {error}"]
    try:
        engine = Engine(store, clock=SystemClock(), defaults=Defaults(policy=preset("zizq")))
        recover(engine)
        ids = IdText(store.identity.tag)
        jobs = store.load(store.find(Filter(), Page(limit=1 << 30)), payload=True)
        present = {ids.write(job.key): job for job in jobs}
        sent = Counter(
            bytes(job.payload) for job in jobs if job.payload is not None and len(job.payload) < 20
        )
        found += [f"{payload!r} is there {n} times" for payload, n in sent.items() if n > 1]
        found += [f"{id_} is lost" for id_ in said.stored - said.doubtful - present.keys()]
        found += [f"{id_} is back" for id_ in said.finished & present.keys()]
        for id_, attempts in said.failures.items():
            if id_ not in present or present[id_].attempts != attempts:
                found.append(f"failure {attempts} of {id_} is lost")
        held = [id_ for id_, job in present.items() if job.state is State.IN_FLIGHT]
        found += [f"{id_} is stranded" for id_ in held]
        reader = store.reader()
        if wrong := reader.recount().counters:
            found.append(f"counters are off by {wrong}")
        reader.close()
    finally:
        store.close()
    connection = apsw.Connection(str(disk / FILE))
    verdict = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    if verdict != ("ok",):
        found.append(f"the database is damaged: {verdict}")
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anew-failing-") as folder:
        report = run(runs=given.runs, seed=given.seed, folder=Path(folder))
    print(json.dumps(vars(report), indent=2))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())

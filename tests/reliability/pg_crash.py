"""Kills processes that share a PostgreSQL database, PostgreSQL itself, and the network between, again and again under load.

    python -m tests.reliability.pg_crash --blows 100 --seed 7

Four processes (`embedded`) enqueue, take, settle, fail and give back; two of them reach the database through a relay that loses
connections. PostgreSQL runs as it does by default, with its data safe on the disk. At the end nothing may be lost, nothing that was
settled may be back, nothing that was refused may be there, nothing may stand there twice or be stuck, and the counters are right.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from anew.engine import ThreadCommit
from anew.errors import StoreBusy, StoreFailed
from anew.jobs import State
from anew.store.postgres import link, opening
from anew.store.selection import Filter
from anew.tasks.opening import open_engine
from tests.database import Database
from tests.proxy import Proxy
from tests.standby import Pair
from tests.waiting import until

from . import embedded
from .test_processes import ALL, IN_FLIGHT, Crowd

PROCESSES = 4
WAITING = (State.READY, State.RETRYING, State.SCHEDULED)
ANSWER_S = 1.0
IDLE = "1s"
AGAIN_S = 0.05
GIVEN_BACK_S = 15.0
STOPPED_S = (0.3, 1.5)
"""PostgreSQL ends the transaction of a process that is stopped in it after `IDLE`."""
AWAY_S = (0.0, 0.0, 0.5, 2.5)
"""How long the database is away. Operations wait for two seconds."""
SWALLOWED_S = 0.3

BLOWS = {
    "kill one": 5,
    "kill all": 1,
    "crash the database": 3,
    "restart the database": 1,
    "crash it and kill one": 1,
    "end its backends": 1,
    "cut": 3,
    "cut at a COMMIT": 4,
    "swallow": 1,
    "stop one": 1,
}
"""What happens, and how often."""

BUGS = {"lasts": True, "undone": False}
"""Planted for a control run, which must find them: what becomes of a COMMIT in doubt is not found out, but taken to be this."""
FINDS_BUGS = "cut at a COMMIT"


@dataclass
class Report:
    """The figures of one run."""

    seed: int
    blows: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    wrong: Counter[str] = field(default_factory=Counter)
    stuck: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not self.wrong

    def __str__(self) -> str:
        blows = ", ".join(f"{blow} {n}" for blow, n in self.blows.most_common())
        counts = ", ".join(f"{n} {what}" for what, n in self.counts.items())
        wrong = ", ".join(f"{n} {what}" for what, n in self.wrong.items())
        return (
            f"seed {self.seed}: {self.blows.total()} blows ({blows}), {self.kills} processes killed; {counts}; "
            f"wrong: {wrong or 'nothing'} {self.stuck or ''}; {self.seconds:.0f} s"
        )


def work(bug: str, database: str, log: str, seed: int) -> None:
    """What each process runs."""
    opening.ANSWER_S = ANSWER_S
    opening.SETTINGS["idle_in_transaction_session_timeout"] = IDLE
    if bug:
        link.PostgresLink._has_committed = lambda self: BUGS[bug]  # type: ignore[method-assign]
    embedded.run(database, log, seed, _open)


def _open(database: str) -> ThreadCommit:
    """Open an engine as soon as the database is there."""
    while True:
        with suppress(StoreBusy, StoreFailed):
            return open_engine(database)
        time.sleep(AGAIN_S)


class Run:
    """One run.

    Args:
        seed: Steers what happens when.
        folder: An empty one.
        database: Freshly made.
        bug: One of `BUGS`, or none.
        blow: What happens in place of `BLOWS`; called with chance, gives what was wrong with it.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        database: Database | Pair,
        bug: str = "",
        blow: Callable[[random.Random], Counter[str]] | None = None,
    ) -> None:
        self.report = Report(seed)
        self._chance = random.Random(seed)
        self._bug, self._blows, self._blow = bug, {FINDS_BUGS: 1} if bug else BLOWS, blow
        self._database = database
        database.empty()
        self._proxy = Proxy(database.port)
        urls = [database.url(), database.url(self._proxy.port)]
        self._crowd = Crowd(folder, functools.partial(work, bug), urls)
        self._watcher = open_engine(database.url())
        self._reader = self._watcher.engine.store.reader()

    def go(self, blows: int) -> Report:
        """Have so many things happen, and judge."""
        began = time.monotonic()
        try:
            for _ in range(blows):
                self._let_work()
                if self._blow is not None:
                    self.report.wrong += self._blow(self._chance)
                else:
                    (blow,) = self._chance.choices(list(self._blows), list(self._blows.values()))
                    self._strike(blow)
                    self.report.blows[blow] += 1
                if self._reader.recount().counters:
                    self.report.wrong["looks at wrong counters"] += 1
            self._proxy.cut_at(b"never", arrives=False)
            self._let_work()
            self._kill(PROCESSES)
            self._judge()
        finally:
            self._end()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _let_work(self) -> None:
        while len(self._crowd.running) < PROCESSES:
            self._crowd.start()
        self._crowd.go_on()

    # -- what happens

    def _strike(self, blow: str) -> None:
        assert isinstance(self._database, Database)
        if blow in ("kill one", "kill all"):
            self._kill(1 if blow == "kill one" else PROCESSES)
        elif blow in ("crash the database", "restart the database"):
            self._database.stop(signal.SIGINT if blow == "restart the database" else signal.SIGQUIT)
            time.sleep(self._chance.choice(AWAY_S))
            self._database.start()
        elif blow == "crash it and kill one":
            killing = threading.Timer(self._chance.uniform(0, 0.01), self._kill, (1,))
            killing.start()
            self._database.stop()
            killing.join()
            self._database.start()
        elif blow == "end its backends":
            with psycopg.connect(self._database.url(), autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'anew'"
                )
        elif blow == "cut":
            self._proxy.cut()
        elif blow == "cut at a COMMIT":
            arrives = not BUGS[self._bug] if self._bug else self._chance.random() < 0.5
            self._proxy.cut_at(b"COMMIT", arrives=arrives)
        elif blow == "swallow":
            self._proxy.swallows = True
            time.sleep(SWALLOWED_S)
            self._proxy.swallows = False
            self._proxy.cut()
        else:
            self._stop_one()

    def _kill(self, n: int) -> None:
        for process in self._chance.sample(self._crowd.running, n):
            if not process.is_alive():
                self.report.wrong["ended by themselves"] += 1
            process.kill()
            process.join()
            self._crowd.running.remove(process)
            self.report.kills += 1

    def _stop_one(self) -> None:
        pid = self._chance.choice(self._crowd.running).pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self._chance.choice(STOPPED_S))
        os.kill(pid, signal.SIGCONT)

    # -- the end

    def _judge(self) -> None:
        report, watcher = self.report, self._watcher
        with suppress(AssertionError):  # what stays in flight is counted below
            until(lambda: self._given_back(watcher), within_s=GIVEN_BACK_S)
        events = self._crowd.events()
        jobs = watcher.engine.store.load(self._reader.find(Filter(), ALL), payload=True)
        names = Counter((job.payload or b"").decode().strip('" ') for job in jobs)
        there, enqueued, settled = set(names), set(events["E"]), set(events["S"])
        ended = [job for job in jobs if job.state not in WAITING]
        last = watcher.engine.store.records.last_errors([job.key for job in ended])
        # Whose process was killed with it three times in a row counts as its killer.
        poison = {key for key, record in last.items() if record.outcome == "interrupted"}
        stuck = [job for job in ended if job.state is not State.DEAD or job.key not in poison]
        report.counts = {
            "enqueued": len(enqueued),
            "settled": len(settled),
            "refused": len(events["R"]),
            "left": len(jobs),
            "set aside as poison": len(poison),
        }
        report.stuck = [f"{job.state} {job.key}" for job in stuck[:5]]
        found = {
            "lost": len(enqueued - there - set(events["s"])),
            "resurrected": len(settled & there),
            "settled twice": sum(n > 1 for n in events["S"].values()),
            "refused and there": len(there.intersection(events["R"])),
            "there twice": names.total() - len(names),
            "stuck": len(stuck),
            "counters wrong": len(self._reader.recount().counters),
        }
        report.wrong += Counter({what: n for what, n in found.items() if n})

    def _given_back(self, watcher: ThreadCommit) -> bool:
        with suppress(StoreBusy):
            watcher.release([], 0)
        return not self._reader.find(IN_FLIGHT, ALL)

    def _end(self) -> None:
        for process in list(self._crowd.running):
            process.kill()
            process.join()
        self._reader.close()
        self._watcher.close()
        self._proxy.close()


def main() -> int:
    """Run from the command line; the exit status is 1 when a rule was broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blows", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument(
        "--bug", default="", choices=["", *BUGS], help="a planted one, to see that it is found"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pg-crash-") as scratch, closing(Database()) as database:
        report = Run(given.seed, Path(scratch), database, given.bug).go(given.blows)
    print(report)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())

"""Kills a server again and again under load of jobs that are tied to something, and looks at the rows after each kill.

    python -m tests.reliability.tied_crash --kills 30 --seed 7

Unique jobs, nested batches with callbacks, throttled queues and cron entries (`tied_load`). The server, alone or with its process
group, is killed at random moments, or at one that matters: between the last acknowledgement of a batch and its callback, for
example, or when a cron slot comes. Its clock is moved between its lives, so that reservations and slots lapse and cron slots
are missed, and sometimes set back. After each kill the files, and after each start the rows and what the protocol says of them,
are held against each other (`tie_rows`); the clients' notes are judged as they go.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .fwp_crash import Connection, Refused
from .server import Server
from .tie_rows import FILES, amiss, copied
from .tied_load import ENTRIES, LIMITS, POINTS, SETTINGS, Load

SERVER = str(Path(__file__).with_name("moved.py"))
LOAD_S = (0.1, 0.5)
LONGEST_S = 1.0
"""How long a point is waited for before the kill comes anyway."""
DRAIN_S = 60.0
RARE_MS = 300_000
IN_TIME_MS, TOO_LATE_MS, BACK_MS = 20_000, 90_000, 3_000
"""How long after a slot of the rare entry a server starts, and by how much its clock is set back."""
HOUR_MS = 3_600_000
RECOVERY_KILL_SHARE = 0.12


@dataclass
class Report:
    """The figures of one run."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    alone: int = 0
    slots_fired: int = 0
    slots_missed: int = 0
    ticks: int = 0
    looks: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.wrong

    def __str__(self) -> str:
        points = ", ".join(f"{point} {n}" for point, n in self.kills.most_common())
        counts = ", ".join(f"{n} {what}" for what, n in self.counts.items())
        cron = f"{self.ticks} cron jobs; of the rare slots {self.slots_fired} in time, {self.slots_missed} too late"
        return (
            f"seed {self.seed}: {self.kills.total()} kills, {self.alone} of the server alone ({points}); {counts}; {cron}; "
            f"{self.looks} looks at the rows; {len(self.wrong)} broken: {self.wrong[:5]}"
        )


class Run:
    """One run.

    Args:
        seed: Steers the load, the moments and the clock.
        root: An empty directory.
        bug: One of those in `moved`, planted for a control run.
    """

    def __init__(self, seed: int, root: Path, bug: str = "none") -> None:
        self.report = Report(seed)
        self._chance = random.Random(seed)
        self._load = Load(seed)
        self._root, self._bug = root, bug
        root.mkdir(exist_ok=True)
        (root / "anew.toml").write_text(SETTINGS)
        self._server = Server(root / "data", "--fwp-port", "0", "--config", str(root / "anew.toml"))
        self._rare_due: set[int] = set()

    async def go(self, kills: int) -> Report:
        """Kill so many times, drain, and judge; a run that has found something ends there."""
        load = self._load
        clients = load.clients()
        try:
            for _ in range(kills):
                while self._chance.random() < RECOVERY_KILL_SHARE:
                    await self._kill_recovering()
                await self._start(self._moved_clock())
                load.up.set()
                await self._killed_at_some_point()
                load.up.clear()
                self._look(copied(self._root / "data", self._root / "copy"), "left")
                if self.report.wrong or load.notes.wrong:
                    self.report.wrong += load.notes.wrong
                    return self.report
            load.draining = True
            for last in (False, True):
                # What was forgotten lapses before each, and what is not committed goes.
                await self._start(load.clock_ms + HOUR_MS)
                load.up.set()
                await self._drained(last=last)
                if last:
                    await self._judge_batches()
                    await self._judge_crons()
                load.up.clear()
                await asyncio.to_thread(self._server.kill)
            load.finished = True
        finally:
            for client in clients:
                client.cancel()
            ended = await asyncio.gather(*clients, return_exceptions=True)
            self._server.kill()
        self._judge_end(ended)
        return self.report

    # -- lives

    def _moved_clock(self) -> int:
        """Choose by how much the next life's clock differs from the machine's; note what that means for the rare entry."""
        load, what = self._load, self._chance.random()
        now = load.now()
        if not self.report.looks:  # the entries are not there yet
            return load.clock_ms
        if what < 0.15:
            return load.clock_ms - BACK_MS
        if what < 0.35:
            return load.clock_ms + self._to_slot(now, 1, IN_TIME_MS)
        if what < 0.45:
            return load.clock_ms + self._to_slot(now, 2, IN_TIME_MS)
        if what < 0.6:
            return load.clock_ms + self._to_slot(now, 1, TOO_LATE_MS)
        return load.clock_ms

    def _to_slot(self, now: int, slots: int, late_ms: int) -> int:
        slot = (now // RARE_MS + slots) * RARE_MS
        if late_ms == IN_TIME_MS:
            self._rare_due.add(slot // RARE_MS)
            self.report.slots_fired += 1
        else:
            self.report.slots_missed += 1
        return slot + late_ms - now

    async def _kill_recovering(self) -> None:
        """Start and kill before, while or just after the server has put its house in order."""
        self._server.command = [sys.executable, SERVER, str(self._load.clock_ms), self._bug]
        self._server.spawn()
        await asyncio.sleep(self._chance.uniform(0, 0.6))
        await asyncio.to_thread(self._server.kill)
        self.report.kills["recovery"] += 1

    async def _start(self, clock_ms: int) -> None:
        load, server = self._load, self._server
        load.clock_ms = clock_ms
        server.command = [sys.executable, SERVER, str(clock_ms), self._bug]
        await asyncio.to_thread(server.start)
        load.address = await asyncio.to_thread(server.fwp_address)
        await self._ask_around()
        self._look(self._root / "data", "working")

    async def _killed_at_some_point(self) -> None:
        point = self._chance.choice((*POINTS, "cron slot", *("any",) * 4))
        alone = self._chance.random() < 0.5
        loop, killed = asyncio.get_running_loop(), asyncio.Event()
        pid = self._server.pid

        def kill() -> None:
            if not killed.is_set():
                (os.kill if alone else os.killpg)(pid, signal.SIGKILL)
                killed.set()

        def passed(name: str) -> None:
            if name == point:
                loop.call_later(self._chance.choice((0, 0.0005, 0.002)), kill)

        if self._chance.random() < 0.15:
            await self._wake_helper()
        if point == "cron slot":
            loop.call_later(1 - self._load.now() % 1_000 / 1_000 + self._chance.uniform(-0.001, 0.01), kill)
        else:
            await asyncio.sleep(self._chance.uniform(*LOAD_S))
        if point == "any":
            kill()
        self._load.at_point = passed
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(killed.wait(), LONGEST_S + 1)
        self._load.at_point = lambda _: None
        self.report.kills[point if killed.is_set() else "late"] += 1
        self.report.alone += alone
        kill()
        await asyncio.to_thread(self._server.kill)

    async def _wake_helper(self) -> None:
        """Have the server start the process that it has beside it."""
        _, writer = await asyncio.open_connection(*self._server.address)
        writer.write(b"GET /lab HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await asyncio.sleep(0.05)
        writer.close()

    # -- looks

    def _look(self, folder: Path, when: str) -> None:
        self.report.looks += 1
        if (folder / FILES[0]).exists():
            found = amiss(folder, self._load.now(), LIMITS, ENTRIES)
            self.report.wrong += [f"kill {self.report.kills.total()}, {when}: {text}" for text in found]

    async def _ask_around(self) -> None:
        """Hold what the protocol says against the rows, while no client works."""
        load = self._load
        connection = await Connection.open(load.address, "")
        with contextlib.closing(connection):
            for bid in self._some(list(load.notes.groups), 5):
                await self._batch_as_its_row(connection, bid)
            for key in self._some(list(load.notes.keys), 5):
                with self._rows() as store:
                    stored = {jid for (jid,) in store.execute("SELECT jid FROM job WHERE type = 'unique'")}
                holders = stored & load.notes.keys[key].keys()
                if await load.push_unique(connection, key) == bool(holders):
                    self.report.wrong.append(f"a job of key {key} was judged wrongly beside {holders}")

    async def _batch_as_its_row(self, connection: Connection, bid: str) -> None:
        group = self._load.notes.groups[bid]
        try:
            said = await connection.ask("BATCH STATUS", bid)
        except Refused as error:
            if group.commit == "answered":
                self.report.wrong.append(f"{bid} was committed: {error}")
            return
        if not len(group.pushed) <= said["total"] <= len(group.pushed | group.doubtful):
            self.report.wrong.append(f"{bid} has {len(group.pushed)} members and says {said}")
        done = {callback for callback in ("complete", "success") if said[f"{callback}_st"] == "2"}
        if not group.settled <= done <= group.settling:
            self.report.wrong.append(f"{bid}: {group.settled} acknowledged, and it says {said}")

    def _some(self, among: list[Any], most: int) -> list[Any]:
        return self._chance.sample(among, min(most, len(among)))

    @contextlib.contextmanager
    def _rows(self) -> Any:
        with contextlib.closing(
            sqlite3.connect(f"file:{self._root / 'data' / FILES[0]}?mode=ro", uri=True)
        ) as store:
            yield store

    # -- the end

    async def _drained(self, *, last: bool) -> None:
        """Wait until nothing is to be done any more; not the last time: until nothing has been settled for a second."""
        until = asyncio.get_running_loop().time() + DRAIN_S
        before, still = -1, 0
        while still < 10 and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.1)
            now = self._waiting()
            if last and not now:
                return
            still = still + 1 if now == before and not last else 0
            before = now

    def _waiting(self) -> int:
        """Count jobs that have not ended; those of cron entries come for ever."""
        query = "SELECT count(*) FROM job WHERE state < 50 AND queue <> 'ticks' AND type <> 'alone'"
        with self._rows() as store:
            return int(store.execute(query).fetchone()[0])

    async def _judge_crons(self) -> None:
        """The slots that came in time have their jobs, and all of these jobs are handed out."""
        with self._rows() as store:
            ticks = dict(store.execute("SELECT jid, type FROM job WHERE queue = 'ticks'"))
            rare = {at // RARE_MS for (at,) in store.execute("SELECT id >> 20 FROM job WHERE type = 'rare'")}
        self.report.wrong += [
            f"slot {slot} of the rare entry came to nothing" for slot in self._rare_due - rare
        ]
        with contextlib.closing(await Connection.open(self._load.address, "")) as connection:
            got = Counter([(await connection.ask("FETCH", "ticks"))["jid"] for _ in ticks])
        if ticks.keys() - got.keys() or max(got.values(), default=0) > 1:
            self.report.wrong.append(f"{len(ticks)} cron jobs, handed out {got.most_common(3)}")
        self.report.ticks = len(ticks)

    async def _judge_batches(self) -> None:
        """All callbacks that are due have come; each batch says so."""
        notes = self._load.notes
        said: dict[str, dict[str, Any]] = {}
        with contextlib.closing(await Connection.open(self._load.address, "")) as connection:
            for bid, group in notes.groups.items():
                await self._batch_as_its_row(connection, bid)
                with contextlib.suppress(Refused):
                    said[bid] = await connection.ask("BATCH STATUS", bid)
                if group.commit == "answered" and said[bid]["pending"]:
                    self.report.wrong.append(f"{bid} still waits: {said[bid]}")

    def _judge_end(self, ended: list[Any]) -> None:
        notes, report = self._load.notes, self.report
        report.wrong += [repr(one) for one in ended if isinstance(one, Exception)]
        self._look(self._root / "data", "at the end")
        with self._rows() as store:
            states = dict(store.execute("SELECT jid, state FROM job"))
        lost = notes.unfinished() - states.keys()
        stuck = [jid for jid in notes.accepted if states.get(jid, 60) < 50]
        report.wrong += [f"lost: {jid}" for jid in sorted(lost)] + [f"stuck: {jid}" for jid in sorted(stuck)]
        report.wrong += notes.wrong
        report.counts = {
            "accepted": len(notes.accepted),
            "duplicates": notes.duplicates,
            "batches": len(notes.groups),
            "callbacks": sum(len(group.settled) for group in notes.groups.values()),
            "deliveries": notes.deliveries,
        }


def run(kills: int, seed: int, root: Path, bug: str = "none") -> Report:
    """Kill a server so many times under load, drain it and judge."""
    return asyncio.run(Run(seed, root, bug).go(kills))


def main() -> int:
    """Run from the command line; the exit status is 1 when a promise was broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--bug", default="none", help="a planted one, to see that it is found")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tied-crash-") as scratch:
        report = run(given.kills, given.seed, Path(scratch) / "run", given.bug)
    print(report)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())

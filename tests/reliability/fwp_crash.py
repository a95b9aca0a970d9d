"""Kills a server again and again under load of the Faktory Work Protocol, and counts what it lost.

    python -m tests.reliability.fwp_crash --kills 30 --seed 7

Eight producers push, singly and in bulk; eight workers fetch, acknowledge and fail. The server, alone or with its process group, is
killed with SIGKILL at random moments and started again on the same directory. At the end reservations that nobody has heard of are
let lapse, everything is drained, and the clients' own notes are judged:

- *lost*: accepted, and neither acknowledged nor dead by plan at the end;
- *resurrected*: handed out again after an acknowledgement that was answered while the job was reserved;
- *stuck*: left in the server after the drain.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .server import Server
from .wire import Address

CLIENTS = 8
QUEUES = ("a", "b", "c")
UNFINISHED_LIMIT = 600
"""Producers pause above so many jobs that are not settled, so that the drain stays short."""
LOAD_S = (0.1, 0.6)
DRAIN_S = 60.0
DEAD = 60
"""The code of the state in the file."""

AT_ONCE = {"curve": {"constant": "1ms"}, "limit": 9}
"""The policy of jobs that fail: the test does not wait for Faktory's."""


@dataclass
class Notes:
    """What the clients know.

    Attributes:
        doubtful: Pushed without an answer: they may be there or not.
        acknowledged: Answered while this client held the reservation.
        unsure: Acknowledged, or failed for the last time, without an answer.
        dead: Failed for the last time, as planned.
        wrong: What broke a promise at once.
    """

    accepted: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    delivered: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def unfinished(self) -> int:
        """Count accepted jobs that are not settled, as far as is known."""
        return len(self.accepted - self.acknowledged - self.dead - self.unsure)


@dataclass
class Report:
    """The figures of one run."""

    seed: int
    kills: int
    accepted: int
    delivered: int
    failed: int
    lost: list[str]
    stuck: int
    wrong: list[str]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.stuck or self.wrong)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.kills} kills, {self.accepted} accepted, {self.delivered} deliveries, {self.failed} failures; "
            f"{len(self.lost)} lost {self.lost[:5]}, {self.stuck} stuck, {len(self.wrong)} broken: {self.wrong[:5]}"
        )


class Connection:
    """One client's connection; any break is an OSError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: Address, wid: str) -> Connection:
        """Connect and say HELLO."""
        made = cls(*await asyncio.open_connection(*address))
        try:
            await made._line()
            await made.ask("HELLO", {"v": 2, "wid": wid})
        except BaseException:
            made.close()
            raise
        return made

    async def ask(self, verb: str, argument: object, sent: Callable[[], None] = lambda: None) -> Any:
        """Send one command; give ``True`` for OK, the error's text as a `Refused`, None, or the decoded bulk.

        Args:
            verb: With its second word, where it has one.
            argument: Text as it is, or what is sent as JSON.
            sent: Called between the sending and the answer.
        """
        text = argument if isinstance(argument, str) else json.dumps(argument)
        self._writer.write(f"{verb} {text}\n".encode())
        sent()
        line = await self._line()
        if line[:1] == b"$":
            if line == b"$-1\r\n":
                return None
            text = (await self._exactly(int(line[1:]) + 2))[:-2].decode()
            return json.loads(text) if text[:1] in ("{", "[") else text
        if line != b"+OK\r\n":
            raise Refused(line.decode())
        return True

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError
        return line

    async def _exactly(self, n: int) -> bytes:
        try:
            return await self._reader.readexactly(n)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError from error

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


class Refused(Exception):
    """The server answered with an error."""


class Load:
    """The clients of one run.

    Args:
        seed: Steers what is sent.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.notes = Notes()
        self.address: Address = ("", 0)
        self.up = asyncio.Event()
        self.draining = self.finished = False
        self._names = 0

    async def _connected(self, wid: str) -> Connection | None:
        await self.up.wait()
        try:
            return await Connection.open(self.address, wid)
        except OSError:
            await asyncio.sleep(0.01)
            return None

    async def producer(self, number: int) -> None:
        """Push until the drain begins."""
        while not self.draining:
            connection = await self._connected("")
            if connection is None:
                continue
            with contextlib.suppress(OSError), contextlib.closing(connection):
                while not self.draining:
                    if self.notes.unfinished() > UNFINISHED_LIMIT:
                        await asyncio.sleep(0.01)
                    else:
                        await self._push(connection)

    async def _push(self, connection: Connection) -> None:
        jobs = [self._job() for _ in range(1 if self.random.random() < 0.7 else self.random.randint(2, 20))]
        jids = {str(job["jid"]) for job in jobs}
        self.notes.doubtful |= jids
        refused = (
            await connection.ask("PUSHB", jobs) if len(jobs) > 1 else await connection.ask("PUSH", jobs[0])
        )
        if refused not in (True, {}):
            self.notes.wrong.append(f"refused: {refused}")
        self.notes.doubtful -= jids
        self.notes.accepted |= jids

    def _job(self) -> dict[str, object]:
        self._names += 1
        plan = self.random.choices(("succeed", "fail once", "die", "forget"), (80, 12, 4, 4))[0]
        job = {
            "jid": f"job-{self._names:08d}",
            "jobtype": "t",
            "queue": self.random.choice(QUEUES),
            "args": [plan, "x" * self.random.choice((0, 10, 300, 3_000))],
            "reserve_for": 60,
            "custom": {"anew_policy": AT_ONCE},
        }
        # Dead and kept: a job that is dropped at its first failure would be gone too where its reservation lapses unseen, because
        # the server died between handing it out and the client's reading it.
        return job | {"retry": -1 if plan == "die" else 9}

    async def worker(self, number: int) -> None:
        """Fetch and settle until the end."""
        while not self.finished:
            connection = await self._connected(f"worker-{number}")
            if connection is None:
                continue
            with contextlib.suppress(OSError), contextlib.closing(connection):
                while not self.finished:
                    job = await connection.ask("FETCH", " ".join(self.random.sample(QUEUES, 3)))
                    if job is not None and not await self._work(connection, job):
                        break

    async def _work(self, connection: Connection, job: dict[str, Any]) -> bool:
        """Do as the job's plan says; tell whether the connection goes on."""
        notes, jid, plan = self.notes, job["jid"], job["args"][0]
        notes.delivered[jid] += 1
        if jid in notes.acknowledged or jid in notes.dead:
            notes.wrong.append(f"{jid} came again after its end")
        first = "failure" not in job
        if plan == "forget" and notes.delivered[jid] == 1:
            return False  # its reservation stands until it lapses
        if plan == "die" or (plan == "fail once" and first):
            notes.failed[jid] += 1
            if plan == "die":
                notes.unsure.add(jid)
            try:
                await connection.ask("FAIL", {"jid": jid, "errtype": "E", "message": "as planned"})
            except Refused as error:
                notes.wrong.append(f"{jid}: {error}")
            if plan == "die":
                notes.dead.add(jid)
            return True
        notes.unsure.add(jid)
        await connection.ask("ACK", {"jid": jid})
        notes.unsure.discard(jid)
        notes.acknowledged.add(jid)
        return True


async def run(kills: int, seed: int, root: Path) -> Report:
    """Kill a server so many times under load, drain it and judge."""
    load, server = Load(seed), Server(root, "--fwp-port", "0")
    chance = random.Random(seed)
    clients = [asyncio.ensure_future(load.producer(n)) for n in range(CLIENTS)]
    clients += [asyncio.ensure_future(load.worker(n)) for n in range(CLIENTS)]
    try:
        for _ in range(kills):
            await _start(server, load)
            await asyncio.sleep(chance.uniform(*LOAD_S))
            load.up.clear()
            await asyncio.to_thread(server.kill, alone=chance.random() < 0.5)
        load.draining = True
        for again in range(2):  # what was taken in the first drain and not heard of lapses before the second
            await asyncio.to_thread(_let_lapse, root)
            await _start(server, load)
            await _drained(root, fully=bool(again))
            load.up.clear()
            await asyncio.to_thread(server.kill)
        load.finished = True
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        server.kill()
    return _judged(load.notes, root, seed, kills)


async def _start(server: Server, load: Load) -> None:
    await asyncio.to_thread(server.start)
    load.address = await asyncio.to_thread(server.fwp_address)
    load.up.set()


async def _drained(root: Path, *, fully: bool) -> None:
    """Wait until every job has ended; not fully: until none has for a second."""
    until = asyncio.get_running_loop().time() + DRAIN_S
    before, still = -1, 0
    while (now := _living(root)) and asyncio.get_running_loop().time() < until:
        still = still + 1 if now == before else 0
        before = now
        if not fully and still >= 10:
            return
        await asyncio.sleep(0.1)


def _living(root: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{root / 'anew.db'}?mode=ro", uri=True)) as store:
        return int(store.execute("SELECT count(*) FROM job WHERE state < 50").fetchone()[0])


def _let_lapse(root: Path) -> None:
    """Have all reservations end at the next start, as if their time were over."""
    with contextlib.closing(sqlite3.connect(root / "anew.db")) as store:
        store.execute("UPDATE job SET hold_deadline = 1 WHERE state = 40")
        store.commit()


def _judged(notes: Notes, root: Path, seed: int, kills: int) -> Report:
    with contextlib.closing(sqlite3.connect(root / "anew.db")) as store:
        states = dict(store.execute("SELECT jid, state FROM job"))
    # An acknowledgement without an answer may have counted; a push without one need not have.
    lost = notes.accepted - notes.acknowledged - notes.dead - notes.unsure
    stuck = [jid for jid, state in states.items() if state < DEAD and jid in notes.accepted]
    counts = (len(notes.accepted), notes.delivered.total(), notes.failed.total())
    return Report(seed, kills, *counts, sorted(lost - states.keys()), len(stuck), notes.wrong)


def main() -> int:
    """Run from the command line; the exit status is 1 when a promise was broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fwp-crash-") as scratch:
        report = asyncio.run(run(given.kills, given.seed, Path(scratch) / "data"))
    print(report)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())

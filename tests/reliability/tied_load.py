"""Clients whose jobs are tied to something: unique keys, batches, throttled queues. They write down what they know.

What they see is judged at once: `Notes.wrong` names each broken promise. Rows are judged by `tie_rows`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .fwp_crash import AT_ONCE, Connection, Refused
from .tie_rows import Entry, Limit
from .wire import Address

LIMITS = (Limit("slow", 3, 0, 40_000), Limit("each", 0, 1, 40_000))
ENTRIES = (Entry("second", 1_000), Entry("rare", 300_000))
SETTINGS = """
[fwp.throttles]
slow = { concurrency = 3, timeout = 40 }
each = { worker = 1, timeout = 40 }

[[fwp.cron]]
schedule = "* * * * * *"
job = { type = "second", queue = "ticks" }

[[fwp.cron]]
schedule = "*/5 * * * *"
job = { type = "rare", queue = "ticks" }

[[fwp.cron]]
schedule = "* * * * * *"
job = { type = "alone", queue = "unique", custom = { unique_for = 9000000 } }
"""
"""The third entry makes a job only when its last one has been acknowledged."""

WORKED = ("unique", "members", "callbacks", "slow", "each")
LONG_S = 9_000_000
LONG_BYTES = 600_000
UNFINISHED_LIMIT = 150
KEYS = 60
"""Unique keys that are asked for over and over."""
MARGIN_MS = 1_000
POINTS = (
    *("member sent", "member settled", "commit sent", "committed"),
    *("callback sent", "callback settled", "unique sent", "limited"),
)
"""Moments at which a kill may leave something halfway."""


@dataclass
class Unique:
    """One job of a unique key, told by when things were seen: numbers that grow, 0 for never.

    Attributes:
        asked, accepted, refused: Its push, and the answer to it.
        settling, settled: Its acknowledgement, and the answer to it.
    """

    asked: int
    accepted: int = 0
    refused: int = 0
    settling: int = 0
    settled: int = 0


@dataclass
class Group:
    """One batch.

    Attributes:
        parent: The id of the batch that waits for it.
        pushed, doubtful: Members whose push was answered, and was not.
        commit: ``""``, ``sent`` or ``answered``.
        settling, settled: Callbacks whose acknowledgement was sent, and answered.
    """

    parent: str
    pushed: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    commit: str = ""
    settling: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)


@dataclass
class Notes:
    """What the clients know; see also `fwp_crash.Notes`."""

    accepted: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    duplicates: int = 0
    deliveries: int = 0
    lapsed: set[str] = field(default_factory=set)
    keys: dict[int, dict[str, Unique]] = field(default_factory=lambda: defaultdict(dict))
    groups: dict[str, Group] = field(default_factory=dict)
    held: dict[str, dict[str, tuple[int, str]]] = field(default_factory=lambda: defaultdict(dict))
    wrong: list[str] = field(default_factory=list)

    def unfinished(self) -> set[str]:
        """Give accepted jobs that are not settled, as far as is known."""
        return self.accepted - self.acknowledged - self.dead - self.unsure

    def pushed_anew(self, key: int, jid: str) -> None:
        """A job of a unique key was accepted: nobody may hold the key."""
        mine = self.keys[key][jid]
        for other, one in self.keys[key].items():
            if other != jid and one.accepted and one.accepted < mine.asked and not one.settling:
                self.wrong.append(f"{jid} was accepted though {other} holds its key")

    def refused_as_duplicate(self, key: int, jid: str) -> None:
        """A job was refused as a duplicate: somebody must hold the key, or may."""
        self.duplicates += 1
        mine = self.keys[key][jid]
        others = [one for other, one in self.keys[key].items() if other != jid and not one.refused]
        if all(one.settled and one.settled < mine.asked for one in others):
            self.wrong.append(f"{jid} was refused though nobody holds its key")

    def took(self, queue: str, jid: str, worker: str, asked_at: int, now: int) -> None:
        """A job of a throttled queue was handed out: there must have been a slot.

        Args:
            queue, jid: The job's.
            worker: Who has it.
            asked_at: When its FETCH was sent, by the server's clock: it took the slot then or later.
            now: When it came.
        """
        held = self.held[queue]
        held.pop(jid, None)
        limit = next(limit for limit in LIMITS if limit.queue == queue)
        sure = [who for at, who in held.values() if now < at + limit.timeout_ms - MARGIN_MS]
        if limit.concurrency and len(sure) >= limit.concurrency:
            self.wrong.append(f"{jid} of {queue} came while {len(sure)} others run")
        if limit.per_worker and sure.count(worker) >= limit.per_worker:
            self.wrong.append(f"{jid} of {queue} came while {worker} has another one")
        held[jid] = (asked_at, worker)


class Load:
    """The clients of one run.

    Args:
        seed: Steers what is sent.

    Attributes:
        up: Clients may connect.
        at_point: Called with the name of each of `POINTS` that is passed.
        clock_ms: By how much the server's clock differs from the machine's.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.notes = Notes()
        self.address: Address = ("", 0)
        self.up = asyncio.Event()
        self.at_point: Callable[[str], None] = lambda _: None
        self.clock_ms = 0
        self.draining = self.finished = False
        self._count = 0

    def clients(self) -> list[asyncio.Future[None]]:
        """Start them."""
        producing = [self._singles, self._singles, self._singles, self._batches, self._batches, self._batches]
        made = [asyncio.ensure_future(self._produce(each)) for each in producing]
        return made + [asyncio.ensure_future(self._worker(f"worker-{n % 5}")) for n in range(10)]

    def now(self) -> int:
        """Give the instant by the server's clock, epoch ms."""
        return time.time_ns() // 1_000_000 + self.clock_ms

    def tell(self) -> int:
        """Give a number above all given before."""
        self._count += 1
        return self._count

    # -- producers

    async def _produce(self, do: Callable[[Connection], Any]) -> None:
        while not self.draining:
            connection = await self._connected("")
            if connection is None:
                continue
            with contextlib.suppress(OSError), contextlib.closing(connection):
                while not self.draining:
                    if len(self.notes.unfinished()) > UNFINISHED_LIMIT:
                        await asyncio.sleep(0.01)
                    else:
                        await do(connection)

    async def _connected(self, wid: str) -> Connection | None:
        await self.up.wait()
        try:
            return await Connection.open(self.address, wid)
        except OSError:
            await asyncio.sleep(0.01)
            return None

    def job(self, queue: str, **custom: object) -> dict[str, Any]:
        """Make a job up: what becomes of it says its argument, unless its key does not let it."""
        plan = self.random.choices(("succeed", "fail once", "die", "forget"), (80, 12, 3, 5))[0]
        return {
            "jid": f"job-{self.tell():08d}",
            "jobtype": "t",
            "queue": queue,
            "args": [plan],
            "reserve_for": 60,
            "retry": -1 if plan == "die" else 9,
            "custom": {"anew_policy": AT_ONCE, **custom},
        }

    async def _singles(self, connection: Connection) -> None:
        kind = self.random.choice(("unique", "unique", "bulk", "start", "brief", "slow", "each"))
        if kind == "unique":
            await self.push_unique(connection, self.random.randrange(KEYS))
            return
        if kind == "bulk":
            await self._push_unique_in_bulk(connection)
            return
        queue = "unique" if kind in ("start", "brief") else kind
        ties = {
            "start": {"unique_for": LONG_S, "unique_until": "start"},
            "brief": {"unique_for": 0.3},
        }.get(kind, {})
        job = self.job(queue, **ties) | {"jobtype": kind}
        if ties:
            job["args"] = ["succeed", self.random.randrange(KEYS)]
        await self._push(connection, job)

    def _unique(self, key: int) -> dict[str, Any]:
        return self.job("unique", unique_for=LONG_S) | {"jobtype": "unique", "args": [key], "retry": 9}

    async def push_unique(self, connection: Connection, key: int) -> bool:
        """Push a job of a key; tell whether it was accepted."""
        job = self._unique(key)
        jid = job["jid"]
        mine = self.notes.keys[key][jid] = Unique(self.tell())
        try:
            await connection.ask("PUSH", job, lambda: self.at_point("unique sent"))
        except Refused as error:
            if "NOTUNIQUE" not in str(error):
                raise
            mine.refused = self.tell()
            self.notes.refused_as_duplicate(key, jid)
            return False
        self._accepted(key, jid)
        return True

    async def _push_unique_in_bulk(self, connection: Connection) -> None:
        """Push some jobs in one PUSHB, perhaps several of one key."""
        keys = [self.random.randrange(KEYS) for _ in range(6)]
        jobs = {job["jid"]: key for key in keys for job in [self._unique(key)]}
        for jid, key in jobs.items():
            self.notes.keys[key][jid] = Unique(self.tell())
        bulk = [self._unique(key) | {"jid": jid} for jid, key in jobs.items()]
        refused = await connection.ask("PUSHB", bulk, lambda: self.at_point("unique sent"))
        for jid, key in jobs.items():
            if jid not in refused:
                self._accepted(key, jid)
        for jid in refused:
            self.notes.keys[jobs[jid]][jid].refused = self.tell()
            self.notes.refused_as_duplicate(jobs[jid], jid)

    def _accepted(self, key: int, jid: str) -> None:
        self.notes.keys[key][jid].accepted = self.tell()
        self.notes.pushed_anew(key, jid)
        self.notes.accepted.add(jid)

    async def _push(self, connection: Connection, job: dict[str, Any]) -> None:
        try:
            await connection.ask("PUSH", job)
            self.notes.accepted.add(job["jid"])
        except Refused as error:
            if "NOTUNIQUE" not in str(error):
                self.notes.wrong.append(f"refused: {error}")
            self.notes.duplicates += 1

    async def _batches(self, connection: Connection) -> None:
        """Make a batch, often with a child, which now and then has one too; now and then one is left alone."""
        bids = [await self._new_batch(connection, "")]
        while len(bids) < 3 and self.random.random() < 0.4:
            bids.append(await self._new_batch(connection, bids[-1]))
        for bid in bids:
            await self._members(connection, bid)
        self.random.shuffle(bids)
        for bid in bids:
            if self.random.random() < 0.97:
                await self._commit(connection, bid)

    async def _new_batch(self, connection: Connection, parent: str) -> str:
        callbacks = self.random.choice((("complete",), ("success",), ("complete", "success")))
        given = {
            name: self.job("callbacks") | {"jobtype": name, "args": ["succeed"], "retry": 9}
            for name in callbacks
        }
        bid = await connection.ask("BATCH NEW", given | ({"parent_bid": parent} if parent else {}))
        self.notes.groups[bid] = Group(parent)
        return str(bid)

    async def _members(self, connection: Connection, bid: str) -> None:
        """Push members, one by one or in bulk; now and then a long one, which is written in parts."""
        group = self.notes.groups[bid]
        jobs = [self.job("members", bid=bid) for _ in range(self.random.choice((0, 1, 2, 5)))]
        if jobs and self.random.random() < 0.03:
            jobs[0]["args"].append("x" * LONG_BYTES)
        together = self.random.random() < 0.3
        for some in [jobs] if together else [[job] for job in jobs]:
            jids = {job["jid"] for job in some}
            group.doubtful |= jids
            if together:
                if refused := await connection.ask("PUSHB", some):
                    self.notes.wrong.append(f"refused: {refused}")
                self.notes.accepted |= jids
            else:
                await self._push(connection, some[0])
            group.doubtful -= jids
            group.pushed |= jids

    async def _commit(self, connection: Connection, bid: str) -> None:
        self.notes.groups[bid].commit = "sent"
        await connection.ask("BATCH COMMIT", bid, lambda: self.at_point("commit sent"))
        self.notes.groups[bid].commit = "answered"
        self.at_point("committed")

    # -- workers

    async def _worker(self, wid: str) -> None:
        while not self.finished:
            connection = await self._connected(wid)
            if connection is None:
                continue
            with contextlib.suppress(OSError), contextlib.closing(connection):
                while not self.finished:
                    queues = self.random.sample(WORKED, len(WORKED))
                    asked_at = self.now()
                    job = await connection.ask("FETCH", " ".join(queues))
                    if job is not None and not await self._work(connection, job, wid, asked_at):
                        break

    async def _work(self, connection: Connection, job: dict[str, Any], wid: str, asked_at: int) -> bool:
        """Do as the job's plan says; tell whether the connection goes on."""
        notes, jid, queue = self.notes, job["jid"], job["queue"]
        plan = job["args"][0] if job["args"] else "succeed"
        notes.deliveries += 1
        if jid in notes.acknowledged or jid in notes.dead:
            notes.wrong.append(f"{jid} came again after its end")
        if queue in ("slow", "each"):
            notes.took(queue, jid, wid, asked_at, self.now())
            self.at_point("limited")
            await asyncio.sleep(self.random.random() * 0.005)  # so that slots are in use
        if plan == "forget" and jid not in notes.lapsed and not self.draining:
            notes.lapsed.add(jid)
            return False  # its reservation stands until it lapses, its slot until its time is over
        notes.held[queue].pop(jid, None)
        if plan == "die" or (plan == "fail once" and "failure" not in job):
            await self._fail(connection, jid, dies=plan == "die")
        else:
            await self._acknowledge(connection, job)
        return True

    async def _fail(self, connection: Connection, jid: str, *, dies: bool) -> None:
        if dies:
            self.notes.unsure.add(jid)
        try:
            await connection.ask("FAIL", {"jid": jid, "errtype": "E", "message": "as planned"})
        except Refused as error:
            self.notes.wrong.append(f"{jid}: {error}")
        if dies:
            self.notes.dead.add(jid)

    async def _acknowledge(self, connection: Connection, job: dict[str, Any]) -> None:
        notes, jid, custom = self.notes, job["jid"], job.get("custom") or {}
        kind = "callback" if "_bid" in custom else "member"
        unique = notes.keys[job["args"][0]].get(jid) if job["jobtype"] == "unique" else None
        if unique is not None:
            unique.settling = self.tell()
        group = notes.groups.get(custom.get("_bid", ""))
        if group is not None:
            group.settling.add(custom["_cb"])
        notes.unsure.add(jid)
        await connection.ask("ACK", {"jid": jid}, lambda: self.at_point(f"{kind} sent"))
        if unique is not None:
            unique.settled = self.tell()
        notes.unsure.discard(jid)
        notes.acknowledged.add(jid)
        if group is not None:
            group.settled.add(custom["_cb"])
        self.at_point(f"{kind} settled")

"""The crash rig's clients: 16 producers and 16 workers in one process, which also pulls the trigger.

It runs beside the server under test and is told by lines of JSON on standard input where the server is, when
and how to kill it, and when to drain. It kills by itself, because a kill that must land right after an answer
has no time for a message to another process. At the end it reads everything the server still shows, has the
history judged and prints the verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import signal
import sys
import time
from typing import Any

from .checker import check
from .history import Answer, Closed, Delivery, Down, Event, Invoke, Opened, Record
from .plans import Plans, digest_of, failure_of, lost_payload, now_ms, outcome_of, stream_request
from .wire import Address, AsyncClient, Hangup, StreamLines

PRODUCERS = 16
WORKERS = 16
OUTSTANDING_LIMIT = 1500
"""Producers pause above this many unfinished jobs, so that the drain stays short."""
DRAIN_DEADLINE_S = 60.0
TRAP_PATIENCE_S = 1.0
UNFINISHED = "scheduled,ready,in_flight"


class Loader:
    """Shared state of all clients.

    Args:
        seed: Steers what is sent; the timing is the machine's.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.plans = Plans(self.random)
        self.events: list[Event] = []
        self.address: Address = ("", 0)
        self.pid = 0
        self.up = asyncio.Event()
        self.room = asyncio.Event()
        self.room.set()
        self.unfinished: set[str] = set()
        self.keys: dict[str, str] = {}
        self.draining = False
        self.finished = False
        self.trap = ""
        self.timers: list[asyncio.TimerHandle] = []
        self.tasks: list[asyncio.Future[None]] = []
        self.streams = 0

    # -- the trigger ---------------------------------------------------------------------------------------

    def aim(self, point: str, after: float) -> None:
        """Get ready to kill the server.

        Args:
            point: ``uniform``: at the given moment. ``sent``: when a burst of enqueues has been sent,
                before any answer. ``enqueue``, ``success``, ``failure``, ``delivery``: right after the
                first such answer or event that follows the moment; ``enqueue`` comes with a burst.
            after: The moment, seconds from now.
        """
        asyncio.get_running_loop().call_later(after, self._fire, point)

    def _fire(self, point: str) -> None:
        if point == "uniform":
            self.kill(point)
            return
        self.timers.append(
            asyncio.get_running_loop().call_later(TRAP_PATIENCE_S, self.kill, f"{point} (too late)")
        )
        if point in ("sent", "enqueue"):
            self.tasks.append(asyncio.ensure_future(self._burst(point)))
        else:
            self.trap = point

    async def _burst(self, point: str) -> None:
        """Send many enqueues in one go; the kill comes while they are carried out."""
        clients = await asyncio.gather(*(self.connect() for _ in range(PRODUCERS)))
        waiting = [
            asyncio.ensure_future(self.enqueue(client, self.plans.batch())) for client in clients if client
        ]
        await asyncio.sleep(0)  # lets every one of them write
        if point == "sent":
            delay = self.random.uniform(0, 0.004)
            self.timers.append(asyncio.get_running_loop().call_later(delay, self.kill, point))
        else:
            self.trap = point
        await asyncio.gather(*waiting)
        for client in clients:
            if client:
                client.close()

    def kill(self, point: str) -> None:
        """SIGKILL the server's process group, once, and tell the driver."""
        if not self.up.is_set():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.up.clear()
        self.trap = ""
        while self.timers:  # of this aim; the next one brings its own
            self.timers.pop().cancel()
        self.events.append(Down(now_ms()))
        say(killed=point, unfinished=len(self.unfinished))

    def note(self, event: Event, kind: str) -> None:
        """Write an event down, and spring the trap if it waits for such a one."""
        self.events.append(event)
        if kind and kind == self.trap:
            self.kill(kind)

    # -- connections ---------------------------------------------------------------------------------------

    async def connect(self) -> AsyncClient | None:
        """Connect to the server that is up; None when it is not, after a moment."""
        await self.up.wait()
        try:
            return await AsyncClient.open(self.address)
        except OSError:
            await asyncio.sleep(0.01)
            return None

    # -- producers -----------------------------------------------------------------------------------------

    async def producer(self) -> None:
        """Enqueue until the drain begins, reconnecting for ever."""
        while not self.draining:
            client = await self.connect()
            if client is None:
                continue
            alive = True
            while alive and not self.draining:
                await self.room.wait()
                alive = await self.enqueue(client, self.plans.batch())
            client.close()

    async def enqueue(self, client: AsyncClient, batch: list[dict[str, Any]]) -> bool:
        """Send one batch and write down what became of it.

        Returns:
            Whether the connection can be used again.
        """
        asked_at = now_ms()
        keys = [job["payload"]["key"] for job in batch]
        for key, job in zip(keys, batch, strict=True):
            digest = digest_of(job["payload"])
            self.events.append(
                Invoke(asked_at, "enqueue", key, digest, job.get("ready_at", 0), "retention" in job)
            )
        try:
            if len(batch) == 1:
                reply = await client.request("POST", "/jobs", batch[0])
            else:
                reply = await client.request("POST", "/jobs/bulk", {"jobs": batch})
        except OSError:
            reply = None
        outcome = outcome_of(reply)
        ids = [""] * len(keys)
        if outcome == "ok":
            assert reply is not None
            told = reply.json()
            ids = [told["id"]] if len(batch) == 1 else [job["id"] for job in told["jobs"]]
            self.unfinished.update(keys)
            self.keys.update(zip(ids, keys, strict=True))
            self._weigh()
        at = now_ms()
        for key, id in zip(keys, ids, strict=True):
            self.note(Answer(at, asked_at, "enqueue", outcome, key, id), "enqueue" if outcome == "ok" else "")
        return reply is not None

    def _weigh(self) -> None:
        if len(self.unfinished) > OUTSTANDING_LIMIT:
            self.room.clear()
        else:
            self.room.set()

    # -- workers -------------------------------------------------------------------------------------------

    async def worker(self, number: int) -> None:
        """Take and settle until the end, reconnecting for ever."""
        chance = random.Random(number)
        in_doubt: list[tuple[str, str]] = []
        while not self.finished:
            settler, taker = await self.connect(), await self.connect()
            if settler and taker:
                with contextlib.suppress(OSError):
                    await self._settle_late(settler, in_doubt)
                    await self._serve(taker, settler, in_doubt, chance)
            for client in (settler, taker):
                if client:
                    client.close()

    async def _settle_late(self, settler: AsyncClient, in_doubt: list[tuple[str, str]]) -> None:
        """Repeat successes that got no answer, as real clients do; the job may be someone else's by now."""
        while in_doubt:
            await self.succeed(settler, [in_doubt.pop()], in_doubt)

    async def _serve(
        self, taker: AsyncClient, settler: AsyncClient, in_doubt: list[tuple[str, str]], chance: random.Random
    ) -> None:
        """Work on one stream until it breaks or the worker has had enough of it."""
        self.streams += 1
        stream, lines = self.streams, StreamLines()
        patience = chance.randint(100, 3000)  # deliveries until the worker drops its stream, jobs and all
        prefetch = chance.choice((1, 4, 16, 64))
        self.events.append(Opened(now_ms(), stream))
        taker.writer.write(stream_request(prefetch, chance))
        try:
            while not self.finished:
                data = await taker.read()
                jobs = [json.loads(line) for line in lines.feed(data) if line]
                if lines.status != 200:
                    raise Hangup(f"take answered {lines.status}")
                self._delivered(stream, jobs)
                patience -= len(jobs)
                if patience < 0 and not self.draining:
                    break
                await self._work(settler, jobs, in_doubt, chance)
        finally:
            self.events.append(Closed(now_ms(), stream))

    def _delivered(self, stream: int, jobs: list[dict[str, Any]]) -> None:
        at = now_ms()
        for job in jobs:
            payload = job.setdefault("payload", lost_payload(self.keys.get(job["id"], job["id"])))
            event = Delivery(
                at,
                stream,
                payload["key"],
                job["id"],
                digest_of(payload),
                job["attempts"],
                job["ready_at"],
                job["dequeued_at"],
            )
            self.note(event, "delivery")

    async def _work(
        self,
        settler: AsyncClient,
        jobs: list[dict[str, Any]],
        in_doubt: list[tuple[str, str]],
        chance: random.Random,
    ) -> None:
        done = []
        for job in jobs:
            report = failure_of(job)
            if report is None:
                done.append((job["id"], job["payload"]["key"]))
            else:
                await self.fail(settler, job, report)
        if chance.random() < 0.5 and len(done) > 1:
            await self.succeed(settler, done, in_doubt)
        else:
            for one in done:
                await self.succeed(settler, [one], in_doubt)

    async def succeed(
        self, settler: AsyncClient, jobs: list[tuple[str, str]], in_doubt: list[tuple[str, str]]
    ) -> None:
        """Report success for one job or several at once.

        Raises:
            OSError: The connection broke; the jobs are put among those in doubt.
        """
        asked_at = now_ms()
        for _, key in jobs:
            self.events.append(Invoke(asked_at, "success", key))
        refused: set[str] = set()
        try:
            if len(jobs) == 1:
                reply = await settler.request("POST", f"/jobs/{jobs[0][0]}/success")
            else:
                reply = await settler.request("POST", "/jobs/success", {"ids": [id for id, _ in jobs]})
                if reply.status == 422:
                    refused = set(reply.json()["not_found"])
        except OSError:
            self._settled(asked_at, "success", jobs, "unknown")
            in_doubt += jobs
            raise
        if refused:
            self._settled(asked_at, "success", [job for job in jobs if job[0] in refused], "refused")
            self._settled(asked_at, "success", [job for job in jobs if job[0] not in refused], "ok")
        else:
            self._settled(asked_at, "success", jobs, outcome_of(reply))

    def _settled(self, asked_at: float, op: str, jobs: list[tuple[str, str]], outcome: str) -> None:
        at = now_ms()
        for _, key in jobs:
            self.note(Answer(at, asked_at, op, outcome, key), op if outcome == "ok" else "")
            self.unfinished.discard(key)
        self._weigh()

    async def fail(self, settler: AsyncClient, job: dict[str, Any], report: dict[str, Any]) -> None:
        """Report one failure.

        Raises:
            OSError: The connection broke.
        """
        key, asked_at = job["payload"]["key"], now_ms()
        self.events.append(Invoke(asked_at, "failure", key))
        try:
            reply = await settler.request("POST", f"/jobs/{job['id']}/failure", report)
        except OSError:
            self.note(Answer(now_ms(), asked_at, "failure", "unknown", key), "")
            self.unfinished.discard(key)
            raise
        outcome, at = outcome_of(reply), now_ms()
        if outcome != "ok":
            self.note(Answer(at, asked_at, "failure", outcome, key), "")
            return
        told = reply.json()
        facts = (told["attempts"], told["status"], told["ready_at"])
        self.note(Answer(at, asked_at, "failure", "ok", key, "", *facts), "failure")
        if told["status"] == "dead":
            self.unfinished.discard(key)
            self._weigh()

    # -- the end -------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Stop producing, let the workers finish, read what is left, and print the verdict."""
        self.draining = True
        self.room.set()
        begun = time.monotonic()
        client = None
        while client is None:
            client = await self.connect()
        left = -1
        while left and time.monotonic() - begun < DRAIN_DEADLINE_S:
            left = (await client.request("GET", f"/jobs/count?status={UNFINISHED}")).json()["count"]
            await asyncio.sleep(0.05)
        drained_s = time.monotonic() - begun
        self.finished = True
        final = await self._read_all(client)
        begun = time.monotonic()
        verdict = check(self.events, final)
        say(
            verdict=dataclasses.asdict(verdict)
            | {"resurrected": verdict.resurrected, "stuck": verdict.stuck, "ok": verdict.ok},
            events=len(self.events),
            drained_s=drained_s,
            checked_s=time.monotonic() - begun,
        )

    async def _read_all(self, client: AsyncClient) -> list[Record]:
        records = []
        path = "/jobs?limit=2000"
        while path:
            page = (await client.request("GET", path)).json()
            records += [Record(job["payload"]["key"], job["id"], job["status"]) for job in page["jobs"]]
            path = page["pages"]["next"]
        return records


def say(**facts: object) -> None:
    """Print one line of JSON for the driver."""
    print(json.dumps(facts), flush=True)


async def main(seed: int) -> None:
    """Follow the driver's commands until it asks for the drain."""
    loader = Loader(seed)
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    clients = [asyncio.ensure_future(loader.producer()) for _ in range(PRODUCERS)]
    clients += [asyncio.ensure_future(loader.worker(number)) for number in range(WORKERS)]
    for client in clients:
        client.add_done_callback(_die_with)
    async for line in commands:
        command = json.loads(line)
        loader.address, loader.pid = (command["host"], command["port"]), command["pid"]
        loader.up.set()
        if "point" in command:
            loader.aim(command["point"], command["after"])
        else:
            async with asyncio.timeout(DRAIN_DEADLINE_S + 30):
                await loader.drain()
            break
    for client in clients:
        client.cancel()


def _die_with(client: asyncio.Future[None]) -> None:
    """A client that raises is a bug of the rig or a lie of the server: end loudly, never hang."""
    if not client.cancelled() and (error := client.exception()):
        say(failed=repr(error))
        os._exit(1)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

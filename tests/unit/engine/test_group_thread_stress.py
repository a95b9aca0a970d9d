"""Many tasks of a real event loop at once on a group commit whose batches a thread applies; the rules are checked at the end."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from random import Random
from typing import Any

import pytest

from anew.backoff import Policy
from anew.clock import SystemClock
from anew.engine import Call, Engine, Enqueued, Fetch, GroupCommit, Limits, Succeed, Taker
from anew.errors import AnewError, StoreBusy
from anew.jobs import Defaults
from anew.store.protocol import TakenRow
from anew.store.selection import Filter

from .hanging import SOON_S, RemoteStore
from .rig import ALL, differences, idle_beside_ready, ignore, plain

STEPS = 2_000 if os.environ.get("ANEW_NIGHTLY") else 60


class Crowd:
    """Producers, takers and fetchers, and what has happened to their jobs.

    Attributes:
        stored: Keys of jobs whose producers were told that they are stored.
        done: Keys of jobs whose workers were told that they are done.
        doubtful: Jobs whose producers were told of an error.
        seen: Deliveries: key and token.
        wrong: What must not be.
    """

    QUEUES = ("a", "b", "c")

    def __init__(self, seed: int, loop: asyncio.AbstractEventLoop) -> None:
        self.random = Random(seed)
        self.loop = loop
        self.store = RemoteStore()
        self.store.turns.when_free = loop.call_soon  # type: ignore[attr-defined]
        self._wakes = socket.socketpair()
        self.store.wakes = self._wakes[0].fileno()
        self.engine = Engine(
            self.store,  # type: ignore[arg-type]
            clock=SystemClock(),
            defaults=Defaults(policy=Policy.from_json({"curve": {"constant": "10s"}})),
            limits=Limits(global_in_flight=40),
        )
        self.commit = GroupCommit(self.engine, loop, lambda: self.wrong.append("the store has failed"))
        self.commit.start()
        self.store.on_the_way = self._let_the_loop_turn
        self.store.forbidden = threading.get_ident()
        self.stored: set[int] = set()
        self.done: list[int] = []
        self.doubtful = 0
        self.seen: set[tuple[int, int]] = set()
        self.wrong: list[str] = []

    def _let_the_loop_turn(self) -> None:
        """In the thread: have the loop do something within each batch, wherever that is."""
        if threading.get_ident() != self.store.forbidden:
            turned = threading.Event()
            self.loop.call_soon_threadsafe(turned.set)
            assert turned.wait(SOON_S)

    async def turn(self) -> None:
        """Let the loop go round some times; in each of them the thread makes one call at most, and a batch is a dozen calls."""
        for _ in range(self.random.randrange(16)):
            await asyncio.sleep(0)

    async def ask(self, op: Any) -> Any:
        answer: asyncio.Future[Any] = self.loop.create_future()
        op.done = answer.set_result  # raises where it is answered twice
        (self.commit.submit_new if op.group == "enqueue" else self.commit.submit)(op)
        return await answer

    async def produce(self) -> None:
        for _ in range(STEPS):
            result = await self.ask(plain(self.random.randint(1, 4), self.random.choice(self.QUEUES)))
            if isinstance(result, Enqueued):
                self.stored.update(result.keys)
            else:
                self.doubtful += 1

    async def settle(self, keys: list[int]) -> None:
        while isinstance(result := await self.ask(Succeed(keys, ignore)), AnewError):
            pass
        self.done += set(keys).difference(result)

    async def take(self, most: int = STEPS) -> None:
        """Open streams one after the other, each for some turns."""
        for _ in range(most):
            await _Stream(self, self.random.choice((None, ["a"], ["b", "c"]))).run(self.random.randrange(8))

    async def fetch(self) -> None:
        for _ in range(STEPS):
            fetch = _Fetching(self)
            self.commit.submit(fetch)
            for _ in range(self.random.randrange(12)):
                if fetch.key is not None:
                    break
                await self.turn()
            fetch.over = True
            self.commit.call_off(fetch)
            if fetch.key is not None:
                await self.settle([fetch.key])

    async def disturb(self) -> None:
        """Have others write, and batches break, now and then."""
        for _ in range(STEPS):
            await self.turn()
            kind = self.random.randrange(10)
            if kind == 0:
                self.store.verbs["begin"] = [StoreBusy("another process is writing")] * 3
            elif kind == 1:
                self.store.verbs["commit"] = [RuntimeError("odd")]
            elif kind == 2:
                self.store.verbs["take"] = [RuntimeError("odd")]

    async def finish(self) -> None:
        """Do what is left, once nothing breaks any more."""
        self.store.verbs.clear()
        last = _Stream(self, None)
        self.commit.add_taker(last.taker)
        while len(set(self.done)) < len(self.stored) or last.held:
            await self.turn()
            self.commit.resume_taker(last.taker)
            await last.work()
        self.commit.remove_taker(last.taker)
        self.store.on_the_way = lambda: None  # closing waits in the loop's thread
        self.commit.close()
        for end in self._wakes:
            end.close()


class _Stream:
    """One open stream."""

    def __init__(self, crowd: Crowd, queues: list[str] | None) -> None:
        self.crowd = crowd
        self.held: list[int] = []
        self.closed = False
        self.taker = Taker(queues, crowd.random.randint(1, 5), self._deliver)

    def _deliver(self, rows: list[TakenRow], now: int) -> None:
        crowd = self.crowd
        if self.closed:
            crowd.wrong.append("a removed taker has a delivery")
        for row in rows:
            hold = row[0], self.taker.held[row[0]]
            if hold in crowd.seen:
                crowd.wrong.append(f"{hold} is delivered twice")
            crowd.seen.add(hold)
            self.held.append(row[0])
        if crowd.random.random() < 0.2:
            crowd.commit.pause_taker(self.taker)

    async def work(self) -> None:
        held, self.held = self.held, []
        if held:
            await self.crowd.settle(held)

    async def run(self, turns: int) -> None:
        crowd = self.crowd
        crowd.commit.add_taker(self.taker)
        for _ in range(turns):
            await crowd.turn()
            match crowd.random.randrange(4):
                case 0:
                    await self.work()
                case 1:
                    crowd.commit.resume_taker(self.taker)
                case 2:
                    crowd.commit.pause_taker(self.taker)
        self.closed = True
        crowd.commit.remove_taker(self.taker)


class _Fetching(Fetch):
    """One fetch, given back where nobody waits for it any more."""

    __slots__ = ("_crowd", "key")

    def __init__(self, crowd: Crowd) -> None:
        self._ask([crowd.random.choice(crowd.QUEUES)], "")
        self._crowd = crowd
        self.key: int | None = None

    def done(self, result: Any) -> None:
        if isinstance(result, AnewError):
            return
        crowd, key, token = self._crowd, result.key, result.hold_token
        if (key, token) in crowd.seen:
            crowd.wrong.append(f"{key} is fetched twice")
        crowd.seen.add((key, token))
        if self.over:
            self._give_back(key, token)
        else:
            self.key = key

    def _give_back(self, key: int, token: int) -> None:
        def done(result: object) -> None:
            if isinstance(result, AnewError):
                self._give_back(key, token)

        self._crowd.commit.submit(Call(lambda batch: batch.give_back_reserved(key, token), done))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_and_nothing_is_delivered_twice_under_one_hold(seed: int) -> None:
    wrong: list[dict[str, Any]] = []

    async def run() -> Crowd:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
        crowd = Crowd(seed, asyncio.get_running_loop())
        tasks = [crowd.produce() for _ in range(4)] + [crowd.take() for _ in range(8)]
        await asyncio.gather(*tasks, *[crowd.fetch() for _ in range(4)], crowd.disturb())
        await asyncio.wait_for(crowd.finish(), 60)
        return crowd

    crowd = asyncio.run(run())
    assert crowd.wrong + wrong == []
    assert len(crowd.done) == len(set(crowd.done))
    assert set(crowd.done) == crowd.stored
    crowd.store.forbidden = None
    assert crowd.store.inner.find(Filter(), ALL) == []
    assert differences(crowd.engine) + idle_beside_ready(crowd.engine) == []

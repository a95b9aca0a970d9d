"""Reads beside the loop: how their results come back into it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anew.engine import Call, Op
from anew.engine import reads as module
from anew.engine.reads import Reads
from anew.errors import AnewError, InternalError, InvalidInput, NotFound, Overloaded
from anew.jobs import State
from anew.store.selection import Filter


class HandStore:
    """A store whose reader can only be closed."""

    def reader(self) -> HandStore:
        return self

    def close(self) -> None:
        """Nothing to let go of."""


async def turns_of(n: int) -> list[int]:
    """Have `n` reads done before the loop looks again; tell in which of its turns each result came."""
    loop = asyncio.get_running_loop()
    reads = Reads(cast(Any, HandStore()), loop)
    turn = 0
    seen: list[int] = []
    for _ in range(n):
        reads.later(lambda reader: None, lambda result: seen.append(turn))
    done = threading.Event()
    reads.later(lambda reader: done.set(), lambda result: None)
    assert done.wait(10)
    while len(seen) < n:
        turn += 1
        await asyncio.sleep(0)
    reads.close()
    return seen


def test_results_that_take_long_to_answer_come_one_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a list may have megabytes: two hundred of them in one turn would stop everything for seconds."""
    monkeypatch.setattr(module, "BUDGET_MS", 0)
    turns = asyncio.run(turns_of(5))
    assert len(set(turns)) == 5


def test_results_that_are_answered_soon_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET_MS", 60_000)
    assert len(set(asyncio.run(turns_of(5)))) == 1


def test_an_answer_that_fails_does_not_keep_back_those_behind_it() -> None:
    async def ask() -> list[str]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)
        reads = Reads(cast(Any, HandStore()), loop)
        seen: asyncio.Queue[str] = asyncio.Queue()

        def fail(result: object) -> None:
            seen.put_nowait("failed")
            raise RuntimeError("planted")

        reads.later(lambda reader: None, fail)
        reads.later(lambda reader: None, lambda result: seen.put_nowait("answered"))
        return [await asyncio.wait_for(seen.get(), 10) for _ in range(2)]

    assert asyncio.run(ask()) == ["failed", "answered"]


def test_too_many_reads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        monkeypatch.setattr(module, "MAX_WAITING", 1)
        reads = Reads(cast(Any, HandStore()), asyncio.get_running_loop())
        reads.later(lambda reader: None, lambda result: None)
        with pytest.raises(Overloaded):
            reads.later(lambda reader: None, lambda result: None)
        reads.close()

    asyncio.run(ask())


def test_pages_are_made_one_at_a_time_so_that_other_reads_come_between() -> None:
    async def ask() -> list[str]:
        reads = Reads(cast(Any, HandStore()), asyncio.get_running_loop())
        seen: asyncio.Queue[str] = asyncio.Queue()
        for name in ("page 1", "page 2", "page 3"):
            reads.look(lambda look, name=name: name, seen.put_nowait)
        reads.later(lambda reader: "list", seen.put_nowait)
        answers = [await asyncio.wait_for(seen.get(), 10) for _ in range(4)]
        reads.close()
        return answers

    assert asyncio.run(ask()) == ["page 1", "list", "page 2", "page 3"]


def test_a_page_that_fails_holds_up_none_behind_it() -> None:
    async def ask() -> list[Any]:
        reads = Reads(cast(Any, HandStore()), asyncio.get_running_loop())
        seen: asyncio.Queue[Any] = asyncio.Queue()
        reads.look(lambda look: 1 / 0, seen.put_nowait)
        reads.look(lambda look: "page", seen.put_nowait)
        answers = [await asyncio.wait_for(seen.get(), 10) for _ in range(2)]
        reads.close()
        return answers

    error, answer = asyncio.run(ask())
    assert isinstance(error, InternalError)
    assert answer == "page"


def test_too_many_pages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        monkeypatch.setattr(module, "MAX_LOOKS", 2)
        seen: list[object] = []
        reads = Reads(cast(Any, HandStore()), asyncio.get_running_loop())
        for _ in range(2):
            reads.look(lambda look: None, seen.append)
        with pytest.raises(Overloaded):
            reads.look(lambda look: None, seen.append)
        reads.close()
        while len(seen) < 2:  # those that wait are answered all the same
            await asyncio.sleep(0)

    asyncio.run(ask())


def test_a_read_after_the_closing_is_answered_as_those_that_were_waiting() -> None:
    async def ask() -> list[object]:
        reads = Reads(cast(Any, HandStore()), asyncio.get_running_loop())
        reads.close()
        seen: list[object] = []
        reads.later(lambda reader: None, seen.append)
        return seen

    (error,) = asyncio.run(ask())
    assert isinstance(error, Overloaded)
    assert "shutting down" in str(error)


class Counters:
    """A store that remembers whose counters were asked for; its reader counts 7 of whatever is not in the counters."""

    def __init__(self, damaged: bool = False) -> None:
        self.asked: list[Collection[str] | None] = []
        self.damaged = damaged
        self.queues = self

    def reader(self) -> SimpleNamespace:
        return SimpleNamespace(counts=self.read, count=lambda where: 7, close=lambda: None)

    def read(self) -> Mapping[str, Mapping[State, int]]:
        if self.damaged:
            b"\xff".decode()
        return {"mail": {State.READY: 2, State.DEAD: 0}, "web": {State.READY: 3, State.DEAD: 1}}

    def counts(self, queues: Collection[str] | None = None) -> Mapping[str, Mapping[State, int]]:
        self.asked.append(queues)
        return {queue: states for queue, states in self.read().items() if queues is None or queue in queues}


def counted(store: Counters, where: Filter) -> tuple[int | None, Any]:
    """What is known at once, and what the thread counts."""

    async def ask() -> tuple[int | None, Any]:
        reads = Reads(cast(Any, store), asyncio.get_running_loop())
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        known = reads.known_count(where)
        reads.count(where, answer.set_result)
        return known, await asyncio.wait_for(answer, 10)

    return asyncio.run(ask())


def test_only_the_counters_of_the_named_queues_are_asked_for_in_the_loop() -> None:
    """With 50,000 queues all of them take 0.1 s."""
    store = Counters()
    assert counted(store, Filter(queues=frozenset({"mail", "none"}))) == (2, 2)
    assert store.asked == [{"mail", "none"}]


@pytest.mark.parametrize(
    ("where", "count"),
    [
        (Filter(states=frozenset({State.READY})), 5),
        (Filter(), 7),  # the dead job's retention may be over
        (Filter(types=frozenset({"t"})), 7),
        (Filter(queues=frozenset(map(str, range(100))) | {"mail"}), 2),
    ],
)
def test_what_may_take_long_to_count_is_counted_in_the_thread(where: Filter, count: int) -> None:
    store = Counters()
    assert counted(store, where) == (None, count)
    assert store.asked == []


def test_a_damaged_name_that_the_thread_meets_is_shown_to_the_store() -> None:
    store = Counters(damaged=True)
    known, answer = counted(store, Filter())
    assert known is None
    assert isinstance(answer, InternalError)
    assert store.asked == [None]


# -- where each read waits for a network


def test_closing_leaves_a_read_that_hangs_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.02)
    begun, go = threading.Event(), threading.Event()
    closed: list[bool] = []
    results: list[Any] = []

    async def hang() -> None:
        store = SimpleNamespace(reader=lambda: SimpleNamespace(close=lambda: closed.append(True)))
        reads = Reads(cast(Any, store), asyncio.get_running_loop(), lambda op: None)
        reads.later(lambda reader: begun.set() or go.wait(30), results.append)
        reads.later(lambda reader: 1, results.append)
        assert begun.wait(30)
        reads.close()
        await asyncio.sleep(0)

    asyncio.run(hang())
    go.set()
    assert closed == [], "the reader is in use"
    assert [type(result) for result in results] == [Overloaded]


class Batches:
    """Takes operations and applies each in a batch of its own, when it is told to."""

    def __init__(self) -> None:
        self.ops: deque[Op] = deque()

    def reads(self) -> Reads:
        return Reads(cast(Any, HandStore()), cast(Any, None), self.ops.append)

    def apply(self) -> None:
        op = self.ops.popleft()
        assert isinstance(op, Call)
        try:
            result = op.verb(cast(Any, None))
        except AnewError as error:
            result = error
        op.done(result)


def test_short_reads_are_done_at_once_beside_a_file() -> None:
    reads = Reads(cast(Any, HandStore()), cast(Any, None))
    found: list[object] = []
    reads.at_once(lambda: 7, found.append)
    reads.in_parts([1, 2], lambda n: found.append(n) or n, lambda parts: found.append(next(parts)))
    assert found == [7, 1, 1]  # the second part nobody has asked for


def test_short_reads_are_part_of_the_next_batch_where_the_store_is_across_a_network() -> None:
    batches, found = Batches(), list[object]()
    reads = batches.reads()
    reads.at_once(lambda: 7, found.append)
    (op,) = batches.ops
    assert (found, op.durable, op.waits) == ([], False, False)
    batches.apply()
    assert found == [7]


def test_what_a_short_read_raises_is_handed_back() -> None:
    batches, found = Batches(), list[Any]()

    def fails() -> None:
        raise NotFound("job not found")

    batches.reads().at_once(fails, found.append)
    batches.apply()
    assert [str(error) for error in found] == ["job not found"]


def test_each_part_is_read_in_a_batch_of_its_own_and_an_error_ends_them() -> None:
    batches, found = Batches(), list[Any]()
    reads = batches.reads()
    reads.in_parts([1, 2], str, found.append)
    batches.apply()
    assert found == []
    batches.apply()
    assert found == [["1", "2"]]
    reads.in_parts(["1", "x"], check_number, found.append)
    batches.apply()
    batches.apply()
    assert isinstance(found[-1], InvalidInput)
    reads.in_parts([], str, found.append)
    assert found[-1] == []
    assert not batches.ops


def check_number(text: str) -> int:
    if not text.isdigit():
        raise InvalidInput(f"expected a number, got {text!r}", field="n")
    return int(text)


def test_long_pages_that_are_read_in_parts_are_bounded() -> None:
    batches = Batches()
    reads = batches.reads()
    for _ in range(module.MAX_LONG_PAGES):
        reads.in_parts([1], str, lambda parts: None)
    with pytest.raises(Overloaded):
        reads.in_parts([1], str, lambda parts: None)
    reads.in_parts([1], str, lambda parts: None, bounded=False)
    batches.apply()
    reads.in_parts([1], str, lambda parts: None)

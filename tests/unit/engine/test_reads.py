"""Reads beside the loop: how their results come back into it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from anew.engine import reads as module
from anew.engine.reads import Reads
from anew.errors import Overloaded


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

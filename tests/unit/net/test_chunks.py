"""Long works a chunk a turn, on a real loop but without a clock that matters: each step is as long as a whole turn may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from anew.errors import InternalError, InvalidJob, Overloaded
from anew.net import chunks
from anew.net.chunks import Chunks, Work, at_once


@pytest.fixture(autouse=True)
def no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step fills a turn."""
    monkeypatch.setattr(chunks, "BUDGET_MS", 0)


def counting(name: str, steps: int, seen: list[str], error: Exception | None = None) -> Work[str]:
    for step in range(steps):
        seen.append(f"{name}{step}")
        yield
    if error is not None:
        raise error
    return name


def run(script: Callable[[Chunks], None], turns: int = 20) -> None:
    async def main() -> None:
        script(Chunks())
        for _ in range(turns):
            await asyncio.sleep(0)

    asyncio.run(main())


def test_a_work_done_at_once_gives_its_result() -> None:
    seen: list[str] = []
    assert at_once(counting("a", 2, seen)) == "a"
    assert seen == ["a0", "a1"]


def test_works_take_turns_and_others_come_between() -> None:
    seen: list[str] = []

    def script(works: Chunks) -> None:
        works.run(counting("a", 3, seen), seen.append)
        assert seen == ["a0"], "the first one begins at once"
        works.run(counting("b", 1, seen), seen.append)
        asyncio.get_running_loop().call_soon(seen.append, "other")

    run(script)
    assert seen == ["a0", "a1", "other", "b0", "a2", "b", "a"]


def test_a_short_work_is_done_in_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BUDGET_MS", 60_000)
    seen: list[str] = []

    def script(works: Chunks) -> None:
        works.run(counting("a", 3, seen), seen.append)
        assert seen == ["a0", "a1", "a2", "a"]

    run(script, turns=0)


def test_an_error_is_a_result_and_the_next_work_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    unfit = InvalidJob("no", field="type")
    results: list[Any] = []

    def script(works: Chunks) -> None:
        works.run(counting("a", 1, [], unfit), results.append)
        works.run(counting("b", 1, [], ZeroDivisionError()), results.append)
        works.run(counting("c", 2, []), results.append)

    run(script)
    assert results[0] is unfit
    assert isinstance(results[1], InternalError)
    assert results[2] == "c"
    assert [record.message for record in caplog.records] == ["a work failed"]


def test_a_result_may_bring_new_work() -> None:
    results: list[Any] = []

    def script(works: Chunks) -> None:
        def then(result: Any) -> None:
            results.append(result)
            if len(results) < 3:
                works.run(counting("next", 1, []), then)

        works.run(counting("first", 1, []), then)

    run(script)
    assert results == ["first", "next", "next"]


def test_only_so_many_bytes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send long bodies and hang up would fill the memory otherwise."""
    monkeypatch.setattr(chunks, "MAX_BYTES", 100)
    seen: list[str] = []

    def script(works: Chunks) -> None:
        works.run(counting("a", 1, seen), seen.append, 150)  # alone: any size
        with pytest.raises(Overloaded, match="more long bodies are waiting"):
            works.run(counting("b", 1, seen), seen.append, 1)
        works.run(counting("c", 1, seen), seen.append)  # an answer, which keeps no body

    run(script)
    assert seen == ["a0", "a", "c0", "c"]


def test_what_is_done_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_BYTES", 100)
    seen: list[str] = []

    def script(works: Chunks) -> None:
        works.run(
            counting("a", 1, seen, InvalidJob("no")),
            lambda _: works.run(counting("b", 1, seen), seen.append, 100),
            100,
        )

    run(script)
    assert seen == ["a0", "b0", "b"]

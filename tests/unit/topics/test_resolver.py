"""The resolver keeps nothing, and one name's silence is its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from anew.topics.resolver import Resolver


class Names:
    """Stands for the system's resolver: it answers when a name's event is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.let: dict[str, threading.Event] = {}
        self.answers: dict[str, list[str]] = {}
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, name: str, port: object, **_: object) -> list[Any]:
        self.asked.append(name)
        assert self.let.get(name) is None or self.let[name].wait(20)
        if name not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in self.answers[name]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


def test_each_question_is_asked_anew(names: Names) -> None:
    async def ask() -> None:
        resolver = Resolver()
        names.answers["a.test"] = ["1.2.3.4", "::1"]
        assert await resolver("a.test") == ["1.2.3.4", "::1"]
        names.answers["a.test"] = ["127.0.0.1"]
        assert await resolver("a.test") == ["127.0.0.1"]
        del names.answers["a.test"]
        with pytest.raises(socket.gaierror):
            await resolver("a.test")
        resolver.close()

    asyncio.run(ask())
    assert names.asked == ["a.test"] * 3


def test_an_answer_that_is_there_at_once_is_kept_for_nobody(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.14 on a thread may have answered before the loop waits for it."""

    async def ask() -> None:
        def at_once(
            threads: object, look_up: Callable[[str], list[str]], name: str
        ) -> asyncio.Future[list[str]]:
            answered = loop.create_future()
            answered.set_result(look_up(name))
            return answered

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "run_in_executor", at_once)
        resolver = Resolver()
        for address in ("1.2.3.4", "127.0.0.1"):
            names.answers["a.test"] = [address]
            assert await resolver("a.test") == [address]
        resolver.close()

    asyncio.run(ask())


def test_questions_about_one_name_at_one_time_are_one(names: Names) -> None:
    names.answers["a.test"] = ["1.2.3.4"]
    names.let["a.test"] = threading.Event()

    async def ask() -> None:
        resolver = Resolver()
        first, second = (asyncio.create_task(resolver("a.test")) for _ in range(2))
        while not names.asked:
            await asyncio.sleep(0)
        first.cancel()  # the other one still gets the answer
        names.let["a.test"].set()
        assert await second == ["1.2.3.4"]
        assert first.cancelled()
        resolver.close()

    asyncio.run(ask())
    assert names.asked == ["a.test"]


def test_silent_names_hold_up_no_other(names: Names) -> None:
    silent = [f"{number}.test" for number in range(40)]
    names.let = {name: threading.Event() for name in silent}
    names.answers = {name: ["1.2.3.4"] for name in [*silent, "good.test"]}

    async def ask() -> None:
        resolver = Resolver()
        waiting = [asyncio.create_task(resolver(name)) for name in silent]
        while len(names.asked) < len(silent):
            await asyncio.sleep(0)
        assert await resolver("good.test") == ["1.2.3.4"]
        assert not any(task.done() for task in waiting)
        for event in names.let.values():
            event.set()
        await asyncio.gather(*waiting)
        resolver.close()

    asyncio.run(ask())

"""A page that many ask for at once: read once, and shown for a while where it takes long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anew.errors import Overloaded
from anew.web.dashboard.shared import LONGEST_MS, SharedPage


class Desk:
    """A page that is read by hand."""

    def __init__(self) -> None:
        self.now = 1_000
        self.reading: list[Callable[[Any], None]] = []
        self.seen: list[Any] = []
        self.page = SharedPage(self.reading.append, lambda: self.now)

    def ask(self) -> None:
        self.page.ask(self.seen.append)

    def answer(self, page: Any, after_ms: int) -> None:
        self.now += after_ms
        self.reading.pop()(page)


def test_all_who_ask_meanwhile_get_one_reading() -> None:
    desk = Desk()
    for _ in range(100):
        desk.ask()
    assert len(desk.reading) == 1
    desk.answer(b"page", 20)
    assert desk.seen == [b"page"] * 100


def test_a_quick_page_is_read_again_for_whoever_comes_next() -> None:
    desk = Desk()
    for page in (b"old", b"new"):
        desk.ask()
        desk.answer(page, 100)
    assert desk.seen == [b"old", b"new"]


def test_the_first_page_of_a_process_is_not_kept_though_it_takes_longer() -> None:
    desk = Desk()
    desk.ask()
    desk.answer(b"page", 3_000)
    desk.ask()
    assert len(desk.reading) == 1


def test_a_page_that_always_takes_long_is_shown_for_ten_times_as_long() -> None:
    desk = Desk()
    for _ in range(2):
        desk.ask()
        desk.answer(b"page", 300)
    desk.now += 2_999
    desk.ask()
    assert (len(desk.seen), desk.reading) == (3, [])
    desk.now += 1
    desk.ask()
    assert len(desk.reading) == 1


def test_no_page_is_shown_for_longer_than_half_a_minute() -> None:
    desk = Desk()
    for _ in range(2):
        desk.ask()
        desk.answer(b"page", 20_000)
    desk.now += LONGEST_MS
    desk.ask()
    assert len(desk.reading) == 1


def test_an_error_is_not_kept() -> None:
    desk = Desk()
    desk.ask()
    error = Overloaded("too many")
    desk.answer(error, 300)
    desk.ask()
    desk.answer(b"page", 10)
    assert desk.seen == [error, b"page"]


def test_whoever_comes_after_a_refusal_is_read_for() -> None:
    refused = [True]
    reading: list[Callable[[Any], None]] = []

    def read(then: Callable[[Any], None]) -> None:
        if refused.pop():
            raise Overloaded("too many")
        reading.append(then)

    page = SharedPage(read, lambda: 0)
    with pytest.raises(Overloaded):
        page.ask(lambda result: None)
    refused.append(False)
    page.ask(lambda result: None)
    assert len(reading) == 1

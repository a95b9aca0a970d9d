"""Searches by payload: chunk by chunk, in turn, within their time, and no longer than somebody waits."""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from anew.client import Client
from anew.engine import searches as module
from anew.engine.searches import AT_ONCE, COUNT_S, FOUND, LIST_S, WAITING, Found, Searches
from anew.errors import ExpressionTooSlow, InternalError, InvalidExpression, Overloaded
from anew.jq.expressions import BACKGROUND_S
from anew.store.selection import Filter, Page
from anew.units import parse_duration

from .handloop import HandLoop
from .rig import Once, Rig, new_job

EVERYTHING = Filter()


def matching(text: str, payload: bytes) -> bool:
    return text.encode() in payload


class HandMatcher:
    """Finds payloads that hold the expression as text.

    Attributes:
        most: How many it gets done within one call.
        raises: What it raises instead.
        asked: How many payloads came with each call.
    """

    def __init__(self) -> None:
        self.most = 1_000_000
        self.raises: Exception | None = None
        self.asked: list[int] = []
        self.checked: list[str] = []

    def check(self, text: str, field: str) -> None:
        self.checked.append(text)
        if text == "bad":
            raise InvalidExpression("invalid filter: bad", field=field)

    def matching(self, text: str, payloads: Sequence[bytes], *, within_s: float | None = None) -> list[bool]:
        self.asked.append(len(payloads))
        if self.raises is not None:
            raise self.raises
        return [matching(text, payload) for payload in payloads[: self.most]]


class Field:
    """Searches over a rig's store, whose reads and evaluations are let through one at a time.

    Attributes:
        work: Reads and evaluations that wait.
        together: The most of them that have waited at a time.
    """

    def __init__(self) -> None:
        self.rig = Rig()
        self.loop = HandLoop(self.rig)
        self.matcher = HandMatcher()
        self.work: deque[Callable[[], None]] = deque()
        self.together = 0
        self.reading = True
        self.searches = Searches(self._read, self.matcher, self.loop)  # type: ignore[arg-type]
        self.searches.evaluate = self._evaluate  # type: ignore[method-assign]
        self.gone = False

    def _add(self, call: Callable[[], None]) -> None:
        self.work.append(call)
        self.together = max(self.together, len(self.work))

    def _read(self, function: Callable[[Any], Any], then: Any) -> None:
        if not self.reading:
            raise Overloaded("no")
        self._add(lambda: then(function(self.rig.store.reader())))

    def _evaluate(self, function: Callable[[Any], Any], then: Any) -> None:
        def call() -> None:
            try:
                result = function(self.matcher)
            except Exception as error:
                result = error
            then(result)

        self._add(call)

    def put(self, *payloads: bytes) -> list[int]:
        return self.rig.put(*(new_job(payload=payload) for payload in payloads))

    def page(self, text: str, page: Page, where: Filter = EVERYTHING) -> Once:
        done = Once()
        self.searches.page(where, page, text, lambda: self.gone, done)
        return done

    def count(self, text: str, where: Filter = EVERYTHING) -> Once:
        done = Once()
        self.searches.count(where, text, lambda: self.gone, done)
        return done

    def step(self) -> bool:
        if not self.work:
            return False
        self.work.popleft()()
        return True

    def settle(self) -> None:
        while self.step():
            pass


@pytest.fixture
def field() -> Iterator[Field]:
    made = Field()
    yield made
    made.searches.close()


def numbers(count: int) -> list[bytes]:
    return [b'"%d"' % n for n in range(count)]


def test_zizq_70_a_page_has_the_jobs_whose_payloads_match(field: Field) -> None:
    keys = field.put(b'"ab"', b'"b"', b'"a"', b'"ba"')
    done = field.page("a", Page(limit=2))
    field.settle()
    assert done.result == Found([keys[0], keys[2]], None)
    done = field.page("a", Page(order="desc", limit=10))
    field.settle()
    assert done.result == Found([keys[3], keys[2], keys[0]], None)
    done = field.page("a", Page(after=keys[0], limit=10))
    field.settle()
    assert done.result == Found([keys[2], keys[3]], None)
    done = field.page("a", Page(after=keys[2], inclusive=True, order="desc", limit=10))
    field.settle()
    assert done.result == Found([keys[2], keys[0]], None)


def test_the_other_filters_come_first(field: Field) -> None:
    key = field.rig.put(new_job("mail", payload=b'"a"'), new_job("web", payload=b'"a"'))[1]
    done = field.page("a", Page(), Filter(queues=frozenset({"web"})))
    field.settle()
    assert done.result == Found([key], None)
    assert field.matcher.asked == [1]


def test_a_count_looks_at_all_jobs_a_chunk_at_a_time(field: Field) -> None:
    keys = field.put(*numbers(1_005))
    done = field.count("7")
    field.settle()
    # Of 0 to 1004: 1000 less 9 * 9 * 9 below 1000, and none above.
    assert done.result == 1_000 - 9 * 9 * 9
    assert field.matcher.asked == [FOUND] * 4 + [5]
    field.matcher.asked.clear()
    given = Once()
    field.searches.among(keys, "7", lambda: False, given)
    field.settle()
    assert len(given.result) == done.result
    assert field.matcher.asked == [FOUND] * 4 + [5]


def test_a_chunk_is_bounded_by_its_bytes(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 10)
    field.put(*[b'"abc"'] * 5)  # 5 bytes each
    done = field.count("a")
    field.settle()
    assert (done.result, field.matcher.asked) == (5, [2, 2, 1])


def test_what_was_not_reached_in_time_comes_next(field: Field) -> None:
    field.matcher.most = 2
    field.put(*numbers(5))
    done = field.count('"')
    field.settle()
    assert (done.result, field.matcher.asked) == (5, [5, 3, 1])


def test_a_job_that_goes_meanwhile_is_left_out(field: Field) -> None:
    keys = field.put(b'"a"', b'"ab"')
    done = field.page("a", Page())
    field.step()  # the expression is checked
    field.rig.engine.store.begin(synced=False)
    field.rig.engine.store.delete(keys[:1])
    field.rig.engine.store.commit()
    field.settle()
    assert done.result == Found(keys[1:], None)


def test_a_bad_expression_is_refused_before_anything_is_read(field: Field) -> None:
    done = field.count("bad")
    field.settle()
    assert isinstance(done.result, InvalidExpression)
    assert (field.matcher.checked, field.matcher.asked) == (["bad"], [])


def test_a_check_reads_nothing(field: Field) -> None:
    field.put(b"1")
    good, bad = Once(), Once()
    field.searches.check("good", lambda: False, good)
    field.searches.check("bad", lambda: False, bad)
    field.settle()
    assert good.result is None
    assert isinstance(bad.result, InvalidExpression)
    assert field.matcher.asked == []


def test_those_of_given_jobs_that_match(field: Field) -> None:
    keys = field.put(b'"a"', b'"b"', b'"ab"', b'"a"')
    done = Once()
    field.searches.among(keys[:3], "a", lambda: False, done)
    field.settle()
    assert done.result == [keys[0], keys[2]]


def test_a_list_ends_after_its_time_and_says_where(field: Field) -> None:
    field.matcher.most = 1
    keys = field.put(*numbers(5))
    done = field.page('"', Page(limit=10))
    for _ in range(1 + 2 + 2):  # the check, and a read and an evaluation of each of two jobs
        field.step()
    field.loop.advance(int(LIST_S * 1_000))
    field.settle()
    assert done.result == Found(keys[:3], keys[2])  # the third one's turn had begun


def test_a_list_that_has_looked_at_all_does_not_go_on(field: Field) -> None:
    keys = field.put(b'"a"')
    done = field.page("a", Page(limit=10))
    field.loop.advance(int(LIST_S * 1_000))
    field.settle()
    assert done.result == Found(keys, None)


def test_a_count_that_takes_too_long_is_refused(field: Field) -> None:
    field.matcher.most = 1
    field.put(*numbers(5))
    done = field.count('"')
    field.loop.advance(int(COUNT_S * 1_000))
    field.settle()
    assert isinstance(done.result, ExpressionTooSlow)
    assert str(done.result) == "this filter takes more than 25 s to count; narrow it by queue, type or status"


def test_a_count_is_refused_before_its_client_gives_up() -> None:
    timeout = inspect.signature(Client).parameters["timeout"].default
    assert parse_duration(timeout, field="timeout") >= 1_000 * (COUNT_S + BACKGROUND_S)


def test_nobody_waits_nobody_searches(field: Field) -> None:
    field.matcher.most = 1
    field.put(*numbers(500))
    field.count('"')
    for _ in range(5):
        field.step()
    field.gone = True
    field.settle()
    assert len(field.matcher.asked) <= 3


def test_searches_have_their_turns(field: Field) -> None:
    field.matcher.most = 1
    field.put(*numbers(4))
    slow = [field.count('"') for _ in range(AT_ONCE)]
    field.step()
    quick = field.page("0", Page(limit=1))
    while not quick.calls:
        assert field.step()
    assert not any(done.calls for done in slow)
    field.settle()
    assert [done.result for done in slow] == [4, 4]
    assert field.together == AT_ONCE


def test_too_many_searches_are_refused(field: Field) -> None:
    field.put(b"1")
    admitted = [field.count("1") for _ in range(AT_ONCE + WAITING)]
    with pytest.raises(Overloaded, match="too many searches by payload"):
        field.count("1")
    among = Once()
    field.searches.among([1], "1", lambda: False, among)  # a part of what was admitted before
    field.settle()
    assert [done.result for done in admitted] == [1] * (AT_ONCE + WAITING)
    assert among.calls
    again = field.count("1")
    field.settle()
    assert again.result == 1


@pytest.mark.parametrize("error", [ExpressionTooSlow("slow"), Overloaded("stopping")])
def test_an_error_ends_the_search_and_frees_its_turn(field: Field, error: Exception) -> None:
    field.put(b"1")
    field.matcher.raises = error
    done = [field.count("1") for _ in range(AT_ONCE + 1)]
    field.settle()
    assert [one.result for one in done] == [error] * (AT_ONCE + 1)
    field.matcher.raises = None
    again = field.count("1")
    field.settle()
    assert again.result == 1


def test_a_search_waits_where_too_many_reads_do(field: Field) -> None:
    field.put(b"1")
    done = field.count("1")
    field.reading = False
    field.settle()
    assert done.calls == []
    field.reading = True
    field.loop.advance(1_000)
    field.settle()
    assert done.result == 1


def test_a_stop_ends_what_is_under_way_and_refuses_more(field: Field) -> None:
    field.matcher.most = 1
    field.put(*numbers(50))
    done = field.count('"')
    for _ in range(5):
        field.step()
    field.searches.stop()
    field.settle()
    assert isinstance(done.result, Overloaded)
    with pytest.raises(Overloaded):
        field.count("1")
    with pytest.raises(Overloaded):
        field.searches.among([1], "1", lambda: False, Once())


def test_evaluations_run_in_threads_of_their_own() -> None:
    """A slow one holds up neither the loop nor the reader's thread."""
    rig = Rig()
    loop = HandLoop(rig)
    came = threading.Event()
    results: list[Any] = []

    class Matcher(HandMatcher):
        def matching(
            self, text: str, payloads: Sequence[bytes], *, within_s: float | None = None
        ) -> list[bool]:
            raise RuntimeError("planted")

    class Loop:
        time = loop.time

        def call_soon_threadsafe(self, call: Callable[[Any], None], result: Any) -> None:
            results.append(result)
            came.set()

    searches = Searches(lambda function, then: None, Matcher(), Loop())  # type: ignore[arg-type]
    searches.evaluate(lambda matcher: threading.current_thread().name, lambda result: None)
    assert came.wait(10)
    came.clear()
    searches.evaluate(lambda matcher: matching, lambda result: None)
    assert came.wait(10)
    came.clear()
    searches.evaluate(lambda matcher: matcher.matching("", []), lambda result: None)
    assert came.wait(10)
    searches.close()
    assert str(results[0]).startswith("anew-search")
    assert isinstance(results[2], InternalError)

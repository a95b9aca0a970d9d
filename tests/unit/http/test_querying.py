"""Pages of error records, over what is read by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from anew.clock import ManualClock
from anew.http.api import ApiSettings
from anew.http.formats import JSON, MSGPACK, Format
from anew.http.querying import MAX_PAGE_BYTES, JobRoutes
from anew.jobs import ErrorRecord, IdText, Job
from anew.net import chunks
from anew.net.chunks import Chunks
from anew.net.seam import WireCounters
from anew.store.selection import Page
from tests.unit.jobs.helpers import make_job

from .asked import Asked

IDS = IdText("tag000000")
ID = IDS.write(1)


class AtOnce:
    """Short reads as beside a file."""

    def at_once(self, read: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(read())

    def in_parts(self, parts: Sequence[Any], read: Callable[[Any], Any], then: Callable[[Any], None]) -> None:
        then(map(read, parts))


class Records(AtOnce):
    """A job with records of one size each, read as a store reads them: up to the one by which a bound is passed."""

    def __init__(self, attempts: list[int], size: int) -> None:
        self.records = [
            ErrorRecord(
                attempt=attempt, outcome="error", message="m" * size, error_type=None, backtrace=None,
                dequeued_at=0, failed_at=0, decision=None,
            )
            for attempt in attempts
        ]  # fmt: skip

    def dropped_errors(self, key: int) -> list[tuple[str, str, int]]:
        """None was dropped."""
        return []

    def job(self, key: int, *, payload: bool = False) -> Job:
        return make_job(key=key)

    def errors(self, key: int, page: Page, most_bytes: int | None = None) -> list[ErrorRecord]:
        rising = page.order == "asc"
        after = page.after if page.after is not None else (-1 if rising else 1 << 40)
        records = self.records if rising else self.records[::-1]
        found: list[ErrorRecord] = []
        for record in records:
            if (record.attempt > after) if rising else (record.attempt < after):
                found.append(record)
                if len(found) == page.limit or sum(map(ErrorRecord.size, found)) > (most_bytes or 1 << 60):
                    break
        return found


def answer_of(records: Records, target: str) -> Asked:
    context: Any = SimpleNamespace(
        engine=SimpleNamespace(ids=IDS, clock=ManualClock(5)),
        searches=None,
        reads=records,
        key_of=IDS.read,
        settings=ApiSettings(),
        chunks=None,
        counters=WireCounters(),
    )
    request = Asked("GET", target)
    JobRoutes(context).errors(request, JSON, (ID,))
    return request


def pages_of(attempts: list[int], size: int, query: str) -> list[list[int]]:
    """The attempts on each page, from link to link."""
    records, pages, target = Records(attempts, size), [], f"/jobs/{ID}/errors?{query}"
    while target is not None:
        request = answer_of(records, target)
        pages.append([record["attempt"] for record in request.answer.data["errors"]])
        target = request.answer.data["pages"]["next"]
    return pages


def test_a_page_ends_early_where_texts_are_large() -> None:
    """A page may have 32 MiB: with 2 MiB each the 17th record would pass that."""
    assert MAX_PAGE_BYTES == 32 << 20
    assert pages_of(list(range(1, 19)), 2 << 20, "order=asc") == [[*range(1, 17)], [17, 18]]


@pytest.mark.parametrize(
    ("query", "pages"),
    [
        ("limit=2", [[1, 2], [3, 4], [5]]),
        ("limit=2&order=desc", [[5, 4], [3, 2], [1]]),
        ("limit=5", [[1, 2, 3, 4, 5]]),
    ],
)
def test_pages_have_as_many_as_asked_for(query: str, pages: list[list[int]]) -> None:
    assert pages_of([1, 2, 3, 4, 5], 1, query) == pages


@pytest.mark.parametrize(
    ("attempts", "query", "pages"),
    [
        # Two interruptions ended attempt 2 before it failed; a redrive then began again at 1.
        ([1, 1, 2, 2, 2, 3], "limit=1", [[1, 1], [2, 2, 2], [3]]),
        ([1, 1, 2, 2, 2, 3], "limit=3", [[1, 1], [2, 2, 2], [3]]),
        ([1, 1, 2, 2, 2, 3], "limit=4&order=desc", [[3, 2, 2, 2], [1, 1]]),
        ([1, 1, 2, 2, 2, 3], "limit=2&order=desc", [[3], [2, 2, 2], [1, 1]]),
        ([4] * 300, "limit=2", [[4] * 300]),
        ([3, *[4] * 300, 5], "limit=1&order=desc", [[5], [4] * 300, [3]]),
    ],
)
def test_records_of_one_number_stand_on_one_page(
    attempts: list[int], query: str, pages: list[list[int]]
) -> None:
    assert pages_of(attempts, 1, query) == pages


def test_not_even_large_texts_end_a_page_inside_a_number() -> None:
    """Of 2 MiB each: the 17th passes what a page may have, and the cursor could not come back to the 18th."""
    assert pages_of([1, *[2] * 18, 3], 2 << 20, "limit=50") == [[1], [2] * 18, [3]]


@pytest.mark.parametrize(("order", "expected"), [("asc", [5, 6, 7]), ("desc", [7, 6, 5])])
def test_records_of_one_number_keep_the_order_of_the_list(order: str, expected: list[int]) -> None:
    records = Records([1, 1, 1], 1)
    records.records = [
        msgspec.structs.replace(one, failed_at=at) for one, at in zip(records.records, (5, 6, 7), strict=True)
    ]
    request = answer_of(records, f"/jobs/{ID}/errors?limit=1&order={order}")
    assert [record["failed_at"] for record in request.answer.data["errors"]] == expected


LONG = "x" * ((64 << 10) - 2)


class Stored(AtOnce):
    """Lists of 100 jobs of 64 KiB, and of one more that is gone before it is shown.

    512 KiB hold eight such jobs, which makes 13 parts of a list.
    """

    def __init__(self) -> None:
        self.stored = {key: make_job(key=key, payload=f'"{LONG}"'.encode()) for key in range(100)}
        self.read: list[int] = []
        context: Any = SimpleNamespace(
            engine=SimpleNamespace(ids=IDS, clock=ManualClock(5)),
            searches=None,
            reads=self,
            key_of=IDS.read,
            chunks=Chunks(),
        )
        self.routes = JobRoutes(context)

    def find(self, where: object, page: Page, then: Callable[[list[int]], None]) -> None:
        then([*range(101)])

    def payload_sizes(self, keys: list[int]) -> dict[int, int]:
        return {key: len(job.payload or b"") for key, job in self.stored.items()}

    def jobs(self, keys: list[int]) -> dict[int, Job]:
        self.read.append(len(keys))
        return {key: self.stored[key] for key in keys if key in self.stored}

    def ask(self, form: Format) -> Asked:
        request = Asked("GET", "/jobs?limit=1000")
        self.routes.many(request, form, ())
        return request


@pytest.fixture
def _every_pause_ends_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BUDGET_MS", 0)


@pytest.mark.usefixtures("_every_pause_ends_a_turn")
@pytest.mark.parametrize(("form", "decode"), [(JSON, msgspec.json.decode), (MSGPACK, msgspec.msgpack.decode)])
def test_a_long_page_is_read_and_written_in_parts_and_others_are_served_in_between(
    form: Format, decode: Callable[[bytes], Any]
) -> None:
    stored = Stored()

    async def ask() -> tuple[Asked, int]:
        request, turns = stored.ask(form), 0
        while not request.answers:
            turns += 1
            await asyncio.sleep(0)
        return request, turns

    request, turns = asyncio.run(ask())
    assert stored.read == [8] * 12 + [5]
    assert turns >= 13
    page = decode(request.answer.body)
    assert [job["id"] for job in page["jobs"]] == [IDS.write(key) for key in range(100)]
    assert {job["payload"] for job in page["jobs"]} == {LONG}


@pytest.mark.usefixtures("_every_pause_ends_a_turn")
def test_pages_that_are_written_at_one_time_have_a_bound_and_end_with_their_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "MAX_BYTES", 10 << 20)  # one page has 6.25 MiB
    stored = Stored()

    async def ask() -> list[Asked]:
        first, second = stored.ask(JSON), stored.ask(JSON)
        first.gone = True
        for _ in range(50):  # more turns than there are parts
            await asyncio.sleep(0)
        return [first, second]

    first, second = asyncio.run(ask())
    assert first.answers == []
    assert stored.read == [8]
    assert (second.answer.status, second.answer.data["code"]) == (503, "overloaded")


def test_a_job_with_a_long_payload_is_translated_to_messagepack_in_chunks() -> None:
    job = make_job(key=1, payload=b"[" + b"[]," * 200_000 + b"1]")
    context: Any = SimpleNamespace(
        engine=SimpleNamespace(ids=IDS, clock=ManualClock(5)),
        searches=None,
        reads=SimpleNamespace(job=lambda key, payload: job, at_once=AtOnce().at_once),
        key_of=IDS.read,
        chunks=Chunks(),
    )

    async def ask() -> Asked:
        request = Asked("GET", f"/jobs/{ID}")
        JobRoutes(context).one(request, MSGPACK, (ID,))
        assert request.answers == []
        while not request.answers:
            await asyncio.sleep(0)
        return request

    body = asyncio.run(ask()).answer.body
    assert msgspec.msgpack.decode(body)["payload"] == [[]] * 200_000 + [1]

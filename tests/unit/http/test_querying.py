"""Pages of error records, over what is read by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from anew.clock import ManualClock
from anew.http.api import ApiSettings
from anew.http.formats import JSON
from anew.http.querying import MAX_PAGE_BYTES, JobRoutes
from anew.jobs import ErrorRecord, IdText, Job
from anew.net.seam import WireCounters
from anew.store.protocol import Page
from tests.unit.jobs.helpers import make_job

from .asked import Asked

IDS = IdText("tag000000")
ID = IDS.write(1)


class Records:
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


def pages_of(attempts: list[int], size: int, query: str) -> list[list[int]]:
    """The attempts on each page, from link to link."""
    context: Any = SimpleNamespace(
        engine=SimpleNamespace(ids=IDS, clock=ManualClock(5)),
        reads=Records(attempts, size),
        key_of=IDS.read,
        settings=ApiSettings(),
        counters=WireCounters(),
    )
    routes, pages, target = JobRoutes(context), [], f"/jobs/{ID}/errors?{query}"
    while target is not None:
        request = Asked("GET", target)
        routes.errors(request, JSON, (ID,))
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

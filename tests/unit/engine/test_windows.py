"""Windows on lists of jobs: what each anchor gives, what a search finds, and what bounds both."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from anew.engine import windows
from anew.engine.windows import Around, Head, Offset, Query, Tail, Window, locate, search, window
from anew.jobs.codec import PushedJob
from anew.jobs.key_limits import Place
from anew.store.protocol import JobList, Reader

from .rig import Rig, new_job

READY = JobList.READY


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def reader(rig: Rig) -> Reader:
    return rig.store.reader()


@pytest.fixture
def keys(rig: Rig) -> Sequence[int]:
    """Twenty ready jobs in order, in two queues."""
    return rig.put(*[new_job(f"q{n % 2}", type=f"t{n}") for n in range(20)])


def seen(shown: Window) -> tuple[list[int], int, int]:
    return [job.key for job in shown.jobs], shown.first, shown.total


def test_the_head_the_tail_and_an_offset(reader: Reader, keys: Sequence[int]) -> None:
    assert seen(window(reader, READY, Head(), 3, 20)) == ([*keys[:3]], 0, 20)
    assert seen(window(reader, READY, Tail(), 3, 20)) == ([*keys[17:]], 17, 20)
    assert seen(window(reader, READY, Offset(5), 3, 20)) == ([*keys[5:8]], 5, 20)
    assert seen(window(reader, READY, Offset(0), 30, 20)) == ([*keys], 0, 20)


def test_an_offset_beyond_the_end_gives_the_last_jobs(reader: Reader, keys: Sequence[int]) -> None:
    assert seen(window(reader, READY, Offset(999), 3, 20)) == ([*keys[17:]], 17, 20)


def test_a_window_around_a_job_has_half_of_it_before(reader: Reader, keys: Sequence[int]) -> None:
    shown = window(reader, READY, Around(keys[10], "nowhere"), 6, 20)
    assert seen(shown) == ([*keys[7:13]], 7, 20)
    assert shown.anchor == keys[10]
    assert seen(window(reader, READY, Around(keys[1], "nowhere"), 6, 20)) == ([*keys[:6]], 0, 20)
    assert seen(window(reader, READY, Around(keys[19], "nowhere"), 6, 20)) == ([*keys[16:]], 16, 20)
    assert seen(window(reader, READY, Around(keys[10], "nowhere"), 1, 20)) == ([keys[10]], 10, 20)


@pytest.mark.parametrize("key", [-1, 5])
def test_around_a_job_that_is_not_in_the_list_the_fallback_counts(
    reader: Reader, keys: Sequence[int], key: int
) -> None:
    assert seen(window(reader, READY, Around(key, "nowhere"), 3, 20)) == ([], 0, 20)
    assert seen(window(reader, READY, Around(key, "head"), 3, 20)) == ([*keys[:3]], 0, 20)
    assert seen(window(reader, READY, Around(key, "tail"), 3, 20)) == ([*keys[17:]], 17, 20)
    assert seen(window(reader, JobList.IN_FLIGHT, Around(keys[0], "nowhere"), 3, 0)) == ([], 0, 0)


def test_a_window_has_a_bounded_number_of_rows_and_of_text(
    rig: Rig, reader: Reader, keys: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "MAX_ROWS", 4)
    assert len(window(reader, READY, Head(), 2**64, 20).jobs) == 4
    monkeypatch.setattr(windows, "MAX_TEXT", 6)  # of each job the queue and the type have four characters
    assert len(window(reader, READY, Head(), 4, 20).jobs) == 2


def test_what_else_a_producer_has_said_counts_too(
    rig: Rig, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a job's door must give back unchanged may have megabytes."""
    monkeypatch.setattr(windows, "MAX_TEXT", 5_000)
    rig.put(
        *[PushedJob(type="t", queue="q", payload=msgspec.Raw(b"1"), meta=b"x" * 3_000) for _ in range(40)]
    )
    counting = CountingReader(reader)
    assert len(window(counting, READY, Head(), 40, 40).jobs) == 2  # type: ignore[arg-type]
    assert counting.read <= 40 + windows.FEW


def test_a_walk_is_bounded_from_both_ends(
    reader: Reader, keys: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "WALKED", 6)
    assert seen(window(reader, READY, Offset(15), 3, 20)) == ([*keys[15:18]], 15, 20)
    assert seen(window(reader, READY, Offset(10), 3, 20)) == ([*keys[6:9]], 6, 20)


def test_a_position_far_from_both_ends_is_given_as_the_middle(
    reader: Reader, keys: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "RANKED", 5)
    firsts = [window(reader, READY, Around(key, "nowhere"), 1, 20).first for key in keys]
    assert firsts == [0, 1, 2, 3, 4, *[10] * 10, 15, 16, 17, 18, 19]


def test_a_search_gives_the_next_job_that_fits_and_what_is_around_it(
    reader: Reader, keys: Sequence[int]
) -> None:
    query = Query(types=["t7", "t9"])
    found = search(reader, READY, "start", query, 3, forward=True)
    assert found.position == 7
    assert seen(found.window) == ([*keys[6:9]], 6, 20)
    assert found.window.anchor == keys[7]
    assert search(reader, READY, keys[7], query, 3, forward=True).position == 9
    assert search(reader, READY, "end", query, 3, forward=False).position == 9
    assert search(reader, READY, keys[9], query, 3, forward=False).position == 7
    assert search(reader, READY, keys[9], query, 3, forward=True) == windows.NOTHING
    assert search(reader, READY, "start", Query(), 3, forward=True).position == 0


def test_a_search_is_for_parts_of_names_and_both_must_fit(reader: Reader, keys: Sequence[int]) -> None:
    assert search(reader, READY, "start", Query(["1"], ["1"]), 1, forward=True).position == 1
    assert search(reader, READY, "start", Query(["q0"], ["1"]), 1, forward=True).position == 10
    assert search(reader, READY, "start", Query(["q9"]), 1, forward=True) == windows.NOTHING


def test_a_search_from_an_end_outwards_finds_nothing(reader: Reader, keys: Sequence[int]) -> None:
    assert search(reader, READY, "start", Query(), 3, forward=False) == windows.NOTHING
    assert search(reader, READY, "end", Query(), 3, forward=True) == windows.NOTHING


def test_a_search_from_a_job_that_is_gone_begins_at_an_end(reader: Reader, keys: Sequence[int]) -> None:
    assert search(reader, READY, -1, Query(), 1, forward=True).position == 0
    assert search(reader, READY, -1, Query(), 1, forward=False).position == 19


def test_a_search_looks_at_a_bounded_number_of_jobs(
    reader: Reader, keys: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "PIECE", 4)
    monkeypatch.setattr(windows, "SEARCHED", 12)
    assert search(reader, READY, "start", Query(types=["t11"]), 1, forward=True).position == 11
    assert search(reader, READY, "start", Query(types=["t12"]), 1, forward=True) == windows.NOTHING


def test_a_job_is_located_by_its_key_alone(reader: Reader, keys: Sequence[int]) -> None:
    assert locate(reader, READY, keys[4], 3).position == 4
    assert locate(reader, READY, -1, 3) == windows.NOTHING
    assert locate(reader, JobList.SCHEDULED, keys[4], 3) == windows.NOTHING


class CountingReader:
    """A reader that counts what it reads."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.read = 0

    def places(self, of: JobList, place: Place, limit: int, *, forward: bool) -> list[Place]:
        self.read += limit
        return self._reader.places(of, place, limit, forward=forward)

    def load(self, keys: Sequence[int]) -> list[object]:
        self.read += len(keys)
        return [*self._reader.load(keys)]


@pytest.fixture
def many(rig: Rig) -> Sequence[int]:
    return rig.put(*[new_job(f"q{n % 50}") for n in range(5_000)])


@pytest.mark.parametrize("anchor", [Head(), Tail(), Offset(3), Offset(4_990)])
def test_what_is_read_for_a_window_does_not_grow_with_the_list(
    reader: Reader, many: Sequence[int], anchor: windows.Anchor
) -> None:
    counting = CountingReader(reader)
    shown = window(counting, READY, anchor, 5, 5_000)  # type: ignore[arg-type]
    assert len(shown.jobs) == 5
    assert counting.read <= 20

"""What another process does to jobs that this one's takers hold or wait for: slots come free, and nothing of its work is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from anew.engine import Fail, Limits, Succeed, takers
from anew.engine.ops import FailMany, Op
from anew.engine.verbs import delete_one, patch_one
from anew.errors import NotFound
from anew.jobs import Failed, HoldKind, State
from anew.jobs.patch import Patch, RetentionPatch
from anew.store.protocol import Hold, TakenRow
from anew.store.sqlite import open_sqlite

from .rig import NOW, Rig, Worker, call, enqueue, fail, ignore, new_job, succeed, tick

pytestmark = pytest.mark.both_engines


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Rig, Rig]]:
    """A server's engine and another process's, each with its own memory; one clock."""
    yield from _pair(tmp_path / "data", 0)


@pytest.fixture
def bounded(tmp_path: Path) -> Iterator[tuple[Rig, Rig]]:
    """The same, where the server lets two jobs be in flight."""
    yield from _pair(tmp_path / "data", 2)


def _pair(place: Path, limit: int) -> Iterator[tuple[Rig, Rig]]:
    limits = Limits(global_in_flight=limit, max_lease_ms=1_000)
    one = Rig(open_sqlite(place), limits=limits)
    other = Rig(open_sqlite(place, exclusive=False), clock=one.clock)
    yield one, other
    one.store.close()
    other.store.close()


def take(rig: Rig, limit: int = 1) -> list[TakenRow]:
    """Take as an embedded program does."""
    token = rig.engine.dispatcher.new_token()
    hold = Hold(HoldKind.SESSION, token, rig.store.session, None, NOW)
    rows: list[TakenRow] = rig.do(call(lambda batch: batch.take_under(hold, None, limit, 1 << 20)))
    return rows


def token_of(rig: Rig, key: int) -> int:
    token = rig.job(key).hold_token
    assert token is not None
    return token


def release(rig: Rig, key: int) -> None:
    rig.do(call(lambda batch: batch.release([key], None)))


def paused_and_idle(rig: Rig, prefetch: int) -> tuple[Worker, Worker]:
    """Give a taker that holds what was ready and takes nothing more, and one that waits for jobs."""
    first = rig.worker(prefetch=prefetch)
    rig.engine.dispatcher.pause(first.taker)
    return first, rig.worker(prefetch=prefetch)


ENDS: dict[str, Callable[[Rig, int], object]] = {
    "succeeds": lambda rig, key: rig.do(succeed(key)),
    "fails": lambda rig, key: rig.do(fail(key)),
    "deletes": lambda rig, key: rig.do(call(delete_one(key))),
    "lets it lapse": lambda rig, key: (rig.clock.advance(1_001), rig.do(call(tick)), take(rig)),
    "takes it itself": lambda rig, key: (release(rig, key), take(rig)),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_slot_comes_free_whose_job_another_process_has_ended(pair: tuple[Rig, Rig], end: str) -> None:
    one, other = pair
    first, second = one.put(new_job(), new_job())
    worker = one.worker(prefetch=1)
    assert worker.keys == [first]
    ENDS[end](other, first)
    one.engine.apply([])
    assert worker.keys == [first, second]
    assert worker.held == {second}


def test_the_total_in_flight_comes_down_with_it(bounded: tuple[Rig, Rig]) -> None:
    one, other = bounded
    keys = one.put(*[new_job()] * 4)
    first, second = one.worker(prefetch=2), one.worker(prefetch=2)
    other.do(succeed(*keys[:2]))
    one.engine.apply([])
    assert sorted(first.keys + second.keys) == keys


def test_a_job_that_another_process_gave_back_is_held_once(pair: tuple[Rig, Rig]) -> None:
    """Whoever has it next in this process has it alone, and the first holder's end does not take it away."""
    one, other = pair
    (key,) = one.put(new_job())
    first, second = paused_and_idle(one, 1)
    release(other, key)
    one.engine.apply([])
    assert (second.keys, first.held, second.held) == ([key], set(), {key})
    one.do(one.leave(first))
    assert (one.state(key), second.held) == (State.IN_FLIGHT, {key})
    assert one.broken_rules() == []


def test_holds_that_are_not_compared_yet_give_way_to_those_of_a_take(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takers, "CHECKED_JOBS", 1)
    one, other = pair
    keys = one.put(*[new_job()] * 3)
    first, second = paused_and_idle(one, 3)
    release(other, keys[0])  # the one that is compared last
    one.engine.apply([])
    assert (second.keys, first.held) == ([keys[0]], set(keys[1:]))
    assert one.broken_rules() == []


def test_all_holds_are_compared_some_in_each_batch(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takers, "CHECKED_JOBS", 2)
    one, other = pair
    keys = one.put(*[new_job()] * 5)
    worker = one.worker(prefetch=5)
    other.do(succeed(*keys))
    left = []
    for _ in range(3):
        one.advance(takers.CHECK_MS)
        left.append(len(worker.held))
    assert left == [3, 1, 0]


def test_holds_that_stand_do_not_keep_others_from_being_compared(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takers, "CHECKED_JOBS", 2)
    one, other = pair
    keys = one.put(*[new_job()] * 5)
    worker = one.worker(prefetch=5)
    other.do(succeed(keys[0]))  # the one that is compared last
    for _ in range(3):
        one.advance(takers.CHECK_MS)
    assert worker.held == set(keys[1:])


def test_a_write_while_holds_are_compared_has_them_compared_once_more(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takers, "CHECKED_JOBS", 2)
    one, other = pair
    keys = one.put(*[new_job()] * 4)
    worker = one.worker(prefetch=4)
    other.put(new_job("elsewhere"))
    one.engine.dispatcher.pause(worker.taker)
    one.engine.apply([])  # two of them stand
    other.do(succeed(*keys))
    for _ in range(4):
        one.advance(takers.CHECK_MS)
    assert worker.held == set()


def test_rows_are_compared_only_after_another_process_has_written(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    one.put(new_job(), new_job())
    one.worker(["mail"], prefetch=2)
    one.engine.apply([])
    asked: list[int] = []
    ask = one.store.held_under
    monkeypatch.setattr(one.store, "held_under", lambda holds: asked.append(len(holds)) or ask(holds))
    one.put(new_job())
    one.engine.apply([])
    assert asked == []
    other.put(new_job())
    one.engine.apply([])
    one.engine.apply([])
    assert asked == [2]


def test_rows_are_compared_at_most_once_in_a_while_however_often_another_process_writes(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    one.put(new_job(), new_job())
    one.worker(["mail"], prefetch=2)
    asked: list[int] = []
    ask = one.store.held_under
    monkeypatch.setattr(one.store, "held_under", lambda holds: asked.append(len(holds)) or ask(holds))
    for ms in (0, 49, 1, 49, 0):  # 0, 49, 50, 99, 99
        other.put(new_job("elsewhere"))
        one.advance(ms)
    assert asked == [2, 2]
    assert one.engine.dispatcher.checks()
    one.advance(1)  # 100
    assert asked == [2, 2, 2]
    assert not one.engine.dispatcher.checks()


REPORTS: dict[str, Callable[[int], Op]] = {
    "a success": lambda key: succeed(key),
    "a failure": lambda key: fail(key),
    "a list of failures": lambda key: FailMany([(key, Failed(message="no"))], ignore),
}


@pytest.mark.parametrize("report", REPORTS)
def test_the_workers_own_report_frees_the_slot_at_once(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    monkeypatch.setattr(takers, "CHECKED_JOBS", 1)
    one, other = pair
    keys = one.put(*[new_job()] * 3)
    worker = one.worker(prefetch=2)
    other.do(succeed(keys[0]))
    one.do(REPORTS[report](keys[0]))  # the batch compares the other one
    assert (worker.keys, worker.held) == (keys, set(keys[1:]))


def test_an_ended_stream_gives_back_only_what_it_still_holds(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    first, second = one.put(new_job(), new_job())
    worker = one.worker()
    release(other, first)
    assert [row[0] for row in take(other)] == [first]
    token = token_of(other, first)
    assert one.do(one.leave(worker, interrupted=False)) == 1
    assert (one.state(first), one.state(second)) == (State.IN_FLIGHT, State.READY)
    assert other.do(Succeed([first], ignore, [token])) == []


def test_each_report_is_compared_with_its_own_token(pair: tuple[Rig, Rig]) -> None:
    """A stale report and the holder's, in one batch: only the holder's is told that it went through."""
    one, other = pair
    (key,) = one.put(new_job())
    take(one)
    stale = token_of(one, key)
    release(one, key)
    take(other)
    token = token_of(one, key)
    late, right = one.apply(Succeed([key], ignore, [stale]), Succeed([key], ignore, [token]))
    assert (late, right) == ([key], [])


def test_a_stale_report_frees_nobody_elses_slot(pair: tuple[Rig, Rig]) -> None:
    one, _ = pair
    (key,) = one.put(new_job())
    worker = one.worker()
    assert one.do(Succeed([key], ignore, [token_of(one, key) + 1])) == [key]
    assert isinstance(one.do(Fail(key, Failed(message="no"), ignore, token_of(one, key) + 1)), NotFound)
    assert worker.held == {key}


def test_a_retention_that_another_process_gives_a_held_job_holds(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    (key,) = one.put(new_job())
    one.worker()
    other.do(call(patch_one(key, Patch(retention=RetentionPatch(completed_ms=50)))))
    assert one.do(succeed(key)) == []
    assert (one.state(key), one.job(key).purge_at) == (State.COMPLETED, NOW + 50)


# -- jobs that another process has stored


@pytest.mark.parametrize("queues", [["c"], ["a", "c"], None])
def test_who_waits_gets_what_another_process_stores(pair: tuple[Rig, Rig], queues: list[str] | None) -> None:
    one, other = pair
    workers = [one.worker(["b"]), one.worker(queues), one.worker(["d", "e"])]
    (key,) = other.put(new_job("c"))
    one.engine.apply([])
    assert [worker.keys for worker in workers] == [[], [key], []]
    assert one.broken_rules() == []


@pytest.mark.parametrize("backlog", [0, 50])
def test_only_the_queues_that_have_jobs_are_looked_at(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch, backlog: int
) -> None:
    """However many takers wait, and however many queues have jobs for which nobody does."""
    one, other = pair
    workers = [one.worker([f"q{n}"], prefetch=1) for n in range(20)]
    queues = Mock(wraps=one.store.queues)
    monkeypatch.setattr(one.store, "queues", queues)
    other.put(*(new_job(f"left-{n}") for n in range(backlog)))
    keys = other.put(new_job("q7"), new_job("q9"))
    one.do(enqueue(new_job("other")))
    assert [worker.keys for worker in workers if worker.keys] == [[keys[0]], [keys[1]]]
    assert {call.args[0] for call in queues.takeable.call_args_list} == {"q7", "q9", "other"}


def test_a_job_that_another_process_stores_waits_for_a_slot_and_no_longer(bounded: tuple[Rig, Rig]) -> None:
    one, other = bounded
    held = one.put(new_job("a"), new_job("a"))
    one.worker(["a"])
    worker = one.worker(["b"])
    (key,) = other.put(new_job("b"))
    one.engine.apply([])
    assert worker.keys == []
    one.do(succeed(held[0]))
    assert worker.keys == [key]

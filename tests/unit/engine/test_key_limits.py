"""Limits of keys in the engine: by every door, with other limits, in several processes, and after a process has died."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anew.engine import Batch, Fetch
from anew.engine.job_batches import commit_batch, new_batch
from anew.engine.throttles import limit_queue
from anew.engine.verbs import cancel_one, delete_one, patch_one, pause_one, redrive_one
from anew.jobs import HoldEnd, HoldKind, State
from anew.jobs.batches import Callback
from anew.jobs.codec import JobHooks, LimitKey, PushedJob
from anew.jobs.limits import Throttle, rate
from anew.jobs.patch import Patch
from anew.store.protocol import Hold
from anew.store.selection import Filter
from anew.store.sqlite import open_sqlite

from .rig import ALL, NOW, Rig, call, fail, new_job, succeed, tick

ONE = LimitKey("a", 1)
MINUTE = 60_000


def limited(limit: LimitKey = ONE, queue: str = "mail", **members: Any) -> PushedJob:
    hooks = JobHooks(limit=limit, expires_at=members.pop("expires_at", None))
    return PushedJob(type="send", queue=queue, payload=msgspec.Raw(b"1"), hooks=hooks, **members)


def take(rig: Rig, queues: list[str] | None = None, limit: int = 10) -> list[int]:
    """Take as an embedded worker does; gives the keys."""

    def verb(batch: Batch) -> list[int]:
        batch.unblock()
        hold = Hold(HoldKind.SESSION, batch.new_token(), batch.store.session, None, batch.now)
        return [row[0] for row in batch.take_under(hold, queues, limit, 1 << 20)]

    keys: list[int] = rig.do(call(verb))
    return keys


def fetch(rig: Rig, queue: str = "mail") -> int | None:
    """Fetch one job and wait no longer; gives its key."""
    answers: list[Any] = []
    rig.engine.apply([op := Fetch([queue], answers.append)])
    rig.engine.fetches.call_off(op)
    return answers[0].key if answers else None


def blocked(rig: Rig) -> list[int]:
    """The jobs that stand in no line."""
    return [key for (key,) in rig.store._link.execute("SELECT id FROM job WHERE state = 32 ORDER BY id")]  # type: ignore[attr-defined]


def keys_known(rig: Rig) -> list[str]:
    return [name for (name,) in rig.store._link.execute("SELECT name FROM limit_key ORDER BY name")]  # type: ignore[attr-defined]


def check(rig: Rig) -> None:
    """What is derived is as the rows say."""
    reader = rig.store.reader()
    found = reader.recount()
    reader.close()
    assert (found.counters, found.blocked, found.heads, found.forgotten) == ({}, {}, [], [])


# -- who starts


def test_jobs_of_other_keys_and_of_none_are_not_held_up(rig: Rig) -> None:
    first, second, other, free = rig.put(limited(), limited(), limited(LimitKey("b", 1)), new_job())
    assert take(rig) == [first, other, free]
    assert blocked(rig) == [second]
    assert (rig.state(second), rig.store.queues.counts()["mail"][State.READY]) == (State.READY, 1)
    assert take(rig) == []
    rig.do(succeed(first))
    assert take(rig) == [second]
    check(rig)


def test_a_stream_gets_the_next_one_in_the_transaction_that_ends_the_first(rig: Rig) -> None:
    worker = rig.worker(["mail"], prefetch=5)
    keys = rig.put(*[limited() for _ in range(3)])
    assert worker.keys == keys[:1]
    rig.do(fail(keys[0]))
    assert worker.keys == keys[:2]
    assert worker.held == {keys[1]}


def test_a_fetch_gets_what_its_key_lets_start(rig: Rig) -> None:
    first, second, other = rig.put(limited(), limited(), limited(LimitKey("b", 1)))
    assert [fetch(rig), fetch(rig), fetch(rig)] == [first, other, None]
    rig.do(succeed(first))
    assert fetch(rig) == second


def test_a_fetch_that_waits_gets_the_next_one(rig: Rig) -> None:
    first, second = rig.put(limited(), limited())
    assert fetch(rig) == first
    answers: list[Any] = []
    rig.engine.apply([Fetch(["mail"], answers.append)])
    rig.do(succeed(first))
    rig.engine.apply([])
    assert [job.key for job in answers] == [second]


def test_of_one_key_the_first_by_priority_and_age_starts(rig: Rig) -> None:
    running, late = rig.put(limited(), limited(priority=40_000))
    assert take(rig) == [running]
    early, middle = rig.put(limited(priority=30_000), limited())
    order = []
    for _ in range(3):
        rig.do(succeed(running))
        (running,) = take(rig)
        order.append(running)
    assert order == [early, middle, late]


def test_a_crowd_of_one_key_is_blocked_when_it_comes_and_the_next_customer_is_served_at_once(
    rig: Rig,
) -> None:
    rig.put(*[limited() for _ in range(1_000)])
    for _ in range(1_000):
        rig.put(limited())
    (other,) = rig.put(limited(LimitKey("b", 1)))
    assert len(blocked(rig)) == 1_999
    assert take(rig)[1:] == [other]
    check(rig)


def test_what_may_start_is_not_blocked_when_it_comes(rig: Rig) -> None:
    three = LimitKey("a", 3)
    keys = [key for _ in range(4) for key in rig.put(limited(three))]
    assert blocked(rig) == keys[3:]


def test_many_keys_at_once_are_asked_for_by_few_statements(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand new ones, at four statements each, held up everybody for 0.1 s."""
    asked: list[str] = []
    rows = rig.store.key_limits

    def watch(name: str) -> None:
        ask = getattr(rows, name)

        def watched(*given: Any) -> Any:
            asked.append(name)
            return ask(*given)

        monkeypatch.setattr(rows, name, watched)

    for name in ("first", "blocked_queues", "any_of"):
        watch(name)
    first = rig.put(*[limited(LimitKey(f"{number}", 1)) for number in range(300)])
    assert asked == []
    second = rig.put(*[limited(LimitKey(f"{number}", 1)) for number in range(300)])
    assert asked == ["first"] * 600
    assert blocked(rig) == second
    assert take(rig, limit=600) == first
    rig.do(succeed(*first))
    assert take(rig, limit=600) == second
    check(rig)


def test_a_take_goes_on_where_very_many_become_due_at_once(rig: Rig) -> None:
    keys = rig.put(*[limited(ready_at=NOW + 1_000) for _ in range(700)], new_job(ready_at=NOW + 1_001))
    rig.clock.advance(1_001)
    taken: list[int] = []
    for _ in range(10):
        taken += take(rig)
    assert taken == [keys[0], keys[-1]]
    check(rig)


def test_several_queues_share_a_key_and_one_that_is_paused_holds_up_none(rig: Rig) -> None:
    running, mail, news = rig.put(limited(), limited(), limited(queue="news"))
    assert take(rig, ["mail"], 1) == [running]
    rig.do(call(pause_one("mail", True)))
    rig.do(succeed(running))
    assert take(rig) == [news]
    rig.do(call(pause_one("mail", False)))
    assert take(rig) == []
    rig.do(succeed(news))
    assert take(rig) == [mail]


def test_the_queues_limit_holds_too_and_its_rate_counts_only_what_starts(rig: Rig) -> None:
    rig.do(call(limit_queue("mail", Throttle(concurrency=3, rate=rate(3, MINUTE)))))
    first, *_ = rig.put(*[limited() for _ in range(3)], *[new_job() for _ in range(4)])
    started = take(rig)
    assert started[0] == first
    assert len(started) == 3
    rig.do(succeed(*started))
    assert take(rig) == []
    rig.advance(MINUTE)
    assert len(take(rig)) == 3


# -- what frees a key

ENDS: dict[str, Any] = {
    "success": lambda rig, key: rig.do(succeed(key)),
    "failure": lambda rig, key: rig.do(fail(key)),
    "death": lambda rig, key: rig.do(fail(key, kill=True)),
    "lapse": lambda rig, key: rig.do(call(lambda batch: batch.end_holds([key], HoldEnd.LAPSED))),
    "killed process": lambda rig, key: rig.do(
        call(lambda batch: batch.end_holds([key], HoldEnd.PROCESS_DIED))
    ),
    "cancellation": lambda rig, key: rig.do(call(cancel_one(key))),
    "removal": lambda rig, key: rig.do(call(delete_one(key))),
}


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_hold_lets_the_next_one_start(rig: Rig, end: str) -> None:
    first, second, third = rig.put(limited(), limited(), limited())
    assert take(rig) == [first]
    ENDS[end](rig, first)
    ready = [key for key in (first, second, third) if rig.state(key) is State.READY]
    assert take(rig) == ready[:1]
    check(rig)


@pytest.mark.parametrize("change", ["cancel", "delete", "move", "later"])
def test_what_is_unblocked_and_does_not_start_makes_way(rig: Rig, change: str) -> None:
    """The next one was put into line when the first had ended; then somebody takes it away, and another must follow."""
    first, second, third = rig.put(limited(), limited(), limited())
    take(rig)
    rig.do(succeed(first))
    assert blocked(rig) == [third]
    verbs = {
        "cancel": cancel_one(second),
        "delete": delete_one(second),
        "move": patch_one(second, Patch(queue="other")),
        "later": patch_one(second, Patch(ready_at=NOW + MINUTE)),
    }
    rig.do(call(verbs[change]))
    assert take(rig, ["mail"]) == [third]
    check(rig)


def test_a_blocked_job_is_changed_like_any_other(rig: Rig) -> None:
    running, moved, gone, off = rig.put(*[limited() for _ in range(4)])
    take(rig)
    rig.do(call(patch_one(moved, Patch(queue="other", priority=1))))
    rig.do(call(delete_one(gone)))
    rig.do(call(cancel_one(off)))
    assert [rig.state(key) for key in (moved, gone, off)] == [State.READY, None, State.CANCELLED]
    assert (rig.job(moved).queue, rig.job(moved).priority) == ("other", 1)
    assert take(rig) == []
    check(rig)
    rig.do(succeed(running))
    assert take(rig) == [moved]


def test_blocked_jobs_are_found_and_counted_as_ready(rig: Rig) -> None:
    keys = rig.put(*[limited() for _ in range(3)])
    take(rig)
    ready = Filter(states=frozenset({State.READY}))
    assert rig.store.find(ready, ALL) == keys[1:]
    assert rig.store.count(ready) == rig.store.queues.counts()["mail"][State.READY] == 2


def test_all_jobs_can_be_removed(rig: Rig) -> None:
    rig.put(*[limited() for _ in range(3)])
    take(rig)
    rig.do(call(lambda batch: batch.delete_all()))
    assert keys_known(rig) == []
    (key,) = rig.put(limited())
    assert take(rig) == [key]
    check(rig)


def test_an_expired_job_takes_nobodys_turn(rig: Rig) -> None:
    running, late, good = rig.put(limited(), limited(expires_at=NOW + 1_000), limited())
    take(rig)
    rig.clock.advance(1_001)
    rig.do(succeed(running))
    assert take(rig) == [good]
    assert rig.state(late) is State.CANCELLED


def test_a_callback_of_a_batch_keeps_its_key(rig: Rig) -> None:
    (running,) = rig.put(limited())
    take(rig)
    batch = rig.do(call(new_batch(lambda key: {Callback.COMPLETE: limited()})))
    rig.do(call(commit_batch(batch)))
    assert len(rig.store.find(Filter(), ALL)) == 2
    assert take(rig) == []
    rig.do(succeed(running))
    assert len(take(rig)) == 1


# -- rates


def test_a_rate_has_its_key_looked_at_when_the_next_one_may_start(rig: Rig) -> None:
    ten = LimitKey("a", None, (10, MINUTE, 2))
    worker = rig.worker(["mail"])
    keys = rig.put(*[limited(ten) for _ in range(4)])
    assert worker.keys == keys[:2]
    assert rig.engine.wake_at == NOW + 6_000
    rig.advance(5_999)
    assert worker.keys == keys[:2]
    rig.advance(1)
    assert worker.keys == keys[:3]
    assert rig.engine.wake_at == NOW + 12_000
    rig.advance(6_000)
    assert worker.keys == keys
    check(rig)


def test_a_clock_that_was_set_back_holds_a_rate_no_longer_than_what_is_missing(rig: Rig) -> None:
    """Once something happens to a job of the key; until then the key waits for its time, as all jobs do that wait for one."""
    worker = rig.worker(["mail"])
    one = LimitKey("a", None, (1, MINUTE, 1))
    first, second = rig.put(limited(one), limited(one))
    assert worker.keys == [first]
    rig.clock.jump(-60 * MINUTE)
    rig.do(succeed(first))
    rig.advance(MINUTE - 1)
    assert worker.keys == [first]
    rig.advance(1)
    assert worker.keys == [first, second]
    check(rig)


def test_a_rate_wakes_nobody_again_and_again_where_nobody_takes(rig: Rig) -> None:
    ten = LimitKey("a", None, (10, MINUTE, 2))
    keys = rig.put(*[limited(ten) for _ in range(5)])
    assert take(rig) == keys[:2]
    rig.advance(6_000)
    assert rig.engine.wake_at is None
    rig.advance(MINUTE)
    assert take(rig) == keys[2:4]
    assert rig.engine.wake_at == NOW + 6_000 + MINUTE + 6_000
    check(rig)


def test_a_key_goes_when_no_job_of_it_is_stored_and_its_bucket_is_full(rig: Rig) -> None:
    ten = LimitKey("a", None, (10, MINUTE, 2))
    (key,) = rig.put(limited(ten))
    take(rig)
    rig.do(succeed(key))
    assert (keys_known(rig), rig.engine.wake_at) == (["a"], NOW + 6_000)
    rig.advance(6_000)
    assert (keys_known(rig), rig.engine.wake_at) == ([], None)


def test_a_key_stays_for_a_job_that_may_run_again(rig: Rig) -> None:
    dead, waits = rig.put(limited(), limited())
    take(rig)
    rig.do(fail(dead, kill=True))
    rig.do(succeed(*take(rig)))
    assert (rig.state(waits), keys_known(rig)) == (None, ["a"])
    (running,) = rig.put(limited())
    assert take(rig) == [running]
    rig.do(call(redrive_one(dead)))
    assert take(rig) == []
    rig.do(succeed(running))
    assert take(rig) == [dead]
    rig.do(succeed(dead))
    assert keys_known(rig) == []


def test_the_bounds_of_the_job_that_came_last_hold(rig: Rig) -> None:
    keys = rig.put(*[limited() for _ in range(4)])
    assert take(rig) == keys[:1]
    last = rig.put(limited(LimitKey("a", 3)))
    assert take(rig) == keys[1:3]
    rig.put(limited(LimitKey("a", 1)))
    rig.do(succeed(*keys[:2]))
    assert take(rig) == []
    rig.do(succeed(keys[2]))
    assert take(rig) == keys[3:4]
    assert rig.state(last[0]) is State.READY


# -- several processes


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Rig, Rig]]:
    """Two processes' engines on one file; one clock."""
    one = Rig(open_sqlite(tmp_path / "data"))
    other = Rig(open_sqlite(tmp_path / "data", exclusive=False), clock=one.clock)
    yield one, other
    one.store.close()
    other.store.close()


def test_processes_share_a_key(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    first, second = one.put(limited(), limited())
    assert (take(other), take(one)) == ([first], [])
    worker = one.worker(["mail"])
    other.do(succeed(first))
    one.engine.apply([])
    assert worker.keys == [second]


def test_another_processs_rate_wakes_this_one(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    ten = LimitKey("a", None, (10, MINUTE, 1))
    first, second = one.put(limited(ten), limited(ten))
    worker = other.worker(["mail"])
    assert worker.keys == [first]
    one.engine.apply([])
    assert one.engine.wake_at == NOW + 6_000
    one.advance(6_000)
    other.engine.apply([])
    assert worker.keys == [first, second]


def test_a_wait_for_the_files_turn_gives_no_start_too_many(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    ten = LimitKey("a", None, (10, MINUTE, 2))
    keys = one.put(*[limited(ten) for _ in range(6)])
    begin = other.store.begin

    def begin_late(*, synced: bool) -> bool:
        monkeypatch.setattr(other.store, "begin", begin)
        one.clock.advance(6_000)
        assert take(one, limit=1) == keys[1:2]
        return begin(synced=synced)

    assert take(one, limit=1) == keys[:1]
    monkeypatch.setattr(other.store, "begin", begin_late)
    assert take(other, limit=1) == keys[2:3]
    assert take(one) == []  # two at once, and one for the 6 s
    one.clock.advance(6_000)
    assert take(one) == keys[3:4]


def test_a_batch_that_does_not_last_changes_no_key(rig: Rig) -> None:
    first, second = rig.put(limited(), limited())
    take(rig)

    def verb(batch: Batch) -> None:
        batch.finish([first])
        batch.unblock()
        raise RuntimeError("planned")

    rig.engine.apply([call(verb)])
    assert blocked(rig) == [second]
    assert take(rig) == []
    rig.do(succeed(first))
    assert take(rig) == [second]
    check(rig)


def test_upkeep_finds_what_nothing_would_have_looked_at(rig: Rig) -> None:
    """Rows that somebody has damaged: no job runs, and one is blocked."""
    first, second = rig.put(limited(), limited())
    take(rig)
    rig.store._link.execute("DELETE FROM job WHERE id = ?", (first,))  # type: ignore[attr-defined]
    reader = rig.store.reader()
    found = reader.recount()
    assert found.forgotten == ["a"]
    rig.do(call(lambda batch: batch.correct(found)))
    rig.do(call(tick))
    assert take(rig) == [second]

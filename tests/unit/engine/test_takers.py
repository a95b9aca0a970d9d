"""Who gets what: turns, waiting and waking, pauses, the global limit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from anew.engine import Limits, takers
from anew.engine.verbs import patch_one, redrive_one
from anew.jobs import State
from anew.jobs.patch import Patch, RetentionPatch
from anew.store.selection import Page

from .rig import (
    NOW,
    Rig,
    Worker,
    call,
    fail,
    new_job,
    plain,
    succeed,
)


def queue_up(rig: Rig, *wanted: tuple[list[str] | None, int]) -> list[Worker]:
    """Add takers, in order, that all wait for the next batch."""
    workers = [Worker(queues, prefetch) for queues, prefetch in wanted]
    for worker in workers:
        rig.engine.dispatcher.add(worker.taker)
    return workers


# -- wake-ups


def test_a_taker_that_waits_gets_a_job_in_the_batch_that_brings_it(rig: Rig) -> None:
    worker = rig.worker(["mail"])
    assert worker.keys == []
    (key,) = rig.put(new_job("mail"))
    assert worker.keys == [key]


@pytest.mark.parametrize("queues", [None, ["mail"], ["other", "mail"], ["mail", "mail"]])
def test_whatever_makes_a_job_ready_wakes_a_waiting_taker(rig: Rig, queues: list[str] | None) -> None:
    keys = rig.put(new_job(), new_job(), new_job(), new_job(ready_at=NOW + 5))
    holder = rig.worker(prefetch=3)
    rig.engine.dispatcher.pause(holder.taker)
    waiting = rig.worker(queues)
    rig.do(fail(keys[0], retry_at=NOW))
    assert waiting.keys == [keys[0]]
    rig.clock.advance(5)
    rig.engine.apply([])
    assert waiting.keys == [keys[0], keys[3]]
    rig.do(rig.leave(holder))
    assert waiting.keys == [keys[0], keys[3], keys[1], keys[2]]
    assert rig.broken_rules() == []


def test_takers_of_other_queues_are_left_alone(rig: Rig) -> None:
    mail, other = rig.worker(["mail"]), rig.worker(["other"])
    rig.put(new_job("mail"), new_job("never"))
    assert (len(mail.keys), other.keys) == (1, [])
    assert rig.broken_rules() == []


def note_takes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give a list that gets, at each take for several queues, how many these are."""
    takes: list[int] = []
    real = rig.store.take_each

    def noting(wanted: Sequence[tuple[str, int]], *more: Any) -> Any:
        takes.append(len(wanted))
        return real(wanted, *more)

    monkeypatch.setattr(rig.store, "take_each", noting)
    return takes


def test_one_job_wakes_one_of_many(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes that find nothing cost a statement each: as many takers are woken as there are jobs."""
    workers = [rig.worker(["mail"], 1) for _ in range(50)]
    takes = note_takes(rig, monkeypatch)
    rig.put(new_job("mail"))
    assert takes == [1]
    assert sum(len(worker.keys) for worker in workers) == 1
    assert rig.broken_rules() == []


def test_jobs_go_round_among_waiting_takers(rig: Rig) -> None:
    workers = [rig.worker(["mail"], 1) for _ in range(5)]
    got = []
    for _ in range(10):
        (key,) = rig.put(new_job("mail"))
        got.append(next(at for at, worker in enumerate(workers) if key in worker.held))
        rig.do(succeed(key))
    assert sorted(got) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_jobs_go_round_among_takers_of_different_queues_that_share_one(rig: Rig) -> None:
    one, both = rig.worker(["a"], 1), rig.worker(["a", "b"], 1)
    for _ in range(4):
        (key,) = rig.put(new_job("a"))
        rig.do(succeed(key))
    assert (len(one.keys), len(both.keys)) == (2, 2)


def test_very_many_takers_of_a_queue_each_are_served_by_a_few_takes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 2 * takers.SMALL_TURNS + 1
    workers = [rig.worker([f"q{n}"], 1) for n in range(count)]
    takes = note_takes(rig, monkeypatch)
    keys = rig.put(*(new_job(f"q{n}") for n in range(count)))
    assert [worker.keys for worker in workers] == [[key] for key in keys]
    assert takes == [takers.SMALL_TURNS, takers.SMALL_TURNS, 1]


def test_a_waiting_taker_that_settles_a_job_does_not_look_into_its_empty_queue_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = rig.put(new_job("mail"))
    rig.worker(["mail", "fax"], 2)
    looks: list[object] = []
    real = rig.store.take

    def counted(queues: object, *more: Any) -> Any:
        looks.append(queues)
        return real(queues, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(rig.store, "take", counted)
    rig.do(succeed(key))
    assert looks == []


def test_a_taker_of_several_queues_is_woken_by_each(rig: Rig) -> None:
    worker = rig.worker(["a", "b", "c"])
    keys = [rig.put(new_job(queue))[0] for queue in ("b", "c", "a", "b")]
    assert worker.keys == keys
    assert rig.broken_rules() == []


def test_one_job_in_each_of_two_queues_serves_both_takers(rig: Rig) -> None:
    both, only = rig.worker(["a", "b"], 1), rig.worker(["b"], 1)
    rig.put(new_job("a"), new_job("b"))
    assert (len(both.keys), len(only.keys)) == (1, 1)
    assert rig.broken_rules() == []


def test_a_free_slot_is_filled_in_the_batch_that_frees_it(rig: Rig) -> None:
    keys = rig.put(*(new_job() for _ in range(5)))
    worker = rig.worker(prefetch=2)
    assert worker.keys == keys[:2]
    rig.do(succeed(keys[0]))
    assert worker.keys == keys[:3]
    rig.do(fail(keys[1], kill=True))
    assert worker.keys == keys[:4]
    rig.do(call(lambda batch: batch.delete([keys[2]])))
    assert worker.keys == keys


# -- turns


def test_a_greedy_taker_does_not_starve_the_others(rig: Rig) -> None:
    """A turn is 250 jobs; then the next idle taker has its own."""
    greedy, modest = queue_up(rig, (None, 1_000), (None, 300))
    keys = rig.put(*(new_job() for _ in range(1_000)))
    assert greedy.keys[:250] == keys[:250]
    assert modest.keys == keys[250:500] + keys[750:800]
    assert greedy.keys[250:] == keys[500:750] + keys[800:]
    assert rig.broken_rules() == []


def test_turns_go_on_until_nothing_or_nobody_is_left(rig: Rig) -> None:
    workers = queue_up(rig, (None, 100), (None, 100), (None, 100))
    rig.do(plain(250))
    assert [len(worker.keys) for worker in workers] == [84, 83, 83]
    rig.do(plain(250))
    assert [len(worker.keys) for worker in workers] == [100, 100, 100]
    assert rig.broken_rules() == []


def test_one_batch_reads_only_so_many_bytes_and_the_next_goes_on(rig: Rig) -> None:
    """Else a deep prefetch over long payloads would be read into memory at once: jobs of 1,200,000 bytes, 4 MiB a batch."""
    rig.put(*(new_job(payload=b"x" * 1_200_000) for _ in range(6)))
    worker = rig.worker(prefetch=1_000)
    assert len(worker.keys) == 4
    assert rig.engine.dispatcher.waits()
    rig.engine.apply([])
    assert len(worker.keys) == 6
    assert not rig.engine.dispatcher.waits()
    assert rig.broken_rules() == []


def test_a_taker_that_falls_behind_gets_no_more_long_payloads(rig: Rig) -> None:
    rig.put(*(new_job(payload=b"x" * 1_200_000) for _ in range(6)))
    worker = rig.worker(prefetch=1_000)
    rig.engine.dispatcher.pause(worker.taker)
    rig.engine.apply([])
    assert len(worker.keys) == 4


def test_a_batch_that_had_its_fill_lets_no_queue_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The taker that was woken for a queue's only job fills up elsewhere, batches later: the job goes to the other one."""
    rig = Rig()
    real = rig.store.queues.fresh_ready
    monkeypatch.setattr(rig.store.queues, "fresh_ready", lambda: sorted(real(), reverse=True))
    both, second = queue_up(rig, (["first", "second"], 2), (["second"], 1))
    rig.engine.apply([])
    long = new_job("first", payload=b"x" * 5_000_000)
    rig.put(long, long, new_job("second", priority=65_535))
    while rig.engine.dispatcher.waits():
        rig.engine.apply([])
    assert (len(both.keys), len(second.keys)) == (2, 1)
    assert rig.broken_rules() == []


def test_large_payloads_end_a_turn_but_not_the_supply(rig: Rig) -> None:
    one, two = queue_up(rig, (None, 10), (None, 10))
    rig.put(*(new_job(payload=b"x" * 700_000) for _ in range(8)))
    rig.engine.apply([])
    assert (len(one.keys), len(two.keys)) == (4, 4)
    assert len(one.instants) == 4
    assert rig.broken_rules() == []


def test_prefetch_is_never_passed(rig: Rig) -> None:
    rig.do(plain(100))
    workers = [rig.worker(prefetch=n) for n in (1, 7, 30)]
    assert [len(worker.held) for worker in workers] == [1, 7, 30]
    assert rig.broken_rules() == []


# -- pauses and leaving


def test_a_paused_taker_gets_nothing_until_it_goes_on(rig: Rig) -> None:
    worker = rig.worker(prefetch=2)
    rig.engine.dispatcher.pause(worker.taker)
    keys = rig.put(*(new_job() for _ in range(4)))
    assert worker.keys == []
    rig.engine.dispatcher.resume(worker.taker)
    assert rig.engine.dispatcher.waits()
    rig.engine.apply([])
    assert worker.keys == keys[:2]
    rig.engine.dispatcher.pause(worker.taker)
    rig.do(succeed(*keys[:2]))
    assert worker.keys == keys[:2]
    assert rig.broken_rules() == []
    rig.engine.dispatcher.resume(worker.taker)
    rig.engine.apply([])
    assert worker.keys == keys
    assert rig.broken_rules() == []


def test_a_paused_taker_leaves_its_share_to_others(rig: Rig) -> None:
    paused, awake = rig.worker(["mail"], 1), rig.worker(["mail"], 1)
    rig.engine.dispatcher.pause(paused.taker)
    (key,) = rig.put(new_job())
    assert awake.keys == [key]
    assert rig.broken_rules() == []


@pytest.mark.parametrize("before", ["waiting", "full", "idle", "paused"])
def test_a_taker_that_has_left_gets_nothing_more(rig: Rig, before: str) -> None:
    if before == "full":
        rig.do(plain(1))
    worker = Worker(None, 1)
    rig.engine.dispatcher.add(worker.taker)
    if before == "paused":
        rig.engine.dispatcher.pause(worker.taker)
    if before != "idle":
        rig.engine.apply([])
    had = list(worker.keys)
    rig.engine.dispatcher.remove(worker.taker)
    rig.engine.dispatcher.resume(worker.taker)
    rig.do(plain(3))
    assert worker.keys == had
    rig.do(succeed(*had))
    rig.do(plain(3))
    assert worker.keys == had
    assert rig.broken_rules() == []


def test_what_a_taker_that_has_left_still_holds_can_be_settled(rig: Rig) -> None:
    keys = rig.put(new_job(), new_job())
    worker = rig.worker()
    release = rig.leave(worker)
    assert rig.do(succeed(keys[0])) == []
    assert rig.do(release) == 1
    assert (rig.state(keys[0]), rig.state(keys[1])) == (None, State.READY)
    assert rig.broken_rules() == []


# -- the global limit


def test_the_global_limit_holds_over_all_takers() -> None:
    rig = Rig(limits=Limits(global_in_flight=5))
    keys = rig.put(*(new_job() for _ in range(20)))
    workers = queue_up(rig, (None, 3), (None, 3), (["mail"], 3))
    rig.engine.apply([])
    assert [len(worker.held) for worker in workers] == [3, 2, 0]
    assert rig.broken_rules() == []
    assert not rig.engine.dispatcher.waits()
    rig.do(succeed(keys[0]))
    assert sum(len(worker.held) for worker in workers) == 5
    assert len(workers[2].held) == 1
    assert rig.broken_rules() == []


def test_the_global_limit_holds_over_takers_of_queues_of_their_own_that_are_served_together() -> None:
    rig = Rig(limits=Limits(global_in_flight=5))
    workers = [rig.worker([f"q{n}"], 2) for n in range(4)]
    rig.put(*(new_job(f"q{n}") for n in range(4) for _ in range(2)))
    assert [len(worker.keys) for worker in workers] == [2, 2, 1, 0]
    assert rig.broken_rules() == []


def test_takers_that_the_global_limit_holds_back_come_in_when_there_is_room() -> None:
    rig = Rig(limits=Limits(global_in_flight=1))
    a, b = rig.worker(["a"], 1), rig.worker(["b"], 1)
    (first,) = rig.put(new_job("a"))
    (second,) = rig.put(new_job("b"))
    assert (a.keys, b.keys) == ([first], [])
    assert rig.broken_rules() == []
    rig.do(succeed(first))
    assert b.keys == [second]
    assert rig.broken_rules() == []


@pytest.mark.parametrize("how", ["pauses", "leaves"])
def test_a_job_that_the_limit_held_back_is_not_lost_with_the_taker_it_woke(how: str) -> None:
    rig = Rig(limits=Limits(global_in_flight=1))
    first, second, busy = rig.worker(["mail"], 1), rig.worker(["mail"], 1), rig.worker(["other"], 1)
    (blocking,) = rig.put(new_job("other"))
    (key,) = rig.put(new_job("mail"))
    assert busy.keys == [blocking]
    (rig.engine.dispatcher.pause if how == "pauses" else rig.engine.dispatcher.remove)(first.taker)
    rig.do(succeed(blocking))
    assert second.keys == [key]
    assert rig.broken_rules() == []


def test_a_limit_of_zero_is_no_limit() -> None:
    rig = Rig(limits=Limits(global_in_flight=0))
    rig.do(plain(3_000))
    assert len(rig.worker(prefetch=3_000).keys) == 3_000


# -- jobs that are more than their row


def test_a_job_that_is_patched_while_it_is_held_is_looked_at_again(rig: Rig) -> None:
    """Its new retention must hold when it succeeds."""
    (key,) = rig.put(new_job())
    rig.worker()
    rig.do(call(patch_one(key, Patch(retention=RetentionPatch(completed_ms=50)))))
    assert rig.do(succeed(key)) == []
    assert (rig.job(key).state, rig.job(key).purge_at) == (State.COMPLETED, NOW + 50)


def test_a_job_that_has_failed_once_is_looked_at_also_after_its_attempts_began_again(rig: Rig) -> None:
    """Its records are still there, and must go with it."""
    (key,) = rig.put(new_job())
    rig.worker()
    rig.do(fail(key, kill=True))
    rig.do(call(redrive_one(key, reset_attempts=True)))
    assert rig.job(key).attempts == 0
    assert rig.do(succeed(key)) == []
    assert rig.state(key) is None
    assert rig.store.records.errors(key, Page()) == []


@pytest.mark.parametrize(
    ("most", "served"), [(2_999, 1), (3_000, 1), (3_001, 2), (6_000, 2), (6_001, 3), (9_000, 3)]
)
def test_a_batch_takes_until_it_has_its_bytes_and_the_next_one_goes_on(
    most: int, served: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takers, "BATCH_BYTES", most)
    rig = Rig()
    for queue in "abcd":
        rig.put(new_job(queue, payload=b"x" * 3_000))
    workers = queue_up(rig, *(([queue, "other"], 1) for queue in "abcd"))  # of two queues: a turn each
    rig.engine.apply([])
    assert [len(worker.keys) for worker in workers] == [1] * served + [0] * (4 - served)
    assert rig.engine.dispatcher.waits()
    while rig.engine.dispatcher.waits():
        rig.engine.apply([])
    assert [len(worker.keys) for worker in workers] == [1] * 4


@pytest.mark.parametrize("seed", range(40))
def test_nobody_waits_beside_a_ready_job_however_soon_a_batch_has_its_fill(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Takers of one to three queues come, go, pause and settle while every batch takes one turn with long payloads."""
    monkeypatch.setattr(takers, "BATCH_BYTES", 1)
    chance = random.Random(seed)
    rig = Rig(limits=Limits(global_in_flight=chance.choice((0, 5))))
    long, short = b"x" * 3_000, b"1"
    workers: list[Worker] = []
    for _ in range(60):
        match chance.choice(("put", "put", "settle", "settle", "come", "go", "pause")):
            case "put":
                queues = [chance.choice("abc") for _ in range(chance.randint(1, 6))]
                rig.put(*(new_job(queue, payload=chance.choice((long, short))) for queue in queues))
            case "come":
                workers += queue_up(rig, (chance.sample("abc", chance.randint(1, 3)), chance.randint(1, 3)))
            case "settle" if held := sorted(rig.engine.dispatcher.holders):
                rig.apply(*(succeed(key) for key in chance.sample(held, chance.randint(1, len(held)))))
            case "go" if workers:
                rig.do(rig.leave(workers.pop(chance.randrange(len(workers)))))
            case "pause" if workers:
                taker = chance.choice(workers).taker
                (rig.engine.dispatcher.resume if taker.paused else rig.engine.dispatcher.pause)(taker)
        rig.engine.apply([])
        while rig.engine.dispatcher.waits():
            rig.engine.apply([])
        assert rig.broken_rules() == []

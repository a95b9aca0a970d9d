"""Limits of queues: who gets nothing, when a slot is free again, and that all processes count the same slots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anew.engine import Acknowledge, Fetch, Reject
from anew.engine.throttles import LimitedQueue, free_slots_of, limit_queue, limited_queues, set_throttles
from anew.engine.verbs import cancel_one, delete_one, patch_one
from anew.errors import Conflict, InvalidInput, StoreFull
from anew.jobs import Failed, HoldKind, Job, State
from anew.jobs.codec import PushedJob
from anew.jobs.limits import Rate, Throttle, rate
from anew.jobs.patch import Patch
from anew.store.protocol import Hold
from anew.store.sqlite import open_sqlite

from .grouped import Group
from .rig import NOW, FaultyStore, Rig, call, enqueue, ignore, new_job, succeed, tick

THREE = Throttle(concurrency=3)
TIMED = Throttle(concurrency=2, timeout_ms=45_000)
EACH = Throttle(per_worker=2, timeout_ms=90_000)


class Client:
    """Somebody who fetches; remembers what came."""

    def __init__(self, *queues: str, worker: str | None = None) -> None:
        self.answers: list[Any] = []
        self.fetch = Fetch(queues, self.answers.append, worker)

    @property
    def jid(self) -> str | None:
        """The id of the one job that came; None if nothing has."""
        if not self.answers:
            return None
        (job,) = self.answers
        assert isinstance(job, Job)
        return job.jid


def pushed(jid: str, queue: str = "scraper", **members: Any) -> PushedJob:
    return PushedJob(type="send", queue=queue, payload=msgspec.Raw(b"[1]"), jid=jid, **members)


def fetching(rig: Rig, *clients: Client) -> list[str | None]:
    """Apply the clients' fetches as one batch; gives what each has got."""
    rig.engine.apply([client.fetch for client in clients])
    return [client.jid for client in clients]


def fetch(rig: Rig, *queues: str, worker: str | None = None) -> str | None:
    """Fetch once and wait no longer."""
    client = Client(*(queues or ("scraper",)), worker=worker)
    fetching(rig, client)
    rig.engine.fetches.call_off(client.fetch)
    return client.jid


def limit(rig: Rig, **throttles: Throttle) -> None:
    assert rig.do(call(set_throttles(throttles))) is None


def ack(rig: Rig, jid: str) -> None:
    assert rig.do(Acknowledge(jid, ignore)) is True


# -- the bound


def test_a_saturated_queue_acts_empty_until_a_slot_is_free(rig: Rig) -> None:
    """Faktory checklist 100: the fetch goes on to the next queue."""
    limit(rig, scraper=THREE)
    rig.put(*[pushed(f"s{nth}") for nth in range(5)], pushed("m", "mail"))
    got = [fetch(rig, "scraper", "mail") for _ in range(5)]
    assert got == ["s0", "s1", "s2", "m", None]
    ack(rig, "s1")
    assert fetch(rig) == "s3"
    assert fetch(rig) is None


def test_a_fetch_that_waits_gets_the_next_job_when_a_slot_is_free(rig: Rig) -> None:
    limit(rig, scraper=Throttle(concurrency=1))
    rig.put(pushed("a"), pushed("b"), pushed("c"))
    first, second, third = Client("scraper"), Client("scraper"), Client("scraper")
    assert fetching(rig, first, second, third) == ["a", None, None]
    ack(rig, "a")
    assert (second.jid, third.jid) == ("b", None)
    rig.do(Reject("b", Failed(message="no"), ignore))
    assert third.jid == "c"


def test_streams_keep_to_the_same_bound(rig: Rig) -> None:
    limit(rig, mail=THREE)
    keys = rig.put(*[new_job("mail") for _ in range(7)])
    one, every = rig.worker(["mail"]), rig.worker()
    assert (one.keys, every.keys) == (keys[:3], [])
    rig.do(succeed(keys[0]))
    rig.do(succeed(keys[1], keys[2]))
    assert sorted(one.keys + every.keys) == keys[:6]


def test_a_stream_of_all_queues_takes_what_stands_behind_a_saturated_one(rig: Rig) -> None:
    limit(rig, mail=Throttle(concurrency=1))
    rig.put(
        *[new_job("mail", priority=1) for _ in range(4)], *[new_job("bulk", priority=9) for _ in range(2)]
    )
    worker = rig.worker()
    assert [row[1] for row in worker.rows] == ["mail", "bulk", "bulk"]
    assert rig.store.queues.any_ready() is False


def test_a_stream_of_several_queues_does_so_too(rig: Rig) -> None:
    limit(rig, mail=Throttle(concurrency=2), news=Throttle(concurrency=0))
    rig.put(*[new_job(queue) for queue in ("news", "mail", "mail", "bulk", "mail", "bulk")])
    worker = rig.worker(["news", "mail", "bulk"])
    assert [row[1] for row in worker.rows] == ["mail", "mail", "bulk", "bulk"]


def test_small_turns_that_are_served_together_keep_to_it(rig: Rig) -> None:
    limit(rig, a=Throttle(concurrency=1))
    rig.put(new_job("a"), new_job("a"), new_job("b"), new_job("b"))
    workers = [rig.worker([queue]) for queue in "ab"]
    assert [len(worker.keys) for worker in workers] == [1, 2]


def test_a_lowered_bound_starts_nothing_until_enough_has_ended(rig: Rig) -> None:
    limit(rig, scraper=THREE)
    rig.put(*[pushed(f"s{nth}") for nth in range(6)])
    fetching(rig, *[Client("scraper") for _ in range(3)])
    limit(rig, scraper=Throttle(concurrency=2))
    ack(rig, "s0")
    assert fetch(rig) is None
    ack(rig, "s1")
    assert fetch(rig) == "s3"


@pytest.mark.parametrize("throttle", [THREE, Throttle(concurrency=3, timeout_ms=60_000)])
def test_what_runs_when_a_queue_gets_its_limit_counts(rig: Rig, throttle: Throttle) -> None:
    rig.put(*[pushed(f"s{nth}") for nth in range(6)])
    fetching(rig, *[Client("scraper") for _ in range(4)])
    limit(rig, scraper=throttle)
    assert fetch(rig) is None
    ack(rig, "s0")
    ack(rig, "s1")
    assert (fetch(rig), fetch(rig)) == ("s4", None)


def test_a_limit_that_is_lifted_wakes_who_waits(rig: Rig) -> None:
    limit(rig, scraper=Throttle(concurrency=0), mail=Throttle(concurrency=0))
    rig.put(pushed("a"), new_job("mail"))
    client, worker = Client("scraper"), rig.worker(["mail"])
    assert fetching(rig, client) == [None]
    limit(rig)
    assert client.jid == "a"
    assert len(worker.keys) == 1


def test_a_limit_that_says_nothing_or_cannot_be_is_refused_by_both_verbs() -> None:
    for throttle in (Throttle(), Throttle(rate=Rate(0, 1_000, 1))):
        with pytest.raises(InvalidInput):
            set_throttles({"scraper": throttle})
        with pytest.raises(InvalidInput):
            limit_queue("scraper", throttle)


def test_the_same_limits_again_write_nothing(rig: Rig) -> None:
    limit(rig, scraper=THREE)
    written: list[object] = []
    rig.store.slots.limit = written.append  # type: ignore[method-assign, assignment]
    limit(rig, scraper=THREE)
    assert written == []


def test_a_paused_queue_with_a_limit_hands_out_nothing(rig: Rig) -> None:
    limit(rig, scraper=THREE)
    rig.put(pushed("a"))
    rig.do(call(lambda batch: batch.store.queues.pause(["scraper"], True)))
    assert fetch(rig) is None
    rig.do(call(lambda batch: batch.store.queues.pause(["scraper"], False)))
    assert fetch(rig) == "a"


# -- one worker


def test_each_worker_has_its_own_slots(rig: Rig) -> None:
    limit(rig, scraper=EACH)
    rig.put(*[pushed(f"s{nth}") for nth in range(8)])
    clients = [Client("scraper", worker=worker) for worker in ("w1", "w1", "w1", "w2", "w1", "w2", "w2")]
    assert fetching(rig, *clients) == ["s0", "s1", None, "s2", None, "s3", None]
    ack(rig, "s2")
    assert [client.jid for client in clients] == ["s0", "s1", None, "s2", None, "s3", "s4"]


def test_a_workers_slot_is_of_use_to_no_other_worker_that_waits_before_it(rig: Rig) -> None:
    limit(rig, scraper=Throttle(per_worker=1))
    rig.put(pushed("a"), pushed("b"))
    first, again, late = (Client("scraper", worker=worker) for worker in ("w1", "w1", "w2"))
    assert fetching(rig, first, again) == ["a", None]
    assert fetching(rig, late) == ["b"]


def test_both_bounds_hold_at_once(rig: Rig) -> None:
    limit(rig, scraper=Throttle(concurrency=3, per_worker=2))
    rig.put(*[pushed(f"s{nth}") for nth in range(8)])
    clients = [Client("scraper", worker=worker) for worker in ("w1", "w1", "w1", "w2", "w2")]
    assert fetching(rig, *clients) == ["s0", "s1", None, "s2", None]


def test_whoever_has_no_id_counts_as_one_worker(rig: Rig) -> None:
    limit(rig, scraper=Throttle(per_worker=2))
    rig.put(*[pushed(f"s{nth}") for nth in range(5)])
    worker = rig.worker(["scraper"])
    assert len(worker.keys) == 2
    assert fetching(rig, Client("scraper"), Client("scraper", worker="w1")) == [None, "s2"]


def test_a_worker_that_is_gone_frees_its_slots_though_its_jobs_stay_reserved(rig: Rig) -> None:
    """Faktory: jobs of a worker whose heartbeat died free their slots."""
    limit(rig, scraper=Throttle(concurrency=2, timeout_ms=600_000))
    keys = rig.put(*[pushed(f"s{nth}") for nth in range(4)])
    waiting = Client("scraper", worker="w3")
    got = fetching(rig, Client("scraper", worker="w1"), Client("scraper", worker="w2"), waiting)
    assert got == ["s0", "s1", None]
    rig.do(call(free_slots_of("w1")))
    assert waiting.jid == "s2"
    assert rig.state(keys[0]) is State.IN_FLIGHT
    ack(rig, "s0")
    assert fetch(rig) is None


# -- when a slot is free again

ENDS: dict[str, Callable[[Rig, int], object]] = {
    "acknowledged": lambda rig, key: ack(rig, "a"),
    "failed": lambda rig, key: rig.do(Reject("a", Failed(message="no"), ignore)),
    "killed": lambda rig, key: rig.do(Reject("a", Failed(message="no", kill=True), ignore)),
    "deleted": lambda rig, key: rig.do(call(delete_one(key))),
    "cancelled": lambda rig, key: rig.do(call(cancel_one(key))),
    "lapsed": lambda rig, key: (rig.clock.advance(60_001), rig.do(call(tick))),
    "put off": lambda rig, key: rig.do(
        call(lambda batch: batch.give_back_reserved(key, rig.job(key).hold_token or 0))
    ),
    "moved": lambda rig, key: rig.do(call(patch_one(key, Patch(queue="other")))),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("throttle", [Throttle(concurrency=1), Throttle(concurrency=1, timeout_ms=300_000)])
def test_whatever_ends_a_hold_frees_its_slot(rig: Rig, throttle: Throttle, end: str) -> None:
    limit(rig, scraper=throttle)
    key, _ = rig.put(pushed("a", reserve_ms=60_000), pushed("b", priority=1))
    rig.do(call(patch_one(key, Patch(priority=0))))
    waiting = Client("scraper")
    assert fetching(rig, Client("scraper"), waiting) == ["a", None]
    ENDS[end](rig, key)
    assert waiting.jid in ("a", "b")
    assert fetch(rig) is None


@pytest.mark.usefixtures("both_ways")
def test_a_slot_frees_itself_when_its_time_is_over_though_its_job_runs_on() -> None:
    """Faktory checklist 100: until the timeout; to the tick of the clock."""
    group = Group()
    limit(group.rig, scraper=Throttle(concurrency=1, timeout_ms=45_000))
    group.rig.put(pushed("a"), pushed("b"))
    first, second = Client("scraper"), Client("scraper")
    fetching(group.rig, first, second)
    group.commit._wake()  # the timer is armed after a batch of the loop
    group.loop.advance(44_999)
    assert second.jid is None
    group.loop.advance(1)
    assert second.jid == "b"
    assert group.rig.store.queues.counts()["scraper"][State.IN_FLIGHT] == 2


def test_streams_go_on_when_a_slots_time_is_over(rig: Rig) -> None:
    limit(rig, mail=TIMED)
    rig.put(*[new_job("mail") for _ in range(5)])
    worker = rig.worker()
    assert len(worker.keys) == 2
    assert rig.engine.wake_at == NOW + 45_000
    rig.advance(44_999)
    assert len(worker.keys) == 2
    rig.advance(1)
    assert len(worker.keys) == 4
    assert rig.engine.wake_at == NOW + 90_000


def test_no_timer_is_left_where_nobody_waits(rig: Rig) -> None:
    limit(rig, scraper=TIMED)
    rig.put(*[pushed(f"s{nth}") for nth in range(5)])
    assert [fetch(rig) for _ in range(3)] == ["s0", "s1", None]
    rig.advance(45_000)
    assert rig.engine.wake_at is None


def test_slots_taken_one_after_the_other_go_one_after_the_other(rig: Rig) -> None:
    limit(rig, scraper=TIMED)
    rig.put(*[pushed(f"s{nth}") for nth in range(5)])
    fetch(rig)
    rig.advance(10_000)
    fetch(rig)
    rig.advance(35_000)
    assert [fetch(rig), fetch(rig)] == ["s2", None]
    rig.advance(10_000)
    assert [fetch(rig), fetch(rig)] == ["s3", None]


# -- what it costs


def test_queues_without_limits_look_at_no_slot(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(rig, scraper=EACH)
    asked: list[object] = []
    monkeypatch.setattr(rig.store.slots, "free", lambda *args: asked.append(args))  # type: ignore[attr-defined]
    keys = rig.put(*[new_job("mail") for _ in range(3)])
    rig.worker(["mail"])
    rig.do(succeed(*keys))
    assert asked == []


# -- several processes, and what does not last


def test_slots_are_counted_over_all_processes(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    limit(one, scraper=THREE)
    one.put(*[pushed(f"s{nth}") for nth in range(6)])
    assert [fetch(one), fetch(other), fetch(one), fetch(other)] == ["s0", "s1", "s2", None]
    ack(other, "s0")
    assert [fetch(other), fetch(one)] == ["s3", None]


def test_a_slot_that_another_process_frees_is_used_at_once(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    limit(one, scraper=Throttle(per_worker=1, timeout_ms=60_000))
    one.put(pushed("a"), pushed("b"), pushed("c"))
    waiting = Client("scraper", worker="w1")
    assert fetching(one, Client("scraper", worker="w1"), waiting) == ["a", None]
    assert fetch(other, worker="w1") is None
    ack(other, "a")
    assert other.engine.made_ready, "others are told"
    one.engine.apply([])
    assert waiting.jid == "b"
    assert fetch(other, worker="w1") is None
    assert fetch(other, worker="w2") == "c"


def test_a_limit_that_another_process_sets_holds_here(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    one.put(*[pushed(f"s{nth}") for nth in range(6)])
    fetch(other)
    limit(one, scraper=Throttle(concurrency=2))
    assert [fetch(other), fetch(other)] == ["s1", None]
    waiting = Client("scraper")
    fetching(other, waiting)
    limit(one)
    other.engine.apply([])
    assert waiting.jid == "s2"


def test_slots_of_a_process_that_was_killed_stay_with_its_reservations(tmp_path: Path) -> None:
    """The rows alone say which slots are in use: a reservation outlives its process, and so does its slot."""
    first = Rig(open_sqlite(tmp_path))
    limit(first, scraper=TIMED)
    first.put(*[pushed(f"s{nth}") for nth in range(4)])
    assert [fetch(first, worker="w1"), fetch(first, worker="w2")] == ["s0", "s1"]
    first.store.close()
    second = Rig(open_sqlite(tmp_path))
    assert second.store.slots.limits == {"scraper": TIMED}
    assert fetch(second) is None
    ack(second, "s0")
    assert [fetch(second), fetch(second)] == ["s2", None]
    second.store.close()


def test_an_embedded_programs_takes_keep_to_the_bound(rig: Rig) -> None:
    limit(rig, mail=THREE)
    rig.put(*[new_job("mail") for _ in range(5)])
    hold = Hold(HoldKind.SESSION, 9, rig.store.session, None, NOW)
    for wanted, queues in ((3, ["mail"]), (0, None)):
        rows = rig.do(call(lambda batch, queues=queues: batch.take_under(hold, queues, 5, 1 << 20)))
        assert len(rows) == wanted


def test_what_does_not_last_takes_no_slot() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    limit(rig, scraper=Throttle(concurrency=1, timeout_ms=60_000))
    rig.put(pushed("a"), pushed("b"))
    store.commits[:] = [RuntimeError("unforeseen")]
    rig.engine.apply([Fetch(["scraper"], ignore)])
    assert [fetch(rig), fetch(rig)] == ["a", None]


def test_limits_that_do_not_last_hold_nothing() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    rig.put(pushed("a"))
    store.commits[:] = [StoreFull("full"), StoreFull("full"), StoreFull("full")]
    rig.do(call(set_throttles({"scraper": Throttle(concurrency=0)})))
    assert store.slots.limits == {}
    store.commits.clear()
    assert fetch(rig) == "a"


def test_new_jobs_of_a_saturated_queue_tell_nobody(rig: Rig) -> None:
    limit(rig, scraper=Throttle(concurrency=1))
    rig.put(pushed("a"), pushed("b"))
    fetch(rig)
    rig.do(enqueue(pushed("c")))
    assert rig.engine.made_ready is False
    ack(rig, "a")
    assert rig.engine.made_ready is True


def test_a_programs_limit_outlives_the_configurations_and_gives_way_to_it(rig: Rig) -> None:
    rig.do(call(limit_queue("mail", Throttle(rate=rate(1, 1_000)))))
    rig.do(call(set_throttles({"news": Throttle(concurrency=1)})))
    assert set(rig.store.slots.limits) == {"mail", "news"}
    refused = rig.do(call(limit_queue("news", None)))
    assert isinstance(refused, Conflict)
    assert "the server's configuration limits the queue 'news'" in str(refused)
    rig.do(call(limit_queue("mail", None)))
    assert set(rig.store.slots.limits) == {"news"}


# -- for somebody who looks


def test_limited_queues_are_listed_with_how_many_of_their_jobs_may_start(rig: Rig) -> None:
    limit(rig, scraper=THREE, mail=TIMED, none=Throttle(concurrency=0))
    rig.put(
        *[pushed(f"s{nth}") for nth in range(5)],
        pushed("m", "mail"),
        pushed("n", "none"),
        pushed("o", "other"),
    )
    fetch(rig)
    listed = rig.do(call(limited_queues("", 9)))
    # One of three slots is in use, and four jobs are ready.
    assert listed == [
        LimitedQueue("mail", TIMED, 1),
        LimitedQueue("none", Throttle(concurrency=0), 0),
        LimitedQueue("scraper", THREE, 2),
    ]
    assert rig.do(call(limited_queues("n", 1))) == listed[1:2]
    assert rig.do(call(limited_queues("z", 9))) == []


# -- beside a wall clock that jumps

HOUR = 3_600_000


@pytest.mark.parametrize("ms", [HOUR, -HOUR, 24 * HOUR, -24 * HOUR])
def test_reliability_30_a_jump_of_the_clock_ends_no_slots_time_and_lengthens_none(rig: Rig, ms: int) -> None:
    limit(rig, scraper=TIMED)
    rig.put(*[pushed(f"s{nth}") for nth in range(3)])
    assert (fetch(rig), fetch(rig)) == ("s0", "s1")
    rig.clock.jump(ms)
    assert fetch(rig) is None
    waiting = Client("scraper")
    fetching(rig, waiting)
    assert rig.engine.wake_at == rig.clock.now() + 45_000
    rig.clock.advance(44_999)
    rig.do(call(tick))
    assert waiting.jid is None
    rig.clock.advance(1)
    rig.do(call(tick))
    assert waiting.jid == "s2"


@pytest.mark.parametrize("ms", [HOUR, -HOUR])
def test_reliability_30_a_jump_of_the_clock_starts_nothing_that_a_rate_holds_and_holds_nothing_longer(
    rig: Rig, ms: int
) -> None:
    limit(rig, scraper=Throttle(rate=rate(1, 60_000)))
    rig.put(pushed("s0"), pushed("s1"))
    assert fetch(rig) == "s0"
    rig.clock.jump(ms)
    assert fetch(rig) is None
    rig.clock.advance(59_999)
    assert fetch(rig) is None
    rig.clock.advance(1)
    assert fetch(rig) == "s1"


@pytest.mark.parametrize("ms", [HOUR, -HOUR])
def test_what_runs_when_a_queue_gets_its_limit_after_a_jump_has_a_slot_for_as_long_as_it_says(
    rig: Rig, ms: int
) -> None:
    rig.clock.jump(ms)
    rig.put(*[pushed(f"s{nth}") for nth in range(3)])
    assert (fetch(rig), fetch(rig)) == ("s0", "s1")
    limit(rig, scraper=TIMED)
    rig.clock.advance(44_999)
    assert fetch(rig) is None
    rig.clock.advance(1)
    assert fetch(rig) == "s2"

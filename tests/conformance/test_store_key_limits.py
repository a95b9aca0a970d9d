"""Keys that bound jobs, as every store keeps them: how each job stands, what is counted of it, and that it lasts."""

from __future__ import annotations

from anew.jobs import State
from anew.jobs.codec import JobHooks, LimitKey, PushedJob
from anew.jobs.key_limits import KeyLimit, KeyStanding
from anew.jobs.limits import FULL, Bucket, Throttle, rate
from anew.store.key_limit_rows import LimitedJob, LimitedKey
from anew.store.protocol import Store
from anew.store.selection import Filter

from .conftest import Opened
from .helpers import ALL, NOW, batch, hold, new_job, one, put, take, taken_keys

FREE, BLOCKED, RUNNING, UNBLOCKED = KeyStanding
TWO = KeyLimit("a", Throttle(concurrency=2, rate=rate(10, 60_000, 3)), Bucket(7, NOW), NOW + 5)


def limited(queue: str = "mail", **members: object) -> PushedJob:
    job = new_job(queue)
    return PushedJob(
        job.type, job.queue, job.payload, hooks=JobHooks(limit=LimitKey("a", 1)), **members  # type: ignore[arg-type]
    )  # fmt: skip


def put_limited(store: Store, n: int, queue: str = "mail", first_key: int = 1) -> list[int]:
    """Store so many jobs of one key."""
    keys = put(store, *[limited(queue) for _ in range(n)], first_key=first_key)
    with batch(store):
        store.key_limits.add([LimitedJob(key, "a", UNBLOCKED, queue, 32_768) for key in keys])
    return keys


def check(store: Store) -> None:
    reader = store.reader()
    found = reader.recount()
    reader.close()
    assert (found.counters, found.blocked, found.heads) == ({}, {}, [])


def test_limits_are_written_read_and_removed(lasting: Opened) -> None:
    store = lasting.open()
    other = KeyLimit("b", Throttle(concurrency=1), FULL)
    with batch(store):
        store.key_limits.write_limits([TWO, other])
    store = lasting.reopen(store)
    with batch(store):
        rows = store.key_limits
        assert rows.limits(["a", "b", "c"]) == {"a": TWO, "b": other}
        assert (rows.looks(NOW + 4, 9), rows.looks(NOW + 5, 9), rows.next_look()) == ([], ["a"], NOW + 5)
        rows.write_limits([KeyLimit("a", Throttle(concurrency=3), FULL)])
        assert rows.limits(["a"])["a"].throttle == Throttle(concurrency=3)
        rows.drop_limits(["a", "nobody's"])
        assert (list(rows.limits(["a", "b"])), rows.next_look()) == (["b"], None)


def test_a_blocked_job_is_ready_and_in_no_line(store: Store) -> None:
    first, second, third = put_limited(store, 3)
    with batch(store):
        store.key_limits.block([first, third], taken=False)
    assert one(store, first).state is State.READY
    assert store.queues.counts()["mail"][State.READY] == 3
    assert store.find(Filter(states=frozenset({State.READY})), ALL) == [first, second, third]
    assert store.queues.takeable("mail") == 1
    check(store)
    assert taken_keys(take(store)) == [second]
    with batch(store):
        assert store.key_limits.unblock([first, second]) == 1
        assert store.queues.fresh_ready() == ["mail"]
    assert taken_keys(take(store)) == [first]
    check(store)


def test_a_job_that_was_taken_is_blocked_and_held_by_nobody(store: Store) -> None:
    first, second = put_limited(store, 2)
    with batch(store) as open_store:
        open_store.take(["mail"], 2, 1 << 20, hold())
        open_store.key_limits.block([second], taken=True)
        open_store.key_limits.run([first])
        assert open_store.key_limits.running(["a", "b"]) == {"a": 1}
    job = one(store, second)
    assert (job.state, job.hold_kind, job.hold_token, job.dequeued_at) == (State.READY, None, None, None)
    assert store.held_under([(second, 5)]) == set()
    check(store)


def test_what_runs_is_counted_from_jobs_in_flight(store: Store) -> None:
    """A standing that was left behind counts for nothing."""
    first, second = put_limited(store, 2)
    take(store)
    with batch(store):
        store.key_limits.run([first, second])
        store.release([first], NOW, interrupted=True)
        assert store.key_limits.running(["a"]) == {"a": 1}


def test_places_are_given_by_queue_in_order(store: Store) -> None:
    mail = put_limited(store, 3)
    (news,) = put_limited(store, 1, "news", first_key=9)
    with batch(store):
        rows = store.key_limits
        rows.block([*mail[1:], news], taken=False)
        assert rows.blocked_queues("a") == ["mail", "news"]
        assert rows.blocked_queues("b") == []
        assert rows.first("a", BLOCKED, "mail", 1) == [(32_768, mail[1])]
        assert rows.first("a", UNBLOCKED, "mail", 9) == [(32_768, mail[0])]
        assert [(job.key, job.standing) for job in rows.among([*mail, news, 77])] == [
            (mail[0], UNBLOCKED), (mail[1], BLOCKED), (mail[2], BLOCKED), (news, BLOCKED)
        ]  # fmt: skip


def test_jobs_leave_and_are_forgotten(store: Store) -> None:
    first, second = put_limited(store, 2)
    with batch(store):
        rows = store.key_limits
        assert rows.leave([first, 77]) == ["a"]
        assert [job.standing for job in rows.among([first])] == [FREE]
        assert rows.remove([first]) == ["a"]
        assert rows.any_of("a")
        assert rows.remove([second]) == ["a"]
        assert not rows.any_of("a")


def test_nothing_of_a_transaction_that_is_undone_lasts(store: Store) -> None:
    keys = put_limited(store, 2)
    store.begin(synced=False)
    store.key_limits.block(keys, taken=False)
    store.rollback()
    assert store.queues.takeable("mail") == 2
    check(store)


def test_all_goes_with_all_jobs(store: Store) -> None:
    keys = put_limited(store, 2)
    with batch(store):
        store.key_limits.write_limits([TWO])
        store.key_limits.block(keys, taken=False)
        assert store.delete_all() == 2
        assert (store.key_limits.limits(["a"]), store.key_limits.any_of("a")) == ({}, False)
    assert store.queues.counts() == {}


def test_a_recount_finds_keys_that_nothing_would_have_looked_at(store: Store) -> None:
    (key,) = put_limited(store, 1)
    with batch(store):
        store.key_limits.write_limits(
            [KeyLimit("a", Throttle(concurrency=1), FULL), KeyLimit("idle", TWO.throttle, FULL)]
        )
        store.key_limits.block([key], taken=False)
    reader = store.reader()
    assert sorted(reader.recount().forgotten) == ["a", "idle"]
    with batch(store):
        store.key_limits.write_limits([TWO, KeyLimit("idle", TWO.throttle, FULL, NOW)])
    assert reader.recount().forgotten == []
    reader.close()


def test_keys_are_shown_by_name_and_first_those_that_hold_jobs_back(store: Store) -> None:
    first, second, third, fourth = put_limited(store, 4)
    with batch(store):
        store.key_limits.write_limits([TWO, *(KeyLimit(key, Throttle(concurrency=1), FULL) for key in "bcd")])
        store.key_limits.block([second, third, fourth], taken=False)
    take(store, limit=1)
    with batch(store):
        store.key_limits.run([first])
    reader = store.reader()
    try:
        # Of `a` one runs and three are blocked.
        assert reader.limited_keys("", 9, 9, idle=False) == ([LimitedKey(TWO, 1, 3)], None)
        assert reader.limited_keys("a", 9, 9, idle=False) == ([], None)
        shown, stopped_at = reader.limited_keys("", 9, 2, idle=True)
        assert ([one.limit.name for one in shown], stopped_at) == (["a", "b"], "b")
        shown, stopped_at = reader.limited_keys("b", 9, 2, idle=True)
        assert ([one.limit.name for one in shown], stopped_at) == (["c", "d"], None)
        # So many are looked at, whatever is found among them.
        assert reader.limited_keys("a", 2, 9, idle=False) == ([], "c")
    finally:
        reader.close()

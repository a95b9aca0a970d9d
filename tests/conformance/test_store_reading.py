"""Every engine of the store: what is read back, and what a restart leaves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from anew.jobs import ENDED, Change, State
from anew.store.page_reads import QueueRow
from anew.store.protocol import Device, Store
from anew.store.selection import Filter, Page
from anew.store.sql.migrations import migrations

from .conftest import Opened
from .helpers import (
    ALL,
    BIG,
    NOW,
    batch,
    change,
    check_counts,
    hold,
    insert,
    new_job,
    one,
    put,
    ready_total,
    rewrite,
    state_of,
    take,
)

# -- reading


def test_load_gives_known_keys_once_in_order(store: Store) -> None:
    put(store, *(new_job() for _ in range(250)))
    keys = [250, 3, 3, 999, 1, -1, 0]
    assert [job.key for job in store.load(keys)] == [1, 3, 250]
    assert store.load([]) == []
    assert store.load([1])[0].payload is None
    assert len(store.load(range(2_000))) == 250


@pytest.fixture
def sundry(store: Store) -> Store:
    """1 scheduled, 2 retrying, 3 ready, 4 in flight, 5 completed, 6 dead, 7 cancelled; odd keys in queue a."""
    put(
        store,
        new_job("a", ready_at=NOW + 5_000, priority=1),
        *(new_job("ab"[n % 2], type="tsu"[n % 3], priority=n) for n in range(1, 7)),
    )
    take(store, limit=1)
    with batch(store):
        store.apply([change(2, State.RETRYING, ready_at=NOW + 1_000, record={"error_type": "IOError"})])
        store.release([3], NOW, interrupted=False)
    take(store)
    with batch(store):
        store.complete([(5, NOW + 10)], NOW)
        store.apply([change(6, State.DEAD, purge_at=NOW + 20, attempts=4)])
        store.release([3], NOW, interrupted=False)
        store.rewrite([rewrite(one(store, 7), state=State.CANCELLED, purge_at=None)])
    check_counts(store)
    return store


STATES = frozenset(State)
FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 2, 3, 4, 5, 6, 7]),
    ({"states": frozenset({State.READY, State.DEAD})}, [3, 6]),
    ({"states": frozenset()}, []),
    ({"states": STATES}, [1, 2, 3, 4, 5, 6, 7]),
    ({"queues": frozenset({"a"})}, [1, 3, 5, 7]),
    ({"queues": frozenset({"a", "b", "c"})}, [1, 2, 3, 4, 5, 6, 7]),
    ({"queues": frozenset({"c"})}, []),
    ({"queues": frozenset()}, []),
    ({"types": frozenset({"s", "send"})}, [1, 2, 5]),
    ({"keys": frozenset({1, 5, 99, -1})}, [1, 5]),
    ({"keys": frozenset()}, []),
    ({"priority": (2, 4)}, [3, 4, 5]),
    ({"priority": (1, 1)}, [1, 2]),
    ({"priority": (4, 2)}, []),
    ({"ready_at": (NOW + 1, NOW + 5_000)}, [1, 2]),
    ({"ready_at": (0, 2**64 - 1)}, [1, 2, 3, 4, 5, 6, 7]),
    ({"attempts": (1, 4)}, [2, 6]),
    ({"attempts": (2, 2**32)}, [6]),
    ({"error_types": frozenset({"IOError", "None", ""})}, [2]),
    ({"error_types": frozenset({"ioerror"})}, []),
    ({"error_types": frozenset()}, []),
    ({"visible_at": NOW + 9}, [1, 2, 3, 4, 5, 6, 7]),
    ({"visible_at": NOW + 10}, [1, 2, 3, 4, 6, 7]),
    ({"visible_at": NOW + 20}, [1, 2, 3, 4, 7]),
    ({"visible_at": NOW + 20, "states": ENDED}, [7]),
    ({"visible_at": NOW + 20, "states": frozenset({State.READY})}, [3]),
    ({"states": STATES - ENDED, "queues": frozenset({"b"}), "attempts": (0, 0)}, [4]),
]


@pytest.mark.parametrize(("members", "keys"), FILTERS)
def test_a_filter_means_its_members_together(sundry: Store, members: dict[str, Any], keys: list[int]) -> None:
    where = Filter(**members)
    reader = sundry.reader()
    try:
        for source in (sundry, reader):
            assert source.find(where, ALL) == keys
            assert source.count(where) == len(keys)
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("page", "keys"),
    [
        ({"limit": 3}, [1, 2, 3]),
        ({"limit": 3, "after": 3}, [4, 5, 6]),
        ({"limit": 3, "after": 3, "inclusive": True}, [3, 4, 5]),
        ({"limit": 3, "order": "desc"}, [7, 6, 5]),
        ({"limit": 3, "order": "desc", "after": 3}, [2, 1]),
        ({"limit": 3, "order": "desc", "after": 3, "inclusive": True}, [3, 2, 1]),
        ({"after": 7}, []),
        ({"after": 0}, [1, 2, 3, 4, 5, 6, 7]),
        ({"after": -1}, [1, 2, 3, 4, 5, 6, 7]),
        ({"after": 2**63 - 1}, []),
        ({"after": 2**63 - 1, "order": "desc", "limit": 1}, [7]),
        ({"limit": 0}, []),
    ],
)
def test_a_page_starts_behind_its_cursor(sundry: Store, page: dict[str, Any], keys: list[int]) -> None:
    assert sundry.find(Filter(), Page(**page)) == keys


def test_the_type_of_an_error_is_that_of_the_latest_record(store: Store) -> None:
    put(store, new_job(), new_job())
    for error_type in ("IOError", "ValueError"):
        take(store)
        with batch(store):
            attempts = 1 if error_type == "IOError" else 2
            record = {"error_type": error_type}
            store.apply([change(1, State.RETRYING, ready_at=NOW, attempts=attempts, record=record)])
            store.promote(NOW, 9)
    assert store.find(Filter(error_types=frozenset({"ValueError"})), ALL) == [1]
    assert store.find(Filter(error_types=frozenset({"IOError"})), ALL) == []


def test_pages_and_filters_work_together(sundry: Store) -> None:
    where = Filter(queues=frozenset({"a"}))
    assert sundry.find(where, Page(after=1, limit=2)) == [3, 5]
    assert sundry.find(where, Page(after=7, limit=2, order="desc")) == [5, 3]


def test_a_reader_sees_what_was_committed(store: Store) -> None:
    reader = store.reader()
    try:
        assert reader.count(Filter()) == 0
        put(store, new_job(), new_job())
        assert reader.count(Filter()) == 2
        assert reader.find(Filter(), Page()) == [1, 2]
    finally:
        reader.close()


def test_fresh_ready_lists_what_the_open_transaction_has_touched(store: Store) -> None:
    put(store, new_job("old"))
    store.begin(synced=False)
    assert store.queues.fresh_ready() == []
    insert(store, 2, [new_job("a"), new_job("b", ready_at=NOW + 5), new_job("c", ready_at=NOW + 9)], NOW)
    assert store.queues.fresh_ready() == ["a"]
    store.promote(NOW + 5, 10)
    assert sorted(store.queues.fresh_ready()) == ["a", "b"]
    store.take(["a"], 10, 1, hold())
    assert store.queues.fresh_ready() == ["b"]
    store.commit()
    store.begin(synced=False)
    assert store.queues.fresh_ready() == []
    store.release([2], NOW, interrupted=False)
    assert store.queues.fresh_ready() == ["a"]
    store.rollback()
    store.begin(synced=False)
    assert store.queues.fresh_ready() == []
    store.commit()


def test_ready_is_told_per_queue_and_in_all(store: Store) -> None:
    assert (store.queues.takeable("a"), ready_total(store)) == (0, 0)
    put(store, new_job("a"), new_job("a"), new_job("b"), new_job("b", ready_at=NOW + 1))
    assert (
        store.queues.takeable("a"),
        store.queues.takeable("b"),
        store.queues.takeable("c"),
        ready_total(store),
    ) == (2, 1, 0, 3)
    take(store, ["a"], limit=1)
    assert (store.queues.takeable("a"), ready_total(store)) == (1, 2)


def test_counts_leave_out_queues_without_jobs(store: Store) -> None:
    put(store, new_job("a"), new_job("b"))
    take(store, ["a"])
    with batch(store):
        store.finish([1])
    assert set(store.queues.counts()) == {"b"}
    assert set(store.queues.counts()["b"]) == STATES
    put(store, new_job("a"), first_key=3)
    check_counts(store)


def test_counts_are_wide(store: Store) -> None:
    put(store, *(new_job(f"queue {n}") for n in range(500)))
    check_counts(store)
    with batch(store):
        store.delete(range(1, 500))
    assert set(store.queues.counts()) == {"queue 499"}
    check_counts(store)


# -- what the store knows about itself


def test_a_new_store_has_a_tag_and_a_secret_of_its_own(store: Store) -> None:
    identity = store.identity
    assert len(identity.tag) == 9
    assert set(identity.tag) <= set("0123456789abcdefghijklmnopqrstuvwxyz")
    assert len(identity.secret) == 32
    assert repr(identity.secret) not in repr(identity)
    assert (identity.last_key, identity.last_failure) == (0, 0)


def test_everything_outlives_a_restart(lasting: Opened) -> None:
    store = lasting.open()
    identity = store.identity
    put(store, new_job("a", b"x" * BIG, retry_limit=3), new_job("b"), new_job("a", ready_at=NOW + 9))
    take(store, limit=2)
    with batch(store, synced=True):
        store.apply([change(1, State.RETRYING)])
        store.identity.last_key, store.identity.last_failure = 2**62, 77
        store.remember()
    before = [one(store, key) for key in (1, 2, 3)]
    errors, counts = store.records.errors(1, Page()), store.queues.counts()
    store = lasting.reopen(store)
    assert [one(store, key) for key in (1, 2, 3)] == before
    assert (store.records.errors(1, Page()), store.queues.counts()) == (errors, counts)
    assert (store.identity.tag, store.identity.secret) == (identity.tag, identity.secret)
    assert (store.identity.last_key, store.identity.last_failure) == (2**62, 77)
    assert store.next_due() == NOW + 9
    check_counts(store)


def test_the_counters_of_an_emptied_queue_stay_gone_after_a_restart(lasting: Opened) -> None:
    store = lasting.open()
    put(store, new_job("a"), new_job("a"), new_job("b"))
    take(store, ["a"])
    with batch(store):
        store.finish([1])
        store.delete([2])
    store = lasting.reopen(store)
    assert set(store.queues.counts()) == {"b"}
    check_counts(store)


def test_what_was_not_committed_is_gone_after_a_restart(lasting: Opened) -> None:
    store = lasting.open()
    put(store, new_job())
    store.begin(synced=True)
    insert(store, 2, [new_job("b")], NOW)
    store.take(None, 5, 1, hold())
    store = lasting.reopen(store)
    assert store.find(Filter(), ALL) == [1]
    assert state_of(store, 1) is State.READY
    check_counts(store)


def test_a_reader_beside_an_open_transaction_sees_the_state_before_it(lasting: Opened) -> None:
    store = lasting.open()
    put(store, new_job())
    reader = store.reader()
    try:
        store.begin(synced=False)
        insert(store, 2, [new_job()], NOW)
        assert reader.find(Filter(), Page()) == [1]
        assert store.find(Filter(), Page()) == [1, 2]
        store.commit()
        assert reader.find(Filter(), Page()) == [1, 2]
    finally:
        reader.close()


def test_payloads_come_in_the_order_asked_for(store: Store) -> None:
    payloads = [b'{"n":1}', b'"' + b"x" * BIG + b'"', b"3"]
    put(store, *(new_job(payload=payload) for payload in payloads))
    reader = store.reader()
    try:
        assert reader.payloads([3, 99, 1, 2], 1 << 20) == [payloads[2], b"", payloads[0], payloads[1]]
        assert reader.payloads([], 1 << 20) == []
    finally:
        if reader is not store:
            reader.close()


def test_payloads_are_read_until_so_many_bytes_have_come(store: Store) -> None:
    put(store, *(new_job(payload=b'"%08d"' % n) for n in range(300)))  # 10 bytes each
    reader = store.reader()
    try:
        keys = range(1, 301)
        assert len(reader.payloads(keys, 1)) == 1
        assert len(reader.payloads(keys, 20)) == 2
        assert len(reader.payloads(keys, 21)) == 3
        assert len(reader.payloads(keys, 3_000)) == 300
        put(store, new_job(payload=b'"' + b"x" * BIG + b'"'), first_key=301)
        assert len(reader.payloads([1, 301, 2], 12)) == 2
    finally:
        if reader is not store:
            reader.close()


def own_disk(store: Store) -> Device:
    if store.device is None:
        pytest.skip("its disk is the database server's")
    return store.device


def test_a_store_that_lasts_knows_its_free_space(lasting: Opened) -> None:
    device = own_disk(lasting.open())
    assert device.free_bytes() > 0


def test_the_reserve_can_be_given_up_and_taken_again(lasting: Opened) -> None:
    store = lasting.open()
    device = own_disk(store)
    for _ in range(2):
        device.free_reserve()
        device.free_reserve()
        put(store, new_job())
        assert store.find(Filter(), ALL) == [1]
        device.keep_reserve()
        device.keep_reserve()
        with batch(store):
            assert store.delete([1]) == [1]
    assert store.find(Filter(), ALL) == []


# -- what waits, and what fails


def test_jobs_that_wait_are_counted_by_when_they_come_due(store: Store) -> None:
    """A step is 10 s: two jobs come due in the first, one in the fourth; what is ready or was due before waits for nothing more."""
    put(store, new_job(), *(new_job(ready_at=NOW + ms) for ms in (1_000, 9_999, 30_000)))
    reader = store.reader()
    try:
        assert reader.due_until(100) == (3, NOW + 30_000)
        assert reader.due_counts(100, NOW, 10_000) == [(0, State.SCHEDULED, 2), (3, State.SCHEDULED, 1)]
        assert reader.due_counts(100, NOW + 15_000, 10_000) == [
            (0, State.SCHEDULED, 2),
            (1, State.SCHEDULED, 1),
        ]
        assert reader.due_until(2) == (2, NOW + 9_999)
    finally:
        reader.close()


def test_failed_jobs_that_wait_are_told_from_the_others(store: Store) -> None:
    put(store, new_job(), new_job(ready_at=NOW + 60_000))
    take(store)
    with batch(store):
        store.apply([change(1, State.RETRYING, ready_at=NOW + 61_000)])
    reader = store.reader()
    try:
        assert reader.due_until(100) == (2, NOW + 61_000)
        assert reader.due_counts(100, NOW, 60_000) == [(1, State.SCHEDULED, 1), (1, State.RETRYING, 1)]
    finally:
        reader.close()


def test_nothing_waits_in_an_empty_store(store: Store) -> None:
    reader = store.reader()
    try:
        assert reader.due_until(100) == (0, None)
        assert reader.due_counts(100, NOW, 1_000) == []
        assert reader.failing(100, 10) == []
    finally:
        reader.close()


def test_queues_are_counted_and_come_by_name_or_with_the_most_ready_jobs_first(store: Store) -> None:
    """Queue b has 3 ready jobs, a one ready and one that waits, d none and is paused; c has nothing any more."""
    put(store, *(new_job(name) for name in "abbbc"), new_job("a", ready_at=NOW + 1_000))
    with batch(store):
        store.delete([5])
        store.queues.keep_listed(["d"])
        store.queues.pause(["d"], True)
    reader = store.reader()

    def found(rows: list[QueueRow]) -> list[tuple[str, bool, int]]:
        return [(row.name, row.paused, row.jobs[State.READY]) for row in rows]

    try:
        assert found(reader.busiest(2)) == [("b", False, 3), ("a", False, 1)]
        assert found(reader.queue_rows("", 9)) == [("a", False, 1), ("b", False, 3), ("d", True, 0)]
        assert found(reader.queue_rows("b", 1)) == [("b", False, 3)]
        assert reader.queue_count() == 3
        assert reader.totals() == dict.fromkeys(State, 0) | {State.READY: 4, State.SCHEDULED: 1}
    finally:
        reader.close()


def failure(key: int, state: State, error_type: str | None, failed_at: int) -> Change:
    """A job's first failure, of some class."""
    record = {"error_type": error_type, "failed_at": failed_at, "message": "m"}
    return change(key, state, record=record)


def test_failures_are_grouped_by_type_and_error(store: Store) -> None:
    put(store, *(new_job(type=kind) for kind in ("pay", "pay", "pay", "mail", "mail", "calm")))
    take(store)
    with batch(store):
        store.apply(
            [
                failure(1, State.DEAD, "Refused", NOW + 1),
                failure(2, State.RETRYING, "Refused", NOW + 3),
                failure(3, State.RETRYING, "Timeout", NOW + 2),
                failure(4, State.DEAD, None, NOW + 2),
                failure(5, State.DEAD, None, NOW + 1),
            ]
        )
    reader = store.reader()
    try:
        assert reader.failing(100, 10) == [
            ("mail", None, 2, 0, NOW + 2, "m"),
            ("pay", "Refused", 1, 1, NOW + 3, "m"),
            ("pay", "Timeout", 0, 1, NOW + 2, "m"),
        ]
        assert [group.type for group in reader.failing(100, 1)] == ["mail"]
    finally:
        reader.close()


def test_a_store_says_what_it_is(store: Store) -> None:
    reader = store.reader()
    try:
        facts = reader.facts()
    finally:
        reader.close()
    assert re.fullmatch(r"(SQLite|PostgreSQL) [0-9.]+( .*)?", facts.engine)
    assert facts.size > 0
    package = "anew.store.sqlite" if facts.engine.startswith("SQLite") else "anew.store.postgres"
    assert facts.schema == migrations(package)[-1][0]

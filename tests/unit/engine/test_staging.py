"""Long new jobs over several batches: what is visible when, and what is left when something fails. The loop is moved by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anew.engine import Enqueue, recover
from anew.engine import staging as module
from anew.errors import InDoubt, Overloaded, StoreFull
from anew.jobs import NewJob
from anew.store.sqlite import open_sqlite
from tests.conformance.helpers import ready_total

from .grouped import Group
from .rig import NOW, FaultyStore, Once, Rig, call, new_job, plain

pytestmark = pytest.mark.usefixtures("both_ways")

LONG = 600 << 10
"""Three parts of 256 KiB."""


def long_job(letter: str = "x", size: int = LONG) -> NewJob:
    return new_job(payload=b'"' + letter.encode() * (size - 2) + b'"')


def submit(group: Group, *jobs: NewJob) -> Once:
    done = Once()
    group.commit.submit_long(Enqueue(list(jobs), done))
    return done


def rows(group: Group, table: str) -> int:
    """How many rows of a table there are."""
    connection: Any = group.rig.store._link.connection  # type: ignore[attr-defined]
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_a_long_job_appears_whole_after_its_last_part() -> None:
    group = Group()
    worker = group.worker()
    group.loop.settle()
    answer = submit(group, long_job())
    for parts in (1, 2, 3):
        group.batch()
        assert rows(group, "payload") == parts
        assert answer.calls == []
        assert worker.rows == []
    group.batch()
    key, now = answer.result.keys[0], answer.result.now
    assert now == NOW
    assert worker.keys == [key]
    assert worker.rows[0][-1] == bytes(long_job().payload)
    assert rows(group, "staged") == 0


def test_others_are_answered_between_the_parts() -> None:
    group = Group()
    long = submit(group, long_job())
    group.batch()
    short = group.submit(plain(1))
    group.batch()
    assert short.calls
    assert long.calls == []


def test_one_is_under_way_at_a_time_and_all_come_in_order() -> None:
    group = Group()
    answers = [submit(group, long_job(letter)) for letter in "abc"]
    group.batch()
    assert rows(group, "staged") == 1
    group.loop.settle()
    keys = [answer.result.keys[0] for answer in answers]
    assert keys == sorted(keys)
    jobs = group.rig.store.load(keys, payload=True)
    assert [bytes(job.payload or b"")[1:2] for job in jobs] == [b"a", b"b", b"c"]


def test_what_is_short_goes_straight_in() -> None:
    group = Group()
    answer = submit(group, long_job(size=256 << 10))
    group.batch()
    assert answer.calls
    assert group.batches == [1]


def test_many_middling_payloads_together_are_long() -> None:
    """A hundred payloads of 10,000 bytes: a part of 256 KiB takes the first 27 of them, and so on, four in all."""
    group = Group()
    answer = submit(group, *(long_job(size=10_000) for _ in range(100)))
    group.loop.settle()
    assert len(group.batches) == 5
    assert ready_total(group.rig.store) == 100
    assert answer.result.now == NOW


def test_too_many_waiting_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    group = Group()
    accepted = [submit(group, long_job()) for _ in range(3)]  # one under way, two waiting
    assert isinstance(submit(group, long_job()).result, Overloaded)
    group.loop.settle()
    assert all(answer.result.now == NOW for answer in accepted)


def test_too_many_bytes_waiting_are_refused_but_one_is_always_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", LONG)
    group = Group()
    submit(group, long_job())
    submit(group, long_job(size=2 * LONG))
    assert isinstance(submit(group, long_job()).result, Overloaded)
    group.loop.settle()
    assert ready_total(group.rig.store) == 2


@pytest.mark.parametrize(("verb", "let_through"), [("stage", 0), ("stage", 1), ("stage", 2), ("insert", 0)])
def test_a_full_device_on_the_way_leaves_nothing_behind(verb: str, let_through: int) -> None:
    store = FaultyStore(open_sqlite())
    group = Group(store)
    store.verbs[verb] = [*[None] * let_through, StoreFull("no space")]
    answer = submit(group, long_job())
    group.loop.settle()
    assert isinstance(answer.result, StoreFull)
    group.loop.advance(1_000)
    assert (rows(group, "payload"), rows(group, "staged"), rows(group, "job")) == (0, 0, 0)
    group.rig.engine.parts.full = False
    assert submit_and_settle(group).result.now >= NOW


@pytest.mark.parametrize("in_doubt", [[0], [1, 2], [3], [0, 1, 2, 3]])
def test_parts_in_doubt_are_gone_on_with_and_the_last_transaction_says_whether_all_is_safe(
    in_doubt: list[int],
) -> None:
    store = FaultyStore(open_sqlite())
    group = Group(store)
    store.verbs["sync"] = [InDoubt("no standby has it") if at in in_doubt else None for at in range(4)]
    answer = submit(group, long_job())
    group.loop.settle()
    if 3 in in_doubt:
        assert isinstance(answer.result, InDoubt)
    else:
        assert answer.result.now == NOW
    group.loop.advance(1_000)
    assert (rows(group, "job"), rows(group, "staged")) == (1, 0)
    assert rows(group, "payload") == 3, "it is whole"


def submit_and_settle(group: Group) -> Once:
    answer = submit(group, long_job())
    group.loop.settle()
    return answer


def test_what_cannot_be_removed_at_once_is_removed_by_a_later_tick() -> None:
    store = FaultyStore(open_sqlite())
    group = Group(store)
    store.verbs["stage"] = [None, StoreFull("no space")]
    store.verbs["unstage"] = [StoreFull("still none")]
    answer = submit(group, long_job())
    group.loop.settle()
    assert isinstance(answer.result, StoreFull)
    assert rows(group, "payload") == 1
    group.loop.advance(1_000)
    assert (rows(group, "payload"), rows(group, "staged")) == (0, 0)


def test_a_part_that_was_undone_and_written_again_keeps_the_promise_of_its_keys() -> None:
    """No key may be given out twice, not even after a crash that loses all memory and turns the clock back."""
    store = FaultyStore(open_sqlite())
    group = Group(store)
    store.verbs["commit"] = [RuntimeError("odd")]
    answer = submit(group, long_job())
    group.submit(call(lambda batch: 1))
    group.loop.settle()
    assert answer.result.keys[0] <= store.identity.last_key


def test_removing_twice_forgets_nothing_that_is_left_behind_between() -> None:
    group = Group()
    staging = group.commit._staging
    staging._left_behind = [(1, 1)]
    staging.tidy()
    staging.tidy()
    between = Once()
    first, second = group.commit._pending
    removed = first.done

    def left_behind_meanwhile(result: Any) -> None:
        removed(result)
        staging._left_behind.append((2, 2))
        between(result)

    first.done = left_behind_meanwhile
    group.batch()
    assert between.calls
    assert second is not first
    assert staging._left_behind == [(2, 2)]


def test_a_full_store_takes_no_long_jobs() -> None:
    group = Group()
    group.rig.engine.parts.full = True
    assert isinstance(submit_and_settle(group).result, StoreFull)
    assert rows(group, "payload") == 0


def test_closing_finishes_what_is_under_way() -> None:
    group = Group()
    answer = submit(group, long_job())
    group.batch()
    group.commit.close()
    assert answer.result.now == NOW
    assert ready_total(group.rig.store) == 1


def test_closing_does_not_wait_long_for_what_nobody_hears_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow disk many megabytes take minutes; no signal is heard meanwhile. The next start removes what is half written."""
    group = Group()
    answer = submit(group, long_job(size=10 * LONG))
    others = [submit(group, long_job()) for _ in range(20)]
    group.batch()
    real = group.rig.engine.apply

    def slow(ops: Any) -> None:
        real(ops)
        group.rig.clock.advance(700)

    monkeypatch.setattr(group.rig.engine, "apply", slow)
    group.commit.close()
    group.loop.settle()  # what is left of the loop's turns changes nothing
    assert rows(group, "payload") == 1 + 3  # until 2 s had passed
    assert [done.calls for done in (answer, *others)] == [[]] * 21
    assert ready_total(group.rig.store) == 0


def test_the_next_start_removes_what_a_killed_server_left_half_written(tmp_path: Path) -> None:
    group = Group(open_sqlite(tmp_path))
    submit(group, long_job())
    group.batch()
    group.rig.store.close()
    again = Rig(open_sqlite(tmp_path))
    connection: Any = again.store._link.connection  # type: ignore[attr-defined]
    assert connection.execute("SELECT count(*) FROM payload").fetchone() == (1,)
    assert recover(again.engine) == 0
    assert connection.execute("SELECT count(*) FROM payload").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM staged").fetchone() == (0,)
    again.store.close()

"""Starting over: what was in flight comes back, and no number is ever given twice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from anew.clock import ManualClock
from anew.engine import Batch, Limits, recover
from anew.errors import InternalError, StoreFailed, StoreFull
from anew.jobs import State
from anew.jobs.ids import COUNTER_BITS
from anew.store.postgres import presence
from anew.store.sqlite import open_sqlite
from tests.conformance.helpers import ready_total

from .rig import NOW, FaultyStore, Rig, call, fail, new_job, plain, succeed, tick


def restarted(rig: Rig, directory: Path, *, clock_ms: int = 0) -> Rig:
    """Close the store and open it in a new engine, the clock moved by so much."""
    rig.store.close()
    return Rig(open_sqlite(directory), clock=ManualClock(rig.clock.now() + clock_ms))


@pytest.mark.parametrize(("jobs", "batch"), [(0, 10), (1, 10), (9, 10), (10, 10), (11, 10), (35, 10)])
def test_what_was_in_flight_is_ready_again(tmp_path: Path, jobs: int, batch: int) -> None:
    rig = Rig(open_sqlite(tmp_path))
    rig.do(plain(jobs))
    rig.worker()
    again = restarted(rig, tmp_path)
    assert recover(again.engine, limit=batch) == jobs
    assert ready_total(again.store) == jobs
    assert len(again.worker().keys) == jobs
    assert again.broken_rules() == []
    again.store.close()


def test_jobs_without_a_session_are_looked_for_once_however_many_others_are_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That goes over all jobs in flight: once a batch it took as long as all the rest."""
    rig = Rig(open_sqlite(tmp_path))
    rig.do(plain(35))
    rig.worker()
    again = restarted(rig, tmp_path)
    looked: list[int | None] = []
    held_by = again.store.processes.held_by
    monkeypatch.setattr(
        again.store.processes,
        "held_by",
        lambda session, limit: looked.append(session) or held_by(session, limit),
    )
    assert recover(again.engine, limit=10) == 35
    assert looked.count(None) == 1
    assert len(looked) == 5
    again.store.close()


@pytest.mark.both_engines
@pytest.mark.parametrize("batches", range(9))
def test_a_start_that_dies_after_any_batch_is_finished_by_the_next(
    tmp_path: Path, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of a session that has died, and jobs whose session has no row, more of each than one batch takes."""
    monkeypatch.setattr(presence, "GRACE_S", 0)
    for session_is_known in (True, False):
        rig = Rig(open_sqlite(tmp_path))
        rig.do(plain(23))
        rig.worker()
        if not session_is_known:  # its jobs in flight stay behind
            rig.do(call(lambda batch: batch.store.processes.drop(batch.store.session)))
        rig.store.close()
    store = FaultyStore(open_sqlite(tmp_path))
    first = Rig(store)
    store.verbs["commit"] = [*([None] * batches), StoreFailed("gone")]
    with contextlib.suppress(StoreFailed):
        recover(first.engine, limit=10)
    first.store.close()
    again = Rig(open_sqlite(tmp_path))
    recover(again.engine, limit=10)
    assert ready_total(again.store) == 46
    assert len(set(again.worker().keys)) == 46
    assert again.broken_rules() == []
    again.store.close()


def test_a_restart_is_no_interruption_and_keeps_the_order(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    keys = rig.put(*(new_job(priority=p) for p in (2, 1, 3)))
    rig.worker(prefetch=2)
    again = restarted(rig, tmp_path)
    recover(again.engine)
    assert again.worker().keys == [keys[1], keys[0], keys[2]]
    assert {job.interruptions for job in again.store.load(keys)} == {0}
    again.store.close()


@pytest.mark.parametrize(
    "error", [StoreFull("no space"), apsw.FullError("disk is full")], ids=["ours", "theirs"]
)
def test_a_start_on_a_full_device_gives_up_the_reserve(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(open_sqlite(tmp_path))
    rig.do(plain(3))
    rig.worker()
    rig.store.close()
    store = FaultyStore(open_sqlite(tmp_path))
    again = Rig(store, limits=Limits(min_free_bytes=0))
    store.verbs["commit"] = [error]
    assert recover(again.engine) == 3
    assert not (tmp_path / "reserve").exists()
    assert isinstance(again.do(plain(1)), StoreFull)
    again.do(call(tick))
    assert (tmp_path / "reserve").exists()
    assert len(again.put(new_job())) == 1
    again.store.close()


@pytest.mark.parametrize(
    ("errors", "ours"),
    [
        ([apsw.FullError("full"), apsw.FullError("full")], StoreFull),
        ([StoreFull("full"), StoreFull("full")], StoreFull),
        ([apsw.IOError("disk I/O error")], StoreFailed),
        ([StoreFailed("gone")], StoreFailed),
        ([ZeroDivisionError()], InternalError),
    ],
)
def test_a_start_that_cannot_go_on_says_why(errors: list[Exception], ours: type[Exception]) -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    store.verbs["commit"] = list(errors)
    with pytest.raises(ours):
        recover(rig.engine)


def test_what_waits_for_its_time_still_does(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    (key,) = rig.put(new_job(ready_at=NOW + 100))
    again = restarted(rig, tmp_path, clock_ms=99)
    assert again.engine.due_at == NOW + 100
    assert recover(again.engine) == 0
    assert again.state(key) is State.SCHEDULED
    again.advance(1)
    assert again.state(key) is State.READY
    again.store.close()


@pytest.mark.parametrize("clock_ms", [0, 1, 1_000, 10**9, -1, -60_000, -86_400_000, -NOW])
def test_keys_grow_over_restarts_whatever_the_clock_does(tmp_path: Path, clock_ms: int) -> None:
    rig = Rig(open_sqlite(tmp_path))
    keys = rig.put(*(new_job() for _ in range(3)))
    rig.worker()
    rig.do(succeed(*keys))  # gone: only the promise remembers them
    last = keys[-1]
    for _ in range(3):
        rig = restarted(rig, tmp_path, clock_ms=clock_ms if rig.clock.now() + clock_ms >= 0 else 0)
        (key,) = rig.put(new_job())
        assert key > last
        last = key
    rig.store.close()


def test_keys_follow_the_clock_and_never_fall_back() -> None:
    rig = Rig()
    first = rig.put(new_job(), new_job())
    assert first == [NOW << COUNTER_BITS, (NOW << COUNTER_BITS) + 1]
    assert rig.put(new_job()) == [first[1] + 1]
    rig.clock.advance(1)
    (later,) = rig.put(new_job())
    assert later == (NOW + 1) << COUNTER_BITS
    rig.clock.jump(-10_000)
    assert rig.put(new_job()) == [later + 1]


def test_the_last_key_given_out_is_known_to_other_processes_also_when_its_job_is_gone(tmp_path: Path) -> None:
    rig, other = Rig(open_sqlite(tmp_path)), open_sqlite(tmp_path, exclusive=False)
    rig.worker()
    first, last = rig.put(new_job(), new_job())
    for gone in ([], [first], [last]):
        rig.do(succeed(*gone))
        assert other.begin(synced=False)
        assert other.identity.last_key == last
        other.rollback()
    other.close()
    rig.store.close()


def test_the_last_key_is_noted_only_when_the_row_that_has_it_goes(tmp_path: Path) -> None:
    """Else every batch with a success would write one page more."""

    def noted() -> int:
        with closing(apsw.Connection(str(tmp_path / "anew.db"))) as file:
            return int(file.execute("SELECT value FROM meta WHERE name = 'last_key'").fetchone()[0])

    rig = Rig(open_sqlite(tmp_path))
    rig.worker()
    first, second, last = rig.put(new_job(), new_job(), new_job())
    rig.do(succeed(first))
    rig.do(call(lambda batch: batch.delete([second])))
    assert noted() == 0
    rig.do(succeed(last))
    assert rig.state(last) is None
    assert noted() == last
    rig.store.close()


REMOVALS: dict[str, Callable[[Batch, int], object]] = {
    "deleted": lambda batch, key: batch.delete([key]),
    "deleted with all others": lambda batch, key: batch.delete_all(),
}


@pytest.mark.parametrize("removal", REMOVALS)
def test_the_last_key_given_out_is_known_to_other_processes_also_when_its_job_was(
    tmp_path: Path, removal: str
) -> None:
    rig = Rig(open_sqlite(tmp_path))
    other = Rig(open_sqlite(tmp_path, exclusive=False))
    last = rig.put(new_job(), new_job())[-1]
    rig.do(call(lambda batch: REMOVALS[removal](batch, last)))
    assert rig.state(last) is None
    assert other.put(new_job()) == [last + 1]
    other.store.close()
    rig.store.close()


def test_the_order_of_failures_goes_on_over_a_restart(tmp_path: Path) -> None:
    """Two jobs must not get one phase because the server was restarted between their failures."""
    rig = Rig(open_sqlite(tmp_path))
    phases = set()
    for _ in range(3):
        (key,) = rig.put(new_job())
        recover(rig.engine)
        rig.worker()
        phases.add(rig.do(fail(key)).phase)
        rig = restarted(rig, tmp_path)
    assert len(phases) == 3
    rig.store.close()


def test_ids_are_those_of_the_store(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    (key,) = rig.put(new_job())
    text = rig.engine.ids.write(key)
    again = restarted(rig, tmp_path)
    assert again.engine.ids.read(text) == key
    other = Rig()
    assert other.engine.ids.read(text) == -1
    again.store.close()

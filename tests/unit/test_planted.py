"""Classic bugs of queues, planted one at a time: the test that is meant to see each of them must fail.

Bugs of whole processes are planted in `tests/reliability`: answers before their commit, commits that are not synced, writes outside
of the transaction of what they belong to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from anew.engine import Engine, GroupCommit, cron_firing, engine, upkeep
from anew.engine.lease_time import LeaseTime
from anew.fwp.lines import LineSplitter
from anew.store.processes import Session
from anew.store.sql import SqlStore
from anew.store.sql.processes import SqlProcesses
from anew.store.sqlite import open_sqlite, opening
from anew.tasks.opening import open_engine
from tests.unit.engine import (
    test_apply,
    test_crontab,
    test_failures,
    test_group_shared,
    test_lease_time,
    test_one_transaction,
    test_start,
    test_threads,
    test_upkeep,
)
from tests.unit.engine.failing import Failing
from tests.unit.engine.grouped import Group
from tests.unit.engine.rig import Limits, Rig
from tests.unit.fwp import test_lines
from tests.unit.store import test_late_sync, test_opening

Patch = pytest.MonkeyPatch
Bug = tuple[Callable[[Patch], None], Callable[[Path], None]]


# -- what the tests are given


def stale_token(folder: Path) -> None:
    commit = open_engine(None)
    try:
        test_threads.test_a_stale_token_settles_nothing(commit)
    finally:
        commit.close()


def one_slot(folder: Path) -> None:
    one = test_crontab.rig_at(test_crontab.START, open_sqlite(folder))
    other = Rig(open_sqlite(folder, exclusive=False), clock=one.clock)
    try:
        test_crontab.test_reliability_33_one_slot_fires_once_whoever_comes_first((one, other))
    finally:
        one.store.close()
        other.store.close()


def ended_elsewhere(folder: Path) -> None:
    group = Group(open_sqlite(folder), limits=Limits(global_in_flight=2))
    other = Rig(open_sqlite(folder, exclusive=False), clock=group.rig.clock)
    group.loop.settle()
    try:
        test_group_shared.test_reliability_26_what_another_process_has_ended_is_found_by_the_poll(
            (group, other)
        )
    finally:
        group.rig.store.close()
        other.store.close()


# -- the bugs


def pop_then_insert(patch: Patch) -> None:
    """What a failure makes of a job lasts before its counters do."""
    apply = SqlStore.apply

    def in_two(self: Any, *given: Any, **named: Any) -> Any:
        written = apply(self, *given, **named)
        self._link.execute("COMMIT")
        self._link.execute("BEGIN IMMEDIATE")
        return written

    patch.setattr(SqlStore, "apply", in_two)


def by_id_only(patch: Patch) -> None:
    """Whoever names a job settles it, under whatever token."""
    patch.setattr(SqlStore, "held_under", lambda self, holds: set(holds))


def half_of_recovery(patch: Patch) -> None:
    """A start gives back the first of the jobs that were in flight, and no more."""
    some = upkeep._recover_some
    patch.setattr(upkeep, "_recover_some", lambda *given: some(*given) and False)


def last_error_dropped(patch: Patch) -> None:
    """The last member of a group that fails is told nothing."""
    answer = engine.answer

    def all_but_one(answers: Iterable[Any]) -> None:
        answer(list(answers)[:-1])

    patch.setattr(engine, "answer", all_but_one)


def no_poll(patch: Patch) -> None:
    """Nobody looks unless somebody wakes him."""
    patch.setattr(GroupCommit, "_poll", lambda self: None)


def slot_not_moved(patch: Patch) -> None:
    """A cron entry fires, and its row stays where it was."""
    patch.setattr(cron_firing, "replace", lambda row, **_: row)


def unbounded_line(patch: Patch) -> None:
    """A line is kept however long it becomes."""
    begin = LineSplitter.__init__
    patch.setattr(LineSplitter, "__init__", lambda self, max_line=0: begin(self, 1 << 62))


def attempt_not_kept(patch: Patch) -> None:
    """The number of a job's failures is not written with it."""
    apply = SqlStore.apply

    def forgetful(self: Any, changes: Iterable[Any], *given: Any) -> Any:
        return apply(self, [replace(change, attempts=0) for change in changes], *given)

    patch.setattr(SqlStore, "apply", forgetful)


def sync_error_swallowed(patch: Patch) -> None:
    """A sync that fails is taken for one that did not."""
    from anew.store.sqlite.checkpoint import Log

    sync = Log.sync

    def quiet(self: Any) -> None:
        try:
            sync(self)
        except OSError:
            self.is_synced = True

    patch.setattr(Log, "sync", quiet)


def folder_not_synced(patch: Patch) -> None:
    """New names are left to the system."""
    patch.setattr(opening, "sync_path", lambda folder: None)


def wall_clock_leases(patch: Patch) -> None:
    """Leases end by the wall clock, jumps and all."""
    patch.setattr(LeaseTime, "at", lambda self, instant: instant)


def rescue_of_the_living(patch: Patch) -> None:
    """Nobody looks whether a process still lives before what it holds is given to others."""
    sessions = SqlProcesses.sessions

    def all_dead(self: Any) -> list[Session]:
        return [session._replace(alive=False) for session in sessions(self)]

    patch.setattr(SqlProcesses, "sessions", all_dead)


def holders_in_memory(patch: Patch) -> None:
    """Which process holds a job is known to nobody but itself."""
    patch.setattr(SqlProcesses, "held_by", lambda self, session, limit: [])


def interrupted_commit_repeated(patch: Patch) -> None:
    """A commit that is interrupted is taken for one that did not happen, and what was asked for is done again."""
    apply = Engine.apply

    def twice(self: Engine, ops: Any) -> None:
        try:
            apply(self, ops)
        except test_threads.Interrupted:
            apply(self, ops)
            raise

    patch.setattr(Engine, "apply", twice)


def failed_sync(folder: Path) -> None:
    one, other = test_late_sync.Process(folder), test_late_sync.Process(folder)
    syncs = test_late_sync.Syncs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", syncs)
        try:
            test_late_sync.test_where_the_late_sync_fails_everybody_stops(one, other, syncs)
        finally:
            one.store.close()
            other.store.close()


BUGS: dict[str, Bug] = {
    "pop then insert": (
        pop_then_insert,
        lambda folder: (
            test_one_transaction.test_reliability_16_a_kill_between_any_two_statements_leaves_all_or_nothing(
                folder, "fail"
            )
        ),
    ),
    "settle by id only": (by_id_only, stale_token),
    "skip half of recovery": (
        half_of_recovery,
        lambda folder: test_start.test_what_was_in_flight_is_ready_again(folder, 35, 10),
    ),
    "drop the last member's error": (
        last_error_dropped,
        lambda folder: test_failures.test_reliability_06_a_failed_store_ends_everything(
            Failing(), test_failures.StoreFailed("no")
        ),
    ),
    "wake-ups without a poll": (no_poll, ended_elsewhere),
    "cron without its row": (slot_not_moved, one_slot),
    "unbounded line": (
        unbounded_line,
        lambda folder: test_lines.test_nothing_is_kept_of_a_line_that_is_too_long(),
    ),
    "attempt not persisted": (
        attempt_not_kept,
        lambda folder: test_apply.test_a_job_is_retried_as_its_policy_says_until_it_is_dead(Rig()),
    ),
    "swallow a sync's error": (sync_error_swallowed, failed_sync),
    "leases by the wall clock": (
        wall_clock_leases,
        lambda folder: (
            test_lease_time.test_reliability_30_a_jump_of_the_clock_ends_no_reservation_and_lengthens_none(
                test_lease_time.HOUR
            )
        ),
    ),
    "rescue without a look": (
        rescue_of_the_living,
        test_upkeep.test_what_a_living_process_holds_stays_with_it,
    ),
    "holders known in memory alone": (
        holders_in_memory,
        lambda folder: test_start.test_what_was_in_flight_is_ready_again(folder, 35, 10),
    ),
    "a commit that is interrupted, repeated": (
        interrupted_commit_repeated,
        lambda folder: test_threads.test_an_interruption_after_the_commit_keeps_what_was_committed(),
    ),
    "no sync of a folder": (
        folder_not_synced,
        test_opening.test_reliability_09_a_new_folder_and_its_files_have_lasting_names,
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_reliability_59_a_planted_bug_fails_the_test_that_is_meant_to_see_it(
    bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, run = BUGS[bug]
    run(tmp_path / "before")
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            run(tmp_path / "after")

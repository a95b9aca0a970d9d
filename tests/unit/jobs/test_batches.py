"""Batches: what is counted, which callbacks are enqueued when, and what a parent is told."""

import pytest

from anew.jobs.batches import (
    BatchRow,
    Callback,
    CallbackState,
    Level,
    Moved,
    Result,
    Standing,
    Told,
    callback_succeeded,
    child_joined,
    child_moved,
    committed,
    job_moved,
    joined,
    level,
    new_batch,
    pending_succeeded,
    purge_at,
)

from .helpers import DAY_MS, NOW

COMPLETE, SUCCESS = Callback.COMPLETE, Callback.SUCCESS
PENDING, FAILED, SUCCEEDED = Standing.PENDING, Standing.FAILED, Standing.SUCCEEDED


def batch(
    *, complete: bool = True, success: bool = True, parent: int | None = None, jobs: int = 0
) -> BatchRow:
    return joined(new_batch(1, parent, complete=complete, success=success), jobs).row


def counters(row: BatchRow) -> tuple[int, int, int]:
    return row.total, row.pending, row.failed


def run(row: BatchRow, *results: Result) -> Moved:
    """One new job for each result, in its first run; gives the last move."""
    moved = Moved(row)
    for result in results:
        moved, _ = job_moved(moved.row, PENDING, result)
    return moved


# -- counters


@pytest.mark.parametrize(
    ("standing", "result", "expected", "after"),
    [
        # of two jobs, of which the other is pending: total, pending, failed
        (PENDING, Result.SUCCEEDED, (2, 1, 0), SUCCEEDED),
        (PENDING, Result.FAILED, (2, 1, 1), FAILED),
        (PENDING, Result.DROPPED, (2, 1, 1), FAILED),
        (FAILED, Result.SUCCEEDED, (2, 1, 0), SUCCEEDED),
        (FAILED, Result.FAILED, (2, 1, 1), FAILED),
        (FAILED, Result.DROPPED, (2, 1, 1), FAILED),
        (SUCCEEDED, Result.DROPPED, (2, 1, 0), SUCCEEDED),
    ],
)
def test_a_job_is_counted_once_and_by_its_latest_result(
    standing: Standing, result: Result, expected: tuple[int, int, int], after: Standing
) -> None:
    row = batch(jobs=2)
    if standing is not PENDING:
        row = job_moved(row, PENDING, Result.FAILED if standing is FAILED else Result.SUCCEEDED)[0].row
    moved, stands = job_moved(row, standing, result)
    assert (counters(moved.row), stands) == (expected, after)


def test_a_hundred_thousand_jobs_are_one_move() -> None:
    row = joined(batch(), 100_000).row
    assert counters(row) == (100_000, 100_000, 0)


# -- one batch


def test_the_complete_callback_comes_first_and_success_after_it_was_acknowledged() -> None:
    """Checklist 97 of Faktory's protocol."""
    row = committed(batch(jobs=2)).row
    assert run(row, Result.SUCCEEDED).enqueue == ()
    moved = run(row, Result.SUCCEEDED, Result.SUCCEEDED)
    assert moved.enqueue == (COMPLETE,)
    assert (moved.row.complete, moved.row.success) == (CallbackState.ENQUEUED, CallbackState.WAITING)
    moved = callback_succeeded(moved.row, COMPLETE)
    assert moved.enqueue == (SUCCESS,)
    assert (moved.row.complete, moved.row.success) == (CallbackState.SUCCEEDED, CallbackState.ENQUEUED)
    moved = callback_succeeded(moved.row, SUCCESS)
    assert (moved.enqueue, moved.row.success) == ((), CallbackState.SUCCEEDED)


def test_success_alone_is_enqueued_at_once() -> None:
    row = committed(batch(complete=False, jobs=1)).row
    assert run(row, Result.SUCCEEDED).enqueue == (SUCCESS,)


def test_an_empty_batch_fires_at_its_commit_and_not_before() -> None:
    """Checklist 98 of Faktory's protocol."""
    row = batch()
    assert level(row) is Level.OPEN
    assert committed(row).enqueue == (COMPLETE,)
    assert committed(batch(complete=False)).enqueue == (SUCCESS,)
    assert committed(batch(complete=False, success=False)).enqueue == ()


def test_a_batch_that_is_not_committed_never_fires() -> None:
    """Checklist 98 of Faktory's protocol."""
    row = run(batch(jobs=2), Result.SUCCEEDED, Result.FAILED)
    assert row.enqueue == ()
    assert committed(row.row).enqueue == (COMPLETE,)


def test_committing_twice_fires_once() -> None:
    row = committed(batch()).row
    assert committed(row) == Moved(row)


@pytest.mark.parametrize("result", [Result.FAILED, Result.DROPPED])
def test_a_failure_completes_and_does_not_succeed(result: Result) -> None:
    moved = run(committed(batch(jobs=2)).row, Result.SUCCEEDED, result)
    assert moved.enqueue == (COMPLETE,)
    assert callback_succeeded(moved.row, COMPLETE).enqueue == ()


def test_a_retry_that_succeeds_after_all_lets_success_go() -> None:
    row = callback_succeeded(run(committed(batch(jobs=1)).row, Result.FAILED).row, COMPLETE).row
    moved, _ = job_moved(row, FAILED, Result.SUCCEEDED)
    assert moved.enqueue == (SUCCESS,)


def test_success_waits_for_the_acknowledgement_of_complete_also_when_all_jobs_have_succeeded() -> None:
    row = run(committed(batch(jobs=1)).row, Result.FAILED).row
    moved, _ = job_moved(row, FAILED, Result.SUCCEEDED)
    assert moved.enqueue == ()
    assert callback_succeeded(moved.row, COMPLETE).enqueue == (SUCCESS,)


def test_jobs_that_join_after_the_end_are_counted_and_fire_nothing_again() -> None:
    row = run(committed(batch(jobs=1)).row, Result.SUCCEEDED).row
    row = callback_succeeded(callback_succeeded(row, COMPLETE).row, SUCCESS).row
    row = joined(row).row
    assert counters(row) == (2, 1, 0)
    moved = run(row, Result.SUCCEEDED)
    assert (moved.enqueue, counters(moved.row)) == ((), (2, 0, 0))
    assert (moved.row.complete, moved.row.success) == (CallbackState.SUCCEEDED, CallbackState.SUCCEEDED)


def test_a_job_that_joins_before_success_holds_success_back() -> None:
    row = joined(run(committed(batch(jobs=1)).row, Result.SUCCEEDED).row).row
    moved = callback_succeeded(row, COMPLETE)
    assert moved.enqueue == ()
    assert run(moved.row, Result.SUCCEEDED).enqueue == (SUCCESS,)


# -- parents


def family(**child: bool) -> tuple[BatchRow, BatchRow]:
    """A committed parent without jobs of its own, and its committed child with one job."""
    parent = committed(child_joined(new_batch(9, None, complete=True, success=True)).row)
    assert parent.enqueue == ()
    return parent.row, committed(batch(parent=9, jobs=1, **child)).row


def test_the_parents_callbacks_come_after_the_childs() -> None:
    """Checklist 99 of Faktory's protocol: success of the parent only after success of the child was acknowledged."""
    parent, child = family()
    moved = run(child, Result.SUCCEEDED)
    assert (moved.enqueue, moved.told) == ((COMPLETE,), None)
    moved = callback_succeeded(moved.row, COMPLETE)
    assert (moved.enqueue, moved.told) == ((SUCCESS,), None)
    moved = callback_succeeded(moved.row, SUCCESS)
    assert moved.told == Told(9, Level.OPEN, Level.SUCCEEDED)
    above = child_moved(parent, Level.OPEN, Level.SUCCEEDED)
    assert above.enqueue == (COMPLETE,)
    assert callback_succeeded(above.row, COMPLETE).enqueue == (SUCCESS,)


def test_a_child_that_fails_lets_the_parent_complete_and_not_succeed() -> None:
    parent, child = family(success=False)
    moved = callback_succeeded(run(child, Result.FAILED).row, COMPLETE)
    assert moved.told == Told(9, Level.OPEN, Level.COMPLETE)
    above = child_moved(parent, Level.OPEN, Level.COMPLETE)
    assert above.enqueue == (COMPLETE,)
    above = callback_succeeded(above.row, COMPLETE)
    assert above.enqueue == ()
    later, _ = job_moved(moved.row, FAILED, Result.SUCCEEDED)
    assert later.told == Told(9, Level.COMPLETE, Level.SUCCEEDED)
    assert child_moved(above.row, Level.COMPLETE, Level.SUCCEEDED).enqueue == (SUCCESS,)


def test_a_childs_job_that_joins_late_opens_the_child_again() -> None:
    parent, child = family(complete=False, success=False)
    moved = run(child, Result.SUCCEEDED)
    assert moved.told == Told(9, Level.OPEN, Level.SUCCEEDED)
    again = joined(moved.row)
    assert again.told == Told(9, Level.SUCCEEDED, Level.OPEN)
    above = child_moved(child_moved(parent, Level.OPEN, Level.SUCCEEDED).row, Level.SUCCEEDED, Level.OPEN).row
    assert (above.open_children, above.unsuccessful_children) == (1, 1)


def test_a_child_that_was_never_committed_holds_nobody_once_it_is_removed() -> None:
    parent, _ = family()
    above = child_moved(parent, Level.OPEN, Level.SUCCEEDED)
    assert (above.row.open_children, above.row.unsuccessful_children) == (0, 0)


def test_a_batch_without_a_parent_tells_nobody() -> None:
    assert run(committed(batch(complete=False, success=False, jobs=1)).row, Result.SUCCEEDED).told is None


# -- retention


def test_how_long_a_batch_is_kept() -> None:
    row = batch(jobs=1)
    assert purge_at(row, NOW) == NOW + 30 * 60_000
    row = committed(row).row
    assert purge_at(row, NOW) is None
    row = run(row, Result.FAILED).row
    assert purge_at(row, NOW) is None  # its complete callback has not run
    assert purge_at(callback_succeeded(row, COMPLETE).row, NOW) == NOW + 30 * DAY_MS


def test_many_members_that_succeed_together_fire_once_when_none_is_pending() -> None:
    row = committed(joined(new_batch(7, None, complete=False, success=True), 3).row).row
    some = pending_succeeded(row, 2)
    assert (some.row.pending, some.row.failed, some.enqueue) == (1, 0, ())
    last = pending_succeeded(some.row, 1)
    assert (last.row.total, last.row.pending, last.enqueue) == (3, 0, (Callback.SUCCESS,))


def test_members_that_succeed_beside_one_that_failed_let_only_complete_go() -> None:
    row = committed(joined(new_batch(7, None, complete=True, success=True), 3).row).row
    row = job_moved(row, Standing.PENDING, Result.DROPPED)[0].row
    assert pending_succeeded(row, 2).enqueue == (Callback.COMPLETE,)

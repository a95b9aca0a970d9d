"""When a new job may be folded into a waiting one."""

import pytest

from anew.jobs import Move, State
from anew.jobs.codec import LAST_INSTANT, FoldRule
from anew.jobs.fold import FoldEntry, call_digest, due_of, entry_of, expires_of, fold_digest
from anew.jobs.unique import Effect, End, Scope, effect_of, parts_digest, text_digest

from .helpers import NOW


@pytest.mark.parametrize(
    ("ready_at", "holder", "expected"),
    [
        (None, None, FoldEntry.OPEN),
        (None, State.READY, FoldEntry.ASK),  # checklist 35 and 36
        (NOW, State.READY, FoldEntry.ASK),
        (NOW - 1, State.READY, FoldEntry.ASK),
        (None, State.IN_FLIGHT, FoldEntry.OPEN),  # checklist 39 of Zizq's API
        (None, State.SCHEDULED, FoldEntry.OPEN),
        (None, State.RETRYING, FoldEntry.OPEN),
        (None, State.COMPLETED, FoldEntry.OPEN),
        (NOW + 1, None, FoldEntry.APART),  # checklist 40
        (NOW + 1, State.READY, FoldEntry.APART),
    ],
)
def test_how_a_new_job_comes_in(ready_at: int | None, holder: State | None, expected: FoldEntry) -> None:
    assert entry_of(ready_at, holder, NOW) is expected


def test_a_job_that_was_taken_has_ended_or_was_removed_is_closed_for_good() -> None:
    """Checklist 39 of Zizq's API."""
    effects = {event: effect_of(Scope.OPEN, event) for event in (*Move, *End)}
    closing = {event for event, effect in effects.items() if effect is Effect.RELEASE}
    assert closing == {"take", "complete", "die", "cancel", "kill", "expired", "deleted", "reaped"}
    assert Effect.CLAIM not in effects.values()


def test_a_key_to_fold_by_is_no_unique_key() -> None:
    assert fold_digest("k") == fold_digest("k") != fold_digest("l")
    assert fold_digest("k") != text_digest("k")
    assert {len(fold_digest(key)) for key in ("", "\ud800", "x" * 100_000)} == {16}


@pytest.mark.parametrize(
    ("holder", "expected"),
    [
        (None, FoldEntry.OPEN),
        (State.READY, FoldEntry.ASK),
        (State.SCHEDULED, FoldEntry.ASK),
        (State.RETRYING, FoldEntry.OPEN),  # it has begun with the arguments that it has
        (State.IN_FLIGHT, FoldEntry.OPEN),
        (State.COMPLETED, FoldEntry.OPEN),
        (State.DEAD, FoldEntry.OPEN),
        (State.CANCELLED, FoldEntry.OPEN),
    ],
)
@pytest.mark.parametrize("ready_at", [None, NOW, NOW + 60_000])
def test_a_call_is_folded_into_whatever_waits_and_has_not_begun(
    holder: State | None, expected: FoldEntry, ready_at: int | None
) -> None:
    assert entry_of(ready_at, holder, NOW, is_call=True) is expected


TEN_S = FoldRule(quiet_ms=10_000, most_ms=60_000)


@pytest.mark.parametrize(
    ("first_at", "due_at", "expected"),
    [
        (NOW, None, NOW + 10_000),  # the first call
        (NOW - 9_000, NOW + 1_000, NOW + 10_000),  # each call begins the period again
        (NOW - 50_000, NOW + 1_000, NOW + 10_000),  # just so long after the first
        (NOW - 50_001, NOW + 1_000, NOW + 9_999),  # and no longer
        (NOW - 60_000, NOW, NOW),
        (NOW - 90_000, NOW - 30_000, NOW - 30_000),  # no worker was free: it stays due
        (
            NOW - 1_000,
            NOW + 59_000,
            NOW + 10_000,
        ),  # the period of the latest call holds, also one that is shorter
    ],
)
def test_a_debounced_job_is_put_off_from_the_latest_call_up_to_a_bound_from_the_first(
    first_at: int, due_at: int | None, expected: int
) -> None:
    assert due_of(TEN_S, None, NOW, first_at=first_at, due_at=due_at) == expected


@pytest.mark.parametrize(
    ("asked_at", "due_at", "expected"),
    [
        (None, None, None),
        (NOW + 5, None, NOW + 5),
        (NOW + 9, NOW + 5, NOW + 5),  # it keeps its time
        (NOW + 5, NOW + 9, NOW + 5),  # nobody waits longer than he has asked for
        (None, NOW + 9, NOW),
        (None, NOW - 9, NOW - 9),
    ],
)
def test_a_merged_job_runs_at_the_earliest_time_that_a_call_has_asked_for(
    asked_at: int | None, due_at: int | None, expected: int | None
) -> None:
    assert due_of(FoldRule(), asked_at, NOW, first_at=NOW, due_at=due_at) == expected


def test_times_beyond_all_times_are_the_last_one() -> None:
    rule = FoldRule(quiet_ms=LAST_INSTANT, most_ms=LAST_INSTANT)
    assert due_of(rule, None, NOW, first_at=NOW) == LAST_INSTANT
    assert due_of(FoldRule(quiet_ms=5), None, NOW, first_at=0, due_at=NOW) == NOW + 5


def test_a_job_of_several_calls_expires_when_the_last_of_them_would() -> None:
    assert expires_of(5, 9) == expires_of(9, 5) == 9
    assert expires_of(None, 9) is expires_of(9, None) is None


def test_calls_have_digests_of_their_own() -> None:
    key = call_digest("t", "q", b"{}")
    assert (
        len({key, call_digest("t", "", b"{}"), call_digest("u", "q", b"{}"), parts_digest("t", "q", b"{}")})
        == 4
    )
    assert fold_digest("t") != call_digest("t", "", b"")

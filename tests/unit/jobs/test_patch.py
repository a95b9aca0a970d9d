"""What a patch, a cancellation and a redrive make of a job."""

import json
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from anew.errors import IllegalTransition
from anew.jobs import Job, State
from anew.jobs.patch import Patch, RetentionPatch, cancelled, killed, patched, redriven, released

from .helpers import NOW, make_job

LIVE = [State.SCHEDULED, State.RETRYING, State.READY, State.IN_FLIGHT]
ENDS = [State.COMPLETED, State.DEAD, State.CANCELLED]
LATER = NOW + 60_000


def full_job(state: State = State.READY) -> Job:
    return make_job(
        state=state,
        attempts=2,
        retry_limit=9,
        policy=b'{"exponent":2.0,"base_ms":1,"jitter_ms":0}',
        retention=b'{"completed_ms":1,"dead_ms":2}',
        phase=0.5,
        first_failed_at=NOW - 900,
        failed_at=NOW - 100,
        carry=4.0,
    )


@pytest.mark.parametrize("state", LIVE)
def test_an_empty_patch_changes_nothing(state: State) -> None:
    assert patched(full_job(state), Patch(), NOW) == full_job(state)


@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        (Patch(queue="other"), {"queue": "other"}),
        (Patch(priority=0), {"priority": 0}),
        (Patch(retry_limit=0), {"retry_limit": 0}),
        (Patch(retry_limit=None), {"retry_limit": None}),
        (Patch(policy=b'{"preset":"even"}'), {"policy": b'{"preset":"even"}'}),
        (Patch(policy=None), {"policy": None}),
        (Patch(retention=None), {"retention": None}),
    ],
    ids=["queue", "priority", "limit", "no limit", "policy", "no policy", "no retention"],
)
def test_each_field_is_set_alone(state: State, patch: Patch, changed: dict[str, Any]) -> None:
    assert patched(full_job(state), patch, NOW) == replace(full_job(state), **changed)


@pytest.mark.parametrize("state", ENDS)
def test_what_has_ended_cannot_be_patched(state: State) -> None:
    with pytest.raises(IllegalTransition, match=f"state {state}"):
        patched(full_job(state), Patch(priority=1), NOW)
    with pytest.raises(IllegalTransition):
        patched(full_job(state), Patch(), NOW)


@pytest.mark.parametrize(
    ("before", "ready_at", "state", "becomes"),
    [
        (State.SCHEDULED, None, State.READY, NOW),
        (State.RETRYING, None, State.READY, NOW),
        (State.READY, None, State.READY, NOW - 5_000),
        (State.IN_FLIGHT, None, State.IN_FLIGHT, NOW - 5_000),
        (State.SCHEDULED, NOW, State.READY, NOW),
        (State.SCHEDULED, NOW - 1, State.READY, NOW - 1),
        (State.SCHEDULED, NOW + 1, State.SCHEDULED, NOW + 1),
        (State.RETRYING, NOW, State.READY, NOW),
        (State.RETRYING, LATER, State.RETRYING, LATER),
        (State.READY, NOW, State.READY, NOW),
        (State.READY, 0, State.READY, 0),
        (State.READY, NOW + 1, State.SCHEDULED, NOW + 1),
        (State.IN_FLIGHT, LATER, State.IN_FLIGHT, LATER),
        (State.IN_FLIGHT, 0, State.IN_FLIGHT, 0),
        (State.READY, 2**64 - 1, State.SCHEDULED, 2**63 - 1),
    ],
)
def test_a_new_time_moves_what_waits_and_what_is_ready(
    before: State, ready_at: int | None, state: State, becomes: int
) -> None:
    after = patched(make_job(state=before), Patch(ready_at=ready_at), NOW)
    assert (after.state, after.ready_at) == (state, becomes)


@pytest.mark.parametrize(
    ("stored", "patch", "expected"),
    [
        (None, RetentionPatch(completed_ms=5), {"completed_ms": 5}),
        (
            {"completed_ms": 1, "dead_ms": 2},
            RetentionPatch(completed_ms=5),
            {"completed_ms": 5, "dead_ms": 2},
        ),
        (
            {"completed_ms": 1, "dead_ms": 2},
            RetentionPatch(completed_ms=0),
            {"completed_ms": 0, "dead_ms": 2},
        ),
        ({"completed_ms": 1, "dead_ms": 2}, RetentionPatch(dead_ms=None), {"completed_ms": 1}),
        ({"completed_ms": 1}, RetentionPatch(completed_ms=None), None),
        ({"completed_ms": 1}, RetentionPatch(completed_ms=None, dead_ms=3), {"dead_ms": 3}),
        ({"completed_ms": 1}, RetentionPatch(), {"completed_ms": 1}),
        (None, RetentionPatch(), None),
        (None, RetentionPatch(dead_ms=None), None),
        (
            {"dead_ms": 18446744073709551615},
            RetentionPatch(completed_ms=1),
            {"completed_ms": 1, "dead_ms": 2**64 - 1},
        ),
    ],
)
def test_retention_is_merged_member_by_member(
    stored: dict[str, int] | None, patch: RetentionPatch, expected: dict[str, int] | None
) -> None:
    job = make_job(retention=None if stored is None else json.dumps(stored).encode())
    after = patched(job, Patch(retention=patch), NOW).retention
    assert (None if after is None else json.loads(after)) == expected


def test_a_patch_says_nothing_unless_told() -> None:
    empty = Patch()
    fields = (empty.queue, empty.priority, empty.ready_at, empty.retry_limit, empty.policy, empty.retention)
    assert all(field is UNSET for field in fields)


@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize("purge_at", [None, LATER])
def test_what_lives_can_be_called_off(state: State, purge_at: int | None) -> None:
    expected = replace(full_job(state), state=State.CANCELLED, purge_at=purge_at)
    assert cancelled(full_job(state), purge_at) == expected


@pytest.mark.parametrize("state", ENDS)
def test_what_has_ended_cannot_be_called_off(state: State) -> None:
    with pytest.raises(IllegalTransition, match="cannot cancel"):
        cancelled(full_job(state), LATER)


@pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYING, State.DEAD])
def test_what_waits_or_is_dead_can_be_put_among_the_dead(state: State) -> None:
    job = replace(full_job(state), purge_at=NOW if state is State.DEAD else None)
    assert killed(job, LATER) == replace(job, state=State.DEAD, purge_at=LATER)


@pytest.mark.parametrize("state", [State.READY, State.IN_FLIGHT, State.COMPLETED, State.CANCELLED])
def test_nothing_else_can(state: State) -> None:
    with pytest.raises(IllegalTransition, match="cannot kill"):
        killed(full_job(state), LATER)


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED])
@pytest.mark.parametrize(
    ("ready_at", "becomes"), [(NOW, State.READY), (NOW - 9, State.READY), (NOW + 1, State.RETRYING)]
)
def test_a_redrive_sends_the_job_round_again(state: State, ready_at: int, becomes: State) -> None:
    job = replace(full_job(state), purge_at=LATER)
    after = redriven(job, ready_at, NOW, reset_attempts=False)
    assert after == replace(job, state=becomes, ready_at=ready_at, purge_at=None)


def test_a_redrive_that_begins_the_policy_again_waits_as_a_job_that_has_not_failed() -> None:
    after = redriven(full_job(State.DEAD), NOW + 1, NOW, reset_attempts=True)
    assert (after.state, after.ready_at) == (State.SCHEDULED, NOW + 1)


@pytest.mark.parametrize(("attempts", "becomes"), [(0, State.SCHEDULED), (1, State.RETRYING)])
@pytest.mark.parametrize("interruptions", [0, 2])
def test_a_ready_job_with_failures_that_gets_a_later_time_is_retrying(
    attempts: int, becomes: State, interruptions: int
) -> None:
    job = make_job(state=State.READY, attempts=attempts, interruptions=interruptions)
    after = patched(job, Patch(ready_at=NOW + 1), NOW)
    assert (after.state, after.ready_at) == (becomes, NOW + 1)


@pytest.mark.parametrize(("attempts", "becomes"), [(0, State.SCHEDULED), (1, State.RETRYING)])
def test_a_job_in_flight_that_gets_a_later_time_waits_for_it_once_interrupted(
    attempts: int, becomes: State
) -> None:
    job = make_job(state=State.IN_FLIGHT, attempts=attempts)
    noted = patched(job, Patch(ready_at=NOW + 9), NOW)
    assert (noted.state, noted.ready_at) == (State.IN_FLIGHT, NOW + 9)
    after = released(noted, counted=True)
    assert (after.state, after.ready_at, after.interruptions) == (becomes, NOW + 9, 1)


@pytest.mark.parametrize(("attempts", "becomes"), [(0, State.SCHEDULED), (3, State.RETRYING)])
@pytest.mark.parametrize("counted", [False, True])
def test_a_job_given_back_before_its_time_waits_for_it(attempts: int, becomes: State, counted: bool) -> None:
    job = make_job(state=State.IN_FLIGHT, attempts=attempts, ready_at=NOW + 9, hold_kind=10, hold_token=4)
    after = released(job, counted=counted)
    assert (after.state, after.ready_at, after.attempts) == (becomes, NOW + 9, attempts)
    assert (after.interruptions, after.hold_kind, after.hold_token) == (int(counted), None, None)


def test_a_redrive_may_begin_the_policy_again() -> None:
    after = redriven(full_job(State.DEAD), NOW, NOW, reset_attempts=True)
    assert (after.attempts, after.first_failed_at, after.carry) == (0, None, None)
    assert after.phase == 0.5


@pytest.mark.parametrize("state", [*LIVE, State.COMPLETED])
def test_only_the_dead_and_the_cancelled_go_round_again(state: State) -> None:
    with pytest.raises(IllegalTransition, match="dead"):
        redriven(full_job(state), NOW, NOW, reset_attempts=False)


def test_a_retention_that_cannot_be_read_any_more_sets_nothing() -> None:
    """As everywhere: a store outlives the disk that held it, and its jobs must still be patched and end."""
    job = make_job(retention=b'{"completed_ms":"soo')
    after = patched(job, Patch(retention=RetentionPatch(dead_ms=7)), NOW)
    assert after.retention == b'{"dead_ms":7}'

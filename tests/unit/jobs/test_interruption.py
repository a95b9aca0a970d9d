"""What becomes of a job whose worker goes away with it; the waits and the limit are reliability's promise P7."""

import json
from typing import Any

import pytest

from anew.jobs import Change, Interrupted, Job, State, decide_interruption

from .helpers import DAY_MS, NOW, make_defaults, make_job

WAITS_S = [0, 2, 4, 8, 16, 32, 60, 60, 60]
"""Before the second run, the third ...: once is nothing, then 2, 4, 8 ... 60 s."""


def in_flight(**fields: Any) -> Job:
    return make_job(**{"state": State.IN_FLIGHT, "dequeued_at": NOW - 1_000} | fields)


def decide(job: Job, cause: Any = "worker gone", **defaults: Any) -> Change:
    change = decide_interruption(
        job, Interrupted(cause), defaults=make_defaults(**{"interruption_limit": 10} | defaults), now=NOW
    )
    assert change is not None
    return change


def decision(change: Change) -> dict[str, Any]:
    read = json.loads(change.attempt.decision)
    assert isinstance(read, dict)
    return read


@pytest.mark.parametrize("so_far", [0, 1, 9, 1_000])
def test_without_a_limit_nothing_is_decided(so_far: int) -> None:
    """The default, as Zizq: the job goes back to its place, for ever."""
    assert make_defaults().interruption_limit == 0
    job = in_flight(interruptions=so_far)
    assert decide_interruption(job, Interrupted("worker gone"), defaults=make_defaults(), now=NOW) is None


@pytest.mark.parametrize("servers", [0, 10])
def test_a_workers_own_limit_comes_before_the_servers(servers: int) -> None:
    def change(so_far: int, limit: int) -> Change | None:
        gone = Interrupted("worker gone", limit)
        defaults = make_defaults(interruption_limit=servers)
        return decide_interruption(in_flight(interruptions=so_far), gone, defaults=defaults, now=NOW)

    second, third = change(1, 3), change(2, 3)
    assert second is not None
    assert third is not None
    assert (second.state, second.ready_at) == (State.RETRYING, NOW + 2_000)
    assert (third.state, decision(third)["reason"]) == (
        State.DEAD,
        "poison: 3 interruptions in a row, the limit",
    )
    assert change(1_000, 0) is None


def test_the_first_interruption_costs_nothing() -> None:
    change = decide(in_flight(attempts=3))
    assert (change.state, change.ready_at, change.attempts, change.interruptions) == (State.READY, None, 3, 1)
    assert decision(change) == {"verdict": "retry", "reason": "1 interruption: back to its place at once"}


@pytest.mark.parametrize(("so_far", "wait_s"), list(enumerate(WAITS_S))[1:])
def test_from_the_second_in_a_row_on_it_waits(so_far: int, wait_s: int) -> None:
    change = decide(in_flight(interruptions=so_far, attempts=3))
    assert (change.state, change.ready_at) == (State.RETRYING, NOW + wait_s * 1_000)
    assert (change.attempts, change.interruptions) == (3, so_far + 1)
    assert decision(change)["wait_ms"] == wait_s * 1_000
    assert decision(change)["due_at"] == NOW + wait_s * 1_000


def test_the_last_one_is_death_by_poison() -> None:
    change = decide(in_flight(interruptions=9, attempts=3))
    assert (change.state, change.ready_at, change.attempts) == (State.DEAD, None, 3)
    assert (change.purge_at, change.remove) == (NOW + 7 * DAY_MS, False)
    assert decision(change) == {
        "verdict": "dead",
        "reason": "poison: 10 interruptions in a row, the limit",
    }


def test_sent_round_again_it_has_the_whole_count_before_it() -> None:
    assert decide(in_flight(interruptions=9)).interruptions == 0


@pytest.mark.parametrize(("limit", "state"), [(1, State.DEAD), (2, State.READY), (50, State.READY)])
def test_a_limit_of_one_ends_it_at_once(limit: int, state: State) -> None:
    assert decide(in_flight(), interruption_limit=limit).state is state


def test_a_limit_lowered_meanwhile_holds() -> None:
    assert decide(in_flight(interruptions=40)).state is State.DEAD


@pytest.mark.parametrize(
    ("retention", "purge_at"),
    [(b'{"dead_ms":5}', NOW + 5), (b'{"dead_ms":0}', None), (b"{", NOW + 7 * DAY_MS)],
)
def test_it_is_kept_as_the_dead_are(retention: bytes, purge_at: int | None) -> None:
    change = decide(in_flight(interruptions=9, retention=retention))
    assert (change.purge_at, change.remove) == (purge_at, purge_at is None)
    assert ("cannot be read" in decision(change)["reason"]) is (retention == b"{")


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        ("worker gone", "its worker went away while it had the job"),
        ("lease lapsed", "its worker kept the job longer than a lease lasts"),
    ],
)
def test_the_attempt_is_recorded_with_how_it_ended(cause: str, message: str) -> None:
    record = decide(in_flight(attempts=3), cause).attempt
    assert (record.outcome, record.error_type, record.message) == ("interrupted", "Interrupted", message)
    assert (record.attempt, record.dequeued_at, record.failed_at) == (4, NOW - 1_000, NOW)


@pytest.mark.parametrize("so_far", range(10))
def test_the_policys_own_memory_is_left_alone(so_far: int) -> None:
    """No phase is given out and no carry lost: the policy counts failures, and this was none."""
    fresh = decide(in_flight(interruptions=so_far))
    assert (fresh.phase, fresh.carry) == (None, None)
    worn = decide(
        in_flight(interruptions=so_far, phase=0.25, carry=7.0, policy=b'{"preset":"even","limit":0}')
    )
    assert (worn.phase, worn.carry) == (0.25, 7.0)
    assert worn.state is fresh.state

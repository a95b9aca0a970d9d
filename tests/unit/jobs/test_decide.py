"""What a failure or a success makes of a job; expected values by hand arithmetic."""

import json
from typing import Any

import pytest

from anew.backoff import Policy
from anew.jobs import (
    Change,
    Defaults,
    Failed,
    Job,
    State,
    completed_purge_at,
    decide_failure,
    initial_state,
)
from anew.jobs.change import after, shown_decision
from anew.jobs.codec import LAST_INSTANT
from anew.jobs.decide import dead_purge_at, decide_corruption, is_zizq_backoff
from anew.jobs.terms import policy_of

from .helpers import DAY_MS, JOB_ID, NOW, make_defaults, make_failing, make_job, no_chance

ZIZQ = b'{"exponent":2.0,"base_ms":100,"jitter_ms":0}'
YEAR_9999 = 253_402_300_799_999
U64_MAX = 18_446_744_073_709_551_615


def decide(
    job: Job | None = None,
    failure: Failed | None = None,
    defaults: Defaults | None = None,
    rng: Any = no_chance,
    phase: float = 0.25,
    now: int = NOW,
) -> Change:
    return decide_failure(
        job or make_failing(),
        failure or Failed(message="no answer"),
        job_id=JOB_ID,
        defaults=defaults or make_defaults(),
        now=now,
        rng=rng,
        phase=phase,
    )


def arithmetic(change: Change) -> dict[str, Any]:
    decision = json.loads(shown_decision(change.attempt.decision, change.attempt.attempt))
    assert isinstance(decision, dict)
    return decision


# -- Zizq's three numbers: attempts^exponent seconds, plus the base, plus up to jitter times attempts


@pytest.mark.parametrize(("failed_before", "wait_ms"), [(0, 1_100), (1, 4_100), (2, 9_100), (9, 100_100)])
def test_zizq_exponent_two_base_100_waits_squares_of_seconds(failed_before: int, wait_ms: int) -> None:
    change = decide(make_failing(attempts=failed_before, policy=ZIZQ))
    assert change.state is State.RETRYING
    assert change.attempts == failed_before + 1
    assert change.ready_at == NOW + wait_ms


@pytest.mark.parametrize("failed_before", [0, 1, 7])
def test_zizq_exponent_zero_is_always_a_second(failed_before: int) -> None:
    policy = b'{"exponent":0.0,"base_ms":0,"jitter_ms":0}'
    assert decide(make_failing(attempts=failed_before, policy=policy)).ready_at == NOW + 1_000


@pytest.mark.parametrize(
    ("number", "wait_ms"), [(0.0, 9_000), (0.5, 9_000 + 1_500), (0.999_999, 9_000 + 2_999)]
)
def test_zizq_jitter_grows_with_the_attempts(number: float, wait_ms: int) -> None:
    """Third failure, exponent 2, no base, jitter of 1 s: 9 s plus up to 3 s."""
    policy = b'{"exponent":2.0,"base_ms":0,"jitter_ms":1000}'
    change = decide(make_failing(attempts=2, policy=policy), rng=lambda: number)
    assert change.ready_at == NOW + wait_ms
    assert arithmetic(change)["draw"] == number


def test_zizq_numbers_that_explode_end_at_a_year() -> None:
    policy = b'{"exponent":3000000.0,"base_ms":4294967295,"jitter_ms":4294967295}'
    change = decide(make_failing(attempts=20, policy=policy), rng=lambda: 0.5)
    assert change.ready_at == NOW + 365 * DAY_MS


# -- limits


@pytest.mark.parametrize(
    ("limit", "failed_before", "state"),
    [
        (0, 0, State.DEAD),
        (1, 0, State.RETRYING),
        (1, 1, State.DEAD),
        (2, 0, State.RETRYING),
        (2, 1, State.RETRYING),
        (2, 2, State.DEAD),
        (2, 40, State.DEAD),
        (4_294_967_295, 1_000_000, State.RETRYING),
        (None, 24, State.RETRYING),
        (None, 25, State.DEAD),
    ],
)
def test_a_limit_counts_retries(limit: int | None, failed_before: int, state: State) -> None:
    """A limit of 2 is three runs; none of the job's own means the default's 25 retries."""
    change = decide(make_failing(attempts=failed_before, retry_limit=limit))
    assert change.state is state
    assert change.attempts == failed_before + 1


@pytest.mark.parametrize(
    ("own_limit", "policy", "failed_before", "state"),
    [
        (None, b'{"curve":{"constant":"10s"},"limit":1}', 1, State.DEAD),
        (3, b'{"curve":{"constant":"10s"},"limit":1}', 1, State.RETRYING),
        (0, b'{"curve":{"constant":"10s"},"limit":1}', 0, State.DEAD),
        (None, b'{"curve":{"constant":"10s"}}', 4, State.RETRYING),
        (None, b'{"curve":{"constant":"10s"}}', 5, State.DEAD),
        (None, ZIZQ, 4, State.RETRYING),
        (None, ZIZQ, 5, State.DEAD),
    ],
)
def test_the_jobs_limit_beats_its_policys_and_that_beats_the_default(
    own_limit: int | None, policy: bytes, failed_before: int, state: State
) -> None:
    defaults = make_defaults({"curve": {"constant": "1s"}, "limit": 5})
    job = make_failing(attempts=failed_before, retry_limit=own_limit, policy=policy)
    assert decide(job, defaults=defaults).state is state


def test_a_job_without_anything_takes_the_default_policy() -> None:
    defaults = make_defaults({"curve": {"linear": {"base": "3s", "step": "2s"}}})
    waits = [decide(make_failing(attempts=n), defaults=defaults).ready_at for n in range(3)]
    assert waits == [NOW + 3_000, NOW + 5_000, NOW + 7_000]


# -- which word counts most


@pytest.mark.parametrize("retry_at", [None, NOW + 60_000])
@pytest.mark.parametrize("limit", [0, 25])
def test_kill_beats_retry_at_and_limit(retry_at: int | None, limit: int) -> None:
    change = decide(make_failing(retry_limit=limit), Failed(message="", kill=True, retry_at=retry_at))
    assert change.state is State.DEAD
    assert change.ready_at is None
    assert change.attempts == 1
    assert arithmetic(change) == {"verdict": "dead", "reason": "the worker asked for no further run"}


@pytest.mark.parametrize("retry_at", [0, NOW - 1, NOW, NOW + 1, NOW + 400 * DAY_MS, YEAR_9999])
@pytest.mark.parametrize(("limit", "failed_before"), [(0, 0), (2, 2), (25, 3)])
def test_retry_at_beats_limit_and_curve(retry_at: int, limit: int, failed_before: int) -> None:
    job = make_failing(attempts=failed_before, retry_limit=limit, policy=ZIZQ, carry=7.0)
    change = decide(job, Failed(message="", retry_at=retry_at))
    assert change.state is State.RETRYING
    assert change.ready_at == retry_at
    assert change.attempts == failed_before + 1
    assert change.carry == 7.0
    assert arithmetic(change)["due_at"] == retry_at


def test_a_retry_at_beyond_all_time_saturates() -> None:
    change = decide(failure=Failed(message="", retry_at=U64_MAX))
    assert change.state is State.RETRYING
    assert change.ready_at == 9_223_372_036_854_775_807
    assert arithmetic(change)["due_at"] == 9_223_372_036_854_775_807


# -- what is kept of the dead


@pytest.mark.parametrize(
    ("own", "default_ms", "purge_at"),
    [
        (None, 7 * DAY_MS, NOW + 604_800_000),
        (None, 0, None),
        (None, 1, NOW + 1),
        (b'{"dead_ms":0}', 7 * DAY_MS, None),
        (b'{"dead_ms":5}', 0, NOW + 5),
        (b'{"completed_ms":0}', 9, NOW + 9),
        (b"{}", 9, NOW + 9),
        (b'{"dead_ms":18446744073709551615}', 0, LAST_INSTANT),
        (b'{"dead_ms":9223372036854775807}', 0, LAST_INSTANT),
        (None, 1 << 80, LAST_INSTANT),
    ],
)
def test_the_dead_are_kept_for_their_retention(
    own: bytes | None, default_ms: int, purge_at: int | None
) -> None:
    """0 keeps nothing; what would pass the last instant saturates there instead of turning negative."""
    defaults = make_defaults(dead_ms=default_ms)
    assert dead_purge_at(own, defaults, NOW) == purge_at
    change = decide(make_failing(retention=own, retry_limit=0), defaults=defaults)
    assert change.state is State.DEAD
    assert change.purge_at == purge_at
    assert change.remove is (purge_at is None)


def test_a_job_that_is_retried_has_no_end_yet() -> None:
    change = decide(make_failing(retention=b'{"dead_ms":0}'))
    assert (change.purge_at, change.remove) == (None, False)


def test_a_policy_may_discard_what_is_exhausted_but_not_what_was_killed() -> None:
    policy = b'{"curve":{"constant":"1s"},"limit":0,"on_exhausted":"discard"}'
    assert decide(make_failing(policy=policy)).remove
    assert not decide(make_failing(policy=policy), Failed(message="", kill=True)).remove


@pytest.mark.parametrize(
    ("own", "default_ms", "purge_at"),
    [
        (None, 0, None),
        (None, 60_000, NOW + 60_000),
        (b'{"completed_ms":0}', 60_000, None),
        (b'{"completed_ms":1}', 0, NOW + 1),
        (b'{"dead_ms":1}', 60_000, NOW + 60_000),
        (b'{"completed_ms":18446744073709551615}', 0, LAST_INSTANT),
        (None, 1 << 70, LAST_INSTANT),
    ],
)
def test_the_completed_are_kept_for_theirs(own: bytes | None, default_ms: int, purge_at: int | None) -> None:
    assert completed_purge_at(own, make_defaults(completed_ms=default_ms), NOW) == purge_at


def test_defaults_keep_the_dead_a_week_and_the_completed_not_at_all() -> None:
    defaults = make_defaults()
    assert (defaults.completed_ms, defaults.dead_ms) == (0, 604_800_000)


def test_the_last_instant_is_that_of_63_bits() -> None:
    assert LAST_INSTANT == 9_223_372_036_854_775_807


# -- what a decision remembers


def test_the_phase_is_given_once_and_kept_for_life() -> None:
    assert decide(phase=0.25).phase == 0.25
    assert decide(make_failing(phase=0.75), phase=0.25).phase == 0.75
    assert decide(make_failing(phase=0.0), phase=0.25).phase == 0.0


def test_the_even_jitter_shifts_by_the_jobs_phase_and_draws_nothing() -> None:
    """Around a constant 10 s, `even` gives two jobs half a period of phase apart different waits, the same each time."""
    defaults = make_defaults({"preset": "even"})
    first, again, other = (
        decide(make_failing(phase=phase, attempts=3), defaults=defaults).ready_at for phase in (0.1, 0.1, 0.6)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("carry", "number", "wait_ms"),
    [
        (None, 0.0, 1_000),
        (None, 0.5, 2_000),
        (2_000.0, 0.0, 1_000),
        (2_000.0, 0.5, 3_500),
        (8_000.0, 0.5, 12_500),
    ],
)
def test_a_stateful_jitter_gets_back_what_it_left(carry: float | None, number: float, wait_ms: int) -> None:
    """AWS's decorrelated jitter draws from its base, 1 s, to three times the wait before: half-way from 1 s to 6 s is 3.5 s."""
    defaults = make_defaults({"preset": "aws_decorrelated"})
    change = decide(make_failing(attempts=5, carry=carry), defaults=defaults, rng=lambda: number)
    assert change.ready_at == NOW + wait_ms
    assert change.carry == pytest.approx(wait_ms)


def test_a_deadline_counts_from_the_first_failure() -> None:
    policy = b'{"curve":{"constant":"10s"},"deadline":"60s"}'
    early = decide(make_failing(attempts=1, policy=policy, first_failed_at=NOW - 50_000))
    late = decide(make_failing(attempts=1, policy=policy, first_failed_at=NOW - 50_001))
    assert (early.state, late.state) == (State.RETRYING, State.DEAD)
    assert decide(make_failing(policy=policy)).state is State.RETRYING


def test_the_record_tells_what_happened_and_the_arithmetic_of_what_follows() -> None:
    failure = Failed(message="timed out", error_type="TimeoutError", backtrace="at line 1")
    change = decide(make_failing(attempts=2, policy=ZIZQ), failure)
    record = change.attempt
    assert (record.job_key, record.attempt, record.outcome) == (7, 3, "error")
    assert (record.message, record.error_type, record.backtrace) == ("timed out", "TimeoutError", "at line 1")
    assert (record.dequeued_at, record.failed_at) == (NOW - 1_000, NOW)
    decision = arithmetic(change)
    assert decision.pop("reason").startswith("retry 3: 9.1 s")
    assert decision == {"verdict": "retry", "nominal_ms": 9_100, "wait_ms": 9_100, "due_at": NOW + 9_100}
    assert change.failed_at == NOW


def test_the_arithmetic_keeps_nominal_wait_draw_cap_and_wait_apart() -> None:
    """A constant 10 s under a cap of 4 s, full jitter, a draw of a quarter: 1 s."""
    policy = b'{"curve":{"constant":"10s"},"cap":"4s","jitter":"full"}'
    decision = arithmetic(decide(make_failing(policy=policy), rng=lambda: 0.25))
    del decision["reason"]
    assert decision == {
        "verdict": "retry",
        "nominal_ms": 4_000,
        "draw": 0.25,
        "cap_ms": 4_000,
        "wait_ms": 1_000,
        "due_at": NOW + 1_000,
    }


def test_plain_arithmetic_is_stored_without_words_and_shown_in_words() -> None:
    """Third failure: 9 s and the base of 100 ms."""
    stored = decide(make_failing(attempts=2, policy=ZIZQ)).attempt.decision
    due = NOW + 9_100
    assert stored == b'{"verdict":"retry","nominal_ms":9100,"wait_ms":9100,"due_at":%d}' % due
    assert shown_decision(stored, 3) == (
        b'{"verdict":"retry","reason":"retry 3: 9.1 s","nominal_ms":9100,"wait_ms":9100,"due_at":%d}' % due
    )


def test_the_words_of_a_deadline_are_stored_as_nothing_else_tells_them() -> None:
    policy = b'{"curve":{"constant":"10s"},"deadline":"8s","on_deadline":"clip"}'
    stored = decide(make_failing(policy=policy)).attempt.decision
    reason = "retry 1: 10 s nominal; the deadline cuts it short, so 8 s"
    assert json.loads(stored)["reason"] == reason
    assert shown_decision(stored, 1) == stored


@pytest.mark.parametrize(
    "stored",
    [
        b'{"verdict":"retry","reason":"retry 1: as 0.1.0 put it","nominal_ms":5.0,"wait_ms":5,"due_at":6}',
        b'{"verdict":"dead","reason":"the worker asked for no further run"}',
        b'{"verdict":"retry","wait_ms":5}',
        b'{"verdict":7}',
        b'{"verdict":"\xff"}',
        b"no JSON",
    ],
)
def test_a_decision_with_words_or_without_arithmetic_is_shown_as_it_is_stored(stored: bytes) -> None:
    assert shown_decision(stored, 1) == stored


def test_an_exhausted_policy_says_so() -> None:
    assert arithmetic(decide(make_failing(attempts=2, retry_limit=2))) == {
        "verdict": "dead",
        "reason": "all 2 retries are spent",
    }


def test_the_job_after_a_change_is_what_the_store_will_hold() -> None:
    job = make_job(state=State.IN_FLIGHT, attempts=1)
    retried = after(job, decide(make_failing(attempts=1, policy=ZIZQ)))
    assert (retried.state, retried.ready_at, retried.attempts) == (State.RETRYING, NOW + 4_100, 2)
    assert (retried.failed_at, retried.purge_at, retried.phase) == (NOW, None, 0.25)
    dead = after(job, decide(make_failing(attempts=1, retry_limit=1)))
    assert (dead.state, dead.ready_at, dead.purge_at) == (State.DEAD, job.ready_at, NOW + 604_800_000)


# -- a store that outlived its writer

UNREADABLE = [b"", b"{", b"\xff", b"[1]", b"[" * 5_000]


@pytest.mark.parametrize("own", [*UNREADABLE, b'{"curve":{"of_the_future":1}}'])
@pytest.mark.parametrize(("dead_ms", "kept_ms"), [(5_000, 5_000), (0, 7 * 86_400_000)])
def test_a_job_whose_policy_cannot_be_read_is_set_aside(own: bytes, dead_ms: int, kept_ms: int) -> None:
    """With its failure on record, and kept for a week even where dead jobs are not kept: nobody else has it."""
    defaults = make_defaults(dead_ms=dead_ms)
    change = decide(make_failing(attempts=2, policy=own), Failed(message="no"), defaults=defaults)
    assert (change.state, change.purge_at, change.remove) == (State.DEAD, NOW + kept_ms, False)
    assert (change.attempt.outcome, change.attempt.message, change.attempt.attempt) == ("corrupt", "no", 3)
    assert arithmetic(change)["reason"] == "corrupt: its policy cannot be read"


def test_a_job_whose_payload_cannot_be_read_is_set_aside() -> None:
    change = decide_corruption(make_failing(attempts=1), "its payload is missing", make_defaults(), NOW)
    assert (change.state, change.attempts) == (State.DEAD, 2)
    assert (change.attempt.outcome, change.attempt.error_type) == ("corrupt", "Corrupt")
    assert change.attempt.message == "its payload is missing"


@pytest.mark.parametrize("own", [*UNREADABLE, b'{"dead_ms":"soon","completed_ms":"late"}'])
def test_a_retention_that_cannot_be_read_gives_way_to_the_default(own: bytes) -> None:
    defaults = make_defaults(dead_ms=5_000, completed_ms=3_000)
    assert completed_purge_at(own, defaults, NOW) == NOW + 3_000
    assert dead_purge_at(own, defaults, NOW) == NOW + 5_000
    for job, failure in (
        (make_failing(retention=own, retry_limit=0), Failed(message="")),
        (make_failing(retention=own), Failed(message="", kill=True)),
    ):
        change = decide(job, failure, defaults=defaults)
        assert (change.state, change.purge_at) == (State.DEAD, NOW + 5_000)
        assert arithmetic(change)["reason"].endswith(
            "; the job's own retention cannot be read, so the default retention holds"
        )


def test_what_can_be_read_is_not_remarked_upon() -> None:
    change = decide(make_failing(policy=ZIZQ, retention=b'{"dead_ms":1}', retry_limit=0))
    assert arithmetic(change)["reason"] == "no retry is allowed"


# -- small questions


@pytest.mark.parametrize(
    ("ready_at", "state"),
    [
        (None, State.READY),
        (0, State.READY),
        (NOW, State.READY),
        (NOW + 1, State.SCHEDULED),
        (YEAR_9999, State.SCHEDULED),
    ],
)
def test_a_job_is_born_scheduled_only_if_its_time_is_to_come(ready_at: int | None, state: State) -> None:
    assert initial_state(ready_at, NOW) is state


def test_zizqs_form_is_told_from_a_policy_by_how_it_begins() -> None:
    assert is_zizq_backoff(ZIZQ)
    assert not is_zizq_backoff(b'{"curve":{"constant":"10s"}}')


def test_the_policy_of_a_job_without_one_is_the_default_itself() -> None:
    default = Policy.from_json({"curve": {"constant": "10s"}, "limit": 4})
    assert policy_of(None, None, default) is default
    held = policy_of(None, 9, default)
    assert held is not None
    assert held.limit == 9

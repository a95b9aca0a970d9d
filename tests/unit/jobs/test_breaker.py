"""Circuit breakers: instants and counts, calculated by hand."""

from __future__ import annotations

import math

import pytest

from anew.backoff import Policy
from anew.jobs.breaker import (
    LONGEST_ASKED_MS,
    BreakerRow,
    BreakerSettings,
    BreakerState,
    closed,
    cooldown_ms,
    held,
    may_start,
    ran,
)

NOW = 1_700_000_000_000
CLOSED, OPEN, HALF_OPEN = BreakerState
COOLDOWN = Policy.from_json({"curve": {"exponential": {"base": "30s"}}, "cap": "10m"})
EMPTY = BreakerRow(key="stripe")


def settings(**changes: object) -> BreakerSettings:
    given: dict[str, object] = {
        "failures": 0.5, "least": 4, "window_ms": 60_000, "cooldown": COOLDOWN, "spacing_ms": 100, "budget": 0.2
    }  # fmt: skip
    return BreakerSettings(**given | changes)  # type: ignore[arg-type]


USUAL = settings()


def after_runs(
    pattern: str, row: BreakerRow = EMPTY, now: int = NOW, of: BreakerSettings = USUAL
) -> BreakerRow:
    """The breaker after runs of one instant: ``+`` went well, ``-`` failed, ``.`` says nothing."""
    for mark in pattern:
        row = ran(row, of, {"+": True, "-": False, ".": None}[mark], now, job=9)
    return row


def opened(now: int = NOW) -> BreakerRow:
    row = after_runs("----", now=now)
    assert row.state is OPEN
    return row


@pytest.mark.parametrize(
    ("pattern", "state"),
    [
        ("---", CLOSED),  # 3 runs are too few
        ("----", OPEN),
        ("++--", OPEN),  # 2 of 4 are half
        ("+++--", CLOSED),  # 2 of 5 are not
        ("--++", CLOSED),  # what goes well opens nothing
        ("--++-", OPEN),  # 3 of 5
        ("....---", CLOSED),  # signals are no runs
    ],
)
def test_it_opens_at_a_share_of_failures_among_enough_runs(pattern: str, state: BreakerState) -> None:
    assert after_runs(pattern).state is state


def test_runs_weigh_less_with_age() -> None:
    row = after_runs("--+")
    later = ran(row, USUAL, True, NOW + 60_000, job=9)  # one window on: each weighs 1/e
    assert later.failures == pytest.approx(2 / math.e)
    assert later.runs == pytest.approx(3 / math.e + 1)
    assert later.at == NOW + 60_000


def test_failures_that_lie_far_apart_never_open_it() -> None:
    row = EMPTY
    for minute in range(100):  # 1 + 1/e + 1/e^2 + ... = 1.58 runs
        row = ran(row, USUAL, False, NOW + minute * 60_000, job=9)
    assert row.state is CLOSED
    assert row.runs == pytest.approx(1 / (1 - 1 / math.e))


def test_a_clock_that_was_set_back_makes_no_run_weigh_more() -> None:
    row = ran(after_runs("--"), USUAL, True, NOW - 3_600_000, job=9)
    assert (row.runs, row.failures, row.at) == (3, 2, NOW - 3_600_000)


def test_held_jobs_are_released_from_the_end_of_the_cooldown_on_at_the_rate() -> None:
    row = opened()
    instants = []
    for job in range(4):
        start = may_start(row, USUAL, NOW + job, job=job)
        row = start.row
        instants.append(start.held_until)
    assert instants == [NOW + 30_000, NOW + 30_100, NOW + 30_200, NOW + 30_300]


def test_the_first_job_after_the_cooldown_probes_and_the_others_are_held() -> None:
    row = opened()
    assert may_start(row, USUAL, NOW + 29_999, job=1).held_until == NOW + 30_000
    start = may_start(row, USUAL, NOW + 30_000, job=1)
    assert start.held_until is None
    assert (start.row.state, start.row.probe) == (HALF_OPEN, 1)
    other = may_start(start.row, USUAL, NOW + 30_050, job=2)
    assert other.held_until == NOW + 30_150
    assert may_start(other.row, USUAL, NOW + 30_050, job=3).held_until == NOW + 30_250


def probing(now: int = NOW + 30_000) -> BreakerRow:
    return may_start(opened(), USUAL, now, job=1).row


def test_a_probe_that_succeeds_closes_it_and_forgets_what_was_counted() -> None:
    row = ran(probing(), USUAL, True, NOW + 31_000, job=1)
    assert (row.state, row.runs, row.failures, row.opened, row.probe) == (CLOSED, 0, 0, 0, 0)
    assert after_runs("---", row, NOW + 31_000).state is CLOSED


def test_a_probe_that_fails_opens_it_for_longer() -> None:
    row, now = opened(), NOW
    waits = []
    for _ in range(6):
        waits.append(row.reopen_at - now)
        now = row.reopen_at
        row = may_start(row, USUAL, now, job=1).row
        row = ran(row, USUAL, False, now, job=1)
    assert waits == [30_000, 60_000, 120_000, 240_000, 480_000, 600_000]


def test_a_probe_that_says_nothing_leaves_its_place_to_the_next_job() -> None:
    row = ran(probing(), USUAL, None, NOW + 31_000, job=1)
    assert row.state is OPEN
    assert may_start(row, USUAL, NOW + 31_000, job=2).row.probe == 2


def test_a_probe_of_which_nothing_is_heard_is_followed_by_another_after_the_cooldown() -> None:
    row = probing()
    assert may_start(row, USUAL, NOW + 59_999, job=2).held_until is not None
    start = may_start(row, USUAL, NOW + 60_000, job=2)
    assert (start.held_until, start.row.probe) == (None, 2)
    assert ran(start.row, USUAL, True, NOW + 60_001, job=1) == start.row  # the first one is late


def test_runs_that_began_before_it_opened_change_nothing() -> None:
    row = opened()
    assert after_runs("+-.", row) == row
    half = probing()
    assert after_runs("+-.", half) == half


def test_released_jobs_are_never_closer_than_the_rate_when_a_probe_fails_between() -> None:
    row = opened()
    for job in range(3):  # 30.0, 30.1 and 30.2 s
        row = may_start(row, USUAL, NOW, job=job).row
    row = may_start(row, USUAL, NOW + 30_000, job=0).row
    row = ran(row, USUAL, False, NOW + 30_050, job=0)  # open until 90.05 s
    assert may_start(row, USUAL, NOW + 30_100, job=1).held_until == NOW + 90_050
    crowded = opened()
    for job in range(1_000):  # 30.0 to 129.9 s
        crowded = may_start(crowded, USUAL, NOW, job=job).row
    crowded = may_start(crowded, USUAL, NOW + 30_000, job=0).row
    crowded = ran(crowded, USUAL, False, NOW + 30_050, job=0)
    assert may_start(crowded, USUAL, NOW + 30_100, job=1).held_until == NOW + 130_000  # behind all of them


def test_what_the_service_asks_for_delays_the_probe_within_bounds() -> None:
    three = after_runs("---")
    for until, expected in (
        (NOW + 5_000, NOW + 30_000),  # the cooldown is longer
        (NOW + 45_000, NOW + 45_000),
        (NOW + 10**12, NOW + LONGEST_ASKED_MS),
    ):
        assert ran(three, USUAL, False, NOW, job=9, until=until).reopen_at == expected


def test_a_clock_that_was_set_back_does_not_hold_jobs_for_as_long() -> None:
    row = opened(NOW + 10**10)
    assert may_start(row, USUAL, NOW, job=1).held_until == NOW + LONGEST_ASKED_MS


def test_retries_are_held_beyond_their_share_and_first_runs_never() -> None:
    row = after_runs("+" * 10)  # 0.2 * 10 + 4 = 6 retries
    for job in range(6):
        start = may_start(row, USUAL, NOW, job=job, retry=True)
        assert start.held_until is None
        row = start.row
    seventh = may_start(row, USUAL, NOW, job=7, retry=True)
    eighth = may_start(seventh.row, USUAL, NOW, job=8, retry=True)
    assert (seventh.held_until, eighth.held_until) == (NOW + 100, NOW + 200)
    assert may_start(row, USUAL, NOW, job=7).held_until is None
    assert may_start(row, settings(budget=None), NOW, job=7, retry=True).held_until is None


def test_a_retry_that_succeeds_is_given_back_to_the_budget_and_one_that_fails_is_not() -> None:
    row = EMPTY
    for job in range(4):  # no runs: 4 retries
        row = may_start(row, USUAL, NOW, job=job, retry=True).row
    assert may_start(row, USUAL, NOW, job=4, retry=True).held_until is not None
    for ok, allowed in ((True, True), (None, True), (False, False)):
        ended = ran(row, USUAL, ok, NOW, job=0, retry=True)
        assert (may_start(ended, USUAL, NOW, job=4, retry=True).held_until is None) is allowed


def test_closing_by_hand_lets_jobs_start_and_keeps_the_instants_of_the_held_ones() -> None:
    row = held(opened(), USUAL, NOW).row
    by_hand = closed(row, NOW + 1)
    assert may_start(by_hand, USUAL, NOW + 1, job=1).held_until is None
    assert by_hand.next_release_at == NOW + 30_100


def test_the_cooldown_is_the_policys_nominal_wait_between_its_floor_and_its_ceiling() -> None:
    policy = Policy.from_json(
        {"curve": {"exponential": {"base": "1s"}}, "floor": "3s", "ceil": "6s", "jitter": "full"}
    )
    waits = [cooldown_ms(settings(cooldown=policy), opened) for opened in range(5)]
    assert waits == [3_000, 3_000, 3_000, 4_000, 6_000]

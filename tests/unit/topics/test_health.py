"""An endpoint's breaker, the warnings to its owner, and when it is disabled."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from anew.jobs.codec import LimitKey
from anew.jobs.key_limits import OPEN, Gate, KeyLimit, may_start, throttle_of
from anew.jobs.limits import FULL
from anew.topics.delivery_policy import Health, effective, layer_of
from anew.topics.health import HealthState, after_attempt, gate

NOW = 1_700_000_000_000


def health(**block: Any) -> Health:
    return effective([("", layer_of({"health": block}))])[0].health


def fail(state: HealthState, now: int, policy: Health, times: int = 1) -> HealthState:
    for _ in range(times):
        state = after_attempt(state, policy, False, now, now).state
    return state


def test_notifications_51_it_opens_at_the_tenth_failure_in_a_row_and_a_success_closes_it() -> None:
    policy = health()
    state = fail(HealthState(), NOW, policy, 9)
    assert gate(state, NOW) == OPEN
    state = after_attempt(state, policy, True, NOW, NOW).state
    state = fail(state, NOW, policy, 9)
    assert gate(state, NOW) == OPEN, "a success in between begins again"
    opened = after_attempt(state, policy, False, NOW, NOW)
    assert opened.opened
    assert gate(opened.state, NOW) == Gate(NOW + 30_000, probing=True)
    assert after_attempt(opened.state, policy, True, NOW + 1, NOW + 1).state == HealthState()


def test_each_failed_probe_keeps_it_open_twice_as_long_up_to_the_most() -> None:
    policy = health(breaker_failures=1, breaker_open=30, breaker_open_max=100)
    state, now = HealthState(), NOW
    waits = []
    for _ in range(4):
        state = fail(state, now, policy)
        waits.append(state.open_until - now)
        now = state.open_until
    assert waits == [30_000, 60_000, 100_000, 100_000]


def test_attempts_that_had_begun_before_it_opened_change_nothing() -> None:
    policy = health(breaker_failures=1)
    state = fail(HealthState(), NOW, policy)
    later = fail(state, NOW + 29_999, policy, 5)
    assert (later.opened, later.open_until) == (state.opened, state.open_until)


def test_an_attempt_that_began_before_the_probe_is_no_failed_probe_however_late_it_ends() -> None:
    policy = health(breaker_failures=1, breaker_open=1)
    state = fail(HealthState(), NOW, policy)
    assert state.open_until == NOW + 1_000
    late = after_attempt(state, policy, False, NOW + 999, NOW + 15_000).state
    assert (late.opened, late.open_until) == (1, NOW + 1_000)
    probe = after_attempt(late, policy, False, NOW + 1_000, NOW + 15_000).state
    assert (probe.opened, probe.open_until) == (2, NOW + 17_000)


def test_without_a_number_of_failures_it_never_opens() -> None:
    state = fail(HealthState(), NOW, health(breaker_failures=None), 1_000)
    assert gate(state, NOW) == OPEN


def test_what_an_endpoint_asks_for_closes_its_gate_also_after_a_success() -> None:
    policy = health()
    asked = after_attempt(HealthState(), policy, False, NOW, NOW, asked_ms=60_000).state
    assert gate(asked, NOW) == Gate(NOW + 60_000)
    assert gate(after_attempt(asked, policy, True, NOW + 1, NOW + 1).state, NOW + 1) == Gate(NOW + 60_000)
    assert gate(asked, NOW + 60_000) == OPEN


def test_notifications_52_warnings_come_once_each_and_then_it_is_disabled() -> None:
    policy = health(disable_after=3_600, disable_min_failures=3, breaker_failures=None)
    state, said = HealthState(), []
    for minutes in range(0, 61, 6):  # the tenth of an hour
        now = NOW + minutes * 60_000
        checkup = after_attempt(state, policy, False, now, now)
        state = checkup.state
        said.append(checkup.warning or ("disabled" if checkup.disabled else None))
    assert said == [None, None, None, None, None, 50, None, 70, None, 90, "disabled"]


def test_few_failures_over_a_long_time_disable_nothing() -> None:
    policy = health(disable_after=3_600, disable_min_failures=20)
    state = fail(HealthState(), NOW, policy)
    now = NOW + 10 * 3_600_000
    assert not after_attempt(state, policy, False, now, now).disabled


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200_000)), max_size=60))
def test_it_is_never_open_longer_than_the_most_and_never_after_a_success(
    steps: list[tuple[bool, int]],
) -> None:
    policy = health(breaker_failures=2, breaker_open=10, breaker_open_max=60)
    state, now = HealthState(), NOW
    for ok, wait in steps:
        now += wait
        state = after_attempt(state, policy, ok, now, now).state
        found = gate(state, now)
        assert found.closed_until <= now + 60_000
        assert not ok or found == OPEN
        assert found.probing == (state.opened > 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 90_000), st.integers(0, 8), st.lists(st.booleans(), max_size=8)), max_size=40
    )
)
def test_notifications_51_nothing_starts_while_it_is_open_and_then_one_alone_until_a_success(
    steps: list[tuple[int, int, list[bool]]],
) -> None:
    policy = health(breaker_failures=2, breaker_open=10, breaker_open_max=60)
    throttle = throttle_of(LimitKey("a", 8))
    state, now, running = HealthState(), NOW, 0
    for wait, wanted, ends in steps:
        now += wait
        starts = may_start(KeyLimit("a", throttle, FULL, gate=gate(state, now)), running, wanted, now).number
        if state.opened:
            assert starts == (1 if now >= state.open_until and not running and wanted else 0)
        running += starts
        for ok in ends[:running]:
            running -= 1
            state = after_attempt(state, policy, ok, now, now).state
            assert not ok or not state.opened

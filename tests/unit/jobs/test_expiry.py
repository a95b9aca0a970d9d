"""Expiry: by when a job must have been started."""

import pytest

from anew.errors import IllegalTransition, InvalidInput
from anew.jobs import Move, State, target
from anew.jobs.codec import LAST_INSTANT
from anew.jobs.expiry import expired, expires_at, is_expired

from .helpers import NOW, make_job


@pytest.mark.parametrize(
    ("at", "within_s", "expected"),
    [
        (None, None, None),
        (NOW + 5, None, NOW + 5),
        (NOW - 5, None, NOW - 5),
        (None, 60, NOW + 60_000),
        (None, 1.5, NOW + 1_500),
        (NOW + 5_000, 60, NOW + 5_000),
        (NOW + 90_000, 60, NOW + 60_000),
        (None, 10**400, NOW + 36_500 * 86_400_000),
    ],
)
def test_the_instant_of_expiry(at: int | None, within_s: object, expected: int | None) -> None:
    assert expires_at(at, within_s, NOW) == expected


def test_an_expiry_saturates() -> None:
    assert expires_at(None, 60, LAST_INSTANT) == LAST_INSTANT


@pytest.mark.parametrize("within_s", [0, -60, "60", True, float("nan"), float("inf"), {}])
def test_a_period_that_is_no_positive_number_is_refused(within_s: object) -> None:
    with pytest.raises(InvalidInput, match=r"expires_in: .* expected a positive number of seconds"):
        expires_at(None, within_s, NOW)


def test_a_job_past_its_time_is_not_started() -> None:
    """Checklist 100 of Faktory's protocol: at the take, and not at the instant itself."""
    assert not is_expired(None, NOW)
    assert not is_expired(NOW + 1, NOW)
    assert not is_expired(NOW, NOW)
    assert is_expired(NOW - 1, NOW)


def test_an_expired_job_is_called_off() -> None:
    job = make_job(attempts=2)
    after = expired(job, NOW + 60_000)
    assert (after.state, after.purge_at, after.attempts) == (State.CANCELLED, NOW + 60_000, 2)
    assert target(State.READY, Move.CANCEL) is State.CANCELLED


def test_a_job_that_has_ended_cannot_expire() -> None:
    with pytest.raises(IllegalTransition):
        expired(make_job(state=State.COMPLETED), None)

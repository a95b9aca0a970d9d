"""From what is wanted to policies: nobody dies, no more calls come than may, and what cannot be is refused by name."""

from __future__ import annotations

import pytest

from anew.errors import InvalidInput
from anew.lab.last_retry import last_retry
from anew.lab.propose import Wish, propose
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

pytest.importorskip("numpy", reason="pip install 'anew[lab]'")


@pytest.mark.parametrize(
    "wish",
    [
        Wish(outlive_ms=3 * DAY_MS, jobs=10_000, calls=50),
        Wish(outlive_ms=HOUR_MS, jobs=50_000, calls=200, first_ms=5 * SECOND_MS),
        Wish(outlive_ms=10 * MINUTE_MS, jobs=100, first_ms=SECOND_MS),
    ],
)
def test_every_job_outlives_the_outage_and_no_more_calls_come_than_may(wish: Wish) -> None:
    few, soon = propose(wish)
    for proposal in (few, soon):
        found = last_retry(proposal.policy)
        assert found is not None
        assert found.earliest_ms >= wish.outlive_ms
        assert proposal.outcome.dead == 0
        assert proposal.outcome.succeeded == wish.jobs
        assert proposal.fits
        assert proposal.policy.nominal(1) == wish.first_ms
        if wish.calls is not None:
            assert (proposal.outcome.peak_second_after or 0) <= wish.calls
        assert f"{proposal.policy.retries} retries" in proposal.why
    assert few.outcome.success_ms is not None
    assert soon.outcome.success_ms is not None
    assert soon.outcome.success_ms.max < few.outcome.success_ms.max
    assert few.policy.retries is not None
    assert soon.policy.retries is not None
    assert few.policy.retries < soon.policy.retries
    assert few.outcome.herd_calls < soon.outcome.herd_calls


@pytest.mark.parametrize(
    ("wish", "cap_ms"),
    [
        # Spread over less than 625 s, a quarter more than 50,000 / 100, too many come; above are 15 min, a quarter of the hour.
        (Wish(outlive_ms=HOUR_MS, jobs=50_000, calls=100, first_ms=5 * SECOND_MS), 15 * MINUTE_MS),
        (Wish(outlive_ms=5 * MINUTE_MS, jobs=100, first_ms=SECOND_MS), MINUTE_MS),
        # A first wait of 10 s leaves no room for a longest one of a quarter.
        (Wish(outlive_ms=40 * SECOND_MS, jobs=100), None),
    ],
)
def test_where_one_policy_has_the_fewest_calls_and_is_soonest_done_it_stands_alone(
    wish: Wish, cap_ms: int | None
) -> None:
    (only,) = propose(wish)
    found = last_retry(only.policy)
    assert found is not None
    assert found.earliest_ms >= wish.outlive_ms
    assert only.outcome.succeeded == wish.jobs
    assert only.fits
    assert only.policy.nominal(1) == wish.first_ms
    assert only.policy.cap_ms == cap_ms


def test_where_too_many_jobs_meet_too_narrow_a_service_it_is_said() -> None:
    """A job a second for 10,000 jobs takes almost three hours, and the outage lasts ten minutes."""
    assert not any(
        proposal.fits for proposal in propose(Wish(outlive_ms=10 * MINUTE_MS, jobs=10_000, calls=1))
    )


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        (Wish(outlive_ms=DAY_MS, jobs=0), "jobs"),
        (Wish(outlive_ms=DAY_MS, jobs=10**6), "jobs"),
        (Wish(outlive_ms=DAY_MS, jobs=1, calls=0), "calls"),
        (Wish(outlive_ms=15 * SECOND_MS, jobs=1), "outlive"),
        (Wish(outlive_ms=DAY_MS, jobs=1, first_ms=0), "first"),
    ],
)
def test_what_cannot_be_is_refused(wish: Wish, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        propose(wish)
    assert refused.value.field == field

"""From what is wanted to policies: nobody dies, no more calls come than may, and what cannot be is refused by name."""

from __future__ import annotations

import pytest

from anew.errors import InvalidInput
from anew.lab.last_retry import last_retry
from anew.lab.propose import Wish, propose
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

pytest.importorskip("numpy", reason="pip install 'anew[lab]'")


BEST = {
    "few calls": lambda outcome: outcome.herd_calls,
    "soon done": lambda outcome: outcome.success_ms.max,
    "low peak": lambda outcome: outcome.peak_second_after,
}


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        (Wish(outlive_ms=3 * DAY_MS, jobs=10_000, calls=50), ["few calls", "soon done"]),
        (
            Wish(outlive_ms=HOUR_MS, jobs=50_000, calls=200, first_ms=5 * SECOND_MS),
            ["few calls", "soon done", "low peak"],
        ),
        (Wish(outlive_ms=10 * MINUTE_MS, jobs=100, first_ms=SECOND_MS), ["few calls", "soon done"]),
        # Spread over less than 625 s, a quarter more than 50,000 / 100, too many come; above are 15 min, a quarter of the hour.
        (
            Wish(outlive_ms=HOUR_MS, jobs=50_000, calls=100, first_ms=5 * SECOND_MS),
            ["few calls, soon done", "low peak"],
        ),
        # A first wait of 10 s leaves no room for a longest one of a quarter.
        (Wish(outlive_ms=40 * SECOND_MS, jobs=100), ["few calls, soon done, low peak"]),
    ],
)
def test_every_job_outlives_the_outage_and_each_policy_is_the_best_at_what_it_is_named_after(
    wish: Wish, names: list[str]
) -> None:
    proposals = propose(wish)
    assert [proposal.name for proposal in proposals] == names
    for proposal in proposals:
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
        for name in proposal.name.split(", "):
            others = [BEST[name](other.outcome) for other in proposals if other is not proposal]
            assert all(BEST[name](proposal.outcome) < figure for figure in others)


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

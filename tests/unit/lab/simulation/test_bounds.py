"""What fresh calls are certain to cost: by hand, and never more than the simulation makes."""

from __future__ import annotations

from typing import Any

import pytest

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.simulation.bounds import admit_calls, foreseen
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate

ONE_A_SECOND = Scenario(jobs=1, base_rate=1, outage_ms=100_000)
"""Until 10 min and twice the outage, 800 s: 800 fresh calls, of which those at 1 ... 99 s are refused."""


def every(wait: str, **fields: Any) -> Policy:
    return Policy.from_json({"curve": {"constant": wait}, "limit": 25} | fields)


def test_retries_in_the_outage_by_hand() -> None:
    """Each 10 s: 99 calls come once more, 89 of them twice, then 79 ... 9: 540."""
    assert foreseen(every("10s"), ONE_A_SECOND) == 800 + 540
    # Of five retries 99 + 89 + 79 + 69 + 59.
    assert foreseen(every("10s", limit=5), ONE_A_SECOND) == 800 + 395
    # Waits of 0 to 20 s may take 20 each: 99 + 79 + 59 + 39 + 19.
    assert foreseen(every("20s", jitter="full", limit=5), ONE_A_SECOND) == 800 + 295


def test_what_a_deadline_or_the_horizon_may_cut_off_is_not_counted() -> None:
    assert foreseen(every("10s", deadline="1m"), ONE_A_SECOND) == 800
    # Until 95 s nothing is over: of 95 calls those at 1 ... 84 s are sure to retry, then 74 ... 4.
    cut = Scenario(jobs=1, base_rate=1, outage_ms=100_000, horizon_ms=95_000)
    assert foreseen(every("10s"), cut) == 95 + 84 + 74 + 64 + 54 + 44 + 34 + 24 + 14 + 4


@pytest.mark.parametrize(
    "form",
    ["even", "celery", "sidekiq", "zizq", "aws_decorrelated", {"curve": {"constant": 0}, "limit": 3},
     {"curve": {"constant": "7s"}, "deadline": "40s"}, {"curve": {"constant": "7s"}, "limit": 0}],
)  # fmt: skip
@pytest.mark.parametrize("outage_ms", [0, 1_234, 100_000])
@pytest.mark.parametrize("horizon_ms", [None, 120_000])
def test_it_is_never_more_than_is_made(form: Any, outage_ms: int, horizon_ms: int | None) -> None:
    policy = Policy.from_json(form)
    scenario = Scenario(jobs=1, base_rate=2.5, outage_ms=outage_ms, horizon_ms=horizon_ms)
    outcome = simulate(policy, scenario)
    assert outcome.fresh is not None
    assert foreseen(policy, scenario) <= outcome.fresh.calls + outcome.fresh.retries


def test_the_bound_says_what_was_foreseen() -> None:
    admit_calls(every("10s"), ONE_A_SECOND, 1_340)
    with pytest.raises(
        InvalidInput, match=r"^base_rate: 1 fresh call .* at least 1,340 calls .* at most 1,339: "
    ):
        admit_calls(every("10s"), ONE_A_SECOND, 1_339)


def test_where_there_are_no_fresh_calls_none_are_foreseen() -> None:
    assert foreseen(every("10s"), Scenario(jobs=1, outage_ms=100_000, capacity=1)) == 0

"""What fresh calls are certain to cost: by hand, and never more than the simulation makes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from anew.backoff import Policy
from anew.errors import InvalidInput, TooLarge
from anew.lab.simulation.foresee import Foreseen, admit_calls, admit_time, foreseen
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate

ONE_A_SECOND = Scenario(jobs=1, base_rate=1, outage_ms=100_000)
"""Until 10 min and twice the outage, 800 s: 800 fresh calls, of which those at 1 ... 99 s are refused."""


def every(wait: str, **fields: Any) -> Policy:
    return Policy.from_json({"curve": {"constant": wait}, "limit": 25} | fields)


def test_retries_in_the_outage_by_hand() -> None:
    """Each 10 s: 99 calls come once more, 89 of them twice, then 79 ... 9: 540. All are back at the end, and call once."""
    assert foreseen(every("10s"), ONE_A_SECOND) == Foreseen(calls=800 + 540, queued=800)
    # Of five retries 99 + 89 + 79 + 69 + 59; whoever came before 50 s is dead at the end.
    assert foreseen(every("10s", limit=5), ONE_A_SECOND) == Foreseen(calls=800 + 395, queued=800 - 49)
    # Waits of 0 to 20 s may take 20 each: 99 + 79 + 59 + 39 + 19; nor is any sure to be alive, if there are five.
    assert foreseen(every("20s", jitter="full", limit=5), ONE_A_SECOND) == Foreseen(800 + 295, 800 - 99)


def test_what_a_deadline_or_the_horizon_may_cut_off_is_not_counted() -> None:
    assert foreseen(every("10s", deadline="1m"), ONE_A_SECOND) == Foreseen(800, 701)
    # Until 95 s nothing is over: of 95 calls those at 1 ... 84 s are sure to retry, then 74 ... 4; one is in the queue.
    cut = Scenario(jobs=1, base_rate=1, outage_ms=100_000, horizon_ms=95_000)
    found = foreseen(every("10s"), cut)
    assert found.calls == 95 + 84 + 74 + 64 + 54 + 44 + 34 + 24 + 14 + 4


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
    found = foreseen(policy, scenario)
    assert found.queued <= found.calls <= outcome.fresh.calls + outcome.fresh.retries


def test_both_bounds_say_what_was_reckoned() -> None:
    policy = every("10s")
    admit_calls(policy, ONE_A_SECOND, 1_340)
    with pytest.raises(
        InvalidInput, match=r"^base_rate: 1 fresh call .* at least 1,340 calls .* at most 1,339: "
    ):
        admit_calls(policy, ONE_A_SECOND, 1_339)
    # Two microseconds for each in the queue; 20 for any where each decision is the engine's own.
    admit_time([policy] * 125, ONE_A_SECOND, 0.2, exact=False)
    with pytest.raises(
        TooLarge, match=r"100,800 calls into the queue under 126 policies, and 200 ms .* 100,000"
    ) as caught:
        admit_time([policy] * 126, ONE_A_SECOND, 0.2, exact=False)
    assert caught.value.field == "time"
    with pytest.raises(
        TooLarge, match=r"at least 10,720 calls under 8 policies, and 200 ms .* 10,000 at most"
    ):
        admit_time([policy] * 8, ONE_A_SECOND, 0.2, exact=True)


@pytest.mark.parametrize(
    ("scenario", "limit_s", "calls"),
    [
        (ONE_A_SECOND, 0.1, 1_340),
        (ONE_A_SECOND, None, 1_340),
        (Scenario(jobs=1, outage_ms=100_000, capacity=1), 0.1, 0),
    ],
)
def test_whoever_is_patient_or_has_no_fresh_calls_is_admitted(
    scenario: Scenario, limit_s: float | None, calls: int
) -> None:
    many = [every("10s")] * 9
    assert foreseen(many[0], scenario).calls == calls
    refused = limit_s is not None and calls > 0
    with pytest.raises(TooLarge) if refused else nullcontext():
        admit_time(many, scenario, limit_s, exact=True)
    with pytest.raises(InvalidInput) if calls else nullcontext():
        admit_calls(many[0], scenario, 1)

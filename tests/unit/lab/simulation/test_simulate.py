"""Simulations that can be checked by hand, and both ways giving the same outcome."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from anew.backoff import PRESETS, Policy
from anew.errors import InvalidInput
from anew.lab.rhythm import Silence
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate


def policy_of(form: Any, **fields: Any) -> Policy:
    return Policy.from_json({"curve": {"constant": form}, "limit": 25} | fields)


def test_constant_waits_by_hand() -> None:
    """Ten jobs, 30 s apart, an outage of 100 s: retries at 30, 60, 90 fail, at 120 all succeed."""
    outcome = simulate(policy_of("30s"), Scenario(jobs=10, outage_ms=100_000))
    assert [(line.retry, line.calls, line.succeeded, line.median_ms) for line in outcome.retries] == [
        (1, 10, 0, 30_000),
        (2, 10, 0, 60_000),
        (3, 10, 0, 90_000),
        (4, 10, 10, 120_000),
    ]
    assert (outcome.succeeded, outcome.dead, outcome.waiting) == (10, 0, 0)
    assert (outcome.calls, outcome.wasted) == (40, 30)
    assert (outcome.peak_second, outcome.peak_minute) == (10, 20)  # any 60 s have two of the retries
    assert (outcome.peak_second_after, outcome.peak_minute_after, outcome.first_minute_after) == (10, 10, 10)
    assert outcome.success_ms is not None
    assert (outcome.success_ms.p50, outcome.success_ms.max) == (120_000, 120_000)
    assert outcome.through_ms == 120_000
    # From 30 to 120 s there are 91 seconds, four of which have a call.
    assert outcome.silence == Silence(1_000, pytest.approx(87 / 91))
    assert outcome.even_second == pytest.approx(40 / 91)
    assert outcome.herd_calls == 40
    assert outcome.dots == ((30_000, 60_000, 90_000, 120_000),) * 10
    assert sum(outcome.load.counts) == 40


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("limited", [{}, {"capacity": 1_000_000}])
def test_a_herd_about_the_border_of_a_minute_is_one_herd(limited: Any, exact: bool) -> None:
    """55 s and up to 10 s more: all 1,000 calls come between 55 and 65 s, half of them in each minute of the clock.

    In a second about 100 come, and the fullest of the 91 that begin on a tenth has more: not 40, which are four times
    the square root.
    """
    policy = policy_of("55s", jitter={"add": "10s"}, limit=1)
    outcome = simulate(policy, Scenario(jobs=1_000, success=0, **limited), exact=exact)
    assert (outcome.calls, outcome.peak_minute) == (1_000, 1_000)
    assert 100 < outcome.peak_second < 140
    assert outcome.peak_second_after is None
    assert outcome.peak_minute_after is None
    assert outcome.first_minute_after is None


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("limited", [{}, {"capacity": 1_000_000}])
def test_what_meets_the_service_when_it_returns(limited: Any, exact: bool) -> None:
    """Waits of 10, 20, 40 and 80 s: calls at 10, 30, 70 and 150 s. Of an outage of 100 s the last meets the service.

    Of one of 70 s the third does, which is made as it ends; of one that began a minute later the peaks would be the same.
    A quarter of an hour later all are dead, and nobody comes.
    """
    waits = Policy.from_json({"curve": {"exponential": {"base": "10s"}}, "limit": 4})
    for outage_ms, calls in (
        (100_000, (50, 50, 50)),
        (70_000, (50, 50, 50)),
        (70_001, (50, 50, 0)),
        (900_000, (0, 0, 0)),
    ):
        outcome = simulate(waits, Scenario(jobs=50, outage_ms=outage_ms, **limited), exact=exact)
        found = outcome.peak_second_after, outcome.peak_minute_after, outcome.first_minute_after
        assert found == calls
        assert (outcome.peak_second, outcome.peak_minute) == (50, 100)  # 10 and 30 s


@pytest.mark.parametrize("exact", [False, True])
def test_retries_that_succeed_only_sometimes_come_back_after_the_outage(exact: bool) -> None:
    """Every 20 s, and no success: after 50 s calls come at 60, 80 and 100 s, three times ten within a minute."""
    found = simulate(policy_of("20s", limit=5), Scenario(jobs=10, outage_ms=50_000, success=0), exact=exact)
    assert (found.peak_second_after, found.peak_minute_after, found.first_minute_after) == (10, 30, 30)
    assert (found.peak_second, found.peak_minute) == (10, 30)


def test_latency_dates_success_and_the_next_wait() -> None:
    """Refusals cost nothing; a failing call of 2 s delays the next one; a success is dated when it is answered."""
    outcome = simulate(policy_of("10s"), Scenario(jobs=1, outage_ms=15_000, latency_ms=2_000))
    assert outcome.dots == ((10_000, 20_000),)
    assert outcome.through_ms == 22_000
    hopeless = simulate(policy_of("10s", limit=3), Scenario(jobs=1, latency_ms=2_000, success=0))
    assert hopeless.dots == ((10_000, 22_000, 34_000),)
    assert hopeless.through_ms == 36_000  # it dies when its last call has failed


def test_an_answer_after_the_time_out_is_a_failure() -> None:
    outcome = simulate(policy_of("10s", limit=2), Scenario(jobs=2, latency_ms=2_000, timeout_ms=1_500))
    assert outcome.dots == ((10_000, 21_500),) * 2
    assert (outcome.succeeded, outcome.dead) == (0, 2)
    just = simulate(policy_of("10s"), Scenario(jobs=2, latency_ms=1_500, timeout_ms=1_500))
    assert just.succeeded == 2


def test_a_horizon_leaves_jobs_waiting() -> None:
    outcome = simulate(policy_of("10s"), Scenario(jobs=4, success=0, horizon_ms=35_000))
    assert (outcome.dead, outcome.waiting, outcome.calls) == (0, 4, 12)
    assert outcome.through_ms is None


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("horizon_ms", "bin_ms", "bins"), [(40_000, 100, 400), (40_050, 100, 401)])
def test_no_bin_lies_beyond_the_horizon(horizon_ms: int, bin_ms: int, bins: int, exact: bool) -> None:
    """Calls at 10, 20, 30 and 40 s: one exactly at the horizon is made, and belongs to the bin that ends there."""
    outcome = simulate(policy_of("10s"), Scenario(jobs=4, success=0, horizon_ms=horizon_ms), exact=exact)
    assert outcome.calls == sum(outcome.load.counts) == 16
    assert (outcome.load.bin_ms, len(outcome.load.counts)) == (bin_ms, bins)
    assert outcome.load.counts[-1] == 4


def test_deadlines_end_jobs() -> None:
    """Waits of 10 s, dead by 25 s after the first failure: two retries; clipped to it, three."""
    finish = simulate(policy_of("10s", deadline="25s"), Scenario(jobs=3, success=0))
    assert (finish.dead, finish.calls, finish.through_ms) == (3, 6, 20_000)
    clip = simulate(policy_of("10s", deadline="25s", on_deadline="clip"), Scenario(jobs=3, success=0))
    assert clip.dots[0] == (10_000, 20_000, 25_000)


def test_no_retry_at_all() -> None:
    outcome = simulate(policy_of("10s", limit=0), Scenario(jobs=3))
    assert (outcome.calls, outcome.dead, outcome.through_ms) == (0, 3, 0)
    assert (outcome.load.counts, outcome.peak_second) == ((), 0)
    assert (outcome.even_second, outcome.silence) == (None, None)
    assert outcome == simulate(policy_of("10s", limit=0), Scenario(jobs=3), exact=True)


def test_success_is_a_matter_of_chance_of_the_stated_size() -> None:
    """Of 10,000 jobs a tenth fails each time: 1,000 +- 30 at the first retry, five of those allowed."""
    outcome = simulate(policy_of("10s"), Scenario(jobs=10_000, success=0.9))
    assert abs(outcome.retries[0].succeeded - 9_000) < 150
    assert abs(outcome.retries[1].succeeded - 900) < 100
    assert outcome.succeeded == 10_000


def test_first_failures_are_spread_over_the_time_stated() -> None:
    """Quarters of the time get quarters of the jobs, within five times the square root of n p q."""
    outcome = simulate(policy_of("1h"), Scenario(jobs=4_000, over_ms=600_000))
    first = outcome.retries[0]
    assert 3_600_000 <= first.earliest_ms < 3_605_000
    assert 4_195_000 < first.latest_ms < 4_200_000
    assert abs(first.median_ms - 3_900_000) < 5 * 600_000 / 2 / 4_000**0.5
    assert outcome.success_ms is not None
    assert outcome.success_ms.p50 == 3_600_000  # since each job's own first failure


def test_even_spreads_what_constant_waits_pile_up() -> None:
    scenario = Scenario(jobs=6_000, success=0)
    pile = simulate(policy_of("100s", limit=3), scenario)
    spread = simulate(policy_of("100s", limit=3, jitter="even"), scenario)
    assert pile.peak_second == 6_000
    # 6,000 jobs in 100 s are 60 a second. First waits take 50 to 150 s, later ones 100: every second is as full.
    assert 60 <= spread.peak_second <= 63


SCENARIOS: list[dict[str, Any]] = [
    {"jobs": 40, "success": 0},
    {"jobs": 60, "outage_ms": 7_200_000, "success": 0.7},
    {"jobs": 50, "over_ms": 600_000, "outage_ms": 3_600_000, "success": 0.3, "latency_ms": 250,
     "timeout_ms": 5_000, "phase": "hash", "seed": 9},
    {"jobs": 30, "success": 0, "horizon_ms": 86_400_000, "over_ms": 1_000},
    {"jobs": 30, "outage_ms": 30_000, "capacity": 3, "timeout_ms": 2_000, "success": 0.8, "workers": 5,
     "latency_ms": 30, "base_rate": 0.4, "horizon_ms": 120_000},
    {"jobs": 25, "workers": 1, "latency_ms": 200, "over_ms": 5_000, "horizon_ms": 7_200_000},
    {"jobs": 20, "workers": 2, "latency_ms": 900, "outage_ms": 100_000, "base_rate": 0.2, "horizon_ms": 90_000},
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=range(len(SCENARIOS)))
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_both_ways_give_the_same_outcome(name: str, scenario: dict[str, Any]) -> None:
    """The vectorised form against `decide_failure`, every preset, every number of the outcome."""
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    policy = Policy.from_json({"preset": name, "limit": 12})
    assert simulate(policy, Scenario(**scenario)) == simulate(policy, Scenario(**scenario), exact=True)


@pytest.mark.parametrize(
    "form",
    [
        {"curve": {"constant": "30s"}, "limit": None, "deadline": "1h"},
        {
            "curve": {"constant": "30s"},
            "limit": None,
            "deadline": "10m",
            "on_deadline": "clip",
            "jitter": "full",
        },
        {
            "curve": {"constant": "1s"},
            "jitter": {"decorrelated": 3},
            "ceil": "1m",
            "deadline": "10m",
            "limit": None,
        },
        {
            "phases": [{"count": 3, "curve": {"constant": 0}}, {"count": 4, "curve": {"constant": "1m"}}],
            "limit": None,
        },
        {"curve": {"constant": "1m"}, "on_exhausted": "discard", "limit": 2},
    ],
    ids=range(5),
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=range(len(SCENARIOS)))
def test_deadlines_phases_and_ends_are_the_same_both_ways(form: Any, scenario: dict[str, Any]) -> None:
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    policy = Policy.from_json(form)
    assert simulate(policy, Scenario(**scenario)) == simulate(policy, Scenario(**scenario), exact=True)


def test_a_scenario_in_blocks_is_one_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squeezing out ended jobs moves others across the borders of blocks; nobody may notice."""
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    from anew.lab.simulation import fast

    scenario = Scenario(jobs=500, over_ms=60_000, outage_ms=600_000, success=0.4)
    policy = Policy.from_json(
        {"curve": {"exponential": {"base": "1s"}}, "jitter": {"decorrelated": 3}, "ceil": "5m"}
    )
    whole = simulate(policy, scenario)
    monkeypatch.setattr(fast, "BLOCK", 7)
    assert simulate(policy, scenario) == whole


def test_the_same_question_gets_the_same_answer() -> None:
    policy = Policy.from_json("even")
    assert simulate(policy, Scenario(success=0.5)) == simulate(policy, Scenario(success=0.5))
    assert simulate(policy, Scenario(success=0.5)) != simulate(policy, Scenario(success=0.5, seed=2))


@pytest.mark.parametrize(
    ("form", "scenario", "given", "field"),
    [
        ({"limit": None}, {"success": 0}, {}, "horizon"),
        ({"limit": None}, {"jobs": 1, "outage_ms": 86_400_000}, {"max_calls": 50_000}, "policy"),
        ({}, {"success": 0}, {"max_calls": 24_999}, "jobs"),
        ({}, {"jobs": 100_001}, {"exact": True}, "jobs"),
        ({}, {"jobs": 10, "base_rate": 100_000, "horizon_ms": 86_400_000}, {}, "base_rate"),
        ({}, {"jobs": 1_000_000}, {"max_calls": 999_999}, "jobs"),
        ({}, {"jobs": 2_000, "capacity": 5, "success": 0}, {"max_calls": 300_000}, "jobs"),
    ],
)
def test_work_beyond_bounds_ends_with_an_error(form: Any, scenario: Any, given: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        simulate(policy_of("5s", **form), Scenario(**scenario), **given)
    assert caught.value.field == field
    assert "expected" in str(caught.value)


@pytest.mark.parametrize(
    ("bound", "scenario", "exact"),
    [
        ("MAX_CALLS", {}, False),
        ("MAX_COUPLED_CALLS", {"capacity": 1_000}, False),
        ("MAX_EXACT_CALLS", {}, True),
        ("MAX_EXACT_CALLS", {"capacity": 1_000}, True),
    ],
)
def test_each_way_has_a_bound_of_its_own(
    bound: str, scenario: Any, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifteen hundred jobs with three retries each are 4,500 calls."""
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    policy, given = policy_of("5s", limit=3), Scenario(jobs=1_500, success=0, **scenario)
    module = import_module("anew.lab.simulation.simulate")
    monkeypatch.setattr(module, bound, 4_500)
    assert simulate(policy, given, exact=exact).calls == 4_500
    monkeypatch.setattr(module, bound, 4_499)
    with pytest.raises(InvalidInput, match="more than 4,499 calls"):
        simulate(policy, given, exact=exact)


@pytest.mark.parametrize("scenario", [{}, {"capacity": 1_000}])
def test_what_is_certain_to_be_too_much_is_refused_before_it_is_done(scenario: Any) -> None:
    """Nothing ever succeeds, so all retries will be made: 200,000 of each job, or a billion of all."""
    told: list[float] = []
    for retries, jobs, words in (
        (200_000, 2, r"^policy: .* retried more than [0-9,]+ times; expected .*a limit"),
        (1_000, 1_000_000, r"^jobs: .* more than [0-9,]+ calls; expected fewer jobs or retries"),
    ):
        with pytest.raises(InvalidInput, match=words):
            simulate(
                policy_of("1ms", limit=retries),
                Scenario(jobs=jobs, success=0, **scenario),
                progress=told.append,
            )
    assert told == []


@pytest.mark.parametrize("exact", [False, True])
def test_fresh_calls_that_are_too_many_are_foreseen(exact: bool) -> None:
    """Fifty a second until 6 h 10 min are 1,110,000; those of the outage, 540,000, call every 10 min until it is over.

    Of a call t before the end of the outage the k-th retry is certain if t > (k - 1) * 10 min: of the 180 minutes that
    are 180, 170, ... 10, in all 1,710 minutes, or 5,130,000 retries, less one for each k, as the last comes at the end.
    """
    told: list[float] = []
    scenario = Scenario(jobs=20, base_rate=50, outage_ms=10_800_000, capacity=100, timeout_ms=10_000)
    with pytest.raises(InvalidInput) as caught:
        simulate(
            policy_of("10m", limit=25), scenario, exact=exact, progress=told.append, max_calls=10_000_000
        )
    assert str(caught.value) == (
        "base_rate: 50 fresh calls a second until 6 h 10 min, with an outage of 3 h, are at least 6,239,982 calls with "
        "their retries; expected at most 1,000,000: a lower base rate, a shorter outage, or an earlier horizon"
    )
    assert (caught.value.field, told) == ("base_rate", [])


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("scenario", [{}, {"workers": 5}])
def test_of_a_long_life_only_the_beginning_is_shown(scenario: Any, exact: bool) -> None:
    outcome = simulate(policy_of("1s", limit=1_500), Scenario(jobs=2, success=0, **scenario), exact=exact)
    assert outcome.calls == 3_000
    assert [len(job) for job in outcome.dots] == [1_000, 1_000]
    assert outcome.dots[0][-1] == 1_000_000


def test_without_numpy_small_herds_go_the_exact_way(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = simulate(policy_of("5s"), Scenario(jobs=20), exact=True)
    # By its full name: anew.lab.simulation.simulate is the function.
    monkeypatch.setattr(import_module("anew.lab.simulation.simulate"), "has_numpy", lambda: False)
    assert simulate(policy_of("5s"), Scenario(jobs=20)) == expected
    with pytest.raises(InvalidInput, match=r"at most 20000 without NumPy \(pip install 'anew\[lab\]'\)"):
        simulate(policy_of("5s"), Scenario(jobs=20_001))


def test_progress_grows_to_the_end_and_can_stop_the_work() -> None:
    told: list[float] = []
    simulate(policy_of("5s"), Scenario(jobs=100, success=0), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0

    class Enough(Exception):
        pass

    def stop(share: float) -> None:
        raise Enough

    with pytest.raises(Enough):
        simulate(policy_of("5s"), Scenario(jobs=100, success=0), progress=stop)

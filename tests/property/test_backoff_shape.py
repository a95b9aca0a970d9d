"""The law of each preset as a distribution: bounds, mean, spread, no holes. Seeds are fixed.

Thresholds let a right law pass with room (about one in ten thousand runs would fail) and the wrong laws at
the end of the file must fail them.
"""

import math
from collections.abc import Callable
from random import Random
from statistics import fmean, pstdev
from typing import Any

import pytest

from anew.backoff import Draws, Policy, Previous, Wait, next_wait, phase_of_id, phase_of_ordinal, preset

N = 20_000


def sample(policy: Policy, retry: int, draws: Callable[[int], Draws]) -> list[float]:
    """The waits of N jobs at one retry, in seconds."""
    waits = []
    for job in range(N):
        wait = next_wait(policy, retry, draws(job))
        assert isinstance(wait, Wait)
        waits.append(wait.wait_ms / 1000)
    return waits


def by_rng(seed: int) -> Callable[[int], Draws]:
    draws = Draws(Random(seed).random)
    return lambda job: draws


def by_id(job: int) -> Draws:
    return Draws(lambda: math.nan, b"job-%d" % job)


def distance(values: list[float], distribution: Callable[[float], float]) -> float:
    """Kolmogorov-Smirnov distance to a distribution, times the root of N."""
    ordered = sorted(distribution(value) for value in values)
    count = len(ordered)
    worst = max(max((i + 1) / count - u, u - i / count) for i, u in enumerate(ordered))
    return worst * math.sqrt(count)


def check_uniform(values: list[float], low: float, high: float) -> None:
    """Bounds, mean, spread, shape and no holes of a uniform law."""
    width = high - low
    assert low - 0.001 <= min(values)
    assert max(values) < high
    assert fmean(values) == pytest.approx((low + high) / 2, abs=4 * width / math.sqrt(12 * len(values)))
    assert pstdev(values) == pytest.approx(width / math.sqrt(12), rel=0.025)
    assert distance(values, lambda value: (value - low) / width) < 2.3
    filled = {int((value - low) / width * 200) for value in values}
    assert filled >= set(range(200))


@pytest.mark.parametrize(
    ("name", "retry", "low", "high"),
    [
        ("zizq", 1, 16, 46),
        ("zizq", 5, 640, 790),
        ("zizq", 25, 390_640, 391_390),
        ("buckets", 1, 1, 27),
        ("buckets", 6, 216, 512),
        ("buckets", 25, 15_625, 19_683),
        ("aws_full", 3, 0, 4),
        ("aws_full", 9, 0, 20),
        ("aws_equal", 3, 2, 4),
        ("aws_equal", 9, 10, 20),
        ("aws_decorrelated", 1, 1, 3),
    ],
)
def test_real_valued_windows_are_uniform(name: str, retry: int, low: float, high: float) -> None:
    check_uniform(sample(preset(name), retry, by_rng(20_260 + retry)), low, high)


@pytest.mark.parametrize(("retry", "low", "high"), [(1, 15, 18.75), (4, 120, 150), (15, 3_600, 4_500)])
def test_zzz_jobs_hash_of_id_and_retry_is_uniform(retry: int, low: float, high: float) -> None:
    check_uniform(sample(preset("zzz_jobs"), retry, by_id), low, high)


def test_draws_of_successive_retries_are_independent() -> None:
    """Waits at retries 4 and 5 of one job, by hash and by generator: no correlation beyond chance."""
    for name, draws in (("zzz_jobs", by_id), ("zizq", by_rng(5))):
        first, second = sample(preset(name), 4, draws), sample(preset(name), 5, draws)
        assert abs(correlation(first, second)) < 4 / math.sqrt(N)


def test_the_job_source_keeps_one_number_for_life() -> None:
    policy = preset("zzz_jobs", jitter={"above": {"share": 0.25, "source": "job"}})
    first, second = sample(policy, 4, by_id), sample(policy, 5, by_id)
    check_uniform(first, 120, 150)
    assert correlation(first, second) > 0.999


def correlation(a: list[float], b: list[float]) -> float:
    mean_a, mean_b = fmean(a), fmean(b)
    covariance = fmean((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    return covariance / (pstdev(a) * pstdev(b))


@pytest.mark.parametrize("name", ["faktory", "sidekiq"])
@pytest.mark.parametrize(("retry", "base"), [(1, 15), (2, 16), (25, 331_791)])
def test_a_die_of_thirty_faces_is_fair(name: str, retry: int, base: int) -> None:
    waits = sample(preset(name), retry, by_rng(7))
    counts = dict.fromkeys(range(30), 0)
    for wait in waits:
        face, rest = divmod(wait - base, retry)
        assert rest == 0
        counts[int(face)] += 1
    expected = N / 30
    # Chi-square with 29 degrees of freedom: 0.9999 quantile 66.2.
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 66.2
    # rand(30) is 0 to 29, so the mean jitter is 14.5 k, not 15 k.
    assert fmean(waits) - base == pytest.approx(14.5 * retry, abs=4 * 8.66 * retry / math.sqrt(N))


@pytest.mark.parametrize("name", ["constant", "exponential", "linear"])
def test_policies_without_jitter_do_not_spread(name: str) -> None:
    assert pstdev(sample(preset(name), 3, by_rng(1))) == 0


def even_distribution(policy: Policy, retry: int) -> Callable[[float], float]:
    """The share of jobs whose wait is below a value, from the formula, by bisection of the phase."""
    before = policy.nominal(retry - 1) / 1000
    now, after = policy.nominal(retry) / 1000, policy.nominal(retry + 1) / 1000

    def wait(x: float) -> float:
        return (1 - x) ** 2 / 2 * before + (0.5 + x - x * x) * now + x * x / 2 * after

    def share(value: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if wait(middle) < value else (low, middle)
        return low

    return share


def ordinal(job: int) -> Draws:
    return Draws(lambda: math.nan, phase=phase_of_ordinal(31_337 + job))


def hashed(job: int) -> Draws:
    return Draws(lambda: math.nan, phase=phase_of_id(b"job-%d" % job, b"key"))


@pytest.mark.parametrize(("retry", "relative_deviation"), [(2, 0.138), (3, 0.190), (5, 0.220), (10, 0.125)])
def test_even_has_the_published_deviation_and_law(retry: int, relative_deviation: float) -> None:
    for draws in (ordinal, hashed):
        waits = sample(preset("even"), retry, draws)
        assert pstdev(waits) / fmean(waits) == pytest.approx(relative_deviation, abs=0.003)
        assert distance(waits, even_distribution(preset("even"), retry)) < 2.3


def test_ordinals_spread_far_more_evenly_than_chance() -> None:
    law = even_distribution(preset("even"), 10)
    assert distance(sample(preset("even"), 10, ordinal), law) < 0.05
    assert distance(sample(preset("even"), 10, hashed), law) > 0.2


def herd(policy: Policy, draws: Callable[[int], Draws], jobs: int) -> list[float]:
    """The instants of all retries of jobs that fail together at 0, in seconds."""
    instants = []
    for job in range(jobs):
        now, previous = 0, None
        for retry in range(1, (policy.retries or 0) + 1):
            wait = next_wait(policy, retry, draws(job), previous=previous)
            assert isinstance(wait, Wait)
            previous, now = Previous(wait.carry), now + wait.wait_ms
            instants.append(now / 1000)
    return instants


def empty_hours(instants: list[float]) -> float:
    """The share of hours without any retry."""
    hours = int(max(instants) // 3_600) + 1
    return 1 - len({int(instant // 3_600) for instant in instants}) / hours


def test_a_herd_under_even_leaves_no_hour_empty_where_sidekiq_leaves_nine_of_ten() -> None:
    """1,000 jobs that fail together, 25 times; published are 0 % and 93.5 %."""
    assert empty_hours(herd(preset("even"), ordinal, 1_000)) == 0
    assert empty_hours(herd(preset("even"), hashed, 1_000)) == 0
    assert empty_hours(herd(preset("sidekiq"), by_rng(3), 1_000)) == pytest.approx(0.935, abs=0.015)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"jitter": {"grow": "29s"}}, id="narrower"),
        pytest.param({"jitter": {"grow": {"by": "30s", "faces": 100}}}, id="holes"),
        pytest.param({"curve": {"power": {"base": "15s", "exponent": 4}}}, id="counted from 0"),
        pytest.param({"jitter": "none"}, id="no spread"),
    ],
)
def test_a_wrong_law_is_caught(wrong: dict[str, Any]) -> None:
    policy = preset("zizq", **wrong)
    with pytest.raises(AssertionError):
        check_uniform(sample(policy, 5, by_rng(1)), 640, 790)


def test_a_wrong_shape_is_caught() -> None:
    """The square root of a uniform number has the right bounds and no holes, and the wrong law."""
    rng = Random(1)
    draws = Draws(lambda: math.sqrt(rng.random()))
    with pytest.raises(AssertionError):
        check_uniform(sample(preset("zizq"), 5, lambda job: draws), 640, 790)

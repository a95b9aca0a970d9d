"""Every curve against vectors worked out by hand or published with the formula; seconds."""

import math
from typing import Any

import pytest

from anew.backoff import Curve, Custom, Policy, Stretch, Sum
from anew.backoff.curves import CustomFailed, is_custom

from .helpers import make_policy


def seconds(curve: Any, count: int = 10, **policy: Any) -> list[float]:
    """The nominal waits of a curve's first retries."""
    built = make_policy(curve=curve, **policy)
    return [built.nominal(k) / 1000 for k in range(1, count + 1)]


def at(curve: Any, k: int) -> float:
    """One value of a curve itself, before any cap, in milliseconds."""
    inner: Curve | None = make_policy(curve=curve).curve
    assert inner is not None
    return inner.at(k)


VECTORS: list[tuple[Any, Any]] = [
    ({"constant": "10s"}, [10] * 10),
    ({"linear": {"base": "10s", "step": "5s"}}, [10, 15, 20, 25, 30, 35, 40, 45, 50, 55]),
    ({"power": {"base": "15s", "exponent": 4}}, [15, 16, 31, 96, 271, 640, 1311, 2416, 4111, 6576]),
    (
        {"power": {"base": "1s", "exponent": -1, "origin": 1, "scale": "60s"}},
        [61, 31, 21, 16, 13, 11, 67 / 7, 8.5, 69 / 9, 7],
    ),
    (
        {"power": {"base": "15s", "exponent": 4, "origin": 1}},
        [16, 31, 96, 271, 640, 1311, 2416, 4111, 6576, 10015],
    ),
    (
        {"power": {"base": "30s", "exponent": 4, "slope": "15s"}},
        [30, 46, 76, 156, 346, 730, 1416, 2536, 4246, 6726],
    ),
    ({"fibonacci": "1s"}, [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]),
    ({"table": ["10s", "1m", "5m"]}, [10, 60] + [300] * 8),
    ({"sum": [{"constant": "3m"}, {"exponential": {"base": "2m"}}]}, [300, 420, 660, 1140, 2100]),
    ({"scale": {"by": 0.5, "curve": {"constant": "10s"}}}, [5] * 10),
    # Half as fast: places 1, 1.5 (up to 2), 2, 2.5 (up to 3), 3 ...
    ({"stretch": {"by": 2, "curve": {"exponential": {"base": "1s"}}}}, [1, 2, 2, 4, 4, 8, 8]),
    # Twice as fast: places 1, 3, 5, 7.
    ({"stretch": {"by": 0.5, "curve": {"exponential": {"base": "1s"}}}}, [1, 4, 16, 64]),
    ({"stretch": {"by": 1, "curve": {"linear": {"base": "1s", "step": "1s"}}}}, [1, 2, 3, 4]),
    # Oban with fifty attempts, 2^round(a / 50 * 20): exponents 0, 1, 1, 2, 2, 2, 3, 3, 4.
    (
        {"stretch": {"by": 2.5, "origin": 1, "curve": {"exponential": {"base": "1s"}}}},
        [1, 2, 2, 4, 4, 4, 8, 8, 16],
    ),
    # OpenStack Zaqar, 5 s to 260 s in 10 retries.
    (
        {"between": {"low": "5s", "high": "260s", "retries": 10, "shape": "arithmetic"}},
        [5, 10 + 2 / 3, 22, 39, 61 + 2 / 3, 90, 124, 163 + 2 / 3, 209, 260, 260],
    ),
    (
        {"between": {"low": "5s", "high": "260s", "retries": 10}},
        [5, 33 + 1 / 3, 61 + 2 / 3, 90, 118 + 1 / 3, 146 + 2 / 3, 175, 203 + 1 / 3, 231 + 2 / 3, 260, 260],
    ),
    # Procrastinate with wait 3, linear 3, exponential 3.
    (
        {
            "sum": [
                {"linear": {"base": "3s", "step": "3s"}},
                {"exponential": {"base": "3s", "factor": 3}},
            ]
        },
        [6, 15, 36, 93, 258, 747, 2208, 6585, 19710, 59079],
    ),
    ({"power": {"base": "5s", "exponent": 4, "origin": 1}}, [6, 21, 86, 261, 630, 1301, 2406]),
]


@pytest.mark.parametrize(("curve", "expected"), VECTORS)
def test_curves_give_their_published_waits(curve: Any, expected: list[float]) -> None:
    assert seconds(curve, len(expected)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (
            {"power": {"exponent": 2.5, "origin": 1}},
            [1, 5.6569, 15.5885, 32, 55.9017, 88.1816, 129.6418, 181.0193, 243, 316.2278],
        ),
        (
            {"between": {"low": "5s", "high": "260s", "retries": 10, "shape": "geometric"}},
            [5, 7.756, 12.031, 18.663, 28.949, 44.906, 69.658, 108.054, 167.612, 260, 260],
        ),
        (
            {"between": {"low": "5s", "high": "260s", "retries": 10, "shape": "exponential"}},
            [5, 7.756, 12.031, 18.663, 28.949, 44.906, 69.658, 108.054, 167.612, 260, 260],
        ),
        (
            {"between": {"low": "5s", "high": "260s", "retries": 10, "shape": "exponential", "base": 2}},
            [5, 5.499, 6.497, 8.493, 12.485, 20.470, 36.438, 68.376, 132.250, 260, 260],
        ),
    ],
)
def test_vectors_published_with_rounding(curve: Any, expected: list[float]) -> None:
    assert seconds(curve, len(expected)) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(("shape", "total"), [("linear", 1325), ("arithmetic", 985), ("geometric", 722.629)])
def test_sums_between_two_ends(shape: str, total: float) -> None:
    curve = {"between": {"low": "5s", "high": "260s", "retries": 10, "shape": shape}}
    assert sum(seconds(curve)) == pytest.approx(total, abs=1e-3)


def test_both_ends_are_exact_and_an_enormous_base_does_not_overflow() -> None:
    for shape in ("linear", "arithmetic", "geometric", "exponential"):
        curve = {"between": {"low": "7s", "high": "333s", "retries": 13, "shape": shape}}
        assert seconds(curve, 13)[0] == 7
        assert seconds(curve, 13)[12] == 333
    steep = {"between": {"low": "1s", "high": "9s", "retries": 1_000, "shape": "exponential", "base": 1e6}}
    assert at(steep, 1) == 1_000
    assert at(steep, 500) == pytest.approx(1_000)
    assert at(steep, 1_000) == 9_000


@pytest.mark.parametrize("shape", ["linear", "arithmetic", "geometric", "exponential"])
def test_one_retry_between_two_ends_takes_the_larger(shape: str) -> None:
    assert at({"between": {"low": "5s", "high": "260s", "retries": 1, "shape": shape}}, 1) == 260_000


def test_equal_ends_are_constant_even_at_zero() -> None:
    assert at({"between": {"low": "0s", "high": "0s", "retries": 9, "shape": "geometric"}}, 4) == 0
    assert at({"between": {"low": "5s", "high": "5s", "retries": 9, "shape": "geometric"}}, 4) == 5_000


def test_doubling_under_a_cap() -> None:
    expected = [15, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert seconds({"exponential": {"base": "15s"}}, cap="1h") == expected


def test_doubling_with_a_knee_goes_on_in_a_line_as_cloud_tasks_documents() -> None:
    expected = [10, 20, 40, 80, 160, 240, 300, 300, 300, 300]
    assert seconds({"exponential": {"base": "10s", "knee": 3}}, cap="5m") == expected
    assert seconds({"exponential": {"base": "10s", "knee": 0}}, 4) == [10, 20, 30, 40]
    assert seconds({"exponential": {"base": "1s", "factor": 3, "knee": 1}}, 5) == [1, 3, 6, 9, 12]


@pytest.mark.parametrize(
    ("exponent", "origin", "value_ms"),
    [(0, 0, 1_000), (0, 1, 1_000), (0.5, 0, 0), (4, 0, 0), (1, 1, 1_000)],
)
def test_powers_of_zero(exponent: float, origin: int, value_ms: float) -> None:
    assert at({"power": {"exponent": exponent, "origin": origin}}, 1) == value_ms


def test_a_fractional_exponent_at_the_25th_retry() -> None:
    assert at({"power": {"exponent": 4.2, "origin": 1}}, 25) == pytest.approx(743_615_000, rel=1e-6)


def test_the_fibonacci_numbers_go_on_far_past_the_ceiling() -> None:
    assert at({"fibonacci": "1ms"}, 40) == 102_334_155
    assert at({"fibonacci": "1ms"}, 1_000) > 365 * 86_400_000


HUGE = [
    {"exponential": {"base": "15s"}},
    {"exponential": {"base": "1ms", "factor": 1e6}},
    {"exponential": {"base": "1s", "knee": 999_999_999}},
    {"power": {"exponent": 1e12, "origin": 1}},
    {"power": {"exponent": 4}},
    {"linear": {"base": "365d", "step": "365d"}},
    {"fibonacci": "365d"},
    {"sum": [{"exponential": {"base": "15s"}}, {"power": {"exponent": 300}}]},
    {"scale": {"by": 1e12, "curve": {"exponential": {"base": "15s"}}}},
    {"stretch": {"by": 0.001, "curve": {"exponential": {"base": "15s"}}}},
]


@pytest.mark.parametrize("curve", HUGE)
@pytest.mark.parametrize("k", [1_000, 10_000, 10**6, 2**31])
def test_overflow_means_the_cap_and_without_one_365_days(curve: Any, k: int) -> None:
    assert make_policy(curve=curve).nominal(k) == 31_536_000_000
    assert make_policy(curve=curve, cap="1h").nominal(k) == 3_600_000


@pytest.mark.parametrize(
    "curve",
    [
        {"exponential": {"base": 0}},
        {"power": {"exponent": 0, "scale": 0}},
        {"power": {"exponent": 1e12, "scale": 0, "origin": 5}},
        {"scale": {"by": 0, "curve": {"exponential": {"base": "15s"}}}},
        {"fibonacci": 0},
    ],
)
@pytest.mark.parametrize("k", [1, 2_000, 10**6])
def test_nothing_times_infinity_is_nothing(curve: Any, k: int) -> None:
    assert make_policy(curve=curve).nominal(k) == 0


def test_where_uncapped_curves_meet_365_days() -> None:
    """15 * 2**21 s is 31,457,280 s, below; 15 * 2**22 is above. 74**4 is below 31,536,000, 75**4 above."""
    doubling, fourth = make_policy(curve={"exponential": {"base": "15s"}}), Policy.from_json("faktory")
    assert doubling.nominal(22) == 31_457_280_000
    assert doubling.nominal(23) == 31_536_000_000
    assert fourth.nominal(75) == 29_986_591_000
    assert fourth.nominal(76) == 31_536_000_000


def test_a_custom_function_of_the_retry() -> None:
    policy = Policy(curve=Custom(function=lambda k: k * 1_500))
    assert [policy.nominal(k) for k in (1, 2, 3)] == [1_500, 3_000, 4_500]
    assert is_custom(Sum(curves=(Custom(function=float),)))


def test_a_custom_function_below_zero_counts_as_zero_and_infinity_as_the_cap() -> None:
    assert Custom(function=lambda k: -5.0).at(1) == 0
    assert Policy(curve=Custom(function=lambda k: math.inf), cap_ms=9_000).nominal(1) == 9_000


def _raises(k: int) -> float:
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda k: math.nan, "it returned no number but float"),
        (lambda k: "5", "it returned no number but str"),
        (lambda k: None, "it returned no number but NoneType"),
        (lambda k: True, "it returned no number but bool"),
        (lambda k: 10**400, "it overflowed"),
        (_raises, "it raised RuntimeError"),
    ],
)
def test_a_custom_function_that_fails_says_how(function: Any, why: str) -> None:
    with pytest.raises(CustomFailed, match=why):
        Custom(function=function).at(1)


def test_a_stretched_place_that_is_a_half_is_rounded_up_whatever_the_division_loses() -> None:
    """708 / 94.4 is 7.5, and 7.499999999999999 in floating point."""
    assert 708 / 94.4 < 7.5
    curve = {"stretch": {"by": 94.4, "origin": 1, "curve": {"linear": {"base": 0, "step": "1s"}}}}
    assert at(curve, 708) == 8_000


def test_a_custom_function_may_be_stretched() -> None:
    curve = Stretch(by=2, curve=Custom(function=lambda k: 1_000 * k))
    assert is_custom(curve)
    assert [curve.at(k) for k in (1, 2, 3)] == [1_000, 2_000, 2_000]

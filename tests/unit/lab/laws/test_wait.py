"""The law of one wait: against hand arithmetic, against the published figures, and against the engine's own draws."""

import math
from typing import Any

import pytest

from anew.backoff import PRESETS, Custom, Policy, UpTo, preset
from anew.backoff.curves import Constant
from anew.lab.last_retry import all_laws
from anew.lab.laws.shapes import Law, Slide
from anew.lab.laws.wait import law, laws

from ...backoff.helpers import make_policy
from .draws import assert_agrees, drawn


def law_of(form: Any, retry: int = 1) -> Law:
    """The law of one wait, which must be known; drawn where it has no form."""
    policy = form if isinstance(form, Policy) else Policy.from_json(form)
    return laws_of(policy, retry)[-1]


def laws_of(policy: Policy, retries: int) -> list[Law]:
    """The laws of the first waits, of which none is unknown."""
    return [found for found in all_laws(policy, retries) if found is not None]


# -- by hand


def test_without_jitter_there_is_one_value() -> None:
    found = law_of(make_policy())
    assert (found.earliest_ms, found.latest_ms, found.mean_ms, found.sd_ms) == (10_000, 10_000, 10_000, 0)
    assert [found.percentile(percent) for percent in (0, 50, 100)] == [10_000] * 3
    assert (found.cdf(9_999), found.cdf(10_000)) == (0, 1)


def test_a_window_of_ten_milliseconds_is_ten_values() -> None:
    """0 to 9 ms, each a tenth: mean 4.5, variance (10^2 - 1) / 12."""
    found = law_of(make_policy(curve={"constant": "10ms"}, jitter="full"))
    assert (found.earliest_ms, found.latest_ms, found.mean_ms) == (0, 9, 4.5)
    assert found.sd_ms == pytest.approx(math.sqrt(99 / 12))
    assert [found.percentile(percent) for percent in (0, 5, 10, 10.1, 50, 95, 100)] == [0, 0, 0, 1, 4, 9, 9]
    assert [found.cdf(ms) for ms in (-1, 0, 4, 8, 9)] == pytest.approx([0, 0.1, 0.5, 0.9, 1])


def test_a_window_that_begins_between_milliseconds() -> None:
    """[2.5, 5): a fifth is 2, two fifths 3, two fifths 4."""
    found = law_of(make_policy(curve={"constant": "5ms"}, jitter="equal"))
    assert found.mean_ms == pytest.approx(0.2 * 2 + 0.4 * 3 + 0.4 * 4)
    assert found.sd_ms**2 == pytest.approx(0.2 * 4 + 0.4 * 9 + 0.4 * 16 - 3.2**2)
    assert [found.cdf(ms) for ms in (1, 2, 3, 4)] == pytest.approx([0, 0.2, 0.6, 1])


@pytest.mark.parametrize(("name", "mean", "relative_sd"), [("full", 1 / 2, 0.577), ("equal", 3 / 4, 0.192)])
def test_the_aws_jitters(name: str, mean: float, relative_sd: float) -> None:
    """Full jitter: mean e/2, relative sd 57.7 %. Equal jitter: mean 3e/4, relative sd 19.2 %."""
    found = law_of(make_policy(curve={"constant": "1h"}, jitter=name))
    assert found.mean_ms == pytest.approx(mean * 3_600_000, abs=0.5)
    assert found.sd_ms / found.mean_ms == pytest.approx(relative_sd, abs=5e-4)


def test_the_clamp_piles_up_at_both_ends() -> None:
    """[0, 10 s) held to 2 to 9 s: a fifth is exactly 2 s, a tenth exactly 9 s, the mean of the rest 5.5 s."""
    found = law_of(make_policy(jitter="full", floor="2s", ceil="9s"))
    assert (found.cdf(1_999), found.cdf(2_000), found.cdf(8_999), found.cdf(9_000)) == pytest.approx(
        (0, 0.2001, 0.9, 1)
    )
    assert found.mean_ms == pytest.approx(0.2 * 2_000 + 0.1 * 9_000 + 0.7 * 5_499.5)
    assert [found.percentile(percent) for percent in (0, 20, 90, 90.1, 100)] == [
        2_000,
        2_000,
        8_999,
        9_000,
        9_000,
    ]


def test_a_die_has_its_faces_and_nothing_between() -> None:
    """Faktory's third retry: 31 s plus 3 s times a die of 30 faces; mean 31 + 3 * 14.5 = 74.5 s."""
    found = law_of("faktory", 3)
    assert (found.earliest_ms, found.latest_ms, found.mean_ms) == (31_000, 118_000, 74_500)
    assert found.sd_ms == pytest.approx(3_000 * math.sqrt((30**2 - 1) / 12))
    assert found.cdf(33_999) == pytest.approx(1 / 30)
    assert found.cdf(34_000) == pytest.approx(2 / 30)
    assert [found.percentile(percent) for percent in (1, 50, 51, 100)] == [31_000, 73_000, 76_000, 118_000]


def test_steps_and_a_clamped_die() -> None:
    """10 s and up to three seconds in steps of a second, at most 11.5 s: 10, 11, 11.5 s, a third each."""
    found = law_of(make_policy(jitter={"add": {"by": "3s", "step": "1s"}}, ceil="11.5s"))
    assert [found.cdf(ms) for ms in (9_999, 10_000, 11_000, 11_499, 11_500)] == pytest.approx(
        [0, 1 / 3, 2 / 3, 2 / 3, 1]
    )
    assert found.mean_ms == pytest.approx((10_000 + 11_000 + 11_500) / 3)


def test_a_cut_window_has_a_rarer_last_value() -> None:
    """10 s and the whole seconds of anything up to 2.5 s: 10 and 11 two fifths each, 12 one fifth."""
    found = law_of(make_policy(jitter={"add": {"by": "2500ms", "cut": "1s"}}))
    assert [found.cdf(ms) for ms in (10_000, 11_000, 12_000)] == pytest.approx([0.4, 0.8, 1])
    assert found.mean_ms == pytest.approx(10_800)


def test_a_redraw_lies_in_the_upper_half() -> None:
    """[10, 20 s), what reaches 15 s drawn again in [7.5, 15): half of all, so a sixth of all lies below 10 s."""
    found = law_of(make_policy(jitter={"above": {"share": 1, "redraw": "15s"}}))
    assert found.cdf(9_999) == pytest.approx(1 / 6, abs=1e-4)
    assert found.mean_ms == pytest.approx((12_500 + 11_250) / 2 - 0.5)
    assert (found.earliest_ms, found.latest_ms) == (7_500, 14_999)


def test_before_since_there_is_no_jitter() -> None:
    policy = make_policy(jitter={"around": {"share": 0.2, "since": 2}})
    assert law_of(policy, 1).sd_ms == 0
    assert law_of(policy, 2).sd_ms == pytest.approx(4_000 / math.sqrt(12), rel=1e-3)


def test_one_number_for_life_does_not_change_the_law_of_one_wait() -> None:
    found = [
        law_of(make_policy(jitter={"around": {"share": 0.5, "source": s}})) for s in ("rng", "hash", "job")
    ]
    assert len({(each.mean_ms, each.sd_ms, each.percentile(5)) for each in found}) == 1


# -- even


NOMINAL = [0, *(15 + 15 * k + (k - 1) ** 4 for k in range(1, 40))]


def test_the_mean_of_even() -> None:
    """(c(k-1) + 4 c(k) + c(k+1)) / 6 for k >= 2, (5 c(1) + c(2)) / 6 for k = 1, less the cut half millisecond."""
    found = [each for each in laws(preset("even"), 25) if each is not None]
    assert found[0].mean_ms == pytest.approx(1000 * (5 * 30 + 46) / 6 - 0.5, abs=1e-3)
    for k in range(2, 26):
        mean = 1000 * (NOMINAL[k - 1] + 4 * NOMINAL[k] + NOMINAL[k + 1]) / 6
        assert found[k - 1].mean_ms == pytest.approx(mean - 0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("percent", "waits"),
    [
        (0, [15, 38, 61, 116, 251, 538]),
        (25, [23, 42.4375, 70.0625, 139.4375, 304.5625, 643.4375]),
        (50, [32, 47.75, 82.25, 169.75, 370.25, 767.75]),
        (75, [42, 53.9375, 97.5625, 206.9375, 448.0625, 910.9375]),
    ],
)
def test_the_percentiles_of_even_are_its_vectors(percent: float, waits: list[float]) -> None:
    """The p-th percentile is the wait of the phase p: the published vectors, in seconds."""
    found = [each.percentile(percent) for each in laws(preset("even"), 6) if each is not None]
    assert found == pytest.approx([1000 * wait for wait in waits], abs=1.01)


def test_the_deviation_of_even() -> None:
    """Published: 33.7, 13.8, 19.0, 22.0, 12.5, 8.2, 6.1 and 4.8 % at retries 1, 2, 3, 5, 10, 15, 20, 25."""
    found = [each for each in laws(preset("even"), 25) if each is not None]
    shares = [100 * found[k - 1].sd_ms / found[k - 1].mean_ms for k in (1, 2, 3, 5, 10, 15, 20, 25)]
    assert shares == pytest.approx([33.7, 13.8, 19.0, 22.0, 12.5, 8.2, 6.1, 4.8], abs=0.1)


def test_even_on_a_constant_stretch_is_certain() -> None:
    """The first wait is anything in [150 s, 450 s), all others exactly 300 s."""
    first, second = laws(make_policy(curve={"constant": "5m"}, jitter="even"), 2)
    assert first is not None
    assert second is not None
    assert (first.earliest_ms, first.latest_ms) == (150_000, 450_000)
    assert first.cdf(299_999) == pytest.approx(0.5)
    assert (second.earliest_ms, second.mean_ms, second.sd_ms) == (300_000, 300_000, 0)


def test_dither_on_a_constant_stretch_is_a_window() -> None:
    """10 s, shaken by 15 % up and down: anything in [8.5 s, 11.5 s)."""
    found = law_of(make_policy(jitter={"even": {"dither": 0.3}}), 3)
    assert (found.earliest_ms, found.latest_ms) == (8_500, 11_499)
    assert found.sd_ms == pytest.approx(3_000 / math.sqrt(12), rel=1e-3)
    assert found.percentile(50) == pytest.approx(10_000, abs=1)


def test_a_slide_that_turns_is_shaken_exactly() -> None:
    """4000 p (1 - p), times a number in [0.75, 1.25), is below 1000 where it is below 800, and else with 2 * (1000 / x - 0.75).

    With p = 1/2 + q it is above 800 for |q| < sqrt(0.05), and the integral of 2 / (1 - 4 q^2) over these is ln(phi^2), where phi
    is the golden ratio: 1 - sqrt(0.2) + ln(phi^2) - 1.5 * sqrt(0.2).
    """
    phi = (1 + math.sqrt(5)) / 2
    shaken = Slide(0.0, 4_000.0, -4_000.0, dither=0.5, floor=0.0, ceil=1e9)
    assert shaken.below(1_000) == pytest.approx(1 - 2.5 * math.sqrt(0.2) + 2 * math.log(phi), abs=1e-6)
    assert (shaken.below(0), shaken.below(1_250)) == (0, 1)


# -- the two that remember


def test_the_medians_of_decorrelated_without_a_cap() -> None:
    """Published, from base 15 s: 30, 47, 69, 94, 124, 158, 200, 248, 303, 367 s, drawn and so rounded by chance."""
    found = [
        each
        for each in all_laws(Policy.from_json({"curve": {"constant": "15s"}, "jitter": "decorrelated"}), 10)
        if each is not None
    ]
    medians = [each.percentile(50) / 1000 for each in found]
    assert medians == pytest.approx([30, 47, 69, 94, 124, 158, 200, 248, 303, 367], rel=0.012)


def test_the_means_of_decorrelated_without_a_cap() -> None:
    """The mean of a wait between c and three times the one before is (c + 3 m) / 2: 30, 52.5, 86.25 ... s."""
    found = [
        each
        for each in all_laws(Policy.from_json({"curve": {"constant": "15s"}, "jitter": "decorrelated"}), 10)
        if each is not None
    ]
    mean = 15_000.0
    for each in found:
        mean = (15_000 + 3 * mean) / 2
        assert each.mean_ms == pytest.approx(mean, rel=0.02)


def test_two_retries_of_decorrelated_by_hand() -> None:
    """x uniform in [1, 3], then uniform in [1, 3x]: below 3 with probability E[2 / (3x - 1)] = (2/3) ln(8/2) / 2."""
    found = law_of(preset("aws_decorrelated"), 2)
    assert found.cdf(2_999) == pytest.approx(math.log(4) / 3, abs=3e-3)


@pytest.mark.parametrize(("base", "cap", "share"), [("15s", "1h", 0.28), ("1s", "20s", 0.41)])
def test_the_share_of_decorrelated_waits_exactly_at_the_cap(base: str, cap: str, share: float) -> None:
    policy = preset("aws_decorrelated", base=base, ceil=cap)
    found = law_of(policy, 150)
    assert found.cdf(policy.ceil_ms or 0) - found.cdf((policy.ceil_ms or 0) - 1) == pytest.approx(
        share, abs=0.012
    )


SLICES = {"curve": {"exponential": {"base": "1s"}}, "jitter": "slices"}


def test_the_first_wait_of_slices_is_its_curve() -> None:
    """F(U) / 1.4 with F(t) = 2^t tanh(sqrt(4t)): at U = 1/2 that is 897.0 ms."""
    found = law_of(SLICES)
    expected = math.sqrt(2) * math.tanh(math.sqrt(2)) / 1.4 * 1000
    assert found.percentile(50) == pytest.approx(expected, abs=2)
    assert (found.earliest_ms, found.latest_ms) == (pytest.approx(0, abs=8), pytest.approx(1_377, abs=1))


def test_slices_end_at_the_ceiling() -> None:
    assert law_of(SLICES | {"ceil": "1h"}, 60).mean_ms == 3_600_000
    assert law_of(SLICES, 1_100).earliest_ms == 31_536_000_000
    assert law_of(SLICES | {"curve": {"exponential": {"base": 0}}}, 3).latest_ms == 0


# -- against the engine's own draws


@pytest.mark.parametrize("name", PRESETS)
def test_the_laws_of_every_preset_agree_with_its_draws(name: str) -> None:
    policy = preset(name)
    for retry in (1, 2, 5):
        if policy.retries is None or retry <= policy.retries:
            assert_agrees(drawn(policy, retry, 1_000, seed=retry), law_of(policy, retry), model_error=0.003)


FORMS: list[dict[str, Any]] = [
    {"jitter": {"even": {"dither": 0.3}}, "floor": "6s", "ceil": "12s"},
    {"jitter": {"even": {"dither": 0.05}}, "curve": {"exponential": {"base": "1s"}}},
    {"jitter": {"even": {"spread": 0.4}}, "curve": {"table": ["100s", "10s", "1s", "50s"]}},
    {"jitter": "even", "curve": {"exponential": {"base": "1s"}}, "cap": "20s", "floor": "3s"},
    {"jitter": {"around": {"share": 0.9, "faces": 7}}, "floor": "3s", "ceil": "15s"},
    {"jitter": {"add": {"by": "7777ms", "step": "13ms"}}},
    {"jitter": {"add": {"by": "20ms", "cut": "7ms"}}, "curve": {"constant": "3ms"}},
    {"jitter": {"above": {"share": 2, "redraw": "12s", "source": "hash"}}},
    {"jitter": {"window": {"low": {"times": 0.3}, "high": {"times": 1.4, "add": "2s"}}}},
    {"jitter": {"grow": {"by": "2s", "faces": 300}}, "curve": {"constant": "1ms"}},
    {
        "jitter": {"decorrelated": 1.5},
        "curve": {"linear": {"base": "1s", "step": "1s"}},
        "ceil": "20s",
        "floor": "2s",
    },
    {"jitter": {"decorrelated": 10}, "curve": {"constant": "1s"}},
    {**SLICES, "floor": "1s", "ceil": "6s"},
    {**SLICES, "curve": {"exponential": {"base": "40ms"}}},
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form)[:60])
@pytest.mark.parametrize("retry", [1, 3, 6])
def test_laws_agree_with_draws(form: dict[str, Any], retry: int) -> None:
    policy = make_policy(**form)
    assert_agrees(drawn(policy, retry, 2_000, seed=retry), law_of(policy, retry), model_error=0.005)


# -- what cannot be told, and how long it takes


def test_a_custom_function_is_not_asked() -> None:
    def never(k: int) -> float:
        raise AssertionError(k)

    assert law(Policy(curve=Custom(function=never)), 1) is None
    assert list(laws(Policy(curve=Custom(function=never), jitter={"decorrelated": 3}), 2)) == [None, None]  # type: ignore[arg-type]
    assert (
        law(Policy(curve=Constant(wait_ms=1), jitter=UpTo(curve=Custom(function=lambda k: math.inf))), 1)
        is None
    )


def test_beyond_the_cap_all_waits_share_one_law() -> None:
    found = list(laws(make_policy(jitter="full"), 1_000))
    assert len({id(each) for each in found}) == 1


def test_what_depends_on_the_wait_before_has_no_law_of_its_own() -> None:
    policy = preset("aws_decorrelated")
    first, second = laws(policy, 2)
    assert first is not None
    assert (first.earliest_ms, first.latest_ms, second) == (1_000, 2_999, None)


def test_decorrelated_goes_on_where_the_curve_comes_back() -> None:
    """After 10 s and a nominal wait of 0: anything in [0, 30 s), then in [0, three times that); 15 and 22.5 s on average."""
    form = {"curve": {"table": ["0s", "10s", "0s"]}, "jitter": {"decorrelated": 3}, "limit": 5}
    found = laws_of(Policy.from_json(form), 4)
    assert [law.latest_ms for law in found][1:] == [
        10_000,
        pytest.approx(30_000, rel=0.04),
        pytest.approx(90_000, rel=0.04),
    ]
    assert [law.mean_ms for law in found][2:] == [
        pytest.approx(15_000, rel=0.01),
        pytest.approx(22_500, rel=0.015),
    ]

"""Zizq's own law to the millisecond, in its own form and as a preset."""

import pytest

from anew.backoff import Policy, preset

from ..helpers import make_draws, wait_ms
from .helpers import DAY, window


def test_reliability_31_zizqs_window_is_what_its_documentation_says_approximately_25_days() -> None:
    low, high = window("zizq")
    assert low / DAY == pytest.approx(24.931, abs=5e-4)
    assert high / DAY == pytest.approx(25.044, abs=5e-4)


def test_what_zizq_executed_before_0_6_1_can_be_told_with_the_pieces() -> None:
    """The power in milliseconds and the jitter's weight one higher: 2,529 s to 13,029 s."""
    policy = Policy.from_json(
        {
            "curve": {"power": {"base": "15s", "exponent": 4, "origin": 1, "scale": "1ms"}},
            "jitter": {"window": {"low": {"times": 1}, "high": {"times": 1, "grow": "30s", "add": "30s"}}},
            "limit": 25,
        }
    )
    assert window(policy) == pytest.approx((2_528.645, 13_028.645), rel=1e-12)
    assert policy == preset("zizq_before_0_6_1")


@pytest.mark.parametrize(
    ("exponent", "base_ms", "waits"),
    [(2, 100, [1_100, 4_100, 9_100]), (1, 200, [1_200, 2_200, 3_200]), (0, 0, [1_000, 1_000, 1_000])],
)
def test_zizq_pins_these_waits_without_jitter(exponent: float, base_ms: int, waits: list[int]) -> None:
    policy = Policy.from_json({"base_ms": base_ms, "exponent": exponent, "jitter_ms": 0})
    assert [wait_ms(policy, k) for k in (1, 2, 3)] == waits


def test_zizqs_law_truncates_after_adding_everything() -> None:
    """k = 3: 81 s + 15 s + 0.123456 * 30 s * 3 = 107,111.04 ms."""
    assert wait_ms(preset("zizq"), 3, make_draws(0.123456)) == 107_111


def test_zizqs_exponent_is_a_32_bit_float() -> None:
    policy = Policy.from_json({"base_ms": 0, "exponent": 4.2, "jitter_ms": 0})
    assert wait_ms(policy, 25) == int(25**4.19999980926513671875 * 1000)
    assert wait_ms(policy, 25) != int(25**4.2 * 1000)


def test_zizqs_formula_saturates_where_zizq_wraps_around() -> None:
    for exponent in (9, 300, 3.4e38):
        policy = Policy.from_json({"base_ms": 2**32 - 1, "exponent": exponent, "jitter_ms": 2**32 - 1})
        assert wait_ms(policy, 20, make_draws(0.999)) == 31_536_000_000

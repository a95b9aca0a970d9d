"""Presets against the tables published for their systems, and each one's whole window to the second."""

import dataclasses
from typing import Any

import pytest

from anew.backoff import ALIASES, PRESETS, Policy, explain, preset
from anew.backoff.form import SHARED
from anew.errors import InvalidPolicy

from .helpers import make_draws, spans, wait_ms, window_ms

SIDEKIQ_ROW = "15-44 16-74 31-118 96-212 271-416 640-814 1311-1514 2416-2648 4111-4372 6576-6866"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            {"preset": "zizq"},
            "16-46 31-91 96-186 271-391 640-790 1311-1491 2416-2626 4111-4351 6576-6846 10015-10315",
        ),
        (
            {"base_ms": 15000, "exponent": 4.0, "jitter_ms": 30000},
            "16-46 31-91 96-186 271-391 640-790 1311-1491 2416-2626 4111-4351 6576-6846 10015-10315",
        ),
        ({"preset": "faktory"}, SIDEKIQ_ROW),
        ({"preset": "sidekiq"}, SIDEKIQ_ROW),
        (
            {"preset": "sidekiq", "grow": "10s", "faces": 10},
            "15-24 16-34 31-58 96-132 271-316 640-694 1311-1374 2416-2488 4111-4192 6576-6666",
        ),
        ({"preset": "constant"}, "300 300 300 300 300 300 300 300 300 300"),
        ({"preset": "exponential"}, "300 420 660 1140 2100 4020 7860 15540 30900 61620"),
        ({"preset": "linear"}, "15 30 45 60 75 90 105 120 135 150"),
        (
            {"preset": "buckets"},
            "1-27 8-64 27-125 64-216 125-343 216-512 343-729 512-1000 729-1331 1000-1728",
        ),
        (
            {"preset": "zzz_jobs"},
            "15-18.75 30-37.5 60-75 120-150 240-300 480-600 960-1200 1920-2400 3600-4500 3600-4500",
        ),
        (
            {"preset": "zzz_jobs", "literal": True},
            "30-37.5 60-75 120-150 240-300 480-600 960-1200 1920-2400 3600-4500 3600-4500 3600-4500",
        ),
        ({"preset": "aws_full"}, "0-1 0-2 0-4 0-8 0-16 0-20 0-20 0-20 0-20 0-20"),
        (
            {"preset": "aws_equal", "base": "10s", "cap": "2000s"},
            "5-10 10-20 20-40 40-80 80-160 160-320 320-640 640-1280 1000-2000 1000-2000",
        ),
        ({"preset": "aws_decorrelated"}, "1-3 1-9 1-20 1-20 1-20 1-20 1-20 1-20 1-20 1-20"),
        (
            {"preset": "even"},
            "15-53 38-61 61-116 116-251 251-538 538-1073 1073-1976 1976-3391 3391-5486 5486-8453",
        ),
    ],
)
def test_the_first_ten_retries(policy: dict[str, Any], expected: str) -> None:
    assert spans(Policy.from_json(policy)) == expected.split()


@pytest.mark.parametrize(
    ("policy", "earliest", "latest"),
    [
        # 25 * 15 + sum of k**4 for 1..25 (2,153,645) = 2,154,020; jitter 30 * 325 = 9,750.
        ({"preset": "zizq"}, 2_154_020, 2_163_770),
        ({"base_ms": 15000, "exponent": 4, "jitter_ms": 30000, "limit": 25}, 2_154_020, 2_163_770),
        # 25 * 15 + sum of n**4 for 0..24 (1,763,020) = 1,763,395; jitter 29 * 325 = 9,425.
        ({"preset": "faktory"}, 1_763_395, 1_772_820),
        ({"preset": "sidekiq"}, 1_763_395, 1_772_820),
        # Hangfire: ten of them. 10 * 15 + 15,333 = 15,483; jitter 29 * 55 = 1,595: 4.30 h to 4.74 h.
        ({"preset": "faktory", "limit": 10}, 15_483, 17_078),
        ({"preset": "constant", "limit": 5}, 1_500, 1_500),
        ({"preset": "exponential", "limit": 5}, 4_620, 4_620),
        # 1 + 8 + 27 + 64 + 125 = 225; 27 + 64 + 125 + 216 + 343 = 775.
        ({"preset": "buckets", "limit": 5}, 225, 775),
        # 15 * 255 = 3,825, eleven times 3,600; a quarter more at most: 54,281.25.
        ({"preset": "zzz_jobs"}, 43_425, 54_281.25),
        ({"preset": "zzz_jobs", "literal": True}, 47_010, 58_762.5),
        ({"preset": "aws_full", "limit": 2}, 0, 3),
        ({"preset": "aws_decorrelated", "limit": 3}, 3, 32),
        ({"preset": "even"}, 1_602_187, 1_963_785),
        # 15 * (1 + ... + 25)
        ({"preset": "linear"}, 4_875, 4_875),
    ],
)
def test_the_whole_window(policy: dict[str, Any], earliest: float, latest: float) -> None:
    assert window_ms(Policy.from_json(policy)) == (earliest * 1000, latest * 1000)


def test_zizqs_window_is_what_its_documentation_says_approximately_25_days() -> None:
    earliest, latest = window_ms(preset("zizq"))
    assert earliest is not None
    assert latest is not None
    assert earliest / 86_400_000 == pytest.approx(24.931, abs=5e-4)
    assert latest / 86_400_000 == pytest.approx(25.044, abs=5e-4)


def test_an_exponent_of_4_2_stretches_zizqs_window_to_nearly_46_days() -> None:
    earliest, latest = window_ms(preset("zizq", exponent=4.2))
    assert earliest is not None
    assert latest is not None
    assert round(earliest / 86_400_000, 1) == 45.8
    assert round(latest / 86_400_000, 1) == 45.9


def test_what_zizq_executed_before_0_6_1_can_be_told_with_the_pieces() -> None:
    """The power in milliseconds and the jitter's weight one higher: 2,529 s to 13,029 s."""
    policy = Policy.from_json(
        {
            "curve": {"power": {"base": "15s", "exponent": 4, "origin": 1, "scale": "1ms"}},
            "jitter": {"window": {"low": {"times": 1}, "high": {"times": 1, "grow": "30s", "add": "30s"}}},
            "limit": 25,
        }
    )
    assert window_ms(policy) == (2_528_645, 13_028_645)


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


def test_faktorys_25th_retry_has_thirty_instants_25_s_apart() -> None:
    waits = {wait_ms(preset("faktory"), 25, make_draws(j / 30 + 1e-9)) for j in range(30)}
    assert waits == {331_791_000 + 25_000 * j for j in range(30)}
    assert max(waits) == 332_516_000


def test_the_presets_of_the_first_release_are_there() -> None:
    assert {
        "zizq", "faktory", "sidekiq", "constant", "exponential", "linear", "buckets", "zzz_jobs", "aws_full",
        "aws_equal", "aws_decorrelated", "even",
    } <= PRESETS.keys()  # fmt: skip


@pytest.mark.parametrize("name", [*PRESETS, *ALIASES])
def test_every_name_builds_reads_aloud_and_round_trips(name: str) -> None:
    policy = preset(name)
    assert Policy.from_json(name) == policy
    assert Policy.from_json(policy.to_json()) == policy
    assert len(explain(policy).rows) == (19 if name == "zzz_jobs" else 25)
    assert PRESETS[ALIASES.get(name, name)].summary.endswith(".")


def test_no_parameter_hides_a_field_that_every_policy_has() -> None:
    for found in PRESETS.values():
        assert not found.parameters.keys() & {"curve", *SHARED}
    assert not ALIASES.keys() & PRESETS.keys()


def test_any_shared_field_may_stand_beside_a_preset() -> None:
    policy = preset("faktory", limit=6, cap="1h", jitter="none", on_exhausted="discard", deadline="2d")
    assert (policy.limit, policy.cap_ms, policy.on_exhausted) == (6, 3_600_000, "discard")
    assert spans(policy)[-1] == "3600"
    assert policy.deadline_ms == 172_800_000


def test_a_preset_takes_another_curve() -> None:
    assert spans(preset("aws_equal", curve={"constant": "8s"}), 2) == ["4-8", "4-8"]


def test_a_preset_whose_source_names_no_limit_takes_the_servers() -> None:
    assert Policy.from_json("buckets", default_limit=7).limit == 7
    assert Policy.from_json("faktory", default_limit=7).limit == 25
    assert "limit" not in preset("buckets").to_json()


def test_presets_are_records_that_cannot_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PRESETS["zizq"].name = "other"  # type: ignore[misc]
    with pytest.raises(InvalidPolicy):
        preset("zizq", nonsense=1)

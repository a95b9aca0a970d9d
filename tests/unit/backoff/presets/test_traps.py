"""What surprises people about the schedules of the field, each with its figure."""

from itertools import islice
from typing import Any

import pytest

from anew.backoff import Policy, preset
from anew.backoff.presets.notifications import shipped_waits
from anew.errors import InvalidPolicy

from ..helpers import make_draws, wait_ms
from .helpers import DAY, HOUR, draw, misfits, reaches, window

QUIET = {"immediate": 0, "before": 0, "after": 0}


def longest(given: Any, retry: int) -> float:
    """The least upper bound of one retry's wait in seconds."""
    return [*islice(reaches(Policy.from_json(given)), retry)][-1][1]


def test_zzz_jobs_waits_4500_s_for_a_cap_of_3600() -> None:
    assert longest("zzz_jobs", 15) == 4_500
    assert max(draw("zzz_jobs", 15, 2_000)) > 4_490


def test_zzz_jobs_to_the_letter_starts_twice_as_late() -> None:
    assert wait_ms(preset("zzz_jobs", jitter="none"), 1) == 15_000
    assert wait_ms(preset("zzz_jobs", literal=True, jitter="none"), 1) == 30_000


def test_zizqs_last_wait_is_four_and_a_half_days() -> None:
    assert longest("zizq", 25) == 25**4 + 15 + 30 * 25
    assert 4.5 < longest("zizq", 25) / DAY < 4.54


def test_an_exponent_of_4_2_stretches_zizqs_window_to_nearly_46_days_and_not_to_40() -> None:
    low, high = window({"preset": "zizq", "exponent": 4.2})
    assert (round(low / DAY, 1), round(high / DAY, 1)) == (45.8, 45.9)
    low, _ = window({"preset": "zizq_from_zero", "curve": {"power": {"exponent": 4.2}}, "jitter": "none"})
    assert round(low / DAY, 1) == 37.2


def test_faktorys_25th_retry_has_thirty_instants_25_s_apart() -> None:
    waits = {wait_ms(preset("faktory"), 25, make_draws(j / 30 + 1e-9)) for j in range(30)}
    assert waits == {331_791_000 + 25_000 * j for j in range(30)}


def test_faktorys_20th_retry_waits_19_to_the_fourth_power() -> None:
    assert wait_ms(preset("faktory"), 20, make_draws(0.0)) == 15_000 + 130_321_000
    assert round(130_321 / DAY, 2) == 1.51


def test_the_exponential_of_the_chart_passes_22_days_at_the_15th_wait() -> None:
    assert longest("exponential", 15) == 180 + 60 * 2**15
    assert longest("exponential", 15) > 22 * DAY


# -- Zaqar and SNS


def test_zaqars_functions_reach_both_ends_in_ten_retries() -> None:
    """5 s to 260 s: 1,325 s linear, 985 s arithmetic, 722.629 s geometric and exponential, 555.509 s with base 2."""
    given = QUIET | {"preset": "zaqar", "low": "5s", "high": "260s", "retries": 10}
    for function, row, total in (
        ("linear", "5 33.333 61.667 90 118.333 146.667 175 203.333 231.667 260", 1_325),
        ("arithmetic", "5 10.667 22 39 61.667 90 124 163.667 209 260", 985),
        ("geometric", "5 7.756 12.031 18.663 28.949 44.906 69.658 108.054 167.612 260", 722.629),
        ("exponential", "5 7.756 12.031 18.663 28.949 44.906 69.658 108.054 167.612 260", 722.629),
    ):
        assert misfits(given | {"function": function}, row) == []
        assert window(given | {"function": function})[0] == pytest.approx(total, abs=5e-4)
    steep = given | {"function": "exponential", "base": 2}
    assert misfits(steep, "5 5.499 6.497 8.493 12.485 20.470 36.438 68.376 132.250 260") == []
    assert window(steep)[0] == pytest.approx(555.509, abs=5e-4)


def test_zaqars_linear_formula_to_the_letter_misses_its_maximum() -> None:
    given = QUIET | {"preset": "zaqar", "low": "5s", "high": "260s", "retries": 10, "literal": True}
    assert misfits(given, "5 30.5 56 81.5 107 132.5 158 183.5 209 234.5") == []
    assert window(given) == pytest.approx((1_197.5, 1_197.5))
    assert preset("zaqar", literal=True, function="geometric") == preset("zaqar", function="geometric")


def test_what_zaqar_shipped_takes_51_retries_between_5_s_and_260_s() -> None:
    for function, total in (
        ("linear", 6_630),
        ("arithmetic", 4_665),
        ("geometric", 3_337),
        ("exponential", 3_337),
    ):
        given = QUIET | {"preset": "zaqar_shipped", "low": "5s", "high": "260s", "function": function}
        assert Policy.from_json(given).retries == 51
        assert window(given) == (total, total)


@pytest.mark.parametrize(
    ("function", "waits"),
    [
        ("linear", [5, 10, 15, 20, 25]),
        ("arithmetic", [5, 7, 12, 20, 30]),
        ("geometric", [5, 7, 12, 19, 30]),
        ("exponential", [5, 7, 12, 19, 30]),
    ],
)
def test_what_zaqar_shipped_waits_by_default(function: str, waits: list[int]) -> None:
    assert shipped_waits(function, 5_000, 30_000) == [1_000 * wait for wait in waits]


def test_shipped_zaqar_misses_its_maximum_by_a_second() -> None:
    """MIN 1 s, MAX 11 s ends at 10 s."""
    assert shipped_waits("geometric", 1_000, 11_000)[-1] == 10_000


def test_how_often_shipped_zaqar_misses_its_maximum() -> None:
    """Of all pairs with MIN <= 60 s and MAX <= 600 s, two steps apart: geometric in 16,342, arithmetic in 960."""
    pairs = [(low, high) for low in range(1, 61) for high in range(low + 10, 601)]
    assert len(pairs) == 33_630
    waits = {
        function: [shipped_waits(function, low * 1_000, high * 1_000) for low, high in pairs]
        for function in ("arithmetic", "geometric", "exponential")
    }
    missed = {
        function: sum(lists[-1] != high * 1_000 for lists, (_, high) in zip(found, pairs, strict=True))
        for function, found in waits.items()
    }
    assert (missed["arithmetic"], missed["geometric"]) == (960, 16_342)
    # Equal on paper, they differ somewhere in 1,375 pairs.
    assert sum(a != b for a, b in zip(waits["geometric"], waits["exponential"], strict=True)) == 1_375


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"low": "0s"}, "low"),
        ({"low": "1500ms"}, "low"),
        ({"low": "5s", "high": "14s"}, "high"),
        ({"high": "2h"}, "high"),
    ],
)
def test_what_shipped_zaqar_refuses(given: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        preset("zaqar_shipped", **given)
    assert caught.value.field == field


def test_sns_tries_managed_endpoints_100015_times_in_over_23_days() -> None:
    given = Policy.from_json("sns_managed")
    assert given.retries == 3 + 2 + 10 + 100_000
    low, high = window(given)
    assert low == high
    assert round(low / DAY, 2) == 23.15


def test_sns_tries_customers_endpoints_50_times_in_over_6_hours() -> None:
    low, _ = window("sns_customer")
    assert round(low / HOUR, 2) == 6.79


def test_sns_counts_all_phases_of_http_in_one_number() -> None:
    given = {
        "preset": "sns_http",
        "retries": 10,
        "immediate": 2,
        "before": 1,
        "after": 3,
        "low": "1s",
        "high": "10s",
    }
    assert misfits(given, "0 0 1 1 4 7 10 10 10 10") == []
    assert Policy.from_json(given).retries == 10
    with pytest.raises(InvalidPolicy, match="retries"):
        preset("sns_http", retries=2, immediate=3)
    with pytest.raises(InvalidPolicy, match="at least what"):
        preset("sns_http", retries=2, immediate=1, before=1, after=1)


# -- Queues


@pytest.mark.parametrize("attempts", [21, 30, 50, 100, 1_000])
def test_obans_last_wait_stays_near_12_days_however_many_attempts(attempts: int) -> None:
    """With 20 attempts the last exponent is 19, with more it comes close to 20 and never passes it."""
    last = [*islice(reaches(preset("oban", max_attempts=attempts)), attempts - 1)][-1]
    assert last[0] == 15 + 2 ** round((attempts - 1) / attempts * 20)
    assert last[0] <= 15 + 2**20


def test_obans_window_grows_with_the_attempts_all_the_same() -> None:
    """Forty attempts wait by the exponents 1, 1, 2, 2 ... 19, 19, 20: 3 * 2^20 - 4 s, and 39 * 15 s; 36.4 days."""
    low, _ = window({"preset": "oban", "max_attempts": 40})
    assert low == 3 * 2**20 - 4 + 39 * 15
    assert round(low / DAY, 1) == 36.4


def test_obans_first_attempts_of_fifty_share_an_exponent() -> None:
    """a / 50 * 20, rounded: 0.4, 0.8, 1.2, 1.6, 2.0, 2.4, 2.8."""
    assert misfits({"preset": "oban", "max_attempts": 50, "jitter": "none"}, "16 17 17 19 19 19 23") == []
    assert misfits({"preset": "oban", "limit": 49, "jitter": "none"}, "16 17 17 19 19 19 23") == []


def test_obans_curve_is_not_stretched_below_twenty_attempts_or_without_a_limit() -> None:
    for given in ({"max_attempts": 20}, {"max_attempts": 5}, {"limit": None}, {}):
        assert misfits({"preset": "oban", "jitter": "none"} | given, "17 19 23 31") == []
    with pytest.raises(InvalidPolicy, match="limit"):
        preset("oban", limit="many")
    with pytest.raises(InvalidPolicy, match="max_attempts"):
        preset("oban", max_attempts=0)


def test_celery_cuts_its_base_to_whole_seconds_of_at_least_one() -> None:
    for base in ("0s", "500ms", "1.9s"):
        assert misfits({"preset": "celery", "base": base}, "0-1 0-2 0-4") == []
    assert misfits({"preset": "celery", "base": "2s"}, "0-2 0-4 0-8") == []


def test_celerys_hour_is_capped_at_ten_minutes() -> None:
    """Three retries of at most ten minutes, on average a quarter of an hour in all."""
    waits = [sum(draw({"preset": "celery", "base": "1h"}, retry, 2_000)) / 2_000 for retry in (1, 2, 3)]
    assert sum(waits) == pytest.approx(900, rel=0.03)


def test_procrastinates_power_of_five_passes_141_days_at_the_tenth_retry() -> None:
    given = {"preset": "procrastinate", "wait": 0, "linear": 0, "exponential": 5}
    assert round(window(given, 10)[0] / DAY) == 141
    assert misfits({"preset": "procrastinate", "wait": "2s", "linear": "1s", "exponential": 0}, "2 3 4") == []
    assert misfits({"preset": "procrastinate", "wait": 0, "linear": 0, "exponential": 1}, "1 1 1") == []


def test_pg_boss_knows_no_delay_below_a_second_and_stops_doubling_at_the_16th() -> None:
    assert misfits({"preset": "pg_boss", "base": 0}, "1-2 2-4") == []
    assert longest("pg_boss", 16) == 2**16
    assert longest("pg_boss", 30) == 2**16


def test_graphiles_exponent_stops_at_ten() -> None:
    assert longest("graphile", 24) == pytest.approx(22_026.466, abs=2e-3)
    assert 6.1 < longest("graphile", 24) / HOUR < 6.2


def test_airflow_piles_up_at_a_day() -> None:
    assert set(draw("airflow", 10, 50)) == {86_400.0}
    with pytest.raises(InvalidPolicy, match="whole seconds above 0"):
        preset("airflow", base="500ms")


def test_bullmqs_overflow_is_a_wait_of_365_days_here() -> None:
    assert wait_ms(preset("bullmq", limit=None), 1_016) == 365 * DAY * 1_000


# -- Clouds, retriers, clients


def test_temporal_is_capped_at_a_hundred_times_its_first_wait() -> None:
    assert misfits({"preset": "temporal", "base": "2s"}, "2 4 8 16 32 64 128 200 200") == []


def test_azures_tenth_wait_is_16_hours() -> None:
    assert 16 < longest("azure_storage", 10) / HOUR < 17


def test_cenkaltis_waits_pass_its_cap_by_half() -> None:
    assert longest("cenkalti", 30) == 90
    assert preset("cenkalti").deadline_ms == 15 * 60_000


def test_grpcs_waits_pass_its_cap_by_a_fifth() -> None:
    assert longest("grpc", 30) == 144


def test_pollys_first_three_waits_may_be_next_to_nothing() -> None:
    for retry in (1, 2, 3):
        assert [*islice(reaches(preset("polly_v2")), retry)][-1][0] == 0


def test_a_ceiling_for_tenacitys_jitter_makes_it_vanish() -> None:
    assert set(draw({"preset": "tenacity_jitter", "ceil": "5s"}, 4, 50)) == {5.0}


def test_faktory_worker_go_grows_without_bound() -> None:
    assert longest("faktory_worker_go", 16) == 30 * 2**14

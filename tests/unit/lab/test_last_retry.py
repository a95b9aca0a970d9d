"""When the last retry comes, against hand arithmetic, and against figures that a brute force found which shares no code."""

from __future__ import annotations

import math
from typing import Any

import pytest

from anew.backoff import Policy, preset
from anew.lab import explain
from anew.lab import last_retry as module
from anew.lab.last_retry import blocks, is_endless, last_retry, outlives, shares_by_limit, window
from anew.units import parse_duration


@pytest.fixture(params=["arrays", "plain Python"])
def drawn_in(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to draw."""
    way = str(request.param)
    if way == "arrays":
        pytest.importorskip("numpy")
    monkeypatch.setattr(module, "has_numpy", lambda: way == "arrays")
    last_retry.cache_clear()
    return way


SMALL_DIE = {"around": {"share": 0.5, "faces": 7}}
TRUE_SHARES = [
    ({"base": "100ms"}, SMALL_DIE, "10m", "465s", 24.7),
    ({"base": "2s"}, {"full": {"faces": 100}}, "10m", "184700ms", 96.2),
    ({"base": "2s"}, {"full": {"faces": 100}}, "400s", "179600ms", 86.2),
    ({"base": "162ms", "factor": 1.7}, SMALL_DIE, "102968ms", "53700ms", 97.9),
    ({"base": "137ms", "factor": 2.7}, {"equal": {"faces": 4}}, "2h", "64m", 21.7),
]
"""Exponential curve, jitter, deadline, outage, and the share in per cent that a brute force found; 25 retries."""


@pytest.mark.parametrize(
    ("policy", "outage", "true"),
    [
        *(
            (
                {"curve": {"exponential": curve}, "jitter": jitter, "limit": 25, "deadline": deadline},
                outage,
                true,
            )
            for curve, jitter, deadline, outage, true in TRUE_SHARES
        ),
        (
            {"curve": {"table": ["5s", "5s", "1500ms", "1ms"]}, "jitter": "full", "ceil": "1s", "limit": 4},
            "3s",
            21,
        ),
        # By hand: the last wait is anything from 89,100 to 90,900 s, and 303 s come before it.
        ({"curve": {"table": ["3s", "300s", "25h"]}, "jitter": {"around": 0.01}, "limit": 3}, "91167s", 2.0),
    ],
)
def test_shares_that_a_brute_force_found(
    policy: dict[str, Any], outage: str, true: float, drawn_in: str
) -> None:
    found = last_retry(Policy.from_json(policy))
    assert found is not None
    points = 0.5 if drawn_in == "arrays" else 2.5  # 100,000 jobs, and 4,000; the true ones are rounded
    assert found.error * 100 < points
    assert 100 * found.outlives(parse_duration(outage)) == pytest.approx(true, abs=points)


def test_one_number_for_all_waits(drawn_in: str) -> None:
    """Six waits of [10, 20 s) with one number: anything from 60 to 120 s, evenly."""
    body = {"curve": {"constant": "10s"}, "jitter": {"above": {"share": 1, "source": "job"}}, "limit": 6}
    found = last_retry(Policy.from_json(body))
    assert found is not None
    assert (found.earliest_ms, found.latest_ms, found.nearly) == (60_000, 120_000, False)
    assert found.mean_ms == pytest.approx(90_000, abs=50)
    assert found.sd_ms == pytest.approx(60_000 / math.sqrt(12), rel=0.01)
    for percent in (1, 25, 50, 99):
        assert found.percentile(percent) == pytest.approx(60_000 + 600 * percent, abs=60)
        assert found.outlived_by(percent) == pytest.approx(120_000 - 600 * percent, abs=60)
    assert (found.percentile(0), found.percentile(100)) == (60_000, 120_000)
    assert (found.outlived_by(0), found.outlived_by(100)) == (120_000, 60_000)
    assert [found.outlives(ms) for ms in (60_000, 120_001)] == [1, 0]
    assert found.outlives(75_000) == pytest.approx(0.75, abs=0.002)


def test_where_chance_has_no_part_nothing_is_off() -> None:
    found = last_retry(Policy.from_json({"curve": {"exponential": {"base": "1s"}}, "limit": 3}))
    assert found is not None
    assert (found.earliest_ms, found.latest_ms, found.mean_ms, found.sd_ms, found.error) == (
        7_000,
        7_000,
        7_000,
        0,
        0,
    )
    assert [found.outlives(ms) for ms in (7_000, 7_001)] == [1, 0]


def test_what_has_no_end_or_asks_a_function_cannot_be_told() -> None:
    endless = Policy.from_json({"curve": {"constant": "1s"}, "limit": None})
    assert is_endless(endless)
    assert last_retry(endless) is None
    assert outlives(endless, 10**12) == 1
    assert (
        last_retry(Policy.from_json({"curve": {"constant": "1ms"}, "limit": None, "deadline": "1d"})) is None
    )
    many = {"curve": {"constant": "1s"}, "jitter": {"decorrelated": 1.1}, "ceil": "2s", "limit": 100_000}
    assert last_retry(Policy.from_json(many)) is None


def test_no_retry_at_all() -> None:
    found = last_retry(Policy.from_json({"curve": {"constant": "1s"}, "limit": 0}))
    assert found is not None
    assert (found.earliest_ms, found.latest_ms, found.outlives(0), found.outlives(1)) == (0, 0, 1, 0)


def test_a_deadline_that_comes_first(drawn_in: str) -> None:
    """Waits of 0 to 2 s until a minute is over: the last retry is some two thirds of a second before it."""
    body = {"curve": {"constant": "2s"}, "jitter": "full", "limit": None, "deadline": "1m"}
    found = last_retry(Policy.from_json(body))
    assert found is not None
    assert found.nearly
    assert 55_000 < found.earliest_ms < found.latest_ms <= 60_000
    # The time since the last of many calls is E(w²) / 2 E(w) = (4/3) / 2 of waits in [0, 2 s).
    assert 60_000 - found.mean_ms == pytest.approx(667, abs=25 if drawn_in == "arrays" else 80)


def test_a_clipped_wait_ends_at_the_deadline() -> None:
    body = {"curve": {"constant": "40s"}, "limit": 5, "deadline": "1m", "on_deadline": "clip"}
    found = last_retry(Policy.from_json(body))
    assert found is not None
    assert (found.earliest_ms, found.latest_ms, found.nearly) == (60_000, 60_000, False)


def test_very_many_retries_are_as_good_as_normal(drawn_in: str) -> None:
    """100,000 waits of [10, 30 s): 2 million seconds, give or take 5.77 s times the root of 100,000."""
    body = {"curve": {"constant": "20s"}, "jitter": {"around": 0.5}, "limit": 100_000}
    found = last_retry(Policy.from_json(body))
    assert found is not None
    assert (found.earliest_ms, found.latest_ms) == (1_000_000_000, 3_000_000_000)
    sd = 20_000 / math.sqrt(12) * math.sqrt(100_000)
    assert found.sd_ms == pytest.approx(sd, rel=0.05 if drawn_in == "arrays" else 0.3)
    assert abs(found.mean_ms - 2_000_000_000) < 5 * sd / math.sqrt(len(found.times_ms)) + 50_000


def test_a_preset_of_a_hundred_thousand_retries() -> None:
    """SNS, managed endpoints: 100,015 retries without chance; 23 d 3 h."""
    found = last_retry(preset("sns_managed"))
    assert found is not None
    assert found.earliest_ms == found.latest_ms
    assert found.latest_ms // 3_600_000 == 23 * 24 + 3


def test_decorrelated_remembers_the_wait_before_the_floor() -> None:
    """1 to 3 s at first, which the floor makes 10 s: the next is up to three times of what was drawn, 9 s."""
    body = {"curve": {"constant": "1s"}, "jitter": "decorrelated", "floor": "10s", "limit": 3}
    assert [row.latest_ms for row in explain(body).rows] == [10_000, 10_000, 27_000]
    assert window(Policy.from_json(body)) == (30_000, 47_000)


def test_one_draw_tells_every_limit() -> None:
    """The sum of n numbers of [0, 1) is below 1 with 1/n!."""
    body = {"curve": {"constant": "1m"}, "jitter": "full", "limit": 2}
    shares = shares_by_limit(Policy.from_json(body), 60_000, 6)
    assert shares == pytest.approx([0, 1 / 2, 5 / 6, 23 / 24, 119 / 120, 719 / 720], abs=0.005)


def test_blocks_stand_for_all_retries() -> None:
    policy = Policy.from_json(
        {"phases": [{"curve": {"constant": 1}, "count": 700}, {"curve": {"constant": 2}}]}
    )
    found = [*blocks(policy, 5_000)]
    assert sum(count for _, count in found) == 5_000
    assert len(found) < 2_000
    assert sum(count for retry, count in found if retry <= 700) == 700


def test_a_die_shows_no_face_that_does_not_fit() -> None:
    """10 s and 0, 4 or 8 s more, 15 s in all: 10 and 14 s fit, each as often as the other."""
    body = {
        "curve": {"constant": "10s"},
        "jitter": {"add": {"by": "12s", "faces": 3}},
        "deadline": "15s",
        "limit": 5,
    }
    (row,) = explain(body).rows
    assert (row.earliest_ms, row.latest_ms, row.nearly) == (10_000, 14_000, False)
    assert row.mean_ms == pytest.approx(12_000, abs=30)
    assert row.share == pytest.approx(2 / 3, abs=0.005)


def test_means_are_those_of_the_waits_that_come() -> None:
    """Anything up to 10 minutes, and five of them at most: those that come last 2.5 on average."""
    body = {"curve": {"constant": "10m"}, "jitter": "full", "deadline": "5m", "limit": 1}
    (row,) = explain(body).rows
    assert row.mean_ms == pytest.approx(150_000, rel=0.01)
    assert row.share == pytest.approx(0.5, abs=0.008)


def test_however_much_a_life_costs_two_hundred_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without NumPy 100,000 retries are drawn at most, which would be 99 lives of 1,001 here.
    monkeypatch.setattr(module, "has_numpy", lambda: False)
    last_retry.cache_clear()
    policy = Policy.from_json(
        {"curve": {"constant": "1s"}, "jitter": "full", "limit": 1_000, "deadline": "30d"}
    )
    assert len(last_retry(policy).times_ms) == 200

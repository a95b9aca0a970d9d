"""How calls lie in time, against figures worked out by hand; with NumPy and without the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anew.backoff import Policy, preset
from anew.lab import rhythm as lab_rhythm
from anew.lab.rhythm import Rhythm, Silence, even_second, in_order
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.lab.waves import ABSENT, Wave, waves
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS

CELERY = preset("celery")
"""Full jitter of 1, 2 and 4 s in whole seconds: calls at 0, 1 ... 7 s and never between."""


def steady(wait: str, limit: int) -> Policy:
    return Policy.from_json({"curve": {"constant": wait}, "limit": limit})


def herd(policy: Policy, jobs: int, retries: int) -> Sequence[Wave]:
    return waves(policy, jobs, retries, seed=1)


def rhythm(found: Sequence[Wave]) -> Rhythm:
    return lab_rhythm.rhythm(in_order(found))


def plain(found: Sequence[Wave]) -> list[Wave]:
    return [[int(ms) for ms in wave] for wave in found]


@pytest.mark.parametrize(
    ("span_ms", "unit_ms"),
    [
        (0, 1), (49, 1), (499, 1), (500, 10), (4_999, 10), (5_000, 100), (49_999, 100), (50_000, 1_000),
        (50 * MINUTE_MS - 1, 1_000), (50 * MINUTE_MS, MINUTE_MS), (50 * HOUR_MS, HOUR_MS), (50 * DAY_MS, DAY_MS),
    ],
)  # fmt: skip
def test_the_unit_of_silence_fits_fifty_times(span_ms: int, unit_ms: int) -> None:
    found = rhythm([[1_234, 1_234 + span_ms]]).silence
    assert (1 if found is None else found.unit_ms) == unit_ms


def test_silence_is_the_share_of_empty_units() -> None:
    """From 0 to 7 s there are 71 tenths of a second, the one at 7 s included, and eight of them have a call."""
    found = rhythm([[0, 99, *range(100, 700, 100), 7_000]]).silence
    assert found == Silence(100, 1 - 8 / 71)
    assert found is not None
    assert found.unit == "tenths of a second"
    assert rhythm([[300, 300]]).silence is None


def test_an_even_second_is_never_fuller_than_the_peak() -> None:
    """Calls at 0.9, 1.5 and 2.4 s lie in three seconds of the clock, one in each."""
    assert even_second(3, 900, 2_400) == 1
    assert even_second(60_000, 0, 7_000) == 7_500
    assert even_second(5, 100, 900) is None
    assert even_second(0, 0, 0) is None


def test_celerys_herd_is_eight_instants() -> None:
    found = rhythm(herd(CELERY, 20_000, 3))
    assert (found.calls, found.first_ms, found.last_ms) == (60_000, 0, 7_000)
    # Waits of 0-1, 0-2 and 0-4 s: at 1 s come 1 of 2 first retries, 2 of 6 second and 3 of 30 third ones, 14/15 of the jobs.
    assert abs(found.peak_second - 20_000 * 14 / 15) < 300
    assert found.peak_minute == 60_000
    assert found.silence == Silence(100, pytest.approx(1 - 8 / 71))


def test_without_jitter_a_herd_is_as_many_instants_as_retries() -> None:
    """Five minutes apart, five times: of the 1,201 seconds from 300 s to 1,500 s five have calls."""
    found = herd(steady("5m", 5), 100, 5)
    assert rhythm(found) == Rhythm(
        calls=500,
        first_ms=300_000,
        last_ms=1_500_000,
        peak_second=100,
        peak_minute=100,
        silence=Silence(1_000, 1 - 5 / 1_201),
    )


def test_a_herd_about_the_border_of_a_minute_is_one_herd() -> None:
    """From 55 to 65 s all come, wherever the clock's minutes begin."""
    spread = Policy.from_json({"curve": {"constant": "55s"}, "jitter": {"add": "10s"}, "limit": 1})
    found = rhythm(herd(spread, 1_000, 1))
    assert found.peak_minute == 1_000
    assert 100 < found.peak_second < 140


@pytest.mark.parametrize(
    ("ordered", "second", "minute"),
    [
        ([900, 1_000, 1_899], 3, 3),
        ([999, 1_900], 1, 2),  # ten tenths in a row have one of them, though they lie 901 ms apart
        ([0, 999, 1_000], 2, 3),
        ([0, 59_999, 60_000], 2, 2),
        ([100, 59_999, 60_000, 60_099, 60_900], 3, 4),
        ([5] * 7, 7, 7),
    ],
)
def test_peaks_begin_on_any_tenth_of_a_second(ordered: list[int], second: int, minute: int) -> None:
    found = rhythm([ordered])
    assert (found.peak_second, found.peak_minute) == (second, minute)
    np = pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    assert rhythm([np.array(ordered)]) == found


@pytest.mark.parametrize("at", [0, 1, 63, 64, 65, 100, 199])
def test_a_peak_hides_nowhere_among_many_calls(at: int) -> None:
    """200 calls an hour apart, and at one of them six within a second, eight within a minute."""
    hours = [hour * HOUR_MS for hour in range(200)]
    calls = sorted([*hours, *(hours[at] + ms for ms in (0, 100, 200, 500, 900, 30_000, 59_900, 60_000))])
    np = pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    for ordered in (calls, np.array(calls)):
        found = rhythm([ordered])
        assert (found.peak_second, found.peak_minute) == (6, 8)
        assert found.silence == Silence(HOUR_MS, 0)


def test_even_has_neither_silence_nor_crests() -> None:
    """60 jobs a second on flat waits of 100 s: every second has a sixtieth of each hundred."""
    flat = Policy.from_json({"curve": {"constant": "100s"}, "jitter": "even", "limit": 3})
    found = rhythm(herd(flat, 6_000, 3))
    assert found.silence == Silence(1_000, 0)
    assert 60 <= found.peak_second <= 63
    assert rhythm(herd(preset("even"), 1_000, 25)).silence == Silence(HOUR_MS, 0)


def test_a_single_retry_has_no_time_to_be_silent_in() -> None:
    found = herd(steady("10s", 1), 7, 1)
    assert rhythm(found) == Rhythm(7, 10_000, 10_000, 7, 7, None)


def test_no_retry_is_no_call() -> None:
    assert rhythm([]) == Rhythm(0, 0, 0, 0, 0, None)
    assert rhythm([[ABSENT, ABSENT]]) == Rhythm(0, 0, 0, 0, 0, None)


@pytest.mark.parametrize("name", ["celery", "even", "sidekiq", "aws_full", "constant"])
def test_without_numpy_the_same(name: str) -> None:
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    found = herd(preset(name, limit=3), 60, 3)
    assert rhythm(plain(found)) == rhythm(found)


@pytest.mark.parametrize("name", ["celery", "even", "sidekiq", "aws_full", "constant"])
def test_a_simulation_in_which_all_fails_has_the_same_rhythm(name: str) -> None:
    policy = preset(name, limit=3)
    found = rhythm(herd(policy, 60, 3))
    for exact in (False, True):
        outcome = simulate(policy, Scenario(jobs=60, success=0), exact=exact)
        assert (outcome.peak_second, outcome.peak_minute) == (found.peak_second, found.peak_minute)

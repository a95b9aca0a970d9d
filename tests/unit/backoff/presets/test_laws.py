"""Each random preset's law as a distribution: bounds, mean, shape, no holes. The laws are written here anew."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import sqrt
from typing import Any, NamedTuple

import pytest

from anew.backoff import PRESETS, NoJitter, Policy, preset

from .helpers import DAY, draw, histories

JOBS = 2_000
# Kolmogorov's statistic stays below this in 999 of 1,000 samples; the seeds are fixed, so these ones do.
KOLMOGOROV = 1.95


class Law(NamedTuple):
    """A wait's law in seconds: ``[low, high)``, with so many equally likely values or any real one."""

    low: float
    high: float
    faces: int | None = None


def n4(weight: float, faces: int | None) -> Callable[[int], Law]:
    """15 + (k-1)^4 s, plus k times a die whose faces are a second apart."""

    def law(k: int) -> Law:
        low = 15.0 + (k - 1) ** 4
        return Law(low, low + weight * k, faces)

    return law


def doubling(
    base: float, low: float, high: float, cap: float = 1e12, add: float = 0, factor: float = 2
) -> Callable[[int], Law]:
    """Both ends as shares of ``min(base * factor^(k-1), cap)``, the upper one with something added."""

    def law(k: int) -> Law:
        nominal = min(base * factor ** (k - 1), cap)
        return Law(low * nominal, high * nominal + add)

    return law


def celery(k: int) -> Law:
    seconds = min(2 ** (k - 1), 600)
    return Law(0, seconds + 1, seconds + 1)


def airflow(k: int) -> Law:
    seconds = 300 * 2 ** (k - 1)
    return Law(seconds, 2 * seconds, seconds)


INNGEST = (15, 30, 60, 120, 300, 600, 1_200, 2_400, 3_600, 7_200)

LAWS: list[tuple[Any, Callable[[int], Law]]] = [
    ("zizq", lambda k: Law(15 + k**4, 15 + k**4 + 30 * k)),
    ("zizq_from_zero", lambda k: Law(15 + (k - 1) ** 4, 15 + (k - 1) ** 4 + 30 * (k - 1))),
    ("zizq_before_0_6_1", lambda k: Law(15 + k**4 / 1000, 15 + k**4 / 1000 + 30 * (k + 1))),
    ("faktory", n4(30, 30)),
    ("sidekiq", n4(30, 30)),
    ("hangfire", n4(30, 30)),
    ("asynq", n4(30, 30)),
    ("exq", lambda k: Law(15 + k**4, 15 + k**4 + 31 * (k + 1), 31)),
    ("sidekiq7", n4(10, 10)),
    ("sidekiq8", lambda k: Law(15 + (k - 1) ** 4, 15 + (k - 1) ** 4 + 10 * k, 10 * k)),
    ("sidekiq_chart", lambda k: Law(15 + k**4, 15 + k**4 + 30 * (k + 1))),
    ("buckets", lambda k: Law(k**3, (k + 2) ** 3)),
    ("zzz_jobs", doubling(15, 1, 1.25, 3_600)),
    ("aws_full", doubling(1, 0, 1, 20)),
    ("aws_equal", doubling(1, 0.5, 1, 20)),
    ("aws_sdk", doubling(1, 0, 1, 20)),
    ("aws_sdk_2026", doubling(0.05, 0, 1, 20)),
    ("azure_storage", lambda k: Law(15 + 3**k - 3, 15 + 3**k + 3)),
    ("river", lambda k: Law(0.9 * k**4, 1.1 * k**4)),
    ("rails", lambda k: Law(2 + k**4, 2 + 1.15 * k**4)),
    ({"preset": "bullmq", "share": 0.5}, doubling(1, 0.5, 1)),
    ("symfony", doubling(1, 0.9, 1.1)),
    ("inngest", lambda k: Law(INNGEST[k - 1], INNGEST[k - 1] + 30)),
    ("backoff_expo", doubling(1, 0, 1)),
    ("pg_boss", doubling(1, 1, 2)),
    ("celery", celery),
    ("dramatiq", doubling(15, 1, 2)),
    ("airflow", airflow),
    ({"preset": "polly_constant", "jitter": {"around": 0.25}}, doubling(2, 0.75, 1.25, factor=1)),
    ("tenacity_random", lambda k: Law(0, 1)),
    ("tenacity_random_exponential", doubling(1, 0, 1, 60)),
    ("tenacity_jitter", doubling(1, 1, 1, add=1)),
    ("cenkalti", doubling(0.5, 0.5, 1.5, 60, factor=1.5)),
    ("google_api_core", doubling(1, 0, 1, 60)),
]
STATEFUL = {"aws_decorrelated", "polly_v2"}
TESTED_BELOW = {"oban", "stamina", "grpc"}
TESTED_WITH_EVEN = {"even"}


@pytest.mark.parametrize("retry", [2, 7])
@pytest.mark.parametrize(("given", "law"), LAWS, ids=lambda part: "law" if callable(part) else str(part))
def test_the_law_of_a_wait(given: Any, law: Callable[[int], Law], retry: int) -> None:
    waits = sorted(draw(given, retry, JOBS, seed=retry))
    low, high, faces = law(retry)
    # Waits are cut to whole milliseconds.
    assert low - 0.001 <= waits[0]
    assert waits[-1] < high
    if faces is not None and faces <= 100:
        step = (high - low) / faces
        counts = Counter(round((wait - low) / step, 9) for wait in waits)
        assert counts.keys() == set(map(float, range(faces)))
        expected = JOBS / faces
        assert all(abs(count - expected) < 5 * sqrt(expected) for count in counts.values())
        mean = low + (high - low - step) / 2
    else:
        mean = (low + high) / 2
        shares = [(wait - low) / (high - low) for wait in waits]
        deviation = max(abs(share - (rank + 0.5) / JOBS) for rank, share in enumerate(shares))
        assert (deviation - 0.001 / (high - low)) * sqrt(JOBS) < KOLMOGOROV
    assert sum(waits) / JOBS == pytest.approx(mean, abs=5 * (high - low) / sqrt(12 * JOBS) + 0.001)


def test_every_preset_that_draws_has_its_law_tested() -> None:
    named = {given if isinstance(given, str) else given["preset"] for given, _ in LAWS}
    random = {name for name in PRESETS if not isinstance(preset(name).jitter, NoJitter)}
    assert random <= named | STATEFUL | TESTED_BELOW | TESTED_WITH_EVEN


def test_obans_truncated_tenth() -> None:
    """Retry 4: 31 s and trunc(U * 3.1 s): 0, 1, 2 with 1/3.1 each, 3 with the rest."""
    counts = Counter(draw("oban", 4, 6_200))
    assert counts.keys() == {31.0, 32.0, 33.0, 34.0}
    for wait, expected in ((31.0, 2_000), (32.0, 2_000), (33.0, 2_000), (34.0, 200)):
        assert abs(counts[wait] - expected) < 5 * sqrt(expected)


def test_staminas_jitter_vanishes_from_the_seventh_retry() -> None:
    third = draw("stamina", 3, JOBS)
    assert 0.4 <= min(third) < 0.41
    assert 1.39 < max(third) < 1.4
    assert set(draw("stamina", 7, 100)) == {5.0}
    # 3.2 s and up to 1 s: nothing is cut off at the sixth.
    assert max(draw("stamina", 6, 1_000)) > 4.19


def test_grpcs_first_wait_has_no_jitter_and_draws_nothing() -> None:
    assert set(draw("grpc", 1, 50)) == {1.0}
    second = draw("grpc", 2, JOBS)
    assert 1.28 <= min(second) < 1.29
    assert 1.91 < max(second) < 1.92
    assert sum(second) / JOBS == pytest.approx(1.6, abs=0.02)
    # 144 s for a cap of 120 s.
    assert 143 < max(draw("grpc", 20, JOBS)) < 144


def test_dramatiqs_mean_wait_dips_once_the_cap_binds() -> None:
    """4.27 days at the 15th retry, 5.50 at the 16th, 5.25 from the 17th on; never 7 days or more."""
    for retry, mean in ((15, 4.27), (16, 5.50), (17, 5.25), (20, 5.25)):
        waits = draw("dramatiq", retry, 20_000)
        assert sum(waits) / len(waits) / DAY == pytest.approx(mean, abs=0.03)
        assert max(waits) < 7 * DAY


def test_dramatiqs_draws_above_the_cap_are_uniform_in_its_upper_half() -> None:
    waits = sorted(draw("dramatiq", 18, JOBS))
    low, high = 3.5 * DAY, 7 * DAY
    deviation = max(abs((wait - low) / (high - low) - (rank + 0.5) / JOBS) for rank, wait in enumerate(waits))
    assert deviation * sqrt(JOBS) < KOLMOGOROV


def test_the_sixteenth_wait_of_dramatiq_mixes_both_windows() -> None:
    """23 % come from [491,520 s, 7 d), the others from [3.5 d, 7 d): no hole, and no lump at the cap."""
    waits = draw("dramatiq", 16, 20_000)
    below = sum(wait < 491_520 for wait in waits) / len(waits)
    # 0.7695 of all draws pass the cap, and (491,520 - 302,400) / 302,400 of those fall below the plain window.
    assert below == pytest.approx(0.7695 * 0.6254, abs=0.015)
    assert min(waits) < 3.51 * DAY
    assert max(Counter(waits).values()) <= 3


def test_decorrelated_waits_are_uniform_between_base_and_thrice_the_wait_before() -> None:
    shares = []
    for before, wait in histories("aws_decorrelated", 2, JOBS):
        assert 1.0 <= before < 3.0
        # What is remembered is not cut to milliseconds, the wait that is seen is.
        assert 1.0 <= wait < min(3 * before + 0.003, 20.0)
        shares.append((wait - 1.0) / (3 * before - 1.0))
    deviation = max(abs(share - (rank + 0.5) / JOBS) for rank, share in enumerate(sorted(shares)))
    assert deviation * sqrt(JOBS) < KOLMOGOROV


def test_pollys_instants_have_doubling_medians_and_stay_inside_their_slices() -> None:
    """The k-th instant is one draw of F(k - 1 + U) / 1.4, and F(k - 1/2) / 1.4 is close to 2^(k-1)."""
    jobs = [*histories({"preset": "polly_v2", "base": "1s"}, 4, JOBS)]
    instants = [sorted(sum(waits[:retry]) for waits in jobs) for retry in (1, 2, 3, 4)]
    assert [times[JOBS // 2] for times in instants] == pytest.approx([0.9, 2.0, 4.0, 8.1], rel=0.04)
    assert 2.83 < instants[2][0] < instants[2][-1] < 5.71


def test_a_later_bucket_is_shorter_in_one_case_of_eight() -> None:
    shorter = total = 0
    for waits in histories("buckets", 25, 800):
        shorter += sum(after < before for before, after in pairwise(waits[14:]))
        total += len(waits) - 15
    assert shorter / total == pytest.approx(0.125, abs=0.015)


def test_airflows_hash_gives_the_same_wait_again_and_another_at_another_retry() -> None:
    assert draw("airflow", 3, 20, seed=1) == draw("airflow", 3, 20, seed=2)
    shares = zip(draw("airflow", 3, 20), draw("airflow", 4, 20), strict=True)
    assert any(abs(third / 1_200 - fourth / 2_400) > 0.1 for third, fourth in shares)


def test_a_herd_of_sidekiqs_shares_thirty_seconds_and_one_of_sidekiq_8s_ten() -> None:
    assert len(set(draw("sidekiq", 1, JOBS))) == 30
    assert len(set(draw("sidekiq7", 25, JOBS))) == 10
    assert len(set(draw("sidekiq8", 1, JOBS))) == 10
    assert len(set(draw("sidekiq8", 7, JOBS))) == 70


def test_full_jitter_halves_the_window() -> None:
    spent = [sum(waits) for waits in histories("aws_full", 5, JOBS)]
    assert sum(spent) / JOBS == pytest.approx((1 + 2 + 4 + 8 + 16) / 2, rel=0.03)


def test_policies_of_presets_without_jitter_draw_nothing() -> None:
    for name in PRESETS:
        policy: Policy = preset(name)
        if isinstance(policy.jitter, NoJitter):
            assert len(set(draw(name, 3, 3))) == 1

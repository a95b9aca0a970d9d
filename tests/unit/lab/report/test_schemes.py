"""What is measured is what the labels say."""

from __future__ import annotations

import numpy as np
import pytest

from anew.backoff import Policy
from anew.lab.report.schemes import BUCKETS_MEAN, SCHEMES, SIDEKIQ_MEAN


def test_sidekiqs_mean_curve() -> None:
    policy = Policy.from_json({"curve": SIDEKIQ_MEAN})
    # 15 + 15k + (k-1)^4 seconds.
    assert [policy.nominal(k) / 1_000 for k in (1, 2, 3, 4, 10)] == [30, 46, 76, 156, 6_726]


def test_buckets_mean_curve() -> None:
    policy = Policy.from_json({"curve": BUCKETS_MEAN})
    # (1 + 27) / 2, (8 + 64) / 2, (27 + 125) / 2.
    assert [policy.nominal(k) / 1_000 for k in (1, 2, 3)] == [14, 36, 76]


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("sidekiq8", 15, 24),
        ("rails", 3, 3.15),
        ("river", 0.9, 1.1),
        ("buckets", 1, 27),
        ("chart_sidekiq", 16, 76),
        ("capped_zzz_jobs", 15, 18.75),
        ("doubling_decorrelated", 1, 3),
        ("even_seq", 15, 53),
    ],
)
def test_the_first_wait_fills_its_window(key: str, low: float, high: float) -> None:
    first = SCHEMES[key].instants(5_000, 1)[0] / 1_000
    assert low <= first.min() < low + (high - low) * 0.01
    assert high - (high - low) * 0.01 < first.max() <= high


def test_sidekiq_8_rolls_whole_seconds() -> None:
    assert set((SCHEMES["sidekiq8"].instants(500, 1)[0] % 1_000).tolist()) == {0}


def test_tiles_are_redrawn_but_never_left() -> None:
    # On Sidekiq's mean curve: C(1) = 15 s, C(2) = 15 + (30 + 46)/2 = 53 s, C(3) = 53 + (46 + 76)/2 = 114 s.
    instants = SCHEMES["tiles"].instants(5_000, 1)
    for row, (low, high) in zip(instants, ((15_000, 53_000), (53_000, 114_000)), strict=False):
        assert low <= row.min() < low + 200
        assert high - 200 < row.max() < high
    places = np.argsort(instants, axis=1)
    assert (places[0] != places[1]).any()


@pytest.mark.parametrize("key", SCHEMES)
def test_every_scheme_can_be_drawn(key: str) -> None:
    scheme = SCHEMES[key]
    instants = scheme.instants(8, 1)
    assert instants.shape == (scheme.retries, 8)
    assert (np.diff(instants, axis=0, prepend=0) >= 0).all()
    assert Policy.from_json(scheme.policy) == scheme.built()

"""What the page of limits says of one."""

from __future__ import annotations

import pytest

from anew.jobs.limits import Throttle, rate
from anew.web.dashboard.limits import limit_words


@pytest.mark.parametrize(
    ("throttle", "words"),
    [
        (Throttle(concurrency=5), "5 at one time"),
        (Throttle(concurrency=0), "0 at one time"),
        (Throttle(rate=rate(100, 60_000, 20)), "100 in 1 min, 20 at once after a quiet time"),
        (
            Throttle(concurrency=9, per_worker=2, timeout_ms=30_000),
            "9 at one time; 2 at one time in each worker; each for 30 s at most",
        ),
        (Throttle(), "–"),
    ],
)
def test_a_limit_is_said_in_words(throttle: Throttle, words: str) -> None:
    assert limit_words(throttle) == words

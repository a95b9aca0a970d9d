"""What is worked out for a row."""

from __future__ import annotations

import pytest

from anew.store.sql.rows import near_at


@pytest.mark.parametrize(
    ("ready_at", "now", "expected"),
    [
        (None, 0, None),  # the job keeps its time, which has come
        (8_191, 0, None),  # near
        (8_192, 0, 4_096),  # in steps of 4,096, the largest power of two within half the wait; one step ahead
        (16_383, 0, 8_192),
        (45_000, 0, 16_384),  # in steps of 16,384
        (46_500, 1_500, 16_384),  # another that failed later shares the instant
        (1_000, 2_000, None),  # a time that has passed
    ],
)
def test_when_a_waiting_job_is_entered_among_the_due(
    ready_at: int | None, now: int, expected: int | None
) -> None:
    assert near_at(ready_at, now) == expected


@pytest.mark.parametrize("wait", [8_192, 8_193, 12_345, 65_535, 3_600_000, 31_536_000_000, 2**62])
def test_it_is_entered_a_quarter_of_its_wait_ahead_and_not_at_once(wait: int) -> None:
    for now in (0, 1_700_000_000_123):
        at = near_at(now + wait, now)
        assert at is not None
        assert now <= at
        assert 4 * (now + wait - at) > wait

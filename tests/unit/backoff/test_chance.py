"""Phases and hashed draws against published digits and an independent route."""

import pytest

from anew.backoff import Draws, phase_of_id, phase_of_ordinal, phase_offset

from .helpers import no_chance


@pytest.mark.parametrize(
    ("ordinal", "phase"),
    [
        (0, 0),
        (1, 0.618033989),
        (2, 0.236067977),
        (3, 0.854101966),
        (4, 0.472135955),
        (5, 0.090169944),
        (6, 0.708203932),
        (7, 0.326237921),
        (8, 0.944271910),
        (10**6, 0.988749895),
        (2**63, 0.5),
    ],
)
def test_phases_of_ordinals_are_multiples_of_the_golden_ratio(ordinal: int, phase: float) -> None:
    assert phase_of_ordinal(ordinal) == pytest.approx(phase, abs=5e-10)


def test_an_offset_turns_the_circle() -> None:
    assert phase_of_ordinal(0, 2**63) == 0.5
    assert phase_of_ordinal(2**63, 2**63) == 0
    assert phase_of_ordinal(3, 2**64 + 5) == phase_of_ordinal(3, 5)


def test_consecutive_ordinals_keep_their_distance() -> None:
    """Golden-ratio points of n consecutive numbers stay at least 0.44 / n apart, across zero too."""
    for start in (0, 123_456_789):
        points = sorted(phase_of_ordinal(start + s) for s in range(1_000))
        gaps = [b - a for a, b in zip(points, [*points[1:], points[0] + 1], strict=True)]
        assert min(gaps) >= 0.44 / 1_000


@pytest.mark.parametrize(
    ("job_id", "key", "phase"),
    [
        (b"job-1", b"", 0.007419028860595),
        (b"job-2", b"", 0.361829026855756),
        (b"job-3", b"", 0.529240775097914),
        (b"job-1", b"anew", 0.741962602519691),
        (b"job-2", b"anew", 0.892658350061648),
    ],
)
def test_phases_of_ids(job_id: bytes, key: bytes, phase: float) -> None:
    assert phase_of_id(job_id, key) == pytest.approx(phase, abs=1e-14)


def test_phases_stay_below_one() -> None:
    assert phase_of_ordinal(-1 * pow(11_400_714_819_323_198_485, -1, 2**64)) == 1 - 2**-53


def test_offsets_depend_on_every_name_and_on_where_they_part() -> None:
    offsets = {
        phase_offset(b"store", b"queue"),
        phase_offset(b"storeq", b"ueue"),
        phase_offset(b"store", b"other"),
        phase_offset(b"store", b"queue", key=b"secret"),
        phase_offset(),
    }
    assert len(offsets) == 5
    assert all(0 <= offset < 2**64 for offset in offsets)


def test_hashed_draws_differ_by_retry_id_and_key_and_repeat() -> None:
    draws = Draws(no_chance, b"job-1")
    numbers = [draws.hashed(retry) for retry in range(1, 1_001)]
    assert numbers == [Draws(no_chance, b"job-1").hashed(retry) for retry in range(1, 1_001)]
    assert len(set(numbers)) == 1_000
    assert all(0 <= number < 1 for number in numbers)
    assert Draws(no_chance, b"job-2").hashed(1) != numbers[0]
    assert Draws(no_chance, b"job-1", key=b"anew").hashed(1) != numbers[0]
    assert draws.lifelong() not in numbers

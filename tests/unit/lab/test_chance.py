"""The lab's chance: the same bits in pure Python and NumPy, and as good as chance."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anew.backoff import phase_of_ordinal
from anew.lab import chance

np = pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

SEEDS = st.integers(-(2**70), 2**70)


def test_the_mixer_is_splitmix64() -> None:
    """The generator's published first outputs for the seed 1234567 (a sequence that steps by the golden number)."""
    golden = 0x9E3779B97F4A7C15
    state, words = 1_234_567, []
    for _ in range(5):
        state = (state + golden) % 2**64
        words.append(chance._mix(state))
    assert words == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(SEEDS, st.integers(1, 9), st.integers(0, 2**40), st.integers(0, 2**31))
def test_one_by_one_and_in_bulk_agree_to_the_bit(seed: int, stream: int, first: int, retry: int) -> None:
    jobs = np.arange(first, first + 5, dtype=np.uint64)
    many = chance.numbers(seed, stream, jobs, retry).tolist()
    assert many == [chance.number(seed, stream, first + i, retry) for i in range(5)]
    assert all(0 <= value < 1 and (value * 2**53).is_integer() for value in many)


@pytest.mark.parametrize("kind", ["seq", "hash"])
@given(seed=SEEDS, first=st.integers(0, 2**40))
def test_phases_agree_to_the_bit(kind: chance.PhaseKind, seed: int, first: int) -> None:
    jobs = np.arange(first, first + 5, dtype=np.uint64)
    many = chance.phases(kind, seed, jobs).tolist()
    assert many == [chance.phase(kind, seed, first + i) for i in range(5)]


def test_phases_in_sequence_are_those_of_consecutive_ordinals() -> None:
    first = chance.phase("seq", 7, 0)
    step = phase_of_ordinal(1)
    for job in range(1, 50):
        assert math.isclose(chance.phase("seq", 7, job), (first + job * step) % 1.0, abs_tol=1e-9)


@pytest.mark.parametrize("axis", ["job", "retry", "stream", "seed"])
def test_numbers_look_uniform_and_unrelated_along_every_axis(axis: str) -> None:
    count = 20_000
    base = {"seed": 11, "stream": 1, "job": 4, "retry": 3}
    values = [chance.number(**(base | {axis: base[axis] + i})) for i in range(count)]
    mean = sum(values) / count
    # Five standard errors: 5 / sqrt(12 n); neighbours are unrelated within 5 / sqrt(n).
    assert abs(mean - 0.5) < 5 / math.sqrt(12 * count)
    lagged = sum((a - 0.5) * (b - 0.5) for a, b in itertools.pairwise(values)) * 12 / count
    assert abs(lagged) < 5 / math.sqrt(count)
    cells = [0] * 16
    for value in values:
        cells[int(value * 16)] += 1
    assert sum((cell - count / 16) ** 2 / (count / 16) for cell in cells) < 45  # chi-square, 15 degrees: 1e-4


def test_draws_of_a_job_come_from_their_streams() -> None:
    draws = chance.LabDraws.of(seed=9, job=12, retry=4)
    assert draws.rng() == chance.number(9, chance.WAIT, 12, 4)
    assert draws.hashed(4) == chance.number(9, chance.HASH, 12, 4)
    assert draws.lifelong() == chance.phase("seq", 9, 12)
    assert chance.LabDraws.of(9, 12, 4, "hash").lifelong() == chance.number(9, chance.PHASE, 12, 0)

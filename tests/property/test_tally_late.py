"""Calls half a year ahead and more are packed, and still counted as if every one were kept."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

from anew.lab.simulation import tally_late  # noqa: E402
from anew.lab.simulation.tally import PlainTally  # noqa: E402
from anew.lab.simulation.tally_arrays import ArrayTally  # noqa: E402
from anew.lab.simulation.tally_late import LateCalls  # noqa: E402
from anew.units import DAY_MS  # noqa: E402

HALF_A_YEAR_S = 60 * 2**18
LONGEST_S = 2_000 * 100_000 * 86_400
"""The widest bins there are reach as far."""

seconds = st.one_of(
    st.integers(0, 200),
    st.integers(0, 10**7),
    st.integers(0, LONGEST_S),
    st.sampled_from([HALF_A_YEAR_S - 1, HALF_A_YEAR_S, HALF_A_YEAR_S + 59, HALF_A_YEAR_S + 60]),
)
rows = st.lists(
    st.dictionaries(
        seconds, st.one_of(st.just(1), st.integers(1, 300), st.just(10_000_000)), min_size=1, max_size=30
    ),
    max_size=12,
)


def plain_peaks(rows: list[dict[int, int]]) -> tuple[int, int, int]:
    """What is to be found, counted one by one."""
    by_second: Counter[int] = Counter()
    by_minute: Counter[int] = Counter()
    for row in rows:
        for second, count in row.items():
            by_second[second] += count
            by_minute[second // 60] += count
    return max(by_second.values(), default=0), max(by_minute.values(), default=0), len(by_minute)


@settings(max_examples=150, deadline=None)
@given(rows, st.sampled_from([1, 2, 3, 7, 2**13]), st.sampled_from([1, 5, 50, 2**20]))
def test_packed_calls_have_the_peaks_of_plain_ones(
    rows: list[dict[int, int]], block: int, piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally_late, "_BLOCK", block)
        patch.setattr(tally_late, "_SLICE", piece)
        calls = LateCalls()
        for row in rows:
            ordered = sorted(row.items())
            calls.add(np.array([s for s, _ in ordered]), np.array([n for _, n in ordered]))
        assert calls.peaks() == plain_peaks(rows)
        assert calls.peaks() == plain_peaks(rows), "asked again"
        hours = {second // 3_600 for row in rows for second in row}
        assert calls.peaks(3_600)[2] == len(hours)
        assert calls.peaks(3_600, 2)[2] == len(hours - {0, 1, 2})


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(
            st.one_of(
                st.integers(0, 300 * DAY_MS),
                st.integers(HALF_A_YEAR_S * 1_000 - 2_000, HALF_A_YEAR_S * 1_000 + 90_000),
                st.integers(0, LONGEST_S * 1_000 - 1),
            ),
            min_size=1,
            max_size=40,
        ),
        min_size=1,
        max_size=14,
    ),
    st.sampled_from([3, 2**13]),
    st.sampled_from([5, 2**20]),
)
def test_both_tallies_count_late_calls_the_same(rows: list[list[int]], block: int, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally_late, "_BLOCK", block)
        patch.setattr(tally_late, "_SLICE", piece)
        plain, arrays = PlainTally(), ArrayTally()
        for retry, row in enumerate(rows, 1):
            plain.add(retry, row, 0)
            arrays.add(retry, row, 0)
        assert arrays.peaks() == plain.peaks()
        assert arrays.lines() == plain.lines()


def test_blocks_and_slices_of_their_real_size_meet() -> None:
    """400,000 calls in 4,000 minutes of ten years: 50 blocks, some seconds twice."""
    luck = random.Random(5)
    minutes = [luck.randrange(10 * 365 * 1_440) for _ in range(4_000)]
    rows = [Counter(60 * luck.choice(minutes) + luck.randrange(60) for _ in range(100_000)) for _ in range(4)]
    calls = LateCalls()
    for row in rows:
        ordered = sorted(row.items())
        calls.add(np.array([s for s, _ in ordered]), np.array([n for _, n in ordered]))
    assert calls.peaks() == plain_peaks([dict(row) for row in rows])


def test_a_late_call_takes_two_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million calls in four years, 128 s apart on average: distances up to 65,535 take two bytes each. Besides the seconds
    that follow each other and their counts, there is the room that is not yet written to, 256 kB here, and the blocks."""
    monkeypatch.setattr(tally_late, "_ROOM", 2**18)
    luck = np.random.default_rng(3)
    calls = LateCalls()
    tracemalloc.start()
    try:
        for _ in range(10):
            found, counts = np.unique(luck.integers(0, 128_000_000, 100_000), return_counts=True)
            calls.add(found, counts)
        del found, counts
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2.5 * 1_000_000

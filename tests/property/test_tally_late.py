"""Calls three weeks ahead and more are packed, and still counted as if every one were kept."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

from anew.lab.simulation import tally_late  # noqa: E402
from anew.lab.simulation.peaks import Fullest  # noqa: E402
from anew.lab.simulation.tally import PlainTally  # noqa: E402
from anew.lab.simulation.tally_arrays import ArrayTally  # noqa: E402
from anew.lab.simulation.tally_late import LateCalls  # noqa: E402
from anew.units import DAY_MS  # noqa: E402
from tests.property.examples import examples  # noqa: E402

EDGE = 600 * 2**15
"""Ticks before this one have cells."""

LONGEST = 2_000 * 100_000 * 864_000
"""The widest bins there are reach as far."""

ticks = st.one_of(
    st.integers(0, 2_000),
    st.integers(0, 10**8),
    st.integers(0, LONGEST),
    st.sampled_from([EDGE - 1, EDGE, EDGE + 599, EDGE + 600]),
)
rows = st.lists(
    st.dictionaries(
        ticks, st.one_of(st.just(1), st.integers(1, 300), st.just(10_000_000)), min_size=1, max_size=30
    ),
    max_size=12,
)


def plain_peaks(rows: list[dict[int, int]]) -> tuple[int, int, int]:
    """What is to be found, each window added up: calls in ten and in 600 ticks in a row, and ticks with any."""
    by_tick: Counter[int] = Counter()
    for row in rows:
        by_tick.update(row)

    def most(width: int) -> int:
        return max(
            (sum(by_tick[tick] for tick in by_tick if low <= tick < low + width) for low in by_tick),
            default=0,
        )

    return most(10), most(600), len(by_tick)


def late_peaks(calls: LateCalls) -> tuple[int, int, int]:
    fullest, filled = Fullest(), 0
    for found, counts in calls.pieces():
        fullest.add(found, counts)
        filled += len(found)
    return fullest.second, fullest.minute, filled


def late_calls(rows: list[dict[int, int]]) -> LateCalls:
    calls = LateCalls()
    for row in rows:
        ordered = sorted(row.items())
        calls.add(np.array([tick for tick, _ in ordered]), np.array([count for _, count in ordered]))
    return calls


@settings(max_examples=examples(150), deadline=None)
@given(rows, st.sampled_from([1, 2, 3, 7, 2**13]), st.sampled_from([1, 5, 50, 2**20]))
def test_packed_calls_have_the_peaks_of_plain_ones(
    rows: list[dict[int, int]], block: int, piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally_late, "_BLOCK", block)
        patch.setattr(tally_late, "_SLICE", piece)
        calls = late_calls(rows)
        assert late_peaks(calls) == plain_peaks(rows)
        assert late_peaks(calls) == plain_peaks(rows), "asked again"


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.lists(
            st.one_of(
                st.integers(0, 300 * DAY_MS),
                st.integers(EDGE * 100 - 90_000, EDGE * 100 + 90_000),
                st.integers(0, LONGEST * 100 - 1),
            ),
            min_size=1,
            max_size=40,
        ),
        min_size=1,
        max_size=14,
    ),
    st.sampled_from([3, 2**13]),
    st.sampled_from([5, 2**20]),
    st.one_of(
        st.just(0), st.integers(0, 300 * DAY_MS), st.integers(EDGE * 100 - 90_000, EDGE * 100 + 90_000)
    ),
)
def test_both_tallies_count_late_calls_the_same(
    rows: list[list[int]], block: int, piece: int, outage_ms: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally_late, "_BLOCK", block)
        patch.setattr(tally_late, "_SLICE", piece)
        plain, arrays = PlainTally(outage_ms), ArrayTally(outage_ms)
        for retry, row in enumerate(rows, 1):
            plain.add(retry, row, 0)
            arrays.add(retry, row, 0)
        assert arrays.peaks() == plain.peaks()
        assert arrays.lines() == plain.lines()


def test_blocks_and_slices_of_their_real_size_meet() -> None:
    """400,000 calls in 4,000 minutes of ten years: 50 blocks, some ticks twice. A herd of 500 lies in two minutes."""
    luck = random.Random(5)
    minutes = luck.sample(range(0, 10 * 365 * 1_440, 3), 4_000)
    rows = [
        Counter(600 * luck.choice(minutes) + luck.randrange(600) for _ in range(100_000)) for _ in range(4)
    ]
    herd = 600 * minutes[0] + 900  # in the minute after one of these, across its middle and end
    rows[0].update({herd + 50 * place: 50 for place in range(10)})
    by_tick: Counter[int] = Counter()
    for row in rows:
        by_tick.update(row)
    found = late_peaks(late_calls([dict(row) for row in rows]))
    assert found[0] == max(sum(by_tick[tick + more] for more in range(10)) for tick in by_tick)
    assert found[1] == 500
    assert found[2] == len(by_tick)


def test_a_late_call_takes_two_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million calls in 148 days, 12.8 s apart on average: distances up to 65,535 take two bytes each. Besides the ticks
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

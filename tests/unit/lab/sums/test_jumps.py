"""Where waits are single values, so are their sums: by hand, by enumeration, and against sums reckoned here."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, product
from typing import Any

import pytest

from anew.lab.sums.outlive import LastRetry

from .test_outlive import window_of

Values = list[tuple[int, float]]


def enumerated(*waits: Values) -> dict[int, float]:
    """The shares of all sums of some waits, each given by its values with their shares."""
    sums: dict[int, float] = {}
    for thrown in product(*waits):
        at = sum(value for value, _ in thrown)
        sums[at] = sums.get(at, 0.0) + math.prod(share for _, share in thrown)
    return sums


def die(low: int, step: int, faces: int) -> Values:
    """Equally likely values."""
    return [(low + step * face, 1 / faces) for face in range(faces)]


def assert_is(found: LastRetry, sums: dict[int, float], *, exactly: float = 1e-11) -> None:
    """The window's law is this one: at every value, just above it, and read from both ends."""
    for at in sorted(sums):
        for outage in (at, at + 1):
            share = math.fsum(part for value, part in sums.items() if value >= outage)
            assert found.outlives(outage) == pytest.approx(share, abs=exactly), outage
            assert 1 - found.law.below(outage) == pytest.approx(share, abs=exactly), outage
            assert found.law.cdf(outage - 1) == pytest.approx(1 - share, abs=exactly), outage
    if exactly > 1e-6:
        return
    mean = math.fsum(value * share for value, share in sums.items())
    assert found.mean_ms == pytest.approx(mean, abs=1e-6)
    variance = math.fsum((value - mean) ** 2 * share for value, share in sums.items())
    assert found.sd_ms == pytest.approx(math.sqrt(variance), rel=1e-9, abs=1e-6)
    for percent in (0.5, 1, 20, 25, 40, 50, 60, 75, 99):
        lowest = min(at for at in sums if _share(sums, at, up=True) >= percent / 100 - 1e-9)
        highest = max(at for at in sums if _share(sums, at, up=False) >= percent / 100 - 1e-9)
        assert found.percentile(percent) == lowest, percent
        assert found.outlived_by(percent) == highest, percent


def _share(sums: dict[int, float], at: int, *, up: bool) -> float:
    return math.fsum(share for value, share in sums.items() if (value <= at if up else value >= at))


# -- by hand


def coins(limit: int | None, by: str, wait: str, faces: int = 2, **more: Any) -> LastRetry:
    """A constant wait, and a die on top."""
    jitter = {"add": {"by": by, "faces": faces}}
    return window_of({"curve": {"constant": wait}, "jitter": jitter, "limit": limit, **more})


def test_two_coins() -> None:
    """10 or 12 s twice: 20, 22, 24 s for a quarter, a half, a quarter."""
    found = coins(2, "4s", "10s")
    shares = [found.outlives(outage) for outage in (20_000, 20_001, 22_000, 22_001, 24_000, 24_001)]
    assert shares == pytest.approx([1, 3 / 4, 3 / 4, 1 / 4, 1 / 4, 0], abs=1e-12)
    assert [found.percentile(percent) for percent in (1, 25, 26, 75, 76, 100)] == [
        20_000, 20_000, 22_000, 22_000, 24_000, 24_000,
    ]  # fmt: skip
    assert [found.outlived_by(percent) for percent in (100, 76, 75, 26, 25, 1)] == [
        20_000, 20_000, 22_000, 22_000, 24_000, 24_000,
    ]  # fmt: skip


def test_two_dice_of_five() -> None:
    """At least 4 of 0 to 4 twice: 15 of 25."""
    assert coins(2, "5s", "10s", 5).outlives(24_000) == pytest.approx(15 / 25, abs=1e-12)


def test_three_coins_of_half_a_minute() -> None:
    """At least two of three: a half."""
    assert coins(3, "1m", "1m").outlives(240_000) == pytest.approx(1 / 2, abs=1e-12)


def test_celery_by_hand() -> None:
    """Dice of 2, 3 and 5 seconds from 0: of 30 throws, 1, 3, 5, 6, 6, 5, 3, 1 come to 0 ... 7."""
    found = window_of("celery")
    shares = [found.outlives(1_000 * seconds) for seconds in range(9)]
    thirtieths = [30, 29, 26, 21, 15, 9, 4, 1, 0]
    assert shares == pytest.approx([of / 30 for of in thirtieths], abs=1e-12)
    # Nothing happens between 4 and 5 s.
    assert {found.outlives(outage) for outage in (4_001, 4_500, 4_999, 5_000)} == {found.outlives(5_000)}


def test_sidekiq_8_by_hand() -> None:
    """15 s and 16 s, and ten and twenty faces of 1 s: 14 s more is 6 + x of 20 for each x in 0 ... 9, 105 of 200."""
    assert window_of({"preset": "sidekiq8", "limit": 2}).outlives(45_000) == pytest.approx(0.525, abs=1e-12)


def test_oban_by_hand() -> None:
    """17, 19 and 23 s, and a tenth more cut to seconds: up to 1.7, 1.9 and 2.3 s.

    0 and 1 s have 10/17 and 7/17; 10/19 and 9/19; 0, 1 and 2 s have 10/23, 10/23 and 3/23. An outage of 60 s asks for 1 s.
    """
    none = Fraction(10, 17) * Fraction(10, 19) * Fraction(10, 23)
    found = window_of({"preset": "oban", "limit": 3})
    assert found.outlives(60_000) == pytest.approx(float(1 - none), abs=1e-9)
    most = Fraction(7, 17) * Fraction(9, 19) * Fraction(3, 23)
    assert found.outlives(63_000) == pytest.approx(float(most), abs=1e-9)
    assert (found.outlives(59_000), found.outlives(63_001)) == (1, 0)


def test_few_milliseconds_are_told_one_by_one() -> None:
    """Three times anything in [0, 10 ms), cut: three digits."""
    digits = [(digit, 0.1) for digit in range(10)]
    found = window_of({"curve": {"constant": 10}, "jitter": "full", "limit": 3})
    assert_is(found, enumerated(digits, digits, digits))


def test_windows_that_do_not_begin_at_a_whole_millisecond() -> None:
    """[2.5, 7.5 ms): 2 for a tenth, 3 to 6 for a fifth each, 7 for a tenth."""
    one = [(2, 0.1), (3, 0.2), (4, 0.2), (5, 0.2), (6, 0.2), (7, 0.1)]
    found = window_of({"curve": {"constant": 5}, "jitter": {"around": 0.5}, "limit": 2})
    assert_is(found, enumerated(one, one))


# -- by enumeration


@pytest.mark.parametrize("faces", [3, 7])
def test_uneven_dice_are_cut_to_milliseconds(faces: int) -> None:
    """A third of a second is 333 ms and two are 666, at every wait by itself."""
    one = [(10_000 + 1_000 * face // faces, 1 / faces) for face in range(faces)]
    assert_is(coins(3, "1s", "10s", faces), enumerated(one, one, one))


def test_steps_that_do_not_fit() -> None:
    """Anything up to 1, 2, 4 s in steps of 300 ms: 3, 6 and 13 faces."""
    form = {"curve": {"exponential": {"base": "1s"}}, "jitter": {"full": {"step": 300}}, "limit": 3}
    assert_is(window_of(form), enumerated(die(0, 300, 3), die(0, 300, 6), die(0, 300, 13)))


def test_a_cut_window_with_a_rare_last_value() -> None:
    """[0, 1 s) in units of 300 ms: three of 3/10, and 900 ms for the last tenth."""
    one = [(0, 0.3), (300, 0.3), (600, 0.3), (900, 0.1)]
    form = {"curve": {"constant": "1s"}, "jitter": {"full": {"cut": 300}}, "limit": 4}
    assert_is(window_of(form), enumerated(one, one, one, one))


def test_dice_in_a_clamp() -> None:
    """0 ... 9 s in whole ones, held to 2.5 to 7.5 s: three and two of ten are piled up."""
    one = [(2_500, 0.3), *((1_000 * face, 0.1) for face in range(3, 8)), (7_500, 0.2)]
    jitter = {"full": {"faces": 10}}
    form = {"curve": {"constant": "10s"}, "jitter": jitter, "limit": 3, "floor": 2_500, "ceil": 7_500}
    assert_is(window_of(form), enumerated(one, one, one))


def test_coins_on_no_common_lattice() -> None:
    """1, 7, 100, 1,009, 10,007 ms and then 60,013 ms again and again, or half as much more: few sums, far apart."""
    table = [1, 7, 100, 1_009, 10_007, 60_013]
    waits = [[(wait, 0.5), (wait * 3 // 2, 0.5)] for wait in (table + [60_013] * 24)]
    sums = {0: 1.0}
    for wait in waits:
        sums = _added(sums, wait)
    jitter = {"above": {"share": 1, "faces": 2}}
    assert_is(window_of({"curve": {"table": table}, "jitter": jitter, "limit": 30}), sums)


def _added(sums: dict[int, float], wait: Values) -> dict[int, float]:
    into: dict[int, float] = {}
    for (at, share), (by, part) in product(sums.items(), wait):
        into[at + by] = into.get(at + by, 0.0) + share * part
    return into


@pytest.mark.parametrize("clip", ["finish", "clip"])
def test_celery_before_a_deadline(clip: str) -> None:
    """All 30 throws, walked: who has no time for a wait stays where it is, or makes a last try at 5 s."""
    found = window_of({"preset": "celery", "deadline": "5s", "on_deadline": clip})
    sums: dict[int, float] = {}
    for thrown in product(range(2), range(3), range(5)):
        at = 0
        for wait in thrown:
            if at + wait > 5:
                at = 5 if clip == "clip" else at
                break
            at += wait
        sums[1_000 * at] = sums.get(1_000 * at, 0.0) + 1 / 30
    assert_is(found, sums)


@pytest.mark.parametrize("clip", ["finish", "clip"])
def test_coins_before_a_deadline_without_a_limit(clip: str) -> None:
    """10 or 15 s, 60 s in all: every way through, with its share."""
    found = coins(None, "10s", "10s", deadline="60s", on_deadline=clip)
    sums: dict[int, float] = {}
    open_ = [(0, 1.0)]
    while open_:
        at, share = open_.pop()
        for wait in (10, 15):
            if at + wait > 60:
                end = 60_000 if clip == "clip" else 1_000 * at
                sums[end] = sums.get(end, 0.0) + share / 2
            else:
                open_.append((at + wait, share / 2))
    assert_is(found, sums)


def test_one_number_for_life_jumps_too() -> None:
    """Five faces of 1 s, the same one twice: 20, 22 ... 28 s."""
    jitter = {"add": {"by": "5s", "faces": 5, "source": "job"}}
    found = window_of({"curve": {"constant": "10s"}, "jitter": jitter, "limit": 2})
    assert [found.outlives(outage) for outage in (20_001, 22_000, 24_000, 28_000)] == pytest.approx(
        [0.8, 0.8, 0.6, 0.2], abs=1e-9
    )
    assert [found.percentile(percent) for percent in (20, 40, 50, 81)] == [20_000, 22_000, 24_000, 28_000]
    assert [found.outlived_by(percent) for percent in (100, 80, 50, 20)] == [20_000, 22_000, 24_000, 28_000]


# -- what lies anywhere, and lumps in it


def test_a_clamp_leaves_lumps_in_a_sum() -> None:
    """[10, 20 s) held to 11 s, three times: nine in ten are 11 s, one in ten lies evenly below.

    33 s: 0.729. Below 32.5 s: one below by more than 1/2 (0.243 / 2), two by more than 1/2 together (0.027 * 7/8), three
    (0.001 * 47/48).
    """
    form = {"curve": {"constant": "10s"}, "jitter": {"above": 1}, "limit": 3, "ceil": "11s"}
    found = window_of(form)
    assert found.outlives(33_000) == pytest.approx(0.729, abs=3e-4)
    assert found.outlives(32_500) == pytest.approx(1 - 0.1215 - 0.027 * 7 / 8 - 0.001 * 47 / 48, abs=2e-3)
    assert found.law.cdf(33_000) - found.law.cdf(32_999) == pytest.approx(0.729, abs=1e-3)
    assert (found.percentile(30), found.outlived_by(72)) == (33_000, 33_000)
    # Each of those below lies 1/2 s below on average, and half a millisecond more for the cut.
    assert found.mean_ms == pytest.approx(33_000 - 3 * 0.1 * 500.5, abs=0.1)


def test_lumps_between_and_at_both_ends() -> None:
    """1 s, then [0, 2 s) and [0, 4 s) held to 1 to 2 s: 1/8 at 3 s, and 1/4 at 4 s where the third is 2 s."""
    found = window_of({"preset": "aws_full", "limit": 3, "floor": "1s", "ceil": "2s"})
    jumps = [found.law.cdf(at) - found.law.cdf(at - 1) for at in (3_000, 3_500, 4_000)]
    assert jumps == pytest.approx([1 / 8, 0, 1 / 4], abs=1e-3)


def test_certain_waits_before_the_jitter_move_everything() -> None:
    """10 s and 10 s sure, then two coins: the two coins, 20 s later."""
    jitter = {"add": {"by": "4s", "faces": 2, "since": 3}}
    found = window_of({"curve": {"constant": "10s"}, "jitter": jitter, "limit": 4})
    assert [found.outlives(at) for at in (40_000, 42_000, 44_000)] == pytest.approx([1, 3 / 4, 1 / 4])


# -- many


def thrown(dice: Sequence[tuple[int, int, int]]) -> tuple[int, list[float]]:
    """The lowest sum of dice in seconds (lowest value, step, faces), and the shares from there on, second by second."""
    shares = [1.0]
    for _, step, faces in dice:
        into = [0.0] * (len(shares) + step * (faces - 1))
        for start in range(step):
            sums = [0.0, *accumulate(shares[start::step])]
            last = len(sums) - 1
            for place in range(len(into[start::step])):
                into[start + place * step] = (
                    sums[min(place + 1, last)] - sums[min(max(place + 1 - faces, 0), last)]
                ) / faces
        shares = into
    return sum(low for low, _, _ in dice), shares


def assert_near(found: LastRetry, low: int, shares: Sequence[float], off: float) -> None:
    """The law is as exact as that, at 500 seconds from one end to the other, and at the likeliest ones."""
    below = [0.0, *accumulate(shares)]
    middle = max(range(len(shares)), key=shares.__getitem__)
    places = {*range(0, len(shares), max(len(shares) // 500, 1)), *range(max(middle - 50, 0), middle + 50)}
    for place in places:
        at = 1_000 * (low + place)
        assert found.law.below(at) == pytest.approx(below[place], abs=off)
        assert found.law.below(at + 1) == pytest.approx(below[place + 1], abs=off)


@pytest.mark.parametrize("name", ["sidekiq", "faktory"])
def test_sidekiqs_25_retries(name: str) -> None:
    """15 + (k-1)^4 s and k times a die of 30: exact."""
    dice = [((k - 1) ** 4 + 15, k, 30) for k in range(1, 26)]
    assert_near(window_of(name), *thrown(dice), 1e-11)


@pytest.mark.parametrize(("limit", "off"), [(25, 1e-11), (100, 1e-3)])
def test_celerys_seconds(limit: int, off: float) -> None:
    """0 to 2^(k-1) s, at most 600, both ends included: 25 retries are exact, and a hundred are within a tenth of a point."""
    dice = [(0, 1, min(2 ** (k - 1), 600) + 1) for k in range(1, limit + 1)]
    assert_near(window_of({"preset": "celery", "limit": limit}), *thrown(dice), off)


def test_obans_nineteen_retries() -> None:
    """15 + 2^k s and up to a tenth more, cut to seconds: too many values, and within a tenth of a point all the same."""
    low, shares = 0, [1.0]
    for k in range(1, 20):
        tenths = 15 + 2**k
        whole, rest = divmod(tenths, 10)
        low, shares = low + tenths, _with(shares, whole, 10 / tenths, rest / tenths)
    assert_near(window_of({"preset": "oban", "limit": 19}), low, shares, 1e-3)


def _with(shares: Sequence[float], faces: int, each: float, last: float) -> list[float]:
    """The shares after adding 0, 1 ... with a share for each, and one more that is rarer."""
    sums, count = [0.0, *accumulate(shares)], len(shares)
    return [
        each * (sums[min(at + 1, count)] - sums[min(max(at + 1 - faces, 0), count)])
        + (last * shares[at - faces] if faces <= at < count + faces else 0.0)
        for at in range(count + faces)
    ]


def test_a_thousand_coins() -> None:
    """Binomial: normal on their lattice is within a hundredth of a point."""
    found = coins(1_000, "1m", "1m")
    below = Fraction(0)
    for heads in range(1_001):
        if 400 <= heads <= 600:
            assert found.law.below(60_000_000 + 30_000 * heads) == pytest.approx(float(below), abs=1e-4)
        below += Fraction(math.comb(1_000, heads), 2**1_000)


def test_after_very_many_coins_a_deadline_leaves_one_of_two_instants() -> None:
    """1 or 2 min for thirty days: the last comes at the deadline unless the next one would, so 2/3 do and 1/3 at 1 min.

    A renewal on a lattice: its shares are P(wait > what is left), 1 and 1/2, divided by the mean of 3/2 min.
    """
    month = 30 * 86_400_000
    found = coins(None, "2m", "1m", deadline="30d")
    assert [found.outlives(month - 60_000 * left) for left in (0, 1)] == pytest.approx([2 / 3, 1], abs=1e-6)
    assert found.outlives(month - 59_999) == pytest.approx(2 / 3, abs=1e-6)

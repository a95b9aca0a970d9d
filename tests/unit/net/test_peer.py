"""How fast a body comes in, judged over its last seconds."""

from __future__ import annotations

from anew.net.peer import Pace
from anew.net.seam import WireLimits

limits = WireLimits()
"""1 KiB a second, after a grace of 10 s."""


def judge(pace: Pace, until_ms: int, came: dict[int, int]) -> int:
    """Ask each second for so long; `came` has what has come in altogether from an instant on.

    Returns:
        When the body was found slow, 0 if it was not.
    """
    received = 0
    for now_ms in range(1_000, until_ms + 1, 1_000):
        received = came.get(now_ms, received)
        if pace.is_slow(now_ms, received, limits):
            return now_ms
    return 0


def test_nobody_is_slow_within_the_grace() -> None:
    assert judge(Pace(0), 60_000, {}) == 10_000


def test_a_body_of_1_kib_a_second_is_fast_enough_for_ever() -> None:
    steady = {second * 1_000: second * 1_024 for second in range(1, 1_000)}
    assert judge(Pace(0), 900_000, steady) == 0
    slower = {second * 1_000: second * 1_023 for second in range(1, 1_000)}
    assert judge(Pace(0), 900_000, slower) == 10_000


def test_what_came_fast_before_is_no_credit() -> None:
    """64 MiB within 20 s, then nothing: slow as soon as 5 s have brought less than 5 KiB."""
    came = {second * 1_000: second * (64 << 20) // 20 for second in range(1, 21)}
    assert judge(Pace(0), 100_000, came) == 25_000


def test_a_pause_of_ours_is_not_the_peers() -> None:
    pace = Pace(0)
    came = {second * 1_000: second * 1_024 for second in range(1, 21)}
    assert judge(pace, 20_000, came) == 0
    pace.pause(60_000, 80_000, 20 * 1_024)
    assert not pace.is_slow(80_000, 20 * 1_024, limits)
    assert not pace.is_slow(84_999, 20 * 1_024, limits)
    assert pace.is_slow(85_000, 20 * 1_024, limits)

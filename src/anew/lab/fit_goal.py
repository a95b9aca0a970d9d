"""What a fit has to reach, and the search for the parameter that reaches it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from anew import units
from anew.backoff import CEILING_MS, Policy
from anew.errors import InvalidInput
from anew.lab.families import Family, Step, Unknown
from anew.units import MAX_DURATION_MS, format_duration, format_duration_short, refused

TOLERANCE: Final = 1e-3
"""The largest share by which a proposal's window may miss the one that was asked for."""

_ROUND: Final = 5e-4
"""A parameter is rounded as long as the window stays this close: 1.83 is read more easily than 1.8297735."""

_DIGITS: Final = 12
"""No parameter is written with more."""

_TURNS: Final = 200
_WIDE: Final = 4
"""An interval whose ends are further apart, as a ratio, is parted by it: what is looked for may have any magnitude."""

_RIM: Final = 1 / 256
"""A guess keeps this share of the interval away from its ends ..."""

_GUESSES: Final = 4
"""... and one turn of so many halves it, lest guesses creep."""


class Goal:
    """What was asked for, and the search for it.

    Args:
        family: The kind of curve.
        window_ms: The sum of all nominal waits.
        first_ms: The first of them.
        retries: How many they are.
        cap_ms: None is longer.
    """

    def __init__(
        self, family: Family, window_ms: int, first_ms: int, retries: int, cap_ms: int | None
    ) -> None:
        self.family, self.window_ms, self.first_ms = family, window_ms, first_ms
        self.retries, self.cap_ms = retries, cap_ms
        self.asked = format_duration_short(max(window_ms, 0))
        self._windows: dict[tuple[str, float], int] = {}

    def check_each(self) -> None:
        """Refuse what no policy can do with any number of retries.

        Raises:
            InvalidInput: Says which number stands in the way.
        """
        for name, ms, most in (
            ("first", self.first_ms, CEILING_MS),
            ("window", self.window_ms, MAX_DURATION_MS),
        ):
            if not 1 <= ms <= most:
                raise refused(name, ms, f"a duration from 1 ms to {format_duration_short(most)}")
        if self.cap_ms is not None and not 1 <= self.cap_ms <= CEILING_MS:
            raise refused("cap", self.cap_ms, f"a duration from 1 ms to {format_duration_short(CEILING_MS)}")
        highest = self._highest()
        if highest < self.first_ms:
            detuned = (
                ""
                if highest == self.cap_ms
                else f" (even stays 1/18 below it, at {format_duration(highest)})"
            )
            cap = format_duration_short(self.cap_ms or 0)
            raise refused(
                "cap", cap, f"at least the first wait, which is {format_duration(self.first_ms)}{detuned}"
            )

    def check(self) -> None:
        """Refuse what no policy can do.

        Raises:
            InvalidInput: Says which number stands in the way.
        """
        self.check_each()
        first, highest = format_duration(self.first_ms), self._highest()
        least, most = self.retries * self.first_ms, self.first_ms + (self.retries - 1) * highest
        if self.window_ms < least * (1 - TOLERANCE):
            raise _unreachable(
                self.window_ms,
                f"{counted(self.retries)} of at least {first} {'takes' if self.retries == 1 else 'take'} {format_duration(least)}",
                "a longer window, fewer retries or a shorter first wait",
            )
        if self.window_ms > most * (1 + TOLERANCE):
            rest = self.retries - 1
            raise _unreachable(
                self.window_ms,
                f"a wait of {first} and {rest} of at most {format_duration(highest)} take {format_duration(most)}"
                if rest
                else f"1 retry comes after {first}",
                "a shorter window, more retries"
                + (" or a higher cap" if rest else " or a longer first wait"),
            )

    def policy(self, curve: dict[str, Any]) -> Policy:
        """Build the policy with a curve of the family."""
        body = {"curve": curve, "jitter": self.family.jitter(self.first_ms), "limit": self.retries}
        return Policy.from_json(body if self.cap_ms is None else body | {"cap": self.cap_ms})

    def solutions(self) -> Iterator[tuple[Step, float]]:
        """Solve the family's equations one by one, until the window fits, or as near as the last one comes."""
        if self.family.steps is None or self.retries == 1:
            return
        steps = self.family.steps(self.first_ms, self.retries)
        step = next((step for step in steps if self._reaches(step)), steps[-1])
        value = self._solve(step)
        miss = abs(self._at(step, value) - self.window_ms)
        # Whoever reads it would rather have an exponent of 4 and a window that is a thousandth off than 4.00004.
        if miss <= TOLERANCE * self.window_ms or not step.unknown.whole or self.family.finer is None:
            yield step, value
            return
        value = max(value, 1.0)
        yield step, value
        finer = self.family.finer(self.first_ms, self.retries, value)
        yield finer, self._solve(finer)

    def beyond(self, window_ms: int) -> InvalidInput:
        """Build the error about a window that the family does not have."""
        return _unreachable(
            self.window_ms,
            f"{self.family.name} comes no closer than {format_duration(window_ms)} with {counted(self.retries)} "
            f"from {format_duration(self.first_ms)} on",
            "another window or another family",
        )

    def _highest(self) -> int:
        highest = self.policy({"constant": self.first_ms}).effective_cap_ms
        return CEILING_MS if highest is None else highest

    def _at(self, step: Step, value: float) -> int:
        key = step.equation, value
        found = self._windows.get(key)
        if found is None:
            found = self._windows[key] = nominal_window(self.policy(step.curve(value)))
        return found

    def _reaches(self, step: Step) -> bool:
        return self._at(step, step.unknown.high) >= self.window_ms * (1 - TOLERANCE)

    def _solve(self, step: Step) -> float:
        """Find where the window is crossed, rounded as far as the window allows."""
        ends, whole = (step.unknown.low, step.unknown.high), step.unknown.whole
        close = functools.partial(self._close, step)
        for ends in _brackets(functools.partial(self._at, step), self.window_ms, step.unknown):
            found = _roundest(ends, whole, close)
            if found is not None:
                return found
        value = min(ends, key=lambda end: abs(self._at(step, end) - self.window_ms))
        found = _roundest((value, value), whole, close)
        return value if found is None else found

    def _close(self, step: Step, value: float) -> bool:
        fits = step.unknown.low <= value <= step.unknown.high
        return fits and abs(self._at(step, value) - self.window_ms) <= _ROUND * self.window_ms


def nominal_window(policy: Policy) -> int:
    """Give the sum of all nominal waits, each cut to whole milliseconds.

    Args:
        policy: A policy whose waits never shrink: from the first one at the cap on, all are as long as that.
    """
    retries, highest = policy.retries or 0, policy.effective_cap_ms
    window = 0
    for retry in range(1, retries + 1):
        wait = int(policy.nominal(retry))
        if wait == highest:
            return window + (retries - retry + 1) * wait
        window += wait
    return window


def _brackets(at: Callable[[float], int], window_ms: int, unknown: Unknown) -> Iterator[tuple[float, float]]:
    """Narrow down where a growing window crosses the one asked for, until nothing lies between.

    To build a policy takes as long as to reckon hundreds of waits. So most turns guess, along the chord of the window's
    logarithm, where an end that stays for a second time counts half (the Illinois method); the others halve.
    """
    low, high = unknown.low, unknown.high
    under: float | None = None
    over: float | None = None
    rose: bool | None = None
    for turn in range(_TURNS):
        middle = _between(low, high, 0.5, whole=unknown.whole)
        if middle in (low, high):
            return
        if turn % _GUESSES and under is not None and over is not None:
            # Never quite to an end: a guess just beyond what is looked for cuts off nearly all that is left.
            share = min(max(under / (under + over), _RIM), 1 - _RIM)
            chord = _between(low, high, share, whole=unknown.whole)
            middle = chord if low < chord < high else middle
        miss = math.log(max(at(middle), 1) / window_ms)
        rises = at(middle) < window_ms
        if rises:
            low, under = middle, -miss
            over = over / 2 if over is not None and rose is True else over
        else:
            high, over = middle, miss
            under = under / 2 if under is not None and rose is False else under
        rose = rises
        yield low, high


def _between(low: float, high: float, share: float, *, whole: bool) -> float:
    """Give what lies so far, 0 to 1, between two ends: by their ratio where that is large, else by their distance."""
    least = max(low, 1.0)
    value = least * (high / least) ** share if high > _WIDE * least else low + (high - low) * share
    return float(math.floor(value)) if whole else value


def _roundest(ends: tuple[float, float], whole: bool, close: Callable[[float], bool]) -> float | None:
    """Give the number with the fewest digits that is close enough, once all between the ends is rounded to it."""
    for digits in range(1, _DIGITS + 1):
        low, high = (f"{end:.{digits}g}" for end in ends)
        if low != high:
            return None
        rounded = float(low)
        if (not whole or rounded == round(rounded)) and close(rounded):
            return rounded
    return None


def counted(retries: int) -> str:
    """Say how many retries."""
    return units.counted(retries, "retry", "retries")


def _unreachable(window_ms: int, why: str, expected: str) -> InvalidInput:
    asked = format_duration(window_ms)
    message = f"window: a window of {asked} cannot be reached: {why}; expected {expected}"
    return InvalidInput(message, field="window", value=window_ms)

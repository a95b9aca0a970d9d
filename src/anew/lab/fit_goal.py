"""What a fit has to reach, and the search for the parameter that reaches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from anew.backoff import CEILING_MS, Policy
from anew.errors import InvalidInput
from anew.lab.families import Family, Step
from anew.units import MAX_DURATION_MS, format_duration, format_duration_short, refused

TOLERANCE: Final = 1e-3
"""The largest share by which a proposal's window may miss the one that was asked for."""

_ROUND: Final = 1e-4
"""A parameter is rounded as long as the window stays this close: 1.83 is read more easily than 1.8297735."""

_HALVINGS: Final = 200


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
                f"{counted(self.retries)} of at least {first} take {format_duration(least)}",
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
        """Solve the family's equations one by one, until the window fits.

        Raises:
            InvalidInput: None of them reaches it.
        """
        if self.family.steps is None or self.retries == 1:
            return
        steps = self.family.steps(self.first_ms, self.retries)
        step = next((step for step in steps if self._reaches(step)), steps[-1])
        value = self._solve(step)
        miss = abs(self._at(step, value) - self.window_ms)
        if miss <= _ROUND * self.window_ms or not step.unknown.whole or self.family.finer is None:
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
        return nominal_window(self.policy(step.curve(value)))

    def _reaches(self, step: Step) -> bool:
        return self._at(step, step.unknown.high) >= self.window_ms * (1 - TOLERANCE)

    def _solve(self, step: Step) -> float:
        """Halve the interval until nothing is left of it, then round as far as the window allows."""
        low, high = step.unknown.low, step.unknown.high
        for _ in range(_HALVINGS):
            middle = float((round(low) + round(high)) // 2) if step.unknown.whole else (low + high) / 2
            if middle in (low, high):
                break
            if self._at(step, middle) < self.window_ms:
                low = middle
            else:
                high = middle
        value = min((low, high), key=lambda end: abs(self._at(step, end) - self.window_ms))
        return _roundest(value, step.unknown.whole, lambda each: self._close(step, each))

    def _close(self, step: Step, value: float) -> bool:
        fits = step.unknown.low <= value <= step.unknown.high
        return fits and abs(self._at(step, value) - self.window_ms) <= _ROUND * self.window_ms


def nominal_window(policy: Policy) -> int:
    """Give the sum of all nominal waits, each cut to whole milliseconds."""
    return sum(int(policy.nominal(retry)) for retry in range(1, (policy.retries or 0) + 1))


def _roundest(value: float, whole: bool, close: Callable[[float], bool]) -> float:
    """Give the number with the fewest digits that is close enough; the number itself if none is."""
    for digits in range(1, 13):
        rounded = float(f"{value:.{digits}g}")
        if (not whole or rounded == round(rounded)) and close(rounded):
            return rounded
    return value


def counted(retries: int) -> str:
    """Say how many retries."""
    return "1 retry" if retries == 1 else f"{retries} retries"


def _unreachable(window_ms: int, why: str, expected: str) -> InvalidInput:
    asked = format_duration(window_ms)
    message = f"window: a window of {asked} cannot be reached: {why}; expected {expected}"
    return InvalidInput(message, field="window", value=window_ms)

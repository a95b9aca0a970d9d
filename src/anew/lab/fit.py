"""Fit: from a window, or an outage, and a first wait to a policy that has them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from anew import units
from anew.backoff import CEILING_MS, Policy
from anew.errors import InvalidInput
from anew.lab.families import FAMILIES, Family, Step
from anew.lab.last_retry import last_retry, outlives
from anew.lab.laws.spans import spans
from anew.units import MAX_DURATION_MS, format_duration, format_duration_short, format_share, refused

MAX_RETRIES: Final = 1_000

_PART: Final = 4
"""Where the number of retries is free, no wait is longer than this part of the window ..."""

_GROWTH: Final = 4
"""... nor so many times as long as the one before: Sidekiq's and Zizq's curves keep to that, too."""

_MORE: Final = 3


def fit(
    window_ms: int | None,
    first_ms: int,
    retries: int | None = None,
    *,
    like: str = "even",
    cap_ms: int | None = None,
    outlive_ms: int | None = None,
    share: float = 1.0,
    jitter: Any = None,
) -> Fit:
    """Propose a policy.

    Window and first wait are nominal ones: the curve's, before any jitter. Waits never shrink.

    Args:
        window_ms: Time from the first failure to the last retry, in ms; None where an outage is given.
        first_ms: The first wait, in ms, above 0.
        retries: How many retries, 1 to 1,000. None: as few as there may be with no wait longer than a quarter of the
            window, nor more than four times as long as the one before.
        like: The family; ``FAMILIES`` lists them.
        cap_ms: No nominal wait is longer (``even`` stays 1/18 below); None: 365 days.
        outlive_ms: In place of a window: an outage, in ms from the first failure, that jobs shall outlive: their last
            retry comes at its end or after it, whatever the jitter.
        share: How many of the jobs shall, above 0, to 1: all.
        jitter: In place of the family's own: a jitter in its JSON form.

    Returns:
        A policy whose window is within 0.1 % of the one asked for, or is the shortest that outlives the outage, to
        within 0.2 %.

    Raises:
        InvalidInput: A number is out of range, there is no such family, or no policy of it has such a window; says
            why not, and what could be reached.
    """
    family = _checked(like, window_ms, retries, outlive_ms, share)
    if jitter is not None:
        family = dataclasses.replace(family, jitter=lambda _: jitter, manner=jitter_words(jitter))
    propose = with_window if outlive_ms is None else functools.partial(outliving, share)
    window = (window_ms if outlive_ms is None else outlive_ms) or 0
    build = functools.partial(propose, family, window, first_ms, cap_ms)
    if retries is None:
        # What no number of retries can mend is refused at once.
        Goal(family, window, first_ms, 1, cap_ms).check_each()
        found = _fewest(build, family, window, first_ms)
    else:
        found = build(retries)
    living = outlives(found.policy, window) or 0.0
    return msgspec.structs.replace(found, how=(*found.how, who_dies(living, window, share)), outlives=living)


def _checked(
    like: str, window_ms: int | None, retries: int | None, outlive_ms: int | None, share: float
) -> Family:
    """Refuse what cannot be asked for; give the family."""
    family = FAMILIES.get(like)
    if family is None:
        raise refused("like", like, f"one of: {', '.join(FAMILIES)}")
    whole = isinstance(retries, int) and not isinstance(retries, bool) and 1 <= retries <= MAX_RETRIES
    if retries is not None and not whole:
        raise refused("retries", retries, f"a whole number from 1 to {MAX_RETRIES}")
    if (window_ms is None) is (outlive_ms is None):
        given = "neither is" if window_ms is None else "both are"
        message = f"window: {given} given; expected a window, or an outage to outlive"
        raise InvalidInput(message, field="window")
    if not (isinstance(share, int | float) and 0 < share <= 1):
        raise refused("share", share, "a number above 0 and at most 1")
    if share < 1 and outlive_ms is None:
        message = f"share: {share:g} is given without an outage; expected an outage to outlive beside it"
        raise InvalidInput(message, field="share")
    if outlive_ms is not None:
        _check_duration("outlive", outlive_ms, MAX_DURATION_MS)
    return family


def _check_duration(name: str, ms: int, most: int) -> None:
    if not 1 <= ms <= most:
        raise refused(name, ms, f"a duration from 1 ms to {format_duration_short(most)}")


def _fewest(build: Callable[[int], Fit], family: Family, window_ms: int, first_ms: int) -> Fit:
    """Propose with as few retries as keep the waits in bounds; double the number until they do, then halve back."""
    most = max(window_ms // first_ms, 1)
    if family.steps is None:
        # All waits are the first one. An outage ends half a wait later for whom it meets last.
        return _said(_first_of(build, most), f"as many waits of {format_duration(first_ms)} as it takes")
    most, low, high = min(most, MAX_RETRIES), 0, 1
    while (good := _kept(build, high)) is None:
        if high == most:
            # So short a window holds no four waits, or a cap lets nothing grow.
            return _said(_first_of(build, most), "as many as such waits allow")
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        found = _kept(build, middle)
        if found is None:
            low = middle
        else:
            high, good = middle, found
    why = "the fewest with which no wait is longer than a quarter of the window or four times the one before"
    return _said(good, why)


def _first_of(build: Callable[[int], Fit], retries: int) -> Fit:
    """Give the proposal with so many retries, or the next one that there is; else say why there is none."""
    for more in range(_MORE):
        try:
            return build(min(retries + more, MAX_RETRIES))
        except InvalidInput:
            continue
    return build(min(retries, MAX_RETRIES))


def _kept(build: Callable[[int], Fit], retries: int) -> Fit | None:
    """Give the proposal if there is one and its waits keep to what `_PART` and `_GROWTH` allow."""
    try:
        found = build(retries)
    except InvalidInput:
        return None
    waits = [found.policy.nominal(k) for k in range(1, retries + 1)]
    grows = all(after <= _GROWTH * before for before, after in itertools.pairwise(waits))
    return found if grows and max(waits) * _PART <= found.window_ms else None


def _said(found: Fit, why: str) -> Fit:
    family_words, *rest = found.how
    words = f"{counted(found.policy.retries or 0)}: {why}"
    return msgspec.structs.replace(found, how=(family_words, words, *rest))


# ---- a proposal with so many retries: that has a window, or that is the shortest to outlive an outage


_ROUNDS: Final = 12
_MARGIN: Final = 1.0003
_NEAR: Final = 1.002
_HARDLY: Final = 1_000
"""A jitter that lets a last retry come after a thousandth of the window can promise nothing."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal, and how it came about."""

    policy: Policy
    like: str
    """Its family."""
    solved: dict[str, str]
    """Name and value of each parameter that was solved for."""
    how: tuple[str, ...]
    """Sentences: the curve, each equation with its solution, what remains off, what the jitter does, who dies."""
    first_ms: int
    window_ms: int
    """The sum of all nominal waits, of which the first is `first_ms`."""
    off_ms: int
    """By how much that is longer than asked; negative: shorter."""
    earliest_ms: int
    latest_ms: int
    """The bounds of the time of the last retry after the first failure, jitter included."""
    outlives: float
    """The share of jobs, 0 to 1, that outlive an outage as long as the window, or the one, that was asked for."""

    def to_json(self) -> dict[str, Any]:
        """Give all of it, the policy in its JSON form."""
        return msgspec.structs.asdict(self) | {"policy": self.policy.to_json()}


def with_window(family: Family, window_ms: int, first_ms: int, cap_ms: int | None, retries: int) -> Fit:
    """Propose a policy with a window."""
    goal = Goal(family, window_ms, first_ms, retries, cap_ms)
    goal.check()
    solved: dict[str, str] = {}
    how = [f"like {family.name}: {family.curve}, {family.manner}"]
    policy = goal.policy({"constant": first_ms})
    solutions = [*goal.solutions()]
    for number, (step, value) in enumerate(solutions, start=1):
        solved[step.name] = step.text(value)
        # At the lower end every wait is the first one, which the constant says better.
        policy = goal.policy(step.curve(value) if value > step.low else {"constant": first_ms})
        held = ", each wait held to the cap," if cap_ms is not None else ""
        coarse = "" if number == len(solutions) else ", and whole milliseconds are too coarse, so"
        how.append(f"{step.equation}{held} = {goal.asked}: {step.name} = {step.text(value)}{coarse}")
    off = nominal_window(policy) - window_ms
    if abs(off) > TOLERANCE * window_ms:
        raise goal.beyond(nominal_window(policy))
    *_, last = spans(policy, retries)
    earliest, latest = last.window_earliest_ms or 0, last.window_latest_ms or 0
    how += [how_far_off(off, window_ms), spread_of(earliest, latest)]
    return Fit(
        policy=policy,
        like=family.name,
        solved=solved,
        how=tuple(how),
        first_ms=int(policy.nominal(1)),
        window_ms=window_ms + off,
        off_ms=off,
        earliest_ms=earliest,
        latest_ms=latest,
        outlives=1.0,
    )


def outliving(
    share: float, family: Family, outlive_ms: int, first_ms: int, cap_ms: int | None, retries: int
) -> Fit:
    """Propose the policy with the shortest window that ends at an outage's end or after it, for a share of the jobs.

    What the jitter takes off is about the same share of all windows, so that a few steps lead there.
    """
    asked, least = format_duration_short(outlive_ms), retries * first_ms
    window_ms, best = max(outlive_ms, least), None
    for _ in range(_ROUNDS):
        try:
            found = with_window(family, window_ms, first_ms, cap_ms, retries)
        except InvalidInput as error:
            if best is not None or error.field != "window":
                break
            text = str(error).removeprefix("window: ")
            raise InvalidInput(f"outlive: {text}", field="outlive", value=outlive_ms) from None
        last = None if share == 1 else last_retry(found.policy)
        end_ms = found.earliest_ms if last is None else last.outlived_by(100 * share)
        if end_ms * _HARDLY < found.window_ms:
            many, end = "some" if share == 1 else "that many", format_duration(end_ms)
            expected = (
                f"an outage for a share of the jobs, such as 99 %: with this jitter {many} may make their last retry "
                f"{end} after the first failure"
            )
            raise refused("outlive", asked, expected)
        if end_ms >= outlive_ms:
            best = found if best is None or found.window_ms < best.window_ms else best
            if window_ms == least or end_ms <= outlive_ms * _NEAR:
                break
        window_ms = max(math.ceil(window_ms * outlive_ms / max(end_ms, 1) * _MARGIN), least)
    if best is None:
        expected = (
            f"an outage that {counted(retries)} from {format_duration(first_ms)} on can outlive: fewer or more retries, "
            "another first wait or another family"
        )
        raise refused("outlive", asked, expected)
    who = "every job" if share == 1 else f"{100 * share:g} % of the jobs"
    takes = format_duration(best.window_ms)
    words = f"an outage of {asked}, which {who} shall outlive, takes a window of {takes}"
    # How far that is from what the search asked for is nobody's concern.
    family_words, *equations, _, spread = best.how
    return msgspec.structs.replace(best, how=(family_words, words, *equations, spread))


# ---- what ``fit`` says of its proposal


def jitter_words(jitter: Any) -> str:
    """Say which jitter was asked for in place of the family's own, in its JSON form."""
    if jitter == "none":
        return "no jitter"
    return f"jitter {jitter if isinstance(jitter, str) else msgspec.json.encode(jitter).decode()}"


def who_dies(living: float, outage_ms: int, asked: float) -> str:
    """Say which share of the jobs lives through an outage, and whether that is what was asked for."""
    outage = format_duration_short(outage_ms)
    if living >= 1:
        return f"every job outlives an outage of {outage}"
    if asked < 1 and living >= asked:
        return f"{100 * living:.3g} % of the jobs outlive an outage of {outage}"
    return (
        f"warning: {format_share(1 - living)} of the jobs die in an outage of {outage}: the jitter brings their last "
        f"retry before its end; --outlive {outage} leaves nobody behind"
    )


def how_far_off(off: int, window_ms: int) -> str:
    """Say how far a window is from the one that was asked for."""
    if off == 0:
        return "the window is exactly the one asked for"
    return (
        f"the window is {format_duration_short(window_ms + off)}, {format_duration(abs(off))} "
        f"({abs(off) / window_ms * 100:.2g} %) {'longer' if off > 0 else 'shorter'} than asked for"
    )


def spread_of(earliest: int, latest: int) -> str:
    """Say when the last retry comes, jitter included."""
    if earliest == latest:
        return f"the last retry comes {format_duration(latest)} after the first failure"
    return (
        f"with its jitter the last retry comes {units.format_range(earliest, latest)} after the first failure"
    )


def counted(retries: int) -> str:
    """Say how many retries."""
    return units.counted(retries, "retry", "retries")


# ---- what a proposal has to reach, and the search for the parameter that reaches it


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
"""A guess keeps this share of the interval away from its ends."""


class Goal:
    """So many nominal waits, the first of them and the sum of all of them given, none above a cap; and the search for them."""

    def __init__(
        self, family: Family, window_ms: int, first_ms: int, retries: int, cap_ms: int | None
    ) -> None:
        self.family, self.window_ms, self.first_ms = family, window_ms, first_ms
        self.retries, self.cap_ms = retries, cap_ms
        self.asked = format_duration_short(max(window_ms, 0))
        self._at = functools.cache(lambda step, value: nominal_window(self.policy(step.curve(value))))

    def check_each(self) -> None:
        """Refuse what no policy can do with any number of retries."""
        _check_duration("first", self.first_ms, CEILING_MS)
        _check_duration("window", self.window_ms, MAX_DURATION_MS)
        if self.cap_ms is not None:
            _check_duration("cap", self.cap_ms, CEILING_MS)
        highest = self._highest()
        if highest < self.first_ms:
            expected = f"at least the first wait, which is {format_duration(self.first_ms)}"
            if highest != self.cap_ms:
                expected += f" (even stays 1/18 below it, at {format_duration(highest)})"
            raise refused("cap", format_duration_short(self.cap_ms or 0), expected)

    def check(self) -> None:
        """Refuse what no policy can do."""
        self.check_each()
        first, highest = format_duration(self.first_ms), self._highest()
        least, most = self.retries * self.first_ms, self.first_ms + (self.retries - 1) * highest
        if self.window_ms < least * (1 - TOLERANCE):
            take = "takes" if self.retries == 1 else "take"
            why = f"{counted(self.retries)} of at least {first} {take} {format_duration(least)}"
            raise self._unreachable(why, "a longer window, fewer retries or a shorter first wait")
        if self.window_ms > most * (1 + TOLERANCE):
            why, other = f"1 retry comes after {first}", "a longer first wait"
            if rest := self.retries - 1:
                take = format_duration(most)
                why = f"a wait of {first} and {rest} of at most {format_duration(highest)} take {take}"
                other = "a higher cap"
            raise self._unreachable(why, f"a shorter window, more retries or {other}")

    def policy(self, curve: dict[str, Any]) -> Policy:
        """Build the policy with a curve of the family."""
        body = {"curve": curve, "jitter": self.family.jitter(self.first_ms), "limit": self.retries}
        return Policy.from_json(body if self.cap_ms is None else body | {"cap": self.cap_ms})

    def solutions(self) -> Iterator[tuple[Step, float]]:
        """Solve the family's equations one by one, until the window fits, or as near as the last one comes."""
        if self.family.steps is None or self.retries == 1:
            return
        steps = self.family.steps(self.first_ms, self.retries)
        least = self.window_ms * (1 - TOLERANCE)
        step = next((step for step in steps if self._at(step, step.high) >= least), steps[-1])
        value = self._solve(step)
        miss = abs(self._at(step, value) - self.window_ms)
        # Whoever reads it would rather have an exponent of 4 and a window that is a thousandth off than 4.00004.
        if miss <= TOLERANCE * self.window_ms or not step.whole or self.family.finer is None:
            yield step, value
            return
        value = max(value, 1.0)
        yield step, value
        finer = self.family.finer(self.first_ms, self.retries, value)
        yield finer, self._solve(finer)

    def beyond(self, window_ms: int) -> InvalidInput:
        """Build the error about a window that the family does not have."""
        closest, first = format_duration(window_ms), format_duration(self.first_ms)
        why = (
            f"{self.family.name} comes no closer than {closest} with {counted(self.retries)} from {first} on"
        )
        return self._unreachable(why, "another window or another family")

    def _unreachable(self, why: str, expected: str) -> InvalidInput:
        asked = format_duration(self.window_ms)
        message = f"window: a window of {asked} cannot be reached: {why}; expected {expected}"
        return InvalidInput(message, field="window", value=self.window_ms)

    def _highest(self) -> int:
        highest = self.policy({"constant": self.first_ms}).effective_cap_ms
        return CEILING_MS if highest is None else highest

    def _solve(self, step: Step) -> float:
        """Find where the window is crossed, rounded as far as the window allows."""
        ends = step.low, step.high
        for ends in _brackets(functools.partial(self._at, step), self.window_ms, step):
            found = self._roundest(step, ends)
            if found is not None:
                return found
        value = min(ends, key=lambda end: abs(self._at(step, end) - self.window_ms))
        found = self._roundest(step, (value, value))
        return value if found is None else found

    def _roundest(self, step: Step, ends: tuple[float, float]) -> float | None:
        """Give the number with the fewest digits that is close enough, once all between the ends is rounded to it."""
        for digits in range(1, _DIGITS + 1):
            low, high = (f"{end:.{digits}g}" for end in ends)
            if low != high:
                return None
            value = float(low)
            fits = step.low <= value <= step.high and (not step.whole or value.is_integer())
            if fits and abs(self._at(step, value) - self.window_ms) <= _ROUND * self.window_ms:
                return value
        return None


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


def _brackets(at: Callable[[float], int], window_ms: int, step: Step) -> Iterator[tuple[float, float]]:
    """Narrow down where a growing window crosses the one asked for, until nothing lies between.

    To build a policy takes as long as to calculate hundreds of waits. So every other turn guesses, along the chord of the
    window's logarithm, and never quite to an end: a guess just beyond what is looked for cuts off nearly all that is left.
    """
    low, high = step.low, step.high
    under = over = 0.0
    for turn in range(_TURNS):
        half = _between(low, high, 0.5, whole=step.whole)
        if half in (low, high):
            return
        share = min(max(under / (under + over), _RIM), 1 - _RIM) if turn % 2 and under and over else 0.5
        middle = _between(low, high, share, whole=step.whole)
        middle = middle if low < middle < high else half
        miss = math.log(max(at(middle), 1) / window_ms)
        if miss < 0:
            low, under = middle, -miss
        else:
            high, over = middle, miss
        yield low, high


def _between(low: float, high: float, share: float, *, whole: bool) -> float:
    """Give what lies so far, 0 to 1, between two ends: by their ratio where that is large, else by their distance."""
    least = max(low, 1.0)
    value = least * (high / least) ** share if high > _WIDE * least else low + (high - low) * share
    return float(math.floor(value)) if whole else value

"""Fit: from a window, or an outage, and a first wait to a policy that has them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.families import FAMILIES, Family
from anew.lab.fit_goal import TOLERANCE, Goal, counted, nominal_window
from anew.lab.last_retry import last_retry
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
    build: Callable[[int], Fit]
    if outlive_ms is None:
        window = window_ms or 0
        build = functools.partial(with_window, family, window, first_ms, cap_ms)
    else:
        window = outlive_ms
        build = functools.partial(outliving, family, outlive_ms, share, first_ms, cap_ms)
    if retries is None:
        # What no number of retries can mend is refused at once.
        Goal(family, window, first_ms, 1, cap_ms).check_each()
        found = _fewest(build, family, window, first_ms)
    else:
        found = build(retries)
    living = 1.0 if found.earliest_ms >= window else _share(found.policy, window)
    return msgspec.structs.replace(found, how=(*found.how, who_dies(living, window, share)), outlives=living)


def _checked(
    like: str, window_ms: int | None, retries: int | None, outlive_ms: int | None, share: float
) -> Family:
    """Refuse what cannot be asked for; give the family."""
    family = FAMILIES.get(like)
    if family is None:
        raise refused("like", like, f"one of: {', '.join(FAMILIES)}")
    if retries is not None and (
        isinstance(retries, bool) or not isinstance(retries, int) or not 1 <= retries <= MAX_RETRIES
    ):
        raise refused("retries", retries, f"a whole number from 1 to {MAX_RETRIES}")
    if (window_ms is None) is (outlive_ms is None):
        given = "neither is" if window_ms is None else "both are"
        raise InvalidInput(
            f"window: {given} given; expected a window, or an outage to outlive", field="window"
        )
    if not (isinstance(share, int | float) and 0 < share <= 1):
        raise refused("share", share, "a number above 0 and at most 1")
    if share < 1 and outlive_ms is None:
        raise InvalidInput(
            f"share: {share:g} is given without an outage; expected an outage to outlive beside it",
            field="share",
        )
    if outlive_ms is not None and not 1 <= outlive_ms <= MAX_DURATION_MS:
        raise refused(
            "outlive", outlive_ms, f"a duration from 1 ms to {format_duration_short(MAX_DURATION_MS)}"
        )
    return family


def _fewest(build: Callable[[int], Fit], family: Family, window_ms: int, first_ms: int) -> Fit:
    """Propose with as few retries as keep the waits in bounds; double the number until they do, then halve back."""
    most = max(window_ms // first_ms, 1)
    if family.steps is None:
        # All waits are the first one. An outage ends half a wait later for whom it meets last.
        return _said(_first_of(build, most), f"as many waits of {format_duration(first_ms)} as it takes")
    most, low, high = min(most, MAX_RETRIES), 0, 1
    good: Fit | None = None
    while good is None:
        good = _kept(build, high)
        if good is None and high == most:
            break
        if good is None:
            low, high = high, min(2 * high, most)
    if good is None:
        # So short a window holds no four waits, or a cap lets nothing grow.
        return _said(_first_of(build, most), "as many as such waits allow")
    while high - low > 1:
        middle = (low + high) // 2
        found = _kept(build, middle)
        if found is None:
            low = middle
        else:
            high, good = middle, found
    return _said(
        good,
        "the fewest with which no wait is longer than a quarter of the window or four times the one before",
    )


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
    return msgspec.structs.replace(
        found, how=(family_words, f"{counted(found.policy.retries or 0)}: {why}", *rest)
    )


def _share(policy: Policy, outage_ms: int) -> float:
    """Tell which share of jobs has a retry left at an outage's end."""
    found = last_retry(policy)
    return 1.0 if found is None else found.outlives(outage_ms)


# ---- a proposal with so many retries: that has a window, or that is the shortest to outlive an outage


_ROUNDS: Final = 12
_MARGIN: Final = 1.0003
_NEAR: Final = 1.002
_HARDLY: Final = 1_000
"""A jitter that lets a last retry come after a thousandth of the window can promise nothing."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal, and how it came about.

    Args:
        policy: The policy.
        like: Its family.
        solved: Name and value of each parameter that was solved for.
        how: Sentences: the curve, each equation with its solution, what remains off, what the jitter does, who dies.
        first_ms: The first nominal wait.
        window_ms: The sum of all nominal waits.
        off_ms: By how much that is longer than asked; negative: shorter.
        earliest_ms: The earliest time of the last retry after the first failure, jitter included.
        latest_ms: The least upper bound of that time.
        outlives: The share of jobs, 0 to 1, that outlive an outage as long as the window, or the one, that was asked for.
    """

    policy: Policy
    like: str
    solved: dict[str, str]
    how: tuple[str, ...]
    first_ms: int
    window_ms: int
    off_ms: int
    earliest_ms: int
    latest_ms: int
    outlives: float

    def to_json(self) -> dict[str, Any]:
        """Give all of it, the policy in its JSON form."""
        return {name: getattr(self, name) for name in self.__struct_fields__} | {
            "policy": self.policy.to_json()
        }


def with_window(family: Family, window_ms: int, first_ms: int, cap_ms: int | None, retries: int) -> Fit:
    """Propose a policy with a window."""
    goal = Goal(family, window_ms, first_ms, retries, cap_ms)
    goal.check()
    solved: dict[str, str] = {}
    how = [f"like {family.name}: {family.curve}, {family.manner}"]
    policy = goal.policy({"constant": first_ms})
    solutions = [*goal.solutions()]
    for number, (step, value) in enumerate(solutions, start=1):
        solved[step.unknown.name] = step.unknown.text(value)
        # At the lower end every wait is the first one, which the constant says better.
        policy = goal.policy(step.curve(value) if value > step.unknown.low else {"constant": first_ms})
        held = ", each wait held to the cap," if cap_ms is not None else ""
        coarse = "" if number == len(solutions) else ", and whole milliseconds are too coarse, so"
        how.append(
            f"{step.equation}{held} = {goal.asked}: {step.unknown.name} = {step.unknown.text(value)}{coarse}"
        )
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
    family: Family, outlive_ms: int, share: float, first_ms: int, cap_ms: int | None, retries: int
) -> Fit:
    """Propose the policy with the shortest window that ends at an outage's end or after it, for a share of the jobs.

    What the jitter takes off is about the same share of all windows, so that a few steps lead there.
    """
    least = retries * first_ms
    window_ms, best = max(outlive_ms, least), None
    for _ in range(_ROUNDS):
        try:
            found = with_window(family, window_ms, first_ms, cap_ms, retries)
        except InvalidInput as error:
            if best is not None or error.field != "window":
                break
            text = str(error).removeprefix("window: ")
            raise InvalidInput(f"outlive: {text}", field="outlive", value=outlive_ms) from None
        end_ms = _reached(found, share)
        if end_ms * _HARDLY < found.window_ms:
            raise refused(
                "outlive",
                format_duration_short(outlive_ms),
                f"an outage for a share of the jobs, such as 99 %: with this jitter {'some' if share == 1 else 'that many'} "
                f"may make their last retry {format_duration(end_ms)} after the first failure",
            )
        if end_ms >= outlive_ms:
            best = found if best is None or found.window_ms < best.window_ms else best
            if window_ms == least or end_ms <= outlive_ms * _NEAR:
                break
        window_ms = max(math.ceil(window_ms * outlive_ms / max(end_ms, 1) * _MARGIN), least)
    if best is None:
        raise refused(
            "outlive",
            format_duration_short(outlive_ms),
            f"an outage that {counted(retries)} from {format_duration(first_ms)} on can outlive: fewer or more retries, "
            "another first wait or another family",
        )
    asked, takes = format_duration_short(outlive_ms), format_duration(best.window_ms)
    who = "every job" if share == 1 else f"{100 * share:g} % of the jobs"
    words = f"an outage of {asked}, which {who} shall outlive, takes a window of {takes}"
    # How far that is from what the search asked for is nobody's concern.
    family_words, *equations, _, spread = best.how
    return msgspec.structs.replace(best, how=(family_words, words, *equations, spread))


def _reached(found: Fit, share: float) -> int:
    """Give the longest outage that a share of the jobs outlives."""
    if share == 1:
        return found.earliest_ms
    last = last_retry(found.policy)
    return found.earliest_ms if last is None else last.outlived_by(100 * share)


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
        f"with its jitter the last retry comes {format_duration(earliest)} to {format_duration(latest)} after the "
        "first failure"
    )

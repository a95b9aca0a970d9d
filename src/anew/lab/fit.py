"""Fit: from a window, or an outage, and a first wait to a policy that has them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any, Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.families import FAMILIES, Family
from anew.lab.fit_goal import Goal, counted
from anew.lab.fit_proposal import Fit, outliving, with_window
from anew.lab.fit_words import jitter_words, who_dies
from anew.lab.last_retry import last_retry
from anew.units import MAX_DURATION_MS, format_duration, format_duration_short, refused

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

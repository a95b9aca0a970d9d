"""Rules about the curve itself, its bounds, and how its numbers were written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from anew.backoff import CEILING_MS, Decorrelated, Exponential, Linear, Power
from anew.backoff.curves import CustomFailed
from anew.lab.lint.facts import Facts
from anew.lab.lint.finding import Context, Severity, listed, rule
from anew.units import DAY_MS, format_duration, format_duration_short, shown

_MOST_MS: Final = 30 * DAY_MS
_PRACTICAL: Final = 100
"""Retries of an endless policy that are looked at: what comes after the hundredth is nobody's plan."""


@rule("retries-at-once", Severity.WARNING, {"curve": {"table": ["0s", "0s", "0s", "1m"]}, "limit": 4})
def retries_at_once(facts: Facts, context: Context) -> Iterator[str]:
    """Several retries in the same millisecond have no better chance than one, and make a burst of calls."""
    spent = [row.retry for row in facts.rows if row.latest_ms == 0]
    if len(spent) > 1:
        together = "each in the same instant as the run before it"
        if spent[-1] - spent[0] == len(spent) - 1:  # neighbours come together, and with the run before them
            together = f"{len(spent) + 1} runs in the same instant"
        yield f"retries {listed(spent)} wait nothing: {together}; give each a wait, or keep one of them"


@rule(
    "first-wait-zero", Severity.INFO, {"curve": {"table": ["0s", "5m"]}, "jitter": {"above": 0.5}, "limit": 3}
)
def first_wait_zero(facts: Facts, context: Context) -> Iterator[str]:
    """An immediate first retry helps against a lost packet, but not against anything that lasts."""
    spent = [row.retry for row in facts.rows if row.latest_ms == 0]
    if spent == [1]:
        yield (
            "the first retry follows the failure at once, in the same instant for all jobs; give it a wait, or a jitter"
        )


@rule("overflow", Severity.ERROR, {"curve": {"exponential": {"base": "15s"}}, "jitter": "even", "limit": 25})
def overflow(facts: Facts, context: Context) -> Iterator[str]:
    """A curve that reaches the longest wait, 365 days, no longer follows its formula."""
    if facts.policy.highest_ms < CEILING_MS:
        return  # The policy's own ceil comes first.
    rows = facts.rows if facts.policy.retries is not None else facts.rows[:_PRACTICAL]
    for row, nominal in zip(rows, facts.nominals, strict=False):
        if nominal >= CEILING_MS:
            lower = "" if row.retry == 1 or facts.policy.retries is None else " or a lower limit"
            yield f"retry {row.retry} would wait 365 d or more, the longest wait there is; give a cap{lower}"
            return


@rule(
    "curve-shrinks",
    Severity.WARNING,
    {"curve": {"table": ["10m", "1m", "10s"]}, "jitter": "even", "limit": 3},
)
def curve_shrinks(facts: Facts, context: Context) -> Iterator[str]:
    """Waits that get shorter put the most load on a service that has been down the longest."""
    if isinstance(facts.policy.jitter, Decorrelated):
        return  # The curve is its least wait alone; the waits follow from each other.
    for row, before, after in zip(facts.rows[1:], facts.held, facts.held[1:], strict=False):
        if int(after) < int(before):
            yield (
                f"retry {row.retry} waits {format_duration(int(after))}, less than the {format_duration(int(before))} "
                "before it; let the waits grow, or stay"
            )
            return


@rule(
    "exponent-below-one", Severity.WARNING,
    {"curve": {"power": {"base": "15s", "exponent": 0.5, "origin": 1}}, "jitter": "even"},
)  # fmt: skip
def exponent_below_one(facts: Facts, context: Context) -> Iterator[str]:
    """With an exponent below 1 each wait grows by less than the one before."""
    for path, curve in facts.curves():
        if isinstance(curve, Power) and 0 < curve.exponent < 1 and curve.scale_ms and not curve.slope_ms:
            yield f"{path}.exponent is {curve.exponent:g}: it hardly grows; 1 is a straight line, 4 is Sidekiq's"


@rule(
    "accidental-constant", Severity.WARNING,
    {"curve": {"exponential": {"base": "1s"}}, "jitter": "full", "floor": "30s", "ceil": "30s"},
)  # fmt: skip
def accidental_constant(facts: Facts, context: Context) -> Iterator[str]:
    """Every wait is the same, although a curve or a jitter is given: it has no effect."""
    rows = facts.rows
    if len(rows) < 2:
        return
    waits = {ms for row in rows for ms in (row.earliest_ms, row.latest_ms)}
    varied = len(set(facts.nominals)) > 1 or any(reach.latest > reach.earliest for reach in facts.reaches)
    if len(waits) == 1 and varied and (bound := _bound(facts)):
        yield (
            f"every wait is {format_duration(rows[0].earliest_ms or 0)}, because {bound}; say constant if that is meant"
        )
    for path, curve in facts.curves():
        if (field := _flat(curve)) is not None:
            yield f"{path}.{field}: it never grows; say constant if that is meant"


def _bound(facts: Facts) -> str | None:
    """Say what makes every wait the same; None if no bound does, but waits that are all less than a millisecond."""
    policy = facts.policy
    if policy.floor_ms == policy.ceil_ms:
        return "floor and ceil are the same"
    if any(reach.latest > policy.highest_ms for reach in facts.reaches):
        return "365 d is the longest there is" if policy.ceil_ms is None else "ceil holds them all"
    below = any(reach.earliest < policy.floor_ms for reach in facts.reaches)
    return "floor holds them all" if below else None


def _flat(curve: Any) -> str | None:
    match curve:
        case Exponential(factor=1.0, knee=None):
            return "factor is 1"
        case Linear(step_ms=0):
            return "step is 0"
        case Power(exponent=0.0, slope_ms=0):
            return "exponent is 0"
        case Power(scale_ms=0, slope_ms=0):
            return "scale is 0"
    return None


@rule(
    "cap-below-first-wait", Severity.WARNING,
    {"curve": {"exponential": {"base": "1h"}}, "cap": "5m", "jitter": "full"},
)  # fmt: skip
def cap_below_first_wait(facts: Facts, context: Context) -> Iterator[str]:
    """A cap at or below the first wait hides the whole curve."""
    policy = facts.policy
    if policy.cap_ms is None or not facts.rows:
        return
    curve = policy.place(1)[0]
    try:
        first, second = curve.at(1), curve.at(2)
    except CustomFailed:
        return
    if policy.cap_ms <= first < second:
        yield (
            f"cap is {format_duration(policy.cap_ms)} and the curve begins at {_long(first)}: {_capped(facts)}; raise "
            "cap, or let the curve begin lower"
        )


def _capped(facts: Facts) -> str:
    """Say what is left of a curve that begins above the cap."""
    policy = facts.policy
    curve, cap = policy.place(1)[0], float(policy.effective_cap_ms or 0)
    # Phases may be on other curves; what comes first is hidden all the same.
    of_it = [index for index, row in enumerate(facts.rows) if policy.place(row.retry)[0] is curve]
    which = "every wait" if len(of_it) == len(facts.rows) else "every wait of it"
    if all(facts.reaches[index].earliest == facts.reaches[index].latest == cap for index in of_it):
        held = facts.hold(cap)
        return f"{which} is {'the cap' if held == policy.cap_ms else format_duration(int(held))}"
    return f"{which} is made of the cap by the jitter alone"


def _long(ms: float) -> str:
    return "365 d or more" if ms >= CEILING_MS else format_duration(int(ms))


@rule(
    "unreachable-phase", Severity.WARNING,
    {
        "phases": [{"curve": {"constant": "10s"}, "count": 5}, {"curve": {"exponential": {"base": "1m"}}}],
        "jitter": "even", "limit": 5,
    },
)  # fmt: skip
def unreachable_phase(facts: Facts, context: Context) -> Iterator[str]:
    """A phase that begins after the last retry is never reached."""
    begun = 0
    for index, phase in enumerate(facts.policy.phases):
        if facts.policy.limit is not None and begun >= facts.policy.limit and phase.count != 0:
            yield (
                f"phases[{index}] would begin with retry {begun + 1}, and limit is {facts.policy.limit}; raise limit, or "
                "leave the phase out"
            )
        begun += phase.count or 0


@rule(
    "unit-mistake", Severity.WARNING, {"curve": {"exponential": {"base": 15}}, "jitter": "even", "limit": 10}
)
def unit_mistake(facts: Facts, context: Context) -> Iterator[str]:
    """A number without a unit is milliseconds, and this one looks as if it was meant as seconds."""
    found = slips(facts)
    listed = Counter(_list_of(path) for path in found)
    for path, words in found.items():
        # A list is told once, by its first element.
        more = listed.pop(_list_of(path), 0) - 1
        if more >= 0:
            yield f"{words}; so with {more} more of {_list_of(path)}" if more else words
    if facts.held and facts.held[0] > _MOST_MS:
        yield f"the first retry waits {_long(facts.held[0])}; was a number of milliseconds multiplied twice?"


@rule(
    "bare-number", Severity.INFO,
    {"curve": {"exponential": {"base": 1500}}, "cap": "1h", "jitter": "even", "limit": 10},
)  # fmt: skip
def bare_number(facts: Facts, context: Context) -> Iterator[str]:
    """Next to durations with a unit, a number without one is easily misread; it is milliseconds."""
    written = facts.durations()
    if not any(isinstance(value, str) and number_of(value) is None for _, value in written):
        return
    suspects = slips(facts)
    for path, value in written:
        number = number_of(value)
        if number and path not in suspects and not path.endswith("_ms"):
            yield (
                f"{path}: {shown(value)} has no unit while others have one; write "
                f'"{format_duration_short(number)}", which it is'
            )


def _list_of(path: str) -> str:
    """Give the path of the list in which something stands, or its own."""
    return path.rpartition("[")[0] if path.endswith("]") else path


# ---- bare numbers that look like seconds: 300 and 3600 are written in seconds everywhere but here, where they are ms
# Most queues take seconds (Celery's ``countdown=300``, Sidekiq's ``3600``), so a number that is round there was
# probably brought along. Three sorts are told apart:
# - up to 99: no wait worth writing down is a few milliseconds long;
# - whole hours or days of seconds, 3600, 7200, 86400, 604800: in milliseconds nobody comes by such a number;
# - 100, 300, 600, 900, 1800 and their like are round in both. They count if the schedule is over before anything could
#   have recovered, or if one of the hours stands beside them; and they do not if a number beside them is one that people
#   write in milliseconds, such as 5000.
# A name that ends in ``_ms`` says its unit: there only the first sort counts.


LEAST_MS: Final = 100
"""What is shorter is no wait that anybody would write down."""

_HOUR: Final = 3_600
_DAY: Final = 86_400
_LONGEST: Final = 30 * _DAY
_EITHER: Final = frozenset({100, 120, 180, 240, 300, 600, 900, 1_200, 1_800, 2_700})
_SOON_MS: Final = 60_000
_RETRIES: Final = 10


def slips(facts: Facts) -> dict[str, str]:
    """Find the numbers that were probably meant as seconds: path -> how it was written, and what to write."""
    bare = {path: (number, value) for path, value in facts.durations() if (number := number_of(value))}
    unsaid = {path: number for path, (number, _) in bare.items() if not path.endswith("_ms")}
    hours = any(_is_hours(number) for number in unsaid.values())
    either = hours or (_is_over_soon(facts) and not any(_is_of_ms(number) for number in unsaid.values()))
    return {
        path: _words(path, number, value)
        for path, (number, value) in bare.items()
        if number < LEAST_MS or (path in unsaid and (_is_hours(number) or (either and number in _EITHER)))
    }


def number_of(value: Any) -> int | None:
    """Give the number of a duration that was written without a unit; None for infinity, TOML's word for none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return int(value) if value.strip().isdigit() else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    return value if isinstance(value, int) else None


def _is_hours(number: int) -> bool:
    # 18,000 and 36,000 are 5 h and 10 h of seconds, but also 18 s and 36 s; only whole days are clear all the same.
    hours = number % _HOUR == 0 and number % 1_000 != 0
    return _HOUR <= number <= _LONGEST and (hours or number % _DAY == 0)


def _is_of_ms(number: int) -> bool:
    return number >= 1_000 and number % 500 == 0 and not _is_hours(number)


def _is_over_soon(facts: Facts) -> bool:
    """Tell whether the first ten retries, or all of them, are over within a minute."""
    rows = facts.rows[:_RETRIES]
    return bool(rows) and sum(row.latest_ms or 0 for row in rows) < _SOON_MS


def _words(path: str, number: int, value: Any) -> str:
    if path.endswith("_ms"):
        return f"{path}: {shown(value)} is {number} ms; write {number * 1000} for {number} s"
    long = f", {format_duration(number)}" if number >= 1_000 else ""
    return f'{path}: {shown(value)} is {number} ms{long}; write "{number}s" or "{number}ms"'

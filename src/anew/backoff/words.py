"""A policy in words: its law, read aloud. For people; programs take the JSON form."""

from __future__ import annotations

from typing import Final

from anew.backoff.between import Between
from anew.backoff.curves import (
    Constant,
    Curve,
    Exponential,
    Fibonacci,
    Linear,
    Power,
    Scale,
    Stretch,
    Sum,
    Table,
)
from anew.backoff.even import Even
from anew.backoff.jitter import Jitter, NoJitter
from anew.backoff.policy import Phase, Policy
from anew.backoff.stateful import Decorrelated, Slices
from anew.backoff.windows import (
    Above,
    Add,
    Around,
    Below,
    Bound,
    Equal,
    Full,
    Grow,
    UpTo,
    Window,
    Windowed,
)
from anew.units import format_duration

_SHOWN_WAITS: Final = 8
_SOURCES: Final = {
    "rng": "",
    "hash": ", by a hash of the job's id and the retry",
    "job": ", by the number that the job keeps for life",
}


def _time(ms: int) -> str:
    return format_duration(ms) if ms else "0"


def in_words(policy: Policy) -> tuple[str, ...]:
    """Say what a policy does.

    Args:
        policy: The policy.

    Returns:
        A few clauses, each for a line of its own: the nominal wait c, what holds it, the wait that the jitter
        makes of it, the clamp, and the end. k is the retry, 1 = the first.
    """
    lines = [_phase(phase) for phase in policy.phases]
    if policy.curve is not None:
        lines.append(f"c = {curve_in_words(policy.curve)}")
    if policy.effective_cap_ms is not None:
        lines[-1] += f", at most {_time(policy.effective_cap_ms)}" + (
            " in each phase" if policy.phases else ""
        )
    lines.append(f"wait = {jitter_in_words(policy.jitter)}{_clamp(policy)}")
    return (*lines, _end(policy))


def curve_in_words(curve: Curve) -> str:
    """Give a curve's nominal wait before retry k as a formula."""
    match curve:
        case Constant():
            return _time(curve.wait_ms)
        case Linear():
            return f"{_time(curve.base_ms)} + {_times(curve.step_ms, '(k - 1)')}"
        case Power():
            return _power(curve)
        case Exponential():
            bend = "" if curve.knee is None else f", in a straight line after {curve.knee} multiplications"
            return f"{_times(curve.base_ms, f'{curve.factor:g}^(k - 1)')}{bend}"
        case Between():
            shape = f"{curve.shape}, base {curve.base:g}" if curve.base != 1 else curve.shape
            ends = f"from {_time(curve.low_ms)} to {_time(curve.high_ms)}"
            return f"{ends} in {curve.retries} retries ({shape})"
        case Table():
            shown = [_time(wait) for wait in curve.waits_ms[:_SHOWN_WAITS]]
            more = len(curve.waits_ms) - len(shown)
            rest = f" ... and {more} more" if more else ""
            return f"{', '.join(shown)}{rest}; the last one again" if len(curve.waits_ms) > 1 else shown[0]
        case Fibonacci():
            return f"{_time(curve.unit_ms)} * 1, 1, 2, 3, 5, 8 ..."
        case Sum():
            return " + ".join(curve_in_words(term) for term in curve.curves)
        case Scale():
            return f"{curve.by:g} * ({curve_in_words(curve.curve)})"
        case Stretch():
            x = _counted(curve.origin)
            return f"({curve_in_words(curve.curve)} with 1 + round({x} / {curve.by:g}) for k)"
    return "a function of its own"


def _power(curve: Power) -> str:
    x = _counted(curve.origin)
    terms = [_time(curve.base_ms)] if curve.base_ms else []
    if curve.scale_ms:
        power = f"{x}^{curve.exponent:g}"
        terms.append(f"{power} s" if curve.scale_ms == 1_000 else _times(curve.scale_ms, power))
    if curve.slope_ms:
        terms.append(_times(curve.slope_ms, x))
    return " + ".join(terms) or _time(0)


def _counted(origin: int) -> str:
    shift = origin - 1
    return "k" if not shift else f"(k {'-' if shift < 0 else '+'} {abs(shift)})"


def _times(unit_ms: int, factor: str) -> str:
    return f"{_time(unit_ms)} * {factor}"


def jitter_in_words(jitter: Jitter) -> str:
    """Give the wait that a jitter makes of the nominal wait c."""
    match jitter:
        case NoJitter():
            return "c"
        case Windowed():
            low, high = _ends(jitter)
            return f"anything from {low} to {high}{_distribution(jitter)}{_SOURCES[jitter.source]}"
        case Decorrelated():
            return f"anything from c to {jitter.times:g} times the wait before"
        case Slices():
            return "the way to an instant drawn inside the retry's own slice of time"
        case Even():
            slid = "c slid along the curve by the number that the job keeps for life"
            slid += "" if jitter.spread == 1 else f", over {jitter.spread:g} of the time between two waves"
            return slid + (f", shaken by {jitter.dither:g}" if jitter.dither else "")
    return "what a jitter of its own makes of c"


def _ends(jitter: Windowed) -> tuple[str, str]:
    match jitter:
        case Full():
            return "0", "c"
        case Equal():
            return "c / 2", "c"
        case Above():
            return "c", f"{1 + jitter.share:g} * c"
        case Below():
            return f"{1 - jitter.share:g} * c", "c"
        case Around():
            return f"{1 - jitter.share:g} * c", f"{1 + jitter.share:g} * c"
        case Add():
            return "c", f"c + {_time(jitter.by_ms)}"
        case Grow():
            return "c", f"c + {_times(jitter.by_ms, 'k')}"
        case UpTo():
            return "c", curve_in_words(jitter.curve)
        case Window():
            return _bound(jitter.low), _bound(jitter.high)
    raise AssertionError(jitter)


def _bound(bound: Bound) -> str:
    terms = []
    if bound.times:
        terms.append("c" if bound.times == 1 else f"{bound.times:g} * c")
    if bound.grow_ms:
        terms.append(_times(bound.grow_ms, "k"))
    if bound.add_ms:
        terms.append(_time(bound.add_ms))
    return " + ".join(terms) or "0"


def _distribution(jitter: Windowed) -> str:
    text = ""
    if jitter.faces is not None:
        text += f" by a die of {jitter.faces} faces"
    if jitter.step_ms is not None:
        text += f" in whole steps of {_time(jitter.step_ms)}"
    if jitter.cut_ms is not None:
        text += f", the part above cut to steps of {_time(jitter.cut_ms)}"
    if jitter.redraw_ms is not None:
        top = _time(jitter.redraw_ms)
        text += f", and what reaches {top} is drawn again from the upper half of {top}"
    return text + (f", from retry {jitter.since} on" if jitter.since > 1 else "")


def _phase(phase: Phase) -> str:
    count = "for ever" if phase.count is None else "once" if phase.count == 1 else f"{phase.count:,} times"
    return f"{count}: c = {curve_in_words(phase.curve)}"


def _clamp(policy: Policy) -> str:
    floor = f", never below {_time(policy.floor_ms)}" if policy.floor_ms else ""
    return floor + ("" if policy.ceil_ms is None else f", never above {_time(policy.ceil_ms)}")


def _end(policy: Policy) -> str:
    if not policy.limit_given and not policy.phases:
        count = "as many retries as the server's limit"
    elif policy.retries is None:
        count = "no limit of retries"
    else:
        count = (
            "no retry"
            if not policy.retries
            else f"{policy.retries:,} retries"
            if policy.retries > 1
            else "1 retry"
        )
    if policy.deadline_ms is not None:
        end = "clipped to" if policy.on_deadline == "clip" else "none later than"
        count += f", {end} {_time(policy.deadline_ms)} after the first failure"
    return count + ("; what fails for good is discarded" if policy.on_exhausted == "discard" else "")

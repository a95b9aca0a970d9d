"""The one place where a wait is decided: policy, retry number and chance in; a wait or "no more" out."""

from __future__ import annotations

import functools
from typing import Final, Literal

import msgspec

from anew.backoff.chance import Draws
from anew.backoff.curves import EVEN_CURVE, CustomFailed
from anew.backoff.jitter import Drawn, NoJitter
from anew.backoff.kinds import CEILING_MS
from anew.backoff.policy import Policy
from anew.backoff.windows import UpTo
from anew.units import format_duration

# Far past every ceiling; keeps arithmetic on absurd retry numbers inside floating point.
_LAST_RETRY: Final = 2**31


class Previous(msgspec.Struct, frozen=True, gc=False):
    """What was stored with the retry before this one.

    Args:
        carry: ``Wait.carry`` of that retry, unchanged.
    """

    carry: float | None = None


class Wait(msgspec.Struct, frozen=True, gc=False):
    """How long to wait before a retry, and how that came about.

    Args:
        retry: Which retry, 1 = first.
        nominal_ms: The curve's wait, held to the cap, before any jitter.
        draw: The number in [0, 1) that was used; None if none was drawn.
        cap_ms: The cap on nominal waits, or else the ceiling on all waits; None if the policy has neither.
        wait_ms: The wait: whole milliseconds, rounded down, in [0, 365 d].
        carry: What the next decision needs as ``Previous.carry``; None for most jitters.
        note: Why the wait is not simply nominal plus jitter, where that is so.
    """

    retry: int
    nominal_ms: int
    draw: float | None
    cap_ms: int | None
    wait_ms: int
    carry: float | None = None
    note: str = ""

    @property
    def reason(self) -> str:
        """One line of arithmetic, as `wait_in_words` gives it."""
        return wait_in_words(self.retry, self.nominal_ms, self.draw, self.cap_ms, self.wait_ms, self.note)


class Exhausted(msgspec.Struct, frozen=True, gc=False):
    """There is no further retry; ``policy.on_exhausted`` says what becomes of the job.

    Args:
        reason: One sentence for people.
        cause: Which bound was met: the limit of retries, the end of the phases, or the deadline.
    """

    reason: str
    cause: Literal["limit", "phases", "deadline"]


def wait_in_words(
    retry: int, nominal_ms: int, draw: float | None, cap_ms: int | None, wait_ms: int, note: str = ""
) -> str:
    """Put a wait's arithmetic into words: "retry 3: 1 min 36 s + 37.2 s of jitter (0.413) = 2 min 13 s".

    Args:
        retry, nominal_ms, draw, cap_ms, wait_ms, note: As in ``Wait``.
    """
    nominal = format_duration(nominal_ms)
    if cap_ms is not None and nominal_ms == cap_ms:
        nominal += " (the cap)"
    shift = wait_ms - nominal_ms
    text = f"retry {retry}: {nominal}"
    if note:
        return f"{text} nominal; {note}, so {format_duration(wait_ms)}"
    if shift or draw is not None:
        sign, drawn = "-" if shift < 0 else "+", "" if draw is None else f" ({draw:.3f})"
        text += f" {sign} {format_duration(abs(shift))} of jitter{drawn} = {format_duration(wait_ms)}"
    return text


def next_wait(
    policy: Policy,
    retry: int,
    draws: Draws,
    *,
    previous: Previous | None = None,
    override_ms: int | None = None,
    beyond_limit: bool = False,
    elapsed_ms: int | None = None,
) -> Wait | Exhausted:
    """Decide the wait before a retry.

    Args:
        policy: The law.
        retry: Which retry this would be; equals the failures so far. Below 1 counts as 1.
        draws: The chance that may be used. Nothing is drawn where the wait does not depend on it.
        previous: What was stored with the retry before; only ``decorrelated`` and ``slices`` look at it.
        override_ms: A wait that the failure asks for instead of the curve's.
        beyond_limit: Wait although limit and phases are spent; the deadline still holds.
        elapsed_ms: Time since the job's first failure, for the deadline; None counts as 0.

    Returns:
        A wait in [0, 365 d], or Exhausted when limit, phases or deadline allow no retry.
    """
    retry = min(max(retry, 1), _LAST_RETRY)
    retries = policy.retries
    if retries is not None and retry > retries and not beyond_limit:
        return _spent(policy, retries)
    carry = None if previous is None else previous.carry
    if override_ms is None:
        nominal, drawn, note = _drawn(policy, retry, draws, carry)
        low, high = policy.floor_ms, policy.highest_ms
        if drawn.wait < low or drawn.wait > high:
            note += (", " if note else "") + _clamped(drawn, low, high)
    else:
        nominal, drawn, note = _imposed(policy, retry, draws, carry, override_ms)
        exact = policy.override == "exact"
        low, high = (0, CEILING_MS) if exact else (policy.floor_ms, policy.highest_ms)
        note += _held(drawn.wait, low, high)
    wait = drawn.wait
    if wait != wait:
        # NaN comes only from chance that is no number in [0, 1); it must never turn into "at once".
        wait = nominal
    carry = drawn.carry
    if carry is not None and carry > high:
        # What decorrelated jitter remembers is the wait as it was kept, or it would never leave the ceiling.
        carry = float(high)
    wait_ms = int(low if wait < low else high if wait > high else wait)
    if policy.deadline_ms is not None:
        left_ms = policy.deadline_ms - max(elapsed_ms or 0, 0)
        if wait_ms > left_ms:
            if policy.on_deadline == "finish" or left_ms <= 0:
                return _late(policy.deadline_ms, left_ms, wait_ms)
            wait_ms = left_ms
            note += (", " if note else "") + "the deadline cuts it short"
    cap_ms = policy.effective_cap_ms if policy.effective_cap_ms is not None else policy.ceil_ms
    return Wait(retry, int(nominal), drawn.draw, cap_ms, wait_ms, carry, note)


def _drawn(policy: Policy, retry: int, draws: Draws, carry: float | None) -> tuple[float, Drawn, str]:
    """Give the nominal wait, the drawn one, and a note if the policy's own function failed."""
    curve = policy.nominal
    try:
        nominal = curve(retry)
        k = retry if policy.curve is not None else policy.place(retry)[1]
        return nominal, policy.jitter.draw(retry, k, nominal, curve, draws, carry), ""
    except CustomFailed as failure:
        nominal = fallback(policy, retry)
        # A window that ends at the failed function itself has no end to draw towards.
        jitter = NoJitter() if isinstance(policy.jitter, UpTo) else policy.jitter
        drawn = jitter.draw(retry, retry, nominal, functools.partial(fallback, policy), draws, carry)
        return nominal, drawn, f"the policy's own function failed ({failure}), the default curve serves"


def _imposed(
    policy: Policy, retry: int, draws: Draws, carry: float | None, override_ms: int
) -> tuple[float, Drawn, str]:
    """Give the wait that the failure asks for; ``spread`` adds the job's phase times the nominal wait."""
    override_ms = max(override_ms, 0)
    try:
        nominal = policy.nominal(retry)
    except CustomFailed:
        nominal = fallback(policy, retry)
    note = f"the failure asks for {format_duration(override_ms)}"
    if policy.override != "spread":
        return nominal, Drawn(override_ms, None, carry), note
    phase = draws.lifelong()
    return (
        nominal,
        Drawn(override_ms + phase * nominal, phase, carry),
        note + " and the job's phase adds to it",
    )


def _held(wait: float, low: int, high: int) -> str:
    if wait < low:
        return f", the policy for no less than {format_duration(low)}"
    return f", the policy for no more than {format_duration(high)}" if wait > high else ""


def _clamped(drawn: Drawn, low: int, high: int) -> str:
    """Say that a wait of the policy's own is held to its floor, its ceil, or the longest that there is."""
    made = ""
    if drawn.draw is not None and drawn.wait < CEILING_MS:
        made = f"the jitter ({drawn.draw:.3f}) makes it {format_duration(int(drawn.wait))}, "
    bound = (
        f"no less than {format_duration(low)}"
        if drawn.wait < low
        else f"no more than {format_duration(high)}"
    )
    return f"{made}the policy is for {bound}"


def fallback(policy: Policy, retry: int) -> float:
    """Give the nominal wait that serves where the policy's own function fails."""
    wait = EVEN_CURVE.at(retry)
    return min(wait, CEILING_MS if policy.effective_cap_ms is None else policy.effective_cap_ms)


def _spent(policy: Policy, retries: int) -> Exhausted:
    spent = "the only retry is spent" if retries == 1 else f"all {retries} retries are spent"
    count = spent if retries else "no retry is allowed"
    if policy.limit is not None and retries == policy.limit:
        return Exhausted(count, "limit")
    return Exhausted(f"{count}, the last phase is over", "phases")


def _late(deadline_ms: int, left_ms: int, wait_ms: int) -> Exhausted:
    left = f"{format_duration(left_ms)} are left" if left_ms > 0 else "it has passed"
    deadline = f"the deadline of {format_duration(deadline_ms)} after the first failure"
    return Exhausted(f"a wait of {format_duration(wait_ms)} would pass {deadline} ({left})", "deadline")

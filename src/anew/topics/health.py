"""How a subscription's endpoint has done: its breaker, warnings, and when it is disabled. Pure.

closed      deliveries start; so many attempts in a row have failed -> open
open        none starts; at `open_until` one does, as a probe
half open   the probe runs, no other starts; it succeeds -> closed, it fails -> open, for twice as long
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from anew.jobs.key_limits import OPEN, Gate
from anew.topics.delivery_policy import Health

WARNINGS: Final = (90, 70, 50)
"""Percent of the time without a success, after which it is disabled, at which its owner is warned."""


class HealthState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an endpoint has done, as stored.

    Attributes:
        failures: Failed attempts since the last success.
        since: When the first of them ended, epoch ms.
        warned: The percentage of the last warning; 0: none was given.
        opened: How often in a row the breaker has opened; 0: it is closed.
        open_until: Until when it is open, epoch ms; from then on it is half open.
        asked_until: Until when the endpoint has asked to be spared, epoch ms.
    """

    failures: int = 0
    since: int | None = None
    warned: int = 0
    opened: int = 0
    open_until: int = 0
    asked_until: int = 0


class Checkup(Struct, frozen=True):
    """How an endpoint has done, one attempt later.

    Attributes:
        state: As it is now.
        opened: The breaker has opened for the first time since the last success.
        warning: A percentage of `WARNINGS` that was passed.
        disabled: It is to be disabled.
    """

    state: HealthState
    opened: bool = False
    warning: int | None = None
    disabled: bool = False


def after_attempt(
    state: HealthState, health: Health, ok: bool, began_at: int, now: int, asked_ms: int | None = None
) -> Checkup:
    """Give how an endpoint has done after one more attempt.

    Args:
        state: Before it.
        health: What its policy says.
        ok: Whether it has taken the delivery.
        began_at, now: When the attempt began, and when it ended, epoch ms.
        asked_ms: For how long it asks to be spared.
    """
    asked_until = state.asked_until if asked_ms is None else max(state.asked_until, now + asked_ms)
    if ok:
        return Checkup(HealthState(asked_until=asked_until if asked_until > now else 0))
    since = now if state.since is None else state.since
    state = replace(state, failures=state.failures + 1, since=since, asked_until=asked_until)
    was_closed = not state.opened
    state = _broken(state, health, began_at, now)
    opened = was_closed and state.opened > 0
    if health.disable_after_ms is None:
        return Checkup(state, opened)
    without_ms = now - since
    if without_ms >= health.disable_after_ms and state.failures >= health.disable_min_failures:
        return Checkup(state, opened, disabled=True)
    percent = min(100 * without_ms // health.disable_after_ms, 100)
    warning = next((one for one in WARNINGS if state.warned < one <= percent), None)
    return Checkup(state if warning is None else replace(state, warned=warning), opened, warning)


def _broken(state: HealthState, health: Health, began_at: int, now: int) -> HealthState:
    """Open the breaker where that is due. A failure of an attempt that began earlier than its probe may changes nothing."""
    if health.breaker_failures is None or began_at < state.open_until:
        return state
    if not state.opened and state.failures < health.breaker_failures:
        return state
    doubled = health.breaker_open_ms << min(state.opened, 30)
    return replace(state, opened=state.opened + 1, open_until=now + min(doubled, health.breaker_open_max_ms))


def gate(state: HealthState, now: int) -> Gate:
    """Give what holds back the deliveries to an endpoint."""
    until = max(state.open_until if state.opened else 0, state.asked_until)
    if not state.opened and until <= now:
        return OPEN
    return Gate(until, probing=state.opened > 0)


def enabled_again(state: HealthState) -> HealthState:
    """Give how an endpoint has done that its owner has enabled again: well, but what it has asked for holds."""
    return HealthState(asked_until=state.asked_until)

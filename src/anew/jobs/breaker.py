"""Circuit breakers: whether a job whose handler calls some other service may start now, or until when it is held.

    closed      jobs start; of late too many runs have failed -> open
    open        jobs are held; at `reopen_at` the next one starts as a probe -> half_open
    half_open   the probe runs, all others are held; it succeeds -> closed, it fails -> open, for longer

Held jobs get instants of their own, evenly spaced, so that they do not come back together. A retry budget holds retries too, while
too many of them fail. Runs are counted in numbers that decay: each run weighs e^(-age / window).
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from anew.backoff import Policy
from anew.jobs.codec import LAST_INSTANT

LONGEST_ASKED_MS: Final = 3_600_000
"""How long a service may ask for at most before it is probed: one wrong header must not hold all jobs for a year."""


class BreakerState(StrEnum):
    """See the module's text."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerSettings(Struct, frozen=True, kw_only=True, gc=False):
    """When a breaker opens, and how it closes again.

    Attributes:
        failures: Share of the runs in the window, above 0 to 1, at which it opens.
        least: Runs in the window below which nothing is concluded; also the failed retries that are always allowed.
        window_ms: How long runs are remembered: one that is as old as this weighs 1/e.
        cooldown: How long it stays open, by how often it has opened in a row; its jitter is left out.
        spacing_ms: Between two held jobs that are released, 1 or more.
        budget: Failed retries in the window, as a share of its runs, beyond which retries are held; None: no limit.
    """

    failures: float
    least: int
    window_ms: int
    cooldown: Policy
    spacing_ms: int
    budget: float | None


class BreakerRow(Struct, frozen=True, kw_only=True, gc=False):
    """One breaker as stored.

    Attributes:
        key: Names the service.
        runs, failures: Runs that have ended, and those that failed, as they weighed at `at`.
        retries: Retries that run or have failed, likewise.
        at: Epoch ms.
        opened: How often it has opened since it was last closed.
        reopen_at: Open: when a probe may start. Half open: when another one may, if nothing was heard of this one. Epoch ms.
        probe: The job that probes, by its key; 0 where none does.
        next_release_at: The first instant that is given to no held job yet, epoch ms.
    """

    key: str
    state: BreakerState = BreakerState.CLOSED
    runs: float = 0.0
    failures: float = 0.0
    retries: float = 0.0
    at: int = 0
    opened: int = 0
    reopen_at: int = 0
    probe: int = 0
    next_release_at: int = 0


class Start(Struct, frozen=True, gc=False):
    """Whether a job may start.

    Attributes:
        row: The breaker after it.
        held_until: None: it may start now. Otherwise the instant, epoch ms, at which it is to ask again.
    """

    row: BreakerRow
    held_until: int | None


def ran(
    row: BreakerRow,
    settings: BreakerSettings,
    ok: bool | None,
    now: int,
    *,
    job: int,
    retry: bool = False,
    until: int | None = None,
) -> BreakerRow:
    """Give a breaker after a run has ended.

    Args:
        row, settings: The breaker.
        ok: Whether the service has served it; None: the run says nothing about it.
        now: Epoch ms.
        job: The run's job.
        retry: The job had failed before.
        until: When the service asks to come back, epoch ms; it stays open so long, but for no more than `LONGEST_ASKED_MS`.
    """
    if row.state is BreakerState.HALF_OPEN and job == row.probe:
        if ok is None:
            return replace(row, state=BreakerState.OPEN, reopen_at=now, probe=0)
        return closed(row, now) if ok else _opened(row, settings, now, until)
    if row.state is not BreakerState.CLOSED:
        return row  # it had started before the breaker opened
    row = _aged(row, settings, now)
    if retry and ok is not False:
        row = replace(row, retries=max(row.retries - 1, 0.0))
    if ok is None:
        return row
    row = replace(row, runs=row.runs + 1, failures=row.failures + (not ok))
    if ok or row.runs < settings.least or row.failures < settings.failures * row.runs:
        return row
    return _opened(row, settings, now, until)


def may_start(
    row: BreakerRow, settings: BreakerSettings, now: int, *, job: int, retry: bool = False
) -> Start:
    """Decide whether a job may start.

    Args:
        row, settings: The breaker.
        now: Epoch ms.
        job: The job, which may become the probe.
        retry: It has failed before.
    """
    if row.state is not BreakerState.CLOSED:
        if now < _reopens_at(row, settings, now):
            return held(row, settings, now)
        again_at = now + cooldown_ms(settings, row.opened)
        return Start(replace(row, state=BreakerState.HALF_OPEN, probe=job, reopen_at=again_at), None)
    if not retry or settings.budget is None:
        return Start(row, None)
    row = _aged(row, settings, now)
    if row.retries + 1 > settings.budget * row.runs + settings.least:
        return held(row, settings, now)
    return Start(replace(row, retries=row.retries + 1), None)


def held(row: BreakerRow, settings: BreakerSettings, now: int) -> Start:
    """Give the instant at which the next held job is released: no two are closer than `spacing_ms`, whatever happens between.

    While it is open the first one comes when the probe may start, and so becomes the probe.
    """
    is_open = row.state is BreakerState.OPEN
    first_at = _reopens_at(row, settings, now) if is_open else now + settings.spacing_ms
    at = min(max(row.next_release_at, first_at), LAST_INSTANT)
    return Start(replace(row, next_release_at=at + settings.spacing_ms), at)


def closed(row: BreakerRow, now: int) -> BreakerRow:
    """Close a breaker: its counts say nothing about the service as it is now, but its held jobs are still to be released."""
    return BreakerRow(key=row.key, at=now, next_release_at=row.next_release_at)


def cooldown_ms(settings: BreakerSettings, opened: int) -> int:
    """Give how long a breaker stays open that has opened so often in a row, milliseconds."""
    policy = settings.cooldown
    return int(min(max(policy.nominal(max(opened, 1)), policy.floor_ms), policy.highest_ms))


def _opened(row: BreakerRow, settings: BreakerSettings, now: int, until: int | None) -> BreakerRow:
    reopen_at = now + cooldown_ms(settings, row.opened + 1)
    if until is not None:
        reopen_at = max(reopen_at, min(until, now + LONGEST_ASKED_MS))
    return replace(row, state=BreakerState.OPEN, opened=row.opened + 1, reopen_at=reopen_at, probe=0)


def _reopens_at(row: BreakerRow, settings: BreakerSettings, now: int) -> int:
    """Give when a probe may start; a clock that was set back delays it by the longest time that there is at most."""
    return min(row.reopen_at, now + max(cooldown_ms(settings, row.opened), LONGEST_ASKED_MS))


def _aged(row: BreakerRow, settings: BreakerSettings, now: int) -> BreakerRow:
    """Give a row's numbers as they weigh now."""
    weight = math.exp(-max(now - row.at, 0) / settings.window_ms)
    return replace(
        row, runs=row.runs * weight, failures=row.failures * weight, retries=row.retries * weight, at=now
    )

"""Limits and breakers on a page: what may not start now, why, and how much waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from anew.engine import Call
from anew.engine.breakers import close_breaker
from anew.engine.throttles import LimitedQueue, limited_queues
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.query_strings import encoded, query_pairs
from anew.http.router import Router
from anew.jobs import IdText, State
from anew.jobs.breaker import BreakerRow, BreakerState
from anew.jobs.codec import LAST_INSTANT
from anew.jobs.limits import Origin, Throttle
from anew.net.seam import Request
from anew.store.key_limit_rows import COUNTED_OF_A_KEY, LimitedKey
from anew.store.page_reads import PageReads
from anew.topics.terms import subscription_of
from anew.units import format_duration
from anew.web.dashboard.actions import MOST_BYTES
from anew.web.dashboard.pages import UI
from anew.web.dashboard.rendering import done_words, render
from anew.web.dashboard.replies import go_to, later, paged, written
from anew.web.dashboard.shown import moment

BREAKERS: Final = 200
"""Breakers of the page."""

MOST_BREAKERS: Final = 10_000
"""Breakers among which it looks for those that are not closed."""

QUEUES: Final = 50
KEYS: Final = 100
"""Queues, and keys, of one page."""

MOST_KEYS: Final = 10_000
"""Keys among which one page looks for those that hold jobs back."""

_HERE: Final = UI + "/limits"
_ORIGINS: Final = {Origin.CONFIG: "the server's settings", Origin.PROGRAM: "a program"}


class Limits:
    """Shows limits and breakers, and closes a breaker.

    Args:
        context: What routes may use.
    """

    def __init__(self, context: Context) -> None:
        self._reads = context.reads
        self._submit = context.commit.submit
        self._ids = context.engine.ids
        self._now = context.engine.clock.now

    def show(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show what holds, and how many wait for it."""
        given = query_pairs(request.query, {"done", "queue", "key", "every"})

        def found(queues: list[LimitedQueue]) -> None:
            self._reads.look(partial(self._page, given, queues), written(request, form))

        verb = limited_queues(given.get("queue", ""), QUEUES + 1)
        self._submit(Call(verb, later(request, form, found), durable=False, waits=False))

    def _page(self, given: Mapping[str, str], queues: Sequence[LimitedQueue], look: PageReads) -> bytes:
        now, every, key = self._now(), bool(given.get("every")), given.get("key", "")
        breakers = look.breakers(MOST_BREAKERS, BREAKERS + 1)
        keys, stopped_at = look.limited_keys(key, MOST_KEYS, KEYS, idle=every)
        first = f"{_HERE}?every=1" if every else f"{_HERE}?"
        return render(
            "limits.html",
            here=_HERE,
            said=done_words(given.get("done", ""), ""),
            breakers=[_breaker(self._ids, row, now) for row in breakers[:BREAKERS]],
            most_breakers=len(breakers) > BREAKERS,
            queues=[_queue(look, one) for one in queues[:QUEUES]],
            queue_start=given.get("queue", ""),
            next_queue=[f"{_HERE}?queue={encoded(one.name)}#queues" for one in queues[QUEUES:]],
            keys=[_key(self._ids, one, now) for one in keys],
            counted=COUNTED_OF_A_KEY,
            every=every,
            key_start=key,
            first_key=f"{first.rstrip('?')}#keys",
            next_key=[]
            if stopped_at is None
            else [f"{first}&key={encoded(stopped_at)}#keys".replace("?&", "?")],
        )

    def close(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Close a breaker."""
        query_pairs(request.body, set())
        done = later(request, form, lambda _: go_to(request, _HERE, "close"))
        self._submit(Call(close_breaker(params[0]), done))


def _breaker(ids: IdText, row: BreakerRow, now: int) -> dict[str, Any]:
    is_open = row.state is not BreakerState.CLOSED
    return {
        "key": row.key,
        "state": str(row.state),
        "opened": row.opened,
        # What a closed one has counted last is no news; no run of one that is open counts.
        "since": moment(row.at, now) if is_open else None,
        "probe": ids.write(row.probe) if row.probe else "",
        "probes": moment(row.reopen_at, now) if is_open and row.reopen_at else None,
        "released": moment(row.next_release_at, now) if row.next_release_at > now else None,
        "runs": f"{row.runs:,.1f}",
        "failures": f"{row.failures:,.1f}",
        "retries": f"{row.retries:,.1f}",
        "path": f"{UI}/breakers/{encoded(row.key)}/close",
    }


def _queue(look: PageReads, one: LimitedQueue) -> dict[str, Any]:
    found = [row for row in look.queue_rows(one.name, 1) if row.name == one.name]
    jobs = found[0].jobs if found else {}
    return {
        "name": one.name,
        "paused": bool(found) and found[0].paused,
        "limit": limit_words(one.throttle),
        "origin": _ORIGINS[one.throttle.origin],
        "running": jobs.get(State.IN_FLIGHT, 0),
        "ready": jobs.get(State.READY, 0),
        "free": one.free,
    }


def _key(ids: IdText, one: LimitedKey, now: int) -> dict[str, Any]:
    limit = one.limit
    found = subscription_of(limit.name)
    subscription = "" if found is None else f"sub_{ids.write(found.key)}"
    of_webhooks = "" if found is None else "the question to " if found.asks else "deliveries to "
    why, until = "", None
    if limit.gate.closed_until == LAST_INSTANT:
        why = "held until somebody lets them go on"
    elif now < limit.gate.closed_until:
        why, until = "held, next one", moment(limit.gate.closed_until, now)
    elif limit.gate.probing:
        why = "one at a time, to find out whether what they call works"
    elif limit.look_at is not None and one.blocked:
        why, until = "its rate, next one", moment(limit.look_at, now)
    return {
        "name": of_webhooks + subscription if subscription else limit.name,
        "subscription": subscription,
        "limit": limit_words(limit.throttle),
        "running": one.running,
        "blocked": one.blocked,
        "why": why,
        "until": until,
    }


def limit_words(throttle: Throttle) -> str:
    """Say what a limit allows."""
    said = []
    if throttle.concurrency is not None:
        said.append(f"{throttle.concurrency:,} at one time")
    if throttle.per_worker is not None:
        said.append(f"{throttle.per_worker:,} at one time in each worker")
    if throttle.rate is not None:
        rate = throttle.rate
        said.append(
            f"{rate.count:,} in {format_duration(rate.per_ms)}, {rate.burst:,} at once after a quiet time"
        )
    if throttle.timeout_ms is not None:
        said.append(f"each for {format_duration(throttle.timeout_ms)} at most")
    return "; ".join(said) or "–"


def add_routes(router: Router, context: Context) -> None:
    """Serve the page and its form, whatever `Accept` says."""
    limits = Limits(context)
    router.add("GET", _HERE, paged(limits.show), streams=True)
    router.add(
        "POST", UI + "/breakers/{breaker}/close", paged(limits.close), streams=True, most_bytes=MOST_BYTES
    )

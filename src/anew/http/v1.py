"""Anew's own routes about jobs: retry one or many that have died, cancel one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from anew.engine import Call, verbs
from anew.engine.walks import Walks
from anew.http.answers import answering
from anew.http.api import Context
from anew.http.bodies import body_as
from anew.http.filters import FILTERS, query_pairs, selection
from anew.http.formats import Format
from anew.http.render import job_object
from anew.http.router import Router
from anew.jobs import Job
from anew.net.seam import Request
from anew.units import parse_duration


class Redrive(msgspec.Struct, frozen=True):
    """How jobs are sent round again.

    Attributes:
        spread: Period over which they are spread evenly: milliseconds, or text such as ``10m``; None means all now.
        reset_attempts: Begin their policies again; else a job that died of its limit dies again at its next failure.
    """

    spread: int | str | None = None
    reset_attempts: bool = False


class OwnRoutes:
    """Sends jobs round again, or calls them off.

    Args:
        context: What handlers use.
    """

    def __init__(self, context: Context) -> None:
        self._ids = context.engine.ids
        self._key_of = context.key_of
        self._now = context.engine.clock.now
        self._submit = context.commit.submit
        self._walks = Walks(self._submit, context.read, self._now, _later)

    def retry_one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Make one dead or cancelled job ready now."""
        key = self._key_of(params[0])
        wanted = _redrive(request)
        if wanted is not None:
            verb = verbs.redrive_one(key, reset_attempts=wanted.reset_attempts)
            self._submit(Call(verb, self._with_job(request, form)))

    def retry_many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Make all dead and cancelled jobs that match ready, at once or spread over a period."""
        wanted = _redrive(request)
        if wanted is None:
            return
        spread_ms = 0 if wanted.spread is None else parse_duration(wanted.spread, field="spread")
        chosen = selection(query_pairs(request.query, FILTERS))
        chosen.check()
        where = verbs.redrivable(chosen.where(self._ids, visible_at=None), self._now())
        change = verbs.redrive_portion(spread_ms=spread_ms, reset_attempts=wanted.reset_attempts)
        done = answering(request, form, lambda n: form.reply(request, 200, {"retried": n}))
        self._walks.start(where, change, done)

    def cancel(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Call one job off."""
        self._submit(Call(verbs.cancel_one(self._key_of(params[0])), self._with_job(request, form)))

    def _with_job(self, request: Request, form: Format) -> Any:
        def then(job: Job) -> None:
            form.reply(request, 200, job_object(self._ids, job, payload=False))

        return answering(request, form, then)


def _later(seconds: float, go_on: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, go_on)


def _redrive(request: Request) -> Redrive | None:
    """Read the body, which may be missing; None if its content type has been refused."""
    return body_as(request, Redrive) if request.body else Redrive()


def add_routes(router: Router, context: Context) -> None:
    """Serve Anew's own routes about jobs."""
    routes = OwnRoutes(context)
    router.add("POST", "/v1/jobs/retry", routes.retry_many)
    router.add("POST", "/v1/jobs/{id}/retry", routes.retry_one)
    router.add("POST", "/v1/jobs/{id}/cancel", routes.cancel)

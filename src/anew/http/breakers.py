"""Circuit breakers of the services that handlers call: workers say how runs have ended, and ask who may start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from anew.backoff import policy_from_json
from anew.engine import Batch
from anew.engine.breakers import Asking, Breaking, RunReport, all_breakers, close_breaker
from anew.errors import InvalidJob
from anew.http.api import Context
from anew.http.bodies import body_as
from anew.http.formats import Format
from anew.http.long_lists import check_count
from anew.http.replies import run_verb
from anew.http.router import Doc, Router
from anew.jobs import IdText, Job
from anew.jobs.breaker import BreakerRow, BreakerSettings, BreakerState
from anew.jobs.codec import At
from anew.net.seam import Kind, Request

MOST_KEYS = 1_000
"""Services in one request."""

MAX_BODY = 4 << 20
MOST_JOBS = 10_000

Positive = Annotated[int, Meta(ge=1, le=1 << 53)]


class BreakerTerms(Struct, frozen=True, kw_only=True):
    """When a breaker opens, and how it closes again.

    Attributes:
        failures: Share of the runs in the window, above 0 to 1, at which it opens.
        least: Runs in the window below which nothing is concluded.
        window_ms: How long runs are remembered.
        cooldown: How long it stays open, by how often it has opened in a row: any policy.
        spacing_ms: Between two held jobs that are released.
        budget: Failed retries in the window, as a share of its runs, beyond which retries are held; null: no limit.
    """

    failures: Annotated[float, Meta(gt=0, le=1)]
    least: Positive
    window_ms: Positive
    cooldown: Any
    spacing_ms: Positive
    budget: Annotated[float, Meta(ge=0, le=1)] | None = None


class EndedRun(Struct, frozen=True, kw_only=True):
    """A run that has ended, as the breaker of its service sees it.

    Attributes:
        breaker: Names the service.
        id: The job.
        ok: Whether the service has served it; null: the run says nothing about it.
        retry: The job had failed before.
        until: When the service asks to come back, epoch ms.
    """

    breaker: str
    id: str
    ok: bool | None = None
    retry: bool = False
    until: At | None = None


class WaitingRun(Struct, frozen=True, kw_only=True):
    """A job in flight whose handler has not begun.

    Attributes:
        breaker: Names the service that it calls.
        id: The job.
        taken_at: Its `dequeued_at` as the take showed it.
        retry: It has failed before.
        held: It was let start before, and its breaker has opened since.
    """

    breaker: str
    id: str
    taken_at: At
    retry: bool = False
    held: bool = False


class BreakerQuestion(Struct, frozen=True, kw_only=True):
    """How runs have ended, and which may start.

    Attributes:
        settings: Of all services named, by name.
        ended: Runs that have ended.
        waiting: Jobs that want to start.
    """

    settings: dict[str, BreakerTerms]
    ended: list[EndedRun] = []
    waiting: list[WaitingRun] = []


class _Answer(NamedTuple):
    held: dict[int, Job]
    seen: list[tuple[BreakerState, BreakerRow]]


class BreakerRoutes:
    """Keeps breakers for workers."""

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit
        self._ids = context.engine.ids

    def ask(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Record how runs have ended, and hold the jobs that may not start: they go back, uncounted, and wait."""
        body = body_as(request, BreakerQuestion)
        check_count("settings", len(body.settings), MOST_KEYS)
        check_count("ended", len(body.ended), MOST_JOBS)
        check_count("waiting", len(body.waiting), MOST_JOBS)
        settings = {key: _settings(key, terms) for key, terms in body.settings.items()}
        named = {run.breaker for run in body.ended} | {run.breaker for run in body.waiting}
        for key in sorted(named - settings.keys()):
            raise InvalidJob(f"settings: expected those of {key[:60]!r} too", field="settings")

        run_verb(self._submit, _asking(self._ids, settings, body), request, form, self._shown)

    def _shown(self, answer: _Answer) -> dict[str, Any]:
        closed = BreakerState.CLOSED
        write = self._ids.write
        return {
            "held": [{"id": write(key), "ready_at": job.ready_at} for key, job in answer.held.items()],
            "open": {
                row.key: write(row.probe) if row.probe else None
                for _, row in answer.seen
                if row.state is not closed
            },
            "turned": [
                _breaker(row) for before, row in answer.seen if (before is closed) != (row.state is closed)
            ],
        }

    def list(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the breakers of services that jobs have called."""

        def shown(rows: Sequence[BreakerRow]) -> dict[str, Any]:
            return {"breakers": [_breaker(row) for row in rows]}

        run_verb(self._submit, all_breakers, request, form, shown, durable=False, waits=False)

    def close(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Close a breaker by hand; held jobs keep their times."""

        def shown(was_open: bool) -> dict[str, Any]:
            return {"key": params[0], "closed": was_open}

        run_verb(self._submit, close_breaker(params[0]), request, form, shown)


def _asking(ids: IdText, settings: dict[str, BreakerSettings], body: BreakerQuestion) -> Any:
    def verb(batch: Batch) -> _Answer:
        breaking = Breaking(batch, settings)
        for run in body.ended:
            breaking.ran(RunReport(run.breaker, ids.read(run.id), run.ok, run.retry, run.until))
        waiting = [(run, ids.read(run.id)) for run in body.waiting]
        taken = {job.key: job.dequeued_at for job in batch.in_flight(key for _, key in waiting)}
        still = [(run, key) for run, key in waiting if taken.get(key) == run.taken_at]
        held = breaking.hold_all([Asking(run.breaker, key, run.retry) for run, key in still if run.held])
        held |= breaking.hold_some(
            [Asking(run.breaker, key, run.retry) for run, key in still if not run.held]
        )
        return _Answer(held, breaking.write())

    return verb


def _settings(key: str, terms: BreakerTerms) -> BreakerSettings:
    if not 1 <= len(key.encode("utf-8", "surrogatepass")) <= 255 or not key.isprintable():
        expected = "expected 1 to 255 bytes of printable text"
        raise InvalidJob(f"settings: {key[:60]!r} is not a name; {expected}", field="settings")
    try:
        cooldown = msgspec.json.encode(terms.cooldown)
    except (TypeError, ValueError) as error:  # MessagePack has values that JSON has not
        raise InvalidJob(
            f"settings: the cooldown of {key[:60]!r} is not JSON: {error}", field="settings"
        ) from None
    return BreakerSettings(
        failures=terms.failures,
        least=terms.least,
        window_ms=terms.window_ms,
        cooldown=policy_from_json(cooldown),
        spacing_ms=terms.spacing_ms,
        budget=terms.budget,
    )


def _breaker(row: BreakerRow) -> dict[str, Any]:
    return {
        "key": row.key,
        "state": str(row.state),
        "runs": row.runs,
        "failures": row.failures,
        "opened": row.opened,
        "reopens_at": row.reopen_at or None,
        "released_until": row.next_release_at or None,
    }


def add_routes(router: Router, context: Context) -> None:
    """Serve the breakers' routes."""
    routes = BreakerRoutes(context)
    ask = Doc("askBreakers", "work", {200: "BreakerAnswer"}, "BreakerQuestion")
    router.add("POST", "/v1/breakers", routes.ask, ask, kind=Kind.settling, most_bytes=MAX_BODY)
    router.add("GET", "/v1/breakers", routes.list, Doc("listBreakers", "server", {200: "Breakers"}))
    close = Doc("closeBreaker", "server", {200: "BreakerClosed"})
    router.add("POST", "/v1/breakers/{breaker}/close", routes.close, close)

"""What people do from the dashboard: forms that its pages send. Each comes to a verb that the API has too, and ends on a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from anew.engine import Call, verbs
from anew.engine.bulk import ChunkChange
from anew.engine.crontab import fire_now, pause_cron
from anew.engine.ops import Verb
from anew.engine.workers import WorkerState
from anew.errors import InvalidInput, NotFound
from anew.http.api import Context
from anew.http.bulk import ManyJobs
from anew.http.formats import Format
from anew.http.query_strings import Selection, encoded, query_pairs, selected
from anew.http.router import Router
from anew.jobs.names import check_name
from anew.jobs.patch import Patch
from anew.net.seam import Request
from anew.store.selection import Filter
from anew.units import parse_duration
from anew.web.dashboard.pages import UI
from anew.web.dashboard.replies import go_to, later, paged

MOST_BYTES: Final = 4 << 10
"""Bytes of a form."""

_NOW: Final = Patch(ready_at=None)
"""A waiting job is ready now."""


class Actions:
    """Does what the forms of the pages ask for.

    Args:
        context: What routes may use.
    """

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit
        self._ids = context.engine.ids
        self._key_of = context.key_of
        self._now = context.engine.clock.now
        self._many = ManyJobs(context)
        self._workers = context.workers

    def one_job(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Change one job."""
        key, action = self._key_of(params[0]), params[1]
        given = _form(request, {"reset"})
        make: dict[str, Callable[[], Verb]] = {
            "retry": lambda: verbs.redrive_one(key, reset_attempts="reset" in given),
            "run": lambda: verbs.patch_one(key, _NOW),
            "cancel": lambda: verbs.cancel_one(key),
            "delete": lambda: verbs.delete_one(key),
        }
        path = f"{UI}/jobs" if action == "delete" else f"{UI}/jobs/{self._ids.write(key)}"
        self._run(request, form, _known(make, action)(), path, action)

    def many_jobs(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Change all jobs that match the address's filters."""
        given = _form(request, {"action", "spread", "reset"})
        chosen = chosen_jobs(request)
        spread_ms = parse_duration(given["spread"], field="spread") if given.get("spread") else 0
        redrive = verbs.redrive_chunk(spread_ms=spread_ms, reset_attempts="reset" in given)
        at = self._now()
        # Its name in the log, as over HTTP; what narrows the filter to the jobs that may be changed so; and what is done to them.
        make: dict[str, tuple[str, Callable[[Filter], Filter], ChunkChange]] = {
            "retry": ("retried", lambda where: verbs.redrivable(where, at), redrive),
            "run": ("patched", verbs.patchable, verbs.patch_chunk(_NOW)),
            "delete": ("deleted", lambda where: where, verbs.delete_chunk),
        }
        action = given.get("action", "")
        name, narrowed, change = _known(make, action)
        done = later(request, form, partial(go_to, request, f"{UI}/jobs?{chosen.query()}", action))
        where = narrowed(chosen.where(self._ids, visible_at=None))
        self._many.change(
            name, where, chosen.expression, change, lambda: request.hung_up, done, counted=spread_ms > 0
        )

    def queue(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Pause or resume a queue."""
        name, action = params
        check_name(name, "queue")
        start = _form(request, {"from"}).get("from")
        paused = _known({"pause": True, "resume": False}, action)
        path = f"{UI}/queues?from={encoded(start)}" if start else f"{UI}/queues"
        self._run(request, form, verbs.pause_one(name, paused), path, action)

    def worker(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Tell a worker to take nothing more, or to end."""
        _form(request, set())
        told = self._workers.tell(
            params[0], _known({"quiet": WorkerState.QUIET, "terminate": WorkerState.TERMINATE}, params[1])
        )
        if not told:
            raise NotFound("no such worker is connected, or it cannot be told so")
        go_to(request, f"{UI}/workers", params[1])

    def cron(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Pause or resume a cron entry, or have it enqueue its job now."""
        group, name, action = params
        _form(request, set())
        make: dict[str, Verb] = {
            "pause": pause_cron(group, name, True),
            "resume": pause_cron(group, name, False),
            "fire": fire_now(group, name),
        }
        self._run(request, form, _known(make, action), f"{UI}/crons", action)

    def _run(self, request: Request, form: Format, verb: Verb, path: str, action: str) -> None:
        done = later(request, form, lambda _: go_to(request, path, action))
        self._submit(Call(verb, done))


def chosen_jobs(request: Request) -> Selection:
    """Read from the address which jobs are meant: not all there are."""
    chosen = selected(request.query)
    if chosen.is_everything():
        raise InvalidInput(
            "filter: expected at least one condition, since all jobs are not meant", field="filter"
        )
    return chosen


def _known(make: Mapping[str, Any], action: str) -> Any:
    if action not in make:
        raise NotFound(f"there is no action {action[:64]!r}; expected {', '.join(make)}")
    return make[action]


def _form(request: Request, known: set[str]) -> dict[str, str]:
    """Read the fields of a form, which come as a query does."""
    return query_pairs(request.body, known)


def add_routes(router: Router, context: Context) -> None:
    """Serve the forms of the pages."""
    actions = Actions(context)
    for path, handler in (
        (UI + "/jobs", actions.many_jobs),
        (UI + "/jobs/{id}/{action}", actions.one_job),
        (UI + "/queues/{queue}/{action}", actions.queue),
        (UI + "/workers/{worker}/{action}", actions.worker),
        (UI + "/crons/{group}/{name}/{action}", actions.cron),
    ):
        router.add("POST", path, paged(handler), streams=True, most_bytes=MOST_BYTES)

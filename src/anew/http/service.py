"""The small routes: health, version, queues, and what Zizq's API has that this build has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anew.errors import NotSupported
from anew.http.answers import answering
from anew.http.api import Context
from anew.http.filters import STATES
from anew.http.formats import Format
from anew.http.router import Router
from anew.jobs import State
from anew.net.seam import Request

_CRONS = {
    "/crons": ("GET", "DELETE"),
    "/crons/{group}": ("GET", "PUT", "PATCH", "DELETE"),
    "/crons/{group}/entries": ("POST",),
    "/crons/{group}/entries/{entry}": ("GET", "PUT", "PATCH", "DELETE"),
}


class ServiceRoutes:
    """Tells about the server.

    Args:
        context: What handlers use.
    """

    def __init__(self, context: Context) -> None:
        self._store = context.engine.store
        self._settings = context.settings
        self._read = context.read

    def health(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Say that the server answers, and whether its commits reach the disk before their answers."""
        form.reply(request, 200, {"status": "ok", "commit": self._settings.commit})

    def version(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Tell the version of the API."""
        form.reply(request, 200, {"version": self._settings.version})

    def queues(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the queues that have jobs in any state, by their bytes."""
        form.reply(request, 200, {"queues": sorted(self._store.counts(), key=str.encode)})

    def queue_counts(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the same queues with their jobs by status, made in the reader's thread: there may be very many."""
        counts = self._store.counts()

        def then(queues: list[dict[str, Any]]) -> None:
            form.reply(request, 200, {"queues": queues})

        self._read(lambda _: _with_counts(counts), answering(request, form, then))

    def crons(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Refuse schedules."""
        raise NotSupported("cron schedules are not supported by this server yet")


def _with_counts(counts: Mapping[str, Mapping[State, int]]) -> list[dict[str, Any]]:
    return [
        {"name": queue}
        | {name: sum(counts[queue][state] for state in states) for name, states in STATES.items()}
        for queue in sorted(counts, key=str.encode)
    ]


def add_routes(router: Router, context: Context) -> None:
    """Serve the small routes."""
    routes = ServiceRoutes(context)
    router.add("GET", "/health", routes.health)
    router.add("GET", "/version", routes.version)
    router.add("GET", "/queues", routes.queues)
    router.add("GET", "/v1/queues", routes.queue_counts)
    for path, methods in _CRONS.items():
        for method in methods:
            router.add(method, path, routes.crons)

"""The routes about workers: who is connected, and what they are told to do."""

from __future__ import annotations

from typing import Any

from anew.engine.workers import ConnectedWorker, WorkerState
from anew.errors import NotFound
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.router import Doc, Router
from anew.net.seam import Kind, Request

STATE_WORDS = {state: state.name.lower() for state in WorkerState}


class WorkerRoutes:
    """Shows workers, and passes on what they are told."""

    def __init__(self, context: Context) -> None:
        self._workers = context.workers

    def list(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the workers that are connected, by their ids."""
        form.reply(request, 200, {"workers": [_shown(worker) for worker in self._workers.connected()]})

    def quiet(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Have a worker get nothing more: the take streams with its `Worker-Id`, or the Faktory worker with its id."""
        form.reply(request, 200, {"streams": self._workers.tell(params[0], WorkerState.QUIET)})

    def terminate(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Tell a Faktory worker to end, by its id; it hears of it with its next heartbeat."""
        if not self._workers.tell(params[0], WorkerState.TERMINATE):
            raise NotFound(
                "no worker with this id can be told to end: only those of the Faktory Work Protocol can"
            )
        form.reply(request, 200, {"workers": 1})


def _shown(worker: ConnectedWorker) -> dict[str, Any]:
    return worker._asdict() | {"state": STATE_WORDS[worker.state]}


def add_routes(router: Router, context: Context) -> None:
    """Serve the routes about workers."""
    routes = WorkerRoutes(context)
    router.add("GET", "/v1/workers", routes.list, Doc("listWorkers", "work", {200: "Workers"}))
    quiet = Doc("quietWorker", "work", {200: "QuietStreams"})
    router.add("POST", "/v1/workers/{worker}/quiet", routes.quiet, quiet, kind=Kind.settling)
    ended = Doc("terminateWorker", "work", {200: "TerminatedWorkers"}, errors=(404,))
    router.add("POST", "/v1/workers/{worker}/terminate", routes.terminate, ended, kind=Kind.settling)

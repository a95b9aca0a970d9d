"""Probes for whoever runs the server: does it live, can it commit. They tell nothing but yes or no."""

from __future__ import annotations

from typing import Any

from anew.engine import Batch, Call
from anew.errors import AnewError
from anew.http.api import Context
from anew.http.formats import JSON, Format
from anew.http.router import Router
from anew.net.seam import Request


def touch(batch: Batch) -> None:
    """Write a little inside a batch, so that its commit has something to make last."""
    batch.store.remember()


class ProbeRoutes:
    """Answers probes.

    Args:
        context: What handlers use.
    """

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit

    def alive(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Say that the loop turns."""
        JSON.reply(request, 200, {"status": "ok"})

    def ready(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Say whether a commit, made for this answer, has gone through."""

        def done(result: Any) -> None:
            if isinstance(result, AnewError):
                JSON.error(request, 503, "not ready: the store does not commit")
            else:
                JSON.reply(request, 200, {"status": "ok"})

        self._submit(Call(touch, done))


def add_routes(router: Router, context: Context) -> None:
    """Serve the probes, whatever `Accept` says."""
    routes = ProbeRoutes(context)
    router.add("GET", "/healthz", routes.alive, streams=True)
    router.add("GET", "/readyz", routes.ready, streams=True)

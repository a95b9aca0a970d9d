"""Batches: groups of jobs whose callbacks are enqueued when all have succeeded, or have all run once."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from anew.engine.job_batches import BatchStatus, batch_status, commit_batch, new_batch
from anew.http.api import Context
from anew.http.bodies import NULLS, decode
from anew.http.formats import Format, written_in
from anew.http.long_lists import read_long
from anew.http.replies import run_verb
from anew.http.router import Doc, Router
from anew.http.tied import batch_key, reading_tied_job
from anew.jobs import NewJob
from anew.jobs.batches import Callback
from anew.jobs.codec import PushedJob
from anew.net.chunks import Work
from anew.net.seam import Kind, Request

MAX_BODY = 4 << 20
"""Bytes of a new batch with its callbacks."""


class NewBatch(Struct, frozen=True):
    """A batch.

    Attributes:
        on_success: The job that is enqueued when all of the batch have succeeded.
        on_complete: The job that is enqueued when all of the batch have run once, with whatever result.
        parent: Id of the batch whose callbacks wait for this one's.
    """

    on_success: Raw | UnsetType = UNSET
    on_complete: Raw | UnsetType = UNSET
    parent: str | None = None


class BatchRoutes:
    """Makes batches."""

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit
        self._chunks = context.chunks
        self._ids = context.engine.ids
        self._max_bytes = context.settings.max_job_bytes

    def create(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Create an open batch: jobs join it by their ties, and its callbacks wait until it is closed."""
        written = written_in(request)
        body = decode(request.body, written, NewBatch)
        parent = None if body.parent is None else batch_key(self._ids, body.parent)

        def make(jobs: dict[Callback, PushedJob]) -> None:
            verb = new_batch(lambda key: jobs, parent=parent)
            run_verb(self._submit, verb, request, form, lambda key: {"id": self._ids.write_batch(key)}, 201)

        read_long(self._reading(body, written), request, form, self._chunks, make)

    def _reading(self, body: NewBatch, form: Format) -> Work[dict[Callback, PushedJob]]:
        """Read the callbacks that a batch has."""
        jobs: dict[Callback, PushedJob] = {}
        for callback, given in ((Callback.SUCCESS, body.on_success), (Callback.COMPLETE, body.on_complete)):
            if isinstance(given, UnsetType) or bytes(given) in NULLS:
                continue
            where = f"on_{callback}"
            job = yield from reading_tied_job(self._ids, form, self._max_bytes, bytes(given), where)
            if not isinstance(job, PushedJob):
                job = PushedJob(**{name: getattr(job, name) for name in NewJob.__struct_fields__})
            jobs[callback] = job
        return jobs

    def show(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the progress of a batch."""

        def shown(status: BatchStatus) -> dict[str, Any]:
            row = status.row
            return {"id": params[0], "total": row.total, "pending": row.pending, "failed": row.failed}

        verb = batch_status(batch_key(self._ids, params[0]))
        run_verb(self._submit, verb, request, form, shown, durable=False)

    def close(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Close a batch: each callback is enqueued when its condition holds, at once if it does already."""
        run_verb(self._submit, commit_batch(batch_key(self._ids, params[0])), request, form)


def add_routes(router: Router, context: Context) -> None:
    """Serve the batches' routes."""
    routes = BatchRoutes(context)
    create = Doc("createBatch", "jobs", {201: "Batch"}, "NewBatch", errors=(404,))
    show = Doc("getBatch", "jobs", {200: "BatchCounts"}, errors=(404,))
    close = Doc("closeBatch", "jobs", errors=(404,))
    router.add("POST", "/v1/batches", routes.create, create, kind=Kind.new_work, most_bytes=MAX_BODY)
    router.add("GET", "/v1/batches/{batch}", routes.show, show)
    router.add("POST", "/v1/batches/{batch}/close", routes.close, close)

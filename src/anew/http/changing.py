"""The routes that change jobs from outside: patch, delete, reset, and Anew's own retry, replan and cancel."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from anew.backoff import policy_from_json
from anew.engine import Batch, Call, verbs
from anew.engine.bulk import ChunkChange, log_change
from anew.engine.replanning import WITHIN_MS, Replanning, replannable
from anew.errors import IllegalTransition, InvalidJob
from anew.http.api import Context
from anew.http.bodies import NULLS, body_as, decode
from anew.http.bulk import ManyJobs
from anew.http.formats import Format, written_in
from anew.http.jobrules import check_backoff, check_retention, check_u64
from anew.http.query_strings import FILTERS, query_pairs, selected, selection
from anew.http.render import STATUS, ShownJob, shown_job
from anew.http.repacking import json_of
from anew.http.replies import answering, reply_error, run_verb
from anew.http.router import Doc, Router
from anew.jobs import Backoff, Job
from anew.jobs.codec import U16, U32, At
from anew.jobs.names import check_name
from anew.jobs.patch import Patch, RetentionPatch
from anew.net.chunks import at_once
from anew.net.seam import Request
from anew.store.selection import Filter
from anew.units import parse_duration

log = logging.getLogger("anew.http")

_ENDED = ("completed", "dead")

MAX_BODY = 64 << 10
"""Bytes of a patch, or of what a redrive wants; a policy is the longest thing in either."""


class PatchBody(msgspec.Struct, frozen=True):
    """What may be changed of a job: absent keeps, null clears.

    Attributes:
        queue: The queue that it is to wait in.
        priority: Low numbers run first.
        ready_at: When it may run, epoch ms; null makes a waiting job ready now.
        retry_limit: Retries after the first run.
        backoff: Zizq's three numbers, all of them; null for the server's default.
        policy: Any policy in Anew's own form; in place of `backoff`.
        retention: How long it is kept after its end, member by member.
    """

    queue: str | UnsetType | None = UNSET
    priority: U16 | UnsetType | None = UNSET
    ready_at: At | UnsetType | None = UNSET
    retry_limit: U32 | UnsetType | None = UNSET
    backoff: Backoff | UnsetType | None = UNSET
    policy: Raw | UnsetType = UNSET
    retention: RetentionPatch | UnsetType | None = UNSET


class Redrive(msgspec.Struct, frozen=True):
    """How dead jobs are tried again.

    Attributes:
        spread: Period over which they are spread evenly: milliseconds, or text such as ``10m``; None means all now.
        reset_attempts: Begin their policies again; else a job that died of its limit dies again at its next failure.
    """

    spread: int | str | None = None
    reset_attempts: bool = False


class Replan(msgspec.Struct, frozen=True):
    """How jobs that wait for a retry get other times.

    Attributes:
        policy: Any policy, in any form, which they have from now on.
        spread: Period over which those that would be due at once are spread: milliseconds, or text such as ``10m``.
        dry_run: Only say what the new times would be.
    """

    policy: Raw
    spread: int | str | None = None
    dry_run: bool = False


class ChangeRoutes:
    """Changes jobs."""

    def __init__(self, context: Context) -> None:
        self._reads = context.reads
        self._ids = context.engine.ids
        self._key_of = context.key_of
        self._now = context.engine.clock.now
        self._submit = context.commit.submit
        self._many = ManyJobs(context)

    def patch_one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Change one job."""
        body, patch = _patch(request)
        if error := refusal(body):
            reply_error(request, form, error, 422)
            return
        key = self._key_of(params[0])

        def done(result: Any) -> None:
            match result:
                case Job():
                    form.reply(request, 200, self._shown(result))
                case IllegalTransition():
                    self._refuse_ended(key, result, request, form)
                case _:
                    reply_error(request, form, result)

        self._submit(Call(verbs.patch_one(key, patch), done))

    def patch_many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Change all jobs that match and have not ended."""
        body, patch = _patch(request)
        chosen = selection(query_pairs(request.query, FILTERS))
        for name in _ENDED:
            if name in chosen.status:
                error = IllegalTransition(f"cannot patch jobs in {name.capitalize()} status")
                reply_error(request, form, error, 422)
                return
        chosen.check_ids()
        if refused := refusal(body):
            reply_error(request, form, refused, 422)
            return
        where = verbs.patchable(chosen.where(self._ids, visible_at=None))
        self._change_many(request, form, "patched", where, chosen.expression, verbs.patch_chunk(patch))

    def delete_one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove one job."""
        run_verb(self._submit, verbs.delete_one(self._key_of(params[0])), request, form)

    def delete_many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove all jobs that match."""
        chosen = selected(request.query)
        if chosen.is_everything():
            run_verb(self._submit, Batch.delete_all, request, form, _deleted)
            return
        where = chosen.where(self._ids, visible_at=None)
        self._change_many(request, form, "deleted", where, chosen.expression, verbs.delete_chunk)

    def reset(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove all jobs and all cron entries, whoever put them there; streams and topics stay."""
        run_verb(self._submit, _logged_reset, request, form)

    def retry_one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Make one dead or cancelled job ready now."""
        key = self._key_of(params[0])
        verb = verbs.redrive_one(key, reset_attempts=_redrive(request).reset_attempts)
        run_verb(self._submit, verb, request, form, self._shown)

    def retry_many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Make all dead and cancelled jobs that match ready (`state=dead` for the dead alone), at once or spread over a period."""
        wanted = _redrive(request)
        spread_ms = 0 if wanted.spread is None else parse_duration(wanted.spread, field="spread")
        chosen = selected(request.query)
        where = verbs.redrivable(chosen.where(self._ids, visible_at=None), self._now())
        change = verbs.redrive_chunk(spread_ms=spread_ms, reset_attempts=wanted.reset_attempts)
        self._change_many(request, form, "retried", where, chosen.expression, change, counted=spread_ms > 0)

    def replan_many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Give jobs that wait for a retry the times of another policy, or say what they would be."""
        written = written_in(request)
        wanted = decode(request.body, written, Replan)
        policy = _checked(wanted.policy, written)
        spread_ms = 0 if wanted.spread is None else parse_duration(wanted.spread, field="spread")
        chosen = selected(request.query)
        where = replannable(chosen.where(self._ids, visible_at=None))
        change = Replanning(policy, spread_ms, dry_run=wanted.dry_run)
        self._many.change(
            None if wanted.dry_run else "replanned",
            where,
            chosen.expression,
            change,
            lambda: request.hung_up,
            answering(request, form, lambda _: form.reply(request, 200, _plan(change))),
            counted=spread_ms > 0,
        )

    def cancel(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Cancel one job."""
        run_verb(self._submit, verbs.cancel_one(self._key_of(params[0])), request, form, self._shown)

    def _shown(self, job: Job) -> ShownJob:
        return shown_job(self._ids, job, payload=False)

    def _change_many(
        self,
        request: Request,
        form: Format,
        name: str,
        where: Filter,
        expression: str | None,
        change: ChunkChange,
        *,
        counted: bool = False,
    ) -> None:
        """Change all jobs that match, and answer with their number under a name."""
        done = answering(request, form, lambda n: form.reply(request, 200, {name: n}))
        self._many.change(name, where, expression, change, lambda: request.hung_up, done, counted=counted)

    def _refuse_ended(self, key: int, error: IllegalTransition, request: Request, form: Format) -> None:
        def then(job: Job | None) -> None:
            if job is None:
                reply_error(request, form, error, 422)
                return
            said = f"cannot patch job {self._ids.write(key)} in {STATUS[job.state]} status"
            reply_error(request, form, IllegalTransition(said), 422)

        self._reads.at_once(lambda: self._reads.job(key), answering(request, form, then))


def _logged_reset(batch: Batch) -> None:
    verbs.reset(batch)
    log.info("all jobs and cron entries are removed")


def _deleted(jobs: int) -> dict[str, int]:
    log_change("deleted", jobs)
    return {"deleted": jobs}


def refusal(body: PatchBody) -> InvalidJob | None:
    """Give why a patch that can be read is refused all the same; None if it is not."""
    for name, value in (("queue", body.queue), ("priority", body.priority)):
        if value is None:
            return InvalidJob(f"{name} cannot be null", field=name)
    if isinstance(body.queue, str):
        try:
            check_name(body.queue, "queue")
        except InvalidJob as error:
            return error
    return None


def _patch(request: Request) -> tuple[PatchBody, Patch]:
    """Read a patch; nulls that may not be are left to `refusal`.

    Raises:
        InvalidInput: A value does not fit.
    """
    written = written_in(request)
    body = decode(request.body, written, PatchBody)
    check_u64(body.ready_at, "ready_at")
    if isinstance(body.retention, RetentionPatch):
        check_retention(body.retention)
    return body, Patch(
        queue=UNSET if body.queue is None else body.queue,
        priority=UNSET if body.priority is None else body.priority,
        ready_at=body.ready_at,
        retry_limit=body.retry_limit,
        policy=_policy(body, written),
        retention=body.retention,
    )


def _plan(change: Replanning) -> dict[str, object]:
    """Say what new times came to."""
    plan = change.plan
    bounds = [*WITHIN_MS, None]
    due = zip(bounds, plan.due_before, plan.due_after, strict=True)
    return {
        "replanned": plan.replanned,
        "sooner": plan.sooner,
        "later": plan.later,
        "unchanged": plan.unchanged,
        "kept": {str(why): n for why, n in plan.kept.items()},
        "due": [{"within_ms": bound, "before": before, "after": after} for bound, before, after in due],
        "dry_run": change.dry_run,
    }


def _policy(body: PatchBody, written: Format) -> bytes | UnsetType | None:
    """Give the policy as it is stored: Zizq's three numbers and Anew's own form share one column."""
    backoff, policy = body.backoff, body.policy
    given = isinstance(policy, Raw) and bytes(policy) not in NULLS
    if isinstance(backoff, Backoff):
        if given:
            raise InvalidJob("policy and backoff cannot be combined; give one of them", field="policy")
        check_backoff(backoff)
        return msgspec.json.encode(backoff)
    if given and isinstance(policy, Raw):
        return _checked(policy, written)
    return UNSET if backoff is UNSET and policy is UNSET else None


def _checked(policy: Raw, written: Format) -> bytes:
    """Give a policy of a body as it is stored.

    Raises:
        InvalidInput: It is none, in the policy's own words.
    """
    text = at_once(json_of(policy, written, MAX_BODY, "policy"))
    policy_from_json(text)
    return text


def _redrive(request: Request) -> Redrive:
    """Read the body, which may be missing."""
    return body_as(request, Redrive) if request.body else Redrive()


def add_routes(router: Router, context: Context) -> None:
    """Serve the routes that change jobs."""
    routes = ChangeRoutes(context)
    some = "a hundred at a time; without a filter all of them"
    about = f"Change all jobs that match and have not ended, {some}."
    patch_many = Doc("patchJobs", "changes", {200: "Patched"}, "Patch", query="open_filters", about=about)
    about = f"Remove all jobs that match, {some} at once."
    delete_many = Doc("deleteJobs", "changes", {200: "Deleted"}, query="filters", about=about)
    retry_many = Doc("retryJobs", "jobs", {200: "Retried"}, "Redrive", body_required=False, query="filters")
    retry_one = Doc("retryJob", "jobs", {200: "Job"}, "Redrive", body_required=False, errors=(409,))
    about = (
        "Give jobs that wait for a retry the times that another policy gives them, or say what they would be."
    )
    replan = Doc("replanJobs", "jobs", {200: "Replanned"}, "Replan", query="filters", about=about)
    cancel = Doc("cancelJob", "jobs", {200: "Job"}, errors=(409,))
    patch_one = Doc("patchJob", "changes", {200: "Job"}, "Patch")
    router.add("PATCH", "/jobs/{id}", routes.patch_one, patch_one, most_bytes=MAX_BODY)
    router.add("PATCH", "/jobs", routes.patch_many, patch_many, most_bytes=MAX_BODY)
    router.add("DELETE", "/jobs/{id}", routes.delete_one, Doc("deleteJob", "changes"))
    router.add("DELETE", "/jobs", routes.delete_many, delete_many)
    router.add("POST", "/reset", routes.reset, Doc("reset", "changes"))
    router.add("POST", "/v1/jobs/retry", routes.retry_many, retry_many, most_bytes=MAX_BODY)
    router.add("POST", "/v1/jobs/replan", routes.replan_many, replan, most_bytes=MAX_BODY)
    router.add("POST", "/v1/jobs/{id}/retry", routes.retry_one, retry_one, most_bytes=MAX_BODY)
    router.add("POST", "/v1/jobs/{id}/cancel", routes.cancel, cancel)

"""The routes that change jobs from outside: patch, delete, reset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from anew.backoff import policy_from_json
from anew.engine import Batch, Call, verbs
from anew.errors import IllegalTransition, InvalidJob
from anew.http.answers import answering
from anew.http.api import Context
from anew.http.bodies import body_as
from anew.http.failures import reply_error
from anew.http.filters import FILTERS, query_pairs, selection
from anew.http.formats import Format
from anew.http.jobrules import check_backoff, check_name, check_retention, check_u64
from anew.http.render import STATUS, job_object
from anew.http.router import Router
from anew.jobs import Backoff, Job
from anew.jobs.codec import U16, U32, U64, At
from anew.jobs.patch import Patch, RetentionPatch
from anew.net.seam import Request

Verb = Callable[[Batch], Any]

_ENDED = ("completed", "dead")


class _Retention(msgspec.Struct, frozen=True):
    completed_ms: U64 | UnsetType | None = UNSET
    dead_ms: U64 | UnsetType | None = UNSET


class PatchBody(msgspec.Struct, frozen=True):
    """What may be changed: absent keeps, null clears."""

    queue: str | UnsetType | None = UNSET
    priority: U16 | UnsetType | None = UNSET
    ready_at: At | UnsetType | None = UNSET
    retry_limit: U32 | UnsetType | None = UNSET
    backoff: Backoff | UnsetType | None = UNSET
    policy: Any = UNSET
    retention: _Retention | UnsetType | None = UNSET


class ChangeRoutes:
    """Changes jobs.

    Args:
        context: What handlers use.
    """

    def __init__(self, context: Context) -> None:
        self._engine = context.engine
        self._ids = context.engine.ids
        self._key_of = context.key_of
        self._submit = context.commit.submit

    def patch_one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Change one job."""
        body = body_as(request, PatchBody)
        if body is None:
            return
        patch = patch_of(body)
        if reason := refusal(body):
            form.error(request, 422, reason)
            return
        key = self._key_of(params[0])

        def done(result: Any) -> None:
            match result:
                case Job():
                    form.reply(request, 200, job_object(self._ids, result, payload=False))
                case IllegalTransition():
                    form.error(request, 422, self._ended(key, result))
                case _:
                    reply_error(request, form, result)

        self._submit(Call(verbs.patch_one(key, patch), done))

    def patch_many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Change all jobs that match and have not ended."""
        body = body_as(request, PatchBody)
        if body is None:
            return
        patch = patch_of(body)
        chosen = selection(query_pairs(request.query, FILTERS))
        for name in _ENDED:
            if name in chosen.status:
                form.error(request, 422, f"cannot patch jobs in {name.capitalize()} status")
                return
        chosen.check_ids()
        if reason := refusal(body):
            form.error(request, 422, reason)
            return
        chosen.check_jq()
        where = chosen.where(self._ids, visible_at=None)
        self._answer_count(request, form, "patched", verbs.patch_many(where, patch))

    def delete_one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove one job."""
        self._answer_empty(request, form, verbs.delete_one(self._key_of(params[0])))

    def delete_many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove all jobs that match."""
        chosen = selection(query_pairs(request.query, FILTERS))
        chosen.check()
        where = chosen.where(self._ids, visible_at=None)
        verb = verbs.delete_all() if chosen.is_everything() else verbs.delete_many(where)
        self._answer_count(request, form, "deleted", verb)

    def reset(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove everything."""
        self._answer_empty(request, form, verbs.delete_all())

    def _answer_empty(self, request: Request, form: Format, verb: Verb) -> None:
        self._submit(Call(verb, answering(request, form, lambda _: request.reply(204, b"", None))))

    def _answer_count(self, request: Request, form: Format, name: str, verb: Verb) -> None:
        self._submit(Call(verb, answering(request, form, lambda n: form.reply(request, 200, {name: n}))))

    def _ended(self, key: int, error: IllegalTransition) -> str:
        jobs = self._engine.store.load([key])
        if not jobs:
            return str(error)
        return f"cannot patch job {self._ids.write(key)} in {STATUS[jobs[0].state]} status"


def refusal(body: PatchBody) -> str | None:
    """Tell why a patch that can be read is refused all the same; None if it is not."""
    if body.queue is None:
        return "queue cannot be null"
    if body.priority is None:
        return "priority cannot be null"
    if isinstance(body.queue, str):
        try:
            check_name(body.queue, "queue")
        except InvalidJob as error:
            return str(error)
    return None


def patch_of(body: PatchBody) -> Patch:
    """Give the patch that a body asks for; nulls that may not be are left to `refusal`.

    Raises:
        InvalidInput: A value does not fit.
    """
    check_u64(body.ready_at, "ready_at")
    return Patch(
        queue=UNSET if body.queue is None else body.queue,
        priority=UNSET if body.priority is None else body.priority,
        ready_at=body.ready_at,
        retry_limit=body.retry_limit,
        policy=_policy(body),
        retention=_retention(body.retention),
    )


def _policy(body: PatchBody) -> bytes | UnsetType | None:
    """Give the policy as it is stored: Zizq's three numbers and Anew's own form share one column."""
    backoff, policy = body.backoff, body.policy
    if isinstance(backoff, Backoff):
        if policy is not UNSET and policy is not None:
            raise InvalidJob("policy and backoff cannot be combined; give one of them", field="policy")
        check_backoff(backoff)
        return _checked(msgspec.json.encode(backoff))
    if policy is not UNSET and policy is not None:
        return _checked(msgspec.json.encode(policy))
    return UNSET if backoff is UNSET and policy is UNSET else None


def _checked(policy: bytes) -> bytes:
    policy_from_json(policy)  # raises in its own words
    return policy


def _retention(given: _Retention | UnsetType | None) -> RetentionPatch | UnsetType | None:
    if not isinstance(given, _Retention):
        return given
    patch = RetentionPatch(completed_ms=given.completed_ms, dead_ms=given.dead_ms)
    check_retention(patch)
    return patch


def add_routes(router: Router, context: Context) -> None:
    """Serve the routes that change jobs."""
    routes = ChangeRoutes(context)
    router.add("PATCH", "/jobs/{id}", routes.patch_one)
    router.add("PATCH", "/jobs", routes.patch_many)
    router.add("DELETE", "/jobs/{id}", routes.delete_one)
    router.add("DELETE", "/jobs", routes.delete_many)
    router.add("POST", "/reset", routes.reset)

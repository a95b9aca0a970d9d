"""The small routes about the server and its queues: health, version, probes; counts, pauses and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from anew.engine import Call, verbs
from anew.engine.reads import Counts, Overview
from anew.engine.throttles import limit_queue
from anew.errors import AnewError, InvalidInput, Unavailable
from anew.http.api import Context
from anew.http.bodies import body_as
from anew.http.formats import JSON, SUPPORTED, Format
from anew.http.query_strings import STATES
from anew.http.replies import answering, error_words, run_verb
from anew.http.router import Doc, Router
from anew.jobs import State
from anew.jobs.codec import U32
from anew.jobs.limits import Rate, Throttle, rate
from anew.jobs.names import check_name
from anew.net.seam import Kind, Request

MAX_LIMIT = 16 << 10
"""Bytes of a limit."""


class NewRate(Struct, frozen=True):
    """Starts over a period, as a token bucket.

    Attributes:
        count: Per period, on average.
        per_ms: The period in milliseconds.
        burst: How many may start at once after a quiet time; null: as many as `count`.
    """

    count: Annotated[int, Meta(ge=1, le=1 << 31)]
    per_ms: Annotated[int, Meta(ge=1, le=1 << 40)]
    burst: Annotated[int, Meta(ge=1, le=1 << 31)] | None = None


class NewLimit(Struct, frozen=True):
    """A limit on a queue's jobs in all workers together; one of the two, or both.

    Attributes:
        concurrency: Jobs that run at one time; 0: none.
        rate: Jobs that start over a period.
    """

    concurrency: U32 | None = None
    rate: NewRate | None = None


class ServiceRoutes:
    """Reports about the server."""

    def __init__(self, context: Context) -> None:
        self._reads = context.reads
        self._settings = context.settings
        self._submit = context.commit.submit

    def health(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Say that the server answers, and whether its commits reach the disk before their answers."""
        form.reply(request, 200, {"status": "ok", "commit": self._settings.commit})

    def version(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Give the version of the API."""
        form.reply(request, 200, {"version": self._settings.version})

    def queues(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the queues that have jobs in any state, by their bytes."""
        self._list(request, form, self._reads.counts, _names)

    def queue_counts(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List these queues, and those that are paused or limited, with their jobs by status."""
        limits = self._reads.limits()
        self._list(request, form, self._reads.overview, lambda seen: _with_counts(seen, limits))

    def _list(
        self, request: Request, form: Format, read: Callable[..., None], listed: Callable[[Any], list[Any]]
    ) -> None:
        """Answer with what is made of the counters, in the reader's thread: there may be very many."""

        def encoded(seen: Counts | Overview) -> bytes:
            return form.encode({"queues": listed(seen)})  # type: ignore[no-any-return]

        def then(body: bytes) -> None:
            request.reply(200, body, form.content_type)

        read(encoded, answering(request, form, then))

    def pause(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Stop a queue from handing out jobs, also before it has one; running jobs go on."""
        self._set_paused(request, form, params[0], True)

    def resume(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Let a queue hand out its jobs again."""
        self._set_paused(request, form, params[0], False)

    def _set_paused(self, request: Request, form: Format, queue: str, paused: bool) -> None:
        check_name(queue, "queue")
        shown = {"name": queue, "paused": paused}
        run_verb(self._submit, verbs.pause_one(queue, paused), request, form, lambda _: shown)

    def limit(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Limit a queue's jobs, in place of the limit that it had."""
        check_name(params[0], "queue")
        body = body_as(request, NewLimit)
        if body.concurrency is None and body.rate is None:
            raise InvalidInput("limit: expected a concurrency, a rate, or both", field="limit")
        throttle = Throttle(concurrency=body.concurrency, rate=rate_of(body.rate))
        self._set_limit(request, form, params[0], throttle)

    def unlimit(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove a queue's limit."""
        check_name(params[0], "queue")
        self._set_limit(request, form, params[0], None)

    def _set_limit(self, request: Request, form: Format, queue: str, throttle: Throttle | None) -> None:
        shown = {"name": queue, "limit": _limit(throttle)}
        run_verb(self._submit, limit_queue(queue, throttle), request, form, lambda _: shown)

    def alive(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Say that the server's event loop runs."""
        JSON.reply(request, 200, {"status": "ok"})

    def ready(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Report whether a commit, made for this answer, has succeeded."""

        def done(result: Any) -> None:
            if isinstance(result, AnewError):
                JSON.reply(request, 503, error_words(Unavailable("not ready: the store does not commit")))
            else:
                JSON.reply(request, 200, {"status": "ok"})

        self._submit(Call(verbs.touch, done, waits=False))


_PARTS = (State.RETRYING, State.CANCELLED)
"""States that `STATES` counts with others: what has failed before among the scheduled, what was cancelled among the dead."""


def _names(counts: Counts) -> list[str]:
    return sorted(counts, key=str.encode)


def _with_counts(seen: Overview, limits: Mapping[str, Throttle]) -> list[dict[str, Any]]:
    held = {queue for queue, paused in seen.listed.items() if paused} | limits.keys()
    return [
        {"name": queue}
        | {
            name: sum(seen.counts.get(queue, {}).get(state, 0) for state in states)
            for name, states in STATES.items()
        }
        | {state.value: seen.counts.get(queue, {}).get(state, 0) for state in _PARTS}
        | {"paused": seen.listed.get(queue, False), "limit": _limit(limits.get(queue))}
        for queue in sorted(seen.counts.keys() | held, key=str.encode)
    ]


def rate_of(given: NewRate | None) -> Rate | None:
    """Give a rate as it came."""
    return None if given is None else rate(given.count, given.per_ms, given.burst)


def _limit(throttle: Throttle | None) -> dict[str, Any] | None:
    if throttle is None:
        return None
    return {
        "concurrency": throttle.concurrency,
        "worker": throttle.per_worker,
        "timeout_ms": throttle.timeout_ms,
        "rate": throttle.rate,
    }


def add_routes(router: Router, context: Context) -> None:
    """Serve the small routes; the probes answer in JSON whatever ``Accept`` says, and say nothing but yes or no."""
    routes = ServiceRoutes(context)
    about = "List queues with their jobs by status, and whether they are paused or limited."
    counts = Doc("countQueues", "server", {200: "QueueCounts"}, about=about)
    paused = {200: "QueuePaused"}
    about = "Say that the server lives."
    alive = Doc("alive", "server", {200: "Alive"}, forms=SUPPORTED[:1], errors=(503,), about=about)
    ready = Doc("ready", "server", {200: "Alive"}, forms=SUPPORTED[:1], errors=(503,))
    health = Doc("health", "server", {200: "Health"})
    router.add("GET", "/health", routes.health, health, kind=Kind.settling)
    router.add("GET", "/version", routes.version, Doc("version", "server", {200: "Version"}))
    router.add("GET", "/queues", routes.queues, Doc("listQueues", "server", {200: "Queues"}))
    router.add("GET", "/v1/queues", routes.queue_counts, counts)
    router.add("POST", "/v1/queues/{queue}/pause", routes.pause, Doc("pauseQueue", "server", paused))
    router.add("POST", "/v1/queues/{queue}/resume", routes.resume, Doc("resumeQueue", "server", paused))
    limited = {200: "QueueLimited"}
    limit = Doc("limitQueue", "server", limited, "NewLimit", errors=(409,))
    router.add("PUT", "/v1/queues/{queue}/limit", routes.limit, limit, most_bytes=MAX_LIMIT)
    unlimit = Doc("unlimitQueue", "server", limited, errors=(409,))
    router.add("DELETE", "/v1/queues/{queue}/limit", routes.unlimit, unlimit)
    router.add("GET", "/healthz", routes.alive, alive, streams=True, kind=Kind.settling)
    router.add("GET", "/readyz", routes.ready, ready, streams=True, kind=Kind.settling)

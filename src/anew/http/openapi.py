"""``/openapi.json``: the whole API as an OpenAPI 3.1 document, every operation with what it takes and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from anew import __version__
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.openapi_schemas import (
    FILTER_PARAMETERS,
    ID_PATTERN,
    PAGING_PARAMETERS,
    Schema,
    integer,
    list_of,
    ref,
    schemas,
    text,
)
from anew.http.query_strings import U32_MAX
from anew.http.router import Router
from anew.jobs.codec import U64_MAX
from anew.net.seam import Request

TAGS = {
    "jobs": "New jobs, and jobs that are tried again or cancelled.",
    "work": "Taking jobs, and reporting how they went.",
    "queries": "Looking at stored jobs.",
    "changes": "Changing and removing stored jobs.",
    "server": "The server itself.",
}

Operation = dict[str, Any]

BOTH = ("application/json", "application/msgpack")
"""What bodies and most answers may be written in."""

REASONS = {
    200: "Done.",
    201: "Stored.",
    204: "Done; there is no body.",
    400: "The request does not fit; the error names field, value and expectation.",
    401: "A bearer token is required.",
    403: "This server does not serve that host name.",
    404: "There is no such job or record.",
    406: "`Accept` names nothing that is written here.",
    409: "The job's state forbids it.",
    413: "More bytes or items than may come at once.",
    415: "`Content-Type` names nothing that is read here.",
    422: "The request can be read, yet it cannot be done.",
    500: "The server's own fault.",
    501: "A part of the protocol that this server does not speak yet.",
    503: "Not now; try again in a second.",
    507: "No space left; settling goes on.",
}

STREAMS = ("application/x-ndjson", "application/vnd.zizq.msgpack-stream", "text/event-stream")
METRICS = "text/plain"


def document() -> dict[str, Any]:
    """Give the document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Anew",
            "version": __version__,
            "summary": "A durable job queue.",
            "description": "Bodies and answers are JSON or MessagePack, each as its own header says.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "paths": paths(),
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def paths() -> dict[str, dict[str, Operation]]:
    """Give every operation by path and method."""
    return _collection() | _stored() | _work() | _additions() | _server()


def _collection() -> dict[str, dict[str, Operation]]:
    new = {200: "StoredJob", 201: "StoredJob"}
    bulk = {200: "StoredJobs", 201: "StoredJobs"}
    cursor = text("A job's id; the page starts behind it. Any text is compared as one.")
    return {
        "/jobs": {
            "post": operation("jobs", "enqueue", "Store one job.", new, (413, 415, 501, 507), body="NewJob"),
            "get": operation(
                "queries",
                "listJobs",
                "List jobs by id.",
                {200: "JobPage"},
                (501,),
                query=_FILTERS + paging_parameters(cursor),
            ),
            "patch": operation(
                "changes",
                "patchJobs",
                "Change all jobs that match and have not ended, a hundred at a time; without a filter all of them.",
                {200: "Patched"},
                (413, 415, 422, 501, 507),
                query=filter_parameters(status=list_of(text(enum=["scheduled", "ready", "in_flight", ""]))),
                body="Patch",
            ),
            "delete": operation(
                "changes",
                "deleteJobs",
                "Remove all jobs that match, a hundred at a time; without a filter all of them at once.",
                {200: "Deleted"},
                (501, 507),
                query=_FILTERS,
            ),
        },
        "/v1/jobs": {
            "get": operation(
                "queries",
                "listJobsWithErrors",
                "List jobs by id, each with its latest failure.",
                {200: "ListedJobPage"},
                (501,),
                query=_FILTERS + paging_parameters(cursor),
            )
        },
        "/jobs/bulk": {
            "post": operation(
                "jobs",
                "enqueueMany",
                "Store many jobs, all or none.",
                bulk,
                (413, 415, 501, 507),
                body="NewJobs",
            )
        },
        "/jobs/count": {
            "get": operation("queries", "countJobs", "Count jobs.", {200: "Count"}, (501,), query=_FILTERS)
        },
        "/reset": {"post": operation("changes", "reset", "Remove everything.", {204: None}, (507,))},
    }


def _stored() -> dict[str, dict[str, Operation]]:
    cursor = integer(U32_MAX, "An attempt's number; the page starts behind it.")
    attempt = path_parameter("attempt", integer(U32_MAX))
    return {
        "/jobs/{id}": {
            "get": operation("queries", "getJob", "Show one job.", {200: "Job"}, (404,), path=[_ID]),
            "patch": operation(
                "changes",
                "patchJob",
                "Change one job that has not ended.",
                {200: "Job"},
                (404, 413, 415, 422, 507),
                path=[_ID],
                body="Patch",
            ),
            "delete": operation(
                "changes",
                "deleteJob",
                "Remove one job, whatever its state.",
                {204: None},
                (404, 507),
                path=[_ID],
            ),
        },
        "/jobs/{id}/errors": {
            "get": operation(
                "queries",
                "listErrors",
                "List the records of a job's failed attempts.",
                {200: "ErrorPage"},
                (404,),
                path=[_ID],
                query=paging_parameters(cursor),
            )
        },
        "/jobs/{id}/errors/{attempt}": {
            "get": operation(
                "queries",
                "getError",
                "Show the record of one failed attempt.",
                {200: "ErrorRecord"},
                (404,),
                path=[_ID, attempt],
            )
        },
    }


def _work() -> dict[str, dict[str, Operation]]:
    take = operation(
        "work",
        "take",
        "Open an endless stream of jobs; what is not settled when it ends is ready again.",
        {},
        (),
        query=[
            {
                "name": "prefetch",
                "in": "query",
                "schema": integer(U64_MAX, "Most unsettled jobs; 0: as many as may be."),
            },
            {"name": "queue", "in": "query", "schema": list_of(text()), "style": "form", "explode": False},
        ],
    )
    take["responses"]["200"] = {
        "description": "Jobs as they become ready.",
        "content": {kind: {} for kind in STREAMS},
    }
    return {
        "/jobs/take": {"get": take},
        "/jobs/{id}/success": {
            "post": operation(
                "work", "succeed", "Report one job in flight as done.", {204: None}, (404, 507), path=[_ID]
            )
        },
        "/jobs/success": {
            "post": operation(
                "work",
                "succeedMany",
                "Report jobs in flight as done; those that are not in flight are named, the others are done all the same.",
                {204: None, 422: "NotFoundIds"},
                (413, 415, 507),
                body="Ids",
            )
        },
        "/jobs/{id}/failure": {
            "post": operation(
                "work",
                "fail",
                "Report a failed attempt; the answer says when the job runs again.",
                {200: "Job"},
                (404, 413, 415, 507),
                path=[_ID],
                body="Failure",
            )
        },
    }


def _additions() -> dict[str, dict[str, Operation]]:
    """Give the routes that Zizq has not."""
    errors = (404, 409, 413, 415, 507)
    return {
        "/v1/jobs/failure": {
            "post": operation(
                "work",
                "failMany",
                "Report failed attempts, each decided by itself; the results come in the order of the reports.",
                {200: "FailureResults"},
                (413, 415, 507),
                body="Failures",
            )
        },
        "/v1/jobs/{id}/retry": {
            "post": operation(
                "jobs",
                "retryJob",
                "Make one dead or cancelled job ready now.",
                {200: "Job"},
                errors,
                path=[_ID],
                body="Redrive",
                body_required=False,
            )
        },
        "/v1/jobs/retry": {
            "post": operation(
                "jobs",
                "retryJobs",
                "Make all dead and cancelled jobs that match ready, at once or spread evenly; a hundred at a time, no transaction.",
                {200: "Retried"},
                (413, 415, 501, 507),
                query=_FILTERS,
                body="Redrive",
                body_required=False,
            )
        },
        "/v1/jobs/{id}/cancel": {
            "post": operation(
                "jobs",
                "cancelJob",
                "Cancel one job that has not ended.",
                {200: "Job"},
                (404, 409, 507),
                path=[_ID],
            )
        },
    }


def _server() -> dict[str, dict[str, Operation]]:
    plain = {"description": REASONS[200], "content": {METRICS: {"schema": text()}}}
    return {
        "/queues": {
            "get": operation("server", "listQueues", "List queues that have jobs.", {200: "Queues"}, ())
        },
        "/v1/queues": {
            "get": operation(
                "server", "countQueues", "List queues with their jobs by status.", {200: "QueueCounts"}, ()
            )
        },
        "/health": {
            "get": operation("server", "health", "Say that the server answers.", {200: "Health"}, ())
        },
        "/version": {"get": operation("server", "version", "Give the API's version.", {200: "Version"}, ())},
        "/healthz": {"get": probe("alive", "Say that the server lives.")},
        "/readyz": {"get": probe("ready", "Say whether a commit, made for this answer, has gone through.")},
        "/metrics": {"get": one_form_operation("metrics", "Metrics in Prometheus' text format.", plain)},
        "/openapi.json": {
            "get": one_form_operation("openapi", "This document.", answer(200, {"type": "object"}, BOTH[:1]))
        },
    }


def operation(
    tag: str,
    name: str,
    about: str,
    answers: Mapping[int, str | None],
    errors: tuple[int, ...],
    *,
    path: list[Schema] | None = None,
    query: list[Schema] | None = None,
    body: str | None = None,
    body_required: bool = True,
) -> Operation:
    """Describe one operation; `answers` name schemas, None stands for no body."""
    responses = {
        str(status): answer(status, None if schema is None else ref(schema), BOTH)
        for status, schema in answers.items()
    }
    needed = {400, 401, 403, 406, 500, 503, *errors} - answers.keys()
    responses |= {str(status): _failure(status) for status in sorted(needed)}
    made: Operation = {"tags": [tag], "operationId": name, "summary": about, "responses": responses}
    if path or query:
        made["parameters"] = [*(path or []), *(query or [])]
    if body is not None:
        content = {kind: {"schema": ref(body)} for kind in BOTH}
        made["requestBody"] = {"required": body_required, "content": content}
    return made


def one_form_operation(name: str, about: str, success: Schema) -> Operation:
    """Describe an operation that answers in one way whatever ``Accept`` says."""
    responses = {"200": success} | {str(status): _failure(status) for status in (401, 403, 500)}
    return {"tags": ["server"], "operationId": name, "summary": about, "responses": responses}


def probe(name: str, about: str) -> Operation:
    """Describe an operation that says yes or 503, in JSON, to whoever asks."""
    made = one_form_operation(name, about, answer(200, ref("Alive"), BOTH[:1]))
    made["security"] = []
    del made["responses"]["401"]
    made["responses"]["503"] = answer(503, ref("Error"), BOTH[:1])
    return made


def answer(status: int, schema: Schema | None, kinds: tuple[str, ...]) -> Schema:
    """Describe one answer in the media types that it comes in; a schema of None stands for no body."""
    content = {} if schema is None else {"content": {kind: {"schema": schema} for kind in kinds}}
    return {"description": REASONS[status]} | content


def _failure(status: int) -> Schema:
    schema = "Unsupported" if status in (406, 415) else "Error"
    return answer(status, ref(schema), BOTH[:1] if status in (401, 403, 406) else BOTH)


def filter_parameters(**others: Schema) -> list[Schema]:
    """Give the filters as query parameters; comma sets are arrays without explosion."""
    return [
        {"name": name, "in": "query", "schema": schema}
        | ({"style": "form", "explode": False} if schema["type"] == "array" else {})
        for name, schema in (FILTER_PARAMETERS | others).items()
    ]


def path_parameter(name: str, schema: Schema) -> Schema:
    """Describe a part of the path."""
    return {"name": name, "in": "path", "required": True, "schema": schema}


def paging_parameters(cursor: Schema) -> list[Schema]:
    """Give the parameters of a list that comes in pages: where a page starts, and what all lists have."""
    schemas = {"from": cursor} | PAGING_PARAMETERS
    return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]


_ID = path_parameter("id", text(pattern=ID_PATTERN))
_FILTERS = filter_parameters()


def add_routes(router: Router, context: Context) -> None:
    """Serve the document, in JSON whatever `Accept` says."""
    written = msgspec.json.encode(document())

    def show(request: Request, form: Format, params: tuple[str, ...]) -> None:
        request.reply(200, written)

    router.add("GET", "/openapi.json", show, streams=True)

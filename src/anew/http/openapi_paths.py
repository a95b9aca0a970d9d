"""Every operation of the API: what it takes, what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anew.http.filters import U16_MAX, U32_MAX
from anew.http.openapi_schemas import (
    FILTER_PARAMETERS,
    ID_PATTERN,
    PAGING_PARAMETERS,
    Schema,
    integer,
    list_of,
    ref,
    text,
)

Operation = dict[str, Any]

BOTH = ("application/json", "application/msgpack")
STREAMS = ("application/x-ndjson", "application/vnd.zizq.msgpack-stream", "text/event-stream")
METRICS = "text/plain"

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


def _filters(**others: Schema) -> list[Schema]:
    """Give the filters as query parameters; comma sets are arrays without explosion."""
    return [
        {"name": name, "in": "query", "schema": schema}
        | ({"style": "form", "explode": False} if schema["type"] == "array" else {})
        for name, schema in (FILTER_PARAMETERS | others).items()
    ]


_FILTERS = _filters()


def paths() -> dict[str, dict[str, Operation]]:
    """Give every operation by path and method."""
    return _collection() | _stored() | _work() | _own() | _server()


def _collection() -> dict[str, dict[str, Operation]]:
    new = {200: "StoredJob", 201: "StoredJob"}
    bulk = {200: "StoredJobs", 201: "StoredJobs"}
    cursor = text("A job's id; the page starts behind it. Any text is compared as one.")
    return {
        "/jobs": {
            "post": _operation("jobs", "enqueue", "Store one job.", new, (413, 415, 501, 507), body="NewJob"),
            "get": _operation(
                "queries",
                "listJobs",
                "List jobs by id.",
                {200: "JobPage"},
                (501,),
                query=_FILTERS + _paging(cursor),
            ),
            "patch": _operation(
                "changes",
                "patchJobs",
                "Change all jobs that match and have not ended; without a filter all of them.",
                {200: "Patched"},
                (413, 415, 422, 501, 507),
                query=_filters(status=list_of(text(enum=["scheduled", "ready", "in_flight", ""]))),
                body="Patch",
            ),
            "delete": _operation(
                "changes",
                "deleteJobs",
                "Remove all jobs that match; without a filter all of them.",
                {200: "Deleted"},
                (501, 507),
                query=_FILTERS,
            ),
        },
        "/jobs/bulk": {
            "post": _operation(
                "jobs",
                "enqueueMany",
                "Store many jobs, all or none.",
                bulk,
                (413, 415, 501, 507),
                body="NewJobs",
            )
        },
        "/jobs/count": {
            "get": _operation("queries", "countJobs", "Count jobs.", {200: "Count"}, (501,), query=_FILTERS)
        },
        "/reset": {"post": _operation("changes", "reset", "Remove everything.", {204: None}, (507,))},
    }


def _stored() -> dict[str, dict[str, Operation]]:
    cursor = integer(U32_MAX, "An attempt's number; the page starts behind it.")
    attempt = _path("attempt", integer(U32_MAX))
    return {
        "/jobs/{id}": {
            "get": _operation("queries", "getJob", "Show one job.", {200: "Job"}, (404,), path=[_ID]),
            "patch": _operation(
                "changes",
                "patchJob",
                "Change one job that has not ended.",
                {200: "Job"},
                (404, 413, 415, 422, 507),
                path=[_ID],
                body="Patch",
            ),
            "delete": _operation(
                "changes",
                "deleteJob",
                "Remove one job, whatever its state.",
                {204: None},
                (404, 507),
                path=[_ID],
            ),
        },
        "/jobs/{id}/errors": {
            "get": _operation(
                "queries",
                "listErrors",
                "List the records of a job's failed attempts.",
                {200: "ErrorPage"},
                (404,),
                path=[_ID],
                query=_paging(cursor),
            )
        },
        "/jobs/{id}/errors/{attempt}": {
            "get": _operation(
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
    take = _operation(
        "work",
        "take",
        "Open an endless stream of jobs; what is not settled when it ends is ready again.",
        {},
        (),
        query=[
            {
                "name": "prefetch",
                "in": "query",
                "schema": integer(U16_MAX, "Most unsettled jobs; 0: as many as may be."),
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
            "post": _operation(
                "work", "succeed", "Report one job in flight as done.", {204: None}, (404, 507), path=[_ID]
            )
        },
        "/jobs/success": {
            "post": _operation(
                "work",
                "succeedMany",
                "Report jobs in flight as done; those that are not in flight are named, the others are done all the same.",
                {204: None, 422: "NotFoundIds"},
                (413, 415, 507),
                body="Ids",
            )
        },
        "/jobs/{id}/failure": {
            "post": _operation(
                "work",
                "fail",
                "Report a failed attempt; the answer tells when the job runs again.",
                {200: "Job"},
                (404, 413, 415, 507),
                path=[_ID],
                body="Failure",
            )
        },
    }


def _own() -> dict[str, dict[str, Operation]]:
    errors = (404, 409, 413, 415, 507)
    return {
        "/v1/jobs/{id}/retry": {
            "post": _operation(
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
            "post": _operation(
                "jobs",
                "retryJobs",
                "Make all dead and cancelled jobs that match ready, at once or spread evenly; in portions, no transaction.",
                {200: "Retried"},
                (413, 415, 501, 507),
                query=_FILTERS,
                body="Redrive",
                body_required=False,
            )
        },
        "/v1/jobs/{id}/cancel": {
            "post": _operation(
                "jobs",
                "cancelJob",
                "Call off one job that has not ended.",
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
            "get": _operation("server", "listQueues", "List queues that have jobs.", {200: "Queues"}, ())
        },
        "/health": {
            "get": _operation("server", "health", "Say that the server answers.", {200: "Health"}, ())
        },
        "/version": {"get": _operation("server", "version", "Tell the API's version.", {200: "Version"}, ())},
        "/healthz": {"get": _probe("alive", "Say that the server lives.")},
        "/readyz": {"get": _probe("ready", "Say whether a commit, made for this answer, has gone through.")},
        "/metrics": {"get": _open("metrics", "Metrics in Prometheus' text format.", plain)},
        "/openapi.json": {
            "get": _open("openapi", "This document.", _answer(200, {"type": "object"}, BOTH[:1]))
        },
    }


def _operation(
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
        str(status): _answer(status, None if schema is None else ref(schema), BOTH)
        for status, schema in answers.items()
    }
    needed = {400, 401, 403, 406, 500, 503, *errors} - answers.keys()
    responses |= {str(status): _failure(status) for status in sorted(needed)}
    operation: Operation = {"tags": [tag], "operationId": name, "summary": about, "responses": responses}
    if path or query:
        operation["parameters"] = [*(path or []), *(query or [])]
    if body is not None:
        content = {kind: {"schema": ref(body)} for kind in BOTH}
        operation["requestBody"] = {"required": body_required, "content": content}
    return operation


def _open(name: str, about: str, answer: Schema) -> Operation:
    """Describe an operation that answers in one way whatever ``Accept`` says."""
    responses = {"200": answer} | {str(status): _failure(status) for status in (401, 403, 500)}
    return {"tags": ["server"], "operationId": name, "summary": about, "responses": responses}


def _probe(name: str, about: str) -> Operation:
    operation = _open(name, about, _answer(200, ref("Alive"), BOTH[:1]))
    operation["security"] = []
    del operation["responses"]["401"]
    operation["responses"]["503"] = _answer(503, ref("Error"), BOTH[:1])
    return operation


def _failure(status: int) -> Schema:
    schema = "Unsupported" if status in (406, 415) else "Error"
    return _answer(status, ref(schema), BOTH[:1] if status in (401, 403, 406) else BOTH)


def _answer(status: int, schema: Schema | None, kinds: tuple[str, ...]) -> Schema:
    answer: Schema = {"description": REASONS[status]}
    return answer if schema is None else answer | {"content": {kind: {"schema": schema} for kind in kinds}}


def _path(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _paging(cursor: Schema) -> list[Schema]:
    schemas = {"from": cursor} | PAGING_PARAMETERS
    return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]


_ID = _path("id", text(pattern=ID_PATTERN))

"""Every operation of the API: what it takes, what it answers."""

from __future__ import annotations

from anew.http.filters import U16_MAX, U32_MAX
from anew.http.openapi_operations import (
    BOTH,
    REASONS,
    Operation,
    answer,
    filter_parameters,
    one_form_operation,
    operation,
    paging_parameters,
    path_parameter,
    probe,
)
from anew.http.openapi_schemas import ID_PATTERN, integer, list_of, text

STREAMS = ("application/x-ndjson", "application/vnd.zizq.msgpack-stream", "text/event-stream")
METRICS = "text/plain"

_ID = path_parameter("id", text(pattern=ID_PATTERN))
_FILTERS = filter_parameters()


def paths() -> dict[str, dict[str, Operation]]:
    """Give every operation by path and method."""
    return _collection() | _stored() | _work() | _own() | _server()


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
                "Change all jobs that match and have not ended; without a filter all of them.",
                {200: "Patched"},
                (413, 415, 422, 501, 507),
                query=filter_parameters(status=list_of(text(enum=["scheduled", "ready", "in_flight", ""]))),
                body="Patch",
            ),
            "delete": operation(
                "changes",
                "deleteJobs",
                "Remove all jobs that match; without a filter all of them.",
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
                {200: "JobErrorPage"},
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
                "Make all dead and cancelled jobs that match ready, at once or spread evenly; in portions, no transaction.",
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
        "/version": {"get": operation("server", "version", "Tell the API's version.", {200: "Version"}, ())},
        "/healthz": {"get": probe("alive", "Say that the server lives.")},
        "/readyz": {"get": probe("ready", "Say whether a commit, made for this answer, has gone through.")},
        "/metrics": {"get": one_form_operation("metrics", "Metrics in Prometheus' text format.", plain)},
        "/openapi.json": {
            "get": one_form_operation("openapi", "This document.", answer(200, {"type": "object"}, BOTH[:1]))
        },
    }

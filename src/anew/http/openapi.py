"""``/openapi.json``: the whole API as an OpenAPI 3.1 document, made of what the routes were added with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from anew import __version__
from anew.http.api import OPEN_PATHS, Context
from anew.http.formats import JSON, SUPPORTED, Format
from anew.http.openapi_schemas import (
    FILTER_PARAMETERS,
    ID_PATTERN,
    NAME,
    PAGING_PARAMETERS,
    Schema,
    integer,
    list_of,
    ref,
    schemas,
    text,
)
from anew.http.query_strings import U32_MAX
from anew.http.replies import answering
from anew.http.router import Doc, Route, Router
from anew.http.topic_schemas import TOPIC_PATHS, TOPIC_QUERIES, topic_schemas
from anew.jobs.codec import U64_MAX
from anew.net.seam import Request

TAGS = {
    "jobs": "New jobs, and jobs that are tried again or cancelled.",
    "work": "Taking jobs, and reporting how they went.",
    "queries": "Looking at stored jobs.",
    "changes": "Changing and removing stored jobs.",
    "topics": "Messages published to subscribers, and their deliveries.",
    "server": "The server itself.",
}

Operation = dict[str, Any]

REASONS = {
    200: "Done.",
    201: "Stored.",
    202: "Accepted; it is done later.",
    204: "Done; there is no body.",
    400: "The request does not fit; the error names field, value and expectation.",
    401: "The bearer token is missing or wrong.",
    403: "The token's roles do not allow it, or this server does not serve that host name.",
    404: "There is no such job or record.",
    406: "`Accept` names nothing that is written here.",
    409: "The job's state forbids it, or a key has come with something else before.",
    410: "It was there, and is no longer.",
    413: "More bytes or items than may come at once.",
    415: "`Content-Type` names nothing that is read here.",
    422: "The request can be read, yet it cannot be done.",
    500: "The server's own fault.",
    503: "Not now; try again in a second.",
    507: "No space left; settling goes on.",
}

PATH_PARAMETERS = {
    "id": text(pattern=ID_PATTERN),
    "attempt": integer(U32_MAX),
    "queue": NAME,
    "batch": text(pattern=f"^b-{ID_PATTERN[1:]}"),
    "worker": text(),
    "group": NAME,
    "entry": text(minLength=1, maxLength=512),
    "breaker": text(),
    "name": text(),
    **TOPIC_PATHS,
}

QUERIES: dict[str, dict[str, Schema]] = {
    "filters": FILTER_PARAMETERS,
    "open_filters": FILTER_PARAMETERS
    | {"status": list_of(text(enum=["scheduled", "ready", "in_flight", ""]))},
    "pages": {"from": text("A job's id; the page starts behind it. Any text is compared as one.")}
    | PAGING_PARAMETERS,
    "error_pages": {"from": integer(U32_MAX, "An attempt's number; the page starts behind it.")}
    | PAGING_PARAMETERS,
    "take": {
        "prefetch": integer(U64_MAX, "Most unsettled jobs; 0: as many as may be."),
        "queue": list_of(text()),
    },
    **TOPIC_QUERIES,
}
"""Query parameters by the name of their group."""


def document(router: Router) -> dict[str, Any]:
    """Give the document.

    Args:
        router: All routes; those without a `Doc` are left out.
    """
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
        "paths": {
            route.template: {
                method.decode().lower(): _operation(method, route, doc) for method, doc in route.docs.items()
            }
            for route in router.routes
            if route.docs
        },
        "components": {
            "schemas": schemas() | topic_schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(method: bytes, route: Route, doc: Doc) -> Operation:
    answers = {status: _answer(status, schema, doc.forms) for status, schema in doc.answers.items()}
    errors = {status: _error(status, doc) for status in _errors(method, route, doc) - answers.keys()}
    operation: Operation = {
        "tags": [doc.tag],
        "operationId": doc.name,
        "summary": doc.about,
        "responses": {
            str(status): answer for status, answer in (answers | dict(sorted(errors.items()))).items()
        },
    }
    if _is_open(route):
        operation["security"] = []
    path = {name: PATH_PARAMETERS[name] for name in re.findall(r"{(\w+)}", route.template)}
    query = {name: schema for group in doc.query.split() for name, schema in QUERIES[group].items()}
    if path or query:
        operation["parameters"] = _parameters("path", path) + _parameters("query", query)
    if doc.body:
        content = {form: {"schema": ref(doc.body)} for form in (SUPPORTED[:1] if doc.problems else SUPPORTED)}
        operation["requestBody"] = {"required": doc.body_required, "content": content}
    return operation


def _is_open(route: Route) -> bool:
    return route.template.encode() in OPEN_PATHS


def _errors(method: bytes, route: Route, doc: Doc) -> set[int]:
    """Give the statuses of errors: those of all routes, those by rule, and the route's own."""
    found = {403, 500, *doc.errors}
    for applies, statuses in (
        (not _is_open(route), (401,)),
        (len(doc.forms) > 1, (400, 406, 503)),
        (doc.problems, (400, 404, 406, 409, 410, 422, 503)),
        (doc.problems and method != b"GET", (413,)),
        (doc.body, (413, 415)),
        ("{id}" in route.template, (404,)),
        (method != b"GET", (507,)),
        (method == b"PATCH", (422,)),
    ):
        if applies:
            found.update(statuses)
    return found


def _error(status: int, doc: Doc) -> Schema:
    in_json = status in (401, 406) or len(doc.forms) == 1
    schema = "Unsupported" if status in (406, 415) else "Error"
    answer = _answer(status, schema, SUPPORTED[:1] if in_json else SUPPORTED)
    if doc.problems:
        answer["content"]["application/problem+json"] = {"schema": ref("Problem")}
    return answer


def _answer(status: int, schema: str, forms: Sequence[str]) -> Schema:
    content = {form: {"schema": ref(schema)} if schema else {} for form in forms}
    return {"description": REASONS[status]} | ({} if status == 204 else {"content": content})


def _parameters(place: str, schemas: Mapping[str, Schema]) -> list[Schema]:
    """Describe parameters; comma sets are arrays without explosion."""
    return [
        {"name": name, "in": place, "schema": schema}
        | ({"required": True} if place == "path" else {})
        | ({"style": "form", "explode": False} if schema["type"] == "array" else {})
        for name, schema in schemas.items()
    ]


def add_routes(router: Router, context: Context) -> None:
    """Serve the document, in JSON whatever `Accept` says."""

    @cache
    def written() -> bytes:
        return msgspec.json.encode(document(router))

    def show(request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Give this document."""
        # In the reader's thread, since the first time takes some 10 ms.
        then = answering(request, JSON, lambda body: request.reply(200, body))
        context.reads.later(lambda _: written(), then)

    doc = Doc("openapi", "server", {200: ""}, forms=("application/json",))
    router.add("GET", "/openapi.json", show, doc, streams=True)

"""How one operation is described: its parameters, its body, what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anew.http.openapi_schemas import FILTER_PARAMETERS, PAGING_PARAMETERS, Schema, ref

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

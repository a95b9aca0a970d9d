"""Which status stands for which error, what is told with it, and what is not told."""

from __future__ import annotations

from pathlib import Path

import pytest

from anew import errors
from anew.http.formats import JSON, MSGPACK
from anew.http.replies import reply_error
from anew.net.seam import codes

from .asked import Asked

AGAIN = ((b"retry-after", b"1"),)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.MalformedRequest("m", field="f"), 400),
        (errors.InvalidJob("m", field="f"), 400),
        (errors.InvalidPolicy("m", field="f"), 400),
        (errors.TooLarge("m", field="f"), 413),
        (errors.NotFound("m"), 404),
        (errors.Conflict("m"), 409),
        (errors.IllegalTransition("m"), 409),
        (errors.NotSupported("m"), 403),
    ],
)
def test_an_error_of_the_asker_has_its_status_and_its_words(error: errors.AnewError, status: int) -> None:
    request = Asked("POST", "/jobs")
    reply_error(request, JSON, error)
    assert (request.answer.status, request.answer.data, request.answer.extra) == (
        status,
        {"error": str(error), "code": error.code},
        (),
    )


@pytest.mark.parametrize(
    ("error", "status"),
    [(errors.Overloaded("m"), 503), (errors.StoreBusy("m"), 503), (errors.StoreFull("m"), 507)],
)
def test_what_will_pass_says_when_to_come_again(error: errors.AnewError, status: int) -> None:
    request = Asked("POST", "/jobs")
    reply_error(request, JSON, error)
    assert (request.answer.status, request.answer.data, request.answer.extra) == (
        status,
        {"error": "m", "code": error.code},
        AGAIN,
    )


@pytest.mark.parametrize("kind", [errors.InternalError, errors.StoreFailed])
def test_an_error_of_ours_keeps_its_words_to_itself(kind: type[errors.AnewError]) -> None:
    request = Asked("POST", "/jobs")
    reply_error(request, JSON, kind("table job, row 7, is damaged"))
    assert (request.answer.status, request.answer.data) == (
        500,
        {"error": "internal server error", "code": kind.code},
    )


def test_an_error_is_written_as_the_asker_reads() -> None:
    request = Asked("POST", "/jobs")
    reply_error(request, MSGPACK, errors.NotFound("no"))
    # A map of two: fixstr(5) "error", fixstr(2) "no", fixstr(4) "code", fixstr(9) "not_found".
    assert (request.answer.content_type, request.answer.body) == (
        b"application/msgpack",
        b"\x82\xa5error\xa2no\xa4code\xa9not_found",
    )


def leaves(kind: type[errors.AnewError] = errors.AnewError) -> list[type[errors.AnewError]]:
    """Every class of the tree; families too, since they are raised as well."""
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [kind, *(leaf for child in children for leaf in leaves(child))]


STATUSES = {
    "error": 500,
    "invalid_input": 400,
    "invalid_policy": 400,
    "invalid_job": 400,
    "invalid_config": 400,
    "malformed_request": 400,
    "too_large": 413,
    "blocked_address": 400,
    "invalid_expression": 400,
    "expression_too_slow": 400,
    "not_found": 404,
    "conflict": 409,
    "illegal_transition": 409,
    "payload_expired": 409,
    "corrupt_row": 409,
    "expired": 410,
    "forked_store": 409,
    "newer_store": 409,
    "unavailable": 503,
    "overloaded": 503,
    "store_full": 507,
    "store_busy": 503,
    "unreachable": 503,
    "unauthorized": 401,
    "not_supported": 403,
    "internal_error": 500,
    "store_failed": 500,
    "in_doubt": 500,
}


@pytest.mark.parametrize("kind", leaves(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_and_a_code_that_never_changes(kind: type[errors.AnewError]) -> None:
    request = Asked("POST", "/jobs")
    reply_error(request, JSON, kind("m"))
    assert request.answer.status == STATUSES[kind.code]
    assert request.answer.data["code"] == kind.code


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in leaves()]
    assert sorted(codes) == sorted(set(codes)) == sorted(STATUSES)


@pytest.mark.parametrize("code", [*STATUSES, *codes.values()])
def test_every_code_stands_in_the_docs(code: str) -> None:
    docs = Path(__file__).parents[3] / "docs" / "http-api.md"
    inside = {"error", "invalid_config", "forked_store", "newer_store", "unreachable"}
    assert (f"| `{code}` |" in docs.read_text("utf-8")) != (code in inside)

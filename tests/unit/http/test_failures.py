"""Which status stands for which error, what is told with it, and what is not told."""

from __future__ import annotations

import pytest

from anew import errors
from anew.http.failures import reply_error
from anew.http.formats import JSON, MSGPACK

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
        (errors.NotSupported("m"), 501),
    ],
)
def test_an_error_of_the_asker_has_its_status_and_its_words(error: errors.AnewError, status: int) -> None:
    request = Asked("POST", "/jobs")
    reply_error(request, JSON, error)
    assert (request.answer.status, request.answer.data, request.answer.extra) == (
        status,
        {"error": str(error)},
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
        {"error": "m"},
        AGAIN,
    )


@pytest.mark.parametrize("kind", [errors.InternalError, errors.StoreFailed])
def test_an_error_of_ours_keeps_its_words_to_itself(kind: type[errors.AnewError]) -> None:
    request = Asked("POST", "/jobs")
    reply_error(request, JSON, kind("table job, row 7, is damaged"))
    assert (request.answer.status, request.answer.data) == (500, {"error": "internal server error"})


def test_an_error_is_written_as_the_asker_reads() -> None:
    request = Asked("POST", "/jobs")
    reply_error(request, MSGPACK, errors.NotFound("no"))
    # A map of one: fixstr(5) "error", fixstr(2) "no".
    assert (request.answer.content_type, request.answer.body) == (
        b"application/msgpack",
        b"\x81\xa5error\xa2no",
    )

"""What a refusal of the server means."""

from __future__ import annotations

import pytest

from anew.client.failures import error_of
from anew.errors import (
    AnewError,
    Conflict,
    IllegalTransition,
    InternalError,
    InvalidInput,
    NotFound,
    NotSupported,
    Overloaded,
    StoreFull,
    Unauthorized,
    Unreachable,
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInput),
        (401, Unauthorized),
        (403, Unauthorized),
        (404, NotFound),
        (405, NotSupported),
        (409, Conflict),
        (413, InvalidInput),
        (415, InvalidInput),
        (422, InvalidInput),
        (429, Overloaded),
        (500, InternalError),
        (501, NotSupported),
        (502, Unreachable),
        (503, Overloaded),
        (504, Unreachable),
        (507, StoreFull),
        (599, InternalError),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[AnewError]) -> None:
    error = error_of(status, "Phrase", b'{"error":"text"}', {}, "/jobs")
    assert type(error) is kind
    assert str(error) == "text"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error":5}', b"\xff"])
def test_a_body_that_says_nothing_leaves_the_phrase(body: bytes) -> None:
    assert str(error_of(500, "Internal Server Error", body, {}, "/jobs")) == "Internal Server Error"
    assert str(error_of(599, "", body, {}, "/jobs")) == "status 599"


def test_an_ended_job_cannot_be_patched_and_that_is_a_conflict() -> None:
    body = b'{"error":"cannot patch job x in dead status"}'
    assert type(error_of(422, "", body, {}, "/jobs/x")) is IllegalTransition


def test_a_server_without_our_own_verbs_is_told_apart_from_a_missing_job() -> None:
    missing_path = error_of(404, "", b'{"error":"not found"}', {}, "/v1/jobs/x/retry")
    assert type(missing_path) is NotSupported
    assert type(error_of(404, "", b'{"error":"job not found"}', {}, "/v1/jobs/x/retry")) is NotFound


def test_when_to_try_again_is_passed_on() -> None:
    error = error_of(503, "", b'{"error":"busy"}', {"retry-after": "2"}, "/jobs")
    assert str(error) == "busy (try again in 2 s)"

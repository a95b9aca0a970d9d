"""What a refusal of the server means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from anew import errors
from anew.client.refusals import error_of, error_of_item
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
    TooLarge,
    Unauthorized,
    Unavailable,
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
        (413, TooLarge),
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
    missing_path = error_of(404, "", b'{"error":"not found"}', {}, "/v1/jobs/x/retry", "http://h:1")
    assert type(missing_path) is NotSupported
    assert (missing_path.code, str(missing_path)[:61]) == (
        "not_supported",
        "http://h:1 has no /v1/jobs/x/retry, which is Anew's own; is i",
    )
    assert type(error_of(404, "", b'{"error":"job not found"}', {}, "/v1/jobs/x/retry")) is NotFound


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AnewError)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not AnewError])
def test_a_code_of_ours_decides_whatever_the_status_and_the_words(kind: type[AnewError]) -> None:
    body = f'{{"error":"text","code":"{kind.code}"}}'.encode()
    error = error_of(400, "", body, {}, "/jobs")
    assert type(error) is kind
    assert (str(error), error.code) == ("text", kind.code)


@pytest.mark.parametrize(("status", "kind"), [(400, InvalidInput), (409, Conflict), (503, Overloaded)])
def test_a_code_that_is_not_known_keeps_its_name_in_the_family_of_its_status(
    status: int, kind: type[AnewError]
) -> None:
    error = error_of(status, "", b'{"error":"text","code":"brand_new"}', {}, "/jobs")
    assert type(error) is kind
    assert error.code == "brand_new"
    assert kind.code != "brand_new"


def test_a_code_that_is_no_text_is_none() -> None:
    assert error_of(409, "", b'{"error":"text","code":7}', {}, "/jobs").code == "conflict"


def test_an_item_that_was_refused_has_its_error() -> None:
    error = error_of_item("job not found in in-flight set", "not_found")
    assert (type(error), str(error)) == (NotFound, "job not found in in-flight set")
    unknown = error_of_item("text", "brand_new")
    assert (type(unknown), unknown.code) == (AnewError, "brand_new")


@pytest.mark.parametrize("status", [429, 503, 507])
def test_when_to_try_again_is_a_field(status: int) -> None:
    error = error_of(status, "", b'{"error":"busy"}', {"retry-after": "2"}, "/jobs")
    assert isinstance(error, Unavailable)
    assert error.retry_after == timedelta(seconds=2)
    assert str(error) == "busy (try again in 2 s)"


def test_when_to_try_again_may_be_a_date_as_proxies_write_it() -> None:
    past = error_of(503, "", b"", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "/jobs")
    assert isinstance(past, Unavailable)
    assert past.retry_after == timedelta(0)
    at = f"{datetime.now(UTC) + timedelta(minutes=5):%a, %d %b %Y %H:%M:%S} GMT"
    coming = error_of(503, "", b"", {"retry-after": at}, "/jobs")
    assert isinstance(coming, Unavailable)
    assert coming.retry_after is not None
    assert timedelta(minutes=4) < coming.retry_after <= timedelta(minutes=5)


@pytest.mark.parametrize("value", ["", "soon", "-1", "1.5", "\u0662"])
def test_what_says_no_time_is_no_wait(value: str) -> None:
    error = error_of(503, "", b'{"error":"busy"}', {"retry-after": value}, "/jobs")
    assert isinstance(error, Unavailable)
    assert error.retry_after is None
    assert str(error) == "busy"


def test_a_wait_of_an_age_is_cut_to_a_day() -> None:
    error = error_of(503, "", b"", {"retry-after": "9" * 30}, "/jobs")
    assert isinstance(error, Unavailable)
    assert error.retry_after == timedelta(days=1)


def test_what_a_server_refuses_for_want_of_a_license_is_not_supported() -> None:
    body = b'{"error":"cron scheduling requires a pro license"}'
    refused = error_of(403, "", body, {}, "/crons", "http://h:1")
    assert type(refused) is NotSupported
    assert str(refused) == "http://h:1 refuses: cron scheduling requires a pro license"
    assert type(error_of(403, "", b'{"error":"who are you"}', {}, "/crons")) is Unauthorized


@pytest.mark.parametrize("body", [b'{"error":"caf\xe9"}', b"[" * 9_999], ids=["no UTF-8", "very deep"])
def test_a_body_that_cannot_be_read_says_nothing(body: bytes) -> None:
    error = error_of(
        404, "Not Found", body, {"retry-after": "Mon, 01 Jan 2024 00:00:00 +9999999999999"}, "/jobs/1"
    )
    assert (type(error), str(error)) == (NotFound, "Not Found")

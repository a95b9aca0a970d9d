"""Jobs as a client reads and writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from anew.client.views import Draft, Failure, LastError, read_errors, read_job, read_page
from anew.errors import InvalidInput, InvalidJob, Unreachable

JOB = (
    b'{"id":"03h9","type":"t","queue":"q","priority":3,"status":"ready","payload":{"n":1.50,"a":[1e2]},'
    b'"ready_at":5,"attempts":0,"something_new":[1]}'
)


def test_a_payload_keeps_its_bytes() -> None:
    job = read_job(JOB)
    assert job.payload_json() == b'{"n":1.50,"a":[1e2]}'
    assert job.data() == {"n": 1.5, "a": [100.0]}
    assert bytes(job.document) == JOB


def test_a_job_without_payload_has_the_payload_null() -> None:
    job = read_job(
        b'{"id":"i","type":"t","queue":"q","priority":3,"status":"ready","ready_at":5,"attempts":0}'
    )
    assert job.payload_json() == b"null"


@pytest.mark.parametrize(
    "document",
    [
        b"<html>",
        b"{}",
        b"[]",
        b'{"id":1}',
        JOB.replace(b'"t"', b'"\xe9"'),
        JOB.replace(b"[1e2]", b"[" * 9_999),
    ],
)
def test_an_answer_that_is_no_job_is_no_answer(document: bytes) -> None:
    with pytest.raises(Unreachable, match="is it an Anew server"):
        read_job(document)


def page_of(job_id: str, following: str | None, preceding: str | None = None) -> bytes:
    jobs = JOB.replace(b"03h9", job_id.encode())
    links = msgspec.json.encode({"self": "/jobs", "next": following, "prev": preceding})
    return b'{"jobs":[' + jobs + b'],"pages":' + links + b"}"


def test_a_page_gives_its_jobs_and_its_neighbours() -> None:
    documents = {"/jobs?from=a": page_of("b", None, "/jobs?from=b"), "/jobs?from=b": page_of("a", None)}
    page = read_page(page_of("a", "/jobs?from=a"), documents.__getitem__)
    assert [job.id for job in page] == ["a"]
    assert page.prev() is None
    following = page.next()
    assert following is not None
    assert [job.id for job in following.jobs] == ["b"]
    assert following.next() is None
    preceding = following.prev()
    assert preceding is not None
    assert [job.id for job in preceding] == ["a"]


def test_a_page_of_elsewhere_is_not_fetched() -> None:
    page = read_page(page_of("a", "http://elsewhere/jobs"), {}.__getitem__)
    with pytest.raises(Unreachable, match="no local path"):
        page.next()


def test_a_list_may_show_the_last_error_of_each_job() -> None:
    shown = JOB[:-1] + b',"last_error":{"attempt":2,"message":"m","error_type":"IOError","failed_at":9}}'
    assert read_job(shown).last_error == LastError(attempt=2, message="m", error_type="IOError", failed_at=9)
    assert read_job(JOB).last_error is None


def test_error_records_carry_the_decision_if_there_is_one() -> None:
    record = b'{"attempt":1,"message":"m","dequeued_at":1,"failed_at":2,"decision":{"wait_ms":1100}}'
    records, following = read_errors(
        b'{"errors":[' + record + b'],"pages":{"self":"/","next":null,"prev":null}}'
    )
    assert (records[0].decision, following) == ({"wait_ms": 1100}, None)


def test_a_draft_sends_only_what_is_set_and_the_payload_always() -> None:
    assert (
        msgspec.json.encode(Draft(type="t", queue="q").body()) == b'{"type":"t","queue":"q","payload":null}'
    )
    body = Draft(type="t", queue="q", payload=msgspec.Raw(b'{"n":1.50}'), priority=0, policy="even").body()
    assert (
        msgspec.json.encode(body)
        == b'{"type":"t","queue":"q","payload":{"n":1.50},"priority":0,"policy":"even"}'
    )


def test_a_draft_and_a_failure_take_datetimes_and_timedeltas() -> None:
    at = datetime(1970, 1, 2, tzinfo=UTC)
    draft = Draft(type="t", queue="q", ready_at=at, retention={"dead_ms": timedelta(hours=1)}).body()
    assert (draft["ready_at"], draft["retention"]) == (86_400_000, {"dead_ms": 3_600_000})
    assert "delay" not in draft
    assert Failure(id="i", message="m", retry_at=at).body()["retry_at"] == 86_400_000
    with pytest.raises(InvalidInput, match="retry_at and delay"):
        Failure(id="i", message="m", retry_at=at, delay="5m").body()


@pytest.mark.parametrize("payload", [float("nan"), float("inf"), object(), {1, 2}, "\ud800"])
def test_what_is_no_json_is_refused_and_not_sent_as_null(payload: Any) -> None:
    with pytest.raises(InvalidJob, match="payload: "):
        Draft(type="t", queue="q", payload=payload).body()

"""Jobs as a client reads and writes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.client.views import Draft, read_errors, read_job, read_page
from anew.errors import InvalidJob, Unreachable

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


@pytest.mark.parametrize("document", [b"<html>", b"{}", b"[]", b'{"id":1}'])
def test_an_answer_that_is_no_job_is_no_answer(document: bytes) -> None:
    with pytest.raises(Unreachable, match="is it an Anew server"):
        read_job(document)


def test_a_page_gives_jobs_and_links() -> None:
    page = read_page(b'{"jobs":[' + JOB + b'],"pages":{"self":"/jobs","next":"/jobs?from=03h9","prev":null}}')
    assert [job.id for job in page.jobs] == ["03h9"]
    assert (page.next, page.prev) == ("/jobs?from=03h9", None)


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


@pytest.mark.parametrize("payload", [float("nan"), float("inf"), object(), {1, 2}, "\ud800"])
def test_what_is_no_json_is_refused_and_not_sent_as_null(payload: Any) -> None:
    with pytest.raises(InvalidJob, match="payload: "):
        Draft(type="t", queue="q", payload=payload).body()

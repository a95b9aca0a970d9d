"""The wire's shapes: bounds, defaults, and the forms that the store relies on."""

from typing import Any

import msgspec
import pytest

from anew.jobs import Backoff, NewJob, Retention
from anew.jobs.codec import LAST_INSTANT, FailureReport

LEAST = b'{"type":"send","queue":"mail","payload":{"to":[1,2]}}'


def new_job(**members: Any) -> NewJob:
    body = {"type": "send", "queue": "mail", "payload": None} | members
    return msgspec.json.decode(msgspec.json.encode(body), type=NewJob)


def test_the_least_job_has_the_documented_defaults() -> None:
    job = msgspec.json.decode(LEAST, type=NewJob)
    assert (job.type, job.queue, bytes(job.payload)) == ("send", "mail", b'{"to":[1,2]}')
    assert (job.priority, job.ready_at, job.retry_limit) == (32_768, None, None)
    assert (job.backoff, job.retention, job.policy) == (None, None, msgspec.UNSET)


def test_the_last_instant_is_what_63_bits_hold() -> None:
    assert LAST_INSTANT == 9_223_372_036_854_775_807


@pytest.mark.parametrize(
    ("field", "lowest", "highest"),
    [("priority", 0, 65_535), ("retry_limit", 0, 4_294_967_295)],
)
def test_numbers_end_where_they_are_documented_to(field: str, lowest: int, highest: int) -> None:
    for value in (lowest, highest):
        assert getattr(new_job(**{field: value}), field) == value
    for value in (lowest - 1, highest + 1, 1.5, "1", True):
        with pytest.raises(msgspec.ValidationError, match=field):
            new_job(**{field: value})


def test_instants_are_whole_and_not_negative() -> None:
    """Their upper end, 64 bits, is past what a decoder's bounds can say: the edge looks at it."""
    for value in (0, 2**63, 2**64 - 1):
        assert new_job(ready_at=value).ready_at == value
    for bad in (-1, 0.5, "0"):
        with pytest.raises(msgspec.ValidationError, match="ready_at"):
            new_job(ready_at=bad)


@pytest.mark.parametrize("field", ["type", "queue", "payload"])
def test_what_a_job_must_say_cannot_be_left_out(field: str) -> None:
    body = {"type": "send", "queue": "mail", "payload": 1}
    del body[field]
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.json.decode(msgspec.json.encode(body), type=NewJob)


def test_backoff_is_three_numbers_or_none() -> None:
    whole = {"exponent": 4, "base_ms": 15_000, "jitter_ms": 30_000}
    assert new_job(backoff=whole).backoff == Backoff(4.0, 15_000, 30_000)
    for field in whole:
        part = {name: value for name, value in whole.items() if name != field}
        with pytest.raises(msgspec.ValidationError, match=field):
            new_job(backoff=part)
    for field in ("base_ms", "jitter_ms"):
        for value in (-1, 4_294_967_296):
            with pytest.raises(msgspec.ValidationError, match=field):
                new_job(backoff=whole | {field: value})


def test_a_stored_backoff_begins_with_its_exponent() -> None:
    assert (
        msgspec.json.encode(Backoff(4.0, 15_000, 30_000))
        == b'{"exponent":4.0,"base_ms":15000,"jitter_ms":30000}'
    )


def test_retention_leaves_out_what_was_not_said() -> None:
    assert msgspec.json.encode(Retention()) == b"{}"
    assert msgspec.json.encode(Retention(completed_ms=0)) == b'{"completed_ms":0}'
    assert new_job(retention={"dead_ms": 2**64 - 1}).retention == Retention(dead_ms=2**64 - 1)
    with pytest.raises(msgspec.ValidationError, match="dead_ms"):
        new_job(retention={"dead_ms": -1})


def test_a_failure_report_needs_a_message_only() -> None:
    report = msgspec.json.decode(b'{"message":""}', type=FailureReport)
    assert report == FailureReport("", None, None, None, False)
    with pytest.raises(msgspec.ValidationError, match="message"):
        msgspec.json.decode(b"{}", type=FailureReport)


@pytest.mark.parametrize(
    "payload",
    [b"null", b"0", b'""', b'"\\u0000"', b"12345678901234567890123456789", b'{ "a" : [ ] }', b"1.0e0"],
)
def test_a_payload_keeps_its_bytes(payload: bytes) -> None:
    job = msgspec.json.decode(b'{"type":"t","queue":"q","payload":%b}' % payload, type=NewJob)
    assert bytes(job.payload) == payload

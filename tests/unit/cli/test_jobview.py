"""A job and its failures as text."""

from __future__ import annotations

import datetime
import re
from typing import Any

import msgspec
import pytest

from anew.cli.jobview import decision_text, describe_job, when
from anew.client import ErrorView, JobView, Ties, UniqueTie

NOW = 1_764_000_000_000
UTC = datetime.UTC


def make_job(**fields: Any) -> JobView:
    facts = {
        "id": "03h9",
        "type": "t",
        "queue": "q",
        "status": "ready",
        "priority": 5,
        "ready_at": NOW,
        "attempts": 0,
    }
    return JobView(**(facts | fields))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": "scheduled", "ready_at": NOW + 60_000}, "runs in 1 min (16:01:00)"),
        ({"status": "scheduled", "attempts": 3, "ready_at": NOW + 60_000}, "retry 3 in 1 min (16:01:00)"),
        ({"status": "ready", "ready_at": NOW - 1_000}, "ready 1 s ago (15:59:59)"),
        ({"status": "in_flight", "dequeued_at": NOW - 1_000}, "taken 1 s ago (15:59:59)"),
        ({"status": "completed", "completed_at": NOW - 1_000}, "done 1 s ago (15:59:59)"),
        ({"status": "dead", "failed_at": NOW - 1_000}, "died 1 s ago (15:59:59)"),
        ({"status": "dead", "state": "dead", "failed_at": NOW - 1_000}, "died 1 s ago (15:59:59)"),
        ({"status": "dead", "state": "cancelled"}, "cancelled"),
        ({"status": "dead", "state": "cancelled", "failed_at": NOW - 1_000}, "cancelled"),
        ({"status": "dead", "expired": True, "failed_at": NOW - 1_000}, "expired"),
        ({"status": "dead", "state": "cancelled", "expired": True}, "expired"),
        ({"status": "something new"}, ""),
    ],
)
def test_when_tells_what_matters_in_each_status(fields: dict[str, Any], text: str) -> None:
    assert when(make_job(**fields), NOW, UTC) == text


@pytest.mark.parametrize(
    ("ties", "lines"),
    [
        (Ties(), []),
        (Ties(batch="b-1", expires_at=NOW + 60_000), ["batch       b-1", "expires     in 1 min (16:01:00)"]),
        (
            Ties(unique=UniqueTie(scope="succeeded", held_by="03h9", until=NOW + 60_000)),
            ["unique key  until the job completes; held by this job, until in 1 min (16:01:00) at most"],
        ),
        (
            Ties(unique=UniqueTie(scope="active", held_by="other")),
            ["unique key  until the job ends; held by other"],
        ),
        (
            Ties(unique=UniqueTie(scope="started")),
            ["unique key  until the job starts; held by no job now"],
        ),
        (Ties(limit="customer 7"), ["limit       customer 7"]),
        (Ties(limit="customer 7", blocked=True), ["limit       customer 7; waits for it"]),
        (Ties(folded=1), ["folded      1 more call into this job"]),
        (Ties(folded=12), ["folded      12 more calls into this job"]),
    ],
)
def test_a_report_says_what_the_job_is_tied_to(ties: Ties, lines: list[str]) -> None:
    described = [" ".join(line.split()) for line in describe_job(make_job(ties=ties), [], NOW, UTC)]
    names = ("unique", "batch", "expires", "limit", "folded")
    assert [line for line in described if line.startswith(names)] == [
        " ".join(line.split()) for line in lines
    ]


def test_a_report_does_not_say_the_status_twice() -> None:
    def status(**fields: Any) -> str:
        return next(
            line for line in describe_job(make_job(**fields), [], NOW, UTC) if line.startswith("status")
        )

    assert status(ready_at=NOW - 1_000).split(maxsplit=1)[1] == "ready 1 s ago (15:59:59)"
    dead = status(status="dead", failed_at=NOW - 1_000)
    assert dead.split(maxsplit=1)[1] == "dead, died 1 s ago (15:59:59)"
    assert status(status="dead").split(maxsplit=1)[1] == "dead"


def test_a_report_shows_payload_and_the_arithmetic_of_each_failure() -> None:
    job = make_job(status="scheduled", attempts=1, payload=msgspec.Raw(b'{"n":1.50}'), retry_limit=4)
    reason = "retry 1: 1.1 s"
    error = ErrorView(
        attempt=1,
        message="no\nroute",
        error_type="IOError",
        dequeued_at=NOW - 3_000,
        failed_at=NOW - 1_000,
        backtrace="a\nb",
        decision={"reason": reason, "wait_ms": 1_100},
    )
    lines = list(describe_job(job, [error], NOW, UTC))
    assert 'payload   {"n":1.50}' in lines
    assert "failures  1 (retry limit 4)" in lines
    assert re.split(r" {2,}", lines[-1]) == ["1", "15:59:59", "2 s", "IOError: no route", reason]
    assert "  b" in list(describe_job(job, [error], NOW, UTC, backtrace=True))


def test_a_server_that_tells_no_decision_gets_no_column_for_it() -> None:
    error = ErrorView(attempt=1, message="m", dequeued_at=NOW, failed_at=NOW)
    lines = list(describe_job(make_job(attempts=1), [error], NOW, UTC))
    assert not any("DECISION" in line for line in lines)


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        (None, ""),
        ({"reason": "killed by the worker"}, "killed by the worker"),
        (
            {"nominal_ms": 31_000, "draw": 0.5, "cap_ms": None, "wait_ms": 61_000},
            "nominal 31 s, draw 0.500, waits 1 min 1 s",
        ),
    ],
)
def test_a_decision_on_one_line(decision: dict[str, Any] | None, text: str) -> None:
    assert decision_text(decision) == text


def test_a_huge_payload_is_shortened_and_says_so() -> None:
    job = make_job(payload=msgspec.Raw(b'"' + b"x" * 10_000 + b'"'))
    payload = next(line for line in describe_job(job, [], NOW, UTC) if line.startswith("payload"))
    assert payload.endswith("(10002 bytes; --json shows all)")
    assert len(payload) < 2_200


def test_a_job_shows_the_id_that_its_producer_gave_it() -> None:
    assert "jid       a-jid-of-theirs" in describe_job(make_job(jid="a-jid-of-theirs"), [], NOW, UTC)
    assert not any(line.startswith("jid") for line in describe_job(make_job(), [], NOW, UTC))

"""A job's form: the rules in their order, what is kept, what is shown."""

import json
from typing import Any

import pytest

from anew.errors import InvalidJob
from anew.fwp.commands import read_push
from anew.fwp.jobs import CheckedJob, Failure, checked, failure_of, lines_of, meta_of, rendered, text_of

AT = 1_000_000_000_000
AT_TEXT = "2001-09-09T01:46:40Z"
MINIMAL: dict[str, Any] = {"jid": "job-0001", "jobtype": "t", "args": []}


def check(**fields: Any) -> CheckedJob:
    return checked(read_push(json.dumps(MINIMAL | fields).encode()).job)


def refusal(**fields: Any) -> str:
    with pytest.raises(InvalidJob) as caught:
        check(**fields)
    return str(caught.value)


def show(job: CheckedJob, enqueued_at: int | None = AT + 5, failure: Failure | None = None) -> bytes:
    args, meta = bytes(job.args), meta_of(job.meta)
    return rendered(job.jid, job.queue, job.jobtype, args, job.retry, meta, AT, enqueued_at, failure)


def test_a_minimal_job_gets_the_defaults() -> None:
    """Checklist 22, 47."""
    job = check()
    assert (job.queue, job.retry, job.at, job.attempts, job.meta) == ("default", 25, None, 0, b"")
    assert show(job) == (
        b'{"retry":25,"jid":"job-0001","queue":"default","jobtype":"t",'
        b'"created_at":"2001-09-09T01:46:40Z","enqueued_at":"2001-09-09T01:46:40.005Z","args":[]}'
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"jid": None, "jobtype": None}, "jobs must have a reasonable jid parameter"),
        ({"jid": "1234567"}, "jobs must have a reasonable jid parameter"),
        ({"jobtype": "", "args": None}, "jobs must have a jobtype parameter"),
        ({"jobtype": None}, "jobs must have a jobtype parameter"),
        ({"args": None, "reserve_for": 86_401}, "jobs must have an args parameter"),
        ({"reserve_for": 86_401, "at": "x"}, "jobs cannot be reserved for more than one day"),
        (
            {"queue": "a b"},
            'cannot get "a b" queue: queue names must match \\A[a-zA-Z0-9._-]+\\z',
        ),
        ({"queue": "c&c"}, 'cannot get "c&c" queue: queue names must match \\A[a-zA-Z0-9._-]+\\z'),
        ({"queue": "a\n"}, 'cannot get "a\\n" queue: queue names must match \\A[a-zA-Z0-9._-]+\\z'),
        ({"queue": "q" * 513}, "a job's queue has at most 512 bytes, not 513"),
        ({"jid": "j" * 513}, "a job's jid has at most 512 bytes, not 513"),
        ({"jobtype": "é" * 257}, "a job's jobtype has at most 512 bytes, not 514"),
        ({"custom": {"a": "x" * 262_144}}, "jobs have at most 262144 bytes beside their args, not 262160"),
        ({"created_at": "x" * 262_144}, "jobs have at most 262144 bytes beside their args, not 262148"),
        (
            {"failure": {"failed_at": "x", "backtrace": ["a"] * 65_536}},
            "jobs have at most 262144 bytes beside their args, not 327733",
        ),
        ({"queue": "é", "at": AT_TEXT}, 'cannot get "é" queue: queue names must match \\A[a-zA-Z0-9._-]+\\z'),
    ],
)
def test_rules_in_their_order(fields: dict[str, Any], text: str) -> None:
    """Checklist 23, 24, 25, 26."""
    assert refusal(**fields) == text


@pytest.mark.parametrize("at", ["2024-01-01T00:00:00", "2024-01-01T00:00:00+0100", "2024-01-01 00:00:00Z"])
def test_a_bad_time_is_named(at: str) -> None:
    """Checklist 32."""
    assert refusal(at=at, queue="a b").startswith(f"invalid timestamp for 'at': \"{at}\": ")


@pytest.mark.parametrize(
    "fields",
    [
        {"jid": "123456é"},
        {"queue": "A-Za-z0-9_.-"},
        {"queue": ""},
        {"at": ""},
        {"reserve_for": 86_400},
        {"reserve_for": 1},
        {"reserve_for": 59},
        {"reserve_for": -5},
    ],
)
def test_what_may_be(fields: dict[str, Any]) -> None:
    """Checklist 24, 25, 26."""
    fit = check(**fields)
    jid, queue = fields.get("jid", MINIMAL["jid"]), fields.get("queue") or "default"
    assert (fit.jid, fit.queue, fit.at) == (jid, queue, None)


@pytest.mark.parametrize("retry", [0, -1, 3, -(2**63)])
def test_each_job_keeps_its_retry(retry: int) -> None:
    assert check(retry=retry).retry == retry
    assert check().retry == 25


def test_a_time_is_read_and_its_text_kept() -> None:
    """Checklist 30, 32."""
    job = check(at="2001-09-09T01:46:40.123456789+00:00")
    assert job.at == AT + 124
    assert b'"at":"2001-09-09T01:46:40.123456789+00:00","args"' in show(job)


def test_all_parts_come_back_in_the_protocols_order() -> None:
    """Checklist 29, 47."""
    job = check(
        custom={"unique_for": 1.5, "locale": "é"},
        created_at="whenever",
        enqueued_at="never",
        at=AT_TEXT,
        reserve_for=-5,
        backtrace=2,
        priority=3,
        failure={"retry_count": 3, "remaining": 7, "backtrace": [None, "l"]},
        args=[2**70, {"x": []}],
    )
    assert show(job, None) == (
        b'{"retry":25,"failure":{"failed_at":"","backtrace":["","l"],"retry_count":3,"remaining":7},'
        b'"custom":{"unique_for":1.5,"locale":"\\u00e9"},"jid":"job-0001","queue":"default","jobtype":"t",'
        b'"created_at":"whenever","enqueued_at":"never","at":"2001-09-09T01:46:40Z",'
        b'"args":[1180591620717411303424,{"x":[]}],"reserve_for":-5,"backtrace":2}'
    )
    assert json.loads(show(job))["enqueued_at"] == "2001-09-09T01:46:40.005Z"


@pytest.mark.parametrize(
    ("fields", "meta"),
    [
        ({}, b""),
        ({"custom": {}, "reserve_for": 0, "backtrace": 0, "created_at": ""}, b""),
        ({"created_at": AT_TEXT}, b'["2001-09-09T01:46:40Z"]'),
        ({"custom": {"a": 1}}, b'["",0,{"a":1}]'),
        ({"at": AT_TEXT}, b'["",0,null,"2001-09-09T01:46:40Z"]'),
    ],
)
def test_little_is_kept_beside_the_columns(fields: dict[str, Any], meta: bytes) -> None:
    job = check(**fields)
    assert job.meta == meta
    shown = json.loads(show(job))
    assert {name: shown.get(name) for name in fields if fields[name]} == {
        name: value for name, value in fields.items() if value
    }


# -- failures


@pytest.mark.parametrize(
    ("retry", "attempts", "count", "remaining"),
    [(3, 1, 0, 3), (3, 2, 1, 2), (3, 4, 3, 0), (3, 5, 4, 0), (-1, 1, 0, -1), (-1, 3, 2, -1)],
)
def test_failures_are_counted(retry: int, attempts: int, count: int, remaining: int) -> None:
    """Checklist 54, 56, 57."""
    failure = failure_of(None, attempts, retry, AT, AT + 15_000, "m", "E", [])
    assert (failure.retry_count, failure.remaining) == (count, remaining)
    assert show(check(retry=retry), failure=failure) == (
        b'{"retry":%d,"failure":{"failed_at":"2001-09-09T01:46:40Z","next_at":"2001-09-09T01:46:55Z","message":"m",'
        b'"errtype":"E","retry_count":%d,"remaining":%d},"jid":"job-0001","queue":"default","jobtype":"t",'
        b'"created_at":"2001-09-09T01:46:40Z","enqueued_at":"2001-09-09T01:46:40.005Z","args":[]}'
    ) % (retry, count, remaining)


@pytest.mark.parametrize(
    ("given", "attempts", "after"),
    [
        ({"retry_count": 3, "remaining": 7}, 4, [(4, 6), (5, 5), (6, 4)]),
        ({"retry_count": 1, "remaining": 1}, 2, [(2, 0), (3, 0)]),
        ({}, 1, [(1, 0), (2, 0)]),
        ({"retry_count": 3, "remaining": -7}, 4, [(4, -7)]),
    ],
)
def test_a_given_failure_is_counted_on(
    given: dict[str, int], attempts: int, after: list[tuple[int, int]]
) -> None:
    """The numbers are those of the protocol's first server."""
    job = check(retry=5, failure={"failed_at": "long ago", "next_at": "once"} | given)
    assert job.attempts == attempts
    kept = meta_of(job.meta).failure
    failures = [failure_of(kept, attempts + n, 5, AT, None, "m", "E", []) for n in range(1, len(after) + 1)]
    assert [(failure.retry_count, failure.remaining) for failure in failures] == after
    assert {(failure.failed_at, failure.next_at) for failure in failures} == {("long ago", "once")}


@pytest.mark.parametrize(("count", "attempts"), [(2**63 - 1, 2**31), (-3, 0), (-(2**63), 0)])
def test_a_given_count_is_held_within_bounds(count: int, attempts: int) -> None:
    assert check(failure={"retry_count": count}).attempts == attempts


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["a"], "a"),
        (["a", "b"], "a\nb"),
        (["", ""], "\n"),
        (["a\nb"], "a\nb\x1e"),
        (["a", "b\x1e"], "a\x1e\nb\x1e\x1e"),
        (["a\n", "\tb", ""], "a\n\x1e\n\tb\x1e\n\x1e"),
    ],
)
def test_a_backtraces_lines_come_back_as_they_were_given(lines: list[str], text: str) -> None:
    """Checklist 58. A text without a line's end within a line is what other doors write and read."""
    assert text_of(lines) == text
    assert lines_of(text) == lines

"""Jobs as Faktory's Redis has them, translated; what Faktory 1.10 wrote is copied here, what is expected is worked out by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest

from anew.errors import InvalidInput
from anew.fwp import times
from anew.fwp.jobs import meta_of
from anew.fwp.policies import Policies
from anew.fwp.stored import StoredJobs
from anew.jobs import State
from anew.jobs.moved import LatestFailure, MovedJob, Reservation

NOON = 1_767_268_800_000
"""2026-01-01T12:00:00Z: 20,454 days and 12 hours."""

DAY_MS = 86_400_000

FAILED = {
    "failed_at": "2026-01-01T09:00:00.1Z",
    "next_at": "2026-01-01T13:00:00.25Z",
    "message": "no answer",
    "errtype": "Timeout",
    "backtrace": ["a.rb:1", "b.rb:2"],
    "retry_count": 2,
    "remaining": 3,
}


def job(**members: Any) -> dict[str, Any]:
    whole = {
        "retry": 5,
        "jid": "abcdefgh",
        "queue": "mail",
        "jobtype": "send",
        "created_at": "2026-01-01T08:00:00.123456789Z",
        "enqueued_at": "2026-01-01T11:00:00.5Z",
        "args": [1, {"to": "Ada"}],
    } | members
    return {name: value for name, value in whole.items() if value is not None}


def stored() -> StoredJobs:
    return StoredJobs(Policies(), NOON)


def moved(place: str, document: Any, score: float | None = None) -> MovedJob:
    return stored().job(place, json.dumps(document).encode(), score)


def test_a_job_of_a_queue_is_ready_since_it_was_enqueued() -> None:
    found = moved("q:mail", job(reserve_for=120, custom={"locale": "de"}))
    assert (found.state, found.queue, found.type, found.jid) == (State.READY, "mail", "send", "abcdefgh")
    assert found.ready_at == NOON - 3_600_000 + 500
    assert (found.attempts, found.failure, found.purge_at, found.reserved) == (0, None, None, None)
    assert (found.retry_limit, found.reserve_ms) == (5, 120_000)
    assert bytes(found.payload) == b'[1,{"to":"Ada"}]'
    meta = meta_of(found.meta)
    assert meta.created_at == "2026-01-01T08:00:00.123456789Z"
    assert meta.enqueued_at == "2026-01-01T11:00:00.5Z"
    assert bytes(meta.custom) == b'{"locale":"de"}'


def test_a_job_stands_in_the_queue_whose_list_it_is_in() -> None:
    assert moved("q:other", job()).queue == "other"
    assert moved("other", job()).queue == "other"


def test_a_scheduled_job_runs_at_its_time() -> None:
    at = "2026-01-02T12:00:00.123456789Z"
    found = moved("scheduled", job(at=at, enqueued_at=None), (NOON + DAY_MS) / 1_000 + 0.123456789)
    assert (found.state, found.ready_at) == (State.SCHEDULED, NOON + DAY_MS + 124)
    assert meta_of(found.meta).at == at


def test_a_retry_keeps_its_time_its_failures_and_the_last_of_them() -> None:
    found = moved("retries", job(failure=FAILED), (NOON + 3_600_250) / 1_000)
    assert (found.state, found.ready_at, found.attempts) == (State.RETRYING, NOON + 3_600_250, 3)
    assert found.failure == LatestFailure(
        message="no answer",
        error_type="Timeout",
        backtrace="a.rb:1\nb.rb:2",
        first_failed_at=NOON - 3 * 3_600_000 + 100,
        failed_at=NOON - 3_600_000 + 500,  # not before its last run was enqueued
        decision=b'{"verdict":"retry","reason":"decided by Faktory","due_at":%d}' % (NOON + 3_600_250),
    )
    given = meta_of(found.meta).failure
    assert given is not None
    assert msgspec.to_builtins(given) == FAILED


def test_the_first_failure_of_a_retry_is_its_latest() -> None:
    found = moved("retries", job(failure=FAILED | {"retry_count": 0}), (NOON + 1_000) / 1_000)
    assert found.attempts == 1
    assert found.failure is not None
    assert found.failure.failed_at == NOON - 3 * 3_600_000 + 100


def test_a_dead_job_is_kept_for_as_long_as_it_was_to_be() -> None:
    """It died 180 days before its time in the set."""
    died = NOON - 1_800_000
    found = moved("dead", job(retry=-1, failure=FAILED | {"retry_count": 0}), (died + 180 * DAY_MS) / 1_000)
    assert (found.state, found.purge_at, found.attempts) == (State.DEAD, died + 180 * DAY_MS, 1)
    assert (found.retry_limit, meta_of(found.meta).retry) == (0, -1)
    assert found.failure is not None
    assert found.failure.failed_at == died
    assert found.failure.decision == b'{"verdict":"dead","reason":"decided by Faktory"}'


def test_a_job_that_was_killed_before_it_ran_has_no_failure() -> None:
    found = moved("dead", job(at="2026-02-01T00:00:00Z", enqueued_at=None), (NOON + DAY_MS) / 1_000)
    assert (found.state, found.failure, found.attempts) == (State.DEAD, None, 0)


def test_a_running_job_stays_reserved() -> None:
    reservation = {
        "job": job(reserve_for=600),
        "reserved_at": "2026-01-01T11:58:00Z",
        "expires_at": "2026-01-01T12:08:00Z",
        "wid": "worker-7",
    }
    found = moved("working", reservation, NOON / 1_000 + 480)
    assert (found.state, found.jid) == (State.IN_FLIGHT, "abcdefgh")
    assert found.reserved == Reservation(NOON - 120_000, NOON + 480_000, "worker-7")
    assert found.ready_at == NOON - 3_600_000 + 500


def test_a_job_that_failed_and_is_back_in_its_queue_has_its_failure() -> None:
    found = moved("q:mail", job(failure=FAILED))
    assert (found.state, found.attempts) == (State.READY, 3)
    assert found.failure is not None


def test_no_retry_means_faktorys_own_number() -> None:
    assert moved("q:mail", job(retry=None)).retry_limit == 25


def test_its_policy_is_faktorys_or_what_the_server_has_for_its_queue() -> None:
    assert moved("q:mail", job()).policy == msgspec.Raw(b'{"preset":"faktory"}')
    chosen: dict[tuple[str | None, str | None], msgspec.Raw] = {
        ("mail", None): msgspec.Raw(b'{"preset":"even"}')
    }
    own = StoredJobs(Policies(chosen=chosen), NOON)
    assert own.job("q:mail", json.dumps(job()).encode(), None).policy == msgspec.Raw(b'{"preset":"even"}')


def test_ties_are_counted_and_tie_nothing() -> None:
    jobs = stored()
    custom = {"unique_for": 60, "bid": "b-1", "track": 1, "locale": "de"}
    for _ in range(2):
        assert jobs.job("q:mail", json.dumps(job(custom=custom)).encode(), None).hooks is None
    assert dict(jobs.untied) == {"unique_for": 2, "bid": 2, "track": 2}


def test_large_integers_and_escapes_are_as_they_were() -> None:
    found = stored().job(
        "q:mail", b'{"jid":"abcdefgh","jobtype":"t","args":[9007199254740993,"\\u003c"]}', None
    )
    assert bytes(found.payload) == b'[9007199254740993,"\\u003c"]'


def test_a_time_that_cannot_be_read_hurts_nothing_else() -> None:
    failure = FAILED | {"failed_at": "yesterday", "retry_count": 0}
    found = moved("retries", job(enqueued_at="soon", failure=failure), NOON / 1_000)
    assert found.failure is not None
    assert found.failure.first_failed_at == NOON
    assert moved("q:mail", job(enqueued_at="soon")).ready_at is None


@pytest.mark.parametrize(
    ("place", "data", "score"),
    [
        ("q:mail", b"", None),
        ("q:mail", b"{", None),
        ("q:mail", b"null", None),
        ("q:mail", b"\xff\xfe", None),
        ("q:mail", b'{"jid":"short","jobtype":"t","args":[]}', None),
        ("q:mail", b'{"jid":"abcdefgh","args":[]}', None),
        ("q:mail", b'{"jid":"abcdefgh","jobtype":"t"}', None),
        ("q:mail", b'{"jid":12345678,"jobtype":"t","args":[]}', None),
        ("q:a b", b'{"jid":"abcdefgh","jobtype":"t","args":[]}', None),
        ("working", b'{"jid":"abcdefgh","jobtype":"t","args":[]}', 1.0),
        ("working", b'{"job":null,"wid":"w"}', 1.0),
        ("working", b"[]", 1.0),
        ("retries", b'{"jid":"abcdefgh","jobtype":"t","args":[]}', math.inf),
        ("retries", b'{"jid":"abcdefgh","jobtype":"t","args":[]}', math.nan),
        ("retries", b'{"jid":"abcdefgh","jobtype":"t","args":[]}', -1.0),
        ("q:mail", b'{"jid":"abcdefgh","jobtype":"t","args":[],"custom":{"anew_policy":7}}', None),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_a_reason(place: str, data: bytes, score: float | None) -> None:
    with pytest.raises(InvalidInput) as refused:
        stored().job(place, data, score)
    assert str(refused.value)


@pytest.mark.parametrize("fraction", ["", ".1", ".123", ".0005", ".123456789", ".999", ".999001"])
def test_a_sets_time_means_what_its_text_meant(fraction: str) -> None:
    """A score is that text as seconds in 64 bits, exact to parts of a microsecond."""
    text = f"2026-01-02T12:00:00{fraction}Z"
    score = (NOON + DAY_MS) / 1_000 + float(f"0{fraction or '.0'}")
    assert moved("scheduled", job(at=text), score).ready_at == times.parse(text)

"""A failure's ``retry_at`` against a policy that bounds it, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from .client import Client, Job, now_ms

HOUR_MS = 3_600_000
BOUNDED = {"curve": {"constant": "10s"}, "floor": "5s", "ceil": "1m"}


def fail_asking(client: Client, queue: str, policy: dict[str, Any], retry_at: int) -> Job:
    """Enqueue a job with a policy, take it, and fail it with a time to run again."""
    client.enqueue(queue, policy=policy, retry_limit=0)
    job: Job = client.run_one(queue, lambda job_id: client.fail(job_id, retry_at=retry_at))
    return job


@pytest.mark.parametrize(("asked_ms", "wait_ms"), [(HOUR_MS, 60_000), (-HOUR_MS, 5_000)])
def test_floor_and_ceil_hold(client: Client, queue: str, asked_ms: int, wait_ms: int) -> None:
    job = fail_asking(client, queue, BOUNDED, now_ms() + asked_ms)
    assert (job["status"], job["attempts"]) == ("scheduled", 1)
    assert job["ready_at"] == job["failed_at"] + wait_ms
    (record,) = client.errors(job["id"])
    assert "the failure asks for" in record["decision"]["reason"]


def test_exact_opts_out(client: Client, queue: str) -> None:
    asked = now_ms() + HOUR_MS
    assert fail_asking(client, queue, BOUNDED | {"override": "exact"}, asked)["ready_at"] == asked


def test_spread_parts_jobs_that_were_sent_to_one_instant(client: Client, queue: str) -> None:
    """Each gets its own share of the nominal wait on top; equal instants would be the thundering herd."""
    policy = {"curve": {"constant": "10m"}, "override": "spread"}
    asked = now_ms() + HOUR_MS
    due = [fail_asking(client, queue, policy, asked)["ready_at"] for _ in range(8)]
    assert all(asked <= at < asked + 600_000 for at in due)
    assert len(set(due)) == 8


def test_a_policy_without_bounds_obeys(client: Client, queue: str) -> None:
    asked = now_ms() + 400 * 24 * HOUR_MS
    assert fail_asking(client, queue, {"curve": {"constant": "10s"}}, asked)["ready_at"] == asked


def test_the_deadline_holds(client: Client, queue: str) -> None:
    policy = {"curve": {"constant": "10s"}, "deadline": "30m"}
    assert fail_asking(client, queue, policy, now_ms() + HOUR_MS)["status"] == "dead"

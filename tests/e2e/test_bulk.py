"""Bulks of ten thousand jobs, and changes of very many."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from .client import MSGPACK, Client
from .server import ServerProcess

FAR_MS = 4_102_444_800_000
RICH = {
    "ready_at": FAR_MS,
    "priority": 7,
    "retry_limit": 3,
    "backoff": {"exponent": 4.0, "base_ms": 100, "jitter_ms": 3},
    "retention": {"dead_ms": 4},
}


def jobs_of(queue: str, count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "t", "queue": queue, "payload": {"n": n}} | more for n in range(count)]


@pytest.mark.parametrize("more", [{}, {"ready_at": FAR_MS}, RICH])
def test_zizq_23_ten_thousand_jobs_are_stored_and_answered_in_order(
    client: Client, queue: str, more: dict[str, Any]
) -> None:
    response = client.post("/jobs/bulk", {"jobs": jobs_of(queue, 10_000, **more)})
    assert response.status == 201
    listed = response.data["jobs"]
    ids = [job["id"] for job in listed]
    assert (len(ids), ids) == (10_000, sorted(set(ids)))
    assert all({name: job[name] for name in more} == more for job in (listed[0], listed[9_999]))
    assert {job["status"] for job in listed} == {"scheduled" if more else "ready"}
    assert client.count(queue=queue) == 10_000
    for at in (0, 5_000, 9_999):
        assert client.get(f"/jobs/{ids[at]}").data["payload"] == {"n": at}
    assert client.delete(f"/jobs?queue={queue}").data == {"deleted": 10_000}


def test_zizq_24_one_bad_job_among_ten_thousand_stores_none(client: Client, queue: str) -> None:
    jobs = jobs_of(queue, 10_000, **RICH)
    jobs[9_999]["queue"] = "a,b"
    response = client.post("/jobs/bulk", {"jobs": jobs})
    assert (response.status, response.error) == (
        400,
        "jobs[9999]: queue must not contain ','; expected one name, got 'a,b'",
    )
    assert client.count(queue=queue) == 0


def test_a_long_bulk_in_messagepack(client: Client, queue: str) -> None:
    jobs = jobs_of(queue, 5_000, note="x" * 60)
    response = client.request("POST", "/jobs/bulk", packed={"jobs": jobs}, accept=MSGPACK)
    assert response.status == 201
    ids = [job["id"] for job in response.data["jobs"]]
    assert client.get(f"/jobs/{ids[4_999]}").data["payload"] == {"n": 4_999}
    client.delete(f"/jobs?queue={queue}")


def test_a_payload_of_three_million_brackets_is_legal(client: Client, queue: str) -> None:
    body = b'{"type":"t","queue":"%b","payload":[%b]}' % (queue.encode(), b",".join([b'["["]'] * 1_500_000))
    response = client.request("POST", "/jobs", data=json.loads(body))
    assert response.status == 201
    client.delete(f"/jobs?queue={queue}")


@pytest.mark.parametrize("spread", [None, "40m"])
def test_many_dead_jobs_are_sent_round_again(client: Client, queue: str, spread: str | None) -> None:
    """More than one portion of them, and those that are not dead stay as they are."""
    count = 350
    ids = client.enqueue_many(queue, count)
    kept = client.enqueue(queue, ready_at=FAR_MS)["id"]
    for job_id in ids:
        assert client.request("POST", f"/v1/jobs/{job_id}/cancel").status == 200
    response = client.post(f"/v1/jobs/retry?queue={queue}", {} if spread is None else {"spread": spread})
    assert (response.status, response.data) == (200, {"retried": count})
    times = [client.job(job_id)["ready_at"] for job_id in (ids[0], ids[1], ids[175], ids[349])]
    step = 0 if spread is None else 2_400_000
    assert [at - times[0] for at in times] == [step * nth // count for nth in (0, 1, 175, 349)]
    assert client.job(kept)["ready_at"] == FAR_MS
    assert client.post(f"/v1/jobs/retry?queue={queue}").data == {"retried": 0}
    client.delete(f"/jobs?queue={queue}")


def test_changes_of_many_jobs_are_logged_without_what_payloads_hold(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client]
) -> None:
    server = fresh_server()
    client = fresh(server)
    client.enqueue_many("q", 3, payload={"secret": "hunter2"})
    assert client.patch("/jobs?queue=q&filter=.secret%20==%20%22hunter2%22", {"priority": 1}).data == {
        "patched": 3
    }
    logged = server.await_record("jobs changed together")
    assert (logged["change"], logged["jobs"], logged["queue"]) == ("patched", 3, "q")
    assert "hunter2" not in str(logged)
    assert client.delete("/jobs").data == {"deleted": 3}
    assert server.await_record("jobs changed together")["jobs"] == 3
    client.post("/reset")
    server.await_record("all jobs and cron entries are removed")

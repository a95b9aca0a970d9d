"""``PATCH`` of one job and of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .client import MSGPACK, Client, now_ms

FAR_MS = 4_102_444_800_000
PAST = 1_600_000_000_000
BACKOFF = {"exponent": 2.0, "base_ms": 100, "jitter_ms": 0}


def patch(client: Client, job_id: str, **fields: Any) -> dict[str, Any]:
    """Patch a job, insist on 200, and see that a reader gets the same."""
    response = client.patch(f"/jobs/{job_id}", fields)
    assert response.status == 200, response.body
    job = response.data
    assert not {"payload", "duplicate", "folded"} & job.keys()
    assert client.job(job_id) == job | {"payload": None}
    return job


def test_zizq_74_ready_at_null_makes_a_scheduled_job_ready(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, ready_at=FAR_MS)["id"]
    before = now_ms()
    job = patch(client, job_id, ready_at=None)
    assert job["status"] == "ready"
    assert before <= job["ready_at"] <= now_ms()


def test_zizq_74_ready_at_null_leaves_a_ready_job_alone(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, ready_at=PAST)["id"]
    assert patch(client, job_id, ready_at=None)["ready_at"] == PAST


def test_zizq_74_a_future_ready_at_schedules_a_ready_job(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    job = patch(client, job_id, ready_at=FAR_MS)
    assert (job["status"], job["ready_at"]) == ("scheduled", FAR_MS)
    with client.take(queue) as stream:
        stream.expect_idle()
        job = client.patch(f"/jobs/{job_id}", {"ready_at": PAST}).data
        assert (job["status"], job["ready_at"]) == ("ready", PAST)
        assert stream.next_job()["id"] == job_id


def test_zizq_74_an_earlier_time_rearms_the_clock(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, ready_at=FAR_MS)["id"]
    with client.take(queue) as stream:
        ready_at = now_ms() + 300
        client.patch(f"/jobs/{job_id}", {"ready_at": ready_at})
        assert stream.next_job()["ready_at"] == ready_at


def test_zizq_74_ready_at_of_a_job_in_flight_changes_the_field_alone(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        job = patch(client, job_id, ready_at=FAR_MS)
        assert (job["status"], job["ready_at"]) == ("in_flight", FAR_MS)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"queue": None}, "queue cannot be null"),
        ({"priority": None}, "priority cannot be null"),
        ({"queue": ""}, "queue must not be empty"),
        ({"queue": "a,b"}, "queue must not contain ','; expected one name, got 'a,b'"),
        (
            {"queue": "a*"},
            "queue must not contain '*' (reserved); expected a name without * ? [ ] { } \\, got 'a*'",
        ),
    ],
)
def test_zizq_75_what_a_patch_may_not_say(client: Client, queue: str, body: object, message: str) -> None:
    job_id = client.enqueue(queue)["id"]
    # The last two: the check comes before the search for the job.
    for target in (f"/jobs/{job_id}", f"/jobs?queue={queue}", "/jobs/none", f"/jobs?queue={queue}none"):
        response = client.patch(target, body)
        assert (response.status, response.error) == (422, message)
    assert client.job(job_id)["queue"] == queue


def test_zizq_75_an_empty_patch_changes_nothing(client: Client, queue: str) -> None:
    job = client.enqueue(queue, priority=4, backoff=BACKOFF, retention={"dead_ms": 1})
    assert patch(client, job["id"]) == {key: job[key] for key in job.keys() - {"duplicate", "folded"}}


@pytest.mark.parametrize(
    "body",
    [
        {"priority": -1},
        {"priority": "1"},
        {"queue": 1},
        {"retry_limit": -1},
        {"ready_at": "now"},
        {"backoff": {"exponent": 1}},
        {"retention": 5},
        {"retention": {"dead_ms": -1}},
        [],  # the peer takes a list for the object with these values in the order of its fields
    ],
)
def test_zizq_75_wrong_types_in_a_patch_are_400(client: Client, queue: str, body: object) -> None:
    job_id = client.enqueue(queue)["id"]
    assert client.patch(f"/jobs/{job_id}", body).status == 400
    assert client.patch(f"/jobs?queue={queue}", body).status == 400


def test_zizq_76_a_terminal_job_cannot_be_patched(client: Client, queue: str) -> None:
    done = client.enqueue(queue, retention={"completed_ms": 60_000})["id"]
    client.run_one(queue, client.succeed)
    dead = client.enqueue(queue, retry_limit=0)["id"]
    client.run_one(queue, client.fail)
    for job_id, status in ((done, "completed"), (dead, "dead")):
        response = client.patch(f"/jobs/{job_id}", {"priority": 1})
        assert (response.status, response.error) == (422, f"cannot patch job {job_id} in {status} status")


def test_zizq_76_an_unknown_job_is_404(client: Client) -> None:
    response = client.patch("/jobs/" + "0" * 25, {"priority": 1}, accept=MSGPACK)
    assert (response.status, response.error) == (404, "job not found")


def test_zizq_77_members_of_retention_merge(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, retention={"dead_ms": 1, "completed_ms": 2})["id"]
    assert patch(client, job_id, retention={"dead_ms": None})["retention"] == {"completed_ms": 2}
    assert patch(client, job_id, retention={"dead_ms": 7})["retention"] == {"completed_ms": 2, "dead_ms": 7}
    assert patch(client, job_id, retention={})["retention"] == {"completed_ms": 2, "dead_ms": 7}
    assert "retention" not in patch(client, job_id, retention={"dead_ms": None, "completed_ms": None})
    patch(client, job_id, retention={"dead_ms": 7})
    assert "retention" not in patch(client, job_id, retention=None)


def test_zizq_77_null_clears_and_a_value_replaces(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    job = patch(client, job_id, backoff=BACKOFF, retry_limit=3, priority=9, queue=queue + "x")
    assert (job["backoff"], job["retry_limit"], job["priority"]) == (BACKOFF, 3, 9)
    assert job["queue"] == queue + "x"
    job = patch(client, job_id, backoff=None, retry_limit=None)
    assert not {"backoff", "retry_limit"} & job.keys()


def test_a_patch_in_messagepack(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, retry_limit=3)["id"]
    response = client.request(
        "PATCH", f"/jobs/{job_id}", packed={"retry_limit": None, "priority": 1}, accept=MSGPACK
    )
    assert (response.data["priority"], "retry_limit" in response.data) == (1, False)


def test_a_patched_policy_counts_for_the_next_failure(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        patch(client, job_id, backoff=BACKOFF)
        job = client.fail(job_id)
        assert job["ready_at"] - job["failed_at"] == 1100


SEVEN_S = {"curve": {"constant": "7s"}}


@pytest.mark.parametrize(
    "body",
    [
        {"policy": {"curve": {"constant": "soon"}}},
        {"policy": {"curve": {"constant": "7s"}, "nonsense": 1}},
        {"policy": {"preset": "nonsense"}},
        {"policy": 7},
        {"policy": SEVEN_S, "backoff": BACKOFF},
    ],
    ids=["value", "field", "preset", "kind", "both"],
)
def test_a_policy_that_is_none_is_400_also_in_a_patch(
    client: Client, queue: str, body: dict[str, Any]
) -> None:
    job_id = client.enqueue(queue, policy=SEVEN_S)["id"]
    for target in (f"/jobs/{job_id}", f"/jobs?queue={queue}"):
        response = client.patch(target, body)
        assert response.status == 400
        assert response.error
    assert client.post("/jobs", {"type": "t", "queue": queue, "payload": 1} | body).status == 400
    assert client.job(job_id)["policy"] == SEVEN_S
    assert client.count(queue=queue) == 1


def test_a_policy_of_anews_own_may_be_patched_in_replaced_and_cleared(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, backoff=BACKOFF)["id"]
    job = patch(client, job_id, policy=SEVEN_S)
    assert (job["policy"], "backoff" in job) == (SEVEN_S, False)
    job = patch(client, job_id, backoff=BACKOFF)
    assert (job["backoff"], "policy" in job) == (BACKOFF, False)
    assert not {"policy", "backoff"} & patch(client, job_id, policy=None).keys()
    patch(client, job_id, policy=SEVEN_S)
    job = client.run_one(queue, client.fail)
    assert job["ready_at"] - job["failed_at"] == 7_000


def test_zizq_78_bulk_patch_skips_terminal_jobs(client: Client, queue: str) -> None:
    dead = client.enqueue(queue, retry_limit=0)["id"]
    client.run_one(queue, client.fail)
    ready, held = client.enqueue(queue, priority=9)["id"], client.enqueue(queue, priority=0)["id"]
    scheduled = client.enqueue(queue, ready_at=FAR_MS)["id"]
    with client.take(queue) as stream:
        assert stream.next_job()["id"] == held
        response = client.patch(f"/jobs?queue={queue}", {"priority": 7})
        assert (response.status, response.data) == (200, {"patched": 3})
        assert [client.job(job_id)["priority"] for job_id in (dead, ready, held, scheduled)] == [
            32768,
            7,
            7,
            7,
        ]
        assert client.patch(f"/jobs?queue={queue}", {}).data == {"patched": 3}
        assert client.patch(f"/jobs?queue={queue}&status=ready", {"ready_at": FAR_MS}).data == {"patched": 1}
        assert client.patch(f"/jobs?id={dead}", {"priority": 1}).data == {"patched": 0}


@pytest.mark.parametrize(
    ("status", "word"), [("dead", "Dead"), ("completed", "Completed"), ("ready,dead", "Dead")]
)
def test_zizq_78_terminal_states_in_the_filter_are_422(
    client: Client, queue: str, status: str, word: str
) -> None:
    response = client.patch(f"/jobs?queue={queue}&status={status}", {})
    assert (response.status, response.error) == (422, f"cannot patch jobs in {word} status")


def test_zizq_78_without_filters_every_job_is_patched(fresh: Callable[..., Client]) -> None:
    client = fresh()
    client.enqueue_many("a", 300)
    client.enqueue("b", ready_at=FAR_MS)
    assert client.patch("/jobs", {"priority": 3}).data == {"patched": 301}
    assert client.count(priority=3) == 301


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize("parameter", ["from=x", "order=asc", "limit=1"])
def test_zizq_78_bulk_changes_take_no_cursor(client: Client, method: str, parameter: str) -> None:
    assert client.request(method, f"/jobs?{parameter}", data={} if method == "PATCH" else None).status == 400


def test_moving_a_ready_job_wakes_an_idle_taker_there(client: Client, queue: str) -> None:
    """In the peer it lies there until the next enqueue."""
    there = queue + "there"
    with client.take(there, prefetch=3) as stream:
        stream.expect_idle(beats=1)
        one, two, three = client.enqueue_many(queue, 3)
        assert client.patch(f"/jobs/{one}", {"queue": there}).data["queue"] == there
        assert stream.next_job()["id"] == one
        client.patch(f"/jobs?id={two},{three}", {"queue": there})
        assert [job["id"] for job in stream.next_jobs(2)] == [two, three]


def test_a_patched_priority_counts_for_the_next_take(client: Client, queue: str) -> None:
    first, second = client.enqueue_many(queue, 2)
    patch(client, second, priority=1)
    with client.take(queue, prefetch=2) as stream:
        assert [job["id"] for job in stream.next_jobs(2)] == [second, first]

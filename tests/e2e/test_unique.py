"""Unique keys in Zizq's words: what is a duplicate, until when, and what the answers say."""

from __future__ import annotations

from typing import Any

import pytest

from .client import Client, Job
from .stream import MSGPACK_STREAM, NDJSON

FAR_MS = 4_102_444_800_000  # the year 2100


def key_of(queue: str) -> str:
    """Keys are global, and tests share a server: each has its own."""
    return f"key of {queue}"


def enqueue(client: Client, queue: str, status: int = 201, **fields: Any) -> Job:
    job = {"type": "t", "queue": queue, "payload": 1, "unique_key": key_of(queue)}
    response = client.post("/jobs", job | fields)
    assert response.status == status, response.data
    stored: Job = response.data
    return stored


def test_zizq_26_a_bulk_of_nothing_new_is_200_and_a_mixed_one_201(client: Client, queue: str) -> None:
    first = enqueue(client, queue)
    again = {"type": "t", "queue": queue, "payload": 2, "unique_key": key_of(queue)}
    new = {"type": "t", "queue": queue, "payload": 3}
    for jobs, status, duplicates in (
        ([again], 200, [True]),
        ([again, again], 200, [True, True]),
        ([again, new], 201, [True, False]),
        ([new], 201, [False]),
    ):
        response = client.post("/jobs/bulk", {"jobs": jobs})
        assert response.status == status
        assert [job["duplicate"] for job in response.data["jobs"]] == duplicates
        assert {job["id"] for job in response.data["jobs"] if job["duplicate"]} <= {first["id"]}
    assert client.count(queue=queue) == 3


def test_zizq_27_a_second_job_of_the_key_is_a_duplicate_of_the_first(client: Client, queue: str) -> None:
    first = enqueue(client, queue, priority=5)
    assert (first["duplicate"], first["unique_key"], first["unique_while"]) == (
        False,
        key_of(queue),
        "queued",
    )
    second = enqueue(client, queue, 200, payload="other", priority=9, ready_at=FAR_MS, type="other")
    assert second == first | {"duplicate": True}
    read = client.job(first["id"])
    assert (read["payload"], read["unique_key"], read["unique_while"]) == (1, key_of(queue), "queued")
    assert client.count(queue=queue) == 1


def test_zizq_27_a_scheduled_job_holds_its_key_too(client: Client, queue: str) -> None:
    first = enqueue(client, queue, ready_at=FAR_MS)
    assert enqueue(client, queue, 200)["id"] == first["id"]


def test_zizq_28_another_queue_and_another_type_make_no_other_key(client: Client, queue: str) -> None:
    first = enqueue(client, queue)
    other = client.post(
        "/jobs", {"type": "u", "queue": f"{queue}2", "payload": 1, "unique_key": key_of(queue)}
    )
    assert (other.status, other.data["id"], other.data["queue"]) == (200, first["id"], queue)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"unique_while": "queued"}, "unique_while requires unique_key"),
        (
            {"unique_key": "k", "unique_while": "never"},
            'invalid unique_while: "never" (expected "queued", "active", or "exists")',
        ),
        ({"unique_key": "k", "unique_while": ""}, 'invalid unique_while: ""'),
        ({"unique_key": 7}, "unique_key: expected str | null, got int 7"),
        ({"unique_key": "x" * 4_097}, "unique_key: expected at most 4096 bytes, got 4097"),
    ],
)
def test_zizq_29_what_does_not_fit_is_refused(
    client: Client, queue: str, fields: dict[str, Any], words: str
) -> None:
    job = {"type": "t", "queue": queue, "payload": 1}
    single = client.post("/jobs", job | fields)
    assert (single.status, words in single.error) == (400, True), single.error
    many = client.post("/jobs/bulk", {"jobs": [job, job | fields]})
    assert (many.status, f"jobs[1]: {words}" in many.error) == (400, True), many.error
    assert client.count(queue=queue) == 0


def test_zizq_30_queued_ends_with_the_take(client: Client, queue: str) -> None:
    first = enqueue(client, queue)
    with client.take(queue) as stream:
        assert stream.next_job()["id"] == first["id"]
        second = enqueue(client, queue)
        assert second["id"] != first["id"]
        assert enqueue(client, queue, 200)["id"] == second["id"]


def test_zizq_30_active_ends_with_the_job(client: Client, queue: str) -> None:
    first = enqueue(client, queue, unique_while="active")
    with client.take(queue) as stream:
        stream.next_job()
        assert enqueue(client, queue, 200, unique_while="active")["status"] == "in_flight"
        client.succeed(first["id"])
        assert enqueue(client, queue, unique_while="active")["id"] != first["id"]


def test_zizq_30_exists_ends_with_the_record(client: Client, queue: str) -> None:
    keep = {"retention": {"completed_ms": 600_000}, "unique_while": "exists"}
    first = enqueue(client, queue, **keep)
    client.run_one(queue, client.succeed)
    there = enqueue(client, queue, 200, **keep)
    assert (there["id"], there["status"], there["duplicate"]) == (first["id"], "completed", True)


def test_zizq_31_the_scope_of_the_new_job_decides(client: Client, queue: str) -> None:
    first = enqueue(client, queue, unique_while="active")
    with client.take(queue, prefetch=1) as stream:
        stream.next_job()
        second = enqueue(client, queue, unique_while="queued", ready_at=FAR_MS)  # takes the key over
        assert second["id"] != first["id"]
        client.succeed(first["id"])  # which releases nothing that is another's
        assert enqueue(client, queue, 200, unique_while="active")["id"] == second["id"]


def test_zizq_32_deleting_the_holder_releases_the_key(client: Client, queue: str) -> None:
    for scope in ("queued", "active", "exists"):
        first = enqueue(client, queue, unique_while=scope)
        assert client.delete(f"/jobs/{first['id']}").status == 204
    enqueue(client, queue, unique_while="exists")


def test_zizq_33_a_queued_job_that_waits_for_its_retry_has_its_key_again(client: Client, queue: str) -> None:
    first = enqueue(client, queue, backoff={"exponent": 0, "base_ms": 3_600_000, "jitter_ms": 0})
    failed = client.run_one(queue, client.fail)
    assert (failed["unique_key"], failed["unique_while"]) == (key_of(queue), "queued")
    assert enqueue(client, queue, 200)["id"] == first["id"]


def test_zizq_34_the_second_item_of_one_bulk_is_a_duplicate_of_the_first(client: Client, queue: str) -> None:
    item = {"type": "t", "queue": queue, "payload": 1, "unique_key": key_of(queue)}
    response = client.post("/jobs/bulk", {"jobs": [item, item | {"payload": 2}]})
    one, two = response.data["jobs"]
    assert (response.status, one["id"], one["duplicate"], two["duplicate"]) == (201, two["id"], False, True)
    assert client.jobs(queue=queue)[0]["payload"] == 1


@pytest.mark.parametrize("framing", [NDJSON, MSGPACK_STREAM])
def test_every_answer_about_a_job_says_its_key(client: Client, queue: str, framing: str) -> None:
    """Also the empty key, which is one like any other."""
    client.delete("/jobs?status=ready,scheduled&queue=empty-key")
    job = enqueue(client, "empty-key", unique_key="", unique_while="active")
    expected = {"unique_key": "", "unique_while": "active"}.items()
    assert expected <= job.items()
    assert expected <= client.jobs(queue="empty-key")[0].items()
    patched = client.patch(f"/jobs/{job['id']}", {"priority": 3})
    assert expected <= patched.data.items()
    with client.take("empty-key", accept=framing) as stream:
        assert expected <= stream.next_job().items()
        assert expected <= client.fail(job["id"], kill=True).items()
    assert expected <= client.job(job["id"]).items()
    client.delete(f"/jobs/{job['id']}")


def test_anews_own_list_has_another_form_for_keys(client: Client, queue: str) -> None:
    job = {"type": "t", "queue": queue, "payload": 1, "unique_key": "k"}
    response = client.post("/v1/jobs/bulk", {"jobs": [job]})
    assert (response.status, response.error) == (
        400,
        "jobs[0]: unique_key is not for this body: expected `ties.unique` in its place",
    )


def test_a_completed_job_has_its_key_beside_its_result(client: Client, queue: str) -> None:
    key = {"unique_key": key_of(queue), "unique_while": "exists"}
    first = enqueue(client, queue, retention={"completed_ms": 3_600_000}, **key)
    with client.take(queue) as stream:
        stream.next_job()
        done = {"id": first["id"], "end": "succeeded", "result": {"sum": [7]}}
        assert client.post("/v1/jobs/reports", {"reports": [done]}).status == 200
    own = client.get(f"/v1/jobs/{first['id']}").data
    assert own["result"] == {"sum": [7]}
    again = enqueue(client, queue, 200, **key)
    for shown in (own, client.job(first["id"]), again):
        assert shown["status"] == "completed"
        assert shown | key == shown

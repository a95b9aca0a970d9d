"""Success, singly and in bulk, and what a success leaves behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .client import JSON, MSGPACK, Client, now_ms

GONE = "job not found in in-flight set"


def test_zizq_52_success_is_204_and_the_second_404(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        assert client.post(f"/jobs/{job_id}/success").status == 204
        again = client.post(f"/jobs/{job_id}/success")
        assert (again.status, again.error) == (404, GONE)


def test_zizq_52_success_needs_a_job_in_flight(client: Client, queue: str) -> None:
    ready = client.enqueue(queue)["id"]
    scheduled = client.enqueue(queue, ready_at=now_ms() + 600_000)["id"]
    for job_id in (ready, scheduled, "none"):
        answer = client.post(f"/jobs/{job_id}/success", accept=MSGPACK)
        assert (answer.status, answer.error) == (404, GONE)


def test_zizq_53_bulk_success_with_an_unknown_id(client: Client, queue: str) -> None:
    first, second, ready = client.enqueue_many(queue, 3)
    with client.take(queue, prefetch=2) as stream:
        stream.next_jobs(2)
        answer = client.post("/jobs/success", {"ids": [first, "none", second, "none", ready, first]})
        assert answer.status == 422
        assert answer.data.keys() == {"not_found"}
        assert sorted(answer.data["not_found"]) == sorted(["none", ready])
        assert stream.next_job()["id"] == ready
        assert client.get(f"/jobs/{first}").status == 404
        assert client.get(f"/jobs/{second}").status == 404


def test_zizq_53_bulk_success(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 3)
    with client.take(queue, prefetch=3) as stream:
        stream.next_jobs(3)
        assert client.post("/jobs/success", {"ids": sent + sent[:1]}).status == 204
        again = client.request("POST", "/jobs/success", packed={"ids": sent}, accept=JSON)
        assert again.status == 422
        assert sorted(again.data["not_found"]) == sent


def test_zizq_53_an_empty_list_is_400(client: Client) -> None:
    answer = client.post("/jobs/success", {"ids": []})
    assert (answer.status, answer.error) == (400, "ids must not be empty")


@pytest.mark.parametrize("body", [{}, {"ids": None}, {"ids": "x"}, {"ids": [1]}, {"ids": {}}])
def test_zizq_53_ids_are_a_list_of_strings(client: Client, body: object) -> None:
    assert client.post("/jobs/success", body).status == 400


def test_zizq_62_by_default_a_completed_job_is_gone(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    client.run_one(queue, client.succeed)
    assert client.get(f"/jobs/{job_id}").error == "job not found"
    assert client.get(f"/jobs/{job_id}/errors").error == "job not found"
    assert client.count(queue=queue) == 0


def test_zizq_63_a_retained_completed_job_can_be_read(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, payload=[1], retention={"completed_ms": 60_000})["id"]
    before = now_ms()
    client.run_one(queue, client.succeed)
    job = client.job(job_id)
    assert (job["status"], job["payload"], job["attempts"]) == ("completed", [1], 0)
    assert before <= job["completed_at"] <= now_ms()
    assert job["purge_at"] == job["completed_at"] + 60_000
    assert "dequeued_at" in job
    assert "failed_at" not in job
    assert client.count(queue=queue, status="completed") == 1
    assert client.post(f"/jobs/{job_id}/success").status == 404


def test_zizq_63_the_server_may_retain_by_default(fresh: Callable[..., Client]) -> None:
    client = fresh(default_completed_job_retention="1h", default_dead_job_retention="0")
    kept = client.enqueue("a")["id"]
    dropped = client.enqueue("b", retention={"completed_ms": 0})["id"]
    dead = client.enqueue("c", retry_limit=0)["id"]
    client.run_one("a", client.succeed)
    client.run_one("b", client.succeed)
    client.run_one("c", client.fail)
    job = client.job(kept)
    assert job["purge_at"] - job["completed_at"] == 3_600_000
    assert "retention" not in job
    assert client.get(f"/jobs/{dropped}").status == 404
    assert client.get(f"/jobs/{dead}").status == 404


def test_zizq_64_a_job_past_its_purge_time_is_hidden(fresh: Callable[..., Client]) -> None:
    """Here the reaper comes once an hour, so it is the readers who hide the record."""
    client = fresh(reaper_check_interval="1h")
    job_id = client.enqueue("q", retention={"completed_ms": 300})["id"]
    client.run_one("q", client.succeed)
    purge_at = client.job(job_id)["purge_at"]
    client.eventually(lambda: client.get(f"/jobs/{job_id}").status == 404, "the job is hidden")
    # Seconds would be the reaper's pace; what is above 0 here is the test machine's.
    assert 0 <= now_ms() - purge_at < 2_000
    assert client.jobs() == []
    assert client.count() == 0
    assert client.count(status="completed") == 0
    assert client.get(f"/jobs/{job_id}/errors").status == 404
    assert client.patch(f"/jobs/{job_id}", {}).status == 422
    assert client.delete(f"/jobs/{job_id}").status == 204
    assert client.delete(f"/jobs/{job_id}").status == 404


def test_zizq_64_the_reaper_removes_what_is_past_its_purge_time(fresh: Callable[..., Client]) -> None:
    client = fresh(reaper_check_interval="100ms")
    job_id = client.enqueue("q", retention={"completed_ms": 1})["id"]
    client.run_one("q", client.succeed)
    client.eventually(lambda: client.get("/queues").data["queues"] == [], "the record is gone")
    assert client.delete(f"/jobs/{job_id}").status == 404


def test_a_retention_near_the_top_of_its_range_keeps_the_record(client: Client, queue: str) -> None:
    """The peer's addition wraps around, so that the record is gone at once."""
    top = 2**64 - 1
    job_id = client.enqueue(queue, retention={"completed_ms": top, "dead_ms": top})["id"]
    client.run_one(queue, client.succeed)
    assert client.job(job_id)["purge_at"] > now_ms()
    other = client.enqueue(queue, retry_limit=0, retention={"completed_ms": top, "dead_ms": top})["id"]
    assert client.run_one(queue, client.fail)["purge_at"] > now_ms()
    assert client.job(other)["status"] == "dead"

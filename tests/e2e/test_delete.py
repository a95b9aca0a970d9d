"""``DELETE`` of one job and of many."""

from __future__ import annotations

from collections.abc import Callable

from .client import Client

FAR_MS = 4_102_444_800_000


def test_zizq_79_deleting_a_job_in_flight_frees_its_slot(client: Client, queue: str) -> None:
    first, second = client.enqueue_many(queue, 2)
    with client.take(queue) as stream:
        assert stream.next_job()["id"] == first
        assert client.delete(f"/jobs/{first}").status == 204
        assert stream.next_job()["id"] == second
        assert client.post(f"/jobs/{first}/success").status == 404
        assert client.post(f"/jobs/{first}/failure", {"message": "m"}).status == 404
        assert client.delete(f"/jobs?id={second}").data == {"deleted": 1}
        third = client.enqueue(queue)["id"]
        assert stream.next_job()["id"] == third


def test_zizq_79_deleting_in_every_state(client: Client, queue: str) -> None:
    dead = client.enqueue(queue, retry_limit=0)["id"]
    client.run_one(queue, client.fail)
    for job_id in (dead, client.enqueue(queue)["id"], client.enqueue(queue, ready_at=FAR_MS)["id"]):
        assert client.delete(f"/jobs/{job_id}").status == 204
        again = client.delete(f"/jobs/{job_id}")
        assert (again.status, again.error) == (404, "job not found")
        assert client.get(f"/jobs/{job_id}/errors").status == 404


def test_zizq_80_delete_without_filters_removes_everything(fresh: Callable[..., Client]) -> None:
    client = fresh()
    client.enqueue_many("a", 300)
    client.enqueue("b", ready_at=FAR_MS)
    client.enqueue("c", retry_limit=0)
    client.run_one("c", client.fail)
    with client.take("a", prefetch=2) as stream:
        stream.next_jobs(2)
        response = client.delete("/jobs?")
        assert (response.status, response.data) == (200, {"deleted": 302})
        assert client.count() == 0
        assert client.delete("/jobs").data == {"deleted": 0}


def test_zizq_80_delete_with_filters(client: Client, queue: str) -> None:
    dead = client.enqueue(queue, retry_limit=0)["id"]
    client.run_one(queue, client.fail)
    kept = client.enqueue(queue)["id"]
    client.enqueue(queue, priority=1)
    assert client.delete(f"/jobs?queue={queue}&status=dead").data == {"deleted": 1}
    assert client.delete(f"/jobs?queue={queue}&priority=..5").data == {"deleted": 1}
    assert client.get(f"/jobs/{dead}").status == 404
    assert client.job(kept)["status"] == "ready"

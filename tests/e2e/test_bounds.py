"""Bounds that this server sets and the peer does not: each is met exactly, and one beyond is refused."""

from __future__ import annotations

import pytest

from .client import Client


@pytest.mark.parametrize(("count", "status"), [(10_000, 422), (10_001, 413)])
def test_a_bulk_success_has_at_most_10_000_ids(client: Client, count: int, status: int) -> None:
    """Ids that nobody holds; the most that may be asked about are all named in the answer."""
    response = client.post("/jobs/success", {"ids": [f"{number:025}" for number in range(count)]})
    assert response.status == status
    if status == 422:
        assert len(response.data["not_found"]) == count
    else:
        assert response.error == "ids: expected at most 10000 in one request, got 10001"


@pytest.mark.parametrize("field", ["type", "queue"])
def test_a_name_has_at_most_512_bytes(client: Client, queue: str, field: str) -> None:
    """In UTF-8, where an ü has two."""
    longest = queue + "ü" * ((512 - len(queue)) // 2) + "x" * (len(queue) % 2)
    assert len(longest.encode()) == 512
    job = {"type": "t", "queue": queue, "payload": None}
    assert client.post("/jobs", job | {field: longest}).data[field] == longest
    refused = client.post("/jobs", job | {field: longest + "x"})
    assert refused.status == 400
    assert refused.error.startswith(f"{field} must not be longer than 512 bytes")


@pytest.mark.parametrize(("count", "status"), [(1_000, 200), (1_001, 400)])
def test_a_take_names_at_most_1000_queues(client: Client, queue: str, count: int, status: int) -> None:
    names = ",".join(f"{queue}-{number}" for number in range(count))
    with client.wire() as wire:
        wire.send(f"GET /jobs/take?queue={names} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert wire.read_head().status == status


@pytest.mark.parametrize("retry_at", [2**64, 10**30])
def test_a_retry_at_beyond_64_bits_is_400(client: Client, queue: str, retry_at: int) -> None:
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        response = client.post(f"/jobs/{job_id}/failure", {"message": "m", "retry_at": retry_at})
        assert response.status == 400
        assert response.error.startswith("retry_at: expected ")
        assert client.fail(job_id, retry_at=2**64 - 1)["status"] == "scheduled"

"""Health, version, queues, reset, and what this release says it does not serve."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from .client import JSON, MSGPACK, Client

SEMANTIC_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


def test_a_healthy_server_says_ok(client: Client) -> None:
    assert client.get("/health").data["status"] == "ok"


def test_zizq_92_the_version_is_semantic(client: Client) -> None:
    response = client.get("/version")
    assert response.status == 200
    assert SEMANTIC_VERSION.fullmatch(response.data["version"])


def test_zizq_92_queues_are_sorted_and_include_retained_jobs(fresh: Callable[..., Client]) -> None:
    client = fresh()
    assert client.get("/queues").data == {"queues": []}
    client.enqueue("b")
    client.enqueue("ä")
    client.enqueue("Z")
    client.enqueue("done", retention={"completed_ms": 600_000})
    client.enqueue("gone")
    client.enqueue("later", ready_at=4_102_444_800_000)
    client.enqueue("dead", retry_limit=0)
    client.run_one("done", client.succeed)
    client.run_one("gone", client.succeed)
    client.run_one("dead", client.fail)
    expected = ["Z", "b", "dead", "done", "later", "ä"]
    assert client.get("/queues").data == {"queues": expected}
    assert client.get("/queues", accept=MSGPACK).data == {"queues": expected}


@pytest.mark.parametrize("body", [None, b"{}", b"not json"])
def test_zizq_91_reset_empties_everything(fresh: Callable[..., Client], body: bytes | None) -> None:
    client = fresh()
    client.enqueue_many("a", 3)
    client.enqueue("b", ready_at=4_102_444_800_000)
    client.enqueue("c", retry_limit=0)
    client.run_one("c", client.fail)
    entry = {"name": "e", "expression": "@daily", "job": {"type": "t", "queue": "q", "payload": 1}}
    assert client.put("/crons/full", {"entries": [entry], "paused": True}).status == 200
    assert client.put("/crons/empty", {"entries": []}).status == 200
    with client.take("a", prefetch=2) as stream:
        held = [job["id"] for job in stream.next_jobs(2)]
        headers = [] if body is None else [("content-type", JSON)]
        response = client.request("POST", "/reset", body=body, headers=headers)
        assert (response.status, response.body) == (204, b"")
        assert client.get("/jobs").data["jobs"] == []
        assert client.get("/queues").data == {"queues": []}
        assert client.get("/crons").data == {"crons": []}
        assert client.get("/crons/full").status == 404
        assert client.get("/v1/crons").data == {"crons": []}
        assert client.count() == 0
        for job_id in held:
            assert client.post(f"/jobs/{job_id}/success").status == 404
        new = client.enqueue_many("a", 2)
        assert [job["id"] for job in stream.next_jobs(2)] == new

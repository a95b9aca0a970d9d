"""``Idempotency-Key`` on new jobs: whoever has no answer sends the request again, and has each job once."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from .client import Client
from .server import ServerProcess
from .wire import Headers, Response, request_bytes

Start = Callable[..., ServerProcess]
Connect = Callable[..., Client]

JOB = {"type": "t", "payload": [1]}
LONG = "x" * 100_000


def key(text: str) -> Headers:
    return [("Idempotency-Key", text)]


def send(client: Client, path: str, body: Any, text: str) -> Response:
    return client.post(path, body, headers=key(text))


def doubtful(queue: str) -> list[tuple[str, Any, Headers]]:
    """Requests whose repeat is safe, and which store one job, or three, each in a queue of its own."""
    return [
        ("/jobs", JOB | {"queue": f"{queue}-1"}, key("one")),
        ("/jobs/bulk", {"jobs": [JOB | {"queue": f"{queue}-3"}] * 3}, key("three")),
        ("/jobs/bulk", {"jobs": [JOB | {"queue": f"{queue}-3", "payload": LONG}] * 3}, key("long")),
        ("/jobs", JOB | {"queue": f"{queue}-1", "unique_key": queue, "unique_while": "exists"}, []),
    ]


@pytest.mark.parametrize("stored", [True, False])
def test_reliability_14_an_enqueue_in_doubt_that_is_sent_again_is_one_job(
    fresh_server: Start, fresh: Connect, stored: bool
) -> None:
    """Killed with the answers unread, or before it has read the requests; then all of them come again, twice."""
    server = fresh_server()
    client = fresh(server)
    requests = doubtful("q")
    wires = [client.wire() for _ in requests]
    if not stored:
        server.process_signal(signal.SIGSTOP)
    for wire, (path, body, headers) in zip(wires, requests, strict=True):
        lines = [*headers, ("content-type", "application/json")]
        wire.send(request_bytes("POST", path, headers=lines, body=json.dumps(body).encode()))
    if stored:
        client.eventually(lambda: client.count() == 8, "all are stored")
    server.kill()
    for wire in wires:
        wire.close()

    client = fresh(fresh_server(root_dir=server.root_dir))
    assert client.count() == (8 if stored else 0)
    for status in (200 if stored else 201, 200):
        for path, body, headers in requests:
            assert client.post(path, body, headers=headers).status == status
    assert (client.count(queue="q-1"), client.count(queue="q-3"), client.count()) == (2, 6, 8)


@pytest.mark.parametrize("path", ["/jobs", "/jobs/bulk", "/v1/jobs/bulk"])
@pytest.mark.parametrize("payload", [1, LONG])
def test_a_repeat_is_answered_with_the_jobs_that_are_there(
    client: Client, queue: str, path: str, payload: Any
) -> None:
    job = JOB | {"queue": queue, "payload": payload}
    body = job if path == "/jobs" else {"jobs": [job] * 3}
    first, again = (send(client, path, body, queue) for _ in range(2))
    assert (first.status, again.status) == (201, 200)
    shown, repeated = ([answer.data] if path == "/jobs" else answer.data["jobs"] for answer in (first, again))
    assert [one | {"duplicate": True} for one in shown] == repeated
    assert [one["duplicate"] for one in shown] == [False] * len(shown)
    assert client.count(queue=queue) == len(shown)


def test_a_repeat_stores_nothing_though_its_job_has_ended_and_is_gone(client: Client, queue: str) -> None:
    job = JOB | {"queue": queue}
    stored = send(client, "/jobs", job, queue).data
    client.run_one(queue, client.succeed)
    again = send(client, "/jobs", job, queue)
    assert (again.status, again.data["id"], again.data["duplicate"]) == (200, stored["id"], True)
    assert client.count(queue=queue) == 0


@pytest.mark.parametrize("payload", [1, LONG])
def test_a_key_that_comes_with_other_jobs_is_409_and_stores_none(
    client: Client, queue: str, payload: Any
) -> None:
    job = JOB | {"queue": queue, "payload": payload}
    send(client, "/jobs/bulk", {"jobs": [job] * 3}, queue)
    for path, body in (("/jobs/bulk", {"jobs": [job] * 4}), ("/jobs", job)):
        refused = send(client, path, body, queue)
        assert (refused.status, refused.data["code"]) == (409, "conflict")
        assert "was used within 24 h for something else" in refused.data["error"]
    assert client.count(queue=queue) == 3


def test_keys_of_jobs_and_of_topics_are_apart_and_so_are_two_keys(client: Client, queue: str) -> None:
    assert client.put(f"/v1/topics/{queue}", {}).status == 201
    published = send(client, f"/v1/topics/{queue}/messages", {"type": "t", "data": 1}, queue)
    assert published.status == 202
    job = JOB | {"queue": queue}
    assert [send(client, "/jobs", job, text).status for text in (queue, queue + "2", queue)] == [
        201,
        201,
        200,
    ]


def test_a_request_that_was_refused_has_not_used_its_key(client: Client, queue: str) -> None:
    assert send(client, "/jobs", {"queue": queue}, queue).status == 400
    assert send(client, "/jobs", JOB | {"queue": queue}, queue).status == 201


@pytest.mark.parametrize("text", ["", "k" * 256])
def test_a_key_has_1_to_255_characters(client: Client, queue: str, text: str) -> None:
    for path, body in (("/jobs", JOB | {"queue": queue}), ("/jobs/bulk", {"jobs": [JOB | {"queue": queue}]})):
        refused = send(client, path, body, text)
        assert (refused.status, refused.data["error"]) == (
            400,
            "Idempotency-Key: expected 1 to 255 characters",
        )
    assert client.count(queue=queue) == 0

"""Both HTTP versions on one port, large bodies, empty answers."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest

from .client import Client
from .h2wire import H2Wire
from .server import ServerProcess
from .wire import Response

TYPED_JSON = [("content-type", "application/json")]


def body_of(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def assert_no_content(response: Response) -> None:
    assert response.status == 204
    assert response.body == b""
    assert response.content_type is None


def test_zizq_01_one_port_answers_http_1_and_http_2_by_prior_knowledge(client: Client, queue: str) -> None:
    assert client.get("/health").data["status"] == "ok"
    with H2Wire(client.address) as h2:
        assert h2.request("GET", "/health").data["status"] == "ok"
        stored = h2.request(
            "POST", "/jobs", headers=TYPED_JSON, body=body_of(type="t", queue=queue, payload={"n": 1})
        )
        assert stored.status == 201
        assert client.job(stored.data["id"])["payload"] == {"n": 1}


def test_zizq_01_http_2_answers_many_streams_of_one_connection(client: Client, queue: str) -> None:
    with H2Wire(client.address) as h2:
        streams = [
            h2.start("POST", "/jobs", headers=TYPED_JSON, body=body_of(type="t", queue=queue, payload=n))
            for n in range(100)
        ]
        ids = [h2.finish(stream).data["id"] for stream in streams]
    assert len(set(ids)) == 100
    assert {job["payload"] for job in client.jobs(queue=queue, limit=100)} == set(range(100))


def test_zizq_01_http_2_take_stream_beside_other_requests(client: Client, queue: str) -> None:
    """The stream, the enqueue and the ack share one connection, as a client that knows only HTTP/2 has it."""
    with H2Wire(client.address) as h2:
        take = h2.start("GET", f"/jobs/take?queue={queue}")
        head = h2.head(take)
        assert (head.status, head.content_type) == (200, "application/x-ndjson")
        assert h2.read_line(take) == b""  # a heartbeat
        job_id = client.enqueue(queue)["id"]
        while not (line := h2.read_line(take)):
            continue
        assert json.loads(line)["id"] == job_id
        assert h2.request("POST", f"/jobs/{job_id}/success").status == 204
    assert client.get(f"/jobs/{job_id}").status == 404


def test_zizq_49_resetting_an_http_2_take_stream_returns_its_jobs(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    with H2Wire(client.address) as h2:
        take = h2.start("GET", f"/jobs/take?queue={queue}")
        while not h2.read_line(take):
            continue
        assert client.job(job_id)["status"] == "in_flight"
        h2.reset(take)
        assert client.when_status(job_id, "ready")["attempts"] == 0
        assert h2.request("GET", "/health").status == 200


def test_an_http_2_error_has_the_same_shape(client: Client) -> None:
    with H2Wire(client.address) as h2:
        missing = h2.request("GET", "/no/such/path", headers=[("accept", "application/msgpack")])
        assert missing.status == 404
        assert msgspec.msgpack.decode(missing.body) == {"error": "not found", "code": "not_found"}
        wrong = h2.request("DELETE", "/health")
        assert wrong.status == 405
        assert wrong.body == b'{"error":"method not allowed","code":"method_not_allowed"}'
        head = h2.request("HEAD", "/health")
        assert (head.status, head.body, head.content_type) == (200, b"", "application/json")


def test_an_http_2_authority_that_is_not_served_is_refused(client: Client) -> None:
    """Guards a browser's user against DNS rebinding. The peer accepts any authority."""
    with H2Wire(client.address) as h2:
        refused = h2.request("GET", "/health", authority="attacker.example")
        assert refused.status == 403
        assert refused.error


def test_zizq_11_a_payload_of_20_megabytes(client: Client, queue: str) -> None:
    payload = "x" * 20_000_000
    job_id = client.enqueue(queue, payload=payload)["id"]
    assert client.job(job_id)["payload"] == payload
    with client.take(queue) as stream:
        assert stream.next_job()["payload"] == payload
        client.succeed(job_id)


@pytest.fixture
def held(client: Client, queue: str) -> object:
    """Three jobs in flight for the length of a test."""
    ids = client.enqueue_many(queue, 3)
    with client.take(queue, prefetch=3) as stream:
        stream.next_jobs(3)
        yield ids


def test_zizq_12_204_has_no_body_and_no_content_type_on_http_1(client: Client, held: list[str]) -> None:
    """What follows on the connection is read as well: a stray body byte would break the next response."""
    with client.wire() as wire:
        for request in (
            f"POST /jobs/{held[0]}/success",
            "POST /jobs/success",
            f"DELETE /jobs/{held[2]}",
        ):
            body = body_of(ids=[held[1]]).decode() if request == "POST /jobs/success" else ""
            wire.send(
                f"{request} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
                f"content-type: application/json\r\n\r\n{body}"
                "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
            )
            answer = wire.read_response()
            assert_no_content(answer)
            assert answer.header("transfer-encoding") is None
            assert wire.read_response().data["status"] == "ok"


def test_zizq_12_204_has_no_body_and_no_content_type_on_http_2(client: Client, held: list[str]) -> None:
    with H2Wire(client.address) as h2:
        assert_no_content(h2.request("POST", f"/jobs/{held[0]}/success"))
        assert_no_content(
            h2.request("POST", "/jobs/success", headers=TYPED_JSON, body=body_of(ids=[held[1]]))
        )
        assert_no_content(h2.request("DELETE", f"/jobs/{held[2]}"))
        assert h2.request("GET", "/health").status == 200


def test_zizq_12_the_204_of_a_reset_is_empty_on_both_http_versions(fresh: Callable[..., Client]) -> None:
    """On a server of its own, since it empties it."""
    client = fresh()
    answer = client.request("POST", "/reset")
    assert_no_content(answer)
    assert answer.header("transfer-encoding") is None
    assert client.get("/health").data["status"] == "ok"
    with H2Wire(client.address) as h2:
        assert_no_content(h2.request("POST", "/reset"))
        assert h2.request("GET", "/health").status == 200


def test_unary_responses_carry_their_length_and_take_streams_are_chunked(
    server: ServerProcess, client: Client, queue: str
) -> None:
    response = client.get("/health")
    assert response.header("content-length") == str(len(response.body))
    assert response.header("transfer-encoding") is None
    with client.take(queue) as stream:
        assert stream.response.header("transfer-encoding") == "chunked"
        assert stream.response.header("content-length") is None


@pytest.mark.parametrize("method_path", ["GET /health", "GET /jobs/count", "GET /queues"])
def test_head_has_the_headers_of_get_and_no_body(client: Client, method_path: str) -> None:
    path = method_path.split()[1]
    get = client.get(path)
    with client.wire() as wire:
        wire.send(f"HEAD {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        head = wire.read_response(head=True)
        assert (head.status, head.content_type) == (get.status, get.content_type)
        assert head.header("content-length") is not None
        wire.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert wire.read_response().status == 200


def test_head_of_a_take_stream_answers_200_and_takes_nothing(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    assert client.request("HEAD", f"/jobs/take?queue={queue}").status == 200
    assert client.job(job_id)["status"] == "ready"
    assert "dequeued_at" not in client.job(job_id)

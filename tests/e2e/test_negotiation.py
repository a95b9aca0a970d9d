"""``Accept`` and ``Content-Type``: which formats are read and written, what is refused, in which order."""

from __future__ import annotations

import json

import msgspec
import pytest

from .client import JSON, MSGPACK, Client
from .stream import MSGPACK_STREAM, NDJSON, SSE

BOTH = [JSON, MSGPACK]


def job_body(queue: str) -> bytes:
    return json.dumps({"type": "t", "queue": queue, "payload": {"a": 1}}).encode()


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON),
        ("application/json, application/msgpack", MSGPACK),
        ("application/msgpack;q=0.1, application/json", MSGPACK),
        (MSGPACK, MSGPACK),
        (JSON, JSON),
        ("*/*", JSON),
        ("text/html, */*;q=0.1", JSON),
    ],
)
def test_zizq_03_accept_chooses_the_format(client: Client, accept: str | None, expected: str) -> None:
    response = client.get("/health", accept=accept)
    assert (response.status, response.content_type) == (200, expected)
    assert response.data["status"] == "ok"


@pytest.mark.parametrize(
    "accept",
    ["text/html", "", "application/*", NDJSON, MSGPACK_STREAM, "Application/JSON", "application/xml"],
)
def test_zizq_04_any_other_accept_is_406_in_json(client: Client, accept: str) -> None:
    response = client.get("/health", accept=accept)
    assert (response.status, response.content_type) == (406, JSON)
    assert response.data == {"error": "not acceptable", "code": "not_acceptable", "supported": BOTH}


def test_only_the_first_accept_header_counts(client: Client) -> None:
    headers = [("accept", "text/html"), ("accept", JSON)]
    assert client.get("/health", headers=headers).status == 406
    assert client.get("/health", headers=headers[::-1]).status == 200


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/merge-patch+json",
        "application/x-msgpack",
        "",
    ],
)
@pytest.mark.parametrize("accept", [None, MSGPACK])
def test_zizq_05_other_content_types_are_415(
    client: Client, queue: str, content_type: str, accept: str | None
) -> None:
    response = client.request(
        "POST", "/jobs", body=job_body(queue), headers=[("content-type", content_type)], accept=accept
    )
    assert (response.status, response.content_type) == (415, accept or JSON)
    assert response.data == {
        "error": "unsupported media type",
        "code": "unsupported_media_type",
        "supported": BOTH,
    }


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/jobs/bulk"), ("POST", "/jobs/success"), ("PATCH", "/jobs?queue=none"), ("PATCH", "/jobs/x")],
)
def test_zizq_05_every_endpoint_with_a_body_looks_at_its_type(
    client: Client, method: str, target: str
) -> None:
    response = client.request(method, target, body=b"{}", headers=[("content-type", "text/plain")])
    assert response.status == 415


@pytest.mark.parametrize("content_type", [None, "application/json; charset=utf-8", JSON])
def test_zizq_06_json_with_no_type_or_parameters(
    client: Client, queue: str, content_type: str | None
) -> None:
    headers = [] if content_type is None else [("content-type", content_type)]
    response = client.request("POST", "/jobs", body=job_body(queue), headers=headers)
    assert response.status == 201
    assert client.job(response.data["id"])["payload"] == {"a": 1}


@pytest.mark.parametrize("accept", BOTH)
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (JSON, b""),
        (JSON, b"{"),
        (JSON, b'{"type":"t","queue":"q","payload":null}x'),
        (JSON, b'{"type":"t","queue":"q","payload":NaN}'),
        (JSON, b'{"type":"t","queue":"q","payload":"\xff"}'),
        (JSON, b'{"type":"t","queue":"q","payload":{"a":01}}'),
        (JSON, b"\xef\xbb\xbf{}"),
        (JSON, b"null"),
        (MSGPACK, b""),
        (MSGPACK, b"\xc1"),
        (MSGPACK, b"\x83\xa4type"),
        (MSGPACK, b"\xdf\xff\xff\xff\xff"),
    ],
)
def test_zizq_07_a_malformed_body_is_400(client: Client, accept: str, content_type: str, body: bytes) -> None:
    response = client.request(
        "POST", "/jobs", body=body, headers=[("content-type", content_type)], accept=accept
    )
    assert (response.status, response.content_type) == (400, accept)
    assert response.error


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/jobs", b'"t"'),
        ("/jobs", b"7"),
        # The peer takes a list for the object with these values in the order of its fields.
        ("/jobs/bulk", b"[[]]"),
        ("/jobs/success", b'[["none"]]'),
    ],
)
def test_zizq_07_a_body_that_is_no_object_is_400(client: Client, target: str, body: bytes) -> None:
    response = client.request("POST", target, body=body)
    assert response.status == 400
    assert response.error


def test_bytes_after_a_messagepack_body_are_400(client: Client, queue: str) -> None:
    """The peer ignores them."""
    body = msgspec.msgpack.encode({"type": "t", "queue": queue, "payload": None})
    response = client.request("POST", "/jobs", body=body + b"\xc0", headers=[("content-type", MSGPACK)])
    assert response.status == 400
    assert client.count(queue=queue) == 0


def test_zizq_08_json_in_messagepack_out(client: Client, queue: str) -> None:
    fields = {"type": "t", "queue": queue, "payload": {"deep": [1, {"x": None}]}, "priority": 3}
    response = client.post("/jobs", fields, accept=MSGPACK)
    assert (response.status, response.content_type) == (201, MSGPACK)
    job = response.data
    assert isinstance(job, dict)
    assert all(isinstance(key, str) for key in job)
    read = client.get(f"/jobs/{job['id']}", accept=MSGPACK)
    assert read.data["payload"] == {"deep": [1, {"x": None}]}


def test_zizq_08_messagepack_in_json_out(client: Client, queue: str) -> None:
    packed = {"type": "t", "queue": queue, "payload": {"n": -7, "s": "ü"}}
    response = client.request("POST", "/jobs", packed=packed, accept=JSON)
    assert (response.status, response.content_type) == (201, JSON)
    assert client.job(response.data["id"])["payload"] == {"n": -7, "s": "ü"}


def test_zizq_08_messagepack_integers_are_in_their_shortest_form(client: Client, queue: str) -> None:
    response = client.post(
        "/jobs", {"type": "t", "queue": queue, "payload": None, "priority": 300}, accept=MSGPACK
    )
    # After the keys: 300 in two bytes behind 0xcd, 0 in one byte, an instant in eight behind 0xcf.
    shortest = [b"\xa8priority\xcd\x01\x2c", b"\xa8attempts\x00", b"\xa8ready_at\xcf\x00\x00"]
    page = client.get(f"/jobs?queue={queue}", accept=MSGPACK)
    for body in (response.body, page.body):
        assert [part in body for part in shortest] == [True, True, True]


def test_json_answers_are_compact(client: Client, queue: str) -> None:
    response = client.post("/jobs", {"type": "t", "queue": queue, "payload": None})
    assert response.body == json.dumps(response.data, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, NDJSON),
        (NDJSON, NDJSON),
        (JSON, NDJSON),
        ("*/*", NDJSON),
        (MSGPACK_STREAM, MSGPACK_STREAM),
        (MSGPACK, MSGPACK_STREAM),
        ("application/msgpack, application/x-ndjson", MSGPACK_STREAM),
        (SSE, SSE),
        ("application/json, text/event-stream", SSE),
    ],
)
def test_accept_of_a_take_stream(client: Client, queue: str, accept: str | None, expected: str) -> None:
    with client.take(queue, accept=accept) as stream:
        assert stream.response.content_type == expected
        if expected == SSE:
            assert stream.response.header("cache-control") == "no-cache"


def test_accept_of_a_take_stream_that_is_not_served(client: Client) -> None:
    response = client.get("/jobs/take", accept="text/html")
    assert (response.status, response.content_type) == (406, JSON)
    supported = [SSE, NDJSON, MSGPACK_STREAM]
    assert response.data == {"error": "not acceptable", "code": "not_acceptable", "supported": supported}


def test_order_of_the_checks(client: Client) -> None:
    """Route and method, then ``Accept``, then ``Content-Type``, then the body."""
    plain = [("content-type", "text/plain")]
    assert client.request("PUT", "/jobs", body=b"x", headers=plain, accept="text/html").status == 405
    assert client.request("GET", "/nowhere", accept="text/html").status == 406
    assert client.request("POST", "/jobs", body=b"x", headers=plain, accept="text/html").status == 406
    assert client.request("POST", "/jobs", body=b"x", headers=plain).status == 415
    assert client.request("POST", "/jobs", body=b"x").status == 400
    assert client.request("PATCH", "/jobs?nonsense=1", body=b"x").error.startswith("invalid JSON")


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("POST", "/jobs/none/success", 404),
        ("DELETE", "/jobs/none", 404),
        ("GET", "/health", 200),
        ("DELETE", "/jobs?queue=none", 200),
    ],
)
def test_endpoints_without_a_body_ignore_one(client: Client, method: str, target: str, status: int) -> None:
    response = client.request(method, target, body=b"{not json", headers=[("content-type", "text/plain")])
    assert response.status == status

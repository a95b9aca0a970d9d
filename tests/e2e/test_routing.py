"""Which paths, methods and query parameters exist, and what the others answer."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from .client import JSON, MSGPACK, Client
from .wire import Response


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/nowhere"),
        ("GET", "/jobs/"),
        ("POST", "/jobs/"),
        ("GET", "/health/"),
        ("GET", "/jobs/x/errors/1/2"),
        ("POST", "/jobs/x/nothing"),
        ("GET", "//health"),
        ("GET", "/HEALTH"),
    ],
)
def test_zizq_09_unknown_paths_are_404(client: Client, method: str, path: str) -> None:
    response = client.request(method, path)
    assert (response.status, response.content_type) == (404, JSON)
    assert response.data == {"error": "not found", "code": "not_found"}


def test_zizq_09_404_is_in_the_negotiated_format(client: Client) -> None:
    response = client.get("/nowhere", accept=MSGPACK)
    assert (response.status, response.content_type) == (404, MSGPACK)
    assert response.data == {"error": "not found", "code": "not_found"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/health", {"GET", "HEAD"}),
        ("PUT", "/jobs", {"GET", "HEAD", "POST", "PATCH", "DELETE"}),
        ("GET", "/jobs/bulk", {"POST"}),
        ("POST", "/jobs/take", {"GET", "HEAD"}),
        ("GET", "/jobs/success", {"POST"}),
        ("POST", "/jobs/count", {"GET", "HEAD"}),
        ("PUT", "/jobs/some-id", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("GET", "/jobs/some-id/success", {"POST"}),
        ("GET", "/jobs/some-id/failure", {"POST"}),
        ("DELETE", "/jobs/some-id/errors", {"GET", "HEAD"}),
        ("GET", "/reset", {"POST"}),
    ],
)
def test_zizq_09_a_wrong_method_is_405_with_allow(
    client: Client, method: str, path: str, allowed: set[str]
) -> None:
    """Literal segments win: ``bulk``, ``success``, ``count`` and ``take`` are never read as ids."""
    response = client.request(method, path)
    assert (response.status, response.data) == (
        405,
        {"error": "method not allowed", "code": "method_not_allowed"},
    )
    allow = response.header("allow")
    assert allow is not None
    assert {name.strip() for name in allow.split(",")} == allowed


@pytest.mark.parametrize("target", ["/jobs?", "/jobs/count?", "/health?", "/queues?"])
def test_zizq_10_an_empty_query_is_no_query(client: Client, target: str) -> None:
    assert client.get(target).status == 200


def test_zizq_10_an_empty_query_on_the_other_methods(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    assert client.get(f"/jobs/{job_id}/errors?").status == 200
    assert client.post("/jobs?", {"type": "t", "queue": queue, "payload": 1}).status == 201


STRICT = [
    "GET /jobs",
    "PATCH /jobs",
    "DELETE /jobs",
    "GET /jobs/count",
    "GET /jobs/take",
    "GET /jobs/{id}/errors",
]


def ask(client: Client, queue: str, endpoint: str, query: str) -> Response:
    """Ask an endpoint, with the id of a new job where its path wants one."""
    method, path = endpoint.split()
    job_id = client.enqueue(queue)["id"]
    return client.request(method, f"{path.format(id=job_id)}?{query}", data={} if method == "PATCH" else None)


@pytest.mark.parametrize("endpoint", STRICT)
@pytest.mark.parametrize("query", ["nonsense=1", "Queue=a", "queue[]=a"])
def test_zizq_13_unknown_query_parameters_are_400(
    client: Client, queue: str, endpoint: str, query: str
) -> None:
    """The two framework answers that are ``text/plain`` in the peer are JSON like every other error."""
    response = ask(client, queue, endpoint, query)
    assert (response.status, response.content_type) == (400, JSON)
    assert response.error
    assert client.count(queue=queue) == 1


@pytest.mark.parametrize(
    ("endpoint", "query"),
    [
        ("GET /jobs", "queue=none&queue=none"),
        ("PATCH /jobs", "queue=none&queue=none"),
        ("DELETE /jobs", "queue=none&queue=none"),
        ("GET /jobs/count", "status=ready&status=ready"),
        ("GET /jobs/take", "prefetch=1&prefetch=1"),
        ("GET /jobs/{id}/errors", "limit=1&limit=1"),
    ],
)
def test_a_repeated_query_parameter_is_400(client: Client, queue: str, endpoint: str, query: str) -> None:
    response = ask(client, queue, endpoint, query)
    assert (response.status, response.content_type) == (400, JSON)
    assert response.error
    assert client.count(queue=queue) == 1


def test_unknown_query_parameters_are_ignored_elsewhere(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    assert client.get("/health?a=1&a=2").status == 200
    assert client.get("/queues?a=1").status == 200
    assert client.get(f"/jobs/{job_id}?a=1").status == 200
    assert client.post("/jobs?a=1", {"type": "t", "queue": queue, "payload": 1}).status == 201


def test_zizq_13_unknown_body_fields_are_ignored(client: Client, queue: str) -> None:
    job = client.enqueue(queue, nonsense={"deep": [1]}, status="dead", attempts=9, budget="b")
    assert (job["status"], job["attempts"]) == ("ready", 0)
    with client.take(queue) as stream:
        stream.next_job()
        assert client.fail(job["id"], nonsense=1)["attempts"] == 1
    changed = client.patch(f"/jobs/{job['id']}", {"type": "other", "payload": 1, "status": "dead"})
    assert (changed.status, changed.data["type"], changed.data["status"]) == (200, "work", "scheduled")
    assert client.post("/jobs/bulk", {"jobs": [], "more": 1}).status == 201


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("a b", "a+b"),
        ("a b", "a%20b"),
        ("a+b", "a%2Bb"),
        ("a/b:c.d", "a/b:c.d"),
        ("ü&=#", "%C3%BC%26%3D%23"),
        ("100%zz", "100%zz"),
    ],
)
def test_query_values_are_decoded_by_form_rules(client: Client, queue: str, name: str, query: str) -> None:
    job_id = client.enqueue(f"{queue} {name}")["id"]
    found = client.get(f"/jobs?queue={queue}+{query}")
    assert [job["id"] for job in found.data["jobs"]] == [job_id]


def test_invalid_utf_8_in_a_query_becomes_the_replacement_character(client: Client, queue: str) -> None:
    job_id = client.enqueue(f"{queue}\ufffd")["id"]
    found = client.get(f"/jobs?queue={queue}%FF")
    assert [job["id"] for job in found.data["jobs"]] == [job_id]


def test_a_path_segment_is_percent_decoded_once(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    encoded = f"%{ord(job_id[0]):02X}{job_id[1:]}"
    assert client.get(f"/jobs/{encoded}").data["id"] == job_id
    assert client.get(f"/jobs/%25{encoded[1:]}").status == 404
    assert client.get(f"/jobs/{job_id}%2Ferrors").data == {
        "error": "job not found",
        "code": "not_found",
    }


def test_a_path_that_is_not_utf_8_is_400(client: Client) -> None:
    assert client.get("/jobs/%FF").status == 400


@pytest.mark.parametrize(
    "job_id", ["x", "ABCDEFGHIJKLMNOPQRSTUVWXY", "a" * 24, "a" * 26, "0" * 25, "é", "a%00b"]
)
def test_zizq_71_a_malformed_id_in_the_path_is_404(client: Client, job_id: str) -> None:
    path = "/jobs/" + quote(job_id, safe="%")
    for method, target in [("GET", path), ("DELETE", path), ("GET", path + "/errors")]:
        response = client.request(method, target)
        assert (response.status, response.error) == (404, "job not found")
    assert client.patch(path, {}).error == "job not found"
    for response in (client.post(path + "/success"), client.post(path + "/failure", {"message": "m"})):
        assert (response.status, response.error) == (404, "job not found in in-flight set")

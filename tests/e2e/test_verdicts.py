"""Who may come in is decided by a request's head: at once, before a body is invited or read, on both HTTP versions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .client import Client
from .h2wire import H2Wire
from .server import ServerProcess
from .stream import TakeStream
from .wire import request_bytes

ANNOUNCED = ("content-length", "1000")
EXPECT = ("expect", "100-continue")
FORM = [("content-type", "text/plain"), ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")]


@pytest.mark.parametrize(
    "headers", [[ANNOUNCED], [ANNOUNCED, EXPECT], [("transfer-encoding", "chunked"), EXPECT]]
)
def test_without_the_token_a_head_is_answered_at_once(
    fresh: Callable[..., Client], headers: list[tuple[str, str]]
) -> None:
    with fresh(token="s3cret").wire() as wire:
        wire.send(request_bytes("POST", "/jobs", headers=headers))
        answer = wire.read_response()
        assert (answer.status, answer.header("connection")) == (401, "close")
        assert answer.data["code"] == "unauthorized"
        assert wire.read_eof() == b""


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [("/nowhere", "localhost", 404), ("/health", "localhost", 405), ("/jobs", "evil.example", 403)],
)
def test_what_leads_nowhere_is_answered_before_its_body(
    client: Client, target: str, host: str, status: int
) -> None:
    with client.wire() as wire:
        wire.send(request_bytes("POST", target, headers=[("host", host), ANNOUNCED, EXPECT]))
        answer = wire.read_response()
        assert (answer.status, answer.header("connection")) == (status, "close")
        assert wire.read_eof() == b""


def test_a_page_of_another_site_can_neither_store_nor_take_nor_delete(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    for method, path in [
        ("POST", "/jobs"),
        ("GET", f"/jobs/take?queue={queue}"),
        ("DELETE", f"/jobs?queue={queue}"),
        ("GET", f"/jobs/{job_id}"),
        ("GET", "/health"),
    ]:
        answer = client.request(method, path, headers=FORM)
        assert (answer.status, answer.data["code"]) == (403, "cross_site")
        with H2Wire(client.address) as h2:
            assert h2.request(method, path, headers=FORM[1:]).status == 403
    assert client.job(job_id)["status"] == "ready"


def test_a_link_from_another_site_opens_the_lab(client: Client) -> None:
    link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]
    assert client.get("/lab", headers=link).status == 200
    assert client.get("/health", headers=link).status == 403


def test_an_allowed_origin_may_use_the_api(fresh: Callable[..., Client], queue: str) -> None:
    client = fresh(allow_origin="https://one.example,https://two.example", token="s3cret")
    origin = ("origin", "https://two.example")
    question = [origin, ("access-control-request-method", "POST")]
    preflight = client.request("OPTIONS", "/jobs", headers=question)
    assert preflight.status == 204
    assert preflight.header("access-control-allow-origin") == "https://two.example"
    refused = client.get("/queues", headers=[origin])
    assert (refused.status, refused.header("access-control-allow-origin")) == (401, "https://two.example")
    answer = client.get("/queues", headers=[origin, ("authorization", "Bearer s3cret")])
    assert (answer.status, answer.header("access-control-allow-origin")) == (200, "https://two.example")
    assert client.get("/queues", headers=[("origin", "https://three.example")]).status == 403


def test_http_1_0_needs_no_host(client: Client) -> None:
    with client.wire() as wire:
        wire.send(b"GET /health HTTP/1.0\r\n\r\n")
        assert wire.read_response().data["status"] == "ok"


def test_event_streams_end_at_once_when_the_server_stops(
    fresh_server: Callable[..., ServerProcess],
) -> None:
    server = fresh_server(drain_timeout="1h")
    client = Client(server.address)
    with TakeStream(client.wire(), "/jobs/take", accept="text/event-stream") as stream:
        assert stream.response.status == 200
        assert server.terminate() == 0
        assert stream.read_end() == []

"""HTTP/1.1 byte by byte: what a persistent connection must do for its clients."""

from __future__ import annotations

import itertools
import json
import socket

import pytest

from .client import Client
from .stream import TakeStream
from .wire import Wire, request_bytes

HEALTH = request_bytes("GET", "/health")
BYE = ("connection", "close")


def job_body(queue: str, payload: object = None) -> bytes:
    return json.dumps({"type": "t", "queue": queue, "payload": payload}).encode()


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def exchange(client: Client, data: bytes) -> list[int]:
    """Send bytes, half-close, and return the status of every answer up to the server's end."""
    with client.wire() as wire:
        wire.send(data)
        wire.half_close()
        statuses = []
        while wire.wait_for_input():
            statuses.append(wire.read_response().status)
        return statuses


def test_a_connection_stays_open(client: Client) -> None:
    with client.wire() as wire:
        for _ in range(3):
            wire.send(HEALTH)
            response = wire.read_response()
            assert (response.status, response.version) == (200, "HTTP/1.1")
            assert response.header("connection") in (None, "keep-alive")


def test_a_connection_stays_open_after_an_error(client: Client) -> None:
    with client.wire() as wire:
        for target, status in [("/nowhere", 404), ("/jobs?x=1", 400), ("/jobs/bulk", 405), ("/health", 200)]:
            wire.send(request_bytes("GET", target))
            assert wire.read_response().status == status
        wire.send(request_bytes("POST", "/jobs", body=b"no json"))
        assert wire.read_response().status == 400
        wire.send(HEALTH)
        assert wire.read_response().status == 200


def test_connection_close_is_honoured(client: Client) -> None:
    with client.wire() as wire:
        wire.send(request_bytes("GET", "/health", headers=[BYE]) + HEALTH)
        response = wire.read_response()
        assert (response.status, response.header("connection")) == (200, "close")
        assert wire.read_eof() == b""


def test_pipelined_requests_are_answered_in_order(client: Client, queue: str) -> None:
    """Stored, refused and read ones mixed: each takes its own way through the server."""
    requests = []
    for n in range(100):
        requests.append(request_bytes("POST", "/jobs", body=job_body(queue, n)))
        requests.append(request_bytes("GET", f"/jobs/missing-{n}"))
        requests.append(request_bytes("POST", "/jobs", body=b"{"))
        requests.append(HEALTH)
    with client.wire() as wire:
        wire.send(b"".join(requests))
        answers = [wire.read_response() for _ in requests]
    assert [answer.status for answer in answers] == [201, 404, 400, 200] * 100
    ids = [answer.data["id"] for answer in answers[::4]]
    assert ids == sorted(ids)
    assert [job["payload"] for job in client.jobs(queue=queue, limit=100)] == list(range(100))


def test_a_pipelined_read_sees_the_write_before_it(client: Client, queue: str) -> None:
    with client.wire() as wire:
        for n in range(1, 20):
            wire.send(
                request_bytes("POST", "/jobs", body=job_body(queue))
                + request_bytes("GET", f"/jobs/count?queue={queue}")
            )
            assert wire.read_response().status == 201
            assert wire.read_response().data == {"count": n}


def test_chunked_bodies(client: Client, queue: str) -> None:
    body = job_body(queue, "ä" * 1000)
    headers = [("transfer-encoding", "chunked")]
    pieces = [body[at : at + 100] for at in range(0, len(body), 100)]
    extended = b"".join(b"%X;name=value\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"000\r\n\r\n"
    with client.wire() as wire:
        for text in (chunked(body), chunked(*pieces), extended):
            wire.send(request_bytes("POST", "/jobs", headers=headers, body=text) + HEALTH)
            assert wire.read_response().status == 201
            assert wire.read_response().status == 200
    assert [job["payload"] for job in client.jobs(queue=queue)] == ["ä" * 1000] * 3


def test_a_chunked_body_with_trailers(client: Client, queue: str) -> None:
    """The trailers are read and dropped. The peer hangs up after the answer."""
    body = job_body(queue)
    text = b"%x\r\n%s\r\n0\r\nx-check: 1\r\ncontent-length: 7\r\n\r\n" % (len(body), body)
    with client.wire() as wire:
        wire.send(
            request_bytes("POST", "/jobs", headers=[("transfer-encoding", "chunked")], body=text) + HEALTH
        )
        assert wire.read_response().status == 201
        assert wire.read_response().status == 200


def test_requests_may_arrive_byte_by_byte(client: Client, queue: str) -> None:
    requests = request_bytes("POST", "/jobs", body=job_body(queue)) + request_bytes(
        "POST", "/jobs", headers=[("transfer-encoding", "chunked")], body=chunked(job_body(queue))
    )
    with client.wire() as wire:
        for at in range(len(requests)):
            wire.send(requests[at : at + 1])
        assert [wire.read_response().status for _ in range(2)] == [201, 201]


def test_every_cut_of_a_request_in_two_is_the_same_request(client: Client, queue: str) -> None:
    request = request_bytes("POST", "/jobs", body=job_body(queue))
    with client.wire() as wire:
        for at in range(1, len(request), 7):
            wire.send(request[:at])
            wire.send(request[at:])
            assert wire.read_response().status == 201


def test_expect_100_continue(client: Client, queue: str) -> None:
    body = job_body(queue)
    headers = [("expect", "100-continue"), ("content-length", str(len(body)))]
    with client.wire() as wire:
        wire.send(request_bytes("POST", "/jobs", headers=headers))
        assert wire.read_response().status == 100
        wire.send(body)
        assert wire.read_response().status == 201
        wire.send(HEALTH)
        assert wire.read_response().status == 200


def test_expect_100_continue_with_the_body_at_once(client: Client, queue: str) -> None:
    with client.wire() as wire:
        wire.send(request_bytes("POST", "/jobs", headers=[("expect", "100-continue")], body=job_body(queue)))
        response = wire.read_response()
        if response.status == 100:
            response = wire.read_response()
        assert response.status == 201


def test_expect_100_continue_of_a_body_that_is_too_large(client: Client) -> None:
    """The refusal takes the place of the invitation. The peer has no limit."""
    headers = [("expect", "100-continue"), ("content-length", str(80 << 20))]
    with client.wire() as wire:
        wire.send(request_bytes("POST", "/jobs", headers=headers))
        assert wire.read_response().status == 413


def test_head_has_no_body_even_for_errors(client: Client) -> None:
    with client.wire() as wire:
        for target, status in [
            ("/nowhere", 404),
            ("/jobs?x=1", 400),
            ("/health", 200),
            ("/jobs/x/success", 405),
        ]:
            wire.send(request_bytes("HEAD", target) + HEALTH)
            assert wire.read_response(head=True).status == status
            assert wire.read_response().data["status"] == "ok"


def test_http_1_0_ends_with_its_answer(client: Client) -> None:
    with client.wire() as wire:
        wire.send(request_bytes("GET", "/health", version="HTTP/1.0"))
        response = wire.read_response()
        assert (response.status, response.data["status"]) == (200, "ok")
        assert wire.read_eof() == b""


def test_http_1_0_may_ask_for_more(client: Client) -> None:
    with client.wire() as wire:
        for _ in range(2):
            wire.send(
                request_bytes("GET", "/health", version="HTTP/1.0", headers=[("connection", "keep-alive")])
            )
            response = wire.read_response()
            assert response.status == 200
            assert (response.header("connection") or "").lower() == "keep-alive"


def test_http_1_0_reads_a_take_stream_without_chunks(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    with TakeStream(client.wire(), f"/jobs/take?queue={queue}", version="HTTP/1.0") as stream:
        assert stream.response.header("transfer-encoding") is None
        assert stream.next_job()["id"] == job_id
        stream.expect_idle()


def test_absolute_form_targets(client: Client, queue: str) -> None:
    host, port = client.address
    with client.wire() as wire:
        for base in (f"http://{host}:{port}", "http://localhost", "HTTP://LOCALHOST:80"):
            wire.send(request_bytes("GET", f"{base}/jobs/count?queue={queue}"))
            assert wire.read_response().data == {"count": 0}


@pytest.mark.parametrize("request_line", [b"OPTIONS * HTTP/1.1", b"CONNECT localhost:80 HTTP/1.1"])
def test_other_targets_are_refused(client: Client, request_line: bytes) -> None:
    with client.wire() as wire:
        wire.send(request_line + b"\r\nhost: localhost\r\n\r\n")
        assert 400 <= wire.read_response().status < 600


def test_a_half_closed_client_gets_its_answers(client: Client, queue: str) -> None:
    """The peer drops the last one."""
    stored = request_bytes("POST", "/jobs", body=job_body(queue))
    assert exchange(client, HEALTH) == [200]
    assert exchange(client, stored * 20) == [201] * 20
    assert client.count(queue=queue) == 20


@pytest.mark.parametrize("cut", [0, 10, -50, -1])
def test_a_request_that_never_ends_has_no_effect(client: Client, queue: str, cut: int) -> None:
    request = request_bytes("POST", "/jobs", body=job_body(queue))[:cut]
    assert exchange(client, request) in ([], [400])
    assert client.count(queue=queue) == 0


def test_vanished_clients_do_no_harm(client: Client, queue: str) -> None:
    """Reset in the middle of a request, of an answer, of a stream."""
    request = request_bytes("POST", "/jobs", body=job_body(queue, "x" * 100_000))
    for data in (request[:20], request[:-1], request * 3, request_bytes("GET", "/jobs?limit=2000") * 20):
        wire = client.wire()
        wire.send(data)
        wire.reset()
    assert client.get("/health").status == 200


def test_empty_lines_before_a_request_are_skipped(client: Client) -> None:
    with client.wire() as wire:
        wire.send(b"\r\n" + HEALTH + b"\r\n" + HEALTH)
        assert [wire.read_response().status for _ in range(2)] == [200, 200]


def test_header_names_are_case_insensitive_and_values_trimmed(client: Client, queue: str) -> None:
    body = job_body(queue)
    with client.wire() as wire:
        wire.send(
            b"POST /jobs HTTP/1.1\r\nHOST:\t localhost \t\r\nCoNtEnT-LeNgTh:%d\r\n"
            b"Content-TYPE:   application/json\t\r\nX-Empty:\r\n\r\n%s" % (len(body), body)
        )
        assert wire.read_response().status == 201


@pytest.mark.parametrize(
    "name", ["localhost", "127.0.0.1", "[::1]", "LocalHost", "127.0.0.1:1", "localhost:7890"]
)
def test_loopback_names_are_served(client: Client, name: str) -> None:
    assert client.get("/health", headers=[("host", name)]).status == 200


def test_ipv4_connections_of_many_clients_at_once(client: Client, queue: str) -> None:
    wires = [client.wire() for _ in range(100)]
    try:
        for wire, n in zip(wires, itertools.count(), strict=False):
            wire.send(request_bytes("POST", "/jobs", body=job_body(queue, n)))
        assert {wire.read_response().status for wire in wires} == {201}
    finally:
        for wire in wires:
            wire.close()
    assert client.count(queue=queue) == 100


def test_a_slow_reader_gets_a_large_answer_whole(client: Client, queue: str) -> None:
    """An answer far larger than the socket's buffers, asked for twice before a byte is read."""
    payload = "x" * 100_000
    client.enqueue_many(queue, 100, payload=payload)
    request = request_bytes("GET", f"/jobs?queue={queue}&limit=100")
    with client.wire() as wire:
        wire.send(request * 2)
        assert client.get("/health").status == 200
        for _ in range(2):
            assert [job["payload"] for job in wire.read_response().data["jobs"]] == [payload] * 100
    client.delete(f"/jobs?queue={queue}")


def test_the_port_is_not_shared_with_another_protocol(client: Client) -> None:
    """Something that is neither HTTP version is told so, or hung up on, and never hangs."""
    for greeting in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"+HI\r\n\r\n",
        b"\0" * 50,
    ):
        with Wire(client.address) as wire:
            wire.send(greeting)
            wire.half_close()
            answer = wire.read_eof()
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    with socket.create_connection(client.address, timeout=5):
        pass

"""What Zizq's own clients and their test harnesses need, found by running them against this server."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from .client import MSGPACK, Client
from .server import ServerProcess

KEPT_BYTES = {"message": 65_536, "error_type": 1_024, "backtrace": 262_144}


def test_zizq_95_the_readiness_line_has_no_spaces(fresh_server: Callable[..., ServerProcess]) -> None:
    """The harnesses of the Ruby, Node, Rust and Elixir clients look for these bytes, not for the JSON."""
    server = fresh_server()
    (line,) = [line for line in server.output if '"api":"primary"' in line]
    host, port = server.address
    assert f'"addr":"{host}:{port}","scheme":"http"' in line


@pytest.mark.parametrize("field", ["message", "error_type", "backtrace"])
def test_a_long_text_of_a_failure_is_cut_not_refused(client: Client, queue: str, field: str) -> None:
    """Every client drops a failure report that got a 4xx; the job would keep its slot as long as they live."""
    job_id = client.enqueue(queue)["id"]
    following = client.enqueue(queue)["id"]
    kept = KEPT_BYTES[field]
    with client.take(queue, prefetch=1) as stream:
        assert stream.next_job()["id"] == job_id
        report = {"message": "m", field: "a" + "ü" * 1_000_000 + "z"}
        assert client.fail(job_id, **report)["status"] == "scheduled"
        assert stream.next_job()["id"] == following
    text = client.errors(job_id)[0][field]
    head, cut, tail = re.fullmatch(r"(aü+)\[\.\.\. (\d+) bytes cut \.\.\.\](ü+z)", text).groups()  # type: ignore[union-attr]
    assert len(head.encode()) + int(cut) + len(tail.encode()) == 2_000_002
    assert kept - 3 <= len(text.encode()) <= kept


@pytest.mark.parametrize("field", ["message", "error_type", "backtrace"])
def test_the_longest_text_of_a_failure_is_kept_whole(client: Client, queue: str, field: str) -> None:
    job_id = client.enqueue(queue)["id"]
    text = "ü" * (KEPT_BYTES[field] // 2)
    client.run_one(queue, lambda held: client.fail(held, **{"message": "m", field: text}))
    assert client.errors(job_id)[0][field] == text


@pytest.mark.parametrize("field", ["message", "error_type", "backtrace"])
def test_a_binary_text_of_a_failure_is_text(client: Client, queue: str, field: str) -> None:
    """MessagePack's bin (0xc4), as the Ruby client sends a text whose encoding Ruby calls binary: "grün" here."""
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        members = [b"\xa7message\xa1m"] if field != "message" else []
        members.append(bytes([0xA0 + len(field)]) + field.encode() + b"\xc4\x05gr\xc3\xbcn")
        body = bytes([0x80 + len(members)]) + b"".join(members)
        headers = [("content-type", MSGPACK)]
        assert client.request("POST", f"/jobs/{job_id}/failure", body=body, headers=headers).status == 200
    assert client.errors(job_id)[0][field] == "grün"


def test_binary_names_and_ids_are_text(client: Client, queue: str) -> None:
    """``{"type": "t", "queue": …, "payload": nil}`` and ``{"ids": […]}`` with every text packed as bin."""
    headers = [("content-type", MSGPACK)]
    name = b"\xc4" + bytes([len(queue)]) + queue.encode()
    body = b"\x83\xa4type\xc4\x01t\xa5queue" + name + b"\xa7payload\xc0"
    job = client.request("POST", "/jobs", body=body, headers=headers)
    assert (job.status, job.data["type"], job.data["queue"]) == (201, "t", queue)
    with client.take(queue) as stream:
        stream.next_job()
        ids = b"\x81\xa3ids\x91\xc4\x19" + job.data["id"].encode()
        assert client.request("POST", "/jobs/success", body=ids, headers=headers).status == 204


def test_binary_that_is_no_text_is_400(client: Client, queue: str) -> None:
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        body = b"\x81\xa7message\xc4\x02\xff\xfe"
        response = client.request(
            "POST", f"/jobs/{job_id}/failure", body=body, headers=[("content-type", MSGPACK)]
        )
        assert response.status == 400
        assert response.error.startswith("message: expected str, got bytes")


def test_binary_in_a_payload_is_400(client: Client, queue: str) -> None:
    """JSON has no such thing, and nobody could tell it from text afterwards."""
    body = b"\x83\xa4type\xa1t\xa5queue\xa1q\xa7payload\xc4\x02ab"
    assert client.request("POST", "/jobs", body=body, headers=[("content-type", MSGPACK)]).status == 400

"""What numbers, payloads and keys survive the way in and out (encoding rules of the API)."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from .client import JSON, MSGPACK, Client, now_ms


def raw_job(queue: str, tail: str) -> bytes:
    """A JSON enqueue body with text of one's own after the names."""
    return f'{{"type":"t","queue":"{queue}",{tail}}}'.encode()


@pytest.mark.parametrize(
    "payload",
    [
        None,
        True,
        0,
        -1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        -(2**63),
        0.1,
        1e300,
        -2.5,
        "",
        "naïve ☃ \U0001f600",
        "nul \0 and \x1f and \x7f",
        [],
        {},
        {"": {"": []}},
        [[1, [2, {"k": [None, False]}]], "x"],
        {"é": 1, "z": 1, "a": {"b": 2}},
    ],
)
def test_payloads_come_back_as_they_went_in(client: Client, queue: str, payload: Any) -> None:
    ids = [
        client.post("/jobs", {"type": "t", "queue": queue, "payload": payload}).data["id"],
        client.request("POST", "/jobs", packed={"type": "t", "queue": queue, "payload": payload}).data["id"],
    ]
    for job_id in ids:
        for accept in (JSON, MSGPACK):
            found = client.get(f"/jobs/{job_id}", accept=accept).data["payload"]
            assert found == payload
            assert type(found) is type(payload)


def test_integers_above_64_bits_become_floats(client: Client, queue: str) -> None:
    response = client.request("POST", "/jobs", body=raw_job(queue, f'"payload":{2**70}'))
    assert response.status == 201
    assert client.get(f"/jobs/{response.data['id']}", accept=MSGPACK).data["payload"] == float(2**70)


def test_of_a_repeated_key_inside_the_payload_the_last_one_wins(client: Client, queue: str) -> None:
    response = client.request("POST", "/jobs", body=raw_job(queue, '"payload":{"a":1,"b":2,"a":3}'))
    assert client.job(response.data["id"])["payload"] == {"a": 3, "b": 2}
    assert client.get(f"/jobs/{response.data['id']}", accept=MSGPACK).data["payload"] == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("tail", "field", "value"),
    [
        ('"payload":1,"payload":2', "payload", 2),
        ('"payload":1,"type":"u"', "type", "u"),
        (
            '"payload":1,"backoff":{"exponent":1,"exponent":2,"base_ms":1,"jitter_ms":1}',
            "backoff",
            {"exponent": 2.0, "base_ms": 1, "jitter_ms": 1},
        ),
        ('"payload":1,"retention":{"dead_ms":1,"dead_ms":2}', "retention", {"dead_ms": 2}),
    ],
)
def test_of_a_repeated_key_the_last_one_counts(
    client: Client, queue: str, tail: str, field: str, value: Any
) -> None:
    """The peer answers 400."""
    one = client.request("POST", "/jobs", body=raw_job(queue, tail))
    many = client.request("POST", "/jobs/bulk", body=b'{"jobs":[' + raw_job(queue, tail) + b"]}")
    assert (one.status, many.status) == (201, 201)
    for job_id in (one.data["id"], many.data["jobs"][0]["id"]):
        assert client.job(job_id)[field] == value


def test_of_a_repeated_key_in_other_bodies_the_last_one_counts(client: Client, queue: str) -> None:
    job_id, other = client.enqueue_many(queue, 2)
    with client.take(queue, prefetch=2) as stream:
        stream.next_job()
        stream.next_job()
        assert (
            client.request("POST", f"/jobs/{job_id}/failure", body=b'{"message":"a","message":"b"}').status
            == 200
        )
        assert client.get(f"/jobs/{job_id}/errors/1").data["message"] == "b"
        assert (
            client.request("POST", "/jobs/success", body=f'{{"ids":[],"ids":["{other}"]}}'.encode()).status
            == 204
        )
    patched = client.request("PATCH", f"/jobs/{job_id}", body=b'{"priority":1,"priority":2}')
    assert patched.data["priority"] == 2


def test_of_a_repeated_key_in_messagepack_the_last_one_counts(client: Client, queue: str) -> None:
    pack = msgspec.msgpack.encode
    pairs = [("type", "t"), ("queue", queue), ("payload", 1), ("type", "u")]
    body = bytes([0x80 | len(pairs)]) + b"".join(pack(part) for pair in pairs for part in pair)
    stored = client.request("POST", "/jobs", body=body, headers=[("content-type", MSGPACK)])
    assert client.job(stored.data["id"])["type"] == "u"


@pytest.mark.parametrize("number", ["1e999", "-1e309", "1" + "0" * 309, "[1,1E+400]", '{"a":{"b":[1e400]}}'])
def test_payload_numbers_out_of_range_are_400(client: Client, queue: str, number: str) -> None:
    body = raw_job(queue, f'"payload":{number}')
    for path, sent in (("/jobs", body), ("/jobs/bulk", b'{"jobs":[' + body + b"]}")):
        response = client.request("POST", path, body=sent)
        assert (response.status, "payload: number out of range" in response.error) == (400, True)
    assert client.count(queue=queue) == 0


@pytest.mark.parametrize("value", ["1000.5", '"5"', "-1", "true", "[]", "4294967296", "1e400"])
@pytest.mark.parametrize("field", ["retry_limit", "base_ms", "jitter_ms"])
def test_integer_fields_refuse_everything_else(client: Client, queue: str, field: str, value: str) -> None:
    members = {"exponent": "1", "base_ms": "1", "jitter_ms": "1"}
    if field in members:
        members |= {field: value}
    backoff = ",".join(f'"{name}":{text}' for name, text in members.items())
    tail = f'"payload":1,"backoff":{{{backoff}}}'
    if field == "retry_limit":
        tail += f',"retry_limit":{value}'
    assert client.request("POST", "/jobs", body=raw_job(queue, tail)).status == 400


@pytest.mark.parametrize(
    ("field", "value"),
    [("priority", 5.0), ("retry_limit", 3.0), ("ready_at", 1.6e12), ("retention", {"dead_ms": 6e4})],
)
def test_whole_floats_are_taken_for_integers_in_every_numeric_field(
    client: Client, queue: str, field: str, value: Any
) -> None:
    """The peer answers 400."""
    fields = {"type": "t", "queue": queue, "payload": 1, field: value}
    for answer in (client.post("/jobs", fields), client.request("POST", "/jobs", packed=fields, accept=JSON)):
        assert answer.status == 201
        assert answer.data[field] == value
        assert b".0" not in answer.body


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("4", "4.0"),
        ("4.0", "4.0"),
        ("0", "0.0"),
        ("0.1", "0.1"),
        ("1.5", "1.5"),
        ("2.7182817459106445", "2.7182817"),
        ("-1", "-1.0"),
        ("-0.5", "-0.5"),
    ],
)
def test_the_exponent_is_a_32_bit_float(client: Client, queue: str, given: str, text: str) -> None:
    """In JSON the shortest decimal that gives the same 32 bits, in MessagePack those bits."""
    body = raw_job(queue, f'"payload":1,"backoff":{{"exponent":{given},"base_ms":1,"jitter_ms":1}}')
    stored = client.request("POST", "/jobs", body=body)
    assert f'"exponent":{text},'.encode() in stored.body
    packed = client.get(f"/jobs/{stored.data['id']}", accept=MSGPACK)
    assert b"\xa8exponent\xca" + struct.pack(">f", float(given)) in packed.body


@pytest.mark.parametrize("exponent", ["1e39", "-1e39", "null", '"2"', "true", "NaN", "Infinity"])
def test_an_exponent_that_is_no_32_bit_float_is_400(client: Client, queue: str, exponent: str) -> None:
    """The peer stores what is above the range as null."""
    body = raw_job(queue, f'"payload":1,"backoff":{{"exponent":{exponent},"base_ms":1,"jitter_ms":1}}')
    assert client.request("POST", "/jobs", body=body).status == 400


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_in_messagepack_are_400(client: Client, queue: str, value: float) -> None:
    """The peer stores null for them."""
    job = {"type": "t", "queue": queue, "payload": 1}
    backoff = {"exponent": value, "base_ms": 1, "jitter_ms": 1}
    for fields in (job | {"payload": value}, job | {"payload": {"a": [value]}}, job | {"backoff": backoff}):
        assert client.request("POST", "/jobs", packed=fields).status == 400
    assert client.count(queue=queue) == 0


@pytest.mark.parametrize(
    "packed_payload",
    [
        b"\xc4\x01a",  # bin
        b"\x91\xc4\x01a",
        b"\xd4\x01a",  # ext
        b"\xd6\xff\x00\x00\x00\x00",  # timestamp
        b"\x81\x01\x02",  # a map keyed by an integer
        b"\x81\xc0\x02",
        b"\xa1\xff",  # str that is not UTF-8
        b"\x81\xa1\xff\x02",
        b"\xc1",
    ],
)
def test_messagepack_values_that_json_cannot_hold_are_400(
    client: Client, queue: str, packed_payload: bytes
) -> None:
    pack = msgspec.msgpack.encode
    body = b"\x83" + pack("type") + pack("t") + pack("queue") + pack(queue) + pack("payload") + packed_payload
    response = client.request("POST", "/jobs", body=body, headers=[("content-type", MSGPACK)])
    assert response.status == 400
    assert response.error


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"\udc00":1}'])
def test_lone_surrogates_are_400(client: Client, queue: str, text: str) -> None:
    assert client.request("POST", "/jobs", body=raw_job(queue, f'"payload":{text}')).status == 400


def test_nesting_to_126_levels(client: Client, queue: str) -> None:
    text = "[" * 126 + "]" * 126
    response = client.request("POST", "/jobs", body=raw_job(queue, f'"payload":{text}'))
    assert response.status == 201
    assert text.encode() in client.get(f"/jobs/{response.data['id']}").body
    assert client.get(f"/jobs/{response.data['id']}", accept=MSGPACK).body.count(b"\x91") >= 125


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_bottomless_nesting_is_400(client: Client, queue: str, opening: str) -> None:
    deep = raw_job(queue, f'"payload":{opening * 100_000}')
    assert client.request("POST", "/jobs", body=deep).status == 400
    closed = raw_job(queue, f'"payload":{"[" * 2000}{"]" * 2000}')
    assert client.request("POST", "/jobs", body=closed).status == 400
    pack = msgspec.msgpack.encode
    packed = (
        b"\x83" + pack("type") + pack("t") + pack("queue") + pack(queue) + pack("payload") + b"\x91" * 100_000
    )
    response = client.request("POST", "/jobs", body=packed + b"\xc0", headers=[("content-type", MSGPACK)])
    assert response.status == 400


def test_retentions_of_the_whole_64_bit_range(client: Client, queue: str) -> None:
    top = 2**64 - 1
    job = client.enqueue(queue, retention={"dead_ms": top, "completed_ms": top})
    assert job["retention"].keys() == {"dead_ms", "completed_ms"}


def test_instants_of_the_whole_64_bit_range(client: Client, queue: str) -> None:
    """What lies beyond a server's own horizon may be moved to it; the peer keeps it as it is."""
    job = client.enqueue(queue, ready_at=2**64 - 1)
    assert job["status"] == "scheduled"
    assert job["ready_at"] > now_ms()
    assert client.count(queue=queue, status="scheduled") == 1


def test_instants_and_retentions_beyond_64_bits_are_400(client: Client, queue: str) -> None:
    top = 2**64 - 1
    for too_much in ({"ready_at": top + 1}, {"ready_at": -1}, {"retention": {"dead_ms": top + 1}}):
        assert client.post("/jobs", {"type": "t", "queue": queue, "payload": 1} | too_much).status == 400

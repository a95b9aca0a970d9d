"""From the body of an enqueue to new jobs."""

import json
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from anew.errors import InvalidInput, InvalidJob, MalformedRequest, NotSupported, TooLarge
from anew.http.formats import JSON, MSGPACK
from anew.http.newjobs import many_jobs, one_job
from anew.jobs import NewJob

MOST = 32_000_000
PLAIN = b'{"type":"t","queue":"q","payload":%b}'


def one(body: bytes, most: int = MOST) -> NewJob:
    return one_job(body, JSON, most)[0]


def body_with(**more: Any) -> bytes:
    return json.dumps({"type": "t", "queue": "q", "payload": {"a": 1}} | more).encode()


def test_zizq_14_a_minimal_job_is_plain() -> None:
    job, plain = one_job(PLAIN % b'{"a":1}', JSON, MOST)
    assert plain
    assert (job.type, job.queue, bytes(job.payload), job.priority) == ("t", "q", b'{"a":1}', 32768)


def test_white_space_and_unknown_members_are_passed_over() -> None:
    body = b'\n{ "queue" : "q",\t"type": "t" , "payload" :[1,\r\n2] , "zz":{"a":[1],"a":2}, "priority":7.0 } '
    job, plain = one_job(body, JSON, MOST)
    assert not plain
    assert (job.type, job.queue, bytes(job.payload), job.priority) == ("t", "q", b"[1,2]", 7)


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"t","type":"t","queue":"q","payload":1}',
        b'{"type":"t","queue":"q","payload":1,"payload":12}',
        b'{"type":"t","queue":"q","payload":12,"payload":1}',
        b'{"type":"t","queue":"q","payload":[1],"payload":[1]}',
        b'{"payload" : {"payload":2} , "type":"t","queue":"q","payload":2}',
        b'{"type":"t","queue":"q","payload":1,"pay\\u006coad":1}',
        b'{"type":"t","queue":"q","payload":1,"zz":1,"zz":1e0}',
    ],
)
def test_a_repeated_key_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest, match="is given twice; expected once") as caught:
        one(body)
    assert caught.value.field in {"type", "payload", "zz"}
    with pytest.raises(MalformedRequest, match=r"jobs\[1\]: the key .* is given twice"):
        many_jobs(b'{"jobs":[' + PLAIN % b"1" + b"," + body + b"]}", JSON, MOST, 10)


def test_a_repeated_key_inside_the_payload_is_the_producers_business() -> None:
    body = b'{"type":"t","queue":"q","payload":{"a":1,"a":2},"priority":1}'
    assert bytes(one(body).payload) == b'{"a":1,"a":2}'


@pytest.mark.parametrize("exponent", [0, 4.2, 1e12, 3e38, 3.4028235e38, 3.4028234663852886e38])
def test_any_finite_32_bit_exponent_is_taken(exponent: float) -> None:
    job = one(body_with(backoff={"exponent": exponent, "base_ms": 0, "jitter_ms": 0}))
    assert job.backoff is not None
    assert job.backoff.exponent == exponent


@pytest.mark.parametrize("exponent", ["-0.5", "3.5e38", "1e300", "-1e300"])
def test_another_exponent_is_refused(exponent: str) -> None:
    body = PLAIN % b'1,"backoff":{"exponent":%b,"base_ms":0,"jitter_ms":0}' % exponent.encode()
    with pytest.raises(InvalidJob, match="expected a finite 32-bit float of at least 0") as caught:
        one(body)
    assert caught.value.field == "backoff.exponent"


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (PLAIN % (b"[" * 127 + b"]" * 127), MalformedRequest, "payload nests more than 126 levels deep"),
        (PLAIN % (b"[" * 2_000 + b"]" * 2_000), MalformedRequest, "nested too deeply"),
        (PLAIN % (b"[" + b" " * 4_000 + b"1" * 65 + b"]"), MalformedRequest, "more than 64 digits"),
        (PLAIN % b'1,"priority":70000', MalformedRequest, "priority: expected int <= 65535, got 70000"),
        (PLAIN % b'1,"unique_key":"k"', NotSupported, "unique_key is not supported"),
        (PLAIN % b'1,"backoff":{},"policy":"zizq"', MalformedRequest, "backoff: object missing"),
        (b'{"type":"t","queue":"q"}', MalformedRequest, "missing required field payload"),
        (b'{"type":"","queue":"q","payload":1}', InvalidJob, "type must not be empty"),
        (b'{"type":"t","queue":"a,b","payload":1}', InvalidJob, "queue must not contain ','"),
        (b"[1]", MalformedRequest, "expected object, got array"),
        (
            PLAIN % (b'1,"batch":{"a":"' + b"x" * 70_000 + b'"}'),
            MalformedRequest,
            "batch: expected at most 65536",
        ),
    ],
)
def test_what_does_not_fit_is_refused(body: bytes, error: type[InvalidInput], words: str) -> None:
    with pytest.raises(error, match=words):
        one(body)


def test_a_payload_has_a_size() -> None:
    text = b'"' + b"x" * 998 + b'"'
    assert len(one(PLAIN % text, 1_000).payload) == 1_000
    for body in (PLAIN % (text + b" "), PLAIN % (text + b',"priority":1')):
        one(body, 1_000)
        with pytest.raises(TooLarge, match="payload: expected at most 999 bytes, got 1000"):
            one(body, 999)


def test_an_error_in_a_bulk_names_its_job() -> None:
    good, bad = PLAIN % b"1", PLAIN % (b"[" * 127 + b"]" * 127)
    with pytest.raises(MalformedRequest, match=r"jobs\[1\]: payload nests") as caught:
        many_jobs(b'{"jobs":[%b,%b]}' % (good, bad), JSON, MOST, 10)
    assert caught.value.field == "jobs[1].payload"
    with pytest.raises(TooLarge, match="jobs: expected at most 1 in one request, got 2"):
        many_jobs(b'{"jobs":[%b,%b]}' % (good, good), JSON, MOST, 1)


def test_messagepack_says_the_same() -> None:
    value = {"type": "t", "queue": "q", "payload": [1, {"a": None}], "priority": 9}
    job, plain = one_job(msgspec.msgpack.encode(value), MSGPACK, MOST)
    assert not plain
    assert (job.type, job.queue, bytes(job.payload), job.priority) == ("t", "q", b'[1,{"a":null}]', 9)
    jobs, _ = many_jobs(msgspec.msgpack.encode({"jobs": [value, value]}), MSGPACK, MOST, 5)
    assert [bytes(job.payload) for job in jobs] == [b'[1,{"a":null}]'] * 2


HUGE: dict[str, Callable[[], bytes]] = {
    "text in a plain job": lambda: PLAIN % (b'"' + b"x" * 10_000_000 + b'"'),
    "text in a job with more": lambda: PLAIN % (b'"' + b"x" * 10_000_000 + b'","priority":1'),
    "lists in a job with more": lambda: PLAIN % (b"[" + b",".join([b"[]"] * 3_300_000) + b'],"priority":1'),
    "lists in an unknown member": lambda: PLAIN % (b'1,"zz":[' + b",".join([b"[]"] * 3_300_000) + b"]"),
}


@pytest.mark.parametrize("what", HUGE)
def test_ten_megabytes_are_read_without_building_them(what: str) -> None:
    """Some 10 to 70 ms by themselves; as objects, the lists alone would take ten times as long."""
    body = HUGE[what]()
    begun = time.process_time()
    one(body)
    assert time.process_time() - begun < 0.4


@pytest.mark.parametrize("size", [100, 1_000])
def test_a_bulk_of_many_jobs_is_judged_job_by_job(size: int) -> None:
    """Each job's payload is looked at once, not the whole body once a job."""
    jobs = [PLAIN % (b'"' + b"x" * size + b'"')] * 5_000
    begun = time.process_time()
    read, plain = many_jobs(b'{"jobs":[' + b",".join(jobs) + b"]}", JSON, MOST, 5_000)
    assert time.process_time() - begun < 0.5
    assert plain
    assert len(read) == 5_000


def test_members_without_end_are_refused() -> None:
    more = b",".join(b'"m%d":1' % number for number in range(1_001))
    with pytest.raises(MalformedRequest, match="at most 1000 members"):
        one(PLAIN % (b"1," + more))

"""Jobs and error records as answers show them, in JSON and in MessagePack."""

from __future__ import annotations

import gc
import json
import struct
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from anew.engine import Entry
from anew.http.embedded_json import Embedded, Float32, shortest, to_msgpack
from anew.http.formats import JSON, MSGPACK
from anew.http.render import (
    as_stored,
    plain_answer,
    plain_answers,
    shown_error,
    shown_job,
    shown_policy,
    stored_job,
    taken_as_json,
    taken_job,
)
from anew.jobs import ErrorRecord, IdText, NewJob, State
from tests.unit.jobs.helpers import make_job

IDS = IdText("tag000000")
BARE: dict[str, Any] = {
    "key": 10,
    "queue": "q",
    "type": "t",
    "priority": 5,
    "ready_at": 100,
    "interruptions": 2,
}
FULL = BARE | {
    "state": State.COMPLETED,
    "retry_limit": 0,
    "policy": b'{"exponent":4.0,"base_ms":1,"jitter_ms":2}',
    "retention": b"{}",
    "dequeued_at": 1,
    "failed_at": 2,
    "first_failed_at": 2,
    "completed_at": 4,
    "purge_at": 3,
    "phase": 0.5,
    "carry": 1.5,
    "payload": b'{"b":1,"a":[null,1.5]}',
}


def as_json(fields: dict[str, Any], *, payload: bool = False) -> bytes:
    return JSON.encode(shown_job(IDS, make_job(**fields), payload=payload))


def as_msgpack(fields: dict[str, Any], *, payload: bool = False) -> Any:
    return msgspec.msgpack.decode(MSGPACK.encode(shown_job(IDS, make_job(**fields), payload=payload)))


def test_zizq_17_what_is_not_set_is_left_out() -> None:
    assert as_json(BARE) == (
        b'{"id":"tag000000000000000000000a","type":"t","queue":"q","priority":5,"status":"ready",'
        b'"ready_at":100,"attempts":0}'
    )


def test_all_keys_in_their_order() -> None:
    assert as_json(FULL, payload=True) == (
        b'{"id":"tag000000000000000000000a","type":"t","queue":"q","priority":5,"status":"completed",'
        b'"payload":{"b":1,"a":[null,1.5]},"ready_at":100,"attempts":0,"retry_limit":0,'
        b'"backoff":{"exponent":4.0,"base_ms":1,"jitter_ms":2},"dequeued_at":1,"failed_at":2,"retention":{},'
        b'"purge_at":3,"completed_at":4}'
    )


def test_zizq_8_the_same_in_messagepack() -> None:
    assert as_msgpack(FULL, payload=True) == msgspec.json.decode(as_json(FULL, payload=True))
    assert as_msgpack(BARE) == msgspec.json.decode(as_json(BARE))


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (State.SCHEDULED, "scheduled"),
        (State.RETRYING, "scheduled"),
        (State.IN_FLIGHT, "in_flight"),
        (State.DEAD, "dead"),
        (State.CANCELLED, "dead"),
    ],
)
def test_seven_states_are_shown_as_five(state: State, status: str) -> None:
    assert as_msgpack(BARE | {"state": state})["status"] == status


def new_job(kind: str, queue: str) -> NewJob:
    return NewJob(type=kind, queue=queue, payload=msgspec.Raw(b"1"))


def test_the_answer_to_a_bulk_is_that_of_each_job() -> None:
    """The last key that there is, and names that JSON must escape, come out right too."""
    jobs = [
        new_job("a", "q"),
        new_job("b", "q"),
        new_job("a", "q"),
        new_job('"\\é\n', "r"),
        new_job("a", '","id":"'),
    ]
    first = (1 << 63) - len(jobs)
    answer = plain_answers("tag000000", range(first, 1 << 63), jobs, 1_700_000_000_000)
    singly = [plain_answer(b"tag000000", first + at, job, 1_700_000_000_000) for at, job in enumerate(jobs)]
    assert answer == b'{"jobs":[' + b",".join(singly) + b"]}"
    listed = json.loads(answer)["jobs"]
    assert [(one["type"], one["queue"]) for one in listed] == [(one.type, one.queue) for one in jobs]
    assert listed[-1]["id"] == "tag000000" + "7fffffffffffffff"
    assert listed[0] == {
        "id": "tag000000" + "7ffffffffffffffb",
        "type": "a",
        "queue": "q",
        "priority": 32768,
        "status": "ready",
        "ready_at": 1_700_000_000_000,
        "attempts": 0,
        "duplicate": False,
        "folded": False,
    }


@pytest.mark.parametrize(
    ("entry", "shown"),
    [(Entry.CREATED, (False, False)), (Entry.DUPLICATE, (True, False)), (Entry.FOLDED, (False, True))],
)
def test_what_became_of_a_new_job_is_said_also_where_the_job_in_its_place_has_gone(
    entry: Entry, shown: tuple[bool, bool]
) -> None:
    """A worker may have taken and completed it while the answer waited for the sync."""
    answer = stored_job(IDS, 7, new_job("t", "q"), 1, entry)
    assert (answer.duplicate, answer.folded) == shown


@pytest.mark.parametrize("name", ["q", '"\\é\n', '","id":"'])
def test_the_plain_answer_is_that_of_any_new_job(name: str) -> None:
    """The first hot path against the definition, byte for byte."""
    plain = new_job("t", name)
    for key in (1, (1 << 63) - 1):
        assert plain_answer(IDS.tag_bytes, key, plain, 1_700) == JSON.encode(
            stored_job(IDS, key, plain, 1_700)
        )


ROW: Any = (10, "q", "t", 5, 100, 0, None, None, None, None, None, None, b'{"a":[1]}')


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        (11, '"\\é\n', '","id":"', 0, 0, 7, None, None, None, None, 9, None, b"null"),
        (*ROW[:6], 6, None, None, None, None, None, b"1"),
        (*ROW[:6], 6, 0, b'{"exponent":2.0,"base_ms":1,"jitter_ms":0}', b'{"dead_ms":5}', None, None, b"1"),
        (*ROW[:6], 6, None, b'"even"', None, None, None, b"1"),
    ],
)
def test_a_taken_row_is_written_as_its_job_is_shown(row: Any) -> None:
    """The second hot path against the definition, and both against a job that was loaded."""
    now = 1_700
    (written,) = taken_as_json(IDS.tag_bytes, [row], now)
    assert written == JSON.encode(taken_job(IDS.tag, row, now))
    key, queue, kind, priority, ready_at, attempts, failed_at, limit, policy, retention, _, _, payload = row
    job = make_job(
        key=key, queue=queue, type=kind, priority=priority, ready_at=ready_at, attempts=attempts,
        failed_at=failed_at, retry_limit=limit, policy=policy, retention=retention, payload=payload,
        state=State.IN_FLIGHT, dequeued_at=now,
    )  # fmt: skip
    assert written == JSON.encode(shown_job(IDS, job, payload=True))


def test_a_taken_row_with_a_unique_key_is_written_as_its_job_is_shown() -> None:
    meta = b' ["",0,null,"",0,"",null,0,{"unique_key":"k","unique_while":"active"}]'
    (written,) = taken_as_json(IDS.tag_bytes, [(*ROW[:11], meta, b"1")], 1_700)
    assert written.endswith(b',"dequeued_at":1700,"unique_key":"k","unique_while":"active"}')


@pytest.mark.parametrize("policy", [b'"even"', b'{"preset":"faktory","limit":6}'])
def test_a_policy_of_anews_own_has_a_key_of_its_own(policy: bytes) -> None:
    shown = as_msgpack(BARE | {"policy": policy})
    assert "backoff" not in shown
    assert shown["policy"] == msgspec.json.decode(policy)


def test_zizqs_numbers_with_more_beside_them_are_a_policy() -> None:
    policy = b'{"exponent":4.0,"base_ms":1,"jitter_ms":2,"limit":3}'
    assert as_msgpack(BARE | {"policy": policy})["policy"]["limit"] == 3


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (4, b"4.0"),
        (0.0, b"0.0"),
        (4.2, b"4.2"),
        (4.19999980926513671875, b"4.2"),
        (2.7182817459106445, b"2.7182817"),
        (0.1, b"0.1"),
        (16777216.0, b"16777216.0"),
        (1e-45, b"1e-45"),
    ],
)
def test_an_exponent_is_the_shortest_decimal_of_its_32_bits(given: float, text: bytes) -> None:
    assert JSON.encode(Float32(given)) == text
    assert MSGPACK.encode(Float32(given)) == b"\xca" + struct.pack(">f", given)
    assert struct.pack("f", shortest(given)) == struct.pack("f", given)


@pytest.mark.parametrize("number", [2**64, 2**70, -(2**63) - 1, 10**30])
def test_integers_beyond_64_bits_become_floats_in_messagepack(number: int) -> None:
    assert msgspec.msgpack.decode(to_msgpack(b'[{"k":%d}]' % number)) == [{"k": float(number)}]


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 0])
def test_integers_of_64_bits_stay_what_they_are(number: int) -> None:
    found = msgspec.msgpack.decode(to_msgpack(b"[%d,%d]" % (number, 2**80)))[0]
    assert (found, type(found)) == (number, int)


def test_odd_payloads_can_be_read_in_messagepack() -> None:
    assert msgspec.msgpack.decode(to_msgpack(b'{"a":1,"a":2}')) == {"a": 2}
    assert msgspec.msgpack.decode(to_msgpack(b"1e400")) is None
    assert msgspec.msgpack.decode(to_msgpack(b'"\\ud800"')) == "?"
    assert msgspec.msgpack.decode(to_msgpack(b"1" * 64)) == float("1" * 64)
    # More levels than any result has that is stored: one byte for each list with one member, and for the number.
    assert to_msgpack(b"[" * 1_008 + b"1" + b"]" * 1_008) == b"\x91" * 1_008 + b"\x01"


def test_what_nobody_knows_how_to_write_is_an_error() -> None:
    for form in (JSON, MSGPACK):
        with pytest.raises(TypeError):
            form.encode({"a": object()})


def test_an_error_record_with_and_without_details() -> None:
    record = ErrorRecord(
        attempt=1,
        outcome="error",
        message="",
        error_type=None,
        backtrace=None,
        dequeued_at=5,
        failed_at=6,
        decision=None,
    )
    assert (
        JSON.encode(shown_error(record))
        == b'{"attempt":1,"outcome":"error","message":"","dequeued_at":5,"failed_at":6}'
    )
    record = ErrorRecord(
        attempt=2,
        outcome="error",
        message="m",
        error_type="E",
        backtrace="b",
        dequeued_at=5,
        failed_at=6,
        decision=b'{"verdict":"dead","reason":"r"}',
    )
    assert JSON.encode(shown_error(record)) == (
        b'{"attempt":2,"outcome":"error","message":"m","error_type":"E","backtrace":"b","dequeued_at":5,"failed_at":6,'
        b'"decision":{"verdict":"dead","reason":"r"}}'
    )
    wordless = replace(
        record, decision=b'{"verdict":"retry","nominal_ms":2000,"draw":0.5,"wait_ms":2500,"due_at":9}'
    )
    assert JSON.encode(shown_error(wordless)).endswith(
        b'"decision":{"verdict":"retry","reason":"retry 2: 2 s + 500 ms of jitter (0.500) = 2.5 s",'
        b'"nominal_ms":2000,"draw":0.5,"wait_ms":2500,"due_at":9}}'
    )
    assert JSON.encode([Embedded(b"null")]) == b"[null]"


@pytest.mark.parametrize("text", [b"[" + b"[]," * 100_000 + b"0]", b"[" + b"[]," * 100_000 + b"1e400]"])
def test_a_long_value_is_translated_while_the_collector_rests(text: bytes) -> None:
    """It would look at each new list many times: 8 MB of them took four times as long."""
    seen: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        seen.append(phase)

    gc.callbacks.append(note)
    try:
        to_msgpack(text)
        during = len(seen)
    finally:
        gc.callbacks.remove(note)
    assert (during, gc.isenabled()) == (0, True)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (b'{"preset":"even"}', {"preset": "even"}),
        (b"{", {"unreadable": "{"}),
        (b'{"exponent"', {"unreadable": '{"exponent"'}),
        (b'{"preset":"ev\xe5n"}', {"unreadable": '{"preset":"ev\ufffdn"}'}),
        (b"", {"unreadable": ""}),
    ],
)
def test_what_a_damaged_file_has_left_of_a_policy_does_not_spoil_the_answer(
    stored: bytes, shown: Any
) -> None:
    assert msgspec.json.decode(JSON.encode(shown_policy(stored))) == {"policy": shown}
    assert msgspec.json.decode(JSON.encode({"retention": as_stored(stored)})) == {"retention": shown}

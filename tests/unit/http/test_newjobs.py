"""From the body of an enqueue to new jobs."""

import json
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from anew.errors import InvalidInput, InvalidJob, MalformedRequest, TooLarge
from anew.http import newjobs
from anew.http.formats import JSON, MSGPACK, Format
from anew.http.long_lists import PIECE
from anew.http.newjobs import reading_many, reading_one, short_job
from anew.jobs import Backoff, NewJob, Retention
from anew.jobs.names import good_names
from anew.net.chunks import Work, at_once

from .memory import held_to

MOST = 32_000_000
PLAIN = b'{"type":"t","queue":"q","payload":%b}'


def one_job(body: bytes, form: Format, most: int) -> tuple[NewJob, bool]:
    """Read one job as the route does, and whether it says nothing beyond type, queue and payload."""
    job = short_job(body, most) if form is JSON else None
    return at_once(reading_one(body, form, most)) if job is None else (job, True)


def one(body: bytes, most: int = MOST) -> NewJob:
    return one_job(body, JSON, most)[0]


def many_jobs(body: bytes, form: Format, max_bytes: int, max_jobs: int) -> tuple[list[NewJob], bool]:
    return at_once(reading_many(body, form, max_bytes, max_jobs))


def as_read(job: NewJob) -> tuple[Any, ...]:
    return (bytes(job.payload), *(getattr(job, name) for name in job.__struct_fields__ if name != "payload"))


def body_with(**more: Any) -> bytes:
    return json.dumps({"type": "t", "queue": "q", "payload": {"a": 1}} | more).encode()


def test_zizq_14_a_minimal_job_is_plain() -> None:
    job, plain = one_job(PLAIN % b'{"a":1}', JSON, MOST)
    assert plain
    assert (job.type, job.queue, bytes(job.payload), job.priority) == ("t", "q", b'{"a":1}', 32768)


@pytest.mark.parametrize("unfit", [b'"queue":"q"', b'"type":1,"queue":"q"'])
@pytest.mark.parametrize(
    ("end", "complaint"),
    [
        (b"} x", "trailing characters"),
        (b"}}", "trailing characters"),
        (b"", "truncated"),
        (b',"x":[', "truncated"),
        (b',"x":' + b"[" * 1_000_000, "nested too deeply"),
    ],
)
def test_a_job_that_does_not_fit_and_is_no_json_either_is_malformed(
    unfit: bytes, end: bytes, complaint: str
) -> None:
    """Decoding stops at the first thing that is wrong, so the rest has not been read then."""
    with pytest.raises(MalformedRequest, match=complaint):
        one(b'{%b,"payload":1%b' % (unfit, end))


def test_white_space_and_unknown_members_are_passed_over() -> None:
    body = b'\n{ "queue" : "q",\t"type": "t" , "payload" :[1,\r\n2] , "zz":{"a":[1],"a":2}, "priority":7.0 } '
    job, plain = one_job(body, JSON, MOST)
    assert not plain
    assert (job.type, job.queue, bytes(job.payload), job.priority) == ("t", "q", b"[1,2]", 7)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (b'"type":"x"', b'"type":"t"'),
        (b'"payload":12', b'"payload":[1]'),
        (b'"payload":[1]', b'"payload" : [1]'),
        (b'"pay\\u006coad":1', b'"payload":[1]'),
        (b'"payload":1e999', b'"payload":[1]'),
        (b'"priority":"x"', b'"priority":7'),
        (b'"priority":1', b'"priority":7.0'),
        (b'"backoff":{}', b'"backoff":{"exponent":4,"base_ms":9,"base_ms":1,"jitter_ms":2}'),
        (b'"retention":{"dead_ms":1}', b'"retention":{"dead_ms":9,"dead_ms":4}'),
        (b'"zz":1', b'"zz":2'),
    ],
)
def test_of_a_repeated_key_the_last_one_counts(first: bytes, last: bytes) -> None:
    body = b'{%b,"type":"t","queue":"q","payload":[1],%b}' % (first, last)
    once = b'{"type":"t","queue":"q","payload":[1],%b}' % last
    if b"payload" in last:
        once = b'{"type":"t","queue":"q",%b}' % last
    assert as_read(one(body)) == as_read(one(once))
    read, _ = many_jobs(b'{"jobs":[' + PLAIN % b"1" + b"," + body + b"]}", JSON, MOST, 10)
    assert as_read(read[1]) == as_read(one(once))


def test_of_a_repeated_list_of_jobs_the_last_one_counts() -> None:
    for body in (b'{"jobs":[1],"jobs":[%b]}', b'{"jobs":[%b,%b],"jobs":[%%b]}' % ((PLAIN % b"1",) * 2)):
        read, plain = many_jobs(body % (PLAIN % b"2"), JSON, MOST, 10)
        assert ([bytes(job.payload) for job in read], plain) == ([b"2"], True)


def test_a_repeated_key_in_messagepack_counts_as_in_json() -> None:
    pack = msgspec.msgpack.encode
    pairs = [("type", "x"), ("queue", "q"), ("payload", 1), ("payload", 2), ("type", "t")]
    body = bytes([0x80 | len(pairs)]) + b"".join(pack(part) for pair in pairs for part in pair)
    job, plain = one_job(body, MSGPACK, MOST)
    assert (job.type, bytes(job.payload), plain) == ("t", b"2", True)


def test_a_repeated_key_inside_the_payload_is_the_producers_business() -> None:
    body = b'{"type":"t","queue":"q","payload":{"a":1,"a":2},"priority":1}'
    assert bytes(one(body).payload) == b'{"a":1,"a":2}'


@pytest.mark.parametrize("exponent", [0, 4.2, -0.5, -3e38, 1e12, 3e38, 3.4028235e38, 3.4028234663852886e38])
def test_any_finite_32_bit_exponent_is_taken(exponent: float) -> None:
    job = one(body_with(backoff={"exponent": exponent, "base_ms": 0, "jitter_ms": 0}))
    assert job.backoff is not None
    assert job.backoff.exponent == exponent


@pytest.mark.parametrize("exponent", ["3.5e38", "-3.5e38", "1e300", "-1e300"])
def test_another_exponent_is_refused(exponent: str) -> None:
    body = PLAIN % b'1,"backoff":{"exponent":%b,"base_ms":0,"jitter_ms":0}' % exponent.encode()
    with pytest.raises(InvalidJob, match="expected a finite 32-bit float") as caught:
        one(body)
    assert caught.value.field == "backoff.exponent"


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (PLAIN % (b"[" * 127 + b"]" * 127), MalformedRequest, "payload nests more than 126 levels deep"),
        (PLAIN % (b"[" * 1_000_000 + b"]" * 1_000_000), MalformedRequest, "nested too deeply"),
        (PLAIN % b'1,"priority":70000', MalformedRequest, "priority: expected int <= 65535, got 70000"),
        (PLAIN % b'1,"unique_while":"active"', InvalidJob, "unique_while requires unique_key"),
        (PLAIN % b'1,"unique_key":"k","batch":{}', InvalidJob, "unique_key and batch cannot be combined"),
        (PLAIN % b'1,"backoff":{},"policy":"zizq"', MalformedRequest, "backoff: object missing"),
        (b'{"type":"t","queue":"q"}', MalformedRequest, "missing required field payload"),
        (b'{"type":"","queue":"q","payload":1}', InvalidJob, "type must not be empty"),
        (b'{"type":"t","queue":"a,b","payload":1}', InvalidJob, "queue must not contain ','"),
        (b"[1]", MalformedRequest, "expected object, got array"),
        (PLAIN % b"1e999", MalformedRequest, "payload: number out of range"),
        (
            PLAIN % (b'1,"batch":{"a":"' + b"x" * 70_000 + b'"}'),
            InvalidJob,
            "batch: .* missing required field `key`",
        ),
        (PLAIN % b'1,"batch":[1]', MalformedRequest, "batch: expected object"),
    ],
)
def test_what_does_not_fit_is_refused(body: bytes, error: type[InvalidInput], words: str) -> None:
    with pytest.raises(error, match=words):
        one(body)


def test_the_queue_of_deliveries_gets_no_jobs_also_after_a_type_of_its_name() -> None:
    """A name that is good for a type was taken for good everywhere."""
    deliveries = b'{"type":"%b","queue":"%b","payload":1}'
    assert one(deliveries % (b"$deliveries", b"q")).type == "$deliveries"
    with pytest.raises(
        InvalidJob, match=r"queue must not be '.deliveries', which holds deliveries to webhooks"
    ):
        one(deliveries % (b"t", b"$deliveries"))


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
    """A few copies of the text at most; as objects, the lists alone would take some 200 MB."""
    body = HUGE[what]()
    with held_to(64 << 20):
        assert one(body).queue == "q"


RICH = {
    "ready_at": 4_102_444_800_000,
    "priority": 7,
    "retry_limit": 3,
    "backoff": {"exponent": 4.0, "base_ms": 100, "jitter_ms": 3},
    "retention": {"dead_ms": 4, "completed_ms": None},
}


def rich_bulk(count: int, **dumps: Any) -> bytes:
    return json.dumps({"jobs": [json.loads(body_with(n=n, **RICH)) for n in range(count)]}, **dumps).encode()


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    "more",
    [
        {},
        RICH,
        {"policy": {"preset": "even"}},
        {"ready_at": None, "retention": None, "backoff": None, "policy": None, "batch": None},
        {"unknown": [1, {"a": 1}], "und": "ü"},
        {"payload": "Grüße, שלום, 你好"},
        {"type": "Grüße"},
        {"payload": [1] * 300},
    ],
)
def test_well_formed_jobs_take_the_fast_way_whatever_they_carry(
    more: dict[str, Any], separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [json.loads(body_with(**more)) for _ in range(20)]
    body = json.dumps({"jobs": jobs}, separators=separators, ensure_ascii=False).encode()
    monkeypatch.setattr(newjobs, "members_of", None)
    read, plain = many_jobs(body, JSON, MOST, 20)
    assert len(read) == 20
    assert plain is not bool(more.keys() & {"ready_at", "policy"} and more.get("policy", 1) is not None)
    assert [json.loads(bytes(job.payload)) for job in read] == [job["payload"] for job in jobs]
    if more is RICH:
        job = read[7]
        assert (job.ready_at, job.priority, job.retry_limit) == (4_102_444_800_000, 7, 3)
        assert (job.backoff, job.retention) == (Backoff(4.0, 100, 3), Retention(dead_ms=4))


@pytest.mark.parametrize("count", [5_000, 10_000])
def test_thousands_of_jobs_with_all_members_are_read_in_chunks(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job once, never job by job, and a pause after every piece of the body, however many there are."""
    body = rich_bulk(count)
    pieces: list[int] = []
    read_piece = newjobs._BulkReader.read

    def noting(reader: Any, piece: bytes, first: int) -> Work[list[NewJob]]:
        pieces.append(len(piece))
        return read_piece(reader, piece, first)

    monkeypatch.setattr(newjobs._BulkReader, "read", noting)
    monkeypatch.setattr(newjobs, "members_of", None)
    paused_after = [len(pieces) for _ in reading_many(body, JSON, MOST, count)]
    assert set(paused_after) == set(range(len(pieces) + 1))
    # Without the blanks between two jobs, and with the brackets around each piece.
    assert len(body) - count - 100 < sum(pieces) < len(body) + 10 * len(pieces)
    assert max(pieces) <= PIECE + 2_000  # what goes before the last of them, commas and it


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"ready_at": -1}, r"jobs\[9000\]: ready_at: expected int >= 0, got -1"),
        ({"queue": "a,b"}, r"jobs\[9000\]: queue must not contain"),
        ({"policy": {"preset": "no"}}, r"jobs\[9000\]: preset"),
    ],
)
def test_an_error_far_behind_names_its_job(bad: dict[str, Any], words: str) -> None:
    jobs = [json.loads(body_with(**RICH)) for _ in range(10_000)]
    jobs[9_000] |= bad
    if "policy" in bad:
        del jobs[9_000]["backoff"]
    jobs[9_500] |= {"type": ""}
    with pytest.raises(InvalidInput, match=words) as caught:
        many_jobs(json.dumps({"jobs": jobs}).encode(), JSON, MOST, 10_000)
    assert caught.value.field.startswith("jobs[9000].")


@pytest.mark.parametrize("head", [b'{"jobs":[', b'{ "yy":1 , "jobs" : [', b'\n{"jobs"\n: ['])
@pytest.mark.parametrize("tail", [b"]}", b" ] }\r\n", b'],"zz":[]}', b'],"x":[{"y":[]}]}'])
def test_a_long_bulk_is_cut_where_jobs_end_whatever_they_hold(head: bytes, tail: bytes) -> None:
    """Payloads that look like the border between two jobs must not be taken for one."""
    border = b'"},{\\"type\\":","}]},{\\"type\\"" '
    trap = PLAIN % (b'[{"a":1},{"type":[{"a":"' + b"x" * 5_000 + b'"},{"type":2}]},' + border + b"]")
    jobs = [trap if n % 3 else PLAIN % (b'"%d"' % n) for n in range(400)]
    body = head + b",".join(jobs) + tail
    expected = [job["payload"] for job in json.loads(body)["jobs"]]
    read, _ = many_jobs(body, JSON, MOST, 400)
    assert [json.loads(bytes(job.payload)) for job in read] == expected
    with pytest.raises(TooLarge, match="jobs: expected at most 399 in one request, got 400"):
        many_jobs(body, JSON, MOST, 399)
    with pytest.raises(MalformedRequest, match="invalid JSON"):
        many_jobs(body[:-3] + b"]", JSON, MOST, 400)


@pytest.mark.parametrize("nothing", [b" ", b"", b"\n", b",,", b", ,"])
def test_a_comma_amiss_where_a_long_bulk_is_cut_is_found(nothing: bytes) -> None:
    """RFC 8259, 5: one comma between two values. Every border is tried, so that of each cut is among them."""
    jobs = [PLAIN % (b'"' + b"x" * 60_000 + b'"')] * 8
    for at in range(1, 8):
        body = b'{"jobs":[%b%b%b]}' % (b",".join(jobs[:at]), nothing, b",".join(jobs[at:]))
        with pytest.raises(MalformedRequest, match="invalid JSON"):
            many_jobs(body, JSON, MOST, 100)


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        (b"0," * 2_000_000, r"jobs\[0\]: expected object"),
        (b"{}," * 1_400_000, "jobs: expected at most 100 in one request, got 1200 or more"),
        (
            b'{"x":0,"type":"t","queue":"q","payload":0},' + (PLAIN % b"0" + b",") * 110_000,
            "jobs: expected at most 100",
        ),
    ],
    ids=["numbers", "empty objects", "other keys first"],
)
@pytest.mark.parametrize("head", [b'{"jobs":[', b'{"a":0,"jobs":['], ids=["guessed", "found"])
def test_a_crowd_of_small_things_is_not_built(head: bytes, jobs: bytes, words: str) -> None:
    """4 MB of them would become some 150 MB of objects, and take seconds."""
    body = head + jobs + b"0]}"
    with held_to(30 << 20), pytest.raises(InvalidInput, match=words):
        many_jobs(body, JSON, MOST, 100)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            b"\x81\xa4jobs\xdd" + struct.pack(">I", 4 << 20) + b"\xc0" * (4 << 20),
            "jobs: expected at most 100",
        ),
        (b"\xdf" + struct.pack(">I", 4 << 20) + b"\xa1a\xc0" * (4 << 20), "missing required field jobs"),
    ],
    ids=["nils", "members"],
)
def test_a_packed_crowd_of_small_things_is_not_built(body: bytes, words: str) -> None:
    with held_to(30 << 20), pytest.raises(InvalidInput, match=words):
        many_jobs(body, MSGPACK, MOST, 100)


@pytest.mark.parametrize("priority", [b"1", b"1.0"])
def test_members_without_end_are_passed_over(priority: bytes) -> None:
    more = b",".join(b'"%d":1' % number for number in range(300_000))
    body = PLAIN % (b'1,"priority":%b,%b' % (priority, more))
    with held_to(4 << 20):
        assert one(body).priority == 1
    assert one(b'{"type":"t","queue":"q","priority":1.0,"payload":{%b}}' % more).priority == 1


def test_a_payload_nests_126_levels_in_messagepack_as_in_json() -> None:
    """As deep as Zizq's JSON, which stops at 126: a worker may read it in that format."""
    value = {"type": "t", "queue": "q", "payload": None}
    head = msgspec.msgpack.encode(value)[:-1]  # of null, its last byte
    job, _ = one_job(head + b"\x91" * 125 + b"\x90", MSGPACK, MOST)
    assert bytes(job.payload) == b"[" * 126 + b"]" * 126
    for form, body in (
        (MSGPACK, head + b"\x91" * 126 + b"\x90"),
        (JSON, PLAIN % (b"[" * 127 + b"]" * 127)),
    ):
        with pytest.raises(MalformedRequest, match="payload nests more than 126 levels deep"):
            one_job(body, form, MOST)


def test_a_payload_that_is_deep_is_found_in_a_long_bulk() -> None:
    jobs = [PLAIN % (b'"' + b"x" * 1_000 + b'"')] * 900
    jobs[800] = PLAIN % (b"[" * 127 + b"]" * 127)
    with pytest.raises(MalformedRequest, match=r"jobs\[800\]: payload nests more than 126"):
        many_jobs(b'{"jobs":[' + b",".join(jobs) + b"]}", JSON, MOST, 900)


def test_bytes_that_are_no_text_are_found_in_a_long_bulk() -> None:
    jobs = [PLAIN % (b'"' + b"x" * 1_000 + b'"')] * 900
    body = b'{"jobs":[' + b",".join([*jobs, PLAIN % b'"\xff"']) + b"]}"
    with pytest.raises(MalformedRequest, match=f"invalid JSON: not UTF-8 at byte {body.index(255)}"):
        many_jobs(body, JSON, MOST, 1_000)


@pytest.mark.parametrize("size", [100, 1_000])
def test_a_bulk_of_many_jobs_is_judged_job_by_job(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job's payload is looked at once at most, not the whole body once a job."""
    looked_at: list[int] = []
    judging_job = newjobs.judging_job

    def noting(job: NewJob, max_bytes: int) -> Work[None]:
        looked_at.append(len(job.payload))
        return judging_job(job, max_bytes)

    good_names.update(("t", "q"))
    monkeypatch.setattr(newjobs, "judging_job", noting)
    monkeypatch.setattr(newjobs, "members_of", None)
    jobs = [PLAIN % (b'"' + b"x" * size + b'"')] * 5_000
    read, plain = many_jobs(b'{"jobs":[' + b",".join(jobs) + b"]}", JSON, MOST, 5_000)
    assert plain
    assert len(read) == 5_000
    assert looked_at == []


def test_in_a_bulk_payloads_above_the_limit_are_refused_whatever_it_is() -> None:
    good_names.update(("t", "q"))
    for most in (100, 1_000, 10_000):
        jobs = [PLAIN % (b'"' + b"x" * (most - 2 + more) + b'"') for more in (0, 1)]
        with pytest.raises(
            TooLarge, match=rf"jobs\[1\]: payload: expected at most {most} bytes, got {most + 1}"
        ):
            many_jobs(b'{"jobs":[' + b",".join(jobs) + b"]}", JSON, most, 2)


@pytest.mark.parametrize(
    "number",
    [
        b"1e309",
        b"-1E+400",
        b"0.1e0310",
        b"1" + b"0" * 309,
        b"1" + b"0" * 210 + b"e99",
        b"1" + b"0" * 300 + b"e9",
    ],
)
@pytest.mark.parametrize("around", [b"%b", b'["1e5",%b,"x"]', b'{"a":{"b":[%b ]}}'])
def test_a_number_out_of_range_is_refused(number: bytes, around: bytes) -> None:
    """serde_json: a number whose value is no finite 64-bit float is out of range."""
    for payload in (around % number, b'["%b",%b]' % (b"x" * 3_000, around % number)):
        body = PLAIN % payload
        with pytest.raises(MalformedRequest, match=r"^payload: number out of range"):
            one(body)
        with pytest.raises(MalformedRequest, match=r"jobs\[1\]: payload: number out of range"):
            many_jobs(b'{"jobs":[%b,%b]}' % (PLAIN % b"1", body), JSON, MOST, 2)


@pytest.mark.parametrize(
    "payload",
    [b"1e308", b"0e999", b"1e-999", b'"1e999"', b'{"1e999":"\\"1e999"}', b"1" + b"0" * 308, b"[1e+16,2E5]"],
)
def test_a_number_in_range_is_kept_as_it_came(payload: bytes) -> None:
    assert bytes(one(PLAIN % payload).payload) == payload
    read, plain = many_jobs(b'{"jobs":[%b,%b]}' % (PLAIN % payload, PLAIN % b"1"), JSON, MOST, 2)
    assert (bytes(read[0].payload), plain) == (payload, True)

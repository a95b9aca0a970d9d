"""Take streams: framing, heartbeats, prefetch, order, and what the end of a stream means."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from .client import Client, Job, now_ms
from .conftest import HEARTBEAT_S
from .stream import HEARTBEAT, MSGPACK_STREAM, NDJSON, SSE, TakeStream
from .wire import Wire, request_bytes

FAR_MS = 4_102_444_800_000  # the year 2100


def ids(jobs: list[Job]) -> list[str]:
    return [job["id"] for job in jobs]


def test_zizq_42_headers_come_before_any_job(fresh: Callable[..., Client]) -> None:
    """Clients put a short time-out on the head; it must not wait for the first heartbeat either."""
    client = fresh(heartbeat_interval="1h")
    with Wire(client.address) as wire:
        wire.send(request_bytes("GET", "/jobs/take?queue=q"))
        assert wire.read_head().status == 200


def test_zizq_42_an_ndjson_heartbeat_is_an_empty_line(client: Client, queue: str) -> None:
    with client.wire() as wire:
        wire.send(request_bytes("GET", f"/jobs/take?queue={queue}"))
        wire.read_head()
        assert wire.read_exactly(12) == b"1\r\n\n\r\n1\r\n\n\r\n"


def test_zizq_42_the_interval_of_heartbeats(client: Client, queue: str) -> None:
    """The first comes one interval after the connection, and a job starts the interval anew."""
    start = time.monotonic()
    with client.take(queue) as stream:
        for beat in (1, 2, 3):
            assert stream.next_message() is HEARTBEAT
            assert time.monotonic() - start > beat * HEARTBEAT_S * 0.9
        start = time.monotonic()
        client.enqueue(queue)
        stream.next_job()
        assert stream.next_message() is HEARTBEAT
        assert time.monotonic() - start > HEARTBEAT_S * 0.8


def test_zizq_42_heartbeats_come_every_3_s_by_default(fresh: Callable[..., Client]) -> None:
    client = fresh(heartbeat_interval=None)
    start = time.monotonic()
    with client.take("q") as stream:
        assert stream.next_message() is HEARTBEAT
    assert time.monotonic() - start > 2.7


def test_zizq_43_framed_messagepack(client: Client, queue: str) -> None:
    with client.wire() as wire:
        wire.send(request_bytes("GET", f"/jobs/take?queue={queue}", headers=[("accept", MSGPACK_STREAM)]))
        assert wire.read_head().content_type == MSGPACK_STREAM
        assert wire.read_exactly(9) == b"4\r\n\0\0\0\0\r\n"
    with client.take(queue, accept=MSGPACK_STREAM) as stream:
        job = client.enqueue(queue, payload={"n": [1, None]})
        taken = stream.next_job()
        assert (taken["id"], taken["payload"], taken["status"]) == (job["id"], {"n": [1, None]}, "in_flight")
        assert stream.next_message() is HEARTBEAT


def test_server_sent_events(client: Client, queue: str) -> None:
    with client.take(queue, accept=SSE) as stream:
        assert stream.next_message() is HEARTBEAT
        job = client.enqueue(queue, payload="two\nlines")
        assert stream.next_job() == client.job(job["id"])
        assert stream.next_message() is HEARTBEAT


@pytest.mark.parametrize("accept", [NDJSON, MSGPACK_STREAM, SSE])
def test_many_and_large_messages_keep_their_frames(client: Client, queue: str, accept: str) -> None:
    payloads = ["x" * size for size in (0, 1, 127, 128, 70_000, 3_000_000)] * 3
    jobs = [{"type": "t", "queue": queue, "payload": payload} for payload in payloads]
    client.post("/jobs/bulk", {"jobs": jobs})
    with client.take(queue, prefetch=len(jobs), accept=accept) as stream:
        assert [job["payload"] for job in stream.next_jobs(len(jobs))] == payloads


def test_zizq_44_prefetch_bounds_what_is_unacknowledged(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 4)
    with client.take(queue, prefetch=2) as stream:
        assert ids(stream.next_jobs(2)) == sent[:2]
        stream.expect_idle()
        client.succeed(sent[1])  # on another connection than the stream
        assert stream.next_job()["id"] == sent[2]
        stream.expect_idle()
        client.fail(sent[0], retry_at=FAR_MS)
        assert stream.next_job()["id"] == sent[3]


def test_zizq_44_a_bulk_ack_frees_every_slot(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 9)
    with client.take(queue, prefetch=3) as stream:
        for at in range(0, 9, 3):
            assert ids(stream.next_jobs(3)) == sent[at : at + 3]
            client.succeed(*sent[at : at + 3])
    assert client.count(queue=queue) == 0


def test_zizq_45_prefetch_is_1_by_default(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 2)
    with client.take(queue) as stream:
        assert stream.next_job()["id"] == sent[0]
        stream.expect_idle()


def test_zizq_45_prefetch_0_is_unlimited(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 300)
    with client.take(queue, prefetch=0) as stream:
        assert ids(stream.next_jobs(300)) == sent


@pytest.mark.parametrize("prefetch", ["x", "-1", "1.5", "", "99999999999999999999999"])
def test_zizq_45_any_other_prefetch_is_400(client: Client, prefetch: str) -> None:
    """In JSON; the peer answers ``text/plain``, which breaks its clients' error reports."""
    response = client.get(f"/jobs/take?prefetch={prefetch}")
    assert (response.status, response.content_type) == (400, "application/json")
    assert response.error


def test_zizq_46_reliability_25_order_is_priority_then_id_across_queues(client: Client, queue: str) -> None:
    a, b = queue + "a", queue + "b"
    jobs = [(a, 5), (b, 5), (b, 1), (a, 65535), (a, 5), (b, 0), (b, 5)]
    sent = [client.enqueue(name, priority=priority)["id"] for name, priority in jobs]
    with client.take(f"{a},{b}", prefetch=0) as stream:
        taken = ids(stream.next_jobs(len(jobs)))
    assert taken == [sent[at] for at in (5, 2, 0, 1, 4, 6, 3)]


def test_zizq_46_order_is_by_enqueue_and_not_by_due_time(client: Client, queue: str) -> None:
    scheduled = client.enqueue(queue, ready_at=FAR_MS)["id"]
    later = client.enqueue_many(queue, 2)
    client.patch(f"/jobs/{scheduled}", {"ready_at": None})
    with client.take(queue, prefetch=3) as stream:
        assert ids(stream.next_jobs(3)) == [scheduled, *later]


@pytest.mark.parametrize("form", ["{0},{1}", "{0}%2C{1}", ",{0},,{1},", "{1},{0},{0}"])
def test_zizq_47_only_the_named_queues(client: Client, queue: str, form: str) -> None:
    names = [queue + "a", queue + "b", queue + "c"]
    sent = [client.enqueue(name)["id"] for name in (names[2], names[0], names[1])]
    with TakeStream(client.wire(), f"/jobs/take?prefetch=9&queue={form.format(*names)}") as stream:
        assert ids(stream.next_jobs(2)) == sent[1:]
        stream.expect_idle()
    assert client.job(sent[0])["status"] == "ready"


def test_deliveries_to_webhooks_are_nobody_elses(client: Client, queue: str) -> None:
    """Who took one could end it: it would never be sent, and count as cancelled."""
    refused = client.get(f"/jobs/take?queue={queue},%24deliveries")
    assert refused.status == 400
    assert refused.data["error"] == "queue must not be '$deliveries', which holds deliveries to webhooks"


def test_zizq_47_no_queue_or_an_empty_one_is_all(fresh: Callable[..., Client]) -> None:
    client = fresh()
    for query in ("", "&queue="):
        sent = [client.enqueue(name)["id"] for name in ("a", "b", "a")]
        with TakeStream(client.wire(), f"/jobs/take?prefetch=3{query}") as stream:
            assert ids(stream.next_jobs(3)) == sent
            client.succeed(*sent)


def test_zizq_48_delivered_jobs_are_in_flight(client: Client, queue: str) -> None:
    job = client.enqueue(queue, payload={"a": 1}, priority=3, retry_limit=2)
    before = now_ms()
    with client.take(queue) as stream:
        taken = stream.next_job()
        assert taken["status"] == "in_flight"
        assert taken["payload"] == {"a": 1}
        assert before <= taken["dequeued_at"] <= now_ms()
        assert (taken["priority"], taken["retry_limit"], taken["attempts"]) == (3, 2, 0)
        assert not {"duplicate", "folded"} & taken.keys()
        assert client.job(job["id"]) == taken


@pytest.mark.parametrize("end", ["close", "reset", "half_close"])
def test_zizq_49_the_end_of_a_stream_returns_its_jobs(client: Client, queue: str, end: str) -> None:
    sent = client.enqueue_many(queue, 4)
    stream = client.take(queue, prefetch=3)
    first = stream.next_jobs(3)
    client.succeed(sent[1])
    stream.next_job()
    getattr(stream.wire, end)()  # far sooner than any lease or time-out of the server ends
    for job in (first[0], first[2]):
        returned = client.when_status(job["id"], "ready")
        assert returned == job | {"status": "ready"}
    stream.close()
    client.when_status(sent[3], "ready")
    with client.take(queue, prefetch=3) as other:
        assert ids(other.next_jobs(3)) == [sent[0], sent[2], sent[3]]


def test_reliability_20_a_stream_that_closes_returns_all_it_had_and_the_counters_say_so(
    client: Client, queue: str
) -> None:
    """A few were read, most were not; all are ready again within five seconds, and the counter equals the rows."""
    jobs = 300
    client.enqueue_many(queue, jobs, payload="x" * 2_000)

    def in_flight() -> tuple[int, int]:
        (counted,) = [one for one in client.get("/v1/queues").data["queues"] if one["name"] == queue]
        return counted["in_flight"], client.count(queue=queue, status="in_flight")

    with client.take(queue, prefetch=200) as stream:
        assert len(stream.next_jobs(3)) == 3
        client.eventually(lambda: in_flight() == (200, 200), "they are in flight, read or not")
    closed_at = now_ms()
    client.eventually(lambda: in_flight() == (0, 0), "all are given back")
    assert now_ms() - closed_at < 5_000
    assert client.count(queue=queue, status="ready") == jobs


def test_zizq_49_late_acks_of_returned_jobs(client: Client, queue: str) -> None:
    """Merely ready: 404. In flight again with another worker: the old worker's ack counts."""
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
    client.when_status(job_id, "ready")
    assert client.post(f"/jobs/{job_id}/success").status == 404
    assert client.post(f"/jobs/{job_id}/failure", {"message": "late"}).status == 404
    with client.take(queue) as stream:
        stream.next_job()
        client.succeed(job_id)


def test_zizq_49_bytes_behind_an_open_stream_do_not_hide_its_end(client: Client, queue: str) -> None:
    """The peer no longer sees the end of a connection once something was pipelined behind the stream."""
    job_id = client.enqueue(queue)["id"]
    with client.take(queue) as stream:
        stream.next_job()
        stream.wire.send(request_bytes("GET", "/health") + b"and more")
        stream.expect_idle()
        assert client.job(job_id)["status"] == "in_flight"
        stream.wire.half_close()
        client.when_status(job_id, "ready")


def test_zizq_50_two_workers_never_hold_one_job(client: Client, queue: str) -> None:
    sent = client.enqueue_many(queue, 400)
    streams = [client.take(queue, prefetch=100) for _ in range(4)]
    try:
        held = [ids(stream.next_jobs(100)) for stream in streams]
        assert sorted(job_id for part in held for job_id in part) == sent
        for stream in streams:
            stream.expect_idle(beats=1)
    finally:
        for stream in streams:
            stream.close()


def test_a_taker_wakes_at_once_for_a_new_job(client: Client, queue: str) -> None:
    with client.take(queue) as stream:
        stream.expect_idle(beats=1)
        for _ in range(20):
            job_id = client.enqueue(queue)["id"]
            assert stream.next_job()["id"] == job_id
            client.succeed(job_id)


def test_the_worker_id_header_is_accepted(client: Client, queue: str) -> None:
    for value in ("worker-1", ""):
        with client.take(queue, headers=[("worker-id", value)]) as stream:
            job_id = client.enqueue(queue)["id"]
            assert stream.next_job()["id"] == job_id
            client.succeed(job_id)

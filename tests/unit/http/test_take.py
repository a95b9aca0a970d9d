"""One take stream between the wire and the dispatcher: what it sends, when it is paused, how it ends."""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from anew import logs
from anew.clock import ManualClock
from anew.engine import Taker
from anew.errors import InvalidJob, MalformedRequest
from anew.http.api import ApiSettings
from anew.http.formats import JSON
from anew.http.take import TakeRoutes
from anew.jobs import IdText
from anew.net.chunks import Chunks
from anew.net.seam import WireCounters

from .asked import Answer, Asked, HandStream

NOW = 1_700_000_000_000
MSGPACK_STREAM = "application/vnd.zizq.msgpack-stream"
BACKOFF = b'{"exponent":2.0,"base_ms":1,"jitter_ms":0}'
ROW: Any = (10, "q", "t", 5, 100, 0, None, None, None, None, None, None, b'{"a":1}')
LINE = (
    b'{"id":"tag000000000000000000000a","type":"t","queue":"q","priority":5,"status":"in_flight","payload":{"a":1},'
    b'"ready_at":100,"attempts":0,"dequeued_at":1700000000000}\n'
)


class Told:
    """What the dispatcher was told, in order; takers are known by what was done to them."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.takers: list[Taker] = []

    def add_taker(self, taker: Taker) -> None:
        self.takers.append(taker)
        self.calls.append(("add", taker.queues, taker.prefetch))

    def remove_taker(self, taker: Taker, *, interrupted: bool = True) -> None:
        self.calls.append(("remove", interrupted))

    def pause_taker(self, taker: Taker) -> None:
        self.calls.append(("pause",))

    def resume_taker(self, taker: Taker) -> None:
        self.calls.append(("resume",))


class Edge:
    """The route with a clock and a timer that are moved by hand."""

    def __init__(self, **settings: Any) -> None:
        self.commit = Told()
        self.clock = ManualClock(NOW)
        self.counters = WireCounters()
        self.timers: list[Any] = []
        context: Any = SimpleNamespace(
            commit=self.commit,
            engine=SimpleNamespace(ids=IdText("tag000000"), clock=self.clock),
            settings=ApiSettings(**settings),
            chunks=Chunks(),
            counters=self.counters,
        )
        loop: Any = SimpleNamespace(call_later=self._later)
        self.routes = TakeRoutes(context, loop)

    def _later(self, seconds: float, callback: Any) -> Any:
        self.timers.append(callback)
        return SimpleNamespace(cancel=lambda: self.timers.remove(callback))

    def take(self, query: str = "queue=q", **headers: str) -> HandStream:
        """Open a stream."""
        request = Asked("GET", f"/jobs/take?{query}", **headers)
        self.routes.take(request, JSON, ())
        assert request.answer.status == 200
        assert request.stream is not None
        return request.stream

    def ask(self) -> Answer:
        """Ask for a stream and give the answer as it is."""
        request = Asked("GET", "/jobs/take")
        self.routes.take(request, JSON, ())
        return request.answer

    def pass_ms(self, ms: int) -> None:
        """Let time pass, then let the timer fire once."""
        self.clock.advance(ms)
        fired, self.timers = self.timers, []
        for callback in fired:
            callback()


@pytest.fixture
def edge() -> Edge:
    return Edge(heartbeat_ms=1_000)


def test_what_was_taken_is_sent_as_lines(edge: Edge) -> None:
    stream = edge.take()
    edge.commit.takers[0].deliver([ROW, ROW], NOW)
    assert stream.written == [LINE + LINE]
    assert edge.commit.calls == [("add", ("q",), 1)]


FULL_ROW: Any = (11, "q", "t", 5, 100, 2, 99, 3, BACKOFF, b'{"dead_ms":7}', None, None, b"null")
FULL_JOB = {
    "id": "tag000000000000000000000b",
    "type": "t",
    "queue": "q",
    "priority": 5,
    "status": "in_flight",
    "payload": None,
    "ready_at": 100,
    "attempts": 2,
    "retry_limit": 3,
    "backoff": {"exponent": 2.0, "base_ms": 1, "jitter_ms": 0},
    "dequeued_at": NOW,
    "failed_at": 99,
    "retention": {"dead_ms": 7},
}


def test_all_that_a_job_says_is_sent_in_every_framing(edge: Edge) -> None:
    lines, framed, events = (
        edge.take(),
        edge.take(accept=MSGPACK_STREAM),
        edge.take(accept="text/event-stream"),
    )
    for taker in edge.commit.takers:
        taker.deliver([FULL_ROW], NOW)
    (line,), (frame,), (event,) = lines.written, framed.written, events.written
    assert line.endswith(b"\n")
    assert list(json.loads(line).items()) == list(FULL_JOB.items())
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert list(msgspec.msgpack.decode(frame[4:]).items()) == list(FULL_JOB.items())
    assert event == b"data: " + line + b"\n"


def test_a_peer_that_is_behind_is_given_nothing_until_it_has_caught_up(edge: Edge) -> None:
    stream = edge.take("prefetch=9")
    stream.writable = False
    edge.commit.takers[0].deliver([ROW], NOW)
    assert edge.commit.calls[1:] == [("pause",)]
    assert stream.on_drain is not None
    stream.on_drain()
    assert edge.commit.calls[1:] == [("pause",), ("resume",)]


def test_a_silent_stream_gets_a_heartbeat_an_interval_after_the_last_bytes(edge: Edge) -> None:
    stream = edge.take()
    edge.pass_ms(999)
    assert stream.written == []
    edge.pass_ms(1)
    assert stream.written == [b"\n"]
    edge.commit.takers[0].deliver([ROW], NOW)
    edge.pass_ms(999)
    assert stream.written == [b"\n", LINE]
    edge.pass_ms(1)
    assert stream.written == [b"\n", LINE, b"\n"]


def test_a_peer_that_is_behind_gets_no_heartbeats_on_top(edge: Edge) -> None:
    stream = edge.take()
    stream.writable = False
    edge.pass_ms(5_000)
    assert stream.written == []


@pytest.mark.parametrize(
    ("accept", "beat"),
    [(MSGPACK_STREAM, b"\0\0\0\0"), ("text/event-stream", b": heartbeat\n\n")],
)
def test_each_framing_has_its_heartbeat(edge: Edge, accept: str, beat: bytes) -> None:
    stream = edge.take(accept=accept)
    edge.pass_ms(1_000)
    assert stream.written == [beat]


def test_the_timer_rests_while_no_stream_is_open(edge: Edge) -> None:
    stream = edge.take()
    assert stream.on_close is not None
    stream.on_close()
    edge.pass_ms(1_000)
    assert edge.timers == []
    edge.take()
    assert len(edge.timers) == 1


def test_the_end_of_a_connection_gives_back_what_it_held_and_once(edge: Edge) -> None:
    stream = edge.take()
    assert stream.on_close is not None
    stream.on_close()
    stream.on_close()
    assert edge.commit.calls[1:] == [("remove", True)]


def test_a_stop_of_the_server_ends_streams_cleanly_and_is_no_interruption(edge: Edge) -> None:
    stream = edge.take()
    edge.routes.end_all()
    assert stream.closed
    assert edge.commit.calls[1:] == [("remove", False)]
    assert edge.ask().status == 503


def test_streams_beyond_the_limit_are_refused_and_counted() -> None:
    edge = Edge(max_streams=1)
    first = edge.take()
    answer = edge.ask()
    assert (answer.status, answer.extra) == (503, ((b"retry-after", b"1"),))
    assert b"--max-streams" in answer.body
    assert edge.counters.refused == {"streams": 1}
    assert first.on_close is not None
    first.on_close()
    edge.take()


def test_a_peer_that_is_gone_before_its_stream_opens_takes_nothing(edge: Edge) -> None:
    request = Asked("GET", "/jobs/take")
    request.stream = None
    edge.routes.take(request, JSON, ())
    assert edge.commit.calls == []


@pytest.mark.parametrize(
    ("query", "queues", "prefetch"),
    [
        ("", None, 1),
        ("queue=", None, 1),
        ("queue=b,a,,b&prefetch=7", ("a", "b"), 7),
        ("prefetch=0", None, 1_000),
        ("prefetch=1001", None, 1_000),
        ("prefetch=18446744073709551615", None, 1_000),
    ],
)
def test_a_query_says_which_queues_and_how_many(
    edge: Edge, query: str, queues: tuple[str, ...] | None, prefetch: int
) -> None:
    """Whatever the prefetch, one stream holds 1,000 jobs at most."""
    edge.take(query)
    assert edge.commit.calls == [("add", queues, prefetch)]


@pytest.mark.parametrize("prefetch", ["x", "-1", "1.5", "", "+1", "18446744073709551616", "9" * 21, "\u0661"])
def test_a_prefetch_that_is_no_whole_number_is_refused(edge: Edge, prefetch: str) -> None:
    with pytest.raises(
        MalformedRequest, match=r"prefetch: .*; expected a whole number up to 18446744073709551615"
    ):
        edge.take(f"prefetch={prefetch}")


def test_a_stream_may_have_a_limit_of_interruptions_of_its_own(edge: Edge) -> None:
    for header in ({}, {"interruption-limit": "3"}, {"interruption-limit": "0"}):
        edge.take(**header)
    assert [taker.interruption_limit for taker in edge.commit.takers] == [None, 3, 0]
    for text in ("x", "-1", "1000001", "99999999", ""):
        with pytest.raises(InvalidJob, match="Interruption-Limit: expected a number from 0 to 1000000"):
            edge.take(**{"interruption-limit": text})


def test_a_thousand_queues_may_be_named_and_no_more(edge: Edge) -> None:
    names = [f"q{number}" for number in range(1_001)]
    edge.take("queue=" + ",".join(names[:1_000]))
    with pytest.raises(InvalidJob, match="at most 1000 names, got 1001"):
        edge.take("queue=" + ",".join(names))


def test_jobs_that_could_not_be_written_are_given_back_uncounted(edge: Edge) -> None:
    edge.take()
    edge.commit.takers[0].broken()
    assert edge.commit.calls[1:] == [("remove", False)]


def test_long_payloads_in_messagepack_are_translated_in_chunks_and_stay_in_order(edge: Edge) -> None:
    """Built in one go, 30 MiB of empty lists would stop everything for two seconds."""
    long: Any = (*ROW[:-1], b"[" + b"[]," * 200_000 + b"1]")

    async def test() -> None:
        stream = edge.take(accept=MSGPACK_STREAM)
        taker = edge.commit.takers[0]
        taker.deliver([long, ROW], NOW)
        taker.deliver([ROW], NOW)
        assert stream.written == []
        assert stream.on_drain is not None
        stream.on_drain()
        assert edge.commit.calls[1:] == [("pause",)]
        while len(edge.commit.calls) < 3:
            await asyncio.sleep(0)
        assert edge.commit.calls[2:] == [("resume",)]
        payloads = [msgspec.msgpack.decode(job)["payload"] for job in frames(b"".join(stream.written))]
        assert payloads == [[[]] * 200_000 + [1], {"a": 1}, {"a": 1}]

    asyncio.run(test())


def test_nothing_is_written_of_what_is_being_translated_when_its_stream_ends(edge: Edge) -> None:
    async def test() -> None:
        stream = edge.take(accept=MSGPACK_STREAM)
        edge.commit.takers[0].deliver([(*ROW[:-1], b"[" + b"[]," * 200_000 + b"1]")] * 2, NOW)
        assert stream.on_close is not None
        stream.on_close()
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert edge.commit.calls[1:] == [("pause",), ("remove", True)]

    asyncio.run(test())


def frames(data: bytes) -> list[bytes]:
    """Cut a MessagePack stream into its frames."""
    found: list[bytes] = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """What was logged, with its fields; forgotten then."""
    shown = [
        (fields.pop("message"), fields) for fields in (logs.fields_of(record) for record in caplog.records)
    ]
    caplog.clear()
    return shown


def test_the_log_shows_the_worker_of_each_stream(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "anew.http")
    stream = edge.take("queue=b,a&prefetch=7", worker_id="mailer-3")
    assert events(caplog) == [("take stream opened", {"worker": "mailer-3", "queues": "a,b", "prefetch": 7})]
    assert stream.on_close is not None
    stream.on_close()
    assert events(caplog) == [("take stream closed", {"worker": "mailer-3", "interrupted": True})]


@pytest.mark.parametrize("headers", [{}, {"worker_id": ""}])
def test_a_worker_without_a_name_gets_one_of_8_hex_digits(
    edge: Edge, caplog: pytest.LogCaptureFixture, headers: dict[str, str]
) -> None:
    caplog.set_level("INFO", "anew.http")
    edge.take("", **headers)
    edge.routes.end_all()
    (opened, first), (closed, second) = events(caplog)
    assert re.fullmatch("[0-9a-f]{8}", first["worker"])
    assert (opened, first["queues"], first["prefetch"]) == ("take stream opened", "all", 1)
    assert (closed, second) == ("take stream closed", {"worker": first["worker"], "interrupted": False})

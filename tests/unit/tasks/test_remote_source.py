"""A worker's side of a server whose streams break, with the server played by the test."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from anew import Anew
from anew.client import Filters, JobView
from anew.client.views import read_job
from anew.errors import Unreachable
from anew.jobs import Failed, Interrupted, Outcome
from anew.tasks.remote_source import RemoteSource
from anew.tasks.running import CALLED_OFF, Run
from anew.tasks.source import Exchanged, Want

JOB_ID = "tag0000000000000000000007"
WANT = Want(None, 8)
WAIT_S = 10.0


class Stream:
    """An open stream: gives what the test puts in; None breaks it."""

    def __init__(self) -> None:
        self.events_put: queue.SimpleQueue[JobView | None] = queue.SimpleQueue()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        self.events_put.put(None)

    def events(self) -> Iterator[JobView]:
        while (job := self.events_put.get(timeout=WAIT_S)) is not None:
            yield job
        raise Unreachable("the stream broke")


class Server:
    """What a worker asks; jobs are in flight under the instant of their take.

    Attributes:
        streams: What the next tries to open a stream get; a try waits for it.
        tries: One for each try, when it is made.
        held: By id, when the job was taken that is in flight.
        reports: All that were made.
        asked: How often it was asked about breakers.
        ended: The ids of jobs that have ended.
        counted: What it was asked to count.
        listed: How often it was asked to list jobs.
        meanwhile: Called when it is asked about breakers.
    """

    def __init__(self) -> None:
        self.streams: queue.SimpleQueue[Stream | None] = queue.SimpleQueue()
        self.tries: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.held: dict[str, int] = {}
        self.reports: list[dict[str, Any]] = []
        self.asked = 0
        self.ended: set[str] = set()
        self.counted: list[Filters] = []
        self.listed = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def take(self, queues: object, **_: object) -> Stream:
        self.tries.put(1)
        stream = self.streams.get(timeout=WAIT_S)
        if stream is None:  # closed
            self.streams.put(None)
            raise Unreachable("closed")
        return stream

    def count(self, filters: Filters) -> int:
        self.counted.append(filters)
        return len(set(filters.id) - self.ended)

    def list(self, filters: Filters, *, page: int) -> Iterator[JobView]:
        assert page >= len(set(filters.id))
        self.listed += 1
        return iter([job(100, one) for one in filters.id if one not in self.ended])

    def request(self, method: str, path: str, body: Any) -> bytes:
        if (method, path) == ("POST", "/v1/breakers"):
            self.asked += 1
            self.meanwhile()
            return msgspec.json.encode({"held": [], "open": {}, "turned": []})
        assert (method, path) == ("POST", "/v1/jobs/reports")
        results: list[dict[str, Any]] = []
        for report in msgspec.json.decode(msgspec.json.encode(body))["reports"]:
            self.reports.append(report)
            if self.held.get(report["id"]) != report["taken_at"]:
                results.append({"error": "job not found in in-flight set", "code": "not_found"})
            else:
                results.append({"state": "completed", "ready_at": 0})
                if report["end"] != "goes_on":
                    del self.held[report["id"]]
        return msgspec.json.encode({"results": results})


class Bench:
    """A source whose stream is open."""

    def __init__(self, app: Anew) -> None:
        self.server = Server()
        self.source = RemoteSource(app, self.server)  # type: ignore[arg-type]
        self.exchange()
        self.server.tries.get(timeout=WAIT_S)
        self.connect()

    def exchange(self, *ended: Run) -> Exchanged:
        return self.source.exchange(ended, [], [WANT])

    def connect(self) -> None:
        """Let the try to open a stream succeed."""
        self.stream = Stream()
        self.server.streams.put(self.stream)

    def deliver(self, taken_at: int) -> None:
        self.server.held[JOB_ID] = taken_at
        self.stream.events_put.put(job(taken_at))

    def take(self) -> Run:
        """Exchange until the job has come."""
        while True:
            seen = self.source.seen
            (runs,) = self.exchange().taken
            if runs:
                return runs[0]
            self.source.sleep(WAIT_S, seen)
            assert self.source.seen != seen

    def settled(self) -> Exchanged:
        """Exchange until something was settled; nothing may be taken."""
        while True:
            seen = self.source.seen
            done = self.exchange()
            assert done.taken == [[]]
            if done.settled:
                return done
            self.source.sleep(WAIT_S, seen)
            assert self.source.seen != seen

    def ask(self) -> None:
        """Exchange until the server is asked about breakers; nothing may be taken."""
        while not self.server.asked:
            seen = self.source.seen
            assert self.exchange().taken == [[]]
            if not self.server.asked:
                self.source.sleep(WAIT_S, seen)

    def lose(self) -> None:
        """Break the stream, and return when the worker knows it."""
        self.server.held.clear()
        self.stream.events_put.put(None)
        self.server.tries.get(timeout=WAIT_S)

    def close(self) -> None:
        self.server.streams.put(None)
        self.stream.close()
        self.source.close()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr("anew.client.feed.retry_wait_ms", lambda *_: 0)
    made = Bench(Anew())
    yield made
    made.close()


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """One whose jobs call a service that has a breaker."""
    monkeypatch.setattr("anew.client.feed.retry_wait_ms", lambda *_: 0)
    app = Anew()
    app.task(name="t", downstream="stripe")(lambda: None)
    made = Bench(app)
    yield made
    made.close()


def unreachable() -> None:
    """Answer nothing."""
    raise Unreachable("the server is gone")


def run_of(job_id: str) -> Run:
    """A run of a job."""
    return Run(
        key=0, token=0, job_id=job_id, name="t", queue="q", payload=b"{}", attempts=0, max_attempts=None, task=None,
    )  # fmt: skip


def job(taken_at: int, job_id: str = JOB_ID) -> JobView:
    """The job as a stream delivers it."""
    view = {
        "id": job_id,
        "type": "t",
        "queue": "q",
        "priority": 0,
        "status": "in_flight",
        "ready_at": 0,
        "attempts": 0,
        "dequeued_at": taken_at,
        "payload": {},
    }
    return read_job(msgspec.json.encode(view))


@pytest.mark.parametrize(
    "outcome", [None, Failed(message="no"), Interrupted("worker gone")], ids=["well", "badly", "crashed"]
)
def test_a_run_that_ends_while_its_worker_has_no_stream_is_reported_under_the_next_hold(
    bench: Bench, outcome: Outcome | None
) -> None:
    bench.deliver(taken_at=100)
    run = bench.take()
    bench.lose()
    run.end(outcome)
    done = bench.exchange(run)  # the server is there again, and the worker still waits with its next try
    assert (done.settled, done.lost, done.again, done.taken) == ([], [], [], [[]])
    bench.connect()
    bench.deliver(taken_at=200)
    (settled,) = bench.settled().settled
    assert settled[0] is run
    first, second = bench.server.reports
    assert (first["taken_at"], second["taken_at"]) == (100, 200)
    assert first | {"taken_at": 200} == second


def test_a_run_whose_job_was_called_off_is_lost(bench: Bench) -> None:
    bench.deliver(taken_at=100)
    run = bench.take()
    bench.server.held.clear()
    run.end(None)
    assert bench.exchange(run).lost == [run]


def test_a_job_that_was_given_back_unbegun_is_not_taken_for_done(bench: Bench) -> None:
    bench.deliver(taken_at=100)
    run = bench.take()
    bench.lose()
    done = bench.source.exchange([], [run], [WANT])
    assert done.lost == [run]
    bench.connect()
    bench.deliver(taken_at=200)
    assert bench.take() is not run


def test_a_run_that_goes_on_under_a_new_hold_says_so(bench: Bench) -> None:
    bench.deliver(taken_at=100)
    run = bench.take()
    bench.lose()
    bench.connect()
    bench.deliver(taken_at=200)
    while not bench.server.reports:
        seen = bench.source.seen
        assert bench.exchange().taken == [[]]
        if not bench.server.reports:
            bench.source.sleep(WAIT_S, seen)
    assert bench.server.reports == [{"id": JOB_ID, "taken_at": 200, "end": "goes_on"}]
    run.end(None)
    assert bench.exchange(run).settled == [(run, None)]


@pytest.mark.parametrize("ends", ["before the job comes again", "after it"])
def test_a_run_that_was_called_off_says_nothing_of_the_job_when_that_comes_again(
    bench: Bench, ends: str
) -> None:
    bench.deliver(taken_at=100)
    run = bench.take()
    run.stopped = CALLED_OFF
    bench.lose()
    run.end(CALLED_OFF)
    if ends == "before the job comes again":
        assert bench.exchange(run).lost == [run]
    bench.connect()
    bench.deliver(taken_at=200)  # somebody has redriven it
    again = bench.take()
    assert (again is run, again.token, run.token) == (False, 200, 100)
    if ends == "after it":
        assert bench.exchange(run).lost == [run]
    again.end(None)
    assert bench.exchange(again).settled == [(again, None)]


def test_whether_jobs_are_lost_is_asked_by_their_number_a_hundred_at_a_time(bench: Bench) -> None:
    runs = [run_of(f"tag{number:022}") for number in range(250)]
    ended = {runs[120].job_id, runs[249].job_id}
    assert bench.source.lost(runs) == {}
    assert [len(asked.id) for asked in bench.server.counted] == [100, 100, 50]
    assert set(bench.server.counted[0].state) == {"scheduled", "retrying", "ready", "in_flight"}
    assert bench.server.listed == 0
    bench.server.ended = ended
    assert bench.source.lost(runs) == {runs[120]: CALLED_OFF, runs[249]: CALLED_OFF}
    assert bench.server.listed == 2


def test_where_the_server_does_not_say_nothing_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.server, "count", lambda filters: unreachable())
    assert bench.source.lost([run_of(JOB_ID)]) == {}


def test_a_server_that_is_not_there_is_asked_about_breakers_after_a_wait_alone(
    guarded: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anew.tasks.remote_source.retry_wait_ms", lambda *_: 60_000)
    guarded.server.meanwhile = unreachable
    guarded.deliver(taken_at=100)
    guarded.ask()
    done = [guarded.exchange() for _ in range(3)]
    assert ([one.taken for one in done], guarded.server.asked) == ([[[]]] * 3, 1)


def test_a_job_that_is_kept_back_while_its_stream_breaks_runs_once(
    guarded: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off() -> None:
        guarded.lose()
        unreachable()

    monkeypatch.setattr("anew.tasks.remote_source.retry_wait_ms", lambda *_: 0)
    guarded.server.meanwhile = break_off
    guarded.deliver(taken_at=100)
    guarded.ask()
    guarded.server.meanwhile = lambda: None
    guarded.connect()
    guarded.deliver(taken_at=200)
    assert guarded.take().token == 200
    assert guarded.exchange().taken == [[]]

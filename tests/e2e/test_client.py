"""`anew.client` against a running server, and against peers that misbehave."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from anew.client import Client, Draft, Filters, async_transport, stream, transport
from anew.errors import IllegalTransition, InvalidInput, NotFound, TooLarge, Unauthorized, Unreachable

from .blocked import BlockedClient
from .command import url_of
from .server import ServerProcess

IMMEDIATE = {"exponent": 0, "base_ms": 0, "jitter_ms": 0}


@pytest.fixture(params=[Client, BlockedClient], ids=["blocking", "awaited"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Make a client, of each kind in turn."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(request.param(*args, **options))


@pytest.fixture
def anew(server: ServerProcess, connect: Callable[..., Client]) -> Client:
    """Our client of the shared server."""
    return connect(url_of(server.address))


def die(anew: Client, queue: str) -> str:
    """Enqueue a job, take it and let it die."""
    job = anew.enqueue("t", queue, retry_limit=0)
    with anew.take([queue]) as stream:
        assert next(iter(stream)).id == job.id
        anew.failure(job.id, "boom")
    return job.id


def test_health_and_version(anew: Client) -> None:
    assert anew.health()["status"] == "ok"
    assert anew.version() == "0.6.1"


def test_a_job_there_and_back(anew: Client, queue: str) -> None:
    stored = anew.enqueue("t", queue, {"n": [1, None, "é"]}, priority=7, retry_limit=3, backoff=IMMEDIATE)
    job = anew.get(stored.id)
    assert (job.type, job.queue, job.priority, job.status) == ("t", queue, 7, "ready")
    assert (job.data(), job.retry_limit, job.backoff) == ({"n": [1, None, "é"]}, 3, IMMEDIATE)
    assert queue in anew.queues()


def test_a_list_longer_than_a_page_is_whole(anew: Client, queue: str) -> None:
    ids = [job.id for job in anew.enqueue_many(Draft(type="t", queue=queue) for _ in range(7))]
    filters = Filters(queue=(queue,))
    assert [job.id for job in anew.list(filters, page=3)] == ids
    assert [job.id for job in anew.list(filters, page=3, order="desc")] == ids[::-1]
    assert anew.count(filters) == 7
    page = anew.page(filters, limit=2, after=ids[1])
    assert [job.id for job in page.jobs] == ids[2:4]


def test_pages_follow_each_other_both_ways(anew: Client, queue: str) -> None:
    ids = [job.id for job in anew.enqueue_many(Draft(type="t", queue=queue) for _ in range(5))]
    filters = Filters(queue=queue)
    first = anew.page(filters, limit=2)
    second = first.next()
    assert second is not None
    assert [job.id for job in second] == ids[2:4]
    back = second.prev()
    assert back is not None
    assert [job.id for job in back] == ids[1::-1]
    pages = [[job.id for job in page] for page in anew.pages(filters, limit=2)]
    assert pages == [ids[:2], ids[2:4], ids[4:]]
    assert len(list(anew.pages(filters, limit=2, at_most=2))) == 2


def test_queues_and_last_errors_come_in_one_answer(anew: Client, queue: str) -> None:
    job_id = die(anew, queue)
    anew.enqueue("t", queue, delay="1h")
    (counts,) = [counts for counts in anew.queue_counts() if counts.name == queue]
    assert (counts.ready, counts.scheduled, counts.in_flight, counts.dead) == (0, 1, 0, 1)
    dead, scheduled = anew.page(Filters(queue=queue), last_errors=True)
    assert (dead.id, scheduled.last_error) == (job_id, None)
    assert dead.last_error is not None
    assert (dead.last_error.attempt, dead.last_error.message) == (1, "boom")
    following = anew.page(Filters(queue=queue), limit=1, last_errors=True, order="desc").next()
    assert following is not None
    assert [job.last_error for job in following] == [dead.last_error]


def test_a_text_is_one_queue_and_one_id(anew: Client, queue: str) -> None:
    job_id = anew.enqueue("t", queue).id
    with anew.take(queue) as stream:
        assert next(iter(stream)).id == job_id
        assert anew.success_many(job_id) == []
    assert anew.count(Filters(queue=queue)) == 0


def test_times_in_every_form(anew: Client, queue: str) -> None:
    at = datetime(2100, 1, 1, tzinfo=UTC)
    # 2100-01-01 is 47,482 days after the epoch.
    job = anew.enqueue("t", queue, ready_at=at, retention={"completed_ms": timedelta(minutes=1)})
    assert job.ready_at == 47_482 * 86_400_000
    assert job.retention == {"completed_ms": 60_000}
    assert anew.count(Filters(queue=queue, ready_at=at)) == 1
    assert anew.patch(job.id, {"ready_at": at + timedelta(days=1)}).ready_at == 47_483 * 86_400_000
    assert anew.patch(job.id, {"delay": "0s"}).status == "ready"
    with anew.take(queue) as stream:
        next(iter(stream))
        assert anew.failure(job.id, "m", retry_at=at).ready_at == 47_482 * 86_400_000


def test_names_that_need_encoding(anew: Client, queue: str) -> None:
    odd = queue + " a&b#c%d/é"
    ids = [job.id for job in anew.enqueue_many(Draft(type="t", queue=odd) for _ in range(3))]
    assert [job.id for job in anew.list(Filters(queue=(odd,)), page=1)] == ids
    with anew.take([odd]) as stream:
        assert next(iter(stream)).id == ids[0]


def test_a_body_that_the_server_does_not_take_is_told_though_it_was_not_read(
    fresh_server: Callable[..., ServerProcess],
) -> None:
    server = fresh_server(max_body="256KiB")
    with Client(url_of(server.address)) as client:
        with pytest.raises(TooLarge, match="at most 262144 bytes"):
            client.enqueue("t", "q", "x" * 8_000_000)
        assert client.enqueue("t", "q").status == "ready"


def test_a_failure_and_its_record(anew: Client, queue: str) -> None:
    job_id = anew.enqueue("t", queue, backoff=IMMEDIATE).id
    with anew.take([queue], prefetch=2, worker_id="me") as stream:
        job = next(iter(stream))
        after = anew.failure(job.id, "first", error_type="IOError", backtrace="x", retry_at=1)
        assert (after.status, after.attempts) == ("scheduled", 1)
        assert next(iter(stream)).attempts == 1
        assert anew.failure(job.id, "second", kill=True).status == "dead"
    assert [error.message for error in anew.errors(job_id)] == ["first", "second"]
    assert [error.attempt for error in anew.errors(job_id, order="desc", limit=1)] == [2]
    with pytest.raises(NotFound):
        anew.failure(job_id, "third")


def test_success_single_and_in_bulk(anew: Client, queue: str) -> None:
    ids = [job.id for job in anew.enqueue_many(Draft(type="t", queue=queue) for _ in range(3))]
    with anew.take([queue], prefetch=3) as stream:
        taken = iter(stream)
        assert [next(taken).id for _ in range(3)] == ids
        anew.success(ids[0])
        assert anew.success_many([*ids, "unknown"]) == [ids[0], "unknown"]
    with pytest.raises(NotFound):
        anew.success(ids[0])
    with pytest.raises(InvalidInput):
        anew.success_many([])


def test_patch_and_delete(anew: Client, queue: str) -> None:
    ids = [job.id for job in anew.enqueue_many(Draft(type="t", queue=queue) for _ in range(3))]
    assert anew.patch(ids[0], {"priority": 1, "retry_limit": 2}).priority == 1
    assert anew.patch(ids[0], {"retry_limit": None}).retry_limit is None
    assert anew.patch_many({"priority": 9}, Filters(queue=(queue,))) == 3
    anew.delete(ids[0])
    with pytest.raises(NotFound):
        anew.delete(ids[0])
    assert anew.delete_many(Filters(id=tuple(ids[1:]))) == 2
    with pytest.raises(IllegalTransition):
        anew.patch(die(anew, queue), {"priority": 1})


def test_dead_jobs_come_back(anew: Client, queue: str) -> None:
    assert anew.retry(die(anew, queue)).status == "ready"
    die(anew, queue + "-2")
    filters = Filters(queue=(queue + "-2",))
    assert anew.redrive(filters, spread=timedelta(seconds=1), reset_attempts=True) == 1
    assert [job.attempts for job in anew.list(filters)] == [0]


def test_threads_share_a_client(anew: Client, queue: str) -> None:
    def produce() -> None:
        for _ in range(20):
            anew.enqueue("t", queue)

    threads = [threading.Thread(target=produce) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert anew.count(Filters(queue=(queue,))) == 80


def test_closing_a_stream_ends_a_reader_that_waits(anew: Client, queue: str) -> None:
    stream = anew.take([queue])
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(stream))
    reader.start()
    stream.close()
    reader.join(10)
    assert not reader.is_alive()
    assert seen == []


def test_a_server_that_restarts_costs_no_request(
    fresh_server: Callable[..., ServerProcess], connect: Callable[..., Client]
) -> None:
    first = fresh_server()
    client = connect(url_of(first.address))
    client.enqueue("t", "q")
    first.terminate()
    # The connection that was kept is dead, and nothing may be sent on it: who could tell what became of it?
    second = fresh_server(root_dir=first.root_dir, port=first.address[1])
    assert second.address == first.address
    client.enqueue("t", "q")
    assert client.count() == 2


def test_a_stream_is_opened_again_by_a_server_that_has_restarted(
    fresh_server: Callable[..., ServerProcess], connect: Callable[..., Client]
) -> None:
    first = fresh_server()
    at_once = {"curve": {"constant": "20ms"}, "limit": None}
    client = connect(url_of(first.address), retry=at_once)
    job = client.enqueue("t", "q")
    with client.take("q") as stream:
        jobs = iter(stream)
        assert next(jobs).id == job.id
        first.terminate()
        fresh_server(root_dir=first.root_dir, port=first.address[1])
        assert next(jobs).id == job.id  # it was not settled
        assert stream.opened == 2
        client.success(job.id)


class Peer:
    """A server that sends the same bytes to everybody, and then says nothing or hangs up."""

    def __init__(self, answer: bytes, *, hang_up: bool) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._answer, self._hang_up = answer, hang_up
        self._kept: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and only then let go of what is kept: the thread may just be keeping one more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes it where it accepts
        self._socket.close()
        self._thread.join()
        for peer in self._kept:
            peer.close()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            self._kept.append(peer)
            with contextlib.suppress(OSError):
                peer.recv(65536)
                peer.sendall(self._answer)
            if self._hang_up:
                peer.close()


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    """Start misbehaving peers."""
    peers: list[Peer] = []

    def start(answer: bytes, *, hang_up: bool = True) -> Peer:
        peers.append(Peer(answer, hang_up=hang_up))
        return peers[-1]

    yield start
    for one in peers:
        one.close()


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"


def test_a_silent_stream_is_given_up(peer: Callable[..., Peer], connect: Callable[..., Client]) -> None:
    silent = peer(STREAM + b"1\r\n\n\r\n", hang_up=False)
    with connect(silent.url, retry=None).take(idle_timeout="200ms") as stream:
        events = stream.events()
        assert next(events) is None
        with pytest.raises(Unreachable, match="silent for 200 ms"):
            next(events)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (b"", "the server closed the connection"),
        (b'5\r\n{"id"', "the server closed the connection"),
        (b'5\r\n{"id"\r\n0\r\n\r\n', "ended inside a job"),
    ],
)
def test_a_stream_that_breaks_is_no_clean_end(
    peer: Callable[..., Peer], connect: Callable[..., Client], rest: bytes, said: str
) -> None:
    with (
        connect(peer(STREAM + rest).url, retry=None).take() as stream,
        pytest.raises(Unreachable, match=said),
    ):
        next(iter(stream))


def test_a_stream_that_the_server_ends_is_one(
    peer: Callable[..., Peer], connect: Callable[..., Client]
) -> None:
    with connect(peer(STREAM + b"1\r\n\n\r\n0\r\n\r\n").url, retry=None).take() as stream:
        assert list(stream.events()) == [None]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "may or may not have been done"),
        (b"nonsense\r\n\r\n", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{", "may or may not have been done"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", "is it an Anew server"),
        (b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}", "is it an Anew server"),
    ],
)
def test_what_is_no_answer(
    peer: Callable[..., Peer], connect: Callable[..., Client], answer: bytes, said: str
) -> None:
    with pytest.raises(Unreachable, match=said):
        connect(peer(answer).url).enqueue("t", "q")


@pytest.mark.parametrize(
    "answer",
    [
        b"content-length: 30\r\n\r\n" + b" " * 30,
        b"transfer-encoding: chunked\r\n\r\n1e\r\n" + b" " * 30 + b"\r\n0\r\n\r\n",
        b"connection: close\r\n\r\n" + b" " * 30,
    ],
    ids=["length", "chunks", "neither"],
)
def test_an_answer_that_would_fill_the_memory_is_given_up(
    peer: Callable[..., Peer],
    connect: Callable[..., Client],
    answer: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (transport, async_transport):
        monkeypatch.setattr(module, "LONGEST_ANSWER", 29)
    with pytest.raises(Unreachable, match="longer than 29 bytes"):
        connect(peer(b"HTTP/1.1 200 OK\r\n" + answer).url).health()


def test_a_job_that_would_fill_the_memory_ends_the_stream(
    peer: Callable[..., Peer], connect: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "LONGEST_ANSWER", 29)
    endless = peer(STREAM + b"1e\r\n" + b" " * 30 + b"\r\n", hang_up=False)
    with (
        connect(endless.url, retry=None).take() as taken,
        pytest.raises(Unreachable, match="more than 29 bytes"),
    ):
        next(iter(taken))


def test_a_server_that_does_not_answer_in_time(
    peer: Callable[..., Peer], connect: Callable[..., Client]
) -> None:
    with pytest.raises(Unreachable, match=r"no answer from .* within 200 ms"):
        connect(peer(b"", hang_up=False).url, timeout=timedelta(milliseconds=200)).health()


class Script(Peer):
    """A server that gives each request the next answer; after an empty one it hangs up.

    Attributes:
        heard: First lines of requests.
    """

    def __init__(self, *answers: bytes) -> None:
        self.heard: list[str] = []
        self._answers = iter(answers)
        super().__init__(b"", hang_up=True)

    def _serve(self) -> None:
        for answer in self._answers:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                self.heard.append(peer.recv(65536).split(b"\r\n")[0].decode())
                peer.sendall(answer)


@pytest.fixture
def script() -> Iterator[Callable[..., Script]]:
    """Start servers that give these answers."""
    with contextlib.ExitStack() as stack:

        def start(*answers: bytes) -> Script:
            server = Script(*answers)
            stack.callback(server.close)
            return server

        yield start


QUICK = {"curve": {"constant": "5ms"}, "limit": 3}
NOT_IN_FLIGHT = (
    b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 42\r\n\r\n"
    b'{"error":"job not found in in-flight set"}'
)
LOOKED_AT = (
    b'{"id":"x","type":"t","queue":"q","status":"dead","priority":1,"ready_at":0,"attempts":1,"payload":null}'
)


def test_a_success_that_was_heard_and_not_answered_counts(
    script: Callable[..., Script], connect: Callable[..., Client]
) -> None:
    server = script(b"", NOT_IN_FLIGHT)
    connect(server.url, retry=QUICK).success("x")
    assert server.heard == ["POST /jobs/x/success HTTP/1.1"] * 2
    server = script(
        b"", b'HTTP/1.1 422 X\r\nconnection: close\r\ncontent-length: 19\r\n\r\n{"not_found":["x"]}'
    )
    assert connect(server.url, retry=QUICK).success_many("x") == []


def test_a_failure_that_was_not_answered_is_looked_up(
    script: Callable[..., Script], connect: Callable[..., Client]
) -> None:
    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(LOOKED_AT)
    server = script(b"", head + LOOKED_AT)
    assert connect(server.url, retry=QUICK).failure("x", "wrong").status == "dead"
    assert server.heard == ["POST /jobs/x/failure HTTP/1.1", "GET /jobs/x HTTP/1.1"]


def test_without_a_policy_a_report_is_made_once(
    script: Callable[..., Script], connect: Callable[..., Client]
) -> None:
    server = script(b"", NOT_IN_FLIGHT)
    with pytest.raises(Unreachable):
        connect(server.url, retry=None).success("x")
    assert len(server.heard) == 1


def test_a_stream_that_is_refused_is_not_opened_again(
    script: Callable[..., Script], connect: Callable[..., Client]
) -> None:
    refused = b'HTTP/1.1 401 X\r\nconnection: close\r\ncontent-length: 17\r\n\r\n{"error":"token"}'
    server = script(STREAM + b"1\r\n\n\r\n", b"", refused)
    with connect(server.url, retry=QUICK).take() as stream:
        events = stream.events()
        assert next(events) is None
        with pytest.raises(Unauthorized):
            next(events)
    assert len(server.heard) == 3


def test_a_stream_that_does_not_come_back_is_given_up(
    script: Callable[..., Script], connect: Callable[..., Client]
) -> None:
    server = script(STREAM + b"1\r\n\n\r\n", b"", b"", b"", b"")
    with connect(server.url, retry=QUICK).take() as stream:
        events = stream.events()
        assert next(events) is None
        with pytest.raises(Unreachable):
            next(events)
    assert len(server.heard) == 4  # the first, and three tries

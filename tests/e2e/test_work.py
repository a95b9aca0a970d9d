"""``anew work``: real jobs, real programs, real signals, and servers that go away."""

from __future__ import annotations

import contextlib
import json
import os
import queue as queues
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .client import Client
from .command import anew, url_of
from .server import START_TIMEOUT_S, ServerProcess, environment
from .wire import Address

IMMEDIATE = {"exponent": 0, "base_ms": 0, "jitter_ms": 0}


class Worker:
    """A running ``anew work --json``, whose log is read as it comes."""

    def __init__(self, address: Address, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "anew", "work", "--json", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | {"ANEW_URL": url_of(address)},
        )
        self._lines: queues.SimpleQueue[dict[str, Any] | None] = queues.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, *events: str, **facts: Any) -> dict[str, Any]:
        """Read the log up to a line that is one of these events, and give it."""
        while True:
            record = self._lines.get(timeout=START_TIMEOUT_S)
            assert record is not None, f"the worker ended before it logged {events}"
            if record["event"] in events and facts.items() <= record.items():
                return record

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; give the exit code."""
        code = self._process.wait(START_TIMEOUT_S)
        self._reader.join(START_TIMEOUT_S)
        return code

    def close(self) -> None:
        """End it, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self.ended()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(json.loads(line))
        self._lines.put(None)


@pytest.fixture
def work() -> Iterator[Callable[..., Worker]]:
    """Start workers; all are ended at the end."""
    workers: list[Worker] = []

    def start(address: Address, *words: str) -> Worker:
        workers.append(Worker(address, *words))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


class Gate:
    """Named pipes: a program announces itself through one and waits at the other; nobody sleeps.

    Both ends stay open here, so that neither an announcement nor a permit is lost when nobody waits for it.
    """

    def __init__(self, folder: Path) -> None:
        begun, go = folder / "begun", folder / "go"
        for path in (begun, go):
            os.mkfifo(path)
        self._begun = os.fdopen(os.open(begun, os.O_RDWR), "r+b", buffering=0)
        self._go = os.fdopen(os.open(go, os.O_RDWR), "r+b", buffering=0)
        # One byte a permit: of a longer one, two programs that wait at once might get a part each.
        wait = f"dd bs=1 count=1 < {go} 2> /dev/null"
        self.program = ("sh", "-c", f'echo "$ANEW_JOB_ID" > {begun}; exit "$({wait})"')

    def begun(self) -> str:
        """Wait until a program has begun; give its job."""
        ready, _, _ = select.select([self._begun], [], [], START_TIMEOUT_S)
        assert ready, "no program has begun"
        return self._begun.readline().decode().strip()

    def let_through(self, code: int = 0) -> None:
        """Let one program end with an exit code."""
        self._go.write(b"%d" % code)

    def close(self) -> None:
        """Close the pipes."""
        self._begun.close()
        self._go.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A program that says when it has begun, and then waits to be let through."""
    gate = Gate(tmp_path)
    yield gate
    gate.close()


def test_payload_environment_and_success(server: ServerProcess, client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, type="greet", payload={"name": "Ada", "n": [1, "é"]})["id"]
    program = 'cat; echo; echo "$ANEW_JOB_ID $ANEW_JOB_TYPE $ANEW_JOB_QUEUE $ANEW_JOB_ATTEMPTS"'
    done = anew(server.address, "work", "-q", queue, "--drain", "--", "sh", "-c", program)
    assert done.returncode == 0, done.stderr
    payload, facts = done.stdout.splitlines()
    assert json.loads(payload) == {"name": "Ada", "n": [1, "é"]}
    assert facts == f"{job_id} greet {queue} 0"
    assert client.count(queue=queue) == 0
    assert "Ada" not in done.stderr
    assert f"completed   {job_id} greet after " in done.stderr


def test_the_payload_arrives_byte_for_byte(server: ServerProcess, client: Client, queue: str) -> None:
    text = '{"b":1.50,"a":[1e2,12345678901234567890123]}'
    assert anew(server.address, "enqueue", "t", "-q", queue, text).returncode == 0
    done = anew(server.address, "work", "-q", queue, "--drain", "--", "cat")
    assert (done.returncode, done.stdout) == (0, text)


def test_a_large_payload_and_a_program_that_does_not_read_it(
    server: ServerProcess, client: Client, queue: str
) -> None:
    client.enqueue(queue, payload="x" * 3_000_000)
    client.enqueue(queue, payload="x" * 3_000_000)
    done = anew(server.address, "work", "-q", queue, "--once", "--", "wc", "-c")
    assert (done.returncode, done.stdout.strip()) == (0, "3000002")
    assert anew(server.address, "work", "-q", queue, "--drain", "--", "true").returncode == 0
    assert client.count(queue=queue) == 0


@pytest.mark.parametrize(
    ("program", "error_type", "message"),
    [
        ("echo one >&2; echo two >&2; exit 3", "exit status 3", "one\ntwo"),
        ("exit 1", "exit status 1", "exit status 1"),
        ("kill -9 $$", "killed by SIGKILL", "killed by SIGKILL"),
        (
            "head -c 3000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 2",
            "exit status 2",
            "x" * 997 + "end",
        ),
        ("printf 'a\\377b' >&2; exit 1", "exit status 1", "a\ufffdb"),
    ],
)
def test_a_failure_is_reported_with_the_end_of_stderr(
    server: ServerProcess, client: Client, queue: str, program: str, error_type: str, message: str
) -> None:
    job_id = client.enqueue(queue, retry_limit=0)["id"]
    done = anew(server.address, "work", "-q", queue, "--drain", "--", "sh", "-c", program)
    assert done.returncode == 0, done.stderr
    assert client.job(job_id)["status"] == "dead"
    (error,) = client.errors(job_id)
    assert (error["error_type"], error["message"]) == (error_type, message)
    assert f"dead        {job_id} work {error_type} after " in done.stderr


def test_a_failed_job_is_retried_as_its_policy_says(
    server: ServerProcess, client: Client, queue: str
) -> None:
    job_id = client.enqueue(queue, backoff=IMMEDIATE)["id"]
    anew(server.address, "work", "-q", queue, "--once", "--", "false")
    job = client.job(job_id)
    # Exponent 0, base 0, jitter 0: one second.
    assert (job["status"], job["attempts"], job["ready_at"] - job["failed_at"]) == ("scheduled", 1, 1_000)
    done = anew(server.address, "work", "-q", queue, "--once", "--", "sh", "-c", 'echo "$ANEW_JOB_ATTEMPTS"')
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_a_run_that_takes_too_long_is_ended_with_all_it_started(
    server: ServerProcess, client: Client, queue: str, tmp_path: Path
) -> None:
    job_id = client.enqueue(queue, retry_limit=0)["id"]
    # The pipe's other end closes when the last process that holds it is gone: the background one included.
    pipe = tmp_path / "alive"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    held = threading.Thread(target=pipe.read_bytes, daemon=True)
    held.start()
    program = f"exec 3> {pipe}; echo working >&2; sleep 100 & sleep 100"
    done = anew(
        server.address, "work", "-q", queue, "--once", "--timeout", "300ms", "--", "sh", "-c", program
    )
    assert done.returncode == 0, done.stderr
    held.join(START_TIMEOUT_S)
    assert not held.is_alive()
    (error,) = client.errors(job_id)
    assert (error["error_type"], error["message"]) == ("timeout", "timed out after 300 ms; working")


def test_a_program_that_cannot_be_started_fails_the_job(
    server: ServerProcess, client: Client, queue: str, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    job_id = client.enqueue(queue, retry_limit=0)["id"]
    assert anew(server.address, "work", "-q", queue, "--once", "--", str(script)).returncode == 0
    (error,) = client.errors(job_id)
    assert error["error_type"] == "cannot start"
    assert "No such file" in error["message"]


def test_concurrency_runs_so_many_at_once(
    server: ServerProcess, client: Client, queue: str, gate: Gate, work: Callable[..., Worker]
) -> None:
    ids = client.enqueue_many(queue, 3)
    worker = work(server.address, "-q", queue, "-c", "2", "--drain", "--", *gate.program)
    assert {gate.begun(), gate.begun()} == set(ids[:2])
    assert client.count(queue=queue, status="in_flight") == 2
    gate.let_through()
    assert gate.begun() == ids[2]
    gate.let_through()
    gate.let_through()
    assert worker.ended() == 0
    assert client.count(queue=queue) == 0


def test_several_queues(server: ServerProcess, client: Client, queue: str) -> None:
    for name in ("a", "b", "c"):
        client.enqueue(queue + name)
    program = 'echo "$ANEW_JOB_QUEUE"'
    done = anew(server.address, "work", "-q", f"{queue}a,{queue}b", "--drain", "--", "sh", "-c", program)
    assert done.stdout.split() == [queue + "a", queue + "b"]
    assert client.count(queue=queue + "c") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_one_signal_finishes_what_runs_and_takes_no_more(
    server: ServerProcess,
    client: Client,
    queue: str,
    gate: Gate,
    work: Callable[..., Worker],
    number: signal.Signals,
    code: int,
) -> None:
    ids = client.enqueue_many(queue, 2)
    worker = work(server.address, "-q", queue, "--", *gate.program)
    assert gate.begun() == ids[0]
    worker.signal(number)
    worker.wait_for("stopping")
    assert client.job(ids[0])["status"] == "in_flight"
    gate.let_through()
    assert worker.ended() == code
    assert [job["id"] for job in client.jobs(queue=queue)] == [ids[1]]
    client.when_status(ids[1], "ready")


def test_a_second_signal_kills_and_the_job_returns_as_if_never_taken(
    server: ServerProcess, client: Client, queue: str, gate: Gate, work: Callable[..., Worker]
) -> None:
    job_id = client.enqueue(queue)["id"]
    worker = work(server.address, "-q", queue, "--", *gate.program)
    gate.begun()
    worker.signal(signal.SIGTERM)
    worker.wait_for("stopping")
    worker.signal(signal.SIGTERM)
    worker.wait_for("interrupted", job_id=job_id)
    assert worker.ended() == 143
    assert client.when_status(job_id, "ready")["attempts"] == 0
    assert client.errors(job_id) == []


def test_a_run_outlives_its_server_and_its_job_is_not_begun_twice(
    fresh_server: Callable[..., ServerProcess],
    fresh: Callable[..., Client],
    tmp_path: Path,
    gate: Gate,
    work: Callable[..., Worker],
) -> None:
    root = tmp_path / "data"
    first = fresh_server(root_dir=root)
    job_id = fresh(first).enqueue("q", retention={"completed_ms": 3_600_000})["id"]
    worker = work(first.address, "-q", "q", "--", *gate.program)
    assert gate.begun() == job_id
    first.kill()
    worker.wait_for("lost")
    second = fresh_server(root_dir=root, port=first.address[1])
    client = fresh(second)
    # The new server knows nothing of the run; it offers the job once more, to the same worker.
    client.when_status(job_id, "in_flight")
    gate.let_through()
    worker.wait_for("completed", job_id=job_id)
    assert client.job(job_id)["status"] == "completed"


def test_a_verdict_waits_for_the_server(
    fresh_server: Callable[..., ServerProcess],
    fresh: Callable[..., Client],
    tmp_path: Path,
    gate: Gate,
    work: Callable[..., Worker],
) -> None:
    root = tmp_path / "data"
    first = fresh_server(root_dir=root)
    job_id = fresh(first).enqueue("q", retention={"completed_ms": 3_600_000})["id"]
    worker = work(first.address, "-q", "q", "--", *gate.program)
    assert gate.begun() == job_id
    first.kill()
    worker.wait_for("lost")
    gate.let_through()
    second = fresh_server(root_dir=root, port=first.address[1])
    # The verdict is heard if the job was offered to this worker before it came; else the job runs once more.
    verdict = worker.wait_for("completed", "gone")
    if verdict["event"] == "gone":
        assert gate.begun() == job_id
        gate.let_through()
        worker.wait_for("completed", job_id=job_id)
    assert fresh(second).job(job_id)["status"] == "completed"


def test_a_worker_waits_for_a_server_that_is_not_there_yet(
    fresh_server: Callable[..., ServerProcess],
    fresh: Callable[..., Client],
    tmp_path: Path,
    work: Callable[..., Worker],
) -> None:
    root = tmp_path / "data"
    first = fresh_server(root_dir=root)
    fresh(first).enqueue("q")
    first.kill()
    worker = work(first.address, "-q", "q", "--", "true")
    assert "no server at" in worker.wait_for("lost")["reason"]
    fresh_server(root_dir=root, port=first.address[1])
    worker.wait_for("completed")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 143


def test_drain_does_not_wait_for_a_server(fresh_server: Callable[..., ServerProcess]) -> None:
    gone = fresh_server()
    gone.kill()
    done = anew(gone.address, "work", "-q", "q", "--drain", "--", "true")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no server at" in done.stderr


def test_drain_ends_at_once_when_there_is_nothing(server: ServerProcess, queue: str) -> None:
    assert anew(server.address, "work", "-q", queue, "--drain", "--", "true").returncode == 0

"""``anew work``: real jobs, real programs, real signals, and servers that go away."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.signals import ignored, ignores

from .client import Client
from .command import anew, anew_process, url_of
from .server import START_TIMEOUT_S, ServerProcess
from .terminal import AtTerminal
from .wire import Address
from .worker import Gate, Worker

IMMEDIATE = {"exponent": 0, "base_ms": 0, "jitter_ms": 0}


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


def test_payload_environment_and_success(server: ServerProcess, client: Client, queue: str) -> None:
    job_id = client.enqueue(queue, type="greet", payload={"name": "Ada", "n": [1, "é"]})["id"]
    program = 'cat; echo; echo "$ANEW_JOB_ID $ANEW_JOB_TYPE $ANEW_JOB_QUEUE $ANEW_JOB_ATTEMPTS"'
    done = anew_process(server.address, "work", "-q", queue, "--drain", "--", "sh", "-c", program)
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
    done = anew_process(server.address, "work", "-q", queue, "--drain", "--", "cat")
    assert (done.returncode, done.stdout) == (0, text)


def test_a_large_payload_and_a_program_that_does_not_read_it(
    server: ServerProcess, client: Client, queue: str
) -> None:
    client.enqueue(queue, payload="x" * 3_000_000)
    client.enqueue(queue, payload="x" * 3_000_000)
    done = anew_process(server.address, "work", "-q", queue, "--once", "--", "wc", "-c")
    assert (done.returncode, done.stdout.strip()) == (0, "3000002")
    assert anew_process(server.address, "work", "-q", queue, "--drain", "--", "true").returncode == 0
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
    done = anew_process(server.address, "work", "-q", queue, "--drain", "--", "sh", "-c", program)
    assert done.returncode == 0, done.stderr
    assert client.job(job_id)["status"] == "dead"
    (error,) = client.errors(job_id)
    assert (error["error_type"], error["message"]) == (error_type, message)
    assert f"dead        {job_id} work {error_type} after " in done.stderr


def test_a_failed_job_is_retried_as_its_policy_says(
    server: ServerProcess, client: Client, queue: str
) -> None:
    job_id = client.enqueue(queue, backoff=IMMEDIATE)["id"]
    assert anew_process(server.address, "work", "-q", queue, "--once", "--", "false").returncode == 1
    job = client.job(job_id)
    # Exponent 0, base 0, jitter 0: one second.
    assert (job["status"], job["attempts"], job["ready_at"] - job["failed_at"]) == ("scheduled", 1, 1_000)
    done = anew_process(
        server.address, "work", "-q", queue, "--once", "--", "sh", "-c", 'echo "$ANEW_JOB_ATTEMPTS"'
    )
    assert (done.returncode, done.stdout) == (0, "1\n")


@pytest.mark.parametrize("trap", ["", "trap '' TERM;"], ids=["default", "ignores SIGTERM"])
def test_a_run_that_takes_too_long_is_ended_with_all_it_started(
    server: ServerProcess, client: Client, queue: str, tmp_path: Path, trap: str
) -> None:
    job_id = client.enqueue(queue, retry_limit=0)["id"]
    # The pipe's other end closes when the last process that holds it is gone: the background one included.
    pipe = tmp_path / "alive"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    held = threading.Thread(target=pipe.read_bytes, daemon=True)
    held.start()
    program = f"exec 3> {pipe}; echo working >&2; ({trap} exec sleep 100) & sleep 100"
    done = anew_process(
        server.address, "work", "-q", queue, "--once", "--timeout", "1s", "--", "sh", "-c", program
    )
    assert done.returncode == 1, done.stderr
    held.join(START_TIMEOUT_S)
    assert not held.is_alive()
    (error,) = client.errors(job_id)
    assert (error["error_type"], error["message"]) == ("timeout", "timed out after 1 s; working")


def test_a_program_that_cannot_be_started_fails_the_job(
    server: ServerProcess, client: Client, queue: str, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    job_id = client.enqueue(queue, retry_limit=0)["id"]
    assert anew_process(server.address, "work", "-q", queue, "--once", "--", str(script)).returncode == 1
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


def test_each_queue_may_have_runs_of_its_own(
    server: ServerProcess, client: Client, queue: str, gate: Gate, work: Callable[..., Worker]
) -> None:
    mail, web = queue + "-mail", queue + "-web"
    mails, webs = client.enqueue_many(mail, 3), client.enqueue_many(web, 2)
    worker = work(server.address, "-c", f"{mail}=2,{web}=1", "--drain", "--", *gate.program)
    assert {gate.begun() for _ in range(3)} == {*mails[:2], webs[0]}
    # Neither queue takes a run of the other's.
    assert client.count(queue=mail, status="in_flight") == 2
    assert client.count(queue=web, status="in_flight") == 1
    for _ in range(5):
        gate.let_through()
    assert {gate.begun(), gate.begun()} == {mails[2], webs[1]}
    assert worker.ended() == 0
    assert client.count(queue=f"{mail},{web}") == 0


def test_a_program_does_not_see_the_token_of_its_worker(fresh_server: Callable[..., ServerProcess]) -> None:
    server = fresh_server(token="s3cret")
    secrets = {"ANEW_TOKEN": "s3cret", "ANEW_SOME_PASSWORD": "s3cret"}
    assert anew(server.address, "enqueue", "t", "-q", "q", **secrets).returncode == 0
    done = anew_process(server.address, "work", "-q", "q", "--once", "--", "env", **secrets)
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in done.stdout
    assert "ANEW_URL=" in done.stdout
    assert "ANEW_JOB_TYPE=t" in done.stdout


def test_a_worker_may_take_from_several_queues(server: ServerProcess, client: Client, queue: str) -> None:
    for name in ("a", "b", "c"):
        client.enqueue(queue + name)
    program = 'echo "$ANEW_JOB_QUEUE"'
    done = anew_process(
        server.address, "work", "-q", f"{queue}a,{queue}b", "--drain", "--", "sh", "-c", program
    )
    assert done.stdout.split() == [queue + "a", queue + "b"]
    assert client.count(queue=queue + "c") == 1


def test_a_worker_in_the_background_leaves_sigint_ignored(
    server: ServerProcess, client: Client, queue: str, gate: Gate, work: Callable[..., Worker]
) -> None:
    client.enqueue(queue)
    with ignored(signal.SIGINT):
        worker = work(server.address, "-q", queue, "--", *gate.program)
    gate.begun()
    assert ignores(worker.pid, signal.SIGINT)
    worker.signal(signal.SIGTERM)
    worker.wait_for("stopping")
    gate.let_through()
    assert worker.ended() == 143


def test_a_worker_that_was_started_with_sigchld_ignored_hears_how_programs_end(
    server: ServerProcess, client: Client, queue: str, work: Callable[..., Worker]
) -> None:
    client.enqueue(queue)
    with ignored(signal.SIGCHLD):
        worker = work(server.address, "-q", queue, "--drain", "--", "sh", "-c", "exit 3")
    assert worker.wait_for("failed")["reason"] == "exit status 3"
    assert worker.ended() == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
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


def test_a_worker_whose_terminal_is_closed_finishes_what_runs(
    server: ServerProcess, client: Client, queue: str, gate: Gate
) -> None:
    """As by the window's cross, or a lost ssh: nobody may run the same job beside it, and a closed terminal takes no lines."""
    ids = client.enqueue_many(queue, 2)
    with AtTerminal("work", "-q", queue, "--", *gate.program, ANEW_URL=url_of(server.address)) as worker:
        assert gate.begun() == ids[0]
        worker.close_terminal()
        gate.let_through()
        assert worker.ended() == 129
    assert [job["id"] for job in client.jobs(queue=queue)] == [ids[1]]
    assert client.when_status(ids[1], "ready")["attempts"] == 0


def test_a_worker_below_nohup_leaves_sighup_ignored(
    server: ServerProcess, queue: str, work: Callable[..., Worker]
) -> None:
    with ignored(signal.SIGHUP):
        worker = work(server.address, "-q", queue, "--", "true")
    worker.wait_for("listening")
    assert ignores(worker.pid, signal.SIGHUP)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 143


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


Orphaned = tuple[str, Worker, ServerProcess]
"""A job that is running, the worker that runs it, and the server that is gone."""


@pytest.fixture
def orphaned(
    fresh_server: Callable[..., ServerProcess],
    fresh: Callable[..., Client],
    gate: Gate,
    work: Callable[..., Worker],
) -> Orphaned:
    """A run at the gate, whose server was killed meanwhile and missed by the worker."""
    server = fresh_server()
    job_id = fresh(server).enqueue("q", retention={"completed_ms": 3_600_000})["id"]
    worker = work(server.address, "-q", "q", "--", *gate.program)
    assert gate.begun() == job_id
    server.kill()
    worker.wait_for("lost")
    return job_id, worker, server


def test_a_run_outlives_its_server_and_its_job_is_not_begun_twice(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client], gate: Gate, orphaned: Orphaned
) -> None:
    job_id, worker, first = orphaned
    second = fresh_server(root_dir=first.root_dir, port=first.address[1])
    client = fresh(second)
    # The new server knows nothing of the run; it offers the job once more, to the same worker.
    client.when_status(job_id, "in_flight")
    gate.let_through()
    worker.wait_for("completed", job_id=job_id)
    assert client.job(job_id)["status"] == "completed"


def test_a_verdict_waits_for_the_server(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client], gate: Gate, orphaned: Orphaned
) -> None:
    job_id, worker, first = orphaned
    gate.let_through()
    second = fresh_server(root_dir=first.root_dir, port=first.address[1])
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
    work: Callable[..., Worker],
) -> None:
    first = fresh_server()
    fresh(first).enqueue("q")
    first.kill()
    worker = work(first.address, "-q", "q", "--", "true")
    assert "no server at" in worker.wait_for("lost")["reason"]
    fresh_server(root_dir=first.root_dir, port=first.address[1])
    worker.wait_for("completed")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 143


def test_drain_does_not_wait_for_a_server(fresh_server: Callable[..., ServerProcess]) -> None:
    gone = fresh_server()
    gone.kill()
    done = anew_process(gone.address, "work", "-q", "q", "--drain", "--", "true")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no server at" in done.stderr


def test_drain_ends_at_once_when_there_is_nothing(server: ServerProcess, queue: str) -> None:
    assert anew_process(server.address, "work", "-q", queue, "--drain", "--", "true").returncode == 0

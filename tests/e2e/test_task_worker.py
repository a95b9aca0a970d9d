"""``anew worker``: real processes, real signals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.signals import ignored

from .command import anew, anew_json
from .server import START_TIMEOUT_S, ServerProcess, environment
from .task_worker import Pipes, Project, TaskWorker
from .terminal import AtTerminal

Start = Callable[..., TaskWorker]

NOTHING_FAILED = "import sys, jobs; job = jobs.app.job(sys.argv[1]).info(); print(job.state, job.attempts)"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def gate(project: Project) -> Iterator[Pipes]:
    pipes = Pipes(project.folder)
    yield pipes
    pipes.close()


@pytest.fixture
def worker(project: Project) -> Iterator[Start]:
    """Start workers; all are ended at the end."""
    workers: list[TaskWorker] = []

    def start(*words: str) -> TaskWorker:
        workers.append(TaskWorker(project, *words))
        return workers[-1]

    yield start
    for one in workers:
        one.close()


def test_a_burst_runs_what_is_ready_and_logs_a_line_a_run_without_payloads(project: Project) -> None:
    greeted, failed = project.enqueue("greet", "Ada"), project.enqueue("fail", "Eve")
    done = project.run("worker", "jobs:app", "--burst", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello Ada\n"
    records = [json.loads(line) for line in done.stderr.splitlines()]
    runs = {record["fields"]["job_id"]: record for record in records if "job_id" in record["fields"]}
    assert runs[greeted]["fields"]["event"] == "succeeded"
    assert runs[greeted]["fields"]["task"] == "jobs.greet"
    assert (runs[failed]["level"], runs[failed]["fields"]["event"]) == ("ERROR", "discarded")
    assert (runs[failed]["fields"]["error_type"], runs[failed]["fields"]["reason"]) == ("ValueError", "no")
    assert [records[0]["fields"]["message"], records[-1]["fields"]["message"]] == [
        "worker started",
        "worker stopped",
    ]
    assert (records[-1]["fields"]["succeeded"], records[-1]["fields"]["discarded"]) == (1, 1)
    assert "Ada" not in done.stderr
    assert "Eve" not in done.stderr


@pytest.mark.parametrize("place", ["jobs:app", "jobs", "jobs.py", "jobs.py:app", "./jobs.py:app"])
def test_an_application_is_named_by_its_module_or_its_file(project: Project, place: str) -> None:
    project.enqueue("greet", "Ada")
    done = project.run("worker", place, "--burst")
    assert (done.returncode, done.stdout) == (0, "hello Ada\n"), done.stderr


def test_the_variable_names_the_application(project: Project) -> None:
    project.enqueue("greet", "Ada")
    done = project.run("worker", "--burst", ANEW_APP="jobs:app")
    assert (done.returncode, done.stdout) == (0, "hello Ada\n"), done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "import jobs\nx = nope\n",
            "bad:app cannot be imported: bad.py:2: NameError: name 'nope' is not defined",
        ),
        ("x = (\n", "bad:app cannot be imported: bad.py:1: SyntaxError: "),
        ("import no_such_thing\n", "bad.py:1: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("raise SystemExit(0)\n", "bad:app cannot be imported: bad.py:1: SystemExit: 0"),
        ("from jobs import app\napp.run_worker()\n", 'expected such calls below: if __name__ == "__main__":'),
        ("x = 1\n", "the module has no 'app'; expected an application: app = Anew(...)"),
        (
            "from anew import Anew\napp = Anew()\n",
            "bad:app: the application has no tasks; expected a module that",
        ),
        ("app = 1\n", "bad:app is of the type int; expected an application"),
    ],
)
def test_an_application_that_cannot_be_imported_is_a_usage_error(
    project: Project, text: str, expected: str
) -> None:
    project.write("bad.py", text)
    done = project.run("worker", "bad:app")
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_lets_what_runs_finish(
    project: Project, gate: Pipes, worker: Start, number: signal.Signals, code: int
) -> None:
    project.enqueue("gated")
    running = worker("jobs:app", "--concurrency", "1")
    job_id = gate.begun()
    project.enqueue("gated")
    running.signal(number)
    told = running.wait_for_text("stopping: ")
    assert (
        "stopping: it waits up to 25 s for 1 run of jobs.gated; a second signal gives them back at once"
        in told
    )
    gate.let_through()
    running.wait_for("succeeded", job_id=job_id)
    assert running.wait_for("worker stopped")["given_back"] == 0
    assert running.ended() == code
    assert project.counts() == {"ready": 1}


def test_a_closed_terminal_lets_what_runs_finish_though_its_signal_comes_twice(
    project: Project, gate: Pipes, worker: Start
) -> None:
    job_id = project.enqueue("gated")
    running = worker("jobs:app")
    gate.begun()
    running.signal(signal.SIGHUP)
    running.wait_for_text("stopping: ")
    running.signal(signal.SIGHUP)
    gate.let_through()
    running.wait_for("succeeded", job_id=job_id)
    assert running.ended() == 129
    assert project.counts() == {}


def test_a_worker_at_a_terminal_that_is_closed_finishes_what_runs(project: Project, gate: Pipes) -> None:
    project.enqueue("gated")
    with AtTerminal("worker", "jobs:app", folder=project.folder) as running:
        gate.begun()
        running.close_terminal()
        gate.let_through()
        assert running.ended() == 129
    assert project.counts() == {}


def test_a_worker_below_nohup_outlives_its_terminal(project: Project, gate: Pipes, worker: Start) -> None:
    with ignored(signal.SIGHUP):
        running = worker("jobs:app", "--max-jobs", "1")
    running.wait_for("worker started")
    running.signal(signal.SIGHUP)
    project.enqueue("gated")
    gate.begun()
    running.signal(signal.SIGHUP)
    gate.let_through()
    assert running.ended() == 0


@pytest.mark.parametrize("task", ["gated", "gated_beside_the_loop"])
def test_what_has_not_ended_by_the_deadline_is_given_back_uncounted(
    project: Project, gate: Pipes, worker: Start, task: str
) -> None:
    job_id = project.enqueue(task)
    running = worker("jobs:app", "--drain-timeout", "100ms")
    assert gate.begun() == job_id
    running.signal(signal.SIGTERM)
    assert running.wait_for("worker stopped")["given_back"] == 1
    assert running.ended() == 143, "a thread that still runs keeps nobody"
    assert project.python(NOTHING_FAILED, job_id) == "ready 0"


def test_a_second_signal_gives_back_at_once(project: Project, gate: Pipes, worker: Start) -> None:
    job_id = project.enqueue("gated")
    running = worker("jobs:app", "--drain-timeout", "10m")
    assert gate.begun() == job_id
    running.signal(signal.SIGTERM)
    running.signal(signal.SIGINT)
    assert running.wait_for("worker stopped")["given_back"] == 1
    assert running.ended() in (130, 143), "the kernel may deliver two that wait in another order"
    assert project.python(NOTHING_FAILED, job_id) == "ready 0"


def test_a_limit_at_the_top_level_of_the_module_holds_from_the_workers_start(project: Project) -> None:
    limited = "\napp.limit('default', rate='1/h')\n\n@app.task(process=True)\ndef apart(): pass\n"
    project.write("limited.py", (project.folder / "jobs.py").read_text() + limited)
    task = "import limited; limited.app.unlimit('default'); limited.apart.enqueue_many([()] * 2)"
    project.python(task)
    done = project.run("worker", "limited:app", "--burst", "--json")
    assert done.returncode == 0, done.stderr
    assert project.counts() == {"ready": 1}, (
        "one of the two has had its turn, in a process that imports the module too"
    )


def test_a_killed_workers_job_runs_again(project: Project, gate: Pipes, worker: Start) -> None:
    job_id = project.enqueue("gated")
    killed = worker("jobs:app")
    assert gate.begun() == job_id
    killed.signal(signal.SIGKILL)
    assert killed.ended() == -signal.SIGKILL
    other = worker("jobs:app")
    rescued = other.wait_for("rescued")
    assert {name: rescued[name] for name in ("job_id", "task", "queue", "attempt", "outcome")} == {
        "job_id": job_id, "task": "jobs.gated", "queue": "default", "attempt": 1, "outcome": "interrupted",
    }  # fmt: skip
    assert gate.begun() == job_id
    gate.let_through()
    other.wait_for("succeeded", job_id=job_id, attempt=1)


def test_a_quiet_worker_ends_what_it_has_and_takes_nothing_more(
    project: Project, gate: Pipes, worker: Start
) -> None:
    project.enqueue("gated")
    quiet = worker("jobs:app", "--concurrency", "1")
    first = gate.begun()
    quiet.signal(signal.SIGTSTP)
    quiet.wait_for("the worker takes no more")
    second = project.enqueue("gated")
    gate.let_through()
    quiet.wait_for("succeeded", job_id=first)
    other = worker("jobs:app")
    assert gate.begun() == second
    gate.let_through()
    other.wait_for("succeeded", job_id=second)
    quiet.signal(signal.SIGTERM)
    assert quiet.ended() == 143


def test_a_worker_that_a_shell_has_in_the_background_ignores_the_terminals_interrupt(
    project: Project, gate: Pipes, worker: Start
) -> None:
    project.enqueue("gated")
    with ignored(signal.SIGINT):
        running = worker("jobs:app")
    job_id = gate.begun()
    running.signal(signal.SIGINT)
    gate.let_through()
    running.wait_for("succeeded", job_id=job_id)
    project.enqueue("greet", "Ada")
    running.wait_for("succeeded", task="jobs.greet")
    running.signal(signal.SIGTERM)
    assert running.ended() == 143


def test_a_worker_stops_after_so_many_runs(project: Project) -> None:
    for name in ("Ada", "Ben", "Cy"):
        project.enqueue("greet", name)
    done = project.run("worker", "jobs:app", "--max-jobs", "1", "--concurrency", "1")
    assert done.returncode == 0, done.stderr
    assert "hello Ada\n" in done.stdout


def test_queues_have_runs_of_their_own(project: Project, gate: Pipes, worker: Start) -> None:
    project.write("jobs.py", (project.folder / "jobs.py").read_text("utf-8") + QUEUES)
    first, second = project.enqueue("slow"), project.enqueue("slow")
    running = worker("jobs:app", "-q", "slow:1,fast", "--concurrency", "2")
    assert gate.begun() == first
    fast = project.enqueue("fast")
    running.wait_for("succeeded", job_id=fast)
    gate.let_through()
    assert gate.begun() == second
    gate.let_through()
    running.wait_for("succeeded", job_id=second)


QUEUES = """
@app.task(queue="slow")
def slow():
    wait_at_the_gate()

@app.task(queue="fast")
def fast():
    pass
"""


def test_a_change_of_a_file_restarts_the_worker(project: Project, worker: Start) -> None:
    running = worker("jobs:app", "--reload")
    first = running.wait_for("worker started")["pid"]
    project.write("other.py", "x = 1\n")
    running.wait_for_text("other.py changed: the worker is restarted")
    assert running.wait_for("worker started")["pid"] != first
    project.write("jobs.py", "x = (\n")
    running.wait_for_text("jobs.py:1: SyntaxError: ")
    running.wait_for_text("the worker has ended (exit code 2); a change starts it again")
    Project(project.folder)
    second = running.wait_for("worker started")["pid"]
    running.signal(signal.SIGTERM)
    running.wait_for("worker stopped")
    assert running.ended() == 143
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


def test_the_worker_ends_when_what_restarts_it_is_killed(project: Project, worker: Start) -> None:
    running = worker("jobs:app", "--reload")
    running.wait_for("worker started")
    running.signal(signal.SIGKILL)
    running.wait_for("worker stopped")
    assert running.ended() == -signal.SIGKILL
    job_id = project.enqueue("greet", "Ada")
    assert project.python(NOTHING_FAILED, job_id) == "ready 0", "nobody is left to take it"


def test_a_terminal_shows_a_status_line_and_failures_above_it(project: Project) -> None:
    project.enqueue("greet", "Ada")
    project.enqueue("fail", "Eve")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "anew", "worker", "jobs:app", "--burst"],
        cwd=project.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment() | {"TERM": "xterm", "NO_COLOR": "1"},
    ) as running:
        os.close(theirs)
        shown = _read_all(ours)
        assert running.wait(START_TIMEOUT_S) == 0
    assert "4 tasks, jobs in jobs.db, queues: all (Ctrl-C stops)\r\n" in shown
    assert " running, " in shown
    assert "hello Ada\r\n" in shown
    assert " ERROR jobs.fail " in shown
    assert " succeeded" not in shown
    assert "stopped: 0 running, 1 done, 1 dead, " in shown
    assert "\x1b[31m" not in shown


def _read_all(terminal: int) -> str:
    chunks = []
    with os.fdopen(terminal, "rb", buffering=0) as stream:
        try:
            while chunk := stream.read(4_096):
                chunks.append(chunk)
        except OSError:  # Linux says so where others give an end
            pass
    return b"".join(chunks).decode()


# -- jobs that are cancelled while they run

LONG = """
import asyncio, os, sys, threading
from anew import Anew, ctx

app = Anew({store!r})

def begin():
    with open("begun", "w") as begun:
        begun.write(f"{{os.getpid()}}\\n")

@app.task
async def in_loop():
    begin()
    try:
        await asyncio.Event().wait()
    finally:
        print("in_loop is over", file=sys.stderr)

@app.task
def in_thread():
    begin()
    while ctx.sleep("1h"):
        pass
    print("in_thread is over", file=sys.stderr)

@app.task(process=True)
def apart():
    begin()
    threading.Event().wait()
"""

CANCEL = "import sys, jobs; jobs.app.job(sys.argv[1]).cancel()"


@pytest.mark.parametrize("place", ["file", "server", "file beside a server"])
def test_a_job_that_is_cancelled_from_another_process_stops_its_run(
    tmp_path: Path, fresh_server: Callable[..., ServerProcess], worker: Start, place: str
) -> None:
    server = None if place == "file" else fresh_server(root_dir=tmp_path / "data")
    store = "data/jobs.db"
    if server is not None:
        store = "http://{}:{}".format(*server.address) if place == "server" else "data"
    project = Project(tmp_path)
    project.write("jobs.py", LONG.format(store=store))
    gate = Pipes(tmp_path)
    try:
        jobs = {}
        runs = worker("jobs:app", "--concurrency", "2")
        for task in ("in_loop", "in_thread", "apart"):
            jobs[task] = project.enqueue(task), int(gate.begun())
        for task, (job_id, pid) in jobs.items():
            if server is None:
                project.python(CANCEL, job_id)
            else:
                assert anew(server.address, "jobs", "cancel", job_id).returncode == 0
            if task != "apart":
                runs.wait_for_text(f"{task} is over")
            runs.wait_for("lost", job_id=job_id, attempt=1)
            assert project.python(NOTHING_FAILED, job_id) == "cancelled 0"
            assert (task == "apart") != _is_there(pid)
        runs.signal(signal.SIGTERM)
        stopped = runs.wait_for("worker stopped")
        assert (stopped["lost"], stopped["failed"], stopped["interrupted"]) == (3, 0, 0)
    finally:
        gate.close()


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# -- beside a server


@pytest.mark.parametrize("store", ["jobs.db", "data"])
@pytest.mark.parametrize("server_first", [True, False], ids=["server first", "worker first"])
def test_a_server_on_the_same_path_shows_and_steers_the_jobs_in_any_order_of_starting(
    tmp_path: Path, fresh_server: Callable[..., ServerProcess], store: str, server_first: bool
) -> None:
    project = Project(tmp_path, store)
    gate = Pipes(tmp_path)
    server = fresh_server(root_dir=tmp_path / store) if server_first else None
    job_id = project.enqueue("gated")
    running = TaskWorker(project, "jobs:app", "--concurrency", "1")
    try:
        assert gate.begun() == job_id
        server = server or fresh_server(root_dir=tmp_path / store)
        waiting = project.enqueue("greet", "Ada")
        queues = anew_json(server.address, "queues")
        assert [(queue["name"], queue["ready"], queue["in_flight"]) for queue in queues["queues"]] == [
            ("default", 1, 1)
        ]
        assert anew(server.address, "jobs", "cancel", waiting).returncode == 0
        gate.let_through()
        running.wait_for("succeeded", job_id=job_id)
        done = anew(server.address, "enqueue", "jobs.fail", "--queue", "default", '{"secret": "Eve"}')
        assert done.returncode == 0, done.stderr
        running.wait_for("failed", error_type="ValueError")
        (retrying,) = anew_json(server.address, "jobs", "list", "--status", "retrying")["jobs"]
        assert (retrying["type"], retrying["attempts"]) == ("jobs.fail", 1)
        assert anew(server.address, "jobs", "delete", retrying["id"], "--yes").returncode == 0
        assert project.counts() == {"cancelled": 1}, "the server has deleted the other one"
    finally:
        running.close()
        gate.close()

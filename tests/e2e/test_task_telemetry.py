"""``anew worker --metrics-port``, and traces of a producer and a worker that are real processes."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from anew import Anew
from anew.tasks.around import Enqueuing, Running
from tests.faktory_wire import FaktoryWire

from .server import ServerProcess
from .task_worker import Project, TaskWorker

TRACED = """
import json, os
from anew import Anew, ctx, Retry
from anew.opentelemetry import instrument
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

def line(span):
    link = [one.context.trace_id for one in span.links]
    return json.dumps([os.getpid(), span.name, span.context.trace_id, span.context.span_id,
                       span.parent and span.parent.span_id, link]) + "\\n"

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open("spans", "a"), formatter=line)))
app = Anew("jobs.db")
instrument(app, tracer_provider=provider)

@app.task
def flaky():
    with provider.get_tracer("user").start_as_current_span("inside"):
        if ctx.attempt == 1:
            raise Retry(after=0)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def worker(project: Project) -> Iterator[TaskWorker]:
    made = TaskWorker(project, "jobs:app", "--metrics-port", "0")
    yield made
    made.close()


def test_a_worker_is_scraped(project: Project, worker: TaskWorker) -> None:
    url = worker.wait_for("worker started")["metrics"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", url)
    project.enqueue("greet", "Ada")
    worker.wait_for("succeeded")
    project.enqueue("fail", "Eve")
    worker.wait_for("discarded")
    ended = 'anew_runs_total{outcome="error",queue="default",task="jobs.fail"} 1.0'
    pages = (scrape(url) for _ in range(2_000))  # events are counted a moment after they are logged
    page = next(page for page in pages if ended in page)
    for line in (
        'anew_runs_total{outcome="succeeded",queue="default",task="jobs.greet"} 1.0',
        'anew_jobs_died_total{queue="default",task="jobs.fail"} 1.0',
        'anew_run_seconds_count{queue="default",task="jobs.greet"} 1.0',
        'anew_wait_seconds_count{queue="default",task="jobs.greet"} 1.0',
        'anew_jobs{queue="default",state="dead"} 1.0',
        "process_cpu_seconds_total ",  # what prometheus_client knows of the process
    ):
        assert line in page
    assert "Ada" not in page


def scrape(url: str) -> str:
    """Ask as Prometheus does."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def test_a_worker_serves_no_metrics_to_others_unless_it_is_told_to(project: Project) -> None:
    done = project.run("worker", "jobs:app", "--burst", "--metrics-port", "0", "--metrics-host", "0.0.0.0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "metrics-host: others could reach '0.0.0.0'" in done.stderr
    assert "Traceback" not in done.stderr
    words = ["--metrics-port", "0", "--metrics-host", "0.0.0.0", "--insecure", "--json"]
    done = project.run("worker", "jobs:app", "--burst", *words)
    assert done.returncode == 0, done.stderr
    assert "http://0.0.0.0:" in json.loads(done.stderr.splitlines()[0])["fields"]["metrics"]


def test_a_trace_goes_from_the_producers_process_to_the_workers(project: Project) -> None:
    project.write("jobs.py", TRACED)
    project.enqueue("flaky")
    while project.counts():
        assert project.run("worker", "jobs:app", "--burst").returncode == 0
    lines = (project.folder / "spans").read_text().splitlines()
    producer, inside, first, again, second = (json.loads(line) for line in lines)
    names = [one[1] for one in (producer, inside, first, again, second)]
    assert names == ["enqueue jobs.flaky", "inside", "run jobs.flaky", "inside", "run jobs.flaky"]
    assert producer[0] != first[0]
    assert (first[2], first[4], first[5]) == (producer[2], producer[3], [])
    assert (inside[2], inside[4]) == (first[2], first[3])
    assert (second[4], second[5]) == (None, [producer[2]])
    assert (again[2], again[4]) == (second[2], second[3])


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_what_a_job_carries_goes_through_the_faktory_door_both_ways(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    host, port = server.address_of("fwp")
    try:
        with (
            Anew(tmp_path / "data") as app,
            FaktoryWire.open(f"tcp://{host}:{port}", wid="w", labels=[]) as wire,
        ):
            heard: list[Running] = []

            @app.around("run")
            def hear(run: Running) -> Iterator[None]:
                yield
                heard.append(run)

            @app.around("enqueue")
            def trace(jobs: Enqueuing) -> Iterator[None]:
                jobs.carried["traceparent"] = PARENT
                yield

            @app.task(name="Work", queue="ours")
            def work(n: int) -> None: ...

            custom = {"traceparent": PARENT, "n": 1}
            wire.expect(
                "PUSH "
                + json.dumps(
                    {"jid": "two-doors-1", "jobtype": "Work", "queue": "ours", "args": [7], "custom": custom}
                )
            )
            app.run_worker(burst=True)
            assert [(run.outcome, run.carried) for run in heard] == [("succeeded", {"traceparent": PARENT})]

            job = work.using(queue="theirs").enqueue(7)
            shown = wire.ask("FETCH theirs")
            assert (shown["jid"], shown["custom"]) == (job.id, {"traceparent": PARENT})
            wire.expect("ACK " + json.dumps({"jid": job.id}))
    finally:
        server.close()

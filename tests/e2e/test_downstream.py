"""Handlers that ask a real server over HTTP: what it says about coming back is kept to, and two processes share a breaker."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from anew import Anew, JobHandle
from anew.clock import ManualClock
from anew.jobs import State
from anew.tasks.backend import JobInfo
from anew.tasks.embedded import EmbeddedBackend
from anew.tasks.opening import open_engine

from . import downstream_app

ROOT = Path(__file__).parents[2]


class Service(ThreadingHTTPServer):
    """Answers ``/429/HEADER/VALUE`` with this status and this header, whatever is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Service)
        self.server.asked.append(self.path)
        _, status, *header = self.path.replace("%20", " ").split("/", 3)
        self.send_response(int(status))
        if header:
            self.send_header(header[0], header[1])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    server = Service()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("SERVICE_URL", server.url)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Anew]:
    """The application, on a file of its own, in this process and in those that it starts."""
    monkeypatch.setenv("ANEW_URL", str(tmp_path / "jobs.db"))
    app = downstream_app.app
    monkeypatch.setattr(app, "location", str(tmp_path / "jobs.db"))
    yield app
    app.close()


def seen(handle: JobHandle[None]) -> JobInfo:
    info = downstream_app.app.backend.find(handle.id)
    assert info is not None
    return info


def test_both_forms_of_retry_after_are_kept_to(service: Service, tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)  # Tue, 14 Nov 2023 22:13:20 GMT
    app = downstream_app.app
    backend = EmbeddedBackend(open_engine(tmp_path / "jobs.db", clock=clock))
    before = app.replace_store(backend, app.events)
    forms = ["Retry-After/120", "Retry-After/Tue, 14 Nov 2023 22:15:20 GMT", "RateLimit-Reset/120"]
    paths = [f"/{status}/{form}".replace(" ", "%20") for status in (429, 503) for form in forms]
    handles = downstream_app.fetch.enqueue_many([(path,) for path in paths])
    app.run_worker(burst=True)
    found = [seen(handle) for handle in handles]
    assert {job.ready_at for job in found} == {clock.now() + 120_000}
    assert [job.attempts for job in found] == [0, 0, 0, 1, 1, 1]
    assert [job.state for job in found] == [State.SCHEDULED] * 3 + [State.RETRYING] * 3
    assert [job.errors[0].outcome for job in found] == ["rate_limited"] * 3 + ["error"] * 3
    for _ in range(2):  # the limit of two retries holds for a 503; a 429 burns none
        clock.advance(120_000)
        app.run_worker(burst=True)
    found = [seen(handle) for handle in handles]
    waits, retries, dead = State.SCHEDULED, State.RETRYING, State.DEAD
    # The date has passed when it comes again: the policy decides, which waits for an hour.
    assert [job.state for job in found] == [waits, retries, waits, dead, retries, dead]
    assert [job.attempts for job in found] == [0, 1, 0, 3, 2, 3]
    assert len(service.asked) == 6 + 6 + 4
    app.replace_store(*before)
    backend.close()


def test_a_handler_in_a_process_of_its_own_is_heard_too(service: Service, app: Anew) -> None:
    before = time.time()
    date = formatdate(before + 1_000, usegmt=True).replace(" ", "%20")
    limited, failed = downstream_app.fetch_apart.enqueue_many(
        [(f"/429/Retry-After/{date}",), ("/503/Retry-After/500",)]
    )
    app.run_worker(burst=True, concurrency=1)
    assert (seen(limited).state, seen(limited).attempts) == (State.SCHEDULED, 0)
    assert seen(limited).ready_at == int(before + 1_000) * 1_000
    assert (seen(failed).state, seen(failed).attempts) == (State.RETRYING, 1)
    assert seen(failed).ready_at >= (before + 500) * 1_000


def test_a_breaker_that_one_process_opens_holds_the_jobs_of_another(service: Service, app: Anew) -> None:
    def work() -> None:
        command = [sys.executable, "-m", "tests.e2e.downstream_app"]
        subprocess.run(command, check=True, timeout=60, cwd=ROOT, env=os.environ)

    before = time.time() * 1_000
    downstream_app.guarded.enqueue_many([("/500",)] * 60)
    work()
    asked = len(service.asked)
    assert 5 <= asked < 60
    assert app.counts()["dead"] == asked
    assert app.counts()["scheduled"] == 60 - asked
    (breaker,) = app.breakers()
    assert (breaker.key, breaker.state) == ("service", "open")
    later = downstream_app.guarded.enqueue("/200")
    work()
    assert len(service.asked) == asked
    assert (seen(later).state, seen(later).attempts) == (State.SCHEDULED, 0)
    assert seen(later).ready_at > before + 3_600_000
    app.close_breaker("service")
    downstream_app.guarded.enqueue("/200")
    work()
    assert service.asked[asked:] == ["/200"]

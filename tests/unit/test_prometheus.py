"""Metrics of an application, in a real registry."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import anew.prometheus
from anew import Anew, Cancel, Discard, Downstream, Snooze, ctx
from anew.errors import InvalidConfig, InvalidInput
from anew.jobs import labels
from anew.prometheus import instrument, serve
from anew.tasks.events import Event


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def app(tmp_path: Path, registry: CollectorRegistry) -> Iterator[Anew]:
    with Anew(tmp_path / "jobs.db", policy=["1h"]) as made:
        instrument(made, registry=registry)
        yield made


def work(app: Anew) -> None:
    """Run what is ready, and call the hooks for it."""
    app.run_worker(burst=True)
    app.events.close()


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name, by the values of their labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def test_enqueues_runs_by_outcome_and_deaths_are_counted(app: Anew, registry: CollectorRegistry) -> None:
    raised: dict[str, Exception | None] = {
        "well": None, "fails": ValueError(), "dies": Discard("gone"), "snoozes": Snooze("1h"), "leaves": Cancel("left"),
    }  # fmt: skip

    @app.task(name="t", queue="mail", unique=True)
    def handle(kind: str) -> None:
        if (error := raised[kind]) is not None:
            raise error

    @app.task(name="slow", timeout=0.01)
    async def slow() -> None:
        import asyncio

        await asyncio.get_running_loop().create_future()

    for kind in raised:
        handle.enqueue(kind)
        handle.enqueue(kind)  # a duplicate is no new job
    slow.enqueue()
    work(app)
    assert samples(registry, "anew_jobs_enqueued_total") == {("t", "mail"): 5, ("slow", "default"): 1}
    assert samples(registry, "anew_runs_total") == {
        ("t", "mail", "succeeded"): 1,
        ("t", "mail", "error"): 2,
        ("t", "mail", "snoozed"): 1,
        ("t", "mail", "cancelled"): 1,
        ("slow", "default", "timeout"): 1,
    }
    assert samples(registry, "anew_jobs_died_total") == {("t", "mail"): 1}
    for name in ("anew_run_seconds_count", "anew_wait_seconds_count"):
        assert samples(registry, name) == {("t", "mail"): 5, ("slow", "default"): 1}


def test_a_run_counts_with_how_long_it_took(app: Anew, registry: CollectorRegistry) -> None:
    app.task(lambda: None, name="t")
    for took_ms in (1_500.0, 250.0, None):
        app.events.emit(Event(name="failed", job_id="j", task="t", queue="q", duration_ms=took_ms))
    app.events.close()
    assert samples(registry, "anew_run_seconds_sum") == {("t", "q"): 1.75}
    assert samples(registry, "anew_run_seconds_count") == {("t", "q"): 2}


def test_the_wait_is_from_when_the_job_might_run_until_it_ran(registry: CollectorRegistry) -> None:
    app = Anew(":memory:")
    instrument(app, registry=registry)
    task = app.task(lambda: None, name="t")
    with app.test() as test:
        task.using(delay="10s").enqueue()
        test.clock.advance("10s", run=False)
        test.clock.advance("3s", run=False)
        test.drain()
    assert samples(registry, "anew_wait_seconds_sum") == {("t", "default"): 3.0}


def test_jobs_are_read_at_each_scrape_by_queue_and_state(app: Anew, registry: CollectorRegistry) -> None:
    assert samples(registry, "anew_jobs") == {}  # nobody has opened the file here, and a scrape does not
    task = app.task(lambda: None, name="t")
    task.using(queue="mail").enqueue_many([()] * 3)
    task.using(delay="1h").enqueue()
    found = {labels: count for labels, count in samples(registry, "anew_jobs").items() if count}
    assert found == {("mail", "ready"): 3, ("default", "scheduled"): 1}
    work(app)
    assert not samples(registry, "anew_jobs").get(("mail", "ready"))


def test_an_open_breaker_is_seen_and_what_it_holds_is_no_run(app: Anew, registry: CollectorRegistry) -> None:
    @app.task(name="t", downstream=Downstream("stripe", failures=0.5, least=1))
    def call() -> None:
        raise ConnectionError("down")

    call.enqueue()
    work(app)
    call.enqueue()
    work(app)
    assert samples(registry, "anew_breaker_open") == {("stripe",): 1}
    runs = samples(registry, "anew_runs_total")
    assert runs == {("t", "default", "error"): 1, ("t", "default", "held"): 1}
    assert samples(registry, "anew_run_seconds_count") == {("t", "default"): 1}
    app.close_breaker("stripe")
    assert samples(registry, "anew_breaker_open") == {("stripe",): 0}


def test_labels_are_bounded(app: Anew, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anew.prometheus, "MOST_PAIRS", 2)
    monkeypatch.setattr(labels, "MOST_QUEUES", 2)
    task = app.task(lambda: None, name="t")
    for n in range(4):
        task.using(queue=f"q{n}").enqueue_many([()] * (n + 1))
    app.events.emit(Event(name="enqueued", job_id="j", task="from outside", queue="q0"))
    app.events.close()
    assert samples(registry, "anew_jobs_enqueued_total") == {
        ("t", "q0"): 1, ("t", "q1"): 2, ("t", "other"): 7, ("other", "other"): 1,
    }  # fmt: skip
    ready = {
        queue: count for (queue, state), count in samples(registry, "anew_jobs").items() if state == "ready"
    }
    assert ready == {"q3": 4, "q2": 3, "other": 3}


def test_a_store_that_cannot_be_read_leaves_the_rest_of_a_scrape(
    app: Anew, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app.task(lambda: None, name="t").enqueue()
    app.events.close()

    def busy() -> None:
        raise OSError("not now")

    monkeypatch.setattr(app.backend, "counts_by_queue", busy)
    assert samples(registry, "anew_jobs") == {}
    assert samples(registry, "anew_jobs_enqueued_total") == {("t", "default"): 1}
    assert {record.message for record in caplog.records} == {"the metrics of stored jobs cannot be read"}


def test_a_metric_that_fails_changes_no_jobs_fate(
    app: Anew, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("prometheus_client.Counter.labels", fail)
    ran: list[int] = []
    app.task(lambda: ran.append(ctx.attempt), name="t").enqueue()
    work(app)
    assert ran == [1]
    assert sum(app.counts().values()) == 0
    assert {record.message for record in caplog.records if record.levelname == "ERROR"} == {"a hook failed"}


def test_an_application_is_instrumented_once_and_two_need_two_registries(
    app: Anew, registry: CollectorRegistry
) -> None:
    instrument(app, registry=registry)
    instrument(app)
    app.task(lambda: None, name="t").enqueue()
    app.events.close()
    assert samples(registry, "anew_jobs_enqueued_total") == {("t", "default"): 1}
    with pytest.raises(InvalidInput, match="registry: it has metrics of these names"):
        instrument(Anew(":memory:"), registry=registry)


def test_the_page_is_valid_openmetrics(app: Anew, registry: CollectorRegistry) -> None:
    app.task(lambda: None, name="t").enqueue()
    work(app)
    page = generate_latest(registry).decode()
    names = {family.name for family in text_string_to_metric_families(page)}
    assert names == {
        "anew_jobs", "anew_jobs_enqueued", "anew_jobs_died", "anew_runs", "anew_run_seconds", "anew_wait_seconds",
        "anew_breaker_open",
    }  # fmt: skip


def test_a_scrape_is_answered_on_loopback(app: Anew) -> None:
    app.task(lambda: None, name="t").enqueue()
    app.events.close()
    with closing(_Closing(app)) as server:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=20) as answer:
            page = answer.read().decode()
        assert 'anew_jobs_enqueued_total{queue="default",task="t"} 1.0' in page
        with pytest.raises(InvalidConfig, match=r"metrics-port: .* cannot be had"):
            serve(app, server.port)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200), ("localhost", 200), ("LocalHost:1", 200), ("[::1]:9464", 200), (None, 200),
        ("evil.example:9464", 403), ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("", 403), ("localhost:x", 403),
    ],
)  # fmt: skip
def test_reliability_52_a_foreign_host_is_refused_on_the_metrics_port(
    app: Anew, host: str | None, status: int
) -> None:
    with closing(_Closing(app)) as server, socket.create_connection(("127.0.0.1", server.port), 20) as peer:
        named = "" if host is None else f"Host: {host}\r\n"
        version = "1.0" if host is None else "1.1"
        peer.sendall(f"GET /metrics HTTP/{version}\r\n{named}Connection: close\r\n\r\n".encode())
        with peer.makefile("rb") as answer:
            assert answer.readline().split()[1] == b"%d" % status
            assert (b"anew_jobs" in answer.read()) == (status == 200)


class _Closing:
    def __init__(self, app: Anew) -> None:
        self._server = serve(app, 0)
        self.port = self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_an_address_that_others_reach_is_refused(app: Anew, host: str) -> None:
    with pytest.raises(InvalidConfig, match="others could reach") as caught:
        serve(app, 0, host=host)
    assert caught.value.field == "metrics-host"

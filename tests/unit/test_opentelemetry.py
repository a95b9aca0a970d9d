"""Spans of enqueues and runs, as the real SDK exports them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from anew import Anew, Retry, Snooze, ctx
from anew.opentelemetry import instrument
from anew.tasks.embedded import EmbeddedBackend
from anew.tasks.opening import open_engine
from tests.unit.tasks import tracing

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("user")


@pytest.fixture(autouse=True)
def empty() -> None:
    exporter.clear()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Anew]:
    with Anew(tmp_path / "jobs.db", policy=["1h"]) as made:
        instrument(made, tracer_provider=provider)
        yield made


def work(app: Anew) -> dict[str, int]:
    """Run what is ready; give what the runs have come to, without the kinds of which there were none."""
    worker = app.worker(burst=True)
    worker.run()
    return {name: count for name, count in worker.done.items() if count}


def spans(kind: SpanKind | None = None) -> list[ReadableSpan]:
    """What was exported, in order of the beginnings."""
    found = [span for span in exporter.get_finished_spans() if kind in (None, span.kind)]
    return sorted(found, key=lambda span: span.start_time or 0)


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether a span belongs to another one."""
    assert span.context is not None
    assert parent.context is not None
    same = span.context.trace_id == parent.context.trace_id
    return same and span.parent is not None and span.parent.span_id == parent.context.span_id


def test_an_enqueue_and_its_first_run_belong_to_the_trace_of_the_caller(app: Anew) -> None:
    @app.task(queue="mail")
    def send(secret: str) -> None:
        with tracer.start_as_current_span("smtp"):
            pass

    with tracer.start_as_current_span("request"):
        job = send.enqueue("hush")
    assert work(app) == {"succeeded": 1}
    request, enqueue, run, smtp = spans()
    assert is_child(enqueue, request)
    assert is_child(run, enqueue)
    assert is_child(smtp, run)
    assert (enqueue.name, enqueue.kind) == (f"enqueue {send.name}", SpanKind.PRODUCER)
    assert (run.name, run.kind) == (f"run {send.name}", SpanKind.CONSUMER)
    usual = {"messaging.system": "anew", "messaging.destination.name": "mail", "anew.task": send.name}
    usual["messaging.message.id"] = job.id
    sent = {"messaging.operation.name": "enqueue", "messaging.operation.type": "send"}
    assert dict(enqueue.attributes or {}) == usual | sent
    done = {"messaging.operation.name": "run", "messaging.operation.type": "process"}
    assert dict(run.attributes or {}) == usual | done | {"anew.attempt": 1, "anew.outcome": "succeeded"}
    assert run.status.status_code is StatusCode.UNSET
    assert "hush" not in "".join(span.to_json() for span in spans())


def test_a_coroutines_spans_nest_beside_others_in_the_same_loop(app: Anew) -> None:
    @app.task
    async def fetch(n: int) -> None:
        await asyncio.sleep(0)  # both have begun
        with tracer.start_as_current_span(f"get {n}"):
            await asyncio.sleep(0)

    jobs = [fetch.enqueue(n) for n in (1, 2)]
    assert work(app) == {"succeeded": 2}
    runs = {(span.attributes or {})["messaging.message.id"]: span for span in spans(SpanKind.CONSUMER)}
    gets = {span.name: span for span in spans(SpanKind.INTERNAL)}
    assert [is_child(gets[f"get {n}"], runs[job.id]) for n, job in enumerate(jobs, 1)] == [True, True]


def test_a_retry_has_a_trace_of_its_own_with_a_link_to_the_enqueue(app: Anew) -> None:
    @app.task
    def flaky() -> None:
        if ctx.attempt == 1:
            raise Retry("not yet", after=0)

    with tracer.start_as_current_span("request"):
        flaky.enqueue()
    while sum(app.counts().values()):
        work(app)
    (enqueue,), (first, second) = spans(SpanKind.PRODUCER), spans(SpanKind.CONSUMER)
    assert enqueue.context is not None
    assert second.context is not None
    assert is_child(first, enqueue)
    assert first.links == ()
    assert second.parent is None
    assert second.context.trace_id != enqueue.context.trace_id
    assert [link.context.span_id for link in second.links] == [enqueue.context.span_id]
    assert [link.context.trace_id for link in second.links] == [enqueue.context.trace_id]
    assert [(span.attributes or {})["anew.attempt"] for span in (first, second)] == [1, 2]


def test_baggage_reaches_every_attempt(app: Anew) -> None:
    seen: list[tuple[int, object]] = []

    @app.task
    async def flaky() -> None:
        seen.append((ctx.attempt, baggage.get_baggage("tenant")))
        if ctx.attempt == 1:
            raise Retry(after=0)

    token = context.attach(baggage.set_baggage("tenant", "acme"))
    flaky.enqueue()
    context.detach(token)
    while sum(app.counts().values()):
        work(app)
    assert seen == [(1, "acme"), (2, "acme")]
    assert baggage.get_baggage("tenant") is None


def test_a_failure_is_recorded_with_its_exception(app: Anew) -> None:
    @app.task
    def fail() -> None:
        raise LookupError("no such order")

    fail.enqueue()
    assert work(app) == {"failed": 1}
    (run,) = spans(SpanKind.CONSUMER)
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "no such order")
    assert (run.attributes or {})["error.type"] == "LookupError"
    assert (run.attributes or {})["anew.outcome"] == "error"
    (event,) = run.events
    attributes = dict(event.attributes or {})
    assert (event.name, attributes["exception.type"], attributes["exception.message"]) == (
        "exception", "LookupError", "no such order",
    )  # fmt: skip
    assert "in fail" in str(attributes["exception.stacktrace"])


def test_a_snooze_is_no_error(app: Anew) -> None:
    @app.task
    def soon() -> None:
        raise Snooze("1h")

    soon.enqueue()
    work(app)
    (run,) = spans(SpanKind.CONSUMER)
    assert (run.attributes or {})["anew.outcome"] == "snoozed"
    assert (run.status.status_code, run.events) == (StatusCode.UNSET, ())


def test_many_jobs_of_one_call_have_one_span(app: Anew) -> None:
    task = app.task(lambda n: None, name="t")
    task.enqueue_many([(1,), (2,), (3,)])
    work(app)
    (enqueue,), runs = spans(SpanKind.PRODUCER), spans(SpanKind.CONSUMER)
    assert (enqueue.attributes or {})["messaging.batch.message_count"] == 3
    assert [is_child(run, enqueue) for run in runs] == [True] * 3


def test_an_enqueue_that_fails_is_recorded(app: Anew, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(jobs: object, *, plain: bool) -> None:
        raise OSError("no disk")

    task = app.task(lambda: None, name="t")
    monkeypatch.setattr(app.backend, "enqueue", refuse)
    with pytest.raises(OSError, match="no disk"):
        task.enqueue()
    (enqueue,) = spans()
    assert (enqueue.status.status_code, enqueue.status.description) == (StatusCode.ERROR, "no disk")
    assert (enqueue.attributes or {})["error.type"] == "OSError"


def test_a_job_without_a_context_begins_a_trace(app: Anew) -> None:
    task = app.task(lambda: None, name="t")
    hooks = list(app.around_enqueues)
    app.around_enqueues.clear()
    task.enqueue()
    app.around_enqueues += hooks
    work(app)
    (run,) = spans()
    assert (run.parent, run.links) == (None, ())


def test_an_application_is_instrumented_once(app: Anew) -> None:
    instrument(app, tracer_provider=provider)
    app.task(lambda: None, name="t").enqueue()
    work(app)
    assert len(spans()) == 2


class Broken(SpanExporter):
    def export(self, spans: object) -> SpanExportResult:
        raise ConnectionError("no collector")

    def shutdown(self) -> None: ...


class BrokenProcessor(SpanProcessor):
    def on_start(self, span: object, parent_context: object = None) -> None:
        raise ConnectionError("at the start")

    def on_end(self, span: object) -> None:
        raise ConnectionError("at the end")


class BrokenTracer(trace.NoOpTracer):
    def start_as_current_span(self, *_: object, **__: object) -> None:  # type: ignore[override]
        raise ConnectionError("no tracer")


class BrokenProvider(TracerProvider):
    def get_tracer(self, *_: object, **__: object) -> trace.Tracer:  # type: ignore[override]
        return BrokenTracer()


def with_processor(make: Callable[[], SpanProcessor]) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(make())
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_processor(lambda: SimpleSpanProcessor(Broken())),
        lambda: with_processor(BrokenProcessor),
        BrokenProvider,
    ],
    ids=["exporter", "processor", "tracer"],
)
@pytest.mark.parametrize("fails", [False, True])
def test_what_is_broken_in_tracing_changes_no_jobs_fate(
    tmp_path: Path, make: Callable[[], TracerProvider], fails: bool
) -> None:
    ran: list[int] = []

    def handle(n: int) -> None:
        ran.append(n)
        if fails:
            raise ValueError("no")

    async def ahandle(n: int) -> None:
        handle(n)

    with Anew(tmp_path / "jobs.db", policy=["1h"]) as app:
        instrument(app, tracer_provider=make())
        app.task(handle).enqueue(1)
        app.task(ahandle).enqueue(2)
        assert work(app) == {"failed" if fails else "succeeded": 2}
    assert sorted(ran) == [1, 2]


def test_in_a_process_of_its_own_the_worker_has_the_span_and_the_handlers_nest_there(tmp_path: Path) -> None:
    commit = open_engine(None)
    app = tracing.app
    before = app.replace_store(EmbeddedBackend(commit), app.events)
    try:
        with tracing.tracer.start_as_current_span("request"):
            current = tracing.current.enqueue()
            tracing.vanish.enqueue()
            tracing.fail.enqueue()
        work(app)
        traceparent = current.result()
    finally:
        app.replace_store(*before)
        commit.close()
    exported = tracing.exporter.get_finished_spans()
    (one,) = [span for span in exported if span.name == f"enqueue {tracing.current.name}"]
    runs = {span.name: span for span in exported if span.kind is SpanKind.CONSUMER}
    run = runs[f"run {tracing.current.name}"]
    assert is_child(run, one)
    sent = trace.get_current_span(propagate.extract({"traceparent": traceparent}, context.Context()))
    assert run.context is not None
    assert sent.get_span_context().span_id == run.context.span_id
    assert sent.get_span_context().trace_id == run.context.trace_id
    gone, failed = runs[f"run {tracing.vanish.name}"], runs[f"run {tracing.fail.name}"]
    assert (gone.attributes or {})["anew.outcome"] == "interrupted"
    assert gone.status.status_code is StatusCode.ERROR
    assert [dict(event.attributes or {})["exception.message"] for event in failed.events] == ["no"]

"""Traces: an enqueue is a span, and the runs of its job are spans that belong to it. With OpenTelemetry's API alone.

``instrument(app)``, in the producer and in the worker::

    request (yours)
      enqueue shop.pack          PRODUCER, one for each call, also of `enqueue_many`
        run shop.pack            CONSUMER, the first attempt: it continues the trace
          SELECT … (yours)
    run shop.pack                CONSUMER, each later attempt: a trace of its own, with a link to the enqueue

The context travels with the job, as the global propagator writes it (``traceparent``, ``tracestate``, ``baggage``), in what
a job carries (`anew.jobs.carried`); retries leave it alone. A job pushed by the Faktory protocol that has ``custom.traceparent``
is continued too. Jobs without any, such as those of cron entries, begin traces of their own.

The span of a run is current while the handler runs, in its thread or its coroutine. Where the handler has a process of its own
(``process=True``) the worker has the span, also if that process is killed, and spans of the handler are its children there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from anew import __version__
from anew.tasks.around import Enqueuing, Running

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from anew.tasks.app import Anew

__all__ = ["instrument"]

FAILED: Final = frozenset({"error", "timeout", "interrupted"})
"""Outcomes that make a span an error; a job that is snoozed, rate-limited or called off has done what it should."""

_instrumented: WeakSet[Anew] = WeakSet()


def instrument(app: Anew, *, tracer_provider: TracerProvider | None = None) -> None:
    """Have an application's enqueues and runs make spans; a second call for the same application does nothing.

    Nothing that fails in it changes what becomes of a job: it is logged.

    Args:
        app: Yours.
        tracer_provider: Where spans go; None: the global one, whichever that is when a span begins.
    """
    if app in _instrumented:
        return
    _instrumented.add(app)
    spans = _Spans(trace.get_tracer("anew", __version__, tracer_provider))
    app.around("enqueue")(spans.enqueue)
    app.around("run")(spans.run)


class _Spans:
    """Makes the spans of one application."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def enqueue(self, jobs: Enqueuing) -> Iterator[None]:
        """Make the span of an enqueue, and have its jobs carry it."""
        facts = _facts(jobs.task, jobs.queue, "enqueue", "send")
        if jobs.count > 1:
            facts["messaging.batch.message_count"] = jobs.count
        with self._tracer.start_as_current_span(
            f"enqueue {jobs.task}", kind=SpanKind.PRODUCER, attributes=facts
        ) as span:
            propagate.inject(jobs.carried)
            yield
            if len(jobs.job_ids) == 1:
                span.set_attribute("messaging.message.id", jobs.job_ids[0])
            if jobs.exception is not None:
                span.record_exception(jobs.exception)
                _fail(span, type(jobs.exception).__qualname__, str(jobs.exception))

    def run(self, run: Running) -> Iterator[None]:
        """Make the span of a run; in a process of its own, have what it makes belong to the worker's span."""
        sent = propagate.extract(run.carried)
        if run.in_child:
            token = context.attach(sent)
            yield
            context.detach(token)
            return
        links: Sequence[Link] = ()
        if run.attempt > 1:  # a trace of its own; the baggage stays
            links = _links(sent)
            sent = trace.set_span_in_context(trace.INVALID_SPAN, sent)
        facts = _facts(run.task, run.queue, "run", "process")
        facts |= {"messaging.message.id": run.job_id, "anew.attempt": run.attempt}
        token = context.attach(sent)
        try:
            with self._tracer.start_as_current_span(
                f"run {run.task}", kind=SpanKind.CONSUMER, attributes=facts, links=links
            ) as span:
                if run.process:
                    propagate.inject(run.carried)
                yield
                _end(span, run)
        finally:
            context.detach(token)


def _facts(task: str, queue: str, name: str, kind: str) -> dict[str, AttributeValue]:
    """Give what is said of each span, in the words of the semantic conventions for messaging and one of our own."""
    return {
        "messaging.system": "anew",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue,
        "anew.task": task,
    }


def _links(sent: context.Context) -> Sequence[Link]:
    producer = trace.get_current_span(sent).get_span_context()
    return [Link(producer)] if producer.is_valid else []


def _end(span: Span, run: Running) -> None:
    span.set_attribute("anew.outcome", run.outcome or "")
    if run.outcome not in FAILED:
        return
    if run.exception is not None:
        span.record_exception(run.exception)
    elif run.backtrace is not None:  # raised in another process
        span.add_event(
            "exception",
            {
                "exception.type": run.error_type or "",
                "exception.message": run.error or "",
                "exception.stacktrace": run.backtrace,
            },
        )
    _fail(span, run.error_type or run.outcome or "", run.error or "")


def _fail(span: Span, kind: str, message: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, message))

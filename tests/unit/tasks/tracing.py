"""An application whose tasks run in processes of their own, with traces."""

from __future__ import annotations

import os

from opentelemetry import propagate
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from anew import Anew
from anew.opentelemetry import instrument

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("user")

app = Anew(":memory:")
instrument(app, tracer_provider=provider)


@app.task(process=True, keep_result="1h")
def current() -> str:
    """Say which span is current, as `traceparent` has it."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier["traceparent"]


@app.task(process=True, policy=["1h"])
def vanish() -> None:
    """End its process."""
    os._exit(3)


@app.task(process=True, policy=["1h"])
def fail() -> None:
    """Raise."""
    raise ValueError("no")

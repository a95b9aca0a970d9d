"""Hooks, metrics and traces as a user writes them: checked by type checkers, and not run."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import assert_type

from prometheus_client import CollectorRegistry

import anew.opentelemetry
import anew.prometheus
from anew import Anew, Enqueuing, Event, Running

app = Anew("jobs.db")
anew.prometheus.instrument(app, registry=CollectorRegistry())
anew.prometheus.serve(app, 9464, host="127.0.0.1")
anew.opentelemetry.instrument(app)


@app.on("failed")
def failed(event: Event) -> None:
    assert_type(event.waited_ms, int | None)


@app.around("enqueue")
def send(jobs: Enqueuing) -> Iterator[None]:
    jobs.carried["tenant"] = "acme"
    yield
    assert_type(jobs.exception, BaseException | None)


@app.around("run")
@contextmanager
def receive(run: Running) -> Generator[None, None, None]:
    assert_type(run.carried, dict[str, str])
    yield


@app.around("run")
def nothing(run: Running) -> AbstractContextManager[None]:
    return nullcontext()


app.around("run")(send)  # wrong: it is for an enqueue
app.around("start")  # wrong: there is no such hook
anew.prometheus.instrument("jobs.db")  # wrong: no application

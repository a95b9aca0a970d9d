"""Metrics of an application for Prometheus: what this process has enqueued and run, and what its file has.

``instrument(app)``, or ``anew worker --metrics-port 9464``, which does it::

    anew_jobs_enqueued_total   {task, queue}            new jobs stored
    anew_runs_total            {task, queue, outcome}   runs that have ended: succeeded, error, timeout, snoozed, rate_limited, held
                                                        (by a breaker, without a run), unknown_task, cancelled, interrupted (its
                                                        process died)
    anew_jobs_died_total       {task, queue}            jobs that will not be tried again
    anew_run_seconds           {task, queue}            histogram: how long runs took
    anew_wait_seconds          {task, queue}            histogram: how long jobs waited from when they might run until they did
    anew_jobs                  {queue, state}           jobs in the file, read at each scrape
    anew_breaker_open          {downstream}             1 while jobs that call this service are held, read at each scrape

The names are those of ``anew serve`` where it counts the same. All processes of one file show the same ``anew_jobs`` and
``anew_breaker_open``: take ``max`` of them and not ``sum``. The others are each process's own. They are counted by events, so they
follow a moment later, and miss what is dropped where a user's hooks are too slow (`anew.tasks.events`).

Labels are bounded: tasks are those of the code, all others are ``other``; of (task, queue) the first `MOST_PAIRS` have labels of
their own, and of further ones the queue is ``other``. So it is for the queues of ``anew_jobs``, where those with most jobs stay.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary
from wsgiref.simple_server import WSGIServer

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from anew.errors import InvalidConfig, InvalidInput
from anew.jobs.labels import MOST_QUEUES, OTHER, labelled
from anew.tasks.events import Event

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from anew.tasks.app import Anew

__all__ = ["instrument", "serve"]

_PORT: Final = re.compile(r":[0-9]*$")

log = logging.getLogger("anew.tasks")

MOST_PAIRS: Final = 500
"""Pairs of task and queue with labels of their own: each has some forty series."""

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200)
"""Seconds: from a cache's answer to a long report."""

_registries: WeakKeyDictionary[Anew, CollectorRegistry] = WeakKeyDictionary()


def instrument(app: Anew, *, registry: CollectorRegistry = REGISTRY) -> None:
    """Count what an application does, in a registry; a second call for the same application does nothing.

    Nothing that fails in it changes what becomes of a job: it is logged.

    Args:
        app: Yours.
        registry: Where the metrics are; the default is that of `prometheus_client`. Each application needs one of its own.

    Raises:
        InvalidInput: Another application is in it.
    """
    if app in _registries:
        return
    try:
        counters = _Counters(app, registry)
    except ValueError as error:
        raise InvalidInput(
            "registry: it has metrics of these names, probably another application's; expected registry=CollectorRegistry()",
            field="registry",
        ) from error
    registry.register(_Stored(app))
    app.on()(counters.note)
    _registries[app] = registry


def serve(app: Anew, port: int, *, host: str = "127.0.0.1", insecure: bool = False) -> WSGIServer:
    """Answer Prometheus over HTTP, in a thread, with the registry in which an application is instrumented.

    It is instrumented in the default one if it is in none. Nobody is asked for a token, so only this machine is answered, and only
    where it is named as such (``Host``).

    Args:
        app: Yours.
        port: 0 takes a free one, which is the answer's ``server_port``.
        host: An IP address, or localhost.
        insecure: It may be an address that others reach.

    Raises:
        InvalidConfig: The address is none, or others reach it; the port cannot be had.
    """
    if not insecure and not _is_loopback(host):
        raise InvalidConfig(
            f"metrics-host: others could reach {host!r}, and nothing asks who they are; expected 127.0.0.1, "
            "or insecure (--insecure) where the network itself is closed",
            field="metrics-host",
            value=host,
        )
    instrument(app)
    try:
        server, _ = start_http_server(port, host, _registries[app])
    except (OSError, OverflowError) as error:
        raise InvalidConfig(
            f"metrics-port: {host}:{port} cannot be had ({error})", field="metrics-port", value=port
        ) from error
    page = server.get_app()
    if page is not None and _is_loopback(host):
        server.set_app(_for_own_names(page, host))
    return server


def _for_own_names(page: WSGIApplication, host: str) -> WSGIApplication:
    """Refuse requests to other names than this machine's: a web page may have had a name of its own bound to this address."""
    own = {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host}

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        name: str | None = environ.get(
            "HTTP_HOST"
        )  # only HTTP/1.0, which no browser speaks, may come without one
        if name is None or _PORT.sub("", name).lower() in own:
            return page(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [
            b"these metrics are not served under that host name; expected localhost or the address itself\n"
        ]

    return answer


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Counters:
    """What the events of one application add up to."""

    def __init__(self, app: Anew, registry: CollectorRegistry) -> None:
        pair = ("task", "queue")
        self._tasks = app.tasks
        self._pairs: set[tuple[str, str]] = set()
        self._enqueued = Counter("anew_jobs_enqueued", "Jobs taken in.", pair, registry=registry)
        self._runs = Counter(
            "anew_runs", "Runs that have ended, by outcome.", (*pair, "outcome"), registry=registry
        )
        self._died = Counter("anew_jobs_died", "Jobs that will not be tried again.", pair, registry=registry)
        self._took = Histogram(
            "anew_run_seconds", "How long runs took.", pair, registry=registry, buckets=BUCKETS
        )
        self._waited = Histogram(
            "anew_wait_seconds",
            "How long jobs waited from when they might run until they did.",
            pair,
            registry=registry,
            buckets=BUCKETS,
        )

    def note(self, event: Event) -> None:
        """Count an event."""
        if not event.job_id:  # about a breaker, which is read at each scrape
            return
        labels = self._labels(event)
        if event.name == "enqueued":
            self._enqueued.labels(*labels).inc()
            return
        if event.name == "started":
            if event.waited_ms is not None:
                self._waited.labels(*labels).observe(event.waited_ms / 1_000)
            return
        self._runs.labels(*labels, event.outcome or event.name).inc()
        if event.name == "discarded":
            self._died.labels(*labels).inc()
        if event.duration_ms is not None:
            self._took.labels(*labels).observe(event.duration_ms / 1_000)

    def _labels(self, event: Event) -> tuple[str, str]:
        pair = (event.task if event.task in self._tasks else OTHER, event.queue)
        if pair in self._pairs:
            return pair
        if len(self._pairs) >= MOST_PAIRS:
            return pair[0], OTHER
        self._pairs.add(pair)
        return pair


class _Stored(Collector):
    """What the application's file has, read at each scrape; nothing where this process has not opened it."""

    def __init__(self, app: Anew) -> None:
        self._app = app

    def describe(self) -> Iterator[Metric]:
        """Name the metrics without reading anything."""
        yield _jobs()
        yield _breakers()

    def collect(self) -> Iterator[Metric]:
        """Read; what cannot be read now is left out, and logged."""
        if not self._app.opened_here():
            return
        try:
            jobs, breakers = _jobs(), _breakers()
            for (queue, state), count in labelled(self._app.backend.counts_by_queue()).items():
                jobs.add_metric((queue, state), count)
            if self._app.downstreams:
                for one in self._app.breakers()[:MOST_QUEUES]:
                    breakers.add_metric((one.key,), one.state != "closed")
        except Exception:
            log.exception("the metrics of stored jobs cannot be read")
            return
        yield jobs
        yield breakers


def _jobs() -> GaugeMetricFamily:
    return GaugeMetricFamily("anew_jobs", "Stored jobs by queue and state.", labels=("queue", "state"))


def _breakers() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "anew_breaker_open", "1 while jobs that call this service are held.", labels=("downstream",)
    )

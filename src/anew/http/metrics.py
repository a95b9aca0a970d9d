"""``/metrics``: what the engine and the wires have counted, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from anew.engine.reads import Counts
from anew.engine.stats import MOST_ATTEMPTS
from anew.http.api import Context
from anew.http.formats import JSON, Format
from anew.http.replies import answering
from anew.http.router import Doc, Router
from anew.http.topic_metrics import histogram, topic_metrics
from anew.jobs.labels import labelled
from anew.net.seam import Request
from anew.store.topics import TopicFigures

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Scrape(Collector):
    """What one page shows. `oldest_ready` is since when the job that has waited longest of all ready ones is ready, epoch ms."""

    def __init__(
        self, context: Context, counts: Counts, oldest_ready: int | None, topics: TopicFigures
    ) -> None:
        self._context = context
        self._counts = counts
        self._oldest_ready = oldest_ready
        self._topics = topics

    def collect(self) -> Iterator[Metric]:
        """Give every family in turn."""
        yield from self._jobs()
        yield from self._work()
        yield from self._edge()
        yield from topic_metrics(self._topics, self._counts, self._context.engine.clock.now())

    def _jobs(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("anew_jobs", "Stored jobs by queue and state.", labels=("queue", "state"))
        for (queue, state), n in labelled(self._counts).items():
            jobs.add_metric((queue, state), n)
        yield jobs
        since = self._oldest_ready
        age = 0 if since is None else max(0, self._context.engine.clock.now() - since)
        yield GaugeMetricFamily(
            "anew_oldest_ready_age_seconds",
            "Longest time for which a job that is first in line in its queue and priority has been ready; 0 if none is.",
            age / 1e3,
        )

    def _work(self) -> Iterator[Metric]:
        stats = self._context.engine.stats
        for name, text, n in (
            ("enqueued", "Jobs taken in.", stats.enqueued),
            ("taken", "Jobs handed to workers.", stats.taken),
            ("completed", "Jobs reported as done.", stats.completed),
            ("failed", "Attempts reported as failed.", stats.failed),
            ("died", "Jobs that will not be tried again.", stats.died),
            ("expired", "Jobs that nobody took by the time that they name.", stats.expired),
            ("corrupt", "Jobs set aside because something stored of them cannot be read.", stats.corrupt),
            ("released", "Jobs given back without a verdict.", stats.released),
            ("promoted", "Waiting jobs whose time has come.", stats.promoted),
            ("reaped", "Ended jobs whose retention was over.", stats.reaped),
        ):
            yield CounterMetricFamily(f"anew_jobs_{name}", text, n)
        yield CounterMetricFamily(
            "anew_stale_settles",
            "Reports of attempts that had ended before, which changed nothing.",
            stats.stale,
        )
        retries = CounterMetricFamily(
            "anew_retries", "Retries by the attempt that failed.", labels=("attempt",)
        )
        for attempt, n in enumerate(stats.retries[1:], start=1):
            retries.add_metric((str(attempt) if attempt < MOST_ATTEMPTS else f"{attempt}+",), n)
        yield retries
        for name, text, counted, divisor in (
            ("anew_batch_operations", "Operations in one batch.", stats.batch_size, 1),
            ("anew_commit_seconds", "Time of one commit with its sync.", stats.commit_ms, 1_000),
        ):
            bounds = [bound / divisor for bound in counted.bounds]
            yield histogram(name, text, bounds, counted.buckets, counted.total / divisor)

    def _edge(self) -> Iterator[Metric]:
        context = self._context
        refused = CounterMetricFamily(
            "anew_requests_refused", "Requests refused by reason.", labels=("reason",)
        )
        for reason, n in sorted(context.counters.refused.items()):
            refused.add_metric((reason,), n)
        yield refused
        counters, parts = context.counters, context.engine.parts
        yield CounterMetricFamily("anew_requests", "Requests that arrived whole.", counters.requests)
        for name, text, value in (
            ("connections", "Open connections.", counters.connections),
            ("unfinished_bytes", "Bytes of bodies that are coming in.", counters.unfinished),
            ("unsent_bytes", "Bytes of answers that peers have not taken yet.", counters.unsent),
            ("take_streams", "Open take streams.", len(context.engine.dispatcher.takers)),
            ("accepting", "1 while new jobs are accepted, 0 while space is short.", not parts.full),
            ("uptime_seconds", "Time since the start.", time.monotonic() - context.started_at),
        ):
            yield GaugeMetricFamily(f"anew_{name}", text, value)
        ends = context.certificate_ends()
        if ends:
            certificates = GaugeMetricFamily(
                "anew_tls_certificate_expiry_timestamp_seconds",
                "When the certificate of a listener ends, since the Unix epoch.",
                labels=("api",),
            )
            for api, end in sorted(ends.items()):
                certificates.add_metric((api,), end / 1_000)
            yield certificates


class MetricsRoutes:
    """Answers scrapes."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def show(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Write all metrics in Prometheus' text format."""

        def then(page: bytes) -> None:
            request.reply(200, page, CONTENT_TYPE)

        self._context.reads.figures(self._page, answering(request, JSON, then))

    def _page(self, counts: Counts, oldest_ready: int | None, topics: TopicFigures) -> bytes:
        """Write the page in the reader's thread, of which there is one: it takes 0.1 s where there are 50,000 queues."""
        return generate_latest(Scrape(self._context, counts, oldest_ready, topics))


def add_routes(router: Router, context: Context) -> None:
    """Serve the metrics, whatever `Accept` says."""
    doc = Doc("metrics", "server", {200: ""}, forms=("text/plain",))
    router.add("GET", "/metrics", MetricsRoutes(context).show, doc, streams=True)

"""The figures on the metrics page, held against counters that were set by hand."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from anew.clock import ManualClock
from anew.engine import Stats
from anew.http import metrics, service
from anew.http.api import Api, ApiSettings, Context
from anew.http.formats import JSON
from anew.http.metrics import MetricsRoutes
from anew.http.router import Router
from anew.jobs import State
from anew.net.seam import Kind, WireCounters
from anew.store.topics import TopicFigures

from .asked import Asked

NOW = 1_700_000_000_000
Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Page:
    """The page of an engine whose counters the test sets."""

    def __init__(self, *, oldest_ready: int | None = None, full: bool = False) -> None:
        self.stats = Stats()
        self.counters = WireCounters()
        self.counts = {"mail": {State.READY: 2, State.RETRYING: 1}}
        self.topics = TopicFigures({}, {}, [], None)
        reads = SimpleNamespace(figures=lambda make, then: then(make(self.counts, oldest_ready, self.topics)))
        self._context: Any = SimpleNamespace(
            engine=SimpleNamespace(
                stats=self.stats,
                clock=ManualClock(NOW),
                dispatcher=SimpleNamespace(takers={1, 2}),
                parts=SimpleNamespace(full=full),
            ),
            reads=reads,
            counters=self.counters,
            certificate_ends=lambda: {"primary": NOW + 86_400_000},
            started_at=time.monotonic(),
        )

    def figure(self, name: str, **labels: str) -> float:
        """One figure, as Prometheus reads it."""
        request = Asked("GET", "/metrics")
        MetricsRoutes(self._context).show(request, JSON, ())
        families = text_string_to_metric_families(request.answer.body.decode())
        found = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }
        return found[name, frozenset(labels.items())]


def test_jobs_are_told_by_queue_and_state() -> None:
    page = Page()
    assert page.figure("anew_jobs", queue="mail", state="ready") == 2
    assert page.figure("anew_jobs", queue="mail", state="retrying") == 1


@pytest.mark.parametrize(("since", "seconds"), [(None, 0), (NOW - 2_500, 2.5), (NOW + 5_000, 0)])
def test_the_oldest_ready_jobs_age_is_in_seconds_and_never_negative(
    since: int | None, seconds: float
) -> None:
    assert Page(oldest_ready=since).figure("anew_oldest_ready_age_seconds") == seconds


@pytest.mark.parametrize(
    "name", ["enqueued", "taken", "completed", "failed", "died", "expired", "released", "promoted", "reaped"]
)
def test_each_counter_stands_under_its_own_name(name: str) -> None:
    page = Page()
    setattr(page.stats, name, 7)
    assert page.figure(f"anew_jobs_{name}_total") == 7


def test_reliability_17_reports_that_came_too_late_are_shown() -> None:
    page = Page()
    page.stats.stale = 7
    assert page.figure("anew_stale_settles_total") == 7


def test_retries_beyond_the_25th_share_a_label() -> None:
    page = Page()
    for attempt in (1, 25, 25, 26, 27, 99):
        page.stats.count_retry(attempt)
    figures = [page.figure("anew_retries_total", attempt=label) for label in ("1", "2", "25", "26+")]
    assert figures == [1, 0, 2, 3]


def test_buckets_count_all_below_them_too_and_commits_are_in_seconds() -> None:
    page = Page()
    for commit_ms in (0.25, 3, 4, 5_000):
        page.stats.commit_ms.add(commit_ms)
    below = {"0.00025": 1, "0.002": 1, "0.005": 3, "1.0": 3, "+Inf": 4}
    assert {le: page.figure("anew_commit_seconds_bucket", le=le) for le in below} == below
    assert page.figure("anew_commit_seconds_count") == 4
    assert page.figure("anew_commit_seconds_sum") == pytest.approx(5.00725)


def test_batches_are_counted_in_operations() -> None:
    page = Page()
    page.stats.batch_size.add(3)
    assert page.figure("anew_batch_operations_bucket", le="2.0") == 0
    assert page.figure("anew_batch_operations_bucket", le="5.0") == 1
    assert page.figure("anew_batch_operations_sum") == 3


@pytest.mark.parametrize(("full", "figure"), [(False, 1), (True, 0)])
def test_whether_new_jobs_are_accepted_is_told(full: bool, figure: float) -> None:
    assert Page(full=full).figure("anew_accepting") == figure


def test_the_edge_tells_requests_refusals_connections_and_streams() -> None:
    page = Page()
    page.counters.requests, page.counters.connections = 5, 3
    page.counters.unfinished, page.counters.unsent = 5, 7
    page.counters.refuse("host")
    page.counters.refuse("host")
    assert page.figure("anew_requests_total") == 5
    assert page.figure("anew_requests_refused_total", reason="host") == 2
    assert page.figure("anew_connections") == 3
    assert page.figure("anew_unfinished_bytes") == 5
    assert page.figure("anew_unsent_bytes") == 7
    assert page.figure("anew_take_streams") == 2


def test_lists_over_all_queues_are_made_in_the_readers_thread_and_may_be_shed() -> None:
    asked: list[str] = []
    nobody: Any = SimpleNamespace(submit=None)
    reads: Any = SimpleNamespace()
    reads.limits = dict
    reads.counts = reads.figures = reads.overview = lambda make, then: asked.append(request.path.decode())
    router = Router()
    context = Context(nobody, nobody, reads, nobody, ApiSettings(), WireCounters(), nobody)
    metrics.add_routes(router, context)
    service.add_routes(router, context)
    api = Api(context.settings, context.counters, router)
    for path in ("/metrics", "/queues", "/v1/queues"):
        request = Asked("GET", path)
        api(request)
        assert request.answers == []
        assert api.kind_of(request) is Kind.other
    assert asked == ["/metrics", "/queues", "/v1/queues"]


def test_topics_are_counted_with_a_bounded_number_of_labels() -> None:
    page = Page()
    page.topics = TopicFigures(
        counts={
            ("attempts", "orders\x1fretry\x1f5xx"): 3,
            ("attempts", "orders\x1fdelivered\x1f2xx"): 4,
            ("dead", "exhausted"): 1,
            ("attempt_seconds", "0"): 2,
            ("attempt_seconds", "12"): 1,
            ("attempt_seconds", "sum"): 45_020,
        },
        subscriptions={"active": 5},
        unwell=[b'{"opened":1,"open_until":%d}' % (NOW + 1), b'{"opened":1,"open_until":%d}' % (NOW - 1)],
        blocked_since=(NOW - 7_000) << 20,
        due_since=NOW - 3_000,
    )
    assert (
        page.figure("anew_delivery_attempts_total", topic="orders", outcome="retry", **{"class": "5xx"}) == 3
    )
    assert (
        page.figure("anew_deliveries_dead_total", reason="exhausted") == 1
    )  # checklist 60: not the failed attempts
    assert page.figure("anew_delivery_attempt_seconds_bucket", le="0.01") == 2
    assert page.figure("anew_delivery_attempt_seconds_bucket", le="30") == 2
    assert page.figure("anew_delivery_attempt_seconds_count") == 3
    assert page.figure("anew_delivery_attempt_seconds_sum") == 45.02
    assert page.figure("anew_delivery_oldest_deferred_seconds") == 7
    assert page.figure("anew_delivery_oldest_due_seconds") == 3
    assert page.figure("anew_subscriptions", state="active") == 5
    assert page.figure("anew_breaker_state", state="open") == 1
    assert page.figure("anew_breaker_state", state="half_open") == 1


def test_the_end_of_a_certificate_is_a_time_in_seconds() -> None:
    page = Page()
    name = "anew_tls_certificate_expiry_timestamp_seconds"
    assert page.figure(name, api="primary") == NOW / 1_000 + 86_400

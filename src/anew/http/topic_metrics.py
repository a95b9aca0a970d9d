"""What has happened among topics, for Prometheus: counters of the store, which all deliverers add to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from anew.engine.reads import Counts
from anew.jobs import State
from anew.jobs.codec import OWN_QUEUE
from anew.jobs.ids import COUNTER_BITS
from anew.store.topics import TopicFigures
from anew.topics.counting import LATENCIES, MOST_TOPICS, RETRIES, SECONDS, SUM
from anew.topics.publishing import health_of

OTHER = "other"

_COUNTERS = {
    "published": ("anew_messages_published", "Messages published.", ("topic",)),
    "deliveries": (
        "anew_deliveries",
        "Deliveries that have ended, by what became of them.",
        ("topic", "status"),
    ),
    "attempts": (
        "anew_delivery_attempts",
        "Attempts that have ended, the failed ones among them.",
        ("topic", "outcome", "class"),
    ),
    "dead": ("anew_deliveries_dead", "Deliveries that are not tried any more.", ("reason",)),
    "skipped": ("anew_fanout_skipped", "Subscriptions that a message did not go to.", ("reason",)),
    "ssrf_blocked": ("anew_ssrf_blocked", "Attempts whose address the guard has blocked.", ()),
}

_HISTOGRAMS = {
    "attempt_seconds": ("anew_delivery_attempt_seconds", "Duration of one attempt.", SECONDS),
    "latency_seconds": ("anew_delivery_latency_seconds", "Time from publication to delivery.", LATENCIES),
    "retry_index": ("anew_delivery_retry_index", "Retries that deliveries have needed.", RETRIES),
}


def topic_metrics(figures: TopicFigures, counts: Counts, now: int) -> Iterator[Metric]:
    """Give every family in turn: `figures` is what the store has counted, `now` epoch ms."""
    by_name: dict[str, dict[str, int]] = {}
    for (name, label), value in figures.counts.items():
        by_name.setdefault(name, {})[label] = value
    for name, (family, text, labels) in _COUNTERS.items():
        yield _counter(family, text, labels, by_name.get(name, {}))
    for name, (family, text, bounds) in _HISTOGRAMS.items():
        values = by_name.get(name, {})
        counted = [values.get(str(place), 0) for place in range(len(bounds) + 1)]
        yield histogram(family, text, bounds, counted, values.get(SUM, 0) / 1_000)
    yield from _gauges(figures, counts.get(OWN_QUEUE, {}), now)


def _gauges(figures: TopicFigures, waiting: Mapping[State, int], now: int) -> Iterator[Metric]:
    pending = GaugeMetricFamily(
        "anew_deliveries_pending", "Deliveries that have not ended.", labels=("status",)
    )
    for state in (State.SCHEDULED, State.RETRYING, State.READY, State.IN_FLIGHT):
        pending.add_metric((str(state),), waiting.get(state, 0))
    yield pending
    due = 0 if figures.due_since is None else max(now - figures.due_since, 0)
    yield GaugeMetricFamily(
        "anew_delivery_oldest_due_seconds",
        "How long the first delivery in line has been due and not been sent; 0 if none is due.",
        due / 1e3,
    )
    deferred = 0 if figures.blocked_since is None else max(now - (figures.blocked_since >> COUNTER_BITS), 0)
    yield GaugeMetricFamily(
        "anew_delivery_oldest_deferred_seconds",
        "Age of the oldest delivery that is held up by its subscription's breaker, limits or pause; 0 if none is.",
        deferred / 1e3,
    )
    subscriptions = GaugeMetricFamily("anew_subscriptions", "Subscriptions by status.", labels=("state",))
    for status in ("unconfirmed", "active", "paused", "disabled"):
        subscriptions.add_metric((status,), figures.subscriptions.get(status, 0))
    yield subscriptions
    breakers = GaugeMetricFamily(
        "anew_breaker_state", "Subscriptions whose breaker is not closed.", labels=("state",)
    )
    found = Counter(_breaker(stored, now) for stored in figures.unwell)
    for state_ in ("open", "half_open"):
        breakers.add_metric((state_,), found[state_])
    yield breakers


def _breaker(stored: bytes, now: int) -> str:
    health = health_of(stored)
    if not health.opened:
        return "closed"
    return "open" if now < health.open_until else "half_open"


def _counter(name: str, text: str, labels: Sequence[str], values: Mapping[str, int]) -> Metric:
    """Give a counter; of topics those that have counted most have a label of their own."""
    if not labels:
        return CounterMetricFamily(name, text, sum(values.values()))
    family = CounterMetricFamily(name, text, labels=labels)
    found: Counter[tuple[str, ...]] = Counter()
    topics: Counter[str] = Counter()
    for label, value in values.items():
        topics[label.split("\x1f")[0]] += value
    known = {topic for topic, _ in topics.most_common(MOST_TOPICS)}
    for label, value in values.items():
        first, *rest = label.split("\x1f")
        found[first if first in known else OTHER, *rest] += value
    for key, value in sorted(found.items()):
        family.add_metric(key, value)
    return family


def histogram(name: str, text: str, bounds: Iterable[float], counts: Iterable[int], total: float) -> Metric:
    """Give a histogram; Prometheus wants each bucket to count all below it too."""
    buckets = list(zip([*map(str, bounds), "+Inf"], accumulate(counts), strict=True))
    return HistogramMetricFamily(name, text, buckets, total)

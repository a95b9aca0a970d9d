"""Topics, subscriptions, messages, deliveries and attempts as they are shown. No secret is ever among it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import msgspec

from anew.engine.batch import Batch
from anew.errors import CorruptRow
from anew.jobs import Job, State
from anew.jobs.key_limits import OPEN, KeyStanding
from anew.store.topics import (
    AttemptRow,
    DeliveryRow,
    DeliveryStatus,
    MessageRow,
    SubscriptionRow,
    TaskRow,
    TopicRow,
)
from anew.topics.attempts import UNREADABLE, attempt_of, ended_status
from anew.topics.confirmation import TRIGGER
from anew.topics.delivery_policy import DeliveryPolicy, Retry
from anew.topics.documents import CONFIRMATION, stored_as, subscription_document, topic_document
from anew.topics.envelope import instant
from anew.topics.publishing import gate_of, health_of
from anew.topics.taking import deadline_of
from anew.topics.terms import Holding, TopicTerms, holding_for, stored_policy

View = dict[str, Any]


def topic_view(row: TopicRow, terms: TopicTerms) -> View:
    """Show a topic; raises CorruptRow."""
    document = topic_document(row.document)
    held = holding_for(terms.policy, row.document, None)
    return {
        "name": row.name,
        "delivery_policy": document.delivery_policy,
        "lock_delivery_policy": document.lock_delivery_policy,
        "retention": document.retention,
        "excerpts": document.excerpts,
        **_effective(held),
        "created_at": instant(row.created_at),
        "changed_at": instant(row.changed_at),
    }


def subscription_view(batch: Batch, row: SubscriptionRow, terms: TopicTerms) -> View:
    """Show a subscription; raises CorruptRow."""
    document = subscription_document(row.document)
    topic = batch.store.topics.topic(row.topic)
    health, gate = health_of(row.health), gate_of(row, batch.now)
    breaker = "closed"
    if health.opened:
        breaker = "open" if batch.now < health.open_until else "half_open"
    queue = row.endpoint.removeprefix("queue:") if document.kind == "queue" else None
    return {
        "id": f"sub_{batch.ids.write(row.id)}",
        "topic": row.topic,
        "name": document.name,
        "endpoint": {"type": document.kind, "url": row.endpoint}
        if queue is None
        else {"type": "queue", "queue": queue},
        "status": row.status,
        "reason": document.reason,
        "filter": document.filter,
        "delivery_policy": document.delivery_policy,
        **({} if topic is None else _effective(holding_for(terms.policy, topic.document, row.document))),
        "handshake": document.handshake,
        "dead_letter_queue": document.dead_letter_queue,
        "health": {
            "failures": health.failures,
            "failing_since": _instant(health.since),
            "breaker": breaker,
            "spared_until": _instant(gate.closed_until) if gate != OPEN and row.status == "active" else None,
        },
        "created_at": instant(row.created_at),
        "changed_at": instant(row.changed_at),
        "expires_at": _instant(row.ends_at),
    }


def _effective(held: Holding) -> View:
    return {
        "effective_delivery_policy": policy_view(held.policy),
        "policy_sources": held.sources,
        "lab": lab_link(held.engine),
    }


def _waits(retry: Retry) -> View:
    if retry.policy is not None:
        return {"policy": retry.policy}
    return {"schedule": [wait / 1_000 for wait in retry.delays_ms], "jitter": retry.jitter}


def lab_link(engine: bytes) -> str:
    """Give path and query of the lab's page that shows a policy of the engine."""
    return f"/lab?{urlencode({'a': engine.decode()}, safe=':,')}"


def policy_view(policy: DeliveryPolicy) -> View:
    """Show a delivery policy in seconds, as people write it; its waits are those that the engine uses."""
    retry, throttle, request, health = policy.retry, policy.throttle, policy.request, policy.health
    return {
        "retry": {
            **_waits(retry),
            "max_total_time": retry.max_total_ms / 1_000,
            "honor_retry_after": retry.honor_retry_after,
            "max_retry_after": retry.max_retry_after_ms / 1_000,
            "overload_floor": retry.overload_floor_ms / 1_000,
            "profile": retry.profile,
            "retry_statuses": list(retry.retry_statuses),
            "dead_statuses": list(retry.dead_statuses),
        },
        "throttle": {
            "max_per_second": throttle.max_per_second,
            "burst": throttle.burst,
            "max_in_flight": throttle.max_in_flight,
        },
        "request": {
            "timeout": request.timeout_ms / 1_000,
            "connect_timeout": request.connect_timeout_ms / 1_000,
            "body": request.body,
            "content_type": request.content_type,
            "headers": dict(request.headers),
        },
        "health": {
            "breaker_failures": health.breaker_failures,
            "breaker_open": health.breaker_open_ms / 1_000,
            "breaker_open_max": health.breaker_open_max_ms / 1_000,
            "disable_after": None if health.disable_after_ms is None else health.disable_after_ms / 1_000,
            "disable_min_failures": health.disable_min_failures,
            "disable_on_gone": health.disable_on_gone,
        },
    }


def message_view(batch: Batch, row: MessageRow) -> View:
    """Show a message, with how its deliveries stand: of the first 1,000. Raises CorruptRow."""
    for json in (row.data, row.attributes or b"{}"):
        stored_as(Any, json, "message")
    rows = batch.store.topics.deliveries_of_message(row.id, -1, 1_000)
    counts: dict[str, int] = {}
    for status in delivery_statuses(batch, rows):
        counts[status] = counts.get(status, 0) + 1
    return {
        "id": f"msg_{batch.ids.write(row.id)}",
        "topic": row.topic,
        "type": row.type,
        "attributes": None if row.attributes is None else msgspec.Raw(row.attributes),
        "data": None if row.type == CONFIRMATION else msgspec.Raw(row.data),  # it has the token
        "published_at": instant(row.published_at),
        "due_at": instant(row.due_at),
        "expires_at": _instant(row.ends_at),
        "expanding": row.expanded is not None,
        "deliveries": counts,
    }


def delivery_views(batch: Batch, rows: Sequence[DeliveryRow]) -> list[View]:
    """Show deliveries, each with its last attempt."""
    seen = _Seen(batch, rows)
    stored = batch.store.topics
    last = stored.last_attempts([row.id for row in rows])
    messages = stored.messages(list({row.message for row in rows}))
    policies = stored.policies(list({row.policy for row in rows}))
    return [
        _delivery(
            batch, seen, row, messages.get(row.message), policies.get(row.policy, b""), last.get(row.id)
        )
        for row in rows
    ]


def delivery_statuses(batch: Batch, rows: Sequence[DeliveryRow]) -> list[str]:
    """Say how far deliveries are."""
    seen = _Seen(batch, rows)
    return [seen.status(row)[0] for row in rows]


class _Seen:
    """What says how far some deliveries are."""

    def __init__(self, batch: Batch, rows: Sequence[DeliveryRow]) -> None:
        store = batch.store
        live = [row.job for row in rows if row.status == DeliveryStatus.LIVE]
        self.jobs: dict[int, Job] = {job.key: job for job in store.load(live)}
        self.subscriptions = store.topics.subscriptions(list({row.subscription for row in rows}), batch.now)
        self._blocked = {
            job.key for job in store.key_limits.among(live) if job.standing is KeyStanding.BLOCKED
        }
        self._now = batch.now

    def status(self, row: DeliveryRow) -> tuple[str, str | None]:
        """Give how far a delivery is, and what holds it up."""
        if row.status != DeliveryStatus.LIVE:
            return ended_status(row.status), None
        job = self.jobs.get(row.job)
        if job is None or job.state in (State.CANCELLED, State.COMPLETED):  # somebody has ended its job
            return "cancelled", None
        if job.state is State.DEAD:
            return "dead", None
        if job.state is State.IN_FLIGHT:
            return "sending", None
        subscription = self.subscriptions.get(row.subscription)
        if subscription is None:
            return "cancelled", None
        if subscription.status in ("paused", "disabled"):
            return "held", None
        if job.state is not State.READY:
            return "scheduled", None
        if row.trigger != TRIGGER and gate_of(subscription, self._now) != OPEN:
            return "scheduled", "breaker"
        return ("scheduled", "throttle") if row.job in self._blocked else ("ready", None)


def _delivery(
    batch: Batch,
    seen: _Seen,
    row: DeliveryRow,
    message: MessageRow | None,
    policy: bytes,
    last: AttemptRow | None,
) -> View:
    status, deferred_by = seen.status(row)
    write = batch.ids.write
    subscription, job = seen.subscriptions.get(row.subscription), seen.jobs.get(row.job)
    deadline = next_at = None
    if status in ("scheduled", "ready", "sending", "held") and subscription is not None:
        if message is not None and row.first_at is not None:
            with suppress(CorruptRow):  # it is ended when it comes to be sent
                deadline = instant(deadline_of(row, subscription, message, stored_policy(policy), batch.now))
        next_at = None if job is None or status in ("held", "sending") else instant(job.ready_at)
    return {
        "id": f"dlv_{write(row.id)}",
        "message_id": f"msg_{write(row.message)}",
        "subscription_id": f"sub_{write(row.subscription)}",
        "topic": None if subscription is None else subscription.topic,
        "type": None if message is None else message.type,
        "status": status,
        "deferred_by": deferred_by,
        "trigger": row.trigger,
        "attempts": row.attempts,
        "next_attempt_at": next_at,
        "deadline_at": deadline,
        "dead_reason": (row.dead_reason or "exhausted") if status == "dead" else None,
        "last_attempt": None if last is None else attempt_view(batch, last),
    }


def attempt_view(batch: Batch, row: AttemptRow) -> View:
    """Show an attempt; of one that cannot be read, that."""
    shown: View = {
        "id": f"att_{batch.ids.write(row.delivery)}-{row.number}",
        "delivery_id": f"dlv_{batch.ids.write(row.delivery)}",
        "number": row.number,
        "started_at": instant(row.started_at),
    }
    try:
        attempt = attempt_of(row)
    except CorruptRow:
        return {**shown, "outcome": UNREADABLE}
    if attempt is None:
        return {**shown, "outcome": "sending"}
    answer = attempt.answer
    return {
        **shown,
        "trigger": attempt.trigger,
        "url": attempt.url,
        "outcome": attempt.outcome,
        "error": attempt.error,
        "status": None if answer is None else answer.status,
        "duration_ms": None if answer is None else answer.duration_ms,
        "parts_ms": None if answer is None else _parts(answer),
        "address": "" if answer is None else answer.address,
        "response_headers": {} if answer is None else dict(answer.headers),
        "excerpt": "" if answer is None else answer.excerpt,
        "request_headers": list(attempt.sent),
        "body_sha256": attempt.digest,
        "next_attempt_at": _instant(attempt.next_at),
        "next_cause": attempt.cause,
        "dispatcher": attempt.dispatcher,
    }


def _parts(answer: Any) -> View:
    names = ("dns_ms", "connect_ms", "tls_ms", "ttfb_ms")
    return {name.removesuffix("_ms"): getattr(answer, name) for name in names}


def task_view(batch: Batch, row: TaskRow) -> View:
    """Show a task; raises CorruptRow."""
    document = stored_as(dict[str, Any], row.document, "task")
    what = {"include": document.get("include"), "mode": document.get("mode", "full")}
    return {"id": f"tsk_{batch.ids.write(row.id)}", "status": row.status, "done": row.done, **what}


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else instant(at_ms)

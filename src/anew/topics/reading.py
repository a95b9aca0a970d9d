"""What is read of topics for somebody who looks: pages of lists, bounded whatever matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from anew.engine.batch import Batch
from anew.engine.ops import Verb
from anew.errors import NotFound
from anew.store.topics import DeliveryRow
from anew.topics.publishing import known_topic
from anew.topics.redelivery import Selection, known_delivery, matching
from anew.topics.terms import TopicTerms
from anew.topics.views import (
    View,
    attempt_view,
    delivery_statuses,
    delivery_views,
    message_view,
    subscription_view,
    topic_view,
)

STATUSES: Final = ("scheduled", "ready", "sending", "delivered", "held", "dead", "cancelled")
"""How far a delivery can be."""

CHUNK: Final = 500
SCANNED: Final = 5_000
"""Deliveries that one page looks at, however few of them match; the page's cursor goes on behind them."""

_LAST = (1 << 63) - 1


def topics(terms: TopicTerms, after: str, limit: int) -> Verb:
    """Read topics by name, from behind one on; the verb gives a page."""

    def verb(batch: Batch) -> View:
        rows = batch.store.topics.topics(after, limit)
        return _page("topics", [topic_view(row, terms) for row in rows], limit, lambda: rows[-1].name)

    return verb


def subscriptions(terms: TopicTerms, topic: str, after: int, limit: int) -> Verb:
    """Read the subscriptions of a topic, from behind one on; the verb gives a page, or raises NotFound."""

    def verb(batch: Batch) -> View:
        known_topic(batch, topic)
        rows = batch.store.topics.subscribers(topic, after, limit, batch.now)
        shown = [subscription_view(batch, row, terms) for row in rows]
        return _page("subscriptions", shown, limit, lambda: str(shown[-1]["id"]))

    return verb


def message(key: int) -> Verb:
    """Read a message; the verb gives it as shown, or raises NotFound."""

    def verb(batch: Batch) -> View:
        row = batch.store.topics.messages([key]).get(key)
        if row is None:
            raise NotFound("there is no such message; messages are kept as long as their topic says")
        return message_view(batch, row)

    return verb


def delivery(key: int) -> Verb:
    """Read one delivery; the verb gives it as shown, or raises NotFound."""
    return lambda batch: delivery_views(batch, [known_delivery(batch, key)])[0]


def deliveries(chosen: Selection, after: int, limit: int) -> Verb:
    """Read deliveries that match, those of the oldest messages first; the verb gives a page."""

    def verb(batch: Batch) -> View:
        rows, position = _matching(batch, chosen, after, limit)
        cursor = None if position is None else f"dlv_{batch.ids.write(position)}"
        return {"deliveries": delivery_views(batch, rows), "cursor": cursor}

    return verb


def _matching(
    batch: Batch, chosen: Selection, after: int, limit: int
) -> tuple[list[DeliveryRow], int | None]:
    """Give the next deliveries that match, and from where a next page goes on; None: there is none."""
    found: list[DeliveryRow] = []
    for _ in range(SCANNED // CHUNK):
        is_dead = chosen.status == "dead"
        chunk = batch.store.topics.deliveries_of(chosen.subscription, after, _LAST, CHUNK, dead=is_dead)
        meant = matching(batch, chosen, chunk)
        if chosen.status is not None:
            statuses = delivery_statuses(batch, meant)
            meant = [row for row, status in zip(meant, statuses, strict=True) if status == chosen.status]
        found += meant[: limit - len(found)]
        if len(found) == limit:
            return found, found[-1].id
        if len(chunk) < CHUNK:
            return found, None
        after = chunk[-1].id
    return found, after


def attempts(delivery: int, after: int, limit: int) -> Verb:
    """Read the attempts of a delivery by number, from behind one on; the verb gives a page, or raises NotFound."""

    def verb(batch: Batch) -> View:
        known_delivery(batch, delivery)
        rows = batch.store.topics.attempts(delivery, after, limit)
        shown = [attempt_view(batch, row) for row in rows]
        return _page("attempts", shown, limit, lambda: str(rows[-1].number))

    return verb


def attempt(delivery: int, number: int) -> Verb:
    """Read one attempt; the verb gives it as shown, or raises NotFound."""

    def verb(batch: Batch) -> View:
        rows = batch.store.topics.attempts(delivery, number - 1, 1)
        if not rows or rows[0].number != number:
            raise NotFound("there is no such attempt")
        return attempt_view(batch, rows[0])

    return verb


def _page(name: str, shown: list[View], limit: int, cursor: Callable[[], str]) -> dict[str, Any]:
    """Give a page of a list; its cursor is null on the last one."""
    return {name: shown, "cursor": cursor() if len(shown) == limit else None}

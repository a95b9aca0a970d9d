"""What is read of topics for somebody who looks: pages of lists, bounded whatever matches."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from anew.engine.batch import Batch
from anew.engine.ops import Verb
from anew.errors import CorruptRow, NotFound
from anew.jobs.ids import MAX_KEY
from anew.store.topics import AttemptRow, DeliveryRow
from anew.topics.delivery_policy import Preview
from anew.topics.publishing import known_topic
from anew.topics.redelivery import Selection, known_delivery, matching
from anew.topics.registry import id_of, known_subscription
from anew.topics.terms import TopicTerms, schedule_for
from anew.topics.views import (
    View,
    attempt_view,
    delivery_statuses,
    delivery_views,
    message_view,
    subscription_view,
    topic_view,
)

log = logging.getLogger("anew.topics")

Row = TypeVar("Row")

STATUSES: Final = ("scheduled", "ready", "sending", "delivered", "held", "dead", "cancelled")
"""How far a delivery can be."""

CHUNK: Final = 500
SCANNED: Final = 5_000
"""Deliveries that one page looks at, however few of them match; the page's cursor goes on behind them."""

RECENT: Final = 20
"""Deliveries of a subscription by which it is told how they go."""

COUNTED: Final = 100
"""Subscriptions of a topic that are counted."""


def topics(terms: TopicTerms, after: str, limit: int) -> Verb:
    """Read topics by name, from behind one on; the verb gives a page."""

    def verb(batch: Batch) -> View:
        rows = batch.store.topics.topics(after, limit)
        shown = list(_readable(rows, lambda row: topic_view(row, terms)))
        return _page("topics", shown, rows, limit, lambda: rows[-1].name)

    return verb


def topic(terms: TopicTerms, name: str) -> Verb:
    """Read one topic; the verb gives it as shown, or raises NotFound."""
    return lambda batch: topic_view(known_topic(batch, name), terms)


def subscribers(batch: Batch, topic: str) -> int:
    """Count the subscriptions of a topic, up to `COUNTED`."""
    return batch.store.topics.count_subscribers(topic, COUNTED, batch.now)


def schedule(batch: Batch, terms: TopicTerms, topic: str, subscription: int | None = None) -> Preview:
    """Give the retries that hold for a topic, or for a subscription of it, part by part; raises NotFound."""
    row = None if subscription is None else known_subscription(batch, subscription)
    return schedule_for(
        terms.policy, known_topic(batch, topic).document, None if row is None else row.document
    )


def subscriptions(terms: TopicTerms, topic: str, after: int, limit: int) -> Verb:
    """Read the subscriptions of a topic, from behind one on; the verb gives a page, or raises NotFound."""

    def verb(batch: Batch) -> View:
        known_topic(batch, topic)
        rows = batch.store.topics.subscribers(topic, after, limit, batch.now)
        shown = list(_readable(rows, lambda row: subscription_view(batch, row, terms)))
        return _page("subscriptions", shown, rows, limit, lambda: id_of(batch, rows[-1]))

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


def deliveries(chosen: Selection, after: int, limit: int, *, newest: bool = False) -> Verb:
    """Read deliveries that match, those of the oldest messages first; the verb gives a page.

    Args:
        chosen: Which; of one subscription, where the newest come first.
        after: From behind this one on.
        limit: The most to give.
        newest: The newest come first, and `after` is the one behind which the older ones are.
    """

    def verb(batch: Batch) -> View:
        rows, position = _matching(batch, chosen, after, limit, newest=newest)
        cursor = None if position is None else f"dlv_{batch.ids.write(position)}"
        return {"deliveries": delivery_views(batch, rows), "cursor": cursor}

    return verb


def _matching(
    batch: Batch, chosen: Selection, after: int, limit: int, *, newest: bool
) -> tuple[list[DeliveryRow], int | None]:
    """Give the next deliveries that match, and from where a next page goes on; None: there is none."""
    found: list[DeliveryRow] = []
    for _ in range(SCANNED // CHUNK):
        chunk = _chunk(batch, chosen, after, newest=newest)
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


def _chunk(batch: Batch, chosen: Selection, after: int, *, newest: bool) -> list[DeliveryRow]:
    rows = batch.store.topics
    if newest:
        assert chosen.subscription is not None
        return rows.last_deliveries_of(chosen.subscription, after - 1, CHUNK)
    return rows.deliveries_of(chosen.subscription, after, MAX_KEY, CHUNK, dead=chosen.status == "dead")


class Recent(NamedTuple):
    """How the last deliveries of a subscription have gone.

    Attributes:
        counts: By status, of the last `RECENT` ones.
        last: The attempt that began last among them, as shown; None: there was none.
    """

    counts: Mapping[str, int]
    last: View | None


def recent(batch: Batch, subscriptions: Sequence[int]) -> list[Recent]:
    """Tell how the last deliveries of some subscriptions have gone, in this order."""
    topics = batch.store.topics
    found = [topics.last_deliveries_of(id_, MAX_KEY, RECENT) for id_ in subscriptions]
    rows = [row for part in found for row in part]
    status = dict(zip((row.id for row in rows), delivery_statuses(batch, rows), strict=True))
    attempts = topics.last_attempts([row.id for row in rows])
    return [_recent(batch, part, status, attempts) for part in found]


def _recent(
    batch: Batch, rows: Sequence[DeliveryRow], status: Mapping[int, str], attempts: Mapping[int, AttemptRow]
) -> Recent:
    made = [attempts[row.id] for row in rows if row.id in attempts]
    last = max(made, key=lambda one: one.started_at, default=None)
    counts = Counter(status[row.id] for row in rows)
    return Recent(counts, None if last is None else attempt_view(batch, last))


def attempts(delivery: int, after: int, limit: int) -> Verb:
    """Read the attempts of a delivery by number, from behind one on; the verb gives a page, or raises NotFound."""

    def verb(batch: Batch) -> View:
        known_delivery(batch, delivery)
        rows = batch.store.topics.attempts(delivery, after, limit)
        shown = [attempt_view(batch, row) for row in rows]
        return _page("attempts", shown, rows, limit, lambda: str(rows[-1].number))

    return verb


def attempt(delivery: int, number: int) -> Verb:
    """Read one attempt; the verb gives it as shown, or raises NotFound."""

    def verb(batch: Batch) -> View:
        rows = batch.store.topics.attempts(delivery, number - 1, 1)
        if not rows or rows[0].number != number:
            raise NotFound("there is no such attempt")
        return attempt_view(batch, rows[0])

    return verb


def _readable(rows: Iterable[Row], view: Callable[[Row], View]) -> Iterator[View]:
    """Show rows but for those that cannot be read: each says so at its own address."""
    for row in rows:
        try:
            yield view(row)
        except CorruptRow as error:
            log.warning("a row is left out of a list", extra={"reason": str(error)})


def _page(
    name: str, shown: list[View], rows: Sequence[object], limit: int, cursor: Callable[[], str]
) -> dict[str, Any]:
    """Give a page of a list that shows some rows; its cursor is null on the last one."""
    return {name: shown, "cursor": cursor() if len(rows) == limit else None}

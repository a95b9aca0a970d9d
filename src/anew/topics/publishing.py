"""Publishing: a message and its deliveries are written in one transaction, each delivery a job of the engine.

Where a topic has very many subscriptions, a job is written with the message that makes its deliveries, a chunk in each transaction.
A message has one delivery for each subscription, so a chunk may be made twice.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.engine.ops import Verb
from anew.engine.repeats import remember, repeated
from anew.errors import CorruptRow, InvalidInput, NotFound, StoreFull
from anew.jobs.codec import DEFAULT_PRIORITY, LAST_INSTANT, OWN_QUEUE, JobHooks, NewJob, PushedJob, Retention
from anew.jobs.key_limits import OPEN, Gate
from anew.store.topics import DeliveryRow, DeliveryStatus, MessageRow, SubscriptionRow, TopicRow
from anew.topics.counting import Tally
from anew.topics.delivery_policy import DeliveryPolicy
from anew.topics.documents import (
    CONFIRMATION,
    EVENTS,
    NewMessage,
    stored_as,
    subscription_document,
    topic_document,
)
from anew.topics.envelope import body_of
from anew.topics.filters import Filter, filter_of, matches
from anew.topics.health import HealthState, gate
from anew.topics.terms import Holding, TopicTerms, holding_for, limit_key, limit_name, question_name

log = logging.getLogger("anew.topics")

QUEUE: Final = OWN_QUEUE
DELIVER: Final = "anew.deliver"
EXPAND: Final = "anew.expand"
DEAD: Final = "anew.dead_delivery"
TEST: Final = "anew.test"
"""The type of messages that try an endpoint out."""

CHUNK: Final = 500
"""Subscriptions whose deliveries one transaction makes, where they are made in chunks."""

FEW_CHUNKS: Final = 5
"""So many times `fanout_inline` is made at once for all messages of a request together."""

DELIVERED_TO: Final = frozenset({"active", "paused"})
"""The statuses of subscriptions whose deliveries are made; of paused ones they are held."""

LATER: Final = DEFAULT_PRIORITY + 1
"""The priority of what is sent again: fresh messages come first."""


class Order(Struct, frozen=True):
    """The payload of a delivery's job."""

    delivery: str
    message: str
    subscription: str


class Published(NamedTuple):
    """What a publication came to.

    Attributes:
        ids: Of its messages, in order.
        deliveries: How many were made at once.
        expanding: Others follow.
        repeated: Its key had been used with the same content: nothing was written.
    """

    ids: Sequence[int]
    deliveries: int
    expanding: bool
    repeated: bool = False


def publish(
    terms: TopicTerms, topic: str, messages: Sequence[NewMessage], key: str | None = None, digest: bytes = b""
) -> Verb:
    """Publish messages, all or none.

    Args:
        terms: What holds.
        topic: Its name.
        messages: Checked ones.
        key: The publisher's own, by which a repeat is known.
        digest: Of what came with it.

    Returns:
        A verb that gives `Published`; it raises InvalidInput for Anew's own topic, NotFound, CorruptRow, StoreFull, or Conflict
        where the key came with something else.
    """

    def verb(batch: Batch) -> Published:
        if batch.full:
            raise StoreFull("no space for new messages; deliveries go on")
        if topic == EVENTS:
            raise InvalidInput(
                f"topic: {EVENTS!r} is for what Anew itself has to tell; expected a topic of your own",
                field="topic",
                value=topic,
            )
        row = known_topic(batch, topic)
        if key is not None and (known := repeated(batch, topic, key, digest)) is not None:
            return Published(known, 0, False, repeated=True)
        published = publish_in(batch, terms, row, messages)
        if key is not None:
            remember(batch, topic, key, digest, published.ids)
        return published

    return verb


def publish_in(batch: Batch, terms: TopicTerms, topic: TopicRow, messages: Sequence[NewMessage]) -> Published:
    """Publish messages on a topic, in an open transaction."""
    rows = batch.store.topics
    written = [
        _message(key, topic, message, terms, batch.now)
        for key, message in zip(batch.keys_for(len(messages)), messages, strict=True)
    ]
    subscribers = rows.subscribers(topic.name, -1, terms.fanout_inline + 1, batch.now)
    ids = [row.id for row in written]
    tally = Tally()
    tally.add("published", topic.name, by=len(ids))
    tally.write(batch)
    most = terms.fanout_inline
    if len(subscribers) > most or len(subscribers) * len(written) > FEW_CHUNKS * most:
        rows.write_messages([replace(row, expanded=-1) for row in written])
        batch.insert([_expansion(batch, row) for row in written])
        return Published(ids, 0, True)
    rows.write_messages(written)
    made = sum(len(deliver(batch, terms, topic, row, subscribers)) for row in written)
    return Published(ids, made, False)


def publish_event(batch: Batch, terms: TopicTerms, type_: str, data: dict[str, Any]) -> None:
    """Publish an event on `EVENTS`, if that has a subscription."""
    topic = batch.store.topics.topic(EVENTS)
    if topic is None or not batch.store.topics.count_subscribers(EVENTS, 1, batch.now):
        return
    try:
        publish_in(batch, terms, topic, [NewMessage(type=type_, data=Raw(msgspec.json.encode(data)))])
    except CorruptRow as error:  # raised before anything is written; what the event is about goes on
        log.warning("an event is not published", extra={"type": type_, "reason": str(error)})


def publish_event_of(
    batch: Batch, terms: TopicTerms, row: SubscriptionRow, type_: str, **more: object
) -> None:
    """Publish an event about a subscription, unless it is itself one to `EVENTS`."""
    if row.topic != EVENTS:
        data = {
            "subscription_id": f"sub_{batch.ids.write(row.id)}",
            "topic": row.topic,
            "endpoint": row.endpoint,
        }
        publish_event(batch, terms, type_, {**data, **more})


def died(
    batch: Batch,
    terms: TopicTerms,
    row: DeliveryRow,
    message: MessageRow | None,
    subscription: SubscriptionRow | None,
    reason: str,
) -> None:
    """Count a dead delivery, publish the event, and enqueue a job in the dead-letter queue of its subscription, if it has one."""
    tally = Tally()
    tally.add("dead", reason)
    if message is not None:
        tally.add("deliveries", message.topic, "dead")
    tally.write(batch)
    if message is None or subscription is None or message.type == CONFIRMATION:
        return
    data = _dead(batch, row, message, reason)
    publish_event_of(batch, terms, subscription, "delivery.dead", **data)
    queue = subscription_document(subscription.document).dead_letter_queue
    if queue is not None:
        payload = {
            **data,
            "subscription_id": f"sub_{batch.ids.write(subscription.id)}",
            "data": Raw(message.data),
        }
        batch.insert([NewJob(type=DEAD, queue=queue, payload=_in_one_line(msgspec.json.encode(payload)))])


def _dead(batch: Batch, row: DeliveryRow, message: MessageRow, reason: str) -> dict[str, object]:
    write = batch.ids.write
    last = batch.store.topics.last_attempts([row.id]).get(row.id)
    return {
        "delivery_id": f"dlv_{write(row.id)}",
        "message_id": f"msg_{write(message.id)}",
        "type": message.type,
        "reason": reason,
        "attempts": row.attempts,
        "last_attempt": None if last is None or last.document is None else Raw(last.document),
    }


def expand(batch: Batch, terms: TopicTerms, message: int) -> tuple[int, bool]:
    """Make the deliveries of one more chunk of subscriptions; give how many these are, and whether there are more.

    Raises:
        CorruptRow: The topic cannot be read; nothing was written.
    """
    rows = batch.store.topics
    row = rows.messages([message]).get(message)
    topic = None if row is None else rows.topic(row.topic)
    if row is None or row.expanded is None or topic is None:
        return 0, False
    topic_document(topic.document)  # or each subscription would be passed over
    subscribers = rows.subscribers(row.topic, row.expanded, CHUNK, batch.now)
    # Who has subscribed since then does not get it.
    deliver(batch, terms, topic, row, [one for one in subscribers if one.created_at <= row.published_at])
    more = len(subscribers) == CHUNK
    rows.expand(message, subscribers[-1].id if more else None)
    return len(subscribers), more


def deliver(
    batch: Batch,
    terms: TopicTerms,
    topic: TopicRow,
    message: MessageRow,
    subscribers: Sequence[SubscriptionRow],
    *,
    trigger: str = "scheduled",
    filtered: bool = True,
) -> set[int]:
    """Make the deliveries of a message, but for those that are there; give their ids.

    Args:
        batch, terms, topic, message: What is delivered.
        subscribers: To whom, if they are active or paused, and can be read.
        trigger: What has made them.
        filtered: Only to those whose filters want it.
    """
    recipients = _recipients(batch, message, subscribers, filtered)
    if not recipients:
        return set()
    rows = batch.store.topics
    numbers: dict[bytes, int] = {}
    deliveries: list[DeliveryRow] = []
    jobs: dict[int, NewJob] = {}
    for key, subscriber in zip(batch.keys_for(len(recipients)), recipients, strict=True):
        held = holding_for(terms.policy, topic.document, subscriber.document)
        if held.document not in numbers:
            numbers[held.document] = rows.policy_number(held.document)
        row = DeliveryRow(
            id=key,
            message=message.id,
            subscription=subscriber.id,
            job=key,
            policy=numbers[held.document],
            trigger=trigger,
            held_ms=held_ms(subscriber, batch.now),
        )
        if subscriber.status == "active" and subscription_document(subscriber.document).kind == "queue":
            jobs[key] = queued(batch, terms, message, subscriber, held.policy)
            row = replace(row, status=DeliveryStatus.DELIVERED, purge_at=batch.now + terms.delivery_kept_ms)
        else:
            jobs[key] = delivery_job(batch, terms, row, message, subscriber, held)
        deliveries.append(row)
    made = rows.add_deliveries(deliveries)
    chosen = [row.id for row in deliveries if row.id in made]
    if chosen:
        batch.insert([jobs[key] for key in chosen], keys=chosen)
        gates = {limit_name(row.id): gate_of(row, batch.now) for row in recipients}
        batch.hooks.blocking.gate({name: one for name, one in gates.items() if one != OPEN})
    return made


def _recipients(
    batch: Batch, message: MessageRow, subscribers: Sequence[SubscriptionRow], filtered: bool
) -> list[SubscriptionRow]:
    """Give the subscriptions that get a message; count why the others do not."""
    tally = Tally()
    found: list[SubscriptionRow] = []
    for one in subscribers:
        why_not = _why_not(one, message, filtered)
        if why_not is None:
            found.append(one)
        else:
            tally.add("skipped", why_not)
    tally.write(batch)
    return found


def delivery_job(
    batch: Batch,
    terms: TopicTerms,
    delivery: DeliveryRow,
    message: MessageRow,
    subscriber: SubscriptionRow,
    held: Holding,
) -> PushedJob:
    """Give the job of a delivery to a webhook."""
    document = subscription_document(subscriber.document)
    name = question_name(subscriber.id) if message.type == CONFIRMATION else limit_name(subscriber.id)
    write = batch.ids.write
    order = Order(f"dlv_{write(delivery.id)}", f"msg_{write(message.id)}", f"sub_{write(subscriber.id)}")
    return PushedJob(
        type=DELIVER,
        queue=QUEUE,
        payload=Raw(msgspec.json.encode(order)),
        priority=LATER if delivery.trigger == "replay" else DEFAULT_PRIORITY,
        ready_at=message.due_at if message.due_at > batch.now else None,
        retention=Retention(completed_ms=0, dead_ms=terms.delivery_kept_ms),
        policy=Raw(held.engine),
        hooks=JobHooks(limit=limit_key(name, held.policy.throttle, document.allowed_rate)),
    )


def gate_of(subscription: SubscriptionRow, now: int) -> Gate:
    """Give what holds the deliveries of a subscription back: its owner, or its breaker."""
    if subscription.status != "active":
        return Gate(LAST_INSTANT)
    return gate(health_of(subscription.health), now)


def held_ms(subscription: SubscriptionRow, now: int) -> int:
    """Give how long the deliveries of a subscription have been held until now."""
    if subscription.held_at is None:
        return subscription.held_ms
    return subscription.held_ms + max(now - subscription.held_at, 0)


@lru_cache(maxsize=4096)
def health_of(stored: bytes) -> HealthState:
    """Read how an endpoint has done; what cannot be read is forgotten."""
    try:
        return stored_as(HealthState, stored, "health") if stored else HealthState()
    except CorruptRow:
        return HealthState()


def known_topic(batch: Batch, name: str) -> TopicRow:
    """Read a topic that is there.

    Raises:
        NotFound: It is not.
    """
    row = batch.store.topics.topic(name)
    if row is None:
        raise NotFound(
            f"there is no topic {name!r:.150}; create it: anew topic create, or PUT /v1/topics/{{topic}}"
        )
    return row


def new_message(batch: Batch, terms: TopicTerms, topic: TopicRow, message: NewMessage) -> MessageRow:
    """Write a message that goes to no subscriber by itself."""
    (key,) = batch.keys_for(1)
    row = _message(key, topic, message, terms, batch.now)
    batch.store.topics.write_messages([row])
    return row


def _message(key: int, topic: TopicRow, message: NewMessage, terms: TopicTerms, now: int) -> MessageRow:
    kept = topic_document(topic.document).retention
    kept_ms = terms.message_kept_ms if kept is None else kept * 1_000
    due_at = now + round(message.delay * 1_000)
    return MessageRow(
        id=key,
        topic=topic.name,
        type=message.type,
        attributes=msgspec.json.encode(message.attributes) if message.attributes else None,
        data=bytes(message.data),
        published_at=now,
        due_at=due_at,
        ends_at=None if message.ttl is None else now + round(message.ttl * 1_000),
        purge_at=due_at + kept_ms,
    )


def _expansion(batch: Batch, message: MessageRow) -> NewJob:
    payload = msgspec.json.encode({"message": f"msg_{batch.ids.write(message.id)}"})
    return NewJob(type=EXPAND, queue=QUEUE, payload=Raw(payload))


def queued(
    batch: Batch, terms: TopicTerms, message: MessageRow, subscriber: SubscriptionRow, policy: DeliveryPolicy
) -> NewJob:
    """Give the job that a subscriber who is a queue gets: its type is the message's."""
    body = body_of(message, policy.request.body, f"msg_{batch.ids.write(message.id)}", terms.public_url)
    return NewJob(
        type=message.type,
        queue=subscriber.endpoint.removeprefix("queue:"),
        payload=_in_one_line(body),
        ready_at=message.due_at if message.due_at > message.published_at else None,
    )


def _in_one_line(payload: bytes) -> Raw:
    """Give JSON as a job's payload: what was published may have line ends, and a stream shows each job in one line."""
    return Raw(payload.translate(None, b"\r\n"))


def _why_not(subscriber: SubscriptionRow, message: MessageRow, filtered: bool) -> str | None:
    """Say why a subscription does not get a message; None: it does."""
    if subscriber.status not in DELIVERED_TO:
        return subscriber.status
    try:
        wants = _wants(subscriber, message) or not filtered
    except CorruptRow as error:
        log.warning("a message is not delivered", extra={"subscription": subscriber.id, "reason": str(error)})
        return "corrupt"
    return None if wants else "filter"


def _wants(subscriber: SubscriptionRow, message: MessageRow) -> bool:
    wanted = subscription_document(subscriber.document).filter
    if wanted is None:
        return True
    attributes = {} if message.attributes is None else _attributes(message.attributes)
    return matches(_filter(msgspec.json.encode(wanted)), message.type, attributes)


@lru_cache(maxsize=4)
def _attributes(stored: bytes) -> dict[str, Any]:
    return stored_as(dict[str, Any], stored, "message")


@lru_cache(maxsize=16_384)
def _filter(document: bytes) -> Filter:
    return filter_of(msgspec.json.decode(document))

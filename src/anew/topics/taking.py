"""Deliveries for a dispatcher: those that are due are taken, in one transaction with the note that their attempts begin.

An attempt that has begun and of which nothing was heard was lost with its dispatcher. Whoever takes its delivery next finds that,
and counts it: the receiver may have seen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.engine.threads import take_for_session
from anew.errors import CorruptRow
from anew.jobs import Change, Failed, Snoozed, State
from anew.jobs.ids import COUNTER_BITS, IdText
from anew.store.protocol import TakenRow
from anew.store.topics import AttemptRow, DeliveryRow, DeliveryStatus, MessageRow, SubscriptionRow
from anew.topics.attempts import Attempt, attempt_row, ended, unanswered
from anew.topics.confirmation import TRIGGER
from anew.topics.counting import Tally
from anew.topics.delivery_policy import DeliveryPolicy
from anew.topics.documents import SubscriptionDocument, subscription_document
from anew.topics.publishing import CHUNK, EXPAND, QUEUE, Order, died, expand, held_ms, queued
from anew.topics.redelivery import TASK, go_on
from anew.topics.registry import set_gates
from anew.topics.terms import TopicTerms, stored_policy

MOST_MADE: Final = 1_000
"""So many deliveries at most are made while others are taken: whoever else writes waits for about 50 ms."""

NEXT_MS: Final = 50
"""After how long a job that makes more is looked at again; until then deliveries that stand behind it are taken."""

_order = msgspec.json.Decoder(Order)


class Assignment(NamedTuple):
    """A delivery to be sent now.

    Attributes:
        delivery, message, subscription, policy: What is sent, to whom, and how.
        token: Of the hold on its job.
        number: Of the attempt, from 1.
        started_at: Epoch ms.
        deadline_at: After which it is tried no more, epoch ms.
    """

    delivery: DeliveryRow
    message: MessageRow
    subscription: SubscriptionRow
    policy: DeliveryPolicy
    token: int
    number: int
    started_at: int
    deadline_at: int


class _Found(NamedTuple):
    """A job that was taken, with what it delivers; None: there is no such thing any more."""

    key: int
    delivery: DeliveryRow
    subscription: SubscriptionRow | None
    message: MessageRow | None
    policy: DeliveryPolicy


def take(batch: Batch, terms: TopicTerms, limit: int) -> list[Assignment]:
    """Take deliveries that are due, up to a number. What cannot be sent any more is ended."""
    taken = take_for_session(batch, [QUEUE], limit)
    found = _found(batch, terms, _orders(batch, terms, taken.rows))
    lost = _lost(batch, [one.delivery for one in found])
    assignments: list[Assignment] = []
    counted: list[tuple[_Found, AttemptRow]] = []
    for one in found:
        _, delivery, subscription, message, policy = one
        if subscription is None or _is_dropped(delivery, subscription_document(subscription.document)):
            _cancel(batch, terms, one)
        elif delivery.id in lost:
            counted.append((one, lost[delivery.id]))
        elif subscription.status != "active" and delivery.trigger != TRIGGER:
            set_gates(batch, [subscription])
            batch.release([one.key], None)
        elif message is None or batch.now > (
            deadline_at := deadline_of(delivery, subscription, message, policy, batch.now)
        ):
            _expire(batch, terms, one)
        elif subscription_document(subscription.document).kind == "queue":
            _enqueue(batch, terms, one, message, subscription)
        else:
            assignments.append(
                Assignment(
                    replace(delivery, job=one.key),
                    message,
                    subscription,
                    policy,
                    taken.token,
                    delivery.attempts + 1,
                    batch.now,
                    deadline_at,
                )
            )
    _count_lost(batch, terms, counted)
    _begin(batch, assignments)
    return assignments


def _orders(batch: Batch, terms: TopicTerms, rows: Sequence[TakenRow]) -> dict[int, int]:
    """Give the deliveries that jobs are about, by the jobs' keys; go on with jobs that make deliveries, as far as a batch goes."""
    orders: dict[int, int] = {}
    made, later = 0, []
    for row in rows:
        if row[2] not in (EXPAND, TASK):
            orders[row[0]] = _delivery_key(batch.ids, row[-1])
        elif made < MOST_MADE:
            made += _go_on(batch, terms, row)
        else:
            later.append(row[0])
    _put_off(batch, later)
    return orders


def _is_dropped(delivery: DeliveryRow, subscription: SubscriptionDocument) -> bool:
    """Report whether its subscription has gone on without what was held; what is sent again since then is meant."""
    return delivery.trigger == "scheduled" and delivery.id >> COUNTER_BITS <= subscription.dropped_until


def _delivery_key(ids: IdText, payload: bytes) -> int:
    try:
        return ids.read(_order.decode(payload).delivery.removeprefix("dlv_"))
    except msgspec.DecodeError:  # somebody has changed it
        return -1


def _go_on(batch: Batch, terms: TopicTerms, row: TakenRow) -> int:
    """Do one more chunk of what is done in chunks, and give its size; its job goes back into line until all is done.

    One that cannot be done, as something that it needs cannot be read, is set aside.
    """
    try:
        payload = msgspec.json.decode(row[-1], type=dict[str, str])
    except msgspec.DecodeError:  # somebody has changed it
        payload = {}
    try:
        if row[2] == TASK:
            size, more = CHUNK, go_on(batch, terms, row[0])
        else:
            size, more = expand(batch, terms, batch.ids.read(payload.get("message", "").removeprefix("msg_")))
    except CorruptRow as error:
        batch.set_aside({row[0]: str(error)})
        return 0
    if more:
        batch.release([row[0]], None)
    else:
        batch.finish([row[0]])
    return size


def _put_off(batch: Batch, keys: Sequence[int]) -> None:
    """Let jobs that make deliveries wait for a moment."""
    if keys:
        soon = Snoozed(ready_at=batch.now + NEXT_MS, reason="others make deliveries", outcome="held")
        batch.settle([batch.decide_outcome(job, soon) for job in batch.in_flight(keys)])


def _refuse(batch: Batch, keys: Sequence[int]) -> None:
    """End jobs that somebody else has put into this queue, or has changed: they deliver nothing."""
    failed = Failed(
        message=f"the queue {QUEUE!r} is for deliveries alone, and this is none",
        error_type="NoDelivery",
        kill=True,
    )
    batch.settle([batch.decide(job, failed) for job in batch.in_flight(keys)])


def _found(batch: Batch, terms: TopicTerms, orders: dict[int, int]) -> list[_Found]:
    """Read what jobs deliver; those that deliver nothing, or what cannot be read, are ended."""
    rows = batch.store.topics
    deliveries = rows.deliveries(list(orders.values()))
    pairs = [(key, deliveries[id_]) for key, id_ in orders.items() if id_ in deliveries]
    if len(pairs) < len(orders):
        _refuse(batch, [key for key, id_ in orders.items() if id_ not in deliveries])
    subscriptions = rows.subscriptions(list({row.subscription for _, row in pairs}), batch.now)
    messages = rows.messages(list({row.message for _, row in pairs}))
    policies = rows.policies(list({row.policy for _, row in pairs}))
    found: list[_Found] = []
    for key, row in pairs:
        subscription = subscriptions.get(row.subscription)
        try:
            policy = stored_policy(policies.get(row.policy, b""))
            if subscription is not None:
                subscription_document(subscription.document)
        except CorruptRow as error:
            _set_aside(batch, terms, key, row, str(error))
        else:
            found.append(_Found(key, row, subscription, messages.get(row.message), policy))
    return found


def _set_aside(batch: Batch, terms: TopicTerms, key: int, row: DeliveryRow, wrong: str) -> None:
    """End a delivery that cannot be made, as what it needs cannot be read."""
    batch.set_aside({key: wrong})
    batch.store.topics.write_deliveries([ended(row, DeliveryStatus.DEAD, batch.now, terms, "corrupt")])
    died(batch, terms, row, None, None, "corrupt")


def _lost(batch: Batch, deliveries: Sequence[DeliveryRow]) -> dict[int, AttemptRow]:
    """Give attempts that have begun and of which nothing was heard, by delivery."""
    begun = batch.store.topics.begun([(row.id, row.attempts + 1) for row in deliveries])
    return {id_: row for id_, row in begun.items() if row.document is None}


def _begin(batch: Batch, assignments: Sequence[Assignment]) -> None:
    if not assignments:
        return
    rows = batch.store.topics
    rows.write_attempts([AttemptRow(one.delivery.id, one.number, batch.now) for one in assignments])
    first = [one.delivery for one in assignments if one.delivery.first_at is None]
    rows.write_deliveries([replace(row, first_at=batch.now) for row in first])


def _count_lost(batch: Batch, terms: TopicTerms, lost: Sequence[tuple[_Found, AttemptRow]]) -> None:
    """Count attempts that were lost; their deliveries go on at once. The health of an endpoint is what it answers: this is none."""
    if not lost:
        return
    tally = Tally()
    jobs = {job.key: job for job in batch.in_flight([one.key for one, _ in lost])}
    changes: list[Change] = []
    written: list[DeliveryRow] = []
    attempts: list[AttemptRow] = []
    dead: list[tuple[DeliveryRow, _Found]] = []
    for one, attempt in lost:
        kill = one.delivery.trigger == "once"
        failed = Failed(
            message="its dispatcher died", error_type="Lost", kill=kill, retry_at=batch.now, limited=True
        )
        change = batch.decide(jobs[one.key], failed)
        changes.append(change)
        row = replace(one.delivery, attempts=attempt.number, cause="lost")
        next_at = change.ready_at
        if change.state is State.DEAD:
            row, next_at = ended(row, DeliveryStatus.DEAD, batch.now, terms, "exhausted"), None
            dead.append((row, one))
        written.append(row)
        url = "" if one.subscription is None else one.subscription.endpoint
        document = Attempt(
            trigger=row.trigger,
            outcome="lost",
            url=url,
            error="lost",
            answer=unanswered(attempt.started_at, batch.now),
            next_at=next_at,
            cause="lost",
        )
        attempts.append(attempt_row(row.id, attempt.number, attempt.started_at, document))
        if one.message is not None:
            tally.add("attempts", one.message.topic, "lost", "error")
    tally.write(batch)
    batch.settle(changes)
    batch.store.topics.write_deliveries(written)
    batch.store.topics.write_attempts(attempts)
    for row, one in dead:
        died(batch, terms, row, one.message, one.subscription, "exhausted")


def _cancel(batch: Batch, terms: TopicTerms, one: _Found) -> None:
    """Its subscription is gone, or has gone on without it."""
    batch.finish([one.key])
    batch.store.topics.write_deliveries([ended(one.delivery, DeliveryStatus.CANCELLED, batch.now, terms)])


def _enqueue(
    batch: Batch, terms: TopicTerms, one: _Found, message: MessageRow, subscription: SubscriptionRow
) -> None:
    """Its subscriber is a queue, which was paused, or gets the message again: it gets its job now."""
    batch.finish([one.key])
    batch.insert([queued(batch, terms, message, subscription, one.policy)])
    batch.store.topics.write_deliveries([ended(one.delivery, DeliveryStatus.DELIVERED, batch.now, terms)])


def _expire(batch: Batch, terms: TopicTerms, one: _Found) -> None:
    """Its time is over: it is not tried any more."""
    reason = "expired"
    failed = Failed(message=f"not tried any more: {reason}", error_type="Delivery", kill=True)
    batch.settle([batch.decide(job, failed) for job in batch.in_flight([one.key])])
    batch.store.topics.write_deliveries([ended(one.delivery, DeliveryStatus.DEAD, batch.now, terms, reason)])
    died(batch, terms, one.delivery, one.message, one.subscription, reason)


def deadline_of(
    row: DeliveryRow, subscription: SubscriptionRow, message: MessageRow, policy: DeliveryPolicy, now: int
) -> int:
    """Give until when a delivery is tried, epoch ms: what its policy needs at most, and the time for which it was held."""
    retry = policy.retry
    span = retry.max_total_ms * (1 + retry.jitter) + (len(retry.delays_ms) + 1) * policy.request.timeout_ms
    held = held_ms(subscription, now) - row.held_ms
    at = (row.first_at or now) + int(span) + held
    return at if message.ends_at is None else min(at, message.ends_at + held)

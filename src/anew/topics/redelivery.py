"""Deliveries sent again by hand: one, those that match, or all that an endpoint has missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.engine.ops import Verb
from anew.errors import Conflict, CorruptRow, NotFound, PayloadExpired
from anew.jobs import NewJob, State
from anew.jobs.ids import COUNTER_BITS, MAX_KEY
from anew.jobs.patch import Patch, patched
from anew.store.topics import DeliveryRow, DeliveryStatus, MessageRow, SubscriptionRow, TaskRow
from anew.topics.attempts import UNREADABLE, ended, ended_status
from anew.topics.documents import CONFIRMATION, OWN, NewMessage, stored_as, topic_document
from anew.topics.publishing import (
    QUEUE,
    TEST,
    deliver,
    delivery_job,
    held_ms,
    known_topic,
    new_message,
)
from anew.topics.registry import known_subscription, set_gates
from anew.topics.terms import Holding, TopicTerms, holding_for
from anew.units import DAY_MS

TASK: Final = "anew.redeliver"
CHUNK: Final = 100
"""Deliveries that one transaction of a task looks at."""

COUNTED: Final = 1_000
"""Deliveries that one transaction looks at to count some: what others store waits for no more."""

KEPT_MS: Final = 7 * DAY_MS
LONGEST_REPLAY_MS: Final = 14 * DAY_MS

Mode = Literal["full", "once"]
Include = Literal["failed", "missed", "all"]


class Selection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which deliveries are meant; all that is said must hold.

    Attributes:
        status, dead_reason, topic: As they are shown.
        subscription, message: Ids.
        since, until: When the message was published, epoch ms; `until` is left out.
    """

    status: str | None = None
    dead_reason: str | None = None
    topic: str | None = None
    subscription: int | None = None
    message: int | None = None
    since: int = 0
    until: int | None = None


class TaskDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task does.

    Attributes:
        selection: On which deliveries; all of one subscription for a replay.
        include: None: those that match are sent again. Otherwise it is a replay.
        mode: How each is sent again.
    """

    selection: Selection
    include: Include | None = None
    mode: Mode = "full"


# -- one


def redeliver(terms: TopicTerms, id_: int, mode: Mode = "full", *, force: bool = False) -> Verb:
    """Send a delivery again, or now if it waits.

    Args:
        terms: What holds.
        id_: Of the delivery.
        mode: ``full``: its policy begins again. ``once``: one attempt, whatever comes of it.
        force: Also if it was delivered.

    Returns:
        A verb that gives the delivery; it raises NotFound, Conflict, CorruptRow, or PayloadExpired.
    """
    return lambda batch: redeliver_in(batch, terms, known_delivery(batch, id_), mode, force=force)


def redeliver_in(
    batch: Batch, terms: TopicTerms, row: DeliveryRow, mode: Mode, *, force: bool = False, trigger: str = ""
) -> DeliveryRow:
    """Send a delivery again, in an open transaction; see `redeliver`."""
    subscription = batch.store.topics.subscriptions([row.subscription], batch.now).get(row.subscription)
    if subscription is None or subscription.status not in ("active", "paused"):
        status = "gone" if subscription is None else subscription.status
        raise Conflict(f"the subscription is {status}; deliveries to it cannot be sent again")
    jobs = {job.key: job for job in batch.store.load([row.job])}
    job = jobs.get(row.job)
    if row.status == DeliveryStatus.LIVE and job is not None and job.state is State.IN_FLIGHT:
        raise Conflict("the delivery is being sent just now")
    if row.status == DeliveryStatus.LIVE and job is not None and job.state is not State.DEAD:
        batch.rewrite([(job, patched(job, Patch(ready_at=batch.now), batch.now))])
        return row
    if row.status == DeliveryStatus.DELIVERED and not force:
        raise Conflict("it was delivered; send force to have it delivered once more")
    message = batch.store.topics.messages([row.message]).get(row.message)
    if message is None:
        raise PayloadExpired("its message is kept no longer, and cannot be sent again")
    if message.type == CONFIRMATION:
        raise Conflict("it asked for confirmation; resend-confirmation asks again")
    topic = known_topic(batch, subscription.topic)
    held = holding_for(terms.policy, topic.document, subscription.document)
    if job is not None and job.queue == QUEUE:  # the job that a queue has got is its own
        batch.delete([job.key])
    return _begun_again(
        batch, terms, row, message, subscription, held, trigger or ("once" if mode == "once" else "manual")
    )


def _begun_again(
    batch: Batch,
    terms: TopicTerms,
    row: DeliveryRow,
    message: MessageRow,
    subscription: SubscriptionRow,
    held: Holding,
    trigger: str,
) -> DeliveryRow:
    (key,) = batch.keys_for(1)
    row = replace(
        row,
        job=key,
        policy=batch.store.topics.policy_number(held.document),
        status=DeliveryStatus.LIVE,
        dead_reason=None,
        trigger=trigger,
        first_at=None,
        cause=None,
        held_ms=held_ms(subscription, batch.now),
        purge_at=None,
    )
    batch.insert([delivery_job(batch, terms, row, message, subscription, held)], keys=[key])
    set_gates(batch, [subscription])
    batch.store.topics.write_deliveries([row])
    return row


def try_out(terms: TopicTerms, subscription: int, data: Raw) -> Verb:
    """Send a message of type ``anew.test`` to one subscription, once.

    Returns:
        A verb that gives the delivery; it raises NotFound, or Conflict where the subscription is held.
    """

    def verb(batch: Batch) -> DeliveryRow:
        row = known_subscription(batch, subscription)
        if row.status != "active":
            raise Conflict(f"the subscription is {row.status}; nothing is sent to it")
        topic = known_topic(batch, row.topic)
        message = new_message(batch, terms, topic, NewMessage(type=TEST, data=data))
        (key,) = deliver(batch, terms, topic, message, [row], trigger="once", filtered=False)
        return known_delivery(batch, key)

    return verb


def cancel(terms: TopicTerms, id_: int) -> Verb:
    """Call a delivery off that has not ended; the verb gives it, or raises NotFound or Conflict."""

    def verb(batch: Batch) -> DeliveryRow:
        row = known_delivery(batch, id_)
        if row.status != DeliveryStatus.LIVE:
            raise _not(row, f"the delivery is {ended_status(row.status)} already")
        batch.delete([row.job])
        row = ended(row, DeliveryStatus.CANCELLED, batch.now, terms)
        batch.store.topics.write_deliveries([row])
        return row

    return verb


def remove(id_: int) -> Verb:
    """Remove a dead delivery with its attempts; the verb raises NotFound or Conflict."""

    def verb(batch: Batch) -> None:
        row = known_delivery(batch, id_)
        if row.status != DeliveryStatus.DEAD:
            raise _not(row, "only dead deliveries can be removed; cancel it first")
        batch.delete([row.job])
        batch.store.topics.drop_delivery(id_)

    return verb


def _not(row: DeliveryRow, why: str) -> Conflict | CorruptRow:
    """Say why something cannot be done with a delivery: as a rule `why`."""
    if ended_status(row.status) == UNREADABLE and row.status != DeliveryStatus.LIVE:
        return CorruptRow("the stored status of this delivery cannot be read; send it again")
    return Conflict(why)


def known_delivery(batch: Batch, id_: int) -> DeliveryRow:
    """Read a delivery that is there.

    Raises:
        NotFound: It is not.
    """
    row = batch.store.topics.deliveries([id_]).get(id_)
    if row is None:
        raise NotFound("there is no such delivery")
    return row


# -- many


def start(terms: TopicTerms, document: TaskDocument) -> Verb:
    """Begin a task; the verb gives it, or raises NotFound or Conflict."""

    def verb(batch: Batch) -> TaskRow:
        chosen = document.selection
        if chosen.subscription is not None:
            row = known_subscription(batch, chosen.subscription)
            if row.status not in ("active", "paused"):
                raise Conflict(f"the subscription is {row.status}; enable it first")
        (key,) = batch.keys_for(1)
        position = (max(chosen.since, 0) << COUNTER_BITS) - 1
        task = TaskRow(key, msgspec.json.encode(document), "running", position, 0, batch.now + KEPT_MS)
        batch.store.topics.write_task(task)
        batch.insert([NewJob(type=TASK, queue=QUEUE, payload=Raw(b'{"task":"%d"}' % key))], keys=[key])
        return task

    return verb


def stop(id_: int) -> Verb:
    """Stop a task; what it has done stays. The verb gives it, or raises NotFound."""

    def verb(batch: Batch) -> TaskRow:
        row = known_task(batch, id_)
        if row.status == "running":
            row = replace(row, status="cancelled")
            batch.store.topics.write_task(row)
        return row

    return verb


def known_task(batch: Batch, id_: int) -> TaskRow:
    """Read a task that is there.

    Raises:
        NotFound: It is not.
    """
    row = batch.store.topics.task(id_)
    if row is None:
        raise NotFound("there is no such task; they are kept for a week")
    return row


def count(
    batch: Batch, selection: Selection, after: int | None = None, limit: int = COUNTED
) -> tuple[int, int | None]:
    """Count those of the next deliveries that match.

    Args:
        batch: Only read.
        selection: Which are meant.
        after: From behind this one on; None: from the first one.
        limit: So many are looked at.

    Returns:
        The number, and the last one that was looked at; None: there are no more.
    """
    after = (selection.since << COUNTER_BITS) - 1 if after is None else after
    rows = _next_chunk(batch, selection, after, limit)
    return len(matching(batch, selection, rows)), rows[-1].id if len(rows) == limit else None


def go_on(batch: Batch, terms: TopicTerms, id_: int) -> bool:
    """Do one more chunk of a task; report whether there is more. Raises CorruptRow, and has written nothing."""
    row = batch.store.topics.task(id_)
    if row is None or row.status != "running":
        return False
    document = stored_as(TaskDocument, row.document, "task")
    if document.include in ("missed", "all") and document.selection.subscription is not None:
        position, done, more = _replay(batch, terms, document, row.position)
    else:
        position, done, more = _send_again(batch, terms, document, row.position)
    status = "running" if more else "done"
    batch.store.topics.write_task(replace(row, status=status, position=position, done=row.done + done))
    return more


def _send_again(
    batch: Batch, terms: TopicTerms, document: TaskDocument, position: int
) -> tuple[int, int, bool]:
    """Send those of the next deliveries again that match."""
    chosen = document.selection
    if document.include == "failed":
        chosen = replace(chosen, status="dead")
    rows = _next_chunk(batch, chosen, position, CHUNK)
    done = sum(_sent_again(batch, terms, row, document) for row in matching(batch, chosen, rows))
    return rows[-1].id if rows else position, done, len(rows) == CHUNK


def _sent_again(batch: Batch, terms: TopicTerms, row: DeliveryRow, document: TaskDocument) -> bool:
    """Send one again, if it can be; report whether."""
    trigger = "" if document.include is None else "replay"
    try:
        redeliver_in(batch, terms, row, document.mode, force=True, trigger=trigger)
    except Conflict:
        return False
    return True


def _replay(batch: Batch, terms: TopicTerms, document: TaskDocument, position: int) -> tuple[int, int, bool]:
    """Have a subscription get those of the next messages that it has missed; or all of them, but for those under way."""
    chosen = document.selection
    id_ = chosen.subscription or -1
    subscription = batch.store.topics.subscriptions([id_], batch.now).get(id_)
    if subscription is None:
        return position, 0, False
    topic = known_topic(batch, subscription.topic)
    topic_document(topic.document)  # or each message would be passed over
    last = MAX_KEY if chosen.until is None else (chosen.until << COUNTER_BITS) - 1
    messages = batch.store.topics.messages_of(topic.name, position, last, CHUNK)
    done = 0
    for message in messages:
        if message.type.startswith(OWN):  # it was for another one, whose confirmation it may be
            continue
        there = batch.store.topics.delivery_of(message.id, subscription.id)
        if there is None:
            done += len(deliver(batch, terms, topic, message, [subscription], trigger="replay"))
        elif document.include == "all" and there.status in (DeliveryStatus.DEAD, DeliveryStatus.DELIVERED):
            done += _sent_again(batch, terms, there, document)
    return messages[-1].id if messages else position, done, len(messages) == CHUNK


def _next_chunk(batch: Batch, chosen: Selection, after: int, limit: int) -> Sequence[DeliveryRow]:
    rows = batch.store.topics
    return rows.deliveries_of(chosen.subscription, after, MAX_KEY, limit, dead=chosen.status == "dead")


def matching(batch: Batch, chosen: Selection, rows: Sequence[DeliveryRow]) -> list[DeliveryRow]:
    """Give those of some deliveries that are meant, but for their status where only their jobs know it."""
    found = [row for row in rows if _is_meant(chosen, row)]
    if chosen.topic is None:
        return found
    subscriptions = batch.store.topics.subscriptions(list({row.subscription for row in found}), batch.now)
    on_topic = {one.id for one in subscriptions.values() if one.topic == chosen.topic}
    return [row for row in found if row.subscription in on_topic]


def _is_meant(chosen: Selection, row: DeliveryRow) -> bool:
    """Report whether a delivery is meant, as far as its own row tells."""
    if chosen.status == "dead" and row.status != DeliveryStatus.DEAD:
        return False
    if chosen.status == "delivered" and row.status != DeliveryStatus.DELIVERED:
        return False
    if chosen.dead_reason is not None and row.dead_reason != chosen.dead_reason:
        return False
    if chosen.message is not None and row.message != chosen.message:
        return False
    published = row.message >> COUNTER_BITS
    return chosen.since <= published < (MAX_KEY if chosen.until is None else chosen.until)

"""Topics and subscriptions: created, changed, confirmed, held and removed, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.engine.ops import Verb
from anew.errors import Conflict, InvalidInput, NotFound
from anew.jobs.key_limits import OPEN
from anew.store.topics import SubscriptionRow, TopicRow
from anew.topics.confirmation import ask, subscription_of
from anew.topics.documents import (
    EVENTS,
    SubscriptionDocument,
    TopicDocument,
    check_topic_name,
    subscription_document,
    topic_document,
)
from anew.topics.health import enabled_again
from anew.topics.keys import KeyRing, new_ring, opened, rotated
from anew.topics.publishing import gate_of, health_of, known_topic, publish_event_of
from anew.topics.signing import SigningKind
from anew.topics.terms import TopicTerms, limit_name

LOCKED: Final = "its topic locks delivery policies (lock_delivery_policy); change the topic's"


class NewSubscription(Struct, frozen=True, kw_only=True):
    """A subscription as it is asked for, checked.

    Attributes:
        endpoint: A URL, or ``queue:`` and a queue's name.
        document: What its owner says.
        is_asked: It names a handshake: where confirmation is optional, its endpoint is asked.
        signing: What its deliveries are signed with.
        secret: A secret of its owner's; None: a random one.
        ttl: Seconds after which it ends; None: never.
    """

    endpoint: str
    document: SubscriptionDocument
    is_asked: bool = False
    signing: SigningKind = "hmac"
    secret: str | None = None
    ttl: int | None = None

    def __repr__(self) -> str:
        return f"NewSubscription({self.endpoint!r})"  # never the secret


class SubscriptionPatch(Struct, frozen=True, kw_only=True):
    """Changes of a subscription, checked.

    Attributes:
        members: Of its document, by name.
        kind, endpoint: Another endpoint, which must be of the same kind; None: it stays.
        ttl: Seconds from now after which it ends, or None for never; UNSET: that stays.
    """

    members: dict[str, Any]
    kind: str | None = None
    endpoint: str | None = None
    ttl: int | UnsetType | None = UNSET


class Subscribed(NamedTuple):
    """What a request to subscribe came to.

    Attributes:
        row: The subscription.
        ring: Its keys, where it is new.
    """

    row: SubscriptionRow
    ring: KeyRing | None


# -- topics


def put_topic(name: str, document: TopicDocument) -> Verb:
    """Create a topic, or have it be as said.

    Returns:
        A verb that gives the row, and whether it is new.
    """
    check_topic_name(name)

    def verb(batch: Batch) -> tuple[TopicRow, bool]:
        before = batch.store.topics.topic(name)
        created_at = batch.now if before is None else before.created_at
        row = TopicRow(name, msgspec.json.encode(document), created_at, batch.now)
        batch.store.topics.write_topic(row)
        return row, before is None

    return verb


def change_topic(name: str, change: Callable[[TopicDocument], TopicDocument]) -> Verb:
    """Change a topic; the verb gives the row."""

    def verb(batch: Batch) -> TopicRow:
        before = known_topic(batch, name)
        document = change(topic_document(before.document))
        row = replace(before, document=msgspec.json.encode(document), changed_at=batch.now)
        batch.store.topics.write_topic(row)
        return row

    return verb


def drop_topic(name: str, *, force: bool) -> Verb:
    """Remove a topic; the verb raises Conflict where it has subscriptions, unless they are to go with it."""

    def verb(batch: Batch) -> None:
        known_topic(batch, name)
        rows = batch.store.topics
        if not force and rows.count_subscribers(name, 1, batch.now):
            raise Conflict(f"topic {name!r} has subscriptions; remove them, or send ?force=true")
        while subscribers := rows.subscribers(name, -1, 100, 0):
            drop(batch, subscribers)
        rows.drop_topic(name)

    return verb


# -- subscriptions


def subscribe(terms: TopicTerms, topic: str, new: NewSubscription, chance: Callable[[int], bytes]) -> Verb:
    """Subscribe an endpoint to a topic.

    Args:
        terms: What holds.
        topic: Its name.
        new: What is asked for.
        chance: Gives random bytes.

    Returns:
        A verb that gives `Subscribed`. For an endpoint that is subscribed and not confirmed it asks for confirmation again; it
        raises Conflict for one that is confirmed, or where the topic has too many, or locks policies; and NotFound.
    """

    def verb(batch: Batch) -> Subscribed:
        rows = batch.store.topics
        if topic == EVENTS and rows.topic(EVENTS) is None:
            rows.write_topic(TopicRow(EVENTS, b"{}", batch.now, batch.now))
        above = known_topic(batch, topic)
        if new.document.delivery_policy is not None and topic_document(above.document).lock_delivery_policy:
            raise Conflict(f"delivery_policy: {LOCKED}")
        there = _subscription_at(batch, topic, new.endpoint)
        if there is not None:
            if there.status != "unconfirmed":
                raise Conflict(f"this endpoint is subscribed to {topic!r} already, as {id_of(batch, there)}")
            return Subscribed(_asked(batch, terms, above, there, chance), None)
        if rows.count_subscribers(topic, terms.subscriptions, batch.now) >= terms.subscriptions:
            raise Conflict(f"a topic has at most {terms.subscriptions} subscriptions, and {topic!r} has them")
        (key,) = batch.keys_for(1)
        ring = new_ring(new.signing, new.secret, chance)
        row = SubscriptionRow(
            id=key,
            topic=topic,
            endpoint=new.endpoint,
            status="active",
            document=msgspec.json.encode(new.document),
            keys=terms.box.seal(msgspec.json.encode(ring), key),
            health=b"",
            created_at=batch.now,
            changed_at=batch.now,
            ends_at=None if new.ttl is None else batch.now + new.ttl * 1_000,
        )
        if new.document.kind == "webhook" and _asks(terms, new.is_asked):
            row = _asked(batch, terms, above, replace(row, status="unconfirmed"), chance)
        else:
            rows.write_subscriptions([row])
        batch.store.remember()  # its id was taken from the keys of jobs, and no job has it
        return Subscribed(row, ring)

    return verb


def _subscription_at(batch: Batch, topic: str, endpoint: str) -> SubscriptionRow | None:
    """Give the subscription of an endpoint; one whose time is over is removed, since an endpoint has one of a topic."""
    row = batch.store.topics.subscription_at(topic, endpoint)
    if row is None or row.ends_at is None or row.ends_at > batch.now:
        return row
    drop(batch, [row])
    return None


def _asks(terms: TopicTerms, is_asked: bool) -> bool:
    """Report whether an endpoint is asked first, by whether its subscription wants that."""
    return terms.confirmation == "required" or (terms.confirmation == "optional" and is_asked)


def _asked(
    batch: Batch, terms: TopicTerms, topic: TopicRow, row: SubscriptionRow, chance: Callable[[int], bytes]
) -> SubscriptionRow:
    """Have an endpoint asked whether it wants what it would get."""
    topic_document(topic.document)  # before anything is written
    document = replace(subscription_document(row.document), nonce=chance(16).hex(), asked_at=batch.now)
    row = replace(row, document=msgspec.json.encode(document))
    batch.store.topics.write_subscriptions([row])
    ask(batch, terms, topic, row)
    return row


def change_subscription(
    terms: TopicTerms, id_: int, patch: SubscriptionPatch, chance: Callable[[int], bytes]
) -> Verb:
    """Change a subscription; another URL is asked for confirmation.

    Returns:
        A verb that gives the row; it raises NotFound, InvalidInput for an endpoint of another kind, or Conflict where its topic
        locks policies or another subscription has the endpoint.
    """

    def verb(batch: Batch) -> SubscriptionRow:
        before = known_subscription(batch, id_)
        above = known_topic(batch, before.topic)
        row = _patched(before, patch, batch.now)
        own = subscription_document(row.document).delivery_policy
        if (
            own is not None
            and own != subscription_document(before.document).delivery_policy
            and topic_document(above.document).lock_delivery_policy
        ):
            raise Conflict(f"delivery_policy: {LOCKED}")
        if row.endpoint == before.endpoint:
            batch.store.topics.write_subscriptions([row])
            return row
        if _subscription_at(batch, row.topic, row.endpoint) is not None:
            raise Conflict(f"another subscription of {row.topic!r} has this endpoint")
        document = subscription_document(row.document)
        if document.kind == "webhook" and _asks(terms, document.asked_at > 0):
            row = _asked(batch, terms, above, held(replace(row, status="unconfirmed"), batch.now), chance)
        else:
            batch.store.topics.write_subscriptions([row])
        set_gates(batch, [row])
        return row

    return verb


def _patched(row: SubscriptionRow, patch: SubscriptionPatch, now: int) -> SubscriptionRow:
    document = subscription_document(row.document)
    if patch.kind not in (None, document.kind):
        at = "/endpoint/type"
        raise InvalidInput(f"{at}: expected {document.kind}: a subscription keeps its kind", field=at)
    document = replace(document, **patch.members)
    if patch.endpoint not in (None, row.endpoint):
        # How the one before has done, and what it has granted, says nothing about this one.
        document = replace(document, allowed_rate=None)
        row = replace(row, endpoint=patch.endpoint, health=b"")
    row = replace(row, document=msgspec.json.encode(document), changed_at=now)
    if patch.ttl is not UNSET:
        row = replace(row, ends_at=None if patch.ttl is None else now + patch.ttl * 1_000)
    return row


def drop_subscription(id_: int) -> Verb:
    """Remove a subscription; its deliveries that wait are cancelled when they come to be sent, at once if they are held."""

    def verb(batch: Batch) -> None:
        drop(batch, [known_subscription(batch, id_)])

    return verb


def drop(batch: Batch, rows: Sequence[SubscriptionRow]) -> None:
    """Remove subscriptions; their deliveries that wait come into line, where each is found to have nobody to go to."""
    for row in rows:
        batch.store.topics.drop_subscription(row.id)
    if rows:
        batch.hooks.blocking.gate({limit_name(row.id): OPEN for row in rows})


def any_subscription(batch: Batch) -> bool:
    """Report whether anybody has subscribed to anything; for `Call`."""
    return batch.store.topics.any_subscription()


def known_subscription(batch: Batch, id_: int) -> SubscriptionRow:
    """Read a subscription that is there.

    Raises:
        NotFound: It is not.
    """
    row = batch.store.topics.subscriptions([id_], batch.now).get(id_)
    if row is None:
        raise NotFound("there is no such subscription")
    return row


def id_of(batch: Batch, row: SubscriptionRow) -> str:
    """Give the public id of a subscription."""
    return f"sub_{batch.ids.write(row.id)}"


# -- confirmed, held, let go on


def confirmed(
    batch: Batch, terms: TopicTerms, row: SubscriptionRow, rate: float | None = None
) -> SubscriptionRow:
    """Have a subscription be active: its endpoint, or its owner, has said so. Written."""
    document = replace(subscription_document(row.document), nonce="", allowed_rate=rate)
    row = replace(let_go(row, batch.now), status="active", document=msgspec.json.encode(document))
    batch.store.topics.write_subscriptions([row])
    set_gates(batch, [row])
    publish_event_of(batch, terms, row, "subscription.confirmed")
    return row


def confirm(terms: TopicTerms, id_: int) -> Verb:
    """Confirm a subscription by its owner's word; the verb gives the row."""

    return lambda batch: confirmed(batch, terms, _unconfirmed(batch, id_))


def confirm_by(terms: TopicTerms, token: str, id_: int | None = None) -> Verb:
    """Confirm a subscription by its token; the verb gives the row, or raises Expired.

    Args:
        terms: What holds for topics.
        token: What its endpoint was sent.
        id_: The subscription; the verb raises NotFound where there is none, InvalidInput where the token is of another one.
            None: the token says which.
    """

    def verb(batch: Batch) -> SubscriptionRow:
        if id_ is not None:
            known_subscription(batch, id_)
        row = subscription_of(batch, token)
        if id_ not in (None, row.id):
            raise InvalidInput("/token: this token is another subscription's", field="/token")
        return confirmed(batch, terms, row)

    return verb


def resend(terms: TopicTerms, id_: int, chance: Callable[[int], bytes]) -> Verb:
    """Ask an endpoint again whether it wants what it would get; the verb gives the row."""

    def verb(batch: Batch) -> SubscriptionRow:
        row = _unconfirmed(batch, id_)
        return _asked(batch, terms, known_topic(batch, row.topic), row, chance)

    return verb


def _unconfirmed(batch: Batch, id_: int) -> SubscriptionRow:
    row = known_subscription(batch, id_)
    if row.status != "unconfirmed":
        raise Conflict(f"the subscription is {row.status}, and waits for no confirmation")
    return row


TURNS: dict[str, tuple[tuple[str, ...], str]] = {
    "pause": (("active",), "paused"),
    "resume": (("paused",), "active"),
    "disable": (("active", "paused"), "disabled"),
    "enable": (("disabled",), "active"),
}
"""By what is done: in which statuses, and the one that it leads to."""


def turn(
    terms: TopicTerms,
    id_: int,
    move: Literal["pause", "resume", "disable", "enable"],
    reason: str = "",
    *,
    release: bool = True,
) -> Verb:
    """Hold a subscription's deliveries, or let them go on, oldest first; the verb gives the row, or raises Conflict.

    Args:
        terms: What holds for topics.
        id_: The subscription.
        move: What is done.
        reason: Shown with the subscription.
        release: Whether what was held is sent when it goes on; if not, it is cancelled.
    """
    sources, target = TURNS[move]

    def verb(batch: Batch) -> SubscriptionRow:
        row = known_subscription(batch, id_)
        if row.status == target:
            return row
        if row.status not in sources:
            raise Conflict(f"cannot {move} a subscription that is {row.status}")
        if target == "active":
            row = let_go(replace(row, status=target), batch.now)
            if move == "enable":
                row = replace(row, health=msgspec.json.encode(enabled_again(health_of(row.health))))
        else:
            row = held(replace(row, status=target), batch.now)
        document = replace(subscription_document(row.document), reason=reason)
        if target == "active" and not release:
            document = replace(document, dropped_until=batch.now)
        row = replace(row, document=msgspec.json.encode(document), changed_at=batch.now)
        batch.store.topics.write_subscriptions([row])
        set_gates(batch, [row])
        if move in ("disable", "enable"):
            publish_event_of(batch, terms, row, f"subscription.{target if move == 'disable' else 'enabled'}")
        return row

    return verb


def disabled(row: SubscriptionRow, reason: str, now: int) -> SubscriptionRow:
    """Give a subscription as it is once it is disabled."""
    document = replace(subscription_document(row.document), reason=reason)
    return held(replace(row, status="disabled", document=msgspec.json.encode(document)), now)


def held(row: SubscriptionRow, now: int) -> SubscriptionRow:
    """Give a subscription whose deliveries are held from now on."""
    return row if row.held_at is not None else replace(row, held_at=now)


def let_go(row: SubscriptionRow, now: int) -> SubscriptionRow:
    """Give a subscription whose deliveries are held no longer."""
    if row.held_at is None:
        return row
    return replace(row, held_at=None, held_ms=row.held_ms + max(now - row.held_at, 0))


def set_gates(batch: Batch, rows: Iterable[SubscriptionRow]) -> None:
    """Open or close the gates of subscriptions for their present status and health."""
    batch.hooks.blocking.gate({limit_name(row.id): gate_of(row, batch.now) for row in rows})


# -- secrets


def rotate(
    terms: TopicTerms, id_: int, secret: str | None, overlap_ms: int, chance: Callable[[int], bytes]
) -> Verb:
    """Give a subscription a new key; the old ones sign beside it for a time. The verb gives the ring."""

    def verb(batch: Batch) -> KeyRing:
        row = known_subscription(batch, id_)
        ring = rotated(ring_of(terms, row), secret, overlap_ms, batch.now, chance)
        keys = terms.box.seal(msgspec.json.encode(ring), row.id)
        batch.store.topics.write_subscriptions([replace(row, keys=keys, changed_at=batch.now)])
        return ring

    return verb


def ring_of(terms: TopicTerms, row: SubscriptionRow) -> KeyRing:
    """Read a subscription's keys."""
    return opened(terms.box, row.keys, row.id)

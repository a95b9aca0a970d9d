"""What a store keeps of topics: rows that it maps and does not look into, and the verbs on them.

All verbs run inside the open transaction. Documents are JSON of `anew.topics`; ids are keys as jobs have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

from msgspec import Struct


class TopicRow(Struct, frozen=True, gc=False):
    """A topic."""

    name: str
    document: bytes
    created_at: int
    changed_at: int


class SubscriptionRow(Struct, frozen=True, gc=False):
    """A subscription.

    Attributes:
        id, topic: Its own key, and its topic's name.
        endpoint: A URL, or ``queue:`` and a queue's name; one subscription of a topic has it.
        status: ``unconfirmed``, ``active``, ``paused`` or ``disabled``.
        document: What its owner has said.
        keys: What its deliveries are signed with, encrypted.
        health: How its endpoint has done.
        ends_at: Its time is over then, epoch ms, and it is removed some time later; None: never.
        held_at: Since when its deliveries are held, epoch ms; None: they are not.
        held_ms: How long they were held before.
    """

    id: int
    topic: str
    endpoint: str
    status: str
    document: bytes
    keys: bytes
    health: bytes
    created_at: int
    changed_at: int
    ends_at: int | None = None
    held_at: int | None = None
    held_ms: int = 0


class MessageRow(Struct, frozen=True, gc=False):
    """What was published.

    Attributes:
        attributes: A JSON object; None for none.
        data: JSON, the bytes that came.
        due_at: It is delivered no earlier, epoch ms.
        ends_at: And no later; None for no bound but the policy's.
        purge_at: Until when it is kept.
        expanded: The last subscription that has its delivery, while they are made; None: all have.
    """

    id: int
    topic: str
    type: str
    attributes: bytes | None
    data: bytes
    published_at: int
    due_at: int
    ends_at: int | None
    purge_at: int
    expanded: int | None = None


class DeliveryStatus(IntEnum):
    """How far a delivery is, as stored. LIVE: its job says it."""

    LIVE = 0
    DELIVERED = 1
    DEAD = 2
    CANCELLED = 3


class DeliveryRow(Struct, frozen=True, gc=False):
    """A message on its way to a subscription.

    Attributes:
        job: The engine's job that delivers it.
        policy: Number of the policy that holds for it.
        status: A `DeliveryStatus`.
        dead_reason: Why it is dead, a word of the specification.
        trigger: What has made it: ``scheduled``, ``manual``, ``once`` or ``replay``.
        attempts: That have ended.
        first_at: When the first of them began since the policy did, epoch ms.
        cause: Why it waits for its next attempt: ``policy``, ``retry_after``, ``overload`` or ``deferral``.
        held_ms: How long its subscription had been held when it was made.
        purge_at: Until when it is kept; None while it lives.
    """

    id: int
    message: int
    subscription: int
    job: int
    policy: int
    status: int = DeliveryStatus.LIVE
    dead_reason: str | None = None
    trigger: str = "scheduled"
    attempts: int = 0
    first_at: int | None = None
    cause: str | None = None
    held_ms: int = 0
    purge_at: int | None = None


class AttemptRow(Struct, frozen=True, gc=False):
    """One HTTP exchange of a delivery.

    Attributes:
        document: What came of it; None: nothing was heard of it yet.
    """

    delivery: int
    number: int
    started_at: int
    document: bytes | None = None


class TaskRow(Struct, frozen=True, gc=False):
    """Work on many deliveries, done a chunk at a time.

    Attributes:
        document: What is to be done.
        status: ``running``, ``done`` or ``cancelled``.
        position: The last delivery or message that was looked at.
        done: How many deliveries were made or changed.
        purge_at: Until when it is kept.
    """

    id: int
    document: bytes
    status: str
    position: int
    done: int
    purge_at: int


class TopicFigures(Struct, frozen=True, gc=False):
    """Figures of topics, for somebody who watches.

    Attributes:
        counts: By counter and label.
        subscriptions: Their number by status.
        unwell: The health of those whose endpoints have failed of late.
        due_since: Since when the first delivery in line may be sent, epoch ms; None: none may.
        blocked_since: Of the first held-up delivery of each subscription the oldest one's key; None: none is held up.
    """

    counts: dict[tuple[str, str], int]
    subscriptions: dict[str, int]
    unwell: list[bytes]
    blocked_since: int | None
    due_since: int | None = None


class TopicRows(Protocol):
    """The rows of topics."""

    def topic(self, name: str) -> TopicRow | None:
        """Read a topic."""

    def topics(self, after: str, limit: int) -> list[TopicRow]:
        """List topics by name, from behind one on."""

    def write_topic(self, row: TopicRow) -> None:
        """Write a topic, a new one or another."""

    def drop_topic(self, name: str) -> None:
        """Remove a topic."""

    def subscription_at(self, topic: str, endpoint: str) -> SubscriptionRow | None:
        """Read the subscription of an endpoint."""

    def subscriptions(self, ids: Sequence[int], now: int) -> dict[int, SubscriptionRow]:
        """Read subscriptions; unknown ones, and those whose time is over, are left out."""

    def subscribers(self, topic: str, after: int, limit: int, now: int) -> list[SubscriptionRow]:
        """List subscriptions of a topic by id, from behind one on, without those whose time is over; at 0 it is of none."""

    def any_subscription(self) -> bool:
        """Report whether anybody has subscribed to anything."""

    def count_subscribers(self, topic: str, most: int, now: int) -> int:
        """Count them, up to a number."""

    def ending_subscriptions(self, now: int, limit: int) -> list[SubscriptionRow]:
        """List subscriptions whose time is over."""

    def write_subscriptions(self, rows: Sequence[SubscriptionRow]) -> None:
        """Write subscriptions, new ones and others."""

    def drop_subscription(self, id_: int) -> None:
        """Remove a subscription; its deliveries stay."""

    def publication(self, topic: str, key: str) -> tuple[bytes, bytes] | None:
        """Read what was published with a key: digest, answer."""

    def write_publication(self, topic: str, key: str, digest: bytes, answer: bytes, purge_at: int) -> None:
        """Write it."""

    def messages(self, ids: Sequence[int]) -> dict[int, MessageRow]:
        """Read messages; unknown ones are left out."""

    def messages_of(self, topic: str, after: int, until: int, limit: int) -> list[MessageRow]:
        """List messages of a topic by id: behind one, up to another."""

    def write_messages(self, rows: Sequence[MessageRow]) -> None:
        """Write new messages."""

    def expand(self, message: int, expanded: int | None) -> None:
        """Write how far the deliveries of a message are made."""

    def policy_number(self, document: bytes) -> int:
        """Give the number of a policy, which it keeps for life."""

    def policies(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Read policies by number."""

    def add_deliveries(self, rows: Sequence[DeliveryRow]) -> set[int]:
        """Write new deliveries, but for those whose message and subscription have one; give the ids that were written."""

    def deliveries(self, ids: Sequence[int]) -> dict[int, DeliveryRow]:
        """Read deliveries; unknown ones are left out."""

    def deliveries_of(
        self, subscription: int | None, after: int, until: int, limit: int, *, dead: bool = False
    ) -> list[DeliveryRow]:
        """List deliveries of a subscription, or of all (None), by id: behind one, up to another; of all, the dead ones alone."""

    def last_deliveries_of(self, subscription: int, until: int, limit: int) -> list[DeliveryRow]:
        """List deliveries of a subscription up to one, the newest first."""

    def deliveries_of_message(self, message: int, after: int, limit: int) -> list[DeliveryRow]:
        """List deliveries of a message by subscription, from behind one on."""

    def delivery_of(self, message: int, subscription: int) -> DeliveryRow | None:
        """Read the delivery of a message to a subscription."""

    def write_deliveries(self, rows: Sequence[DeliveryRow]) -> None:
        """Write deliveries that are there."""

    def drop_delivery(self, id_: int) -> None:
        """Remove a delivery with its attempts."""

    def write_attempts(self, rows: Sequence[AttemptRow]) -> None:
        """Write attempts that begin, or what came of them."""

    def drop_attempts(self, attempts: Sequence[tuple[int, int]]) -> None:
        """Remove attempts (delivery, number) that have not begun after all."""

    def begun(self, attempts: Sequence[tuple[int, int]]) -> dict[int, AttemptRow]:
        """Of some attempts (delivery, number), give those that are there, by delivery."""

    def attempts(self, delivery: int, after: int, limit: int) -> list[AttemptRow]:
        """List the attempts of a delivery by number, from behind one on."""

    def last_attempts(self, deliveries: Sequence[int]) -> dict[int, AttemptRow]:
        """Read the last attempt of each delivery that has had one."""

    def task(self, id_: int) -> TaskRow | None:
        """Read a task."""

    def write_task(self, row: TaskRow) -> None:
        """Write a task, a new one or another."""

    def count(self, counts: Sequence[tuple[str, str, int]]) -> None:
        """Add to counters: (name, label, by how much); each pair once."""

    def mend_texts(self) -> int:
        """After a UnicodeDecodeError: write what is left of damaged texts in their place; tell in how many rows there were any."""

    def purge(self, now: int, limit: int) -> int:
        """Remove messages, publications, deliveries and attempts whose time is over, so many of each; tell how many."""

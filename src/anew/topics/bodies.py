"""What requests about topics have as their bodies, JSON; what a Struct cannot say is checked in `anew.topics.asked`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from anew.topics.documents import NewMessage


class TopicBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What is said of a topic; a member that is absent stays, or has its default in a new topic.

    Attributes:
        delivery_policy: Blocks that hold for its subscriptions; null: none.
        lock_delivery_policy: Its subscriptions may not have blocks of their own.
        retention: How long its messages are kept, seconds; null: as long as the server says.
        excerpts: Whether beginnings of endpoints' answers are kept with the attempts.
    """

    delivery_policy: dict[str, Any] | UnsetType | None = UNSET
    lock_delivery_policy: bool | UnsetType = UNSET
    retention: int | float | UnsetType | None = UNSET
    excerpts: bool | UnsetType = UNSET


class EndpointBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where deliveries go.

    Attributes:
        type: A URL that gets requests, or a queue of this server that gets jobs.
        url: Of a webhook.
        queue: The name of a queue.
    """

    type: str
    url: str = ""
    queue: str = ""


class SubscriptionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A new subscription.

    Attributes:
        endpoint: Where its deliveries go.
        filter: Which messages it gets; null: all.
        delivery_policy: Its own blocks; null: none.
        handshake: How a webhook confirms that it wants to be sent to; null: by the token, if the server asks at all.
        signing: What its deliveries are signed with.
        secret: A secret of the caller's, with its prefix; null: a random one.
        name: For people; printable characters.
        ttl: Seconds after which it ends; null: never.
        dead_letter_queue: A job is enqueued there for each delivery that dies; null: none.
    """

    endpoint: EndpointBody
    filter: dict[str, Any] | None = None
    delivery_policy: dict[str, Any] | None = None
    handshake: str | None = None
    signing: str = "hmac"
    secret: str | None = None
    name: str = ""
    ttl: int | float | None = None
    dead_letter_queue: str | None = None

    def __repr__(self) -> str:
        return f"SubscriptionBody({self.endpoint!r})"  # never the secret


class SubscriptionPatchBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a subscription; a member that is absent stays.

    Attributes:
        endpoint: Another one of the same type; another URL is to be confirmed.
        filter: Which messages it gets; null: all.
        delivery_policy: Its own blocks; null: none.
        name: For people; printable characters.
        ttl: Seconds from now after which it ends; null: never.
        dead_letter_queue: A job is enqueued there for each delivery that dies; null: none.
    """

    endpoint: EndpointBody | UnsetType = UNSET
    filter: dict[str, Any] | UnsetType | None = UNSET
    delivery_policy: dict[str, Any] | UnsetType | None = UNSET
    name: str | UnsetType = UNSET
    ttl: int | float | UnsetType | None = UNSET
    dead_letter_queue: str | UnsetType | None = UNSET


class MessagesBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Several messages, published all or none.

    Attributes:
        messages: In their order.
    """

    messages: list[NewMessage]


class TurnBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What goes with a change of a subscription's status.

    Attributes:
        reason: Shown with the subscription.
        token: Of a confirmation; absent: the owner's word.
        replay_missed_since: On enabling: what was published since this instant, RFC 3339 or epoch ms, is sent too.
        release: On resuming and enabling: whether what was held is sent; if not, it is cancelled.
    """

    reason: str = ""
    token: str | UnsetType = UNSET
    replay_missed_since: str | None = None
    release: bool = True


class TestBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A message that tries an endpoint out.

    Attributes:
        data: Any JSON value; absent: null.
    """

    data: Raw | UnsetType = UNSET


class RotationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a subscription's secret.

    Attributes:
        secret: The new one, with its prefix; null: a random one.
        overlap: Seconds for which the old one signs too.
    """

    secret: str | None = None
    overlap: int = 86_400

    def __repr__(self) -> str:
        return f"RotationBody(overlap={self.overlap})"  # never the secret


class RedeliveryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How a delivery is sent again.

    Attributes:
        mode: Its policy begins again, or one attempt is made.
        force: Also if it was delivered.
    """

    mode: str = "full"
    force: bool = False


class BulkRedeliveryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Which deliveries are sent again: those for which all that is said holds.

    Attributes:
        status: Null: dead ones.
        dead_reason: Why they died.
        topic: Its name.
        subscription: Its id.
        message: Its id.
        since: Published from this instant on, RFC 3339 or epoch ms.
        until: Published before this instant, RFC 3339 or epoch ms.
        mode: Their policies begin again, or one attempt is made of each.
        dry_run: They are only counted.
    """

    status: str | None = None
    dead_reason: str | None = None
    topic: str | None = None
    subscription: str | None = None
    message: str | None = None
    since: str | None = None
    until: str | None = None
    mode: str = "full"
    dry_run: bool = False


class ReplayBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages a subscription is sent again.

    Attributes:
        since: Published from this instant on, of the last 14 days, RFC 3339 or epoch ms.
        until: Published before this instant; null: up to now.
        include: Deliveries that have died, messages it got no delivery of, or all, also what was delivered.
    """

    since: str
    until: str | None = None
    include: str = "failed"


class ConversionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A delivery policy of another service.

    Attributes:
        source: Whose it is.
        policy: Its document.
        mode: For Zaqar: what it does, or what its documents say.
    """

    source: str = msgspec.field(name="from")
    policy: Any = None
    mode: str = "as_shipped"

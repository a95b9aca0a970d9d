"""What owners say of topics, subscriptions and messages, as stored: JSON documents, checked when they come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from anew.errors import CorruptRow, InvalidInput, TooLarge
from anew.jobs.payload_limits import judging
from anew.topics.delivery_policy import layer_of
from anew.topics.filters import filter_of
from anew.units import refused

EVENTS: Final = "$events"
"""The topic on which Anew itself publishes what happens to subscriptions and deliveries."""

OWN: Final = "anew."
"""How the types of messages begin that go to one subscriber alone; nobody can publish such."""

CONFIRMATION: Final = "anew.subscription.confirmation"
"""The type of the message that asks an endpoint whether it wants a topic's messages."""

MOST_ATTRIBUTES: Final = 64
MOST_NAME: Final = 128
MOST_DELAY_S: Final = 1_209_600
LEAST_TTL_S: Final = 60

_topic_name = re.compile(r"[A-Za-z0-9_.-]{1,128}").fullmatch
_type_name = re.compile(r"[A-Za-z0-9_.:/-]{1,255}").fullmatch


class TopicDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said of a topic.

    Attributes:
        delivery_policy: Blocks that hold for its subscriptions; as given.
        lock_delivery_policy: Its subscriptions may not have blocks of their own.
        retention: How long its messages are kept, seconds.
        excerpts: Whether answers of endpoints are kept with the attempts.
    """

    delivery_policy: dict[str, Any] | None = None
    lock_delivery_policy: bool = False
    retention: int | None = None
    excerpts: bool = True


class SubscriptionDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said of a subscription.

    Attributes:
        kind: Of its endpoint.
        name: For people.
        filter: Which messages it gets; as given.
        delivery_policy: Its own blocks; as given.
        handshake: How it is confirmed.
        dead_letter_queue: A job is enqueued there for each delivery that dies.
        nonce: What its confirmation's token is made of; a new one with each that is sent. Empty: it was used, or none was sent.
        asked_at: When it was sent, epoch ms.
        allowed_rate: Deliveries a second that the endpoint has granted; None: any number.
        reason: Why it is paused or disabled.
        dropped_until: Of its deliveries those made up to this instant, epoch ms, are cancelled in place of being sent.
    """

    kind: Literal["webhook", "queue"] = "webhook"
    name: str = ""
    filter: dict[str, Any] | None = None
    delivery_policy: dict[str, Any] | None = None
    handshake: Literal["token", "cloudevents"] = "token"
    dead_letter_queue: str | None = None
    nonce: str = ""
    asked_at: int = 0
    allowed_rate: float | None = None
    reason: str = ""
    dropped_until: int = 0


class NewMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as its publisher sends it.

    Attributes:
        type: What has happened, such as ``order.paid``.
        data: Any JSON value; the bytes that come are the bytes that are delivered.
        attributes: For filters.
        delay: Seconds before it is delivered.
        ttl: Seconds after which it is delivered no more; None: no bound but the policy's.
    """

    type: str
    data: Raw
    attributes: dict[str, str | float | bool] | None = None
    delay: float = 0
    ttl: float | None = None


def check_topic_name(name: str) -> str:
    """Give a topic's name back if it is one.

    Raises:
        InvalidInput: It is not.
    """
    if name != EVENTS and not _topic_name(name):
        raise refused("topic", name, "1 to 128 of the characters A-Z a-z 0-9 _ . -")
    return name


def check_message(message: NewMessage, most_bytes: int, pointer: str = "") -> NewMessage:
    """Give a message back if it can be stored.

    Raises:
        InvalidInput: A member does not fit; its field is a JSON pointer.
        MalformedRequest: Its data nest too deeply, or have a number that is too large, as for a job's payload.
        TooLarge: It has more than `most_bytes`.
    """
    if not _type_name(message.type):
        _refuse(f"{pointer}/type", message.type, "1 to 255 of the characters A-Z a-z 0-9 _ . : / -")
    if message.type.startswith(OWN):
        _refuse(f"{pointer}/type", message.type, f"a type that does not begin with {OWN}, as Anew's own do")
    if not 0 <= message.delay <= MOST_DELAY_S:
        _refuse(f"{pointer}/delay", message.delay, f"0 to {MOST_DELAY_S} seconds")
    if message.ttl is not None and not LEAST_TTL_S <= message.ttl <= MOST_DELAY_S:
        _refuse(f"{pointer}/ttl", message.ttl, f"{LEAST_TTL_S} to {MOST_DELAY_S} seconds")
    attributes: Mapping[str, object] = message.attributes or {}
    if len(attributes) > MOST_ATTRIBUTES:
        _refuse(f"{pointer}/attributes", len(attributes), f"at most {MOST_ATTRIBUTES} of them")
    for name in attributes:
        if not 1 <= len(name) <= MOST_NAME:
            _refuse(f"{pointer}/attributes", name, f"names of 1 to {MOST_NAME} characters")
    size = len(bytes(message.data)) + len(msgspec.json.encode(message.attributes))
    if size > most_bytes:
        raise TooLarge(f"{pointer}/data: a message has at most {most_bytes} bytes, this one has {size}")
    for _ in judging(bytes(message.data), f"{pointer}/data"):
        pass  # a message is short enough for one turn
    return message


def _refuse(pointer: str, value: object, expected: str) -> None:
    raise InvalidInput(f"{pointer}: expected {expected}, got {value!r:.60}", field=pointer, value=value)


# -- as stored


T = TypeVar("T")


def stored_as(kind: type[T], stored: bytes, of: str) -> T:
    """Read JSON that is stored.

    Args:
        kind: What it is.
        stored: The bytes.
        of: What they are about, for the error.

    Raises:
        CorruptRow: It cannot be read.
    """
    try:
        return msgspec.json.decode(stored, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _corrupt(of, error) from error


@lru_cache(maxsize=4096)
def topic_document(stored: bytes) -> TopicDocument:
    """Read a topic's document; raises CorruptRow."""
    document = stored_as(TopicDocument, stored, "topic")
    _check_stored("topic", document.delivery_policy, None)
    return document


@lru_cache(maxsize=16_384)
def subscription_document(stored: bytes) -> SubscriptionDocument:
    """Read a subscription's document; raises CorruptRow."""
    document = stored_as(SubscriptionDocument, stored, "subscription")
    _check_stored("subscription", document.delivery_policy, document.filter)
    return document


def is_readable(subscription: bytes) -> bool:
    """Report whether a subscription's document can be read."""
    try:
        subscription_document(subscription)
    except CorruptRow:
        return False
    return True


def _check_stored(of: str, policy: dict[str, Any] | None, wanted: dict[str, Any] | None) -> None:
    """Check again what was checked when it came: a damaged row may still be JSON."""
    try:
        if policy is not None:
            layer_of(policy)
        if wanted is not None:
            filter_of(wanted)
    except InvalidInput as error:
        raise _corrupt(of, error) from error


def _corrupt(of: str, error: Exception) -> CorruptRow:
    return CorruptRow(f"what is stored of this {of} cannot be read any more: {error}")

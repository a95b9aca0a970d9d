"""What holds for a server's topics, and which policy holds for a subscription: the server's blocks, the topic's, its own."""

from __future__ import annotations

import re
import secrets
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from anew.config import Webhooks
from anew.errors import InvalidConfig, InvalidInput
from anew.jobs.codec import CONFIRMATION_KEY, SUBSCRIPTION_KEY, LimitKey
from anew.topics.delivery_policy import (
    DeliveryPolicy,
    Layer,
    Preview,
    Throttling,
    effective,
    engine_policy,
    layer_of,
    preview,
)
from anew.topics.documents import stored_as, subscription_document, topic_document
from anew.topics.guard import GuardSettings
from anew.topics.keys import Box, load_or_make_secret
from anew.units import DAY_MS


class TopicTerms(Struct, frozen=True, kw_only=True):
    """What holds for all topics of a server.

    Attributes:
        policy: JSON of the server's own blocks of delivery policies.
        confirmation: Whether endpoints are asked before they get anything.
        public_url: Where receivers reach this server, without a slash at its end; empty: it has no address to be confirmed at.
        origin: Whom endpoints allow that consent as CloudEvents has it.
        box: What keys are encrypted with.
        message_bytes: Most bytes of a message.
        publish_bytes: Of all messages of one request.
        publish_messages: Most messages of one request.
        subscriptions: Most of them on one topic.
        fanout_inline: So many deliveries of a message at most are made in the transaction that publishes, and five times as many of
            all messages of a request; more follow in chunks.
        message_kept_ms, delivery_kept_ms: How long messages, and deliveries that have ended, are kept.
    """

    box: Box
    policy: bytes = b"{}"
    confirmation: Literal["required", "optional", "off"] = "required"
    public_url: str = ""
    origin: str = "anew"
    message_bytes: int = 256 << 10
    publish_bytes: int = 1 << 20
    publish_messages: int = 100
    subscriptions: int = 10_000
    fanout_inline: int = 1_000
    message_kept_ms: int = 14 * DAY_MS
    delivery_kept_ms: int = 30 * DAY_MS


class Holding(NamedTuple):
    """The policy that holds for a subscription.

    Attributes:
        policy: All four blocks.
        sources: By block who has given it: ``subscription``, ``topic``, ``server`` or ``default``.
        document: JSON of the policy, as a delivery keeps it.
        engine: JSON of the job's policy.
    """

    policy: DeliveryPolicy
    sources: dict[str, str]
    document: bytes
    engine: bytes


@lru_cache(maxsize=16_384)
def holding_for(server: bytes, topic: bytes, subscription: bytes | None) -> Holding:
    """Give the policy that holds for a subscription.

    Args:
        server: JSON of the server's blocks.
        topic: The topic's document.
        subscription: The subscription's; None: what one without blocks of its own would have.
    """
    policy, sources = effective(_layers(server, topic, subscription))
    return holding(policy, sources)


@lru_cache(maxsize=1024)
def schedule_for(server: bytes, topic: bytes, subscription: bytes | None) -> Preview:
    """Give the retries of that policy part by part, as they were given; see `holding_for`."""
    layers = _layers(server, topic, subscription)
    return preview(next(({"retry": layer["retry"]} for _, layer in reversed(layers) if "retry" in layer), {}))


def _layers(server: bytes, topic: bytes, subscription: bytes | None) -> list[tuple[str, Layer]]:
    above = topic_document(topic)
    layers = [("server", msgspec.json.decode(server)), ("topic", above.delivery_policy)]
    if subscription is not None and not above.lock_delivery_policy:
        layers.append(("subscription", subscription_document(subscription).delivery_policy))
    return [(name, layer_of(blocks)) for name, blocks in layers if blocks]


def holding(policy: DeliveryPolicy, sources: dict[str, str]) -> Holding:
    """Give a policy with what is stored of it."""
    return Holding(policy, sources, msgspec.json.encode(policy), engine_policy(policy.retry))


@lru_cache(maxsize=4096)
def stored_policy(document: bytes) -> DeliveryPolicy:
    """Read the policy of a delivery; raises CorruptRow."""
    return stored_as(DeliveryPolicy, document, "delivery's policy")


def limit_key(name: str, throttle: Throttling, allowed_rate: float | None) -> LimitKey:
    """Give the key that bounds the deliveries of a subscription.

    Args:
        name: Its name.
        throttle: What the subscription's policy says.
        allowed_rate: Deliveries a second that the endpoint grants.
    """
    rate = throttle.max_per_second
    if allowed_rate is not None:
        rate = allowed_rate if rate is None else min(rate, allowed_rate)
    if rate is None:
        return LimitKey(name, throttle.max_in_flight)
    # A rate is a whole number of starts over a period; one that was granted by the minute is one exactly.
    count, per_ms = (int(rate), 1_000) if rate == int(rate) else (max(round(rate * 6_000), 1), 6_000_000)
    return LimitKey(name, throttle.max_in_flight, (count, per_ms, throttle.burst))


def limit_name(subscription: int) -> str:
    """Give the name of that key, which no other job has; see `anew.jobs.names.is_own_key`."""
    return f"{SUBSCRIPTION_KEY}{subscription:x}"


def question_name(subscription: int) -> str:
    """Give the name of the key of its confirmations, which go out though nothing else does."""
    return f"{CONFIRMATION_KEY}{subscription:x}"


class OfSubscription(NamedTuple):
    """What such a key bounds: the deliveries of a subscription, by its own key, or (`asks`) the questions to its endpoint."""

    key: int
    asks: bool


def subscription_of(name: str) -> OfSubscription | None:
    """Give what a key of a subscription bounds; None of another key."""
    found = _LIMIT_NAME(name)
    return None if found is None else OfSubscription(int(found[2], 16), asks=found[1] == "confirmation")


_LIMIT_NAME = re.compile(r"\$(subscription|confirmation)/([0-9a-f]{1,16})").fullmatch


# -- from settings


def guard_of(chosen: Webhooks) -> GuardSettings:
    """Give which webhooks may be delivered to."""
    return GuardSettings(
        allow_http=chosen.allow_http, allow_cidrs=chosen.allow_cidrs, allow_hosts=chosen.allow_hosts
    )


def terms_of(chosen: Webhooks, key: Path | None) -> TopicTerms:
    """Give what holds for topics.

    Args:
        chosen: The settings.
        key: Where the secret of the store's keys is; None: the store is in memory.

    Raises:
        InvalidConfig: The delivery policy does not fit.
    """
    policy = (chosen.policy or "{}").encode()
    try:
        layer_of(msgspec.json.decode(policy))
    except (InvalidInput, msgspec.DecodeError) as error:
        raise InvalidConfig(
            f"--delivery-policy: {error}", field="delivery-policy", value=chosen.policy
        ) from error
    return TopicTerms(
        box=Box(lambda: secrets.token_bytes(32) if key is None else load_or_make_secret(key)),
        policy=policy,
        confirmation=chosen.confirmation,
        public_url=(chosen.public_url or "").rstrip("/"),
        origin=urlsplit(chosen.public_url or "").netloc or "anew",
    )

"""What people ask of topics, as JSON: the bodies of the API, read and checked. Programs on a file say the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.errors import InvalidInput, MalformedRequest, TooLarge
from anew.topics.bodies import EndpointBody, MessagesBody, SubscriptionBody, TopicBody
from anew.topics.delivery_policy import effective, layer_of
from anew.topics.documents import (
    LEAST_TTL_S,
    NewMessage,
    SubscriptionDocument,
    TopicDocument,
    check_message,
)
from anew.topics.filters import filter_of
from anew.topics.guard import GuardSettings, judge_url
from anew.topics.json_fields import member
from anew.topics.publishing import Published
from anew.topics.registry import NewSubscription, Subscribed
from anew.topics.signing import check_secret, public_key
from anew.topics.terms import TopicTerms
from anew.topics.views import View, subscription_view

MOST_TTL_S: Final = 3_650 * 86_400
MOST_KEY: Final = 255
"""Characters of a publisher's own key."""

_queue_name = re.compile(r"[^,*?\[\]{}\\\x00]{1,512}").fullmatch
_PATH = re.compile(r" - at `\$?(.*)`$")


def decoded(body: bytes, kind: type[Any], *, optional: bool = False) -> Any:
    """Decode a body.

    Raises:
        MalformedRequest: It is no JSON.
        InvalidInput: A member does not fit; the field is a JSON pointer.
    """
    if optional and not body.strip():
        return kind()
    try:
        # As text: what is kept as raw JSON is not looked into otherwise, and must be UTF-8 too.
        return msgspec.json.decode(bytes(body).decode(), type=kind)
    except msgspec.ValidationError as error:
        raise _not_fitting(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequest(f"invalid JSON: {error}") from None


def _not_fitting(error: msgspec.ValidationError) -> InvalidInput:
    text = str(error)
    found = _PATH.search(text)
    path = found[1] if found else ""
    pointer = re.sub(r"\[(\d+|\.\.\.)\]", r"/\1", path.replace(".", "/").replace("[///]", "/-"))
    words = text[: found.start()] if found else text
    if "unknown field" in words or "required field" in words:
        pointer = member(pointer, words.split("`", 1)[1].removesuffix("`"))
    return InvalidInput(f"{pointer or '/'}: {words[:1].lower()}{words[1:]}".replace("`", "'"), field=pointer)


# -- topics and messages


def topic_of(before: TopicDocument, asked: TopicBody) -> TopicDocument:
    """Give what a topic is once it is as asked."""
    given = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET}
    if given.get("delivery_policy"):
        effective([("", layer_of(given["delivery_policy"], "/delivery_policy"))])
    kept = whole(given.get("retention"), "/retention")
    if kept is not None and not 60 <= kept <= 14 * 86_400:
        raise InvalidInput(f"/retention: expected 60 to 1209600 seconds, got {kept}", field="/retention")
    return replace(before, **given | ({"retention": kept} if "retention" in given else {}))


def messages_of(body: bytes, terms: TopicTerms) -> Sequence[NewMessage]:
    """Read a message, or ``{"messages": […]}``."""
    if len(body) > terms.publish_bytes + 4_096:
        raise TooLarge(f"all messages of a request have at most {terms.publish_bytes} bytes together")
    several = _has_messages(body)
    asked = decoded(body, MessagesBody if several else NewMessage)
    messages: list[NewMessage] = asked.messages if several else [asked]
    if not 1 <= len(messages) <= terms.publish_messages:
        raise InvalidInput(
            f"/messages: expected 1 to {terms.publish_messages} messages, got {len(messages)}",
            field="/messages",
        )
    return [
        check_message(one, terms.message_bytes, f"/messages/{place}" if several else "")
        for place, one in enumerate(messages)
    ]


def _has_messages(body: bytes) -> bool:
    try:
        return "messages" in msgspec.json.decode(body, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # whatever it is, it is refused when it is read


def idempotency_key(text: str) -> str:
    """Give a publisher's own key back if it is one."""
    if not 1 <= len(text) <= MOST_KEY:
        raise InvalidInput(f"Idempotency-Key: expected 1 to {MOST_KEY} characters", field="Idempotency-Key")
    return text


def published_view(published: Published, ids: Sequence[str]) -> View:
    """Show what a publication came to, with the public ids of its messages."""
    if published.repeated:
        return {"ids": ids, "repeated": True}
    return {"ids": ids, "deliveries": published.deliveries, "expanding": published.expanding}


# -- subscriptions


def subscription_of(asked: SubscriptionBody, guard: GuardSettings) -> NewSubscription:
    """Give a subscription as it is asked for, checked."""
    endpoint = endpoint_of(asked.endpoint, guard)
    if asked.secret is not None:
        check_secret(asked.secret)
    queue = asked.dead_letter_queue
    document = SubscriptionDocument(
        kind=asked.endpoint.type,  # type: ignore[arg-type]  # checked with the endpoint
        name=name_of(asked.name),
        filter=filter_document(asked.filter),
        delivery_policy=policy_of(asked.delivery_policy),
        handshake=choice(asked.handshake or "token", "/handshake", ("token", "cloudevents")),
        dead_letter_queue=None if queue is None else queue_of(queue, "/dead_letter_queue"),
    )
    return NewSubscription(
        endpoint=endpoint,
        document=document,
        is_asked=asked.handshake is not None,
        signing=choice(asked.signing, "/signing", ("hmac", "ed25519")),
        secret=asked.secret,
        ttl=ttl_of(asked.ttl),
    )


def subscribed_view(batch: Batch, subscribed: Subscribed, terms: TopicTerms) -> View:
    """Show what a request to subscribe came to; a new subscription with its secret."""
    shown = subscription_view(batch, subscribed.row, terms)
    return shown if subscribed.ring is None else shown | secret_view(subscribed.ring.current)


def secret_view(secret: str) -> View:
    """Show a secret, and what a receiver verifies with where that is something else."""
    public = public_key(secret)
    return {"secret": secret} if public is None else {"secret": secret, "public_key": public}


def endpoint_of(endpoint: EndpointBody, guard: GuardSettings) -> str:
    """Give a URL, or ``queue:`` and a queue's name."""
    if choice(endpoint.type, "/endpoint/type", ("webhook", "queue")) == "queue":
        return f"queue:{queue_of(endpoint.queue, '/endpoint/queue')}"
    if len(endpoint.url) > 2_048:
        raise InvalidInput("/endpoint/url: expected at most 2048 characters", field="/endpoint/url")
    judge_url(endpoint.url, guard, "/endpoint/url")
    return endpoint.url


def policy_of(blocks: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give the blocks of a delivery policy back if they are some."""
    if blocks:
        layer_of(blocks, "/delivery_policy")
    return blocks or None


def filter_document(document: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give a filter back if it is one."""
    if document is not None:
        filter_of(document)
    return document


def name_of(name: str) -> str:
    """Give a subscription's name back if it is one."""
    if len(name) > 255 or not name.isprintable():
        raise InvalidInput("/name: expected at most 255 printable characters", field="/name")
    return name


def whole(value: Any, pointer: str) -> Any:
    """Give a whole number as one, also if it is written with a zero fraction; what is no number stays."""
    if not isinstance(value, float):
        return value
    if not value.is_integer():
        raise InvalidInput(f"{pointer}: expected a whole number, got {value}", field=pointer)
    return int(value)


def ttl_of(ttl: Any) -> Any:
    """Give seconds back if a subscription may last so long."""
    ttl = whole(ttl, "/ttl")
    if isinstance(ttl, int) and not LEAST_TTL_S <= ttl <= MOST_TTL_S:
        raise InvalidInput(f"/ttl: expected {LEAST_TTL_S} seconds to ten years, got {ttl}", field="/ttl")
    return ttl


def queue_of(name: str, pointer: str) -> str:
    """Give a queue's name back if it is one."""
    if not _queue_name(name) or name.startswith("$"):
        raise InvalidInput(f"{pointer}: expected the name of a queue, got {name!r:.60}", field=pointer)
    return name


def choice(value: str, pointer: str, choices: tuple[str, ...]) -> Any:
    """Give a value back if it is one of some."""
    if value not in choices:
        raise InvalidInput(
            f"{pointer}: expected one of {', '.join(choices)}, got {value!r:.60}", field=pointer
        )
    return value

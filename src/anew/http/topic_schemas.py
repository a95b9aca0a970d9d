"""The shapes of requests and answers about topics as JSON Schema 2020-12; see `anew.http.openapi_schemas`."""

from __future__ import annotations

import msgspec

from anew.http.openapi_schemas import (
    COUNT,
    Schema,
    complete,
    generated,
    integer,
    list_of,
    or_null,
    record,
    ref,
    text,
)
from anew.topics.attempts import UNREADABLE
from anew.topics.bodies import (
    BulkRedeliveryBody,
    ConversionBody,
    EndpointBody,
    MessagesBody,
    RedeliveryBody,
    ReplayBody,
    RotationBody,
    SubscriptionBody,
    SubscriptionPatchBody,
    TestBody,
    TopicBody,
    TurnBody,
)
from anew.topics.documents import NewMessage
from anew.topics.reading import STATUSES

_NAMES: dict[type[msgspec.Struct], str] = {
    kind: kind.__name__
    for kind in (
        TopicBody, EndpointBody, SubscriptionBody, SubscriptionPatchBody, NewMessage, MessagesBody, TurnBody, TestBody,
        RotationBody,
        RedeliveryBody, BulkRedeliveryBody, ReplayBody, ConversionBody,
    )
}  # fmt: skip

_TOPIC = text(pattern=r"^(?:[A-Za-z0-9_.-]{1,128}|\$events)$")
_QUEUE = text(pattern=r"^[^$,*?\[\]{}\\\u0000][^,*?\[\]{}\\\u0000]{0,511}$")
_INSTANT = text(
    "RFC 3339, or epoch ms.",
    examples=["2027-01-01T00:00:00Z"],
    # Some that are valid do not match: those of the ends of long months, and of other zones.
    pattern="^(?:[0-9]{1,13}|20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}Z)$",
)
_WRITTEN = text("RFC 3339.", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$")
_TTL: Schema = or_null({"type": "integer", "minimum": 60, "maximum": 315_360_000})
_FLAG: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_TEXT = text()
_ANY: Schema = {"type": "object"}
_MODE = text(enum=["full", "once"])


def _id(prefix: str, more: str = "") -> Schema:
    return text(pattern=f"^{prefix}_[0-9a-z]{{25}}{more}$")


TOPIC_PATHS: dict[str, Schema] = {
    "topic": _TOPIC,
    "message": _id("msg"),
    "subscription": _id("sub"),
    "delivery": _id("dlv"),
    "attempt_id": _id("att", "-[0-9]{1,9}"),
    "task": _id("tsk"),
    "token": text(),
}
_LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
_CHOSEN: dict[str, Schema] = {
    "dead_reason": _TEXT,
    "topic": _TEXT,
    "subscription": _id("sub"),
    "message": _id("msg"),
    "since": _INSTANT,
    "until": _INSTANT,
}
TOPIC_QUERIES: dict[str, dict[str, Schema]] = {
    "topic_pages": {"limit": _LIMIT, "cursor": text("Of the page before.")},
    "subscription_pages": {"limit": _LIMIT, "cursor": _id("sub")},
    "delivery_pages": {"limit": _LIMIT, "cursor": _id("dlv"), "status": text(enum=list(STATUSES))} | _CHOSEN,
    "attempt_pages": {"limit": _LIMIT, "cursor": text(pattern="^[0-9]{1,9}$")},
    "force": {"force": text("Its subscriptions go with it.", enum=["true", "false"], default="false")},
}
"""Query parameters by the name of their group."""

_SHARED: dict[str, Schema] = {
    "filter": or_null(ref("MessageFilter")),
    "delivery_policy": or_null(ref("DeliveryPolicy")),
    "name": text(maxLength=255),
    "ttl": _TTL,
    "dead_letter_queue": or_null(_QUEUE),
    "endpoint": ref("EndpointBody"),
}
_ADDED: dict[str, dict[str, Schema]] = {
    "TopicBody": {
        "delivery_policy": or_null(ref("DeliveryPolicy")),
        "retention": or_null({"type": "integer", "minimum": 60, "maximum": 1_209_600}),
    },
    "EndpointBody": {"type": text(enum=["webhook", "queue"]), "url": text(maxLength=2_048)},
    "SubscriptionBody": _SHARED
    | {"handshake": text(enum=["token", "cloudevents"]), "signing": text(enum=["hmac", "ed25519"])},
    "SubscriptionPatchBody": _SHARED,
    "NewMessage": {
        "type": text(pattern="^[A-Za-z0-9_.:/-]{1,255}$"),
        "attributes": or_null(
            {
                "type": "object",
                "maxProperties": 64,
                "propertyNames": {"minLength": 1, "maxLength": 128},
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            }
        ),
        "delay": {"type": "number", "minimum": 0, "maximum": 1_209_600},
        "ttl": or_null({"type": "number", "minimum": 60, "maximum": 1_209_600}),
    },
    "MessagesBody": {"messages": list_of(ref("NewMessage"), minItems=1, maxItems=100)},
    "RotationBody": {"overlap": integer(604_800)},
    "RedeliveryBody": {"mode": _MODE},
    "BulkRedeliveryBody": {
        "status": or_null(text(enum=["dead", "delivered"])),
        "mode": _MODE,
        "subscription": or_null(_id("sub")),
        "message": or_null(_id("msg")),
    },
    "ReplayBody": {"include": text(enum=["failed", "missed", "all"])},
    "ConversionBody": {
        "from": text(enum=["sns", "zaqar"]),
        "mode": text(enum=["as_shipped", "as_documented"]),
    },
}
"""What replaces members whose Structs say less."""

_LAB = text("Path and query of the lab's page that draws it.")
_HELD = {"effective_delivery_policy": ref("EffectivePolicy"), "policy_sources": _ANY, "lab": _LAB}
_STAMPS = {"created_at": _WRITTEN, "changed_at": _WRITTEN}
_SUBSCRIPTION = {
    "id": _id("sub"),
    "topic": _TOPIC,
    "name": _TEXT,
    "endpoint": record("type", type=text(enum=["webhook", "queue"]), url=_TEXT, queue=_TEXT),
    "status": text(enum=["unconfirmed", "active", "paused", "disabled"]),
    "reason": _TEXT,
    "filter": or_null(_ANY),
    "delivery_policy": or_null(_ANY),
    "handshake": text(enum=["token", "cloudevents"]),
    "dead_letter_queue": or_null(_TEXT),
    "health": complete(
        failures=COUNT,
        failing_since=or_null(_WRITTEN),
        breaker=text(enum=["closed", "open", "half_open"]),
        spared_until=or_null(_WRITTEN),
    ),
    **_STAMPS,
    "expires_at": or_null(_WRITTEN),
}
_SECRET = {"secret": text(pattern="^wh(?:sec|sk)_"), "public_key": text(pattern="^whpk_")}
_DELIVERY = {
    "id": _id("dlv"),
    "message_id": _id("msg"),
    "subscription_id": _id("sub"),
    "topic": or_null(_TEXT),
    "type": or_null(_TEXT),
    "status": text(enum=[*STATUSES, UNREADABLE]),
    "deferred_by": or_null(text(enum=["breaker", "throttle"])),
    "trigger": _TEXT,
    "attempts": COUNT,
    "next_attempt_at": or_null(_WRITTEN),
    "deadline_at": or_null(_WRITTEN),
    "dead_reason": or_null(_TEXT),
    "last_attempt": or_null(ref("Attempt")),
}
_ATTEMPT = {"id": _id("att", "-[0-9]+"), "delivery_id": _id("dlv"), "number": COUNT, "started_at": _WRITTEN}
_MESSAGE = {
    "id": _id("msg"),
    "topic": _TEXT,
    "type": _TEXT,
    "attributes": or_null(_ANY),
    "data": True,
    "published_at": _WRITTEN,
    "due_at": _WRITTEN,
    "expires_at": or_null(_WRITTEN),
    "expanding": _FLAG,
    "deliveries": {"type": "object", "additionalProperties": COUNT},
}
_PROBLEM = {
    "type": text(const="about:blank"),
    "title": _TEXT,
    "status": integer(599),
    "code": text("Stable: programs match on it.", pattern="^[a-z_]+$"),
    "detail": _TEXT,
    "error": text("The same as detail."),
    "errors": list_of(complete(pointer=text("A JSON pointer."), detail=_TEXT)),
}


def topic_schemas() -> dict[str, Schema]:
    """Give every schema that only topics have, by name."""
    return generated(_NAMES, _ADDED) | {
        "Publishing": {"anyOf": [ref("NewMessage"), ref("MessagesBody")]},
        "MessageFilter": _closed("types attributes", "Which messages are wanted; all members must hold."),
        "DeliveryPolicy": _closed(
            "retry throttle request health", "Blocks of a delivery policy; durations in seconds."
        ),
        "EffectivePolicy": complete(retry=_ANY, throttle=_ANY, request=_ANY, health=_ANY),
        "Topic": record(
            "name delivery_policy lock_delivery_policy retention excerpts created_at changed_at",
            name=_TOPIC,
            delivery_policy=or_null(_ANY),
            lock_delivery_policy=_FLAG,
            retention=or_null(COUNT),
            excerpts=_FLAG,
            **_HELD,
            **_STAMPS,
        ),
        "TopicPage": _page("topics", "Topic"),
        "Subscription": record(" ".join(_SUBSCRIPTION), **_SUBSCRIPTION, **_HELD),
        "NewSubscription": record(" ".join((*_SUBSCRIPTION, "secret")), **_SUBSCRIPTION, **_HELD, **_SECRET),
        "SubscriptionPage": _page("subscriptions", "Subscription"),
        "Secret": record("secret", **_SECRET),
        "Resent": record(""),
        "Confirmed": complete(confirmed=_FLAG, subscription_id=_id("sub"), topic=_TEXT),
        "Published": record(
            "ids", ids=list_of(_id("msg")), deliveries=COUNT, expanding=_FLAG, repeated=_FLAG
        ),
        "Message": complete(**_MESSAGE),  # type: ignore[arg-type]
        "Delivery": complete(**_DELIVERY),
        "DeliveryPage": _page("deliveries", "Delivery"),
        "Attempt": record(f"{' '.join(_ATTEMPT)} outcome", **_ATTEMPT, outcome=_TEXT),
        "AttemptPage": _page("attempts", "Attempt"),
        "TaskBegun": complete(task_id=_id("tsk")),
        "Task": complete(
            id=_id("tsk"),
            status=_TEXT,
            done=COUNT,
            include=or_null(text(enum=["failed", "missed", "all"])),
            mode=_MODE,
        ),
        "PolicyPreview": record(
            "delays total attempts policy",
            delays=list_of(_NUMBER),
            total=_NUMBER,
            attempts=COUNT,
            policy=ref("EffectivePolicy"),
            lab=_LAB,
        ),
        "ConvertedPolicy": complete(policy=_ANY, warnings=list_of(_TEXT), lock=_FLAG),
        "Problem": record("type title status code detail error", **_PROBLEM),
    }


def _closed(members: str, about: str) -> Schema:
    return {
        "type": "object",
        "description": about,
        "properties": dict.fromkeys(members.split(), True),
        "additionalProperties": False,
    }


def _page(name: str, item: str) -> Schema:
    """Describe a page of a list; its cursor is null on the last one."""
    return record(f"{name} cursor", **{name: list_of(ref(item))}, cursor=or_null(_TEXT))

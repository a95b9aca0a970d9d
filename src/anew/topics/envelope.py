"""What a receiver gets: the body in one of three forms, and the headers of one attempt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Raw

from anew.store.topics import MessageRow
from anew.topics.delivery_policy import BodyForm, Request

CLOUDEVENTS: Final = "application/cloudevents+json"


def instant(at_ms: int) -> str:
    """Write an instant as RFC 3339 has it, with milliseconds where it has any."""
    moment = datetime.fromtimestamp(at_ms // 1_000, UTC)
    fraction = f".{at_ms % 1_000:03}" if at_ms % 1_000 else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def body_of(message: MessageRow, form: BodyForm, message_id: str, public_url: str) -> bytes:
    """Give the bytes that are sent: the same for each attempt.

    Args:
        message: What was published.
        form: ``envelope``: type, time of the event, data. ``raw``: the data as they came. ``cloudevents``: an event of version 1.0.
        message_id: Its public id.
        public_url: Of this server, where its topics are.
    """
    if form == "raw":
        return message.data
    timestamp = instant(message.published_at)
    if form == "envelope":
        return msgspec.json.encode({"type": message.type, "timestamp": timestamp, "data": Raw(message.data)})
    event = {
        "specversion": "1.0",
        "id": message_id,
        "source": f"{public_url}/v1/topics/{message.topic}",
        "type": message.type,
        "time": timestamp,
        "datacontenttype": "application/json",
        "data": Raw(message.data),
    }
    return msgspec.json.encode(event)


def headers_of(request: Request, own: Mapping[str, str]) -> dict[str, str]:
    """Give the headers of one attempt: those of its policy, and those that are Anew's.

    Args:
        request: What the policy says.
        own: Signature, ids, number of the attempt.
    """
    kinds = {"envelope": "application/json", "raw": request.content_type, "cloudevents": CLOUDEVENTS}
    return {**request.headers, "content-type": kinds[request.body], **own}

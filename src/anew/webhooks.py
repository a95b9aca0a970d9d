"""Receives webhooks: checks who has signed a request, and reads what it says. The receiver's side of topics.

    event = verify(os.environ["WEBHOOK_SECRET"], request.headers, body)

Any sender of Standard Webhooks can be checked with it. It needs no other package, but for ed25519 keys (``whpk_…``): their check
needs `cryptography` (the extra ``webhooks``).
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec

from anew.errors import AnewError, InvalidConfig, MalformedRequest
from anew.topics.documents import CONFIRMATION
from anew.topics.signing import LEAST_BYTES, MOST_BYTES, PRIVATE, PUBLIC, SECRET, is_signed
from anew.units import parse_duration_with_unit, refused

__all__ = ["Event", "InvalidSignature", "TooOld", "WebhookRefused", "verify"]


class WebhookRefused(AnewError):
    """A request is not to be believed; answer it with 401."""

    code = "webhook_refused"
    status = 401


class InvalidSignature(WebhookRefused):
    """No secret that was given has signed this request, or it lacks a header."""

    code = "invalid_signature"


class TooOld(WebhookRefused):
    """It is signed well, and was sent too long ago, or in the future: perhaps somebody sends again what he has overheard."""

    code = "too_old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a request says.

    Attributes:
        id: Of the message: the same each time it is sent, so a receiver knows a repeat by it.
        type: Such as ``order.paid``; "" where the body is not an envelope (``body: raw``).
        timestamp: When it was published; of a raw body, when it was sent.
        data: What was published.
        topic: Where. Like `attempt` and `is_redelivery` from a header that the signature does not cover: for logs, no more.
        attempt: 1 the first time.
        is_redelivery: Somebody has it sent again by hand.
    """

    id: str
    type: str
    timestamp: datetime
    data: Any
    topic: str
    attempt: int
    is_redelivery: bool

    @property
    def challenge(self) -> str | None:
        """What is to be answered as ``{"challenge": …}`` to agree to a subscription; None if this is a message."""
        if self.type != CONFIRMATION or not isinstance(self.data, dict):
            return None
        challenge = self.data.get("challenge")
        return challenge if isinstance(challenge, str) else None


class _Items(Protocol):
    """What headers of frameworks have: Starlette, Werkzeug, Django, aiohttp, `http.server`."""

    def items(self) -> Iterable[tuple[Any, Any]]: ...


Headers = Mapping[str, str] | Mapping[bytes, bytes] | _Items | Iterable[tuple[Any, Any]]
"""Headers of a request; names in any case, text or bytes, or as WSGI has them (``HTTP_WEBHOOK_ID``)."""


def verify(
    secret: str | Iterable[str],
    headers: Headers,
    body: bytes | str,
    *,
    tolerance: str | float | timedelta = "5m",
    now: datetime | None = None,
) -> Event:
    """Check a request, and give what it says.

    Args:
        secret: ``whsec_…``, or a public key ``whpk_…``; several while keys are exchanged.
        headers: Of the request.
        body: Its bytes as they came, before anything has parsed them.
        tolerance: How far its time may be from now: ``"90s"``, seconds, or a timedelta.
        now: The time; None: the machine's.

    Raises:
        InvalidSignature: It was not signed with one of the secrets, or is not the one that was signed.
        TooOld: It was sent too long ago, or the clocks differ.
        MalformedRequest: It is signed, and its body is no JSON.
        InvalidConfig: A secret is none. No error says a secret.
    """
    secrets = _checked([secret] if isinstance(secret, str) else secret)
    given = _lowered(headers)
    raw = _bytes_of(body)
    values = [given.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")]
    message_id, sent_at, signature = values
    for name, value in zip(("id", "timestamp", "signature"), values, strict=True):
        if not value:
            raise InvalidSignature(f"the request has no header webhook-{name}")
    if not (sent_at.isascii() and sent_at.isdecimal() and len(sent_at) <= 11):
        raise InvalidSignature("webhook-timestamp: expected seconds since 1970")
    if not is_signed(signature, secrets, message_id, sent_at, raw):
        raise InvalidSignature("no secret that was given has signed this request")
    away_ms = (time.time() if now is None else now.timestamp()) * 1_000 - int(sent_at) * 1_000
    if abs(away_ms) > _milliseconds(tolerance):
        which = "ago" if away_ms > 0 else "ahead of this machine's clock"
        raise TooOld(f"the request was sent {abs(away_ms) / 1_000:.0f} s {which}")
    return _event(message_id, int(sent_at), raw, given)


def _checked(secrets: Iterable[str]) -> list[str]:
    """Give secrets back if each is one: an empty one would let anybody sign."""
    checked = list(secrets)
    if not checked:
        raise InvalidConfig("secret: expected at least one", field="secret")
    for secret in checked:
        kind, _, text = secret.partition("_") if isinstance(secret, str) else ("", "", "")
        try:
            size = len(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            size = 0
        sizes = {SECRET: range(LEAST_BYTES, MOST_BYTES + 1), PUBLIC: [32], PRIVATE: [64]}
        if size not in sizes.get(f"{kind}_", ()):
            raise InvalidConfig(
                f"secret: expected {SECRET} and {LEAST_BYTES} to {MOST_BYTES} bytes in base64, "
                f"or {PUBLIC} and 32 bytes",
                field="secret",
            )
    return checked


def _lowered(headers: Headers) -> dict[str, str]:
    """Give headers by lower-case names; of several of one name the first."""
    pairs = headers.items() if hasattr(headers, "items") else headers
    found: dict[str, str] = {}
    for name, value in pairs:
        text = name.decode("latin-1") if isinstance(name, bytes) else str(name)
        key = text.lower().replace("_", "-").removeprefix("http-")
        found.setdefault(key, value.decode("latin-1") if isinstance(value, bytes) else str(value))
    return found


def _bytes_of(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if not isinstance(body, bytes | bytearray | memoryview):
        raise refused("body", type(body).__name__, "the bytes of the request as they came")
    return bytes(body)


def _milliseconds(tolerance: str | float | timedelta) -> float:
    if isinstance(tolerance, str):
        return parse_duration_with_unit(tolerance, "tolerance")
    seconds = tolerance.total_seconds() if isinstance(tolerance, timedelta) else tolerance
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise refused("tolerance", tolerance, 'a number of seconds, a timedelta, or text such as "5m"')
    return seconds * 1_000


def _event(message_id: str, sent_at: int, body: bytes, headers: Mapping[str, str]) -> Event:
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequest("the body is signed, and is no JSON") from error
    type_, timestamp, data = "", datetime.fromtimestamp(sent_at, UTC), document
    if isinstance(document, dict) and isinstance(document.get("type"), str) and "data" in document:
        at = document.get("time" if "specversion" in document else "timestamp")
        if isinstance(at, str):
            type_, data = document["type"], document["data"]
            timestamp = _moment(at) or timestamp
    attempt = headers.get("anew-attempt", "")
    return Event(
        id=message_id,
        type=type_,
        timestamp=timestamp,
        data=data,
        topic=headers.get("anew-topic", ""),
        attempt=int(attempt) if attempt.isascii() and attempt.isdecimal() and len(attempt) < 10 else 1,
        is_redelivery=headers.get("anew-redelivery", "") == "true",
    )


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None

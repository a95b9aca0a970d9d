"""The receiver's side of webhooks: is this request from whom it says it is, and not an old one sent again?

    from anew.webhooks import verify

    event = verify(secret, request.headers, body)

It reads what any sender signs as Standard Webhooks say, and knows what Anew adds. Only the standard library is needed, and for
``whpk_`` keys the package ``cryptography``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from anew.errors import AnewError, InvalidInput
from anew.topics import receiver
from anew.topics.signing import check_key
from anew.units import parse_duration_with_unit, refused

__all__ = ["Event", "InvalidSignature", "TooOld", "verify"]


class InvalidSignature(AnewError):
    """The request was not signed with one of these secrets, or was changed on its way."""

    code = "invalid_signature"
    status = 401


class TooOld(InvalidSignature):
    """The request was signed too long ago, or by a clock that is ahead: somebody may send an old one again."""

    code = "too_old"


class Event(Struct, frozen=True, kw_only=True):
    """A message that was delivered.

    Attributes:
        id: Of the message: the same however often it comes. Whoever must not do a thing twice remembers it.
        timestamp: When this attempt was sent, seconds since the epoch.
        type: What has happened; "" where the body is none of Anew's envelopes.
        data: What was published; where the body is no envelope, all of it.
        topic: It was published on; "" from other senders. The signature covers neither this nor the next two.
        attempt: Number of this attempt, from 1; 1 from other senders.
        is_redelivery: Somebody has had it sent again.
        body: The bytes that came.
    """

    id: str
    timestamp: int
    type: str
    data: Any
    topic: str
    attempt: int
    is_redelivery: bool
    body: bytes

    @property
    def challenge(self) -> str | None:
        """What a receiver answers as ``{"challenge": …}`` to agree to a subscription; None if this is no such question."""
        return receiver.confirmation({"type": self.type, "data": self.data} if self.type else self.data)


class _Items(Protocol):
    """What headers of frameworks have: Starlette's, Werkzeug's, Django's, aiohttp's, those of `http.server`."""

    def items(self) -> Iterable[tuple[Any, Any]]: ...


Headers = Mapping[str, str] | Mapping[bytes, bytes] | _Items | Iterable[tuple[Any, Any]]
"""Headers of a request: names in any case, as text or bytes, or as WSGI has them (``HTTP_WEBHOOK_ID``)."""


def verify(
    secret: str | Iterable[str],
    headers: Headers,
    body: bytes,
    *,
    tolerance: str | float | timedelta = "5m",
    now: float | None = None,
) -> Event:
    """Verify a request and read it.

    Args:
        secret: ``whsec_…`` or ``whpk_…``; several while one is exchanged for another.
        headers: As the framework gives them, in whichever case.
        body: The bytes as they came, before anybody has parsed them.
        tolerance: How far the sender's clock may be from ours: text with its unit, seconds, or a timedelta.
        now: The time, seconds since the epoch; None: the machine's.

    Raises:
        InvalidSignature: It is not signed, or not by one of the secrets.
        TooOld: Its time is too far from ours.
        InvalidInput: A secret is none, which is not repeated; or a signed body is no JSON.
    """
    several = isinstance(secret, Iterable) and not isinstance(secret, str | bytes)
    secrets: list[Any] = list(secret) if several else [secret]
    if not secrets:
        raise InvalidInput("secret: there is none; expected at least one", field="secret")
    for one in secrets:
        if not isinstance(one, str):
            raise refused("secret", type(one).__name__, 'text that begins with "whsec_" or "whpk_"')
        check_key(one, "secret")
    if not isinstance(body, bytes | bytearray | memoryview):
        raise refused("body", type(body).__name__, "the bytes of the request as they came")
    body = bytes(body)
    given = _lowered(headers)
    missing = [
        name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if not given.get(name)
    ]
    if missing:
        raise InvalidSignature(f"the request has no header {missing[0]}: it is no signed webhook")
    id_, stamp = given["webhook-id"], given["webhook-timestamp"]
    if not receiver.verify(given["webhook-signature"], secrets, id_, stamp, body):
        raise InvalidSignature("the signature fits none of the secrets")
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12):
        raise InvalidSignature("webhook-timestamp is no number of seconds")
    away = abs((time.time() if now is None else now) - int(stamp))
    allowed = _seconds(tolerance)
    if away > allowed:
        raise TooOld(f"it was signed {away:.0f} s from now; expected at most {allowed:g} s")
    return _event(given, id_, int(stamp), body)


def _event(given: Mapping[str, str], id_: str, stamp: int, body: bytes) -> Event:
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("the body is signed, and no JSON", field="body") from error
    is_envelope = isinstance(content, dict) and "data" in content and isinstance(content.get("type"), str)
    attempt = given.get("anew-attempt", "1")
    return Event(
        id=id_,
        timestamp=stamp,
        type=content["type"] if is_envelope else "",
        data=content["data"] if is_envelope else content,
        topic=given.get("anew-topic", ""),
        attempt=int(attempt) if attempt.isascii() and attempt.isdecimal() and len(attempt) < 10 else 1,
        is_redelivery=given.get("anew-redelivery") == "true",
        body=body,
    )


def _seconds(tolerance: str | float | timedelta) -> float:
    if isinstance(tolerance, str):
        return parse_duration_with_unit(tolerance, "tolerance") / 1_000
    seconds = tolerance.total_seconds() if isinstance(tolerance, timedelta) else tolerance
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise refused("tolerance", tolerance, 'a number of seconds, a timedelta, or text such as "5m"')
    return seconds


def _lowered(headers: Headers) -> dict[str, str]:
    """Give headers by lower-case names; of several of one name the first."""
    pairs: Iterable[tuple[Any, Any]] = headers.items() if hasattr(headers, "items") else headers
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(_text(name).lower().replace("_", "-").removeprefix("http-"), _text(value))
    return found


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)

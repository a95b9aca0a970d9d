"""The receiver's side of webhooks: is this request from whom it says it is, and not an old one sent again?

    from anew.webhooks import verify

    event = verify(secret, request.headers, body)

It reads what any sender signs as Standard Webhooks say, and knows what Anew adds. Only the standard library is needed, and for
``whpk_`` keys the package ``cryptography``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from anew.errors import AnewError, InvalidInput
from anew.topics import receiver
from anew.topics.signing import check_key
from anew.units import parse_duration_with_unit

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
        topic: It was published on; "" from other senders.
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


def verify(
    secret: str | Sequence[str],
    headers: Mapping[str, str] | Mapping[bytes, bytes],
    body: bytes,
    *,
    tolerance: str | timedelta = "5m",
    now: float | None = None,
) -> Event:
    """Verify a request and read it.

    Args:
        secret: ``whsec_…`` or ``whpk_…``; several while one is exchanged for another.
        headers: As the framework gives them, in whichever case.
        body: The bytes as they came, before anybody has parsed them.
        tolerance: How far the sender's clock may be from ours.
        now: The time, seconds since the epoch; None: the machine's.

    Raises:
        InvalidSignature: It is not signed, or not by one of the secrets.
        TooOld: Its time is too far from ours.
        InvalidInput: A secret is none, or there is none; the tolerance has no unit; or the body that was signed is no JSON.
        NotSupported: One is a public key, and the package that checks those is not installed.
    """
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets:
        raise InvalidInput("secret: there is none; expected at least one", field="secret")
    for one in secrets:
        check_key(one, "secret")
    given = {_text(name).lower(): _text(value) for name, value in headers.items()}
    missing = [
        name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if not given.get(name)
    ]
    if missing:
        raise InvalidSignature(f"the request has no header {missing[0]}: it is no signed webhook")
    id_, stamp = given["webhook-id"], given["webhook-timestamp"]
    if not receiver.verify(given["webhook-signature"], secrets, id_, stamp, body):
        raise InvalidSignature("the signature fits none of the secrets")
    if not stamp.isdecimal() or len(stamp) > 12:
        raise InvalidSignature("webhook-timestamp is no number of seconds")
    away = abs((time.time() if now is None else now) - int(stamp))
    allowed = (
        tolerance.total_seconds()
        if isinstance(tolerance, timedelta)
        else parse_duration_with_unit(tolerance, "tolerance") / 1_000
    )
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
        attempt=int(attempt) if attempt.isdecimal() and len(attempt) < 10 else 1,
        is_redelivery=given.get("anew-redelivery") == "true",
        body=body,
    )


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value

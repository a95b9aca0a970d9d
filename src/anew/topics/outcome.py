"""What an endpoint's answer makes of a delivery. Pure. Source: the notification specification, 3.5."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Literal

from msgspec import Struct

from anew.topics.delivery_policy import Profile, Retry
from anew.topics.exchange import Answer

Kind = Literal["delivered", "retry", "dead", "ours"]

DeadReason = Literal[
    "exhausted",
    "permanent_status",
    "gone",
    "blocked_address",
    "expired",
    "aborted_by_receiver",
    "invalid_request",
]

SAME_BYTES_CANNOT_SUCCEED: Final = frozenset({413, 414, 415, 431})
OVERLOADED: Final = frozenset({429, 502, 503, 504})
"""Beside a ``Retry-After`` they speak for the whole endpoint, not for one delivery."""

_SECONDS = re.compile(r"[0-9]+").fullmatch
_DIGITS = 12
"""So many of a number of seconds are read: more than any cap, and what is longer is more than that too."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What is made of an answer.

    Attributes:
        kind: ``ours``: a fault of our own; the attempt does not count.
        dead_reason: Why it is dead, if it is.
        error: What went wrong, in a word or two; None where nothing did.
        wait_at_least_ms: The next attempt comes no earlier.
        cause: Why not, if that is longer than the policy's own wait.
        spare_ms: For so long the endpoint gets nothing at all; None: it has not asked for that.
        disables: Why the subscription is disabled, if it is.
    """

    kind: Kind
    dead_reason: DeadReason | None = None
    error: str | None = None
    wait_at_least_ms: int = 0
    cause: Literal["policy", "retry_after", "overload"] = "policy"
    spare_ms: int | None = None
    disables: Literal["gone", "receiver"] | None = None


def is_delivered(answer: Answer) -> bool:
    """Report whether the receiver has what was sent. Of one whose good answer comes too slowly nobody knows."""
    return answer.status is not None and 200 <= answer.status <= 299 and answer.error != "timeout"


def judge(answer: Answer, retry: Retry, disable_on_gone: bool, now_ms: int) -> Verdict:
    """Give what is made of an answer, or of none.

    Args:
        answer: What came.
        retry: What the delivery's policy says.
        disable_on_gone: Whether a 410 disables the subscription.
        now_ms: Epoch ms.
    """
    if answer.status is None:
        return _without_status(answer)
    status = answer.status
    wish = answer.headers.get("webhook-delivery", "").strip().lower()
    disables: Literal["gone", "receiver"] | None = "receiver" if wish == "disable" else None
    if is_delivered(answer):
        return Verdict(kind="delivered", disables=disables)
    if 200 <= status <= 299:
        return Verdict(kind="retry", error="timeout", disables=disables)
    error = "redirect" if 300 <= status <= 399 else f"status {status}"
    if status == 410:
        gone = "gone" if disable_on_gone else disables
        return Verdict(kind="dead", dead_reason="gone", error=error, disables=gone)
    if disables or wish == "abort-message":
        return Verdict(kind="dead", dead_reason="aborted_by_receiver", error=error, disables=disables)
    if not _is_retried(status, retry):
        return Verdict(kind="dead", dead_reason="permanent_status", error=error)
    return _retried(answer, status, error, retry, now_ms)


def _without_status(answer: Answer) -> Verdict:
    error = answer.error or "protocol"
    match error:
        case "blocked_address" | "invalid_request":
            return Verdict(kind="dead", dead_reason=error, error=error)
        case "proxy":
            return Verdict(kind="ours", error=error)
        case "connect_timeout":
            return Verdict(kind="retry", error="timeout")
        case _:
            return Verdict(kind="retry", error=error)


def _retried(answer: Answer, status: int, error: str, retry: Retry, now_ms: int) -> Verdict:
    asked_ms = retry_after_ms(answer.headers.get("retry-after"), now_ms) if retry.honor_retry_after else None
    wait, cause, spare = 0, "policy", None
    if asked_ms is not None:
        wait, cause = min(asked_ms, retry.max_retry_after_ms), "retry_after"
        spare = wait if status in OVERLOADED else None
    if status == 429 and wait < retry.overload_floor_ms:
        wait, cause = retry.overload_floor_ms, "overload"
    return Verdict(kind="retry", error=error, wait_at_least_ms=wait, cause=cause, spare_ms=spare)  # type: ignore[arg-type]


def retry_after_ms(value: str | None, now_ms: int) -> int | None:
    """Read a ``Retry-After``: seconds, or a date of HTTP; a past date is 0, and what is neither is None.

    Source: RFC 9110, 5.6.7 and 10.2.3: also a date that names no zone is in UTC.
    """
    if value is None:
        return None
    value = value.strip()
    if _SECONDS(value):
        return int(value.lstrip("0")[:_DIGITS] or 0) * 1_000
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(int(moment.timestamp() * 1_000) - now_ms, 0)
    except (ValueError, TypeError, OverflowError):
        return None


def _is_retried(status: int, retry: Retry) -> bool:
    for name in (status, f"{status // 100}xx"):  # a code is stronger than its class
        if name in retry.retry_statuses:
            return True
        if name in retry.dead_statuses:
            return False
    return _profile_retries(status, retry.profile)


def _profile_retries(status: int, profile: Profile) -> bool:
    if status in SAME_BYTES_CANNOT_SUCCEED:
        return False
    if profile == "sns":
        return status == 429 or status >= 500 or status < 200
    return status not in (501, 505)

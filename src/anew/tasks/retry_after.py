"""What an exception says about when to come back: `Retry-After` and the headers of rate limits, recognised by their shape.

Nothing is imported for it. These are known:

    error.response.headers, .status_code    httpx.HTTPStatusError, requests.HTTPError, and what SDKs make of them
    error.headers, .status or .code         aiohttp.ClientResponseError, urllib.error.HTTPError
    error.retry_after                       any exception: seconds, text as in the header, or a timedelta
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final, NamedTuple

TOO_MANY: Final = 429
UNAVAILABLE: Final = 503

LONGEST_MS: Final = 365 * 86_400_000
"""The longest wait that is believed."""

RESETS: Final = ("RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset")

EPOCH_S: Final = 1_000_000_000
"""A reset from here on is an instant, and no number of seconds: 2001 as seconds since 1970, or a wait of 31 years."""

EPOCH_MS: Final = 1_000_000_000_000
_NUMBER: Final = re.compile(r"\d{1,18}(\.\d{1,9})?")
_LEFT: Final = re.compile(r"\b(?:r|remaining)\s*=\s*(\d{1,18})")
_RESET: Final = re.compile(r"\b(?:t|reset)\s*=\s*(\d{1,18})")


class ComeBack(NamedTuple):
    """When the called service wants to be asked again.

    Attributes:
        status: What it answered; None: no number is known.
        at: Epoch ms, after now, 365 days later at most.
    """

    status: int | None
    at: int


def come_back(error: BaseException, now: int) -> ComeBack | None:
    """Give what an exception says about when to come back; None: nothing that is understood.

    `Retry-After` counts with any status, the headers of rate limits with 429 and 503 alone: they come with other answers too. A
    time that has passed, or a wait of zero, says nothing: a job that kept to it would ask again and again without a pause.

    Args:
        error: Whatever a handler has raised.
        now: Epoch ms.
    """
    try:
        status, header = _shape(error)
        wait = _wait_ms(getattr(error, "retry_after", None), now)
        if wait is None:
            wait = _of_headers(status, header, now)
    except Exception:  # properties of somebody else's exception: what they raise says nothing
        return None
    if wait is None or wait <= 0:
        return None
    return ComeBack(status, now + math.ceil(min(wait, LONGEST_MS)))


Header = Callable[[str], object]
"""Gives a header's text by its name, or None."""


def _shape(error: BaseException) -> tuple[int | None, Header]:
    """Find the status and the headers of the answer that an exception is about."""
    for answer in (getattr(error, "response", None), error):
        headers = getattr(answer, "headers", None)
        if hasattr(headers, "get"):
            return _status(answer), partial(_header, headers)
    return _status(error), lambda name: None


def _status(answer: object) -> int | None:
    for name in ("status_code", "status", "code"):
        value = getattr(answer, name, None)
        if isinstance(value, int) and 100 <= value <= 599:
            return int(value)
    return None


def _header(headers: Any, name: str) -> object:
    """Read a header; the mappings of the HTTP libraries do not mind the case, a plain dict does."""
    value = headers.get(name)
    return headers.get(name.lower()) if value is None else value


def _of_headers(status: int | None, header: Header, now: int) -> float | None:
    wait = _wait_ms(header("Retry-After"), now)
    if wait is not None or status not in (TOO_MANY, UNAVAILABLE):
        return wait
    wait = _limit_ms(header("RateLimit"))
    for name in RESETS:
        wait = _reset_ms(header(name), now) if wait is None else wait
    return wait


def _wait_ms(value: object, now: int) -> float | None:
    """Read a `Retry-After`: seconds or an HTTP date; give milliseconds from now."""
    if isinstance(value, timedelta):
        return value / timedelta(milliseconds=1)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return min(value, LONGEST_MS) * 1_000 if value >= 0 else None  # NaN fails too
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return round(float(text) * 1_000)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # A date without a zone is one of the old forms, which are in UTC.
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1_000 - now


def _limit_ms(value: object) -> float | None:
    """Read a `RateLimit` header of the IETF's drafts: the longest reset of the limits that are used up, or of all."""
    if not isinstance(value, str):
        return None
    spent: list[int] = []
    every: list[int] = []
    # Until draft 7 one limit was `limit=9, remaining=0, reset=30`; since then a comma stands between limits.
    for item in value.split(",") if ";" in value else [value]:
        reset, left = _RESET.search(item), _LEFT.search(item)
        if reset is not None:
            every.append(int(reset[1]))
            if left is not None and int(left[1]) == 0:
                spent.append(int(reset[1]))
    waits = spent or every
    return max(waits) * 1_000 if waits else None


def _reset_ms(value: object, now: int) -> float | None:
    """Read a reset: seconds from now; or, when it is large, seconds or milliseconds since 1970."""
    text = str(value).strip()
    if value is None or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    if number >= EPOCH_MS:
        return number - now
    return number * 1_000 - (now if number >= EPOCH_S else 0)

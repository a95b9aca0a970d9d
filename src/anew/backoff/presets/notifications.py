"""Deliveries of notifications: OpenStack Zaqar as specified and as shipped, Amazon SNS, webhooks.

The first two know four phases: retries at once, retries at the least wait, a backoff from the least to the greatest
wait, and retries at the greatest.
"""

from __future__ import annotations

import math
from typing import Any, Final

from anew.backoff.kinds import Choice, Duration, Integer, Number, invalid_policy
from anew.backoff.presets.registry import COUNT, FLAG, SOME, WAIT, WAITS, Family, Form
from anew.units import HOUR_MS, MINUTE_MS, SECOND_MS

_notification = Family("notifications")

_FUNCTION: Final = Choice("linear", "arithmetic", "geometric", "exponential")
_PHASE_ORIGIN: Final = "counts from 1 in each phase"
ZAQAR_STEP_S: Final = 5
"""Shipped Zaqar makes one backoff retry of each such step between the two waits, whatever the function."""

_HOUR: Final = Duration(maximum_ms=3_600_000)
_SNS: Final = "Amazon SNS, message delivery retries"
_SNS_JITTER: Final = "SNS says that it adds jitter, but not which: this has none unless you add one."


def _phases(*parts: tuple[int, dict[str, Any]]) -> Form:
    """Give the policy of counted phases, those without retries left out."""
    kept = [{"curve": curve, "count": count} for count, curve in parts if count]
    if not kept:
        raise invalid_policy("retries", 0, "at least one retry in one of the phases")
    return {"phases": kept, "limit": sum(count for count, _ in parts)}


def _between(low: int, high: int, retries: int, function: str, base: float = 1) -> dict[str, Any]:
    shape = {"shape": function} | ({"base": base} if base != 1 else {})
    return {"between": {"low": low, "high": high, "retries": retries} | shape}


@_notification(
    "zaqar",
    "openstack_zaqar",
    source='"Support More Backoff Functions" (OpenStack Zaqar), both ends kept as it requires',
    origin=_PHASE_ORIGIN,
    counts="retries: the sum of the four phases, 14",
    traps=(
        "Its linear formula divides by the number of retries, not by one less, and misses the maximum it promises: "
        "that is literal.",
        "What it calls arithmetic is quadratic; an arithmetic progression is its linear function.",
        "Its exponential and its geometric function are the same curve; with a base, exponential is steeper here.",
        "No jitter.",
    ),
    takes={
        "function": _FUNCTION, "low": WAIT, "high": WAIT, "retries": COUNT, "immediate": SOME, "before": SOME,
        "after": SOME, "base": Number(1, 1e6), "literal": FLAG,
    },
    names={
        "retry_backoff_function": "function", "minimum_delay": "low: in seconds",
        "maximum_delay": "high: in seconds", "retries_with_no_delay": "immediate",
        "minimum_delay_retries": "before", "maximum_delay_retries": "after",
    },
)  # fmt: skip
def _zaqar(
    function: str = "linear",
    low: int = 5_000,
    high: int = 30_000,
    retries: int = 5,
    immediate: int = 3,
    before: int = 3,
    after: int = 3,
    base: float = 1,
    literal: bool = False,
) -> Form:
    """Zaqar's specification: 3 at once, 3 after 5 s, 5 from 5 s to 30 s by one of four functions, 3 after 30 s."""
    # Divided by the number of retries, the line ends one step early: as if there were one retry more.
    steps = retries + 1 if literal and function == "linear" else retries
    return _phases(
        (immediate, {"constant": 0}),
        (before, {"constant": low}),
        (retries, _between(low, high, steps, function, base)),
        (after, {"constant": high}),
    )


@_notification(
    "zaqar_shipped",
    source="Zaqar's webhook task, as shipped",
    origin=_PHASE_ORIGIN,
    counts="retries: the sum of the four phases, 14 by default",
    traps=(
        "The number of retries follows from a step of 5 s: between 5 s and 260 s there are 51, not 10.",
        "The linear function stops short of the maximum.",
        "Waits are cut to whole seconds after a floating power: nearly half of all geometric ones miss the maximum by 1 s.",
        "Retries sleep in a worker's thread, and a restart forgets them.",
        "A plain answer of 500 starts no retries: the first delivery looks at whether the answer is truthy.",
    ),
    takes={
        "function": _FUNCTION, "low": _HOUR, "high": _HOUR, "immediate": SOME, "before": SOME, "after": SOME,
    },
)  # fmt: skip
def _zaqar_shipped(
    function: str = "linear",
    low: int = 5_000,
    high: int = 30_000,
    immediate: int = 3,
    before: int = 3,
    after: int = 3,
) -> Form:
    """What Zaqar shipped: the same phases, but as many retries as steps of 5 s fit; 14 retries in 3 minutes."""
    waits = shipped_waits(function, low, high)
    return _phases(
        (immediate, {"constant": 0}),
        (before, {"constant": low}),
        (len(waits), {"table": waits}),
        (after, {"constant": high}),
    )


def shipped_waits(function: str, low_ms: int, high_ms: int) -> list[int]:
    """Give the backoff phase of shipped Zaqar: whole seconds, in milliseconds.

    Args:
        function: One of the four.
        low_ms: The least wait, whole seconds, above 0.
        high_ms: The greatest wait, whole seconds, at least two steps of 5 s above ``low_ms``.

    Raises:
        InvalidPolicy: A bound does not fit.
    """
    for name, value in (("low", low_ms), ("high", high_ms)):
        if value % 1_000 or not value:
            raise invalid_policy(name, value, "whole seconds above 0, which is all that Zaqar takes")
    if high_ms - low_ms < 2_000 * ZAQAR_STEP_S:
        raise invalid_policy("high", high_ms, "at least 10 s above low: two steps of 5 s")
    return [wait * 1_000 for wait in shipped_seconds(function, low_ms // 1_000, high_ms // 1_000)]


def shipped_seconds(function: str, low: int, high: int) -> list[int]:
    """Give the same in seconds, of bounds that are known to fit; the linear and the arithmetic function may begin with 0.

    The order of the floating operations is Zaqar's, because what is cut off at the end depends on it.

    Source: OpenStack Zaqar, zaqar/notification/tasks/webhook.py, mid-2026.
    """
    if function == "linear":
        return [*range(low, high, ZAQAR_STEP_S)]
    count = (high - low) // ZAQAR_STEP_S
    if function == "arithmetic":
        difference = 2.0 * (high - low) / (count * (count - 1))
        return [int(low + (n - 1) * n * difference / 2) for n in range(1, count + 1)]
    ratio = math.pow(10, math.log10(high / low) / (count - 1))
    if function == "geometric":
        return [int(low * math.pow(ratio, n - 1)) for n in range(1, count + 1)]
    return [int(low / ratio * math.pow(ratio, n)) for n in range(1, count + 1)]


@_notification(
    "sns_managed",
    "sns",
    "amazon_sns",
    source=f"{_SNS}: endpoints managed by AWS",
    origin=_PHASE_ORIGIN,
    counts="retries: the sum of the four phases, 100,015",
    traps=(
        _SNS_JITTER,
        "The backoff functions are published as a picture only; the curve here is geometric.",
    ),
)
def _sns_managed() -> Form:
    """Amazon SNS to AWS endpoints: 3 at once, 2 after 1 s, 10 from 1 s to 20 s, then 20 s; 100,015 in 23 days."""
    return _phases(
        (3, {"constant": 0}),
        (2, {"constant": 1_000}),
        (10, _between(1_000, 20_000, 10, "geometric")),
        (100_000, {"constant": 20_000}),
    )


@_notification(
    "sns_customer",
    source=f"{_SNS}: endpoints managed by customers (SMTP, SMS, mobile push)",
    origin=_PHASE_ORIGIN,
    counts="retries: the sum of the four phases, 50",
    traps=(
        _SNS_JITTER,
        "The backoff functions are published as a picture only; the curve here is geometric.",
    ),
)
def _sns_customer() -> Form:
    """Amazon SNS to customers' endpoints: 2 after 10 s, 10 from 10 s to 10 min, 38 after 10 min; 50 in 6.8 hours."""
    return _phases(
        (2, {"constant": 10_000}),
        (10, _between(10_000, 600_000, 10, "geometric")),
        (38, {"constant": 600_000}),
    )


@_notification(
    "sns_http",
    "sns_https",
    source=f"{_SNS}: delivery policies of HTTP/S endpoints",
    origin=_PHASE_ORIGIN,
    counts="retries: numRetries 3 counts all four phases together; the backoff gets what they leave",
    traps=(
        _SNS_JITTER,
        "By default the least and the greatest wait are both 20 s, so no function shows.",
        "A whole policy may not take longer than an hour.",
    ),
    takes={
        "function": _FUNCTION, "low": _HOUR, "high": _HOUR, "retries": Integer(1, 100), "immediate": SOME,
        "before": SOME, "after": SOME,
    },
    names={
        "backoffFunction": "function", "minDelayTarget": "low: in seconds",
        "maxDelayTarget": "high: in seconds", "numRetries": "retries", "numNoDelayRetries": "immediate",
        "numMinDelayRetries": "before", "numMaxDelayRetries": "after",
    },
)  # fmt: skip
def _sns_http(
    function: str = "linear",
    low: int = 20_000,
    high: int = 20_000,
    retries: int = 3,
    immediate: int = 0,
    before: int = 0,
    after: int = 0,
) -> Form:
    """Amazon SNS to HTTP/S: three retries, 20 s apart."""
    left = retries - immediate - before - after
    if left < 0:
        raise invalid_policy("retries", retries, "at least what immediate, before and after add up to")
    return _phases(
        (immediate, {"constant": 0}),
        (before, {"constant": low}),
        (left, _between(low, high, left, function) if left else {}),
        (after, {"constant": high}),
    )


_WEBHOOKS: Final = (
    5 * SECOND_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 5 * HOUR_MS, 10 * HOUR_MS, 14 * HOUR_MS, 20 * HOUR_MS,
    24 * HOUR_MS,
)  # fmt: skip


@_notification(
    "standard_webhooks",
    "webhooks",
    source="Standard Webhooks, the example of its chapter on deliverability",
    origin="no counter: the first wait of the list comes first",
    counts="retries: as many as the list is long, 9",
    traps=(
        "It is an example, not a rule, and asks for jitter without saying which: this has none unless you add one.",
        'Svix waits 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h, a fifth either way: give these waits and {"around": 0.2}.',
        "Stripe (up to three days), Shopify (8 times in 4 hours) and GitHub (not at all) publish no list of waits.",
    ),
    takes={"waits": WAITS},
)
def _standard_webhooks(waits: tuple[int, ...] = _WEBHOOKS) -> Form:
    """Standard Webhooks' schedule: 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h; 9 retries in 75.6 hours."""
    return {"curve": {"table": [*waits]}, "limit": len(waits)}

"""Delivery policies: what a subscriber's deliveries are retried by, how many run, what is sent, and when to stop for good.

Pure. A policy has four blocks; server, topic and subscription may each give some of them, and a block that a later one gives
replaces the earlier one as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Profile = Literal["webhook", "sns"]
BodyForm = Literal["envelope", "raw", "cloudevents"]


class Retry(Struct, frozen=True, kw_only=True):
    """When a failed delivery is tried again.

    Attributes:
        delays_ms: The nominal wait before each retry, ms; as many as there are retries.
        jitter: Each wait is multiplied by 1 plus a number between minus this and this; 0 to 0.5. Zero waits stay zero.
        max_total_ms: The sum of the waits may not be more.
        honor_retry_after: Whether an answer's ``Retry-After`` delays the retry.
        max_retry_after_ms: It may ask for no more than this.
        overload_floor_ms: The shortest wait after a 429.
        profile: Which answers are worth another try where neither list names them.
        retry_statuses, dead_statuses: Codes, or classes such as "5xx"; a code is stronger than a class.
    """

    delays_ms: tuple[int, ...]
    jitter: float
    max_total_ms: int
    honor_retry_after: bool
    max_retry_after_ms: int
    overload_floor_ms: int
    profile: Profile
    retry_statuses: tuple[int | str, ...] = ()
    dead_statuses: tuple[int | str, ...] = ()


class Throttling(Struct, frozen=True, kw_only=True):
    """How many deliveries run, and start over a second.

    Attributes:
        max_per_second: None for any number.
        burst: So many may start at once after a quiet time.
        max_in_flight: At one time, over all dispatchers.
    """

    max_per_second: float | None
    burst: int
    max_in_flight: int


class Request(Struct, frozen=True, kw_only=True):
    """What is sent.

    Attributes:
        timeout_ms, connect_timeout_ms: See `anew.topics.exchange.Outgoing`.
        body: The message in an envelope, as it was published, or as a CloudEvent.
        content_type: Of a body that is sent as published.
        headers: Further ones.
    """

    timeout_ms: int
    connect_timeout_ms: int
    body: BodyForm
    content_type: str
    headers: Mapping[str, str]


class Health(Struct, frozen=True, kw_only=True):
    """When a subscriber is spared, and when it is disabled.

    Attributes:
        breaker_failures: Consecutive failed attempts that open the breaker; None: it never opens.
        breaker_open_ms, breaker_open_max_ms: How long it stays open at first, and at most: it doubles each time.
        disable_after_ms: Without a success for so long; None: never.
        disable_min_failures: And with at least so many failed attempts since the last success.
        disable_on_gone: Whether a 410 disables it.
    """

    breaker_failures: int | None
    breaker_open_ms: int
    breaker_open_max_ms: int
    disable_after_ms: int | None
    disable_min_failures: int
    disable_on_gone: bool


class DeliveryPolicy(Struct, frozen=True, kw_only=True):
    """All four blocks, as they hold for a subscription."""

    retry: Retry
    throttle: Throttling
    request: Request
    health: Health

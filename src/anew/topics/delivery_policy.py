"""Delivery policies: what a subscriber's deliveries are retried by, how many run, what is sent, and when to stop for good.

Pure. A policy has four blocks; server, topic and subscription may each give some of them, and a block that a later one gives
replaces the earlier one as a whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from anew.errors import InvalidInput

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


# -- from phases to waits

FUNCTIONS: Final = ("linear", "arithmetic", "geometric", "exponential")
MOST_RETRIES: Final = 100


def backoff_ms(function: str, n: int, least_s: float, most_s: float) -> list[int]:
    """Give the waits of a backoff phase: the first is exactly the least, the last exactly the most, ms.

    Source: the notification specification, 3.4, whose shapes are those that Zaqar's proposal promised.

    Args:
        function: One of `FUNCTIONS`.
        n: How many.
        least_s, most_s: Seconds.
    """
    if n == 1:
        return [_ms(least_s)]
    span = most_s - least_s
    shapes: dict[str, Callable[[int], float]] = {
        "linear": lambda i: least_s + span * (i - 1) / (n - 1),
        "arithmetic": lambda i: least_s + span * i * (i - 1) / (n * (n - 1)),
        "geometric": lambda i: least_s * (most_s / least_s) ** ((i - 1) / (n - 1)),
        "exponential": lambda i: least_s + span * (2.0 ** (i - 1) - 1) / (2.0 ** (n - 1) - 1),
    }
    shape = shapes[function]
    return [_ms(min(max(shape(i), least_s), most_s)) for i in range(1, n + 1)]


def _ms(seconds: float) -> int:
    return math.floor(1_000 * seconds + 0.5)


# -- what somebody writes

Layer = Mapping[str, Any]
"""Blocks as somebody gave them, checked; see `layer_of`."""

STANDARD: Final = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The waits of the preset ``standard``, seconds: the example of Standard Webhooks without its zero."""

ZAQAR: Final = (0, 0, 0, 5, 5, 5, 5, 10, 15, 20, 25, 30, 30, 30)
"""The waits of Zaqar with all its defaults, as it ships, seconds."""

_PRESETS: Final[dict[str, tuple[tuple[float, ...], Profile]]] = {
    "standard": (STANDARD, "webhook"),
    "sns": ((20, 20, 20), "sns"),
    "zaqar": (ZAQAR, "webhook"),
}
_COUNTS = ("no_delay_retries", "min_delay_retries", "backoff_retries", "max_delay_retries")
_PHASES = (*_COUNTS, "min_delay", "max_delay", "function")
_CLASSES = ("3xx", "4xx", "5xx")

DENIED_HEADERS: Final = re.compile(
    r"host|content-length|transfer-encoding|connection|te|upgrade|proxy-.*|webhook-.*|anew-.*|metadata-flavor"
    r"|x-aws-ec2-metadata-token.*|metadata|content-type|user-agent",
    re.IGNORECASE,
)
"""Names that a policy's own headers may not have: Anew writes them itself, or a cloud's host service heeds them."""


def layer_of(document: object, pointer: str = "") -> Layer:
    """Check blocks that somebody gives, and give them back.

    Args:
        document: A JSON object with any of ``retry``, ``throttle``, ``request``, ``health``.
        pointer: Where it stands, for errors.

    Raises:
        InvalidInput: Something does not fit; its field is a JSON pointer.
    """
    blocks = _object(document, pointer, ("retry", "throttle", "request", "health"))
    for name, block in blocks.items():
        _READERS[name](block, f"{pointer}/{name}")
    return blocks


def effective(layers: Sequence[tuple[str, Layer]]) -> tuple[DeliveryPolicy, dict[str, str]]:
    """Give the policy that holds, and by block who has given it.

    Args:
        layers: Checked ones with their names, the weakest first. A block replaces the same one of a weaker layer as a whole.
    """
    sources = dict.fromkeys(_READERS, "default")
    given: dict[str, Any] = {"retry": {"preset": "standard"}, "throttle": {}, "request": {}, "health": {}}
    for name, layer in layers:
        for block in layer:
            given[block], sources[block] = layer[block], name
    read = {block: _READERS[block](given[block], f"/{block}") for block in _READERS}
    return DeliveryPolicy(**read), sources


def engine_policy(retry: Retry) -> bytes:
    """Give the engine's own policy that waits as a retry block says, as JSON."""
    waits = [f"{wait}ms" for wait in retry.delays_ms] or ["0ms"]
    policy: dict[str, Any] = {"curve": {"table": waits}, "limit": len(retry.delays_ms)}
    if retry.jitter:
        policy["jitter"] = {"around": retry.jitter}
    return msgspec.json.encode(policy)


def _retry(block: object, at: str) -> Retry:
    known = (*_PHASES, "schedule", "preset", "jitter", "max_total_time", "honor_retry_after", "max_retry_after",
             "overload_floor", "profile", "retry_statuses", "dead_statuses")  # fmt: skip
    given = _object(block, at, known)
    waits, profile = _waits(given, at)
    jitter = _number(given, "jitter", at, 0, 0.5, 0.1)
    total_ms = _ms(_number(given, "max_total_time", at, 0, 1_209_600, 604_800))
    nominal = sum(waits)
    if nominal > total_ms:
        raise _wrong(
            f"{at}/max_total_time", total_ms / 1_000, f"at least {nominal / 1_000:g} s, the sum of the waits"
        )
    retried, ended = (_statuses(given, name, at) for name in ("retry_statuses", "dead_statuses"))
    if both := [status for status in retried if status in ended]:
        raise _wrong(f"{at}/dead_statuses", both[0], "no status that is in retry_statuses too")
    return Retry(
        delays_ms=tuple(waits),
        jitter=jitter,
        max_total_ms=total_ms,
        honor_retry_after=_flag(given, "honor_retry_after", at, True),
        max_retry_after_ms=_ms(_number(given, "max_retry_after", at, 0, 604_800, 86_400)),
        overload_floor_ms=_ms(_number(given, "overload_floor", at, 0, 3_600, 30)),
        profile=_choice(given, "profile", at, ("webhook", "sns"), profile),
        retry_statuses=retried,
        dead_statuses=ended,
    )


def _waits(given: Mapping[str, Any], at: str) -> tuple[list[int], Profile]:
    """Read the waits of a retry block, ms, and the profile that goes with them."""
    ways = [name for name in ("schedule", "preset") if name in given]
    if len(ways) + any(name in given for name in _PHASES) > 1:
        raise _wrong(f"{at}/{ways[0]}", given[ways[0]], "one of schedule, preset and the phases, not two")
    if "preset" in given:
        name = _choice(given, "preset", at, tuple(_PRESETS), "standard")
        waits, profile = _PRESETS[name]
        return [_ms(wait) for wait in waits], profile
    if "schedule" in given:
        return [_ms(wait) for wait in _schedule(given["schedule"], f"{at}/schedule")], "webhook"
    defaults = (0, 0, 8, 0)
    counts = [_count(given, name, at, default) for name, default in zip(_COUNTS, defaults, strict=True)]
    if sum(counts) > MOST_RETRIES:
        raise _wrong(at, sum(counts), f"at most {MOST_RETRIES} retries in all phases together")
    least = _number(given, "min_delay", at, 0.1, 86_400, 5)
    most = _number(
        given, "max_delay", at, least, 604_800, max(3_600, least) if "max_delay" not in given else 0
    )
    function = _choice(given, "function", at, FUNCTIONS, "exponential")
    none, first, middle, last = counts
    backoff = backoff_ms(function, middle, least, most) if middle else []
    return [0] * none + [_ms(least)] * first + backoff + [_ms(most)] * last, "webhook"


def _schedule(value: object, at: str) -> list[float]:
    if not isinstance(value, list) or len(value) > MOST_RETRIES:
        raise _wrong(at, value, f"a list of at most {MOST_RETRIES} numbers of seconds")
    return [_in_range(one, f"{at}/{place}", 0, 604_800) for place, one in enumerate(value)]


def _statuses(given: Mapping[str, Any], name: str, at: str) -> tuple[int | str, ...]:
    value = given.get(name, [])
    expected = 'a list of at most 50 codes 300 to 599, but not 410, or classes "3xx", "4xx", "5xx"'
    if not isinstance(value, list) or len(value) > 50:
        raise _wrong(f"{at}/{name}", value, expected)
    for place, one in enumerate(value):
        is_code = isinstance(one, int) and not isinstance(one, bool) and 300 <= one <= 599 and one != 410
        if not is_code and one not in _CLASSES:
            raise _wrong(f"{at}/{name}/{place}", one, expected)
    return tuple(value)


def _throttle(block: object, at: str) -> Throttling:
    given = _object(block, at, ("max_per_second", "burst", "max_in_flight"))
    rate = None
    if given.get("max_per_second") is not None:
        rate = _number(given, "max_per_second", at, 0.01, 10_000, 0)
    default = 1 if rate is None else math.ceil(rate)
    return Throttling(
        max_per_second=rate,
        burst=_count(given, "burst", at, default, 1, 10_000),
        max_in_flight=_count(given, "max_in_flight", at, 8, 1, 100),
    )


def _request(block: object, at: str) -> Request:
    given = _object(block, at, ("timeout", "connect_timeout", "body", "content_type", "headers"))
    content_type = given.get("content_type", "application/json")
    if not isinstance(content_type, str) or not _VALUE(content_type) or len(content_type) > 255:
        raise _wrong(f"{at}/content_type", content_type, "a media type")
    return Request(
        timeout_ms=_ms(_number(given, "timeout", at, 1, 30, 15)),
        connect_timeout_ms=_ms(_number(given, "connect_timeout", at, 0.5, 10, 5)),
        body=_choice(given, "body", at, ("envelope", "raw", "cloudevents"), "envelope"),
        content_type=content_type,
        headers=_headers(given.get("headers", {}), f"{at}/headers"),
    )


_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}").fullmatch
_VALUE = re.compile(r"[\t\x20-\x7e]*").fullmatch


def _headers(value: object, at: str) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > 20:
        raise _wrong(at, value, "an object of at most 20 headers")
    for name, text in value.items():
        if not isinstance(name, str) or not _NAME(name) or DENIED_HEADERS.fullmatch(name):
            raise _wrong(
                f"{at}/{name}", name, "the name of a header that is not Anew's or the connection's own"
            )
        if not isinstance(text, str) or not _VALUE(text):
            raise _wrong(f"{at}/{name}", text, "a text of visible ASCII characters, without line breaks")
    if sum(len(name) + len(text) for name, text in value.items()) > 4_096:
        raise _wrong(at, len(value), "at most 4 KiB of headers")
    return value


def _health(block: object, at: str) -> Health:
    known = ("breaker_failures", "breaker_open", "breaker_open_max", "disable_after", "disable_min_failures",
             "disable_on_gone")  # fmt: skip
    given = _object(block, at, known)
    failures = given.get("breaker_failures", 10)
    after = given.get("disable_after", 432_000.0)
    least = _number(given, "breaker_open", at, 1, 3_600, 30)
    most = _number(given, "breaker_open_max", at, least, 86_400, max(600.0, least))
    return Health(
        breaker_failures=None if failures is None else _count(given, "breaker_failures", at, 10, 1, 1_000),
        breaker_open_ms=_ms(least),
        breaker_open_max_ms=_ms(most),
        disable_after_ms=None
        if after is None
        else _ms(_in_range(after, f"{at}/disable_after", 3_600, 2_592_000)),
        disable_min_failures=_count(given, "disable_min_failures", at, 20, 1, 10_000),
        disable_on_gone=_flag(given, "disable_on_gone", at, True),
    )


_READERS: Final[dict[str, Callable[[object, str], Any]]] = {
    "retry": _retry,
    "throttle": _throttle,
    "request": _request,
    "health": _health,
}

# -- single values


def _wrong(at: str, value: object, expected: str) -> InvalidInput:
    return InvalidInput(f"{at or '/'}: expected {expected}, got {value!r:.60}", field=at, value=value)


def _object(value: object, at: str, known: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(at, value, "an object")
    for name in value:
        if name not in known:
            raise _wrong(f"{at}/{name}", value[name], f"one of {', '.join(known)}")
    return value


def _in_range(value: object, at: str, least: float, most: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        raise _wrong(at, value, f"a number from {least:g} to {most:g}")
    return float(value)  # type: ignore[arg-type]


def _number(given: Mapping[str, Any], name: str, at: str, least: float, most: float, default: float) -> float:
    return _in_range(given.get(name, default), f"{at}/{name}", least, most)


def _count(
    given: Mapping[str, Any], name: str, at: str, default: int, least: int = 0, most: int = MOST_RETRIES
) -> int:
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(f"{at}/{name}", value, f"a whole number from {least} to {most}")
    return value


def _flag(given: Mapping[str, Any], name: str, at: str, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise _wrong(f"{at}/{name}", value, "true or false")
    return value


def _choice(given: Mapping[str, Any], name: str, at: str, choices: Sequence[str], default: str) -> Any:
    value = given.get(name, default)
    if value not in choices:
        raise _wrong(f"{at}/{name}", value, f"one of {', '.join(choices)}")
    return value

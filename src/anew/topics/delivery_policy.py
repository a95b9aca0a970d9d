"""Delivery policies: what a subscriber's deliveries are retried by, how many run, what is sent, and when to stop for good.

Pure. A policy has four blocks; server, topic and subscription may each give some of them, and a block that a later one gives
replaces the earlier one as a whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from anew.backoff import Policy
from anew.backoff.policy import MAX_POLICY_BYTES
from anew.errors import InvalidPolicy
from anew.topics.guard import may_be_set
from anew.topics.json_fields import choice, count, flag, in_range, member, number, read_object, wrong
from anew.units import format_duration_short

Profile = Literal["webhook", "sns"]
BodyForm = Literal["envelope", "raw", "cloudevents"]


class Retry(Struct, frozen=True, kw_only=True):
    """When a failed delivery is tried again.

    Attributes:
        delays_ms: The nominal wait before each retry, ms; as many as there are retries.
        jitter: Each wait is multiplied by 1 plus a number between minus this and this; 0 to 0.5. Zero waits stay zero.
        policy: The canonical form of the engine's policy that decides instead, with a jitter of its own; None: there is none.
        max_total_ms: The sum of the nominal waits, and the latest end of a policy, may not be more.
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
    policy: dict[str, Any] | None = None


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
LONGEST_MIN_DELAY_S: Final = 86_400
LONGEST_S: Final = 604_800
"""The longest wait."""

LONGEST_TOTAL_S: Final = 1_209_600
"""The longest time that all waits may come to."""


def backoff_ms(function: str, n: int, least_s: float, most_s: float) -> list[int]:
    """Give the waits of a backoff phase: the first is exactly the least, the last exactly the most, none is below its forerunner.

    Args:
        function: One of `FUNCTIONS`.
        n: How many. One wait alone is the least.
        least_s, most_s: Seconds.

    Returns:
        Milliseconds, as ``floor(1000 d + 0.5)`` of seconds in double precision.

    Source:
        The shapes that the proposal of Zaqar's retry policies promises, over n waits.
    """
    if n < 2:
        return [_ms(least_s)] * n
    span = most_s - least_s
    shapes: dict[str, Callable[[int], float]] = {
        "linear": lambda i: least_s + span * (i - 1) / (n - 1),
        "arithmetic": lambda i: least_s + span * i * (i - 1) / (n * (n - 1)),
        "geometric": lambda i: least_s * (most_s / least_s) ** ((i - 1) / (n - 1)),
        "exponential": lambda i: least_s + span * (2.0 ** (i - 1) - 1) / (2.0 ** (n - 1) - 1),
    }
    shape = shapes[function]
    # The ends are given, not calculated: least + (most - least) may miss most by a rounding error.
    inner = [_ms(min(max(shape(i), least_s), most_s)) for i in range(2, n)]
    return list(accumulate([_ms(least_s), *inner, _ms(most_s)], max))


def _ms(seconds: float) -> int:
    return math.floor(1_000 * seconds + 0.5)


class DelayPhase(NamedTuple):
    """A part of a retry block's waits.

    Attributes:
        name: ``immediate``, ``pre-backoff``, ``backoff`` or ``post-backoff``; a schedule, a preset and a policy are one part each.
        delays_ms: The nominal waits.
    """

    name: str
    delays_ms: list[int]


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
_DEFAULT_RETRY: Final = {"preset": "standard"}
_COUNTS = ("no_delay_retries", "min_delay_retries", "backoff_retries", "max_delay_retries")
_PHASES = (*_COUNTS, "min_delay", "max_delay", "function")
_CLASSES = ("3xx", "4xx", "5xx")


def layer_of(document: object, pointer: str = "") -> Layer:
    """Check blocks that somebody gives, and give them back.

    Args:
        document: A JSON object with any of ``retry``, ``throttle``, ``request``, ``health``.
        pointer: Where it stands, for errors.

    Raises:
        InvalidInput: Something does not fit; its field is a JSON pointer.
    """
    blocks = read_object(document, pointer, tuple(_READERS))
    for name, block in blocks.items():
        _READERS[name](block, f"{pointer}/{name}")
    return blocks


def effective(layers: Sequence[tuple[str, Layer]]) -> tuple[DeliveryPolicy, dict[str, str]]:
    """Give the policy that holds, and by block who has given it.

    Args:
        layers: Checked ones with their names, the weakest first. A block replaces the same one of a weaker layer as a whole.
    """
    sources = dict.fromkeys(_READERS, "default")
    given: dict[str, Any] = {"retry": _DEFAULT_RETRY, "throttle": {}, "request": {}, "health": {}}
    for name, layer in layers:
        for block in layer:
            given[block], sources[block] = layer[block], name
    read = {block: _READERS[block](given[block], f"/{block}") for block in _READERS}
    return DeliveryPolicy(**read), sources


class Preview(Struct, frozen=True, kw_only=True):
    """What a delivery policy's retries come to, if all fail and requests take no time.

    Attributes:
        phases: The nominal waits, part by part; parts without a retry are left out.
        retry: The whole block.
    """

    phases: tuple[DelayPhase, ...]
    retry: Retry

    def to_json(self) -> dict[str, Any]:
        """Give waits and their sum in seconds, and the number of attempts."""
        waits = self.retry.delays_ms
        return {
            "delays": [seconds(wait) for wait in waits],
            "total": seconds(sum(waits)),
            "attempts": len(waits) + 1,
        }


def preview(document: object) -> Preview:
    """Give the schedule that a delivery policy alone makes; without a retry block that is the preset ``standard``.

    Raises:
        InvalidInput: As for `layer_of`.
    """
    block = layer_of(document).get("retry", _DEFAULT_RETRY)
    parts, _, _ = _parts(block, "/retry")
    return Preview(phases=tuple(part for part in parts if part.delays_ms), retry=_retry(block, "/retry"))


def seconds(ms: int) -> float:
    """Give milliseconds in seconds, as a whole number where it is one: that is how people write it."""
    whole, part = divmod(ms, 1_000)
    return ms / 1_000 if part else whole


def engine_policy(retry: Retry) -> bytes:
    """Give the engine's own policy that waits as a retry block says, as JSON."""
    if retry.policy is not None:
        # A Retry-After has been held to the block's own bounds already.
        return msgspec.json.encode({**retry.policy, "override": "exact"})
    waits = [format_duration_short(wait) for wait in retry.delays_ms] or ["0ms"]
    policy: dict[str, Any] = {"curve": {"table": waits}, "limit": len(retry.delays_ms)}
    if retry.jitter:
        policy["jitter"] = {"around": retry.jitter}
    return msgspec.json.encode(policy)


def _retry(block: object, at: str) -> Retry:
    known = (*_PHASES, "schedule", "preset", "policy", "jitter", "max_total_time", "honor_retry_after", "max_retry_after",
             "overload_floor", "profile", "retry_statuses", "dead_statuses")  # fmt: skip
    given = read_object(block, at, known)
    parts, profile, own = _parts(given, at)
    waits = [wait for part in parts for wait in part.delays_ms]
    total_ms = _ms(number(given, "max_total_time", at, 0, LONGEST_TOTAL_S, 604_800))
    least, what = (
        (sum(waits), "the sum of the nominal waits")
        if own is None
        else (_latest_end_ms(own), "when the policy may end, or fewer retries")
    )
    if least > total_ms:
        expected = f"at least {seconds(least)} seconds, which is {what}"
        raise wrong(f"{at}/max_total_time", given.get("max_total_time", 604_800), expected)
    retried, ended = (_statuses(given, name, at) for name in ("retry_statuses", "dead_statuses"))
    if both := [status for status in retried if status in ended]:
        raise wrong(f"{at}/dead_statuses", both[0], "no status that is in retry_statuses too")
    return Retry(
        delays_ms=tuple(waits),
        jitter=number(given, "jitter", at, 0, 0.5, 0.1) if own is None else 0.0,
        policy=None if own is None else own.to_json(),
        max_total_ms=total_ms,
        honor_retry_after=flag(given, "honor_retry_after", at, True),
        max_retry_after_ms=_ms(number(given, "max_retry_after", at, 0, 604_800, 86_400)),
        overload_floor_ms=_ms(number(given, "overload_floor", at, 0, 3_600, 30)),
        profile=choice(given, "profile", at, ("webhook", "sns"), profile),
        retry_statuses=retried,
        dead_statuses=ended,
    )


def _parts(given: Mapping[str, Any], at: str) -> tuple[list[DelayPhase], Profile, Policy | None]:
    """Read the waits of a retry block, the profile that goes with them, and the engine's policy, if it is one."""
    ways = [name for name in ("schedule", "preset", "policy") if name in given]
    phase_fields = [name for name in (*_PHASES, *(["jitter"] if "policy" in given else [])) if name in given]
    if len(ways) + bool(phase_fields) > 1:
        both = [*ways, *phase_fields][:2]
        raise wrong(member(at, both[0]), given[both[0]], f"only one of {both[0]} and {both[1]}")
    if "preset" in given:
        name = choice(given, "preset", at, tuple(_PRESETS), "standard")
        waits, profile = _PRESETS[name]
        return [DelayPhase(f"preset {name}", [_ms(wait) for wait in waits])], profile, None
    if "schedule" in given:
        schedule = _schedule(given["schedule"], f"{at}/schedule")
        return [DelayPhase("schedule", [_ms(wait) for wait in schedule])], "webhook", None
    if "policy" in given:
        own = _own_policy(given["policy"], f"{at}/policy")
        nominal = [int(own.nominal(k)) for k in range(1, (own.retries or 0) + 1)]
        return [DelayPhase("policy", nominal)], "webhook", own
    return _phases(given, at), "webhook", None


def _own_policy(value: object, at: str) -> Policy:
    """Read a policy of the engine that can end a delivery: of so many retries, and the dead are kept."""
    try:
        policy = Policy.from_json(value)
        policy = policy.with_limit(policy.limit)
    except InvalidPolicy as error:
        raise InvalidPolicy(f"{at}: {error}", field=_pointer(at, error.field), value=error.value) from error
    if policy.retries is None or policy.retries > MOST_RETRIES:
        raise wrong(f"{at}/limit", policy.limit, f"a limit of at most {MOST_RETRIES} retries")
    for name, expected in (
        ("override", "none: honor_retry_after and max_retry_after say it"),
        ("on_exhausted", "none: a dead delivery is kept"),
    ):
        if name in policy.to_json():
            raise wrong(f"{at}/{name}", getattr(policy, name), expected)
    if len(policy.to_bytes()) > MAX_POLICY_BYTES:
        raise wrong(at, value, f"at most {MAX_POLICY_BYTES} bytes")
    return policy


def _pointer(at: str, path: str | None) -> str:
    """Give the JSON pointer to a field of a policy, such as ``curve.table[3]``."""
    parts = re.findall(r"[^.\[\]]+", path or "")
    return at if parts == ["policy"] else "/".join([at, *parts])


def _latest_end_ms(policy: Policy) -> int:
    """Give when the last retry starts at the latest, ms after the first failure, if attempts take no time."""
    total = before = 0.0
    for retry in range(1, (policy.retries or 0) + 1):
        nominal = policy.nominal(retry)
        reach = policy.jitter.reach(retry, policy.place(retry)[1], nominal, policy.nominal, before)
        before, step = (
            max(float(policy.floor_ms), min(end, float(policy.highest_ms)))
            for end in (reach.latest, reach.step_latest)
        )
        total += step
    return math.ceil(total if policy.deadline_ms is None else min(total, policy.deadline_ms))


def _phases(given: Mapping[str, Any], at: str) -> list[DelayPhase]:
    defaults = (0, 0, 8, 0)
    counts = [
        count(given, name, at, default, 0, MOST_RETRIES)
        for name, default in zip(_COUNTS, defaults, strict=True)
    ]
    if sum(counts) > MOST_RETRIES:
        raise wrong(at, sum(counts), f"at most {MOST_RETRIES} retries in all phases together")
    least = number(given, "min_delay", at, 0.1, LONGEST_MIN_DELAY_S, 5)
    most = number(given, "max_delay", at, least, LONGEST_S, max(3_600, least))
    function = choice(given, "function", at, FUNCTIONS, "exponential")
    without, early, middle, late = counts
    return [
        DelayPhase("immediate", [0] * without),
        DelayPhase("pre-backoff", [_ms(least)] * early),
        DelayPhase("backoff", backoff_ms(function, middle, least, most)),
        DelayPhase("post-backoff", [_ms(most)] * late),
    ]


def _schedule(value: object, at: str) -> list[float]:
    if not isinstance(value, list) or len(value) > MOST_RETRIES:
        raise wrong(at, value, f"a list of at most {MOST_RETRIES} numbers of seconds")
    return [in_range(one, f"{at}/{place}", 0, LONGEST_S) for place, one in enumerate(value)]


def _statuses(given: Mapping[str, Any], name: str, at: str) -> tuple[int | str, ...]:
    value = given.get(name, [])
    expected = 'a list of at most 50 codes 300 to 599, but not 410, or classes "3xx", "4xx", "5xx"'
    if not isinstance(value, list) or len(value) > 50:
        raise wrong(f"{at}/{name}", value, expected)
    for place, one in enumerate(value):
        is_code = isinstance(one, int) and not isinstance(one, bool) and 300 <= one <= 599 and one != 410
        if not is_code and one not in _CLASSES:
            raise wrong(f"{at}/{name}/{place}", one, expected)
    return tuple(value)


def _throttle(block: object, at: str) -> Throttling:
    given = read_object(block, at, ("max_per_second", "burst", "max_in_flight"))
    rate = None
    if given.get("max_per_second") is not None:
        rate = number(given, "max_per_second", at, 0.01, 10_000, 0)
    burst = 1 if rate is None else math.ceil(rate)
    if given.get("burst") is not None:
        burst = count(given, "burst", at, burst, 1, 10_000)
    return Throttling(
        max_per_second=rate, burst=burst, max_in_flight=count(given, "max_in_flight", at, 8, 1, 100)
    )


def _request(block: object, at: str) -> Request:
    given = read_object(block, at, ("timeout", "connect_timeout", "body", "content_type", "headers"))
    content_type = given.get("content_type", "application/json")
    if not isinstance(content_type, str) or not _MEDIA_TYPE(content_type) or len(content_type) > 255:
        raise wrong(f"{at}/content_type", content_type, "a media type such as application/json")
    return Request(
        timeout_ms=_ms(number(given, "timeout", at, 1, 30, 15)),
        connect_timeout_ms=_ms(number(given, "connect_timeout", at, 0.5, 10, 5)),
        body=choice(given, "body", at, ("envelope", "raw", "cloudevents"), "envelope"),
        content_type=content_type,
        headers=_headers(given.get("headers", {}), f"{at}/headers"),
    )


_MEDIA_TYPE = re.compile(r"[!#$&^_.+0-9A-Za-z-]+/[!#$&^_.+0-9A-Za-z-]+(;[\t\x20-\x7e]*)?").fullmatch
_VALUE = re.compile(r"[\t\x20-\x7e]*").fullmatch


def _headers(value: object, at: str) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > 20:
        raise wrong(at, value, "an object of at most 20 headers")
    for name, text in value.items():
        if not isinstance(name, str) or len(name) > 128 or not may_be_set(name):
            expected = "the name of a header that is not Anew's or the connection's own"
            raise wrong(member(at, name), name, expected)
        if not isinstance(text, str) or not _VALUE(text):
            raise wrong(member(at, name), text, "a text of visible ASCII characters, without line breaks")
    if sum(len(name) + len(text) for name, text in value.items()) > 4_096:
        raise wrong(at, value, "at most 4 KiB of headers, names and values together")
    return value


def _health(block: object, at: str) -> Health:
    known = ("breaker_failures", "breaker_open", "breaker_open_max", "disable_after", "disable_min_failures",
             "disable_on_gone")  # fmt: skip
    given = read_object(block, at, known)
    failures = given.get("breaker_failures", 10)
    after = given.get("disable_after", 432_000.0)
    least = number(given, "breaker_open", at, 1, 3_600, 30)
    most = number(given, "breaker_open_max", at, least, 86_400, max(600.0, least))
    return Health(
        breaker_failures=None if failures is None else count(given, "breaker_failures", at, 10, 1, 1_000),
        breaker_open_ms=_ms(least),
        breaker_open_max_ms=_ms(most),
        disable_after_ms=None
        if after is None
        else _ms(number(given, "disable_after", at, 3_600, 2_592_000, after)),
        disable_min_failures=count(given, "disable_min_failures", at, 20, 1, 10_000),
        disable_on_gone=flag(given, "disable_on_gone", at, True),
    )


_READERS: Final[dict[str, Callable[[object, str], Any]]] = {
    "retry": _retry,
    "throttle": _throttle,
    "request": _request,
    "health": _health,
}

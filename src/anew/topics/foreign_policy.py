"""Delivery policies of Amazon SNS and of OpenStack Zaqar, put into Anew's own form. Pure.

What a policy says there and cannot say here is refused or named in a warning; nothing is dropped silently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from anew.backoff.presets.notifications import ZAQAR_STEP_S, shipped_seconds
from anew.errors import InvalidInput
from anew.topics.delivery_policy import (
    FUNCTIONS,
    LONGEST_MIN_DELAY_S,
    LONGEST_S,
    LONGEST_TOTAL_S,
    MOST_RETRIES,
    layer_of,
)
from anew.topics.json_fields import choice, count, flag, member, read_object, wrong

ZaqarMode = Literal["as_shipped", "as_documented"]
ZaqarOwner = Literal["queue", "subscription"]


class Converted(Struct, frozen=True, kw_only=True):
    """A foreign policy in Anew's form.

    Attributes:
        policy: A delivery policy as `anew.topics.delivery_policy.layer_of` reads it.
        warnings: What was left out or will be different, a sentence each.
        lock: Whether the topic it belongs to wants ``lock_delivery_policy``.
    """

    policy: dict[str, Any]
    warnings: list[str]
    lock: bool = False


# -- Amazon SNS

_SNS_COUNTS: Final = {
    "numNoDelayRetries": "no_delay_retries",
    "numMinDelayRetries": "min_delay_retries",
    "numMaxDelayRetries": "max_delay_retries",
}
_SNS_RETRY: Final = ("minDelayTarget", "maxDelayTarget", "numRetries", *_SNS_COUNTS, "backoffFunction")
_SNS_BLOCKS: Final = ("healthyRetryPolicy", "throttlePolicy", "requestPolicy")
_SNS_TOPIC_BLOCKS: Final = ("defaultHealthyRetryPolicy", "defaultThrottlePolicy", "defaultRequestPolicy")
_SNS_DROPPED: Final = ("defaultSicklyRetryPolicy", "sicklyRetryPolicy", "guaranteed")

SNS_FIELDS: Final = (
    "http", *_SNS_TOPIC_BLOCKS, *_SNS_BLOCKS, *_SNS_DROPPED, "disableSubscriptionOverrides", *_SNS_RETRY,
    "maxReceivesPerSecond", "headerContentType",
)  # fmt: skip
"""Every name in a delivery policy of SNS."""

_SNS_LONGEST: Final = 3_600
"""Seconds that SNS allows the waits of an HTTP endpoint to sum up to, and the longest of them to last."""


def from_sns(document: object) -> Converted:
    """Convert a delivery policy of SNS, a topic's (all under ``http``) or a subscription's.

    Args:
        document: The decoded JSON of the attribute ``DeliveryPolicy``.

    Raises:
        InvalidInput: It is none that SNS takes, or exceeds what Anew takes; the field is a JSON pointer into it.
    """
    of_topic = isinstance(document, dict) and "http" in document
    if of_topic:
        at, given, names = "/http", read_object(document, "", ("http",))["http"], _SNS_TOPIC_BLOCKS
        others: tuple[str, ...] = ("disableSubscriptionOverrides", "defaultSicklyRetryPolicy", "guaranteed")
    else:
        at, given, names = "", document, _SNS_BLOCKS
        others = ("sicklyRetryPolicy", "guaranteed")
    blocks = read_object(given, at, names + others)
    warnings = [
        f"{name} is left out: SNS keeps it for old programs alone" for name in _SNS_DROPPED if name in blocks
    ]
    policy: dict[str, Any] = {}
    retry, throttle, request = (blocks.get(name) for name in names)
    if retry is not None or of_topic:
        # Above a topic SNS has nothing but its defaults: a topic that names no retries has those.
        policy["retry"] = _sns_retry({} if retry is None else retry, member(at, names[0]))
    if throttle is not None:
        policy |= _sns_throttle(throttle, member(at, names[1]))
    if request is not None:
        policy |= _sns_request(request, member(at, names[2]), warnings)
    lock = flag(blocks, "disableSubscriptionOverrides", at, False)
    return Converted(policy=policy, warnings=warnings, lock=lock)


def _sns_retry(value: object, at: str) -> dict[str, Any]:
    given = read_object(value, at, _SNS_RETRY)
    least = count(given, "minDelayTarget", at, 20, 1, _SNS_LONGEST)
    most = count(given, "maxDelayTarget", at, 20, 1, _SNS_LONGEST)
    if most < least:
        raise wrong(member(at, "maxDelayTarget"), most, f"at least minDelayTarget, which is {least}")
    retries = count(given, "numRetries", at, 3, 0, MOST_RETRIES)
    counts = {ours: count(given, theirs, at, 0, 0, MOST_RETRIES) for theirs, ours in _SNS_COUNTS.items()}
    if sum(counts.values()) > retries:
        expected = f"at least {sum(counts.values())}, the sum of {', '.join(_SNS_COUNTS)}"
        raise wrong(member(at, "numRetries"), retries, expected)
    retry = {
        "no_delay_retries": counts["no_delay_retries"],
        "min_delay_retries": counts["min_delay_retries"],
        "backoff_retries": retries - sum(counts.values()),
        "max_delay_retries": counts["max_delay_retries"],
        "min_delay": least,
        "max_delay": most,
        "function": choice(given, "backoffFunction", at, FUNCTIONS, "linear"),
        "profile": "sns",
        "max_total_time": _SNS_LONGEST,
    }
    _checked({"retry": retry}, at)
    return retry


def _sns_throttle(value: object, at: str) -> dict[str, Any]:
    given = read_object(value, at, ("maxReceivesPerSecond",))
    if given.get("maxReceivesPerSecond") is None:
        return {}
    return {"throttle": {"max_per_second": count(given, "maxReceivesPerSecond", at, 1, 1, 10_000)}}


def _sns_request(value: object, at: str, warnings: list[str]) -> dict[str, Any]:
    given = read_object(value, at, ("headerContentType",))
    if "headerContentType" not in given:
        return {}
    request = {"content_type": given["headerContentType"]}
    _checked({"request": request}, member(at, "headerContentType"), "/request/content_type")
    warnings.append(
        'headerContentType holds only where bodies are sent as published ("body": "raw"); '
        "Anew's envelope is always JSON"
    )
    return {"request": request}


# -- OpenStack Zaqar

ZAQAR_FIELDS: Final = (
    "retries_with_no_delay", "minimum_delay_retries", "minimum_delay", "maximum_delay", "maximum_delay_retries",
    "retry_backoff_function", "ignore_subscription_override",
)  # fmt: skip
"""Every field of a ``_retry_policy`` that Zaqar reads."""


class _Zaqar(Struct, frozen=True, kw_only=True):
    """A ``_retry_policy`` with Zaqar's defaults filled in; delays in seconds."""

    no_delay: int
    early: int
    least: int
    most: int
    late: int
    function: str

    @property
    def steps(self) -> int:
        return (self.most - self.least) // ZAQAR_STEP_S


def from_zaqar(document: object, mode: ZaqarMode = "as_shipped", of: ZaqarOwner = "queue") -> Converted:
    """Convert a ``_retry_policy`` of Zaqar, alone or in the object that has it: a queue's metadata, a subscription's options.

    Args:
        document: The decoded JSON.
        mode: ``as_shipped`` gives the waits that Zaqar really makes; ``as_documented`` its four phases with the functions
            that its documentation means.
        of: Whose it is: a queue may lock its policy, a subscription may not.

    Raises:
        InvalidInput: Zaqar cannot carry it out, or it exceeds what Anew takes; the field is a JSON pointer into it.
    """
    warnings: list[str] = []
    policy: dict[str, Any] = {}
    options: Mapping[str, Any] = {}
    value, at = document, ""
    if isinstance(document, dict) and document.keys() & {"_retry_policy", "post_headers", "post_data"}:
        options = document
        value, at = document.get("_retry_policy"), "/_retry_policy"
        value = {} if value is None else value
    given = _zaqar_fields(value, at, warnings)
    lock = flag(given, "ignore_subscription_override", at, False)
    if lock and of == "subscription":
        expected = "false: a subscription cannot lock itself out; lock the policy of its topic"
        raise wrong(member(at, "ignore_subscription_override"), True, expected)
    # To Zaqar a subscription's empty policy is none, and the queue's holds.
    if value or of == "queue":
        read = _read_zaqar(given, at)
        retry = _as_shipped(read, at) if mode == "as_shipped" else _as_documented(read, at, warnings)
        policy["retry"] = _with_total(retry, at)
    if of == "subscription":
        policy |= _zaqar_request(options, warnings)
    else:
        strays = [name for name in ("post_headers", "post_data") if name in options]
        warnings += [f"{name} is left out: it belongs to a subscription" for name in strays]
    return Converted(policy=policy, warnings=warnings, lock=lock)


def _zaqar_fields(value: object, at: str, warnings: list[str]) -> dict[str, Any]:
    """Give the fields that mean something. Zaqar takes any other, and heeds none: no error for who moves."""
    if not isinstance(value, dict):
        raise wrong(at, value, "an object")
    warnings += [f"{name} is left out: Zaqar has no such field" for name in value if name not in ZAQAR_FIELDS]
    return {name: value[name] for name in ZAQAR_FIELDS if name in value}


def _read_zaqar(given: Mapping[str, Any], at: str) -> _Zaqar:
    least = count(given, "minimum_delay", at, 5, 0, LONGEST_S)
    most = count(given, "maximum_delay", at, 30, 0, LONGEST_S)
    if most - least < 2 * ZAQAR_STEP_S:
        expected = f"at least {2 * ZAQAR_STEP_S} seconds above minimum_delay, which is {least}"
        raise wrong(member(at, "maximum_delay"), most, expected)
    return _Zaqar(
        no_delay=count(given, "retries_with_no_delay", at, 3, 0, MOST_RETRIES),
        early=count(given, "minimum_delay_retries", at, 3, 0, MOST_RETRIES),
        least=least,
        most=most,
        late=count(given, "maximum_delay_retries", at, 3, 0, MOST_RETRIES),
        function=choice(given, "retry_backoff_function", at, FUNCTIONS, "linear"),
    )


def _as_shipped(zaqar: _Zaqar, at: str) -> dict[str, Any]:
    backoff = (
        math.ceil((zaqar.most - zaqar.least) / ZAQAR_STEP_S) if zaqar.function == "linear" else zaqar.steps
    )
    retries = zaqar.no_delay + zaqar.early + backoff + zaqar.late
    if retries > MOST_RETRIES:
        expected = (
            f"at most {MOST_RETRIES} retries in all; the mode as_documented cuts the backoff phase to fit"
        )
        raise wrong(at, retries, expected)
    if not zaqar.least and zaqar.function in ("geometric", "exponential"):
        raise wrong(
            member(at, "minimum_delay"), 0, f"more than 0: Zaqar itself fails on 0 with {zaqar.function}"
        )
    early, late = [zaqar.least] * zaqar.early, [zaqar.most] * zaqar.late
    waits = shipped_seconds(zaqar.function, zaqar.least, zaqar.most)
    return {"schedule": [0] * zaqar.no_delay + early + waits + late}


def _as_documented(zaqar: _Zaqar, at: str, warnings: list[str]) -> dict[str, Any]:
    if not 1 <= zaqar.least <= LONGEST_MIN_DELAY_S:
        raise wrong(
            member(at, "minimum_delay"), zaqar.least, f"a whole number from 1 to {LONGEST_MIN_DELAY_S}"
        )
    others = zaqar.no_delay + zaqar.early + zaqar.late
    if others > MOST_RETRIES:
        raise wrong(at, others, f"at most {MOST_RETRIES} retries in all phases together")
    backoff = min(zaqar.steps, MOST_RETRIES - others)
    if backoff < zaqar.steps:
        warnings.append(
            f"the backoff phase has {backoff} retries, not {zaqar.steps}: Anew makes at most {MOST_RETRIES} in all"
        )
    return {
        "no_delay_retries": zaqar.no_delay,
        "min_delay_retries": zaqar.early,
        "backoff_retries": backoff,
        "max_delay_retries": zaqar.late,
        "min_delay": zaqar.least,
        "max_delay": zaqar.most,
        "function": zaqar.function,
    }


def _zaqar_request(options: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    if "post_data" in options:
        warnings.append("post_data is left out: Anew has no templates of bodies")
    given = options.get("post_headers")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise wrong("/post_headers", given, "an object")
    headers = {name: text for name, text in given.items() if str(name).lower() != "content-type"}
    request: dict[str, Any] = {"headers": headers} if headers else {}
    _checked({"request": request}, "/post_headers", "/request/headers")
    for name in given.keys() - headers.keys():
        request["content_type"] = given[name]
        _checked({"request": request}, member("/post_headers", name), "/request/content_type")
        warnings.append(
            f'{name} holds only where bodies are sent as published ("body": "raw"); Anew\'s envelope is always JSON'
        )
    return {"request": request} if request else {}


# -- both


def _with_total(retry: dict[str, Any], at: str) -> dict[str, Any]:
    """Give a retry block with as much total time as its waits need: Zaqar has no bound."""
    try:
        layer_of({"retry": retry})
        return retry
    except InvalidInput as error:
        if error.field != "/retry/max_total_time":
            raise
    longest = retry | {"max_total_time": LONGEST_TOTAL_S}
    _checked({"retry": longest}, at)
    return longest


def _checked(policy: dict[str, Any], at: str, ours: str | None = None) -> None:
    """Refuse what Anew's own form does not hold, with a pointer into the foreign document.

    Args:
        policy: In Anew's form.
        at: The place that it was made of.
        ours: Where that stands in the policy: what is wrong below it is wrong at the same place below ``at``; None: nowhere.
    """
    try:
        layer_of(policy)
    except InvalidInput as error:
        inside = ours is not None and error.field.startswith(ours)
        field = at + error.field.removeprefix(ours or "") if inside else at
        message = str(error).removeprefix(f"{error.field}: ")
        raise InvalidInput(f"{field or 'the document'}: {message}", field=field, value=error.value) from error

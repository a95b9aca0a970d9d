"""Delivery policies: what is read, what is refused, and to the millisecond what the engine makes of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anew.backoff import Draws, Exhausted, Policy, Wait, next_wait
from anew.errors import InvalidInput
from anew.topics.delivery_policy import (
    FUNCTIONS,
    DeliveryPolicy,
    Layer,
    Retry,
    backoff_ms,
    effective,
    engine_policy,
    layer_of,
    preview,
)

TABLE = {
    "linear": [5_000, 33_333, 61_667, 90_000, 118_333, 146_667, 175_000, 203_333, 231_667, 260_000],
    "arithmetic": [5_000, 10_667, 22_000, 39_000, 61_667, 90_000, 124_000, 163_667, 209_000, 260_000],
    "geometric": [5_000, 7_756, 12_031, 18_663, 28_949, 44_906, 69_658, 108_054, 167_612, 260_000],
    "exponential": [5_000, 5_499, 6_497, 8_493, 12_485, 20_470, 36_438, 68_376, 132_250, 260_000],
}
"""Ten retries from 5 to 260 s, ms, as the specification lists them."""

FULL = {
    "no_delay_retries": 3, "min_delay_retries": 2, "backoff_retries": 10, "max_delay_retries": 5,
    "min_delay": 5, "max_delay": 260, "function": "exponential", "jitter": 0,
}  # fmt: skip
"""The specification's example of all four phases."""

EXAMPLE = """
{"retry":    {"no_delay_retries": 0, "min_delay_retries": 0, "backoff_retries": 8, "max_delay_retries": 0,
              "min_delay": 5, "max_delay": 3600, "function": "exponential", "jitter": 0.1,
              "max_total_time": 604800, "honor_retry_after": true, "max_retry_after": 86400, "overload_floor": 30,
              "profile": "webhook", "retry_statuses": [], "dead_statuses": []},
 "throttle": {"max_per_second": null, "burst": null, "max_in_flight": 8},
 "request":  {"timeout": 15, "connect_timeout": 5, "body": "envelope", "content_type": "application/json", "headers": {}},
 "health":   {"breaker_failures": 10, "breaker_open": 30, "breaker_open_max": 600, "disable_after": 432000,
              "disable_min_failures": 20, "disable_on_gone": true}}
"""
"""The specification's document, in which every field has its default."""


def retry_of(block: Mapping[str, Any]) -> Retry:
    """The retry block that a policy with only this one has."""
    return policy_of({"retry": block}).retry


def policy_of(*documents: Mapping[str, Any]) -> DeliveryPolicy:
    """What holds after these layers, the weakest first."""
    return effective([(str(place), layer_of(document)) for place, document in enumerate(documents)])[0]


def refusal(document: object) -> InvalidInput:
    """The error that a document gets."""
    with pytest.raises(InvalidInput) as caught:
        layer_of(document)
    return caught.value


def engine_waits(retry: Retry, rng: Random | None = None) -> list[int]:
    """The waits that the engine decides, one retry after the other, until it gives up."""
    policy = Policy.from_json(msgspec.json.decode(engine_policy(retry)))
    draws = Draws((rng or Random(1)).random)
    waits: list[int] = []
    while isinstance(decided := next_wait(policy, len(waits) + 1, draws), Wait):
        waits.append(decided.wait_ms)
    assert isinstance(decided, Exhausted)
    return waits


# -- from phases to waits


@pytest.mark.parametrize("function", FUNCTIONS)
def test_notifications_10_each_function_gives_the_waits_of_the_table(function: str) -> None:
    assert backoff_ms(function, 10, 5, 260) == TABLE[function]


@pytest.mark.parametrize(
    ("function", "total_ms"),
    [("linear", 1_325_000), ("arithmetic", 985_001), ("geometric", 722_629), ("exponential", 555_508)],
)
def test_notifications_10_each_function_comes_to_the_sum_of_the_table(function: str, total_ms: int) -> None:
    retry = retry_of({"backoff_retries": 10, "min_delay": 5, "max_delay": 260, "function": function})
    assert sum(retry.delays_ms) == total_ms


def test_notifications_11_the_21_attempts_of_the_example_start_when_the_specification_says() -> None:
    """The schedule: each attempt ends as it starts, and the engine decides the waits."""
    waits = engine_waits(retry_of(FULL))
    starts = [sum(waits[:place]) for place in range(len(waits) + 1)]
    assert starts == [
        0, 0, 0, 0, 5_000, 10_000,
        15_000, 20_499, 26_996, 35_489, 47_974,
        68_444, 104_882, 173_258, 305_508, 565_508,
        825_508, 1_085_508, 1_345_508, 1_605_508, 1_865_508,
    ]  # fmt: skip


def test_notifications_12_exponential_and_geometric_are_two_functions_that_meet_where_the_range_doubles() -> (
    None
):
    """40 / 5 = 2^3, so from 5 to 40 in four waits both double."""
    assert backoff_ms("exponential", 10, 5, 260) != backoff_ms("geometric", 10, 5, 260)
    for function in ("exponential", "geometric"):
        assert backoff_ms(function, 4, 5, 40) == [5_000, 10_000, 20_000, 40_000]


def test_arithmetic_and_exponential_agree_on_three_waits() -> None:
    # 5 + 25 * 2 * 1 / (3 * 2) = 5 + 25 * 1 / 3
    for function in ("arithmetic", "exponential"):
        assert backoff_ms(function, 3, 5, 30) == [5_000, 13_333, 30_000]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_notifications_13_one_backoff_retry_waits_the_least_none_waits_nothing_and_equal_bounds_are_constant(
    function: str,
) -> None:
    block = {"min_delay": 7, "max_delay": 90, "function": function}
    assert retry_of(block | {"backoff_retries": 1}).delays_ms == (7_000,)
    around = {"min_delay_retries": 1, "max_delay_retries": 1}
    assert retry_of(block | around | {"backoff_retries": 0}).delays_ms == (7_000, 90_000)
    assert retry_of(block | {"backoff_retries": 0}).delays_ms == ()
    assert retry_of(block | {"max_delay": 7, "backoff_retries": 5}).delays_ms == (7_000,) * 5


@given(
    function=st.sampled_from(FUNCTIONS),
    n=st.integers(1, 100),
    least=st.floats(0.1, 86_400),
    share=st.floats(0, 1),
)
def test_notifications_14_waits_never_fall_nor_leave_their_bounds(
    function: str, n: int, least: float, share: float
) -> None:
    """Over all that is accepted."""
    most = min(max(least + share * (604_800 - least), least), 604_800)
    waits = backoff_ms(function, n, least, most)
    low, high = (math.floor(1_000 * bound + 0.5) for bound in (least, most))
    assert len(waits) == n
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (low, high if n > 1 else low)


def test_waits_are_rounded_half_up_to_whole_milliseconds() -> None:
    # 0.1005 s is 100.5 ms to double precision; 1.00049 s lies below the half.
    assert retry_of({"schedule": [0.1005, 1.00049, 0.0004, 0]}).delays_ms == (101, 1_000, 0, 0)


# -- presets and defaults


def test_notifications_15_the_preset_standard() -> None:
    """5 s, 5 m, 30 m, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h."""
    waits = retry_of({"preset": "standard"}).delays_ms
    assert waits == tuple(1_000 * s for s in (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400))
    assert (len(waits), sum(waits)) == (9, 272_105_000)


def test_notifications_16_the_preset_zaqar() -> None:
    waits = retry_of({"preset": "zaqar"}).delays_ms
    assert waits == tuple(1_000 * s for s in (0, 0, 0, 5, 5, 5, 5, 10, 15, 20, 25, 30, 30, 30))
    assert (len(waits), sum(waits)) == (14, 180_000)


def test_the_preset_sns_retries_as_sns_does() -> None:
    retry = retry_of({"preset": "sns"})
    assert (retry.delays_ms, retry.profile) == ((20_000, 20_000, 20_000), "sns")
    assert retry_of({"preset": "sns", "profile": "webhook"}).profile == "webhook"


def test_the_document_of_the_specification_says_what_holds_anyway() -> None:
    written = policy_of(msgspec.json.decode(EXAMPLE))
    assert written == policy_of({"retry": {}, "throttle": {}, "request": {}, "health": {}})
    # 8 x 5 + 3,595 x (2^8 - 1 - 8) / (2^7 - 1) = 40 + 6,991.850
    assert len(written.retry.delays_ms) == 8
    assert sum(written.retry.delays_ms) == 7_031_850


def test_without_a_retry_block_the_preset_standard_holds() -> None:
    assert policy_of().retry == policy_of({"retry": {"preset": "standard"}}).retry
    assert policy_of({"throttle": {}}).retry == policy_of().retry


@pytest.mark.parametrize(
    ("throttle", "burst"),
    [({"max_per_second": 2.5}, 3), ({"max_per_second": 0.01}, 1), ({"max_per_second": 9, "burst": 40}, 40),
     ({"max_per_second": 2.5, "burst": None}, 3)],
)  # fmt: skip
def test_a_burst_that_is_not_given_is_the_rate_rounded_up(throttle: dict[str, Any], burst: int) -> None:
    assert policy_of({"throttle": throttle}).throttle.burst == burst


# -- refusals

NAN = float("nan")


@pytest.mark.parametrize(
    ("block", "pointer"),
    [
        ({"min_delay": 0}, "/retry/min_delay"),
        ({"min_delay": 86_401, "max_delay": 90_000}, "/retry/min_delay"),
        ({"min_delay": 10, "max_delay": 9}, "/retry/max_delay"),
        ({"max_delay": 604_801}, "/retry/max_delay"),
        ({"no_delay_retries": 50, "max_delay_retries": 51, "backoff_retries": 0}, "/retry"),
        ({"no_delay_retries": 93}, "/retry"),  # and the eight that hold unless they are given
        ({"backoff_retries": -1}, "/retry/backoff_retries"),
        ({"backoff_retries": 101}, "/retry/backoff_retries"),
        ({"backoff_retries": 2.0}, "/retry/backoff_retries"),
        ({"backoff_retries": True}, "/retry/backoff_retries"),
        ({"backoff_retries": None}, "/retry/backoff_retries"),
        ({"backoff_retries": "3"}, "/retry/backoff_retries"),
        ({"jitter": 0.6}, "/retry/jitter"),
        ({"jitter": -0.1}, "/retry/jitter"),
        ({"jitter": NAN}, "/retry/jitter"),
        ({"jitter": True}, "/retry/jitter"),
        ({"min_delay": True}, "/retry/min_delay"),
        ({"min_delay": ""}, "/retry/min_delay"),
        ({"min_delay": None}, "/retry/min_delay"),
        ({"min_delay": "5"}, "/retry/min_delay"),
        ({"max_delay": float("inf")}, "/retry/max_delay"),
        ({"max_delay": 10**400}, "/retry/max_delay"),
        ({"function": "cubic"}, "/retry/function"),
        ({"function": ""}, "/retry/function"),
        ({"function": None}, "/retry/function"),
        ({"preset": "even"}, "/retry/preset"),
        ({"preset": None}, "/retry/preset"),
        ({"preset": "zaqar", "schedule": [1]}, "/retry/schedule"),
        ({"preset": "zaqar", "min_delay": 5}, "/retry/preset"),
        ({"schedule": [1], "function": "linear"}, "/retry/schedule"),
        ({"schedule": [1], "backoff_retries": 1}, "/retry/schedule"),
        ({"schedule": None}, "/retry/schedule"),
        ({"schedule": [0] * 101}, "/retry/schedule"),
        ({"schedule": [1, -1]}, "/retry/schedule/1"),
        ({"schedule": [1, 604_801]}, "/retry/schedule/1"),
        ({"schedule": [False]}, "/retry/schedule/0"),
        ({"max_total_time": 1_209_601}, "/retry/max_total_time"),
        ({"honor_retry_after": 1}, "/retry/honor_retry_after"),
        ({"max_retry_after": 604_801}, "/retry/max_retry_after"),
        ({"overload_floor": 3_601}, "/retry/overload_floor"),
        ({"profile": "zaqar"}, "/retry/profile"),
        ({"retry_statuses": [503, 200]}, "/retry/retry_statuses/1"),
        ({"retry_statuses": ["2xx"]}, "/retry/retry_statuses/0"),
        ({"retry_statuses": ["503"]}, "/retry/retry_statuses/0"),
        ({"retry_statuses": [True]}, "/retry/retry_statuses/0"),
        ({"retry_statuses": [[]]}, "/retry/retry_statuses/0"),
        ({"dead_statuses": [410]}, "/retry/dead_statuses/0"),
        ({"dead_statuses": [404] * 51}, "/retry/dead_statuses"),
        ({"dead_statuses": "4xx"}, "/retry/dead_statuses"),
        ({"retry_statuses": ["5xx", 404], "dead_statuses": [404]}, "/retry/dead_statuses"),
        ({"retry_statuses": ["5xx"], "dead_statuses": ["5xx"]}, "/retry/dead_statuses"),
        ({"retries": 3}, "/retry/retries"),
        ({"a/b~c": 3}, "/retry/a~1b~0c"),
    ],
)
def test_notifications_19_what_does_not_fit_a_retry_block_is_refused_with_a_pointer(
    block: dict[str, Any], pointer: str
) -> None:
    error = refusal({"retry": block})
    assert error.field == pointer
    assert str(error).startswith(f"{pointer}: ")


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ([], ""),
        (None, ""),
        ({"retries": {}}, "/retries"),
        ({"retry": None}, "/retry"),
        ({"throttle": []}, "/throttle"),
        ({"throttle": {"max_per_second": 0}}, "/throttle/max_per_second"),
        ({"throttle": {"max_per_second": 10_001}}, "/throttle/max_per_second"),
        ({"throttle": {"burst": 0}}, "/throttle/burst"),
        ({"throttle": {"burst": 1.5}}, "/throttle/burst"),
        ({"throttle": {"max_in_flight": None}}, "/throttle/max_in_flight"),
        ({"throttle": {"max_in_flight": 101}}, "/throttle/max_in_flight"),
        ({"request": {"timeout": 31}}, "/request/timeout"),
        ({"request": {"timeout": 0.9}}, "/request/timeout"),
        ({"request": {"connect_timeout": 0.4}}, "/request/connect_timeout"),
        ({"request": {"connect_timeout": None}}, "/request/connect_timeout"),
        ({"request": {"body": "xml"}}, "/request/body"),
        ({"request": {"content_type": ""}}, "/request/content_type"),
        ({"request": {"content_type": "json"}}, "/request/content_type"),
        ({"request": {"content_type": "text/plain\r\nx: y"}}, "/request/content_type"),
        ({"request": {"content_type": None}}, "/request/content_type"),
        ({"request": {"headers": None}}, "/request/headers"),
        ({"request": {"headers": {f"x-{n}": "" for n in range(21)}}}, "/request/headers"),
        ({"request": {"headers": {"x": "y" * 4_096}}}, "/request/headers"),
        ({"request": {"headers": {"x": 1}}}, "/request/headers/x"),
        ({"request": {"headers": {"Host": "a"}}}, "/request/headers/Host"),
        ({"request": {"headers": {"x/y": "a"}}}, "/request/headers/x~1y"),
        ({"request": {"headers": {"": "a"}}}, "/request/headers/"),
        ({"health": {"breaker_failures": 0}}, "/health/breaker_failures"),
        ({"health": {"breaker_failures": 1_001}}, "/health/breaker_failures"),
        ({"health": {"breaker_open": 0}}, "/health/breaker_open"),
        ({"health": {"breaker_open": 60, "breaker_open_max": 59}}, "/health/breaker_open_max"),
        ({"health": {"disable_after": 3_599}}, "/health/disable_after"),
        ({"health": {"disable_min_failures": None}}, "/health/disable_min_failures"),
        ({"health": {"disable_on_gone": None}}, "/health/disable_on_gone"),
    ],
)
def test_notifications_19_what_does_not_fit_a_policy_is_refused_with_a_pointer(
    document: object, pointer: str
) -> None:
    assert refusal(document).field == pointer


def test_the_pointer_begins_where_the_document_stands() -> None:
    with pytest.raises(InvalidInput) as caught:
        layer_of({"retry": {"jitter": 2}}, "/delivery_policy")
    assert caught.value.field == "/delivery_policy/retry/jitter"


def test_a_refusal_names_place_value_and_expectation() -> None:
    expected = "/retry/jitter: 0.6 is not valid; expected a number from 0 to 0.5"
    assert str(refusal({"retry": {"jitter": 0.6}})) == expected


def test_a_huge_value_makes_a_short_refusal() -> None:
    for value in (10**10_000, "9" * 100_000, [[[[0] * 1_000]]]):
        assert len(str(refusal({"retry": {"jitter": value}}))) < 200


@pytest.mark.parametrize(
    "value", [{"breaker_failures": None}, {"disable_after": None}, {"disable_on_gone": False}]
)
def test_null_turns_off_where_it_is_named(value: dict[str, Any]) -> None:
    (name,) = value
    health = policy_of({"health": value}).health
    assert not getattr(health, f"{name}_ms" if name == "disable_after" else name)


def test_a_code_and_its_class_are_no_overlap() -> None:
    retry = retry_of({"retry_statuses": ["5xx"], "dead_statuses": [501]})
    assert (retry.retry_statuses, retry.dead_statuses) == (("5xx",), (501,))


def test_notifications_20_waits_that_sum_to_more_than_the_total_time_are_refused() -> None:
    assert retry_of({"schedule": [60, 40], "max_total_time": 100}).max_total_ms == 100_000
    error = refusal({"retry": {"schedule": [60, 40.001], "max_total_time": 100}})
    assert error.field == "/retry/max_total_time"
    assert "at least 100.001 seconds" in str(error)
    # Eight days and no word on the total, which is then seven.
    assert refusal({"retry": {"schedule": [604_800, 86_400]}}).field == "/retry/max_total_time"


# -- layers


def test_notifications_21_a_subscriptions_retry_replaces_the_topics_as_a_whole_beside_the_topics_throttle() -> (
    None
):
    """The least of the subscription meets the default most, not the topic's."""
    topic = {"retry": {"min_delay": 2, "max_delay": 9, "jitter": 0}, "throttle": {"max_per_second": 7}}
    subscription = {"retry": {"min_delay": 1, "backoff_retries": 2}}
    layers = [("server", layer_of({"health": {}})), ("topic", topic), ("subscription", subscription)]
    policy, sources = effective(layers)
    assert policy.retry.delays_ms == (1_000, 3_600_000)
    assert policy.retry.jitter == 0.1
    assert policy.throttle.max_per_second == 7
    assert sources == {
        "retry": "subscription", "throttle": "topic", "request": "default", "health": "server",
    }  # fmt: skip


def test_notifications_22_a_locked_topics_blocks_hold_where_the_subscriptions_are_left_out() -> None:
    """Who asks leaves out the layer of a locked topic's subscription."""
    topic: Layer = layer_of({"retry": {"preset": "zaqar"}})
    subscription: Layer = layer_of({"retry": {"preset": "sns"}, "throttle": {"max_in_flight": 1}})
    policy, sources = effective([("topic", topic)])
    assert sum(policy.retry.delays_ms) == 180_000
    assert policy.throttle.max_in_flight == 8
    assert sources["retry"] == "topic"
    policy, sources = effective([("topic", topic), ("subscription", subscription)])
    assert (sum(policy.retry.delays_ms), policy.throttle.max_in_flight) == (60_000, 1)


def test_what_is_stored_of_a_policy_is_read_back() -> None:
    written = policy_of(msgspec.json.decode(EXAMPLE), {"retry": {"retry_statuses": ["5xx", 404]}})
    assert msgspec.json.decode(msgspec.json.encode(written), type=DeliveryPolicy) == written


# -- the engine's policy


def test_notifications_24_jitter_spreads_a_wait_by_its_share_both_ways() -> None:
    """A thousand draws of 100 s lie in [90, 110] s, on both sides and not in a few places."""
    retry = retry_of({"schedule": [100], "jitter": 0.1})
    rng = Random(7)
    waits = [wait for _ in range(1_000) for wait in engine_waits(retry, rng)]
    assert len(waits) == 1_000
    assert all(90_000 <= wait <= 110_000 for wait in waits)
    assert len(set(waits)) > 900
    assert min(waits) < 91_000
    assert max(waits) > 109_000
    # A uniform draw's standard error here is 20,000 / sqrt(12 * 1,000) = 183 ms.
    assert abs(sum(waits) / 1_000 - 100_000) < 1_000


def test_notifications_24_without_jitter_waits_are_exact() -> None:
    retry = retry_of({"schedule": [100], "jitter": 0})
    assert {wait for _ in range(1_000) for wait in engine_waits(retry, Random(7))} == {100_000}


def test_zero_waits_stay_zero_under_jitter() -> None:
    waits = engine_waits(retry_of({"schedule": [0, 0, 10, 0], "jitter": 0.5}))
    assert [wait == 0 for wait in waits] == [True, True, False, True]


def test_no_retries_make_the_first_failure_final() -> None:
    assert engine_waits(retry_of({"schedule": []})) == []
    assert engine_waits(retry_of({"backoff_retries": 0})) == []


@pytest.mark.parametrize(
    "block",
    [
        FULL,
        {"preset": "zaqar", "jitter": 0},
        {"schedule": [0.0005, 3.3335, 604_000], "jitter": 0},
        {"backoff_retries": 100, "min_delay": 0.1, "function": "geometric", "jitter": 0},
    ],
    ids=["phases", "preset", "schedule", "hundred"],
)
def test_notifications_59_the_preview_shows_the_waits_that_the_engine_makes(block: Mapping[str, Any]) -> None:
    shown: Sequence[float] = preview({"retry": block}).to_json()["delays"]
    assert [round(1_000 * wait) for wait in shown] == engine_waits(retry_of(block))


# -- preview


def test_the_preview_gives_seconds_by_part() -> None:
    shown = preview({"retry": FULL})
    assert [(name, len(waits), sum(waits)) for name, waits in shown.phases] == [
        ("immediate", 3, 0),
        ("pre-backoff", 2, 10_000),
        ("backoff", 10, 555_508),
        ("post-backoff", 5, 1_300_000),
    ]
    answer = shown.to_json()
    assert (answer["attempts"], answer["total"]) == (21, 1865.508)
    assert answer["delays"][:8] == [0, 0, 0, 5, 5, 5, 5.499, 6.497]
    assert msgspec.json.encode(answer["delays"][3:7]) == b"[5,5,5,5.499]"


def test_the_preview_of_no_retry_block_is_the_standard_one() -> None:
    shown = preview({})
    assert [name for name, _ in shown.phases] == ["preset standard"]
    assert shown.to_json()["total"] == 272_105


def test_a_part_without_retries_is_not_shown() -> None:
    assert [name for name, _ in preview({"retry": {}}).phases] == ["backoff"]
    assert preview({"retry": {"schedule": []}}).phases == ()


def test_the_preview_refuses_what_is_wrong_in_any_block() -> None:
    with pytest.raises(InvalidInput):
        preview({"throttle": {"max_in_flight": 0}})


# -- a policy of the engine's own

OWN = {"curve": {"exponential": {"base": "1s"}}, "jitter": "even", "limit": 3}


def test_any_policy_of_the_engine_decides_the_waits() -> None:
    retry = retry_of({"policy": OWN})
    # 1 s doubled twice; the engine is told all that was written, and that a Retry-After stands as it is.
    assert retry.delays_ms == (1_000, 2_000, 4_000)
    assert msgspec.json.decode(engine_policy(retry)) == {**OWN, "override": "exact"}
    assert preview({"retry": {"policy": OWN}}).to_json() == {"delays": [1, 2, 4], "total": 7, "attempts": 4}
    assert preview({"retry": {"policy": {"preset": "faktory", "limit": 0}}}).to_json()["attempts"] == 1


def test_a_policy_without_a_limit_has_that_of_the_engine_written_down() -> None:
    retry = retry_of({"policy": {"curve": {"constant": "1m"}}})
    assert len(retry.delays_ms) == 25
    assert msgspec.json.decode(engine_policy(retry))["limit"] == 25


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"policy": OWN, "schedule": [1]}, "/retry/schedule"),
        ({"policy": OWN, "preset": "sns"}, "/retry/preset"),
        ({"policy": OWN, "min_delay": 5}, "/retry/policy"),
        ({"policy": OWN, "jitter": 0.1}, "/retry/policy"),
        ({"policy": None}, "/retry/policy"),
        ({"policy": 5}, "/retry/policy"),
        ({"policy": "nix"}, "/retry/policy/preset"),
        ({"policy": {"curve": {"table": ["1s", "x"]}}}, "/retry/policy/curve/table/1"),
        ({"policy": {"curve": {"constant": "1s"}, "limit": None}}, "/retry/policy/limit"),
        ({"policy": {"curve": {"constant": "1s"}, "limit": 101}}, "/retry/policy/limit"),
        ({"policy": {**OWN, "override": "spread"}}, "/retry/policy/override"),
        ({"policy": {**OWN, "on_exhausted": "discard"}}, "/retry/policy/on_exhausted"),
        # Three waits of three days are more than the week that max_total_time has by itself.
        ({"policy": {"curve": {"constant": "3d"}, "limit": 3}}, "/retry/max_total_time"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused(block: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        retry_of(block)
    assert refused.value.field == field


def test_a_policy_may_end_at_its_deadline_where_its_waits_come_to_more() -> None:
    own = {"curve": {"constant": "1h"}, "limit": 100, "deadline": "3d"}
    with pytest.raises(InvalidInput, match="at least 259200 seconds"):  # three days
        retry_of({"policy": own, "max_total_time": 259_199})
    assert retry_of({"policy": own, "max_total_time": 259_200}).max_total_ms == 259_200_000

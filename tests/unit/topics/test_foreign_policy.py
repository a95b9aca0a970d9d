"""Delivery policies of SNS and Zaqar in Anew's form: what they come to, what is refused, what is warned of."""

from __future__ import annotations

import math
from typing import Any

import pytest

from anew.errors import InvalidInput
from anew.topics.delivery_policy import effective, layer_of
from anew.topics.foreign_policy import Converted, ZaqarMode, from_sns, from_zaqar

SNS_SAMPLE = {
    "healthyRetryPolicy": {
        "minDelayTarget": 1, "maxDelayTarget": 60, "numRetries": 50, "numNoDelayRetries": 3,
        "numMinDelayRetries": 2, "numMaxDelayRetries": 35, "backoffFunction": "exponential",
    },
    "throttlePolicy": {"maxReceivesPerSecond": 10},
    "requestPolicy": {"headerContentType": "text/plain; charset=UTF-8"},
}  # fmt: skip
"""A subscription's policy as SNS's documentation shows one."""


def waits_of(converted: Converted) -> list[int]:
    """The nominal waits, ms, of a policy that Anew itself has read."""
    policy, _ = effective([("topic", layer_of(converted.policy))])
    return [*policy.retry.delays_ms]


def seconds_of(converted: Converted) -> list[float]:
    """The same in seconds."""
    return [wait / 1_000 for wait in waits_of(converted)]


def refused_sns(document: object) -> InvalidInput:
    """The error that a document of SNS's gets."""
    with pytest.raises(InvalidInput) as caught:
        from_sns(document)
    return caught.value


def refused_zaqar(document: object, mode: ZaqarMode = "as_shipped") -> InvalidInput:
    """The error that a document of Zaqar's gets."""
    with pytest.raises(InvalidInput) as caught:
        from_zaqar(document, mode)
    return caught.value


# -- SNS


def test_notifications_17_the_sample_of_sns_has_ten_backoff_retries() -> None:
    converted = from_sns(SNS_SAMPLE)
    waits = waits_of(converted)
    assert converted.policy["retry"]["backoff_retries"] == 10
    assert (len(waits), sum(waits)) == (50, 2_228_959)
    # Zeros, two of a second; then the distance above the least doubles: 1 + 59 x (2^k - 1) / 511.
    assert waits[:8] == [0, 0, 0, 1_000, 1_000, 1_000, 1_115, 1_346]
    assert waits[14:] == [60_000] * 36


def test_every_field_of_sns_has_its_place() -> None:
    converted = from_sns(SNS_SAMPLE)
    assert converted.policy == {
        "retry": {
            "no_delay_retries": 3, "min_delay_retries": 2, "backoff_retries": 10, "max_delay_retries": 35,
            "min_delay": 1, "max_delay": 60, "function": "exponential", "profile": "sns", "max_total_time": 3_600,
        },
        "throttle": {"max_per_second": 10},
        "request": {"content_type": "text/plain; charset=UTF-8"},
    }  # fmt: skip
    assert len(converted.warnings) == 1
    assert "headerContentType" in converted.warnings[0]
    assert not converted.lock


def test_a_topics_policy_of_sns_locks_and_has_its_defaults() -> None:
    document: dict[str, Any] = {"http": {"disableSubscriptionOverrides": True}}
    for block in ({}, {"defaultHealthyRetryPolicy": None}, {"defaultHealthyRetryPolicy": {}}):
        converted = from_sns({"http": document["http"] | block})
        assert seconds_of(converted) == [20, 20, 20]
        assert converted.policy["retry"]["profile"] == "sns"
        assert converted.lock
        assert converted.warnings == []


def test_a_topics_policy_of_sns_is_read_under_its_own_names() -> None:
    converted = from_sns(
        {
            "http": {
                "defaultHealthyRetryPolicy": {"numRetries": 1, "minDelayTarget": 7},
                "defaultThrottlePolicy": {"maxReceivesPerSecond": 2},
                "defaultRequestPolicy": {"headerContentType": "application/json"},
                "defaultSicklyRetryPolicy": None,
                "disableSubscriptionOverrides": False,
            }
        }
    )
    assert seconds_of(converted) == [7]
    assert converted.policy["throttle"] == {"max_per_second": 2}
    assert converted.policy["request"] == {"content_type": "application/json"}
    assert any("defaultSicklyRetryPolicy" in warning for warning in converted.warnings)


def test_a_subscriptions_policy_of_sns_without_retries_leaves_the_topics() -> None:
    converted = from_sns({"healthyRetryPolicy": None, "throttlePolicy": {"maxReceivesPerSecond": None}})
    assert converted.policy == {}


def test_what_sns_keeps_for_old_programs_is_dropped_with_a_warning() -> None:
    converted = from_sns({"sicklyRetryPolicy": {"numRetries": 9}, "guaranteed": True})
    assert converted.policy == {}
    assert [warning.split()[0] for warning in converted.warnings] == ["sicklyRetryPolicy", "guaranteed"]


def test_notifications_18_a_policy_of_sns_whose_phases_have_more_retries_than_it_is_refused() -> None:
    retry = {"numRetries": 5, "numNoDelayRetries": 2, "numMinDelayRetries": 2, "numMaxDelayRetries": 2}
    error = refused_sns({"healthyRetryPolicy": retry})
    assert error.field == "/healthyRetryPolicy/numRetries"
    assert "at least 6" in str(error)
    assert from_sns({"healthyRetryPolicy": retry | {"numRetries": 6}}).policy["retry"]["backoff_retries"] == 0


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ([], ""),
        ("text", ""),
        ({"http": None}, "/http"),
        ({"http": {}, "sqs": {}}, "/sqs"),
        ({"http": {"healthyRetryPolicy": {}}}, "/http/healthyRetryPolicy"),
        ({"http": {"disableSubscriptionOverrides": 1}}, "/http/disableSubscriptionOverrides"),
        (
            {"http": {"defaultHealthyRetryPolicy": {"numRetries": -1}}},
            "/http/defaultHealthyRetryPolicy/numRetries",
        ),
        ({"disableSubscriptionOverrides": True}, "/disableSubscriptionOverrides"),
        ({"healthyRetryPolicy": {"numRetries": 101}}, "/healthyRetryPolicy/numRetries"),
        ({"healthyRetryPolicy": {"numRetries": True}}, "/healthyRetryPolicy/numRetries"),
        ({"healthyRetryPolicy": {"minDelayTarget": 0}}, "/healthyRetryPolicy/minDelayTarget"),
        ({"healthyRetryPolicy": {"minDelayTarget": 21}}, "/healthyRetryPolicy/maxDelayTarget"),
        ({"healthyRetryPolicy": {"maxDelayTarget": 3_601}}, "/healthyRetryPolicy/maxDelayTarget"),
        ({"healthyRetryPolicy": {"maxDelayTarget": None}}, "/healthyRetryPolicy/maxDelayTarget"),
        ({"healthyRetryPolicy": {"backoffFunction": "cubic"}}, "/healthyRetryPolicy/backoffFunction"),
        ({"healthyRetryPolicy": {"numretries": 3}}, "/healthyRetryPolicy/numretries"),
        # 2 x 1,801 s pass the hour that SNS allows.
        (
            {"healthyRetryPolicy": {"numRetries": 2, "minDelayTarget": 1_801, "maxDelayTarget": 1_801}},
            "/healthyRetryPolicy",
        ),
        ({"throttlePolicy": {"maxReceivesPerSecond": 0}}, "/throttlePolicy/maxReceivesPerSecond"),
        ({"throttlePolicy": {"perSecond": 1}}, "/throttlePolicy/perSecond"),
        ({"requestPolicy": {"headerContentType": ""}}, "/requestPolicy/headerContentType"),
    ],
)
def test_a_policy_that_sns_does_not_take_is_refused_with_a_pointer(document: object, pointer: str) -> None:
    error = refused_sns(document)
    assert error.field == pointer
    assert str(error).startswith(f"{pointer or 'the document'}: ")


# -- Zaqar


def test_zaqars_defaults_as_shipped() -> None:
    expected = [0, 0, 0, 5, 5, 5, 5, 10, 15, 20, 25, 30, 30, 30]
    for document in ({}, {"_retry_policy": {}}, {"_retry_policy": None}):
        converted = from_zaqar(document)
        assert converted.policy == {"retry": {"schedule": expected}}
        assert seconds_of(converted) == expected
        assert (converted.warnings, converted.lock) == ([], False)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("linear", [5, 10, 15, 20, 25]),
        ("arithmetic", [5, 7, 12, 20, 30]),
        ("geometric", [5, 7, 12, 19, 30]),
        ("exponential", [5, 7, 12, 19, 30]),
    ],
)
def test_zaqars_functions_as_shipped(function: str, expected: list[int]) -> None:
    converted = from_zaqar({"retry_backoff_function": function})
    assert seconds_of(converted) == [0, 0, 0, 5, 5, 5, *expected, 30, 30, 30]


@pytest.mark.parametrize("function", ["geometric", "exponential"])
@pytest.mark.parametrize(("least", "most"), [(1, 60), (2, 90), (7, 300), (60, 400)])
def test_a_geometric_row_as_shipped_is_cut_to_whole_seconds(function: str, least: int, most: int) -> None:
    """It may fall one second short where the exact value is whole: Zaqar's roots are those of floating point."""
    document = {"minimum_delay": least, "maximum_delay": most, "retry_backoff_function": function}
    n = (most - least) // 5
    backoff = seconds_of(from_zaqar(document))[6:-3]
    exact = [least * (most / least) ** (i / (n - 1)) for i in range(n)]
    for shipped, value in zip(backoff, exact, strict=True):
        assert shipped in (math.floor(value + 1e-9), math.floor(value - 1e-9))


def test_every_field_of_zaqar_as_shipped() -> None:
    converted = from_zaqar(
        {
            "retries_with_no_delay": 1, "minimum_delay_retries": 2, "minimum_delay": 10, "maximum_delay": 22,
            "maximum_delay_retries": 1, "retry_backoff_function": "linear", "ignore_subscription_override": True,
        }
    )  # fmt: skip
    # 10, 15, 20 lie below 22, which linear never reaches.
    assert seconds_of(converted) == [0, 10, 10, 10, 15, 20, 22]
    assert converted.lock


def test_every_field_of_zaqar_as_documented() -> None:
    converted = from_zaqar(
        {
            "retries_with_no_delay": 1, "minimum_delay_retries": 2, "minimum_delay": 5, "maximum_delay": 40,
            "maximum_delay_retries": 4, "retry_backoff_function": "exponential",
        },
        "as_documented",
    )  # fmt: skip
    assert converted.policy == {
        "retry": {
            "no_delay_retries": 1, "min_delay_retries": 2, "backoff_retries": 7, "max_delay_retries": 4,
            "min_delay": 5, "max_delay": 40, "function": "exponential",
        }
    }  # fmt: skip
    # 5 + 35 x (2^(i-1) - 1) / 63
    assert seconds_of(converted)[3:10] == [5, 5.556, 6.667, 8.889, 13.333, 22.222, 40]


def test_the_documented_backoff_phase_is_cut_to_a_hundred_retries_in_all() -> None:
    converted = from_zaqar({"minimum_delay": 1, "maximum_delay": 3_600}, "as_documented")
    assert converted.policy["retry"]["backoff_retries"] == 91
    assert converted.warnings == ["the backoff phase has 91 retries, not 719: Anew makes at most 100 in all"]


def test_as_shipped_more_than_a_hundred_retries_are_refused() -> None:
    error = refused_zaqar(
        {"minimum_delay": 1, "maximum_delay": 3_600, "retry_backoff_function": "arithmetic"}
    )
    assert error.field == ""
    assert "728" in str(error)
    assert "as_documented" in str(error)


def test_long_waits_get_the_total_time_that_they_need() -> None:
    document = {"minimum_delay": 300_000, "maximum_delay": 300_010, "maximum_delay_retries": 0,
                "minimum_delay_retries": 0}  # fmt: skip
    # 300,000 + 300,005 s as shipped.
    assert from_zaqar(document).policy["retry"] == {"schedule": [0, 0, 0, 300_000, 300_005]}
    converted = from_zaqar(document | {"minimum_delay_retries": 1})
    assert converted.policy["retry"]["max_total_time"] == 1_209_600
    assert sum(seconds_of(converted)) == 900_005
    assert refused_zaqar(document | {"minimum_delay_retries": 3}).field == ""


def test_notifications_22_a_queue_may_lock_and_a_subscription_may_not() -> None:
    document = {"ignore_subscription_override": True}
    assert from_zaqar(document, of="queue").lock
    with pytest.raises(InvalidInput) as caught:
        from_zaqar({"_retry_policy": document}, of="subscription")
    assert caught.value.field == "/_retry_policy/ignore_subscription_override"
    assert not from_zaqar({"ignore_subscription_override": False}, of="subscription").lock


def test_an_empty_policy_of_a_subscription_leaves_the_topics() -> None:
    for document in ({"_retry_policy": {}}, {"_retry_policy": None}, {"post_headers": {}}, {}):
        assert from_zaqar(document, of="subscription").policy == {}


def test_the_options_of_a_subscription() -> None:
    options = {
        "_retry_policy": {"retries_with_no_delay": 0},
        "post_headers": {"X-Auth": "token", "Content-Type": "application/xml"},
        "post_data": '{"text": "$zaqar_message$"}',
    }
    converted = from_zaqar(options, of="subscription")
    assert converted.policy["request"] == {"headers": {"X-Auth": "token"}, "content_type": "application/xml"}
    assert [warning.split()[0] for warning in converted.warnings] == ["post_data", "Content-Type"]
    assert len(waits_of(converted)) == 11


def test_a_field_that_zaqar_does_not_know_is_warned_of() -> None:
    converted = from_zaqar({"minimum_delays": 7})
    assert converted.warnings == ["minimum_delays is left out: Zaqar has no such field"]
    assert sum(seconds_of(converted)) == 180


@pytest.mark.parametrize("mode", ["as_shipped", "as_documented"])
@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ([], ""),
        (None, ""),
        ({"_retry_policy": []}, "/_retry_policy"),
        ({"_retry_policy": {"minimum_delay": -1}}, "/_retry_policy/minimum_delay"),
        ({"retries_with_no_delay": True}, "/retries_with_no_delay"),
        ({"retries_with_no_delay": 101}, "/retries_with_no_delay"),
        ({"minimum_delay_retries": -1}, "/minimum_delay_retries"),
        ({"minimum_delay": ""}, "/minimum_delay"),
        ({"minimum_delay": None}, "/minimum_delay"),
        ({"minimum_delay": 5.5}, "/minimum_delay"),
        ({"minimum_delay": 40}, "/maximum_delay"),
        ({"maximum_delay": 14}, "/maximum_delay"),
        ({"maximum_delay": 10**30}, "/maximum_delay"),
        ({"maximum_delay_retries": "3"}, "/maximum_delay_retries"),
        ({"retry_backoff_function": ""}, "/retry_backoff_function"),
        ({"retry_backoff_function": "cubic"}, "/retry_backoff_function"),
        ({"ignore_subscription_override": "yes"}, "/ignore_subscription_override"),
        ({"retries_with_no_delay": 60, "maximum_delay_retries": 60}, ""),
        ({"minimum_delay": 0, "retry_backoff_function": "geometric"}, "/minimum_delay"),
    ],
)
def test_a_policy_that_zaqar_cannot_carry_out_is_refused_with_a_pointer(
    document: object, pointer: str, mode: ZaqarMode
) -> None:
    error = refused_zaqar(document, mode)
    assert error.field == pointer
    assert str(error).startswith(f"{pointer or 'the document'}: ")


def test_a_least_wait_of_nothing_is_carried_as_shipped_and_refused_as_documented() -> None:
    document = {"minimum_delay": 0, "maximum_delay": 10}
    assert seconds_of(from_zaqar(document)) == [0, 0, 0, 0, 0, 0, 0, 5, 10, 10, 10]
    assert refused_zaqar(document, "as_documented").field == "/minimum_delay"


@pytest.mark.parametrize(
    ("headers", "pointer"),
    [
        ([], "/post_headers"),
        ({"Host": "a"}, "/post_headers/Host"),
        ({"x": "a\nb"}, "/post_headers/x"),
        ({"content-type": ""}, "/post_headers/content-type"),
    ],
)
def test_headers_that_anew_does_not_send_are_refused_with_a_pointer(headers: object, pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_zaqar({"post_headers": headers}, of="subscription")
    assert caught.value.field == pointer

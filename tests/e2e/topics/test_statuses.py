"""What is refused of topics and delivery policies: the status, the code and the place that an answer names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.client import Client
from tests.e2e.wire import Response


def problem(answer: Response) -> tuple[int, str, list[str]]:
    """What programs read of a refusal."""
    assert answer.header("content-type") == "application/problem+json"
    told = json.loads(answer.body)
    return answer.status, told["code"], [one["pointer"] for one in told.get("errors", [])]


def put(client: Client, topic: str, **policy: Any) -> Response:
    return client.put(f"/v1/topics/{topic}", {"delivery_policy": policy})


def test_notifications_07_a_key_with_another_body_is_409(client: Client, queue: str) -> None:
    client.put(f"/v1/topics/{queue}", {})
    path, key = f"/v1/topics/{queue}/messages", [("Idempotency-Key", "order-42")]
    first, again = (client.post(path, {"type": "t", "data": 1}, headers=key) for _ in range(2))
    assert (first.status, again.status, again.data["ids"]) == (202, 202, first.data["ids"])
    other = client.post(path, {"type": "t", "data": 2}, headers=key)
    assert problem(other)[:2] == (409, "conflict")


def test_notifications_18_too_many_phases_of_sns_are_422(client: Client) -> None:
    policy = {"healthyRetryPolicy": {"numRetries": 1, "numNoDelayRetries": 2}}
    refused = client.post("/v1/delivery-policies/convert", {"from": "sns", "policy": policy})
    assert problem(refused) == (422, "invalid_input", ["/healthyRetryPolicy/numRetries"])


@pytest.mark.parametrize(
    ("retry", "pointer"),
    [
        ({"min_delay": 0}, "/delivery_policy/retry/min_delay"),
        ({"min_delay": 10, "max_delay": 9}, "/delivery_policy/retry/max_delay"),
        ({"no_delay_retries": 93}, "/delivery_policy/retry"),
        ({"jitter": 0.6}, "/delivery_policy/retry/jitter"),
        ({"jitter": True}, "/delivery_policy/retry/jitter"),
        ({"min_delay": None}, "/delivery_policy/retry/min_delay"),
        ({"function": ""}, "/delivery_policy/retry/function"),
        ({"retries": 3}, "/delivery_policy/retry/retries"),
    ],
)
def test_notifications_19_what_does_not_fit_is_422_with_its_place(
    client: Client, queue: str, retry: dict[str, Any], pointer: str
) -> None:
    assert problem(put(client, queue, retry=retry)) == (422, "invalid_input", [pointer])
    assert client.get(f"/v1/topics/{queue}").status == 404


def test_notifications_20_waits_above_the_total_are_422(client: Client, queue: str) -> None:
    refused = put(client, queue, retry={"schedule": [60, 41], "max_total_time": 100})
    assert problem(refused) == (422, "invalid_input", ["/delivery_policy/retry/max_total_time"])


def test_notifications_22_a_policy_of_a_subscription_is_409_where_the_topic_is_locked(
    client: Client, queue: str
) -> None:
    client.put(f"/v1/topics/{queue}", {"lock_delivery_policy": True})
    body = {"endpoint": {"type": "queue", "queue": queue}, "delivery_policy": {"retry": {"schedule": [1]}}}
    refused = client.post(f"/v1/topics/{queue}/subscriptions", body)
    assert problem(refused)[:2] == (409, "conflict")


def test_notifications_31_an_overlap_of_statuses_is_422(client: Client, queue: str) -> None:
    refused = put(client, queue, retry={"dead_statuses": [404], "retry_statuses": [404]})
    assert problem(refused)[:2] == (422, "invalid_input")


def test_notifications_40_a_token_that_is_none_is_410(client: Client) -> None:
    assert problem(client.get("/v1/confirm/" + "a" * 43))[0] == 410


@pytest.mark.parametrize(("name", "value"), [("host", "a"), ("webhook-id", "a"), ("x-a", "a\r\nhost: b")])
def test_notifications_47_headers_of_our_own_or_with_line_ends_are_422(
    client: Client, queue: str, name: str, value: str
) -> None:
    refused = put(client, queue, request={"headers": {name: value}})
    assert problem(refused) == (422, "invalid_input", [f"/delivery_policy/request/headers/{name}"])

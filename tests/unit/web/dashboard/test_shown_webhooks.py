"""What pages say of topics: policies in words, how endpoints do, what became of an attempt."""

from __future__ import annotations

from typing import Any

import pytest

from anew.topics.delivery_policy import effective, layer_of, preview
from anew.topics.reading import Recent
from anew.topics.views import policy_view
from anew.web.dashboard.shown_webhooks import attempt, counts, delivery_row, health, holds, phases, total

NOW = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
SOON = "2023-11-14T22:13:50Z"

POLICIES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "phases of Zaqar": (
        {"no_delay_retries": 1, "min_delay_retries": 2, "min_delay": 30, "backoff_retries": 0, "max_delay_retries": 3,
         "max_delay": 60},
        ["immediate: 1 retry at once", "pre-backoff: 2 retries 30 s after each failure",
         "post-backoff: 3 retries 1 min after each failure"],
        "7 attempts over 4 min, each wait up to 10 % shorter or longer",
    ),
    "a long phase": (
        {"backoff_retries": 7, "min_delay": 1, "max_delay": 7, "function": "linear", "jitter": 0},
        ["backoff: 7 retries after 1 s, then longer each time, up to 7 s"],
        "8 attempts over 28 s",
    ),
    "a short schedule": (
        {"schedule": [0, 5, 1], "jitter": 0},
        ["schedule: 3 retries after 0 ms, 5 s and 1 s"],
        "4 attempts over 6 s",
    ),
    "a schedule up and down": (
        {"schedule": [9, 1, 2, 3, 4, 5, 6], "jitter": 0},
        ["schedule: 7 retries after 1 s to 9 s"],
        "8 attempts over 30 s",
    ),
    "no retry": ({"schedule": []}, ["no retry"], "1 attempt"),
    "all at once": ({"schedule": [0, 0]}, ["schedule: 2 retries at once"], "3 attempts"),
    "a policy of the engine": (
        {"policy": {"curve": {"constant": "5s"}, "jitter": "none", "limit": 2}},
        ["c = 5 s", "wait = c", "2 retries"],
        "3 attempts over 10 s",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("retry", "lines", "sum_"), POLICIES.values(), ids=list(POLICIES))
def test_a_delivery_policy_is_said_in_words(retry: dict[str, Any], lines: list[str], sum_: str) -> None:
    shown = preview({"retry": retry})
    assert phases(shown) == lines
    assert total(shown) == sum_


def view(**blocks: Any) -> dict[str, Any]:
    policy, _ = effective([("given", layer_of(blocks))])
    return policy_view(policy)


def test_what_else_a_policy_holds_to_is_told_but_for_the_values_of_headers() -> None:
    told = dict(
        holds(
            view(request={"headers": {"X-Key": "hunter2"}, "timeout": 2.5}, throttle={"max_per_second": 0.5})
        )
    )
    assert told == {
        "Requests": "8 at one time, 0.5 a second, 1 at once after a quiet time",
        "Time-out": "2.5 s, 5 s to connect",
        "Body": "envelope",
        "Headers": "X-Key",
        "Breaker opens": "after 10 failures in a row, for 30 s at first",
        "Is disabled": "after 5 d without a success, and 20 failures",
    }
    told = dict(holds(view(health={"breaker_failures": None, "disable_after": None})))
    assert (told["Breaker opens"], told["Is disabled"]) == ("never", "never for failures alone")
    assert "Headers" not in told


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"failures": 0, "breaker": "closed", "spared_until": None}, "well"),
        ({"failures": 1, "breaker": "closed", "spared_until": None}, "1 failure in a row"),
        (
            {"failures": 12, "breaker": "half_open", "spared_until": SOON},
            "12 failures in a row, breaker half open, next request in 30 s",
        ),
    ],
)
def test_how_an_endpoint_does(given: dict[str, Any], words: str) -> None:
    assert health({"health": given}, NOW) == words


def test_counts_stand_in_the_order_of_a_deliverys_life() -> None:
    assert counts(Recent({"dead": 1, "scheduled": 2, "delivered": 3}, None)) == [
        ("scheduled", 2),
        ("delivered", 3),
        ("dead", 1),
    ]


def attempted(**members: Any) -> dict[str, Any]:
    return {"number": 1, "started_at": "2023-11-14T22:13:10Z", "outcome": "sending"} | members


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "is being sent"),
        ({"outcome": "delivered", "status": 200, "duration_ms": 12}, "delivered: 200 in 12 ms"),
        ({"outcome": "retry", "status": 503, "error": "503", "duration_ms": 1_500}, "failed: 503 in 1.5 s"),
        (
            {"outcome": "retry", "error": "connect_timeout", "duration_ms": 5_000},
            "failed: connect timeout in 5 s",
        ),
        ({"outcome": "lost", "duration_ms": 9}, "lost with the process that sent it in 9 ms"),
    ],
)
def test_what_became_of_an_attempt(members: dict[str, Any], words: str) -> None:
    assert attempt(attempted(**members), NOW)["words"] == words


def test_the_next_attempt_is_told_with_its_cause() -> None:
    told = attempt(attempted(outcome="retry", next_attempt_at=SOON, next_cause="retry_after"), NOW)
    assert (told["next"].words, told["why"]) == ("in 30 s", "as the endpoint asked")


@pytest.mark.parametrize(
    ("deferred_by", "next_at", "words"),
    [
        (None, SOON, "in 30 s"),
        (None, "2023-11-14T22:13:10Z", "now"),
        ("breaker", SOON, None),
        (None, None, None),
    ],
)
def test_an_attempt_that_waits_for_no_time_has_none(
    deferred_by: str | None, next_at: str | None, words: str | None
) -> None:
    row = delivery_row(
        {
            "id": "dlv_x",
            "type": None,
            "status": "scheduled",
            "deferred_by": deferred_by,
            "dead_reason": None,
            "attempts": 0,
            "next_attempt_at": next_at,
            "last_attempt": None,
        },
        NOW,
    )
    assert (None if row["next"] is None else row["next"].words) == words

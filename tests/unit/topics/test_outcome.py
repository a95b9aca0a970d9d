"""What an answer makes of a delivery. The expected values are the table of the notification specification, 3.5."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from anew.topics.delivery_policy import Retry, effective, layer_of
from anew.topics.exchange import Answer
from anew.topics.outcome import judge, retry_after_ms

NOW = 1_700_000_000_000  # Tue, 14 Nov 2023 22:13:20 GMT


def retry(**block: Any) -> Retry:
    return effective([("", layer_of({"retry": block}))])[0].retry


WEBHOOK, SNS = retry(), retry(preset="sns")


def kind(status: int, policy: Retry = WEBHOOK, **headers: str) -> tuple[str, str | None]:
    verdict = judge(Answer(status=status, headers=headers), policy, True, NOW)
    return verdict.kind, verdict.dead_reason


TABLE: list[tuple[list[int], str, str]] = [
    ([200, 201, 202, 204, 299], "delivered", "delivered"),
    ([300, 301, 302, 303, 307, 308, 399], "retry", "dead"),
    ([400, 401, 402, 403, 404, 405, 406, 407, 409, 411, 412, 416, 417, 418, 422, 423, 424, 426, 428, 451, 499], "retry", "dead"),
    ([408, 421, 425], "retry", "dead"),
    ([413, 414, 415, 431], "dead", "dead"),
    ([429], "retry", "retry"),
    ([501, 505], "dead", "retry"),
    ([502, 503, 504], "retry", "retry"),
    ([500, 506, 507, 508, 511, 599, 600, 999], "retry", "retry"),
]  # fmt: skip
CASES = [(status, webhook, sns) for statuses, webhook, sns in TABLE for status in statuses]


@pytest.mark.parametrize(("status", "webhook", "sns"), CASES)
def test_notifications_03_30_every_status_in_both_profiles(status: int, webhook: str, sns: str) -> None:
    expected = [(word, "permanent_status" if word == "dead" else None) for word in (webhook, sns)]
    assert [kind(status), kind(status, SNS)] == expected


@pytest.mark.parametrize("error", ["dns", "refused", "reset", "unreachable", "tls", "timeout", "protocol"])
@pytest.mark.parametrize("policy", [WEBHOOK, SNS])
def test_notifications_03_what_fails_without_an_answer_is_tried_again_by_its_name(
    error: Any, policy: Retry
) -> None:
    verdict = judge(Answer(error=error), policy, True, NOW)
    assert (verdict.kind, verdict.error) == ("retry", error)


def test_no_connection_in_time_is_a_timeout() -> None:
    verdict = judge(Answer(error="connect_timeout"), WEBHOOK, True, NOW)
    assert (verdict.kind, verdict.error) == ("retry", "timeout")


@pytest.mark.parametrize("reason", ["blocked_address", "invalid_request"])
def test_what_cannot_be_sent_is_dead_for_that_reason(reason: Any) -> None:
    verdict = judge(Answer(error=reason), WEBHOOK, True, NOW)
    assert (verdict.kind, verdict.dead_reason) == ("dead", reason)


def test_our_own_proxys_outage_is_our_own_fault() -> None:
    assert judge(Answer(error="proxy"), WEBHOOK, True, NOW).kind == "ours"


def test_notifications_29_a_410_is_dead_and_disables_unless_that_is_switched_off() -> None:
    gone = Answer(status=410)
    assert (judge(gone, WEBHOOK, True, NOW).dead_reason, judge(gone, WEBHOOK, True, NOW).disables) == (
        "gone",
        "gone",
    )
    assert judge(gone, WEBHOOK, False, NOW).disables is None


@pytest.mark.parametrize(
    ("block", "status", "expected"),
    [
        ({"dead_statuses": [404]}, 404, "dead"),
        ({"dead_statuses": ["4xx"]}, 404, "dead"),
        ({"dead_statuses": ["4xx"], "retry_statuses": [404]}, 404, "retry"),
        ({"retry_statuses": ["5xx"]}, 501, "retry"),
        ({"retry_statuses": ["5xx"], "dead_statuses": [501]}, 501, "dead"),
        ({"retry_statuses": [413]}, 413, "retry"),
        ({"retry_statuses": ["4xx"]}, 410, "dead"),
        ({"dead_statuses": ["3xx"]}, 302, "dead"),
    ],
)
def test_notifications_31_a_code_is_stronger_than_its_class_and_that_than_the_profile(
    block: dict[str, Any], status: int, expected: str
) -> None:
    assert kind(status, retry(**block))[0] == expected


def test_notifications_32_a_redirect_is_called_one() -> None:
    assert judge(Answer(status=302), WEBHOOK, True, NOW).error == "redirect"


def test_what_a_receiver_asks_for_by_its_header() -> None:
    answers = {
        (200, "disable"): ("delivered", None, "receiver"),
        (500, "disable"): ("dead", "aborted_by_receiver", "receiver"),
        (500, "abort-message"): ("dead", "aborted_by_receiver", None),
        (200, "abort-message"): ("delivered", None, None),
        (500, "something"): ("retry", None, None),
    }
    for (status, wish), expected in answers.items():
        verdict = judge(Answer(status=status, headers={"webhook-delivery": wish}), WEBHOOK, True, NOW)
        assert (verdict.kind, verdict.dead_reason, verdict.disables) == expected


@pytest.mark.parametrize(
    ("status", "header", "wait_ms", "cause", "spare_ms"),
    [
        (503, "120", 120_000, "retry_after", 120_000),
        (500, "120", 120_000, "retry_after", None),
        (503, "Tue, 14 Nov 2023 22:15:20 GMT", 120_000, "retry_after", 120_000),
        (429, None, 30_000, "overload", None),
        (429, "5", 30_000, "overload", 5_000),
        (429, "60", 60_000, "retry_after", 60_000),
        (503, "999999", 86_400_000, "retry_after", 86_400_000),
        (503, "soon", 0, "policy", None),
    ],
)
def test_notifications_25_26_27_28_how_long_to_wait_at_least(
    status: int, header: str | None, wait_ms: int, cause: str, spare_ms: int | None
) -> None:
    headers = {} if header is None else {"retry-after": header}
    verdict = judge(Answer(status=status, headers=headers), WEBHOOK, True, NOW)
    assert (verdict.wait_at_least_ms, verdict.cause, verdict.spare_ms) == (wait_ms, cause, spare_ms)


def test_a_policy_may_pass_over_retry_after() -> None:
    deaf = retry(honor_retry_after=False)
    verdict = judge(Answer(status=503, headers={"retry-after": "120"}), deaf, True, NOW)
    assert (verdict.wait_at_least_ms, verdict.spare_ms) == (0, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        (" 7 ", 7_000),
        ("-1", None),
        ("1.5", None),
        ("9" * 11, 99_999_999_999_000),
        ("9" * 5_000, 999_999_999_999_000),  # as long as it gets: whoever asks caps it
        ("00000000000120", 120_000),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0),
        ("Tuesday, 14-Nov-23 22:13:21 GMT", 1_000),
        ("Tue, 32 Nov 2023 22:13:00 GMT", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str | None, expected: int | None) -> None:
    assert retry_after_ms(value, NOW) == expected


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_from_greenwich")
@pytest.mark.parametrize(
    "value",
    [
        "Tue, 14 Nov 2023 22:15:20 GMT",
        "Tue Nov 14 22:15:20 2023",  # RFC 9110, 5.6.7: the form of asctime, which is in UTC
        "Tue, 14 Nov 2023 22:15:20 -0000",
    ],
)
def test_notifications_25_a_date_means_the_same_wherever_the_server_stands(value: str) -> None:
    assert retry_after_ms(value, NOW) == 120_000


def test_notifications_26_seconds_of_any_length_are_capped() -> None:
    verdict = judge(Answer(status=503, headers={"retry-after": "9" * 11}), WEBHOOK, True, NOW)
    assert (verdict.wait_at_least_ms, verdict.cause) == (86_400_000, "retry_after")


def test_notifications_34_a_good_answer_that_drips_until_the_timeout_is_tried_again() -> None:
    verdict = judge(Answer(status=200, error="timeout"), WEBHOOK, True, NOW)
    assert (verdict.kind, verdict.error) == ("retry", "timeout")
    assert judge(Answer(status=200, error="reset"), WEBHOOK, True, NOW).kind == "delivered"  # a broken body

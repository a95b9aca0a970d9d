"""What exceptions of the HTTP libraries say about when to come back; the classes here have their shapes."""

from __future__ import annotations

from datetime import timedelta
from email.message import Message
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest

from anew import Anew
from anew.jobs import Failed, Snoozed
from anew.tasks.downstream import Downstream
from anew.tasks.retry_after import ComeBack, come_back
from anew.tasks.running import Run, Runner

NOW = 784_111_777_000
"""Sun, 06 Nov 1994 08:49:37 GMT, the date in RFC 9110."""

YEAR_MS = 365 * 86_400_000


class Headers(dict[str, str]):
    """Finds a name in whatever case, as the mappings of httpx, requests and aiohttp do."""

    def get(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in self.items() if key.lower() == name.lower()), default)


class HttpxError(Exception):
    """As httpx.HTTPStatusError and requests.HTTPError."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__(f"{status}")
        self.response = SimpleNamespace(status_code=status, headers=Headers(headers))


class AiohttpError(Exception):
    """As aiohttp.ClientResponseError."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__(f"{status}")
        self.status = status
        self.headers = Headers(headers)


def urllib_error(status: int, headers: dict[str, str]) -> HTTPError:
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return HTTPError("http://service", status, "no", message, None)


@pytest.mark.parametrize("make", [HttpxError, AiohttpError, urllib_error])
@pytest.mark.parametrize("status", [429, 503, 500])
def test_the_libraries_are_known_by_their_shape(make: Any, status: int) -> None:
    assert come_back(make(status, {"retry-after": "120"}), NOW) == ComeBack(status, NOW + 120_000)


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        ("0", None),
        ("0.0", None),
        ("120", 120_000),
        (" 120 ", 120_000),
        ("0.5", 500),  # some servers write it
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60_000),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60_000),  # RFC 850
        ("Sun Nov  6 08:50:37 1994", 60_000),  # asctime
        ("Sun, 06 Nov 1994 08:49:37 GMT", None),  # it is over
        ("Sun, 06 Nov 1994 08:00:00 GMT", None),
        ("99999999999", YEAR_MS),
        ("999999999999999999", YEAR_MS),
        ("Fri, 31 Dec 9999 23:59:59 GMT", YEAR_MS),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("1e3", None),
        ("9" * 400, None),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
    ],
)
def test_retry_after_in_seconds_and_as_a_date(value: str, wait_ms: int | None) -> None:
    found = come_back(HttpxError(429, {"Retry-After": value}), NOW)
    assert found == (None if wait_ms is None else ComeBack(429, NOW + wait_ms))


@pytest.mark.parametrize(
    ("name", "value", "wait_ms"),
    [
        ("RateLimit-Reset", "30", 30_000),
        ("X-RateLimit-Reset", "30", 30_000),
        ("X-Rate-Limit-Reset", "30", 30_000),
        ("RateLimit", '"default";r=0;t=30', 30_000),
        ("RateLimit", '"burst";r=9;t=90, "daily";r=0;t=60', 60_000),
        ("RateLimit", '"burst";r=9;t=90, "daily";r=1;t=60', 90_000),
        ("RateLimit", "limit=100, remaining=0, reset=50", 50_000),
        ("RateLimit", '"default";r=5', None),
        ("X-RateLimit-Reset", "never", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_headers_of_rate_limits(name: str, value: str, wait_ms: int | None, status: int) -> None:
    found = come_back(AiohttpError(status, {name: value}), NOW)
    assert found == (None if wait_ms is None else ComeBack(status, NOW + wait_ms))


@pytest.mark.parametrize("text", ["1700000090", "1700000090000", "1700000090.0"])
def test_a_large_reset_is_an_instant(text: str) -> None:
    now = 1_700_000_000_000
    assert come_back(HttpxError(429, {"X-RateLimit-Reset": text}), now) == ComeBack(429, now + 90_000)


def test_headers_of_rate_limits_say_nothing_with_other_answers() -> None:
    assert come_back(HttpxError(500, {"RateLimit-Reset": "30"}), NOW) is None
    assert come_back(HttpxError(404, {"RateLimit": "x;r=0;t=30"}), NOW) is None


def test_retry_after_goes_before_the_headers_of_rate_limits() -> None:
    headers = {"Retry-After": "5", "RateLimit": "x;r=0;t=30", "RateLimit-Reset": "60"}
    assert come_back(HttpxError(429, headers), NOW) == ComeBack(429, NOW + 5_000)


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        (7, 7_000),
        (0.25, 250),
        (0, None),
        (timedelta(0), None),
        ("7", 7_000),
        (timedelta(minutes=1), 60_000),
        (float("inf"), YEAR_MS),
        (float("nan"), None),
        (-1, None),
        (True, None),
        (None, None),
    ],
)
def test_an_exception_can_say_it_itself(value: object, wait_ms: int | None) -> None:
    error = RuntimeError("slow down")
    error.retry_after = value  # type: ignore[attr-defined]
    assert come_back(error, NOW) == (None if wait_ms is None else ComeBack(None, NOW + wait_ms))


def test_a_plain_dict_of_headers_is_read_in_either_case() -> None:
    error = RuntimeError()
    error.response = SimpleNamespace(status_code=429, headers={"retry-after": "3"})  # type: ignore[attr-defined]
    assert come_back(error, NOW) == ComeBack(429, NOW + 3_000)


def test_other_exceptions_say_nothing() -> None:
    class Odd(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError("there is none")

    botocore = RuntimeError()
    botocore.response = {"ResponseMetadata": {"HTTPStatusCode": 429}}  # type: ignore[attr-defined]
    for error in (ValueError("no"), Odd(), botocore, KeyboardInterrupt(), HttpxError(429, {})):
        assert come_back(error, NOW) is None


# -- what a run makes of it


def outcome_of(error: BaseException, **options: Any) -> Any:
    """The outcome of a run that raises an error."""
    app = Anew()

    @app.task(name="call", **options)
    def call() -> None:
        raise error

    payload = call.arguments.write((), {})
    run = Run(
        key=1, token=1, job_id="j", name="call", queue="default", payload=payload, attempts=0, max_attempts=3, task=call
    )  # fmt: skip
    Runner(lambda: NOW, lambda job_id, percent, text: None).call(run)
    return run.outcome


def test_a_429_is_a_snooze_that_burns_no_attempt() -> None:
    outcome = outcome_of(HttpxError(429, {"Retry-After": "120"}))
    assert outcome == Snoozed(ready_at=NOW + 120_000, reason="429", outcome="rate_limited", most=1_000)


def test_a_service_says_how_often_it_may_put_a_job_off() -> None:
    outcome = outcome_of(AiohttpError(429, {"Retry-After": "1"}), downstream=Downstream("stripe", most=5))
    assert outcome.most == 5


@pytest.mark.parametrize("status", [503, 500])
def test_other_answers_are_failures_with_a_time_of_their_own_within_the_limit(status: int) -> None:
    outcome = outcome_of(urllib_error(status, {"Retry-After": "120"}))
    assert isinstance(outcome, Failed)
    assert (outcome.retry_at, outcome.limited, outcome.kill) == (NOW + 120_000, True, False)
    assert outcome.error_type == "urllib.error.HTTPError"


def test_what_the_service_says_goes_before_rules_and_functions() -> None:
    error = HttpxError(503, {"Retry-After": "120"})
    for policy in ({HttpxError: None}, lambda attempt, error: 5):
        assert outcome_of(error, policy=policy).retry_at == NOW + 120_000


def test_an_answer_without_a_time_is_left_to_the_policy() -> None:
    outcome = outcome_of(HttpxError(429, {}))
    assert isinstance(outcome, Failed)
    assert outcome.retry_at is None
    assert not outcome.limited

"""What calls are given, as requests say it; and what is refused because the server would read it as something else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from anew.client.parameters import (
    Filters,
    changes_body,
    epoch_ms,
    moment_or_delay,
    names,
    period_ms,
    retention_ms,
    target,
)
from anew.clock import SystemClock
from anew.errors import InvalidInput

NOON = datetime(2100, 1, 1, 12, tzinfo=UTC)
NOON_MS = 47_482 * 86_400_000 + 12 * 3_600_000  # 2100-01-01 is 47,482 days after the epoch


def test_values_are_encoded_and_commas_between_them_are_literal() -> None:
    filters = Filters(queue=("a b", "c&d/e"), status=("ready", "dead"), priority="10..20")
    assert target("/jobs", filters.query()) == "/jobs?status=ready,dead&queue=a%20b,c%26d%2Fe&priority=10..20"


def test_nothing_set_is_no_query() -> None:
    assert target("/jobs", Filters().query()) == "/jobs"
    assert Filters().given() == {}


@pytest.mark.parametrize("value", ["", " ", "a,b"])
def test_a_value_that_would_widen_the_filter_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="queue: "):
        Filters(queue=(value,))
    with pytest.raises(InvalidInput, match="queue: "):
        Filters(queue=value)
    with pytest.raises(InvalidInput, match="priority: "):
        Filters(priority=value)


def test_a_filter_on_payloads_goes_as_it_is() -> None:
    filters = Filters(queue="q", filter='.tags == ["a", "b"] and .n+1 > 2')
    assert target("/jobs", filters.query()) == (
        "/jobs?queue=q&filter=.tags%20%3D%3D%20%5B%22a%22%2C%20%22b%22%5D%20and%20.n%2B1%20%3E%202"
    )
    assert filters.also(status="dead").filter == filters.filter


@pytest.mark.parametrize("value", ["", " ", 1])
def test_a_filter_on_payloads_that_says_nothing_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"filter: .*; expected an expression of jq"):
        Filters(filter=value)


def test_also_adds_without_dropping() -> None:
    filters = Filters(queue=("q",), status=("ready",)).also(id=("x",))
    assert filters == Filters(queue=("q",), status=("ready",), id=("x",))
    assert filters.also(status=("dead",)).status == ("dead",)


def test_a_text_is_one_name_and_never_its_letters() -> None:
    assert names("mail", "queue") == ("mail",)
    assert names(["mail", "web"], "queue") == ("mail", "web")
    assert Filters(queue="mail", id=["x", "y"]).query() == {"id": "x,y", "queue": "mail"}


def test_a_name_that_is_no_text_is_refused() -> None:
    given: Any = b"mail"
    with pytest.raises(InvalidInput, match="queue: 109 is not valid; expected text"):
        Filters(queue=given)


def test_numbers_and_instants_may_be_conditions() -> None:
    filters = Filters(priority=7, attempts=0, ready_at=NOON)
    assert filters.query() == {"priority": "7", "ready_at": str(NOON_MS), "attempts": "0"}
    assert Filters(ready_at=(None, NOON)).query() == {"ready_at": f"..{NOON_MS}"}
    assert Filters(ready_at=(5, NOON)).query() == {"ready_at": f"5..{NOON_MS}"}
    assert Filters(ready_at=(None, None)).given() == {}


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (NOON, NOON_MS),
        (datetime(2100, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))), NOON_MS),
        # A fraction is rounded up: a job never runs before its time.
        (NOON + timedelta(microseconds=1), NOON_MS + 1),
        (1_795_264_390_000, 1_795_264_390_000),
    ],
)
def test_an_instant_is_a_number_or_an_aware_datetime(value: Any, ms: int) -> None:
    assert epoch_ms(value, "ready_at") == ms


@pytest.mark.parametrize("value", [datetime(2100, 1, 1), "2100-01-01", 1.5, True])
def test_what_is_no_instant_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"ready_at: .* expected an aware datetime"):
        epoch_ms(value, "ready_at")


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (timedelta(minutes=5), 300_000),
        (timedelta(microseconds=1), 1),
        (timedelta(0), 0),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
    ],
)
def test_a_duration_is_a_timedelta_or_text_with_its_unit(value: Any, ms: int) -> None:
    assert period_ms(value, "delay") == ms


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(seconds=-1), "expected at least 0s"),
        (300, "expected a duration with its unit, such as 300s or 300ms"),
        ("300", "expected a duration with its unit, such as 300s or 300ms"),
        ("soon", "expected a duration such as"),
        (0.5, "expected a duration such as"),
    ],
)
def test_what_is_no_duration_is_refused_by_its_name(value: Any, expected: str) -> None:
    with pytest.raises(InvalidInput, match=f"^delay: .*{expected}"):
        period_ms(value, "delay")


def test_a_delay_counts_from_now_and_excludes_a_moment() -> None:
    before = SystemClock().now()
    at = moment_or_delay(None, "5m", "ready_at")
    assert at is not None
    assert before + 300_000 <= at <= SystemClock().now() + 300_000
    assert moment_or_delay(None, None, "ready_at") is None
    assert moment_or_delay(NOON, None, "ready_at") == NOON_MS
    with pytest.raises(InvalidInput, match="ready_at and delay: both say when"):
        moment_or_delay(NOON, "5m", "ready_at")


def test_a_retention_may_be_given_in_timedeltas() -> None:
    given = {"completed_ms": timedelta(hours=1), "dead_ms": 5}
    assert retention_ms(given) == {"completed_ms": 3_600_000, "dead_ms": 5}
    assert retention_ms({"dead_ms": None}) == {"dead_ms": None}


def test_the_changes_of_a_patch_are_written_and_what_clears_stays() -> None:
    changes = {"priority": 1, "ready_at": NOON, "retention": {"dead_ms": "1d"}, "retry_limit": None}
    assert changes_body(changes) == {
        "priority": 1,
        "ready_at": NOON_MS,
        "retention": {"dead_ms": 86_400_000},
        "retry_limit": None,
    }
    assert changes_body({"ready_at": None, "retention": None}) == {"ready_at": None, "retention": None}
    assert changes_body({"delay": "5m"}).keys() == {"ready_at"}

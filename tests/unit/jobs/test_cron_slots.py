"""Cron slots: what fires when, above all where a zone changes its clocks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from anew.jobs.cron import parse_cron
from anew.jobs.cron_slots import latest_slot, next_slot
from anew.zones import offsets

NEW_YORK, LORD_HOWE, APIA = "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def slots(expression: str, zone: str, after: str, until: str) -> list[str]:
    """All slots in (after, until], in UTC."""
    cron, offset_at = parse_cron(expression), offsets(zone)
    found, at = [], instant(after)
    while (slot := next_slot(cron, at, offset_at)) is not None and slot <= instant(until):
        assert slot > at
        found.append(datetime.fromtimestamp(slot / 1000, UTC).strftime("%m-%d %H:%M"))
        at = slot
    return found


def spring(expression: str) -> list[str]:
    """New York, 2026-03-08: at 02:00 EST, 07:00 UTC, the clocks go to 03:00 EDT. The slots from midnight to 05:00 EDT."""
    return slots(expression, NEW_YORK, "2026-03-08 04:59", "2026-03-08 09:00")


def autumn(expression: str) -> list[str]:
    """New York, 2026-11-01: at 02:00 EDT, 06:00 UTC, the clocks go back to 01:00 EST. From midnight to 03:00 EST."""
    return slots(expression, NEW_YORK, "2026-11-01 03:59", "2026-11-01 08:00")


# -- a time that the clocks leave out


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Checklist 89 of Zizq's API: one run a day of what has a fixed time.
        ("30 2 * * *", ["03-08 07:00"]),  # right after the gap: 03:00 EDT
        ("0 2 * * *", ["03-08 07:00"]),
        ("59 2 * * *", ["03-08 07:00"]),
        ("30 3 * * *", ["03-08 07:30"]),
        ("30 1 * * *", ["03-08 06:30"]),
        ("0,30 2 * * *", ["03-08 07:00"]),  # both times are left out: one run
        ("0 1-4 * * *", ["03-08 06:00", "03-08 07:00", "03-08 08:00"]),  # 02:00 and 03:00 are one instant
        ("30 1-4 * * *", ["03-08 06:30", "03-08 07:00", "03-08 07:30", "03-08 08:30"]),
        ("0 30 2 * * *", ["03-08 07:00"]),
        # What follows elapsed time has no time to make up for.
        ("0 * * * *", ["03-08 05:00", "03-08 06:00", "03-08 07:00", "03-08 08:00", "03-08 09:00"]),
        ("*/30 2 * * *", []),
        ("30 */2 * * *", ["03-08 05:30", "03-08 08:30"]),  # 00:30 and 04:30
        ("30 2-4/2 * * *", ["03-08 08:30"]),
        ("*/30 30 2 * * *", []),
    ],
)
def test_the_gap(expression: str, expected: list[str]) -> None:
    assert spring(expression) == expected


# -- a time that comes twice


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 1 * * *", ["11-01 05:30"]),  # the first time only: 01:30 EDT
        ("0 1 * * *", ["11-01 05:00"]),
        ("0 2 * * *", ["11-01 07:00"]),
        ("0,30 1 * * *", ["11-01 05:00", "11-01 05:30"]),
        ("0 1-2 * * *", ["11-01 05:00", "11-01 07:00"]),
        ("0 * * * *", ["11-01 04:00", "11-01 05:00", "11-01 06:00", "11-01 07:00", "11-01 08:00"]),
        ("*/30 1 * * *", ["11-01 05:00", "11-01 05:30", "11-01 06:00", "11-01 06:30"]),
        ("30 */1 * * *", ["11-01 04:30", "11-01 05:30", "11-01 06:30", "11-01 07:30"]),
        ("45 1/5 * * *", ["11-01 05:45", "11-01 06:45"]),
    ],
)
def test_the_fold(expression: str, expected: list[str]) -> None:
    assert autumn(expression) == expected


def test_a_fixed_time_asked_for_in_the_second_pass_is_tomorrows() -> None:
    """Q9 of Zizq's API: what comes next is never in the past."""
    assert slots("30 1 * * *", NEW_YORK, "2026-11-01 06:10", "2026-11-02 07:00") == ["11-02 06:30"]
    assert slots("30 1 * * *", NEW_YORK, "2026-11-01 06:45", "2026-11-02 07:00") == ["11-02 06:30"]


# -- odd changes


def test_a_change_of_half_an_hour() -> None:
    """Lord Howe: 2026-10-04 at 02:00, 15:30 UTC of the day before, the clocks go to 02:30; 2026-04-05 at 02:00 to 01:30."""
    assert slots("15 2 * * *", LORD_HOWE, "2026-10-03 00:00", "2026-10-04 00:00") == ["10-03 15:30"]
    assert slots("*/15 2 * * *", LORD_HOWE, "2026-10-03 00:00", "2026-10-04 00:00") == [
        "10-03 15:30",
        "10-03 15:45",
    ]
    assert slots("0 */1 * * *", LORD_HOWE, "2026-10-03 14:00", "2026-10-03 17:00") == [
        "10-03 14:30",
        "10-03 16:00",
        "10-03 17:00",
    ]
    assert slots("45 1 * * *", LORD_HOWE, "2026-04-04 00:00", "2026-04-05 00:00") == ["04-04 14:45"]
    assert slots("45 */1 * * *", LORD_HOWE, "2026-04-04 14:00", "2026-04-04 16:30") == [
        "04-04 14:45",
        "04-04 15:15",
        "04-04 16:15",
    ]


def test_a_day_that_a_zone_leaves_out() -> None:
    """Apia went from 2011-12-29 24:00 (10:00 UTC of the 30th) to 2011-12-31 00:00."""
    assert slots("0 12 * * *", APIA, "2011-12-29 12:00", "2011-12-31 00:00") == [
        "12-29 22:00",
        "12-30 10:00",
        "12-30 22:00",
    ]
    assert slots("0 12 30 12 *", APIA, "2011-12-01 00:00", "2012-01-01 00:00") == ["12-30 10:00"]
    assert slots("0 */12 30 12 *", APIA, "2011-12-01 00:00", "2012-01-01 00:00") == []


def test_a_change_at_midnight_that_sends_the_clocks_to_the_day_before() -> None:
    """Sao Paulo, 2018-02-18: at 00:00 (02:00 UTC) the clocks went back to 23:00 of the 17th."""
    after, until = "2018-02-17 12:00", "2018-02-18 12:00"
    assert slots("0 * 17 2 *", "America/Sao_Paulo", "2018-02-18 00:30", until) == [
        "02-18 01:00",
        "02-18 02:00",
    ]
    assert slots("30 23 * * *", "America/Sao_Paulo", after, until) == ["02-18 01:30"]
    assert slots("0 0 * * *", "America/Sao_Paulo", after, until) == ["02-18 03:00"]
    assert slots("*/30 23 17 * *", "America/Sao_Paulo", after, until) == [
        "02-18 01:00",
        "02-18 01:30",
        "02-18 02:00",
        "02-18 02:30",
    ]


def test_a_day_far_ahead_begins_with_its_first_minute_in_every_zone() -> None:
    """1 July 2026 begins at 12:00 UTC of the day before in Auckland, at 10:00 UTC of its own in Honolulu."""
    assert slots("*/30 * 1 7 *", "Pacific/Auckland", "2026-01-01", "2026-06-30 12:30") == [
        "06-30 12:00",
        "06-30 12:30",
    ]
    assert slots("*/30 * 1 7 *", "Pacific/Honolulu", "2026-01-01", "2026-07-01 10:30") == [
        "07-01 10:00",
        "07-01 10:30",
    ]


# -- strictly after


def test_a_slot_is_strictly_after_the_instant() -> None:
    cron, utc = parse_cron("* * * * *"), offsets("UTC")
    minute = instant("2026-01-01 00:00")
    assert next_slot(cron, minute - 1, utc) == minute
    assert next_slot(cron, minute, utc) == minute + 60_000
    assert next_slot(cron, minute + 999, utc) == minute + 60_000
    assert next_slot(cron, 0, utc) == 60_000


def test_the_end_of_time() -> None:
    utc = offsets("UTC")
    assert next_slot(parse_cron("0 0 1 1 *"), instant("9999-01-01 00:00"), utc) is None
    assert next_slot(parse_cron("*/5 0 1 1 *"), instant("9999-01-01 12:00"), utc) is None
    assert next_slot(parse_cron("0 0 31 2 *", may_never_fire=True), 0, utc) is None


# -- the latest that was missed


@pytest.mark.parametrize(
    ("expression", "first", "now", "expected"),
    [
        ("0 3 * * *", "2026-01-01 03:00", "2026-01-01 03:00", "2026-01-01 03:00"),
        ("0 3 * * *", "2026-01-01 03:00", "2026-01-02 02:59:59", "2026-01-01 03:00"),
        ("0 3 * * *", "2026-01-01 03:00", "2026-06-01 12:00", "2026-06-01 03:00"),
        ("* * * * * *", "2026-01-01 03:00", "2027-01-01 00:00:07", "2027-01-01 00:00:07"),
        ("0 0 29 2 *", "2024-02-29 00:00", "2031-12-31 00:00", "2028-02-29 00:00"),
        ("0 0 0 1 1 * 2026", "2026-01-01 00:00", "2040-01-01 00:00", "2026-01-01 00:00"),
    ],
)  # fmt: skip
def test_the_latest_slot(expression: str, first: str, now: str, expected: str) -> None:
    assert latest_slot(parse_cron(expression), instant(first), instant(now), offsets("UTC")) == instant(
        expected
    )


def test_however_many_were_missed_the_latest_is_found_with_few_questions() -> None:
    asked = []

    def utc(instant_s: int) -> int:
        asked.append(instant_s)
        return 0

    ten_years_ms = 10 * 365 * 86_400_000
    assert latest_slot(parse_cron("* * * * * *"), 1_000, ten_years_ms, utc) == ten_years_ms
    assert len(asked) < 200

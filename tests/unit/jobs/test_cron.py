"""Cron expressions: what is read, what is refused, and which times of the wall clock they name."""

from calendar import timegm

import pytest

from anew.errors import InvalidInput
from anew.jobs.cron import Cron, civil, parse_cron


def wall(text: str) -> int:
    """Seconds of a wall clock time such as 2026-01-01 00:00:00."""
    date, _, time = text.partition(" ")
    return timegm((*map(int, date.split("-")), *map(int, (time or "0:0:0").split(":"))))  # type: ignore[arg-type]


def text(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    day, second = divmod(seconds, 86_400)
    year, month, number = civil(day)
    return f"{year}-{month:02}-{number:02} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def firings(cron: Cron, start: str, count: int) -> list[str | None]:
    found, at = [], wall(start) - 1
    for _ in range(count):
        first = cron.first_from(at + 1)
        found.append(text(first))
        if first is None:
            break
        at = first
    return found


def days(expression: str, start: str, count: int) -> list[str]:
    return [str(found)[:10] for found in firings(parse_cron(f"0 0 {expression}"), start, count)]


# -- times of the day


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # from Thursday 2026-01-01 00:00:00
        ("* * * * *", ["2026-01-01 00:00:00", "2026-01-01 00:01:00"]),
        ("*/15 * * * *", ["2026-01-01 00:00:00", "2026-01-01 00:15:00", "2026-01-01 00:30:00"]),
        ("5/20 * * * *", ["2026-01-01 00:05:00", "2026-01-01 00:25:00", "2026-01-01 00:45:00", "2026-01-01 01:05:00"]),
        ("10-20/5 3 * * *", ["2026-01-01 03:10:00", "2026-01-01 03:15:00", "2026-01-01 03:20:00", "2026-01-02 03:10:00"]),
        ("30,0 12 * * *", ["2026-01-01 12:00:00", "2026-01-01 12:30:00", "2026-01-02 12:00:00"]),
        ("*/90 * * * *", ["2026-01-01 00:00:00", "2026-01-01 01:00:00"]),
        # checklist 89 of Zizq's API: six fields, the second first
        ("*/20 * * * * *", ["2026-01-01 00:00:00", "2026-01-01 00:00:20", "2026-01-01 00:00:40", "2026-01-01 00:01:00"]),
        ("59 59 23 31 12 *", ["2026-12-31 23:59:59", "2027-12-31 23:59:59"]),
        # seven, the year last
        ("0 0 12 1 1 * 2027,2030", ["2027-01-01 12:00:00", "2030-01-01 12:00:00", None]),
        ("0 0 0 1 1 * 2027-2031/2", ["2027-01-01 00:00:00", "2029-01-01 00:00:00", "2031-01-01 00:00:00", None]),
        ("@yearly", ["2026-01-01 00:00:00", "2027-01-01 00:00:00"]),
        ("@annually", ["2026-01-01 00:00:00", "2027-01-01 00:00:00"]),
        ("@monthly", ["2026-01-01 00:00:00", "2026-02-01 00:00:00"]),
        ("@weekly", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("@daily", ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]),
        ("@midnight", ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]),
        (" @Hourly ", ["2026-01-01 00:00:00", "2026-01-01 01:00:00"]),
    ],
)  # fmt: skip
def test_the_times_that_an_expression_names(expression: str, expected: list[str | None]) -> None:
    assert firings(parse_cron(expression), "2026-01-01", len(expected)) == expected


# -- days


@pytest.mark.parametrize(
    ("expression", "start", "expected"),
    [
        ("29 2 *", "2026-01-01", ["2028-02-29", "2032-02-29"]),
        ("29 2 *", "2096-03-01", ["2104-02-29"]),  # 2100 is no leap year
        ("31 * *", "2026-01-01", ["2026-01-31", "2026-03-31", "2026-05-31"]),
        ("1 JAN,jul *", "2026-01-02", ["2026-07-01", "2027-01-01"]),
        ("* * mon-wed", "2026-01-01", ["2026-01-05", "2026-01-06", "2026-01-07", "2026-01-12"]),
        ("* * 0", "2026-01-01", ["2026-01-04", "2026-01-11"]),
        ("* * 7", "2026-01-01", ["2026-01-04", "2026-01-11"]),
        ("* * sat-sun", "2026-01-01", ["2026-01-03", "2026-01-04", "2026-01-10"]),
        ("* * 6-7", "2026-01-01", ["2026-01-03", "2026-01-04", "2026-01-10"]),
        ("? * 1", "2026-01-01", ["2026-01-05", "2026-01-12"]),
        ("15 * ?", "2026-01-01", ["2026-01-15", "2026-02-15"]),
        # last
        ("L * *", "2028-01-01", ["2028-01-31", "2028-02-29", "2028-03-31"]),
        ("15,L * *", "2026-02-01", ["2026-02-15", "2026-02-28", "2026-03-15"]),
        ("* * 5L", "2026-01-01", ["2026-01-30", "2026-02-27"]),
        ("* * 5L", "2026-12-01", ["2026-12-25"]),  # seven days before the 32nd
        ("* * 5#L", "2026-01-01", ["2026-01-30", "2026-02-27"]),
        ("* * friL", "2026-01-01", ["2026-01-30", "2026-02-27"]),
        # the n-th
        ("* * 5#2", "2026-01-01", ["2026-01-09", "2026-02-13"]),
        ("* * SUN#1,7#3", "2026-01-01", ["2026-01-04", "2026-01-18", "2026-02-01", "2026-02-15"]),
        ("* * 5#5", "2026-01-01", ["2026-01-30", "2026-05-29"]),
        # the nearest working day: 2026-02-15 is a Sunday, 08-01 a Saturday, 02-28 a Saturday, 05-31 a Sunday
        ("15W * *", "2026-01-01", ["2026-01-15", "2026-02-16", "2026-03-16", "2026-04-15"]),
        ("1W 8 *", "2026-01-01", ["2026-08-03"]),
        ("31W 5 *", "2026-01-01", ["2026-05-29"]),
        ("28W 2 *", "2026-01-01", ["2026-02-27"]),
        ("31W * *", "2026-01-01", ["2026-01-30", "2026-03-31", "2026-05-29"]),
        ("LW * *", "2026-01-01", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        # both day fields: either, unless a + asks for both; what restricts nothing has no part in it
        (
            "13 * 5",
            "2026-02-01",
            ["2026-02-06", "2026-02-13", "2026-02-20", "2026-02-27", "2026-03-06", "2026-03-13"],
        ),
        ("13 * +5", "2026-01-01", ["2026-02-13", "2026-03-13", "2026-11-13"]),
        ("*/1 * 5", "2026-02-01", ["2026-02-06", "2026-02-13"]),
        ("*/10 * 5", "2026-02-01", ["2026-02-01", "2026-02-06", "2026-02-11", "2026-02-13"]),
        ("13 * +*", "2026-01-01", ["2026-01-13", "2026-02-13"]),
        # from one 29 February that is a Monday to the next there are forty years here: 2072, 2112 (2100 is none)
        ("29 2 +1", "2072-03-01", ["2112-02-29"]),
    ],
)
def test_the_days_that_an_expression_names(expression: str, start: str, expected: list[str]) -> None:
    assert days(expression, start, len(expected)) == expected


def test_the_search_ends_with_the_year_9999() -> None:
    assert firings(parse_cron("0 0 29 2 *"), "9996-01-01", 3) == ["9996-02-29 00:00:00", None]


# -- refusals


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        ("", "cron expression"),
        ("* * * *", "cron expression"),
        ("* * * * * * * *", "cron expression"),
        ("@never", "cron expression"),
        ("@reboot", "cron expression"),
        ("60 * * * *", "cron expression: minute"),
        ("60 * * * * *", "cron expression: second"),
        ("-1 * * * *", "cron expression: minute"),
        ("* 24 * * *", "cron expression: hour"),
        ("* * 0 * *", "cron expression: day of month"),
        ("* * 32 * *", "cron expression: day of month"),
        ("* * * 13 *", "cron expression: month"),
        ("* * * foo *", "cron expression: month"),
        ("* * * mon *", "cron expression: month"),
        ("* * * * 8", "cron expression: day of week"),
        ("* * * * jan", "cron expression: day of week"),
        ("* * * * fri-mon", "cron expression: day of week"),
        ("* * * * 5#6", "cron expression: day of week"),
        ("* * * * 5#0", "cron expression: day of week"),
        ("* * * * #2", "cron expression: day of week"),
        ("* * * * L", "cron expression: day of week"),
        ("* * W * *", "cron expression: day of month"),
        ("* * 32W * *", "cron expression: day of month"),
        ("* * L-3 * *", "cron expression: day of month"),
        ("? * * * *", "cron expression: minute"),
        ("*/0 * * * *", "cron expression: minute"),
        ("*/ * * * *", "cron expression: minute"),
        ("*/x * * * *", "cron expression: minute"),
        ("*/5/5 * * * *", "cron expression: minute"),
        ("5- * * * *", "cron expression: minute"),
        ("20-10 * * * *", "cron expression: minute"),
        ("1,,2 * * * *", "cron expression: minute"),
        ("1.5 * * * *", "cron expression: minute"),
        ("٣ * * * *", "cron expression: minute"),
        ("0 0 0 1 1 * 1969", "cron expression: year"),
        ("0 0 0 1 1 * 10000", "cron expression: year"),
        ("1 " * 600, "cron expression"),
        ("9" * 1000 + " * * * *", "cron expression: minute"),
    ],
)
def test_what_is_no_expression_is_refused_by_the_name_of_its_field(expression: str, field: str) -> None:
    """Checklist 85 of Zizq's API."""
    with pytest.raises(InvalidInput) as caught:
        parse_cron(expression, may_never_fire=True)
    assert caught.value.field == field


def test_the_message_says_what_was_expected() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_cron("0 0 * * mo")
    assert str(caught.value) == (
        'cron expression: day of week: "MO" is not valid; expected 0 to 7 or SUN to SAT, ranges, lists and steps of them'
    )


NEVER = [
    "0 0 31 2 *",
    "0 0 30 feb *",
    "0 0 31 4,6,9,11 *",
    "0 0 0 29 2 * 2027",
    "0 0 31W 6 *",
    "0 0 1-7 * +1#5",
]


@pytest.mark.parametrize("expression", NEVER)
def test_a_date_that_never_comes_is_refused(expression: str) -> None:
    with pytest.raises(InvalidInput, match="expected a date that some year has"):
        parse_cron(expression)


@pytest.mark.parametrize("expression", NEVER)
def test_a_date_that_never_comes_may_be_accepted_and_never_fires(expression: str) -> None:
    cron = parse_cron(expression, may_never_fire=True)
    assert cron.never_fires()
    assert cron.first_from(wall("2026-01-01")) is None


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 29 2 +1", "0 0 31 * *", "0 0 * 2 1#5", "0 0 30 2 1", "0 0 L 2 *"]
)
def test_a_date_that_comes_once_in_many_years_is_accepted(expression: str) -> None:
    assert parse_cron(expression).first_from(wall("2026-01-01")) is not None


# -- the calendar


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (-1, (1969, 12, 31)),
        (0, (1970, 1, 1)),
        (11_016, (2000, 2, 29)),  # 30 years with 7 leap days, and 59 days
        (11_017, (2000, 3, 1)),
        (47_540, (2100, 2, 28)),
        (47_541, (2100, 3, 1)),
        (2_932_896, (9999, 12, 31)),
    ],
)
def test_the_date_of_a_number_of_days(day: int, expected: tuple[int, int, int]) -> None:
    assert civil(day) == expected
    assert timegm((*expected, 0, 0, 0)) == day * 86_400

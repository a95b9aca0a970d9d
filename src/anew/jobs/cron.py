"""Cron expressions: which wall clock times they name. `anew.jobs.cron_slots` maps those to instants.

Five fields (minute, hour, day, month, weekday), six (second first) or seven (second first, year last), or a nickname. A wall
clock time is whole seconds since 1970-01-01 00:00 on the clock that is meant, whatever its zone.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap, monthrange, timegm
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from anew.errors import InvalidInput
from anew.units import refused

DAY_S = 86_400
LAST_YEAR = 9999
MAX_TEXT = 1024
"""No expression is longer: every second, minute and hour by its number has 400 characters."""

_LONGEST_GAP = 48
"""Years of which one has every date that comes at all: from one 29 February of a certain weekday to the next it is 40 at most."""

_NICKNAMES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_ANY = frozenset({"*", "?", "*/1"})
"""A day field written so restricts nothing."""


class _Field(Struct, frozen=True):
    """What may stand in one field."""

    name: str
    low: int
    high: int
    names: dict[str, int] = {}


_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)})
_WEEKDAY = _Field("day of week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)})
_YEAR = _Field("year", 1970, LAST_YEAR)


class _Days(Struct, frozen=True):
    """The days of a month that a day field names.

    Attributes:
        numbers: By their number.
        nearest: The working day, Monday to Friday, nearest to such a day of the same month.
        last, last_working: The month's last day; its last working day.
    """

    numbers: frozenset[int]
    nearest: frozenset[int] = frozenset()
    last: bool = False
    last_working: bool = False

    def of(self, first_weekday: int, length: int) -> set[int]:
        """Give the days of a month that begins on a weekday (0 is Sunday) and has so many days."""
        days = {day for day in self.numbers if day <= length}
        days |= {_nearest_working(day, first_weekday, length) for day in self.nearest if day <= length}
        if self.last:
            days.add(length)
        if self.last_working:
            days.add(_nearest_working(length, first_weekday, length))
        return days


class _Weekdays(Struct, frozen=True):
    """The days of a month that a weekday field names; 0 is Sunday.

    Attributes:
        every: Each such weekday.
        ordinal: Pairs of a weekday and which one of the month it is, from 1.
        last: The month's last such weekday.
    """

    every: frozenset[int]
    ordinal: frozenset[tuple[int, int]] = frozenset()
    last: frozenset[int] = frozenset()

    def of(self, first_weekday: int, length: int) -> set[int]:
        """Give the days of a month that begins on a weekday and has so many days."""
        days = set()
        for day in range(1, length + 1):
            weekday = (first_weekday + day - 1) % 7
            if (
                weekday in self.every
                or (weekday, (day + 6) // 7) in self.ordinal
                or (weekday in self.last and day + 7 > length)
            ):
                days.add(day)
        return days


class Cron(Struct, frozen=True):
    """A parsed expression.

    Attributes:
        seconds, minutes, hours: In order.
        days: The day field; None if it restricts nothing.
        months: In order.
        weekdays: The weekday field; None if it restricts nothing.
        years: In order; None means every year.
        both: Where both day fields restrict: a day must be named by both, else by one.
        fixed: It names times of the day: neither second, minute nor hour has a ``*`` or a step. Else it follows elapsed time.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: _Days | None
    months: tuple[int, ...]
    weekdays: _Weekdays | None
    years: tuple[int, ...] | None
    both: bool
    fixed: bool

    def first_from(self, wall: int) -> int | None:
        """Give the first wall clock time at or after one; None if there is none up to the end of the year 9999."""
        day, second = divmod(wall, DAY_S)
        for match in self._days_from(day):
            time = self._time_from(second if match == day else 0)
            if time is not None:
                return match * DAY_S + time
        return None

    def never_fires(self) -> bool:
        """Report whether no year has a date that it names: 30 February, or a year that is over by then."""
        # By leap year and first weekday there are fourteen kinds of years, and 28 in a row have them all.
        years = self.years or range(2000, 2028)
        kinds = {(isleap(year), monthrange(year, 1)[0]): year for year in years}
        return not any(self._days_of(year, month) for year in kinds.values() for month in self.months)

    def _days_from(self, day: int) -> Iterator[int]:
        """List the matching days from one on, as days since 1970-01-01."""
        first_year, first_month, first_day = civil(day)
        for year in self._years_from(first_year):
            for month in self.months:
                if (year, month) < (first_year, first_month):
                    continue
                start = timegm((year, month, 1, 0, 0, 0)) // DAY_S - 1
                for number in sorted(self._days_of(year, month)):
                    if (year, month, number) >= (first_year, first_month, first_day):
                        yield start + number

    def _years_from(self, year: int) -> Iterator[int]:
        if self.years is not None:
            yield from self.years[bisect_left(self.years, year) :]
        else:
            yield from range(year, min(year + _LONGEST_GAP, LAST_YEAR) + 1)

    def _days_of(self, year: int, month: int) -> set[int]:
        monday_based, length = monthrange(year, month)
        first_weekday = (monday_based + 1) % 7
        if self.days is None and self.weekdays is None:
            return set(range(1, length + 1))
        named = [field.of(first_weekday, length) for field in (self.days, self.weekdays) if field is not None]
        return set.intersection(*named) if self.both else set.union(*named)

    def _time_from(self, second: int) -> int | None:
        """Give the first matching second of the day at or after one."""
        hour, rest = divmod(second, 3600)
        minute, second = divmod(rest, 60)
        for h in self.hours[bisect_left(self.hours, hour) :]:
            for m in self.minutes[bisect_left(self.minutes, minute) if h == hour else 0 :]:
                for s in self.seconds[bisect_left(self.seconds, second) if (h, m) == (hour, minute) else 0 :]:
                    return h * 3600 + m * 60 + s
        return None


def parse_cron(text: str, *, may_never_fire: bool = False) -> Cron:
    """Parse a cron expression.

    Fields are separated by blanks and know ``*``, ``a``, ``a-b``, ``*/n``, ``a-b/n``, ``a/n`` (from a on) and lists of those with
    commas; letters of either case. The day also knows ``?``, ``L`` (last), ``15W`` (the month's working day nearest to the 15th)
    and ``LW`` (last working day); the weekday, 0 or 7 is Sunday, also ``?``, ``5#2`` (second Friday) and ``5L`` or ``5#L`` (last
    Friday). Months and weekdays have their English names of three letters.

    Where both day fields restrict, a day that either names is meant, as in cron; a ``+`` before the weekday means both.

    Args:
        text: The expression, or ``@yearly``, ``@annually``, ``@monthly``, ``@weekly``, ``@daily``, ``@midnight``, ``@hourly``.
        may_never_fire: Accept what names no date of any year, such as 30 February.

    Raises:
        InvalidInput: It is not such an expression; the message names the field.
    """
    if len(text) > MAX_TEXT:
        raise refused("cron expression", text, f"at most {MAX_TEXT} characters")
    cron = _parsed(text)
    if not may_never_fire and cron.never_fires():
        raise refused("cron expression", text, "a date that some year has")
    return cron


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Cron:
    fields = _NICKNAMES.get(text.strip().upper(), text).upper().split()
    if not 5 <= len(fields) <= 7:
        raise refused(
            "cron expression",
            text,
            "five to seven fields, or a nickname such as @daily; six begin with the second",
        )
    second, minute, hour, day, month, weekday, year = (
        ["0", *fields, "*"] if len(fields) == 5 else [*fields, "*"][:7]
    )
    every_day, every_weekday = day in _ANY, weekday.removeprefix("+") in _ANY
    return Cron(
        seconds=_numbers(_SECOND, second),
        minutes=_numbers(_MINUTE, minute),
        hours=_numbers(_HOUR, hour),
        days=None if every_day else _days(day),
        months=_numbers(_MONTH, month),
        weekdays=None if every_weekday else _weekdays(weekday.removeprefix("+")),
        years=None if year == "*" else _numbers(_YEAR, year),
        both=weekday.startswith("+"),
        fixed=not any(sign in field for field in (second, minute, hour) for sign in "*/"),
    )


def _numbers(field: _Field, text: str) -> tuple[int, ...]:
    return tuple(sorted({number for term in text.split(",") for number in _term(field, term)}))


def _days(text: str) -> _Days:
    terms = text.split(",")
    nearest = [term for term in terms if term.endswith("W") and term != "LW"]
    plain = [term for term in terms if term not in ("L", "LW", *nearest)]
    return _Days(
        frozenset(number for term in plain for number in _term(_DAY, term)),
        frozenset(_number(_DAY, term[:-1]) for term in nearest),
        "L" in terms,
        "LW" in terms,
    )


def _weekdays(text: str) -> _Weekdays:
    every: set[int] = set()
    ordinal: set[tuple[int, int]] = set()
    last: set[int] = set()
    for term in text.split(","):
        day, sign, which = term.partition("#")
        if sign and which != "L":
            if which not in ("1", "2", "3", "4", "5"):
                raise _refused(_WEEKDAY, term)
            ordinal.add((_number(_WEEKDAY, day) % 7, int(which)))
        elif sign or (day[:-1] and day.endswith("L")):
            last.add(_number(_WEEKDAY, day if sign else day[:-1]) % 7)
        else:
            every.update(number % 7 for number in _term(_WEEKDAY, day))
    return _Weekdays(frozenset(every), frozenset(ordinal), frozenset(last))


def _term(field: _Field, term: str) -> range:
    """Read one term of a list: the numbers that it names."""
    span, slash, step = term.partition("/")
    low, dash, high = span.partition("-")
    if span == "*" or (span == "?" and (field is _DAY or field is _WEEKDAY)):
        start, end = field.low, 6 if field is _WEEKDAY else field.high
    elif dash:
        start, end = _number(field, low), _number(field, high)
        if field is _WEEKDAY and high == "SUN":
            end = 7  # SAT-SUN ends with the week
    else:
        start = _number(field, low)
        end = field.high if slash else start
    by = 1
    if slash:
        if not (step.isascii() and step.isdigit() and len(step) <= 4):
            raise _refused(field, term)
        by = int(step)
    if by == 0 or end < start:
        raise _refused(field, term)
    return range(start, end + 1, by)


def _number(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names[text]
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and field.low <= int(text) <= field.high):
        raise _refused(field, text)
    return int(text)


def _refused(field: _Field, text: str) -> InvalidInput:
    names = f" or {next(iter(field.names))} to {list(field.names)[-1]}" if field.names else ""
    expected = f"{field.low} to {field.high}{names}, ranges, lists and steps of them"
    return refused(f"cron expression: {field.name}", text, expected)


def _nearest_working(day: int, first_weekday: int, length: int) -> int:
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:  # Saturday: the Friday before, or the Monday after where the month begins with it
        return day - 1 if day > 1 else 3
    if weekday == 0:  # Sunday: the Monday after, or the Friday before where the month ends with it
        return day + 1 if day < length else day - 2
    return day


def civil(day: int) -> tuple[int, int, int]:
    """Give year, month and day of a number of days since 1970-01-01.

    Source:
        H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days, 2013.
    """
    era, day_of_era = divmod(day + 719_468, 146_097)  # 400 years from a 1 March to the next
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153  # from March
    number = day_of_year - (153 * month + 2) // 5 + 1
    year = era * 400 + year_of_era + (month >= 10)
    return year, month + 3 if month < 10 else month - 9, number

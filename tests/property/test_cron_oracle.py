"""Cron slots against two oracles: another library, and a search minute by minute (checklist 32 of reliability).

The library follows the same rule of fixed and elapsed times where an expression has five fields. Left out is what it reads in
another way: a step that does not begin with a star is fixed there, and ``*/n`` in one day field asks for both.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anew.errors import InvalidInput
from anew.jobs.cron import parse_cron
from anew.jobs.cron_slots import next_slot
from anew.zones import offsets
from tests.property.examples import examples

ZONES = [
    "UTC",
    "Africa/Casablanca",
    "Africa/Johannesburg",
    "America/Chicago",
    "America/Los_Angeles",
    "America/New_York",
    "America/Phoenix",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Adelaide",
    "Australia/Sydney",
    "Europe/Athens",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/London",
    "Pacific/Auckland",
    "Pacific/Chatham",
]
ODD_ZONES = [
    *ZONES,
    "Africa/Cairo",
    "America/Caracas",
    "America/Havana",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Pacific/Apia",
]
"""Changes at midnight, where the library names times that do not exist, and by less than an hour, where it passes hours over."""

FROM, TO = 1_000_000_000, 2_500_000_000  # 2001 to 2049


def changes(zone: str) -> list[int]:
    """The instants, in seconds, at which a zone changed its clocks from FROM to TO."""
    offset_at, found = offsets(zone), []
    for day in range(FROM, TO, 86_400):
        low, high = day, day + 86_400
        if offset_at(low) != offset_at(high):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(middle) == offset_at(low) else (low, middle)
            found.append(high)
    return found


@st.composite
def places(draw: st.DrawFn, zones: list[str]) -> tuple[str, int]:
    """A zone, and an instant in seconds: as a rule within a day and a half of a change of its clocks."""
    zone = draw(st.sampled_from(zones))
    known = _changes(zone)
    if known and draw(st.integers(0, 3)):
        return zone, draw(st.sampled_from(known)) + draw(st.integers(-130_000, 10_000))
    return zone, draw(st.integers(FROM, TO))


_CHANGES: dict[str, list[int]] = {}


def _changes(zone: str) -> list[int]:
    if zone not in _CHANGES:
        _CHANGES[zone] = changes(zone)
    return _CHANGES[zone]


def fields(low: int, high: int, *, steps: bool = True) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    pairs = st.tuples(number, number).map(sorted)
    kinds = [
        st.just("*"),
        number.map(str),
        pairs.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.lists(number, min_size=1, max_size=4).map(lambda numbers: ",".join(map(str, numbers))),
    ]
    if steps:
        kinds.append(st.integers(1, high).map(lambda step: f"*/{step}"))
    return st.one_of(kinds)


def expressions(days: st.SearchStrategy[str], months: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    weekdays = st.one_of(fields(0, 6, steps=False), st.sampled_from(["7", "MON-FRI", "5#2", "0#1", "1L"]))
    return st.tuples(fields(0, 59), fields(0, 23), days, months, weekdays).map(" ".join)


every_day = expressions(st.just("*"), st.just("*"))
any_day = expressions(
    st.one_of(fields(1, 31, steps=False), st.sampled_from(["L", "LW", "1,L"])), fields(1, 12)
)


def of_the_library(expression: str, zone: str, after: int, count: int) -> list[int]:
    tz = UTC if zone == "UTC" else ZoneInfo(zone)
    firings = (int(slot.timestamp()) for slot in CronSim(expression, datetime.fromtimestamp(after, tz)))
    # Asked in the second pass of an hour it names a fixed time of the first, which is over.
    return list(islice((slot for slot in firings if slot > after), count))


def ours(expression: str, zone: str, after: int, count: int) -> list[int]:
    cron, offset_at, at = parse_cron(expression), offsets(zone), after * 1000
    found: list[int] = []
    while len(found) < count and (slot := next_slot(cron, at, offset_at)) is not None:
        found.append(slot // 1000)
        at = slot
    return found


@given(st.one_of(every_day, any_day), places(ZONES))
@settings(max_examples=examples(400), deadline=None)
def test_reliability_32_the_next_slots_are_those_of_another_library(
    expression: str, place: tuple[str, int]
) -> None:
    zone, after = place
    try:
        parse_cron(expression)
    except InvalidInput:
        assume(False)
    assert ours(expression, zone, after, 8) == of_the_library(expression, zone, after, 8)


# -- a search, minute by minute, written from the rule: since 2001 every change of a clock is at a whole minute


def wall(instant_s: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(instant_s, zone).replace(tzinfo=None)


def searched(minutes: set[int], hours: set[int], fixed: bool, zone: str, after: int, until: int) -> list[int]:
    """Every slot in (after, until], both whole minutes, of a job of each day.

    Elapsed time: whenever the wall clock shows a named time. Fixed: whenever it comes to a named time, or passes over one, for
    the first time.
    """

    def named(shown: datetime) -> bool:
        return shown.minute in minutes and shown.hour in hours

    tz, minute = ZoneInfo(zone), timedelta(minutes=1)
    if not fixed:
        return [at for at in range(after + 60, until + 1, 60) if named(wall(at, tz))]
    found = []
    begin = after - 2 * 86_400
    furthest = wall(begin, tz)
    for at in range(begin, until + 1, 60):
        shown, passed = wall(at, tz), []
        while furthest < shown:
            furthest += minute
            passed.append(furthest)
        if at > after and any(map(named, passed)):
            found.append(at)
    return found


@st.composite
def times(draw: st.DrawFn) -> tuple[str, set[int], set[int], bool]:
    """An expression for every day, its minutes and hours, and whether it names fixed times."""
    hours = draw(st.sets(st.integers(0, 4) | st.integers(0, 23), min_size=1, max_size=4))
    listed = ",".join(map(str, sorted(hours)))
    if draw(st.booleans()):
        step = draw(st.sampled_from([7, 10, 15, 20]))
        return f"*/{step} {listed} * * *", set(range(0, 60, step)), hours, False
    minutes = draw(st.sets(st.integers(0, 59), min_size=1, max_size=4))
    return f"{','.join(map(str, sorted(minutes)))} {listed} * * *", minutes, hours, True


@given(times(), places(ODD_ZONES))
@settings(max_examples=examples(80), deadline=None)
def test_reliability_32_the_slots_of_three_days_are_those_of_a_search(
    case: tuple[str, set[int], set[int], bool], place: tuple[str, int]
) -> None:
    (expression, minutes, hours, fixed), (zone, near) = case, place
    after = near // 60 * 60
    until = after + 3 * 86_400
    found = [slot for slot in ours(expression, zone, after, 300) if slot <= until]
    assert found == searched(minutes, hours, fixed, zone, after, until)


# -- fifty years


@pytest.mark.nightly
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("expression", "a_year"), [("30 2 * * *", 365), ("15 1-3 * * 0", 156), ("0 */6 L * *", 48)]
)
def test_reliability_32_fifty_years_agree_with_another_library(
    expression: str, a_year: int, zone: str
) -> None:
    slots = ours(expression, zone, FROM, 50 * a_year)
    assert slots == of_the_library(expression, zone, FROM, 50 * a_year)
    assert len(slots) == 50 * a_year

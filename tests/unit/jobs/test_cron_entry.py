"""Cron entries: each slot once at most, whatever the clock, a pause or a change of the entry does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anew.errors import InvalidInput
from anew.jobs.cron_entry import NO_CATCH_UP_MS, CronEntry, put, set_paused, tick

HOUR = 3_600_000
NOW = 1_767_225_600_000  # 2026-01-01 00:00 UTC
HALF_PAST = NOW + HOUR // 2


def utc(_: int) -> int:
    return 0


def east(_: int) -> int:
    return 1_800


def hourly(**changes: object) -> CronEntry:
    return put(None, "0 * * * *", "UTC", HALF_PAST, utc, **changes)  # type: ignore[arg-type]


def is_due(entry: CronEntry, now: int) -> bool:
    return entry.next_at is not None and entry.next_at <= now


# -- creation and change


def test_a_new_entry_fires_at_its_first_slot_after_now() -> None:
    """Checklist 81 of Zizq's API."""
    entry = hourly()
    assert entry == CronEntry(expression="0 * * * *", timezone="UTC", next_at=NOW + HOUR)
    assert not is_due(entry, NOW + HOUR - 1)
    assert is_due(entry, NOW + HOUR)


def test_putting_an_entry_again_keeps_its_schedule() -> None:
    """Checklist 82: every client puts its entries when it starts, also one that is due."""
    entry = tick(hourly(), NOW + HOUR, utc).entry
    assert put(entry, "0 * * * *", "UTC", NOW + 5 * HOUR, utc) == entry


def test_a_new_expression_begins_anew() -> None:
    """Checklist 82: the next time from now, the last one kept."""
    fired = tick(hourly(), NOW + HOUR, utc).entry
    entry = put(fired, "30 * * * *", "UTC", NOW + HOUR, utc)
    assert (entry.next_at, entry.last_fired_at) == (NOW + HOUR + HOUR // 2, NOW + HOUR)


def test_a_new_time_zone_begins_anew() -> None:
    """Q6 of Zizq's API: 01:00 half an hour further east is 00:30."""
    entry = put(hourly(), "0 * * * *", "Asia/Nowhere", NOW, east)
    assert entry.next_at == HALF_PAST


def test_a_new_expression_fires_no_slot_again_after_the_clock_was_set_back() -> None:
    fired = tick(hourly(), NOW + HOUR, utc).entry
    entry = put(fired, "*/30 * * * *", "UTC", NOW, utc)
    assert entry.next_at == NOW + HOUR + HOUR // 2


def test_an_expression_that_never_fires_is_never_due() -> None:
    entry = put(None, "0 0 31 2 *", None, NOW, utc)
    assert entry.next_at is None
    assert not is_due(entry, NOW + 10**15)


# -- firing


def test_a_due_entry_fires_for_its_slot_and_goes_on_after_now() -> None:
    fired = tick(hourly(), NOW + HOUR + 250, utc)
    assert fired.slot_at == NOW + HOUR
    assert fired.entry.next_at == NOW + 2 * HOUR
    assert (fired.entry.last_slot_at, fired.entry.last_fired_at) == (NOW + HOUR, NOW + HOUR + 250)


def test_what_was_missed_fires_once_for_the_latest_slot() -> None:
    """Checklist 88 of Zizq's API: a hundred hours down, one job."""
    now = NOW + 100 * HOUR + 5
    fired = tick(hourly(), now, utc)
    assert fired.slot_at == NOW + 100 * HOUR
    assert fired.entry.next_at == NOW + 101 * HOUR
    assert not is_due(fired.entry, now)


def test_an_entry_that_does_not_catch_up_passes_over_what_is_late() -> None:
    entry = hourly(patience_ms=NO_CATCH_UP_MS)
    late = tick(entry, NOW + HOUR + 60_001, utc)
    assert late.slot_at is None
    assert (late.entry.next_at, late.entry.last_slot_at, late.entry.last_fired_at) == (
        NOW + 2 * HOUR,
        NOW + HOUR,
        None,
    )
    assert tick(entry, NOW + HOUR + 60_000, utc).slot_at == NOW + HOUR
    assert tick(entry, NOW + 7 * HOUR + 1, utc).slot_at == NOW + 7 * HOUR


def test_a_clock_set_back_fires_nothing_again() -> None:
    """Checklist 30 of reliability."""
    entry = tick(hourly(), NOW + 10 * HOUR, utc).entry
    assert not is_due(entry, NOW + 2 * HOUR)
    assert entry.next_at == NOW + 11 * HOUR


def test_an_entry_whose_expression_cannot_be_read_any_more_says_so() -> None:
    damaged = CronEntry(expression="0 0 * *", next_at=NOW)
    with pytest.raises(InvalidInput, match="cron expression"):
        tick(damaged, NOW, utc)


# -- pause


def test_a_paused_entry_advances_and_enqueues_nothing() -> None:
    """Checklist 84 of Zizq's API: and does not catch up."""
    paused = set_paused(hourly(), True, NOW)
    passed = tick(paused, NOW + HOUR, utc)
    assert passed.slot_at is None
    assert (passed.entry.next_at, passed.entry.last_fired_at) == (NOW + 2 * HOUR, None)
    resumed = set_paused(passed.entry, False, NOW + HOUR + 1)
    assert not is_due(resumed, NOW + HOUR + 1)


def test_a_paused_group_holds_its_entries_and_leaves_their_flags() -> None:
    passed = tick(hourly(), NOW + HOUR, utc, group_paused=True)
    assert (passed.slot_at, passed.entry.paused, passed.entry.paused_at) == (None, False, None)


def test_the_times_of_a_pause() -> None:
    """Checklist 83, and Q7 for a new entry."""
    entry = hourly(paused=True)
    assert (entry.paused, entry.paused_at, entry.resumed_at) == (True, HALF_PAST, None)
    assert set_paused(entry, True, NOW + HOUR) is entry
    entry = set_paused(entry, False, NOW + HOUR)
    assert (entry.paused, entry.paused_at, entry.resumed_at) == (False, HALF_PAST, NOW + HOUR)


@pytest.mark.parametrize("paused", [True, False])
def test_a_put_that_leaves_the_pause_out_keeps_it(paused: bool) -> None:
    entry = hourly(paused=paused)
    assert put(entry, "5 * * * *", "UTC", NOW, utc).paused is paused


# -- any clock


@given(
    st.lists(st.integers(-40 * HOUR, 40 * HOUR), max_size=30),
    st.sampled_from(["0 * * * *", "*/5 * * * * *", "30 3 * * *", "0 0 1 * *", "* * * * *"]),
)
def test_no_slot_is_fired_twice_wherever_the_clock_jumps(jumps: list[int], expression: str) -> None:
    now, entry = NOW, put(None, expression, "UTC", NOW, utc)
    slots = []
    for jump in jumps:
        now = max(now + jump, 0)
        if is_due(entry, now):
            done = tick(entry, now, utc)
            assert not is_due(done.entry, now)
            slots.append(done.slot_at)
            entry = done.entry
        else:
            entry = put(entry, expression, "UTC", now, utc)
    assert all(slot is not None for slot in slots)
    assert slots == sorted(set(slots))  # type: ignore[type-var]

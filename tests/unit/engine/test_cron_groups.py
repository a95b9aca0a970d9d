"""Groups of cron entries: put whole or entry by entry, paused, removed; what a pause and a bound do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.clock import ManualClock
from anew.engine import crontab
from anew.engine.crontab import (
    GroupRows,
    NewCron,
    Replaced,
    list_groups,
    pause_cron,
    pause_group,
    put_cron,
    remove_cron,
    remove_group,
    remove_groups,
    replace_group,
    show_cron,
    show_group,
)
from anew.engine.verbs import reset
from anew.errors import Conflict, InvalidInput, NotFound, TooLarge
from anew.jobs.cron_entry import CronGroup
from anew.store.cron_rows import CronRow
from anew.store.selection import Filter

from .rig import Rig, call, new_job

MINUTE, HOUR = 60_000, 3_600_000
START = 1_767_225_600_000 + HOUR // 2  # 2026-01-01 00:30 UTC


def entry(name: str = "digest", expression: str = "0 * * * *", payload: bytes = b"1", **more: Any) -> NewCron:
    fields = {"timezone": "UTC", "patience_ms": None} | more
    return NewCron(name=name, expression=expression, job=new_job(payload=payload), **fields)


@pytest.fixture
def rig() -> Rig:
    return Rig(clock=ManualClock(START))


def put(rig: Rig, *entries: NewCron, group: str = "conf", paused: bool | None = None) -> Replaced:
    replaced: Replaced = rig.do(call(replace_group(group, entries, paused=paused, stays=True)))
    return replaced


def shown(rig: Rig, group: str = "conf") -> GroupRows:
    found: GroupRows = rig.do(call(show_group(group)))
    return found


def names(rig: Rig) -> list[str]:
    found: list[str] = rig.do(call(list_groups))
    return found


def count(rig: Rig) -> int:
    return rig.store.count(Filter())


# -- what a replacement does


def test_a_group_is_given_back_in_the_order_in_which_it_was_put_and_shown_by_names(rig: Rig) -> None:
    replaced = put(rig, entry("b"), entry("C"), entry("a"))
    assert [row.name for row in replaced.rows] == ["b", "C", "a"]
    assert [row.name for row in shown(rig).rows] == ["C", "a", "b"]
    assert {row.entry.next_at for row in replaced.rows} == {START + HOUR // 2}


def test_a_group_may_be_put_without_entries_and_stays_when_its_last_one_goes(rig: Rig) -> None:
    assert put(rig).group == CronGroup()
    put(rig, entry(), group="other")
    rig.do(call(remove_cron("other", "digest")))
    assert names(rig) == ["conf", "other"]
    assert shown(rig, "other") == GroupRows(CronGroup(), [])


def test_a_configuration_that_names_no_entries_leaves_no_group(rig: Rig) -> None:
    """Each start of a server says what its configuration has, mostly nothing."""
    rig.do(call(replace_group("faktory", [])))
    assert names(rig) == []
    rig.do(call(replace_group("faktory", [entry()])))
    assert names(rig) == ["faktory"]
    rig.do(call(pause_group("faktory", True)))
    rig.do(call(replace_group("faktory", [])))
    assert names(rig) == ["faktory"], "a pause holds for entries that come later"
    rig.do(call(pause_group("faktory", False)))
    rig.do(call(replace_group("faktory", [])))
    assert names(rig) == []


def test_a_group_all_of_whose_entries_another_takes_over_goes(rig: Rig) -> None:
    put(rig, entry("a"), group="old")
    put(rig, entry("a"), entry("b"), group="shared")
    rig.do(call(replace_group("new", [entry("a")], takes_over="old")))
    rig.do(call(replace_group("new too", [entry("a")], takes_over="shared")))
    assert names(rig) == ["new", "new too", "shared"]


def test_a_put_pauses_and_resumes_a_group_and_keeps_what_it_does_not_say(rig: Rig) -> None:
    assert put(rig, entry(), paused=True).group == CronGroup(paused=True, paused_at=START)
    rig.advance(MINUTE)
    assert put(rig, entry()).group == CronGroup(paused=True, paused_at=START)
    assert put(rig, entry(), paused=True).group == CronGroup(paused=True, paused_at=START)
    resumed = CronGroup(paused_at=START, resumed_at=START + MINUTE)
    assert put(rig, entry(), paused=False).group == resumed
    assert put(rig, entry()).group == shown(rig).group == resumed


def test_a_put_that_pauses_the_group_alone_writes_no_entry(rig: Rig) -> None:
    put(rig, entry())
    replaced = put(rig, entry(), paused=True)
    assert replaced.written == []
    assert [row.group_paused for row in replaced.rows] == [True]


def test_a_new_entry_of_a_paused_group_is_not_paused_itself(rig: Rig) -> None:
    put(rig, paused=True)
    row: CronRow = rig.do(call(put_cron("conf", entry())))
    assert (row.group_paused, row.entry.paused, row.entry.paused_at) == (True, False, None)


def test_a_new_entry_that_is_put_paused_says_since_when(rig: Rig) -> None:
    """Q7 of Zizq's API."""
    (row,) = put(rig, entry(paused=True)).rows
    assert (row.entry.paused, row.entry.paused_at) == (True, START)


# -- time zones


def test_a_groups_zone_is_that_of_entries_that_name_none(rig: Rig) -> None:
    """It is 00:30 in UTC; Kolkata's clocks are 5:30 further."""

    def next_times(timezone: str | None) -> list[int | None]:
        entries = [entry("its own", "0 12 * * *"), entry("none", "0 12 * * *", timezone=None)]
        replaced: Replaced = rig.do(call(replace_group("conf", entries, timezone=timezone, stays=True)))
        assert replaced.group == shown(rig).group == CronGroup(timezone=timezone)
        return [row.entry.next_at for row in replaced.rows]

    noon = START + 23 * HOUR // 2
    assert next_times("Asia/Kolkata") == [noon, noon - 11 * HOUR // 2]
    rig.advance(MINUTE)
    assert next_times("Asia/Kolkata") == [noon, noon - 11 * HOUR // 2]
    assert next_times("Etc/GMT-1") == [noon, noon - HOUR]
    (_, none) = shown(rig).rows
    assert (none.entry.timezone, none.zone) == (None, "Etc/GMT-1")
    one: CronRow = rig.do(call(put_cron("conf", entry("another", "0 6 * * *", timezone=None))))
    assert one.entry.next_at == noon - 7 * HOUR
    rig.advance(noon - HOUR - rig.clock.now())
    fired = {row.name: row.entry.next_at for row in shown(rig).rows}
    assert (fired["none"], count(rig)) == (noon + 23 * HOUR, 2)


def test_a_zone_that_is_none_is_refused_before_anything_is_done() -> None:
    with pytest.raises(InvalidInput, match=r"timezone: .*Atlantis.* is not valid"):
        replace_group("conf", [], timezone="Europe/Atlantis")


# -- pauses


def test_a_paused_group_passes_its_times_over_and_does_not_catch_up(rig: Rig) -> None:
    put(rig, entry())
    assert rig.do(call(pause_group("conf", True))).group == CronGroup(paused=True, paused_at=START)
    rig.advance(3 * HOUR)
    found = shown(rig).rows[0].entry
    assert (found.next_at, found.last_fired_at, found.paused) == (START + 7 * HOUR // 2, None, False)
    rig.do(call(pause_group("conf", False)))
    assert count(rig) == 0
    rig.advance(HOUR // 2)
    assert count(rig) == 1


def test_a_pause_of_what_is_paused_changes_nothing(rig: Rig) -> None:
    put(rig, entry())
    before = rig.do(call(pause_group("conf", True))), rig.do(call(pause_cron("conf", "digest", True)))
    rig.advance(MINUTE)
    assert rig.do(call(pause_group("conf", True))).group == before[0].group
    assert rig.do(call(pause_cron("conf", "digest", True))) == before[1]


def test_missed_times_are_one_firing_however_late(rig: Rig) -> None:
    put(rig, entry())
    rig.clock.jump(100 * 24 * HOUR)
    rig.engine.apply([])
    rig.engine.apply([])
    assert count(rig) == 1
    assert shown(rig).rows[0].entry.last_fired_at == START + 100 * 24 * HOUR


# -- one entry


def test_one_entry_is_added_once_and_put_as_often_as_one_likes(rig: Rig) -> None:
    added: CronRow = rig.do(call(put_cron("conf", entry(), replaces=False)))
    assert added == rig.do(call(show_cron("conf", "digest")))
    assert names(rig) == ["conf"]
    refused = rig.do(call(put_cron("conf", entry(payload=b"2"), replaces=False)))
    assert isinstance(refused, Conflict)
    assert str(refused) == "cron entry 'digest' already exists in group 'conf'"
    assert rig.do(call(show_cron("conf", "digest"))) == added
    rig.advance(MINUTE)
    changed: CronRow = rig.do(call(put_cron("conf", entry(payload=b"2"))))
    assert changed.entry == added.entry, "its schedule stays"
    assert changed.job != added.job


# -- removals


def test_a_group_goes_with_its_entries_and_what_they_enqueued_stays(rig: Rig) -> None:
    put(rig, entry())
    put(rig, entry(), group="other")
    rig.advance(HOUR // 2)
    rig.do(call(remove_group("conf")))
    assert (names(rig), count(rig)) == (["other"], 2)
    rig.advance(HOUR)
    assert count(rig) == 3
    assert rig.do(call(remove_groups)) == 1
    assert (names(rig), rig.engine.wake_at) == ([], None)
    rig.advance(HOUR)
    assert count(rig) == 3


def test_a_reset_removes_groups_entries_and_jobs(rig: Rig) -> None:
    """Checklist 91 of Zizq's API."""
    put(rig, entry())
    put(rig, group="empty", paused=True)
    rig.put(new_job())
    rig.do(call(reset))
    assert (names(rig), count(rig), rig.engine.wake_at) == ([], 0, None)


def test_what_is_not_there_is_named(rig: Rig) -> None:
    put(rig)
    for verb in (show_group("none"), pause_group("none", True), remove_group("none")):
        assert str(rig.do(call(verb))) == "cron group 'none' not found"
    for verb in (show_cron("conf", "none"), pause_cron("conf", "none", True), remove_cron("conf", "none")):
        missing = rig.do(call(verb))
        assert isinstance(missing, NotFound)
        assert str(missing) == "cron entry 'none' not found in group 'conf'"


# -- bounds


def test_a_store_has_a_bounded_number_of_groups(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crontab, "MOST_GROUPS", 2)
    put(rig, group="a")
    put(rig, group="b")
    for verb in (
        replace_group("c", [], stays=True),
        replace_group("c", [entry()]),
        put_cron("c", entry()),
        replace_group("c", [entry()], takes_over="a"),
    ):
        refused = rig.do(call(verb))
        assert isinstance(refused, TooLarge)
        assert str(refused) == "cron group 'c': expected at most 2 groups; remove one"
    assert names(rig) == ["a", "b"]
    assert rig.store.cron.entry("c", "digest") is None
    put(rig, entry(), group="b")
    rig.do(call(replace_group("c", [])))  # nothing is to be there, and nothing is
    rig.do(call(remove_group("a")))
    put(rig, group="c")
    assert names(rig) == ["b", "c"]


def test_a_group_gets_a_bounded_number_of_entries_one_by_one(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crontab, "MOST_ENTRIES", 2)
    put(rig, entry("a"), entry("b"))
    refused = rig.do(call(put_cron("conf", entry("c"))))
    assert isinstance(refused, TooLarge)
    assert str(refused) == "cron group 'conf': expected at most 2 entries"
    assert rig.do(call(put_cron("conf", entry("b", payload=b"2")))).name == "b"
    assert [row.name for row in shown(rig).rows] == ["a", "b"]


def test_the_jobs_of_a_group_have_a_bounded_size_together(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = put(rig, entry("a")).rows
    size = len(row.job)
    monkeypatch.setattr(crontab, "MOST_BYTES", 2 * size)
    rig.do(call(put_cron("conf", entry("b"))))
    expected = f"cron group 'conf': expected jobs of at most {2 * size} bytes together, got {2 * size + 1}"
    for verb in (
        put_cron("conf", entry("b", payload=b"11")),
        replace_group("conf", [entry("a"), entry("b", payload=b"11")]),
    ):
        refused = rig.do(call(verb))
        assert (type(refused), str(refused)) == (TooLarge, expected)
    assert rig.store.cron.extent("conf") == (2, 2 * size)
    assert rig.do(call(put_cron("conf", entry("b", payload=b"2")))).name == "b"


def test_a_group_is_shown_up_to_a_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs and configurations may give one more entries."""
    monkeypatch.setattr(crontab, "LISTED", 2)
    put(rig, *[entry(name) for name in "cab"])
    assert [row.name for row in shown(rig).rows] == ["a", "b"]
    assert [row.name for row in rig.do(call(pause_group("conf", True))).rows] == ["a", "b"]


def test_a_job_whose_text_is_damaged_stops_its_entry_alone(rig: Rig) -> None:
    put(rig, entry("a"), entry("b"))
    damaged = msgspec.structs.replace(rig.do(call(show_cron("conf", "a"))), job=b'[false,{"type":"\xff"}]')
    rig.do(call(lambda batch: batch.store.cron.write([damaged])))
    rig.advance(HOUR // 2)
    assert count(rig) == 1
    assert [row.entry.next_at is None for row in shown(rig).rows] == [True, False]

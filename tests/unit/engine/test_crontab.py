"""Cron through the whole engine: each slot has one job at most, at its instant, whatever the clock, a crash or a pause does."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anew.clock import ManualClock
from anew.engine import Batch, Entry, cron_firing, crontab
from anew.engine.batch import Enqueued
from anew.engine.crontab import (
    NewCron,
    fire_now,
    list_crons,
    pause_cron,
    pause_group,
    put_cron,
    remove_cron,
    replace_group,
)
from anew.errors import InvalidExpression, InvalidInput, NotFound, StoreFull
from anew.jobs import Job, NewJob, State
from anew.jobs.codec import JobHooks, PushedJob, UniqueKey
from anew.jobs.unique import Scope
from anew.store.cron_rows import CronRow
from anew.store.selection import Filter, Page
from anew.store.sqlite import open_sqlite

from .grouped import Group
from .rig import FaultyStore, Once, Rig, call, new_job, plain

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def at(text: str) -> int:
    """An instant of UTC, epoch ms."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


def shown(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1_000, UTC).strftime("%d %H:%M")


START = at("2026-01-01 00:30")


def entry(
    name: str = "digest", expression: str = "0 * * * *", job: NewJob | None = None, **more: Any
) -> NewCron:
    return NewCron(
        **{"name": name, "expression": expression, "job": job or new_job(), "timezone": "UTC"} | more
    )


def rig_at(instant: int, store: Any = None) -> Rig:
    return Rig(store, clock=ManualClock(instant))


def put(rig: Rig, *entries: NewCron, group: str = "conf") -> Any:
    return rig.do(call(replace_group(group, entries)))


def rows(rig: Rig, group: str | None = None) -> list[CronRow]:
    found: list[CronRow] = (
        rig.do(call(list_crons())) if group is None else rig.store.cron.entries(group, "", 1_000)
    )
    return found


def row(rig: Rig, name: str = "digest") -> CronRow:
    found = rig.store.cron.entry("conf", name)
    assert found is not None
    return found


def jobs(rig: Rig) -> list[Job]:
    return rig.store.load(rig.store.find(Filter(), Page(limit=1_000_000)), payload=True)


def instants(rig: Rig, until: str, step: int = MINUTE) -> list[str]:
    """Let time pass in steps; give when jobs came."""
    came: list[str] = []
    end, before = at(until), len(jobs(rig))
    while rig.clock.now() < end:
        rig.advance(step)
        count = rig.store.count(Filter())
        came += [shown(rig.clock.now())] * (count - before)
        before = count
    return came


@pytest.fixture
def rig() -> Rig:
    return rig_at(START)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Rig, Rig]]:
    one = rig_at(START, open_sqlite(tmp_path))
    other = Rig(open_sqlite(tmp_path, exclusive=False), clock=one.clock)
    yield one, other
    one.store.close()
    other.store.close()


# -- firing


def test_an_entry_enqueues_its_job_at_each_slot(rig: Rig) -> None:
    put(rig, entry(job=new_job("reports", b'["weekly"]', priority=7)))
    assert jobs(rig) == [], "nothing fires at the creation"
    rig.advance(HOUR // 2 - 1)
    assert jobs(rig) == []
    rig.advance(1)
    (job,) = jobs(rig)
    assert (job.queue, job.type, job.payload, job.priority) == ("reports", "send", b'["weekly"]', 7)
    assert (job.state, job.ready_at, job.jid) == (State.READY, START + HOUR // 2, None)
    rig.advance(HOUR)
    assert len(jobs(rig)) == 2
    schedule = row(rig).entry
    assert schedule.next_at == START + 5 * HOUR // 2
    assert schedule.last_slot_at == schedule.last_fired_at == START + 3 * HOUR // 2


@pytest.mark.usefixtures("both_ways")
def test_the_timer_of_the_loop_wakes_at_the_slot_itself() -> None:
    group = Group()
    start = group.rig.clock.now()
    slot = (start // MINUTE + 1) * MINUTE
    worker = group.worker()
    group.submit(call(replace_group("conf", [entry(expression="* * * * *")])))
    group.loop.settle()
    assert group.rig.engine.wake_at == slot
    group.loop.advance(slot - start - 1)
    assert worker.keys == []
    group.loop.advance(1)
    assert len(worker.keys) == 1
    assert worker.instants == [slot]
    assert group.rig.engine.wake_at == slot + MINUTE


@pytest.mark.usefixtures("both_ways")
def test_a_slot_beyond_the_next_hour_is_not_missed() -> None:
    group = Group()
    start = group.rig.clock.now()
    group.submit(call(replace_group("conf", [entry(expression="0 0 * * *")])))
    group.loop.advance((start // DAY + 1) * DAY - start)
    assert len(jobs(group.rig)) == 1


def test_each_job_of_an_entry_for_named_jobs_has_an_id_of_its_own(rig: Rig) -> None:
    job = PushedJob(
        type="send",
        queue="mail",
        payload=msgspec.Raw(b"[1]"),
        meta=b"\x00custom",
        reserve_ms=90_000,
        retry_limit=3,
    )
    put(rig, entry(job=job))
    rig.advance(HOUR // 2)
    rig.advance(HOUR)
    first, second = jobs(rig)
    assert first.jid is not None
    assert second.jid is not None
    assert (len(first.jid), len(second.jid), first.jid != second.jid) == (24, 24, True)
    assert (first.meta, first.retry_limit) == (b"\x00custom", 3)


def test_a_fired_job_is_handed_out_in_its_batch(rig: Rig) -> None:
    worker = rig.worker()
    put(rig, entry())
    rig.advance(HOUR // 2)
    assert len(worker.keys) == 1


def test_more_due_entries_than_a_batch_takes_are_fired_in_the_next_ones(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cron_firing, "FIRED", 2)
    put(rig, *[entry(str(nth)) for nth in range(5)])
    counts = []
    rig.clock.advance(HOUR // 2)
    for _ in range(3):
        rig.engine.apply([])
        counts.append(len(jobs(rig)))
        assert rig.engine.wake_at == (rig.clock.now() if counts[-1] < 5 else START + 3 * HOUR // 2)
    assert counts == [2, 4, 5]


def test_only_due_entries_are_looked_at(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    put(rig, *[entry(str(nth), "0 12 1 6 *") for nth in range(2_000)], entry("soon", "31 0 * * *"))
    seen: list[str] = []
    due = rig.store.cron.due
    monkeypatch.setattr(
        rig.store.cron,
        "due",
        lambda now, limit: [seen.append(row.name) or row for row in due(now, limit)],  # type: ignore[func-returns-value]
    )
    for _ in range(10):
        rig.do(plain())
    assert seen == []
    rig.advance(MINUTE)
    assert seen == ["soon"]


# -- clocks that are changed, twice a year

CHANGES = {
    "fixed, Berlin in spring": ("Europe/Berlin", "30 2 * * *", "2026-03-28 00:00", "2026-03-30 12:00",
        ["28 01:30", "29 01:00", "30 00:30"]),
    "fixed, Berlin in autumn": ("Europe/Berlin", "30 2 * * *", "2026-10-24 00:00", "2026-10-26 12:00",
        ["24 00:30", "25 00:30", "26 01:30"]),
    "fixed, New York in spring": ("America/New_York", "30 2 * * *", "2026-03-07 00:00", "2026-03-09 12:00",
        ["07 07:30", "08 07:00", "09 06:30"]),
    "fixed, New York in autumn": ("America/New_York", "30 1 * * *", "2026-10-31 00:00", "2026-11-02 12:00",
        ["31 05:30", "01 05:30", "02 06:30"]),
    "steps, Berlin in spring": ("Europe/Berlin", "30 */2 * * *", "2026-03-28 22:00", "2026-03-29 05:00",
        ["28 23:30", "29 02:30", "29 04:30"]),
    "steps, Berlin in autumn": ("Europe/Berlin", "30 */2 * * *", "2026-10-24 22:00", "2026-10-25 04:00",
        ["24 22:30", "25 00:30", "25 01:30", "25 03:30"]),
    "every hour, New York in spring": ("America/New_York", "0 * * * *", "2026-03-08 05:30", "2026-03-08 08:30",
        ["08 06:00", "08 07:00", "08 08:00"]),
    "every hour, New York in autumn": ("America/New_York", "0 * * * *", "2026-11-01 04:30", "2026-11-01 07:30",
        ["01 05:00", "01 06:00", "01 07:00"]),
}  # fmt: skip
"""Zone, expression, from, until, and when jobs come; all instants of UTC, by hand from the zones' rules for 2026."""


@pytest.mark.parametrize("case", CHANGES)
def test_jobs_come_when_the_wall_clocks_say_so_also_where_they_are_changed(case: str) -> None:
    zone, expression, start, until, expected = CHANGES[case]
    rig = rig_at(at(start))
    put(rig, entry(expression=expression, timezone=zone))
    assert instants(rig, until) == expected


# -- clocks that jump, and slots that were missed


def test_a_clock_that_was_set_back_fires_nothing_again(rig: Rig) -> None:
    """Reliability P6."""
    put(rig, entry())
    rig.advance(HOUR // 2)
    assert len(jobs(rig)) == 1
    rig.clock.jump(-3 * HOUR)
    rig.engine.apply([])
    for _ in range(3):
        rig.advance(HOUR)
    assert len(jobs(rig)) == 1
    rig.advance(HOUR)
    assert len(jobs(rig)) == 2


def test_a_forward_jump_makes_no_storm(rig: Rig) -> None:
    put(rig, entry("patient", "* * * * *", patience_ms=None), entry("strict", "* * * * *"))
    rig.clock.jump(10 * 365 * DAY)
    rig.engine.apply([])
    rig.engine.apply([])
    assert len(jobs(rig)) == 2, "one each: the strict one's latest slot is of this minute"


def test_missed_slots_fire_nothing_where_the_entry_does_not_catch_up(rig: Rig) -> None:
    put(rig, entry())
    rig.clock.jump(HOUR // 2 + MINUTE + 1)
    rig.engine.apply([])
    assert jobs(rig) == []
    rig.advance(HOUR - MINUTE - 1)
    assert len(jobs(rig)) == 1


def test_a_slot_of_the_last_minute_still_fires(rig: Rig) -> None:
    put(rig, entry())
    rig.clock.jump(HOUR // 2 + MINUTE)
    rig.engine.apply([])
    assert len(jobs(rig)) == 1


def test_an_entry_that_catches_up_fires_for_the_latest_slot(rig: Rig) -> None:
    put(rig, entry(patience_ms=None))
    rig.clock.jump(5 * HOUR + 7 * MINUTE)
    rig.engine.apply([])
    rig.engine.apply([])
    assert len(jobs(rig)) == 1
    assert row(rig).entry.last_slot_at == at("2026-01-01 05:00")


# -- what does not go through


class Refusing:
    """Stands for what a unique key or a limit does to a new job."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
        self.calls = 0
        real = Batch.insert

        def insert(batch: Batch, jobs: Any, **more: Any) -> Enqueued:
            self.calls += 1
            if self.calls > 1:
                return real(batch, jobs, **more)
            if isinstance(answer, Exception):
                raise answer
            return Enqueued((1,), batch.now, {0: answer})

        monkeypatch.setattr(Batch, "insert", insert)


@pytest.mark.parametrize("answer", [InvalidInput("no", field="job"), Entry.DUPLICATE, Entry.FOLDED])
def test_a_job_that_is_refused_skips_its_slot_and_stops_nobody(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    caplog.set_level(logging.INFO)
    put(rig, entry("a"), entry("b"))
    Refusing(monkeypatch, answer)
    rig.advance(HOUR // 2)
    assert len(jobs(rig)) == 1
    assert ("its slot is skipped" in caplog.text) is (answer is not Entry.FOLDED)
    assert ("was folded into one that waits" in caplog.text) is (answer is Entry.FOLDED)
    fired = [row(rig, name).entry.last_fired_at == rig.clock.now() for name in "ab"]
    assert fired == [isinstance(answer, Entry), True], "it has fired also where its job is there already"
    rig.advance(HOUR)
    assert len(jobs(rig)) == 3


def test_the_log_does_not_repeat_payloads_that_cannot_be_folded(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(rig, entry("a"))
    Refusing(monkeypatch, InvalidExpression('fold: object ({"card":"4111"}) and number (1) cannot be added'))
    rig.advance(HOUR // 2)
    (record,) = [record for record in caplog.records if "its slot is skipped" in record.message]
    assert vars(record)["reason"] == "its batch's fold fails on the payloads"
    assert "4111" not in str(vars(record))


def test_an_entry_that_cannot_be_read_stops_no_other(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    put(rig, entry("a"), entry("b"), entry("c"))
    damaged = [msgspec.structs.replace(row(rig, "a"), job=b"[")]
    damaged.append(
        msgspec.structs.replace(
            row(rig, "b"), entry=msgspec.structs.replace(row(rig, "b").entry, expression="nonsense")
        )
    )
    rig.do(call(lambda batch: batch.store.cron.write(damaged)))
    rig.advance(HOUR // 2)
    assert len(jobs(rig)) == 1
    assert caplog.text.count("cannot be read and is stopped") == 2
    assert [row(rig, name).entry.next_at is None for name in "abc"] == [True, True, False]
    put(rig, entry("a"), entry("b"), entry("c"))
    rig.advance(HOUR)
    assert len(jobs(rig)) == 4, "put again they go on"


@pytest.mark.parametrize("column", ["name", "expression", "timezone"])
def test_an_entry_whose_texts_cannot_be_read_is_stopped_and_no_other(
    rig: Rig, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    put(rig, entry("damaged"), entry("sound"))
    text = f"UPDATE cron SET {column} = CAST(x'64ff' AS TEXT) WHERE name = 'damaged'"
    rig.do(call(lambda batch: batch.store._link.execute(text)))  # type: ignore[attr-defined]
    rig.advance(HOUR // 2)
    rig.advance(0)  # the damaged one is stopped in a batch, and the others fire in the next one
    assert len(jobs(rig)) == 1
    assert caplog.text.count("cannot be read and are stopped") == 1
    rig.advance(HOUR)
    assert len(jobs(rig)) == 2
    assert caplog.text.count("cannot be read and are stopped") == 1
    assert len(rig.put(new_job())) == 1


def test_a_slot_whose_transaction_does_not_last_is_fired_by_the_next_one() -> None:
    store = FaultyStore(open_sqlite())
    rig = rig_at(START, store)
    put(rig, entry())
    rig.clock.advance(HOUR // 2)
    store.commits[:] = [RuntimeError("unforeseen")]
    rig.engine.apply([])
    assert jobs(rig) == []
    rig.engine.apply([])
    rig.engine.apply([])
    assert len(jobs(rig)) == 1


def test_while_there_is_no_space_slots_wait_and_nothing_spins() -> None:
    store = FaultyStore(open_sqlite())
    rig = rig_at(START, store)
    put(rig, entry())
    rig.clock.advance(HOUR // 2)
    store.verbs["insert"] = [StoreFull("no space")]
    rig.engine.apply([call(ignore_batch)])
    assert (jobs(rig), rig.engine.wake_at) == ([], None)
    rig.engine.parts.full = False
    rig.engine.apply([])
    assert len(jobs(rig)) == 1


def ignore_batch(batch: Batch) -> None:
    """Nothing to do."""


def test_a_slot_is_on_the_disk_before_its_job_is_handed_out(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut would else forget that it was fired."""
    synced: list[bool] = []
    begin = rig.store.begin
    monkeypatch.setattr(rig.store, "begin", lambda *, synced: (seen.append(synced), begin(synced=synced))[1])
    seen = synced
    put(rig, entry())
    synced.clear()
    rig.advance(MINUTE)
    rig.advance(HOUR)
    assert synced == [False, True]


# -- changes of entries


def test_a_replaced_group_keeps_what_has_not_changed(rig: Rig) -> None:
    put(rig, entry("same"), entry("other time"), entry("other job"), entry("gone"))
    rig.advance(HOUR // 2 + MINUTE)
    before = {row.name: row for row in rows(rig)}
    changed = put(
        rig,
        entry("same"),
        entry("other time", "15 * * * *"),
        entry("other job", job=new_job("elsewhere")),
        entry("new"),
    )
    assert (changed.written, changed.removed) == (["other time", "other job", "new"], ["gone"])
    after = {row.name: row for row in rows(rig)}
    assert after["same"] == before["same"]
    assert after["other job"].entry == before["other job"].entry
    assert after["other time"].entry.next_at == at("2026-01-01 01:15")
    assert after["other time"].entry.last_slot_at == at("2026-01-01 01:00")
    assert sorted(after) == ["new", "other job", "other time", "same"]


def test_a_due_entry_that_is_put_again_still_fires(rig: Rig) -> None:
    put(rig, entry())
    rig.clock.advance(HOUR // 2)
    put(rig, entry())
    assert len(jobs(rig)) == 1


def test_other_groups_are_left_alone(rig: Rig) -> None:
    put(rig, entry("a"))
    put(rig, entry("a"), entry("b"), group="app")
    assert put(rig, group="conf").removed == ["a"]
    assert [(row.group, row.name) for row in rows(rig)] == [("app", "a"), ("app", "b")]


def test_a_group_takes_over_its_own_entries_with_their_schedule_and_no_others(rig: Rig) -> None:
    other = new_job(payload=b"1")
    put(rig, entry("mine"), entry("other"), entry("named the same", job=new_job(type="theirs")), group="app")
    put(rig, entry("already", "0 4 * * *"))
    rig.advance(HOUR // 2)
    before = rig.store.cron.entry("app", "mine")
    assert before is not None
    assert before.entry.last_fired_at is not None
    new = [entry("mine", job=other), entry("named the same", job=other), entry("already", "0 4 * * *")]
    replaced = rig.do(call(replace_group("conf", new, takes_over="app")))
    assert (sorted(replaced.written), replaced.removed) == (["mine", "named the same"], [])
    assert row(rig, "mine").entry == before.entry
    assert [(row.group, row.name) for row in rows(rig)] == [
        ("app", "named the same"),
        ("app", "other"),
        ("conf", "already"),
        ("conf", "mine"),
        ("conf", "named the same"),
    ]
    again = rig.do(call(replace_group("conf", new, takes_over="conf")))
    assert (again.written, again.removed) == ([], [])


def test_entries_are_listed_in_pages(rig: Rig) -> None:
    put(rig, *[entry(name) for name in "cab"])
    put(rig, entry("z"), group="app")
    assert [row.name for row in rows(rig)] == ["z", "a", "b", "c"]
    assert [row.name for row in rows(rig, "conf")] == ["a", "b", "c"]
    page = rig.do(call(list_crons(after=("conf", "a"), limit=1)))
    assert [row.name for row in page] == ["b"]


def test_a_large_group_is_replaced_as_a_whole(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crontab, "LISTED", 3)
    put(rig, *[entry(str(nth)) for nth in range(8)])
    assert len(put(rig).removed) == 8
    assert rows(rig) == []


def test_a_paused_entry_passes_its_slots_over(rig: Rig) -> None:
    put(rig, entry(patience_ms=None))
    assert rig.do(call(pause_cron("conf", "digest", True))).entry.paused_at == START
    rig.advance(3 * HOUR)
    rig.do(call(pause_cron("conf", "digest", False)))
    assert jobs(rig) == []
    rig.advance(HOUR // 2)
    assert len(jobs(rig)) == 1


def test_a_configuration_that_is_read_again_leaves_a_pause_in_place(rig: Rig) -> None:
    put(rig, entry())
    rig.do(call(pause_cron("conf", "digest", True)))
    put(rig, entry())
    assert row(rig).entry.paused is True


def test_a_paused_group_fires_nothing_and_its_entries_keep_their_own_flags(rig: Rig) -> None:
    put(rig, entry("a"), entry("b"))
    put(rig, entry("c"), group="app")
    rig.do(call(pause_cron("conf", "b", True)))
    rig.do(call(pause_group("conf", True)))
    assert [(row.name, row.group_paused, row.entry.paused) for row in rows(rig)] == [
        ("c", False, False), ("a", True, False), ("b", True, True),
    ]  # fmt: skip
    rig.advance(HOUR // 2)
    assert len(jobs(rig)) == 1
    rig.do(call(pause_group("conf", False)))
    rig.advance(HOUR)
    assert len(jobs(rig)) == 3


def test_firing_by_hand_moves_no_slot(rig: Rig) -> None:
    put(rig, entry(paused=True))
    entered = rig.do(call(fire_now("conf", "digest")))
    assert [job.key for job in jobs(rig)] == list(entered.keys)
    schedule = row(rig).entry
    assert (schedule.next_at, schedule.last_slot_at) == (START + HOUR // 2, None)
    assert schedule.last_fired_at == START


def test_a_removed_entry_fires_no_more(rig: Rig) -> None:
    put(rig, entry())
    rig.do(call(remove_cron("conf", "digest")))
    rig.advance(HOUR)
    assert (jobs(rig), rig.engine.wake_at) == ([], None)


def test_what_is_not_there_is_told(rig: Rig) -> None:
    for verb in (remove_cron("a", "b"), pause_cron("a", "b", True), fire_now("a", "b")):
        assert isinstance(rig.do(call(verb)), NotFound)


def test_one_entry_is_put_by_itself(rig: Rig) -> None:
    put(rig, entry("a"))
    found = rig.do(call(put_cron("conf", entry("b", "15 * * * *"))))
    assert found == row(rig, "b")
    assert [row.name for row in rows(rig)] == ["a", "b"]


@pytest.mark.parametrize(
    "wrong",
    [
        [entry(expression="61 * * * *")],
        [entry(timezone="Europe/Atlantis")],
        [entry("twice"), entry("twice")],
    ],
)
def test_a_wrong_entry_is_refused_before_anything_is_done(wrong: list[NewCron]) -> None:
    with pytest.raises(InvalidInput):
        replace_group("conf", wrong)


def test_an_expression_without_a_year_to_come_never_fires(rig: Rig) -> None:
    put(rig, entry(expression="0 0 0 1 1 * 2020"))
    assert (row(rig).entry.next_at, rig.engine.wake_at) == (None, None)


# -- several processes and kills


def test_reliability_33_one_slot_fires_once_whoever_comes_first(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    put(one, entry())
    other.engine.apply([])
    one.advance(HOUR // 2)
    for nth, rig in enumerate((one, other, other, one), start=2):
        one.clock.advance(HOUR)
        rig.engine.apply([])
        (other if rig is one else one).engine.apply([])
        assert len(jobs(one)) == nth


@pytest.mark.parametrize("slots", [200, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_reliability_33_five_engines_fire_each_of_many_slots_once_whatever_happens(
    tmp_path: Path, slots: int
) -> None:
    """They come in any order, late, not at all, or anew after they have gone; a commit fails now and then."""
    chance = random.Random(33)
    clock = ManualClock(START)

    def opened() -> Rig:
        return Rig(open_sqlite(tmp_path, relaxed=True, exclusive=False), clock=clock)

    nodes = [opened() for _ in range(5)]
    put(nodes[0], entry())
    clock.advance(HOUR // 2)
    for slot in range(slots):
        for at in chance.sample(range(5), chance.randint(1, 5)):
            node = nodes[at]
            if chance.random() < 0.1:
                node.store.close()
                nodes[at] = node = opened()
            with pytest.MonkeyPatch.context() as patch:
                if chance.random() < 0.2:  # before its commit: it is undone
                    patch.setattr(node.store, "commit", broken_once(node.store.commit))
                node.engine.apply([])
        nodes[0].engine.apply([])
        nodes[1].engine.apply([])
        assert nodes[2].do(call(lambda batch: batch.store.count(Filter()))) == slot + 1
        clock.advance(HOUR)
    for node in nodes:
        node.store.close()


def broken_once(commit: Callable[[], None]) -> Callable[[], None]:
    """A commit that fails the first time."""
    failures = iter([RuntimeError("odd")])

    def commit_or_fail() -> None:
        for error in failures:
            raise error
        commit()

    return commit_or_fail


def test_an_entry_that_another_process_puts_is_fired_here(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    put(one, entry())
    other.engine.apply([])
    assert other.engine.wake_at == START + HOUR // 2
    other.advance(HOUR // 2)
    assert len(jobs(one)) == 1


def test_a_restart_fires_no_slot_again_and_loses_none(tmp_path: Path) -> None:
    first = rig_at(START, open_sqlite(tmp_path))
    put(first, entry())
    first.advance(HOUR // 2)
    first.store.close()
    second = rig_at(START + HOUR // 2 + 5, open_sqlite(tmp_path))
    second.engine.apply([])
    assert len(jobs(second)) == 1
    second.advance(HOUR - 5)
    assert len(jobs(second)) == 2
    second.store.close()


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from anew.clock import ManualClock
    from anew.store.sqlite import open_sqlite
    from tests.unit.engine.rig import Rig

    rig = Rig(open_sqlite(Path(sys.argv[1])), clock=ManualClock(int(sys.argv[2])))
    when, commit = sys.argv[3], rig.store.commit
    def die():
        if when == "after":
            commit()
        assert rig.engine.stats.enqueued == 1
        os.kill(os.getpid(), signal.SIGKILL)
    rig.store.commit = die
    rig.engine.apply([])
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_reliability_33_a_kill_around_the_commit_fires_the_slot_once(tmp_path: Path, when: str) -> None:
    """Between the insert and the commit nothing has lasted: whoever comes next fires; after it nobody does."""
    rig = rig_at(START, open_sqlite(tmp_path))
    put(rig, entry())
    rig.store.close()
    slot = START + HOUR // 2
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(slot), when],
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    rig = rig_at(slot + 10, open_sqlite(tmp_path))
    assert len(jobs(rig)) == (when == "after")
    rig.engine.apply([])
    rig.engine.apply([])
    assert len(jobs(rig)) == 1
    assert row(rig).entry.next_at == slot + HOUR
    rig.store.close()


def test_an_answer_comes_after_the_jobs_of_its_batch(rig: Rig) -> None:
    """Nothing that is asked for in a batch sees a slot of it unfired."""
    put(rig, entry())
    rig.clock.advance(HOUR // 2)
    done = Once()
    asked = call(lambda batch: batch.store.count(Filter()))
    asked.done = done
    rig.engine.apply([asked])
    assert done.result == 1


def test_what_ties_a_job_counts_from_each_firing() -> None:
    ties = JobHooks(expires_at=5 * MINUTE, unique=UniqueKey(b"digest", Scope.SUCCEEDED, ends_at=90 * MINUTE))
    rig = rig_at(START)
    put(rig, entry(job=PushedJob(type="t", queue="q", payload=msgspec.Raw(b"[]"), hooks=ties)))
    for slot in ("2026-01-01 01:00", "2026-01-01 03:00"):  # at 02:00 the key is held
        while rig.clock.now() < at(slot):
            rig.advance(MINUTE)
    fired = jobs(rig)
    expected = [at("2026-01-01 01:05"), at("2026-01-01 03:05")]
    assert [hooked.expires_at for hooked in rig.store.hooks.among([job.key for job in fired])] == expected

"""Leases beside a wall clock that jumps: none ends early, none late, whichever process sees the jump first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from anew.clock import DistantClock, ManualClock
from anew.engine import Acknowledge, Fetch, Limits
from anew.engine.crontab import NewCron, replace_group
from anew.engine.progress import report_progress
from anew.errors import StoreFull
from anew.jobs import State
from anew.jobs.codec import PushedJob
from anew.store.sqlite import open_sqlite

from .rig import NOW, FaultyStore, Once, Rig, call, ignore, new_job, succeed, tick

MINUTE = 60_000
HOUR = 60 * MINUTE
YEARS = 3_652 * 24 * HOUR
"""Ten of them."""

JUMPS = [31 * MINUTE, -31 * MINUTE, HOUR, -HOUR, 24 * HOUR, -24 * HOUR, YEARS, -YEARS]

both_engines = pytest.mark.both_engines


def reserve(rig: Rig, minutes: int = 30) -> int:
    """Fetch a job as Faktory's workers do; give its key."""
    rig.put(
        PushedJob(
            type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid="j", reserve_ms=minutes * MINUTE
        )
    )
    answer = Once()
    rig.engine.apply([Fetch(("mail",), answer)])
    key: int = answer.result.key
    return key


def jumps_written(rig: Rig) -> int:
    """Read the sum of jumps that the store keeps."""
    clock = rig.store.lease_clock()
    assert clock is not None
    return clock.jumped


def jump(rig: Rig, ms: int) -> None:
    """Let the wall clock jump, and time go by that the duties need."""
    rig.clock.jump(ms)
    rig.do(call(tick))


def lapses_after(rig: Rig, key: int, ms: int) -> bool:
    """Report whether a hold stands for so long, and no longer."""
    rig.clock.advance(ms - 1)
    rig.do(call(tick))
    stood = rig.state(key) is State.IN_FLIGHT
    rig.clock.advance(1)
    rig.do(call(tick))
    return stood and rig.state(key) is not State.IN_FLIGHT


@pytest.mark.parametrize("ms", JUMPS)
def test_reliability_30_a_jump_of_the_clock_ends_no_reservation_and_lengthens_none(ms: int) -> None:
    rig = Rig()
    key = reserve(rig)
    rig.advance(10 * MINUTE)
    jump(rig, ms)
    assert (rig.state(key), rig.job(key).attempts) == (State.IN_FLIGHT, 0)
    assert lapses_after(rig, key, 20 * MINUTE)
    assert rig.job(key).attempts == 1


@pytest.mark.parametrize("ms", JUMPS)
def test_reliability_30_a_live_workers_report_counts_after_a_jump(ms: int) -> None:
    rig = Rig()
    key = reserve(rig)
    jump(rig, ms)
    assert rig.do(Acknowledge("j", ignore)) is True
    assert rig.state(key) is None


@pytest.mark.parametrize("ms", JUMPS)
def test_reliability_30_a_job_in_a_take_stream_is_handed_out_once(ms: int) -> None:
    rig = Rig(limits=Limits(max_lease_ms=12 * HOUR))
    (key,) = rig.put(new_job())
    worker, other = rig.worker(), rig.worker()
    jump(rig, ms)
    assert (worker.keys + other.keys, rig.job(key).interruptions) == ([key], 0)
    assert lapses_after(rig, key, 12 * HOUR) or rig.job(key).interruptions == 1


@pytest.mark.parametrize("ms", JUMPS)
def test_reliability_30_no_entry_of_cron_fires_twice(ms: int) -> None:
    rig = Rig()
    entry = NewCron(name="each", expression="*/5 * * * *", job=new_job("cron"), timezone="UTC")
    rig.do(call(replace_group("conf", [entry])))
    rig.advance(-NOW % (5 * MINUTE))
    assert rig.store.queues.takeable("cron") == 1
    jump(rig, ms)
    there = rig.store.queues.takeable("cron")
    assert there == 1 + (ms > 0)  # of all slots that were passed, the latest one
    jump(rig, -ms)
    jump(rig, 0)
    assert rig.store.queues.takeable("cron") == there


@both_engines
def test_a_jump_is_written_down_once_by_whichever_process_sees_it_first(tmp_path: Path) -> None:
    one = Rig(open_sqlite(tmp_path))
    other = Rig(open_sqlite(tmp_path, exclusive=False), clock=one.clock)
    key = reserve(one)
    other.engine.apply([])
    jump(one, -HOUR)
    jump(other, 0)
    jump(other, -HOUR)
    jump(one, 0)
    assert jumps_written(one) == -2 * HOUR
    assert lapses_after(other, key, 30 * MINUTE)


def test_what_another_process_has_written_down_is_believed(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    key = reserve(one)
    # The other one was idle while the clock was slewed, a second at a time, and takes it for a jump.
    other.engine.apply([])
    for _ in range(10):
        one.clock.jump(1_000)
        one.engine.apply([])
    other.engine.apply([])
    one.advance(MINUTE)
    one.do(call(tick))
    other.advance(MINUTE)
    assert jumps_written(one) == 10_000
    assert lapses_after(one, key, 28 * MINUTE)


def test_a_jump_whose_transaction_does_not_last_is_seen_again() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    key = reserve(rig)
    store.commits.append(StoreFull("full"))
    rig.clock.jump(HOUR)
    rig.engine.apply([])
    rig.do(call(tick))
    assert rig.state(key) is State.IN_FLIGHT
    assert lapses_after(rig, key, 30 * MINUTE)


def test_small_steps_are_time_that_passes() -> None:
    rig = Rig()
    reserve(rig)
    for _ in range(100):
        jump(rig, 1_999)
    assert jumps_written(rig) == 0


def test_an_extension_ends_as_far_ahead_as_it_was_asked_for() -> None:
    rig = Rig()
    key = reserve(rig)
    jump(rig, YEARS)
    rig.do(call(report_progress("j", reserve_until=rig.clock.now() + 2 * HOUR)))
    assert lapses_after(rig, key, 2 * HOUR)


def restarted(rig: Rig, place: Path, clock: ManualClock) -> Rig:
    """Stop the only process and start another one."""
    rig.store.close()
    again = Rig(open_sqlite(place), clock=clock)
    again.do(call(tick))
    return again


def test_a_clock_that_was_set_back_across_a_stop_makes_no_lease_longer(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    key = reserve(rig)
    rig.advance(20 * MINUTE)
    rig = restarted(rig, tmp_path, ManualClock(NOW - YEARS))
    assert rig.state(key) is State.IN_FLIGHT
    jump(rig, YEARS)  # as on a machine without a battery, once it has asked for the time
    assert lapses_after(rig, key, 10 * MINUTE)


def test_the_time_of_a_stop_counts(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    key = reserve(rig)
    jump(rig, HOUR)
    rig = restarted(rig, tmp_path, ManualClock(NOW + HOUR + 29 * MINUTE))
    assert rig.state(key) is State.IN_FLIGHT
    rig = restarted(rig, tmp_path, ManualClock(NOW + HOUR + 30 * MINUTE))
    assert rig.state(key) is State.RETRYING


class Distant(FaultyStore):
    """A store across a network."""

    remote: Any = True


def test_a_databases_clock_that_goes_back_lengthens_no_lease() -> None:
    rig = Rig(Distant(open_sqlite()))
    key = reserve(rig)
    jump(rig, -YEARS)
    assert lapses_after(rig, key, 30 * MINUTE)


def test_a_pause_of_a_machine_lengthens_no_lease_in_a_database() -> None:
    """Its monotonic clock may have stood still."""
    rig = Rig(Distant(open_sqlite()))
    key = reserve(rig)
    jump(rig, 30 * MINUTE)
    assert rig.state(key) is State.RETRYING


def test_the_databases_clock_goes_on_by_the_own_monotonic_one() -> None:
    own = ManualClock(NOW)
    clock = DistantClock(own)
    assert clock.now() == NOW
    own.advance(1_000)
    clock.hear(NOW - YEARS, asked=own.monotonic() - 20)
    own.jump(YEARS)
    own.advance(5)
    assert clock.now() == NOW - YEARS + 5


def test_what_came_late_says_nothing_of_the_time() -> None:
    own = ManualClock(NOW)
    clock = DistantClock(own)
    clock.hear(NOW, asked=own.monotonic())
    own.advance(HOUR)
    clock.hear(NOW + 1, asked=own.monotonic() - 1_001)
    assert clock.now() == NOW + HOUR
    clock.hear(NOW + HOUR + 7, asked=own.monotonic() - 1_000)
    assert clock.now() == NOW + HOUR + 7


def test_settling_goes_by_the_rows_alone_beside_a_jump(rig: Rig) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    rig.clock.jump(-YEARS)
    assert rig.do(succeed(key)) == []
    assert rig.state(key) is None

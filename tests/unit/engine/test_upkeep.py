"""What happens to a store by itself, some in each batch: each duty of `Upkeep.run`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anew.engine.engine import PROMOTE_JOBS
from anew.engine.upkeep import Upkeep
from anew.jobs import HoldKind, State
from anew.store.protocol import Hold
from anew.store.sql import SqlStore
from anew.store.sqlite import open_sqlite
from anew.units import MINUTE_MS
from tests.conformance.helpers import ready_total

from .rig import NOW, Rig, call, new_job, plain


def dies(directory: Path, last_act: Callable[[SqlStore], object]) -> None:
    """Let another process do something in a store, and die without a word."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            store = open_sqlite(directory, exclusive=False)
            store.begin(synced=False)
            last_act(store)
            store.commit()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def run_all(rig: Rig) -> list[bool]:
    """Run the duties until nothing more is due; gives what each run reported."""
    duties, reported = Upkeep(), [True]
    while reported[-1]:
        reported.append(rig.do(call(duties.run)))
    return reported[1:]


def rows(rig: Rig, table: str) -> int:
    """How many rows of a table there are."""
    connection: Any = rig.store._link.connection  # type: ignore[attr-defined]
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_a_dead_process_keeps_its_row_until_all_that_it_held_is_given_back(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    keys = rig.do(plain(2 * PROMOTE_JOBS + 1)).keys

    def take(store: SqlStore) -> None:
        store.take(None, 1_000, 1 << 20, Hold(HoldKind.SESSION, 7, store.session, None, NOW))

    dies(tmp_path, take)
    assert ready_total(rig.store) == 0
    assert len(rig.store.processes.sessions()) == 2
    assert run_all(rig) == [True, True, False]
    assert ready_total(rig.store) == len(keys)
    assert {job.interruptions for job in rig.store.load(keys)} == {1}
    assert [session.id for session in rig.store.processes.sessions()] == [rig.store.session]
    rig.store.close()


def test_what_a_living_process_holds_stays_with_it(tmp_path: Path) -> None:
    one = Rig(open_sqlite(tmp_path, exclusive=False))
    other = Rig(open_sqlite(tmp_path, exclusive=False), clock=one.clock)
    (key,) = one.put(new_job())
    worker = one.worker()
    one.advance(MINUTE_MS)
    run_all(other)
    one.engine.apply([])
    assert (worker.keys, one.state(key), one.job(key).interruptions) == ([key], State.IN_FLIGHT, 0)
    one.store.close()
    other.store.close()


def test_counters_are_checked_after_a_process_has_died_and_not_otherwise(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    run_all(rig)
    assert not rig.engine.parts.recount_due
    dies(tmp_path, lambda store: None)
    run_all(rig)
    assert rig.engine.parts.recount_due
    rig.store.close()


def test_what_a_dead_process_has_written_ahead_is_removed(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    long = new_job(payload=b'"' + b"x" * (600 << 10) + b'"')
    dies(tmp_path, lambda store: store.stage([NOW << 20], [long], (0, 0), 1))
    assert (rows(rig, "payload"), rows(rig, "staged")) == (1, 1)
    assert run_all(rig) == [False]
    assert (rows(rig, "payload"), rows(rig, "staged")) == (0, 0)
    rig.store.close()


def test_what_a_deleted_job_has_left_is_swept() -> None:
    rig = Rig()
    (key,) = rig.put(new_job(payload=b'"' + b"x" * (5 << 20) + b'"'))
    rig.do(call(lambda batch: batch.delete([key])))
    assert rows(rig, "payload") > 0
    assert run_all(rig) == [True, False]
    assert rows(rig, "payload") == 0

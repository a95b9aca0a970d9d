"""Counters are checked beside the work that goes on: by one thread at a time, and what is found is put right once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from anew.engine.ops import Verb
from anew.engine.upkeep import Upkeep
from anew.jobs import State
from anew.store.protocol import Reader, Recount
from anew.store.sqlite import open_sqlite

from .rig import FaultyStore, Rig, call, new_job


def spoil(rig: Rig, by: int) -> None:
    """Make a counter wrong, as a crash of an older program might have."""
    number = rig.store.reader().recount().number
    rig.do(call(lambda batch: batch.store.correct(Recount(number, {("mail", State.READY): by}, []))))


def finding(rig: Rig) -> Verb:
    """What a recount of this engine would write."""
    rig.engine.parts.recount_due = True
    found: list[Verb] = []
    upkeep = Upkeep()
    upkeep.recount(rig.engine.parts, found.append)
    assert upkeep._recounting is not None
    upkeep._recounting.join(20)
    return found[0]


def test_two_engines_that_recount_at_once_put_a_counter_right_once(tmp_path: Path) -> None:
    one = Rig(open_sqlite(tmp_path))
    other = Rig(open_sqlite(tmp_path, exclusive=False))
    one.put(*[new_job()] * 5)
    spoil(one, -2)
    verbs = [finding(one), finding(other)]
    for rig, verb in zip((one, other), verbs, strict=True):
        rig.do(call(verb))
    assert other.store.queues.takeable("mail") == 5
    assert other.engine.parts.recount_due, "whose finding is void looks again"
    one.store.close()
    other.store.close()


def test_one_thread_of_an_engine_recounts_at_a_time() -> None:
    class Slow(FaultyStore):
        opened = 0

        def reader(self) -> Reader:
            self.opened += 1
            assert go_on.wait(20)
            return self.inner.reader()

    go_on = threading.Event()
    rig = Rig(store := Slow(Rig().store))
    upkeep = Upkeep()
    nothing: Any = None
    threads = []
    for _ in range(2):
        rig.engine.parts.recount_due = True
        upkeep.recount(rig.engine.parts, nothing)
        threads.append(upkeep._recounting)
    assert threads[0] is threads[1] is not None
    go_on.set()
    threads[0].join(20)
    assert (store.opened, rig.engine.parts.recount_due) == (1, True)
    upkeep.recount(rig.engine.parts, nothing)
    assert upkeep._recounting is not None
    upkeep._recounting.join(20)
    assert (store.opened, rig.engine.parts.recount_due) == (2, False)

"""A server beside a process that writes: what wakes it, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anew.engine import Limits
from anew.store.sqlite import open_sqlite

from .grouped import Group
from .rig import Rig, new_job, succeed

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Group, Rig]]:
    """A server's group commit, where two jobs may be in flight, and another process's engine."""
    group = Group(open_sqlite(tmp_path), limits=Limits(global_in_flight=2))
    other = Rig(open_sqlite(tmp_path, exclusive=False), clock=group.rig.clock)
    group.loop.settle()
    yield group, other
    group.rig.store.close()
    other.store.close()


def woken(group: Group) -> int:
    """How many batches a wake-up by another process leads to."""
    before = len(group.batches)
    group.commit._woken()
    group.loop.settle()
    return len(group.batches) - before


def test_a_wake_up_costs_a_batch_only_where_somebody_waits_for_jobs(pair: tuple[Group, Rig]) -> None:
    group, other = pair
    other.put(new_job())
    assert woken(group) == 0
    worker = group.worker(prefetch=2)
    group.loop.settle()
    assert len(worker.keys) == 1
    group.loop.advance(50)  # it looks once more in vain, and waits
    other.put(new_job())
    assert woken(group) > 0
    assert len(worker.keys) == 2
    group.loop.advance(50)
    other.put(new_job())
    assert woken(group) == 0, "it has no free slot"


def test_reliability_26_what_another_process_has_ended_is_found_by_the_poll(pair: tuple[Group, Rig]) -> None:
    """However shortly before rows were compared last."""
    group, other = pair
    keys = other.put(*[new_job()] * 4)
    worker = group.worker(prefetch=1)
    group.loop.settle()
    assert worker.keys == keys[:1]
    for n in range(3):
        other.do(succeed(keys[n]))
        group.loop.advance(100)
        assert worker.keys == keys[: n + 2]

"""Other times for many jobs at once, and a transaction that does not last."""

from __future__ import annotations

import pytest

from anew.engine.bulk import Extent
from anew.engine.replanning import Replanning, replannable
from anew.errors import InternalError
from anew.jobs import State
from anew.store.selection import Filter
from anew.store.sqlite import open_sqlite

from .rig import FaultyStore, Rig, call, fail, new_job

HOUR_MS = 3_600_000


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(open_sqlite())


def test_what_a_transaction_that_did_not_last_has_counted_is_not_counted(store: FaultyStore) -> None:
    rig = Rig(store, policy={"curve": {"constant": "1d"}})
    keys = rig.put(new_job(), new_job())
    rig.worker()
    rig.apply(*[fail(key) for key in keys])
    change = Replanning(b'{"curve": {"constant": "1h"}}', 0, dry_run=False)
    extent = Extent(total=2, last=keys[-1], began=rig.clock.now())

    def chunk() -> object:
        return rig.do(call(lambda batch: change(batch, replannable(Filter()), extent, 0)))

    store.commits[:] = [RuntimeError("unforeseen")]
    assert isinstance(chunk(), InternalError)
    assert (change.plan.looked, change.plan.due_after) == (0, [0] * 10)
    assert chunk() == 2
    assert (change.plan.sooner, change.plan.looked) == (2, 2)
    assert [job.ready_at for job in rig.store.load(keys)] == [rig.clock.now() + HOUR_MS] * 2
    assert {job.state for job in rig.store.load(keys)} == {State.RETRYING}

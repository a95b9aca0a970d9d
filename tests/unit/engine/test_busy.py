"""While another process or program writes: nothing is lost, new jobs are refused after two seconds, all else waits on."""

from __future__ import annotations

import pytest

from anew.engine import Call, Enqueue
from anew.errors import StoreBusy
from anew.jobs import State
from anew.store.sqlite import open_sqlite
from tests.conformance.helpers import ready_total

from .grouped import Group
from .rig import FaultyStore, Once, call, ignore, new_job, plain, succeed
from .test_staging import rows

pytestmark = pytest.mark.usefixtures("both_ways")


class BusyStore(FaultyStore):
    """A store whose lock somebody else holds until `free` is called."""

    def __init__(self) -> None:
        super().__init__(open_sqlite())
        self.locked = False
        self.calls: list = []  # type: ignore[type-arg]

    def begin(self, *, synced: bool) -> bool:
        if self.locked:
            raise StoreBusy("another process is writing to the store")
        return self.inner.begin(synced=synced)

    def busy(self) -> StoreBusy:
        return StoreBusy("process 77 has been writing for too long")

    def when_free(self, call: object) -> None:
        self.calls.append(call)

    def wait_until_free(self, timeout_s: float) -> bool:
        return not self.locked

    def free(self) -> None:
        """Let go of the lock, and tell whoever waits."""
        self.locked = False
        calls, self.calls = self.calls, []
        for each in calls:
            each()


@pytest.fixture
def group() -> Group:
    return Group(BusyStore())


def test_what_waits_is_applied_in_order_once_the_store_is_free(group: Group) -> None:
    store = group.rig.store
    store.locked = True  # type: ignore[attr-defined]
    first, second = group.submit(plain(1)), group.submit(plain(1))
    group.loop.settle()
    third = group.submit(plain(1))
    group.loop.advance(1_900)
    assert [one.calls for one in (first, second, third)] == [[], [], []]
    store.free()  # type: ignore[attr-defined]
    group.loop.settle()
    keys = [one.result.keys[0] for one in (first, second, third)]
    assert keys == sorted(keys)


def test_nobody_asks_again_before_the_store_is_free(group: Group) -> None:
    group.rig.store.locked = True  # type: ignore[attr-defined]
    group.submit(plain(1))
    group.loop.settle()
    batches = len(group.batches)
    group.submit(succeed(1))
    group.loop.advance(1_500)  # beyond a tick
    assert len(group.batches) == batches
    assert len(group.rig.store.calls) == 1  # type: ignore[attr-defined]


def test_after_two_seconds_new_jobs_are_refused_and_settling_waits_on(group: Group) -> None:
    store = group.rig.store
    done = group.submit(plain(1))
    worker = group.worker(prefetch=1)
    group.loop.settle()
    (key,) = done.result.keys
    assert worker.keys == [key]
    store.locked = True  # type: ignore[attr-defined]
    refused, settled = group.submit(plain(1)), group.submit(succeed(key))
    group.loop.settle()
    waiting = group.submit(plain(1))
    group.loop.advance(1_999)
    assert refused.calls == []
    group.loop.advance(1)
    for one in (refused, waiting):
        assert isinstance(one.result, StoreBusy)
        assert "process 77" in str(one.result)
    assert isinstance(group.submit(plain(1)).result, StoreBusy)
    assert settled.calls == []
    store.free()  # type: ignore[attr-defined]
    group.loop.settle()
    assert settled.result == []
    for one in (refused, waiting):
        assert isinstance(one.result, StoreBusy)  # and was answered no second time
    assert ready_total(group.rig.store) == 0
    assert len(group.submit_and_settle(plain(1)).keys) == 1


def test_new_jobs_are_refused_anew_only_after_another_two_seconds(group: Group) -> None:
    store = group.rig.store
    for _ in range(2):
        store.locked = True  # type: ignore[attr-defined]
        first = group.submit(plain(1))
        group.loop.advance(1_000)
        assert first.calls == []
        group.loop.advance(1_000)
        assert isinstance(first.result, StoreBusy)
        store.free()  # type: ignore[attr-defined]
        group.loop.settle()


def test_a_long_payload_is_refused_as_a_short_one_is_and_nothing_of_it_stays(group: Group) -> None:
    """Half of the first one is written when the lock is taken; the second has not begun."""
    store = group.rig.store
    long = new_job(payload=b'"' + b"x" * 600_000 + b'"')  # three parts
    one, other, late = Once(), Once(), Once()
    group.commit.submit_long(Enqueue([long], one))
    group.batch()
    store.locked = True  # type: ignore[attr-defined]
    group.commit.submit_long(Enqueue([long], other))
    group.loop.advance(2_000)
    group.commit.submit_long(Enqueue([long], late))
    assert [type(each.result) for each in (one, other, late)] == [StoreBusy] * 3
    store.free()  # type: ignore[attr-defined]
    group.loop.advance(2_000)  # a tick removes what was left behind
    assert [rows(group, table) for table in ("payload", "staged", "job")] == [0, 0, 0]


def test_a_probe_is_refused_as_new_jobs_are(group: Group) -> None:
    group.rig.store.locked = True  # type: ignore[attr-defined]
    probe, patient = (
        group.submit(Call(lambda batch: 1, ignore, waits=False)),
        group.submit(call(lambda batch: 2)),
    )
    group.loop.advance(2_000)
    assert isinstance(probe.result, StoreBusy)
    assert isinstance(group.submit(Call(lambda batch: 1, ignore, waits=False)).result, StoreBusy)
    assert patient.calls == []
    group.rig.store.free()  # type: ignore[attr-defined]
    group.loop.settle()
    assert patient.result == 2


def test_closing_does_not_wait_for_a_lock_for_ever(group: Group) -> None:
    group.rig.store.locked = True  # type: ignore[attr-defined]
    answer = group.submit(plain(1))
    group.loop.settle()
    group.commit.close()
    assert isinstance(answer.result, StoreBusy)


def test_a_delivery_that_raises_gives_its_jobs_back_at_once() -> None:
    group = Group()
    broken: list[bool] = []

    def fails(rows: object, now: int) -> None:
        raise OSError("the stream is gone")

    def breaks() -> None:
        broken.append(True)
        group.commit.remove_taker(taker, interrupted=False)

    taker = group.worker(prefetch=2).taker
    taker.deliver, taker.broken = fails, breaks
    answer = group.submit(plain(2))
    group.loop.settle()
    keys = list(answer.result.keys)
    assert [group.rig.state(key) for key in keys] == [State.READY] * 2
    assert {job.interruptions for job in group.rig.store.load(keys)} == {0}
    assert broken == [True]
    assert group.worker(prefetch=2).taker is not taker
    group.loop.settle()
    assert [group.rig.state(key) for key in keys] == [State.IN_FLIGHT] * 2
    assert group.rig.broken_rules() == []


def test_settling_waits_on_where_the_store_becomes_busy_between_operations_that_are_applied_one_by_one(
    group: Group,
) -> None:
    store: BusyStore = group.rig.store  # type: ignore[assignment]
    group.submit(plain(1))
    worker = group.worker(prefetch=1)
    group.loop.settle()
    (key,) = worker.keys

    tries: list[int] = []

    def lock(batch: object) -> None:
        tries.append(1)
        store.locked = len(tries) == 2  # when it is applied by itself

    store.commits.append(RuntimeError("odd"))
    group.commit.submit(Call(lock, ignore))
    settled = group.submit(succeed(key))
    group.loop.advance(10_000)
    assert store.locked
    assert settled.calls == []
    store.free()
    group.loop.settle()
    assert settled.result == []

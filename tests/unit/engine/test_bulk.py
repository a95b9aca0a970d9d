"""Changes of very many jobs: in chunks, upwards, to their end, a few at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from anew.engine import Batch, Call, bulk, verbs
from anew.engine.bulk import CHUNK, FOUND, RUNNING, WAITING, BulkChanges, Extent
from anew.engine.ops import Op
from anew.errors import Overloaded, StoreFull
from anew.jobs import Job, State
from anew.jobs.patch import Patch
from anew.store.selection import Filter, Page

from .rig import NOW, Once, Rig, call, fail, new_job

DEAD = Filter(states=frozenset({State.DEAD}))


class Field:
    """A rig with bulk changes whose operations and reads are let through one at a time.

    Attributes:
        ops: Submitted and not applied yet.
        reads: Asked for and not answered yet.
        resting: What goes on after a rest.
        reading: False where too many reads wait.
    """

    def __init__(self) -> None:
        self.rig = Rig(None, policy={"curve": {"constant": "10s"}, "limit": 0}, dead_ms=60_000)
        self.ops: deque[Op] = deque()
        self.reads: deque[tuple[Any, Any]] = deque()
        self.resting: deque[Any] = deque()
        self.reading = True
        self.chunks: list[int] = []
        self.bulk = BulkChanges(self.ops.append, self._read, self.rig.clock.now, self._later)

    def _later(self, seconds: float, go_on: Any) -> None:
        assert 0 < seconds < 10
        self.resting.append(go_on)

    def _read(self, find: Any, then: Any) -> None:
        if not self.reading:
            raise Overloaded("no")
        self.reads.append((find, then))

    def dead(self, count: int, queue: str = "mail") -> list[int]:
        """Have jobs die; gives their keys."""
        keys = self.rig.put(*(new_job(queue) for _ in range(count)))
        worker = self.rig.worker([queue], count)
        self.rig.apply(*(fail(key) for key in keys))
        self.rig.do(self.rig.leave(worker))
        return keys

    def start(self, where: Filter = DEAD, change: Any = None, **redrive: Any) -> Once:
        done = Once()
        given = change or verbs.redrive_chunk(**redrive)

        def counted(batch: Batch, where: Filter, extent: Extent, before: int) -> int:
            changed: int = given(batch, where, extent, before)
            self.chunks.append(changed)
            return changed

        self.bulk.start(where, counted, done)
        return done

    def start_judging(self, judge: verbs.Judge, timer: Callable[[], float] = lambda: 0.0) -> Once:
        """Delete the dead jobs that are chosen."""
        done = Once()
        change = verbs.chosen_chunk(judge, verbs.delete_chunk, timer)
        self.bulk.start(DEAD, change, done, reads_payloads=True)
        return done

    def step(self) -> bool:
        """Answer one read, apply one operation, or let a rest be over; tells whether there was one."""
        if self.reads:
            find, then = self.reads.popleft()
            then(find(self.rig.store))
        elif self.ops:
            self.rig.engine.apply([self.ops.popleft()])
        elif self.resting:
            self.resting.popleft()()
        else:
            return False
        return True

    def settle(self) -> None:
        while self.step():
            assert self.rig.broken_rules() == []

    def step_to_chunk(self, number: int) -> None:
        """Go on until so many chunks have been changed."""
        while len(self.chunks) < number:
            assert self.step()


@pytest.fixture
def field() -> Field:
    return Field()


def test_everything_is_changed_in_chunks(field: Field) -> None:
    count = FOUND + CHUNK + 5
    keys = field.dead(count)
    done = field.start()
    assert done.calls == []
    field.settle()
    assert done.result == count
    assert max(field.chunks) == CHUNK
    assert {field.rig.job(key).state for key in (keys[0], keys[FOUND], keys[-1])} == {State.READY}
    assert field.rig.store.count(DEAD) == 0


def test_a_change_of_nothing_ends_at_once(field: Field) -> None:
    done = field.start()
    field.settle()
    assert (done.result, field.chunks) == (0, [])


def test_others_have_their_turn_between_two_chunks(field: Field) -> None:
    """Each chunk is one operation in one batch, and a rest follows it in which batches hold none."""
    field.dead(3 * CHUNK)
    done = field.start()
    field.step_to_chunk(1)
    assert (len(field.ops), len(field.resting)) == (0, 1)
    (key,) = field.rig.put(new_job("other"))
    assert field.rig.state(key) is State.READY
    field.settle()
    assert done.result == 3 * CHUNK


def test_a_job_is_judged_by_what_it_is_when_its_chunk_comes(field: Field) -> None:
    keys = field.dead(CHUNK + 3)
    done = field.start()
    field.step_to_chunk(1)
    gone, sent_on, kept = keys[CHUNK:]
    field.rig.do(call(verbs.delete_one(gone)))
    field.rig.do(call(verbs.redrive_one(sent_on)))
    field.rig.do(call(verbs.patch_one(sent_on, Patch(priority=7))))
    field.settle()
    assert done.result == CHUNK + 1
    assert field.rig.state(gone) is None
    assert (field.rig.job(sent_on).priority, field.rig.state(kept)) == (7, State.READY)


def test_what_comes_to_match_behind_the_end_is_left_alone(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else jobs that die as fast as they are redriven would keep the change going for ever."""
    monkeypatch.setattr(bulk, "FOUND", CHUNK)  # so that it looks once more, and finds them
    field.dead(CHUNK + 1, "first")
    done = field.start(Filter(states=frozenset({State.DEAD}), queues=frozenset({"first", "late"})))
    field.step_to_chunk(1)
    late = field.dead(2, "late")
    field.settle()
    assert done.result == CHUNK + 1
    assert [field.rig.state(key) for key in late] == [State.DEAD, State.DEAD]


def test_a_job_that_matches_again_is_met_once(field: Field) -> None:
    first, *_ = field.dead(CHUNK + 1)
    done = field.start()
    field.step_to_chunk(1)
    worker = field.rig.worker(["mail"], 1)
    assert worker.held == {first}
    field.rig.do(fail(first))
    field.settle()
    assert done.result == CHUNK + 1
    assert field.rig.state(first) is State.DEAD


def test_a_redrive_is_spread_evenly_over_all_chunks(field: Field) -> None:
    """Of 200 jobs over 400 s each runs two seconds after the one before, counted from when the change began."""
    keys = field.dead(200)
    done = field.start(spread_ms=400_000)
    field.step_to_chunk(1)
    field.rig.advance(5_000)
    field.settle()
    assert done.result == 200
    jobs = field.rig.store.load(keys)
    assert [job.ready_at - NOW for job in jobs] == list(range(0, 400_000, 2_000))
    assert field.rig.engine.due_at == NOW + 6_000


def test_a_redrive_heeds_its_filter(field: Field) -> None:
    one, two = field.dead(2)
    (ready,) = field.rig.put(new_job())
    nothing = verbs.redrivable(Filter(states=frozenset({State.READY})), NOW)
    assert field.rig.store.find(nothing, Page()) == []
    where = verbs.redrivable(Filter(keys=frozenset({two, ready})), NOW)
    done = field.start(where, reset_attempts=True)
    field.settle()
    assert done.result == 1
    assert [field.rig.state(key) for key in (one, two)] == [State.DEAD, State.READY]
    assert field.rig.job(two).attempts == 0


def test_zizq_78_a_bulk_patch_skips_ended_jobs(field: Field) -> None:
    (dead,) = field.dead(1, "died")
    keys = field.rig.put(*(new_job() for _ in range(2 * CHUNK + 1)))
    for _ in range(2):  # those count too that are already as the patch wants them
        done = field.start(verbs.patchable(Filter()), verbs.patch_chunk(Patch(priority=3)))
        field.settle()
        assert done.result == 2 * CHUNK + 1
    assert {job.priority for job in field.rig.store.load(keys)} == {3}
    assert field.rig.job(dead).priority == 32768


def test_a_bulk_patch_that_takes_jobs_out_of_its_own_filter_meets_each(field: Field) -> None:
    field.rig.put(*(new_job() for _ in range(CHUNK + 10)))
    ready = Filter(states=frozenset({State.READY}))
    done = field.start(verbs.patchable(ready), verbs.patch_chunk(Patch(ready_at=NOW + 5)))
    field.settle()
    assert done.result == CHUNK + 10
    assert field.rig.store.count(ready) == 0


def test_a_bulk_delete_removes_jobs_in_any_state_with_what_belongs_to_them(field: Field) -> None:
    (dead,) = field.dead(1)
    (long,) = field.rig.put(new_job("long", payload=b"x" * 5_000))
    first, second = field.rig.put(new_job(), new_job())
    worker = field.rig.worker(["mail"], 1)
    done = field.start(Filter(keys=frozenset({dead, long, first})), verbs.delete_chunk)
    field.settle()
    assert done.result == 3
    assert field.rig.store.records.errors(dead, Page()) == []
    assert worker.keys == [first, second]


def test_two_changes_go_on_at_a_time_and_the_rest_wait(field: Field) -> None:
    field.dead(2)
    begun = [field.start() for _ in range(RUNNING + WAITING)]
    assert len(field.reads) == RUNNING
    with pytest.raises(Overloaded, match="too many changes of many jobs are waiting"):
        field.start()
    field.settle()
    assert [done.result for done in begun] == [2, *[0] * (RUNNING + WAITING - 1)]
    again = field.start()
    field.settle()
    assert again.result == 0


def test_where_too_many_reads_wait_a_change_asks_again_and_burdens_no_batch(field: Field) -> None:
    field.dead(3)
    field.reading = False
    done = field.start()
    for _ in range(5):
        assert (len(field.ops), len(field.reads), len(field.resting)) == (0, 0, 1)
        field.resting.popleft()()
    field.reading = True
    field.settle()
    assert done.result == 3


def test_a_change_that_waits_for_a_read_ends_with_what_the_closing_says(field: Field) -> None:
    field.dead(3)
    field.reading = False
    done = field.start()
    field.bulk.read = lambda find, then: then(Overloaded("the server is shutting down"))
    field.settle()
    assert isinstance(done.result, Overloaded)
    assert field.rig.store.count(DEAD) == 3


def test_an_error_ends_a_change_and_lets_the_next_begin(field: Field) -> None:
    field.dead(2)

    def full(*_: Any) -> int:
        raise StoreFull("full")

    begun = [field.start(change=full) for _ in range(RUNNING)]
    after = field.start()
    field.settle()
    assert [type(done.result) for done in begun] == [StoreFull] * RUNNING
    assert after.result == 2
    error = Overloaded("the server is shutting down")
    last = field.start()
    field.reads.popleft()[1](error)
    assert last.result is error


def test_a_chunk_is_one_durable_operation(field: Field) -> None:
    field.dead(1)
    field.start()
    while not field.ops:
        field.step()
    (op,) = field.ops
    assert isinstance(op, Call)
    assert op.durable


def test_a_change_whose_jobs_go_between_its_two_looks_ends_with_nothing() -> None:
    field = Field()
    field.dead(3)
    done = field.start()
    find, then = field.reads.popleft()

    class Emptied:
        """Counts nothing where something was found, or the other way round, whichever look comes first."""

        def __init__(self) -> None:
            self.looks = 0

        def count(self, where: Filter) -> int:
            self.looks += 1
            return 3 if self.looks == 1 else 0

        def find(self, where: Filter, page: Page) -> list[int]:
            self.looks += 1
            return field.rig.store.find(where, page) if self.looks == 1 else []

    then(find(Emptied()))
    while field.step():
        pass
    assert done.result == 0


def test_a_change_of_jobs_that_come_between_its_two_looks_divides_by_no_zero() -> None:
    """The count sees none, the look for the last one a job that has died since."""
    field = Field()
    field.dead(1)
    done = field.start(spread_ms=1_000)
    find, then = field.reads.popleft()

    class Growing:
        """Nothing at the first look, everything at the second."""

        def __init__(self) -> None:
            self.looks = 0

        def count(self, where: Filter) -> int:
            self.looks += 1
            return 0 if self.looks == 1 else 1

        def find(self, where: Filter, page: Page) -> list[int]:
            self.looks += 1
            return [] if self.looks == 1 else field.rig.store.find(where, page)

    then(find(Growing()))
    while field.step():
        pass
    assert done.result == 0


def test_a_job_that_takes_long_to_judge_comes_again_and_those_behind_it_after_it(field: Field) -> None:
    keys = field.dead(CHUNK + 5)
    asked: list[int] = []

    def judge(job: Job, is_over: Callable[[], bool]) -> bool | None:
        """Need three calls for the third job, and choose every second one."""
        asked.append(job.key)
        at = keys.index(job.key)
        return None if at == 2 and asked.count(job.key) < 3 else at % 2 == 0

    done = field.start_judging(judge)
    field.settle()
    assert asked == [*keys[:3], keys[2], *keys[2:]]
    assert done.result == (CHUNK + 5 + 1) // 2
    assert field.rig.store.find(DEAD, Page(limit=1_000)) == keys[1::2]


def test_a_batch_judges_one_job_at_least_however_late_it_is(field: Field) -> None:
    keys = field.dead(5)
    done = field.start_judging(lambda job, is_over: job.key != keys[3], count(step=verbs.JUDGING_S).__next__)
    field.settle()
    assert done.result == 4
    assert field.rig.store.find(DEAD, Page()) == [keys[3]]


def sifting(field: Field, wanted: Callable[[int], bool]) -> Any:
    """Leave out what is not wanted; its answers come as reads do."""

    def sift(keys: Any, then: Any) -> None:
        field.reads.append((lambda reader: [key for key in keys if wanted(key)], then))

    return sift


def test_zizq_70_what_a_sift_leaves_out_is_not_changed(field: Field) -> None:
    keys = field.dead(FOUND + CHUNK + 5)
    done = Once()
    wanted = set(keys[::7])
    field.bulk.start(DEAD, verbs.redrive_chunk(), done, sift=sifting(field, wanted.__contains__))
    field.settle()
    assert done.result == len(wanted)
    assert {key for key in keys if field.rig.job(key).state is State.READY} == wanted


def test_a_look_of_which_nothing_is_left_does_not_end_the_change(field: Field) -> None:
    keys = field.dead(FOUND + 2)
    done = Once()
    field.bulk.start(DEAD, verbs.delete_chunk, done, sift=sifting(field, lambda key: key == keys[-1]))
    field.settle()
    assert done.result == 1
    assert field.rig.store.count(DEAD) == FOUND + 1


def test_a_job_that_has_changed_since_the_sift_is_judged_by_what_it_is(field: Field) -> None:
    keys = field.dead(3)
    done = Once()
    field.bulk.start(DEAD, verbs.delete_chunk, done, sift=sifting(field, lambda key: True))
    while not field.ops:
        field.step()
    field.rig.do(call(verbs.redrive_one(keys[1])))
    field.settle()
    assert done.result == 2
    assert field.rig.job(keys[1]).state is State.READY


def test_a_spread_goes_by_how_many_are_meant(field: Field) -> None:
    keys = field.dead(10)
    done = Once()
    sift = sifting(field, lambda key: key in keys[::5])
    began = field.rig.clock.now()
    field.bulk.start(DEAD, verbs.redrive_chunk(spread_ms=1_000), done, sift=sift, total=2)
    field.settle()
    assert done.result == 2
    assert [field.rig.job(key).ready_at - began for key in keys[::5]] == [0, 500]


@pytest.mark.parametrize("raised", [True, False])
def test_a_sift_that_fails_ends_the_change(field: Field, raised: bool) -> None:
    field.dead(3)
    done = Once()

    def sift(keys: Any, then: Any) -> None:
        if raised:
            raise Overloaded("stopping")
        then(Overloaded("stopping"))

    field.bulk.start(DEAD, verbs.delete_chunk, done, sift=sift)
    field.settle()
    assert isinstance(done.result, Overloaded)
    assert field.rig.store.count(DEAD) == 3
    assert field.start().calls == []
    field.settle()

"""An engine for a program's threads: each gets its own answer, whoever commits; jobs are taken under a token."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from anew.engine import Batch, Call, ThreadCommit, threads
from anew.engine.threads import _Turn, _Waiter
from anew.errors import Conflict, ForkedStore, NotFound, StoreBusy, StoreFailed
from anew.jobs import Failed, State
from anew.store.selection import Filter
from anew.store.sqlite import open_sqlite
from anew.tasks.opening import open_engine
from tests.waiting import until

from .rig import ALL, NOW, FaultyStore, Rig, enqueue, new_job


@pytest.fixture
def engine() -> Iterator[ThreadCommit]:
    """An engine in memory."""
    one = open_engine(None)
    yield one
    one.close()


def in_threads(run: Any, n: int, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Run a function in threads, each with its number, and something beside them; wait for all."""
    threads = [threading.Thread(target=run, args=(at,)) for at in range(n)]
    for thread in threads:
        thread.start()
    meanwhile()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread waits for ever"


def test_a_job_is_enqueued_taken_and_settled(engine: ThreadCommit) -> None:
    keys = engine.enqueue([new_job("a"), new_job("b")])
    taken = engine.take(["b"], 5)
    assert [row[0] for row in taken.rows] == [keys[1]]
    assert engine.succeed([keys[1]], taken.token) == []
    assert engine.take(["b"], 5).rows == []
    assert [row[0] for row in engine.take(None, 5).rows] == [keys[0]]


def test_a_stale_token_settles_nothing(engine: ThreadCommit) -> None:
    (key,) = engine.enqueue([new_job()])
    first = engine.take(None, 1)
    engine.release([key], first.token)
    second = engine.take(None, 1)
    assert first.token != second.token
    assert engine.succeed([key], first.token) == [key]
    with pytest.raises(NotFound):
        engine.fail(key, Failed(message="late"), first.token)
    assert engine.fail(key, Failed(message="no"), second.token).attempts == 1


def test_a_job_that_somebody_else_has_taken_since_is_not_given_back(engine: ThreadCommit) -> None:
    first_key, second_key = engine.enqueue([new_job(), new_job()])
    first = engine.take(None, 2)
    engine.release([first_key], first.token)
    second = engine.take(None, 1)
    engine.release([first_key, second_key], first.token)
    assert engine.succeed([first_key], second.token) == []
    assert [row[0] for row in engine.take(None, 2).rows] == [second_key]


def test_a_job_that_is_reported_twice_in_one_batch_is_settled_once() -> None:
    class Gate(FaultyStore):
        """Holds each batch until `go_on`, and counts them."""

        def begin(self, *, synced: bool) -> bool:
            begun.append(synced)
            assert go_on.wait(20)
            return self.inner.begin(synced=synced)

    begun: list[bool] = []
    go_on = threading.Event()
    go_on.set()
    engine = ThreadCommit(Rig(Gate(Rig().store)).engine)
    (key,) = engine.enqueue([new_job()])
    token = engine.take(None, 1).token
    missing: list[list[int]] = [[], []]

    def settle(at: int) -> None:
        missing[at] = engine.succeed([key], token)

    go_on.clear()
    leader = threading.Thread(target=lambda: engine.enqueue([new_job("other")]))
    leader.start()
    until(lambda: len(begun) == 3)
    others = [threading.Thread(target=settle, args=(at,)) for at in range(2)]
    for other in others:
        other.start()
    until(lambda: len(engine._queue) == 3)
    go_on.set()
    for thread in (leader, *others):
        thread.join(20)
        assert not thread.is_alive(), "a thread waits for ever"
    assert len(begun) == 4, "both reports are of one batch"
    assert sorted(missing) == [[], [key]]


def test_many_threads_get_each_its_own_answer(engine: ThreadCommit) -> None:
    given: list[list[int]] = [[] for _ in range(16)]

    def run(at: int) -> None:
        for n in range(50):
            given[at] += engine.enqueue([new_job(f"q{at}")] * (1 + n % 3))

    in_threads(run, 16)
    keys = [key for each in given for key in each]
    assert len(set(keys)) == len(keys) == 16 * 99  # 17 + 17 + 16 rounds of one, two, three jobs: 17 + 34 + 48
    assert all(each == sorted(each) for each in given)
    store = engine.engine.store
    assert {store.queues.takeable(f"q{at}") for at in range(16)} == {99}


def test_threads_that_take_never_share_a_job(engine: ThreadCommit) -> None:
    engine.enqueue([new_job() for _ in range(500)])
    taken: list[list[int]] = [[] for _ in range(8)]

    def run(at: int) -> None:
        while rows := engine.take(None, 7).rows:
            taken[at] += [row[0] for row in rows]

    in_threads(run, 8)
    keys = [key for each in taken for key in each]
    assert len(keys) == len(set(keys)) == 500


def test_whoever_waits_is_woken_by_a_job_of_the_same_process(
    engine: ThreadCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "POLL_S", 60.0)
    found: list[int] = []
    waiting = threading.Thread(
        target=lambda: found.extend(row[0] for row in engine.take(None, 1, timeout_s=60).rows)
    )
    waiting.start()
    until(engine._listening.locked)
    (key,) = engine.enqueue([new_job()])
    waiting.join(20)
    assert found == [key]


def test_a_wait_for_jobs_ends_after_its_time(engine: ThreadCommit) -> None:
    assert engine.take(None, 1, timeout_s=0.01).rows == []


def test_an_operation_that_breaks_hurts_nobody_else() -> None:
    rig = Rig(store := FaultyStore(Rig().store))
    engine = ThreadCommit(rig.engine)
    store.verbs["insert"] = [ZeroDivisionError()]
    with pytest.raises(Exception, match="internal server error"):
        engine.enqueue([new_job()])
    assert len(engine.enqueue([new_job()])) == 1


def test_a_failed_store_refuses_everybody_from_then_on() -> None:
    rig = Rig(store := FaultyStore(Rig().store))
    engine = ThreadCommit(rig.engine)
    store.commits.append(StoreFailed("disk I/O error"))
    for _ in range(2):
        with pytest.raises(StoreFailed):
            engine.enqueue([new_job()])
    with pytest.raises(StoreFailed):
        engine.take(None, 1)


def test_a_store_that_stays_busy_is_said_so_to_all_who_wait() -> None:
    class Busy(FaultyStore):
        def begin(self, *, synced: bool) -> bool:
            raise StoreBusy("locked")

        def wait_until_free(self, timeout_s: float) -> bool:
            assert timeout_s <= 0.5
            return False

    engine = ThreadCommit(Rig(Busy(Rig().store)).engine, busy_s=0.5)
    refused: list[int] = []

    def run(at: int) -> None:
        with pytest.raises(StoreBusy):
            engine.enqueue([new_job()])
        refused.append(at)

    in_threads(run, 4)
    assert sorted(refused) == [0, 1, 2, 3]


def test_who_was_answered_before_the_store_became_busy_is_answered_no_second_time() -> None:
    class Gate(FaultyStore):
        """Holds the first batch until `go_on`; is busy from the second operation on that is applied by itself."""

        def begin(self, *, synced: bool) -> bool:
            begun.append(synced)
            assert go_on.wait(20)
            if len(begun) > 3:
                raise StoreBusy("locked")
            return self.inner.begin(synced=synced)

        def wait_until_free(self, timeout_s: float) -> bool:
            return False

    begun: list[bool] = []
    go_on = threading.Event()
    rig = Rig(store := Gate(Rig().store))
    store.commits.extend([None, RuntimeError("odd")])
    engine = ThreadCommit(rig.engine)
    results: list[object] = []

    def run(at: int) -> None:
        until(lambda: not at or bool(begun))
        try:
            results.append(len(engine.enqueue([new_job()])))
        except StoreBusy:
            results.append("busy")

    def gather() -> None:
        until(lambda: len(engine._queue) == 4)
        go_on.set()

    in_threads(run, 4, gather)
    assert sorted(results, key=str) == [1, 1, "busy", "busy"]


def test_what_a_session_holds_does_not_lapse(engine: ThreadCommit) -> None:
    engine.enqueue([new_job()])
    engine.take(None, 1)
    store = engine.engine.store
    assert store.lapsed(1 << 62, 10) == []
    (job,) = store.load(store.find(Filter(), ALL))
    assert (job.state, job.hold_kind) == (State.IN_FLIGHT, 30)


class Interrupted(BaseException):
    """What a signal handler may raise in the middle of anything."""


@pytest.mark.parametrize("verb", ["begin", "next_due", "insert", "commit"])
def test_an_interruption_in_the_middle_of_a_batch_undoes_it_and_leaves_the_engine_usable(verb: str) -> None:
    class Changed(FaultyStore):
        def begin(self, *, synced: bool) -> bool:
            self.__getattr__("begin")(synced=synced)
            return True  # so that the engine looks at what is due between `begin` and the first write

    rig = Rig(store := Changed(Rig().store))
    engine = ThreadCommit(rig.engine)
    store.verbs[verb] = [Interrupted()]  # type: ignore[list-item]
    with pytest.raises(Interrupted):
        engine.enqueue([new_job()])
    assert not store.is_open()
    assert len(engine.enqueue([new_job()])) == 1
    assert rig.store.queues.takeable("mail") == 1


def test_an_interruption_after_the_commit_keeps_what_was_committed() -> None:
    class AfterCommit(FaultyStore):
        def commit(self) -> None:
            self.inner.commit()
            if self.committed == 0:
                self.committed = 1
                raise Interrupted

    rig = Rig(AfterCommit(Rig().store))
    engine = ThreadCommit(rig.engine)
    with pytest.raises(Interrupted):
        engine.enqueue([new_job()])
    assert rig.store.queues.takeable("mail") == 1
    assert len(engine.enqueue([new_job()])) == 1
    assert rig.store.queues.takeable("mail") == 2


def test_others_whose_leader_is_interrupted_are_served_all_the_same() -> None:
    class Gate(FaultyStore):
        """Holds the first batch until two more operations wait, and then interrupts it."""

        def begin(self, *, synced: bool) -> bool:
            if not self.committed:
                self.committed = 1
                entered.set()
                assert go_on.wait(20)
                raise Interrupted
            return self.inner.begin(synced=synced)

    entered, go_on = threading.Event(), threading.Event()
    rig = Rig(Gate(Rig().store))
    engine = ThreadCommit(rig.engine)
    outcomes: list[str] = []

    def run(at: int) -> None:
        if at:
            assert entered.wait(20)
        try:
            engine.enqueue([new_job()])
        except Interrupted:
            outcomes.append("interrupted")
        else:
            outcomes.append("stored")

    def all_wait() -> None:
        until(lambda: len(engine._queue) == 3)
        go_on.set()

    in_threads(run, 3, all_wait)
    assert sorted(outcomes) == ["interrupted", "stored", "stored"]
    assert rig.store.queues.takeable("mail") == 2


def test_an_interruption_while_answers_are_given_has_nothing_applied_twice() -> None:
    class Interrupting(dict[int, object]):
        """A waiter's results: the interruption comes right after they were noted."""

        def __setitem__(self, at: int, result: object) -> None:
            super().__setitem__(at, result)
            raise Interrupted

    class Gate(FaultyStore):
        """Holds the first batch until four operations wait for the next."""

        def begin(self, *, synced: bool) -> bool:
            if not entered.is_set():
                entered.set()
                assert go_on.wait(20)
            return self.inner.begin(synced=synced)

    entered, go_on = threading.Event(), threading.Event()
    rig = Rig(Gate(Rig().store))
    engine = ThreadCommit(rig.engine)
    outcomes: list[object] = []

    def run(at: int) -> None:
        if at:
            assert entered.wait(20)
        try:
            outcomes.append(len(engine.enqueue([new_job()])))
        except Interrupted:
            outcomes.append("interrupted")

    def all_wait() -> None:
        until(lambda: len(engine._queue) == 5)
        third = list(engine._queue)[3]
        third.results = Interrupting()
        third.ops[0].done = partial(third.results.__setitem__, 0)
        go_on.set()

    in_threads(run, 5, all_wait)
    assert sorted(map(str, outcomes)) == ["1"] * 4 + ["interrupted"]  # the interrupted one is whoever led
    assert rig.store.queues.takeable("mail") == 5


# -- where another process is writing


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ThreadCommit, ThreadCommit]]:
    """Two programs' engines on one file."""
    engine, other = open_engine(tmp_path / "jobs.db"), open_engine(tmp_path / "jobs.db")
    yield engine, other
    engine.close()
    other.close()


def test_what_gathers_while_another_process_writes_is_one_batch(
    pair: tuple[ThreadCommit, ThreadCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, other = pair
    batches: list[int] = []
    apply = engine.engine.apply

    def count(ops: Any) -> None:
        apply(ops)
        batches.append(len(ops))

    monkeypatch.setattr(engine.engine, "apply", count)
    other.engine.store.begin(synced=False)

    def go_on() -> None:
        until(
            lambda: len(engine._queue) == 5 and engine._turn is not None
        )  # the leader has met the other's write
        other.engine.store.rollback()

    in_threads(lambda at: engine.enqueue([new_job()]), 5, go_on)
    assert batches == [5]


def test_a_turn_that_comes_after_the_refusal_is_given_on(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path / "data", exclusive=False))
    engine, other = ThreadCommit(rig.engine, busy_s=0.0), open_engine(tmp_path / "data")
    other.engine.store.begin(synced=False)
    for _ in range(3):
        with pytest.raises(StoreBusy):
            engine.enqueue([new_job()])
    other.engine.store.rollback()
    (key,) = other.enqueue([new_job()])
    until(lambda: engine.engine.store.turns.wait_until_free(20.0))
    assert [row[0] for row in engine.take(None, 5).rows] == [key]
    engine.close()
    other.close()


def test_an_error_where_the_turn_has_come_is_the_leaders(
    pair: tuple[ThreadCommit, ThreadCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, other = pair
    apply = engine.engine.apply

    def fails(ops: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ZeroDivisionError
        try:
            apply(ops)
        finally:
            other.engine.store.rollback()

    monkeypatch.setattr(engine.engine, "apply", fails)
    other.engine.store.begin(synced=False)
    with pytest.raises(ZeroDivisionError):
        engine.enqueue([new_job()])
    monkeypatch.undo()
    engine.engine.store.turns.let_go()
    assert len(engine.enqueue([new_job()])) == 1


def test_an_interruption_when_the_turn_has_come_gives_it_to_the_next(
    pair: tuple[ThreadCommit, ThreadCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes between the wait for the turn and its use."""
    engine, other = pair
    store = engine.engine.store
    when_free = store.turns.when_free

    def interrupted(call: Callable[[], None]) -> None:
        came = threading.Event()
        when_free(came.set)
        other.engine.store.rollback()
        assert came.wait(20)
        raise Interrupted

    monkeypatch.setattr(store.turns, "when_free", interrupted)
    other.engine.store.begin(synced=False)
    with pytest.raises(Interrupted):
        engine.enqueue([new_job()])
    assert len(other.enqueue([new_job()])) == 1


def test_an_interruption_while_the_turn_is_used_lets_nobody_else_in(
    pair: tuple[ThreadCommit, ThreadCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was being applied is done as a whole, and the next operation comes after it."""
    engine, other = pair
    apply, entered, go_on = engine.engine.apply, threading.Event(), threading.Event()
    steps: list[str] = []

    def slow(ops: Any) -> None:
        steps.append("in")
        if threading.current_thread().name == "anew-turnstile":
            entered.set()
            assert go_on.wait(20)
        apply(ops)
        steps.append("out")

    class Interrupting:
        def acquire(self, timeout: float = -1) -> bool:
            other.engine.store.rollback()
            assert entered.wait(20)
            raise Interrupted

        def release(self) -> None:
            """Nobody waits any more."""

    def turn(duties: Any) -> _Turn:
        one = _Turn(duties)
        one.over = Interrupting()  # type: ignore[assignment]
        return one

    other.engine.store.begin(synced=False)
    monkeypatch.setattr(engine.engine, "apply", slow)
    monkeypatch.setattr(threads, "_Turn", turn)
    with pytest.raises(Interrupted):
        engine.enqueue([new_job("a")])
    steps.clear()  # the first try met a busy store
    late = threading.Thread(target=lambda: engine.enqueue([new_job("b")]))
    late.start()
    until(lambda: engine._leader is not None)
    go_on.set()
    late.join(20)
    assert steps == ["out", "in", "out"]
    assert [row[1] for row in engine.take(None, 5).rows] == ["a", "b"]


@pytest.mark.parametrize("inherited", ["the lead", "the mutex"])
def test_a_forked_child_is_refused_whatever_another_thread_held_at_the_fork(inherited: str) -> None:
    engine = open_engine(None)
    if inherited == "the lead":
        engine._leader = _Waiter([enqueue(new_job())])
    else:
        engine._mutex.acquire()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits for ever
        try:
            engine.enqueue([new_job()])
        except ForkedStore:
            os._exit(17)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17


def test_whoever_is_interrupted_as_it_leaves_leaves_all_the_same() -> None:
    class Once(dict[_Waiter, None]):
        """The queue of an engine, and an interruption as soon as its leader has left it."""

        def pop(self, *given: Any) -> None:
            super().pop(*given)
            if not interrupted.is_set():
                interrupted.set()
                raise Interrupted

    interrupted = threading.Event()
    engine = open_engine(None)
    engine._queue = Once()
    with pytest.raises(Interrupted):
        engine.enqueue([new_job()])
    assert len(engine.enqueue([new_job()])) == 1
    assert engine.engine.store.queues.takeable("mail") == 2
    engine.close()


def test_whoever_is_interrupted_while_it_waits_passes_the_lead_on() -> None:
    engine = open_engine(None)
    leader, gone = _Waiter([enqueue(new_job())]), _Waiter([enqueue(new_job())])
    engine._leader = leader
    engine._queue |= {leader: None, gone: None}
    engine._leave(leader)  # and chooses the one that is just being interrupted
    assert engine._leader is gone
    engine._leave(gone)
    assert len(engine.enqueue([new_job()])) == 1
    engine.close()


def test_a_job_of_the_same_process_wakes_the_thread_that_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "POLL_S", 60.0)
    engine = open_engine(tmp_path / "jobs.db")
    found: list[int] = []
    waiting = threading.Thread(
        target=lambda: found.extend(row[0] for row in engine.take(None, 1, timeout_s=60).rows)
    )
    waiting.start()
    until(engine._listening.locked)
    keys = engine.enqueue([new_job()])
    waiting.join(20)
    assert found == list(keys)
    engine.close()


def test_a_job_of_another_process_wakes_a_thread_that_never_looks_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "POLL_S", 3_600.0)
    here = ThreadCommit(Rig(open_sqlite(tmp_path / "data", exclusive=False)).engine)
    there = ThreadCommit(Rig(open_sqlite(tmp_path / "data", exclusive=False)).engine)
    taken: list[int] = []

    def wait(at: int) -> None:
        taken.extend(row[0] for row in here.take(None, 1, timeout_s=60).rows)

    def enqueue_once_it_listens() -> None:
        until(lambda: here._wakes is not None)
        there.enqueue([new_job()])

    in_threads(wait, 1, enqueue_once_it_listens)
    assert len(taken) == 1
    for one in (here, there):
        one.close()


def test_who_asks_whether_others_have_written_waits_for_no_transaction(tmp_path: Path) -> None:
    here, there = (
        ThreadCommit(Rig(open_sqlite(tmp_path / "data", exclusive=False)).engine) for _ in range(2)
    )
    here.enqueue([new_job()])
    seen = [here.has_changed()]
    there.enqueue([new_job()])
    seen.append(here.has_changed())
    here.enqueue([new_job()])
    seen.append(here.has_changed())
    assert seen == [False, True, False]

    def ask(batch: Batch) -> None:
        in_threads(lambda at: seen.append(here.has_changed()), 1)

    here.apply(Call(ask, lambda result: None))
    assert seen[3:] == [True], "a transaction is under way"
    for one in (here, there):
        one.close()


def test_a_take_finds_a_job_that_has_just_become_due() -> None:
    rig = Rig()
    engine = ThreadCommit(rig.engine)
    (key,) = engine.enqueue([new_job(ready_at=NOW + 5)])
    assert engine.take(None, 1).rows == []
    rig.clock.advance(5)
    assert [row[0] for row in engine.take(None, 1).rows] == [key]


@pytest.mark.parametrize("place", ["in memory", "in a file"])
@pytest.mark.parametrize("event", ["a release", "a job that is due"])
def test_whoever_waits_is_woken_by_whatever_makes_a_job_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, event: str
) -> None:
    monkeypatch.setattr(threads, "POLL_S", 60.0)
    engine = open_engine(None if place == "in memory" else tmp_path / "jobs.db")
    due_at = int(time.time() * 1_000) + 300 if event == "a job that is due" else None
    (key,) = engine.enqueue([new_job(ready_at=due_at)])
    held = engine.take(None, 1)
    found: list[list[int]] = [[], []]

    def wait(at: int) -> None:  # one listens for both
        found[at] = [row[0] for row in engine.take(None, 1, timeout_s=60).rows]
        if found[at]:
            engine.enqueue([new_job()])

    waiting = [threading.Thread(target=wait, args=(at,)) for at in range(2)]
    for thread in waiting:
        thread.start()
    if due_at is None:
        until(engine._listening.locked)
        engine.release([key], held.token)
    for thread in waiting:
        thread.join(20)
        assert not thread.is_alive(), "nobody woke it"
    assert sorted(map(len, found)) == [1, 1]
    engine.close()


def test_takes_and_releases_are_not_synced() -> None:
    class Watched(FaultyStore):
        def begin(self, *, synced: bool) -> bool:
            asked.append(synced)
            return self.inner.begin(synced=synced)

    asked: list[bool] = []
    engine = ThreadCommit(Rig(Watched(Rig().store)).engine)
    (key,) = engine.enqueue([new_job()])
    engine.release([key], engine.take(None, 1).token)
    engine.succeed([key], engine.take(None, 1).token)
    assert asked == [True, False, False, False, True]


def test_a_sleeper_that_does_not_look_is_woken_once_for_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker without a free slot: it would spin until one is free. Whoever looks is woken for the next one again."""
    rig = Rig()
    engine = ThreadCommit(rig.engine)
    slept: list[float] = []
    monkeypatch.setattr(engine, "_sleep_here", lambda seconds, seen: slept.append(seconds))
    engine.enqueue([new_job(ready_at=NOW + 20), new_job(ready_at=NOW + 70)])
    engine.sleep(1.0, engine.seen)
    rig.clock.advance(20)
    for _ in range(3):
        engine.sleep(1.0, engine.seen)
    assert len(engine.take(None, 5).rows) == 1
    engine.sleep(1.0, engine.seen)
    rig.clock.advance(50)
    engine.sleep(1.0, engine.seen)
    assert slept == [0.02, 0.0, threads.POLL_S, threads.POLL_S, 0.05, 0.0]


# -- the end


def test_a_close_waits_for_the_call_of_another_thread_and_refuses_what_comes_later(tmp_path: Path) -> None:
    one = open_engine(tmp_path / "jobs.db")
    begun, go_on, closes = threading.Event(), threading.Event(), threading.Event()
    answers: list[object] = []

    def verb(batch: Batch) -> int:
        begun.set()
        go_on.wait(20)
        return 7

    def close() -> None:
        closes.set()
        one.close()

    calling = threading.Thread(target=lambda: answers.append(one.apply(Call(verb, answers.append))))
    closing = threading.Thread(target=close)
    calling.start()
    assert begun.wait(20)
    closing.start()
    assert closes.wait(20)
    until(lambda: one._is_closed)
    with pytest.raises(Conflict):
        one.enqueue([new_job()])
    assert closing.is_alive()
    go_on.set()
    calling.join(20)
    closing.join(20)
    assert answers == [7]
    with_nothing_wrong = open_engine(tmp_path / "jobs.db")
    assert with_nothing_wrong.enqueue([new_job()])
    with_nothing_wrong.close()


def test_a_close_gives_up_where_a_call_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "CLOSE_S", 0.0)
    one = open_engine(tmp_path / "jobs.db")
    begun, go_on = threading.Event(), threading.Event()
    verb = Call(lambda batch: begun.set() or go_on.wait(20), lambda result: None)  # type: ignore[func-returns-value]
    calling = threading.Thread(target=one.apply, args=(verb,))
    calling.start()
    assert begun.wait(20)
    with pytest.raises(StoreBusy, match="does not end; the store stays open"):
        one.close()
    go_on.set()
    calling.join(20)
    one.close()
    assert not (tmp_path / "jobs.db-turnstile").read_bytes(), "nobody was told that the disk had failed"

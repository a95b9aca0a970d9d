"""Group commit whose batches a thread applies, while the database hangs: the loop goes on, and what comes waits in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from anew.engine import Call, Fetch, Release, Taker
from anew.engine import group as module
from anew.errors import InDoubt, StoreBusy, StoreFailed
from anew.jobs import State
from anew.store.sqlite import open_sqlite

from .grouped import Group
from .hanging import Hanging, RemoteStore
from .rig import NOW, Once, Worker, call, enqueue, ignore, new_job, plain, succeed

hangs = pytest.mark.parametrize("verb", ["begin", "insert_plain", "commit"])


@pytest.fixture
def group() -> Iterator[Hanging]:
    group = Hanging()
    yield group
    group.store.go.set()


def jobs_of(group: Hanging, *keys: int) -> list[Any]:
    return group.store.inner.load(keys)  # type: ignore[no-any-return]


# -- the loop goes on


@hangs
def test_the_loop_goes_on_while_a_batch_hangs_and_what_comes_meanwhile_is_the_next_batch(
    group: Hanging, verb: str
) -> None:
    (first,) = group.hang_in(verb, plain(1))
    fired: list[bool] = []
    group.loop.call_later(0.5, lambda: fired.append(True))
    second, third = group.submit(plain(1)), group.submit(call(lambda batch: 7))
    group.loop.advance(1_500)  # beyond polls and a tick
    assert fired == [True]
    assert [one.calls for one in (first, second, third)] == [[], [], []]
    before = len(group.batches)
    group.go_on()
    assert group.batches[before] == 3  # with the tick's upkeep
    assert first.result.keys[0] < second.result.keys[0]
    assert third.result == 7
    assert group.broken_rules() == []


@hangs
def test_after_two_seconds_new_jobs_are_refused_and_all_that_settles_waits(group: Hanging, verb: str) -> None:
    (key,) = group.submit_and_settle(plain(1)).keys
    worker = group.worker(prefetch=1)
    group.loop.settle()
    (hung,) = group.hang_in(verb, plain(1))
    waiting, settled = group.submit(plain(1)), group.submit(succeed(key))
    probe = group.submit(Call(lambda batch: 1, ignore, waits=False))
    group.loop.advance(1_999)
    assert (waiting.calls, probe.calls) == ([], [])
    group.loop.advance(1)
    for refused in (waiting, probe, group.submit(plain(1))):
        assert isinstance(refused.result, StoreBusy)
        assert "2 seconds" in str(refused.result)
    assert (hung.calls, settled.calls) == ([], [])
    group.go_on()
    assert settled.result == []
    assert worker.keys == [key, *hung.result.keys]
    assert group.submit_and_settle(plain(1)).keys  # they are taken again
    assert len(waiting.calls) == 1


def test_a_batch_that_comes_back_in_time_refuses_nothing_later(group: Hanging) -> None:
    group.hang_in("commit", plain(1))
    group.loop.advance(1_900)
    group.go_on()
    group.hang_in("commit", plain(1))
    group.loop.advance(1_900)
    assert group.submit(plain(1)).calls == []
    group.go_on()


def test_new_jobs_that_wait_are_bounded_while_a_batch_hangs() -> None:
    group = Hanging(max_waiting=3)
    group.hang_in("commit", plain(1))
    waiting = [group.submit(plain(1)) for _ in range(3)]
    assert [type(one.result).__name__ for one in (group.submit(plain(1)), group.submit(plain(1)))] == [
        "Overloaded",
        "Overloaded",
    ]
    group.go_on()
    assert all(one.result.keys for one in waiting)


def test_whether_another_process_has_written_is_asked_in_the_thread(group: Hanging) -> None:
    group.store.hang_in("has_changed")
    group.loop.awaits = lambda: False
    group.loop.advance(50)
    assert group.store.reached.wait(30)
    waiting = group.submit(plain(1))
    group.loop.advance(1_900)
    assert waiting.calls == []
    group.loop.advance(100)
    assert isinstance(waiting.result, StoreBusy)
    group.go_on()
    assert group.submit_and_settle(plain(1)).keys


def test_a_look_at_other_processes_that_fails_leads_to_a_batch(group: Hanging) -> None:
    before = len(group.batches)
    group.store.verbs["has_changed"] = [OSError("the connection is lost")]
    group.loop.advance(50)
    assert len(group.batches) == before + 1


def test_a_wake_up_by_another_process_is_not_lost_during_a_batch(group: Hanging) -> None:
    group.worker()
    group.loop.settle()
    group.hang_in("commit", call(lambda batch: 1))
    group.commit._woken()
    before = len(group.batches)
    group.go_on()
    assert len(group.batches) == before + 1


def test_what_is_due_during_a_batch_is_done_after_it(group: Hanging) -> None:
    worker = group.worker()
    group.submit_and_settle(enqueue(new_job(ready_at=NOW + 300)))
    group.hang_in("commit", call(lambda batch: 1))
    group.loop.advance(300)
    assert worker.keys == []
    group.go_on()
    assert len(worker.keys) == 1


def test_who_writes_is_asked_in_the_thread() -> None:
    group = Hanging()
    group.store.verbs["begin"] = [StoreBusy("another process is writing")] * 1_000
    group.store.inner.turns.busy = lambda: StoreBusy("process 77 has been writing for too long")
    group.store.inner.turns.when_free = lambda call: group.loop.call_later(0.01, call)
    refused = group.submit(plain(1))
    group.loop.advance(2_000)
    assert "process 77" in str(refused.result)
    group.store.verbs.clear()
    group.loop.advance(100)
    assert group.submit_and_settle(plain(1)).keys


def test_what_is_submitted_as_a_batch_meets_a_busy_store_midway_waits_until_it_is_free(
    group: Hanging,
) -> None:
    """The batch breaks, its first operation is answered by itself, and then somebody else writes."""
    freed: list[Any] = []
    group.store.inner.turns.when_free = freed.append
    group.store.verbs["commit"] = [RuntimeError("odd")]
    group.store.verbs["begin"] = [None, None, StoreBusy("another process is writing")]
    second = Once()
    group.commit.submit(Call(lambda batch: 1, lambda result: group.submit(call(lambda batch: 2))))
    group.commit.submit(Call(lambda batch: 3, second))
    group.loop.settle()
    before = len(group.batches)
    group.loop.advance(1_000)
    assert (len(group.batches), second.calls) == (before, [])
    (free,) = freed
    free()
    group.loop.settle()
    assert second.result == 3
    assert group.batches[before] >= 2


# -- whose thread


def test_edges_are_called_in_the_loops_thread_and_batches_are_applied_in_another(group: Hanging) -> None:
    called: dict[str, int] = {}

    def note(name: str) -> Any:
        def noted(*given: object) -> None:
            called[name] = threading.get_ident()

        return noted

    def fails(rows: object, now: int) -> None:
        note("deliver")()
        raise OSError("the stream is gone")

    group.rig.engine.listen_ended(note("ended"))
    group.commit.submit(Call(note("verb"), note("done")))
    (key,) = group.submit_and_settle(plain(1)).keys
    group.commit.add_taker(Taker(["mail"], 1, fails, note("broken")))
    group.loop.settle()
    group.submit(succeed(key))
    group.loop.settle()
    here = threading.get_ident()
    assert called.pop("verb") != here
    assert called == dict.fromkeys(("done", "deliver", "broken", "ended"), here)


def test_a_failed_store_is_reported_in_the_loops_thread(group: Hanging) -> None:
    threads: list[int] = []
    group.commit._on_fatal = lambda: threads.append(threading.get_ident())
    group.store.verbs["commit"] = [StoreFailed("the connection is lost")]
    assert isinstance(group.submit_and_settle(plain(1)), StoreFailed)
    assert threads == [threading.get_ident()]


def test_a_batch_in_doubt_is_told_once_and_what_was_taken_in_it_is_handed_out(group: Hanging) -> None:
    given: list[int] = []
    group.commit.add_taker(Taker(["mail"], 5, lambda rows, now: given.extend(row[0] for row in rows)))
    group.loop.settle()
    group.store.verbs["sync"] = [InDoubt("no standby has it")]
    doubt = group.submit_and_settle(plain(1))
    assert isinstance(doubt, InDoubt)
    assert given == list(doubt.result.keys)  # type: ignore[attr-defined]
    assert group.submit_and_settle(succeed(*given)) == []


def test_answers_come_in_the_order_of_the_batches_steps_before_the_deliveries(group: Hanging) -> None:
    order: list[str] = []
    group.commit.add_taker(Taker(["mail"], 5, lambda rows, now: order.append("delivery")))
    group.commit.submit(Call(lambda batch: None, lambda result: order.append("durable")))
    group.commit.submit(
        Call(lambda batch: batch.insert([new_job()]), lambda result: order.append("not"), durable=False)
    )
    group.loop.settle()
    assert order == ["not", "durable", "delivery"]


def test_a_batch_that_breaks_is_answered_in_full(group: Hanging) -> None:
    """Each operation is applied by itself; what one of them meets hurts none of the others."""
    group.store.verbs["commit"] = [RuntimeError("odd")] * 2
    answers = [group.submit(call(lambda batch, n=n: n)) for n in range(3)]
    group.loop.settle()
    assert [str(one.result) for one in answers] == ["internal server error", "1", "2"]


# -- takers


def test_takers_that_come_and_go_during_a_batch_are_added_and_removed_after_it(group: Hanging) -> None:
    stays, goes = group.worker(["mail"], 1), group.worker(["mail"], 1)
    group.loop.settle()
    dispatcher = group.rig.engine.dispatcher
    group.hang_in("commit", call(lambda batch: 1))
    new, brief = group.worker(["other"], 1), group.worker(["other"], 1)
    group.commit.remove_taker(goes.taker)
    group.commit.remove_taker(brief.taker)
    assert dispatcher.takers == {stays.taker, goes.taker}
    group.submit(plain(2))
    group.submit(plain(2, "other"))
    group.go_on()
    assert dispatcher.takers == {stays.taker, new.taker}
    assert [len(each.keys) for each in (stays, goes, new, brief)] == [1, 0, 1, 0]
    assert group.broken_rules() == []


@pytest.mark.parametrize("paused", [True, False])
def test_the_last_word_on_a_takers_pause_counts(group: Hanging, paused: bool) -> None:
    worker = group.worker()
    group.loop.settle()
    group.hang_in("commit", call(lambda batch: 1))
    for pause in (paused, not paused, paused):
        (group.commit.pause_taker if pause else group.commit.resume_taker)(worker.taker)
    assert not worker.taker.paused
    group.submit(plain(1))
    group.go_on()
    assert worker.taker.paused is paused
    assert len(worker.keys) == (0 if paused else 1)
    assert group.broken_rules() == []


def test_clients_that_come_and_go_while_the_database_hangs_leave_nothing_behind(group: Hanging) -> None:
    stays = group.worker()
    group.loop.settle()
    group.hang_in("commit", call(lambda batch: 1))
    for _ in range(1_000):
        worker = group.worker()
        group.commit.pause_taker(stays.taker)
        group.commit.resume_taker(stays.taker)
        fetch = Fetch(["mail"], Once())
        group.commit.submit(fetch)
        group.commit.call_off(fetch)
        group.commit.remove_taker(worker.taker)
    assert group.commit._noted is not None
    assert len(group.commit._noted) == 1
    assert group.commit._pending == []
    group.go_on()
    assert group.rig.engine.dispatcher.takers == {stays.taker}


@hangs
def test_a_taker_removed_during_its_batch_is_delivered_nothing_and_its_jobs_are_given_back_once(
    group: Hanging, verb: str
) -> None:
    worker = group.worker(["mail"], 5)
    group.loop.settle()
    released: list[int] = []
    real = group.commit.submit

    def submit(op: Any) -> None:
        released.extend([1] if isinstance(op, Release) else [])
        real(op)

    group.commit.submit = submit  # type: ignore[method-assign]
    (answer,) = group.hang_in(verb, plain(2))
    group.commit.remove_taker(worker.taker)
    assert released == []
    group.go_on()
    assert worker.rows == []
    assert worker.held == set()
    found = jobs_of(group, *answer.result.keys)
    assert [(job.state, job.interruptions) for job in found] == [(State.READY, 1)] * 2
    assert released == [1]
    assert group.broken_rules() == []


def test_a_taker_paused_during_its_batch_gets_what_was_taken_and_no_more(group: Hanging) -> None:
    worker = group.worker(["mail"], 5)
    group.loop.settle()
    (answer,) = group.hang_in("commit", plain(2))
    group.commit.pause_taker(worker.taker)
    group.submit(plain(1))
    group.go_on()
    assert worker.keys == [*answer.result.keys]


def test_a_delivery_that_pauses_its_taker_comes_after_what_was_noted_before(group: Hanging) -> None:
    """Its peer was behind, caught up, and is behind again with this delivery."""
    worker = group.worker(["mail"], 5)
    worker.taker.deliver = lambda rows, now: group.commit.pause_taker(worker.taker)
    group.loop.settle()
    group.hang_in("commit", plain(1))
    group.commit.resume_taker(worker.taker)
    group.go_on()
    assert worker.taker.paused


def test_a_fetch_called_off_during_its_batch_may_still_get_a_job(group: Hanging) -> None:
    """As one may that is called off while it waits for its batch: its connection gives the job back."""
    done = Once()
    fetch = Fetch(["mail"], done)
    group.commit.submit(fetch)
    group.loop.settle()
    (answer,) = group.hang_in("commit", plain(1))
    group.commit.call_off(fetch)
    assert done.calls == []
    group.go_on()
    assert [done.result.key] == [*answer.result.keys]


def test_a_fetch_called_off_during_another_batch_gets_nothing(group: Hanging) -> None:
    done = Once()
    fetch = Fetch(["mail"], done)
    group.commit.submit(fetch)
    group.loop.settle()
    group.hang_in("commit", call(lambda batch: 1))
    group.commit.call_off(fetch)
    group.submit(plain(1))
    group.go_on()
    assert done.calls == []
    assert group.rig.engine.fetches.waiting() == 0


# -- closing


@pytest.mark.parametrize("verb", ["begin", "insert_plain", "commit", "has_changed"])
def test_closing_leaves_a_thread_that_hangs_to_itself(
    group: Hanging, verb: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "CLOSING_MS", 20)
    if verb == "has_changed":
        group.store.hang_in(verb)
        group.loop.awaits = lambda: False
        group.loop.advance(50)
        assert group.store.reached.wait(30)
        hung = []
    else:
        hung = group.hang_in(verb, plain(1))
    waiting = [group.submit(plain(1)), group.submit(succeed(1))]
    with caplog.at_level(logging.ERROR):
        group.commit.close()
    assert [type(one.result) for one in waiting] == [StoreBusy] * 2
    (said,) = caplog.records
    assert "does not answer" in said.message
    assert (said.refused, said.in_doubt) == (2, len(hung))  # type: ignore[attr-defined]
    assert len(group.store.abandoned) == 1
    assert group.loop.live() == []
    # Should it come back after all, nobody hears of it.
    group.store.go.set()
    group.loop.hear()
    assert [one.calls for one in hung] == [[]] * len(hung)
    assert group.loop.settle() <= 1


def test_closing_waits_for_a_batch_that_comes_back_in_time(
    group: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hung,) = group.hang_in("commit", plain(1))
    thread = group.thread
    assert thread is not None
    wait = thread.wait

    def released(timeout_s: float) -> bool:
        group.store.go.set()
        return wait(timeout_s)

    monkeypatch.setattr(thread, "wait", released)
    waiting = group.submit(plain(1))
    group.commit.close()
    assert hung.result.keys[0] < waiting.result.keys[0]
    assert group.store.abandoned == []


def test_closing_ends_the_thread() -> None:
    group = Group(RemoteStore(open_sqlite()))
    group.submit_and_settle(plain(1))
    (thread,) = [each for each in threading.enumerate() if each.name == "anew-batches"][-1:]
    group.commit.close()
    thread.join(30)
    assert not thread.is_alive()


def test_a_worker_whose_stream_ends_at_the_close_gives_back_what_it_holds(group: Hanging) -> None:
    worker: Worker = group.worker(["mail"], 5)
    group.loop.settle()
    (answer,) = group.hang_in("commit", plain(2))
    group.commit.remove_taker(worker.taker, interrupted=False)
    group.store.go.set()
    group.commit.close()
    found = jobs_of(group, *answer.result.keys)
    assert [(job.state, job.interruptions) for job in found] == [(State.READY, 0)] * 2

"""One-shot takes: who gets which job, who waits, and what becomes of a reservation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from anew.engine import Acknowledge, Fetch, Op, Reject, fetches
from anew.engine.verbs import pause
from anew.errors import NotFound, StoreFull
from anew.jobs import Failed, HoldKind, Job, State
from anew.jobs.codec import PushedJob
from anew.store.selection import Page
from anew.store.sqlite import open_sqlite

from .rig import NOW, FaultyStore, Once, Rig, call, differences, enqueue, ignore, new_job, succeed, tick

MINUTE = 60_000


class Client:
    """Somebody who fetches; remembers what came."""

    def __init__(self, *queues: str) -> None:
        self.answers: list[Any] = []
        self.fetch = Fetch(queues, self.answers.append)

    @property
    def jid(self) -> str | None:
        """The id of the one job that came; None if nothing has."""
        if not self.answers:
            return None
        (job,) = self.answers
        assert isinstance(job, Job)
        return job.jid


def pushed(jid: str, queue: str = "mail", payload: bytes = b"[1]", **members: Any) -> PushedJob:
    return PushedJob(type="send", queue=queue, payload=msgspec.Raw(payload), jid=jid, **members)


def fetching(rig: Rig, *clients: Client) -> list[str | None]:
    """Apply the clients' fetches as one batch; gives what each has got."""
    rig.engine.apply([client.fetch for client in clients])
    return [client.jid for client in clients]


def test_the_first_queue_named_that_has_a_job_is_taken_from(rig: Rig) -> None:
    """Faktory checklist 40."""
    rig.put(pushed("b1", "b"), pushed("b2", "b"), pushed("a1", "a"), pushed("a2", "a"))
    got = fetching(rig, *[Client("a", "b") for _ in range(5)])
    assert got == ["a1", "a2", "b1", "b2", None]


def test_those_that_wait_are_served_in_the_order_in_which_they_came(rig: Rig) -> None:
    """Faktory checklist 41 and 42."""
    first, second, third = Client("x", "a"), Client("a"), Client("b", "a")
    assert fetching(rig, first, second, third) == [None, None, None]
    rig.put(pushed("a1", "a"))
    assert (first.jid, second.jid, third.jid) == ("a1", None, None)
    rig.put(pushed("b1", "b"), pushed("a2", "a"))
    assert (second.jid, third.jid) == ("a2", "b1")


def test_one_that_waits_for_two_queues_leaves_the_second_ones_job_to_the_next(rig: Rig) -> None:
    both, later = Client("a", "b"), Client("b")
    fetching(rig, both, later)
    rig.put(pushed("a1", "a"), pushed("b1", "b"))
    assert (both.jid, later.jid) == ("a1", "b1")


def test_one_that_was_called_off_swallows_nothing(rig: Rig) -> None:
    gone, pending, next_one = Client("a"), Client("a"), Client("a")
    fetching(rig, gone, next_one)
    rig.engine.fetches.call_off(gone.fetch)
    rig.engine.fetches.call_off(pending.fetch)
    rig.put(pushed("a1", "a"))
    rig.engine.apply([pending.fetch])
    assert (gone.answers, pending.answers, next_one.jid) == ([], [], "a1")


def test_a_thousand_that_wait_cost_a_job_for_another_queue_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching(rig, *[Client("idle") for _ in range(1_000)])
    asked: list[str] = []
    takeable = rig.store.queues.takeable
    monkeypatch.setattr(rig.store.queues, "takeable", lambda queue: asked.append(queue) or takeable(queue))
    client = Client("mail")
    fetching(rig, client)
    asked.clear()
    rig.put(pushed("m1"))
    assert client.jid == "m1"
    assert "idle" not in asked
    assert len(asked) < 10


def test_a_job_due_later_wakes_who_waits_for_it(rig: Rig) -> None:
    client = Client("mail")
    rig.put(pushed("m1", ready_at=NOW + 5_000))
    assert fetching(rig, client) == [None]
    rig.advance(5_000)
    assert client.jid == "m1"


def test_a_job_that_another_process_stores_is_fetched(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    client = Client("mail")
    fetching(one, client)
    other.put(pushed("m1"))
    one.engine.apply([])
    assert client.jid == "m1"


def test_a_paused_queue_hands_out_nothing_and_others_do(rig: Rig) -> None:
    """Faktory checklist 45."""
    rig.put(pushed("a1", "a"), pushed("b1", "b"))
    rig.do(call(lambda batch: batch.store.queues.pause(["a"], True)))
    first, second, stream = Client("a", "b"), Client("a"), rig.worker(["a"])
    assert fetching(rig, first, second) == ["b1", None]
    rig.put(pushed("a2", "a"))
    assert (second.jid, stream.keys) == (None, [])
    rig.do(call(lambda batch: batch.store.queues.pause(None, False)))
    assert second.jid == "a1"
    assert len(stream.keys) == 1


def test_a_reservation_lasts_as_long_as_its_job_says(rig: Rig) -> None:
    """Faktory checklist 62: thirty minutes where it says nothing."""
    short, usual = rig.put(pushed("short", reserve_ms=MINUTE), pushed("usual"))
    fetching(rig, Client("mail"), Client("mail"))
    assert rig.job(short).hold_kind == HoldKind.RESERVATION
    rig.clock.advance(MINUTE - 1)
    rig.do(call(tick))
    assert rig.state(short) is State.IN_FLIGHT
    rig.clock.advance(1)
    rig.do(call(tick))
    assert (rig.state(short), rig.state(usual)) == (State.RETRYING, State.IN_FLIGHT)
    (record,) = rig.store.records.errors(short, Page(after=0))
    assert (record.outcome, record.error_type) == ("error", "ReservationExpired")
    rig.clock.advance(29 * MINUTE)
    rig.do(call(tick))
    assert rig.state(usual) is State.RETRYING
    assert rig.job(short).attempts == rig.job(usual).attempts == 1


def test_an_acknowledgement_names_the_producers_id_and_counts_once(rig: Rig) -> None:
    """Faktory checklist 48 and 49."""
    (key,) = rig.put(pushed("m1"))
    fetching(rig, Client("mail"))
    done, again, unknown = rig.apply(acknowledge("m1"), acknowledge("m1"), acknowledge("nobody"))
    assert (done, again, unknown) == (True, False, False)
    assert rig.state(key) is None
    assert rig.do(acknowledge("m1")) is False
    assert ended(rig) == {NOW // 86_400_000: (1, 0)}


def test_an_acknowledgement_after_the_reservation_has_lapsed_changes_nothing(rig: Rig) -> None:
    """Faktory checklist 64."""
    (key,) = rig.put(pushed("m1", reserve_ms=MINUTE))
    fetching(rig, Client("mail"))
    rig.clock.advance(MINUTE)
    rig.do(call(tick))
    assert rig.do(acknowledge("m1")) is False
    assert isinstance(rig.do(reject("m1")), NotFound)
    assert (rig.state(key), rig.job(key).attempts) == (State.RETRYING, 1)


def test_a_failure_names_the_producers_id(rig: Rig) -> None:
    """Faktory checklist 52 and 53."""
    rig.put(pushed("m1"))
    fetching(rig, Client("mail"))
    job, unknown = rig.apply(reject("m1"), reject("nobody"))
    assert (job.jid, job.state, job.attempts) == ("m1", State.RETRYING, 1)
    assert isinstance(unknown, NotFound)
    assert ended(rig) == {NOW // 86_400_000: (1, 1)}


def test_of_two_jobs_with_one_id_the_one_taken_last_is_settled(rig: Rig) -> None:
    """Faktory checklist 33; an acknowledgement settles one of them."""
    first, second = rig.put(pushed("twin"), pushed("twin"))
    fetching(rig, Client("mail"))
    rig.clock.advance(1)
    fetching(rig, Client("mail"))
    assert rig.do(acknowledge("twin")) is True
    assert (rig.state(first), rig.state(second)) == (State.IN_FLIGHT, None)
    assert rig.do(acknowledge("twin")) is True
    assert rig.state(first) is None


def test_a_job_that_a_stream_holds_is_not_settled_by_an_id(rig: Rig) -> None:
    (key,) = rig.put(pushed("m1"))
    assert rig.worker(["mail"]).keys == [key]
    assert rig.do(acknowledge("m1")) is False
    assert rig.state(key) is State.IN_FLIGHT


def test_a_reservation_that_nobody_has_heard_of_is_given_back_uncounted(rig: Rig) -> None:
    (key,) = rig.put(pushed("m1"))
    client = Client("mail")
    fetching(rig, client)
    token = client.answers[0].hold_token
    assert rig.do(call(lambda batch: batch.give_back_reserved(key, token))) is True
    assert rig.do(call(lambda batch: batch.give_back_reserved(key, token))) is False
    job = rig.job(key)
    assert (job.state, job.attempts, job.interruptions) == (State.READY, 0, 0)


def test_a_reservation_outlives_its_process(tmp_path: Path) -> None:
    """Faktory checklist 65."""
    rig = Rig(open_sqlite(tmp_path))
    (key,) = rig.put(pushed("m1", meta=b'{"x":1}'))
    fetching(rig, Client("mail"))
    rig.store.close()
    again = Rig(open_sqlite(tmp_path), clock=rig.clock)
    again.do(call(tick))
    assert (again.state(key), again.job(key).meta) == (State.IN_FLIGHT, b'{"x":1}')
    assert again.do(acknowledge("m1")) is True
    again.store.close()


def test_a_batch_that_does_not_last_leaves_the_waiting_in_their_places() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    first, second, new = Client("mail"), Client("mail"), Client("mail")
    fetching(rig, first, second)
    store.commits.extend([StoreFull("full"), StoreFull("full"), StoreFull("full"), StoreFull("full")])
    failed = Once()
    op = enqueue(pushed("m1"))
    op.done = failed
    rig.engine.apply([op, new.fetch])
    assert isinstance(failed.result, StoreFull)
    assert isinstance(new.answers[0], StoreFull)
    assert (first.answers, second.answers) == ([], [])
    store.commits.clear()
    rig.engine.parts.full = False
    rig.put(pushed("m2"), pushed("m3"))
    assert (first.jid, second.jid) == ("m2", "m3")
    assert len(new.answers) == 1


def test_what_cannot_be_read_goes_to_nobody_and_the_next_one_is_given(rig: Rig) -> None:
    broken, whole = rig.put(pushed("m1"), pushed("m2"))
    rig.store._link.connection.execute("UPDATE job SET payload = x'00' WHERE id = ?", (broken,))  # type: ignore[attr-defined]
    client = Client("mail")
    assert fetching(rig, client) == ["m2"]
    assert (rig.state(broken), rig.state(whole)) == (State.DEAD, State.IN_FLIGHT)


def test_long_payloads_are_given_over_several_batches(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "FETCH_BYTES", 5_000)
    rig.put(*(pushed(f"m{n}", payload=b'"' + b"x" * 3_000 + b'"') for n in range(3)))
    clients = [Client("mail") for _ in range(3)]
    fetching(rig, *clients)
    assert [client.jid for client in clients].count(None) > 0
    while rig.engine.fetches.unfinished:
        rig.engine.apply([])
    assert [client.jid for client in clients] == ["m0", "m1", "m2"]


def test_a_pushed_job_keeps_all_that_it_brings(rig: Rig) -> None:
    (key,) = rig.put(pushed("m1", meta=b"{}", attempts=3))
    job = rig.job(key)
    assert (job.jid, job.meta, job.attempts) == ("m1", b"{}", 3)


def test_queues_of_pushed_jobs_stay_listed(rig: Rig) -> None:
    """Faktory checklist 74 and 77."""
    rig.put(pushed("a1", "a"), new_job("http"))
    fetching(rig, Client("a"))
    rig.do(acknowledge("a1"))
    assert listed(rig) == {"a": False}
    rig.do(call(lambda batch: batch.store.queues.unlist(None)))
    assert listed(rig) == {}
    assert rig.store.queues.counts().keys() == {"http"}


def test_a_queue_is_listed_when_its_first_job_is_ready(rig: Rig) -> None:
    """Faktory checklist 74 and 77: also after it was removed while a job for later waits."""
    rig.put(pushed("a1", "a", ready_at=NOW + 5_000), pushed("a2", "a", ready_at=NOW + 9_000))
    assert listed(rig) == {}
    rig.advance(5_000)
    assert listed(rig) == {"a": False}
    rig.do(call(lambda batch: batch.store.queues.unlist(None)))
    rig.advance(4_000)
    assert listed(rig) == {"a": False}
    rig.put(new_job("http", ready_at=NOW + 10_000))
    rig.advance(1_000)
    assert listed(rig) == {"a": False}


def test_only_queues_that_are_listed_or_have_ready_jobs_are_paused(rig: Rig) -> None:
    """Faktory checklist 75 and 78."""
    rig.put(pushed("m1", "later", ready_at=NOW + 1_000))
    for queues in (["later"], None):
        rig.do(call(pause(queues, True)))
    rig.advance(1_000)
    assert fetching(rig, Client("later")) == ["m1"]


@pytest.mark.parametrize("queues", [["http"], None])
def test_a_queue_that_never_had_a_pushed_job_is_paused_as_well(rig: Rig, queues: list[str] | None) -> None:
    """Faktory checklist 78: one engine, the same queues."""
    rig.put(new_job("http"), new_job("http"))
    worker = rig.worker(["http"], 1)
    rig.do(call(pause(queues, True)))
    rig.do(succeed(*worker.keys))
    assert (len(worker.keys), listed(rig)) == (1, {"http": True})
    rig.do(call(pause(queues, False)))
    assert (len(worker.keys), listed(rig)) == (2, {"http": False})
    assert differences(rig.engine) == []


def ended(rig: Rig) -> dict[int, tuple[int, int]]:
    return rig.store.reader().ended()


def listed(rig: Rig) -> dict[str, bool]:
    return rig.store.reader().listed()


def acknowledge(jid: str) -> Op:
    return Acknowledge(jid, ignore)


def reject(jid: str) -> Op:
    return Reject(jid, Failed(message="no"), ignore)

"""Progress: the state in which a tracked job is shown, workers' words, and longer reservations."""

from __future__ import annotations

from typing import Any

import msgspec

from anew.engine import Acknowledge, Fetch, Reject
from anew.engine.progress import read_progress, report_progress
from anew.engine.verbs import delete_one
from anew.jobs import Failed, State
from anew.jobs.codec import JobHooks, PushedJob
from anew.jobs.progress import Progress, Word

from .rig import NOW, Rig, call, ignore, tick

MINUTE = 60_000
DAY = 86_400_000


def tracked(jid: str, **members: Any) -> PushedJob:
    ties = JobHooks(tracked=True)
    return PushedJob(type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid=jid, hooks=ties, **members)


def fetch(rig: Rig) -> str | None:
    answers: list[Any] = []
    rig.engine.apply([op := Fetch(["mail"], answers.append)])
    rig.engine.fetches.call_off(op)
    return answers[0].jid if answers else None


def read(rig: Rig, jid: str = "a") -> Progress | None:
    found = rig.do(call(read_progress(jid)))
    assert found is None or isinstance(found, Progress)
    return found


def word(rig: Rig, jid: str = "a") -> Word | None:
    found = read(rig, jid)
    return None if found is None else found.word


def test_the_state_follows_the_job(rig: Rig) -> None:
    """Faktory checklist 95."""
    assert read(rig) is None
    rig.put(tracked("a"))
    assert word(rig) is Word.ENQUEUED
    fetch(rig)
    assert word(rig) is Word.WORKING
    rig.do(Reject("a", Failed(message="no"), ignore))
    assert word(rig) is Word.FAILED
    rig.advance(10_000)
    assert word(rig) is Word.ENQUEUED
    fetch(rig)
    assert rig.do(Acknowledge("a", ignore))
    assert word(rig) is Word.SUCCESS


def test_what_a_worker_says_is_kept_beside_the_state(rig: Rig) -> None:
    """Faktory checklist 95."""
    rig.put(tracked("a"))
    fetch(rig)
    rig.do(call(report_progress("a", 30, "a third")))
    rig.advance(5)
    rig.do(call(report_progress("a", 60)))
    assert read(rig) == Progress(Word.WORKING, 60, "a third", NOW + 5)
    rig.do(Acknowledge("a", ignore))
    assert read(rig) == Progress(Word.SUCCESS, 60, "a third", NOW + 5)


def test_a_job_that_nobody_tracks_stays_unknown(rig: Rig) -> None:
    rig.put(PushedJob(type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid="a"))
    rig.do(call(report_progress("a", 10)))
    fetch(rig)
    assert read(rig) == Progress(Word.UNKNOWN, 10, None, NOW)


def test_a_job_that_died_or_was_deleted_is_dead() -> None:
    rig = Rig(dead_ms=MINUTE)
    rig.put(tracked("a", retry_limit=0))
    fetch(rig)
    rig.do(Reject("a", Failed(message="no"), ignore))
    assert word(rig) is Word.DEAD
    (key,) = rig.put(tracked("b"))
    rig.do(call(delete_one(key)))
    assert word(rig, "b") is Word.DEAD


def test_a_job_without_a_producers_id_is_known_by_its_public_one(rig: Rig) -> None:
    (key,) = rig.put(tracked(""))
    assert word(rig, rig.engine.ids.write(key)) is Word.ENQUEUED
    assert rig.job(key).jid is None


def test_a_record_lives_half_an_hour_after_its_last_update(rig: Rig) -> None:
    rig.put(tracked("a"))
    rig.advance(MINUTE)
    rig.do(call(report_progress("a", 1)))
    rig.clock.advance(30 * MINUTE - 1)
    rig.do(call(tick))
    assert word(rig) is Word.ENQUEUED
    rig.clock.advance(1)
    assert read(rig) is None
    rig.clock.advance(MINUTE)
    rig.do(call(tick))
    assert rig.store.hooks.progress(["a"]) == {}


def test_a_reservation_is_extended_a_day_ahead_at_most_and_never_shortened(rig: Rig) -> None:
    (key,) = rig.put(tracked("a", reserve_ms=10 * MINUTE))
    fetch(rig)
    rig.do(call(report_progress("a", reserve_until=NOW + MINUTE)))
    assert rig.store.lapsed(NOW + 10 * MINUTE - 1, 10) == []
    assert rig.store.lapsed(NOW + 10 * MINUTE, 10) == [key]
    rig.do(call(report_progress("a", reserve_until=NOW + 20 * MINUTE)))
    assert rig.store.lapsed(NOW + 20 * MINUTE - 1, 10) == []
    assert rig.store.lapsed(NOW + 20 * MINUTE, 10) == [key]
    rig.do(call(report_progress("a", reserve_until=NOW + 9 * DAY)))
    assert rig.store.lapsed(NOW + DAY - 1, 10) == []
    assert rig.store.lapsed(NOW + DAY, 10) == [key]
    assert rig.state(key) is State.IN_FLIGHT

"""Reports that name a job and no attempt: whose they can be."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from anew.engine import Acknowledge, Fetch, Reject, reservers
from anew.engine.reservers import Reservers
from anew.errors import NotFound
from anew.jobs import Failed, Job, State
from anew.jobs.codec import PushedJob
from anew.store.selection import Page

from .rig import Once, Rig, call, ignore, new_job, tick

HALF_AN_HOUR = 1_800_000
"""As long as a reservation lasts whose job does not say."""

FAILED = Failed(message="no")


def pushed(jid: str = "j") -> PushedJob:
    return PushedJob(type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid=jid)


def fetched(rig: Rig, worker: str | None) -> int:
    """Have a worker get a job; give its key."""
    answer = Once()
    rig.engine.apply([Fetch(("mail",), answer, worker)])
    job = answer.result
    assert isinstance(job, Job)
    return job.key


def lapse(rig: Rig) -> None:
    """Let every reservation lapse, and the jobs' waits pass."""
    for _ in range(2):
        rig.advance(HALF_AN_HOUR)
        rig.do(call(tick))


def acknowledged(rig: Rig, job: str | int, worker: str) -> bool:
    done = rig.do(Acknowledge(job, ignore, worker))
    assert isinstance(done, bool)
    return done


def failed(rig: Rig, job: str | int, worker: str) -> bool:
    return not isinstance(rig.do(Reject(job, FAILED, ignore, worker)), NotFound)


@pytest.fixture(params=["a producer's id", "a key"])
def name(request: pytest.FixtureRequest, rig: Rig) -> str | int:
    """What reports call the one job there is."""
    by_key = request.param == "a key"
    (key,) = rig.put(new_job() if by_key else pushed())
    return key if by_key else "j"


@pytest.mark.parametrize("report", [acknowledged, failed])
def test_reliability_17_a_worker_whose_reservation_has_lapsed_does_not_end_the_next_attempt(
    rig: Rig, name: str | int, report: Callable[[Rig, str | int, str], bool]
) -> None:
    key = fetched(rig, "one")
    lapse(rig)
    assert fetched(rig, "two") == key
    before = rig.job(key)
    assert report(rig, name, "one") is False
    assert rig.job(key) == before
    assert rig.engine.stats.stale == 1
    assert report(rig, name, "two") is True
    assert rig.engine.stats.stale == 1


@pytest.mark.parametrize("report", [acknowledged, failed])
def test_reliability_17_a_report_of_a_worker_that_never_had_the_job_changes_nothing(
    rig: Rig, name: str | int, report: Callable[[Rig, str | int, str], bool]
) -> None:
    key = fetched(rig, "one")
    assert report(rig, name, "two") is False
    assert rig.state(key) is State.IN_FLIGHT
    assert rig.engine.stats.stale == 1


def test_who_has_no_name_may_report_for_all_and_all_for_it(rig: Rig) -> None:
    rig.put(pushed("a"), pushed("b"), pushed("c"))
    for worker in ("one", None, None):
        fetched(rig, worker)
    assert [acknowledged(rig, *said) for said in (("a", ""), ("b", "two"), ("c", ""))] == [True] * 3


def test_two_reports_in_one_batch_end_the_job_once(rig: Rig, name: str | int) -> None:
    fetched(rig, "one")
    assert rig.apply(*(Acknowledge(name, ignore, "one") for _ in range(2))) == [True, False]
    assert rig.engine.stats.stale == 1


def test_of_two_jobs_with_one_id_each_worker_ends_its_own(rig: Rig) -> None:
    first, second = rig.put(pushed(), pushed())
    assert (fetched(rig, "one"), fetched(rig, "two")) == (first, second)
    assert acknowledged(rig, "j", "one") is True
    assert (rig.state(first), rig.state(second)) == (None, State.IN_FLIGHT)
    assert acknowledged(rig, "j", "one") is False
    assert acknowledged(rig, "j", "two") is True


@pytest.mark.parametrize("report", [acknowledged, failed])
@pytest.mark.parametrize("by_key", [False, True])
def test_a_worker_with_connections_to_two_processes_reports_by_either(
    pair: tuple[Rig, Rig], report: Callable[[Rig, str | int, str], bool], by_key: bool
) -> None:
    """It fetches here and fails there; then it fetches there, and reports here, where its first attempt is still known."""
    here, there = pair
    (key,) = here.put(new_job() if by_key else pushed())
    job = key if by_key else "j"
    fetched(here, "one")
    assert failed(there, job, "one") is True
    lapse(there)
    assert fetched(there, "one") == key
    assert report(here, job, "one") is True
    assert here.state(key) is not State.IN_FLIGHT


def test_of_two_jobs_with_one_id_a_worker_ends_the_one_that_it_is_known_to_have(
    pair: tuple[Rig, Rig],
) -> None:
    """Whoever has the other one would be refused: this one is not known to be theirs."""
    here, there = pair
    first, second = here.put(pushed(), pushed())
    assert (fetched(here, "one"), fetched(there, "two")) == (first, second)
    assert acknowledged(here, "j", "one") is True
    assert here.state(second) is State.IN_FLIGHT
    assert acknowledged(here, "j", "two") is True


def test_of_two_jobs_with_one_id_a_worker_without_a_name_ends_the_one_that_nobody_else_has(rig: Rig) -> None:
    first, second = rig.put(pushed(), pushed())
    assert (fetched(rig, None), fetched(rig, "one")) == (first, second)
    assert acknowledged(rig, "j", "") is True
    assert (rig.state(first), rig.state(second)) == (None, State.IN_FLIGHT)
    assert acknowledged(rig, "j", "two") is False
    assert acknowledged(rig, "j", "one") is True


def test_reliability_17_a_late_report_by_key_does_not_end_what_a_stream_has_by_now(rig: Rig) -> None:
    (key,) = rig.put(new_job(queue="mail"))
    fetched(rig, "one")
    lapse(rig)
    worker = rig.worker()
    assert worker.held == {key}
    assert acknowledged(rig, key, "one") is False
    assert rig.state(key) is State.IN_FLIGHT


def test_after_a_start_any_worker_may_report(pair: tuple[Rig, Rig]) -> None:
    """What was given out before it is not known: a job that nobody may report on would run again."""
    here, there = pair
    here.put(pushed())
    fetched(here, "one")
    assert acknowledged(there, "j", "two") is True


def test_the_record_of_a_reservation_that_lapsed_names_its_worker(rig: Rig) -> None:
    (key,) = rig.put(pushed())
    fetched(rig, "one")
    lapse(rig)
    (record,) = rig.store.records.errors(key, Page())
    assert (record.error_type, record.worker) == ("ReservationExpired", "one")


def test_beyond_the_most_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservers, "MOST", 2)
    known = Reservers(lambda token: True)
    known.note([(key, "mail", "one") for key in (1, 2, 3)], 10)
    assert [known.can_report("two", key, 10) for key in (1, 2, 3)] == [True, False, False]


def test_what_is_reported_is_forgotten(rig: Rig) -> None:
    """Else a server that runs for long would be as large as it may be."""
    rig.put(pushed())
    key = fetched(rig, "one")
    assert rig.engine.parts.reservers.last(key) is not None
    acknowledged(rig, "j", "one")
    assert rig.engine.parts.reservers.last(key) is None

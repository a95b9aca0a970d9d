"""Recorded jobs under another policy, counted by hand."""

from __future__ import annotations

import msgspec
import pytest

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.jobs import History, State
from anew.lab import replay as module
from anew.lab.replay import Shift, Tally, recorded, replay, select

from .test_evidence import history


def policy(wait_ms: int, limit: int | None) -> Policy:
    return Policy.from_json({"curve": {"constant": wait_ms}, "limit": limit})


def dead(one: History) -> History:
    return History(msgspec.structs.replace(one.job, state=State.DEAD), one.failures)


def test_the_record_itself() -> None:
    jobs = [history([0, 100], success=300), dead(history([50, 60, 70], key=2)), history([500], key=3)]
    found = recorded(jobs)
    assert (found.jobs, found.first_at, found.last_at) == (3, 10, 510)
    assert found.tally == Tally(succeeded=1, dead=1, waiting=1, calls=3 + 3 + 1)


def test_no_record_at_all() -> None:
    found = recorded([])
    assert (found.jobs, found.first_at, found.last_at, found.tally) == (0, None, None, Tally(0, 0, 0, 0))
    result = replay(policy(10, 3), [])
    assert (result.best, result.worst, result.unknown) == (Tally(0, 0, 0, 0), Tally(0, 0, 0, 0), 0.0)


def test_a_quicker_policy_succeeds_earlier_and_calls_more() -> None:
    """Failed at 0 and 1,000, succeeded at 5,000; runs take 10 ms. Every 490 ms: calls at 500, 1,000, 1,500 ... .

    500 and 1,000 are no later than the last failure; from 1,500 on the record is silent until the success at 5,000.
    """
    one = history([0, 1_000], success=5_000)
    result = replay(policy(490, 25), [one])
    assert result.best == Tally(succeeded=1, dead=0, waiting=0, calls=1 + 3)
    assert result.best_shift == Shift(jobs=1, median_earlier_ms=3_500, earlier=1, later=0)
    assert result.worst == Tally(succeeded=1, dead=0, waiting=0, calls=1 + 10)
    assert result.worst_shift == Shift(jobs=1, median_earlier_ms=0, earlier=0, later=0)
    assert result.unknown == 7 / 10


def test_a_slower_policy_succeeds_later_and_saves_calls() -> None:
    """Five calls on record; one retry 8,000 ms after the first failure at 10 is enough."""
    one = history([0, 1_000, 2_000, 3_000], success=5_000)
    result = replay(policy(8_000, 25), [one])
    assert result.best == result.worst == Tally(succeeded=1, dead=0, waiting=0, calls=2)
    assert result.best_shift == Shift(jobs=1, median_earlier_ms=-3_010, earlier=0, later=1)


def test_a_policy_that_gives_up_too_soon_lets_it_die() -> None:
    one = history([0, 1_000, 2_000], success=5_000)
    result = replay(policy(90, 3), [one])
    assert result.best == result.worst == Tally(succeeded=0, dead=1, waiting=0, calls=4)
    assert result.best_shift == Shift(jobs=0, median_earlier_ms=None, earlier=0, later=0)


def test_other_jobs_of_the_type_decide_where_they_can() -> None:
    """The other failed at 4,000 and succeeded at 4,500: before that nothing would have gone through, after it all."""
    one, other = history([0, 1_000], success=9_000), history([4_000], success=4_500, key=2)
    result = replay(policy(1_990, 25), [one, other])
    # One calls at 2,000 and, 10 ms a run, 4,000: both fail; 6,000 lies between two successes.
    # The other's first failure is told at 4,010; it calls at 6,000.
    assert result.best == result.worst == Tally(succeeded=2, dead=0, waiting=0, calls=4 + 2)
    assert result.best_shift == Shift(jobs=2, median_earlier_ms=(3_000 - 1_500) // 2, earlier=1, later=1)


def test_the_record_ends_with_its_last_failure_or_success() -> None:
    """Runs take 10 ms: a failure ends at 510, a success that began at 700 at 710. No clock is asked."""
    assert recorded([history([0, 500])]).last_at == 510
    assert recorded([history([0, 500]), history([100], success=700, key=2)]).last_at == 710
    assert recorded([history([0, 500]), history([100], success=200, key=2)]).last_at == 510


def test_nothing_is_told_beyond_the_end_of_the_record() -> None:
    """Another type's failure ends the record at 1,000. Calls at 410 and 820 are unknown, the one at 1,230 is no more."""
    jobs = [history([0]), history([990], job_type="u", key=2)]
    result = replay(policy(400, None), jobs)
    assert result.worst == Tally(succeeded=0, dead=0, waiting=2, calls=(1 + 2) + 1)
    assert result.best == Tally(succeeded=1, dead=0, waiting=1, calls=(1 + 1) + 1)
    assert result.unknown == 2 / 2


def test_a_job_that_succeeded_does_so_however_late_its_call_comes() -> None:
    """Succeeded at 5,000, where the record ends; three days later is after its own success all the same."""
    one = history([0], success=5_000)
    result = replay(policy(3 * 86_400_000, 1), [one])
    assert result.best == result.worst == Tally(succeeded=1, dead=0, waiting=0, calls=2)
    assert result.worst_shift == Shift(
        jobs=1, median_earlier_ms=5_000 - 10 - 3 * 86_400_000, earlier=0, later=1
    )
    assert result.unknown == 0.0


def test_a_dead_job_without_later_evidence_is_unknown_and_then_on_its_way() -> None:
    """It died of its failure at 100; a stranger's at 990 ends the record at 1,000, and nobody knows of 510 and 1,020."""
    jobs = [dead(history([0, 100])), history([990], job_type="u", key=2)]
    result = replay(policy(500, 9), jobs)
    assert result.worst == Tally(succeeded=0, dead=0, waiting=2, calls=2 + 1)
    assert result.best == Tally(succeeded=1, dead=0, waiting=1, calls=2 + 1)
    alone = replay(policy(500, 9), jobs[:1])
    assert alone.best == alone.worst == Tally(succeeded=0, dead=0, waiting=1, calls=1)


def test_the_same_seed_gives_the_same_answer() -> None:
    jobs = [history([0, 100 * key], success=5_000 + key, key=key) for key in range(1, 20)]
    law = Policy.from_json({"curve": {"constant": "1s"}, "jitter": "full", "limit": 9})
    assert replay(law, jobs, seed=3) == replay(law, jobs, seed=3)
    assert replay(law, jobs, seed=3) != replay(law, jobs, seed=4)


def test_a_policy_without_waits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that take no time and retries that wait for nothing never reach the end of the record."""
    monkeypatch.setattr(module, "MAX_CALLS", 100)
    one = History(
        history([0, 500]).job,
        tuple(span._replace(ended_at=span.began_at) for span in history([0, 500]).failures),
    )
    with pytest.raises(
        InvalidInput, match=r"^policy: it makes these jobs call more than 100 times"
    ) as caught:
        replay(policy(0, None), [one])
    assert caught.value.field == "policy"


def test_a_policy_of_very_many_short_waits_is_followed_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed at 10, then every 500 ms, 10 ms a run: the k-th call is made at 510 k. Success came at 20,000,000.

    The 39,216th is the first not before that (20,000,000 / 510 = 39,215.7); at best the second, at 1,020, is enough,
    being the first after the last recorded failure. Both ways together are what is bounded.
    """
    one = history([0, 1_000], success=20_000_000)
    found = replay(policy(500, None), [one])
    assert found.worst == Tally(succeeded=1, dead=0, waiting=0, calls=1 + 39_216)
    assert found.best == Tally(succeeded=1, dead=0, waiting=0, calls=1 + 2)
    monkeypatch.setattr(module, "MAX_CALLS", 39_217 + 3)
    assert replay(policy(500, None), [one]) == found
    monkeypatch.setattr(module, "MAX_CALLS", 39_217 + 2)
    with pytest.raises(InvalidInput, match="expected longer waits, a limit, or fewer jobs"):
        replay(policy(500, None), [one])


def test_too_many_jobs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_JOBS", 2)
    with pytest.raises(InvalidInput, match="histories: 3 jobs are too many; expected at most 2"):
        replay(policy(1, 1), [history([0])] * 3)


def test_jobs_are_picked_by_queue_type_and_time() -> None:
    jobs = [history([9_000], key=3), history([5_000], job_type="u", key=2), history([100], key=1)]
    assert [one.job.key for one in select(jobs)] == [3, 2, 1]
    assert [one.job.key for one in select(jobs, 2)] == [3, 2]
    assert [one.job.key for one in select(jobs, types=["u"])] == [2]
    assert select(jobs, queues=["other"]) == []
    assert [one.job.key for one in select(jobs, since=5_010)] == [3, 2]

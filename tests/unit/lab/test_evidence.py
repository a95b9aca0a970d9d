"""What the record says of calls that nobody made."""

from __future__ import annotations

import pytest

from anew.jobs import History, Job, Span, State
from anew.lab.replay import Evidence

FAILS, SUCCEEDS, UNKNOWN = False, True, None


def history(failures: list[int], success: int | None = None, job_type: str = "t", key: int = 1) -> History:
    """A job whose calls began at these instants and took 10 ms each."""
    state = State.RETRYING if success is None else State.COMPLETED
    spans = tuple(Span(at, at + 10) for at in failures)
    job = Job(
        key=key, queue="q", type=job_type, priority=0, state=state, ready_at=0, attempts=len(failures),
        interruptions=0, retry_limit=None, policy=None, retention=None, dequeued_at=success,
        failed_at=spans[-1].ended_at, first_failed_at=spans[0].ended_at,
        completed_at=None if success is None else success + 10, purge_at=None, phase=None, carry=None,
    )  # fmt: skip
    return History(job, spans)


@pytest.mark.parametrize(
    ("at", "verdict"),
    [(99, FAILS), (100, FAILS), (299, FAILS), (300, FAILS), (301, UNKNOWN), (899, UNKNOWN), (900, SUCCEEDS), (5_000, SUCCEEDS)],
)  # fmt: skip
def test_a_jobs_own_record_comes_first(at: int, verdict: bool | None) -> None:
    alone = history([100, 300], success=900)
    assert Evidence([alone]).succeeds(alone, at) is verdict


@pytest.mark.parametrize(
    ("at", "verdict"),
    [
        (400, FAILS),  # between the own failure at 300 and another's at 500
        (500, FAILS),
        (550, UNKNOWN),  # a failure at 500, a success at 600: it ended somewhere between
        (600, SUCCEEDS),
        (650, SUCCEEDS),  # between successes at 600 and 700
        (701, SUCCEEDS),  # and the own one at 900
    ],
)
def test_where_it_is_silent_the_neighbours_of_its_type_are_asked(at: int, verdict: bool | None) -> None:
    one = history([100, 300], success=900)
    others = [history([500], success=600, key=2), history([200], success=700, key=3)]
    assert Evidence([one, *others]).succeeds(one, at) is verdict


def test_jobs_of_another_type_say_nothing() -> None:
    one = history([100], success=900)
    stranger = history([100], success=200, job_type="other", key=2)
    assert Evidence([one, stranger]).succeeds(one, 300) is UNKNOWN


def test_after_the_last_call_on_record_nobody_knows() -> None:
    one, other = history([100]), history([200], key=2)
    evidence = Evidence([one, other])
    assert evidence.succeeds(one, 150) is FAILS
    assert evidence.succeeds(one, 201) is UNKNOWN

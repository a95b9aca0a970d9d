"""Reports that are repeated until somebody answers, and when they are not: steps fed by hand."""

from __future__ import annotations

import inspect
from typing import Any
from unittest.mock import create_autospec

import pytest

from anew.client import AsyncClient, Client
from anew.client.exchange import Exchange, NotSent, Steps, report_failure, report_success
from anew.client.views import JobView
from anew.client.waiting import Waits
from anew.errors import NotFound, Overloaded, Unreachable

EVERY_SECOND = Waits({"curve": {"constant": "1s"}, "limit": 2})
REPORT: Exchange[Any] = Exchange("POST", "/jobs/x/report", None, lambda _: None)
LOOK: Exchange[Any] = Exchange("GET", "/jobs/x", None, lambda _: None)

UNHEARD = Unreachable("no answer")
NOT_SENT = NotSent("no server")
BUSY = Overloaded("busy")
GONE = NotFound("not in flight")


def job(status: str) -> JobView:
    return JobView(id="x", type="t", queue="q", status=status, priority=1, ready_at=0, attempts=1)


def play(steps: Steps[Any], *answers: object) -> tuple[list[object], Any]:
    """Answer each request in turn; give what was asked for, with the waits, and the result."""
    asked: list[object] = []
    left = list(answers)
    try:
        ask = next(steps)
        while True:
            asked.append(ask if isinstance(ask, int) else ask.target)
            answer = None if isinstance(ask, int) else left.pop(0)
            ask = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
    except StopIteration as end:
        assert not left
        return asked, end.value


@pytest.mark.parametrize("trouble", [UNHEARD, NOT_SENT, BUSY])
def test_a_success_is_reported_again(trouble: Exception) -> None:
    asked, result = play(report_success(REPORT, EVERY_SECOND, lambda _: "known"), trouble, "heard")
    assert asked == ["/jobs/x/report", 1000, "/jobs/x/report"]
    assert result == ("known" if trouble is UNHEARD else "heard")


def test_a_job_that_is_gone_after_a_try_without_an_answer_is_done() -> None:
    _, result = play(report_success(REPORT, EVERY_SECOND, lambda _: "known"), UNHEARD, BUSY, GONE)
    assert result == "known"


@pytest.mark.parametrize("before", [[], [NOT_SENT], [BUSY, NOT_SENT]])
def test_a_job_that_is_gone_at_the_first_try_that_was_sent_is_not(before: list[Exception]) -> None:
    with pytest.raises(NotFound):
        play(report_success(REPORT, EVERY_SECOND, lambda _: "known"), *before, GONE)


def test_the_tries_end() -> None:
    with pytest.raises(Unreachable):
        play(report_success(REPORT, EVERY_SECOND, lambda _: None), UNHEARD, UNHEARD, UNHEARD)
    with pytest.raises(Overloaded):
        play(report_failure(REPORT, LOOK, EVERY_SECOND), BUSY, BUSY, BUSY)


@pytest.mark.parametrize("trouble", [NOT_SENT, BUSY])
def test_a_failure_that_nobody_can_have_heard_is_reported_again(trouble: Exception) -> None:
    asked, result = play(report_failure(REPORT, LOOK, EVERY_SECOND), trouble, job("scheduled"))
    assert asked == ["/jobs/x/report", 1000, "/jobs/x/report"]
    assert result.status == "scheduled"


@pytest.mark.parametrize("status", ["scheduled", "ready", "dead"])
def test_after_a_failure_without_an_answer_the_job_is_looked_at(status: str) -> None:
    asked, result = play(report_failure(REPORT, LOOK, EVERY_SECOND), UNHEARD, NOT_SENT, job(status))
    assert asked == ["/jobs/x/report", 1000, "/jobs/x", 1000, "/jobs/x"]
    assert result.status == status


def test_a_failure_is_not_reported_twice_where_the_second_may_end_the_next_attempt() -> None:
    with pytest.raises(Unreachable, match="no answer"):
        play(report_failure(REPORT, LOOK, EVERY_SECOND), UNHEARD, job("in_flight"))


def test_the_usual_waits_are_of_two_minutes_and_end() -> None:
    # 250 ms, doubled up to 10 s at the seventh, and 14 times that: 0.25 + 0.5 + 1 + 2 + 4 + 8 + 14 * 10 = 155.75 s at most.
    waits = [Waits().before(retry, rng=lambda: 0.999999) for retry in range(1, 22)]
    assert waits[-1] is None
    assert sum(wait or 0 for wait in waits) == pytest.approx(155_750, abs=20)
    least = [Waits().before(retry, rng=lambda: 0.0) for retry in range(1, 21)]
    assert sum(wait or 0 for wait in least) == pytest.approx(155_750 / 2, abs=20)


def test_both_kinds_have_the_same_verbs_with_the_same_signatures() -> None:
    def verbs(kind: type) -> dict[str, str]:
        public = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
        return {
            name: str(inspect.signature(method).replace(return_annotation=inspect.Signature.empty))
            for name, method in public.items()
            if callable(method)
        }

    assert verbs(Client) == verbs(AsyncClient)


def test_verbs_are_functions_of_their_kind() -> None:
    assert inspect.iscoroutinefunction(AsyncClient.enqueue)
    assert not inspect.iscoroutinefunction(Client.enqueue)
    assert Client.get.__doc__ == AsyncClient.get.__doc__ == "One job with its payload."
    double = create_autospec(Client, instance=True)
    double.get("x")
    with pytest.raises(TypeError):
        double.get()

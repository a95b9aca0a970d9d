"""The worker's own decisions, by hand-made messages; no process, no server."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from anew.worker.settle import Settled, Verdict, is_another_attempt

from anew.client import JobView
from anew.worker.command import CommandWorker, WorkOptions, _Done
from anew.worker.feed import Delivered, retry_wait_ms
from anew.worker.process import Ended, Run


def job(attempts: int, job_id: str = "a") -> JobView:
    return JobView(
        id=job_id, type="t", queue="q", status="in_flight", priority=1, ready_at=0, attempts=attempts
    )


@pytest.mark.parametrize(
    ("verdict", "ran", "offered", "again"),
    [
        # The report came while the job waited between two leases: nobody heard it, and the job is ours anew.
        ("gone", 0, 0, True),
        # The report ended the lease under which the job was delivered meanwhile.
        ("completed", 0, 0, False),
        ("failed", 0, 0, False),
        # The failure was heard, and this is the retry, delivered before we knew.
        ("failed", 0, 1, True),
        ("refused", 0, 0, False),
        ("unreported", 0, 0, False),
    ],
)
def test_a_job_delivered_while_its_run_goes_on(verdict: Verdict, ran: int, offered: int, again: bool) -> None:
    assert is_another_attempt(Settled(verdict=verdict), job(ran), job(offered)) is again


def test_waits_between_tries_double_to_a_cap_and_are_never_below_half() -> None:
    # 250 ms doubling to 10 s; half is certain, half is chance.
    for retry, ceiling in ((1, 250), (2, 500), (3, 1_000), (6, 8_000), (7, 10_000), (1_000, 10_000)):
        assert retry_wait_ms(retry, lambda: 0.0) == ceiling // 2
        assert ceiling - 1 <= retry_wait_ms(retry, lambda: 1 - 2**-53) <= ceiling


def test_jobs_that_wait_for_a_runner_begin_in_the_order_in_which_they_came() -> None:
    nobody: Any = None
    worker = CommandWorker(nobody, WorkOptions(queues=("q",), command=("true",)), lambda notice: None)
    jobs = [job(0, name) for name in "abc"]
    for one in jobs:
        worker._handle(Delivered(one))
    begun = []
    for one in jobs:
        task = worker._work.get_nowait()
        assert task is not None
        begun.append(task[0].id)
        worker._handle(_Done(one, Ended(kind="success", took_ms=1), Settled(verdict="completed")))
    assert begun == ["a", "b", "c"]


def test_a_name_that_cannot_stand_in_the_environment_is_a_failure_and_no_end_of_the_runner() -> None:
    """As a snowman where the locale is Latin-1: the worker would hold the job for ever and run no other."""
    odd = dataclasses.replace(job(0), type="\ud800")
    ended = Run(["true"], odd).run()
    assert (ended.kind, ended.error_type) == ("error", "cannot start")
    assert ended.message.startswith("true: ")

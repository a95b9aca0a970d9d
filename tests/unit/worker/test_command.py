"""The worker's own decisions, by hand-made messages; no process, no server."""

from __future__ import annotations

import pytest

from anew.client import JobView
from anew.worker.feed import retry_wait_ms
from anew.worker.settle import Settled, Verdict, is_another_attempt


def job(attempts: int) -> JobView:
    return JobView(id="a", type="t", queue="q", status="in_flight", priority=1, ready_at=0, attempts=attempts)


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

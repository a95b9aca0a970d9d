"""Tells the server how a run ended, and insists until it has heard."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal, assert_never

from anew.client import Client, JobView
from anew.errors import AnewError, NotFound
from anew.worker.feed import PASSING, retry_wait_ms
from anew.worker.process import Ended

Verdict = Literal["completed", "failed", "gone", "refused", "unreported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of a report.

    Attributes:
        verdict: ``completed`` or ``failed``: the server knows. ``gone``: the job was not in flight any more.
            ``refused``: the server will not have it. ``unreported``: nobody was told.
        after: The job after a failure.
        error: Why it was refused.
    """

    verdict: Verdict
    after: JobView | None = None
    error: AnewError | None = None


def settle(client: Client, job: JobView, ended: Ended, give_up: threading.Event) -> Settled:
    """Report the end of a run; try again while the server cannot be reached or is busy.

    Args:
        client: The server's client.
        job: The job.
        ended: How its run ended. One that we interrupted is not reported: it says nothing about the job.
        give_up: Ends the waiting between two tries.
    """
    retry = 0
    while ended.kind != "interrupted":
        try:
            return _report(client, job, ended)
        except NotFound:
            return Settled(verdict="gone")
        except PASSING as error:
            retry += 1
            if give_up.wait(retry_wait_ms(retry) / 1000):
                return Settled(verdict="unreported", error=error)
        except AnewError as error:
            return Settled(verdict="refused", error=error)
    return Settled(verdict="unreported")


def _report(client: Client, job: JobView, ended: Ended) -> Settled:
    match ended.kind:
        case "success":
            client.success(job.id)
            return Settled(verdict="completed")
        case "error" | "timeout" | "interrupted":
            after = client.failure(job.id, ended.message, error_type=ended.error_type)
            return Settled(verdict="failed", after=after)
        case _:
            assert_never(ended.kind)


def is_another_attempt(settled: Settled, ran: JobView, offered: JobView) -> bool:
    """Tell whether a job that was delivered while its run went on must run once more.

    Args:
        settled: What became of the run's report.
        ran: The job as it was when that run began.
        offered: The job as it was delivered meanwhile.

    Returns:
        True if the report did not reach this delivery: it came between two leases (gone), or it ended the old
        attempt and this is the next one.
    """
    match settled.verdict:
        case "gone":
            return True
        case "failed":
            return offered.attempts > ran.attempts
        case "completed" | "refused" | "unreported":
            return False

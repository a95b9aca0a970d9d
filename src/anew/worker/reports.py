"""Reports how a run ended: to the server until it has heard, and to the log as one line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from anew.client import Client, JobView
from anew.client.feed import PASSING, retry_wait_ms
from anew.errors import AnewError, InternalError, NotFound
from anew.units import format_duration
from anew.worker.process import Ended

Verdict = Literal["completed", "failed", "gone", "refused", "unreported"]
Level = Literal["info", "warn", "error"]

SERVER_FAULTS: Final = 10
"""Answers of 500 to one report after which it counts as refused: half a minute to a minute of waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What became of a report.

    Attributes:
        verdict: ``completed`` or ``failed``: the server knows. ``gone``: the job was not in flight any more.
            ``refused``: the server does not accept the report. ``unreported``: the server does not know.
        after: The job after a failure.
        error: Why it was refused.
    """

    verdict: Verdict
    after: JobView | None = None
    error: AnewError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One line for the log; never a payload.

    Attributes:
        what: ``listening``, ``lost``, ``stopping``, ``killing``; or of a job ``reporting`` (not at the first
            try), ``completed``, ``failed``, ``dead``, ``gone``, ``refused``, ``unreported``, ``interrupted``.
        text: The rest of the line, for people.
        job: The job that it is about.
        ended: How its run ended.
        after: The job as the server showed it after a failure.
    """

    level: Level
    what: str
    text: str = ""
    job: JobView | None = None
    ended: Ended | None = None
    after: JobView | None = None


def report_until_heard(
    client: Client,
    job: JobView,
    ended: Ended,
    give_up: threading.Event,
    log: Callable[[Notice], None],
) -> Reported:
    """Report the end of a run; try again while the server cannot be reached or is busy.

    A server that answers 500 is asked `SERVER_FAULTS` times, since the report itself may be what it fails on.

    Args:
        client: The server's client.
        job: The job.
        ended: How its run ended. One that we interrupted is not reported: it says nothing about the job.
        give_up: Ends the waiting between two tries.
        log: Called once, before the second try.
    """
    retry = faults = 0
    while ended.kind != "interrupted":
        try:
            if ended.kind == "success":
                client.success(job.id)
                return Reported(verdict="completed")
            after = client.failure(job.id, ended.message, error_type=ended.error_type)
            return Reported(verdict="failed", after=after)
        except NotFound:
            return Reported(verdict="gone")
        except PASSING as error:
            faults += isinstance(error, InternalError)
            if faults == SERVER_FAULTS:
                return Reported(verdict="refused", error=error)
            retry += 1
            wait_ms = retry_wait_ms(retry, error)
            if retry == 1:
                text = f"{error}; trying again in {format_duration(wait_ms)}"
                log(Notice(level="warn", what="reporting", text=text, job=job))
            if give_up.wait(wait_ms / 1000):
                return Reported(verdict="unreported", error=error)
        except AnewError as error:
            return Reported(verdict="refused", error=error)
    return Reported(verdict="unreported")


def is_another_attempt(reported: Reported, ran: JobView, offered: JobView) -> bool:
    """Say whether a job that was delivered while its run went on must run once more.

    Args:
        reported: What became of the run's report.
        ran: The job as it was when that run began.
        offered: The job as it was delivered meanwhile.

    Returns:
        True if the report did not reach this delivery: it came between two leases (gone), or it ended the old
        attempt and this is the next one.
    """
    match reported.verdict:
        case "gone":
            return True
        case "failed":
            return offered.attempts > ran.attempts
        case "completed" | "refused" | "unreported":
            return False


def notice_of(job: JobView, ended: Ended, reported: Reported) -> Notice:
    """Say how a run ended, and what became of its report."""
    level: Level = "warn"
    what: str = reported.verdict
    text = ""
    if ended.kind == "interrupted":
        what, text = "interrupted", "returns to the queue"
    elif reported.verdict == "completed":
        level = "info"
    elif reported.verdict == "failed":
        dead = reported.after is not None and reported.after.status == "dead"
        what, text = "dead" if dead else "failed", ended.error_type
    elif reported.verdict == "gone":
        text = "it was no longer in flight, so its verdict was dropped; it may run again"
    else:
        level, text = "error", str(reported.error)
    return Notice(level=level, what=what, text=text, job=job, ended=ended, after=reported.after)

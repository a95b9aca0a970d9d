"""What recorded attempts say about a call that nobody made: would it have failed at that moment?"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from enum import Enum

from anew.jobs import History, State


class Verdict(Enum):
    """What the record says of a call at some instant."""

    FAILS = "fails"
    SUCCEEDS = "succeeds"
    UNKNOWN = "unknown"


def succeeded_at(history: History) -> int | None:
    """Tell when the call began that succeeded; None if the record holds none."""
    job = history.job
    if job.state is not State.COMPLETED:
        return None
    return job.dequeued_at if job.dequeued_at is not None else job.completed_at


def record_end(histories: Iterable[History]) -> int | None:
    """Tell when the record ends: with its last failure or success, epoch ms; None if it holds neither.

    What the clock says when one asks is no part of the record: the same store gives the same answer at any time.
    """
    ends = [
        ended
        for history in histories
        for ended in (history.failures[-1].ended_at, _completed_at(history))
        if ended is not None
    ]
    return max(ends, default=None)


def _completed_at(history: History) -> int | None:
    began = succeeded_at(history)
    return began if began is None else max(began, history.job.completed_at or began)


class Evidence:
    """All recorded calls of a store's jobs, by type.

    A call is taken to fail up to the job's own last recorded failure, and to succeed from its own recorded success on.
    Between the two, and where the job never succeeded, the other jobs of its type are asked: if the recorded calls just
    before and just after that instant ended alike, so would this one have; if they differ, or there is none on one side,
    nobody can tell.

    Args:
        histories: The recorded jobs.
    """

    def __init__(self, histories: Iterable[History]) -> None:
        calls: dict[str, list[tuple[int, bool]]] = {}
        for history in histories:
            of_type = calls.setdefault(history.job.type, [])
            of_type += [(span.began_at, False) for span in history.failures]
            success = succeeded_at(history)
            if success is not None:
                of_type.append((success, True))
        self._instants: dict[str, list[int]] = {}
        self._succeeded: dict[str, list[bool]] = {}
        for name, of_type in calls.items():
            of_type.sort()
            self._instants[name] = [at for at, _ in of_type]
            self._succeeded[name] = [good for _, good in of_type]

    def verdict(self, history: History, at: int) -> Verdict:
        """Tell what would have become of a call of this job at an instant, epoch ms."""
        success = succeeded_at(history)
        if success is not None and at >= success:
            return Verdict.SUCCEEDS
        if at <= history.failures[-1].began_at:
            return Verdict.FAILS
        return self._neighbours(history.job.type, at)

    def _neighbours(self, job_type: str, at: int) -> Verdict:
        instants, succeeded = self._instants[job_type], self._succeeded[job_type]
        before, after = bisect_right(instants, at) - 1, bisect_left(instants, at)
        if before < 0 or after == len(instants) or succeeded[before] is not succeeded[after]:
            return Verdict.UNKNOWN
        return Verdict.SUCCEEDS if succeeded[after] else Verdict.FAILS

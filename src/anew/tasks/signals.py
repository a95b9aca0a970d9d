"""What a handler raises to say what becomes of its job. None of these is an error of Anew's.

JobSignal
  Retry      the run failed; try again after a time of its own, if there are attempts left
  Snooze     run later; this is no failure
  Cancel     the job is no longer wanted
  Discard    the run failed, and no retry can help
"""

from __future__ import annotations

from typing import Final

from anew.tasks.times import Wait, wait_ms, whole

MOST_SNOOZES: Final = (1 << 31) - 1


class JobSignal(Exception):
    """Base of what a handler can raise about its own job.

    Args:
        reason: Why; kept with the job, for people.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(JobSignal):
    """The run failed. It counts as an attempt, and the limit of attempts holds.

    Args:
        reason: Why.
        after: How long to wait: a number of seconds, a timedelta, or text such as ``"90s"``. None: as the policy says.
    """

    def __init__(self, reason: str = "", *, after: Wait | None = None) -> None:
        super().__init__(reason)
        self.after_ms = None if after is None else wait_ms(after, "after")


class Snooze(JobSignal):
    """Run later. It is no failure: it counts as no attempt, and the waits of later failures do not grow.

    Args:
        after: How long to wait: a number of seconds, a timedelta, or text such as ``"5m"``.
        reason: Why.
        most: The most snoozes of the job, 0 or more; one more ends it as dead. None: no limit.
    """

    def __init__(self, after: Wait, reason: str = "", *, most: int | None = None) -> None:
        super().__init__(reason)
        self.after_ms = wait_ms(after, "after")
        if most is not None:
            whole("most", most, 0, MOST_SNOOZES, "a number of snoozes, 0 or more")
        self.most = most


class Cancel(JobSignal):
    """The job is no longer wanted. It ends as cancelled, which is no failure."""


class Discard(JobSignal):
    """The run failed, and no retry can help. The job ends as dead, and is kept for whoever looks."""

"""What a worker tells whoever keeps its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anew.client import JobView
from anew.worker.process import Ended
from anew.worker.settle import Settled

Level = Literal["info", "warn", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One line for the log; never a payload.

    Attributes:
        what: ``listening``, ``lost``, ``stopping``, ``killing``; or of a job ``completed``, ``failed``,
            ``dead``, ``gone``, ``refused``, ``unreported``, ``interrupted``.
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


def notice_of(job: JobView, ended: Ended, settled: Settled) -> Notice:
    """Tell how a run ended, and what became of its report."""
    level: Level = "warn"
    what: str = settled.verdict
    text = ""
    if ended.kind == "interrupted":
        what, text = "interrupted", "returns to the queue"
    elif settled.verdict == "completed":
        level = "info"
    elif settled.verdict == "failed":
        dead = settled.after is not None and settled.after.status == "dead"
        what, text = "dead" if dead else "failed", ended.error_type
    elif settled.verdict == "gone":
        text = "it was no longer in flight, so its verdict was dropped; it may run again"
    else:
        level, text = "error", str(settled.error)
    return Notice(level=level, what=what, text=text, job=job, ended=ended, after=settled.after)

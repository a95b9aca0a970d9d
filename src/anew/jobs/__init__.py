"""What a job is, which moves are legal, and every decision about it. Pure: no clock, no chance, no I/O."""

from anew.jobs.change import AttemptRecord, Change
from anew.jobs.codec import Backoff, NewJob, Retention
from anew.jobs.decide import Defaults, completed_purge_at, decide_failure, initial_state
from anew.jobs.ids import IdText
from anew.jobs.interruption import decide_interruption
from anew.jobs.job import ErrorRecord, History, Job, Span
from anew.jobs.outcomes import (
    Cancelled,
    Failed,
    HoldEnd,
    HoldKind,
    Interrupted,
    Outcome,
    Snoozed,
    verdict_of,
)
from anew.jobs.snoozing import decide_cancel, decide_snooze
from anew.jobs.state import ENDED, WAITING, State
from anew.jobs.transitions import Move, diagram, target

__all__ = [
    "ENDED",
    "WAITING",
    "AttemptRecord",
    "Backoff",
    "Cancelled",
    "Change",
    "Defaults",
    "ErrorRecord",
    "Failed",
    "History",
    "HoldEnd",
    "HoldKind",
    "IdText",
    "Interrupted",
    "Job",
    "Move",
    "NewJob",
    "Outcome",
    "Retention",
    "Snoozed",
    "Span",
    "State",
    "completed_purge_at",
    "decide_cancel",
    "decide_failure",
    "decide_interruption",
    "decide_snooze",
    "diagram",
    "initial_state",
    "target",
    "verdict_of",
]

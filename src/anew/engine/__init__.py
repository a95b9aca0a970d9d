"""Applies batches of operations as one transaction each, hands out ready jobs, and keeps time."""

from anew.engine.batch import Batch, Enqueued, Limits
from anew.engine.engine import Engine
from anew.engine.fetches import Fetch
from anew.engine.group import GroupCommit
from anew.engine.hooks import Entry
from anew.engine.ops import Acknowledge, Call, Enqueue, Fail, FailMany, Op, Reject, Release, Succeed
from anew.engine.stats import Stats
from anew.engine.takers import Taker
from anew.engine.threads import TakenJobs, ThreadCommit, take_for_session
from anew.engine.upkeep import recover

__all__ = [
    "Acknowledge",
    "Batch",
    "Call",
    "Engine",
    "Enqueue",
    "Enqueued",
    "Entry",
    "Fail",
    "FailMany",
    "Fetch",
    "GroupCommit",
    "Limits",
    "Op",
    "Reject",
    "Release",
    "Stats",
    "Succeed",
    "TakenJobs",
    "Taker",
    "ThreadCommit",
    "recover",
    "take_for_session",
]

"""Applies batches of operations as one transaction each, hands out ready jobs, and keeps time."""

from anew.engine.batch import Batch, Enqueued, Entry, Limits
from anew.engine.engine import Engine
from anew.engine.group import GroupCommit
from anew.engine.ops import Call, Enqueue, Fail, FailMany, Op, Release, Succeed
from anew.engine.stats import Stats
from anew.engine.takers import Taker
from anew.engine.threads import ThreadCommit
from anew.engine.upkeep import recover

__all__ = [
    "Batch",
    "Call",
    "Engine",
    "Enqueue",
    "Enqueued",
    "Entry",
    "Fail",
    "FailMany",
    "GroupCommit",
    "Limits",
    "Op",
    "Release",
    "Stats",
    "Succeed",
    "Taker",
    "ThreadCommit",
    "recover",
]

"""Applies batches of operations as one transaction each, hands out ready jobs, and keeps time."""

from anew.engine.engine import Engine, Limits
from anew.engine.group import GroupCommit
from anew.engine.ops import Call, Enqueue, Fail, Op, Release, Succeed
from anew.engine.stats import Stats
from anew.engine.takers import Taker
from anew.engine.upkeep import reap, recover, tick

__all__ = [
    "Call",
    "Engine",
    "Enqueue",
    "Fail",
    "GroupCommit",
    "Limits",
    "Op",
    "Release",
    "Stats",
    "Succeed",
    "Taker",
    "reap",
    "recover",
    "tick",
]

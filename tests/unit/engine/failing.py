"""A rig whose store fails when told to, and the errors that it fails with: ours, and the driver's own."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from anew.errors import StoreFailed, StoreFull
from anew.store.protocol import Store
from anew.store.selection import Filter
from anew.store.sqlite import open_sqlite

from .rig import ALL, FaultyStore, Rig

FULL = [StoreFull("no space"), apsw.FullError("database or disk is full")]
FAILED = [StoreFailed("the disk is gone"), apsw.IOError("disk I/O error")]
ODD = [RuntimeError("nobody foresaw this"), apsw.SQLError("SQL logic error")]
full = pytest.mark.parametrize("error", FULL, ids=["ours", "the driver's"])
failed = pytest.mark.parametrize("error", FAILED, ids=["ours", "the driver's"])
odd = pytest.mark.parametrize("error", ODD, ids=["any", "the driver's"])
undone = pytest.mark.parametrize("error", [*FULL, *ODD], ids=["full", "full", "odd", "odd"])
"""All after which a batch is put back and the engine goes on."""


class Failing(Rig):
    """A rig whose store fails when told to."""

    faulty: FaultyStore

    def __init__(self, inner: Store | None = None, **given: Any) -> None:
        self.faulty = FaultyStore(inner or open_sqlite())
        super().__init__(self.faulty, **given)

    def fail_next(self, *errors: Exception | None, verb: str = "commit") -> None:
        """Plan what the next calls of a verb raise."""
        self.faulty.verbs[verb] = list(errors)


def picture(rig: Rig) -> tuple[object, ...]:
    """Everything that a batch could have changed, in the store and beside it."""
    dispatcher = rig.engine.dispatcher
    keys = rig.store.find(Filter(), ALL)
    return (
        rig.store.load(keys, payload=True),
        {queue: dict(states) for queue, states in rig.store.queues.counts().items()},
        {key: taker.number for key, taker in dispatcher.holders.items()},
        {taker.number: dict(taker.held) for taker in dispatcher.takers},
        rig.engine.due_at,
    )

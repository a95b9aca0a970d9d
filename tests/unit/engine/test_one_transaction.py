"""Whatever moves a job does it in one transaction: a kill between any two statements leaves all of it, or nothing.

Before each statement the store's files are copied, as a kill there would leave them, and each copy is opened.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from anew.engine import Limits, Op, verbs
from anew.engine.ops import Call
from anew.jobs.codec import JobHooks, LimitKey, PushedJob, UniqueKey
from anew.store.sqlite import open_sqlite

from .rig import NOW, Rig, Worker, call, enqueue, fail, ignore, new_job, succeed, tick

LEASE_MS = 1_000
Dump = dict[str, list[Any]]


def tied_job(number: int) -> PushedJob:
    """A job with a unique key and a limit, which are rows of their own."""
    hooks = JobHooks(
        unique=UniqueKey(bytes([number]) * 16, "active"), limit=LimitKey("customer", 2), tracked=True
    )
    return PushedJob(type="t", queue="mail", payload=msgspec.Raw(b"1"), jid=f"j{number}", hooks=hooks)


class Watched(Rig):
    """An engine on a file, with two jobs of each kind in flight, and a worker that has them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            open_sqlite(folder, relaxed=True), limits=Limits(max_lease_ms=LEASE_MS, global_in_flight=0)
        )
        self.folder = folder
        self.held = self.put(new_job(), new_job(payload=b"7" * 5_000), tied_job(1), tied_job(2))
        self.later = self.put(*[new_job(ready_at=NOW + 500)] * 2)
        self.workers = [self.worker(prefetch=4)]

    def images(self, op: Op | None) -> list[Dump]:
        """Apply one operation; give what a kill before each of its statements, and one after all of them, would leave."""
        found: list[Dump] = []

        def look(*_: object) -> bool:
            found.append(self.image())
            return True

        connection = self.store._link.connection  # type: ignore[attr-defined]
        connection.exec_trace = look
        self.engine.apply([] if op is None else [op])
        connection.exec_trace = None
        return [*found, self.image()]

    def image(self) -> Dump:
        """All rows of all tables, as another process finds them after a kill at this instant."""
        copy = self.folder.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name in ("anew.db", "anew.db-wal"):
            shutil.copy(self.folder / name, copy / name)
        connection = apsw.Connection(str(copy / "anew.db"))
        try:
            names = [
                name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            return {name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr) for name in names}
        finally:
            connection.close()


def take_four(rig: Watched) -> None:
    """Another worker comes, for jobs that come with it."""
    rig.put(*[new_job("fax")] * 4)
    rig.engine.dispatcher.add(Worker(["fax"], 4).taker)


def due(rig: Watched) -> None:
    """The waiting jobs' time has come."""
    rig.clock.advance(500)


def late(rig: Watched) -> Call:
    """The leases have ended."""
    rig.clock.advance(LEASE_MS)
    return call(tick)


def called_off(rig: Watched) -> Op:
    """All that is held is given back, as its worker goes."""
    return rig.leave(rig.workers[0])


def killed(rig: Watched) -> Op:
    return fail(rig.held[3], kill=True)


def redriven(rig: Watched) -> Call:
    rig.do(killed(rig))
    return call(verbs.redrive_one(rig.held[3], reset_attempts=True))


MOVES: dict[str, Callable[[Watched], Op | None]] = {
    "enqueue": lambda rig: enqueue(tied_job(3), *[new_job()] * 3),
    "take": take_four,
    "acknowledge": lambda rig: succeed(*rig.held),
    "fail": lambda rig: fail(rig.held[2]),
    "kill": killed,
    "promote": due,
    "reclaim": late,
    "requeue": called_off,
    "redrive": redriven,
    "cancel": lambda rig: call(verbs.cancel_one(rig.held[2])),
    "delete": lambda rig: call(verbs.delete_one(rig.held[3])),
}


@pytest.mark.parametrize("move", MOVES)
def test_reliability_16_a_kill_between_any_two_statements_leaves_all_or_nothing(
    tmp_path: Path, move: str
) -> None:
    rig = Watched(tmp_path / "data")
    op = MOVES[move](rig)
    if op is not None:
        op.done = ignore
    before = rig.image()
    images = rig.images(op)
    after = images[-1]
    rig.store.close()
    assert after != before, "it has done something"
    statements = len(images) - 1
    assert statements >= 4, "it takes several statements"
    lasting = images.index(after)
    assert images == [before] * lasting + [after] * (len(images) - lasting)
    assert lasting >= statements - 3, "it lasts from its commit on"

"""Which commits reach the disk before they return: the sync calls that are made, by SQLite and by the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from anew.backoff import Policy
from anew.clock import ManualClock
from anew.engine import Call, Engine, Enqueue, Fail, Op, Release, Succeed, Taker
from anew.engine.batch import Batch
from anew.jobs import Defaults, Failed, NewJob
from anew.store.protocol import TakenRow
from anew.store.sqlite import open_sqlite


class CountingFile(apsw.VFSFile):
    """A file of the operating system that counts how often it is synced."""

    syncs: dict[str, int]

    def __init__(
        self, parent: str, filename: apsw.URIFilename | str, flags: list[int], syncs: dict[str, int]
    ) -> None:
        name = filename if isinstance(filename, str) else filename.filename()
        self._name = name.rsplit("/", 1)[-1]
        self._syncs = syncs
        super().__init__(parent, filename, flags)

    def xSync(self, flags: int) -> None:
        self._syncs[self._name] = self._syncs.get(self._name, 0) + 1
        super().xSync(flags)


class CountingVfs(apsw.VFS):
    """Opens every file as one that counts its syncs; those that the store makes itself are counted with them."""

    def __init__(self, name: str) -> None:
        self.syncs: dict[str, int] = {}
        self._patch = pytest.MonkeyPatch()
        self._fdatasync = os.fdatasync
        self._patch.setattr(os, "fdatasync", self._sync)
        super().__init__(name, "")

    def _sync(self, fd: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        self.syncs[name] = self.syncs.get(name, 0) + 1
        self._fdatasync(fd)

    def close(self) -> None:
        self._patch.undo()
        self.unregister()

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None
        return CountingFile("", name, flags, self.syncs)

    def wal(self) -> int:
        """Syncs of the write-ahead log so far."""
        return self.syncs.get("anew.db-wal", 0)


class Rig:
    """An engine whose store tells what it syncs."""

    def __init__(self, directory: Path, *, relaxed: bool) -> None:
        name = f"counting {directory}"
        self.vfs = CountingVfs(name)
        self.store = open_sqlite(directory, relaxed=relaxed, vfs=name)
        defaults = Defaults(policy=Policy.from_json({"curve": {"constant": "10s"}}))
        self.engine = Engine(self.store, clock=ManualClock(), defaults=defaults)
        self.rows: list[TakenRow] = []

    def syncs_of(self, *ops: Op) -> int:
        before = self.vfs.wal()
        self.engine.apply(ops)
        return self.vfs.wal() - before

    def take_everything(self) -> Taker:
        taker = Taker(None, 100, lambda rows, now: self.rows.extend(rows))
        self.engine.dispatcher.add(taker)
        return taker

    def close(self) -> None:
        self.store.close()
        self.vfs.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, relaxed=False)
    yield made
    made.close()


@pytest.fixture
def relaxed(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, relaxed=True)
    yield made
    made.close()


def nobody(result: object) -> None:
    """Nobody waits."""


def some_jobs(n: int = 3) -> Enqueue:
    return Enqueue([NewJob("send", "mail", msgspec.Raw(b"{}")) for _ in range(n)], nobody)


def give_a_number(batch: Batch) -> None:
    batch.store.identity.last_key += 1
    batch.store.remember()


def test_new_jobs_are_synced_once_a_batch(rig: Rig) -> None:
    assert rig.syncs_of(some_jobs()) >= 1  # the first frames of a log bring its header along
    for _ in range(3):
        assert rig.syncs_of(some_jobs(), some_jobs(), some_jobs()) == 1


def test_a_batch_of_takes_alone_is_not_synced(rig: Rig) -> None:
    rig.syncs_of(some_jobs())
    rig.take_everything()
    assert rig.syncs_of() == 0
    assert len(rig.rows) == 3


def test_a_release_is_not_synced(rig: Rig) -> None:
    rig.syncs_of(some_jobs())
    taker = rig.take_everything()
    rig.syncs_of()
    rig.engine.dispatcher.remove(taker)
    assert rig.syncs_of(Release(taker, nobody)) == 0


def test_every_durable_operation_is_synced_also_after_takes(rig: Rig) -> None:
    rig.syncs_of(some_jobs())
    rig.take_everything()
    rig.syncs_of()
    first, second, _ = (row[0] for row in rig.rows)
    for op in (
        Succeed([first], nobody),
        Fail(second, Failed(message="no"), nobody),
        Call(give_a_number, nobody),
        some_jobs(1),
    ):
        assert rig.syncs_of(op) == 1, op
        assert rig.syncs_of() == 0


def test_one_durable_operation_makes_its_whole_batch_synced(rig: Rig) -> None:
    rig.syncs_of(some_jobs())
    taker = rig.take_everything()
    rig.syncs_of()
    rig.engine.dispatcher.remove(taker)
    assert rig.syncs_of(Release(taker, nobody), some_jobs()) == 1


def test_the_sync_comes_before_the_answer(rig: Rig) -> None:
    rig.syncs_of(some_jobs())
    seen: list[int] = []
    before = rig.vfs.wal()
    op = some_jobs()
    op.done = lambda result: seen.append(rig.vfs.wal() - before)
    rig.engine.apply([op])
    assert seen == [1]


def test_relaxed_syncs_no_commit(relaxed: Rig) -> None:
    relaxed.syncs_of(some_jobs())
    relaxed.take_everything()
    assert relaxed.syncs_of(some_jobs()) == 0
    assert relaxed.syncs_of(Succeed([row[0] for row in relaxed.rows], nobody)) == 0
    assert relaxed.store.queues.counts() == {}


def test_opening_syncs_what_it_writes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, relaxed=False)
    opened = rig.vfs.wal()
    rig.close()
    assert opened >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="the descriptor is kept open on Linux alone")
def test_where_the_store_cannot_sync_the_log_sqlite_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    rig = Rig(tmp_path, relaxed=False)
    rig.syncs_of(some_jobs())
    assert not rig.store._link.log.can_sync
    assert rig.syncs_of(some_jobs()) == 1
    rig.close()

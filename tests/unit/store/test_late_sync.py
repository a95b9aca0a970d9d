"""A commit leaves its turn to other processes before the disk works, and answers after it has."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anew.backoff import Policy
from anew.clock import ManualClock
from anew.engine import Call, Engine, Enqueue, Taker
from anew.errors import StoreFailed
from anew.jobs import Defaults, NewJob
from anew.store.sqlite import open_sqlite

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every sync is SQLite's own")


def a_job(done: Callable[[Any], None]) -> Enqueue:
    return Enqueue([NewJob("send", "mail", msgspec.Raw(b"{}"))], done)


class Process:
    """A process's engine on the file."""

    def __init__(self, directory: Path, *, exclusive: bool = False, relaxed: bool = False) -> None:
        self.store = open_sqlite(directory, exclusive=exclusive, relaxed=relaxed)
        defaults = Defaults(policy=Policy.from_json({"curve": {"constant": "10s"}}))
        self.engine = Engine(self.store, clock=ManualClock(), defaults=defaults)

    def enqueue(self) -> Any:
        results: list[Any] = []
        self.engine.apply([a_job(results.append)])
        return results[0]

    def look(self, *, durable: bool) -> None:
        """Change nothing; a durable one answers with what it has seen."""
        self.engine.apply([Call(lambda batch: None, lambda result: None, durable=durable)])


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def other(tmp_path: Path, one: Process) -> Iterator[Process]:
    made = Process(tmp_path)
    yield made
    made.store.close()


class Syncs:
    """What is called in place of the system's sync.

    Attributes:
        meanwhile: What happens while the disk works.
    """

    def __init__(self) -> None:
        self.count = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, fd: int) -> None:
        assert os.readlink(f"/proc/self/fd/{fd}").endswith("/anew.db-wal")
        self.count += 1
        self.meanwhile()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    made = Syncs()
    monkeypatch.setattr(os, "fdatasync", made)
    return made


def test_others_have_their_turn_while_the_disk_works(one: Process, other: Process, syncs: Syncs) -> None:
    said: list[Any] = []
    answered: list[Any] = []

    def meanwhile() -> None:
        syncs.meanwhile = lambda: None  # the other's own sync
        said.append(other.enqueue())
        assert answered == []  # nobody hears of a job that is not on the disk

    syncs.meanwhile = meanwhile
    one.engine.apply([a_job(answered.append)])
    assert said[0].keys[0] == answered[0].keys[0] + 1
    assert syncs.count == 2


def test_an_answer_that_rests_on_nothing_new_does_not_wait_for_the_disk(one: Process, syncs: Syncs) -> None:
    one.enqueue()
    one.look(durable=True)
    assert syncs.count == 1


def test_an_answer_that_rests_on_a_take_waits_for_the_disk(one: Process, syncs: Syncs) -> None:
    one.enqueue()
    one.engine.dispatcher.add(Taker(None, 1, lambda rows, now: None))
    one.look(durable=False)
    assert syncs.count == 1
    one.look(durable=True)
    assert syncs.count == 2


def test_an_answer_that_rests_on_what_others_wrote_waits_for_the_disk(
    one: Process, other: Process, syncs: Syncs
) -> None:
    one.look(durable=True)
    other.enqueue()
    before = syncs.count
    one.look(durable=True)  # it writes nothing itself
    assert syncs.count == before + 1


def test_it_also_waits_where_what_needs_no_sync_came_first(
    one: Process, other: Process, syncs: Syncs
) -> None:
    other.enqueue()
    one.look(durable=False)
    one.look(durable=False)
    before = syncs.count
    one.look(durable=True)
    assert syncs.count == before + 1


class Mixed:
    """A batch of an operation that needs no sync behind one that does; and what each has heard."""

    def __init__(self) -> None:
        self.synced: list[Any] = []
        self.unsynced: list[Any] = []
        self.ops = [a_job(self.synced.append), Call(lambda batch: 7, self.unsynced.append, durable=False)]


def test_what_needs_no_sync_is_answered_while_the_disk_works(one: Process, syncs: Syncs) -> None:
    mixed = Mixed()
    seen: list[tuple[int, int]] = []
    syncs.meanwhile = lambda: seen.append((len(mixed.synced), len(mixed.unsynced)))
    one.engine.apply(mixed.ops)
    assert seen == [(0, 1)]
    assert (len(mixed.synced), mixed.unsynced) == (1, [7])


def test_where_the_sync_fails_what_needed_none_keeps_its_answer(one: Process, syncs: Syncs) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    mixed = Mixed()
    syncs.meanwhile = fail
    one.engine.apply(mixed.ops)
    assert ([type(result) for result in mixed.synced], mixed.unsynced) == ([StoreFailed], [7])


def test_where_ctrl_c_interrupts_the_sync_everybody_is_answered_once(one: Process, syncs: Syncs) -> None:
    def interrupt() -> None:
        syncs.meanwhile = lambda: None
        raise KeyboardInterrupt

    mixed = Mixed()
    syncs.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        one.engine.apply(mixed.ops)
    assert (len(mixed.synced), mixed.unsynced, syncs.count) == (1, [7], 2)


def test_where_the_late_sync_fails_everybody_stops(one: Process, other: Process, syncs: Syncs) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    syncs.meanwhile = fail
    assert isinstance(one.enqueue(), StoreFailed)
    assert isinstance(one.enqueue(), StoreFailed)
    assert syncs.count == 1  # it is never tried again
    with pytest.raises(StoreFailed, match="failed in another process"):
        other.store.begin(synced=True)


def test_what_ctrl_c_interrupts_is_synced_before_it_is_answered(one: Process, syncs: Syncs) -> None:
    answered: list[Any] = []

    def interrupt() -> None:
        syncs.meanwhile = lambda: None
        raise KeyboardInterrupt

    syncs.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        one.engine.apply([a_job(lambda result: answered.append(syncs.count))])
    assert answered == [2]


def test_where_commits_are_relaxed_nobody_waits(tmp_path: Path, syncs: Syncs) -> None:
    one, other = Process(tmp_path, relaxed=True), Process(tmp_path, relaxed=True)
    one.enqueue()
    other.enqueue()
    one.enqueue()
    assert syncs.count == 0
    one.store.close()
    other.store.close()


def test_a_store_in_memory_has_no_disk(syncs: Syncs) -> None:
    store = open_sqlite()
    engine = Engine(
        store, clock=ManualClock(), defaults=Defaults(policy=Policy.from_json({"curve": {"constant": "10s"}}))
    )
    engine.apply([a_job(lambda result: None)])
    store.close()
    assert syncs.count == 0

"""The log and who copies it: it stays short beside a busy writer, and no error of the disk is passed over."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from anew.errors import StoreFailed
from anew.store.sql import SqlStore
from anew.store.sqlite import checkpoint, open_sqlite, opening
from anew.store.sqlite import link as opened
from anew.store.sqlite.checkpoint import DONE, IDLE, RUNNING, Checkpointer
from anew.store.sqlite.turnstile import Turnstile
from tests.conformance.helpers import ready_total

from ..engine.rig import Rig, plain

PAGES = 20
FRAME = 4_096 + 24


class Unthreaded(Checkpointer):
    """Copies when it is asked, in the writer's own thread."""

    looks = 0

    def start(self) -> None:
        self.looks += 1
        self._copy()


class Hung(Checkpointer):
    """Never comes back from the first copy."""

    def start(self) -> None:
        self.state = RUNNING


@pytest.fixture(autouse=True)
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CHECKPOINT_PAGES", PAGES)


def log_pages(directory: Path) -> int:
    """How long the log has ever been, in pages: the file keeps its length when the log starts over."""
    return (directory / "anew.db-wal").stat().st_size // FRAME


def write(store: SqlStore, batches: int) -> None:
    rig = Rig(store)
    for _ in range(batches):
        rig.do(plain(1))


def test_the_log_starts_over_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "Checkpointer", Unthreaded)
    store = open_sqlite(tmp_path, background=True)
    schema = log_pages(tmp_path)
    write(store, 200)
    assert isinstance(store._link.log.thread, Unthreaded)
    assert store._link.log.thread.looks > 10
    assert log_pages(tmp_path) < schema + 3 * PAGES
    store.close()


def test_a_log_whose_copying_hangs_is_copied_by_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "Checkpointer", Hung)
    store = open_sqlite(tmp_path, background=True)
    write(store, 800)
    longest = checkpoint.LONGEST_LOG * PAGES
    assert longest <= log_pages(tmp_path) < longest + PAGES
    store.close()


def test_a_reader_of_an_old_state_lets_the_log_grow_and_then_be_short_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "Checkpointer", Unthreaded)
    store = open_sqlite(tmp_path, background=True)
    reader = apsw.Connection(str(tmp_path / "anew.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM job").fetchone()
    write(store, 100)
    assert isinstance(store._link.log.thread, Unthreaded)
    grown, looks = log_pages(tmp_path), store._link.log.thread.looks
    assert grown > 5 * PAGES
    assert looks <= grown // PAGES + 1  # not at every commit, though it is too long at every one
    reader.execute("ROLLBACK")
    write(store, 400)
    assert log_pages(tmp_path) < grown + 3 * PAGES
    reader.close()
    store.close()


def test_the_thread_copies_and_leaves_the_end_to_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CHECKPOINT_PAGES", 1_000)  # not before it is asked
    store = open_sqlite(tmp_path, background=True)
    write(store, 1)
    checkpointer = store._link.log.thread
    assert checkpointer is not None
    assert checkpointer.state == IDLE
    checkpointer.start()
    checkpointer.close()  # waits for the copy
    assert checkpointer.state == DONE
    assert checkpointer.failed is None
    store._link.log.thread = None
    store.close()


def test_an_error_of_the_disk_while_copying_is_the_end(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, background=True)
    rig = Rig(store)
    assert store._link.log.thread is not None
    store._link.log.thread.failed = apsw.IOError("disk I/O error")
    answers = [rig.do(plain(1)) for _ in range(PAGES)]
    assert isinstance(answers[-1], StoreFailed)
    assert rig.engine.failed is not None
    store._link.log.thread.failed = None
    store.close()


@pytest.mark.parametrize("error", [apsw.NoMemError("out of memory"), apsw.SQLError("SQL logic error")])
def test_any_error_while_copying_is_the_end_because_the_batch_is_committed(
    tmp_path: Path, error: apsw.Error
) -> None:
    """Were it taken for the batch's own, the batch would be applied a second time, operation by operation."""
    store = open_sqlite(tmp_path, background=True)
    rig = Rig(store)
    assert store._link.log.thread is not None
    store._link.log.thread.failed = error
    answers = [rig.do(plain(1)) for _ in range(PAGES)]
    assert isinstance(answers[-1], StoreFailed)
    asked = 1 + next(n for n, answer in enumerate(answers) if isinstance(answer, StoreFailed))
    assert ready_total(store) == asked
    store._link.log.thread.failed = None
    store.close()


def test_an_error_of_the_writers_own_copying_is_the_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "Checkpointer", Unthreaded)
    store = open_sqlite(tmp_path, background=True)
    rig = Rig(store)
    monkeypatch.setattr(store._link.log, "copy", _out_of_memory)
    answers = []
    while rig.engine.failed is None and len(answers) < 10 * PAGES:
        answers += rig.apply(plain(1), plain(1))
    assert isinstance(answers[-1], StoreFailed)
    assert ready_total(store) == len(answers)
    store.close()


def test_without_a_thread_the_writer_copies_and_an_error_is_the_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own copying would pass over a failed sync, and a later one would seem to succeed over the hole."""
    store = open_sqlite(tmp_path)
    schema = log_pages(tmp_path)
    write(store, 200)
    assert log_pages(tmp_path) < schema + 3 * PAGES
    monkeypatch.setattr(store._link.log, "copy", _out_of_memory)
    rig = Rig(store)
    answers = [rig.do(plain(1)) for _ in range(PAGES)]
    assert isinstance(answers[-1], StoreFailed)
    assert rig.engine.failed is not None
    store.close()


# -- after a failure


def content(directory: Path) -> dict[str, bytes]:
    """The database and its log, byte for byte."""
    return {name: (directory / name).read_bytes() for name in ("anew.db", "anew.db-wal")}


@pytest.mark.parametrize("background", [True, False])
def test_nothing_is_written_after_a_failure_and_others_are_told(tmp_path: Path, background: bool) -> None:
    store = open_sqlite(tmp_path, background=background)
    write(store, 5)
    store.begin(synced=True)
    store.abandon("IOError: disk I/O error")
    before = content(tmp_path)
    with pytest.raises(StoreFailed):
        store.begin(synced=False)
    if store._link.log.thread is not None:
        store._link.log.thread.start()
    store.close()
    assert content(tmp_path) == before
    assert (tmp_path / "turnstile").read_bytes() == b"IOError: disk I/O error"


def test_nothing_is_written_after_a_failure_that_could_not_be_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Turnstile, "mark", lambda turnstile, reason: None)  # as where the disk takes nothing
    store = open_sqlite(tmp_path)
    write(store, 5)
    store.abandon("IOError: disk I/O error")
    before = content(tmp_path)
    for synced in (False, True):
        with pytest.raises(StoreFailed, match="nothing more is written"):
            store.begin(synced=synced)
    store.close()
    assert content(tmp_path) == before
    assert (tmp_path / "turnstile").read_bytes() == b""


def test_a_stopped_thread_copies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CHECKPOINT_PAGES", 1_000)  # so that it copies nothing unasked
    store = open_sqlite(tmp_path, background=True)
    write(store, 1)
    assert store._link.log.thread is not None
    before = content(tmp_path)
    store._link.log.thread.stop()
    store._link.log.thread.start()
    store._link.log.thread.close()  # waits for the copy that there is not
    assert content(tmp_path) == before
    store._link.log.thread = None
    store.close()


def test_another_process_stops_too_and_the_first_start_after_all_have_ended_goes_on(tmp_path: Path) -> None:
    broken, other = open_sqlite(tmp_path), open_sqlite(tmp_path, exclusive=False)
    write(other, 1)
    broken.abandon("IOError: disk I/O error")
    broken.abandon("and what came of it")
    with pytest.raises(StoreFailed, match=r"in another process: IOError: disk I/O error$"):
        other.begin(synced=True)
    with pytest.raises(StoreFailed, match="end every process that has the store open, and start again"):
        open_sqlite(tmp_path, exclusive=False)
    broken.close()
    other.abandon("in another process")
    other.close()
    again = open_sqlite(tmp_path)
    assert (tmp_path / "turnstile").read_bytes() == b""
    assert ready_total(again) == 1
    again.close()


def _out_of_memory() -> tuple[int, int]:
    raise apsw.NoMemError("out of memory")

"""Copies of a store: of one instant, verified before they have their name, and put back where nobody is disturbed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from anew.errors import Conflict, InvalidInput, NewerStore, NotFound, StoreFailed, StoreFull
from anew.jobs import State
from anew.store.selection import Filter, Page
from anew.store.sql import SqlStore
from anew.store.sqlite import Places, back_up, backup, open_sqlite, restore
from tests.conformance.helpers import check_counts, new_job, put, take, told

LONG = b'"' + b"x" * 600_000 + b'"'
ALL = Page(limit=1 << 30)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.in_directory(tmp_path / "data")


@pytest.fixture
def store(places: Places) -> Iterator[SqlStore]:
    """A store with a few megabytes, open."""
    store = open_sqlite(places)
    put(store, *(new_job("ab"[n % 2], LONG) for n in range(8)))
    take(store, ["a"], limit=1)
    yield store
    store.close()


def quiet(done: int, pages: int) -> None:
    """Nobody watches."""


def test_a_copy_holds_what_the_store_held_at_one_instant(
    places: Places, store: SqlStore, tmp_path: Path
) -> None:
    """Whatever is written between two steps is not in it."""
    steps: list[tuple[int, int]] = []

    def beside(done: int, pages: int) -> None:
        steps.append((done, pages))
        put(store, new_job("late", LONG), first_key=1_000 + len(steps))

    before = told(store)
    copied = back_up(places, tmp_path / "copy.db", beside)
    assert len(steps) > 4
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1][0] == steps[-1][1]
    assert (copied.jobs, copied.size) == (8, (tmp_path / "copy.db").stat().st_size)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "data"]
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    other = Places.in_directory(tmp_path / "other")
    assert restore(tmp_path / "copy.db", other, quiet).jobs == 8
    again = open_sqlite(other)
    assert told(again) == before
    assert [job.payload for job in again.load(range(9), payload=True)] == [LONG] * 8
    assert again.identity.tag == store.identity.tag
    check_counts(again)
    again.close()


def test_after_each_step_but_the_last_the_disk_is_left_to_others_for_half_the_steps_time(
    places: Places, store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    rests: list[float] = []
    done: list[tuple[int, int]] = []

    def progress(copied: int, pages: int) -> None:
        done.append((copied, pages))
        now[0] += 4 * len(done)

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=rests.append)
    monkeypatch.setattr(backup, "time", clock)
    back_up(places, tmp_path / "copy", progress)
    pages = done[0][1]
    assert [copied for copied, _ in done] == [*range(256, pages, 256), pages]
    assert rests == [2.0 * step for step in range(1, len(done))]
    assert len(rests) >= 3


def test_the_holds_in_a_copy_belong_to_nobody(places: Places, store: SqlStore, tmp_path: Path) -> None:
    """The process that held them has the other store open, not this one."""
    back_up(places, tmp_path / "copy.db", quiet)
    other = Places.in_directory(tmp_path / "other")
    restore(tmp_path / "copy.db", other, quiet)
    again = open_sqlite(other)
    again.begin(synced=False)
    assert [session.alive for session in again.processes.sessions()] == [False, True]
    again.rollback()
    assert [job.key for job in again.load(range(9)) if job.state is State.IN_FLIGHT] == [1]
    again.close()


def test_a_copy_takes_the_place_of_an_older_one_only_when_it_is_whole(
    places: Places, store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "copy.db"
    back_up(places, target, quiet)
    old = target.read_bytes()
    put(store, new_job(), first_key=99)

    def broken(path: Path, stopped: object) -> int:
        raise StoreFailed("damaged")

    with monkeypatch.context() as patch:
        patch.setattr(backup, "verify", broken)
        with pytest.raises(StoreFailed):
            back_up(places, target, quiet)
    with monkeypatch.context() as patch:
        patch.setattr(backup, "verify", lambda path, stopped: 3)
        with pytest.raises(StoreFailed, match="does not hold the 9 jobs"):
            back_up(places, target, quiet)
    assert target.read_bytes() == old
    assert not (tmp_path / "copy.db.unfinished").exists()
    (tmp_path / "copy.db.unfinished").write_bytes(b"what a killed one has left")
    assert back_up(places, target, quiet).jobs == 9


def test_what_cannot_be_copied_or_written_is_said(places: Places, store: SqlStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written: No such file or directory"):
        back_up(places, tmp_path / "no" / "copy.db", quiet)
    with pytest.raises(NotFound):
        back_up(Places.in_directory(tmp_path / "empty"), tmp_path / "copy.db", quiet)
    assert not (tmp_path / "copy.db").exists()


OWN = [
    *("anew.db", "anew.db-wal", "anew.db-shm", "anew.db-journal", "anew.db.unfinished"),
    *("turnstile", "reserve", "anew.lock", "sessions", "sessions/1", "sessions/deep/copy.db"),
]


@pytest.mark.parametrize("way", ["plain", "relative", "linked", "linked folder"])
def test_a_copy_takes_the_place_of_none_of_the_stores_own_files(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Whether the file is there at the moment or not: a program may make it at the next."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").symlink_to(tmp_path / "data", target_is_directory=True)
    (tmp_path / "links").mkdir()
    with closing(open_sqlite(places)):
        for name in OWN:
            own = tmp_path / "data" / name
            link = tmp_path / "links" / name.replace("/", " ")
            link.symlink_to(own)
            target = {
                "plain": own,
                "relative": Path("data", "..", "data", name),
                "linked": link,
                "linked folder": tmp_path / "other" / name,
            }[way]
            before = own.stat().st_ino if own.exists() else None
            with pytest.raises(InvalidInput, match=r"^file: .*expected a file outside the store") as caught:
                back_up(places, target, quiet)
            assert (caught.value.field, caught.value.value) == ("file", str(target))
            assert (own.stat().st_ino if own.exists() else None) == before


def test_a_hard_link_to_the_database_is_the_store_too(
    places: Places, store: SqlStore, tmp_path: Path
) -> None:
    os.link(places.database, tmp_path / "copy.db")
    with pytest.raises(InvalidInput, match="belongs to the store"):
        back_up(places, tmp_path / "copy.db", quiet)


def test_the_files_beside_a_programs_own_database_are_its_stores(tmp_path: Path) -> None:
    places = Places.beside(tmp_path / "jobs.db")
    open_sqlite(places).close()
    with pytest.raises(InvalidInput, match="belongs to the store"):
        back_up(places, tmp_path / "jobs.db-turnstile", quiet)
    assert back_up(places, tmp_path / "turnstile", quiet).jobs == 0


def test_a_file_in_the_data_directory_that_is_not_the_stores_may_be_a_copy(
    places: Places, store: SqlStore
) -> None:
    assert back_up(places, places.database.with_name("copy.db"), quiet).jobs == 8


@pytest.mark.parametrize("name", ["anew.db", "anew.db-wal", "anew.db.unfinished", "turnstile", "sessions/9"])
def test_a_store_is_not_restored_from_a_file_of_its_own(places: Places, tmp_path: Path, name: str) -> None:
    open_sqlite(places).close()
    own = tmp_path / "data" / name
    own.touch()
    (tmp_path / "link").symlink_to(own)
    before = places.database.read_bytes()
    with pytest.raises(InvalidInput, match=r"^file: .*belongs to the store.*expected a copy of it") as caught:
        restore(tmp_path / "link", places, quiet, force=True)
    assert caught.value.field == "file"
    assert own.exists()
    assert places.database.read_bytes() == before


def test_a_full_device_is_told_and_leaves_nothing(
    places: Places, store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, path: Path, progress: object) -> None:
        path.write_bytes(b"some")
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(backup, "_copy", full)
    with pytest.raises(StoreFull):
        back_up(places, tmp_path / "copy.db", quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


# -- putting one back


def copy_of(places: Places, tmp_path: Path) -> Path:
    back_up(places, tmp_path / "copy.db", quiet)
    return tmp_path / "copy.db"


@pytest.mark.parametrize("exclusive", [True, False], ids=["a server", "a program"])
def test_an_open_store_is_never_replaced(places: Places, tmp_path: Path, exclusive: bool) -> None:
    store = open_sqlite(places, exclusive=exclusive)
    copy = copy_of(places, tmp_path)
    with pytest.raises(Conflict, match="nothing was changed"):
        restore(copy, places, quiet, force=True)
    put(store, new_job())
    assert store.find(Filter(), ALL) == [1]
    store.close()


def test_a_store_is_replaced_on_request_alone_and_kept(places: Places, tmp_path: Path) -> None:
    store = open_sqlite(places)
    copy = copy_of(places, tmp_path)
    put(store, new_job(), new_job())
    store.close()
    with pytest.raises(Conflict, match=r"holds a store.*--force"):
        restore(copy, places, quiet)
    assert restore(copy, places, quiet, force=True).jobs == 0
    store = open_sqlite(places)
    assert store.find(Filter(), ALL) == []
    store.close()
    kept = places.database.with_name("anew.db.replaced")
    assert backup.verify(kept) == 2


def test_the_log_of_a_killed_store_is_no_part_of_the_copy_that_replaces_it(
    places: Places, tmp_path: Path
) -> None:
    store = open_sqlite(places)
    copy = copy_of(places, tmp_path)
    put(store, new_job(), new_job())
    log = places.database.with_name("anew.db-wal").read_bytes()
    store.close()
    places.database.with_name("anew.db-wal").write_bytes(log)  # as if it had been killed
    restore(copy, places, quiet, force=True)
    store = open_sqlite(places)
    assert store.find(Filter(), ALL) == []
    check_counts(store)
    store.close()


def test_a_copied_directory_with_its_log_is_restored_with_it(
    places: Places, store: SqlStore, tmp_path: Path
) -> None:
    """What a plain copy of a killed server's directory holds."""
    folder = tmp_path / "plain"
    folder.mkdir()
    for name in ("anew.db", "anew.db-wal"):
        (folder / name).write_bytes((places.database.parent / name).read_bytes())
    assert restore(folder / "anew.db", Places.in_directory(tmp_path / "other"), quiet).jobs == 8


def test_what_is_no_copy_is_refused_and_changes_nothing(places: Places, tmp_path: Path) -> None:
    open_sqlite(places).close()
    before = places.database.read_bytes()
    text = tmp_path / "text"
    text.write_bytes(b"Dear diary\n" * 1_000)
    foreign = tmp_path / "foreign"
    apsw.Connection(str(foreign)).execute("CREATE TABLE t (a)").close()
    newer = copy_of(places, tmp_path)
    connection = apsw.Connection(str(newer))
    connection.pragma("user_version", 99)
    connection.close()
    for file, error in (
        (text, StoreFailed),
        (foreign, StoreFailed),
        (newer, NewerStore),
        (tmp_path / "no", NotFound),
    ):
        with pytest.raises(error):
            restore(file, places, quiet, force=True)
        assert places.database.read_bytes() == before
        assert not places.database.with_name("anew.db.unfinished").exists()


def test_a_damaged_copy_is_refused(places: Places, store: SqlStore, tmp_path: Path) -> None:
    copy = copy_of(places, tmp_path)
    size = copy.stat().st_size
    with open(copy, "r+b") as file:
        file.seek(size // 2 // 4_096 * 4_096)
        file.write(os.urandom(40_960))
    with pytest.raises(StoreFailed):
        restore(copy, Places.in_directory(tmp_path / "other"), quiet)
    assert not (tmp_path / "other" / "anew.db").exists()

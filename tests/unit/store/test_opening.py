"""Opening a data directory: one server at a time, files for their owner only, a reserve of space."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from anew.errors import InvalidConfig, StoreBusy, StoreFailed, StoreFull
from anew.store.sql import SqlStore
from anew.store.sqlite import open_sqlite, opening, presence
from anew.store.sqlite.opening import RESERVE_BYTES


def give_key(store: SqlStore, number: int) -> None:
    """A small change, in a transaction of its own."""
    store.begin(synced=False)
    store.identity.last_key = number
    store.remember()
    store.commit()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_second_opening_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path)
    with pytest.raises(StoreBusy) as caught:
        open_sqlite(tmp_path)
    message = str(caught.value)
    assert f"process {os.getpid()}" in message
    assert str(tmp_path) in message
    assert "--root-dir" in message
    store.close()
    open_sqlite(tmp_path).close()


def test_a_refused_opening_does_not_take_the_lock_from_its_holder(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path)
    for _ in range(3):
        with pytest.raises(StoreBusy):
            open_sqlite(tmp_path)
    store.close()


def test_another_process_is_kept_out_for_as_long_as_the_store_is_open(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            open_sqlite(tmp_path)
        except StoreBusy:
            os._exit(17)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    store.close()


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidConfig, match="cannot be used") as caught:
            open_sqlite(place)
        assert str(place) in str(caught.value)
        assert (caught.value.field, caught.value.value) == ("root_dir", str(place))


@pytest.mark.parametrize("system", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_file_system_of_the_network_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr(opening, "file_system", lambda folder: system)
    with pytest.raises(InvalidConfig, match=f"file system of the network \\({system}\\)") as caught:
        open_sqlite(tmp_path)
    assert (caught.value.field, caught.value.value) == ("root_dir", str(tmp_path))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("system", ["ext4", ""])
def test_a_local_file_system_is_taken_and_so_is_one_that_nobody_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr(opening, "file_system", lambda folder: system)
    open_sqlite(tmp_path).close()
    assert opening.FILE in os.listdir(tmp_path)


MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /no-such/net rw,relatime shared:2 master:1 - nfs4 host:/net rw,vers=4.2
31 30 8:2 / /no-such/net/local rw - xfs /dev/sdb1 rw
32 22 0:41 / /no-such/my\040share rw propagate_from:3 - cifs //host/share rw
33 22 8:3 / /no-such/twice rw - ext4 /dev/sdc1 rw
34 33 0:42 / /no-such/twice rw - fuse.sshfs host: rw
35 22 0:43 / /no-such/t\011b rw - nfs host:/e rw
36 22 0:44 / /no-such/f\x0cd\rr rw - smb3 //host/share rw
"""


@pytest.mark.parametrize(
    ("folder", "system"),
    [
        ("/no-such", "ext4"),
        ("/no-such/net", "nfs4"),
        ("/no-such/net/a/b", "nfs4"),
        ("/no-such/network", "ext4"),
        ("/no-such/net/local/data", "xfs"),
        ("/no-such/net/locals", "nfs4"),
        ("/no-such/my share/data", "cifs"),
        ("/no-such/my", "ext4"),
        ("/no-such/t\tb", "nfs"),
        ("/no-such/f\x0cd\rr/data", "smb3"),
        ("/no-such/twice/data", "fuse.sshfs"),  # the later mount hides the earlier one
    ],
)
@pytest.mark.parametrize("backwards", [False, True], ids=["outer first", "inner first"])
def test_the_innermost_mount_names_the_file_system(
    monkeypatch: pytest.MonkeyPatch, folder: str, system: str, backwards: bool
) -> None:
    lines = MOUNTS.replace(r"\x0c", "\x0c").replace(r"\r", "\r").strip().split("\n")
    if backwards:
        lines = [*lines[3::-1], *lines[4:]]
    monkeypatch.setattr(Path, "read_bytes", lambda path: "\n".join(lines).encode())
    assert opening.file_system(Path(folder)) == system


def test_a_system_that_does_not_tell_its_mounts_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> bytes:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_bytes", missing)
    assert opening.file_system(Path("/no-such")) == ""


def test_directory_and_files_are_their_owners_only(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "data"
    old = os.umask(0)
    try:
        store = open_sqlite(directory)
        give_key(store, 1)
        store.processes.listen()
        modes = {path.name: mode(path) for path in directory.iterdir()}
        store.close()
    finally:
        os.umask(old)
    assert mode(directory) == 0o700
    assert set(modes) >= {"anew.db", "anew.db-wal", "anew.lock", "reserve", "turnstile", "sessions"}
    assert modes.pop("sessions") == 0o700
    assert set(modes.values()) == {0o600}


def test_the_reserve_is_given_up_and_taken_again(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path)
    reserve = tmp_path / "reserve"
    assert reserve.stat().st_size == RESERVE_BYTES == 8 * 1024 * 1024
    store._link.free_reserve()
    assert not reserve.exists()
    store._link.keep_reserve()
    assert reserve.stat().st_size == RESERVE_BYTES
    store.close()


def test_with_the_reserve_the_log_is_emptied_into_the_database(tmp_path: Path) -> None:
    """The log's space can then be written again: settling shrinks the database but not its log."""
    store = open_sqlite(tmp_path)
    for number in range(200):
        give_key(store, number)
    log = tmp_path / "anew.db-wal"
    grown = log.stat().st_size
    store._link.free_reserve()
    for number in range(150):
        give_key(store, number)
    assert log.stat().st_size == grown
    store.close()


def test_pages_that_deleted_jobs_have_left_are_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that only this file has filled must not refuse jobs for ever: the file does not shrink."""
    store = open_sqlite(tmp_path)
    free = 100 << 20
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1))
    assert store._link.free_bytes() == free
    store._link.execute("CREATE TABLE filler (text TEXT)")
    store._link.execute("INSERT INTO filler VALUES (zeroblob(4_096_000))")
    assert store._link.free_bytes() == free
    store._link.execute("DELETE FROM filler")
    left = store._link.free_bytes() - free
    assert 4_000_000 < left < 4_300_000
    free = 4_095_999  # less than the log needs, 1,000 pages of 4,096 bytes
    assert store._link.free_bytes() == free
    store.close()


def test_a_reserve_that_found_no_space_is_taken_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(fd: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", no_space)
        store = open_sqlite(tmp_path)
    assert (tmp_path / "reserve").stat().st_size == 0
    store._link.keep_reserve()
    assert (tmp_path / "reserve").stat().st_size == RESERVE_BYTES
    store.close()


def test_the_connection_has_the_settings_that_everything_relies_on(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path)
    pragma = store._link.connection.pragma
    assert (pragma("journal_mode"), pragma("synchronous"), pragma("mmap_size")) == (
        "wal",
        1 if sys.platform == "linux" else 2,
        0,
    )
    store.close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path)
    reader = store.reader()
    with pytest.raises(apsw.ReadOnlyError):
        reader._link.execute("DELETE FROM job")  # type: ignore[attr-defined]
    reader.close()
    store.close()


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (apsw.FullError("database or disk is full"), StoreFull),
        (apsw.IOError("disk I/O error"), StoreFailed),
        (apsw.CorruptError("malformed"), StoreFailed),
        (apsw.NotADBError("no database"), StoreFailed),
        (apsw.ReadOnlyError("read-only"), StoreFailed),
        (apsw.CantOpenError("unable to open"), StoreFailed),
        (apsw.ConstraintError("UNIQUE"), None),
        (apsw.BusyError("locked"), StoreBusy),
        (apsw.LockedError("locked"), StoreBusy),
        (OverflowError("int too large"), None),
    ],
)
def test_the_drivers_errors_are_told_in_our_words(error: Exception, ours: type[Exception] | None) -> None:
    store = open_sqlite()
    known = store.explain(error)
    assert type(known) is (ours or type(None))
    store.close()


def test_a_directory_that_cannot_be_locked_is_not_said_to_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems know no locks."""

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(presence.fcntl, "flock", no_locks)
    with pytest.raises(InvalidConfig, match="No locks available"):
        open_sqlite(tmp_path)


def test_a_full_device_does_not_keep_a_server_from_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(presence.os, "pwrite", full)
    lock = presence.ServerLock(tmp_path / "anew.lock")
    with pytest.raises(StoreBusy):
        presence.ServerLock(tmp_path / "anew.lock")
    lock.release()


@pytest.mark.parametrize(("free", "given_up"), [(0, True), (opening.OPENING_BYTES, False)])
def test_a_device_too_full_for_an_opening_costs_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, given_up: bool
) -> None:
    """After a clean stop the next start makes a file of its own again, and jobs must be settled on a full device too."""
    open_sqlite(tmp_path).close()
    real = os.statvfs(tmp_path)
    device = SimpleNamespace(f_bavail=free // real.f_frsize, f_frsize=real.f_frsize)
    monkeypatch.setattr(opening.os, "statvfs", lambda path: device)
    there: list[bool] = []
    connect = opening.connect

    def watched(path: str, **given: Any) -> apsw.Connection:
        there.append((tmp_path / "reserve").exists())
        return connect(path, **given)

    monkeypatch.setattr(opening, "connect", watched)
    open_sqlite(tmp_path).close()
    assert there == [not given_up]


def test_a_directory_that_cannot_be_synced_is_a_failure_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(directory: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    open_sqlite(tmp_path).close()
    with monkeypatch.context() as patch:
        patch.setattr(opening, "sync_path", broken)
        with pytest.raises(StoreFailed, match="Input/output error"):
            open_sqlite(tmp_path)
    open_sqlite(tmp_path).close()


def test_reliability_09_a_new_folder_and_its_files_have_lasting_names(tmp_path: Path) -> None:
    """Each folder that is made is synced into the one above it, and the store's files into theirs, before it is used."""
    synced: dict[str, set[str]] = {}
    real = os.fsync

    def noting(fd: int) -> None:
        real(fd)
        place = os.readlink(f"/proc/self/fd/{fd}")
        if os.path.isdir(place):
            synced[place] = set(os.listdir(place))

    tmp_path.mkdir(exist_ok=True)
    directory = tmp_path / "a" / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", noting)
        store = open_sqlite(directory)
    store.close()
    for folder, name in (
        (tmp_path, "a"),
        (tmp_path / "a", "data"),
        (directory, opening.FILE),
        (directory, "reserve"),
    ):
        assert name in synced.get(str(folder), set()), f"{name} in {folder}"


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.44.5", "3.45.3", "3.50.6", "3.51.2", "3.51"])
def test_reliability_10_a_library_with_the_wal_reset_bug_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(InvalidConfig, match=rf"SQLite {re.escape(version)}, .* expected 3\.51\.3 or newer"):
        open_sqlite(tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "version", ["3.44.6", "3.44.9", "3.50.7", "3.51.3", "3.52.0", "3.54.1", "4.0.0", "3.100.0"]
)
def test_reliability_10_a_library_without_it_is_taken(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    open_sqlite().close()


def test_an_opening_waits_for_a_program_that_has_the_file_for_itself(tmp_path: Path) -> None:
    """As one has that repairs the log after a crash, though it only wants to look."""
    open_sqlite(tmp_path).close()
    other = apsw.Connection(str(tmp_path / "anew.db"))
    other.pragma("locking_mode", "exclusive")
    other.execute("BEGIN EXCLUSIVE; COMMIT")
    tried = threading.Event()

    def let_go() -> None:
        tried.wait()
        other.close()

    class Watched(apsw.Connection):
        """Tells when its first setting is asked for."""

        def pragma(self, *words: Any, **given: Any) -> Any:
            tried.set()
            return super().pragma(*words, **given)

    thread = threading.Thread(target=let_go)
    thread.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(opening.apsw, "Connection", Watched)
        open_sqlite(tmp_path).close()
    thread.join()

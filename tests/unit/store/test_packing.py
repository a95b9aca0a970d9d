"""Copies as archives: what a server sends, and how it becomes a store again."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from anew.errors import Conflict, InvalidInput, NotFound, StoreFailed
from anew.store.sql import SqlStore
from anew.store.sqlite import Places, archive, backup, open_sqlite, packing, remove_unsent, restore
from anew.store.sqlite.packing import NAME, pack
from anew.store.sqlite.sent import Stopped
from tests.conformance.helpers import new_job, put

JOBS = 300
PAYLOADS = [b'"%b"' % random.Random(n).randbytes(600).hex().encode() for n in range(JOBS)]
"""Hardly to be compressed."""


def never() -> bool:
    return False


def quiet(copied: int, pages: int) -> None:
    """Nobody watches."""


@pytest.fixture(autouse=True)
def no_test_stands_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive is made by a thread of its own, which keeps the lowest priority; here it would be that of all tests to come."""
    monkeypatch.setattr("anew.store.sqlite.sent._stand_back", lambda: None)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.in_directory(tmp_path / "data")


@pytest.fixture
def store(places: Places) -> Iterator[SqlStore]:
    opened = open_sqlite(places)
    put(opened, *[new_job(payload=payload) for payload in PAYLOADS])
    yield opened
    opened.close()


@pytest.fixture
def sent(places: Places, store: SqlStore, tmp_path: Path) -> Path:
    """An archive as a client has received it."""
    file = tmp_path / "backup.tar.gz"
    file.write_bytes(b"".join(archive(places, never)))
    return file


def test_zizq_94_an_archive_is_a_gzip_of_a_tar_with_the_store_and_becomes_one_again(
    sent: Path, tmp_path: Path
) -> None:
    assert gzip.decompress(sent.read_bytes())
    with tarfile.open(sent) as tar:
        assert tar.getnames() == ["zizq-root/data/anew.db"]
    copied = restore(sent, Places.in_directory(tmp_path / "other"), quiet)
    assert copied.jobs == JOBS
    again = open_sqlite(tmp_path / "other")
    assert [job.payload for job in again.load(range(JOBS + 1), payload=True)] == PAYLOADS
    again.close()


def test_an_archive_comes_in_small_pieces_the_first_one_empty(
    places: Places, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "PIECE", 4_096)
    monkeypatch.setattr(packing, "SENT", 1_000)
    pieces = list(archive(places, never))
    assert pieces[0] == b""
    assert len(pieces) > 5
    assert max(map(len, pieces[:-1])) < 1_000 + 65_536  # zlib gives what it has, whenever it wants


def test_nothing_is_left_of_the_copy_even_while_it_is_sent(places: Places, store: SqlStore) -> None:
    before = sorted(path.name for path in places.database.parent.iterdir())
    pieces = archive(places, never)
    assert next(pieces) == b""
    assert sorted(path.name for path in places.database.parent.iterdir()) == before
    pieces.close()
    assert sorted(path.name for path in places.database.parent.iterdir()) == before


@pytest.mark.parametrize("after", [0, 2, 5])
def test_a_copy_that_nobody_wants_any_more_ends_and_leaves_nothing(
    places: Places, store: SqlStore, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is made, and while it is verified."""
    monkeypatch.setattr(backup, "ASKED_AFTER", 10)
    before = sorted(path.name for path in places.database.parent.iterdir())
    asked = iter([False] * after)
    with pytest.raises((Stopped, StoreFailed)):
        list(archive(places, lambda: next(asked, True)))
    assert sorted(path.name for path in places.database.parent.iterdir()) == before


def test_what_a_killed_process_has_left_is_removed(places: Places, store: SqlStore) -> None:
    for ending in (".unsent", ".unsent.unfinished"):
        places.database.with_name(f"anew.db{ending}").write_bytes(b"x")
    remove_unsent(places)
    remove_unsent(places)
    assert not list(places.database.parent.glob("*unsent*"))


# -- restoring


@pytest.mark.parametrize("name", ["file", ".hidden", "log/"])
def test_zizq_94_an_archive_is_restored_into_a_missing_or_empty_directory_only(
    sent: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "other"
    target.mkdir()
    if name.endswith("/"):
        (target / name).mkdir()
    else:
        (target / name).touch()
    with pytest.raises(Conflict, match="is not empty; expected a --root-dir that is missing or empty"):
        restore(sent, Places.in_directory(target), quiet)
    assert not (target / "anew.db").exists()
    assert restore(sent, Places.in_directory(target), quiet, force=True).jobs == JOBS


def test_an_archive_is_not_restored_over_a_store(sent: Path, places: Places) -> None:
    with pytest.raises(Conflict, match="holds a store"):
        restore(sent, places, quiet)


def unusable(file: Path, target: Path, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"cannot be restored: {why}.*expected what POST /backup"):
        restore(file, Places.in_directory(target), quiet)
    assert not (target / "anew.db").exists()
    assert not (target / "anew.db.unfinished").exists()


@pytest.mark.parametrize("kept", [2, 20, 0.1, 0.5, 0.9])
def test_an_archive_that_is_cut_off_is_refused(sent: Path, tmp_path: Path, kept: float) -> None:
    whole = sent.read_bytes()
    sent.write_bytes(whole[: int(kept) if kept >= 1 else int(len(whole) * kept)])
    unusable(sent, tmp_path / "other", "it is damaged or not whole")


@pytest.mark.parametrize("at", range(5, 100, 5))
def test_a_damaged_archive_is_refused_wherever_the_damage_is(sent: Path, tmp_path: Path, at: int) -> None:
    """Also where what is damaged can be unpacked, and is a payload, which no check of the database looks at."""
    damaged = bytearray(sent.read_bytes())
    damaged[len(damaged) * at // 100] ^= 0xFF
    sent.write_bytes(damaged)
    with pytest.raises((InvalidInput, StoreFailed)):
        restore(sent, Places.in_directory(tmp_path / "other"), quiet)
    assert not (tmp_path / "other" / "anew.db").exists()


def test_reliability_56_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    """Of Zizq's own storage too; and nothing is written where a name in it points to."""
    file = tmp_path / "other.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for name in ("zizq-root/data/manifest", "../escaped", "/escaped"):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            tar.addfile(entry, io.BytesIO(b"abc"))
        link = tarfile.TarInfo(NAME)
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    unusable(file, tmp_path / "other", f"it holds no {NAME}")
    assert not (tmp_path / "escaped").exists()


def test_an_archive_whose_file_is_no_store_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.tar.gz"
    file.write_bytes(b"".join(pack(io.BytesIO(b"no database"), 11)))
    with pytest.raises(StoreFailed):
        restore(file, Places.in_directory(tmp_path / "other"), quiet)
    assert not (tmp_path / "other" / "anew.db").exists()


def test_a_missing_archive_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        restore(tmp_path / "gone.tar.gz", Places.in_directory(tmp_path / "other"), quiet)


def test_a_tar_of_any_size_ends_as_tar_says() -> None:
    for size in (0, 1, 511, 512, 513):
        with tarfile.open(fileobj=io.BytesIO(b"".join(pack(io.BytesIO(b"x" * size), size)))) as tar:
            member = tar.extractfile(NAME)
            assert member is not None
            assert member.read() == b"x" * size
            assert tar.getmember(NAME).mode == 0o600

"""What another program reads of a store: failures, while a server may be writing."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from anew.errors import NewerStore, NotFound, StoreFailed
from anew.jobs import Span, State
from anew.store.sqlite import SqliteArchive, open_sqlite

from .recording import NOW, Recording


def files_open_below(folder: Path) -> list[str]:
    """The databases in a folder to which there is a connection."""
    names = [connection.db_filename("main") for connection in apsw.connections()]
    return [name for name in names if Path(name).is_relative_to(folder)]


def test_failures_are_read_beside_the_writer_the_latest_job_first(tmp_path: Path) -> None:
    writer = Recording(tmp_path)
    first, second = writer.enqueue("a"), writer.enqueue("b")
    writer.run(first, 0, fails=True)
    writer.run(second, 0, fails=True)
    writer.run(first, 60_000, fails=False)
    archive = SqliteArchive(tmp_path)
    found = archive.histories(None, 10)
    assert [history.job.key for history in found] == [second, first]
    assert [history.job.type for history in found] == ["b", "a"]
    assert found[1].job.state is State.COMPLETED
    assert found[1].job.dequeued_at == NOW + 62_000, "the call that succeeded began then"
    assert found[1].failures == (Span(NOW, NOW + 1_000),)
    assert found[0].failures == (Span(NOW, NOW + 2_000),)
    writer.run(second, 0, fails=True)
    assert archive.histories(None, 1)[0].failures[1].ended_at == NOW + 64_000, "it sees what came since"
    writer.close()
    assert files_open_below(tmp_path) == [str(tmp_path / "anew.db")]
    archive.close()
    assert files_open_below(tmp_path) == []


def test_it_is_read_in_pages(tmp_path: Path) -> None:
    writer = Recording(tmp_path)
    keys = [writer.enqueue("a") for _ in range(5)]
    for key in keys:
        writer.run(key, 0, fails=True)
    writer.enqueue("never failed")
    archive = SqliteArchive(tmp_path)
    pages = [archive.histories(before, 2) for before in (None, keys[3], keys[1])]
    assert [[history.job.key for history in page] for page in pages] == [
        [keys[4], keys[3]],
        [keys[2], keys[1]],
        [keys[0]],
    ]
    assert archive.histories(keys[0], 2) == []
    archive.close()
    writer.close()


def test_where_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"holds no store; expected the --root-dir of a server"):
        SqliteArchive(tmp_path)
    assert [*tmp_path.iterdir()] == [], "and none was made"


@pytest.mark.parametrize(
    ("pragma", "error", "words"),
    [
        ("user_version = 99", NewerStore, "the store has schema 99"),
        ("user_version = 0", StoreFailed, "start its server once"),
        ("application_id = 7", StoreFailed, "another program"),
    ],
)
def test_a_store_of_another_kind_is_refused(
    tmp_path: Path, pragma: str, error: type[Exception], words: str
) -> None:
    open_sqlite(tmp_path).close()
    connection = apsw.Connection(str(tmp_path / "anew.db"))
    connection.execute(f"PRAGMA {pragma}")
    connection.close()
    with pytest.raises(error, match=words) as raised:
        SqliteArchive(tmp_path)
    assert raised.tb is not None, "whose frames would keep a connection that was left open"
    assert files_open_below(tmp_path) == []


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "anew.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreFailed, match="the store cannot be read") as raised:
        SqliteArchive(tmp_path)
    assert raised.tb is not None
    assert files_open_below(tmp_path) == []


def test_a_directory_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "is_file", refused)
    with pytest.raises(StoreFailed, match=r"^\".*cannot be read: Permission denied$"):
        SqliteArchive(tmp_path)

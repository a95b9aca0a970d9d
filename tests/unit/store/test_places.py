"""One store has one set of files, by whatever name its database is given."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from anew.engine.upkeep import recover
from anew.jobs import NewJob
from anew.store.sqlite import Places
from anew.tasks.opening import open_engine


def test_a_data_directory_has_its_files_to_itself(tmp_path: Path) -> None:
    places = Places.in_directory(tmp_path / "data")
    names = ["anew.db", "turnstile", "sessions", "reserve", "anew.lock", "webhooks.key"]
    assert places == Places(*(tmp_path / "data" / name for name in names))


def test_the_files_of_a_programs_own_database_have_its_name(tmp_path: Path) -> None:
    names = [
        "jobs.db",
        "jobs.db-turnstile",
        "jobs.db-sessions",
        "jobs.db-reserve",
        "jobs.db-server",
        "jobs.db-webhooks.key",
    ]
    assert Places.beside(tmp_path / "jobs.db") == Places(*(tmp_path / name for name in names))


@pytest.mark.parametrize("name", ["jobs.db", "jobs.sqlite", "jobs.sqlite3"])
def test_a_name_that_ends_as_a_databases_is_a_file(tmp_path: Path, name: str) -> None:
    assert Places.at(tmp_path / name) == Places.beside(tmp_path / name)
    (tmp_path / name).touch()
    assert Places.at(tmp_path / name) == Places.beside(tmp_path / name)


@pytest.mark.parametrize("name", ["anew-data", "anew.d", "v1.2"])
def test_any_other_name_is_a_data_directory_there_or_not(tmp_path: Path, name: str) -> None:
    assert Places.at(tmp_path / name) == Places.in_directory(tmp_path / name)
    (tmp_path / name).mkdir()
    assert Places.at(tmp_path / name) == Places.in_directory(tmp_path / name)


def test_a_directory_may_have_the_name_of_a_database(tmp_path: Path) -> None:
    (tmp_path / "data.db").mkdir()
    assert Places.at(tmp_path / "data.db").database == tmp_path / "data.db" / "anew.db"


def _directory_and_file(folder: Path) -> tuple[Path, Path]:
    (folder / "data").mkdir()
    return folder / "data", folder / "data" / "anew.db"


def _file_and_link(folder: Path) -> tuple[Path, Path]:
    (folder / "link.db").symlink_to("real.db")
    return folder / "real.db", folder / "link.db"


def _linked_folder(folder: Path) -> tuple[Path, Path]:
    (folder / "data").mkdir()
    (folder / "other").symlink_to("data")
    return folder / "data" / "jobs.db", folder / "other" / "jobs.db"


def _directory_with_linked_file(folder: Path) -> tuple[Path, Path]:
    (folder / "data").mkdir()
    (folder / "data" / "anew.db").symlink_to("../jobs.db")
    return folder / "data", folder / "jobs.db"


@pytest.mark.parametrize(
    "names", [_directory_and_file, _file_and_link, _linked_folder, _directory_with_linked_file]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_who_opens_a_store_by_another_name_finds_the_living_alive(
    tmp_path: Path, names: object, reverse: bool
) -> None:
    assert callable(names)
    one, other = reversed(names(tmp_path)) if reverse else names(tmp_path)
    first = open_engine(one)
    (key,) = first.enqueue([NewJob(type="t", queue="a", payload=msgspec.Raw(b"1"))])
    token = first.take(None, 1).token
    second = open_engine(other)
    assert recover(second.engine) == 0
    assert second.take(None, 1).rows == []
    assert first.succeed([key], token) == []
    first.close()
    second.close()

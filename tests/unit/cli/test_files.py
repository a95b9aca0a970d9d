"""Files that commands write: whole, or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from anew.cli.files import write_whole


def test_a_file_is_made_as_others_are(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new.svg", b"picture")
    finally:
        os.umask(before)
    assert (tmp_path / "new.svg").read_bytes() == b"picture"
    assert stat.S_IMODE((tmp_path / "new.svg").stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["new.svg"]


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "old.svg"
    path.write_bytes(b"a long picture")
    path.chmod(0o604)
    write_whole(path, b"picture")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"picture", 0o604)


@pytest.mark.parametrize("end", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("old", [None, b"old"])
def test_what_ends_in_the_middle_leaves_what_was_there(
    end: BaseException, old: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.svg"
    if old is not None:
        path.write_bytes(old)

    def ended(*names: str) -> NoReturn:
        raise end

    monkeypatch.setattr(os, "replace", ended)
    with pytest.raises(type(end)):
        write_whole(path, b"picture")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([] if old is None else [old])


def test_in_a_folder_that_takes_no_file_the_one_that_is_there_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.svg"
    path.write_bytes(b"old")

    def refused(**options: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    write_whole(path, b"picture")
    assert path.read_bytes() == b"picture"


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link.svg").symlink_to("target.svg")
    write_whole(tmp_path / "link.svg", b"picture")
    assert (tmp_path / "link.svg").is_symlink()
    assert (tmp_path / "target.svg").read_bytes() == b"picture"


def test_a_name_may_be_as_long_as_names_may_be(tmp_path: Path) -> None:
    """255 bytes: the file that is written first needs a name, too."""
    path = tmp_path / ("字" * 85)
    write_whole(path, b"picture")
    assert path.read_bytes() == b"picture"


def test_a_link_that_leads_nowhere_but_to_itself_is_an_error_of_the_system(tmp_path: Path) -> None:
    link = tmp_path / "loop.svg"
    link.symlink_to(link)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_whole(link, b"picture")
    assert link.is_symlink()


def test_what_is_no_file_is_written_to() -> None:
    write_whole(Path(os.devnull), b"picture")
    assert not Path(os.devnull).is_file()
    with pytest.raises(OSError, match="No such file"):
        write_whole(Path("no/such/folder/p.svg"), b"picture")

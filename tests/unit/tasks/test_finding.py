"""Where an application is: a module's name, or a file's path."""

from __future__ import annotations

from pathlib import Path

import pytest

from anew.errors import InvalidInput
from anew.tasks.finding import AppPlace, read_place


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("shop/jobs/mail.py", "shop/jobs/__init__.py", "shop/__init__.py", "src/tasks.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("text", "module", "name"),
    [
        ("tasks:app", "tasks", "app"),
        ("shop.jobs:app", "shop.jobs", "app"),
        ("shop.jobs:parts.app", "shop.jobs", "parts.app"),
        ("tasks", "tasks", ""),
        ("tasks:", "tasks", ""),
    ],
)
def test_a_module_is_found_from_the_working_directory(
    tmp_path: Path, text: str, module: str, name: str
) -> None:
    assert read_place(text) == AppPlace(text, tmp_path, module, None, name)


@pytest.mark.parametrize(
    ("text", "folder", "module", "name"),
    [
        ("src/tasks.py:app", "src", "tasks", "app"),
        ("src/tasks.py", "src", "tasks", ""),
        ("shop/jobs/mail.py:app", ".", "shop.jobs.mail", "app"),
    ],
)
def test_a_file_is_the_module_that_it_is_for_others(
    tmp_path: Path, text: str, folder: str, module: str, name: str
) -> None:
    file = tmp_path / text.partition(":")[0]
    assert read_place(text) == AppPlace(text, (tmp_path / folder).resolve(), module, file, name)


@pytest.mark.parametrize(
    "text", ["", ":app", "a b:app", "tasks:app:x", "tasks:1", "a..b:app", "missing.py:app", "src/x"]
)
def test_what_names_no_application_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"module:app or path/to/file\.py:app"):
        read_place(text)

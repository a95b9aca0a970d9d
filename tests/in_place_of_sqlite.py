"""Has tests that ask for stores in SQLite get some in PostgreSQL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from anew.store.postgres import open_postgres
from anew.store.sql.store import SqlStore
from anew.store.sqlite import open_sqlite
from tests.postgres import address, empty_database


class InPlaceOfSqlite:
    """Opens a database of its own for each directory, and for each store in memory, as long as a test runs."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._stores: list[SqlStore] = []

    def open(
        self, path: Path | None = None, *, keep_first: int = 10, keep_last: int = 90, **_: Any
    ) -> SqlStore:
        """As `open_sqlite`; what only a file has is passed over."""
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
        for gone in [place for place in self._numbers if isinstance(place, Path) and not place.exists()]:
            del self._numbers[gone]
        place = object() if path is None else path
        if (number := self._numbers.get(place)) is None:
            number = self._numbers[place] = min(set(range(1_000)) - set(self._numbers.values()))
            url = empty_database(f"test_{number}")
        else:
            url = address(f"test_{number}")
        self._stores.append(
            open_postgres(url, keep_first=keep_first, keep_last=keep_last)
        )  # until it is closed
        return self._stores[-1]


def use_in_place_of_sqlite(patch: pytest.MonkeyPatch) -> None:
    """Have the modules of tests that are loaded open databases where they ask for files."""
    opener = InPlaceOfSqlite()
    for name, module in list(sys.modules.items()):
        if (
            name.startswith("tests.")
            and getattr(module, "open_sqlite", None) is open_sqlite
            and name != __name__
        ):
            patch.setattr(module, "open_sqlite", opener.open)

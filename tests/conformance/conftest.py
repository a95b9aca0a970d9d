"""The engines of the store that the cases run on. A further engine is one more entry in `ENGINES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from anew.store.postgres import open_postgres
from anew.store.protocol import Reader, Store
from anew.store.sqlite import open_sqlite
from tests.postgres import empty_database

Opener = Callable[[], Store]

ENGINES: dict[str, Callable[[Path], Opener]] = {
    "sqlite in memory": lambda place: open_sqlite,
    "sqlite in a directory": lambda place: lambda: open_sqlite(place),
    "postgres": lambda place: partial(open_postgres, empty_database()),
}
LASTING = [name for name in ENGINES if "memory" not in name]


class Opened:
    """Opens the store of one test, again and again if it lasts, and closes what is left open."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._open: list[Store] = []
        self._readers: list[Reader] = []

    def open(self) -> Store:
        """Open it; one that lasts has what was committed before."""
        store = self._opener()
        read = store.reader

        def reader() -> Reader:
            self._readers.append(read())
            return self._readers[-1]

        store.reader = reader  # type: ignore[method-assign]
        self._open.append(store)
        return store

    def reopen(self, store: Store) -> Store:
        """Close it and open it again."""
        self._open.remove(store)
        store.close()
        return self.open()

    def close(self) -> None:
        """Close what is open."""
        for reader in self._readers:
            reader.close()
        for store in self._open:
            store.close()


@pytest.fixture(params=list(ENGINES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each engine."""
    opened = Opened(ENGINES[request.param](tmp_path / "data"))
    yield opened.open()
    opened.close()


@pytest.fixture(params=LASTING)
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """The place of a store of each engine that outlives its closing."""
    opened = Opened(ENGINES[request.param](tmp_path / "data"))
    yield opened
    opened.close()

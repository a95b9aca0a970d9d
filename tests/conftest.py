"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from anew.store.sqlite.store import open_stores
from tests.signals import undo_ignored_signals

undo_ignored_signals()

# Speed is measured in benchmarks: an example may take long on a busy machine without being wrong.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def no_store_outlives_its_test() -> Iterator[None]:
    """Close what a test has left open: its locks and sockets would meet those of the next."""
    before = set(open_stores())
    yield
    for store in set(open_stores()) - before:
        store.close()

"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from anew.store.sql import open_stores
from tests import refusals
from tests.signals import undo_ignored_signals

undo_ignored_signals()
refusals.check()

os.environ["ANEW_FWP_PORT"] = (
    "0"  # servers of tests stand beside each other, and beside one that somebody uses
)

# Speed is measured in benchmarks: an example may take long on a busy machine without being wrong.
# `make test` tries the same examples every time; `make nightly` looks for new ones.
settings.register_profile("daily", deadline=None, derandomize=True, database=None)
settings.register_profile("nightly", deadline=None, max_examples=1000)
settings.load_profile("nightly" if os.environ.get("ANEW_NIGHTLY") else "daily")


# Hundreds of thousands of objects are made while tests are collected. They stay, so nobody need look through them for garbage.
gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest, so that no process is left alone with them at the end."""
    items.sort(key=lambda item: "reliability" not in item.path.parts)


def pytest_collection_finish() -> None:
    """Have the collector look after what comes now."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a module marked `both_engines` twice."""
    if metafunc.definition.get_closest_marker("both_engines") is not None:
        metafunc.parametrize("engine_of_stores", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(autouse=True)
def engine_of_stores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """On which engine the stores are that a test opens."""
    engine: str = getattr(request, "param", os.environ.get("ANEW_TEST_STORE", "sqlite"))
    if engine == "postgres":
        from tests.in_place_of_sqlite import use_in_place_of_sqlite

        use_in_place_of_sqlite(monkeypatch)
    return engine


@pytest.fixture(autouse=True)
def no_store_outlives_its_test() -> Iterator[None]:
    """Close what a test has left open: its locks and sockets would meet those of the next."""
    before = set(open_stores())
    yield
    for store in set(open_stores()) - before:
        store.close()

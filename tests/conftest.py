"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

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


WAITING = frozenset({"reliability", "e2e", "fwp_clients", "typing"})
"""Folders whose tests mostly wait for processes that they start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread files whose tests wait among those whose tests calculate: of several workers some calculate at any time.

    Files stay whole, since their tests share servers; those that take longest, of `tests/reliability`, come first of their kind.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: "reliability" not in item.path.parts):
        files.setdefault(item.path, []).append(item)
    kinds: dict[bool, list[list[pytest.Item]]] = {True: [], False: []}
    for path, tests in files.items():
        kinds[bool(WAITING.intersection(path.parts))].append(tests)
    places = [(n / len(kind), tests) for kind in kinds.values() for n, tests in enumerate(kind)]
    items[:] = [item for _, tests in sorted(places, key=lambda place: place[0]) for item in tests]


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

"""Circuit breakers, as every store keeps them: by key."""

from __future__ import annotations

from anew.jobs.breaker import BreakerRow, BreakerState
from anew.store.protocol import Store

from .conftest import Opened
from .helpers import batch

FULL = BreakerRow(
    key="café",
    state=BreakerState.HALF_OPEN,
    runs=1.5,
    failures=0.1,
    retries=1e-300,
    at=1,
    opened=2,
    reopen_at=3,
    probe=(1 << 63) - 1,
    next_release_at=5,
)


def write(store: Store, *rows: BreakerRow) -> None:
    with batch(store):
        store.breakers.write(rows)


def test_a_breaker_is_read_back_as_it_was_written(lasting: Opened) -> None:
    store = lasting.open()
    write(store, FULL, BreakerRow(key="bare"))
    store = lasting.reopen(store)
    assert store.breakers.read(["bare", "none", "café"]) == [BreakerRow(key="bare"), FULL]
    assert store.breakers.read(["none"]) == store.breakers.read([]) == []


def test_a_breaker_is_written_over(store: Store) -> None:
    write(store, BreakerRow(key="a"), BreakerRow(key="b"))
    write(store, BreakerRow(key="a", state=BreakerState.OPEN))
    assert store.breakers.read(None) == [BreakerRow(key="a", state=BreakerState.OPEN), BreakerRow(key="b")]


def test_more_breakers_than_one_statement_names(store: Store) -> None:
    rows = [BreakerRow(key=f"{n:03}") for n in range(250)]
    write(store, *rows)
    assert store.breakers.read([row.key for row in rows]) == store.breakers.read(None) == rows


def test_those_that_are_not_closed_are_shown_first(store: Store) -> None:
    write(
        store,
        *(BreakerRow(key=key) for key in "ace"),
        BreakerRow(key="b", state=BreakerState.OPEN),
        BreakerRow(key="d", state=BreakerState.HALF_OPEN),
    )
    reader = store.reader()
    try:
        assert [row.key for row in reader.breakers(9, 9)] == ["b", "d", "a", "c", "e"]
        assert [row.key for row in reader.breakers(9, 3)] == ["b", "d", "a"]
        assert [row.key for row in reader.breakers(3, 9)] == ["b", "a", "c"]
        write(store, FULL)
        assert reader.breakers(9, 9)[1] == FULL
    finally:
        reader.close()

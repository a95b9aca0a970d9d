"""Cron entries, as every store keeps them: by key, and by their next slot."""

from __future__ import annotations

import msgspec

from anew.jobs.cron_entry import CronEntry, CronGroup
from anew.store.cron_rows import CronRow
from anew.store.protocol import Store

from .conftest import Opened
from .helpers import NOW, batch

FULL = CronEntry(
    expression="0 * * * *",
    timezone="Europe/Berlin",
    paused=True,
    paused_at=1,
    resumed_at=2,
    patience_ms=3,
    next_at=4,
    last_slot_at=5,
    last_fired_at=6,
)


def row(name: str, next_at: int | None = NOW, group: str = "conf") -> CronRow:
    return CronRow(group, name, CronEntry(expression="* * * * *", next_at=next_at), b'{"a":1}')


def write(store: Store, *rows: CronRow) -> None:
    with batch(store):
        store.cron.write(rows)


def names(rows: list[CronRow]) -> list[str]:
    return [row.name for row in rows]


def test_an_entry_is_read_back_as_it_was_written(lasting: Opened) -> None:
    store = lasting.open()
    written = CronRow("conf", "café", FULL, b"\x00job")
    write(store, written, row("bare", None))
    store = lasting.reopen(store)
    assert store.cron.entry("conf", "café") == written
    assert store.cron.entry("conf", "bare") == row("bare", None)
    assert store.cron.entry("other", "bare") is None


def test_an_entry_is_written_over(store: Store) -> None:
    write(store, row("a"), row("b"))
    write(store, CronRow("conf", "a", FULL, b"new"))
    assert store.cron.entries("conf", "", 9) == [CronRow("conf", "a", FULL, b"new"), row("b")]


def test_due_entries_come_with_the_one_first_that_waits_longest(store: Store) -> None:
    write(store, row("late", NOW), row("never", None), row("early", NOW - 5), row("not yet", NOW + 1))
    assert names(store.cron.due(NOW, 9)) == ["early", "late"]
    assert names(store.cron.due(NOW, 1)) == ["early"]
    assert store.cron.next_slot() == NOW - 5


def test_of_due_entries_with_long_jobs_few_come_at_a_time(store: Store) -> None:
    """Of 5 MiB each: two, with which 8 MiB are passed; the rest when these have gone on."""
    long = b"x" * (5 << 20)
    rows = [CronRow("conf", name, row(name, NOW - at).entry, long) for at, name in enumerate("edcba")]
    write(store, *rows)
    assert names(store.cron.due(NOW, 9)) == ["a", "b"]
    write(store, *(CronRow("conf", name, row(name, None).entry, b"") for name in "ab"))
    assert names(store.cron.due(NOW, 9)) == ["c", "d"]


def test_nothing_is_due_where_there_are_no_entries(store: Store) -> None:
    assert (store.cron.next_slot(), store.cron.due(NOW, 9)) == (None, [])


def test_entries_are_listed_by_group_and_name(store: Store) -> None:
    write(store, row("b"), row("a"), row("c", group="app"), row("a", group="zoo"))
    assert names(store.cron.all_entries(("", ""), 9)) == ["c", "a", "b", "a"]
    assert names(store.cron.all_entries(("conf", "a"), 1)) == ["b"]
    assert names(store.cron.entries("conf", "", 9)) == ["a", "b"]
    assert names(store.cron.entries("conf", "a", 9)) == ["b"]


def test_entries_are_removed_one_by_one(store: Store) -> None:
    write(store, row("a"), row("b"))
    with batch(store):
        store.cron.drop([("conf", "a"), ("conf", "nobody's")])
    assert names(store.cron.all_entries(("", ""), 9)) == ["b"]


def test_a_group_is_paused_as_a_whole(store: Store) -> None:
    write(store, row("a"), row("b", group="app"))
    with batch(store):
        store.cron.write_group("conf", CronGroup(paused=True, paused_at=5))
    write(store, row("later"))
    paused = {found.name: found.group_paused for found in store.cron.due(NOW, 9)}
    assert paused == {"a": True, "later": True, "b": False}
    with batch(store):
        store.cron.write_group("conf", CronGroup(paused_at=5, resumed_at=6))
    assert store.cron.entry("conf", "a") == row("a")


def test_a_group_is_read_back_as_it_was_written_and_needs_no_entries(lasting: Opened) -> None:
    store = lasting.open()
    assert (store.cron.group("none"), store.cron.groups(9)) == (None, [])
    written = CronGroup(paused=True, paused_at=1, resumed_at=2, timezone="Europe/Berlin")
    with batch(store):
        store.cron.write_group("conf", CronGroup())
        store.cron.write_group("conf", written)
        store.cron.write_group("Zebra", CronGroup())
        store.cron.write_group("école", CronGroup())
    store = lasting.reopen(store)
    assert (store.cron.group("conf"), store.cron.group("Zebra")) == (written, CronGroup())
    assert store.cron.groups(9) == ["Zebra", "conf", "école"]
    assert store.cron.groups(2) == ["Zebra", "conf"]


def test_entries_are_read_with_what_their_group_says(store: Store) -> None:
    write(store, row("a"), CronRow("conf", "b", FULL, b""), row("c", group="app"))
    with batch(store):
        store.cron.write_group("conf", CronGroup(paused=True, timezone="Asia/Tokyo"))
        store.cron.write_group("app", CronGroup())
    found = {row.name: row for row in store.cron.due(NOW, 9)}
    assert found == {row.name: row for group in ("app", "conf") for row in store.cron.entries(group, "", 9)}
    bare = {name: msgspec.structs.replace(row, job=b"") for name, row in found.items()}
    assert bare == {row.name: row for row in store.cron.all_entries(("", ""), 9)}
    assert {name: row.zone for name, row in found.items()} == {
        "a": "Asia/Tokyo",
        "b": "Europe/Berlin",
        "c": None,
    }
    assert store.cron.entry("conf", "a") == found["a"]
    assert store.cron.entries("conf", "", 9) == [found["a"], found["b"]]


def test_a_group_goes_with_its_entries_and_no_others(store: Store) -> None:
    write(store, row("a"), row("b"), row("a", group="app"))
    with batch(store):
        for name in ("conf", "app", "empty"):
            store.cron.write_group(name, CronGroup())
        store.cron.drop_group("conf")
        store.cron.drop_group("nobody's")
    assert store.cron.groups(9) == ["app", "empty"]
    assert [found.group for found in store.cron.all_entries(("", ""), 9)] == ["app"]
    with batch(store):
        assert store.cron.drop_all() == 2
    assert (store.cron.groups(9), store.cron.all_entries(("", ""), 9), store.cron.next_slot()) == (
        [],
        [],
        None,
    )


def test_a_groups_extent_counts_its_entries_and_the_bytes_of_their_jobs(store: Store) -> None:
    write(store, row("a"), row("b"), row("a", group="app"))
    assert store.cron.extent("conf") == (2, 2 * len(b'{"a":1}'))
    assert store.cron.extent("none") == (0, 0)


def test_entries_that_were_rolled_back_are_not_there(store: Store) -> None:
    store.begin(synced=False)
    store.cron.write([row("a")])
    store.rollback()
    assert store.cron.entry("conf", "a") is None


def test_entries_stay_when_all_jobs_are_removed(store: Store) -> None:
    write(store, row("a"))
    with batch(store):
        store.delete_all()
    assert names(store.cron.all_entries(("", ""), 9)) == ["a"]

"""Looks a store over, makes anew what is derived, copies it and puts copies back: beside a running server, or without one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from anew.clock import SystemClock
from anew.config import Settings
from anew.engine import Batch, Engine, recover
from anew.engine.upkeep import apply_one
from anew.errors import NotSupported
from anew.store.postgres import examine_postgres, open_postgres
from anew.store.sql.examination import Examination
from anew.store.sqlite import Copied, Places, back_up, examine, open_sqlite, restore
from anew.tasks.opening import DEFAULTS

SWEPT = 1_000
"""Records that are removed in one transaction: others write between two of them."""


def directory_of(settings: Settings) -> Path:
    """Give the data directory that the settings name."""
    return settings.store.root_dir


def file_of(settings: Settings) -> Path:
    """Give where the file is that holds the jobs, as `Places.at` has it.

    Raises:
        NotSupported: They are not in a file.
    """
    if settings.store.url is not None:
        raise NotSupported(
            "the jobs are in a PostgreSQL database (--store), which pg_dump and pg_restore copy"
        )
    return settings.store.root_dir


def store_of(settings: Settings) -> Path | str:
    """Give where the jobs are: a path as `Places.at` has it, or the address of a database."""
    return settings.store.url or settings.store.root_dir


def look_over(where: Path | str) -> Examination:
    """Look a store over; nothing is changed.

    Args:
        where: See `store_of`.

    Raises:
        NotFound: There is no store.
        StoreFailed: It cannot be read at all.
    """
    now = SystemClock().now()
    return examine_postgres(where, now) if isinstance(where, str) else examine(Places.at(where), now)


def make_anew(where: Path | str, seen: Examination) -> Examination:
    """Make anew what is derived, as far as it was found wrong, and look again.

    A server may go on beside it: every change is a transaction among its own.

    Raises:
        StoreBusy: Another process is writing and does not let go.
        StoreFailed: The store failed.
    """
    # Relaxed: a server that syncs nothing is a finding, and no reason to mend nothing.
    store = (
        open_postgres(where, relaxed=True)
        if isinstance(where, str)
        else open_sqlite(Places.at(where), exclusive=False)
    )
    try:
        engine = Engine(store, clock=store.clock, defaults=DEFAULTS)
        apply_one(engine, _mend_texts)
        recover(engine)  # sessions, holds, and what was begun and never came
        keys = {finding.name: finding.keys for finding in seen.findings}
        orphans = (*keys.get("payloads", ()), *keys.get("attempts", ()))
        apply_one(engine, lambda batch: store.records.leave_orphans(orphans))
        while apply_one(engine, lambda batch: store.records.sweep(SWEPT)):
            pass
        apply_one(engine, lambda batch: store.records.recount_records(keys.get("records", ())))
        apply_one(engine, _mend_limits)
        with closing(store.reader()) as reader:
            found = reader.recount()
        apply_one(engine, lambda batch: batch.correct(found))
    finally:
        store.close()
    return look_over(where)


def _mend_texts(batch: Batch) -> None:
    batch.set_aside_unreadable(limit=batch.store.mend_texts())


def _mend_limits(batch: Batch) -> None:
    batch.hooks.blocking.look(batch.store.key_limits.mend())


def copy_out(root_dir: Path, target: Path, progress: Callable[[int, int], None]) -> Copied:
    """Copy the store of a data directory into one file; see `back_up`."""
    return back_up(Places.at(root_dir), target, progress)


def copy_in(
    source: Path, root_dir: Path, progress: Callable[[int, int], None], *, force: bool = False
) -> Copied:
    """Make a copy the store of a data directory; see `restore`. What was in flight when it was made is ready again."""
    places = Places.at(root_dir)
    copied = restore(source, places, progress, force=force)
    store = open_sqlite(places, exclusive=False)
    try:
        recover(Engine(store, clock=store.clock, defaults=DEFAULTS))
    finally:
        store.close()
    return copied

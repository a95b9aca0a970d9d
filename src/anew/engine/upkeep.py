"""What happens to a store by itself: recovery at the start, lapsed leases, retention, and a watch over the free space."""

from __future__ import annotations

import logging

from anew.engine.engine import PROMOTE_JOBS, Engine
from anew.engine.settle import release_interrupted
from anew.errors import StoreFailed, StoreFull
from anew.jobs import Interrupted

log = logging.getLogger("anew.engine")


def recover(engine: Engine, *, batch: int = 5_000) -> int:
    """Give back everything that was in flight when the last server ended, and remove what it left half written.

    Returns:
        How many jobs are ready again.

    Raises:
        StoreFull: There is no space even for this.
        StoreFailed: The store failed.
    """
    returned = 0
    while True:
        n = _recover_some(engine, batch)
        returned += n
        if n < batch:
            return returned


def _recover_some(engine: Engine, batch: int) -> int:
    store = engine.store
    try:
        store.begin(synced=False)
        store.unstage()
        n = store.release_all(batch)
        store.commit()
    except Exception as error:
        known = error if isinstance(error, StoreFull | StoreFailed) else store.explain(error)
        if isinstance(known, StoreFull) and not engine.full:
            store.rollback()
            engine.full = True  # and so the first look at the space takes the reserve again once it can
            store.free_reserve()
            return _recover_some(engine, batch)
        if known is None or known is error:
            raise
        raise known from error
    return n


def tick(engine: Engine, now: int) -> int:
    """Do what is due whatever happens, inside a batch: lapsed leases go back, and the free space is looked at.

    Returns:
        How many leases had lapsed.
    """
    free = engine.store.free_bytes()
    if free is not None:
        _watch_space(engine, free)
    keys = engine.store.lapsed(now, PROMOTE_JOBS)
    if keys:
        release_interrupted(engine, keys, Interrupted("lease lapsed"), now)
        engine.free_slots(keys)
        engine.stats.released += len(keys)
    return len(keys)


def reap(engine: Engine, now: int) -> int:
    """Remove one portion of jobs whose retention is over, inside a batch; tell how many went."""
    n = engine.store.reap(now, PROMOTE_JOBS)
    engine.stats.reaped += n
    return n


def _watch_space(engine: Engine, free: int) -> None:
    short = free < engine.limits.min_free_bytes
    if short and not engine.full:
        log.error("little space left; new jobs are refused until there is more", extra={"free_bytes": free})
    elif engine.full and not short:
        engine.store.keep_reserve()
        log.warning("there is space again; new jobs are accepted", extra={"free_bytes": free})
    engine.full = short

"""What happens to a store by itself: lapsed holds, dead processes, retention, leftovers, and a watch over the free space.

Whichever process comes first does each of these; the transaction it is done in, and a row for what is periodic, keep others from
doing it again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from anew.engine.batch import Batch, Parts
from anew.engine.engine import PROMOTE_JOBS, Engine, left_of
from anew.engine.ops import Call, Op, Verb
from anew.errors import AnewError, StoreBusy
from anew.jobs import HoldEnd, Job
from anew.jobs.progress import KEPT_MS
from anew.store.protocol import Store

log = logging.getLogger("anew.engine")

SWEPT = 50
"""Records of deleted jobs, and rows of topics, that are removed in one batch: some milliseconds if each is as long as it may be."""

RECOVERED = 5_000
"""Jobs that are given back in one batch before the first request is served."""


class Upkeep:
    """The duties of one engine, some work in each batch.

    Args:
        reap_ms: How often jobs whose retention is over are removed.

    Attributes:
        interrupted: Jobs whose process has died while they ran, as the last `run` has left them.
    """

    def __init__(self, reap_ms: int = 30_000) -> None:
        self.interrupted: list[Job] = []
        self._reap_ms = reap_ms
        self._reaping = False
        self._recounting: threading.Thread | None = None

    def run(self, batch: Batch) -> bool:
        """Do some of what is due, inside a batch; report whether there is more."""
        self.interrupted = []
        watch_space(batch)
        more = lapse(batch) == PROMOTE_JOBS
        more |= self.end_dead_sessions(batch)
        more |= self._reap(batch)
        more |= batch.store.records.sweep(SWEPT)
        batch.set_aside_unreadable(PROMOTE_JOBS)
        return more

    def end_dead_sessions(self, batch: Batch, limit: int = PROMOTE_JOBS, *, noting: bool = True) -> bool:
        """Give back some of what processes held that have died, and note the jobs; report whether there may be more."""
        store = batch.store
        for session in store.processes.sessions():
            if session.alive:
                continue
            held = store.processes.held_by(session.id, limit)
            begun = store.processes.begun(session.id)
            suspects = held if begun is None else [key for key in held if key in begun]
            if suspects:
                batch.end_holds(suspects, HoldEnd.PROCESS_DIED)
                self.interrupted += store.load(suspects) if noting else ()
            if waiting := [key for key in held if begun is not None and key not in begun]:
                batch.end_holds(waiting, HoldEnd.NEVER_BEGUN)
            if len(held) == limit:
                return True
            if held:
                log.warning("process %d has died; its jobs are given back", session.pid)
            store.processes.drop(session.id)
            store.staging.unstage_abandoned()
            batch.ask_for_recount()
        return False

    def _reap(self, batch: Batch) -> bool:
        if not self._reaping:
            self._reaping = batch.store.is_due("reap", batch.now, self._reap_ms)
        if self._reaping:
            topics = batch.store.topics.purge(batch.now, SWEPT)
            self._reaping = reap(batch) + reap_hooks(batch) + topics > 0
        return self._reaping

    def recount(self, parts: Parts, correct: Callable[[Verb], None]) -> None:
        """Check all counters against the rows, in a separate thread with its own reader; work goes on meanwhile.

        Rows and counters are read in one snapshot, and only their difference is written, so that what is counted meanwhile stays
        counted. A finding carries the number of recounts before it: if another one has been written since, it is dropped, and
        the recount is made again.

        Args:
            parts: Of the engine; nothing is done unless its `recount_due` says so, nor while an earlier check is under way.
            correct: Called from the thread, if there is a difference, with the verb that writes it.
        """
        if not parts.recount_due or (self._recounting is not None and self._recounting.is_alive()):
            return
        parts.recount_due = False
        self._recounting = threading.Thread(
            target=_recount, args=(parts.store, correct), name="anew-recount", daemon=True
        )
        self._recounting.start()


def _recount(store: Store, correct: Callable[[Verb], None]) -> None:
    try:
        with closing(store.reader()) as reader:
            found = reader.recount()
    except Exception:
        log.exception("the counters could not be checked; `anew doctor` checks them too")
        return
    if found.counters or found.heads or found.blocked or found.forgotten:
        about = {"counters": len(found.counters) + len(found.blocked), "heads": len(found.heads)}
        about["limits"] = len(found.forgotten)
        log.warning("counters or heads of lines differ from the rows and are put right", extra=about)
        correct(lambda batch: batch.correct(found))


def lapse(batch: Batch) -> int:
    """Deal with holds that are past their deadline, inside a batch; report how many."""
    keys = batch.store.lapsed(batch.lease_time(batch.now), PROMOTE_JOBS)
    if keys:
        batch.end_holds(keys, HoldEnd.LAPSED)
    return len(keys)


def reap(batch: Batch) -> int:
    """Remove some jobs whose retention is over, inside a batch; report how many went."""
    n = batch.reap(PROMOTE_JOBS)
    batch.stats.reaped += n
    return n


def reap_hooks(batch: Batch) -> int:
    """Remove some locks, batches and records of progress whose time is over, inside a batch; report how many went."""
    rows = batch.store.hooks
    return (
        rows.reap_locks(batch.now, PROMOTE_JOBS)
        + batch.hooks.reap_batches(PROMOTE_JOBS)
        + rows.reap_progress(batch.now - KEPT_MS, PROMOTE_JOBS)
    )


class Compaction:
    """Removes what is needed no more and copies the store's log, some in each batch."""

    def __init__(self) -> None:
        self._asked = False

    def run(self, batch: Batch) -> bool:
        """Do some of it, inside a batch; report whether there is more."""
        more = batch.store.records.sweep(SWEPT)
        more |= reap(batch) + reap_hooks(batch) + batch.store.topics.purge(batch.now, SWEPT) > 0
        device = batch.store.device
        if more or device is None:
            return more
        if not self._asked:
            self._asked = True
            device.shorten_log()
        return not device.is_log_short()


def watch_space(batch: Batch) -> None:
    """Refuse new jobs while there is little space on the disk, and take them again when there is more."""
    device = batch.store.device
    if device is None:  # nobody can ask how much there is: the next batch finds out
        batch.full = False
        return
    free = device.free_bytes()
    short = free < batch.limits.min_free_bytes
    if short and not batch.full:
        log.error("little space left; new jobs are refused until there is more", extra={"free_bytes": free})
    elif batch.full and not short:
        device.keep_reserve()
        log.warning("there is space again; new jobs are accepted", extra={"free_bytes": free})
    batch.full = short


def recover(engine: Engine, *, limit: int = RECOVERED) -> int:
    """Give back everything that dead processes held, and remove what they left half written, before anything else is done.

    Args:
        engine: Of the process that starts.
        limit: Jobs that are given back in one batch.

    Returns:
        How many jobs are ready again.

    Raises:
        StoreFull: There is no space even for this.
        StoreBusy: Another process is writing and does not let go.
        StoreFailed: The store failed.
    """
    before = engine.stats.released
    duties = Upkeep()
    while apply_one(engine, lambda batch: _recover_some(duties, batch, limit)):
        pass
    return engine.stats.released - before


def _recover_some(duties: Upkeep, batch: Batch, limit: int) -> bool:
    if duties.end_dead_sessions(batch, limit, noting=False):
        return True
    # Only now: the rows of these sessions have gone, and to find none among a million jobs takes 30 ms.
    orphans = batch.store.processes.held_by(None, limit)
    if orphans:
        batch.release(orphans, None)
        batch.stats.released += len(orphans)
    batch.store.staging.unstage_abandoned()
    return len(orphans) == limit


def apply_one(engine: Engine, verb: Verb) -> Any:
    """Run one verb in one transaction, in a thread that may wait; raise the AnewError that it gives."""
    results: list[Any] = []
    wait_and_apply(engine, [Call(verb, results.append)])
    if isinstance(results[0], AnewError):
        raise results[0]
    return results[0]


def wait_and_apply(engine: Engine, ops: Sequence[Op], timeout_s: float = 30.0) -> None:
    """Apply operations in a thread that may wait.

    Raises:
        StoreBusy: Others kept the store busy for the whole time; what was not answered was not done.
    """
    until = time.monotonic() + timeout_s
    left = ops
    while True:
        try:
            engine.apply(left)
        except StoreBusy as busy:
            left = left_of(left, busy)
            if not engine.store.turns.wait_until_free(max(0.0, until - time.monotonic())):
                raise engine.store.turns.busy() from None
        else:
            return


def free_space(batch: Batch) -> int | None:
    """Give how many bytes can still be stored; None where the store lives on no disk of this machine. For `Call`."""
    device = batch.store.device
    return None if device is None else device.free_bytes()

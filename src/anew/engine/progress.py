"""Progress: what workers say about jobs that run, and in which state they are shown. Verbs for `Call`.

The rules are those of `anew.jobs.progress`. A job is known by its producer's id, or by its public id where it has none. It is
tracked by `JobHooks.tracked`. `report_progress` and `read_progress` are all that an edge needs.
"""

from __future__ import annotations

from collections.abc import Callable

from anew.engine.batch import Batch
from anew.jobs.hooks import Hook
from anew.jobs.progress import Progress, followed, is_over, reported
from anew.jobs.state import State
from anew.store.hook_rows import TrackedProgress
from anew.units import DAY_MS

LONGEST_EXTENSION_MS = DAY_MS
"""How far ahead a worker may have its reservation last."""


def report_progress(
    jid: str, percent: int | None = None, description: str | None = None, reserve_until: int | None = None
) -> Callable[[Batch], None]:
    """Write a worker's word about a job, whether it is tracked or not.

    Args:
        jid: The job.
        percent, description: As in `anew.jobs.progress.reported`; None keeps what there is.
        reserve_until: Have the job's reservation last until then, epoch ms; never shorter than it does, and
            `LONGEST_EXTENSION_MS` from now at most. None leaves it.
    """

    def verb(batch: Batch) -> None:
        old = _read(batch, jid)
        record = reported(None if old is None else old.record, percent, description, batch.now)
        rows = batch.store.hooks
        rows.write_progress([(jid, TrackedProgress(record, None if old is None else old.key))])
        reserved = batch.store.named([jid]) if reserve_until is not None else []
        if reserved and reserve_until is not None:
            deadline = min(reserve_until, batch.now + LONGEST_EXTENSION_MS)
            rows.extend_hold(reserved[-1].key, reserved[-1].token, batch.lease_time(deadline))

    return verb


def read_progress(jid: str) -> Callable[[Batch], Progress | None]:
    """Give what is known of a job: None if nothing is, or no longer."""

    def verb(batch: Batch) -> Progress | None:
        found = _read(batch, jid)
        if found is None or found.key is None:
            return None if found is None else found.record
        jobs = batch.hooks.among([found.key])
        # A retry whose time has come waits again, and nothing was written for that.
        if jobs and jobs[0].hooks & Hook.TRACKED and jobs[0].state is State.READY:
            return followed(found.record, State.READY, found.record.updated_at)
        return found.record

    return verb


def _read(batch: Batch, jid: str) -> TrackedProgress | None:
    found = batch.store.hooks.progress([jid]).get(jid)
    return None if found is None or is_over(found.record, batch.now) else found

"""What happens to jobs that are tied to something: unique keys, expiry, batches, progress, limits, inside a batch's transaction.

`anew.jobs` decides, `Store.hooks` writes, and this joins the two. `Batch` calls `happened` for whatever it makes of such jobs, just
before it writes that, `insert` for new ones, and `admit` for those that are taken. Jobs without ties never come here.

What an edge gives with a new job is `PushedJob.hooks` (`anew.jobs.codec.JobHooks`); what became of each new job says `Enqueued`.
The verbs for batches are in `anew.engine.job_batches`, those for progress in `anew.engine.progress`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from anew.engine.blocking import Blocking
from anew.engine.folding import FoldingTime, Folds
from anew.jobs.batches import (
    BatchRow,
    Callback,
    Level,
    Moved,
    Standing,
    callback_succeeded,
    child_moved,
    job_moved,
    joined,
    pending_succeeded,
    purge_at,
)
from anew.jobs.codec import JobHooks, LimitKey, NewJob, PushedJob
from anew.jobs.decide import initial_state
from anew.jobs.expiry import is_expired
from anew.jobs.fold import Expressions
from anew.jobs.hooks import Event, Hook, Hooked, result_of, standing_of
from anew.jobs.ids import IdText
from anew.jobs.job import Job
from anew.jobs.key_limits import KeyStanding
from anew.jobs.progress import followed, is_over
from anew.jobs.state import ENDED, State
from anew.jobs.transitions import Move
from anew.jobs.unique import Effect, End, Lock, Scope, conflicts, effect_of
from anew.store.hook_rows import TrackedProgress
from anew.store.key_limit_rows import LimitedJob
from anew.store.protocol import Store

log = logging.getLogger("anew.engine")


class Entry(StrEnum):
    """What became of one new job.

    CREATED: it is stored. DUPLICATE: another job has its unique key. REPEATED: it is there already under its producer's id.
    OTHER: another job is there under that id. FOLDED: it was merged into another. NO_BATCH: its batch is not known.
    """

    CREATED = "created"
    DUPLICATE = "duplicate"
    REPEATED = "repeated"
    OTHER = "other"
    FOLDED = "folded"
    NO_BATCH = "no batch"


_callback_job = msgspec.json.Decoder(PushedJob)


class Hooks:
    """Those of one transaction.

    Args:
        store: Where the rows are.
        ids: For jobs without an id of their producer's.
        now: Epoch ms.
        enqueue: Stores a callback's job.
        expressions: What evaluates those of jobs that are folded together.

    Attributes:
        expired: Jobs that `admit` has found to be expired; they are in flight, held by nobody, and are to be ended.
        limits: What happens to the limits of keys; None as long as nothing has.
        turned_away: How many jobs `admit` has given, these and those that it has blocked.
    """

    def __init__(
        self,
        store: Store,
        ids: IdText,
        now: int,
        enqueue: Callable[[PushedJob], object],
        expressions: Expressions | None = None,
    ) -> None:
        self._store = store
        self._rows = store.hooks
        self._ids = ids
        self._now = now
        self._enqueue = enqueue
        self._expressions = expressions
        self._folding_time = FoldingTime()
        self._folds: Folds | None = None
        self._batches: dict[int, BatchRow | None] = {}
        self._changed: set[int] = set()
        self.expired: list[int] = []
        self.limits: Blocking | None = None
        self.turned_away = 0

    @property
    def blocking(self) -> Blocking:
        """The limits of keys."""
        if self.limits is None:
            self.limits = Blocking(self._store.key_limits, self._now)
        return self.limits

    # -- what happens to jobs

    def happened(self, jobs: Iterable[Hooked], event: Event, state: State | None) -> None:
        """Follow what an event makes of some jobs' ties.

        Args:
            jobs: As they are before it.
            event: What happens to all of them.
            state: Where they stand after it; None if their records go.
        """
        followers: list[Hooked] = []
        released: list[int] = []
        claimed: list[Lock] = []
        failed: list[int] = []
        expiring: list[int] = []
        limited: dict[int, State] = {}
        for job in jobs:
            if job.hooks & Hook.LIMITED and event is not Move.TAKE:
                limited[job.key] = job.state
            if job.digest is not None and job.scope is not None:
                effect = effect_of(Scope(job.scope), event)
                if effect is Effect.RELEASE:
                    released.append(job.key)
                elif effect is Effect.CLAIM:
                    claimed.append(Lock(job.digest, job.key, Scope(job.scope)))
            if job.batch is not None and self._count(job, job.batch, event):
                failed.append(job.key)
            if job.hooks & Hook.EXPIRES:
                expiring.append(job.key)
            if job.hooks & Hook.TRACKED:
                followers.append(job)
        if released:
            self._rows.release_locks(released)
        if claimed:
            self._rows.claim_locks(claimed, self._now)
        if failed:
            self._rows.add(failed, Hook.FAILED)
        if event is End.EXPIRED:
            self._rows.add(expiring, Hook.EXPIRED)
        elif event is Move.REDRIVE:
            self._rows.drop_expiry(expiring)
        if followers:
            self._follow(followers, state)
        if limited:
            self.blocking.leave(limited, removed=state is None)

    def members_succeeded(self, batch: int, jobs: int) -> None:
        """Count so many pending members of a batch as succeeded; their records are gone."""
        row = self.find_batch(batch)
        if row is not None:
            self.move(pending_succeeded(row, jobs))

    def among(self, keys: Sequence[int]) -> list[Hooked]:
        """Read the ties of those of some jobs that have any."""
        return self._rows.among(keys) if keys else []

    def admit(self, keys: Sequence[int]) -> set[int]:
        """Look at jobs that were just taken; give those that nobody may get: they have expired, or their key is full."""
        jobs = self._rows.among(keys)
        away = {job.key for job in jobs if is_expired(job.expires_at, self._now)}
        self.expired += away
        limited = [job.key for job in jobs if job.hooks & Hook.LIMITED and job.key not in away]
        if limited:
            away |= self.blocking.admit(limited)
        self.happened([job for job in jobs if job.key not in away], Move.TAKE, State.IN_FLIGHT)
        self.turned_away += len(away)
        return away

    def _follow(self, jobs: Sequence[Hooked], state: State | None) -> None:
        """Write the state of tracked jobs; of one whose record goes after its end, its last state stays."""
        named = {self._name(job): job for job in jobs if state is not None or job.state not in ENDED}
        found = self._rows.progress(list(named))
        records: list[tuple[str, TrackedProgress]] = []
        for name, job in named.items():
            old = found.get(name)
            record = None if old is None or is_over(old.record, self._now) else old.record
            records.append((name, TrackedProgress(followed(record, state, self._now), job.key)))
        self._rows.write_progress(records)

    def _name(self, job: Hooked) -> str:
        return job.jid or self._ids.write(job.key)

    # -- new jobs

    def sort(self, keys: Sequence[int], jobs: Sequence[NewJob]) -> dict[int, tuple[Entry, int]]:
        """Tie new jobs that are about to be stored, and say which of them are not.

        Returns:
            By place, for those that are not: why, and the key of the job that is there already; -1 for NO_BATCH.

        Raises:
            InvalidInput: One cannot be folded; nothing is written.
            Overloaded: Folds take too long, or cannot be evaluated now; nothing is written.
        """
        tied = [
            (at, job, job.hooks) for at, job in enumerate(jobs) if isinstance(job, PushedJob) and job.hooks
        ]
        ties = [one for _, _, one in tied]
        digests = [one.fold for one in ties if one.fold is not None]
        folds = Folds(self._store, self._expressions, self._folding_time, self._now, digests)
        self._load({one.batch for one in ties if one.batch is not None})
        new = _NewTies(self._store, [(job, one) for _, job, one in tied], folds, self._batches, self._now)
        out: dict[int, tuple[Entry, int]] = {}
        for at, job, one in tied:
            there = new.find(keys[at], job, one)
            if there is None:
                new.add(keys[at], job, one, self._ids)
            else:
                out[at] = there
        for batch, n in new.members.items():
            self.move(joined(self.batch(batch), n))
        self._rows.take_locks([*new.locks.values(), *folds.locks()])
        self._folds = folds  # not before: a callback of a batch is stored by a call within this one
        self._rows.write_progress(list(new.records.items()))
        return out

    def write_folded(self) -> Mapping[int, int]:
        """Write what the last list that was sorted has made of open jobs, once its own jobs are stored.

        Returns:
            The keys of those that are to run at other times, with these, epoch ms.
        """
        folds, self._folds = self._folds, None
        return {} if folds is None else folds.write()

    def came(self, keys: Sequence[int], jobs: Sequence[NewJob]) -> None:
        """Tie those of some jobs, which are stored now, to their limits' keys that have one."""
        limited: list[tuple[LimitedJob, LimitKey]] = []
        for key, job in zip(keys, jobs, strict=True):
            limit = job.hooks.limit if isinstance(job, PushedJob) and job.hooks is not None else None
            if limit is not None:
                is_ready = initial_state(job.ready_at, self._now) is State.READY
                standing = KeyStanding.UNBLOCKED if is_ready else KeyStanding.FREE
                limited.append((LimitedJob(key, limit.name, standing, job.queue, job.priority), limit))
        if limited:
            self.blocking.came(limited)

    # -- batches

    def batch(self, key: int) -> BatchRow:
        """Give a batch as it is now; raises KeyError if there is none."""
        row = self.find_batch(key)
        if row is None:
            raise KeyError(key)
        return row

    def find_batch(self, key: int) -> BatchRow | None:
        """Give a batch as it is now, or None."""
        if key not in self._batches:
            self._load({key})
        return self._batches[key]

    def add_batch(self, row: BatchRow) -> None:
        """Know a batch that was just written."""
        self._batches[row.key] = row

    def move(self, moved: Moved) -> None:
        """Note what a move makes of a batch, enqueue its callbacks, and tell its parents."""
        while True:
            row, told = moved.row, moved.told
            self._batches[row.key] = row
            self._changed.add(row.key)
            for callback in moved.enqueue:
                self._call_back(row.key, callback)
            parent = None if told is None else self.find_batch(told.parent)
            if told is None or parent is None:
                return
            moved = child_moved(parent, told.before, told.after)

    def _call_back(self, batch: int, callback: Callback) -> None:
        """Enqueue the job of a callback, once and for all: its own unique key, if it has one, does not hold."""
        parts = self._rows.batch_parts(batch)
        stored = parts.on_complete if callback is Callback.COMPLETE else parts.on_success
        try:
            job = _callback_job.decode(stored or b"")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # Whoever settles a job of the batch cannot help it, and must be able to go on.
            log.error(
                "a batch's callback cannot be read, and never comes",
                extra={"batch": batch, "callback": callback.value, "reason": str(error)},
            )
            return
        given = job.hooks or JobHooks()
        job.hooks = JobHooks(
            expires_at=given.expires_at,
            tracked=given.tracked,
            batch=batch,
            callback=callback.value,
            limit=given.limit,
        )
        self._enqueue(job)

    def write(self) -> None:
        """Write the batches that have changed, each once."""
        rows = [row for key in sorted(self._changed) if (row := self._batches[key]) is not None]
        self._changed.clear()
        self._rows.write_batches([(row, purge_at(row, self._now)) for row in rows])

    def reap_batches(self, limit: int) -> int:
        """Remove batches whose time is over; a parent waits no longer for one that was never committed."""
        gone = [key for key in self._rows.purgeable_batches(self._now, limit) if key not in self._changed]
        for key in gone:
            row = self.batch(key)
            parent = None if row.parent is None else self.find_batch(row.parent)
            if not row.committed and parent is not None:
                self.move(child_moved(parent, Level.OPEN, Level.SUCCEEDED))
            self._batches[key] = None
            self._changed.discard(key)
        self._rows.delete_batches(gone)
        return len(gone)

    def forget(self) -> None:
        """All jobs, batches, locks and records have been removed."""
        self._batches.clear()
        self._changed.clear()
        self.expired.clear()

    def _load(self, keys: set[int]) -> None:
        unknown = keys - self._batches.keys()
        if unknown:
            self._batches.update(dict.fromkeys(unknown))
            self._batches.update({row.key: row for row in self._rows.batches(sorted(unknown))})

    def _count(self, job: Hooked, batch: int, event: Event) -> bool:
        """Count an event in a job's batch; report whether the job counts as failed from now on."""
        row = self.find_batch(batch)
        if row is None:
            return False
        if not job.hooks & Hook.MEMBER:
            if event is Move.COMPLETE:
                done = Callback.COMPLETE if job.hooks & Hook.COMPLETE else Callback.SUCCESS
                self.move(callback_succeeded(row, done))
            return False
        result = result_of(job, event)
        if result is None:
            return False
        standing = standing_of(job)
        moved, after = job_moved(row, standing, result)
        self.move(moved)
        return after is Standing.FAILED and standing is Standing.PENDING


class _NewTies:
    """The ties of the new jobs of one list: which of these jobs are there already, and what is to be written of the others.

    Args:
        store: Where stored jobs and their ties are.
        tied: The list's jobs that have some.
        folds: What becomes of those with a key to fold by.
        batches: All that they name, by key; None: it is not known.
        now: Epoch ms.

    Attributes:
        locks: Of unique keys, by digest.
        members: How many join each batch.
        records: Of progress, by the jobs' ids.
    """

    def __init__(
        self,
        store: Store,
        tied: Sequence[tuple[PushedJob, JobHooks]],
        folds: Folds,
        batches: Mapping[int, BatchRow | None],
        now: int,
    ) -> None:
        self._store, self._folds, self._batches, self._now = store, folds, batches, now
        rows = store.hooks
        once = list(dict.fromkeys(job.jid for job, ties in tied if ties.once))
        self._once = rows.stored_once(once) if once else {}
        self._same: dict[int, PushedJob | Job] = self._alike(tied) if self._once else {}
        digests = list(dict.fromkeys(ties.unique.digest for _, ties in tied if ties.unique is not None))
        held = rows.locks(digests) if digests else []
        self._held: dict[bytes, tuple[Lock, State | None]] = {lock.digest: (lock, at) for lock, at in held}
        self.locks: dict[bytes, Lock] = {}
        self.members: Counter[int] = Counter()
        self.records: dict[str, TrackedProgress] = {}

    def find(self, key: int, job: PushedJob, ties: JobHooks) -> tuple[Entry, int] | None:
        """Give what there is in place of a new job, as `Hooks.sort` does; None: it is to be stored.

        Raises:
            InvalidInput, Overloaded: It cannot be folded.
        """
        if ties.once and job.jid in self._once:
            there = self._once[job.jid]
            return (Entry.REPEATED if self._is_same(there, job) else Entry.OTHER), there
        if ties.batch is not None and self._batches.get(ties.batch) is None:
            return Entry.NO_BATCH, -1
        if ties.unique is not None and (found := self._held.get(ties.unique.digest)) is not None:
            lock, state = found
            if conflicts(lock, Scope(ties.unique.scope), state, self._now):
                return Entry.DUPLICATE, lock.job_key
        into = None if ties.fold is None else self._folds.enter(key, job, ties, ties.fold)
        return None if into is None else (Entry.FOLDED, into)

    def _alike(self, tied: Sequence[tuple[PushedJob, JobHooks]]) -> dict[int, PushedJob | Job]:
        """Read the stored jobs whose payload may be that of one under the same id: no more is read than came."""
        sizes = self._store.payload_sizes(list(self._once.values()))
        found = [(self._once.get(job.jid), job) for job, ties in tied if ties.once]
        alike = {key for key, job in found if key is not None and sizes.get(key) == len(job.payload)}
        return {job.key: job for job in self._store.load(alike, payload=True)}

    def _is_same(self, there: int, job: PushedJob) -> bool:
        """Report whether a job is what is there, or in the list before it, by type and payload. A patch may change the queue."""
        before = self._same.get(there)
        if before is None or before.type != job.type:
            return False
        return before.payload is None or bytes(before.payload) == bytes(
            job.payload
        )  # None: it cannot be read

    def add(self, key: int, job: PushedJob, ties: JobHooks, ids: IdText) -> None:
        """Tie a job that is to be stored; those behind it in the list find it."""
        state = initial_state(job.ready_at, self._now)
        if ties.once:
            self._once[job.jid], self._same[key] = key, job
        if ties.unique is not None:
            digest, scope, ends_at = ties.unique.digest, Scope(ties.unique.scope), ties.unique.ends_at
            self.locks[digest] = lock = Lock(digest, key, scope, ends_at)
            self._held[digest] = lock, state
        if ties.batch is not None and ties.callback is None:
            self.members[ties.batch] += 1
        if ties.tracked:
            record = followed(None, state, self._now)
            self.records[job.jid or ids.write(key)] = TrackedProgress(record, key)

"""One open transaction of an engine: what verbs may do inside it, and how it is undone in memory if it does not last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from anew.backoff import phase_of_ordinal, phase_offset
from anew.engine.hooks import Entry, Hooks
from anew.engine.lease_time import LeaseTime
from anew.engine.reservers import Reservers
from anew.engine.stats import Stats
from anew.engine.takers import TURNED_AWAY, Dispatcher, Taker, Undo
from anew.jobs import (
    Cancelled,
    Change,
    Defaults,
    Failed,
    HoldEnd,
    IdText,
    Interrupted,
    Job,
    NewJob,
    Snoozed,
    State,
    decide_cancel,
    decide_snooze,
    verdict_of,
)
from anew.jobs.codec import PushedJob
from anew.jobs.decide import (
    completed_purge_at,
    corrupt_purge_at,
    dead_purge_at,
    decide_corruption,
    decide_failure,
)
from anew.jobs.expiry import expired
from anew.jobs.fold import Expressions
from anew.jobs.hooks import Event, Hook, move_between
from anew.jobs.ids import COUNTER_BITS
from anew.jobs.interruption import decide_interruption, limit_of
from anew.jobs.patch import Patch, patched, released
from anew.jobs.transitions import Move
from anew.jobs.unique import End
from anew.jobs.zizq_ties import beside_said
from anew.store.protocol import Hold, Recount, Rewrite, Store, TakenRow

_NONE: Mapping[int, Any] = MappingProxyType({})
_ready_at = attrgetter("ready_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the engine bounds.

    Attributes:
        global_in_flight: Most jobs in flight over all takers; 0 for no limit.
        max_lease_ms: How long one hold of a stream may last.
        min_free_bytes: Below this free space new jobs are refused; settling goes on.
    """

    global_in_flight: int = 1_024
    max_lease_ms: int = 12 * 3_600_000
    min_free_bytes: int = 512 << 20


class Enqueued(Struct, frozen=True, gc=False):
    """What became of new jobs, each by itself.

    Attributes:
        keys: One for each, in the order given: of the job that was created, or of the one that it duplicates, repeats or was folded
            into, or that has its producer's id; -1 for NO_BATCH.
        now: When this was decided, epoch ms.
        existing: By place: what became of those that were not created.
    """

    keys: Sequence[int]
    now: int
    existing: Mapping[int, Entry] = _NONE

    def part(self, start: int, n: int) -> Enqueued:
        """Give what became of `n` of them."""
        keys = self.keys[start : start + n]
        if not self.existing:
            return Enqueued(keys, self.now)
        here = {at - start: entry for at, entry in self.existing.items() if start <= at < start + n}
        return Enqueued(keys, self.now, here)


class Ended(NamedTuple):
    """The jobs of one transaction whose attempts were reported on.

    Attributes:
        completed: The keys of those that succeeded.
        failed: The keys of those that failed, whether or not they run again.
    """

    completed: list[int]
    failed: list[int]


class Numbers:
    """Gives out numbers that must not repeat in any process: the jobs' keys, and the phases of those that fail.

    The store writes them with its commits, and says where to go on.

    Args:
        store: What keeps them.
    """

    def __init__(self, store: Store) -> None:
        self._identity = store.identity
        # Without an offset the n-th failures of all stores would share one phase.
        self._offset = phase_offset(self._identity.tag.encode("ascii"), key=self._identity.secret)

    def next_keys(self, n: int, now: int) -> range:
        """Give `n` consecutive keys: from the clock, and above every earlier one."""
        first = max(self._identity.last_key + 1, now << COUNTER_BITS)
        self._identity.last_key = first + n - 1
        return range(first, first + n)

    def next_phase(self) -> float:
        """Give the phase of one more job that fails for the first time, in [0, 1); see ``phase_of_ordinal``."""
        self._identity.last_failure += 1
        return phase_of_ordinal(self._identity.last_failure, self._offset)


@dataclass(slots=True)
class Parts:
    """What the batches of one engine work with.

    Attributes:
        reservers: Who was given reservations.
        lease_time: By which holds end.
        expressions: What evaluates those of jobs that are folded together; None: none are.
        worker: What the worker in this process is called; None: jobs are not run in it.
        on_ended: Called after each commit with the attempts that ended in it; None: nobody listens, and nothing is noted.
        full: New jobs are refused for want of space.
        recount_due: A process has died: counters are derived, and are to be checked against the rows.
        taken_away: How often jobs may have lost their holds by other means than a report: here, or by another process's writes.
    """

    store: Store
    dispatcher: Dispatcher
    reservers: Reservers
    lease_time: LeaseTime
    numbers: Numbers
    defaults: Defaults
    limits: Limits
    ids: IdText
    stats: Stats
    rng: Callable[[], float]
    expressions: Expressions | None = None
    worker: str | None = None
    on_ended: Callable[[Ended], None] | None = None
    full: bool = False
    recount_due: bool = False
    taken_away: int = 0


class Batch:
    """One transaction.

    Args:
        parts: What it works with.
        now: Epoch ms. It is read again once the transaction has begun, and is then the same for all of it.

    Attributes:
        cron_changed: Cron entries may have other slots before them.
        due_changed: Waiting jobs may be due at other times than before.
        take_goes_on: A take has met so many jobs that may not start that it has left others in line for the next batch.
        deliveries: What was taken, to be handed out after the commit.
        ended: The attempts that were reported on, if anybody listens.
        on_undo: Called if the transaction does not last.
        undo: Holds that were let go of, to be put back if the transaction does not last.
        workers: Who ran the attempts that end in it, by the jobs' keys; see `name_worker`.
    """

    __slots__ = (
        "_hooked",
        "_hooks",
        "_parts",
        "cron_changed",
        "defaults",
        "deliveries",
        "due_changed",
        "ended",
        "now",
        "on_undo",
        "reservers",
        "stats",
        "store",
        "take_goes_on",
        "undo",
        "workers",
    )

    def __init__(self, parts: Parts, now: int) -> None:
        self._parts = parts
        self.now = now
        self.store = parts.store
        self.reservers = parts.reservers
        self.defaults = parts.defaults
        self.stats = parts.stats
        self.due_changed = self.cron_changed = self.take_goes_on = False
        self.deliveries: list[tuple[Taker, list[TakenRow]]] = []
        self.on_undo: list[Callable[[], None]] = []
        self.undo: Undo = []
        self.workers: dict[int, str | None] = {}
        self.ended = None if parts.on_ended is None else Ended([], [])
        self._hooks: Hooks | None = None
        self._hooked: set[int] = set()

    @property
    def full(self) -> bool:
        """Whether new jobs are refused for want of space."""
        return self._parts.full

    @full.setter
    def full(self, full: bool) -> None:
        self._parts.full = full

    @property
    def hooks(self) -> Hooks:
        """What becomes of unique keys, expiry, batches and progress."""
        if self._hooks is None:
            parts = self._parts
            self._hooks = Hooks(
                self.store, parts.ids, self.now, lambda job: self.insert([job]), parts.expressions
            )
        return self._hooks

    def admit(self, keys: Sequence[int]) -> set[int]:
        """Look at jobs that were just taken and are tied to something; give those that nobody may get."""
        return self.hooks.admit(keys)

    def write_hooks(self) -> None:
        """Write what is written once in a transaction, at its end."""
        if self._hooks is not None:
            self._hooks.write()
            self.unblock()

    def unblock(self) -> int:
        """Put jobs into line whose keys let them start now; report how many."""
        limits = None if self._hooks is None else self._hooks.limits
        return 0 if limits is None else limits.settle()

    def looked(self) -> bool:
        """Report whether keys may be due to be looked at at other times than before."""
        limits = None if self._hooks is None else self._hooks.limits
        return limits is not None and limits.looked

    def ask_for_recount(self) -> None:
        """Have the counters checked against the rows, beside the work that goes on."""
        self._parts.recount_due = True

    def correct(self, found: Recount) -> None:
        """Put right what a recount has found; whoever waits for jobs looks again."""
        if not self.store.correct(found):
            self.ask_for_recount()  # something else was put right meanwhile, perhaps the same
        if found.forgotten:
            self.hooks.blocking.look(found.forgotten)
        self._parts.dispatcher.look_again()

    def lease_time(self, instant: int) -> int:
        """Give the lease time of an instant: by it holds end."""
        return self._parts.lease_time.at(instant)

    @property
    def limits(self) -> Limits:
        """What the engine bounds."""
        return self._parts.limits

    @property
    def ids(self) -> IdText:
        """Writes and reads public ids."""
        return self._parts.ids

    # -- new jobs

    def keys_for(self, n: int) -> Sequence[int]:
        """Give rising keys for new jobs, above all that were ever given."""
        return self._parts.numbers.next_keys(n, self.now)

    def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        plain: bool = False,
        keys: Sequence[int] | None = None,
    ) -> Enqueued:
        """Store new jobs.

        Args:
            jobs: All or none.
            plain: None of them says anything beyond type, queue and payload.
            keys: Those under which their long payloads have been written ahead.
        """
        staged = keys is not None
        keys = self.keys_for(len(jobs)) if keys is None else keys
        if plain:
            self.store.insert_plain(keys, jobs, self.now)
        elif [job for job in jobs if isinstance(job, PushedJob) and job.hooks is not None]:
            return self._insert_hooked(keys, jobs, staged=staged)
        else:
            self.store.insert(keys, jobs, self.now, staged=staged)
            self.due_changed |= any(map(_ready_at, jobs))
        self.stats.enqueued += len(jobs)
        return Enqueued(keys, self.now)

    def _insert_hooked(self, keys: Sequence[int], jobs: Sequence[NewJob], *, staged: bool) -> Enqueued:
        """Store those of some new jobs that are not there already and whose batches are known.

        Raises:
            InvalidInput, Overloaded: One cannot be folded; nothing is written.
        """
        out = self.hooks.sort(keys, jobs)
        if staged:
            for at in out:
                self.store.staging.unstage(keys[at], keys[at])
        created = [at for at in range(len(jobs)) if at not in out]
        if created:
            own = [keys[at] for at in created]
            self.store.insert(own, [jobs[at] for at in created], self.now, staged=staged)
            self.hooks.came(own, [jobs[at] for at in created])
            self.due_changed = True
            self.stats.enqueued += len(created)
        due = self.hooks.write_folded()
        if due:
            self.rewrite(
                (job, patched(job, Patch(ready_at=due[job.key]), self.now)) for job in self.store.load(due)
            )
        if not out:
            return Enqueued(keys, self.now)
        answered = list(keys)
        entries: dict[int, Entry] = {}
        for at, (entry, existing) in out.items():
            answered[at] = existing
            entries[at] = entry
        return Enqueued(answered, self.now, entries)

    # -- the ends of attempts

    def finish(self, keys: Collection[int]) -> set[int]:
        """Complete jobs in flight; give the keys of those that were."""
        done: set[int] = set()
        if self.defaults.completed_ms == 0:
            members: dict[int, int] = {}
            done.update(self.store.finish(list(keys), members))
            for batch, n in members.items():
                self.hooks.members_succeeded(batch, n)
        if len(done) < len(keys):
            done.update(self._complete([key for key in keys if key not in done]))
        self.free(done)
        self.stats.completed += len(done)
        if self.ended is not None:
            self.ended.completed.extend(done)
        return done

    def _complete(self, keys: list[int]) -> list[int]:
        """Complete jobs with retention, attempts or a payload that is kept apart; jobs not in flight are left alone."""
        kept: list[tuple[int, int]] = []
        gone: list[int] = []
        for job in self.in_flight(keys):
            purge_at = completed_purge_at(job.retention, self.defaults, self.now)
            if purge_at is None:
                gone.append(job.key)
            else:
                kept.append((job.key, purge_at))
        self._tell(Move.COMPLETE, State.COMPLETED, [key for key, _ in kept], gone)
        return self.store.complete(kept, self.now) + self.store.delete(gone)

    def keep_results(self, results: Sequence[tuple[int, bytes]]) -> None:
        """Write the results of jobs that `finish` has completed, beside what their producers said of their ties."""
        tied = [key for key, _ in results if key in self._hooked]
        if tied:
            metas = {job.key: job.meta for job in self.store.load(tied)}
            results = [(key, beside_said(metas.get(key), result)) for key, result in results]
        self.store.keep_results(results)

    def in_flight(self, keys: Iterable[int]) -> list[Job]:
        """Read those of some jobs that are in flight."""
        found = [job for job in self.store.load(keys) if job.state is State.IN_FLIGHT]
        self._hooked.update([job.key for job in found if job.hooks & ~Hook.ONCE])  # that one follows nothing
        return found

    def _tell(
        self, event: Event, state: State | None, keys: Iterable[int], gone: Collection[int] = ()
    ) -> None:
        """Tell the hooks of an event of jobs that `in_flight` has read; the records of some go with it."""
        if not self._hooked:
            return
        jobs = self.hooks.among([key for key in dict.fromkeys([*keys, *gone]) if key in self._hooked])
        self.hooks.happened(jobs, event, state)
        reaped = [job._replace(state=State.CANCELLED) for job in jobs if job.key in gone]
        self.hooks.happened(reaped, End.REAPED, None)

    def name_worker(self, key: int, told: str | None = None) -> None:
        """Note who ran an attempt that ends, for its record: who was told, or holds it, or runs jobs in this process."""
        taker = self._parts.dispatcher.holders.get(key)
        self.workers[key] = told or (self._parts.worker if taker is None else taker.name)

    def decide_outcome(self, job: Job, outcome: Failed | Snoozed | Cancelled) -> Change:
        """Decide what the reported end of an attempt makes of its job."""
        match outcome:
            case Failed():
                return self.decide(job, outcome)
            case Snoozed():
                before = self.store.records.count_outcomes(job.key, outcome.outcome)
                return decide_snooze(job, outcome, before=before, defaults=self.defaults, now=self.now)
            case Cancelled():
                return decide_cancel(job, outcome, defaults=self.defaults, now=self.now)

    def decide(self, job: Job, failure: Failed) -> Change:
        """Decide what a failed attempt makes of its job."""
        parts = self._parts
        return decide_failure(
            job,
            failure,
            job_id=self.id_of(job.key),
            defaults=self.defaults,
            now=self.now,
            rng=parts.rng,
            phase=job.phase if job.phase is not None else parts.numbers.next_phase(),
            key=self.store.identity.secret,
        )

    def id_of(self, key: int) -> bytes:
        """Give the public id of a job."""
        return self._parts.ids.write_bytes(key)

    def end_holds(self, keys: Sequence[int], end: HoldEnd) -> None:
        """Deal with jobs whose hold has ended without a report, as its kind says."""
        by_kind: dict[int | None, list[int]] = {}
        # Not whole jobs: a process may die with a million of them.
        for key, kind in self.store.hold_kinds(keys):
            by_kind.setdefault(kind, []).append(key)
        given_back: dict[Interrupted | None, list[int]] = {}
        changes: list[Change] = []
        for kind, held in by_kind.items():
            match verdict_of(kind, end):
                case Failed() as failed:
                    jobs = self.in_flight(held)
                    self._name_reservers(jobs)
                    changes += [self.decide(job, failed) for job in jobs]
                case Interrupted() as interrupted:
                    given_back.setdefault(interrupted, []).extend(held)
                case "release":
                    given_back.setdefault(None, []).extend(held)
                case "stand":
                    pass
        if changes:
            self.settle(changes)
            self.stats.failed += len(changes)
            self.stats.lapsed += len(changes)
            if self.ended is not None:
                self.ended.failed.extend(change.key for change in changes)
        for interruption, released_keys in given_back.items():
            self.release(released_keys, interruption)
            self.stats.released += len(released_keys)

    def _name_reservers(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            token, worker = self.reservers.last(job.key) or (None, None)
            if token == job.hold_token:
                self.workers[job.key] = worker

    def settle(self, changes: Sequence[Change]) -> set[int]:
        """Write what the ends of attempts make of their jobs, which are held no longer; give the keys written."""
        if self._hooked:
            self._tell_settled(changes)
        written = set(self.store.apply(changes, self.workers))
        self.free(written)
        self.due_changed = True
        for change in changes:
            if change.state is State.DEAD and change.key in written:
                self.stats.died += 1
                self.stats.corrupt += change.attempt.outcome == "corrupt"
        return written

    def _tell_settled(self, changes: Sequence[Change]) -> None:
        told: dict[tuple[Move, State, bool], list[int]] = {}
        for change in changes:
            told.setdefault((change.move, change.state, change.remove), []).append(change.key)
        for (move, state, removed), keys in told.items():
            self._tell(move, state, keys, set(keys) if removed else ())

    def set_aside_unreadable(self, limit: int) -> int:
        """End, as dead and corrupt, jobs that a read has met and could not read; tell how many. See `Store.set_aside`."""
        purge_at = corrupt_purge_at(None, self.defaults, self.now)
        keys = self.store.set_aside(limit, purge_at, self.now)
        if keys:
            # Where it stood is lost; but for one that had completed, its batch has yet to hear of its end.
            tied = {job.key for job in self.store.load(keys) if job.hooks and job.completed_at is None}
            jobs = [job._replace(state=State.READY) for job in self.hooks.among(sorted(tied))]
            self.hooks.happened(jobs, Move.DIE, State.DEAD)
            self.free(keys)
            self.stats.corrupt += len(keys)
            self.ask_for_recount()  # where they were counted until now, nobody can say
        return len(keys)

    def set_aside(self, corrupt: dict[int, str]) -> None:
        """End jobs in flight whose stored parts cannot be read."""
        jobs = self.in_flight(corrupt)
        self.settle([decide_corruption(job, corrupt[job.key], self.defaults, self.now) for job in jobs])

    def give_back(self, keys: Sequence[int], interrupted: Interrupted | None) -> int:
        """Release what takers still hold of some jobs; what another process has ended, or taken since, is left alone.

        Returns:
            How many were released.
        """
        self.free_ended(keys)
        holders = self._parts.dispatcher.holders
        held = [key for key in keys if key in holders]
        self.release(held, interrupted)
        return len(held)

    def give_back_reserved(self, key: int, token: int) -> bool:
        """Release one job whose reservation nobody has heard of; report whether it still stood."""
        held = self.store.held_under([(key, token)])
        self.release([key for key, _ in held], None)
        return bool(held)

    def release(self, keys: Sequence[int], interrupted: Interrupted | None) -> None:
        """Give back jobs whose hold ended without a verdict.

        Args:
            keys: The jobs; those not in flight are left alone.
            interrupted: How the hold ended, which counts, and delays or ends jobs to which it happens again and again; None for
                an end that is nobody's fault.
        """
        if interrupted is not None and limit_of(interrupted, self.defaults):
            changes = [
                decide_interruption(job, interrupted, defaults=self.defaults, now=self.now)
                for job in self.in_flight(keys)
            ]
            self.settle([change for change in changes if change is not None])
            return
        held = [job for job in self.hooks.among(keys) if job.state is State.IN_FLIGHT]
        done = set(self.store.release(keys, self.now, interrupted=interrupted is not None))
        self.hooks.happened([job for job in held if job.key in done], Move.RELEASE, State.READY)
        if len(done) < len(keys):
            later = self.in_flight(key for key in keys if key not in done)
            counted = interrupted is not None
            self.rewrite([(job, released(job, counted=counted)) for job in later])
        self.take_away(keys)

    # -- changes from outside

    def rewrite(self, changes: Iterable[tuple[Job, Job]]) -> list[int]:
        """Write jobs as somebody's changes have made them; give the keys written."""
        real = [(before, after) for before, after in changes if before != after]
        self.due_changed = True
        for before, after in real:
            if before.hooks and before.state is not after.state:
                move = move_between(before.state, after.state)
                self.hooks.happened(self.hooks.among([before.key]), move, after.state)
            elif before.hooks & Hook.LIMITED and before.state is State.READY:
                self.hooks.blocking.leave({before.key: before.state}, removed=False)
        return self.store.rewrite([Rewrite(after, before.queue, before.state) for before, after in real])

    def delete(self, keys: Sequence[int]) -> list[int]:
        """Remove jobs in whatever state; give the keys that were there."""
        self.hooks.happened(self.hooks.among(keys), End.DELETED, None)
        deleted = self.store.delete(keys)
        self.take_away(deleted)
        self.due_changed = True
        return deleted

    def delete_all(self) -> int:
        """Remove every job, lock, batch and record of progress; report how many jobs there were."""
        count = self.store.delete_all()
        self.hooks.forget()
        self.take_away(list(self._parts.dispatcher.holders))
        self.due_changed = True
        return count

    def reap(self, limit: int) -> int:
        """Remove some jobs whose retention is over; report how many."""
        self.hooks.happened(self.store.hooks.purgeable(self.now, limit), End.REAPED, None)
        return self.store.reap(self.now, limit)

    def free(self, keys: Iterable[int]) -> None:
        """Note that jobs are in flight no longer; if the transaction does not last, their holders have them again."""
        self._parts.dispatcher.settle(keys, self.undo)

    def take_away(self, keys: Iterable[int]) -> None:
        """As `free`, of jobs whose holders have not reported: workers in this process look whether those were theirs."""
        self._parts.taken_away += 1
        self.free(keys)

    def free_ended(self, keys: Iterable[int]) -> None:
        """Free the slots of those of some jobs that another process has ended."""
        self._parts.dispatcher.free_ended(keys)

    # -- takes

    def new_token(self) -> int:
        """Give a token that no other take has."""
        return self._parts.dispatcher.new_token()

    def take_under(
        self, hold: Hold, queues: Sequence[str] | None, limit: int, max_bytes: int
    ) -> list[TakenRow]:
        """Take ready jobs for a holder that keeps no connection; what cannot be read is set aside."""
        corrupt: dict[int, str] = {}
        hooks, take = self.hooks, self._parts.dispatcher.take_readable
        first = hooks.turned_away
        rows: list[TakenRow] = []
        while len(rows) < limit:
            before = hooks.turned_away
            rows += take(queues, limit - len(rows), max_bytes, hold, corrupt, hooks.admit)
            if hooks.limits is None and hooks.turned_away == before:
                break
            ended = self.end_expired()
            if not (ended + self.unblock() or hooks.turned_away > before):
                break
            if hooks.turned_away >= first + TURNED_AWAY:
                self.take_goes_on = True
                break
        if not rows and hooks.turned_away > first:  # a batch promotes only some of those that are due
            due_at = self.store.next_due()
            self.take_goes_on |= due_at is not None and due_at <= self.now
        if corrupt:
            self.set_aside(corrupt)
        self.stats.taken += len(rows)
        return rows

    def take(self) -> None:
        """Hand ready jobs to whoever waits for some."""
        ended = 0
        self.unblock()
        while ended < TURNED_AWAY:
            corrupt = self._parts.dispatcher.run(self.now, self.deliveries, self.admit)
            if corrupt:
                self.set_aside(corrupt)
            if self._hooks is None:  # nothing that was taken is tied to anything
                return
            # Slots are free again, a callback may have come, or a key's next jobs.
            found = self.end_expired() + self.unblock()
            if not found:
                return
            ended += found
        self._parts.dispatcher.look_again()

    def end_expired(self) -> int:
        """End the jobs that a take has found to be expired; report how many."""
        if self._hooks is None or not self._hooks.expired:
            return 0
        keys = self.hooks.expired
        self.hooks.expired = []
        kept: list[tuple[Job, Job]] = []
        gone: list[int] = []
        for job in self.in_flight(keys):
            after = expired(job, dead_purge_at(job.retention, self.defaults, self.now))
            if after.purge_at is None:
                gone.append(job.key)
            else:
                kept.append((job, after))
        self._tell(End.EXPIRED, State.CANCELLED, [job.key for job, _ in kept], gone)
        self.store.rewrite([Rewrite(after, job.queue, job.state) for job, after in kept])
        self.store.delete(gone)
        self.stats.expired += len(keys)
        return len(keys)

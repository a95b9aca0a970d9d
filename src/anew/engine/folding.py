"""Folds the new jobs of one list into the open jobs of their keys, some of which may stand in the same list.

`anew.jobs.fold` says when an open job's expressions are asked. All are asked before anything is written, so that a fold that fails
refuses its list and leaves no trace.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from msgspec import Struct

from anew.errors import Overloaded, TooLarge
from anew.jobs.codec import FoldRule, JobHooks, NewJob, PushedJob
from anew.jobs.decide import initial_state
from anew.jobs.fold import (
    ALWAYS,
    MOST_CALLS,
    MOST_MERGED_CALLS,
    Expressions,
    FoldEntry,
    check_folded,
    due_of,
    entry_of,
    expires_of,
)
from anew.jobs.hooks import Hook
from anew.jobs.ids import COUNTER_BITS
from anew.jobs.state import State
from anew.jobs.unique import Lock, Scope
from anew.jobs.zizq_ties import Folding, said_of
from anew.store.protocol import Store

FOLDING_S = 0.25
"""How long the folds of one transaction may take together, but for the last of them: everybody else waits for it. Usual ones take
0.3 ms each."""


class FoldingTime:
    """What is left of `FOLDING_S` in one transaction.

    Attributes:
        seconds: May be below zero.
    """

    def __init__(self) -> None:
        self.seconds = FOLDING_S


class _Open(Struct):
    """The open job of a key.

    Attributes:
        key: The job.
        state: Where it stands.
        due_at: When it may run, epoch ms.
        expires_at: When it expires, epoch ms; None if it does not.
        rule: Its own expressions; None if they cannot be read.
        payload: As it is by now; None if it cannot be read, is too long to be folded with the new job that asks, or is not needed.
        jobs: How many of the list were folded into it.
    """

    key: int
    state: State
    due_at: int
    expires_at: int | None
    rule: Folding | None = None
    payload: bytes | None = None
    jobs: int = 0


class Folds:
    """What becomes of one list.

    Args:
        store: Where stored jobs are.
        expressions: What evaluates; None: nothing is folded that needs it.
        left: What the expressions may take yet.
        now: Epoch ms.
        digests: Of the keys that the list's new jobs are folded by.
    """

    def __init__(
        self,
        store: Store,
        expressions: Expressions | None,
        left: FoldingTime,
        now: int,
        digests: Iterable[bytes],
    ) -> None:
        self._store = store
        wanted = list(dict.fromkeys(digests))
        held = store.hooks.locks(wanted) if wanted else []
        self._held = {lock.digest: (lock.job_key, state) for lock, state in held}
        self._expressions = expressions
        self._left = left
        self._now = now
        self._open: dict[bytes, _Open | None] = {}
        self._opened: dict[bytes, Lock] = {}
        self._changed: dict[int, _Open] = {}
        self._due_at: dict[int, int] = {}
        self._calls = self._merged_calls = 0

    def enter(self, key: int, job: NewJob, ties: JobHooks, digest: bytes) -> int | None:
        """Fold a new job into the open one of its key; give that one's key. None: it is to be stored.

        Args:
            key: The new job's.
            job: The new job; a call that is debounced gets its time.
            ties: The new job's.
            digest: Of its key to fold by.

        Raises:
            InvalidInput: The expression fails on the two payloads, or the list has too many calls.
            Overloaded: The folds of this transaction have taken too long already, or nothing can be evaluated now.
        """
        payload, call = bytes(job.payload), ties.rule
        if call is not None:
            self._count(call)
        holder = self._open[digest] if digest in self._open else self._stored(digest, len(payload), call)
        state = None if holder is None else holder.state
        entry = entry_of(job.ready_at, state, self._now, is_call=call is not None)
        if entry is FoldEntry.APART:
            return None
        if entry is FoldEntry.ASK and holder is not None:
            merged = payload if _replaces(call) else self._ask(holder, payload, call)
            if merged is not None:
                self._fold(holder, merged, job, ties)
                self._open[digest] = holder
                return holder.key
        if call is not None:
            job.ready_at = due_of(call, job.ready_at, self._now, first_at=self._now)
        rule = said_of(job.meta).batch if isinstance(job, PushedJob) else None
        state, due_at = initial_state(job.ready_at, self._now), job.ready_at or self._now
        self._open[digest] = _Open(key, state, due_at, ties.expires_at, rule, payload)
        self._opened[digest] = Lock(digest, key, Scope.OPEN)
        return None

    def locks(self) -> list[Lock]:
        """Give the locks of the jobs that are open now and were not."""
        return list(self._opened.values())

    def write(self) -> Mapping[int, int]:
        """Write what open jobs have become, once the list's own jobs are stored; give those that have another time, with it."""
        for key, job in self._changed.items():
            assert job.payload is not None
            self._store.fold_into(key, job.payload, job.jobs, job.expires_at)
        return self._due_at

    def _count(self, call: FoldRule) -> None:
        """Refuse a list with so many calls that others would wait long for it."""
        self._calls += 1
        self._merged_calls += call.merge is not None
        if self._calls > MOST_CALLS:
            raise _too_many(MOST_CALLS, "debounced or merged")
        if self._merged_calls > MOST_MERGED_CALLS:
            raise _too_many(MOST_MERGED_CALLS, "merged by an expression")

    def _stored(self, digest: bytes, size: int, call: FoldRule | None) -> _Open | None:
        """Find the open job of a key, for a new one whose payload has so many bytes."""
        key, state = self._held.get(digest, (-1, None))
        if entry_of(None, state, self._now, is_call=call is not None) is not FoldEntry.ASK:
            return None
        (job,) = self._store.load([key], payload=self._is_short(key, size, call))
        expires_at = None
        if job.hooks & Hook.EXPIRES:
            (hooked,) = self._store.hooks.among([key])
            expires_at = hooked.expires_at
        return _Open(key, job.state, job.ready_at, expires_at, said_of(job.meta).batch, job.payload)

    def _is_short(self, key: int, size: int, call: FoldRule | None) -> bool:
        """Report whether a stored payload is to be read: 32 MiB that are not folded would take 30 ms."""
        if self._expressions is None or _replaces(call):
            return False
        return self._store.payload_sizes([key]).get(key, 0) <= self._expressions.most_bytes - size

    def _ask(self, holder: _Open, payload: bytes, call: FoldRule | None) -> bytes | None:
        when, fold = None, None
        if call is not None:
            when, fold = ALWAYS, call.merge
        elif holder.rule is not None:
            when, fold = holder.rule.when, holder.rule.fold
        if when is None or fold is None or holder.payload is None or self._expressions is None:
            return None
        if self._left.seconds <= 0:
            raise Overloaded(
                "the folds of new jobs take too long; try again in a second, with fewer in one request"
            )
        begun = time.perf_counter()
        try:
            merged = self._expressions.folded(when, fold, holder.payload, payload)
        finally:
            self._left.seconds -= time.perf_counter() - begun
        if merged is not None:
            check_folded(merged)
        return merged

    def _fold(self, holder: _Open, merged: bytes, job: NewJob, ties: JobHooks) -> None:
        """Note what a new job makes of the open one."""
        holder.payload = merged
        holder.jobs += 1
        self._changed[holder.key] = holder
        if ties.rule is None:
            return
        first_at = holder.key >> COUNTER_BITS
        due_at = due_of(ties.rule, job.ready_at, self._now, first_at=first_at, due_at=holder.due_at)
        holder.expires_at = expires_of(holder.expires_at, ties.expires_at)
        if due_at is not None and due_at != holder.due_at and not (due_at <= self._now >= holder.due_at):
            holder.due_at = self._due_at[holder.key] = due_at


def _replaces(call: FoldRule | None) -> bool:
    """Report whether a call's payload takes the place of the former one, whatever that is."""
    return call is not None and call.merge is None


def _too_many(most: int, what: str) -> TooLarge:
    return TooLarge(
        f"jobs: expected at most {most} that are {what} in one list, got more; enqueue them in several",
        field="jobs",
    )

"""Folds the new jobs of one list into the open jobs of their keys, some of which may stand in the same list.

`anew.jobs.fold` says when an open job's expressions are asked. All are asked before anything is written, so that a fold that fails
refuses its list and leaves no trace.
"""

from __future__ import annotations

import time

from msgspec import Struct

from anew.errors import Overloaded
from anew.jobs.codec import NewJob, PushedJob
from anew.jobs.fold import Entry, Expressions, check_folded, entry_of
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
        rule: Its own expressions; None if they cannot be read.
        payload: As it is by now; None if it cannot be read, or is too long to be folded with the new job that asks.
    """

    key: int
    state: State
    rule: Folding | None = None
    payload: bytes | None = None


class Folds:
    """What becomes of one list.

    Args:
        store: Where stored jobs are.
        expressions: What evaluates; None: nothing is folded.
        left: What the expressions may take yet.
        now: Epoch ms.
    """

    def __init__(self, store: Store, expressions: Expressions | None, left: FoldingTime, now: int) -> None:
        self._store = store
        self._expressions = expressions
        self._left = left
        self._now = now
        self._open: dict[bytes, _Open | None] = {}
        self._opened: dict[bytes, Lock] = {}
        self._merged: dict[int, bytes] = {}

    def enter(self, key: int, job: NewJob, digest: bytes) -> int | None:
        """Fold a new job into the open one of its key; give that one's key. None: it is to be stored.

        Args:
            key: The new job's.
            job: The new job.
            digest: Of its key to fold by.

        Raises:
            InvalidInput: The open job's expression fails on the two payloads.
            Overloaded: The folds of this transaction have taken too long already, or nothing can be evaluated now.
        """
        payload = bytes(job.payload)
        holder = self._open[digest] if digest in self._open else self._stored(digest, len(payload))
        entry = entry_of(job.ready_at, None if holder is None else holder.state, self._now)
        if entry is Entry.APART:
            return None
        if entry is Entry.ASK and holder is not None:
            merged = self._ask(holder, payload)
            if merged is not None:
                holder.payload = self._merged[holder.key] = merged
                self._open[digest] = holder
                return holder.key
        rule = said_of(job.meta).batch if isinstance(job, PushedJob) else None
        self._open[digest] = _Open(key, State.READY, rule, payload)
        self._opened[digest] = Lock(digest, key, Scope.OPEN)
        return None

    def locks(self) -> list[Lock]:
        """Give the locks of the jobs that are open now and were not."""
        return list(self._opened.values())

    def write(self) -> None:
        """Write what open jobs' payloads have become, once the list's own jobs are stored."""
        for key, payload in self._merged.items():
            self._store.rewrite_payload(key, payload)

    def _stored(self, digest: bytes, size: int) -> _Open | None:
        """Find the open job of a key, for a new one whose payload has so many bytes."""
        most = 0 if self._expressions is None else self._expressions.most_bytes - size
        for lock, state in self._store.hooks.locks([digest]):
            if state is State.READY:
                # To read 32 MiB that are not folded would take 30 ms.
                is_short = self._store.payload_sizes([lock.job_key]).get(lock.job_key, 0) <= most
                (job,) = self._store.load([lock.job_key], payload=is_short)
                return _Open(job.key, job.state, said_of(job.meta).batch, job.payload)
        return None

    def _ask(self, holder: _Open, payload: bytes) -> bytes | None:
        rule = holder.rule
        if rule is None or holder.payload is None or self._expressions is None:
            return None
        if self._left.seconds <= 0:
            raise Overloaded(
                "the folds of new jobs take too long; try again in a second, with fewer in one request"
            )
        begun = time.perf_counter()
        try:
            merged = self._expressions.folded(rule.when, rule.fold, holder.payload, payload)
        finally:
            self._left.seconds -= time.perf_counter() - begun
        if merged is not None:
            check_folded(merged)
        return merged

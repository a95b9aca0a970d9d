"""Folds the new jobs of one list into the open jobs of their keys, some of which may stand in the same list.

`anew.jobs.fold` says when an open job's expressions are asked. All are asked before anything is written, so that a fold that fails
refuses its list and leaves no trace.
"""

from __future__ import annotations

from msgspec import Struct

from anew.jobs.codec import NewJob, PushedJob
from anew.jobs.fold import Entry, Expressions, entry_of
from anew.jobs.state import State
from anew.jobs.unique import Lock, Scope
from anew.jobs.zizq_ties import Folding, said_of
from anew.store.protocol import Store


class _Open(Struct):
    """The open job of a key.

    Attributes:
        key: The job.
        state: Where it stands.
        rule: Its own expressions; None if they cannot be read.
        payload: As it is by now; None if it cannot be read.
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
        now: Epoch ms.
    """

    def __init__(self, store: Store, expressions: Expressions | None, now: int) -> None:
        self._store = store
        self._expressions = expressions
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
        """
        holder = self._open[digest] if digest in self._open else self._stored(digest)
        entry = entry_of(job.ready_at, None if holder is None else holder.state, self._now)
        if entry is Entry.APART:
            return None
        if entry is Entry.ASK and holder is not None:
            merged = self._ask(holder, bytes(job.payload))
            if merged is not None:
                holder.payload = self._merged[holder.key] = merged
                self._open[digest] = holder
                return holder.key
        rule = said_of(job.meta).batch if isinstance(job, PushedJob) else None
        self._open[digest] = _Open(key, State.READY, rule, bytes(job.payload))
        self._opened[digest] = Lock(digest, key, Scope.OPEN)
        return None

    def locks(self) -> list[Lock]:
        """Give the locks of the jobs that are open now and were not."""
        return list(self._opened.values())

    def write(self) -> None:
        """Write what open jobs' payloads have become, once the list's own jobs are stored."""
        for key, payload in self._merged.items():
            self._store.rewrite_payload(key, payload)

    def _stored(self, digest: bytes) -> _Open | None:
        for lock, state in self._store.hooks.locks([digest]):
            if state is State.READY:
                (job,) = self._store.load([lock.job_key], payload=True)
                return _Open(job.key, job.state, said_of(job.meta).batch, job.payload)
        return None

    def _ask(self, holder: _Open, payload: bytes) -> bytes | None:
        rule = holder.rule
        if rule is None or holder.payload is None or self._expressions is None:
            return None
        return self._expressions.folded(rule.when, rule.fold, holder.payload, payload)

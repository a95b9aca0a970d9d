"""What jobs are tied to: locks of unique keys, batches, progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from anew.jobs.batches import BatchRow, CallbackState
from anew.jobs.hooks import Hook, Hooked
from anew.jobs.progress import Progress, Word
from anew.jobs.state import State
from anew.jobs.unique import Lock, Scope
from anew.store.hook_rows import BatchParts, TrackedProgress
from anew.store.sql.rows import STATE
from anew.store.sql.statements import Run, in_lists, in_widths

_Row = tuple[Any, ...]
TABLES = ("unique_lock", "batch", "progress")


class SqlHooks:
    """The rows of one store; nothing of them is cached. What has no text here is said in `anew.store.hook_rows.HookRows`.

    Args:
        run: Runs a statement of the connection that writes.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def among(self, keys: Sequence[int]) -> list[Hooked]:
        return [_hooked(row) for part in in_lists(keys) for row in self._rows("hooked", part)]

    def purgeable(self, now: int, limit: int) -> list[Hooked]:
        return [_hooked(row) for row in self._run("purgeable_hooked", (now, limit)).fetchall()]

    def add(self, keys: Sequence[int], hook: Hook) -> None:
        for part in in_lists(keys):
            self._run("add_hooks", (int(hook), *part), len(part))

    def drop_expiry(self, keys: Sequence[int]) -> None:
        for part in in_lists(keys):
            self._run("drop_expiry", (int(~(Hook.EXPIRES | Hook.EXPIRED)), *part), len(part))

    def stored_once(self, jids: Sequence[str]) -> dict[str, int]:
        return {jid: key for part in in_lists(jids) for jid, key in self._rows("stored_once", part)}

    # -- unique keys

    def locks(self, digests: Sequence[bytes]) -> list[tuple[Lock, State | None]]:
        rows = [row for part in in_lists(digests) for row in self._rows("locks", part)]
        return [
            (Lock(digest, key, _scope(scope), at), STATE.get(code)) for digest, key, scope, at, code in rows
        ]

    def take_locks(self, locks: Sequence[Lock]) -> None:
        for part in in_widths(locks):
            rows = [(lock.digest, lock.job_key, str(lock.scope), lock.ends_at) for lock in part]
            self._run("take_locks", tuple(chain.from_iterable(rows)), len(part))

    def claim_locks(self, locks: Iterable[Lock], now: int) -> None:
        for lock in locks:
            self._run("claim_lock", (lock.digest, lock.job_key, str(lock.scope), now))

    def release_locks(self, keys: Sequence[int]) -> None:
        for part in in_lists(keys):
            self._run("release_locks", part, len(part))

    def reap_locks(self, now: int, limit: int) -> int:
        return len(self._run("reap_locks", (now, limit)).fetchall())

    # -- batches

    def insert_batch(self, row: BatchRow, parts: BatchParts, purge_at: int | None) -> None:
        self._run("insert_batch", (row.key, row.parent, *_counters(row), purge_at, *parts))

    def batches(self, keys: Sequence[int]) -> list[BatchRow]:
        return [_batch(row) for part in in_lists(keys) for row in self._rows("batches", part)]

    def write_batches(self, rows: Iterable[tuple[BatchRow, int | None]]) -> None:
        for row, purge_at in rows:
            self._run("write_batch", (*_counters(row), purge_at, row.key))

    def batch_parts(self, key: int) -> BatchParts:
        return BatchParts(*self._run("batch_parts", (key,)).fetchone())

    def purgeable_batches(self, now: int, limit: int) -> list[int]:
        return [key for (key,) in self._run("purgeable_batches", (now, limit)).fetchall()]

    def delete_batches(self, keys: Sequence[int]) -> None:
        for part in in_lists(keys):
            self._run("delete_batches", part, len(part))

    # -- progress

    def progress(self, jids: Sequence[str]) -> dict[str, TrackedProgress]:
        found: dict[str, TrackedProgress] = {}
        for part in in_lists(jids):
            for jid, key, word, percent, description, updated_at in self._rows("progress", part):
                if word not in _WORDS:
                    continue
                record = Progress(Word(word), percent, description, updated_at)
                found[jid] = TrackedProgress(record, key)
        return found

    def write_progress(self, records: Sequence[tuple[str, TrackedProgress]]) -> None:
        for part in in_widths(records):
            rows = [(jid, one.key, str(one.record.word), *_said(one.record)) for jid, one in part]
            self._run("write_progress", tuple(chain.from_iterable(rows)), len(part))

    def reap_progress(self, until: int, limit: int) -> int:
        return len(self._run("reap_progress", (until, limit)).fetchall())

    def extend_hold(self, key: int, token: int, deadline: int) -> None:
        self._run("extend_hold", (deadline, key, token))

    def _rows(self, name: str, part: Sequence[Any]) -> list[_Row]:
        rows: list[_Row] = self._run(name, part, len(part)).fetchall()
        return rows


def _hooked(row: _Row) -> Hooked:
    key, code, hooks, expires_at, batch, digest, scope, jid, folded = row
    scope = None if scope is None else _scope(scope)
    return Hooked(key, STATE.get(code, State.DEAD), hooks, expires_at, batch, digest, scope, jid, folded)


# One row that somebody has damaged must not stop all workers of a file at the same take again and again.


def _scope(text: str) -> Scope:
    """Read a scope; what is none is the usual one, so that its lock is let go of some time."""
    return Scope(text) if text in _SCOPES else Scope.ACTIVE


def _callback_state(code: int) -> CallbackState:
    """Read how far a callback has come; where that is damaged it has been enqueued: none comes twice."""
    return CallbackState(code) if code in _CALLBACK_STATES else CallbackState.ENQUEUED


_SCOPES = frozenset(map(str, Scope))
_WORDS = frozenset(map(str, Word))
_CALLBACK_STATES = frozenset(map(int, CallbackState))


def _counters(row: BatchRow) -> _Row:
    return (
        row.total,
        row.pending,
        row.failed,
        int(row.committed),
        int(row.complete),
        int(row.success),
        row.open_children,
        row.unsuccessful_children,
    )


def _batch(row: _Row) -> BatchRow:
    key, parent, total, pending, failed, committed, complete, success, opened, unsuccessful = row
    return BatchRow(
        key=key,
        parent=parent,
        total=total,
        pending=pending,
        failed=failed,
        committed=bool(committed),
        complete=_callback_state(complete),
        success=_callback_state(success),
        open_children=opened,
        unsuccessful_children=unsuccessful,
    )


def _said(record: Progress) -> _Row:
    return (record.percent, record.description, record.updated_at)

"""What Faktory sells beside its queue: what `custom` ties a job to, and the commands TRACK and BATCH.

A batch is known by ``b-`` and the public id of its key, so that the id alone finds it. Its callbacks are ordinary jobs, which say
in `custom` whose they are: ``_bid``, ``_cb`` and, in a nested batch, ``_pbid``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from anew.engine import Batch, Call, GroupCommit
from anew.engine.job_batches import BatchStatus, batch_status, commit_batch, new_batch, open_batch
from anew.engine.progress import read_progress, report_progress
from anew.errors import AnewError, InvalidInput, NotFound
from anew.fwp import replies, times
from anew.fwp.commands import BatchCommit, BatchNew, BatchOpen, StatusCommand, TrackGet, TrackSet
from anew.fwp.connection import FwpConnection
from anew.fwp.jobs import CheckedJob, SentJob, bad_time
from anew.jobs.batches import Callback, CallbackState
from anew.jobs.codec import JobHooks, PushedJob, UniqueKey
from anew.jobs.expiry import expires_at
from anew.jobs.ids import COUNTER_BITS, IdText
from anew.jobs.progress import Progress, Word
from anew.jobs.unique import Scope, lock_ends_at, parts_digest

JID_BYTES: Final = 12
MOST_SORTED: Final = 64 << 10
"""Bytes of a unique job's args up to which the order of members does not matter, some 5 ms; it is done in one go."""
_SCOPES: Final = {None: Scope.SUCCEEDED, "success": Scope.SUCCEEDED, "start": Scope.STARTED}
_SHOWN: Final = {
    CallbackState.ABSENT: "",
    CallbackState.WAITING: "",
    CallbackState.ENQUEUED: "1",
    CallbackState.SUCCEEDED: "2",
}


class CustomMembers(msgspec.Struct):
    """The members of `custom` that say something to the server."""

    anew_policy: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    unique_for: Any = None
    unique_until: Any = None
    expires_at: Any = None
    expires_in: Any = None
    track: Any = None
    bid: Any = None


custom_of = msgspec.json.Decoder(CustomMembers).decode


def batch_key(ids: IdText, bid: object) -> int:
    """Give the key of a batch.

    Raises:
        NotFound: No batch can have this id.
    """
    key = ids.read(bid[2:]) if isinstance(bid, str) and bid.startswith("b-") else -1
    if key < 0:
        raise no_batch(bid)
    return key


def no_batch(bid: object) -> NotFound:
    """Word the error about a batch that is not there."""
    return NotFound(f"no such batch {bid}")


def ties_of(custom: CustomMembers, job: CheckedJob, ids: IdText, now: int) -> JobHooks | None:
    """Give what a job's `custom` ties it to; None if nothing.

    Raises:
        InvalidInput: A member does not fit; the message is the text of the error.
        NotFound: No batch can have the id that it names.
    """
    ties = JobHooks(
        unique=None if custom.unique_for is None else _unique(custom, job, now),
        expires_at=_expires_at(custom, now),
        batch=None if custom.bid is None else batch_key(ids, custom.bid),
        tracked=custom.track not in (None, False, 0),
    )
    return None if ties == _FREE else ties


def _unique(custom: CustomMembers, job: CheckedJob, now: int) -> UniqueKey:
    if not isinstance(custom.unique_until, str | None) or custom.unique_until not in _SCOPES:
        raise InvalidInput(
            f"unique_until: {custom.unique_until!r} is not valid; expected success or start",
            field="unique_until",
        )
    ends_at = lock_ends_at(custom.unique_for, job.at, now)
    digest = parts_digest(job.jobtype, job.queue, _canonical(job.args))
    return UniqueKey(digest, _SCOPES[custom.unique_until], ends_at)


def _canonical(args: msgspec.Raw) -> bytes:
    """Write equal arguments in one way: with the members of objects in order, unless they are so long that it takes long."""
    text = bytes(args)
    if len(text) > MOST_SORTED or b"{" not in text:
        return text
    return msgspec.json.encode(msgspec.json.decode(text), order="sorted")


def _expires_at(custom: CustomMembers, now: int) -> int | None:
    at = custom.expires_at
    if at is not None and not isinstance(at, str):
        raise InvalidInput(f"expires_at: {at!r} is not valid; expected a time as text", field="expires_at")
    try:
        instant = times.parse(at) if at else None
    except InvalidInput as error:
        raise InvalidInput(bad_time("expires_at", at or "", error), field="expires_at") from None
    return expires_at(instant, custom.expires_in, now)


_FREE: Final = JobHooks()


class Enterprise:
    """Executes TRACK and BATCH.

    Args:
        commit: What applies operations.
        ids: Of the store.
        job_of: Gives a job as the engine has it.
    """

    def __init__(self, commit: GroupCommit, ids: IdText, job_of: Callable[[SentJob], PushedJob]) -> None:
        self._commit = commit
        self._ids = ids
        self._job_of = job_of
        self.verbs: Mapping[type[Any], Callable[[FwpConnection, Any], None]] = {
            TrackSet: self._track_set,
            TrackGet: self._track_get,
            BatchNew: self._new,
            BatchOpen: self._open,
            BatchCommit: self._commit_batch,
            StatusCommand: self._status,
        }

    # -- TRACK

    def _track_set(self, connection: FwpConnection, command: TrackSet) -> None:
        verb = report_progress(command.jid, command.percent, command.desc, command.reserve_until)
        self._run(connection, verb, lambda _: replies.OK)

    def _track_get(self, connection: FwpConnection, command: TrackGet) -> None:
        shown = partial(_shown_progress, command.jid)
        self._run(connection, read_progress(command.jid), shown, durable=False)

    # -- BATCH

    def _new(self, connection: FwpConnection, command: BatchNew) -> None:
        parent = batch_key(self._ids, command.parent_bid) if command.parent_bid else None
        given = {Callback.COMPLETE: command.complete, Callback.SUCCESS: command.success}
        jobs = {callback: job for callback, job in given.items() if job is not None}
        for job in jobs.values():
            job.jid = job.jid or secrets.token_hex(JID_BYTES)
        made = {
            callback: partial(self._callback, job, callback, command.parent_bid)
            for callback, job in jobs.items()
        }
        for make in made.values():
            make(0)  # what is wrong with one is said before there is a batch
        meta = command.description.encode()
        verb = new_batch(
            lambda key: {name: make(key) for name, make in made.items()}, parent=parent, meta=meta
        )
        self._run(connection, verb, self._bid, command.parent_bid)

    def _callback(self, job: SentJob, callback: Callback, parent_bid: str, key: int) -> PushedJob:
        """Give a callback's job, which says whose it is; no batch has it as a member."""
        custom: dict[str, Any] = msgspec.json.decode(job.custom) if bytes(job.custom)[:1] == b"{" else {}
        custom.pop("bid", None)
        custom |= {"_bid": self._ids.write_batch(key), "_cb": str(callback)}
        if parent_bid:
            custom["_pbid"] = parent_bid
        return self._job_of(msgspec.structs.replace(job, custom=msgspec.Raw(msgspec.json.encode(custom))))

    def _open(self, connection: FwpConnection, command: BatchOpen) -> None:
        verb = open_batch(batch_key(self._ids, command.bid))
        self._run(connection, verb, lambda _: replies.bulk(command.bid.encode()), command.bid)

    def _commit_batch(self, connection: FwpConnection, command: BatchCommit) -> None:
        verb = commit_batch(batch_key(self._ids, command.bid))
        self._run(connection, verb, lambda _: replies.OK, command.bid)

    def _status(self, connection: FwpConnection, command: StatusCommand) -> None:
        self._run(connection, batch_status(batch_key(self._ids, command.bid)), self._shown, command.bid)

    def _shown(self, status: BatchStatus) -> bytes:
        row = status.row
        parent = {} if row.parent is None else {"parent_bid": self._ids.write_batch(row.parent)}
        return replies.bulk(
            msgspec.json.encode(
                {
                    "bid": self._ids.write_batch(row.key),
                    **parent,
                    "description": (status.meta or b"").decode(),
                    # Rounded up: it is not before what a client's clock, which counts nanoseconds, said just before.
                    "created_at": times.write((row.key >> COUNTER_BITS) + 1),
                    "total": row.total,
                    "pending": row.pending,
                    "failed": row.failed,
                    "complete_st": _SHOWN[row.complete],
                    "success_st": _SHOWN[row.success],
                }
            )
        )

    def _bid(self, key: int) -> bytes:
        return replies.bulk(self._ids.write_batch(key).encode())

    def _run(
        self,
        connection: FwpConnection,
        verb: Callable[[Batch], Any],
        shown: Callable[[Any], bytes],
        bid: str = "",
        *,
        durable: bool = True,
    ) -> None:
        """Run a verb and answer with what it gives; a NotFound is about the batch named."""

        def done(result: Any) -> None:
            if isinstance(result, NotFound) and bid:
                result = no_batch(bid)
            connection.reply(replies.error(str(result)) if isinstance(result, AnewError) else shown(result))

        self._commit.submit(Call(verb, done, durable=durable))


def _shown_progress(jid: str, progress: Progress | None) -> bytes:
    shown: dict[str, Any] = {"jid": jid}
    if progress is not None:
        if progress.percent is not None:
            shown["percent"] = progress.percent
        if progress.description is not None:
            shown["desc"] = progress.description
    shown["state"] = str(Word.UNKNOWN if progress is None else progress.word)
    shown["updated_at"] = times.write(progress.updated_at) if progress is not None else ""
    return replies.bulk(msgspec.json.encode(shown))

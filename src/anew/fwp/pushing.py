"""New jobs: PUSH, PUSHB, and lines that are too long to be read in one go.

Each job of a PUSHB is accepted or refused by itself. They are checked and stored part by part, so that others have their turn.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from anew.engine import Engine, Enqueue, Entry, GroupCommit
from anew.engine.staging import PART_BYTES
from anew.errors import AnewError, InvalidInput, NotFound, Overloaded
from anew.fwp import long_lines, replies
from anew.fwp.commands import Command, FailCommand, LongLine, Push, PushBulk, read_push
from anew.fwp.connection import FwpConnection
from anew.fwp.enterprise import CustomMembers, custom_of, no_batch, ties_of
from anew.fwp.jobs import CheckedJob, SentJob, checked
from anew.fwp.policies import DEAD_MS, Policies
from anew.jobs.codec import JobHooks, PushedJob, Retention
from anew.net.bounded_log import SHOWN, BoundedLog
from anew.net.chunks import Chunks, Work
from anew.units import MINUTE_MS

T = TypeVar("T")

log = logging.getLogger("anew.fwp")

PART_JOBS: Final = 1_000
"""Jobs of a PUSHB that are checked in one go, some 3 ms, and that one batch stores, some 6 ms."""

KNOWN_MS: Final = 10 * MINUTE_MS
"""How long a jid is known after its job was done: a producer that got no answer has pushed again by then."""

_ONCE: Final = JobHooks(once=True)


class _Bulk:
    """A PUSHB under way.

    Args:
        connection: Whose it is.
        line: A long one, as it came.
        pieces: What has yet to be read of that.

    Attributes:
        parts: What has yet to be stored: jobs, and the same as they came.
        errors: What is wrong with jobs, by jid.
        stored: A part has been stored.
        failed: Why no other part is stored.
    """

    __slots__ = ("connection", "errors", "failed", "line", "parts", "pieces", "stored")

    def __init__(
        self, connection: FwpConnection, line: bytes = b"", pieces: Iterable[long_lines.Cut] = ()
    ) -> None:
        self.connection = connection
        self.line = line
        self.pieces = deque(pieces)
        self.parts: deque[tuple[list[PushedJob], list[SentJob]]] = deque()
        self.errors: dict[str, str] = {}
        self.stored = False
        self.failed = ""


class Pushing:
    """Stores new jobs.

    Args:
        engine: Whose jobs these become.
        commit: What applies operations.
        chunks: Where long lines are read.
        policies: Give each job its policy.
        enterprise: Members of `custom` tie a job to a batch, a unique key or an expiry; else they are passed over.
        idempotent: A PUSH whose jid belongs to a stored job stores nothing; completed jobs are stored for `KNOWN_MS`.
        execute: Executes a command that was read from a long line and is no bulk.

    Attributes:
        verbs: By command what executes it.
    """

    def __init__(
        self,
        engine: Engine,
        commit: GroupCommit,
        chunks: Chunks,
        policies: Policies,
        *,
        enterprise: bool,
        idempotent: bool,
        execute: Callable[[FwpConnection, Command], None],
    ) -> None:
        self._ids = engine.ids
        self._clock = engine.clock
        self._commit = commit
        self._chunks = chunks
        self._policies = policies
        self._enterprise = enterprise
        self._kept: Retention | None = None
        if idempotent:
            completed_ms = max(engine.parts.defaults.completed_ms, KNOWN_MS)
            self._kept = Retention(completed_ms=completed_ms, dead_ms=DEAD_MS)
        self._execute = execute
        self._refusals = BoundedLog(log, "a pushed job was refused", engine.clock.monotonic)
        self.verbs: Mapping[type[Any], Callable[[FwpConnection, Any], None]] = {
            Push: self._push,
            PushBulk: self._push_bulk,
            LongLine: self._read_long,
        }

    def _push(self, connection: FwpConnection, command: Push) -> None:
        try:
            job = self._pushed(command.job)
        except (InvalidInput, NotFound) as error:
            self._log_refusal(command.job, str(error))
            raise
        short = len(job.payload) <= PART_BYTES
        submit = self._commit.submit_new if short else self._commit.submit_long
        submit(Enqueue((job,), partial(self._answer_push, connection, command.job)))

    def _answer_push(self, connection: FwpConnection, sent: SentJob, result: Any) -> None:
        if isinstance(result, AnewError) or result.existing.get(0, Entry.REPEATED) is Entry.REPEATED:
            connection.reply(replies.error(str(result)) if isinstance(result, AnewError) else replies.OK)
        else:
            code, text = self._refused(result.existing[0], sent)
            connection.reply(replies.error(text, code or "ERR"))

    def _refused(self, entry: Entry, sent: SentJob) -> tuple[str, str]:
        """Say why a job was not stored: the error's code, "" for the usual one, and its text."""
        if entry is Entry.OTHER:
            reason = (
                f"jid {sent.jid} was pushed before with another jobtype or args; the stored job is unchanged"
            )
            self._log_refusal(sent, reason)
            return "", reason
        if entry is not Entry.NO_BATCH:
            return replies.NOT_UNIQUE, "Job not unique"
        reason = str(no_batch(custom_of(sent.custom).bid))
        self._log_refusal(sent, reason)
        return "", reason

    def _log_refusal(self, sent: SentJob, reason: str) -> None:
        """Log a job that a producer got wrong, once in a while; a duplicate of a unique job is nothing wrong."""
        named = {"jid": sent.jid, "job_type": sent.jobtype, "queue": sent.queue, "reason": reason}
        self._refusals.warn(**{name: (text or "")[:SHOWN] for name, text in named.items()})

    def _push_bulk(self, connection: FwpConnection, command: PushBulk) -> None:
        bulk = _Bulk(connection)
        for at in range(0, len(command.jobs), PART_JOBS):
            self._name(bulk, command.jobs[at : at + PART_JOBS])
        self._store(bulk)

    def _read_long(self, connection: FwpConnection, command: LongLine) -> None:
        """Read a long line in chunks; of a bulk nothing is stored before all of it has been read."""
        line = command.line

        def read(command: Push | FailCommand | list[long_lines.Cut]) -> None:
            if isinstance(command, list):
                self._store(_Bulk(connection, line, command))
            else:
                self._execute(connection, command)

        self._in_chunks(connection, long_lines.reading(line), read, len(line))

    def _in_chunks(
        self, connection: FwpConnection, work: Work[T], then: Callable[[T], None], size: int
    ) -> None:
        """Do a work that keeps so many bytes, in chunks; an error of it is the answer."""

        def done(result: T | AnewError) -> None:
            if isinstance(result, AnewError):
                self._refusals.warn(reason=str(result)[:SHOWN])
                connection.reply(replies.error(str(result)))
            else:
                then(result)

        try:
            self._chunks.run(work, done, size)
        except Overloaded as error:
            connection.reply(replies.error(str(error)))

    def _name_more(self, bulk: _Bulk) -> None:
        """Read more of a long bulk, then go on storing."""

        def work() -> Work[None]:
            while bulk.pieces and not bulk.parts:
                sent = yield from long_lines.jobs_of(bulk.line, bulk.pieces.popleft())
                for at in range(0, len(sent), PART_JOBS):
                    self._name(bulk, sent[at : at + PART_JOBS])
                    yield

        self._in_chunks(bulk.connection, work(), lambda _: self._store(bulk), 0)

    def _name(self, bulk: _Bulk, part: list[SentJob]) -> None:
        """Give the jobs of a part in the engine's form, or say what is wrong with them."""
        jobs: list[PushedJob] = []
        kept: list[SentJob] = []
        for sent in part:
            try:
                jobs.append(self._pushed(sent))
            except (InvalidInput, NotFound) as error:
                self._log_refusal(sent, str(error))
                bulk.errors[sent.jid or ""] = str(error)
            else:
                kept.append(sent)
        if bulk.failed:
            bulk.errors |= {sent.jid or "": bulk.failed for sent in kept}
        elif jobs:
            bulk.parts.append((jobs, kept))

    def _store(self, bulk: _Bulk) -> None:
        """Store a bulk part by part, each in a batch of its own, then answer."""
        if bulk.parts:
            jobs, kept = bulk.parts.popleft()
            self._commit.submit_long(Enqueue(jobs, partial(self._stored, bulk, kept)))
        elif bulk.pieces:
            self._name_more(bulk)
        else:
            bulk.connection.reply(replies.refused_jobs(bulk.errors))

    def _stored(self, bulk: _Bulk, part: list[SentJob], result: Any) -> None:
        """Go on after a part; where one could not be stored, those behind it are not tried."""
        if not isinstance(result, AnewError):
            bulk.stored = True
            for at, entry in result.existing.items():
                if entry is not Entry.REPEATED:
                    code, text = self._refused(entry, part[at])
                    bulk.errors[part[at].jid or ""] = f"{code} {text}".strip()
        elif bulk.stored:
            bulk.failed = str(result)
            for kept in (part, *(kept for _, kept in bulk.parts)):
                bulk.errors |= {sent.jid or "": bulk.failed for sent in kept}
            bulk.parts.clear()
        else:
            bulk.connection.reply(replies.error(str(result)))
            return
        self._store(bulk)

    def _pushed(self, sent: SentJob) -> PushedJob:
        """Give a pushed job in the engine's form; with the switch its jid is known."""
        job = self.named(checked(sent))
        if self._kept is not None:
            job.hooks, job.retention = _once(job.hooks), self._kept
        return job

    def named(self, job: CheckedJob, now: int | None = None) -> PushedJob:
        """Give a job in the engine's form; `now` is the instant from which it counts, epoch ms, None for the clock's."""
        return self._policies.pushed(job, self._tie if now is None else partial(self._tie, now=now))

    def _tie(self, custom: CustomMembers, job: CheckedJob, now: int | None = None) -> JobHooks | None:
        if not self._enterprise:
            return None
        return ties_of(custom, job, self._ids, self._clock.now() if now is None else now)

    def cron_job(self, members: Mapping[str, Any]) -> PushedJob:
        """Give the job that a cron entry enqueues, each time under an id of its own.

        Args:
            members: Of a PUSH, without a jid. What `custom` says of seconds counts from each firing.

        Raises:
            MalformedRequest, InvalidJob: They are none of a job's.
        """
        given = {"args": [], "jid": "cron-entry"} | dict(members)
        return self.named(checked(read_push(msgspec.json.encode(given)).job), now=0)


def _once(ties: JobHooks | None) -> JobHooks:
    return _ONCE if ties is None else msgspec.structs.replace(ties, once=True)

"""Executes commands: each becomes an operation of the engine or a question to its reads, and what comes back becomes the reply.

Jobs of other doors come through here too. One without a producer's id is known by its public id; a payload that is no array is
the one argument.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from anew.engine import Acknowledge, Call, Engine, Enqueue, Entry, Fetch, GroupCommit, Reject
from anew.engine.bulk import BulkChanges, log_change
from anew.engine.reads import Overview, Reads, Then
from anew.engine.staging import PART_BYTES
from anew.engine.throttles import free_slots_of
from anew.engine.verbs import delete_chunk, pause, unlist
from anew.engine.workers import WorkerState
from anew.errors import AnewError, InvalidInput, NotFound, Overloaded
from anew.fwp import long_lines, replies, times
from anew.fwp.commands import (
    Ack,
    Beat,
    Command,
    FailCommand,
    FetchCommand,
    Flush,
    Hello,
    Info,
    LongLine,
    Mutate,
    Push,
    PushBulk,
    Queue,
    read_push,
)
from anew.fwp.connection import FwpConnection
from anew.fwp.enterprise import CustomMembers, Enterprise, custom_of, no_batch, ties_of
from anew.fwp.info import info
from anew.fwp.jobs import (
    CheckedJob,
    Failure,
    Meta,
    SentJob,
    checked,
    failure_of,
    lines_of,
    meta_of,
    rendered,
    text_of,
)
from anew.fwp.mutations import Mutations
from anew.fwp.policies import Policies
from anew.fwp.workers import Workers
from anew.jobs import ErrorRecord, Failed, Job, State
from anew.jobs.carried import is_carried
from anew.jobs.change import due_of
from anew.jobs.codec import JobHooks, PushedJob
from anew.jobs.ids import COUNTER_BITS
from anew.jobs.outcomes import RESERVATION_EXPIRED
from anew.jobs.terms import policy_of
from anew.net.bounded_log import SHOWN, BoundedLog
from anew.net.chunks import Chunks, Work
from anew.store.protocol import Filter, Page

T = TypeVar("T")

log = logging.getLogger("anew.fwp")

FETCH_S: Final = 2.0
"""How long a FETCH waits for a job. Source: Faktory 1.10."""

PART_JOBS: Final = 1_000
"""Jobs of a PUSHB that are checked in one go, some 3 ms, and that one batch stores, some 6 ms."""

EXPIRED: Final = "Faktory job reservation expired"
"""What a job says whose reservation has expired. Source: Faktory 1.10."""

VERSION: Final = "1.10.0"
"""What INFO says, since clients compare it: the version of Faktory whose protocol this is."""

ENDLESS: Final = 2**31 - 1
"""The ``retry`` of a job without a limit: clients read no larger number everywhere."""

_ONCE: Final = JobHooks(once=True)
_BEATS: Final = {
    WorkerState.RUNNING: replies.OK,
    WorkerState.QUIET: replies.bulk(b'{"state":"quiet"}'),
    WorkerState.TERMINATE: replies.bulk(b'{"state":"terminate"}'),
}


class FwpService:
    """What all connections' commands go to.

    Args:
        engine: Whose jobs these are.
        commit: What applies operations.
        reads: What reads jobs.
        loop: For the time that a FETCH waits.
        description: What INFO calls this server.
        enterprise: Tracking, batches, unique keys and expiry are spoken; else they are passed over, as Faktory does without a
            licence.
        own_policy: A policy was set for the whole server, and holds for these jobs too in place of Faktory's.
        chunks: Where long bulks are read.
        idempotent: A push of a jid whose job is still stored is that job again.
        policies: By queue and type, policies that come before the server's; None stands for every queue or type.
    """

    def __init__(
        self,
        engine: Engine,
        commit: GroupCommit,
        reads: Reads,
        loop: asyncio.AbstractEventLoop,
        *,
        description: str = "Faktory Enterprise",
        own_policy: bool = False,
        enterprise: bool = True,
        chunks: Chunks | None = None,
        idempotent: bool = False,
        policies: Mapping[tuple[str | None, str | None], msgspec.Raw] | None = None,
    ) -> None:
        self._engine = engine
        self._commit = commit
        self._submit = commit.submit
        self._reads = reads
        self._description = description
        self._policies = Policies(own_policy=own_policy, chosen=policies)
        self._enterprise = enterprise
        self._chunks = chunks or Chunks()
        self._idempotent = idempotent
        paid = Enterprise(commit, engine.ids, lambda sent: self._named(checked(sent)))
        self.bulk = BulkChanges(commit.submit, reads.later, engine.clock.now, loop.call_later)
        self.mutations = Mutations(self.bulk, engine.clock.now, self._key, self.shown, time.perf_counter)
        self.workers = Workers(engine.clock)
        self._waits = _Waits(loop)
        self._refusals = BoundedLog(log, "a pushed job was refused", engine.clock.monotonic)
        self._started_ms = engine.clock.monotonic()
        self.figures: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._verbs: dict[type[Any], Callable[[FwpConnection, Any], None]] = {
            Push: self._push,
            PushBulk: self._push_bulk,
            LongLine: self._read_long,
            FetchCommand: self._fetch,
            Ack: self._ack,
            FailCommand: self._fail,
            Beat: self._beat,
            Info: self._info,
            Flush: self._flush,
            Queue: self._queue,
            Mutate: self._mutate,
            **paid.verbs,
        }

    # -- connections

    def execute(self, connection: FwpConnection, command: Command) -> None:
        """Execute one command; its reply goes to the connection, now or later."""
        try:
            self._verbs[type(command)](connection, command)
        except AnewError as error:  # before anything was done, or asked of the engine
            connection.reply(_error(error))

    def hello(self, connection: FwpConnection, hello: Hello) -> None:
        """A connection has said who it is."""
        self.workers.join(connection, hello)

    def left(self, connection: FwpConnection) -> None:
        """A connection that has said who it is has gone."""
        self.workers.leave(connection)

    def reap(self) -> None:
        """Drop workers that have been silent for too long; of what is limited they take up nothing any more."""
        for wid in self.workers.reap():
            self._submit(Call(free_slots_of(wid), _ignore))

    def drain(self) -> None:
        """Answer every FETCH that waits: there is nothing."""
        self._waits.end_all()

    # -- new jobs

    def _push(self, connection: FwpConnection, command: Push) -> None:
        try:
            job = self._named(checked(command.job))
        except (InvalidInput, NotFound) as error:
            self._log_refusal(command.job, str(error))
            raise
        short = len(job.payload) <= PART_BYTES
        submit = self._commit.submit_new if short else self._commit.submit_long
        submit(Enqueue((job,), partial(self._answer_push, connection, command.job)))

    def _answer_push(self, connection: FwpConnection, sent: SentJob, result: Any) -> None:
        if isinstance(result, AnewError) or result.existing.get(0, Entry.REPEATED) is Entry.REPEATED:
            _answer_ok(connection, result)
        else:
            code, text = self._refused(result.existing[0], sent)
            connection.reply(replies.error(text, code or "ERR"))

    def _refused(self, entry: Entry, sent: SentJob) -> tuple[str, str]:
        """Say why a job was not stored: the error's code, "" for the usual one, and its text."""
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
                self.execute(connection, command)

        self._in_chunks(connection, long_lines.reading(line), read, len(line))

    def _in_chunks(
        self, connection: FwpConnection, work: Work[T], then: Callable[[T], None], size: int
    ) -> None:
        """Do a work that keeps so many bytes, in chunks; an error of it is the answer."""

        def done(result: T | AnewError) -> None:
            if isinstance(result, AnewError):
                self._refusals.warn(reason=str(result)[:SHOWN])
                connection.reply(_error(result))
            else:
                then(result)

        try:
            self._chunks.run(work, done, size)
        except Overloaded as error:
            connection.reply(_error(error))

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
                jobs.append(self._named(checked(sent)))
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
            bulk.connection.reply(_error(result))
            return
        self._store(bulk)

    def _named(self, job: CheckedJob, now: int | None = None) -> PushedJob:
        """Give a job in the engine's form; `now` is the instant from which it counts, epoch ms, None for the clock's."""
        named = self._policies.pushed(job, self._tie if now is None else partial(self._tie, now=now))
        if self._idempotent:
            named.hooks = _once(named.hooks)
        return named

    def _tie(self, custom: CustomMembers, job: CheckedJob, now: int | None = None) -> JobHooks | None:
        if not self._enterprise:
            return None
        return ties_of(custom, job, self._engine.ids, self._engine.clock.now() if now is None else now)

    def cron_job(self, members: Mapping[str, Any]) -> PushedJob:
        """Give the job that a cron entry enqueues, each time under an id of its own.

        Args:
            members: Of a PUSH, without a jid. What `custom` says of seconds counts from each firing.

        Raises:
            MalformedRequest, InvalidJob: They are none of a job's.
        """
        given = {"args": [], "jid": "cron-entry"} | dict(members)
        return self._named(checked(read_push(msgspec.json.encode(given)).job), now=0)

    # -- work

    def _fetch(self, connection: FwpConnection, command: FetchCommand) -> None:
        worker = connection.worker
        waiting = _Waiting(self._commit, self.show, connection, command.queues, _wid(connection))
        self._waits.add(waiting)
        connection.on_close = waiting.gone
        if worker is None or worker.state is WorkerState.RUNNING:
            self._commit.submit(waiting)  # a quiet worker's waits to its end in vain

    def show(self, job: Job, then: Then) -> None:
        """Write a job, payload and all, as a worker gets it; `then` is called with that, or with an AnewError."""
        if job.attempts:  # its errors may have to be read
            self._reads.at_once(lambda: self.shown(job), then)
        else:
            then(self.shown(job))

    def shown(self, job: Job) -> bytes:
        """The same at once, where short reads may be done."""
        payload = job.payload or b"null"
        args = payload if payload[:1] == b"[" else b"[" + payload + b"]"
        created_at = job.key >> COUNTER_BITS
        if job.jid is None:
            carried = job.meta if is_carried(job.meta) else None
            jid, meta, given_attempts = self._engine.ids.write(job.key), meta_of(carried or b""), 0
        else:
            jid, meta = job.jid, meta_of(job.meta or b"")
            given_attempts = 0 if meta.failure is None else meta.failure.retry_count + 1
        retry = self.retry_of(job, meta)
        failure = self._failure(job, meta, retry) if job.attempts > given_attempts else None
        # Requeued before its time it has not been enqueued as this protocol counts it, until it fails and runs again.
        waits = job.state is State.SCHEDULED or (
            meta.at and failure is None and times.parse(meta.at) > job.ready_at
        )
        as_sent = waits or _enqueued_elsewhere(meta, job.ready_at, created_at)
        enqueued_at = None if as_sent else max(job.ready_at, created_at)
        return rendered(jid, job.queue, job.type, args, retry, meta, created_at, enqueued_at, failure)

    def retry_of(self, job: Job, meta: Meta) -> int:
        """Give a job's ``retry``: negative where its first failure kills it, `ENDLESS` where nothing ends its retries."""
        if job.retry_limit is None:
            policy = policy_of(job.policy, None, self._engine.parts.defaults.policy)
            limit = policy.limit if policy is not None else 0
            return ENDLESS if limit is None else limit
        return job.retry_limit or meta.retry

    def _failure(self, job: Job, meta: Meta, retry: int) -> Failure:
        """Say what the latest failure of a job was."""
        found = self._reads.errors(job.key, Page(order="desc", limit=2))  # the last may have had no retry
        record = found[0] if found else None
        due = [due_at for one in found if (due_at := due_of(one.decision))]
        return failure_of(
            meta.failure,
            job.attempts,
            retry,
            job.first_failed_at or 0,
            due[0] if due else None,
            _message(record) if record else "unknown",
            (record.error_type if record else None) or "unknown",
            lines_of(record.backtrace) if record and record.backtrace is not None else [],
        )

    def _ack(self, connection: FwpConnection, command: Ack) -> None:
        done = partial(_answer_ok, connection)
        self._submit(Acknowledge(self._job(command.jid), done, _wid(connection)))

    def _fail(self, connection: FwpConnection, command: FailCommand) -> None:
        backtrace = text_of(command.backtrace) if command.backtrace else None
        worker = _wid(connection)
        failed = Failed(
            message=command.message, error_type=command.errtype, backtrace=backtrace, worker=worker or None
        )

        def done(result: Any) -> None:
            if isinstance(result, NotFound):
                connection.reply(replies.error(f"Job not found {command.jid}"))
            else:
                _answer_ok(connection, result)

        self._submit(Reject(self._job(command.jid), failed, done, worker))

    def _job(self, jid: str) -> str | int:
        """Give the key of a job that is known by its public id; its producer's id else."""
        key = self._key(jid)
        return jid if key is None else key

    def _key(self, jid: str) -> int | None:
        """Give the key of a job that is known by its public id."""
        key = self._engine.ids.read(jid)
        return None if key < 0 else key

    # -- workers

    def _beat(self, connection: FwpConnection, command: Beat) -> None:
        worker = self.workers.beat(command.wid, command.state, command.rss_kb)
        if worker is None:
            connection.reply(replies.error(f"unknown worker {command.wid}"))
        else:
            connection.reply(_BEATS[worker.state])

    # -- looking and steering

    def _info(self, connection: FwpConnection, command: Info) -> None:
        self._read(connection, self.read_info)

    def read_info(self, then: Then) -> None:
        """Read what INFO says, as JSON, and call back with it or with an AnewError."""
        self._reads.overview(self._figures, then)

    def health(self) -> bytes:
        """Give a few figures of this server as JSON, at once."""
        connections, executed = self.figures()
        server = {
            "command_count": executed,
            "connections": connections,
            "description": self._description,
            "faktory_version": VERSION,
        }
        return msgspec.json.encode({"now": times.write(self._engine.clock.now()), "server": server})

    def _read(self, connection: FwpConnection, ask: Callable[[Then], None]) -> None:
        """Answer with what is read beside the loop."""

        def done(result: Any) -> None:
            connection.reply(_error(result) if isinstance(result, AnewError) else replies.bulk(result))

        ask(done)

    def _figures(self, seen: Overview) -> bytes:
        connections, executed = self.figures()
        return info(
            seen,
            self._engine.stats,
            workers=len(self.workers.by_wid),
            workers_reaped=self.workers.reaped,
            now=self._engine.clock.now(),
            server={
                "description": self._description,
                "faktory_version": VERSION,
                "uptime": (self._engine.clock.monotonic() - self._started_ms) // 1_000,
                "connections": connections,
                "command_count": executed,
                "used_memory_mb": _memory_mb(),
            },
        )

    def _flush(self, connection: FwpConnection, command: Flush) -> None:
        def flushed(result: Any) -> None:
            if isinstance(result, int):
                log_change("deleted", result)
            _answer_ok(connection, result)

        self._submit(Call(lambda batch: batch.delete_all(), flushed))

    def _queue(self, connection: FwpConnection, command: Queue) -> None:
        action, names = command.action, None if command.names[:1] == ["*"] else command.names
        if action == "LATENCY":
            self._latency(connection, command.names)
        elif action == "REMOVE":
            self._remove(connection, names)
        else:
            done = partial(_answer_ok, connection)
            self._submit(Call(pause(names, action == "PAUSE"), done))

    def _mutate(self, connection: FwpConnection, command: Mutate) -> None:
        self.mutations.start(command, partial(_answer_ok, connection))

    def _latency(self, connection: FwpConnection, names: list[str]) -> None:
        if names == ["*"]:
            connection.reply(replies.error("QUEUE LATENCY does not support wildcards"))
            return

        def made(since: Mapping[str, int]) -> bytes:
            now = self._engine.clock.now()
            waited = {name: max(now - since.get(name, now), 0) for name in sorted(names)}
            return msgspec.json.encode({name: ms / 1_000 if ms else 0 for name, ms in waited.items()})

        self._read(connection, partial(self._reads.ready_since, names, made))

    def _remove(self, connection: FwpConnection, names: list[str] | None) -> None:
        """Delete the ready jobs of queues, a chunk at a time, and then their names."""
        where = Filter(states=frozenset({State.READY}), queues=None if names is None else frozenset(names))

        def removed(result: Any) -> None:
            if isinstance(result, AnewError):
                connection.reply(_error(result))
            else:
                self._submit(Call(unlist(names), partial(_answer_ok, connection)))

        self.bulk.start(where, delete_chunk, removed, name="deleted")


def _memory_mb() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:  # no Linux: the most that it ever was
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
    return pages * resource.getpagesize() >> 20


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


class _Waiting(Fetch):
    """One FETCH, from its command to its answer.

    Attributes:
        at: When it is told that there is nothing, by the loop's clock.
        answered: It has its answer, or needs none.
    """

    __slots__ = ("_commit", "_connection", "_show", "answered", "at")

    def __init__(
        self,
        commit: GroupCommit,
        show: Callable[[Job, Then], None],
        connection: FwpConnection,
        queues: Sequence[str],
        worker: str,
    ) -> None:
        self._ask(queues, worker)
        self._commit = commit
        self._show = show
        self._connection = connection
        self.at = 0.0
        self.answered = False

    def gone(self) -> None:
        """Its client has gone."""
        self.answered = True
        self._commit.call_off(self)

    def end(self) -> None:
        """Its time is over."""
        if not self.answered:
            self.answered = True
            self._commit.call_off(self)
            self._connection.reply(replies.NULL)

    def done(self, result: Any) -> None:
        """It has a job, or its batch has failed."""
        late, self.answered = self.answered, True  # its time may have been over while it stood in the batch
        if isinstance(result, AnewError):
            if not late:
                self._connection.reply(_error(result))
        elif late or self._connection.gone:
            self._give_back(result)
            if not late:  # for the lines behind it: while there are many nothing is read, and no end of the connection heard
                self._connection.reply(replies.NULL)
        else:
            self._show(result, partial(self._shown, result))

    def _shown(self, job: Job, text: bytes | AnewError) -> None:
        if isinstance(text, AnewError) or self._connection.gone:
            self._give_back(job)
            self._connection.reply(_error(text) if isinstance(text, AnewError) else replies.NULL)
        else:
            self._connection.reply(replies.bulk(text))

    def _give_back(self, job: Job) -> None:
        """Nobody has seen it: its place in the queue is as it was."""
        key, token = job.key, job.hold_token
        assert token is not None
        self._commit.submit(Call(lambda batch: batch.give_back_reserved(key, token), _ignore, durable=False))


class _Waits:
    """Those that wait, all for the same time: one timer serves them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiting: _Waiting) -> None:
        """End this one in `FETCH_S` seconds, unless it is answered before."""
        waiting.at = self._loop.time() + FETCH_S
        line = self._line
        while line and line[0].answered:  # nearly all are long before their time
            line.popleft()
        line.append(waiting)
        if self._timer is None:
            self._timer = self._loop.call_at(waiting.at, self._look)

    def end_all(self) -> None:
        """End all of them now."""
        while self._line:
            self._line.popleft().end()

    def _look(self) -> None:
        now = self._loop.time()
        line = self._line
        while line and (line[0].answered or line[0].at <= now):
            line.popleft().end()
        self._timer = self._loop.call_at(line[0].at, self._look) if line else None


def _enqueued_elsewhere(meta: Meta, ready_at: int, created_at: int) -> bool:
    """Report whether a job came here when it was ready already, and has not waited for another time since."""
    if ready_at >= created_at or not meta.enqueued_at:
        return False
    try:
        return times.parse(meta.enqueued_at) == ready_at
    except InvalidInput:
        return False


def _once(ties: JobHooks | None) -> JobHooks:
    return _ONCE if ties is None else msgspec.structs.replace(ties, once=True)


def _message(record: ErrorRecord) -> str:
    """Give what a failure says; of a reservation that expired, in the protocol's words."""
    expired = RESERVATION_EXPIRED.error_type, RESERVATION_EXPIRED.message
    return EXPIRED if (record.error_type, record.message) == expired else record.message


def _wid(connection: FwpConnection) -> str:
    return "" if connection.worker is None else connection.worker.wid


def _answer_ok(connection: FwpConnection, result: Any) -> None:
    connection.reply(_error(result) if isinstance(result, AnewError) else replies.OK)


def _error(error: AnewError) -> bytes:
    return replies.error(str(error))


def _ignore(result: object) -> None:
    pass

"""Executes commands: each becomes an operation of the engine or a read, and the result becomes the reply.

Jobs of other doors come through here too. One without a producer's id is known by its public id; a payload that is no array is
the one argument.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from anew.engine import Acknowledge, Call, Engine, GroupCommit, Reject
from anew.engine.bulk import BulkChanges, log_change
from anew.engine.reads import Overview, Reads, Then
from anew.engine.throttles import free_slots_of
from anew.engine.verbs import delete_chunk, pause, unlist
from anew.engine.workers import WorkerState
from anew.errors import AnewError, InvalidInput, NotFound
from anew.fwp import replies, times
from anew.fwp.commands import (
    Ack,
    Beat,
    Command,
    FailCommand,
    FetchCommand,
    Flush,
    Hello,
    Info,
    Mutate,
    Queue,
)
from anew.fwp.connection import FwpConnection
from anew.fwp.enterprise import Enterprise
from anew.fwp.fetching import WaitingFetch, Waits
from anew.fwp.info import info
from anew.fwp.jobs import (
    Failure,
    Meta,
    checked,
    failure_of,
    lines_of,
    meta_of,
    rendered,
    text_of,
)
from anew.fwp.mutations import Mutations
from anew.fwp.policies import Policies
from anew.fwp.pushing import Pushing
from anew.fwp.workers import Workers
from anew.jobs import ErrorRecord, Failed, Job, State
from anew.jobs.carried import is_carried
from anew.jobs.change import due_of
from anew.jobs.ids import COUNTER_BITS
from anew.jobs.names import check_not_own
from anew.jobs.outcomes import RESERVATION_EXPIRED
from anew.jobs.terms import policy_of
from anew.net.chunks import Chunks
from anew.store.selection import Filter, Page

EXPIRED: Final = "Faktory job reservation expired"
"""What a job says whose reservation has expired. Source: Faktory 1.10."""

VERSION: Final = "1.10.0"
"""What INFO says, since clients compare it: the version of Faktory whose protocol this is."""

ENDLESS: Final = 2**31 - 1
"""The ``retry`` of a job without a limit: clients read no larger number everywhere."""

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
        idempotent: A PUSH whose jid belongs to a stored job, or to one completed in the last ten minutes, stores nothing.
        policies: By queue and type, policies that come before the server's; None stands for every queue or type.

    Attributes:
        pushing: What stores new jobs.
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
        self.pushing = Pushing(
            engine,
            commit,
            chunks or Chunks(),
            Policies(own_policy=own_policy, chosen=policies),
            enterprise=enterprise,
            idempotent=idempotent,
            execute=self.execute,
        )
        paid = Enterprise(commit, engine.ids, lambda sent: self.pushing.named(checked(sent)))
        self.bulk = BulkChanges(commit.submit, reads.later, engine.clock.now, loop.call_later)
        self.mutations = Mutations(self.bulk, engine.clock.now, self._key, self.shown, time.perf_counter)
        self.workers = Workers(engine.clock)
        self._waits = Waits(loop)
        self._started_ms = engine.clock.monotonic()
        self.figures: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._verbs: dict[type[Any], Callable[[FwpConnection, Any], None]] = {
            **self.pushing.verbs,
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

    # -- work

    def _fetch(self, connection: FwpConnection, command: FetchCommand) -> None:
        for queue in command.queues:
            check_not_own(queue, "queue")
        worker = connection.worker
        waiting = WaitingFetch(self._commit, self.show, connection, command.queues, _wid(connection))
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


def _enqueued_elsewhere(meta: Meta, ready_at: int, created_at: int) -> bool:
    """Report whether a job came here when it was ready already, and has not waited for another time since."""
    if ready_at >= created_at or not meta.enqueued_at:
        return False
    try:
        return times.parse(meta.enqueued_at) == ready_at
    except InvalidInput:
        return False


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

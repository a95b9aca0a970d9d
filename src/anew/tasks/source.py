"""Where a worker's jobs come from, and where what becomes of them goes: one exchange does both in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from anew.engine import Call, Fail, Op, Succeed, TakenJobs, ThreadCommit, take_for_session
from anew.engine.batch import Batch
from anew.engine.breakers import Asking, Breaking, RunReport
from anew.engine.progress import report_progress
from anew.errors import AnewError, InDoubt, NotFound, StoreBusy, StoreFailed
from anew.jobs import Failed, Job, Snoozed, State
from anew.jobs.breaker import BreakerRow, BreakerState
from anew.jobs.carried import carried_of
from anew.jobs.terms import policy_of
from anew.store.protocol import TakenRow
from anew.tasks.app import Anew
from anew.tasks.backend import BatchCounts
from anew.tasks.running import CALLED_OFF, HELD, NOTHING, SIGNALS, TAKEN_AWAY, Run, Stopped
from anew.tasks.task import Task

log = logging.getLogger("anew.tasks")


class Want(NamedTuple):
    """What a worker can take.

    Attributes:
        queues: From which; None means all.
        limit: Most jobs, 0 for none.
    """

    queues: Sequence[str] | None
    limit: int


class Settled(NamedTuple):
    """What a server says of a job after the end of a run."""

    state: State
    ready_at: int


SettledJob = Job | Settled
"""A job after the end of a run."""


@dataclass(slots=True)
class Exchanged:
    """What an exchange has come to.

    Attributes:
        taken: For each want the jobs, which the worker holds now.
        settled: The runs whose end is on the disk, each with its job as it is now; None: it has completed.
        lost: Of those, runs whose jobs were no longer held: somebody had cancelled or deleted them.
        again: Runs that could not be settled yet, because another program writes.
        kept: Runs that could not be given back yet, for the same reason.
        busy: Nothing could be taken, for the same reason.
        held: How many of the settled ones were taken and never begun, as the breakers of the services that they call are open.
        open: The breakers that are not closed, by key, each with the key of the job that may run all the same; None: nobody looked.
        goes_on: Jobs may be left behind very many that may not start; the next exchange takes them.
        turned: Breakers that were closed and are no longer, or the other way round.
        is_drained: Nothing more was ready; False: that is not known yet.
    """

    taken: list[list[Run]]
    settled: list[tuple[Run, SettledJob | None]]
    lost: list[Run]
    again: list[Run]
    kept: Sequence[Run] = ()
    busy: bool = False
    held: int = 0
    open: Mapping[str, int] | None = None
    turned: Sequence[BreakerRow] = ()
    goes_on: bool = False
    is_drained: bool = True


class Source(Protocol):
    """What a worker asks of the place of its jobs. Called by one thread, but for `note_begun`, `wake`, `progress`, `batch_of`."""

    @property
    def seen(self) -> int:
        """For `sleep`: what had happened before the worker looked for jobs."""

    def exchange(self, ended: Sequence[Run], given_back: Sequence[Run], wants: Sequence[Want]) -> Exchanged:
        """Report runs that have ended, give back others, and take jobs, in one transaction.

        Raises:
            AnewError: Nothing was done, and nothing can be.
        """

    def may_have_lost(self) -> bool:
        """Report whether somebody else may have taken jobs away from their holders since this was last asked."""

    def lost(self, runs: Sequence[Run]) -> Mapping[Run, Stopped]:
        """Give those of some runs that no longer hold their jobs, each with why; none where that cannot be said now."""

    def sleep(self, seconds: float, seen: int) -> None:
        """Wait until jobs may have come, or `wake` is called."""

    def wake(self) -> None:
        """End a `sleep`."""

    def note_begun(self, slot: int, run: Run) -> None:
        """Note that a run begins, so that after this process's death the other jobs it held are not suspected."""

    def progress(self, job_id: str, percent: int | None, text: str | None) -> None:
        """Write how far a job has come."""

    def batch_of(self, job_id: str) -> BatchCounts | None:
        """Give how far the batch has come that a job belongs to, or whose callback it is; None: there is none."""

    def now(self) -> int:
        """Give the time, epoch ms."""

    def close(self) -> None:
        """Let go of what it has of its own; the worker has ended."""


class EmbeddedSource:
    """A `Source` of a file that this process has open.

    Args:
        app: Whose tasks they are calls of.
        commit: The engine.
    """

    def __init__(self, app: Anew, commit: ThreadCommit) -> None:
        self.tasks = app.tasks
        self.downstreams = app.downstreams
        self._around_runs = app.around_runs
        self._carried: dict[int, dict[str, str]] = {}
        self._taken_away = 0
        self._commit = commit
        self._engine = commit.engine
        self.now = self._engine.clock.now
        self.sleep = commit.sleep
        self.wake = commit.wake
        # From now on jobs that are held and not noted have not begun.
        self._engine.store.processes.note_begun(0, 0)

    @property
    def seen(self) -> int:
        return self._commit.seen

    def exchange(self, ended: Sequence[Run], given_back: Sequence[Run], wants: Sequence[Want]) -> Exchanged:
        well = [run for run in ended if run.outcome is None and not run.held]
        badly = [run for run in ended if run.outcome is not None and not run.held]
        ops: list[Op] = []
        if well:
            results = {run.key: run.result for run in well if run.result is not None}
            tokens = [run.token for run in well]
            ops.append(Succeed([run.key for run in well], _nobody, tokens, results or None))
        ops += [Fail(run.key, run.outcome, _nobody, run.token) for run in badly if run.outcome is not None]
        if given_back:
            held = [(run.key, run.token) for run in given_back]
            ops.append(Call(lambda batch: _give_back(batch, held), _nobody, durable=False))
        wanted = [want for want in wants if want.limit > 0]
        guarded = _Guarded(self, ended, given_back) if self.downstreams else None
        if guarded is not None and (wanted or guarded.is_wanted()):
            ops.append(Call(lambda batch: guarded.run(batch, wanted), _nobody, durable=False))
        elif wanted:
            # No sync for this part: in a power cut a lost take only offers the jobs again.
            ops.append(Call(lambda batch: self.take(batch, wanted), _nobody, durable=False))
        # What is in doubt is written all the same: a failover that undid it would have the jobs run again.
        answers = (
            answer.result if isinstance(answer, InDoubt) else answer for answer in self._commit.apply_all(ops)
        )
        done = Exchanged([], [], [], [])
        if well:
            self._succeeded(well, next(answers), done)
        for run in badly:
            self._failed(run, next(answers), done)
        if given_back and _is_busy(next(answers)):
            done.kept = given_back
        answer = next(answers, None)
        done.busy = _is_busy(answer)
        if guarded is not None and done.busy:
            done.again += guarded.held
        elif guarded is not None and answer is not None:
            self._held(guarded, done)
            answer = guarded.taken
        taken = iter(answer if wanted and isinstance(answer, list) else ())
        for want in wants:
            some = next(taken, None) if want.limit > 0 else None
            done.taken.append([] if some is None else self._runs_of(some.rows, some.token))
            done.goes_on = done.goes_on or (some is not None and some.goes_on)
        return done

    def may_have_lost(self) -> bool:
        before, self._taken_away = self._taken_away, self._engine.parts.taken_away
        return before != self._taken_away or self._commit.has_changed()

    def lost(self, runs: Sequence[Run]) -> Mapping[Run, Stopped]:
        try:
            found: Mapping[Run, Stopped] = self._commit.apply(
                Call(lambda batch: _lost(batch, runs), _nobody, durable=False)
            )
        except StoreFailed:
            raise
        except AnewError as error:
            if not isinstance(error, StoreBusy):
                log.warning("whether jobs were cancelled is not known", extra={"reason": str(error)})
            self._taken_away = -1  # so that it is asked again
            return {}
        return found

    def take(self, batch: Batch, wants: Sequence[Want]) -> list[TakenJobs]:
        """Take jobs, and remember what they carry."""
        taken = [take_for_session(batch, want.queues, want.limit) for want in wants]
        if self._around_runs:  # who else would ask what the jobs carry? It is no part of what a take reads.
            jobs = batch.store.load([row[0] for one in taken for row in one.rows])
            self._carried = {job.key: carried_of(job) for job in jobs if job.meta}
        return taken

    def _held(self, breaking: _Guarded, done: Exchanged) -> None:
        """Note what breakers have made of jobs."""
        done.open, done.turned = breaking.open, breaking.turned
        for run in breaking.held:
            job = breaking.settled.get(run.key)
            if job is None:
                done.lost.append(run)
            else:
                done.settled.append((run, job))
        for run in self._runs_of(breaking.kept, 0):
            job = breaking.settled[run.key]
            run.outcome = Snoozed(ready_at=job.ready_at, reason=HELD, outcome="held")
            done.settled.append((run, job))
        done.held = len(breaking.kept)

    def note_begun(self, slot: int, run: Run) -> None:
        self._engine.store.processes.note_begun(slot, run.key)

    def progress(self, job_id: str, percent: int | None, text: str | None) -> None:
        """Write how far a job has come; it need not outlive a power cut."""
        self._commit.apply(Call(report_progress(job_id, percent, text), _nobody, durable=False))

    def batch_of(self, job_id: str) -> BatchCounts | None:
        key = self._engine.ids.read(job_id)

        def verb(batch: Batch) -> BatchCounts | None:
            for job in batch.hooks.among([key]):
                row = None if job.batch is None else batch.hooks.find_batch(job.batch)
                if row is not None:
                    return BatchCounts(total=row.total, pending=row.pending, failed=row.failed)
            return None

        found: BatchCounts | None = self._commit.apply(Call(verb, _nobody, durable=False))
        return found

    def close(self) -> None:
        """Nothing: the file stays open for the application."""

    def _succeeded(self, runs: Sequence[Run], answer: Any, done: Exchanged) -> None:
        if _is_busy(answer):
            done.again += runs
            return
        missing = set(answer)
        done.lost += [run for run in runs if run.key in missing]
        done.settled += [(run, None) for run in runs if run.key not in missing]

    def _failed(self, run: Run, answer: Any, done: Exchanged) -> None:
        if isinstance(answer, NotFound):
            done.lost.append(run)
        elif _is_busy(answer):
            done.again.append(run)
        else:
            done.settled.append((run, answer))

    def _runs_of(self, rows: Sequence[TakenRow], token: int) -> list[Run]:
        write, find, carried = self._engine.ids.write, self.tasks.get, self._carried
        runs = []
        for key, queue, name, _, ready_at, attempts, _, limit, policy, retention, _, _, payload in rows:
            holds = policy_of(policy, limit, self._engine.parts.defaults.policy)
            retries = None if holds is None else holds.retries
            runs.append(
                Run(
                    key=key,
                    token=token,
                    job_id=write(key),
                    name=name,
                    queue=queue,
                    payload=payload,
                    attempts=attempts,
                    max_attempts=None if retries is None else retries + 1,
                    task=find(name),
                    ready_at=ready_at,
                    carried=carried.get(key, NOTHING),
                    retention=retention,
                )
            )
        return runs


class _Guarded:
    """An exchange of an application whose tasks call services that have breakers: as `take`, inside the transaction.

    Args:
        source: Whose exchange it is.
        ended, given_back: The runs.

    Attributes:
        held: Runs whose handlers were not called, as their breaker had opened meanwhile.
        taken: What was taken and may start.
        kept: Rows that were taken and may not.
        settled: Those of `held` and `kept` as they are now, by key.
        open, turned: See `Exchanged`.
    """

    def __init__(self, source: EmbeddedSource, ended: Sequence[Run], given_back: Sequence[Run]) -> None:
        self._source = source
        self._keys = services_of(source.tasks)
        self._reports = [
            report_of(run, key)
            for run in ended
            if (key := self._keys.get(run.name)) is not None and not run.held
        ]
        self._reports += [
            RunReport(key, run.key, None, run.attempts > 0)
            for run in given_back
            if (key := self._keys.get(run.name)) is not None
        ]
        self.held = [run for run in ended if run.held]
        self.taken: list[TakenJobs] = []
        self.kept: list[TakenRow] = []
        self.settled: dict[int, Job] = {}
        self.open: dict[str, int] | None = None
        self.turned: list[BreakerRow] = []

    def is_wanted(self) -> bool:
        """Report whether there is anything to do but to take."""
        return bool(self._reports or self.held)

    def run(self, batch: Batch, wants: Sequence[Want]) -> _Guarded:
        """Report, take, and hold what may not start."""
        breaking = Breaking(batch, self._source.downstreams)
        for report in self._reports:
            breaking.ran(report)
        still = {key for key, _ in batch.store.held_under([(run.key, run.token) for run in self.held])}
        asking = [
            Asking(self._keys[run.name], run.key, run.attempts > 0) for run in self.held if run.key in still
        ]
        self.settled = breaking.hold_all(asking)
        self.taken = self._source.take(batch, wants)
        rows = [row for taken in self.taken for row in taken.rows]
        # By place, as in `EmbeddedSource._runs_of`: key, type, attempts.
        wanting = [
            Asking(key, row[0], row[5] > 0) for row in rows if (key := self._keys.get(row[2])) is not None
        ]
        kept = breaking.hold_some(wanting)
        self.kept = [row for row in rows if row[0] in kept]
        self.settled |= kept
        for taken in self.taken:
            taken.rows = [row for row in taken.rows if row[0] not in kept]
        seen = breaking.write()
        if seen:
            closed = BreakerState.CLOSED
            self.open = {row.key: row.probe for _, row in seen if row.state is not closed}
            self.turned = [row for before, row in seen if (before is closed) != (row.state is closed)]
        return self


def services_of(tasks: Mapping[str, Task[Any, Any, Any]]) -> dict[str, str]:
    """Give the services that tasks call, by the task's name; those that name none are left out."""
    return {name: task.options.downstream.key for name, task in tasks.items() if task.options.downstream}


def report_of(run: Run, key: str) -> RunReport:
    """Say what a run tells of the service that it calls; a signal of its handler tells nothing, nor does a run that was cut off."""
    outcome, retry = run.outcome, run.attempts > 0
    match outcome:
        case None if run.ended_ns:
            return RunReport(key, run.key, True, retry)
        case Failed() if outcome.error_type not in SIGNALS:
            asked = run.task is not None and run.task.options.retries.function is None
            return RunReport(key, run.key, False, retry, outcome.retry_at if asked else None)
        case Snoozed(outcome="rate_limited"):
            return RunReport(key, run.key, False, retry, outcome.ready_at)
        case _:
            return RunReport(key, run.key, None, retry)


def _give_back(batch: Batch, held: Sequence[tuple[int, int]]) -> None:
    batch.release(sorted(key for key, _ in batch.store.held_under(held)), None)


def _lost(batch: Batch, runs: Sequence[Run]) -> Mapping[Run, Stopped]:
    held = batch.store.held_under([(run.key, run.token) for run in runs])
    lost = [run for run in runs if (run.key, run.token) not in held]
    states = {job.key: job.state for job in batch.store.load([run.key for run in lost])} if lost else {}
    ended = (State.CANCELLED, None)  # one that is not there any more was deleted
    return {run: CALLED_OFF if states.get(run.key) in ended else TAKEN_AWAY for run in lost}


def _is_busy(answer: object) -> bool:
    """Report whether nothing was done, as another program writes; raise what else went wrong."""
    if isinstance(answer, AnewError) and not isinstance(answer, StoreBusy):
        raise answer
    return isinstance(answer, StoreBusy)


def _nobody(result: object) -> None:
    """Replaced by the engine's own."""

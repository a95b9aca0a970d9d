"""Where a worker's jobs come from, and where what becomes of them goes: one exchange does both in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from anew.engine import Call, Fail, Op, Succeed, TakenJobs, ThreadCommit, take_for_session
from anew.engine.batch import Batch
from anew.engine.progress import report_progress
from anew.errors import AnewError, NotFound, StoreBusy
from anew.jobs import Job
from anew.jobs.terms import policy_of
from anew.tasks.app import Anew
from anew.tasks.running import Run


class Want(NamedTuple):
    """What a worker can take.

    Attributes:
        queues: From which; None means all.
        limit: Most jobs, 0 for none.
    """

    queues: Sequence[str] | None
    limit: int


@dataclass(slots=True)
class Exchanged:
    """What an exchange has come to.

    Attributes:
        taken: For each want the jobs, which the worker holds now.
        settled: The runs whose end is on the disk, each with its job as it is now; None: it has completed, or was no longer held.
        lost: Of those, runs whose jobs were no longer held: somebody had cancelled or deleted them.
        again: Runs that could not be settled yet, because another program writes.
    """

    taken: list[list[Run]]
    settled: list[tuple[Run, Job | None]]
    lost: list[Run]
    again: list[Run]


class Source(Protocol):
    """What a worker asks of the place of its jobs. Called by one thread, but for `note_begun`, `wake` and `progress`."""

    @property
    def seen(self) -> int:
        """For `sleep`: what had happened before the worker looked for jobs."""

    def exchange(self, ended: Sequence[Run], given_back: Sequence[Run], wants: Sequence[Want]) -> Exchanged:
        """Report runs that have ended, give back others, and take jobs, in one transaction.

        Raises:
            AnewError: Nothing was done, and nothing can be.
        """

    def sleep(self, seconds: float, seen: int) -> None:
        """Wait until jobs may have come, or `wake` is called."""

    def wake(self) -> None:
        """End a `sleep`."""

    def note_begun(self, slot: int, run: Run) -> None:
        """Note that a run begins, so that after this process's death the other jobs it held are not suspected."""

    def progress(self, job_id: str, percent: int | None, text: str | None) -> None:
        """Write how far a job has come."""

    def now(self) -> int:
        """Give the time, epoch ms."""


class EmbeddedSource:
    """Jobs of a file that this process has open.

    Args:
        app: Whose tasks they are calls of.
        commit: The engine.
    """

    def __init__(self, app: Anew, commit: ThreadCommit) -> None:
        self._tasks = app.tasks
        self._commit = commit
        self._engine = commit.engine
        self.now = self._engine.clock.now
        self.sleep = commit.sleep
        self.wake = commit.wake
        self._engine.store.note_begun(0, 0)  # from now on jobs that are held and not noted have not begun

    @property
    def seen(self) -> int:
        """See `ThreadCommit.seen`."""
        return self._commit.seen

    def exchange(self, ended: Sequence[Run], given_back: Sequence[Run], wants: Sequence[Want]) -> Exchanged:
        """Settle and take; see `Source`."""
        well = [run for run in ended if run.outcome is None]
        badly = [run for run in ended if run.outcome is not None]
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
        if wanted:
            # No sync for this part: in a power cut a lost take only offers the jobs again.
            ops.append(Call(lambda batch: _take(batch, wanted), _nobody, durable=False))
        answers = iter(self._commit.apply_all(ops))
        done = Exchanged([], [], [], [])
        if well:
            self._succeeded(well, next(answers), done)
        for run in badly:
            self._failed(run, next(answers), done)
        if given_back:
            next(answers)
        taken = iter(self._taken(next(answers)) if wanted else ())
        done.taken = [next(taken, []) if want.limit > 0 else [] for want in wants]
        return done

    def note_begun(self, slot: int, run: Run) -> None:
        """See `Source`."""
        self._engine.store.note_begun(slot, run.key)

    def progress(self, job_id: str, percent: int | None, text: str | None) -> None:
        """Write how far a job has come; it need not outlive a power cut."""
        self._commit.apply(Call(report_progress(job_id, percent, text), _nobody, durable=False))

    def _succeeded(self, runs: Sequence[Run], answer: object, done: Exchanged) -> None:
        if isinstance(answer, StoreBusy):
            done.again += runs
            return
        if isinstance(answer, AnewError):
            raise answer
        assert isinstance(answer, list)
        missing = set(answer)
        done.lost += [run for run in runs if run.key in missing]
        done.settled += [(run, None) for run in runs if run.key not in missing]

    def _failed(self, run: Run, answer: object, done: Exchanged) -> None:
        if isinstance(answer, Job):
            done.settled.append((run, answer))
        elif isinstance(answer, NotFound):
            done.lost.append(run)
        elif isinstance(answer, StoreBusy):
            done.again.append(run)
        elif isinstance(answer, AnewError):
            raise answer

    def _taken(self, answer: object) -> list[list[Run]]:
        if isinstance(answer, StoreBusy):
            return []
        if isinstance(answer, AnewError):
            raise answer
        assert isinstance(answer, list)
        return [self._runs(taken) for taken in answer]

    def _runs(self, taken: TakenJobs) -> list[Run]:
        write, find, token = self._engine.ids.write, self._tasks.get, taken.token
        runs = []
        for key, queue, name, _, _, attempts, _, limit, policy, _, _, payload in taken.rows:
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
                )
            )
        return runs


def _take(batch: Batch, wants: Sequence[Want]) -> list[TakenJobs]:
    return [take_for_session(batch, want.queues, want.limit) for want in wants]


def _give_back(batch: Batch, held: Sequence[tuple[int, int]]) -> None:
    batch.release(sorted(key for key, _ in batch.store.held_under(held)), None)


def _nobody(result: object) -> None:
    """Replaced by the engine's own."""

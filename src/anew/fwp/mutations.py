"""What a MUTATE does: one bulk change of the jobs of a set, a chunk at a time beside everybody else's operations.

Ids and a type are compared as columns. Only a pattern takes a job's text, which is written as a worker would get it.

A job that is requeued differs from Faktory's in two things: it goes back to its place in its queue, by its arrival, and not to the
tail; and one that has failed, or was dead, shows the moment of that as its `enqueued_at`. All else of it is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from anew.engine.bulk import BulkChanges, ChunkChange, PartChange
from anew.engine.ops import Done
from anew.engine.verbs import chosen_chunk, delete_chunk, kill_chunk, patch_chunk, redrive_chunk
from anew.errors import AnewError
from anew.fwp.commands import Mutate
from anew.fwp.globs import JobFilter
from anew.fwp.policies import DEAD_MS
from anew.jobs import Job, State
from anew.jobs.patch import Patch
from anew.net.chunks import Work
from anew.store.selection import Filter

_STATES: Final = {"scheduled": State.SCHEDULED, "retries": State.RETRYING, "dead": State.DEAD}


class Mutations:
    """Executes MUTATE.

    Args:
        bulk: Runs the changes.
        clock: Gives the time, epoch ms.
        key_of: Reads an id as a public id of a job that has no other; None if it is none.
        text_of: Writes a job, payload and all, as a worker gets it.
        timer: A clock in seconds, that bounds how long one batch looks at texts.
    """

    def __init__(
        self,
        bulk: BulkChanges,
        clock: Callable[[], int],
        key_of: Callable[[str], int | None],
        text_of: Callable[[Job], bytes],
        timer: Callable[[], float],
    ) -> None:
        self._timer = timer
        self._bulk = bulk
        self._clock = clock
        self._key_of = key_of
        self._text_of = text_of

    def start(self, command: Mutate, done: Done) -> None:
        """Change the jobs that are meant.

        Args:
            command: What, which of them, where.
            done: Called once, at the end, with None or an AnewError; what was changed before it stays so.

        Raises:
            Overloaded: Too many bulk changes are waiting; nothing was changed.
        """
        state = _STATES[command.target]
        name, change = command.action, _change(command.action, state)
        where = Filter(states=frozenset({state}), visible_at=self._clock())
        chosen = command.chosen
        if command.action == "clear" or chosen.everything:
            where = replace(where, visible_at=None) if change is delete_chunk else where
            self._run([where], name, change, done)
        elif chosen.jids:
            self._run(self._named(where, chosen.jids), name, change, done)
        else:
            if chosen.jobtype:
                where = replace(where, types=frozenset({chosen.jobtype}))
            if chosen.reads_text:
                judge = _Judge(chosen, self._text_of)
                judged = chosen_chunk(judge, change, self._timer)
                self._run([where], name, judged, done, reads_payloads=True)
            else:
                self._run([where], name, change, done)

    def _named(self, where: Filter, jids: Iterable[str]) -> list[Filter]:
        """Give filters for jobs under these ids: their producers', or else their public ones."""
        keys = frozenset(key for key in map(self._key_of, jids) if key is not None)
        return [replace(where, jids=frozenset(jids)), *([replace(where, keys=keys)] if keys else [])]

    def _run(
        self,
        parts: list[Filter],
        name: str,
        change: ChunkChange | PartChange,
        done: Done,
        *,
        reads_payloads: bool = False,
    ) -> None:
        """Run a change for each of some filters in turn."""

        def ended(result: object) -> None:
            rest = parts[1:]
            if isinstance(result, AnewError):
                done(result)
            elif rest:
                self._go_on(rest, name, change, done)
            else:
                done(None)

        self._bulk.start(parts[0], change, ended, reads_payloads=reads_payloads, name=name)

    def _go_on(self, parts: list[Filter], name: str, change: ChunkChange | PartChange, done: Done) -> None:
        try:
            self._run(parts, name, change, done)
        except AnewError as error:
            done(error)


class _Judge:
    """Says of one job after another whether it is meant; a long text takes several calls.

    Args:
        chosen: Which are.
        text_of: Writes a job.
    """

    def __init__(self, chosen: JobFilter, text_of: Callable[[Job], bytes]) -> None:
        self._chosen = chosen
        self._text_of = text_of
        self._key = -1
        self._text = b""
        self._work: Work[bool] | None = None

    def __call__(self, job: Job, is_over: Callable[[], bool]) -> bool | None:
        text = self._text_of(job)
        if self._work is None or (self._key, self._text) != (job.key, text):  # it may have changed meanwhile
            self._key, self._text = job.key, text
            self._work = self._chosen.judging(job.jid or "", job.type, lambda: text)
        try:
            next(self._work)
            while not is_over():
                next(self._work)
        except StopIteration as end:
            self._work = None
            return bool(end.value)
        return None


def _change(action: str, state: State) -> ChunkChange:
    if action == "kill":
        return kill_chunk(DEAD_MS)
    if action == "requeue":
        return redrive_chunk() if state is State.DEAD else patch_chunk(Patch(ready_at=None))
    return delete_chunk

"""The waits of jobs that are asked about one by one, computed for all jobs at once before anybody asks. Needs NumPy."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from anew.backoff import Exhausted, Policy, Previous, next_wait
from anew.lab.chance import LabDraws, PhaseKind
from anew.lab.herd import past_deadline
from anew.lab.simulation.scenario import Scenario
from anew.lab.vector import Floats, HerdChance, Millis, Waits

_ROW_BYTES: Final = 96 * 2**20
"""So much memory for rows of waits; retries beyond it are few jobs' and decided one by one."""


@dataclass(frozen=True)
class Round:
    """One retry of the jobs that were refused at the one before."""

    retry: int
    refused: tuple[Millis, Millis]
    """Jobs that are refused once more, and when."""
    later: tuple[Millis, Millis]
    """Jobs that are tried again after the outage, and when; some beyond any horizon."""
    dead: tuple[Millis, Millis]
    """Jobs whose retries are spent, and when they failed."""


class RowJobs:
    """The jobs of a herd and those of fresh calls, whose waits are looked up; decides what `TrueJobs` decides."""

    def __init__(self, policy: Policy, scenario: Scenario, fresh: int) -> None:
        count = scenario.jobs + fresh
        self._policy = policy
        self._endless = replace(policy, deadline_ms=None)
        self._seed = scenario.seed
        self._kind = cast(PhaseKind, scenario.phase)
        self._numbers = np.arange(count, dtype=np.uint64)
        self._waits = Waits(policy)
        self._carry: Floats | None = None
        self._rows: list[array[int]] = []
        self._most = max(1, _ROW_BYTES // (8 * count))
        self._retries = array("l", bytes(array("l").itemsize * count))
        self._first: dict[int, int] = {}
        self._carried: dict[int, float | None] = {}

    def fail(self, number: int, now: int) -> int | None:
        """Let a job fail; give when it is tried again, None if it is dead."""
        policy = self._policy
        retry = self._retries[number] + 1
        if policy.retries is not None and retry > policy.retries:
            return None
        self._retries[number] = retry
        if retry > len(self._rows):
            self._grow(retry)
        wait_ms = self._rows[retry - 1][number] if retry <= self._most else self._single(number, retry)
        if policy.deadline_ms is not None:
            left_ms = policy.deadline_ms - (now - self._first.setdefault(number, now))
            if wait_ms > left_ms:
                if policy.on_deadline == "finish" or left_ms <= 0:
                    return None
                wait_ms = left_ms
        return now + wait_ms

    def rounds(self, firsts: Sequence[int], until_ms: int) -> Iterator[Round]:
        """Let jobs be refused until the outage is over, all at once: nobody hinders anybody before that.

        Args:
            until_ms: Calls before that are refused at once.

        Yields:
            One round per retry. Jobs that are later or dead do not come back; `fail` goes on with those that are
            later. Where rows end, the last round has all others as later, whatever their time.
        """
        failed = first = np.asarray(firsts, dtype=np.int64)
        policy, alive = self._policy, np.arange(len(failed))
        nobody = (alive[:0], failed[:0])
        retry = 0
        while len(alive):
            retry += 1
            if policy.retries is not None and retry > policy.retries:
                yield Round(retry, nobody, nobody, (alive, failed))
                return
            if retry > self._most:
                yield self._apart(alive, failed, first, retry)
                return
            self._grow(retry)
            wait = np.frombuffer(self._rows[retry - 1], dtype=np.int64)[alive]
            late = np.zeros(len(alive), dtype=np.bool_)
            if policy.deadline_ms is not None:
                left = policy.deadline_ms - (failed - first)
                late = past_deadline(wait, left, clip=policy.on_deadline == "clip")
            due = failed + wait
            early, later = (due < until_ms) & ~late, (due >= until_ms) & ~late
            self._note(alive[later], first[later], retry)
            yield Round(
                retry, (alive[early], due[early]), (alive[later], due[later]), (alive[late], failed[late])
            )
            alive, failed, first = alive[early], due[early], first[early]

    def _apart(self, alive: Millis, failed: Millis, first: Millis, retry: int) -> Round:
        """Let the jobs go on one by one."""
        self._note(alive, first, retry - 1)
        dues = [self.fail(job, at) for job, at in zip(alive.tolist(), failed.tolist(), strict=True)]
        lives = np.array([due is not None for due in dues], dtype=np.bool_)
        later = np.array([due for due in dues if due is not None], dtype=np.int64)
        return Round(retry, (alive[:0], failed[:0]), (alive[lives], later), (alive[~lives], failed[~lives]))

    def _note(self, jobs: Millis, first: Millis, retry: int) -> None:
        for job, at in zip(jobs.tolist(), first.tolist(), strict=True):
            self._retries[job] = retry
            self._first[job] = at

    def _grow(self, retry: int) -> None:
        """Calculate the waits of all jobs up to a retry, as integers that are cheap to look up."""
        for number in range(len(self._rows) + 1, min(retry, self._most) + 1):
            luck = HerdChance(self._seed, self._numbers, number, kind=self._kind)
            waits, self._carry = self._waits.one(number, luck, self._carry)
            self._rows.append(array("q", waits.tobytes()))

    def _single(self, number: int, retry: int) -> int:
        if number not in self._carried and self._carry is not None:
            self._carried[number] = float(self._carry[number])
        previous = Previous(self._carried.get(number))
        draws = LabDraws.of(self._seed, number, retry, self._kind)
        wait = next_wait(self._endless, retry, draws, previous=previous, beyond_limit=True)
        assert not isinstance(wait, Exhausted)
        self._carried[number] = wait.carry
        return wait.wait_ms

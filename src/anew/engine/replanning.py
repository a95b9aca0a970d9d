"""A change of many jobs at once: what waits for a retry gets the times of another policy; or it only says what those would be."""

from __future__ import annotations

from bisect import bisect_left
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from anew.backoff import Draws
from anew.engine.batch import Batch
from anew.engine.bulk import Extent
from anew.engine.verbs import matching, within
from anew.jobs import Job, State
from anew.jobs.replan import Kept, Replanned, replanned
from anew.store.selection import Filter

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
WITHIN_MS: Final = (0, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY)
"""How soon jobs are due, as they are counted; a last count is of those that are due later still."""


def replannable(where: Filter) -> Filter:
    """Narrow a filter to the jobs that wait for a retry."""
    return within(where, frozenset([State.RETRYING]))


@dataclass(slots=True)
class Plan:
    """How new times compare with the old ones.

    Attributes:
        sooner, later, unchanged: Jobs that have a new time, by how it compares with the old one.
        kept: Jobs whose time stands, by why.
        due_before, due_after: How many of the former are due within each of `WITHIN_MS`, and beyond, as they were and as they are.
    """

    sooner: int = 0
    later: int = 0
    unchanged: int = 0
    kept: dict[Kept, int] = field(default_factory=lambda: dict.fromkeys(Kept, 0))
    due_before: list[int] = field(default_factory=lambda: [0] * (len(WITHIN_MS) + 1))
    due_after: list[int] = field(default_factory=lambda: [0] * (len(WITHIN_MS) + 1))

    @property
    def replanned(self) -> int:
        """How many have a new time."""
        return self.sooner + self.later + self.unchanged

    @property
    def looked(self) -> int:
        """How many jobs it is about."""
        return self.replanned + sum(self.kept.values())

    def count(self, was_at: int, is_at: int, began: int) -> None:
        """Count one job with a new time."""
        self.sooner += is_at < was_at
        self.later += is_at > was_at
        self.unchanged += is_at == was_at
        self.due_before[bisect_left(WITHIN_MS, was_at - began)] += 1
        self.due_after[bisect_left(WITHIN_MS, is_at - began)] += 1


class Replanning:
    """One such change, a `ChunkChange`.

    Args:
        policy: JSON of the policy, checked.
        spread_ms: Of n jobs that match, the i-th in order of arrival from 0 is not due before i / n of this has passed.
        dry_run: Change nothing.

    Attributes:
        plan: The result so far.
    """

    def __init__(self, policy: bytes, spread_ms: int, *, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.plan = Plan()
        self._policy = policy
        self._spread_ms = spread_ms

    def __call__(self, batch: Batch, where: Filter, extent: Extent, before: int) -> int:
        """Give the jobs of one chunk their times."""
        batch.on_undo.append(partial(setattr, self, "plan", self.plan))
        self.plan = deepcopy(self.plan)
        jobs = matching(batch, where)
        last = batch.store.records.last_decisions([job.key for job in jobs])
        changes: list[tuple[Job, Job]] = []
        decisions: list[tuple[int, bytes]] = []
        for job in jobs:
            record, attempt, decision = last.get(job.key, (0, 0, None))
            place_ms = self._spread_ms * min(self.plan.looked, extent.total) // extent.total
            not_before = extent.began + place_ms if self._spread_ms else 0
            found = self._planned(batch, job, attempt, decision, not_before)
            if isinstance(found, Kept):
                self.plan.kept[found] += 1
                continue
            self.plan.count(job.ready_at, found.job.ready_at, extent.began)
            changes.append((job, found.job))
            decisions.append((record, found.decision))
        if not self.dry_run:
            batch.rewrite(changes)
            batch.store.records.redecide(decisions)
        return len(changes)

    def _planned(
        self, batch: Batch, job: Job, attempt: int, decision: bytes | None, not_before: int
    ) -> Replanned | Kept:
        """Decide about one job; its chance is always the same, so that a dry run says what will come."""
        draws = Draws(
            rng=Random(f"{job.key} {job.attempts}").random,  # noqa: S311 - spreads load, guards nothing
            job_id=batch.id_of(job.key),
            phase=job.phase,
            key=batch.store.identity.secret,
        )
        return replanned(
            job,
            attempt,
            decision,
            self._policy,
            draws=draws,
            defaults=batch.defaults,
            now=batch.now,
            not_before=not_before,
        )

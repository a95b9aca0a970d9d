"""The fast way for jobs that do not hinder each other: all jobs retry by retry, in blocks that fit the cache. Needs NumPy."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from anew.backoff import Policy
from anew.lab import chance
from anew.lab.herd import BLOCK, past_deadline
from anew.lab.simulation.bounds import Budget
from anew.lab.simulation.outcome import SHOWN_DOTS
from anew.lab.simulation.record import Ends, Record
from anew.lab.simulation.scenario import Scenario
from anew.lab.vector import Floats, HerdChance, Millis, Waits


def simulate_fast(policy: Policy, scenario: Scenario, budget: Budget, record: Record) -> None:
    """Simulate jobs that do not hinder each other, all at once; what happens is what `queueing` says where nothing is limited."""
    herd = _Herd(policy, scenario, record.ends)
    shown, retry = len(record.dots), 0
    while herd.alive:
        retry += 1
        before = record.ends.succeeded
        calls, callers = herd.retry(retry)
        if not len(calls):
            break
        budget.spend(len(calls), retry)
        record.made[retry] = calls.copy()
        record.good[retry] = record.ends.succeeded - before
        seen = shown if retry <= SHOWN_DOTS else 0
        for job, instant in zip(callers[:seen].tolist(), calls[:seen].tolist(), strict=True):
            record.show(job, instant)
        budget.tell(max(retry / (policy.retries or retry + 25), 1 - herd.alive / scenario.jobs), 1.0)


def arrivals(scenario: Scenario) -> Millis:
    """Give when each job of the herd fails for the first time, the first first."""
    if not scenario.over_ms:
        return np.zeros(scenario.jobs, dtype=np.int64)
    jobs = np.arange(scenario.jobs, dtype=np.uint64)
    shares = chance.numbers(scenario.seed, chance.ARRIVAL, jobs, 0)
    shares *= scenario.over_ms
    return np.sort(shares.astype(np.int64))


class _Herd:
    """The jobs that still retry, in columns; those that ended are squeezed out, and ``alive`` are left."""

    def __init__(self, policy: Policy, scenario: Scenario, ends: Ends) -> None:
        self._policy = policy
        self._ends = ends
        self._scenario = scenario
        self._waits = Waits(policy)
        self._kind = cast(chance.PhaseKind, scenario.phase)
        self._numbers = np.arange(scenario.jobs, dtype=np.uint64)
        self._failed = arrivals(scenario)
        # Where all fail at 0 nobody's first failure needs a column.
        self._first = self._failed.copy() if scenario.over_ms else None
        self._carry: Floats | None = None
        self._calls = np.empty(scenario.jobs, dtype=np.int64)
        self._callers = np.empty(scenario.jobs, dtype=np.uint64)
        self._no_success = scenario.success == 0 or (
            scenario.timeout_ms is not None and scenario.latency_ms > scenario.timeout_ms
        )
        self.alive = scenario.jobs

    def retry(self, retry: int) -> tuple[Millis, NDArray[np.uint64]]:
        """Let every job decide about one retry and make it.

        Returns:
            The calls' instants, and who made them. The arrays are valid until the next retry.
        """
        if self._policy.retries is not None and retry > self._policy.retries:
            self._die(self._failed[: self.alive])
            self.alive = 0
            return self._calls[:0], self._callers[:0]
        kept = made = 0
        for start in range(0, self.alive, BLOCK):
            stop = min(start + BLOCK, self.alive)
            due, picked = self._due(retry, slice(start, stop))
            places = slice(start, stop) if picked is None else start + np.flatnonzero(picked)
            self._calls[made : made + len(due)] = due
            self._callers[made : made + len(due)] = self._numbers[places]
            made += len(due)
            kept += self._answer(retry, due, places, kept)
        self.alive = kept
        return self._calls[:made], self._callers[:made]

    def _due(self, retry: int, block: slice) -> tuple[Millis, NDArray[np.bool_] | None]:
        """Give when the jobs of a block are tried again, and which are (None: all)."""
        failed = self._failed[block]
        luck = HerdChance(self._scenario.seed, self._numbers[block], retry, kind=self._kind)
        carry = None if self._carry is None else self._carry[block]
        wait, carry = self._waits.one(retry, luck, carry)
        if carry is not None:
            if self._carry is None:
                self._carry = np.full(self._scenario.jobs, np.nan)
            self._carry[block] = carry
        picked = None
        if self._policy.deadline_ms is not None:
            elapsed = failed if self._first is None else failed - self._first[block]
            clip = self._policy.on_deadline == "clip"
            late = past_deadline(wait, self._policy.deadline_ms - elapsed, clip=clip)
            self._die(failed[late])
            picked = ~late
        wait += failed
        horizon_ms = self._scenario.end_ms
        if horizon_ms is not None and len(wait) and int(wait.max()) > horizon_ms:
            early = wait <= horizon_ms
            picked = early if picked is None else picked & early
        return (wait, None) if picked is None else (wait[picked], picked)

    def _answer(self, retry: int, due: Millis, places: slice | Millis, kept: int) -> int:
        """Let the calls of a block succeed or fail; move those that failed to the place ``kept``; tell how many."""
        outage_ms, scenario = self._scenario.outage_ms, self._scenario
        failing_ms = scenario.latency_ms
        if scenario.timeout_ms is not None:
            failing_ms = min(failing_ms, scenario.timeout_ms)
        answered = due
        if failing_ms:
            answered = np.where(due < outage_ms, due, due + failing_ms) if outage_ms else due + failing_ms
        if self._no_success or not len(due) or int(due.max()) < outage_ms:
            return self._keep(places, answered, None, kept)
        good = due >= outage_ms
        if scenario.success < 1:
            numbers = chance.numbers(scenario.seed, chance.SUCCESS, self._numbers[places], retry)
            good &= numbers < scenario.success
        ended = answered[good]
        if len(ended):
            since = 0 if self._first is None else self._first[places][good]
            self._ends.took_ms.frombytes((ended - since).tobytes())
            self._ends.succeeded += len(ended)
            self._ends.last_ms = max(self._ends.last_ms, int(ended.max()))
        return self._keep(places, answered, ~good, kept)

    def _keep(
        self, places: slice | Millis, answered: Millis, failed: NDArray[np.bool_] | None, kept: int
    ) -> int:
        """Move the failed calls' jobs together; everybody to the left has moved already."""
        if failed is None and isinstance(places, slice) and places.start == kept:
            self._failed[places] = answered
            return len(answered)
        if failed is not None:
            answered = answered[failed]
        room = slice(kept, kept + len(answered))
        for column in (self._numbers, self._first, self._carry):
            if column is not None:
                values = column[places]
                column[room] = values if failed is None else values[failed]
        self._failed[room] = answered
        return len(answered)

    def _die(self, failed: Millis) -> None:
        if len(failed):
            self._ends.dead += len(failed)
            self._ends.last_ms = max(self._ends.last_ms, int(failed.max()))

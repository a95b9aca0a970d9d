"""Calls that hinder each other: workers that run out, a downstream with a queue, callers that give up.

The model, call by call in the order in which calls are due (equal ones by the job's number):

* **Workers.** A call begins when it is due and one of ``workers`` is free; the one due first begins first. It holds its
  worker until it is answered, refused or given up.
* **Outage.** A call that begins before ``outage_ms`` is refused at once and costs the downstream nothing.
* **Downstream.** One queue, first come, first served; each call takes ``1 / capacity`` seconds of it. So a call that begins
  at t is done at ``max(t, when the one before it is done) + 1 / capacity`` and answered ``latency_ms`` after that.
* **Giving up.** A caller that has waited ``timeout_ms`` goes away and counts a failure. The downstream does not know
  and does the work all the same. That is what can keep it busy for nobody: once the queue is longer than the
  time-out, everything it does is for callers who have left, and their retries keep the queue long. The overload then
  outlives its cause (a *metastable failure*), until retries end or come so rarely that the queue can run dry.
* **Fresh calls.** ``base_rate`` of them per second, evenly spaced from the start on. One that fails becomes a job of the same
  policy. They tell best whether the system has recovered.

Limits: service times are constant; the queue never refuses anybody; nobody cancels work; one outage, complete; fresh calls
do not come in bursts. Instants inside are nanoseconds, so that a capacity of 3 per second loses nothing; what is told is
rounded down, and a failure is dated up, to whole milliseconds. Nothing here is drawn but waits and successes, each
from its own address, so the engine's own decision and the vectorised one give the same outcome.

Source: N. Bronson et al., "Metastable Failures in Distributed Systems", HotOS 2021. The queue is Lindley's recursion
(D. V. Lindley, 1952).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from anew.backoff import Policy
from anew.lab.simulation.bounds import Budget
from anew.lab.simulation.exact import TrueJobs, arrivals, succeeds
from anew.lab.simulation.outcome import SHOWN_JOBS
from anew.lab.simulation.record import Ends, Record
from anew.lab.simulation.scenario import Scenario

if TYPE_CHECKING:
    from anew.lab.simulation.rows import Round, RowJobs

_MAX_NUMBER: Final = 2**25
"""Numbers of jobs lie below this (`MAX_COUPLED_CALLS` does), so that a due time and a number fit one integer, which sorts fast."""

_NS: Final = 1_000_000
"""Nanoseconds in a millisecond."""

_NEVER: Final = 2**62
"""Later than anything."""

_SPENT_EVERY: Final = 256
"""Calls are counted against the bound so many at a time."""


def simulate_queueing(
    policy: Policy, scenario: Scenario, budget: Budget, record: Record, *, exact: bool
) -> None:
    """Simulate jobs that hinder each other; where nothing is limited, those of which each failure is decided by itself."""
    fresh = _fresh(scenario, budget)
    jobs: TrueJobs | RowJobs
    if exact:
        jobs, firsts = TrueJobs(policy, scenario), arrivals(scenario)
    else:
        # Inside: NumPy is optional.
        from anew.lab.simulation import fast
        from anew.lab.simulation.rows import RowJobs

        jobs, firsts = RowJobs(policy, scenario, len(fresh)), fast.arrivals(scenario).tolist()
    _Traffic(scenario, array("q", firsts), fresh, jobs, budget, record).run()


def _fresh(scenario: Scenario, budget: Budget) -> range | array[int]:
    """Give when fresh calls come, in ms."""
    end_ms = scenario.end_ms
    if not scenario.base_rate or end_ms is None:
        return range(0)
    count = int(end_ms * scenario.base_rate / 1000)
    budget.admit(scenario.jobs + count)
    return array("q", (int(n * 1000 / scenario.base_rate) for n in range(1, count + 1)))


@dataclass
class _Traffic:
    """All calls of a scenario, in time: of the herd, whose first failures are known, and of fresh ones."""

    scenario: Scenario
    firsts: array[int]
    fresh: Sequence[int]
    jobs: TrueJobs | RowJobs
    budget: Budget
    record: Record
    fresh_seen: int = 0
    pending: list[int] = field(default_factory=list)
    """A heap of due * _MAX_NUMBER + job; of the fresh calls only the next one is in it."""

    def __post_init__(self) -> None:
        self.end_ms = self.scenario.end_ms
        self.retries = array("l", bytes(array("l").itemsize * (self.scenario.jobs + len(self.fresh))))

    def _begin(self) -> None:
        """Let the herd fail; where that can be told for all jobs at once, let the outage pass."""
        begun = 0
        if isinstance(self.jobs, TrueJobs):
            for job, at in enumerate(self.firsts):
                due = self.jobs.fail(job, at)
                if due is None:
                    self._ends(job).death(at)
                else:
                    self._wait(job, due, 1)
        else:
            begun = self._let_outage_pass(self.jobs)
        self._next_fresh(begun)

    def _let_outage_pass(self, jobs: RowJobs) -> int:
        """Refuse whoever calls in the outage; give how many fresh calls were among them."""
        outage_ms = self.scenario.outage_ms
        begun = bisect_left(self.fresh, outage_ms)
        refused = array("q", self.fresh[:begun])
        self.record.fresh_calls += begun
        self.record.offer(refused)
        self.budget.spend(begun, 0)
        until_ms = outage_ms if self.end_ms is None else min(outage_ms, self.end_ms + 1)
        for turn in jobs.rounds(self.firsts + refused, until_ms):
            self._take(turn)
        return begun

    def _take(self, turn: Round) -> None:
        retry, record = turn.retry, self.record
        calling, instants = turn.refused
        self.budget.spend(len(calling), retry)
        if len(instants) and self.end_ms:
            self.budget.tell(int(instants.min()), self.end_ms)
        record.fresh_retries += int((calling >= self.scenario.jobs).sum())
        record.offer(array("q", instants.tobytes()))
        if len(calling):
            record.made[retry] = array("q", instants.tobytes())
        for job, at in zip(calling[:SHOWN_JOBS].tolist(), instants[:SHOWN_JOBS].tolist(), strict=True):
            record.show(job, at)
        for job, at in zip(turn.dead[0].tolist(), turn.dead[1].tolist(), strict=True):
            self._ends(job).death(at)
        for job, due in zip(turn.later[0].tolist(), turn.later[1].tolist(), strict=True):
            self._wait(job, due, retry)

    def run(self) -> None:
        """Let everything happen. Attributes that every call needs are looked up once: this is where the time goes."""
        self._begin()
        line, record, pending = _Line(self.scenario), self.record, self.pending
        begin, call, retried, lucky = line.begin, line.call, record.retried, succeeds(self.scenario)
        due_append, offered, retries, fail = record.due.append, record.offered, self.retries, self.jobs.fail
        end_ms = _NEVER if self.end_ms is None else self.end_ms
        herd = self.scenario.jobs
        begun = len(offered)
        while pending:
            due, job = divmod(heappop(pending), _MAX_NUMBER)
            retry = retries[job]
            start = begin(due * _NS)
            at = start // _NS
            if at > end_ms:
                # Calls begin in order, so all others would begin later still.
                self._leave_held(due)
                break
            due_append(due)
            offered.append(at)
            if not len(offered) % _SPENT_EVERY:
                begun = self._spend(begun, retry)
            if retry:
                retried(job, retry, at)
                record.fresh_retries += job >= herd
            else:
                record.fresh_calls += 1
                self._next_fresh(job + 1 - self.scenario.jobs)
            in_time = call(start, record)
            ended = -(-line.answered // _NS)
            if in_time and lucky(job, retry):
                self._succeeded(job, retry, ended)
                continue
            again = fail(job, ended)
            if again is None:
                self._ends(job).death(ended)
            elif again <= end_ms:
                retries[job] = retry + 1
                heappush(pending, again * _MAX_NUMBER + job)
        record.most_backlog = line.most_backlog
        self._spend(begun, 0)
        self.budget.tell(1, 1)

    def _leave_held(self, due: int) -> None:
        """Count the calls that are due before the horizon and find no worker before it: this one, and all that wait."""
        self.record.due.append(due)
        self.record.due.extend(entry // _MAX_NUMBER for entry in self.pending)
        self.record.due.extend(self.fresh[self.fresh_seen :])

    def _spend(self, before: int, retry: int) -> int:
        """Count the calls since so many against the bound, and tell how far the herd is."""
        made = len(self.record.offered)
        self.budget.spend(made - before, retry)
        ends = self.record.ends
        self.budget.tell(ends.succeeded + ends.dead, self.scenario.jobs + 1)
        return made

    def _next_fresh(self, number: int) -> None:
        self.fresh_seen = number + 1
        if number < len(self.fresh):
            at = self.fresh[number]
            heappush(self.pending, at * _MAX_NUMBER + self.scenario.jobs + number)
            self.budget.tell(at, self.end_ms or 1)

    def _wait(self, job: int, due: int, retry: int) -> None:
        """Let a job wait for its retry, unless that is beyond the horizon."""
        self.retries[job] = retry
        if self.end_ms is None or due <= self.end_ms:
            heappush(self.pending, due * _MAX_NUMBER + job)

    def _ends(self, job: int) -> Ends:
        return self.record.ends if job < self.scenario.jobs else self.record.fresh_ends

    def _succeeded(self, job: int, retry: int, at: int) -> None:
        record = self.record
        if retry:
            record.good[retry] += 1
        if job < self.scenario.jobs:
            record.ends.success(at, self.firsts[job])
            return
        record.fresh_ends.succeeded += 1
        record.at_once += not retry


class _Line:
    """The workers and the downstream's queue. Instants in nanoseconds.

    Attributes:
        answered: When the latest call ended for its caller: by an answer, a refusal, or its patience.
        longest_wait: The longest that a call took to be done, the queue before it included.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._outage = scenario.outage_ms * _NS
        self._service = 0 if scenario.capacity is None else round(1e9 / scenario.capacity)
        self._latency = scenario.latency_ms * _NS
        self._timeout = None if scenario.timeout_ms is None else scenario.timeout_ms * _NS
        # Callers leave in the order in which they began (so do both answers and patience), hence a simple queue.
        self._busy: deque[int] | None = None
        if scenario.workers is not None:
            self._busy = deque([0] * scenario.workers, scenario.workers)
        self._free = 0
        self.answered = 0
        self.longest_wait = 0

    @property
    def most_backlog(self) -> int:
        """The most calls that had been taken in and were not yet done."""
        # All before a call take the same: it is in the queue for so many services, the last of which are whole.
        return -(-self.longest_wait // self._service) if self._service else 0

    def begin(self, due: int) -> int:
        """Give when a call that is due begins; the workers are still to be told, by `call`."""
        return due if self._busy is None or self._busy[0] <= due else self._busy[0]

    def call(self, start: int, record: Record) -> bool:
        """Make a call; tell whether it was answered in time."""
        in_time = start >= self._outage
        answered = start
        if in_time:
            free = self._free
            done = self._free = (start if start > free else free) + self._service
            if done - start > self.longest_wait:
                self.longest_wait = done - start
            worked = _within(start, done)
            record.done.append(worked)
            answered = done + self._latency
            if self._timeout is not None and answered - start > self._timeout:
                in_time = False
                answered = start + self._timeout
                record.abandoned.append(worked)
            else:
                record.served.append(_within(start, answered))
        if self._busy is not None:
            self._busy.append(answered)
        self.answered = answered
        return in_time


def _within(start: int, end: int) -> int:
    """Give the millisecond in which something ended: what ends on the stroke of a second was done in the second before."""
    return (end - 1 if end > start else end) // _NS

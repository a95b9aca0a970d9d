"""The slow and sure way: every failure of every job goes through the engine's own decision; and the chance beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from msgspec.structs import replace

from anew.backoff import Policy
from anew.jobs import Defaults, Failed, Job, State, decide_failure
from anew.lab.chance import ARRIVAL, SUCCESS, LabDraws, PhaseKind, number
from anew.lab.simulation.scenario import Scenario

_FAILURE: Final = Failed(message="")
_NEW_JOB: Final = Job(
    key=0,
    queue="lab",
    type="lab",
    priority=0,
    state=State.IN_FLIGHT,
    ready_at=0,
    attempts=0,
    interruptions=0,
    retry_limit=None,
    policy=None,
    retention=None,
    dequeued_at=None,
    failed_at=None,
    first_failed_at=None,
    completed_at=None,
    purge_at=None,
    phase=None,
    carry=None,
)


class TrueJobs:
    """Jobs in flight, and what `decide_failure` makes of them."""

    def __init__(self, policy: Policy, scenario: Scenario) -> None:
        self._defaults = Defaults(policy=policy)
        self._seed = scenario.seed
        self._kind = cast(PhaseKind, scenario.phase)
        self._jobs: dict[int, Job] = {}

    def fail(self, number: int, now: int) -> int | None:
        """Let a job fail; give when it is tried again, None if it is dead."""
        job = self._jobs.pop(number, _NEW_JOB)
        draws = LabDraws.of(self._seed, number, job.attempts + 1, self._kind)
        change = decide_failure(
            job,
            _FAILURE,
            job_id=b"",
            defaults=self._defaults,
            now=now,
            rng=draws.rng,
            phase=draws.lifelong(),
            draws=draws,
        )
        if change.state is State.DEAD:
            return None
        self._jobs[number] = replace(
            job,
            attempts=change.attempts,
            failed_at=change.failed_at,
            first_failed_at=change.first_failed_at,
            phase=change.phase,
            carry=change.carry,
        )
        return change.ready_at


def arrivals(scenario: Scenario) -> list[int]:
    """Give when each job of the herd fails for the first time, the first first."""
    jobs, over_ms = range(scenario.jobs), scenario.over_ms
    return sorted(int(number(scenario.seed, ARRIVAL, job, 0) * over_ms) for job in jobs)


def succeeds(scenario: Scenario) -> Callable[[int, int], bool]:
    """Give the function that tells of a job and a retry whether a call that nothing hinders succeeds."""
    seed, success = scenario.seed, scenario.success
    if success in (0.0, 1.0):
        return lambda job, retry: success == 1.0
    return lambda job, retry: number(seed, SUCCESS, job, retry) < success

"""Simulate a policy: a herd of jobs, an outage, and what comes of it. The same question gets the same answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.chance import has_numpy
from anew.lab.simulation.bounds import (
    COUPLED_CALL,
    MAX_CALLS,
    MAX_COUPLED_CALLS,
    MAX_EXACT_CALLS,
    MAX_EXACT_JOBS,
    PLAIN_JOBS,
    Budget,
    admit_calls,
)
from anew.lab.simulation.outcome import Outcome
from anew.lab.simulation.record import Record
from anew.lab.simulation.scenario import Scenario
from anew.units import refused


def simulate(
    policy: Policy | str | Mapping[str, Any],
    scenario: Scenario,
    *,
    exact: bool = False,
    progress: Callable[[float], None] | None = None,
    max_calls: int | None = None,
    record: Record | None = None,
) -> Outcome:
    """Tell what becomes of a herd of jobs under a policy.

    Each job has failed once, at a moment of its own within ``over_ms``. It is retried as the policy says until a call
    succeeds or its retries are spent. Where the scenario limits capacity or workers, or adds fresh calls, the calls
    meet in a queue; see `anew.lab.simulation.queueing` for that model and its limits.

    Args:
        policy: The law of all jobs, or the JSON value that it is read from.
        scenario: What happens to them.
        exact: Ask the engine's own decision about every failure, as the server does, instead of the vectorised form.
            The outcome is the same; it takes a hundred times as long. Without NumPy this is the only way.
        progress: Is told a share of the work from 0 to 1, now and then; what it raises ends the simulation.
        max_calls: Stop with an error after so many calls, or after a tenth of it where they meet in a queue, which
            takes ten times as long; None: the largest bound there is.
        record: A new one of this scenario, which keeps when each call was made, and when it was served.

    Returns:
        The outcome, equal for equal policy and scenario.

    Raises:
        InvalidPolicy: The value is no policy.
        InvalidInput: The work would be without end or beyond bounds, or NumPy is needed and missing.
    """
    policy = Policy.from_json(policy)
    plain = exact or not has_numpy()
    _check(policy, scenario, exact=exact, plain=plain)
    bound = MAX_EXACT_CALLS if plain else MAX_COUPLED_CALLS if scenario.coupled else MAX_CALLS
    if max_calls is not None:
        bound = min(bound, max_calls // COUPLED_CALL if scenario.coupled else max_calls)
    admit_calls(policy, scenario, bound)
    budget = Budget(bound, progress)
    budget.admit(scenario.jobs)
    if scenario.success == 0 and scenario.end_ms is None and policy.deadline_ms is None:
        # Nothing but its limit ends a job, and without one this would have been refused above.
        budget.foresee(scenario.jobs, policy.retries or 0)
    record = record or Record.of(scenario)
    # Imported here, because NumPy is optional, and slow to import for a command that does not need it.
    if scenario.coupled or plain:
        from anew.lab.simulation.queueing import simulate_queueing

        simulate_queueing(policy, scenario, budget, record, exact=plain)
    else:
        from anew.lab.simulation.fast import simulate_fast

        simulate_fast(policy, scenario, budget, record)
    return record.outcome(scenario)


def _check(policy: Policy, scenario: Scenario, *, exact: bool, plain: bool) -> None:
    hopeless = scenario.success == 0 and policy.retries is None and policy.deadline_ms is None
    if hopeless and scenario.end_ms is None:
        raise InvalidInput(
            "horizon: is missing; expected one, as nothing ever succeeds and the policy has no end",
            field="horizon",
        )
    if plain and not exact and scenario.jobs > PLAIN_JOBS:
        expected = f"at most {PLAIN_JOBS} without NumPy (pip install 'anew[lab]')"
        raise refused("jobs", scenario.jobs, expected)
    if exact and scenario.jobs > MAX_EXACT_JOBS:
        expected = f"at most {MAX_EXACT_JOBS} where each decision is the engine's own (exact)"
        raise refused("jobs", scenario.jobs, expected)

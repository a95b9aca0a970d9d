"""Calls that hinder each other: cases that can be worked out with pencil and paper, and the collapse."""

from __future__ import annotations

from typing import Any

import pytest

from anew.backoff import Policy
from anew.lab.simulation.outcome import Downstream, Fresh, Outcome
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate

EVERY_SECOND = Policy.from_json({"curve": {"constant": "1s"}, "limit": 25})
EVERY_DAY = Policy.from_json({"curve": {"constant": "1d"}})


def run(policy: Policy = EVERY_SECOND, **scenario: Any) -> tuple[Outcome, Downstream]:
    outcome = simulate(policy, Scenario(**scenario))
    assert outcome.downstream is not None
    return outcome, outcome.downstream


def test_a_queue_is_worked_off_at_capacity() -> None:
    """A hundred calls at 1 s, ten a second: the k-th is done at 1 s + k / 10 s, the last at 11 s."""
    outcome, downstream = run(jobs=100, capacity=10)
    assert outcome.success_ms is not None
    assert (outcome.success_ms.p50, outcome.success_ms.p95, outcome.success_ms.max) == (6_000, 10_500, 11_000)
    assert outcome.through_ms == 11_000
    assert max(downstream.backlog) == downstream.most_backlog == 100
    assert downstream.bin_ms == 10
    # Each second ten leave; what is done on the stroke of a second was done in the second that ends.
    assert downstream.backlog[99::100] == (0, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0)
    assert [sum(downstream.served[start : start + 100]) for start in range(0, 1_100, 100)] == [0, *[10] * 10]


def test_a_capacity_that_divides_nothing_loses_nothing() -> None:
    """Three a second: the 300th call is done 100 s after the first came."""
    outcome, _ = run(jobs=300, capacity=3)
    assert outcome.through_ms == 101_000


def test_answers_that_come_after_the_last_work_are_counted() -> None:
    """Ten calls at 1 s, done by 2 s, answered half a second later each: the last at 2.5 s; by 2.1 s six are."""
    outcome, downstream = run(jobs=10, capacity=10, latency_ms=500)
    assert sum(downstream.served) == outcome.succeeded == 10
    assert len(downstream.served) * downstream.bin_ms == outcome.through_ms == 2_500
    _, until = run(jobs=10, capacity=10, latency_ms=500, horizon_ms=2_100)
    assert (sum(until.served), until.backlog[-1]) == (6, 0)


def test_workers_take_turns() -> None:
    """Two workers, six calls of one second: pairs at 1, 2 and 3 s."""
    outcome, downstream = run(jobs=6, workers=2, latency_ms=1_000)
    assert outcome.dots == ((1_000,), (1_000,), (2_000,), (2_000,), (3_000,), (3_000,))
    assert outcome.through_ms == 4_000
    assert max(downstream.held) == downstream.most_held == 4


def test_a_queue_that_comes_and_goes_within_a_bin_has_its_length_told() -> None:
    """A thousand calls at 1 d, twenty a second: gone after 50 s, before the bin of a minute ends."""
    outcome, downstream = run(EVERY_DAY, jobs=1_000, capacity=20)
    assert downstream.bin_ms == 60_000
    assert max(downstream.backlog) == 0
    assert downstream.most_backlog == 1_000
    assert outcome.through_ms == 86_400_000 + 50_000


def test_calls_that_wait_for_a_worker_within_a_bin_are_told() -> None:
    """Six calls at 1 d, two workers, a second each: four wait; all is over long before the minute is."""
    _, downstream = run(EVERY_DAY, jobs=6, workers=2, latency_ms=1_000)
    assert (max(downstream.held), downstream.most_held) == (0, 4)
    assert downstream.most_backlog == 0  # nothing limits what is done at once


def test_workers_keep_the_downstreams_queue_short() -> None:
    """Five callers at once: never more than five in the queue, and the work takes as long as without."""
    outcome, downstream = run(jobs=100, capacity=10, workers=5)
    assert max(downstream.backlog) == 5
    assert outcome.through_ms == 11_000


def test_the_work_of_those_who_left_is_done_all_the_same() -> None:
    """Ten a second, a hundred callers at once with a second's patience.

    At 1 s ten are served in time. Ninety leave at 2 s and come again at 3 s, when the queue reaches to 11 s; so all
    leave again, and so on, as each turn of 2 s brings 9 s of work. Of 5 retries each, 10 + 90 * 5 = 460 calls come of
    which 450 are work for nobody, and the last of it is done at 1 s + 460 / 10 s = 47 s.
    """
    policy = EVERY_SECOND.with_limit(5)
    outcome, downstream = run(policy, jobs=100, capacity=10, timeout_ms=1_000)
    assert (outcome.succeeded, outcome.dead, outcome.calls, outcome.wasted) == (10, 90, 460, 450)
    assert (sum(downstream.served), sum(downstream.abandoned)) == (10, 450)
    assert outcome.through_ms == 10_000  # the fifth retry begins at 9 s
    assert len(downstream.abandoned) * downstream.bin_ms == 47_000
    assert downstream.backlog[-1] == 0


def test_below_capacity_hardly_anybody_waits() -> None:
    """Fresh calls, four a second where five fit: each takes 200 ms, and one call more is soon made up for."""
    outcome, downstream = run(jobs=1, capacity=5, base_rate=4, horizon_ms=100_000, timeout_ms=500)
    assert outcome.fresh == Fresh(calls=400, retries=0, at_once=400, succeeded=400, dead=0, waiting=0)
    # The herd's only job calls at 1 s together with the fourth fresh call, which has to wait for it (jobs go by number).
    assert max(downstream.backlog) == 2


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("horizon_ms", [300_000, 300_010])
def test_a_busy_downstream_does_no_more_than_the_time_allows(horizon_ms: int, exact: bool) -> None:
    """Up from 10 s on, and never idle after the first calls come at 10 s: 50 a second for 290 s are 14,500.

    500 jobs call each second; what is done by the horizon counts, the last at 300 s sharp, and nothing later.
    """
    scenario = Scenario(
        jobs=500, capacity=50, timeout_ms=5_000, outage_ms=10_000, base_rate=5, horizon_ms=horizon_ms
    )
    outcome = simulate(EVERY_SECOND.with_limit(None), scenario, exact=exact)
    downstream = outcome.downstream
    assert downstream is not None
    assert sum(downstream.served) + sum(downstream.abandoned) == 14_500
    done = [a + b for a, b in zip(downstream.served, downstream.abandoned, strict=True)]
    assert max(done) == 10  # in 200 ms
    taken = sum(downstream.offered) - sum(downstream.offered[: 10_000 // downstream.bin_ms])
    assert downstream.backlog[-1] == taken - 14_500
    assert len(downstream.abandoned) == -(-horizon_ms // downstream.bin_ms)
    assert len(outcome.load.counts) <= len(downstream.abandoned)


def test_the_herds_own_calls_are_told_apart() -> None:
    """In an outage that outlasts the horizon two jobs and one fresh call a second retry each second until 5 s.

    The herd calls five times each, at 1 ... 5 s; the fresh calls of 1, 2, 3, 4 and 5 s retry 4, 3, 2, 1 and 0 times.
    """
    for exact in (False, True):
        outcome = simulate(
            EVERY_SECOND,
            Scenario(jobs=2, base_rate=1, outage_ms=9_000, horizon_ms=5_000, over_ms=0),
            exact=exact,
        )
        assert (outcome.calls, outcome.herd_calls) == (20, 10)
        assert outcome.fresh == Fresh(calls=5, retries=10, at_once=0, succeeded=0, dead=0, waiting=5)


def test_where_callers_are_impatient_a_single_call_too_many_is_enough() -> None:
    """The same with a patience of 250 ms, a quarter more than a call takes: one call at 1 s, and it never ends.

    Whoever comes behind the one call too many waits 400 ms; the one that gave up comes again, on top of the four.
    """
    outcome, downstream = run(jobs=1, capacity=5, base_rate=4, horizon_ms=100_000, timeout_ms=250)
    assert outcome.fresh is not None
    assert outcome.fresh.succeeded < 10
    assert sum(downstream.abandoned) > 400


def test_above_capacity_the_queue_grows_as_fluid_does() -> None:
    """Six a second where five fit, for 100 s: one call in six is left over, 100 at the end."""
    _, downstream = run(jobs=1, capacity=5, base_rate=6, horizon_ms=100_000)
    assert abs(downstream.backlog[-1] - 101) <= 1


def test_refused_calls_cost_the_downstream_nothing() -> None:
    outcome, downstream = run(jobs=10, capacity=1, outage_ms=2_500)
    # Retries at 1 and 2 s are refused; those at 3 s are done one by one until 13 s.
    assert outcome.calls == 30
    assert sum(downstream.offered) == 30
    assert max(downstream.backlog) == 10
    assert outcome.through_ms == 13_000


def test_fresh_calls_that_fail_are_retried_like_any_job() -> None:
    """One a second in an outage of 3.5 s: those at 1, 2, 3 s are refused and return each second."""
    outcome, _ = run(jobs=1, base_rate=1, outage_ms=3_500, horizon_ms=10_000)
    assert outcome.fresh == Fresh(calls=10, retries=6, at_once=7, succeeded=10, dead=0, waiting=0)
    # The herd's job at 1, 2, 3, 4 s; the others at 2, 3, 4 - 3, 4 - and 4.
    assert outcome.calls == 4 + 3 + 2 + 1
    assert outcome.herd_calls == 4


def test_what_is_due_after_the_horizon_is_not_called() -> None:
    outcome, _ = run(jobs=10, workers=1, latency_ms=1_000, horizon_ms=4_500)
    assert outcome.calls == 4
    assert (outcome.succeeded, outcome.waiting) == (4, 6)


def test_whoever_finds_no_worker_before_the_horizon_is_held_to_the_end() -> None:
    """A hundred calls due at 1 s and one worker, busy for 10 s each time: calls begin at 1 s and 11 s, none by 15 s."""
    outcome, downstream = run(jobs=100, workers=1, latency_ms=10_000, horizon_ms=15_000)
    assert sum(downstream.offered) == outcome.calls == 2
    assert (max(downstream.held), downstream.held[-1]) == (99, 98)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("outage_ms", "begun", "held"), [(0, 1, 5), (2_500, 6, 5), (9_000, 20, 0)])
def test_fresh_calls_that_find_no_worker_are_held_too(
    outage_ms: int, begun: int, held: int, exact: bool
) -> None:
    """Fresh calls at 1, 2, 3, 4 and 5 s, a herd of one, retries a second later; the only worker is busy for 10 s.

    Without an outage the herd's call at 1 s takes it, and all five fresh calls wait. In one of 2.5 s six calls are
    made: the herd's and the first fresh one at 1 s, both again and the second fresh one at 2 s, and at 3 s the herd's,
    which takes the worker; five wait. In one that outlasts the horizon everybody calls every second, 5 + 5 + 4 + 3 + 2
    + 1 times in all, and nobody waits.
    """
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    scenario = Scenario(
        jobs=1, workers=1, latency_ms=10_000, base_rate=1, outage_ms=outage_ms, horizon_ms=5_000
    )
    downstream = simulate(EVERY_SECOND, scenario, exact=exact).downstream
    assert downstream is not None
    assert (sum(downstream.offered), downstream.held[-1]) == (begun, held)


COLLAPSE: dict[str, Any] = {
    "jobs": 500, "base_rate": 5, "capacity": 50, "timeout_ms": 5_000, "outage_ms": 10_000, "horizon_ms": 900_000,
}  # fmt: skip
"""Ten seconds of outage of something that is a tenth busy."""


def last_minutes(downstream: Downstream, minutes: int) -> tuple[int, int]:
    """What was served and abandoned in the last minutes before the horizon."""
    stop = COLLAPSE["horizon_ms"] // downstream.bin_ms
    start = stop - minutes * 60_000 // downstream.bin_ms
    return sum(downstream.served[start:stop]), sum(downstream.abandoned[start:stop])


@pytest.mark.parametrize("jitter", ["none", "full", "even"])
def test_short_retries_keep_the_downstream_down_for_ever(jitter: str) -> None:
    """Metastable failure: a quarter of an hour later it works at full capacity (50 a second) for nobody.

    Jitter alone does not help: what counts is how many calls come, not how evenly.
    """
    policy = Policy.from_json({"curve": {"constant": "1s"}, "jitter": jitter, "limit": 25})
    outcome, downstream = run(policy, **COLLAPSE)
    served, abandoned = last_minutes(downstream, 5)
    assert served == 0
    assert abandoned > 0.98 * 5 * 60 * 50
    assert outcome.dead > 200
    assert outcome.fresh is not None
    assert outcome.fresh.succeeded < 0.02 * outcome.fresh.calls


@pytest.mark.parametrize(
    "spec", ["even", "zizq", "sidekiq", {"curve": {"exponential": {"base": "1s"}}, "jitter": "full"}]
)
def test_waits_that_grow_let_it_recover(spec: Any) -> None:
    """The same outage: the last five minutes serve five calls a second and waste none."""
    outcome, downstream = run(Policy.from_json(spec), **COLLAPSE)
    assert last_minutes(downstream, 5) == (5 * 60 * 5, 0)
    assert (outcome.succeeded, outcome.dead) == (500, 0)
    assert outcome.fresh is not None
    assert outcome.fresh.succeeded == outcome.fresh.calls


def test_rows_end_and_jobs_are_asked_singly_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few jobs with very many retries do not cost a row of all jobs each; their waits are the same."""
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    from anew.lab.simulation import rows

    policy = Policy.from_json(
        {"curve": {"constant": "1s"}, "jitter": {"decorrelated": 2}, "ceil": "20s", "limit": None}
    )
    scenario = Scenario(jobs=20, capacity=5, timeout_ms=3_000, outage_ms=60_000)
    expected = simulate(policy, scenario)
    for retries in (1, 3, 30):
        monkeypatch.setattr(rows, "_ROW_BYTES", 8 * 20 * retries)
        assert simulate(policy, scenario) == expected
    assert max(line.retry for line in expected.retries) > 5

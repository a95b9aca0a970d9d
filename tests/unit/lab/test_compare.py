"""Compare: the same jobs and the same seed for all, figures that can be worked out by hand, measures as published."""

from __future__ import annotations

import sys

import msgspec
import pytest

from anew.backoff import Policy, preset
from anew.errors import InvalidInput
from anew.lab.charts.pictures import Load
from anew.lab.compare import Comparison, compare
from anew.lab.named import Named
from anew.lab.rhythm import Silence
from anew.lab.simulation.scenario import Scenario
from anew.units import MINUTE_MS


def steady(wait: str, limit: int = 20) -> Policy:
    return Policy.from_json({"curve": {"constant": wait}, "limit": limit})


@pytest.fixture(scope="module")
def two() -> Comparison:
    """Ten jobs that fail together, and an outage of 12 minutes, under 1 min and under 5 min."""
    named = [Named("one", steady("1m")), Named("five", steady("5m"))]
    return compare(named, Scenario(jobs=10, outage_ms=12 * MINUTE_MS), measured=False)


def test_figures_by_hand(two: Comparison) -> None:
    one, five = two.sides
    # Calls at 1 ... 12 min and at 5, 10, 15 min; what begins when the outage ends succeeds.
    assert (one.calls_a_job, five.calls_a_job) == (12, 3)
    assert (one.outcome.wasted, five.outcome.wasted) == (110, 20)
    assert (one.outcome.peak_second, five.outcome.peak_second) == (10, 10)
    # From 1 to 12 min there are 661 seconds, of which twelve have calls; from 5 to 15 min 601, of which three.
    assert one.outcome.silence == Silence(1_000, 1 - 12 / 661)
    assert five.outcome.silence == Silence(1_000, 1 - 3 / 601)
    assert one.window == {"earliest_ms": 20 * MINUTE_MS, "latest_ms": 20 * MINUTE_MS}
    assert five.window == {"earliest_ms": 100 * MINUTE_MS, "latest_ms": 100 * MINUTE_MS}
    assert five.first_wait == dict.fromkeys(("earliest_ms", "nominal_ms", "latest_ms"), 5 * MINUTE_MS)
    # At 12 min all ten of the first meet the service, at 15 min all of the other, which is not in the first minute.
    after = [
        (side.outcome.peak_second_after, side.outcome.peak_minute_after, side.outcome.first_minute_after)
        for side in two.sides
    ]
    assert after == [(10, 10, 10), (10, 10, 0)]
    assert (one.outlives, five.outlives) == (1.0, 1.0)


def test_the_table_has_a_column_for_each(two: Comparison) -> None:
    rows = {row[0]: row[1:] for row in two.table()}
    assert rows[""] == ["one", "five"]
    assert rows["retries"] == ["20", "20"]
    assert rows["first wait"] == ["1 min", "5 min"]
    assert rows["window"] == ["20 min", "1 h 40 min"]
    assert rows["outlive 12 min"] == ["100.0 %", "100.0 %"]
    assert rows["calls a job"] == ["12.00", "3.00"]
    assert rows["silent"] == ["98.2 % of seconds", "99.5 % of seconds"]
    assert rows["last success after"] == ["12 min", "15 min"]
    assert (rows["peak second"], rows["peak minute"]) == (["10", "10"], ["10", "10"])
    assert (rows["peak second after outage"], rows["peak minute after outage"]) == (
        ["10", "10"],
        ["10", "10"],
    )
    assert rows["first minute after outage"] == ["10", "0"]
    names = [row[0] for row in two.table()]
    assert [name.split()[0] for name in names[-6:]] == ["peak", "peak", "peak", "peak", "first", "silent"]
    assert "still waiting" not in rows
    assert not any("cv16" in name or "queue" in name for name in rows)


def test_a_limited_downstream_has_its_rows() -> None:
    # Ten calls at 60 s, one done a second: five by 65 s, and five for callers that gave up at 65.5 s. Those call again
    # at 125.5 s and are all served by 130.5 s. Without a retry nobody calls.
    named = [Named("ten", steady("1m")), Named("none", steady("1m", 0))]
    limited = Scenario(jobs=10, capacity=1, timeout_ms=5_500)
    rows = {row[0]: row[1:] for row in compare(named, limited, measured=False).table()}
    assert not any("outage" in name for name in rows)
    assert rows["longest queue"] == ["10", "0"]
    assert rows["calls abandoned"] == ["5", "0"]


def test_silence_is_told_in_the_unit_that_suits_each() -> None:
    """Celery calls at 0 ... 7 s sharp: 63 of 71 tenths of a second are silent. Of no call, or one moment, nothing is said."""
    named = [
        Named("celery", preset("celery")),
        Named("hourly", steady("1h", 60)),
        Named("once", steady("1m", 1)),
        Named("no", steady("1m", 0)),
    ]
    rows = {row[0]: row[1:] for row in compare(named, Scenario(jobs=500, success=0), measured=False).table()}
    assert rows["silent"] == ["88.7 % of 100 ms", "0.0 % of hours", "-", "-"]


def test_calls_a_job_are_the_herds_own() -> None:
    """Ten jobs call at 1 ... 4 s; three fresh calls of the outage call again, six times in all."""
    named = [Named("a", steady("1s")), Named("b", steady("1s"))]
    scenario = Scenario(jobs=10, outage_ms=3_500, base_rate=1, horizon_ms=10_000)
    rows = {row[0]: row[1:] for row in compare(named, scenario, measured=False).table()}
    assert rows["calls a job"] == ["4.00", "4.00"]


def test_the_bins_and_columns_are_the_same_for_all(two: Comparison) -> None:
    (panel,) = two.picture().panels
    assert isinstance(panel, Load)
    assert len({side.outcome.load.bin_ms for side in two.sides}) == 1
    assert [sum(side.outcome.load.counts) for side in two.sides] == [120, 30]
    assert [(line.label, line.peak) for line in panel.lines] == [
        (side.label, side.outcome.peak_second) for side in two.sides
    ]


def test_the_answer_is_json(two: Comparison) -> None:
    body = msgspec.json.decode(msgspec.json.encode(two.to_json()))
    assert body["scenario"]["outage_ms"] == 12 * MINUTE_MS
    assert [side["label"] for side in body["policies"]] == ["one", "five"]
    five = body["policies"][1]
    assert five["limit"] == 20
    assert five["first_wait"] == {"earliest_ms": 300_000, "nominal_ms": 300_000, "latest_ms": 300_000}
    assert five["window"] == {"earliest_ms": 6_000_000, "latest_ms": 6_000_000}
    assert five["outcome"]["peak_second_after"] == 10
    assert not {"retries", "first_ms", "window_ms"} & set(five)
    assert Policy.from_json(body["policies"][0]["policy"]) == steady("1m")


def test_equal_questions_get_equal_answers_and_the_exact_way_agrees() -> None:
    policies = [preset("even"), preset("sidekiq")]
    scenario = Scenario(jobs=20, seed=5, outage_ms=10 * MINUTE_MS)
    first = compare(policies, scenario, measured=False)
    assert first == compare(policies, scenario, measured=False)
    assert [side.label for side in first.sides] == ["policy 1", "policy 2"]
    assert compare(policies, scenario, exact=True, measured=False).sides == first.sides


def test_a_policy_without_end_and_one_without_retry() -> None:
    found = compare([steady("1m").with_limit(None), steady("1m", 0)], Scenario(jobs=5), measured=False)
    rows = {row[0]: row[1:] for row in found.table()}
    assert rows["retries"] == ["no end", "0"]
    assert rows["window"] == ["no end", "0 ms"]
    assert rows["first wait"] == ["1 min", "-"]
    assert rows["dead"] == ["0", "5"]


def test_the_measures_are_the_published_ones() -> None:
    # N = 1,000 jobs, 25 retries: sidekiq 2.326, 8.4 and 5.41 %; even in sequence .014, 1.04 and 11.0 %.
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    found = compare([preset("sidekiq"), preset("even"), steady("1m", 5), steady("0s", 25)])
    sidekiq, even, short, nothing = (side.spread for side in found.sides)
    assert sidekiq is not None
    assert even is not None
    assert (sidekiq.cv, sidekiq.peak, sidekiq.deviation) == (
        pytest.approx(2.326, abs=0.02), pytest.approx(8.4, abs=0.3), pytest.approx(0.0541, abs=0.003),
    )  # fmt: skip
    assert (even.cv, even.peak, even.deviation) == (
        pytest.approx(0.014, abs=0.005), pytest.approx(1.04, abs=0.03), pytest.approx(0.11, abs=0.002),
    )  # fmt: skip
    assert (short, nothing) == (None, None)
    rows = {row[0]: row[1:] for row in found.table()}
    assert rows["sd of a wait"][1:] == ["11.0 %", "-", "-"]


def test_without_numpy_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["anew.lab.compare"], "has_numpy", lambda: False)
    assert [side.spread for side in compare([preset("even"), preset("zizq")], Scenario(jobs=5)).sides] == [
        None,
        None,
    ]


def test_progress_grows_to_one() -> None:
    told: list[float] = []
    compare([steady("1m"), steady("5m")], Scenario(jobs=5_000), measured=False, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("number", [0, 1, 7])
def test_too_few_and_too_many_are_refused(number: int) -> None:
    with pytest.raises(InvalidInput, match=rf"policies: {number} is not valid; expected 2 to 6"):
        compare([steady("1m")] * number)

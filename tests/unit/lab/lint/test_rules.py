"""Every rule finds what its example shows, and keeps silent just beside it; the presets' findings are known."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

from anew.backoff import PRESETS, Custom, Policy
from anew.errors import InvalidInput, InvalidPolicy
from anew.lab.lint import RULES, Context, Severity, check_rules, lint
from anew.units import DAY_MS, HOUR_MS, parse_duration

DOUBLING = {"exponential": {"base": "1s"}}
STEADY = {"constant": "1m"}
FOURTH = {"power": {"base": "15s", "exponent": 4, "origin": 1}}


def found(policy: Any, **stated: Any) -> set[str]:
    """The rules that have something to say."""
    return {finding.rule for finding in lint(policy, Context(**stated))}


def message(rule: str, policy: Any, **stated: Any) -> str:
    """What one rule says."""
    (finding,) = lint(policy, Context(**stated), select=[rule])
    return finding.message


@pytest.mark.parametrize("name", RULES)
def test_a_rule_finds_something_in_its_own_example(name: str) -> None:
    rule = RULES[name]
    assert name in {finding.rule for finding in lint(rule.example, rule.context)}
    assert rule.reason.endswith(".")
    assert {finding.severity for finding in lint(rule.example, rule.context, select=[name])} == {
        rule.severity
    }


BESIDE: list[tuple[str, Any, dict[str, Any]]] = [
    ("no-jitter", {"curve": DOUBLING}, {"jobs": 9}),
    ("no-jitter", {"curve": DOUBLING, "jitter": {"add": "1s"}}, {}),
    ("no-jitter", {"curve": {"constant": 0}}, {}),
    ("few-faces", {"curve": DOUBLING, "jitter": {"add": {"by": "1s", "faces": 4}}}, {"jobs": 39}),
    ("few-faces", {"curve": DOUBLING, "jitter": {"add": {"by": "1s", "step": "1ms"}}}, {"jobs": 9_999}),
    # 30 faces: a thirtieth of 2,999 jobs are 99, and neither a tenth of them nor a hundred.
    ("few-faces", {"preset": "sidekiq"}, {"jobs": 2_999}),
    ("ceil-hides-jitter", {"curve": DOUBLING, "jitter": {"above": 0.5}, "cap": "20s"}, {}),
    ("ceil-hides-jitter", {"curve": DOUBLING, "ceil": "20s"}, {}),
    ("ceil-hides-jitter", {"curve": DOUBLING, "jitter": "full", "cap": "20s", "ceil": "20s"}, {}),
    ("floor-hides-jitter", {"curve": STEADY, "jitter": "full", "floor": "5s"}, {}),
    ("thin-jitter", {"curve": DOUBLING, "jitter": {"add": {"by": "1s", "source": "job"}}, "limit": 12}, {}),
    ("thin-jitter", {"curve": DOUBLING, "jitter": {"around": 0.1}, "limit": 12}, {}),
    ("resonance", {"curve": DOUBLING, "cap": "1h", "jitter": "even"}, {}),
    ("resonance", {"curve": DOUBLING, "cap": "57m"}, {}),
    ("resonance", {"curve": {"constant": "1h"}, "jitter": "full"}, {}),
    ("decorrelated-without-ceil", {"preset": "aws_decorrelated"}, {}),
    ("waits-shrink", {"curve": DOUBLING, "jitter": "equal", "limit": 10}, {}),
    ("waits-shrink", {"curve": DOUBLING, "jitter": {"around": {"share": 1, "source": "job"}}}, {}),
    ("full-halves-window", {"curve": DOUBLING, "jitter": "equal"}, {}),
    ("outage-outlives-window", {"curve": {"constant": "1h"}, "limit": 3}, {"outages_ms": (3 * HOUR_MS,)}),
    ("outage-outlives-window", {"curve": STEADY, "limit": None}, {"outages_ms": (DAY_MS,)}),
    ("brief-window", {"curve": STEADY, "limit": 1}, {}),
    ("brief-window", {"curve": {"constant": "1s"}, "limit": 3}, {"outages_ms": (1_000,)}),
    ("unlimited", {"curve": STEADY, "limit": None, "deadline": "1d"}, {}),
    ("unlimited", {"phases": [{"curve": STEADY, "count": 5}], "limit": None}, {}),
    ("limit-out-of-reach", {"curve": FOURTH, "limit": 25}, {}),
    ("deadline-cuts-limit", {"curve": STEADY, "deadline": "5m"}, {}),
    ("deadline-cuts-limit", {"curve": STEADY, "deadline": "20m", "limit": 20}, {}),
    ("dead-gone-early", {"curve": FOURTH, "limit": 25}, {}),
    ("dead-gone-early", {"curve": FOURTH, "limit": 25}, {"dead_retention_ms": 30 * DAY_MS}),
    # 1^4 + ... + 60^4 s is five years: there the limit is what is wrong.
    ("dead-gone-early", {"curve": FOURTH, "limit": 60}, {"dead_retention_ms": 7 * DAY_MS}),
    ("payload-gone", {"curve": {"constant": "6h"}, "limit": 4}, {"payload_retention_ms": DAY_MS}),
    ("discard", {"curve": STEADY, "on_exhausted": "dead"}, {}),
    ("no-retry", {"curve": STEADY, "limit": 1}, {}),
    ("retries-at-once", {"curve": {"table": ["0s", "1m"]}, "limit": 3}, {}),
    ("first-wait-zero", {"curve": {"table": ["0s", "0s", "1m"]}, "limit": 3}, {}),
    ("overflow", {"curve": {"exponential": {"base": "15s"}}, "limit": 21}, {}),
    ("overflow", {"curve": {"exponential": {"base": "15s"}}, "limit": 25, "cap": "1h"}, {}),
    ("overflow", {"curve": {"exponential": {"base": "15s"}}, "limit": 25, "ceil": "1d"}, {}),
    ("curve-shrinks", {"curve": {"table": ["10s", "10s", "1m"]}, "limit": 3}, {}),
    ("exponent-below-one", {"curve": {"power": {"exponent": 1}}}, {}),
    ("accidental-constant", {"curve": STEADY}, {}),
    ("accidental-constant", {"curve": DOUBLING, "floor": "30s", "ceil": "31s"}, {}),
    ("cap-below-first-wait", {"curve": DOUBLING, "cap": "1.001s"}, {}),
    ("cap-below-first-wait", {"curve": {"constant": "1h"}, "cap": "5m"}, {}),
    ("unreachable-phase", {"phases": [{"curve": STEADY, "count": 5}, {"curve": DOUBLING}], "limit": 6}, {}),
    ("unit-mistake", {"curve": {"exponential": {"base": "15ms"}}}, {}),
    ("unit-mistake", {"curve": {"exponential": {"base": 100}}}, {}),
    ("unit-mistake", {"curve": {"constant": "30d"}}, {}),
    ("bare-number", {"curve": {"exponential": {"base": 1_500}}, "cap": 60_000}, {}),
    ("bare-number", {"base_ms": 15_000, "exponent": 4, "jitter_ms": 30_000}, {}),
    ("bare-number", {"base_ms": 15_000, "exponent": 4, "jitter_ms": 30_000, "cap": "1h"}, {}),
]


@pytest.mark.parametrize(("rule", "policy", "stated"), BESIDE)
def test_a_rule_is_silent_beside_what_it_is_about(rule: str, policy: Any, stated: dict[str, Any]) -> None:
    assert rule not in found(policy, **stated)


def test_every_rule_has_such_a_neighbour() -> None:
    assert {rule for rule, _, _ in BESIDE} == RULES.keys()


@pytest.mark.parametrize(
    ("rule", "policy", "stated", "words"),
    [
        # 1 + 2 + 4 s of doubling waits, 12 of them: 2^12 - 1 = 4095 s.
        ("outage-outlives-window", {"curve": DOUBLING, "limit": 12}, {"outages_ms": (DAY_MS,)},
         "every job dies in an outage of 1 d: the last retry comes 1 h 8 min after the first failure; raise limit to 17"),
        # Three draws of 0 to 30 s above 3 min come to 60 s or more in one case of six.
        ("outage-outlives-window", {"curve": STEADY, "jitter": {"above": 0.5}, "limit": 3}, {"outages_ms": (240_000,)},
         "83 % of the jobs die in an outage of 4 min: the last retry comes 3 min to 4 min 30 s after"),
        ("few-faces", {"preset": "sidekiq"}, {"jobs": 3_000},
         "retry 1 has 30 possible waits: of 3,000 jobs that fail together some 100 share each instant; a jitter beside"),
        # The word step stands in the preset, not in what its user wrote.
        ("few-faces", {"preset": "celery"}, {}, "a jitter beside the preset, such as full or even, has as many as millisec"),
        ("few-faces", "celery", {}, "a jitter beside the preset"),
        ("few-faces", {"preset": "celery", "jitter": {"add": {"by": "4s", "step": "1s"}}}, {}, "without step there are as many"),
        ("few-faces", {"curve": DOUBLING, "jitter": {"add": {"by": "1s", "faces": 4}}}, {}, "without faces there are as many"),
        # The nominal wait is the cap; the waits are anything from 0 to 10 min.
        ("cap-below-first-wait", {"preset": "celery", "base": "1h"}, {},
         "cap is 10 min and the curve begins at 1 h: every wait is made of the cap by the jitter alone; raise cap, or let"),
        ("cap-below-first-wait", {"curve": {"exponential": {"base": "1h"}}, "cap": "5m"}, {}, "every wait is the cap; raise cap"),
        # 20 s of [0.5, 1.5) times the wait: retry 5 begins at 16 s, [16, 24): half of it is above.
        ("ceil-hides-jitter", {"curve": DOUBLING, "jitter": {"above": 0.5}, "ceil": "20s", "limit": 5}, {},
         "from retry 5 on up to 50 % of the jobs wait exactly ceil, 20 s"),
        # Half of all draws below 4 s fall under a floor of 2 s; all of those below 1 s and 2 s do.
        ("floor-hides-jitter", {"curve": {"constant": "4s"}, "jitter": "full", "floor": "2s"}, {},
         "from retry 1 on up to 50 % of the jobs wait exactly floor, 2 s"),
        # Uniform below 1, 2, 4 and 8 s falls under half a second in a half, a quarter, an eighth, and then too rarely.
        ("floor-hides-jitter", {"curve": DOUBLING, "jitter": "full", "floor": "500ms", "limit": 6}, {},
         "at retries 1 to 3 up to 50 % of the jobs wait exactly floor, 500 ms"),
        ("floor-hides-jitter", {"curve": {"table": ["1s", "1m"]}, "jitter": "full", "floor": "500ms", "limit": 6}, {},
         "at retry 1 up to 50 % of the jobs"),
        # 2^11 s = 34 min 8 s.
        ("thin-jitter", {"curve": DOUBLING, "jitter": {"add": "1s"}, "limit": 12}, {},
         "retry 12 spreads 1,000 jobs over 1 s of a wait of 34 min 8 s"),
        # Uniform below 2 s against uniform below 1 s: a quarter.
        ("waits-shrink", {"curve": DOUBLING, "jitter": "full", "limit": 2}, {}, "in up to 25 % of cases (at retry 2)"),
        # 15 + 1^4 s to 15 + 25^4 s: 375 s and the fourth powers' sum of 2,153,645 s are 24 d 22 h.
        ("dead-gone-early", {"curve": FOURTH, "limit": 25}, {"dead_retention_ms": 7 * DAY_MS},
         "retries take up to 24 d 22 h, but a dead job is kept for 7 d only; raise default-dead-job-retention"),
        # 1 + 2 + 4 s.
        ("full-halves-window", {"curve": DOUBLING, "jitter": "full", "limit": 3}, {},
         "3 retries take 3.5 s on average, not the 7 s of the curve"),
        # 15 * 2^22 s is 728 days, 15 * 2^21 s is 364.1 days: the 23rd retry is the first one too many.
        ("overflow", {"curve": {"exponential": {"base": "15s"}}, "limit": 25}, {}, "retry 23 would wait 365 d"),
        ("payload-gone", {"curve": {"constant": "6h"}, "limit": 5}, {"payload_retention_ms": DAY_MS}, "from retry 5 on"),
        ("retries-at-once", {"curve": {"constant": 0}, "limit": 3}, {}, "retries 1 to 3 wait nothing: 4 runs"),
        ("curve-shrinks", {"curve": {"exponential": {"base": "8s", "factor": 0.5}}}, {}, "retry 2 waits 4 s, less than"),
        ("unit-mistake", {"curve": {"exponential": {"base": 15}}}, {}, 'base: 15 is 15 ms; write "15s" or "15ms"'),
        ("unit-mistake", {"base_ms": 15, "exponent": 4, "jitter_ms": 0}, {}, "base_ms: 15 is 15 ms; write 15000 for 15 s"),
        ("unit-mistake", {"curve": {"constant": "31d"}}, {}, "the first retry waits 31 d"),
        ("unit-mistake", {"preset": "constant", "wait": 30}, {}, "wait: 30 is 30 ms"),
        ("unit-mistake", {"curve": {"sum": [{"fibonacci": "10s"}, {"table": ["1s", 2]}]}}, {},
         "curve.sum[1].table[1]: 2 is 2 ms"),
        ("unit-mistake", {"curve": STEADY, "jitter": {"window": {"low": {}, "high": {"add": 30}}}}, {},
         "jitter.window.high.add: 30 is 30 ms"),
        ("bare-number", {"curve": {"exponential": {"base": 1500}}, "cap": "1h"}, {},
         'base: 1500 has no unit while others have one; write "1.5s"'),
        ("unreachable-phase", {"phases": [{"curve": STEADY, "count": 5}, {"curve": DOUBLING}], "limit": 5}, {},
         "phases[1] would begin with retry 6, and limit is 5"),
        ("deadline-cuts-limit", {"curve": STEADY, "deadline": "5m", "limit": 20}, {}, "at most 5 of 20 retries"),
        ("resonance", {"curve": {"constant": "2h"}, "limit": 3}, {}, "3 retries wait exactly 2 h"),
        ("resonance", {"curve": {"constant": "2h"}, "limit": 3}, {}, "(57m for 1h), or add a jitter"),
        ("resonance", {"curve": {"constant": "1h"}, "jitter": "even"}, {}, "of the hour; wait a little less (57m for 1h)"),
        ("resonance", {"curve": DOUBLING, "jitter": {"above": 0.5}, "ceil": "1h"}, {}, "use cap in place of ceil"),
        ("resonance", {"curve": DOUBLING, "cap": "1h", "jitter": {"even": {"detune": 0}}}, {}, "leave detune at its 1/18"),
    ],
)  # fmt: skip
def test_what_a_rule_says(rule: str, policy: Any, stated: dict[str, Any], words: str) -> None:
    assert words in message(rule, policy, **stated)


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        # 25 retries in 20 to 25 days, the dead kept for 7.
        ("even", {"dead-gone-early"}),
        ("zizq", {"dead-gone-early", "thin-jitter"}),
        # 30 faces are enough for 1,000 jobs; a second wait in [16, 74] below a first one in [15, 44] in 28^2 / 2 / 29 / 58 = 23 %.
        ("faktory", {"dead-gone-early", "thin-jitter", "waits-shrink"}),
        ("sidekiq", {"dead-gone-early", "thin-jitter", "waits-shrink"}),
        # Ten faces: a tenth of the jobs at once. 16 + 2b below 15 + a, a and b from 0 to 9: 8 + 6 + 4 + 2 pairs of 100.
        ("sidekiq7", {"few-faces", "dead-gone-early", "thin-jitter", "waits-shrink"}),
        ("constant", {"no-jitter"}),
        # 60 * 2^25 s is 23,300 days.
        ("exponential", {"overflow", "limit-out-of-reach", "no-jitter"}),
        # Doubles past a year, and waits a day at most.
        ("airflow", {"ceil-hides-jitter", "resonance", "dead-gone-early"}),
        ("linear", {"no-jitter"}),
        ("buckets", set()),
        ("zzz_jobs", set()),
        ("aws_full", {"waits-shrink", "full-halves-window"}),
        ("aws_decorrelated", {"ceil-hides-jitter"}),
        ("temporal", {"no-jitter", "unlimited"}),
        # 0.1 s to 5 s with up to a second above, all of it at 5 s from the seventh retry on; 45 s in all.
        ("stamina", {"ceil-hides-jitter", "brief-window", "waits-shrink"}),
        ("zaqar", {"no-jitter", "retries-at-once"}),
        # Doubles to an hour and stays there, 99 times.
        ("cloud_tasks", {"no-jitter", "resonance"}),
        ("huey", {"retries-at-once", "brief-window"}),
    ],
)  # fmt: skip
def test_what_the_presets_do_that_nobody_may_have_meant(preset: str, expected: set[str]) -> None:
    assert found({"preset": preset}, dead_retention_ms=7 * DAY_MS) == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_looked_at(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        import_module("anew.lab.last_retry"), "DRAWN", 1_000
    )  # that something is said is all that is asked here
    for finding in lint({"preset": preset}, Context(outages_ms=(HOUR_MS, 400 * DAY_MS)), name=preset):
        assert finding.policy == preset
        assert finding.message


def test_jobs_at_the_ceiling_of_decorrelated_jitter_are_counted_as_published() -> None:
    # "backoff-catalogue" 4a: 41 % of waits stick to 20 s in the steady state from 1 s on.
    assert "up to 41 % of the jobs" in message("ceil-hides-jitter", {"preset": "aws_decorrelated"})


def test_the_worst_comes_first() -> None:
    found = lint({"curve": {"exponential": {"base": 15}}, "jitter": "full", "limit": 60})
    ranks = [list(Severity).index(finding.severity) for finding in found]
    assert ranks == sorted(ranks)
    assert found[0].severity is Severity.ERROR


def test_rules_can_be_chosen_and_left_out() -> None:
    policy = {"curve": DOUBLING, "limit": 3}
    assert {f.rule for f in lint(policy)} == {"no-jitter", "brief-window"}
    assert [f.rule for f in lint(policy, select=["no-jitter"])] == ["no-jitter"]
    assert [f.rule for f in lint(policy, ignore=["no-jitter"])] == ["brief-window"]
    assert [f.rule for f in lint(policy, name="web", ignore=["web:no-jitter"])] == ["brief-window"]
    assert len(lint(policy, name="api", ignore=["web:no-jitter"])) == 2


@pytest.mark.parametrize("field", ["select", "ignore"])
def test_a_rule_that_does_not_exist_is_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: .no-jiter. is not valid; expected the name of a rule"):
        lint("even", **{field: ["no-jiter"]})
    with pytest.raises(InvalidInput, match=r'expected the name of a rule .*; did you mean "few-faces"\?$'):
        lint("even", **{field: ["web:few_faces"]})


def test_a_policy_that_does_not_exist_is_refused_where_all_are_known() -> None:
    check_rules(["celry:few-faces", "few-faces"], "--ignore")
    check_rules(["celery:few-faces", "a:b:few-faces"], "--ignore", ["celery", "a:b"])
    with pytest.raises(InvalidInput) as caught:
        check_rules(["celry:few-faces"], "--ignore", ["web", "celery"])
    assert str(caught.value) == (
        '--ignore: "celry:few-faces" is not valid; expected the name of a policy before the colon: web, celery; '
        'did you mean "celery"?'
    )
    with pytest.raises(InvalidInput, match=r"before the colon: there is none$"):
        check_rules(["web:few-faces"], "--ignore", [])


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="jiter"):
        lint({"curve": DOUBLING, "jiter": "full"})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("jobs", 0), ("jobs", 10**9 + 1), ("outages_ms", (1,) * 101), ("deaths", 1.0), ("deaths", -0.1),
        ("deaths", float("nan")),
    ],
)  # fmt: skip
def test_a_context_that_does_not_fit_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="expected"):
        Context(**{field: value})


def exponential(base: Any, **more: Any) -> dict[str, Any]:
    return {"curve": {"exponential": {"base": base}}, "limit": 5, **more}


def constant(wait: Any, **more: Any) -> dict[str, Any]:
    return {"curve": {"constant": wait}, "limit": 5, **more}


AS_SECONDS: list[tuple[Any, list[str]]] = [
    # What Celery's and Sidekiq's people write: round in seconds.
    *((constant(number), ["curve.constant"]) for number in (
        30, 100, 300, 600, 900, 1_800, 3_600, 7_200, 86_400, 604_800, 432_000, 2_592_000, "300", 300.0,
    )),
    # Five doublings: 31 times the base, 3.1 and 9.3 s.
    (exponential(100), ["curve.exponential.base"]),
    (exponential(300), ["curve.exponential.base"]),
    # A cap below the second wait holds them all: ten waits are over in 9 s.
    (exponential("1s", cap=900, limit=25), ["cap"]),
    (exponential("1s", cap=3_600, limit=25), ["cap"]),
    (exponential("1s", deadline=86_400), ["deadline"]),
    # A list is told once. 1 min, 5 min, 15 min, 1 h.
    ({"curve": {"table": [60, 300, 900, 3_600]}, "limit": 4}, ["curve.table[0]"]),
    ({"curve": {"table": ["1m", 7_200]}, "limit": 2}, ["curve.table[1]"]),
    # 1 h beside it: 300 is of the same kind, though the schedule is not short.
    ({"curve": {"linear": {"base": 300, "step": 3_600}}, "limit": 9}, ["curve.linear.base", "curve.linear.step"]),
    ({"preset": "constant", "wait": 300, "limit": 9}, ["wait"]),
    (constant("15s", jitter={"add": {"by": 7_200}}), ["jitter.add.by"]),
]  # fmt: skip

AS_MILLISECONDS: list[Any] = [
    *(constant(text) for text in ("100ms", "300ms", "500ms", "3600ms", "86400ms", "5m", "0.3s")),
    # Round in milliseconds alone.
    *(constant(number) for number in (250, 500, 1_000, 1_500, 5_000, 15_000, 18_000, 30_000, 60_000, 900_000, 3_600_000)),
    # Whole hours and days in milliseconds.
    *(constant(number) for number in (86_400_000, 43_200_000, 604_800_000)),
    # Zizq's and Faktory's own fields say their unit.
    {"base_ms": 15_000, "exponent": 4, "jitter_ms": 30_000},
    {"base_ms": 300, "exponent": 4, "jitter_ms": 3_600},
    # 100 and its like beside a number of milliseconds.
    exponential(100, cap=5_000),
    exponential(300, jitter={"add": {"by": 1_000}}),
    # Ten doublings of 100 ms are 102 s, of 300 ms 5 min: short, and not absurd.
    exponential(100, limit=10),
    exponential(300, limit=10),
    # Long waits with a small jitter or floor.
    constant("1m", jitter={"add": {"by": 300}}),
    constant("1m", floor=100),
    constant(0),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "paths"), AS_SECONDS)
def test_numbers_that_were_meant_as_seconds(policy: Any, paths: list[str]) -> None:
    told = [finding.message for finding in lint(policy, select=["unit-mistake"])]
    assert [text.partition(": ")[0] for text in told] == paths
    assert all('s" or "' in text for text in told)
    assert "bare-number" not in found({**policy, "floor": "1ms"}), "one word about each is enough"


@pytest.mark.parametrize("policy", AS_MILLISECONDS)
def test_numbers_that_were_meant_as_milliseconds(policy: Any) -> None:
    assert "unit-mistake" not in found(policy)


def test_what_is_said_about_seconds() -> None:
    assert message("unit-mistake", constant(300)) == 'curve.constant: 300 is 300 ms; write "300s" or "300ms"'
    assert (
        message("unit-mistake", constant(3_600))
        == 'curve.constant: 3600 is 3600 ms, 3.6 s; write "3600s" or "3600ms"'
    )
    table = {"curve": {"table": [60, 300, 900]}, "limit": 3}
    assert message("unit-mistake", table).endswith('write "60s" or "60ms"; so with 2 more of curve.table')


def test_a_policy_built_in_python_is_looked_at_without_its_spelling() -> None:
    built = Policy.from_json({"curve": {"exponential": {"base": 15}}, "jitter": "full", "limit": 30})
    assert "unit-mistake" not in found(built)
    assert "waits-shrink" in found(built)


def test_nothing_is_claimed_about_a_function_of_ones_own() -> None:
    assert found(Policy(curve=Custom(function=lambda k: 0), limit=5)) == set()


def test_the_default_limit_counts_where_none_is_given() -> None:
    assert "unlimited" in {f.rule for f in lint({"curve": STEADY}, Context(default_limit=None))}


def test_a_long_schedule_is_taken_to_go_on_as_it_does() -> None:
    # 100,000 retries of a minute are 69 d 10 h 40 min.
    policy = {"curve": STEADY, "jitter": "even", "limit": 100_000}
    assert "outage-outlives-window" not in found(policy, outages_ms=(69 * DAY_MS,))
    assert "outage-outlives-window" in found(policy, outages_ms=(70 * DAY_MS,))


# Full jitter over a minute, five times: the sum of five even numbers is below 1 with 1/5! = 0.83 %.
FIVE = {"curve": {"constant": "1m"}, "jitter": "full", "limit": 5}


def test_how_many_may_die_can_be_said() -> None:
    assert "outage-outlives-window" not in found(FIVE, outages_ms=(60_000,), deaths=0.01)
    # Where nobody says otherwise, one in a thousand may.
    assert "outage-outlives-window" in found(FIVE, outages_ms=(60_000,))
    told = message("outage-outlives-window", FIVE, outages_ms=(60_000,), deaths=0.005)
    assert told.startswith(
        # 1 in 5! = 120; 100,000 draws are off by a thirtieth of that at most, in 95 of 100 policies.
        "0.845 % of the jobs die (0.5 % may) in an outage of 1 min: the last retry comes 0 ms to 5 min"
    )
    assert "outage-outlives-window" in found(FIVE, outages_ms=(60_000,), deaths=0)
    # A job whose last retry comes at the outage's very end outlives it.
    assert "outage-outlives-window" not in found(
        {"curve": {"constant": "1h"}, "limit": 3}, outages_ms=(3 * HOUR_MS,), deaths=0
    )


def test_what_is_stated_can_be_typed() -> None:
    assert Context(outages_ms=(1_000,), deaths=0.05).words() == ["--outage", "1s", "--deaths", "0.05"]
    assert Context().words() == []


@pytest.mark.parametrize(
    ("policy", "outage", "deaths", "remedy"),
    [
        # 1 + 2 + 4 ... s: 2^12 - 1 = 4,095 s, 2^13 - 1 = 8,191 s.
        ({"curve": DOUBLING, "limit": 3}, "8191s", 0.01, "raise limit to 13, or let the curve grow"),
        ({"curve": DOUBLING, "limit": 3}, "8192s", 0.01, "raise limit to 14, or let the curve grow"),
        # The sum of n even numbers is below 1 with 1/n!: 0.83 % at 5, 0.14 % at 6.
        (FIVE | {"limit": 2}, "1m", 0.01, "raise limit to 5, or let the curve grow"),
        (FIVE | {"limit": 2}, "1m", 0.005, "raise limit to 6, or let the curve grow"),
        # Nobody dies only if even the shortest waits suffice: 30 s each. With three of them a sixth would die.
        ({"curve": STEADY, "jitter": "equal", "limit": 2}, "2m", 0, "raise limit to 4, or let the curve grow"),
        # 400 minutes are less than a day.
        ({"curve": STEADY, "limit": 3}, "1d", 0.01, "no limit up to 400 is enough; let the curve grow"),
        ({"curve": STEADY, "limit": 500}, "1d", 0.01, "raise limit, or let the curve grow"),
        ({"phases": [{"curve": STEADY, "count": 3}], "limit": 9}, "1h", 0.01, "give a phase more retries, or let its curve grow"),
        ({"phases": [{"curve": STEADY, "count": 3}, {"curve": STEADY}], "limit": 9}, "1h", 0.01, "raise limit to 60"),
        # The retry that a deadline cuts off comes a minute after the outage's end at the latest.
        ({"curve": STEADY, "deadline": "1h", "limit": None}, "3h", 0.01, "raise deadline to 3h1m"),
        ({"curve": STEADY, "deadline": "10m", "limit": None}, "30m", 0.01, "raise deadline to 31m"),
        ({"curve": STEADY, "deadline": "1h", "on_deadline": "clip", "limit": None}, "3h", 0.01, "raise deadline to 3h"),
        ({"curve": STEADY, "deadline": "1h", "limit": 70}, "3h", 0.01, "raise deadline and limit, or let the curve grow"),
        ({"curve": STEADY, "deadline": "1h", "limit": 70}, "1d", 0.01,
         "no deadline and no limit up to 400 are enough; let the curve grow"),
        ({"curve": STEADY, "deadline": "4h", "limit": 70}, "3h", 0.01, "raise limit to 180, or let the curve grow"),
    ],
)  # fmt: skip
def test_what_would_do_is_reckoned(policy: Any, outage: str, deaths: float, remedy: str) -> None:
    ms = parse_duration(outage)
    told = message("outage-outlives-window", policy, outages_ms=(ms,), deaths=deaths)
    assert f" after the first failure; {remedy}" in told


@pytest.mark.parametrize(
    "policy",
    [
        "celery",
        "sidekiq8",
        "even",
        "polly_v2",
        {"preset": "aws_full", "cap": "10m"},
        {"preset": "grpc", "limit": 9},
    ],
)
def test_a_limit_that_is_proposed_is_the_first_that_is_enough(policy: Any) -> None:
    stated = Context(outages_ms=(3 * HOUR_MS if policy not in ("sidekiq8", "even") else 30 * DAY_MS,))
    (finding,) = lint(policy, stated, select=["outage-outlives-window"])
    proposed = re.search(r"raise limit to (\d+)", finding.message)
    assert proposed is not None
    body = {"preset": policy} if isinstance(policy, str) else policy
    for limit, silent in ((int(proposed[1]), True), (int(proposed[1]) - 1, False)):
        findings = lint(body | {"limit": limit}, stated, select=["outage-outlives-window"])
        assert (findings == []) is silent


def test_no_remedy_takes_long() -> None:
    """Each wait that remembers is dear: the search gives up before it eats the time that lint has for a policy."""
    policy = {"curve": {"constant": "10s"}, "cap": "10m", "jitter": {"even": {"dither": 0.1}}, "limit": 3}
    assert "raise limit" in message("outage-outlives-window", policy, outages_ms=(HOUR_MS,))

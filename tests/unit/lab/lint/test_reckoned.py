"""What rules reckon is what draws show, and no rule contradicts another: shares, means, possible waits, remedies."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from anew.backoff import Draws, Policy, Wait, next_wait
from anew.lab.laws.shapes import Mixture, Piece
from anew.lab.lint import Context, lint
from anew.lab.lint.facts import Facts
from anew.lab.lint.finding import listed
from anew.lab.lint.herds import is_shorter
from anew.units import DAY_MS

DOUBLING = {"exponential": {"base": "1s"}}
STEADY = {"constant": "1m"}
HOURS = {"curve": DOUBLING, "jitter": "full", "floor": "1h", "limit": 8}


def told(rule: str, policy: Any, **stated: Any) -> str:
    """What one rule says, "" if nothing."""
    return "; ".join(finding.message for finding in lint(policy, Context(**stated), select=[rule]))


def drawn(body: Any, retry: int, index: int) -> int:
    """One wait, as a worker would get it, of the job with this number."""
    source = random.Random(f"{index}-{retry}")
    wait = next_wait(Policy.from_json(body), retry, Draws(source.random, b"%d" % index, source.random()))
    assert isinstance(wait, Wait)
    return wait.wait_ms


# -- waits-shrink


@pytest.mark.parametrize(
    "policy",
    ["celery", "dramatiq", "stamina", {"curve": DOUBLING, "jitter": {"full": {"since": 8}}, "limit": 9}],
)
def test_how_often_a_wait_is_shorter_is_what_draws_show(policy: Any) -> None:
    body = {"preset": policy} if isinstance(policy, str) else policy
    found = re.search(r"up to (\d+) % of cases \(at retry (\d+)\)", told("waits-shrink", body))
    assert found is not None
    share, retry = int(found[1]), int(found[2])
    shorter = sum(drawn(body, retry, index) < drawn(body, retry - 1, index) for index in range(4_000))
    # Three standard deviations of a share near a half, of 4,000, are 2.4 %.
    assert shorter / 4_000 == pytest.approx(share / 100, abs=0.029)


def test_windows_that_both_end_at_the_floor_never_shrink() -> None:
    assert told("waits-shrink", HOURS) == ""
    assert "every wait is 1 h" in told("accidental-constant", HOURS)


def test_no_shrinking_is_told_of_decorrelated() -> None:
    """Its waits follow from each other, not from the curve: nobody's growth is cancelled."""
    assert told("waits-shrink", {"curve": {"constant": "1s"}, "jitter": "decorrelated", "ceil": "1h"}) == ""
    assert told("waits-shrink", {"preset": "aws_decorrelated"}) == ""


def test_the_chance_that_one_wait_is_shorter() -> None:
    # A die of 2 against one of 4, one second apart: of 8 pairs, 0 against 1 s alone.
    two, four = Mixture([Piece(1.0, 0.0, 2_000.0, 2)]), Mixture([Piece(1.0, 0.0, 4_000.0, 4)])
    assert is_shorter(four, two) == pytest.approx(1 / 8)
    # Of the 8 pairs, two are equal: the rest of 8 - 1 - 2.
    assert is_shorter(two, four) == pytest.approx(5 / 8)
    # Even below 2 s against even below 1 s; and against exactly 1.5 s.
    one, other = Mixture([Piece(1.0, 0.0, 2_000.0)]), Mixture([Piece(1.0, 0.0, 1_000.0)])
    assert is_shorter(one, other) == pytest.approx(1 / 4, abs=0.001)
    assert is_shorter(one, Mixture([Piece.atom(1.0, 1_500.0)])) == pytest.approx(3 / 4)


# -- full-halves-window


def test_full_jitter_that_a_floor_holds_halves_nothing() -> None:
    assert told("full-halves-window", HOURS) == ""


def test_full_jitter_that_begins_late_halves_what_comes_after() -> None:
    # 1 + 2 ... + 64 = 127 s as told, then half of 128 s: 191 of 255 s.
    late = {"curve": DOUBLING, "jitter": {"full": {"since": 8}}, "limit": 8}
    assert told("full-halves-window", late).startswith(
        "8 retries take 3 min 11 s on average, not the 4 min 15 s of the curve, and any wait from retry 8 on may be next"
    )
    # Seven minutes are sure, and half of one is lost: 7.5 of 8.
    sure = {"curve": {"constant": "1m"}, "jitter": {"full": {"since": 8}}, "limit": 8}
    assert told("full-halves-window", sure) == ""


def test_full_jitter_is_not_blamed_for_what_a_ceil_or_a_deadline_does() -> None:
    # A draw below c, held to 30 s, is 30 - 450/c s on average: 15.9, 23, 26.5, 28.2, 29.1, 29.6 and 29.8 s from 32 s on, and
    # half of 31 s before: 197 of 31 + 7 * 30 = 241 s, four fifths.
    ceil = {"curve": DOUBLING, "jitter": "full", "ceil": "30s", "limit": 12}
    assert told("full-halves-window", ceil) == ""
    # A minute again and again until an hour is over: no limit gives up in half the time.
    deadline = {"curve": STEADY, "jitter": "full", "deadline": "1h", "limit": None}
    assert told("full-halves-window", deadline) == ""
    assert told("full-halves-window", {**deadline, "limit": 200}) == ""
    assert told("full-halves-window", {"curve": STEADY, "jitter": "full", "limit": None}) == ""
    assert "30 retries take 15 min on average, not the 30 min" in told(
        "full-halves-window", {**deadline, "limit": 30}
    )


def test_only_the_first_hundred_retries_are_added_up() -> None:
    # 100 minutes of which each is half on average.
    assert told("full-halves-window", {"curve": STEADY, "jitter": "full", "limit": 300}).startswith(
        "the first 100 retries take 50 min on average, not the 1 h 40 min of the curve"
    )


# -- few-faces


CUT = {"curve": STEADY, "jitter": {"add": {"by": "2500ms", "cut": "1s"}}, "limit": 3}


def test_the_rest_of_a_cut_is_a_value_too() -> None:
    # 2.5 s in seconds: 0, 1 and 2, and 2 comes up half as often: 2/5, 2/5, 1/5.
    assert told("few-faces", CUT).startswith(
        "retry 1 has 3 possible waits: of 1,000 jobs that fail together some 400 share an instant; without cut"
    )
    assert len({drawn(CUT, 1, index) for index in range(200)}) == 3


def test_a_die_that_a_bound_holds_is_left_to_the_rule_about_it() -> None:
    die = {"curve": STEADY, "jitter": {"add": {"by": "1s", "faces": 4}}}
    assert "4 possible waits" in told("few-faces", die)
    assert told("few-faces", {**die, "floor": "1h"}) == ""
    assert "all jobs" in told("floor-hides-jitter", {**die, "floor": "1h"})


def test_faces_finer_than_a_millisecond_are_not_fewer_than_milliseconds() -> None:
    assert told("few-faces", {"curve": STEADY, "jitter": {"add": {"by": "10ms", "faces": 1_000}}}) == ""


# -- what one rule says must not be denied by another


@pytest.mark.parametrize(
    ("rule", "policy", "words"),
    [
        # 34 min of the curve, held to two: nothing is spread over a wait of 34 min.
        ("thin-jitter", {"curve": DOUBLING, "jitter": {"add": "1s"}, "ceil": "2m", "limit": 12}, ""),
        ("resonance", {**HOURS, "limit": 3}, "let the jitter act: lower floor"),
        # 17/18 of 18 h; detune is as it should be.
        ("resonance", {"curve": {"constant": "20h"}, "cap": "18h", "jitter": "even"}, "wait a little less"),
        ("resonance", {"curve": {"constant": "1h"}, "cap": "2h", "jitter": "even"}, "wait a little less"),
        ("resonance", {"curve": DOUBLING, "jitter": "decorrelated", "ceil": "1h"}, "use even with a cap"),
        ("ceil-hides-jitter", {"preset": "aws_decorrelated"}, "20 s; use even with a cap"),
        ("ceil-hides-jitter", {"curve": DOUBLING, "jitter": "even", "ceil": "20s"}, "20 s; use cap"),
        ("floor-hides-jitter", {"curve": {"table": ["1s", "1m", "1s", "1m"]}, "jitter": "full", "floor": "500ms", "limit": 4},
         "at retries 1 and 3 up to 50 %"),
        ("decorrelated-without-ceil", {"curve": {"constant": 0}, "jitter": "decorrelated"}, ""),
        ("no-jitter", {"curve": DOUBLING, "jitter": {"even": {"spread": 0}}}, "leave the spread of even at its 1"),
        ("no-jitter", {"curve": DOUBLING, "jitter": {"full": {"since": 8}}, "limit": 5}, "with retry 8 only: lower since"),
        ("no-jitter", {"curve": {"constant": 0}, "floor": "1m"}, "add a jitter"),
        ("curve-shrinks", {"curve": {"exponential": {"base": "8s", "factor": 0.5}}, "floor": "30s"}, ""),
        ("curve-shrinks", {"curve": {"table": ["10m", "1m"]}, "jitter": "decorrelated", "limit": 2}, ""),
        ("retries-at-once", {"curve": {"table": ["0s", "1m", "0s"]}, "limit": 3},
         "retries 1 and 3 wait nothing: each in the same instant as the run before it"),
        ("cap-below-first-wait", {"curve": {"exponential": {"base": "1h"}}, "cap": "5m", "ceil": "30s"}, "every wait is 30 s"),
        ("cap-below-first-wait",
         {"phases": [{"curve": {"exponential": {"base": "1h"}}, "count": 3}, {"curve": STEADY}], "cap": "5m"},
         "every wait of it is the cap"),
        # base * (k - 0) from the first on, in a straight line.
        ("accidental-constant", {"curve": {"exponential": {"base": "1s", "factor": 1, "knee": 0}}}, ""),
        # Tenths of a millisecond, all cut to nothing: no bound does that.
        ("accidental-constant", {"curve": {"scale": {"by": 0.1, "curve": {"linear": {"base": 1, "step": 1}}}}, "limit": 8}, ""),
        ("accidental-constant", {"curve": {"constant": "365d"}, "jitter": {"above": 5}}, "because 365 d is the longest there is"),
        # A minute more each time is a straight line.
        ("exponent-below-one", {"curve": {"power": {"exponent": 0.5, "slope": "1m"}}}, ""),
        ("unit-mistake", {"curve": {"constant": "31d"}, "ceil": "1h"}, ""),
        ("brief-window", {"curve": {"constant": "1s"}, "deadline": "30s", "limit": 40}, "failure; raise deadline to"),
        ("brief-window", {"curve": {"constant": "1s"}, "deadline": "30s", "limit": 4}, "; raise deadline and limit to"),
        ("brief-window", {"phases": [{"curve": {"constant": "1s"}, "count": 3}]}, "; give a phase more retries to"),
        ("no-retry", {"curve": {"constant": "1h"}, "deadline": "1m"}, "no retry comes before the deadline of 1 min; raise"),
        ("limit-out-of-reach", {"curve": {"constant": "365d"}, "limit": 1}, "the only retry comes 365 d after"),
        ("limit-out-of-reach", {"curve": {"constant": "30d"}, "cap": "20d"}, "lower limit, or cap"),
        # The deadline ends them, not the limit.
        ("limit-out-of-reach", {"curve": {"constant": "1d"}, "limit": 1_000, "deadline": "365d"}, ""),
    ],
)  # fmt: skip
def test_what_is_said_holds(rule: str, policy: Any, words: str) -> None:
    message = told(rule, policy)
    assert words in message if words else message == ""


def test_no_lower_limit_is_asked_for_where_there_is_none() -> None:
    steep = {"curve": {"exponential": {"base": "15s"}}, "jitter": "even"}
    assert told("overflow", {**steep, "limit": None}).endswith("longest wait there is; give a cap")
    assert told("overflow", {**steep, "limit": 25}).endswith(
        "longest wait there is; give a cap or a lower limit"
    )


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        # 86,400 retries of a second are a day; no more than 1,000 are looked at.
        ({"curve": {"constant": "1s"}, "limit": None}, "some time after retry 1,000 a job may run"),
        ({"curve": STEADY, "limit": None, "deadline": "12h"}, ""),
        ({"curve": {"constant": "6h"}, "limit": None, "deadline": "2d"}, "; give an earlier deadline"),
        ({"curve": {"constant": 0}, "limit": None}, ""),
    ],
)
def test_when_a_payload_is_gone(policy: Any, words: str) -> None:
    message = told("payload-gone", policy, payload_retention_ms=DAY_MS)
    assert words in message if words else message == ""


def test_curves_inside_a_stretch_are_looked_at() -> None:
    inside = {
        "stretch": {
            "by": 2,
            "curve": {"sum": [{"power": {"exponent": 0.5}}, {"linear": {"base": "1m", "step": 0}}]},
        }
    }
    assert told("exponent-below-one", {"curve": inside}).startswith(
        "curve.stretch.curve.sum[0].power.exponent is 0.5"
    )
    assert told("accidental-constant", {"curve": inside}).startswith(
        "curve.stretch.curve.sum[1].linear.step is 0"
    )


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([4], "4"), ([4, 5], "4 and 5"), ([1, 2, 3], "1 to 3"), ([1, 3, 5], "1, 3 and 5"),
        ([1, 3, 5, 7, 9, 11, 13], "1, 3, 5, 7, 9 and 2 more"),
    ],
)  # fmt: skip
def test_numbers_in_words(numbers: list[int], words: str) -> None:
    assert listed(numbers) == words


def test_how_far_decorrelated_jitter_goes_does_not_follow_from_the_floor() -> None:
    """1 s to three times the wait before, which is remembered as it was before the floor: 3, 9 and 27 s, not 3, 30 and 90."""
    form = {"curve": {"constant": "1s"}, "jitter": "decorrelated", "floor": "10s", "limit": 3}
    assert [reach.latest for reach in Facts(Policy.from_json(form)).reaches] == [3_000, 9_000, 27_000]

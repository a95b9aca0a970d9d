"""A policy in words: every piece says what it does."""

from typing import Any

import pytest

from anew.backoff import PRESETS, Custom, Policy, in_words, preset
from anew.backoff.curves import CURVES
from anew.backoff.policy import JITTERS
from anew.backoff.words import curve_in_words, jitter_in_words

from .helpers import make_policy


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        ({"constant": "5m"}, "5 min"),
        ({"constant": 0}, "0"),
        ({"linear": {"base": "15s", "step": "5s"}}, "15 s + 5 s * (k - 1)"),
        ({"power": {"base": "15s", "exponent": 4}}, "15 s + (k - 1)^4 s"),
        ({"power": {"exponent": 2.5, "origin": 1}}, "k^2.5 s"),
        (
            {"power": {"exponent": 3, "origin": 3, "scale": "2s", "slope": "1m"}},
            "2 s * (k + 2)^3 + 1 min * (k + 2)",
        ),
        ({"power": {"exponent": 3, "scale": 0}}, "0"),
        ({"exponential": {"base": "1s"}}, "1 s * 2^(k - 1)"),
        (
            {"exponential": {"base": "1s", "factor": 1.5, "knee": 3}},
            "1 s * 1.5^(k - 1), in a straight line after 3 multiplications",
        ),
        ({"between": {"low": "5s", "high": "30s", "retries": 5}}, "from 5 s to 30 s in 5 retries (linear)"),
        (
            {"between": {"low": "5s", "high": "30s", "retries": 5, "shape": "exponential", "base": 2}},
            "from 5 s to 30 s in 5 retries (exponential, base 2)",
        ),
        ({"table": ["10s", "1m", "5m"]}, "10 s, 1 min, 5 min; the last one again"),
        ({"table": ["10s"]}, "10 s"),
        ({"table": ["1s"] * 10}, "1 s, 1 s, 1 s, 1 s, 1 s, 1 s, 1 s, 1 s ... and 2 more; the last one again"),
        ({"fibonacci": "2s"}, "2 s * 1, 1, 2, 3, 5, 8 ..."),
        ({"sum": [{"constant": "15s"}, {"exponential": {"base": "2s"}}]}, "15 s + 2 s * 2^(k - 1)"),
        ({"scale": {"by": 0.5, "curve": {"constant": "10s"}}}, "0.5 * (10 s)"),
        (
            {"stretch": {"by": 2.5, "curve": {"exponential": {"base": "1s"}}, "origin": 1}},
            "(1 s * 2^(k - 1) with 1 + round(k / 2.5) for k)",
        ),
    ],
)
def test_curves_in_words(curve: Any, words: str) -> None:
    built = make_policy(curve=curve).curve
    assert built is not None
    assert curve_in_words(built) == words


@pytest.mark.parametrize(
    ("jitter", "words"),
    [
        ("none", "c"),
        ("full", "anything from 0 to c"),
        ("equal", "anything from c / 2 to c"),
        ({"above": 0.25}, "anything from c to 1.25 * c"),
        ({"below": 0.2}, "anything from 0.8 * c to c"),
        ({"around": {"share": 0.2, "since": 2}}, "anything from 0.8 * c to 1.2 * c, from retry 2 on"),
        ({"add": "5s"}, "anything from c to c + 5 s"),
        ({"grow": {"by": "30s", "faces": 30}}, "anything from c to c + 30 s * k by a die of 30 faces"),
        ({"grow": {"by": "10s", "step": "1s"}}, "anything from c to c + 10 s * k in whole steps of 1 s"),
        ({"up_to": {"constant": "1m"}}, "anything from c to 1 min"),
        (
            {
                "window": {
                    "low": {"times": 0.5},
                    "high": {"times": 1, "grow": "1s", "add": "2s"},
                    "source": "job",
                }
            },
            "anything from 0.5 * c to c + 1 s * k + 2 s, by the number that the job keeps for life",
        ),
        ({"window": {"low": {}, "high": {"add": "1s"}}}, "anything from 0 to 1 s"),
        (
            {"above": {"share": 0.1, "cut": "1s", "source": "hash"}},
            "anything from c to 1.1 * c, the part above cut to steps of 1 s, by a hash of the job's id and the retry",
        ),
        (
            {"above": {"share": 1, "redraw": "7d"}},
            "anything from c to 2 * c, and what reaches 7 d is drawn again from the upper half of 7 d",
        ),
        ("decorrelated", "anything from c to 3 times the wait before"),
        ("even", "c slid along the curve by the number that the job keeps for life"),
        (
            {"even": {"spread": 0.5, "dither": 0.1}},
            "c slid along the curve by the number that the job keeps for life, over 0.5 of the time between two "
            "waves, shaken by 0.1",
        ),
    ],
)
def test_jitters_in_words(jitter: Any, words: str) -> None:
    assert jitter_in_words(make_policy(jitter=jitter).jitter) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("zizq", ("c = 15 s + k^4 s", "wait = anything from c to c + 30 s * k", "25 retries")),
        (
            {"preset": "aws_full", "limit": 1, "on_exhausted": "discard"},
            (
                "c = 1 s * 2^(k - 1), at most 20 s",
                "wait = anything from 0 to c",
                "1 retry; what fails for good is discarded",
            ),
        ),
        (
            "buckets",
            ("c = k^3 s", "wait = anything from c to (k + 2)^3 s", "as many retries as the server's limit"),
        ),
        ({"curve": {"constant": "1s"}, "limit": 0}, ("c = 1 s", "wait = c", "no retry")),
        (
            {"curve": {"constant": "1s"}, "floor": "2s", "ceil": "3s", "limit": None, "deadline": "1h"},
            (
                "c = 1 s",
                "wait = c, never below 2 s, never above 3 s",
                "no limit of retries, none later than 1 h after the first failure",
            ),
        ),
        (
            {"curve": {"constant": "1s"}, "limit": 9, "deadline": "1h", "on_deadline": "clip"},
            ("c = 1 s", "wait = c", "9 retries, clipped to 1 h after the first failure"),
        ),
        (
            {
                "phases": [
                    {"curve": {"constant": 0}, "count": 1},
                    {"curve": {"constant": "1s"}, "count": 1_000},
                    {"curve": {"exponential": {"base": "1m"}}},
                ],
                "cap": "1h",
                "limit": None,
            },
            (
                "once: c = 0",
                "1,000 times: c = 1 s",
                "for ever: c = 1 min * 2^(k - 1), at most 1 h in each phase",
                "wait = c",
                "no limit of retries",
            ),
        ),
    ],
)
def test_policies_in_words(given: Any, words: tuple[str, ...]) -> None:
    assert in_words(Policy.from_json(given)) == words


def test_a_function_of_ones_own_is_named_as_such() -> None:
    assert in_words(Policy(curve=Custom(function=lambda k: 1.0), limit=1))[0] == "c = a function of its own"


def test_every_piece_has_words() -> None:
    told = {policy.curve.name for policy in map(preset, PRESETS) if policy.curve is not None}  # type: ignore[attr-defined]
    assert told <= CURVES.keys()
    for name in PRESETS:
        assert all(in_words(preset(name))), name
    assert "of its own" not in " ".join(" ".join(in_words(preset(name))) for name in PRESETS)
    assert JITTERS.keys() >= {"slices"}
    assert "slice of time" in jitter_in_words(preset("polly_v2").jitter)

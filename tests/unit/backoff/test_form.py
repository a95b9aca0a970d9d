"""The JSON form: every accepted spelling, and the canonical one."""

import json
import math
from typing import Any

import pytest

from anew.backoff import (
    Custom,
    Draws,
    Grow,
    Policy,
    Power,
    Wait,
    next_wait,
    policy_from_json,
    preset,
)
from anew.errors import InvalidPolicy

ZIZQ = Policy(
    curve=Power(base_ms=15_000, exponent=4, origin=1),
    jitter=Grow(by_ms=30_000),
    limit=25,
)


@pytest.mark.parametrize(
    "form",
    [
        {
            "curve": {"power": {"base": "15s", "exponent": 4, "origin": 1}},
            "jitter": {"grow": "30s"},
            "limit": 25,
            "on_exhausted": "dead",
        },
        {
            "curve": {"power": {"base": 15000, "exponent": 4.0, "origin": 1.0, "scale": "1s", "slope": 0}},
            "jitter": {"grow": {"by": "PT30S", "faces": None, "source": "rng"}},
            "cap": None,
            "ceil": math.inf,
            "max_attempts": 26,
            "phases": [],
        },
        {"preset": "zizq"},
        {"preset": "zizq", "limit": 25, "base": "15s"},
        "zizq",
        {"base_ms": 15000, "exponent": 4.0, "jitter_ms": 30000, "limit": 25},
        {"base_ms": 15000.0, "exponent": 4, "jitter_ms": 30000.0, "max_attempts": 26},
        ZIZQ,
    ],
)
def test_one_law_in_many_spellings(form: Any) -> None:
    assert Policy.from_json(form) == ZIZQ
    assert hash(Policy.from_json(form)) == hash(ZIZQ)


def test_the_canonical_form_reads_aloud() -> None:
    assert ZIZQ.to_json() == {
        "curve": {"power": {"base": "15s", "exponent": 4, "origin": 1}},
        "jitter": {"grow": "30s"},
        "limit": 25,
    }
    assert list(preset("faktory").to_json()["jitter"]["grow"]) == ["by", "faces"]


FULL_FORMS: list[dict[str, Any]] = [
    {"curve": {"constant": "10s"}, "jitter": "full", "limit": None},
    {"curve": {"linear": {"base": "10s", "step": "5s"}}, "jitter": "equal", "limit": 0},
    {"curve": {"exponential": {"base": "15s", "factor": 1.5, "knee": 3}}, "cap": "1h", "limit": 3},
    {"curve": {"exponential": {"base": "2s"}}, "jitter": "slices", "ceil": "1m", "limit": 3},
    {"curve": {"table": ["10s", "1m", "12.345s"]}, "jitter": {"above": 0.25}},
    {"curve": {"fibonacci": "1s"}, "jitter": {"below": 0.1}},
    {"curve": {"sum": [{"constant": "3m"}, {"scale": {"by": 0.5, "curve": {"fibonacci": "1s"}}}]}},
    {
        "curve": {
            "between": {"low": "5s", "high": "4m20s", "retries": 10, "shape": "exponential", "base": 2}
        },
        "jitter": {"around": {"share": 0.1, "source": "job"}},
    },
    {"curve": {"constant": "1s"}, "jitter": {"add": {"by": "10s", "step": "1s", "source": "hash"}}},
    {"curve": {"constant": "1s"}, "jitter": {"up_to": {"constant": "9s"}}},
    {"curve": {"constant": "1s"}, "jitter": {"up_to": {"curve": {"constant": "9s"}, "faces": 6}}},
    {
        "curve": {"constant": "1s"},
        "jitter": {"window": {"low": {"times": 0.5}, "high": {"times": 1, "grow": "1s", "add": "2s"}}},
    },
    {"curve": {"stretch": {"by": 2.5, "curve": {"exponential": {"base": "1s"}}, "origin": 1}}, "limit": 49},
    {"curve": {"constant": "1s"}, "jitter": {"around": {"share": 0.2, "since": 2}}},
    {
        "curve": {"constant": "1s"},
        "jitter": {"above": {"share": 0.1, "source": "hash", "cut": "100ms", "since": 3}},
    },
    {"curve": {"constant": "1s"}, "jitter": {"above": {"share": 1, "redraw": "7d"}}},
    {"curve": {"constant": "1s"}, "jitter": "decorrelated", "ceil": "20s"},
    {"curve": {"constant": "1s"}, "jitter": {"decorrelated": 2.5}, "ceil": "20s"},
    {"curve": {"constant": "1s"}, "jitter": {"even": {"spread": 0.5, "dither": 0.01, "detune": 0}}},
    {
        "phases": [{"curve": {"constant": "0s"}, "count": 3}, {"curve": {"constant": "5s"}}],
        "floor": "1s",
        "deadline": "1d",
        "on_deadline": "clip",
        "on_exhausted": "discard",
        "override": "spread",
    },
]


@pytest.mark.parametrize("form", FULL_FORMS)
def test_forms_round_trip(form: dict[str, Any]) -> None:
    policy = Policy.from_json(form)
    written = policy.to_json()
    assert json.loads(json.dumps(written)) == written
    assert Policy.from_json(written) == policy
    assert policy_from_json(policy.to_bytes()) == policy
    assert {name: written[name] for name in form} == form


def test_a_limit_that_nobody_gave_is_a_default_and_stays_unsaid() -> None:
    form = {"curve": {"constant": "10s"}}
    assert Policy.from_json(form).limit == 25
    assert Policy.from_json(form, default_limit=3).limit == 3
    assert Policy.from_json(form, default_limit=None).limit is None
    assert "limit" not in Policy.from_json(form).to_json()
    assert Policy.from_json(form | {"limit": 25}).to_json()["limit"] == 25
    assert Policy.from_json(form).with_limit(4).to_json()["limit"] == 4


def test_another_limit_changes_nothing_else() -> None:
    changed = ZIZQ.with_limit(3)
    assert (changed.limit, changed.retries, ZIZQ.limit, ZIZQ.retries) == (3, 3, 25, 25)
    assert changed.to_json() == ZIZQ.to_json() | {"limit": 3}
    assert ZIZQ.with_limit(None).retries is None
    with pytest.raises(InvalidPolicy, match=r"^limit: -1 is not valid"):
        ZIZQ.with_limit(-1)


def test_the_text_is_read_once_and_remembered() -> None:
    text = b'{"preset":"faktory","limit":6}'
    assert policy_from_json(text) is policy_from_json(bytes(bytearray(text)))
    assert policy_from_json(b'"buckets"', default_limit=9).limit == 9


def test_a_policy_cannot_change() -> None:
    with pytest.raises(AttributeError):
        ZIZQ.limit = 3  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        ZIZQ.colour = "red"  # type: ignore[attr-defined]


def test_a_custom_function_is_named_and_not_read_back() -> None:
    def hourly(k: int) -> float:
        return 3_600_000

    written = Policy(curve=Custom(function=hourly), limit=3).to_json()
    assert written["curve"]["custom"].endswith("hourly")
    with pytest.raises(InvalidPolicy, match=r'^curve: \{"custom": '):
        Policy.from_json(written)


@pytest.mark.parametrize("exponent", [1e12, 1.1e12, 3e38, 3.4028234663852886e38, 3.4028235e38])
def test_zizqs_exponent_may_be_any_32_bit_float_and_saturates(exponent: float) -> None:
    """1 ^ anything is one second; 2 ^ 1e12 seconds is more than the 365 d that no wait exceeds."""
    policy = Policy.from_json({"exponent": exponent, "base_ms": 0, "jitter_ms": 0})
    waits = [next_wait(policy, attempts, Draws(rng=lambda: 0.5)) for attempts in (1, 2, 3)]
    assert [wait.wait_ms for wait in waits if isinstance(wait, Wait)] == [1_000, *[365 * 86_400_000] * 2]

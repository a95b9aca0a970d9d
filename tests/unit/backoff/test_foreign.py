"""What is written as another system writes it: the error says what it is called here, and how to convert it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anew.backoff import PRESETS, Policy, find_preset, foreign
from anew.backoff.curves import CURVES
from anew.backoff.fields import fields_of
from anew.backoff.form import SHARED
from anew.backoff.policy import JITTERS
from anew.errors import InvalidPolicy

C: dict[str, Any] = {"curve": {"constant": "10s"}}
TOP = "at the top of the policy, beside curve"


def refusal(form: Any) -> str:
    with pytest.raises(InvalidPolicy) as caught:
        Policy.from_json(form)
    return str(caught.value)


def exponential(**fields: Any) -> dict[str, Any]:
    return {"curve": {"exponential": {"base": "1s"} | fields}}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        # Retries are counted as they are here.
        ({"preset": "celery", "max_retries": 5}, 'max_retries is limit here: write "limit": 5'),
        (C | {"max_retries": 5}, 'max_retries is limit here: write "limit": 5'),
        (C | {"maxRetries": 5}, 'maxRetries is limit here: write "limit": 5'),
        (C | {"retries": None}, 'retries is limit here: write "limit": null'),
        (C | {"MaxRetryAttempts": 3}, 'write "limit": 3'),
        # Runs include the first one: five runs are four retries.
        (C | {"attempts": 5}, 'attempts is limit here: write "limit": 4 (its count includes the first run'),
        (C | {"maxAttempts": 5}, 'maxAttempts is limit here: write "limit": 4'),
        (C | {"stop_after_attempt": 1}, 'write "limit": 0'),
        (C | {"attempts": 0}, "attempts is limit here: its count includes the first run, so limit is one less"),
        # A bare number is seconds there as often as milliseconds; a name may say which.
        (C | {"max_delay": "10m"}, 'max_delay is cap here: write "cap": "10m"'),
        (C | {"maxDelay": 600}, 'maxDelay is cap here: write its unit, "600s" or "600ms"'),
        (C | {"max_backoff": "soon"}, 'max_backoff is cap here: write its unit, as in "30s"'),
        (C | {"MaxDelaySeconds": 600}, 'MaxDelaySeconds is cap here: write "cap": "10m"'),
        (C | {"cap_ms": 600_000}, 'cap_ms is cap here: write "cap": "10m"'),
        (C | {"maximum_interval": "1h"}, "maximum_interval is cap here"),
        (C | {"max_elapsed_time": "15m"}, 'max_elapsed_time is deadline here: write "deadline": "15m"'),
        (C | {"total_timeout": 90}, 'total_timeout is deadline here: write its unit, "90s" or "90ms"'),
        (C | {"stop_after_delay": 90}, "stop_after_delay is deadline here"),
        # Inside a curve, and beside it.
        ({"curve": {"exponential": {"initialInterval": "1s"}}}, 'initialInterval is base here: write "base": "1s"'),
        ({"curve": {"exponential": {"base_ms": 1_500}}}, 'base_ms is base here: write "base": "1.5s"'),
        ({"curve": {"constant": {"delay": "1s"}}}, 'delay is wait here: write "wait": "1s"'),
        (exponential(multiplier=3), 'multiplier is factor here: write "factor": 3'),
        (exponential(backoff_coefficient=2), "backoff_coefficient is factor here"),
        (exponential(backoffRate=1.5), 'backoffRate is factor here: write "factor": 1.5'),
        (exponential(max="10m"), f'max is cap here, {TOP}: write "cap": "10m"'),
        (exponential(cap="10m"), f"; cap stands {TOP}"),
        (exponential(jitter="full"), f"; jitter stands {TOP}"),
        (exponential(max_retries=3), f'max_retries is limit here, {TOP}: write "limit": 3'),
        ({"curve": {"between": {"min": "1s", "high": "9s", "retries": 3}}}, 'min is low here: write "low": "1s"'),
        ({"base_delay": "1s"}, 'base_delay is base here: {"curve": {"exponential": {"base": "1s"}}}'),
        ({"multiplier": 2}, 'multiplier is factor here: {"curve": {"exponential": {"base": "1s", "factor": 2}}}'),
        ({"base": "1s"}, 'base stands inside: {"curve": {"exponential": {"base": "1s"}}}'),
        ({"exponential": {"base": "1s"}}, 'exponential is a curve: write {"curve": {"exponential": ...}}'),
        ({"preset": "even", "exponential": {}}, "exponential is a curve: write"),
        ({"phases": [{"exponential": {"base": "1s"}}]}, "exponential is a curve: write"),
        ({"phases": [C | {"max_retries": 3}]}, 'max_retries is count here: write "count": 3'),
        ({"phases": [C | {"limit": 3}]}, 'limit is count here: write "count": 3'),
        (C | {"full": {}}, 'full is a jitter: write {"jitter": "full"}'),
        (C | {"backoff": "exponential"}, 'backoff is curve here: its name is the key: {"curve": {"exponential":'),
        # Names of curves and jitters, and what stands in their place elsewhere.
        ({"curve": "exp"}, "; exp is exponential here"),
        ({"curve": {"fixed": "1s"}}, "; fixed is constant here"),
        ({"curve": {"type": "exponential", "base": "1s"}}, '; the name is the key: {"exponential": ...}'),
        ({"curve": {"type": "exp", "base": "1s"}}, '; the name is the key: {"exponential": ...}'),
        (C | {"retry_jitter": False}, 'retry_jitter is jitter here: write "jitter": "none"'),
        (C | {"useJitter": True}, 'useJitter is jitter here: write "jitter": "full"'),
        (C | {"jitterFactor": 0.5}, 'jitterFactor is jitter here: write "jitter": {"around": 0.5}'),
        (C | {"jitter": True}, '; true may be "full", from nothing to the whole wait, or {"around": 0.5}'),
        (C | {"jitter": False}, '; write "none"'),
        (C | {"jitter": None}, '; write "none"'),
        (C | {"jitter": 0.5}, '; a share is {"around": 0.5}, either way, or {"above": 0.5} or {"below": 0.5}'),
        (C | {"jitter": 5}, '; a time is {"add": "5s"}, up to 5 s above the wait'),
        (C | {"jitter": "full_jitter"}, "; full_jitter is full here"),
        ({"preset": "celery", "jitter": False}, '; write "none"'),
        # A preset's own system says more.
        ({"preset": "celery", "retry_backoff": 2}, 'retry_backoff is base here: write "base": "2s"'),
        ({"preset": "celery", "retry_backoff": True}, 'retry_backoff is base here: in seconds, True is "1s"'),
        ({"preset": "celery", "retry_backoff_max": 600}, 'retry_backoff_max is cap here: write "cap": "10m"'),
        ({"preset": "celery", "retry_jitter": False}, 'retry_jitter is jitter here: False is "none"'),
        ({"preset": "sidekiq8", "retry": 5}, 'retry is limit here: write "limit": 5'),
        ({"preset": "sidekiq8", "retry": False}, "retry is limit here: true is 25, false is 0"),
        ({"preset": "bullmq", "attempts": 5}, 'attempts is limit here: write "limit": 4 (attempts - 1)'),
        ({"preset": "bullmq", "delay": 1_500}, 'delay is base here: write "base": "1.5s"'),
        ({"preset": "temporal", "maximum_attempts": 5}, 'maximum_attempts is limit here: write "limit": 4'),
        ({"preset": "temporal", "maximumAttempts": 0}, "maximumAttempts is limit here: attempts - 1, 0 is null"),
        # Step Functions and Hangfire call retries attempts.
        ({"preset": "step_functions", "MaxAttempts": 3}, 'MaxAttempts is limit here: write "limit": 3'),
        ({"preset": "hangfire", "Attempts": 10}, 'Attempts is limit here: write "limit": 10'),
    ],
)  # fmt: skip
def test_a_name_from_elsewhere_is_answered_with_ours(form: Any, words: str) -> None:
    told = refusal(form)
    assert "expected" in told
    assert words in told[told.index("; ") :]
    assert "did you mean" not in told


@pytest.mark.parametrize(
    ("form", "meant"),
    [
        (C | {"jiter": "full"}, "jitter"),
        (C | {"limt": 3}, "limit"),
        ({"curve": "exponentail"}, "exponential"),
        ({"preset": "zizq", "bse": 1}, "base"),
    ],
)
def test_a_close_spelling_is_still_answered(form: Any, meant: str) -> None:
    assert refusal(form).endswith(f'did you mean "{meant}"?')


@pytest.mark.parametrize(
    "form",
    [
        C | {"base_ms": 1, "exponent": 2, "jitter_ms": 3},  # curve has no place beside Zizq's three
        {"preset": "zaqar", "curves": 3} | {"x" * 500: 1},
        C | {"jitter": ["full"]},
        C | {"nonsense": 1},
        C | {"": 1},
    ],
)
def test_what_nobody_knows_gets_no_translation(form: Any) -> None:
    assert " here" not in refusal(form)


@pytest.mark.parametrize("value", [-3, float("nan"), float("inf"), [], {}, True])
@pytest.mark.parametrize(
    "name", ["delay_ms", "max_delay", "attempts", "retries", "multiplier", "jitter_factor"]
)
def test_no_value_breaks_the_sentence(name: str, value: Any) -> None:
    told = refusal(C | {name: value})
    assert f"; {name} is " in told
    assert len(told) < 400
    assert "-3s" not in told
    assert "nans" not in told


@pytest.mark.parametrize(
    "name", ["delay_ms", "max_delay", "attempts", "retries", "multiplier", "jitter_factor"]
)
def test_no_length_of_a_value_breaks_it_either(name: str) -> None:
    for value in (10**5_000, "x" * 100_000):
        assert len(refusal(C | {name: value})) < 500


@pytest.mark.parametrize("word", ["null", "sqs", "true"])
def test_what_is_like_a_preset_in_letters_alone_gets_no_guess(word: str) -> None:
    assert "did you mean" not in refusal(word)


def test_the_tables_know_all_curves_jitters_and_fields() -> None:
    assert CURVES.keys() == foreign.CURVES
    assert JITTERS.keys() == foreign.JITTERS
    assert {"preset", "curve", "phases", "max_attempts", *SHARED} == foreign.TOP


def test_what_stands_in_an_example_can_be_read() -> None:
    for text in foreign.INSIDE.values():
        (name,) = json.loads(text)
        read = Policy.from_json(C | json.loads(text)).to_json()
        assert read[name] != Policy.from_json(C).to_json().get(name)


@pytest.mark.parametrize("name", PRESETS)
def test_every_name_of_a_presets_system_leads_to_a_field_that_is_there(name: str) -> None:
    found = PRESETS[name]
    for foreign_name, text in found.names.items():
        field = text.partition(": ")[0]
        assert field in {"preset", "curve", *SHARED, *found.parameters}, (foreign_name, text)
        assert not text.endswith(".")


def test_the_fields_of_a_policy_are_all_named() -> None:
    assert fields_of(Policy).keys() - foreign.TOP == set()


def test_the_owner_of_a_library_finds_the_names_that_he_knows() -> None:
    assert find_preset("celery").names == {
        "retry_backoff": 'base: in seconds, True is "1s"',
        "retry_backoff_max": "cap: in seconds",
        "retry_jitter": 'jitter: False is "none"',
        "max_retries": "limit: None is null",
    }
    assert find_preset("temporal").names["MaximumAttempts"] == "limit: attempts - 1, 0 is null"
    assert find_preset("even").names == {}

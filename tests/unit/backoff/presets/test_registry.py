"""The register of presets: every name builds, every fact is there, a misspelt name is answered with the right one."""

import dataclasses
import json
from typing import Any

import pytest

from anew.backoff import ALIASES, FAMILIES, PRESETS, Policy, find_preset, preset
from anew.backoff.form import SHARED
from anew.errors import InvalidPolicy

from ..helpers import wait_ms


def test_the_families_in_the_order_of_lists() -> None:
    assert FAMILIES == ("seeds", "clouds", "notifications", "queues", "python", "retriers", "clients")


def test_the_presets_of_the_field_are_there() -> None:
    assert {
        "zizq", "faktory", "sidekiq", "sidekiq7", "sidekiq8", "constant", "exponential", "buckets", "zzz_jobs",
        "zaqar", "sns_managed", "sns_customer", "sns_http", "aws_full", "aws_equal", "aws_decorrelated", "polly_v2",
        "temporal", "celery", "bullmq", "oban", "river", "rails", "delayed_job", "que", "dramatiq", "cloud_tasks",
        "graphile", "pg_boss", "procrastinate", "airflow", "grpc", "cenkalti", "tenacity_jitter", "stamina", "table",
        "linear", "even", "bull", "symfony", "jobrunr", "inngest", "standard_webhooks", "backoff_expo",
    } <= PRESETS.keys()  # fmt: skip


@pytest.mark.parametrize("name", [*PRESETS, *ALIASES])
def test_every_name_builds_and_round_trips(name: str) -> None:
    policy = preset(name)
    assert Policy.from_json(name) == policy
    written = json.loads(policy.to_bytes())
    assert Policy.from_json(written) == policy
    assert policy == preset(ALIASES.get(name, name))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_says_where_it_comes_from_and_what_it_counts(name: str) -> None:
    found = PRESETS[name]
    assert found.name == name
    assert found.family in FAMILIES
    assert found.summary.endswith(".")
    assert len(found.summary) <= 120
    for words in (found.source, found.origin, found.counts):
        assert words
        assert not words.endswith(".")
    assert all(trap.endswith(".") for trap in found.traps)
    assert found.defaults.keys() == found.parameters.keys()


@pytest.mark.parametrize("name", PRESETS)
def test_the_defaults_that_are_told_are_the_ones_that_hold(name: str) -> None:
    found = PRESETS[name]
    given = {key: value for key, value in found.defaults.items() if value is not None}
    given.pop("max_attempts", None)
    assert preset(name, **given) == preset(name)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("fixed", "constant"), ("sidekiq6", "sidekiq"), ("full_jitter", "aws_full"), ("equal_jitter", "aws_equal"),
        ("decorrelated", "aws_decorrelated"), ("decorrelated_jitter", "aws_decorrelated"),
        ("exponential_jitter", "tenacity_jitter"), ("retry_backoff", "celery"),
        ("polynomially_longer", "rails"), ("exponentially_longer", "rails"), ("backoff_factor", "urllib3"),
        ("wait_random_exponential", "tenacity_random_exponential"), ("polly", "polly_exponential"),
        ("crash_loop_back_off", "kubernetes_crash_loop"), ("zizq_0_6_0", "zizq_before_0_6_1"),
        ("good_job", "rails"), ("solid_queue", "rails"), ("symfony_messenger", "symfony"), ("messenger", "symfony"),
        ("webhooks", "standard_webhooks"), ("backoff", "backoff_expo"), ("on_exception", "backoff_expo"),
        ("illuminate", "laravel"),
        # Without retry_backoff, which is opt-in, autoretry_for waits default_retry_delay.
        ("autoretry_for", "celery_retry"),
    ],
)  # fmt: skip
def test_names_that_people_search_for(alias: str, name: str) -> None:
    assert find_preset(alias) is PRESETS[name]


def test_no_parameter_hides_a_field_that_every_policy_has() -> None:
    for found in PRESETS.values():
        assert not found.parameters.keys() & {"curve", "phases", *SHARED}
    assert not ALIASES.keys() & PRESETS.keys()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sidekick", '"sidekiq"'),
        ("Sidekiq", '"sidekiq"'),
        ("zizk", '"zizq"'),
        ("evne", '"even"'),
        ("aws-full", '"aws_full"'),
        ("full jiter", '"full_jitter", another name of aws_full'),
        ("exponential-jitter", '"exponential_jitter", another name of tenacity_jitter'),
        ("retrybackoff", '"retry_backoff", another name of celery'),
        ("temporl", '"temporal"'),
    ],
)
def test_a_misspelt_preset_is_answered_with_the_one_that_may_be_meant(given: str, meant: str) -> None:
    for build in (preset, Policy.from_json, lambda name: Policy.from_json({"preset": name, "limit": 3})):
        with pytest.raises(InvalidPolicy) as caught:
            build(given)
        assert str(caught.value).startswith(f'preset: "{given}" is not valid; expected the name of a preset')
        assert str(caught.value).endswith(f"did you mean {meant}?")
        assert caught.value.field == "preset"


@pytest.mark.parametrize("given", ["xyzzy", "", "s" * 10_000, 5, None, ["even"], {"even": 1}])
def test_what_is_like_no_preset_gets_no_guess(given: Any) -> None:
    with pytest.raises(InvalidPolicy, match="expected the name of a preset") as caught:
        Policy.from_json({"preset": given})
    assert "did you mean" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_any_shared_field_may_stand_beside_a_preset() -> None:
    policy = preset("faktory", limit=6, cap="1h", jitter="none", on_exhausted="discard", deadline="2d")
    assert (policy.limit, policy.cap_ms, policy.on_exhausted) == (6, 3_600_000, "discard")
    assert wait_ms(policy.with_limit(None), 20) == 3_600_000
    assert policy.deadline_ms == 172_800_000


def test_a_preset_takes_another_curve() -> None:
    policy = preset("aws_equal", curve={"constant": "8s"})
    assert policy.nominal(1) == policy.nominal(2) == 8_000


def test_a_preset_whose_source_names_no_limit_takes_the_servers() -> None:
    assert Policy.from_json("buckets", default_limit=7).limit == 7
    assert Policy.from_json("faktory", default_limit=7).limit == 25
    assert "limit" not in preset("buckets").to_json()


def test_presets_are_records_that_cannot_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PRESETS["zizq"].name = "other"  # type: ignore[misc]
    with pytest.raises(InvalidPolicy):
        preset("zizq", nonsense=1)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (
            "even",
            {"curve": {"power": {"base": "30s", "exponent": 4, "slope": "15s"}}, "jitter": "even", "limit": 25},
        ),
        ("zizq", {"curve": {"power": {"base": "15s", "exponent": 4, "origin": 1}}, "jitter": {"grow": "30s"}, "limit": 25}),
        (
            "faktory",
            {"curve": {"power": {"base": "15s", "exponent": 4}}, "jitter": {"grow": {"by": "30s", "faces": 30}}, "limit": 25},
        ),
        (
            "sidekiq",
            {"curve": {"power": {"base": "15s", "exponent": 4}}, "jitter": {"grow": {"by": "30s", "faces": 30}}, "limit": 25},
        ),
        ("constant", {"curve": {"constant": "5m"}}),
        ("exponential", {"curve": {"sum": [{"constant": "3m"}, {"exponential": {"base": "2m"}}]}}),
        ("linear", {"curve": {"linear": {"base": "1m", "step": "1m"}}}),
        (
            "buckets",
            {
                "curve": {"power": {"exponent": 3, "origin": 1}},
                "jitter": {"up_to": {"power": {"exponent": 3, "origin": 3}}},
            },
        ),
        (
            "zzz_jobs",
            {
                "curve": {"exponential": {"base": "15s"}}, "cap": "1h",
                "jitter": {"above": {"share": 0.25, "source": "hash"}}, "limit": 19,
            },
        ),
        ("aws_full", {"curve": {"exponential": {"base": "1s"}}, "cap": "20s", "jitter": "full"}),
        ("aws_equal", {"curve": {"exponential": {"base": "1s"}}, "cap": "20s", "jitter": "equal"}),
        ("aws_decorrelated", {"curve": {"constant": "1s"}, "jitter": "decorrelated", "ceil": "20s"}),
    ],
)  # fmt: skip
def test_the_stored_form_of_the_first_presets_never_changes(name: str, form: dict[str, Any]) -> None:
    assert preset(name).to_json() == form


@pytest.mark.parametrize(
    ("name", "jitter"),
    [
        ("grpc", {"around": {"share": 0.2, "since": 2}}),
        ("oban", {"above": {"share": 0.1, "cut": "1s"}}),
        ("dramatiq", {"above": {"share": 1, "redraw": "7d"}}),
        ("sidekiq8", {"grow": {"by": "10s", "step": "1s"}}),
        ("celery", {"window": {"low": {}, "high": {"times": 1, "add": "1s"}, "step": "1s"}}),
    ],
)
def test_the_form_of_unusual_jitters_reads_aloud(name: str, jitter: dict[str, Any]) -> None:
    assert preset(name).to_json()["jitter"] == jitter


def test_what_people_take_for_the_newest_law_says_which_it_is() -> None:
    """The wait of autoretry_for alone, 3 minutes; and the Sidekiq of old in the summary that every list shows."""
    assert preset("autoretry_for").nominal(1) == 180_000
    assert "retry_backoff is off unless asked for" in PRESETS["celery"].traps[0]
    assert "Celery 5.7" in PRESETS["celery"].source
    assert "Celery 5.7" in PRESETS["celery_retry"].source
    assert PRESETS["sidekiq"].summary.startswith("Sidekiq up to 6.2.1 (newer: sidekiq7, sidekiq8)")

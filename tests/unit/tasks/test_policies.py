"""Every form of a task's policy, what is stored of it, and which rule holds for an error."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from anew import Policy
from anew.backoff import Custom
from anew.errors import AnewError, InvalidPolicy
from anew.jobs import Failed
from anew.tasks.context import Context
from anew.tasks.policies import Retries, read_retries

NOW = 1_000_000


def context(attempt: int = 1) -> Context:
    """Make what a handler may ask."""
    return Context(
        job_id="j",
        task="t",
        queue="q",
        attempt=attempt,
        max_attempts=None,
        now=lambda: NOW,
        progress=lambda *_: None,
    )


def about(retries: Retries, error: BaseException, attempt: int = 1) -> Failed:
    """Give what holds for an error."""
    return retries.about(Failed(message="m", error_type="T"), error, context(attempt))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (["10s", "1m", 300], {"curve": {"table": ["10s", "1m", "5m"]}, "limit": 3}),
        ((1, 0.5), {"curve": {"table": ["1s", "500ms"]}, "limit": 2}),
        ("10s", {"curve": {"table": ["10s"]}, "limit": 1}),
        ([], {"curve": {"table": ["0s"]}, "limit": 0}),
    ],
)
def test_a_list_of_waits_has_as_many_retries(value: object, stored: dict[str, Any]) -> None:
    policy = read_retries(value).policy
    assert policy is not None
    assert json.loads(policy) == stored


@pytest.mark.parametrize("value", ["sidekiq", {"preset": "sidekiq"}, Policy.from_json("sidekiq")])
def test_a_preset_has_three_forms(value: object) -> None:
    policy = read_retries(value).policy
    assert policy is not None
    assert Policy.from_json(json.loads(policy)) == Policy.from_json("sidekiq")


def test_none_leaves_it_to_the_default() -> None:
    assert read_retries(None) == Retries()
    failure = Failed(message="m")
    assert Retries().about(failure, ValueError(), context()) is failure


@pytest.mark.parametrize(
    "value",
    [
        7,
        "nobody",
        {"curve": 1},
        {ValueError: "nobody"},
        {ValueError: None, "x": None},
        {int: None},
        ["soon"],
        lambda: 1,
        print,
    ],
)
def test_what_is_no_policy_is_refused(value: object) -> None:
    with pytest.raises(AnewError, match="expected"):
        read_retries(value)


def test_the_narrowest_rule_on_the_errors_own_line_holds() -> None:
    retries = read_retries({LookupError: None, KeyError: ["1s"], Exception: ["2s"]})
    assert about(retries, KeyError()).policy == read_retries(["1s"]).policy
    assert about(retries, IndexError()).kill
    assert about(retries, ValueError()).policy == read_retries(["2s"]).policy
    assert retries.policy == read_retries(["2s"]).policy, "the rule for all is what is stored"

    class Both(OSError, KeyError):
        """Of two lines."""

    assert about(read_retries({OSError: None, KeyError: ["1s"]}), Both()).kill


def test_an_error_that_no_rule_is_for_is_left_to_the_default() -> None:
    failure = about(read_retries({KeyError: None}), SystemExit())
    assert (failure.kill, failure.policy, failure.retry_at) == (False, None, None)


def test_functions_are_asked_in_both_shapes() -> None:
    asked: list[tuple[Any, ...]] = []

    def ours(attempt: int, exception: BaseException) -> float:
        asked.append((attempt, exception))
        return 1.5

    def djangos(exception: BaseException, task_result: Any) -> int:
        asked.append((exception, task_result.attempt))
        return 0

    error = ValueError()
    assert about(read_retries(ours), error, 3).retry_at == NOW + 1_500
    assert about(read_retries(djangos), error, 4).retry_at == NOW
    assert asked == [(3, error), (error, 4)]
    assert about(read_retries(lambda attempt, exception: None), error).kill


@pytest.mark.parametrize("answer", [-1, -0.001, float("-inf"), timedelta(seconds=-9)])
def test_a_wait_below_zero_counts_as_zero(answer: Any) -> None:
    """Its policy's floor holds then, as for any wait that a failure asks for."""
    assert about(read_retries(lambda attempt, exception: answer), ValueError()).retry_at == NOW


@pytest.mark.parametrize("answer", [float("nan"), "soon", [1], "-1s", True])
def test_a_functions_answer_that_is_no_wait_is_refused(answer: Any) -> None:
    with pytest.raises(AnewError, match="the wait that the policy's function gave"):
        about(read_retries(lambda attempt, exception: answer), ValueError())


def test_what_the_handler_has_decided_stands() -> None:
    retries = read_retries(lambda attempt, exception: 1 // 0)
    for failure in (Failed(message="m", kill=True), Failed(message="m", retry_at=5, limited=True)):
        assert retries.about(failure, ValueError(), context()) is failure


def test_a_curve_that_is_a_function_cannot_be_stored() -> None:
    with pytest.raises(InvalidPolicy, match="expected policy=function"):
        read_retries(Policy(curve=Custom(function=float)))

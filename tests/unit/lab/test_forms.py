"""Whatever speaks of one policy takes it as a `Policy` or as the JSON value that it is read from."""

from __future__ import annotations

from typing import Any

import pytest

from anew.backoff import Policy
from anew.errors import InvalidPolicy
from anew.lab import Scenario, compare, explain, lint, simulate
from anew.lab.named import Named

FORMS = ["celery_retry", {"preset": "celery_retry"}, {"curve": {"constant": "3m"}, "limit": 3}]
POLICY = Policy.from_json({"curve": {"constant": 180_000}, "limit": 3})
FEW = Scenario(jobs=3, success=0)


@pytest.mark.parametrize("form", FORMS)
def test_explain_and_simulate_take_a_name_or_an_object(form: Any) -> None:
    assert explain(form) == explain(POLICY)
    assert simulate(form, FEW) == simulate(POLICY, FEW)


def test_compare_takes_a_mixture() -> None:
    found = compare([*FORMS, POLICY, Named("mine", POLICY)], FEW, measured=False)
    assert found.table()[0][1:] == ["policy 1", "policy 2", "policy 3", "policy 4", "mine"]


@pytest.mark.parametrize(
    ("form", "words"),
    [("evn", '^preset: "evn" .*did you mean "even"'), (5, "policy: 5 is not valid; expected "), (None, "policy: ")],
)  # fmt: skip
def test_what_is_no_policy_is_told(form: Any, words: str) -> None:
    for ask in (
        lambda: explain(form),
        lambda: simulate(form, FEW),
        lambda: compare([form, POLICY], FEW),
        lambda: lint(form),
    ):
        with pytest.raises(InvalidPolicy, match=words):
            ask()

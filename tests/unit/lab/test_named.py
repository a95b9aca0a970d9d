"""What people call policies: names of their own, that say what was given."""

from __future__ import annotations

from typing import Any

from anew.lab.named import labels


def test_policies_have_names_of_their_own() -> None:
    forms: list[Any] = [
        "even", "even", {"preset": "faktory", "limit": 6}, {"curve": {"constant": "5m"}},
        {"preset": "zizq", "base": "1s" * 30},
    ]  # fmt: skip
    assert labels(forms) == ["even", "even (2)", "faktory, limit 6", "policy 4", "zizq (5)"]


def test_what_differs_from_a_preset_is_said() -> None:
    forms: list[Any] = [
        "celery",
        {"preset": "celery", "limit": None},
        {"preset": "celery", "jitter": {"add": {"by": "4s"}}},
        {"preset": "celery", "jitter": "none", "deadline": None},
        {"preset": "celery", "override": True},
        # With "limit 3" it would have 43 letters, which are more than 40: its number says that there is more.
        {"preset": "celery", "deadline": "1h30m", "base": "1500s", "limit": 3},
    ]
    assert labels(forms) == [
        "celery", "celery, no limit", "celery, jitter add", "celery, jitter none, no deadline", "celery, override",
        "celery, deadline 1h30m, base 1500s (6)",
    ]  # fmt: skip
    assert labels([{"preset": "celery", "deadline": "1h30m", "base": "1s"}]) == [
        "celery, deadline 1h30m, base 1s"
    ]


def test_a_policy_is_called_what_its_file_calls_it() -> None:
    forms: list[Any] = [
        {"curve": {"constant": "5m"}},
        {"preset": "zizq", "limit": 3},
        "even",
        {"curve": {"constant": "1s"}},
    ]
    assert labels(forms, ["webhooks", "mails", "", "webhooks"]) == [
        "webhooks",
        "mails",
        "even",
        "webhooks (4)",
    ]
    assert labels(forms[:1], ["w" * 50]) == ["w" * 39 + "…"]

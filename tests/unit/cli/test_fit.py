"""``anew lab fit``: a policy on the first line, then how it was found."""

from __future__ import annotations

import json

import pytest

from anew.backoff import Policy
from anew.cli.root import run


def fit(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["lab", "fit", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_the_policy_comes_first_and_can_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = fit(capsys, "--window", "1325s", "--first", "5s", "--retries", "10", "--like", "between")
    policy, *how = out.splitlines()
    assert code == 0
    assert Policy.from_json(json.loads(policy)).nominal(10) == 260_000
    assert how[1] == "  10 * (5s + high) / 2 = 22m5s: high = 4m20s"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = fit(capsys, "--window", "1d", "--first", "1s", "--retries", "40", "--cap", "1h", "--json")
    assert code == 0
    assert json.loads(out)["policy"]["cap"] == "1h"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--window", "1m", "--first", "10s", "--retries", "12"), "12 retries of at least 10 s take 2 min"),
        (("--window", "soon", "--first", "10s", "--retries", "12"), "--window: "),
        (("--window", "1d", "--first", "10s", "--retries", "12", "--cap", "x"), "--cap: "),
        (
            ("--window", "1d", "--first", "10s", "--retries", "12", "--like", "x"),
            "expected one of: even, sidekiq",
        ),
        (("--window", "1d", "--first", "10s"), "--retries"),
    ],
)
def test_bad_input_says_what_was_expected(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = fit(capsys, *arguments)
    assert code == 2
    assert words in err

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


def test_an_outage_is_all_that_must_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert fit(capsys, "--outlive", "3d") == fit(capsys, "--outlive", "3d", "--first", "10s")


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
        (("--first", "10s"), "--window and --outlive: neither is given; expected one of the two"),
        (("--window", "1d", "--outlive", "1d", "--first", "10s"), "one of the two"),
        (
            ("--outlive", "1h", "--first", "1s", "--retries", "2", "--cap", "1m"),
            "outlive: a window of 1 h cannot be",
        ),
        (
            ("--outlive", "3600", "--first", "10s"),
            '--outlive: "3600" has no unit; expected a duration with its unit, such as 3600s',
        ),
    ],
)
def test_bad_input_says_what_was_expected(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = fit(capsys, *arguments)
    assert code == 2
    assert words in err


def test_a_window_with_a_jitter_is_no_outage_that_all_outlive(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten waits of 10 s, spread evenly: the last retry comes 95 to 105 s after the failure, half of them before 100."""
    words = ("--first", "10s", "--retries", "10", "--like", "constant")
    _, out, _ = fit(capsys, "--window", "100s", *words)
    assert out.splitlines()[-1] == (
        "  warning: 50 % of the jobs die in an outage of 1m40s: the jitter brings their last retry before its end; "
        "--outlive 1m40s leaves nobody behind"
    )
    code, out, _ = fit(capsys, "--outlive", "95s", *words)
    assert code == 0
    assert out.splitlines()[-1] == "  every job outlives an outage of 1m35s"


def test_the_number_of_retries_is_proposed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = fit(capsys, "--outlive", "3d", "--first", "10s")
    policy, _, why, *_ = out.splitlines()
    assert json.loads(policy)["limit"] == int(why.split()[0])
    assert why.endswith(
        "the fewest with which no wait is longer than a quarter of the window or four times the one before"
    )


@pytest.mark.parametrize(
    ("family", "jitter", "said"),
    [
        ("even", (), "like even: first + scale * (k - 1)^4, spread evenly"),
        ("even", ("--jitter", "none"), "like even: first + scale * (k - 1)^4, no jitter"),
        ("sidekiq", ("--jitter", "full"), "like sidekiq: first + scale * (k - 1)^4, jitter full"),
        (
            "zizq",
            ("--jitter", '{"around": 0.5}'),
            'like zizq: first - scale + scale * k^4, jitter {"around":0.5}',
        ),
    ],
)
def test_the_jitter_that_is_told_is_the_one_that_is_proposed(
    capsys: pytest.CaptureFixture[str], family: str, jitter: tuple[str, ...], said: str
) -> None:
    words = ["--window", "1d", "--first", "10s", "--retries", "9", "--like", family]
    assert run(["lab", "fit", *words, *jitter]) == 0
    assert f"  {said}\n" in capsys.readouterr().out

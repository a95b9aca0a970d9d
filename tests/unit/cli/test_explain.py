"""``anew policy explain`` and ``anew policy sample``: what they print, and what they refuse."""

from __future__ import annotations

import itertools
import json

import pytest

from anew.backoff import Wait, next_wait, preset
from anew.cli.policy.sample import histogram
from anew.cli.root import run
from anew.lab.chance import LabDraws


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints that must succeed."""
    assert run(words) == 0
    return capsys.readouterr().out


def test_policy_explain_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    policy = '{"base_ms": 100, "exponent": 2, "jitter_ms": 0}'
    answer = json.loads(printed(["policy", "explain", policy, "--json", "--retries", "3"], capsys))
    assert list(answer) == [
        "policy", "limit", "retries", "total_runs", "window", "outlives", "outlived_ms", "dead_by_ms",
    ]  # fmt: skip
    assert (answer["limit"], answer["total_runs"]) == (25, 26)
    # 1^2, 2^2, 3^2 seconds and 100 ms each; sums 1.1, 5.2, 14.3 s.
    assert [row["nominal_ms"] for row in answer["retries"]] == [1_100, 4_100, 9_100]
    assert answer["retries"][2] == {
        "retry": 3, "nominal_ms": 9_100, "earliest_ms": 9_100, "latest_ms": 9_100,
        "window_earliest_ms": 14_300, "window_latest_ms": 14_300,
        "mean_ms": 9_100, "sd_ms": 0, "percentiles_ms": {"5": 9_100, "50": 9_100, "95": 9_100},
        "share": None, "nearly": False,
    }  # fmt: skip
    # The window is that of all 25 retries: 1^2 + ... + 25^2 = 5 525 s, and 2.5 s.
    assert answer["window"]["latest_ms"] == answer["dead_by_ms"]["100"] == 5_527_500


def test_policy_explain_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(["policy", "explain", "zizq", "--retries", "1"], capsys).splitlines()
    assert lines[0].split() == [
        "RETRY",
        "NOMINAL",
        "EARLIEST",
        "LATEST",
        "MEAN",
        "5-95",
        "%",
        "FROM",
        "START",
        "TO",
    ]
    assert lines[1].split("  ")[0] == "1"
    assert "16 s" in lines[1]
    assert "46 s" in lines[1]
    assert lines[2].startswith("25 retries, the first 1 shown; retry 1 comes 16 s to 46 s after")
    assert lines[3] == "26 runs in all."


def test_policy_explain_tells_who_outlives_an_outage(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten waits of 10 s and one number for all up to twice as long: 100 to 200 s, evenly."""
    policy = '{"curve": {"constant": "10s"}, "jitter": {"above": {"share": 1, "source": "job"}}, "limit": 10}'
    words = ["policy", "explain", policy, "--outage", "2m", "--outage", "190000ms"]
    text = printed(words, capsys)
    assert (
        "An outage of 2 min from the first failure on: 80.0 % of the jobs outlive it (± 0.3 points)." in text
    )
    assert (
        "An outage of 3 min 10 s from the first failure on: 10.0 % of the jobs outlive it (± 0.3 points)."
        in text
    )
    answer = json.loads(printed([*words, "--json"], capsys))
    assert [item["outage_ms"] for item in answer["outlives"]] == [120_000, 190_000]
    assert [item["share"] for item in answer["outlives"]] == pytest.approx([0.8, 0.1], abs=1e-3)


def test_policy_explain_with_percentiles(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["policy", "explain", "aws_full", "--retries", "1", "--percentiles", "1, 99.5%"]
    assert "1 %   99.5 %" in printed(words, capsys)
    answer = json.loads(printed([*words, "--json"], capsys))
    assert answer["retries"][0]["percentiles_ms"] == {"1": 9, "99.5": 994}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "zizq", "--outage", "soon"], "--outage: "),
        (["explain", "zizq", "--outage", "-5"], "--outage: "),
        (
            ["explain", "zizq", "--percentiles", "5,x"],
            "--percentiles: 'x' is not valid; expected numbers from 0 to 100",
        ),
        (["explain", "zizq", "--percentiles", "101"], "--percentiles: '101'"),
        (["explain", "zizq", "--percentiles", ""], "--percentiles: ''"),
        (["explain", "zizq", "--percentiles", ",".join(["5"] * 21)], "at most 20 percentiles"),
        (["sample", "zizq", "--retry", "0"], "retry: 0 is not valid; expected a whole number from 1 to 25"),
        (["sample", "zizq", "--retry", "26"], "the policy's last retry"),
        (["sample", "zizq", "-n", "0"], "n: 0 is not valid; expected a whole number from 1 to 1000000"),
        (["sample", "zizq", "-n", "1000001"], "n: 1000001"),
        (["sample", "aws_decorrelated", "--retry", "25", "-n", "1000000"], "expected at most 80000"),
        (["sample", '{"preset": "zizq", "limit": 0}'], "this one has no retry"),
        (["sample", "zizq", "--phase", "moon"], "'--phase': 'moon' is not one of 'seq', 'hash'"),
    ],
)
def test_what_does_not_fit_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert said in output.err


def test_policy_sample_prints_what_the_engine_draws(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["policy", "sample", "zizq", "--retry", "3", "-n", "50", "--seed", "7", "--json"]
    waits = json.loads(printed(words, capsys))
    for job, wait_ms in enumerate(waits):
        wait = next_wait(preset("zizq"), 3, LabDraws.of(7, job, 3))
        assert isinstance(wait, Wait)
        assert wait.wait_ms == wait_ms
    assert len(waits) == 50
    assert json.loads(printed(words, capsys)) == waits
    assert json.loads(printed([*words, "--seed", "8"], capsys)) != waits


def test_policy_sample_draws_the_phases_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """The first wait of ``even``: consecutive ordinals leave no gap above 1.9 / n, independent numbers do."""
    gaps = {}
    for phase in ("seq", "hash"):
        words = ["policy", "sample", "even", "-n", "1000", "--phase", phase, "--json"]
        waits = sorted(json.loads(printed(words, capsys)))
        gaps[phase] = max(b - a for a, b in itertools.pairwise(waits))
    # 38 s wide, and at p = 1 a number is worth 46 s: 1.9 / 1000 * 46 s = 87 ms at most.
    assert gaps["seq"] <= 88 < gaps["hash"]


def test_policy_sample_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Faktory's third retry takes 30 values, 3 s apart."""
    lines = printed(["policy", "sample", "faktory", "--retry", "3", "-n", "3000"], capsys).splitlines()
    assert lines[0].split() == ["WAITS", "LEAST", "5", "%", "50", "%", "95", "%", "MEAN", "MOST"]
    assert lines[1].split()[0] == "3000"
    assert len(lines) == 2 + 30
    assert "31 s" in lines[2]
    assert "1 min 58 s" in lines[31]
    assert sum(int(line.split()[-1]) for line in lines[2:]) == 3_000


def test_a_histogram_of_many_values_has_twenty_lines() -> None:
    lines = histogram(list(range(0, 100_000, 10)))
    assert len(lines) == 20
    assert {line.split()[-1] for line in lines} == {"500"}
    assert len({len(line) for line in lines}) == 1


def test_a_histogram_of_one_value_has_one_line() -> None:
    assert [line.split()[-1] for line in histogram([5, 5, 5])] == ["3"]


def test_no_row_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "explain", '{"curve": {"constant": "1m"}, "limit": 3}', "--retries", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["3 retries", "4 runs in all."]

"""``anew lab simulate``: a table by retry, the load as a line, a summary in words; or all of it as JSON."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from anew.cli.root import run


def simulate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["lab", "simulate", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_retries_load_and_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """Thirty seconds apart, an outage of 100 s: the fourth retry, at 2 min, is the first that succeeds."""
    code, out, err = simulate(
        capsys, '{"curve": {"constant": "30s"}}', "--jobs", "10", "--outage", "100s"
    )  # fmt: skip
    assert (code, err) == (0, "")
    heading, *rows = out.splitlines()[:5]
    assert heading.split() == ["RETRY", "CALLS", "SUCCEEDED", "EARLIEST", "MEDIAN", "LATEST"]
    assert rows[0].split() == ["1", "10", "0", "30", "s", "30", "s", "30", "s"]
    assert rows[3].split() == ["4", "10", "10", "2", "min", "2", "min", "2", "min"]
    for words in (
        "calls ",
        "at most 10",
        "Through after 2 min: 10 jobs, none of them dead.",
        "From failure to success: half within 2 min, 99 % within 2 min, the longest 2 min.",
        "40 retries, 4.0 a job; 30 of them (75 %) in vain.",
        "The fullest second had 10, the fullest minute 20; spread evenly over 1 min 30 s it would be 0.44 a second, "
        "27 a minute.",
    ):
        assert words in out


def test_of_less_than_a_minute_no_minute_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Calls at 10, 20 and 30 s: 30 in 20 s."""
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "10s"}, "limit": 3}', "--jobs", "10", "--success", "0"
    )  # fmt: skip
    assert "The fullest second had 10; spread evenly over 20 s it would be 1.5 a second.\n" in out


def test_no_retry_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(capsys, '{"curve": {"constant": "1m"}, "limit": 3}', "--jobs", "5", "--retries", "0")
    assert "RETRY" not in out
    assert "retries more" not in out


def test_the_dead_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "1m"}, "limit": 3}', "--jobs", "5", "--success", "0", "--retries", "1"
    )
    assert "... and 2 retries more (--retries 3)" in out
    assert "Of 5 jobs 0 succeeded and 5 died; the last ended after 3 min." in out


def test_silence_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Calls at 5 and 10 min: of the six minutes from the one to the other four pass without a call."""
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "5m"}, "limit": 2}', "--jobs", "3", "--success", "0"
    )  # fmt: skip
    assert "No call came in 67 % of the minutes from the first to the last.\n" in out


def test_calls_that_find_no_worker_before_the_horizon_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "1s"}}', "--jobs", "100", "--workers", "1", "--latency", "10s", "--horizon", "15s",
    )  # fmt: skip
    assert "At most 99 calls were due and had no worker.\n" in out


def test_a_limited_downstream_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "1s"}, "limit": 5}', "--jobs", "100", "--capacity", "10", "--timeout", "1s",
        "--workers", "50", "--horizon", "1m",
    )  # fmt: skip
    for words in ("served ", "wasted ", "backlog ", "for callers who had given up", "had no worker"):
        assert words in out


def test_fresh_calls_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "1s"}}', "--jobs", "1", "--base-rate", "1", "--outage", "3500ms",
        "--horizon", "10s",
    )  # fmt: skip
    assert "Of 10 fresh calls 7 succeeded at once and 3 later; 0 died, 0 still retry." in out


def test_json_has_policy_scenario_and_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = simulate(
        capsys, "even", "--jobs", "50", "--over", "10m", "--outage", "2h", "--seed", "7", "--json"
    )
    body = json.loads(out)
    assert code == 0
    assert body["scenario"]["over_ms"] == 600_000
    assert body["outcome"]["succeeded"] == 50
    assert sum(body["outcome"]["load"]["counts"]) == body["outcome"]["calls"]
    assert len(body["outcome"]["dots"]) == 50


def test_exact_gives_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("zizq", "--jobs", "30", "--outage", "1h", "--success", "0.5", "--json")
    assert simulate(capsys, *arguments) == simulate(capsys, *arguments, "--exact")


def test_whoever_states_no_trouble_is_told_how_to(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(capsys, "constant", "--jobs", "2")
    assert "try --outage 2h" in out
    assert "All of them came within a second." in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("even", "--jobs", "0"), "jobs: 0 is not valid; expected a whole number from 1 to 10000000"),
        (("even", "--outage", "soon"), 'outage: "soon" is not valid; expected a duration'),
        (("even", "--success", "2"), "success: 2.0 is not valid; expected a number from 0 to 1"),
        (("even", "--capacity", "0"), "capacity: 0.0 is not valid; expected a number from 0.001"),
        (("even", "--jobs", "200000", "--exact"), "expected at most 100000"),
        (('{"preset": "even", "limit": null}', "--success", "0"), "horizon: is missing; expected one"),
        (("nothing",), "nothing"),
    ],
)
def test_bad_input_says_what_was_expected(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = simulate(capsys, *arguments)
    assert code == 2
    assert words in err


def test_without_numpy_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(import_module("anew.lab.simulation.simulate"), "has_numpy", lambda: False)
    code, out, _ = simulate(capsys, "even", "--jobs", "20", "--outage", "1h")
    assert (code, "none of them dead" in out) == (0, True)
    code, _, err = simulate(capsys, "even", "--jobs", "30000")
    assert code == 2
    assert "pip install 'anew[lab]'" in err


def test_long_work_tells_how_far_it_is_and_wipes_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module("anew.cli.lab.simulate")
    now = iter([0.0, 0.1, 0.9, 1.2, 1.3])
    progress = module._Progress(clock=lambda: next(now))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for share in (0.1, 0.3, 0.3, 0.75):
        progress(share)
    progress.end()
    assert capsys.readouterr().err == "\r 30 % simulated\r 75 % simulated\r" + " " * 16 + "\r"

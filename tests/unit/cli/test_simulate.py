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
    said, empty, heading, *rows = out.splitlines()[:7]
    assert (said, empty) == ("10 jobs, outage 1 min 40 s", "")
    assert heading.split() == ["RETRY", "CALLS", "SUCCEEDED", "EARLIEST", "MEDIAN", "LATEST"]
    assert rows[0].split() == ["1", "10", "0", "30", "s", "30", "s", "30", "s"]
    assert rows[3].split() == ["4", "10", "10", "2", "min", "2", "min", "2", "min"]
    for words in (
        "calls ",
        "at most 10",
        "Through after 2 min: 10 jobs, none of them dead.",
        "From failure to success: half within 2 min, 99 % within 2 min, the longest 2 min.",
        "40 retries, 4.0 a job; 30 of them (75 %) wasted.",
        "The peak second had 10 calls, the peak minute 20; spread evenly over 91 seconds it would be 0.44 a second.",
        "After the outage the peak second had 10 calls, the peak minute 10; the first minute had 10.",
        "No call came in 96 % of the seconds from the first to the last.",
    ):
        assert words in out


def test_of_less_than_a_minute_no_minute_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Calls at 10, 20 and 30 s: 30 in 21 seconds of the clock."""
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "10s"}, "limit": 3}', "--jobs", "10", "--success", "0"
    )  # fmt: skip
    assert "The peak second had 10 calls; spread evenly over 21 seconds it would be 1.4 a second.\n" in out


def test_an_outage_that_outlasts_the_retries_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "10s"}, "limit": 3}', "--jobs", "10", "--outage", "1m"
    )  # fmt: skip
    assert "No call came after the outage.\n" in out
    _, out, _ = simulate(capsys, '{"curve": {"constant": "10s"}, "limit": 3}', "--jobs", "10")
    assert "After the outage" not in out


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
    """Calls at 30, 60 and 90 min: of the 61 minutes from the first to the last 58 pass without a call."""
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "30m"}, "limit": 3}', "--jobs", "3", "--success", "0"
    )  # fmt: skip
    assert "No call came in 95 % of the minutes from the first to the last.\n" in out


def test_silence_of_seconds_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Celery calls at 0 ... 7 s sharp: 8 of 71 tenths of a second, and 1,500 calls in eight seconds."""
    _, out, _ = simulate(capsys, "celery", "--jobs", "500", "--success", "0")
    assert "spread evenly over 8 seconds it would be 188 a second.\n" in out
    assert "No call came in 89 % of the tenths of a second from the first to the last.\n" in out


def test_a_limit_of_0_says_nothing_of_calls(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(capsys, '{"curve": {"constant": "1m"}, "limit": 0}', "--jobs", "5")
    assert out.splitlines()[2] == "Of 5 jobs 0 succeeded and 5 died; the last ended after 0 ms."
    assert "No call" not in out
    assert "peak" not in out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "1,000 jobs"),
        (("--jobs", "1", "--outage", "3600ms"), "1 job, outage 3.6 s"),
        (
            ("--jobs", "20", "--over", "10m", "--outage", "2h", "--success", "0.9", "--latency", "250ms", "--seed", "7"),
            "20 jobs, failing over 10 min, outage 2 h, success 0.9, latency 250 ms, seed 7",
        ),
        (
            ("--jobs", "2", "--capacity", "50", "--timeout", "5s", "--workers", "3", "--base-rate", "0.5", "--phase", "hash",
             "--outage", "1m"),
            "2 jobs, outage 1 min, capacity 50 a second, time-out 5 s, 3 workers, 0.5 fresh calls a second, phase hash, "
            "until 12 min",
        ),
    ],
)  # fmt: skip
def test_the_scenario_is_echoed(
    given: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = simulate(capsys, "even", *given)
    assert out.splitlines()[:2] == [said, ""]


def test_the_load_ends_at_the_horizon(capsys: pytest.CaptureFixture[str]) -> None:
    """Always busy from 10 s to the horizon: 50 a second for 710 s and for 0.3 s, which is no whole bin of a second."""
    for horizon, said, done in (("12m", "12 min", "35,500"), ("720300ms", "12 min", "35,515")):
        _, out, _ = simulate(
            capsys, '{"curve": {"constant": "1s"}, "limit": null}', "--jobs", "500", "--outage", "10s", "--capacity", "50",
            "--timeout", "5s", "--base-rate", "5", "--horizon", horizon,
        )  # fmt: skip
        assert f"from 0 to {said}, in bins of 1 s\n" in out
        assert f"By {said} the downstream had done {done} calls" in out


def test_where_fresh_calls_would_never_end_it_says_where_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten minutes and twice the outage; asked for, it is said at the head alone."""
    _, out, _ = simulate(capsys, "even", "--jobs", "2", "--base-rate", "1", "--outage", "1m")
    assert (
        "Looked at until 12 min (10 min and twice the time in which things fail), as fresh calls never end; "
        "--horizon for another end.\n"
    ) in out
    _, out, _ = simulate(
        capsys, "even", "--jobs", "2", "--base-rate", "1", "--outage", "1m", "--horizon", "5m"
    )
    assert "Looked at" not in out


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
    for words in (
        "served ",
        "abandoned ",
        "backlog ",
        "abandoned: their callers had given up",
        "had no worker",
    ):
        assert words in out


def test_fresh_calls_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "1s"}}', "--jobs", "1", "--base-rate", "1", "--outage", "3500ms",
        "--horizon", "10s",
    )  # fmt: skip
    assert "Of 10 fresh calls 7 succeeded at once and 3 later; 0 died, 0 still retry." in out
    # The herd's job calls at 1, 2, 3 and 4 s; the fresh calls of 1, 2 and 3 s again at 2, 3, 4 - 3, 4 - and 4 s.
    assert "10 retries, 4 of them the herd's, 4.0 a job; 6 of all (60 %) wasted." in out


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


def test_calls_on_their_way_at_the_end_are_followed_to_their_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All ten call at 10 s and are answered from 13.01 s on, when the downstream is no longer looked at."""
    _, out, _ = simulate(
        capsys, '{"curve": {"constant": "10s"}, "limit": 3}', "--jobs", "10", "--latency", "3s", "--horizon", "12s",
        "--capacity", "100",
    )  # fmt: skip
    assert "Through after 13 s: 10 jobs, none of them dead.\n" in out
    assert "By 12 s the downstream had done 0 calls, " in out


@pytest.mark.parametrize(
    "trouble", [("--latency", "6s", "--timeout", "5s"), ("--horizon", "0s"), ("--outage", "1m")]
)
def test_whoever_has_trouble_is_not_told_to_state_some(
    capsys: pytest.CaptureFixture[str], trouble: tuple[str, ...]
) -> None:
    assert "Nothing stood in the way" not in simulate(capsys, "even", *trouble)[1]
    assert "Nothing stood in the way" in simulate(capsys, "even", "--latency", "6s", "--timeout", "7s")[1]


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
    progress = module.Progress(clock=lambda: next(now))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for share in (0.1, 0.3, 0.3, 0.75):
        progress(share)
    progress.close()
    assert capsys.readouterr().err == "\r 30 % simulated\r 75 % simulated\r" + " " * 16 + "\r"

"""``anew policy preview`` and ``anew policy convert``: what they print, and what they refuse."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from anew.cli.root import run

FULL = (
    '{"retry": {"no_delay_retries": 3, "min_delay_retries": 2, "backoff_retries": 10, "max_delay_retries": 5,'
    ' "min_delay": 5, "max_delay": 260, "function": "exponential", "jitter": 0}}'
)


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    """What a command prints, to stdout and to stderr."""
    assert run(["policy", *words]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_the_preview_as_a_table_of_phases(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = answer(capsys, "preview", FULL)
    assert [line.split() for line in out.splitlines()[1:5]] == [
        ["immediate", "1-3", "0", "ms", "0", "ms", "3", "x", "0"],
        ["pre-backoff", "4-5", "10", "s", "10", "s", "2", "x", "5"],
        # 555.508 s, and 565.508 s since the first attempt.
        ["backoff", "6-15", "9", "min", "15", "s", "9", "min", "25", "s",
         "5,", "5.499,", "6.497,", "8.493,", "12.485,", "20.47,", "36.438,", "68.376,", "132.25,", "260"],
        ["post-backoff", "16-20", "21", "min", "40", "s", "31", "min", "5", "s", "5", "x", "260"],
    ]  # fmt: skip
    assert out.splitlines()[5:] == [
        "21 attempts; the delays come to 1865.508 s.",
        "The last attempt starts 31 min 5 s after the first (no jitter).",
    ]
    assert err == ""


def test_the_preview_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(answer(capsys, "preview", "--json", FULL)[0])
    assert list(found) == ["delays", "total", "attempts"]
    assert found["delays"][:7] == [0, 0, 0, 5, 5, 5, 5.499]
    assert (len(found["delays"]), found["total"], found["attempts"]) == (20, 1865.508, 21)


def test_the_preview_says_what_jitter_does_to_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = answer(capsys, "preview", '{"retry": {"schedule": [100, 100], "jitter": 0.25}}')
    assert out.splitlines()[1:] == [
        "schedule  1-2      3 min 20 s  3 min 20 s  2 x 100",
        "3 attempts; the delays come to 200 s.",
        "The last attempt starts 2 min 30 s to 4 min 10 s after the first (jitter of 25 % either way).",
    ]


def test_the_preview_of_a_policy_of_the_engine_leaves_its_jitter_to_explain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = {"curve": {"exponential": {"base": "1s"}}, "jitter": "even", "limit": 3}
    out, _ = answer(capsys, "preview", json.dumps({"retry": {"policy": own}}))
    assert out.splitlines()[1:] == [
        "policy  1-3      7 s  7 s         1, 2, 4",
        "4 attempts; without its jitter the delays come to 7 s.",
        "anew policy explain shows what its jitter makes of them.",
    ]


@pytest.mark.parametrize(
    ("schedule", "expected"), [([], "1 attempt, no retry.\n"), ([0, 0], "3 attempts, all at once.\n")]
)
def test_the_preview_of_no_waits(
    schedule: list[int], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = answer(capsys, "preview", json.dumps({"retry": {"schedule": schedule}}))
    assert out.endswith(expected)


def test_a_policy_may_stand_in_a_file_or_on_stdin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "policy.json"
    file.write_text(FULL, "utf-8")
    shown = answer(capsys, "preview", FULL)
    assert answer(capsys, "preview", str(file)) == shown
    assert answer(capsys, "preview", f"@{file}") == shown
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FULL.encode())))
    assert answer(capsys, "preview", "-") == shown


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('{"retry": {"jitter": 0.6}}', "/retry/jitter: 0.6 is not valid; expected a number from 0 to 0.5"),
        ("no-such.json", "no-such.json: No such file or directory; expected a file with JSON"),
        ('{"retry": {}, "retry": {}}', '"retry" stands in one object twice'),
        ('{"retry"', "holds no JSON"),
        ('{"retry": {"jitter": NaN}}', "holds no JSON"),
        ("[" * 100_000, "holds no JSON"),
        ("[]", "the document: [] is not valid; expected an object"),
    ],
)
def test_what_is_no_policy_is_refused(given: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = answer(capsys, "preview", given, code=2)
    assert out == ""
    assert expected in err
    assert len(err) < 400


def test_sns_is_converted_and_warned_of_apart(capsys: pytest.CaptureFixture[str]) -> None:
    document = '{"http": {"disableSubscriptionOverrides": true, "guaranteed": false}}'
    out, err = answer(capsys, "convert", "--from", "sns", document)
    assert json.loads(out) == {
        "retry": {
            "no_delay_retries": 0, "min_delay_retries": 0, "backoff_retries": 3, "max_delay_retries": 0,
            "min_delay": 20, "max_delay": 20, "function": "linear", "profile": "sns", "max_total_time": 3_600,
        }
    }  # fmt: skip
    assert err.splitlines() == [
        "Warning: guaranteed is left out: SNS keeps it for old programs alone",
        "Note: the topic wants lock_delivery_policy, which is no part of a policy",
    ]


def test_a_conversion_in_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    document = '{"_retry_policy": {"ignore_subscription_override": true}, "post_data": "x"}'
    out, err = answer(capsys, "convert", "--from", "zaqar", "--json", document)
    assert json.loads(out) == {
        "policy": {"retry": {"schedule": [0, 0, 0, 5, 5, 5, 5, 10, 15, 20, 25, 30, 30, 30]}},
        "warnings": ["post_data is left out: it belongs to a subscription"],
        "lock_delivery_policy": True,
    }
    assert err == ""


def test_what_was_converted_can_be_previewed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = answer(capsys, "convert", "--from", "zaqar", "--mode", "as_documented", "{}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    found = json.loads(answer(capsys, "preview", "-", "--json")[0])
    # 5 to 30 s in 5 steps of 6.25 s.
    assert found["delays"] == [0, 0, 0, 5, 5, 5, 5, 11.25, 17.5, 23.75, 30, 30, 30, 30]


def test_a_subscriptions_options_are_converted(capsys: pytest.CaptureFixture[str]) -> None:
    document = '{"post_headers": {"x-a": "b"}}'
    out, _ = answer(capsys, "convert", "--from", "zaqar", "--of", "subscription", document)
    assert json.loads(out) == {"request": {"headers": {"x-a": "b"}}}


@pytest.mark.parametrize("option", [["--mode", "as_shipped"], ["--of", "queue"]])
def test_zaqars_options_are_refused_for_sns(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _, err = answer(capsys, "convert", "--from", "sns", *option, "{}", code=2)
    assert f"{option[0]} is for --from zaqar" in err


def test_what_cannot_be_converted_is_refused_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    document = '{"healthyRetryPolicy": {"numRetries": 1, "numNoDelayRetries": 2}}'
    out, err = answer(capsys, "convert", "--from", "sns", document, code=2)
    assert out == ""
    assert err.startswith("Error: /healthyRetryPolicy/numRetries: 1 is not valid; expected at least 2")


@pytest.mark.parametrize("place", ["argument", "file", "stdin"])
def test_a_delivery_policys_retries_are_explained(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FULL.encode())))
    file = tmp_path / "policy.json"
    file.write_text(FULL, "utf-8")
    given = {"argument": FULL, "file": f"@{file}", "stdin": "-"}[place]
    found = json.loads(answer(capsys, "explain", given, "--json")[0])
    assert [row["nominal_ms"] for row in found["retries"]][5:9] == [5_000, 5_499, 6_497, 8_493]
    assert (found["total_runs"], found["window"]["latest_ms"]) == (21, 1_865_508)


def test_a_delivery_policy_is_told_from_a_file_of_named_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policies.json"
    file.write_text('{"retry": {"preset": "sns"}, "mail": {"preset": "even"}}', "utf-8")
    found = json.loads(answer(capsys, "explain", f"@{file}:mail", "--json")[0])
    assert found["limit"] == 25
    file.write_text('{"retry": {"preset": "even"}}', "utf-8")
    assert json.loads(answer(capsys, "explain", f"@{file}:retry", "--json")[0])["limit"] == 25
    _, err = answer(capsys, "explain", f"@{file}", code=2)
    assert "/retry/preset" in err


def test_a_job_takes_no_delivery_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["enqueue", "mail", "-q", "mail", "--policy", FULL]) == 2
    assert "retry" in capsys.readouterr().err

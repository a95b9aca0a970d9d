"""``anew policy lint``: what is printed, what the exit code is."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from anew.cli.root import run
from anew.lab.lint import RULES, Context

WEB = '[policies.web]\ncurve = {exponential = {base = "1s"}}\nlimit = 12\n'
GOOD = '[policies.good]\ncurve = {constant = "5m"}\njitter = "even"\nlimit = 20\n'


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"web.toml": WEB, "good.toml": GOOD}.items():
        Path(name).write_text(text, "utf-8")


def lint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    code = run(["policy", "lint", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code, out, _ = lint(capsys, *arguments, "--json")
    return code, json.loads(out)


def test_nothing_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(capsys, "good.toml") == (0, "1 policy: nothing found\n", "")


def test_a_file_may_be_named_as_other_commands_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(capsys, "@good.toml") == (0, "1 policy: nothing found\n", "")


def test_findings_are_one_line_each_and_give_five(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = lint(capsys, "web.toml", "good.toml")
    assert (code, err) == (5, "")
    assert out == (
        "web.toml:1: web: warning: no-jitter: 1,000 jobs that fail together come back in the same instant at each "
        "retry; add a jitter (even)\n2 policies: 1 warning\n"
    )


def test_where_a_build_fails_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(capsys, "web.toml", "--fail-on", "error")[0] == 0
    assert lint(capsys, "web.toml", "--fail-on", "error", "--outage", "1d")[0] == 5
    assert lint(capsys, "web.toml", "--jobs", "5")[0] == 0
    # What is worth knowing fails nothing.
    assert lint(capsys, "--policy", '{"curve": {"constant": "1s"}, "jitter": "even", "limit": 3}')[0] == 0


def test_rules_can_be_left_out_and_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(capsys, "web.toml", "--ignore", "no-jitter,discard")[0] == 0
    assert lint(capsys, "web.toml", "--ignore", "web:no-jitter")[0] == 0
    assert lint(capsys, "web.toml", "--ignore", "other:no-jitter")[0] == 2
    assert lint(capsys, "web.toml", "--select", "overflow", "--select", "discard")[0] == 0
    code, _, err = lint(capsys, "web.toml", "--ignore", "no-jiter")
    assert code == 2
    assert "--ignore:" in err


def test_the_files_own_table_holds_unless_the_command_says_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("own.toml").write_text('[lint]\njobs = 5\noutage = "1d"\n' + WEB, "utf-8")
    _, report = as_json(capsys, "own.toml")
    assert [finding["rule"] for finding in report["findings"]] == ["outage-outlives-window"]
    _, report = as_json(capsys, "own.toml", "--jobs", "50", "--outage", "1m")
    assert [finding["rule"] for finding in report["findings"]] == ["no-jitter"]


def test_the_servers_retention_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    def rules(*arguments: str) -> list[str]:
        return [finding["rule"] for finding in as_json(capsys, *arguments)[1]["findings"]]

    assert rules("--policy", "even") == ["dead-gone-early"]
    assert rules("--policy", "even", "--dead-retention", "30d") == []
    Path("anew.toml").write_text(
        '[server]\ndefault-policy = "even"\ndefault-dead-job-retention = "30d"', "utf-8"
    )
    assert rules("anew.toml") == []
    assert rules("anew.toml", "--payload-retention", "1d") == ["payload-gone"]


def test_policies_of_the_faktory_protocol_are_linted(capsys: pytest.CaptureFixture[str]) -> None:
    rule = '[[fwp.policies]]\nqueue = "a"\npolicy = '
    Path("anew.toml").write_text(rule + '{curve = {constant = "1s"}}\n' + rule + '"even"\n', "utf-8")
    code, report = as_json(capsys, "anew.toml")
    assert code == 5
    assert [policy["name"] for policy in report["policies"]] == ["fwp.policies[1]", "fwp.policies[2]"]
    assert {finding["policy"] for finding in report["findings"]} == {"fwp.policies[1]"}
    assert run(["policy", "explain", "@anew.toml:fwp.policies[2]"]) == 0


def test_json_tells_all(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = as_json(capsys, "web.toml", "--policy", "zizq")
    assert code == 5
    assert report["policies"] == [
        {"name": "web", "file": "web.toml", "line": 1},
        {"name": "zizq", "file": "--policy", "line": None},
    ]
    first = report["findings"][0]
    assert {**first, "message": ""} == {
        "file": "web.toml", "line": 1, "policy": "web", "rule": "no-jitter", "severity": "warning", "message": "",
    }  # fmt: skip
    assert report["problems"] == []


def test_github_gets_annotations(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.json").write_text("{", "utf-8")
    code, out, _ = lint(capsys, "web.toml", "bad.json", "--policy", "zizq", "--format", "github")
    assert code == 2
    error, warning, *notices, last = out.splitlines()
    assert error.startswith("::error file=bad.json,line=1,title=cannot be read::no JSON: ")
    assert warning.startswith(
        "::warning file=web.toml,line=1,title=web%3A no-jitter::1,000 jobs that fail together"
    )
    assert all(notice.startswith("::notice title=zizq%3A ") for notice in notices)
    assert last == "2 policies: 1 warning, 2 info"


def test_what_github_reads_as_a_sign_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    # Uniform below 2 s against uniform below 1 s: a quarter.
    policy = '{"curve": {"exponential": {"base": "1s"}}, "jitter": "full", "limit": 2}'
    _, out, _ = lint(capsys, "--policy", policy, "--select", "waits-shrink", "--format", "github")
    assert out.startswith("::notice title=policy%3A waits-shrink::in up to 25 %25 of cases (at retry 2)")


def test_what_cannot_be_read_gives_two_and_hides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.toml").write_text("[policies.x]\npreset = 'even'\nlimt = 3\n", "utf-8")
    code, out, err = lint(capsys, "nope.toml", "bad.toml", "web.toml", "--policy", '{"jiter": "full"}')
    assert code == 2
    assert "web.toml:1: web: warning: no-jitter" in out
    missing, bad, spec = err.splitlines()
    assert missing == "Error: nope.toml: No such file or directory; expected a TOML or JSON file"
    assert bad.startswith("Error: bad.toml:3: x: limt: is no known field; expected one of: ")
    assert spec.startswith("Error: policy: jiter: is no known field; expected one of: ")


@pytest.mark.parametrize("policy", ["sidekiq8", "full_jitter", '{"curve": {"constant": "1s"}}'])
def test_a_policy_in_the_place_of_a_file_is_sent_to_its_option(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = lint(capsys, policy)
    assert code == 2
    assert err.rstrip().endswith("; --policy takes a policy itself")


def test_stdin_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"mail": "constant"}')))
    _, out, _ = lint(capsys, "-")
    assert "stdin:1: mail: warning: no-jitter" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "FILE: is missing; expected a file, - for stdin, module:app, or --policy"),
        (("web.toml", "--outage", "soon"), "--outage: "),
        (("web.toml", "--payload-retention", "-1d"), "--payload-retention: "),
        (("web.toml", "--jobs", "0"), "jobs: 0 is not valid; expected a whole number from 1"),
    ],
)
def test_bad_input_says_what_was_expected(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = lint(capsys, *arguments)
    assert code == 2
    assert words in err


def test_the_rules_are_listed_with_reasons_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = lint(capsys, "--rules")
    assert code == 0
    for rule in RULES.values():
        assert f"{rule.name} ({rule.severity})\n  {rule.reason}\n  e.g. " in out
    _, listed = as_json(capsys, "--rules")
    assert [rule["name"] for rule in listed["rules"]] == [*RULES]


@pytest.mark.parametrize("name", RULES)
def test_the_example_of_a_rule_can_be_typed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    rule = RULES[name]
    _, report = as_json(capsys, "--policy", json.dumps(rule.example), *rule.context.words())
    assert name in {finding["rule"] for finding in report["findings"]}


def test_a_word_that_can_be_no_preset_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = lint(capsys, "--policy", "x" * 100_000)
    assert code == 2
    assert "is not valid; expected the name of a preset" in err
    assert len(err) < 300


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_names_that_are_no_text_break_nothing(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name may be bytes that are no UTF-8; what JSON calls half a character is refused where it is read."""
    Path("half.json").write_text(r'{"\ud800": "even"}', "utf-8")
    code, out, err = lint(capsys, "no\udcff.toml", "half.json", "web.toml", "--format", form)
    assert code == 2
    (out + err).encode()
    assert "half of a pair" in out + err
    assert "no-jitter" in out


def test_a_file_that_is_too_long_is_told_once_what_was_expected(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = lint(capsys, "/dev/zero")
    assert err == "Error: /dev/zero: is too long; expected at most 1,048,576 bytes\n"


def test_the_help_says_what_holds_where_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "lint", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    usual = Context()
    assert f"How many jobs may fail together. [{usual.jobs}]" in said
    assert f"such as 0.5% or 0.005. [{100 * usual.deaths:g}%]" in said

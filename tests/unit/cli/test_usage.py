"""What click refuses is told as all else is: the field, the value, what was expected; and where the help is."""

from __future__ import annotations

import shlex

import click
import pytest

from anew.cli import usage
from anew.cli.root import run


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "nosuch",
            'anew: "nosuch" is no command; expected one of: serve, enqueue, work, jobs, queues, health, dead, policy, lab, doctor, '
            "backup, restore, config, completion",
        ),
        ("polcy", 'anew: "polcy" is no command; did you mean "policy"?'),
        ("lab nosuch", 'anew lab: "nosuch" is no command; expected one of: chart, compare, fit, replay, report, open, simulate'),
        ("policy lnt", 'anew policy: "lnt" is no command; did you mean "lint"?'),
        ("jobs shwo", 'anew jobs: "shwo" is no command; did you mean "show"?'),
        ("jobs nosuch", 'anew jobs: "nosuch" is no command; expected one of: cancel, delete, list, patch, retry, show'),
        ("dead lst", 'anew dead: "lst" is no command; did you mean "list"?'),
        ("config sho", 'anew config: "sho" is no command; did you mean "show"?'),
        ("--nosuch", 'anew: "--nosuch" is no option; expected one of: --version, --help'),
        ("-x", 'anew: "-x" is no option; expected one of: --version, --help'),
        ("serve --por 3", 'anew serve: "--por" is no option; did you mean "--port"?'),
        ("serve --nosuch", 'anew serve: "--nosuch" is no option; expected one that --help shows'),
        ("lab simulate even --retry 3", 'anew lab simulate: "--retry" is no option; did you mean "--retries"?'),
        ("lab simulate even -retries 3", 'anew lab simulate: "-retries" is no option; did you mean "--retries"?'),
        ("policy lint --jo 3", 'anew policy lint: "--jo" is no option; did you mean "--jobs"?'),
        ("policy lint --jobs x", '--jobs: "x" is not valid; expected a whole number'),
        ("policy lint --format xml", '--format: "xml" is not valid; expected one of: text, json, github'),
        ("policy lint --format jsn", '--format: "jsn" is not valid; expected one of: text, json, github; did you mean "json"?'),
        ("enqueue t -q q --priority x", '--priority: "x" is not valid; expected a whole number from 0 to 65535'),
        ("enqueue t -q q --priority -1", "--priority: -1 is not valid; expected a whole number from 0 to 65535"),
        ("jobs list --limit 0", "--limit: 0 is not valid; expected a whole number, at least 1"),
        ("lab chart zizq --exponent x", '--exponent: "x" is not valid; expected a number'),
        ("lab chart even --out /", '--out: "/" is a directory; expected a file'),
        ("lab simulate even --jobs", "--jobs: its value is missing; expected --jobs N"),
        ("work -c", "--concurrency: its value is missing; expected --concurrency N|QUEUE=N,..."),
        ("lab simulate even --json=3", "--json: takes no value; expected --json alone"),
        ("enqueue t", "--queue: is missing; expected --queue QUEUE"),
        ("enqueue", "TYPE: is missing; expected anew enqueue [OPTIONS] TYPE [PAYLOAD|-|@FILE]"),
        ("policy explain", "POLICY: is missing; expected anew policy explain [OPTIONS] POLICY"),
        ("work -q q", "CMD: is missing; expected anew work [OPTIONS] -- CMD..."),
        ("jobs list extra", 'anew jobs list: "extra" is more than it takes; expected anew jobs list [OPTIONS]'),
        ("lab fit --first 1s --window 1h --outlive 1h", "--window and --outlive: both are given; expected one of the two"),
    ],
)  # fmt: skip
def test_every_kind_of_refusal(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)
    assert run(words) == 2
    shown = capsys.readouterr()
    path = " ".join(["anew", *_commands(words)])
    assert (shown.out, shown.err) == ("", f"Error: {said}\n  For help: {path} --help\n")


def _commands(words: list[str]) -> list[str]:
    groups = ("jobs", "dead", "policy", "lab", "config")
    known = ("serve", "enqueue", "work", "list", "explain", "lint", "simulate", "chart", "fit")
    first = [word for word in words[:1] if word in (*groups, *known)]
    return first + [word for word in words[1:2] if first[:1] and first[0] in groups and word in known]


@pytest.mark.parametrize(
    ("given", "told"), [("it's", '"it\'s"'), ("0 is not one of", '"0 is not one of"'), ("a\nb", '"a\\nb"')]
)
def test_a_value_is_told_as_it_was_given(given: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["enqueue", "t", "-q", "q", "--priority", given]) == 2
    assert capsys.readouterr().err.startswith(
        f"Error: --priority: {told} is not valid; expected a whole number from 0"
    )


def test_what_nobody_foresaw_is_told_in_clicks_own_words() -> None:
    context = click.Context(click.Command("odd"), info_name="odd")
    odd = click.BadParameter("has a colour.", context, click.Option(["--flower"]))
    assert usage.explained(odd, context.command, []) == "--flower: has a colour\n  For help: odd --help"
    plain = click.UsageError("what a day", context)
    assert usage.explained(plain, context.command, []) == "what a day\n  For help: odd --help"


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy"]) == 2
    assert capsys.readouterr().err.startswith("Usage: anew policy [OPTIONS] COMMAND")

"""What click refuses is said in its own words, with what was expected and where the help is below."""

from __future__ import annotations

import shlex

import pytest

from anew.cli.root import run

ROOT = "Usage: anew [OPTIONS] [COMMAND] [ARGS]..."
PRIORITY = "--priority N  Low first; 32768 if never set.  [0<=x<=65535]"


@pytest.mark.parametrize(
    ("line", "said", "expected"),
    [
        (
            "nosuch",
            'anew: "nosuch" is no command; expected one of: serve, enqueue, worker, work, jobs, queues, health, top, dead, '
            "cron, topic, sub, publish, delivery, replay, deliver, listen, fwp, policy, lab, import, doctor, backup, compact, "
            "restore, tls, token, config, completion",
            ROOT,
        ),
        ("polcy", 'anew: "polcy" is no command; did you mean "policy"?', ROOT),
        ("enq", 'anew: "enq" is no command; did you mean "enqueue"?', ROOT),
        ("policy lnt", 'anew policy: "lnt" is no command; did you mean "lint"?', "Usage: anew policy [OPTIONS] COMMAND [ARGS]..."),
        ("jobs shwo", 'anew jobs: "shwo" is no command; did you mean "show"?', "Usage: anew jobs [OPTIONS] COMMAND [ARGS]..."),
        ("--nosuch", "No such option '--nosuch'.", ROOT),
        ("serve --por 3", "No such option '--por'. (Did you mean one of: '--fwp-port', '--port', '--store'?)",
     "Usage: anew serve [OPTIONS]"),
        (
            "policy lint --jobs x",
            "Invalid value for '--jobs': 'x' is not a valid integer.",
            "--jobs N  How many jobs may fail together. [1000]",
        ),
        (
            "policy lint --format jsn",
            "Invalid value for '--format': 'jsn' is not one of 'text', 'json', 'github'.",
            "--format [text|json|github]  [text]",
        ),
        ("enqueue t -q q --priority x", "Invalid value for '--priority': 'x' is not a valid integer range.", PRIORITY),
        ("enqueue t -q q --priority -1", "Invalid value for '--priority': -1 is not in the range 0<=x<=65535.", PRIORITY),
        ("lab chart even --out /", "Invalid value for '--out': File '/' is a directory.", "--out FILE  Write .svg or .png."),
        ("lab simulate even --jobs", "Option '--jobs' requires an argument.", "--jobs N  Jobs that fail. [1000]"),
        ("lab simulate even --json=3", "Option '--json' does not take a value.", "--json  Answer in JSON."),
        ("enqueue t", "Missing option '--queue' / '-q'.", "-q, --queue QUEUE  Queue of the job.  [required]"),
        ("enqueue", "Missing argument 'TYPE'.", "Usage: anew enqueue [OPTIONS] TYPE [PAYLOAD|-|@FILE]"),
        ("work -q q", "Missing argument '-- CMD...'.", "Usage: anew work [OPTIONS] -- CMD..."),
        ("jobs list extra", "Got unexpected extra argument (extra)", "Usage: anew jobs list [OPTIONS]"),
        (
            "lab fit --first 1s --window 1h --outlive 1h",
            "--window and --outlive: both are given; expected one of the two",
            "Usage: anew lab fit [OPTIONS]",
        ),
    ],
)  # fmt: skip
def test_every_kind_of_refusal(
    line: str, said: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(line)
    assert run(words) == 2
    shown = capsys.readouterr()
    path = " ".join(["anew", *_commands(words)])
    assert (shown.out, shown.err) == ("", f"Error: {said}\n  {expected}\n  For help: {path} --help\n")


def _commands(words: list[str]) -> list[str]:
    groups = ("jobs", "dead", "policy", "lab", "config")
    known = ("serve", "enqueue", "work", "list", "explain", "lint", "simulate", "chart", "fit")
    first = [word for word in words[:1] if word in (*groups, *known)]
    return first + [word for word in words[1:2] if first[:1] and first[0] in groups and word in known]


def test_a_value_with_line_breaks_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["enqueue", "t", "-q", "q", "--priority", "a\nb"]) == 2
    assert capsys.readouterr().err.startswith("Error: Invalid value for '--priority': 'a\\nb' is not")


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy"]) == 2
    assert capsys.readouterr().err.startswith("Usage: anew policy [OPTIONS] COMMAND")
